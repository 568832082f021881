"""Lowest costs by K, ours and in brackets the paper's, and the errors of Loss-Nets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import reported
from cells import beside, shown
from experiment import Experiment
from methods import Unit
from store import Store

FAILED = "failed"


def wins_in_paper(
    experiment: Experiment, store: Store, units: list[Unit], trials: range
) -> pd.DataFrame:
    """Return how often a row of the paper's table has least cost among these, per cent.

    A column's head says among how many rows, ours and the paper's.
    """
    columns = []
    for count in experiment.counts:
        some = [u for u in _with(units, count) if u.method in reported.METHODS]
        ours, contexts = _shares(store, some, count, trials)
        if not ours:
            continue
        theirs = len(reported.rows(experiment.name, count))
        among = f"{len(ours)} ({theirs})" if theirs else f"{len(ours)}"
        cells = {
            u.label: beside(
                ours.get(str(u), np.nan),
                reported.percent(
                    experiment.name, u.method, u.penalty_text, count, "wins"
                ),
            )
            for u in some
        }
        columns.append(pd.Series(cells, name=_head(count, among, contexts)))
    return _aligned(columns)


def loss_nets(
    experiment: Experiment, store: Store, units: list[Unit], trials: range
) -> pd.DataFrame:
    """Return what section 5.5 of the paper explains results with, medians over trials.

    Errors are mean absolute errors, relative to the mean optimum, as gaps are.
    """
    expected, rows = [u for u in units if u.method == "EV"], []
    for unit in units:
        known = store.loss_nets(unit, trials)
        mine = [t for t in trials if store.has(unit, t)]
        found = store.evaluation([unit, *expected], mine) if known else None
        if found is None:
            continue
        gaps, size = 100 * found.mean(), found.reference["value"].abs().mean()
        home, here, shift = (
            [one[name] for one in known] for name in ("error", "error_here", "shift")
        )
        rows.append(
            {
                "method": unit.label,
                "K": str(unit.scenarios),
                "error at home, %": shown(100 * np.median(home) / size),
                "error on the policy's scenarios, %": shown(
                    100 * np.median(here) / size
                ),
                "shift, sd": shown(np.median(shift)),
                "VSS, %": shown(gaps.get("EV", np.nan)),
                "mean gap, %": shown(gaps[str(unit)]),
            }
        )
    return pd.DataFrame(rows)


def _with(units: list[Unit], count: int) -> list[Unit]:
    """Return the rows that belong to a K: those that have no K belong to all."""
    return [unit for unit in units if unit.scenarios in (None, count)]


def _shares(
    store: Store, units: list[Unit], count: int, trials: range
) -> tuple[dict[str, float], int]:
    """Return wins in per cent, and of how many contexts: those that all rows have."""
    there = [u for u in units if any(store.has(u, t) for t in trials)]
    common = [t for t in trials if all(store.has(u, t) for u in there)]
    found = store.evaluation(there, common)
    if found is None or len(there) < 2 or all(u.scenarios != count for u in there):
        return {}, 0
    return (100 * found.wins()).to_dict(), len(found.costs)


def _head(count: int, among: str, contexts: int) -> str:
    return f"K={count}: {among} rows, {contexts} contexts"


def _aligned(columns: list[pd.Series]) -> pd.DataFrame:
    return pd.concat(columns, axis=1).fillna("") if columns else pd.DataFrame()
