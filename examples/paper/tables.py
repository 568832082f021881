"""Gaps and wins by K, ours and in brackets the paper's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import reported
from cells import beside, shown
from experiment import Experiment
from methods import Unit
from store import Store

FAILED = "failed"


def medians(
    experiment: Experiment, store: Store, units: list[Unit], trials: range
) -> pd.DataFrame:
    """Return median gaps in per cent."""
    found = store.evaluation(units, trials)
    ours = {} if found is None else (100 * found.median()).to_dict()
    rows: dict[str, dict[str, str]] = {}
    for count in experiment.counts:
        for unit in _with(units, count):
            name = str(unit)
            paper = reported.percent(experiment.name, unit, count, "median_gap")
            cell = beside(ours.get(name, np.nan), paper)
            if name not in ours and store.failures(unit, trials):
                cell = cell.replace("-", FAILED, 1)
            rows.setdefault(unit.label, {})[f"K={count}"] = cell
    return pd.DataFrame(rows).T.fillna("")


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
                reported.percent(experiment.name, u, count, "wins"),
            )
            for u in some
        }
        columns.append(pd.Series(cells, name=_head(count, among, contexts)))
    return _aligned(columns)


def wins(
    experiment: Experiment, store: Store, units: list[Unit], trials: range
) -> pd.DataFrame:
    """Return how often a row has least cost among all that were run, in per cent.

    A column's head says among how many rows.
    """
    columns = []
    for count in experiment.counts:
        some = _with(units, count)
        ours, contexts = _shares(store, some, count, trials)
        if ours:
            cells = {u.label: shown(ours[str(u)]) for u in some if str(u) in ours}
            head = _head(count, f"{len(ours)}", contexts)
            columns.append(pd.Series(cells, name=head))
    return _aligned(columns)


def loss_nets(
    experiment: Experiment, store: Store, units: list[Unit], trials: range
) -> pd.DataFrame:
    """Return what section 5.5 of the paper explains results with, medians over trials.

    Errors are mean absolute errors, relative to the mean loss of the policy's scenarios.
    """
    found = store.evaluation(units, trials)
    rows = []
    for unit in units:
        known = store.loss_nets(unit, trials)
        if found is None or not known or str(unit) not in found.policies:
            continue
        middle = {
            name: float(np.median([one[name] / abs(one["loss_here"]) for one in known]))
            for name in ("error", "error_here")
        }
        some = store.evaluation([u for u in units if u.method in ("EV",)], trials)
        vss = np.nan if some is None else 100 * some.mean().iloc[0]
        rows.append(
            {
                "method": unit.label,
                "K": str(unit.scenarios),
                "error at home, %": shown(100 * middle["error"]),
                "error on the policy's scenarios, %": shown(100 * middle["error_here"]),
                "shift, sd": shown(float(np.median([one["shift"] for one in known]))),
                "VSS, %": shown(vss),
                "mean gap, %": shown(100 * found.mean()[str(unit)]),
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
