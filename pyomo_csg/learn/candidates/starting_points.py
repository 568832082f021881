"""Starting points of constant scenarios and atoms: those with the best decisions."""

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
from pyomo_csg.learn.task import Task

_OUTCOMES, _SLOW_OUTCOMES = 256, 64  # the latter with integer recourse: programs
_CONTEXTS = 8  # on which atoms are evaluated


def starting_constants(
    task: Task, rows: np.ndarray, count: int, draws: int
) -> list[nn.Module]:
    """Return bodies of the scenarios with the best decisions on some rows."""
    best = best_scenario_sets(task, rows, count, draws, task.rng("constant draws"))
    return [
        constant_body(task, task.omega.inverse(torch.as_tensor(scenarios)), weights)
        for scenarios, weights in best
    ]


def starting_atoms(
    task: Task, head: Any, rows: np.ndarray, sampler: ResidualSampler, draws: int
) -> list[nn.Module]:
    """Return bodies of atoms in units of location and scale, 1.5 times ``starts`` of them.

    Two thirds are the best of many random sets, by the costs of their decisions under the
    sampler's residuals. The others are cluster centers, from which training ends elsewhere.
    Half of all sets come from the costliest rows, which often determine the decision.
    """
    residuals = scaled_residuals(task, head, rows)
    pools = residuals, residuals[costliest_rows(task, rows)]
    rng = task.rng("location-scale draws")
    sets = np.concatenate([_random_sets(task, points, rng, draws) for points in pools])
    some = rows[evenly_spaced(len(rows), _CONTEXTS)]
    outcomes = sampler.every_residual(some, outcome_count(task))
    weights = _weights(task, residuals, sets)
    costs = atom_costs(task, head, sets, weights, some, outcomes)
    best = sets[np.argsort(costs, kind="stable")[: task.config.starts]]
    centers = [
        cluster_centers(pools[start % 2], task.scenarios, int(rng.integers(2**31)))
        for start in range(task.config.starts // 2)
    ]
    atoms = np.stack([*best, *centers])
    return [
        constant_body(task, torch.as_tensor(one), weights)
        for one, weights in zip(atoms, _weights(task, residuals, atoms), strict=True)
    ]


def atom_costs(
    task: Task,
    head: Any,
    sets: np.ndarray,
    weights: np.ndarray,
    rows: np.ndarray,
    outcomes: np.ndarray,
) -> np.ndarray:
    """Return the mean costs (S,) of sets of atoms (S, K, p) with weights (S, K).

    Decisions are made for the contexts of rows (B,), and evaluated on outcomes (B, m, p).
    """
    terms = task.context_terms(head)
    known = None if terms is None else terms[torch.as_tensor(rows)]
    placed = np.asarray(head.outcomes(torch.as_tensor(sets)[:, None], known))
    return _mean_costs(task, placed, weights, outcomes)


def best_scenario_sets(
    task: Task, rows: np.ndarray, count: int, draws: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the scenarios (K, p) and weights (K,) with the best decisions on some rows.

    They are the best of many random sets of outcomes and of the cluster centers. Good
    sets are often in the tails, where clusters have no center and training does not get.
    """
    outcomes = task.history.outcomes[rows]
    # Rounding can move a mean out of Omega if its cluster is on the boundary.
    drawn = torch.as_tensor(_random_sets(task, outcomes, rng, max(count, draws)))
    sets = task.omega.project(drawn).numpy()
    unit = task.omega.spread.numpy()
    weights = _weights(task, outcomes / unit, sets / unit)
    some = outcomes[evenly_spaced(len(rows), outcome_count(task))]
    costs = _mean_costs(task, sets[:, None], weights, some[None])
    best = np.argsort(costs, kind="stable")[:count]
    return list(zip(sets[best], weights[best], strict=True))


def outcome_count(task: Task) -> int:
    """Return on how many outcomes a starting point is evaluated."""
    return _SLOW_OUTCOMES if task.has_integer_recourse else _OUTCOMES


def _random_sets(
    task: Task, points: np.ndarray, rng: np.random.Generator, draws: int
) -> np.ndarray:
    """Return random sets (S, K, p) of points (m, p); the last is the cluster centers."""
    size, repeats = task.scenarios, len(points) < task.scenarios
    picked = [rng.choice(len(points), size, replace=repeats) for _ in range(draws)]
    centers = cluster_centers(points, size, int(rng.integers(2**31)))
    return np.concatenate([points[np.array(picked)], centers[None]])


def _weights(task: Task, points: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Return weights (S, K): equal, or the shares of points nearest to each scenario."""
    if task.config.weights == "learned":
        return np.array([cluster_shares(points, one) for one in sets])
    return np.full(sets.shape[:2], 1 / task.scenarios)


def _mean_costs(
    task: Task, sets: np.ndarray, weights: np.ndarray, outcomes: np.ndarray
) -> np.ndarray:
    """Return the mean costs (S,) of decisions on sets; NaN if a program was not solved.

    Sets (S, B, K, p) hold scenarios for B contexts, and outcomes are (B, m, p).
    """
    count, contexts, *shape = sets.shape
    shares = task.solver_weights(np.repeat(weights, contexts, axis=0))
    found = task.solve(sets.reshape(-1, *shape), shares)
    m, p = outcomes.shape[1:]
    costs = task.cost(
        np.repeat(found.decision, m, axis=0),
        np.tile(outcomes.reshape(-1, p), (count, 1)),
    )
    return costs.reshape(count, -1).mean(axis=1)
