"""Seconds in the paper's columns, ours and in brackets the paper's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import reported
from cells import beside
from experiment import Experiment
from methods import Unit
from store import Store

COLUMNS = {
    "mmd": "MMD training",
    "decisions": "surrogate solution",
    "full": "2SP solve",
    "labels": "loss evaluation",
    "loss_net": "Loss-Net training",
    "static": "static training",
    "dynamic": "dynamic training",
}


def times(
    experiment: Experiment, store: Store, units: list[Unit], trials: range
) -> pd.DataFrame:
    """Return seconds by K: of a fit's stages, and the mean to solve for one context."""
    rows = {}
    for count in experiment.counts:
        some = [unit for unit in units if unit.scenarios == count]
        ours = {**_stages(store, some, trials), **_solutions(store, some, trials)}
        paper = reported.seconds(experiment.name, count)
        rows[f"K={count}"] = {
            label: beside(ours.get(key, np.nan), paper.get(key, np.nan))
            for key, label in COLUMNS.items()
        }
    return pd.DataFrame(rows).T


def _stages(store: Store, units: list[Unit], trials: range) -> dict[str, float]:
    """Return seconds of stages, medians over lambdas and trials."""
    found: dict[str, list[float]] = {}
    for unit in units:
        for stages in filter(None, store.seconds(unit, trials)):
            for key, value in _in_papers_terms(unit.method, stages).items():
                found.setdefault(key, []).append(value)
    return {key: float(np.median(values)) for key, values in found.items()}


def _solutions(store: Store, units: list[Unit], trials: range) -> dict[str, float]:
    """Return mean seconds of a decision of MMD's, and of the full program."""
    mmd = [unit for unit in units if unit.method == "mmd"]
    evaluation = store.evaluation(mmd, trials)
    if evaluation is None:
        return {}
    timing = evaluation.timing("mean").loc[str(mmd[0])]
    return {"decisions": timing["decision"], "full": timing["full program"]}


def _in_papers_terms(method: str, stages: dict[str, float]) -> dict[str, float]:
    if method == "mmd":
        return {"mmd": stages["fit"]}
    if method == "static":
        return {
            "labels": stages.get("static labels", np.nan),
            "loss_net": stages.get("static Loss-Net", np.nan),
            "static": stages.get("static Task-Net", np.nan),
        }
    if method == "dynamic":
        return {
            "dynamic": sum(
                s for name, s in stages.items() if name.startswith("dynamic")
            )
        }
    return {}
