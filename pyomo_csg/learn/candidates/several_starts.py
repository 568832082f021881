"""Constant scenarios and atoms, trained from the starts with the best decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from pyomo_csg.learn.candidates.fold_distributions import FoldForecasts
from pyomo_csg.learn.candidates.integer_training import IntegerTraining
from pyomo_csg.learn.distributions.features import evenly_spaced
from pyomo_csg.learn.distributions.samplers import (
    PooledSampler,
    ResidualSampler,
    Sampler,
)
from pyomo_csg.learn.methods.direct import train_direct
from pyomo_csg.learn.networks.initialization import (
    cluster_centers,
    cluster_shares,
    constant_body,
    costliest_rows,
)
from pyomo_csg.learn.networks.location_scale import scaled_residuals
from pyomo_csg.learn.selection.fits import Candidate, NetworkFit, network_candidate
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.selection.plan import Plan, steps_and_batch
from pyomo_csg.learn.selection.scoring import best_fit
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import sample_schedule

_ATOM_RATE = 5e-2
_CONSTANT_STEPS, _CONSTANT_BATCH, _CONSTANT_DRAWS = 100, 5, 48
_ATOM_STEPS, _ATOM_BATCH = 800, 10
_ATOM_DRAWS = 256  # residuals, of which few may be in the tail that matters
_OUTCOMES, _SLOW_OUTCOMES = 256, 64  # the latter with integer recourse: programs
_CONTEXTS = 8  # on which atoms are evaluated
_MOST_OUTCOMES = 2000  # on which constant scenarios are compared
CONSTANT = "constant"


@dataclass(frozen=True, eq=False)
class Start:
    """A body to train on one fold."""

    body: nn.Module
    fold: int


@dataclass(frozen=True, eq=False)
class FoldTraining:
    """Trains several bodies on every fold, on relaxed programs, and selects the best.

    ``heads`` and ``samplers`` have one entry per fold. Decisions are evaluated on ``draws``
    outcomes.
    """

    task: Task
    folds: Folds
    plan: Plan
    heads: Sequence[Any]
    samplers: Sequence[Sampler]
    draws: int

    def train(
        self,
        stage: str,
        starts: Sequence[Start],
        length: tuple[int, int],
        rate: float,
        rng: np.random.Generator,
        decay: float = 0.0,
        regularization: float = 0.0,
    ) -> list[Start]:
        """Return the bodies after some steps, of ``length`` (steps, rows per step)."""
        mine = [self.folds.rows[start.fold] for start in starts]
        rows, schedule = sample_schedule(mine, *length, rate, rng, decay)
        trained = train_direct(
            self.task,
            stage,
            [start.body for start in starts],
            rows,
            [self.samplers[start.fold] for start in starts],
            [self.heads[start.fold] for start in starts],
            schedule,
            oracle=self.task.relaxed,
            regularization=regularization,
            draws=self.draws,
        )
        pairs = zip(trained, starts, strict=True)
        return [Start(body, start.fold) for body, start in pairs]

    def best_bodies(self, name: str, tried: Sequence[Start]) -> list[nn.Module]:
        """Return the body of each fold whose decisions cost least on some of its rows."""
        best = []
        folds = self.task.log.each(f"compare starts of {name}", self.folds.rows)
        for fold, rows in enumerate(folds):
            head, sampler = self.heads[fold], self.samplers[fold]
            fits = [NetworkFit(one.body, head) for one in tried if one.fold == fold]
            chosen = best_fit(
                self.task, fits, rows, sampler, self.draws, self.plan.compared
            )
            best.append(fits[chosen].body)
        return best

    def best_constants(self, name: str, tried: Sequence[Start]) -> list[nn.Module]:
        """Return the constant body of each fold whose one decision costs least on its rows.

        One decision is cheap to evaluate on many rows, and few rows say little of a tail.
        """
        best = []
        folds = self.task.log.each(f"compare starts of {name}", self.folds.rows)
        for fold, rows in enumerate(folds):
            outcomes = self.task.history.outcomes[rows]
            some = outcomes[evenly_spaced(len(rows), _MOST_OUTCOMES)]
            bodies = [one.body for one in tried if one.fold == fold]
            costs = [self._mean_cost(body, rows[:1], some) for body in bodies]
            best.append(bodies[int(np.argmin(np.nan_to_num(costs, nan=np.inf)))])
        return best

    def _mean_cost(
        self, body: nn.Module, row: np.ndarray, outcomes: np.ndarray
    ) -> float:
        """Return the mean cost of a constant body's decision; NaN if it has none."""
        scenarios, weights = self.task.generate_scenarios(body, row)
        shares = self.task.solver_weights(weights)
        decision = self.task.solve(scenarios, shares).decision
        return float(self.task.cost(decision.repeat(len(outcomes), 0), outcomes).mean())


class ConstantTraining:
    """Trains constant scenarios or atoms on every fold, from several starts."""

    def __init__(self, task: Task, folds: Folds, plan: Plan, kind: Any):
        self._task, self._folds, self._plan, self._kind = task, folds, plan, kind

    def constant(self) -> Candidate:
        """The same scenarios for every context, trained on the task loss."""
        task, outcomes = self._task, self._task.history.outcomes
        pools = [PooledSampler(outcomes, rows) for rows in self._folds.rows]
        heads = [task.head] * len(self._folds)
        starts = [
            Start(body, fold)
            for fold, rows in enumerate(self._folds.rows)
            for body in starting_constants(
                task, rows, task.config.starts, self._plan.sets
            )
        ]
        length = _CONSTANT_STEPS, _CONSTANT_BATCH
        found = self._train(CONSTANT, starts, pools, heads, length, _CONSTANT_DRAWS)
        return replace(found, is_context_free=True)

    def location_scale(self, forecasts: FoldForecasts) -> Candidate:
        """Constant atoms in units of location and scale, on the task loss."""
        starts, heads = [], forecasts.heads
        samplers = forecasts.training_samplers()
        for fold, rows in enumerate(self._folds.rows):
            atoms = starting_atoms(
                self._task, heads[fold], rows, samplers[fold], self._plan.sets
            )
            starts += [Start(body, fold) for body in atoms]
        name, length = "location-scale", (_ATOM_STEPS, _ATOM_BATCH)
        return self._train(name, starts, samplers, heads, length, _ATOM_DRAWS)

    def _train(
        self,
        name: str,
        starts: Sequence[Start],
        samplers: Sequence[Sampler],
        heads: Sequence[Any],
        length: tuple[int, int],
        draws: int,
    ) -> Candidate:
        """Train constant bodies from several starts; keep the best of each fold."""
        task, plan, (steps, batch) = self._task, self._plan, length
        programs = max(1, plan.programs // task.config.starts)
        if steps * batch > programs:
            length = steps_and_batch(programs, batch)
        training = FoldTraining(task, self._folds, plan, heads, samplers, draws)
        rng = task.rng(f"{name} rows")
        trained = training.train(f"{name} starts", starts, length, _ATOM_RATE, rng)
        # Training may end with a higher cost than its start, so both are compared.
        choose = training.best_constants if name == CONSTANT else training.best_bodies
        best = choose(name, [*trained, *starts])
        if task.has_integers:
            integers = IntegerTraining(task, self._folds, plan, self._kind, samplers)
            best = integers.polish(name, best, heads, _ATOM_RATE / 2, draws)
        return network_candidate(name, best, heads)


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
    sets are often in the tails, where no cluster has its center and training does not lead.
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
