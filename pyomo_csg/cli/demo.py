"""A story to begin with: a newsvendor who knows tomorrow's weather."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.cli.parser import PROGRAM
from pyomo_csg.cli.table_files import write_table
from pyomo_csg.errors import DataError

_QUICK = ("--set", "folds=3", "--set", "starts=2")


def demo(given: Any, run: Callable[[Sequence[str]], int]) -> int:
    """Write a model and its data to a folder, and run every command on them."""
    folder = Path(given.folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = "it is there already; give another by --folder, or delete it"
        raise DataError(f"No place for the demo in '{folder}'", [found])
    folder.mkdir(parents=True, exist_ok=True)
    with as_file(files(__package__) / "assets" / "model.py") as model:
        shutil.copyfile(model, folder / "model.py")
    write_table(folder / "history.csv", days := _days(200, seed=1))
    write_table(folder / "heldout.csv", judged := _days(500, seed=2))
    write_table(folder / "tomorrow.csv", judged.drop(columns="demand").head(3))
    for words, command in _story(folder, len(days), len(judged)):
        print(f"\n{words}\n\n$ {PROGRAM} {shlex.join(command)}\n", flush=True)
        run(command)
    print(f"\nThe model, its data and all that came of it are in '{folder}'.")
    return 0


def _story(folder: Path, learned: int, judged: int) -> list[tuple[str, list[str]]]:
    """Return what is told, and the commands that go with it."""
    model, history, held_out, tomorrow = (
        str(folder / name)
        for name in ("model.py", "history.csv", "heldout.csv", "tomorrow.csv")
    )
    policy, page = str(folder / "policy.csg"), str(folder / "report.html")
    return [
        (
            "A newsvendor orders papers today and sells them tomorrow:",
            ["check", model],
        ),
        (
            f"{learned} days of weather and demand: learn 5 scenarios for a forecast",
            ["fit", model, history, "--scenarios", "5", *_QUICK, "--out", policy],
        ),
        ("How many papers for three forecasts?", ["decide", policy, tomorrow]),
        (
            f"What would {judged} other days have cost?",
            ["evaluate", policy, held_out],
        ),
        ("And a page to look at:", ["report", policy, held_out, "--out", page]),
    ]


def _days(n: int, seed: int) -> pd.DataFrame:
    """Draw days: warm ones sell more, and rain makes them unsure."""
    rng = np.random.default_rng(seed)
    warmth, rain = rng.uniform(8, 28, n), rng.uniform(0, 8, n)
    demand = 60 * np.exp(
        0.04 * (warmth - 18) + (0.15 + 0.06 * rain) * rng.normal(size=n)
    )
    found = {"temperature": warmth, "rain": rain, "demand": demand}
    return pd.DataFrame(found).round(2)
