"""The numbers that the paper reports; NaN where it has none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parent / "published"
METHODS = ("EV", "mmd", "static", "dynamic")
CONTEXTS = {"cvar": 312, "mnv": 100}  # n_eval, which its seconds to solve are for
SOLUTIONS = ("decisions", "full")


def rows(problem: str, count: int) -> pd.DataFrame:
    """Return what the paper says of its methods with K scenarios."""
    path = FOLDER / f"{problem}.csv"
    if not path.exists():
        return pd.DataFrame(columns=["method", "penalty", "median_gap", "wins"])
    table = pd.read_csv(path, dtype={"penalty": str}, keep_default_na=False)
    return table[table.scenarios == count]


def percent(
    problem: str, method: str, penalty: str, count: int | None, column: str
) -> float:
    """Return a share or a gap in per cent; EV's gap is that of any K."""
    table = rows(problem, count or 1)
    mine = (table.method == method) & (table.penalty == penalty)
    return 100 * float(table.loc[mine, column].iloc[0]) if mine.any() else np.nan


def seconds(problem: str, count: int) -> dict[str, float]:
    """Return how long the stages took; to decide and to solve in full, a context."""
    path = FOLDER / f"{problem}_times.csv"
    table = (
        pd.read_csv(path, index_col="scenarios") if path.exists() else pd.DataFrame()
    )
    if count not in table.index:
        return {}
    found = table.loc[count].to_dict()
    return found | {key: found[key] / CONTEXTS[problem] for key in SOLUTIONS}


def speed_up(problem: str, count: int | None) -> float:
    """Return how many times as long the full program took as a surrogate."""
    found = {} if count is None else seconds(problem, count)
    return found["full"] / found["decisions"] if found else np.nan
