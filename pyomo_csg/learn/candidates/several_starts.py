"""Constant scenarios and constant atoms, trained from several starting points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from pyomo_csg.learn.candidates.fits import Candidate, NetworkFit, network_candidate
from pyomo_csg.learn.candidates.fold_distributions import FoldForecasts
from pyomo_csg.learn.candidates.integer_training import IntegerTraining
from pyomo_csg.learn.candidates.starting_points import (
    starting_atoms,
    starting_constants,
)
from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.distributions.samplers import PooledSampler, Sampler
from pyomo_csg.learn.methods.direct import Direct
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.selection.plan import Plan, steps_and_batch
from pyomo_csg.learn.selection.scoring import best_fit
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule, sampled_rows

_ATOM_RATE = 5e-2
_CONSTANT_STEPS, _CONSTANT_BATCH, _CONSTANT_DRAWS = 100, 5, 48
_ATOM_STEPS, _ATOM_BATCH = 800, 10
_ATOM_DRAWS = 256  # residuals, of which few may be in the tail that matters


@dataclass(frozen=True, eq=False)
class _Start:
    """A constant body to train on one fold."""

    body: nn.Module
    fold: int


class StartsTraining:
    """Trains constant bodies on every fold, each from several starts; keeps the best."""

    def __init__(self, task: Task, folds: Folds, plan: Plan, kind: Any):
        self._task, self._folds, self._plan, self._kind = task, folds, plan, kind

    def constant(self) -> Candidate:
        """The same scenarios for every context, trained on the task loss."""
        task, outcomes = self._task, self._task.history.outcomes
        pools = [PooledSampler(outcomes, rows) for rows in self._folds.rows]
        heads = [task.head] * len(self._folds)
        starts = [
            _Start(body, fold)
            for fold, rows in enumerate(self._folds.rows)
            for body in starting_constants(
                task, rows, task.config.starts, self._plan.sets
            )
        ]
        length = _CONSTANT_STEPS, _CONSTANT_BATCH, _CONSTANT_DRAWS
        return self._best_starts("constant", starts, pools, heads, *length)

    def location_scale(self, forecasts: FoldForecasts) -> Candidate:
        """Constant atoms in units of location and scale, on the task loss."""
        starts, heads = [], forecasts.heads
        samplers = forecasts.training_samplers()
        for fold, rows in enumerate(self._folds.rows):
            atoms = starting_atoms(
                self._task, heads[fold], rows, samplers[fold], self._plan.sets
            )
            starts += [_Start(body, fold) for body in atoms]
        length = _ATOM_STEPS, _ATOM_BATCH, _ATOM_DRAWS
        return self._best_starts("location-scale", starts, samplers, heads, *length)

    def _best_starts(
        self,
        name: str,
        starts: Sequence[_Start],
        samplers: Sequence[Sampler],
        heads: Sequence[Any],
        steps: int,
        batch: int,
        draws: int,
    ) -> Candidate:
        """Train constant bodies from several starts; keep the best of each fold."""
        task, plan, bodies = self._task, self._plan, [start.body for start in starts]
        rows = [self._folds.rows[start.fold] for start in starts]
        programs = max(1, plan.programs // task.config.starts)
        if steps * batch > programs:
            steps, batch = steps_and_batch(programs, batch)
        rows = sampled_rows(rows, steps * batch, 1, task.rng(f"{name} rows"))
        schedule = Schedule.of_steps(steps, rows, batch, _ATOM_RATE, 0.0)

        def train() -> list[nn.Module]:
            direct = Direct(
                task,
                [samplers[start.fold] for start in starts],
                [heads[start.fold] for start in starts],
                oracle=task.relaxed,
                draws=draws,
            )
            return direct.train(bodies, rows, f"{name} starts", schedule)

        trained = train_or_restore(task, f"{name} starts", bodies, train)
        # Training may end with a higher cost than its start, so both are compared.
        tried = [
            *(_Start(body, s.fold) for body, s in zip(trained, starts, strict=True)),
            *starts,
        ]
        best = []
        compared = task.log.each(f"compare starts of {name}", heads, "fold")
        for fold, head in enumerate(compared):
            fits = [NetworkFit(one.body, head) for one in tried if one.fold == fold]
            rows_here, sampler = self._folds.rows[fold], samplers[fold]
            number = best_fit(task, fits, rows_here, sampler, draws, plan.compared)
            best.append(fits[number].body)
        if task.has_integers:
            training = IntegerTraining(task, self._folds, plan, self._kind, samplers)
            best = training.polish(name, best, heads, _ATOM_RATE / 2, draws)
        return network_candidate(name, best, heads)
