"""Statistics of gaps and times over cases, and their bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.errors import DataError
from pyomo_csg.validation import Problems, is_one_of

Statistic = str | float

_TIMING_COLUMNS = {
    "seconds": "decision",
    "scenarios": "scenarios",
    "solve_seconds": "solve",
    "solver_seconds": "solver",
    "full": "full program",
}


def statistic_name(statistic: Statistic) -> str:
    """Return the name of a statistic for tables, or raise a DataError."""
    if is_one_of(statistic, ("median", "mean")):
        return str(statistic)
    if isinstance(statistic, Real) and 0 <= float(statistic) <= 1:
        return f"{100 * float(statistic):g} %"
    found = f"{statistic!r} was given; give 'median', 'mean', or a quantile from 0 to 1"
    raise DataError("Unknown statistic", [found])


def column_statistics(statistic: Statistic, values: np.ndarray) -> np.ndarray:
    """Return a statistic of each column of values (n, m), ignoring NaN."""
    function = _function(statistic)
    missing = np.isnan(values)
    if not missing.any() and len(values):
        return function(values, axis=0)
    # Column by column, because nanquantile is slow.
    columns = (values[~gone, j] for j, gone in enumerate(missing.T))
    return np.array([function(some) if len(some) else np.nan for some in columns])


def _function(statistic: Statistic) -> Callable[..., Any]:
    statistic_name(statistic)
    if isinstance(statistic, str):
        return np.median if statistic == "median" else np.mean
    return partial(np.quantile, q=float(statistic))


def statistic_ratios(
    statistic: Statistic, values: np.ndarray, to: int | None = None
) -> np.ndarray:
    """Return the ratio of each column's statistic to column ``to``'s, on common rows.

    Without ``to``, return the statistics.
    """
    if to is None:
        return column_statistics(statistic, values)
    others = np.broadcast_to(values[:, [to]], values.shape)
    missing = np.isnan(values) | np.isnan(others)
    mine, theirs = (
        column_statistics(statistic, np.where(missing, np.nan, part))
        for part in (values, others)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return mine / theirs


def group_by_rows(present: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield sets of rows, each with the columns of ``present`` (n, m) that have just these.

    Columns without rows are left out.
    """
    patterns, kind = np.unique(present, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        if pattern.any():
            yield np.flatnonzero(pattern), np.flatnonzero(kind.ravel() == number)


def resampling_units(
    rows: np.ndarray, trial: np.ndarray
) -> tuple[str, list[np.ndarray]]:
    """Return what the bootstrap draws, and the rows of each: trials, or cases of one trial.

    ``trial`` (n,) has the trial of every row.
    """
    mine = trial[rows]
    units = [rows[mine == one] for one in np.unique(mine)]
    return ("trials", units) if len(units) > 1 else ("cases", list(rows[:, None]))


def check_interval_options(level: Any, seed: Any, draws: Any) -> None:
    """Raise a DataError if an option of a bootstrap interval is invalid."""
    problems = Problems("Cannot give an interval")
    problems.check_fractions(level=level)
    problems.check_seed(seed)
    problems.check_counts(draws=draws)
    problems.raise_any()


def bootstrap_interval(
    statistic: Statistic,
    values: np.ndarray,
    to: int | None,
    units: Sequence[np.ndarray],
    level: float,
    seed: int,
    draws: int,
) -> np.ndarray:
    """Return the ends (2, m) of percentile intervals of :func:`statistic_ratios`.

    Each unit is a set of rows that is drawn as a whole, with replacement.
    """
    rng, count = np.random.default_rng(seed), len(units)
    found = []
    for _ in range(draws):
        chosen = rng.integers(count, size=count)
        rows = np.concatenate([units[unit] for unit in chosen])
        found.append(statistic_ratios(statistic, values[rows], to))
    ends = (1 - level) / 2, (1 + level) / 2
    return np.array([column_statistics(end, np.array(found)) for end in ends])


def timing_table(
    records: pd.DataFrame, full_seconds: pd.Series, statistic: Statistic
) -> pd.DataFrame:
    """Return statistics of each policy's seconds, and its speed-up.

    ``full_seconds`` are those of the full programs, by trial and case.
    """
    table = records.join(full_seconds.rename("full"), on=["trial", "case"])
    table["scenarios"] = table["seconds"] - table["solve_seconds"]
    decided = table.loc[table["seconds"].notna(), list(_TIMING_COLUMNS)]
    rows = {
        policy: column_statistics(statistic, part.to_numpy())
        for policy, part in decided.groupby("policy", sort=False)
    }
    found = pd.DataFrame.from_dict(
        rows, orient="index", columns=list(_TIMING_COLUMNS.values())
    )
    found["speed-up"] = found["full program"] / found["decision"]
    return found.reindex(records.index.unique("policy"))
