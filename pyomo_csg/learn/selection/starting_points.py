"""Where numbers that are the same for all contexts start: near what decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from pyomo_csg.learn.distributions.location_scale import scaled_residuals
from pyomo_csg.learn.distributions.samplers import ResidualSampler, evenly_spaced
from pyomo_csg.learn.networks.initialization import (
    cluster_centers,
    cluster_shares,
    constant_body,
    costliest_rows,
)
from pyomo_csg.learn.selection.scoring import decision_costs
from pyomo_csg.learn.task import Task

_SETS, _JUDGED = 200, 256
_SLOW_SETS, _SLOW_JUDGED = (
    24,
    64,
)  # with integer recourse, where every cost is a program
_CONTEXTS = 8  # that atoms are judged after


def starting_constants(task: Task, rows: np.ndarray, count: int) -> list[nn.Module]:
    """Return bodies of the scenarios that decide best on some rows."""
    best = best_scenario_sets(task, rows, count, task.rng("constant draws"))
    return [
        constant_body(task, task.omega.inverse(torch.as_tensor(scenarios)), weights)
        for scenarios, weights in best
    ]


def starting_atoms(
    task: Task, head: Any, rows: np.ndarray, errors: ResidualSampler
) -> list[nn.Module]:
    """Return bodies of atoms in units of location and scale: half as many again as starts.

    As many as there are starts are the best of many draws, by what decisions on them cost
    when errors follow; the others are centers of clusters, from which a descent ends
    elsewhere. Every other draw and cluster is among what costs most: what decides is
    often there.
    """
    residuals, dear = scaled_residuals(task, head, rows), costliest_rows(task, rows)
    rng, kinds = task.rng("location-scale draws"), (residuals, residuals[dear])
    drawn = np.concatenate([_drawn(task, points, rng) for points in kinds])
    some = rows[evenly_spaced(len(rows), _CONTEXTS)]
    costs = _mean_costs(
        task,
        _after(task, head, drawn, some),
        _weights(task, residuals, drawn),
        errors.every_residual(some, _judged(task)),
    )
    best = drawn[np.argsort(costs, kind="stable")[: task.config.starts]]
    middles = [
        cluster_centers(kinds[start % 2], task.scenarios, int(rng.integers(2**31)))
        for start in range(task.config.starts // 2)
    ]
    sets = np.stack([*best, *middles])
    shares = _weights(task, residuals, sets)
    return [
        constant_body(task, torch.as_tensor(one), share)
        for one, share in zip(sets, shares, strict=True)
    ]


def best_scenario_sets(
    task: Task, rows: np.ndarray, count: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return scenarios (K, p) and weights (K,) whose decisions cost least on some rows.

    Drawn among the rows' outcomes, and the centers of their clusters. The few that decide
    are often in the tails, where clusters have no center and a descent finds no way.
    Where weights are learned, they are the shares of outcomes that are nearest to each.
    """
    outcomes = task.history.outcomes[rows]
    # Rounding takes a mean out of Omega where all of a cluster is at its edge.
    drawn = torch.as_tensor(_drawn(task, outcomes, rng, count))
    sets = task.omega.project(drawn).numpy()
    unit = task.omega.spread.numpy()
    weights = _weights(task, outcomes / unit, sets / unit)
    judged = outcomes[evenly_spaced(len(rows), _judged(task))]
    costs = _mean_costs(task, sets[:, None], weights, judged[None])
    best = np.argsort(costs, kind="stable")[:count]
    return list(zip(sets[best], weights[best], strict=True))


def _after(task: Task, head: Any, atoms: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the scenarios (S, B, K, p) that sets of atoms (S, K, p) are on some rows."""
    frame = head.context_terms(torch.as_tensor(task.history.contexts[rows]))
    return np.asarray(head.outcomes(torch.as_tensor(atoms)[:, None], frame))


def _drawn(
    task: Task, points: np.ndarray, rng: np.random.Generator, least: int = 0
) -> np.ndarray:
    """Return many sets (S, K, p) of some points (m, p), and the centers of clusters."""
    size, few = task.scenarios, len(points) < task.scenarios
    draws = max(least, _SLOW_SETS if task.has_integer_recourse else _SETS)
    picked = [rng.choice(len(points), size, replace=few) for _ in range(draws)]
    middles = cluster_centers(points, size, int(rng.integers(2**31)))
    return np.concatenate([points[np.array(picked)], middles[None]])


def _weights(task: Task, points: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Return the weights (S, K) that scenarios of sets (S, K, p) start with."""
    if task.config.weights == "learned":
        return np.array([cluster_shares(points, one) for one in sets])
    return np.full(sets.shape[:2], 1 / task.scenarios)


def _judged(task: Task) -> int:
    return _SLOW_JUDGED if task.has_integer_recourse else _JUDGED


def _mean_costs(
    task: Task, sets: np.ndarray, weights: np.ndarray, outcomes: np.ndarray
) -> np.ndarray:
    """Return what deciding on sets costs (S,), in the mean; NaN where there is no answer.

    Of sets (S, B, K, p) for B contexts, with weights (S, K), after outcomes (B, m, p).
    """
    count, contexts, *shape = sets.shape
    found = task.oracle.solve(
        sets.reshape(-1, *shape),
        task.solver_weights(np.repeat(weights, contexts, axis=0)),
        on_error="record",
        progress=False,
        fresh=True,
    )
    m, p = outcomes.shape[1:]
    costs = decision_costs(
        task.oracle,
        np.repeat(found.decision, m, axis=0),
        np.tile(outcomes.reshape(-1, p), (count, 1)),
    )
    return costs.reshape(count, -1).mean(axis=1)
