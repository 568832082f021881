"""Every example that rolls forward in time runs, quickly, and says what it found."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from models import newsvendor

EXAMPLES = Path(__file__).parents[2] / "examples"
WAYS = ["pyomo_csg", "forecast", "SAA", "forest-weighted SAA"]


def run(name, folder, *arguments):
    """Run an example and return what it printed."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    command += ["--quick", "--folder", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def rolling(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("rolling")


def test_an_example_prints_a_table_and_draws_a_picture(tmp_path):
    printed = run("portfolio", tmp_path)
    assert all(f"\n{way} " in printed for way in WAYS)
    assert (tmp_path / "portfolio.png").stat().st_size > 10_000


def test_capacity_takes_a_file_and_writes_decisions(tmp_path):
    printed = run("capacity", tmp_path)
    assert all(f"\n{way} " in printed for way in WAYS)
    decisions = pd.read_csv(tmp_path / "capacity_decisions.csv")
    today = pd.read_csv(tmp_path / "capacity_today.csv")
    assert len(decisions) == len(today)
    assert {"added[1]", "operated[4]"} <= set(decisions)
    assert np.isfinite(decisions.to_numpy()).all()


@pytest.mark.parametrize(
    ("history", "today", "expected"),
    [
        ("mood,demand[1]", "mood", "no column demand[2], demand[3] among mood,"),
        ("mood,demand[1],demand[2],demand[3]", "price", "no column mood among price"),
    ],
)
def test_capacity_says_which_columns_a_file_lacks(tmp_path, history, today, expected):
    rows = 20
    files = {"history.csv": history, "today.csv": today}
    for name, header in files.items():
        cells = ",".join("2" * (header.count(",") + 1))
        (tmp_path / name).write_text("\n".join([header, *[cells] * rows]))
    with pytest.raises(subprocess.CalledProcessError) as raised:
        run("capacity", tmp_path, *(str(tmp_path / name) for name in files))
    (line,) = raised.value.stderr.splitlines()[-1:]
    assert expected in line and "Traceback" not in raised.value.stderr


def test_nothing_is_learned_from_what_is_yet_to_come(rolling):
    model, (contexts, demands) = newsvendor.build(), newsvendor.sample(40, seed=1)
    changed = demands.copy()
    changed[25:] = 1.0
    options = {"scenarios": 1, "method": "mmd", "config": {"mmd_epochs": 1}}

    _, before = rolling.roll(model, contexts, demands, 20, 10, lag=5, **options)
    costs, after = rolling.roll(model, contexts, changed, 20, 10, lag=5, **options)

    orders = after["SAA"]["order"].to_numpy()
    paid = orders - 1.05 * np.minimum(orders, changed[20:, 0])
    paid -= 0.1 * np.maximum(orders - changed[20:, 0], 0)
    assert costs["SAA"].to_numpy() == pytest.approx(paid)
    assert list(before) == list(costs) == WAYS
    for way in WAYS:
        assert len(after[way]) == 20
        assert after[way].to_numpy() == pytest.approx(before[way].to_numpy())
