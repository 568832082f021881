"""How long decisions take, beside the full program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.errors import DataError
from pyomo_csg.validation import (
    is_one_of,
    seed_problems,
    share_problems,
    whole_problems,
)

Statistic = str | float


def name_of(statistic: Statistic) -> str:
    """Return what tables call a statistic; refuse what is none."""
    if is_one_of(statistic, ("median", "mean")):
        return str(statistic)
    if isinstance(statistic, Real) and 0 <= float(statistic) <= 1:
        return f"{100 * float(statistic):g} %"
    found = f"{statistic!r} was given; give 'median', 'mean', or a quantile from 0 to 1"
    raise DataError("Unknown statistic", [found])


def computed(statistic: Statistic, values: np.ndarray) -> np.ndarray:
    """Return a statistic of each column of values (n, m), without what is NaN."""
    function = _function(statistic)
    lacking = np.isnan(values)
    if not lacking.any() and len(values):
        return function(values, axis=0)
    columns = (
        values[~gone, j] for j, gone in enumerate(lacking.T)
    )  # nanquantile is slow
    return np.array([function(some) if len(some) else np.nan for some in columns])


def _function(statistic: Statistic) -> Callable[..., Any]:
    name_of(statistic)
    if isinstance(statistic, str):
        return np.median if statistic == "median" else np.mean
    return partial(np.quantile, q=float(statistic))


def compared(
    statistic: Statistic, values: np.ndarray, to: int | None = None
) -> np.ndarray:
    """Return a statistic of each column over that of one, on the rows that both have."""
    if to is None:
        return computed(statistic, values)
    others = np.broadcast_to(values[:, [to]], values.shape)
    lacking = np.isnan(values) | np.isnan(others)
    mine, theirs = (
        computed(statistic, np.where(lacking, np.nan, part))
        for part in (values, others)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return mine / theirs


def alike(judged: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows that some columns (n, m) have, and the columns that have just these.

    Columns that have none are left out.
    """
    patterns, kind = np.unique(judged, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        if pattern.any():
            yield np.flatnonzero(pattern), np.flatnonzero(kind.ravel() == number)


def drawn_whole(rows: np.ndarray, trial: np.ndarray) -> tuple[str, list[np.ndarray]]:
    """Return what is drawn, and its rows: trials, or the cases of a single one.

    Parameters
    ----------
    rows : array
    trial : array (n,)
        Of all rows.
    """
    mine = trial[rows]
    units = [rows[mine == one] for one in np.unique(mine)]
    return ("trials", units) if len(units) > 1 else ("cases", list(rows[:, None]))


def bootstrapped(
    statistic: Statistic,
    values: np.ndarray,
    to: int | None,
    units: Sequence[np.ndarray],
    level: float,
    seed: int,
    draws: int,
) -> np.ndarray:
    """Return the low and high ends (2, m) of percentile intervals.

    Parameters
    ----------
    statistic, values, to
        As in :func:`compared`.
    units : list of arrays
        The rows of each unit that is drawn whole, with replacement: a trial, or a case.
    """
    problems = [
        *share_problems(level=level),
        *seed_problems(seed),
        *whole_problems(draws=draws),
    ]
    if problems:
        raise DataError("Cannot give an interval", problems)
    rng, count = np.random.default_rng(seed), len(units)
    found = []
    for _ in range(draws):
        drawn = rng.integers(count, size=count)
        rows = np.concatenate([units[unit] for unit in drawn])
        found.append(compared(statistic, values[rows], to))
    ends = (1 - level) / 2, (1 + level) / 2
    return np.array([computed(end, np.array(found)) for end in ends])


_PARTS = {
    "seconds": "decision",
    "scenarios": "scenarios",
    "solve_seconds": "solve",
    "solver_seconds": "solver",
    "full": "full program",
}


def timed(
    records: pd.DataFrame, full_seconds: pd.Series, statistic: Statistic
) -> pd.DataFrame:
    """Return statistics of the seconds of each policy, and its speed-up.

    Parameters
    ----------
    records : DataFrame
        By trial, case and policy.
    full_seconds : Series
        Of the full program, by trial and case.
    """
    table = records.join(full_seconds.rename("full"), on=["trial", "case"])
    table["scenarios"] = table["seconds"] - table["solve_seconds"]
    decided = table.loc[table["seconds"].notna(), list(_PARTS)]
    rows = {
        policy: computed(statistic, part.to_numpy())
        for policy, part in decided.groupby("policy", sort=False)
    }
    found = pd.DataFrame.from_dict(rows, orient="index", columns=list(_PARTS.values()))
    found["speed-up"] = found["full program"] / found["decision"]
    return found.reindex(records.index.unique("policy"))
