"""pyomo-csg demo: a newsvendor who knows tomorrow's weather forecast."""

from __future__ import annotations

import shlex
import shutil
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pandas as pd

from pyomo_csg.cli.parser import PROGRAM
from pyomo_csg.cli.user_files import write_table
from pyomo_csg.errors import DataError

_QUICK = ("--set", "folds=3", "--set", "starts=2")


def demo(args: Namespace, run: Callable[[Sequence[str]], int]) -> int:
    """Write a model and its data to a folder, and run every command on them."""
    folder = Path(args.folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = "it exists and is not empty; give another with --folder, or delete it"
        raise DataError(f"Cannot write the demo to '{folder}'", [found])
    folder.mkdir(parents=True, exist_ok=True)
    with as_file(files(__package__) / "assets" / "model.py") as model:
        shutil.copyfile(model, folder / "model.py")
    write_table(folder / "history.csv", history := _days(200, seed=1))
    write_table(folder / "heldout.csv", held_out := _days(500, seed=2))
    write_table(folder / "tomorrow.csv", held_out.drop(columns="demand").head(3))
    for text, command in _steps(folder, len(history), len(held_out)):
        print(f"\n{text}\n\n$ {PROGRAM} {shlex.join(command)}\n", flush=True)
        run(command)
    print(f"\nThe model, its data and all results are in '{folder}'.")
    return 0


def _steps(folder: Path, pairs: int, days: int) -> list[tuple[str, list[str]]]:
    """Return each step's text and command."""
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
            f"{pairs} days of weather and demand: learn 5 scenarios for a forecast",
            ["fit", model, history, "--scenarios", "5", *_QUICK, "--out", policy],
        ),
        ("How many papers for three forecasts?", ["decide", policy, tomorrow]),
        (
            f"What would the decisions of {days} other days have cost?",
            ["evaluate", policy, held_out],
        ),
        ("And a page to look at:", ["report", policy, held_out, "--out", page]),
    ]


def _days(n: int, seed: int) -> pd.DataFrame:
    """Draw days: demand grows with temperature, and varies more with rain."""
    rng = np.random.default_rng(seed)
    warmth, rain = rng.uniform(8, 28, n), rng.uniform(0, 8, n)
    demand = 60 * np.exp(
        0.04 * (warmth - 18) + (0.15 + 0.06 * rain) * rng.normal(size=n)
    )
    found = {"temperature": warmth, "rain": rain, "demand": demand}
    return pd.DataFrame(found).round(2)
