"""Where numbers that are the same for all contexts start: near what decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from pyomo_csg.learn.bodies import (
    centers,
    constant_body,
    dearest,
    new_body,
    shares_of,
)
from pyomo_csg.learn.forecast import residuals_of
from pyomo_csg.learn.judging import costs_of
from pyomo_csg.learn.outcomes import evenly
from pyomo_csg.learn.task import Task

_SETS, _JUDGED = 200, 256
_SLOW_SETS, _SLOW_JUDGED = (
    24,
    64,
)  # with integer recourse, where every cost is a program


def new_constants(task: Task, rows: np.ndarray, count: int) -> list[nn.Module]:
    """Return bodies of the scenarios that decide best on some rows."""
    best = best_sets(task, rows, count, task.rng("constant draws"))
    return [constant_body(task, *one) for one in best]


def new_atoms(task: Task, head: Any, rows: np.ndarray) -> list[nn.Module]:
    """Return bodies of atoms in units of location and scale, as many as configured.

    Every other starts among what costs most: what decides is often there, and a start
    elsewhere may not find it.
    """
    residuals, dear = residuals_of(task, head, rows), dearest(task, rows)
    return [
        new_body(
            task,
            "constant",
            residuals[dear] if start % 2 else residuals,
            task.rng(f"location-scale {start}"),
        )
        for start in range(task.config.starts)
    ]


def best_sets(
    task: Task, rows: np.ndarray, count: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return scenarios (K, p) and weights (K,) whose decisions cost least on some rows.

    Drawn among the rows' outcomes, and the centers of their clusters. The few that decide
    are often in the tails, where clusters have no center and a descent finds no way.
    Where weights are learned, they are the shares of outcomes that are nearest to each.
    """
    outcomes, size = task.history.outcomes[rows], task.scenarios
    slow = task.integer_recourse
    draws = max(count, _SLOW_SETS if slow else _SETS)
    few = len(rows) < size
    picked = [rng.choice(len(rows), size, replace=few) for _ in range(draws)]
    middles = centers(outcomes, size, int(rng.integers(2**31)))
    sets = np.concatenate([outcomes[np.array(picked)], middles[None]])
    # Rounding takes a mean out of Omega where all of a cluster is at its edge.
    sets = task.omega.project(torch.as_tensor(sets)).numpy()
    weights = np.full(sets.shape[:2], 1 / size)
    if task.config.weights == "learned":
        unit = task.omega.spread.numpy()
        weights = np.array([shares_of(outcomes / unit, one / unit) for one in sets])
    found = task.oracle.solve(
        sets,
        task.solver_weights(weights),
        on_error="record",
        progress=False,
        fresh=True,
    )
    judged = outcomes[evenly(len(rows), _SLOW_JUDGED if slow else _JUDGED)]
    costs = costs_of(
        task.oracle,
        np.repeat(found.decision, len(judged), axis=0),
        np.tile(judged, (len(sets), 1)),
    )
    means = costs.reshape(len(sets), -1).mean(axis=1)  # the last are those without any
    best = np.argsort(means, kind="stable")[:count]
    return list(zip(sets[best], weights[best], strict=True))
