"""The candidates of ``'auto'``, each trained on every fold and on all rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyomo.environ as pyo
import torch
from torch import nn

from pyomo_csg.errors import CsgError
from pyomo_csg.learn.bodies import free_outcomes, new_body
from pyomo_csg.learn.descent import Schedule
from pyomo_csg.learn.direct import Direct
from pyomo_csg.learn.folds import Folds
from pyomo_csg.learn.forecast import fit_location_scale, new_head, residuals_of
from pyomo_csg.learn.judging import best_of
from pyomo_csg.learn.keeping import kept
from pyomo_csg.learn.mmd import train_mmd
from pyomo_csg.learn.networks import LocationScaleHead
from pyomo_csg.learn.outcomes import Alike, Errors, Likely, Pool, forest_weights
from pyomo_csg.learn.static import lambda_of, train_static
from pyomo_csg.learn.task import Task
from pyomo_csg.solve import Oracle

_ATOM_RATE, _ATOM_STEPS, _ATOM_BATCH, _ATOM_DRAWS = 3e-2, 160, 10, 48
_INTEGER_SHARE = 5
_GRID = ("0.01x", "0.1x", "1x", "10x")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to generate scenarios, trained on each part of the folds.

    Attributes
    ----------
    name : str
    bodies : list of Module
    heads : list of Head
    """

    name: str
    bodies: list[nn.Module]
    heads: list[Any] = field(default_factory=list)


class Candidates:
    """Trains the candidates.

    Parameters
    ----------
    task : Task
    folds : Folds
    kind : str or Module
        Of the body that reads contexts.
    head : LocationScaleHead, optional
        The user's own location and scale.
    """

    def __init__(self, task: Task, folds: Folds, kind: Any, head: Any = None):
        self._task, self._folds, self._kind, self._head = task, folds, kind, head

    def all(self) -> list[Candidate]:
        """Return every candidate, trained."""
        if self._head is not None:
            heads = [self._head] * len(self._folds)
            return [
                self._atoms("location-scale, MMD", heads),
                self._direct_atoms(heads),
            ]
        mmd = self.mmd()
        if not self.has_gradient:
            return [mmd, self._constant_mmd(), *self._followers(mmd)]
        constant = self.constant()
        found = [mmd, constant, self._from_mmd(mmd), self._from_constant(constant)]
        if self._task.history.panels:
            found.append(self._direct_atoms(self._forecasts))
        return found

    def mmd(self) -> Candidate:
        """Networks on the MMD loss."""
        bodies = [self._new("mmd", rows, part) for part, rows in self._parts]
        return self._candidate("mmd", self._by_mmd("mmd", bodies))

    def constant(self) -> Candidate:
        """The same scenarios for every context, on the task loss."""
        task, outcomes = self._task, self._task.history.outcomes
        pools = [Pool(outcomes, rows) for rows in self._folds.rows]
        starts = [free_outcomes(task, rows) for rows in self._folds.rows]
        heads = [task.head] * len(self._folds)
        return self._best_starts("constant", starts, pools, heads)

    @cached_property
    def has_gradient(self) -> bool:
        """Whether decisions move with scenarios, and the solver can say how."""
        task, rng = self._task, self._task.rng("gradient")
        picked = rng.integers(len(task.history), size=(8, task.scenarios))
        outcomes = task.history.outcomes
        try:
            found = task.oracle.loss_gradient(
                outcomes[picked],
                outcomes[rng.integers(len(outcomes), size=8)],
                on_error="record",
                progress=False,
                fresh=True,
            )
        except CsgError:
            return False
        return bool(np.nan_to_num(found.gradient).any())

    def _from_mmd(self, mmd: Candidate) -> Candidate:
        return self._direct("direct from mmd", mmd.bodies)

    def _from_constant(self, constant: Candidate) -> Candidate:
        numbers = self._task.history.outcomes.shape[1]
        bodies = []
        for part, body in enumerate(constant.bodies):
            new = new_body(self._task, self._kind, None, self._task.rng(f"new {part}"))
            if hasattr(new, "start_at"):
                free: Any = body.free
                new.start_at(free.detach()[:, :numbers])
            bodies.append(new)
        return self._direct("direct from constant", bodies)

    def _direct(self, name: str, bodies: Sequence[nn.Module]) -> Candidate:
        """Networks on the task loss, in which like contexts share their outcomes."""

        def train() -> list[nn.Module]:
            return self._trained(name, bodies, self._folds.rows, self._likely)

        return self._candidate(name, kept(self._task, name, bodies, train))

    def _direct_atoms(self, heads: Sequence[Any]) -> Candidate:
        """Constant atoms in units of location and scale, on the task loss."""
        task = self._task
        lower, upper = task.omega.lower.numpy(), task.omega.upper.numpy()
        raw = torch.as_tensor(task.history.contexts)
        residuals = [
            residuals_of(task, head, rows)
            for head, rows in zip(heads, self._folds.rows, strict=True)
        ]
        likely = [
            Errors(head.frame(raw).numpy(), mine, lower, upper)
            for head, mine in zip(heads, residuals, strict=True)
        ]
        return self._best_starts("location-scale", residuals, likely, heads)

    def _atoms(self, name: str, heads: Sequence[LocationScaleHead]) -> Candidate:
        """Constant atoms in units of location and scale, on the MMD loss."""
        task = self._task
        bodies = [
            new_body(
                task, "constant", residuals_of(task, head, rows), task.rng(f"{name} 0")
            )
            for head, rows in zip(heads, self._folds.rows, strict=True)
        ]
        return Candidate(name, self._by_mmd(name, bodies, heads[0]), list(heads))

    def _best_starts(
        self,
        name: str,
        points: Sequence[np.ndarray],
        likely: Sequence[Likely],
        heads: Sequence[Any],
    ) -> Candidate:
        """Train constant free numbers from several starts; keep each part's best."""
        task, starts = self._task, self._task.config.starts
        parts = [part for part in range(len(points)) for _ in range(starts)]
        bodies = [
            new_body(
                task, "constant", points[part], task.rng(f"{name} {number % starts}")
            )
            for number, part in enumerate(parts)
        ]
        rows = [self._folds.rows[part] for part in parts]

        def train() -> list[nn.Module]:
            schedule = Schedule.of_steps(
                _ATOM_STEPS, rows, _ATOM_BATCH, _ATOM_RATE, 0.0
            )
            return self._trained(
                name,
                bodies,
                rows,
                [likely[part] for part in parts],
                [heads[part] for part in parts],
                schedule,
                _ATOM_DRAWS,
            )

        trained = kept(task, name, bodies, train)
        best = [
            best_of(
                task,
                trained[part * starts : (part + 1) * starts],
                self._folds.rows[part],
                likely[part],
                heads[part],
            )
            for part in range(len(points))
        ]
        return Candidate(name, best, list(heads))

    def _trained(
        self,
        name: str,
        bodies: Sequence[nn.Module],
        rows: Sequence[np.ndarray],
        likely: Sequence[Likely],
        heads: Sequence[Any] | None = None,
        schedule: Schedule | None = None,
        draws: int | None = None,
    ) -> list[nn.Module]:
        """Train on the task loss; with integers, on the relaxation first."""
        task, config = self._task, self._task.config
        schedule = schedule or Schedule(
            config.task_epochs, config.batch, config.task_rate, config.decay
        )
        found = list(bodies)
        if task.integer:
            warm = Direct(task, likely, heads, self._relaxed, draws=draws)
            found = warm.train(found, rows, f"{name}, relaxed", schedule)
            schedule = Schedule(
                max(1, schedule.epochs // _INTEGER_SHARE),
                schedule.batch,
                schedule.rate / 2,
                schedule.decay,
            )
        direct = Direct(task, likely, heads, draws=draws)
        return direct.train(found, rows, name, schedule)

    @cached_property
    def _relaxed(self) -> Oracle:
        """The oracle of the model with its integers taken as continuous."""
        model = self._task.oracle.two_stage.copied().model
        pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
        return self._task.oracle.on(model)

    @cached_property
    def _likely(self) -> list[Likely]:
        """What may happen, by a forest, or by a forecast's errors for panels."""
        task, outcomes = self._task, self._task.history.outcomes
        if task.history.panels:
            return self._errors
        seed = int(task.rng("forest").integers(2**31))
        return [
            Alike(outcomes, forest_weights(task.history.contexts, outcomes, rows, seed))
            for rows in self._folds.rows
        ]

    @cached_property
    def _errors(self) -> list[Likely]:
        task = self._task
        lower, upper = task.omega.lower.numpy(), task.omega.upper.numpy()
        raw = torch.as_tensor(task.history.contexts)
        return [
            Errors(
                head.frame(raw).numpy(), residuals_of(task, head, rows), lower, upper
            )
            for head, rows in zip(self._forecasts, self._folds.rows, strict=True)
        ]

    @cached_property
    def _forecasts(self) -> list[LocationScaleHead]:
        rows = self._folds.rows
        heads: Any = kept(
            self._task,
            "forecast",
            [new_head(self._task) for _ in rows],
            lambda: fit_location_scale(self._task, rows, "forecast"),
        )
        return list(heads)

    def _constant_mmd(self) -> Candidate:
        task = self._task
        bodies = [
            new_body(
                task,
                "constant",
                free_outcomes(task, rows),
                task.rng(f"constant {part}"),
            )
            for part, rows in self._parts
        ]
        return self._candidate("constant", self._by_mmd("constant", bodies))

    def _followers(self, mmd: Candidate) -> list[Candidate]:
        """Networks that follow a Loss-Net, one for each lambda of a grid."""
        task, rows = self._task, self._folds.rows
        start = [body for _ in _GRID for body in mmd.bodies]
        lambdas = [
            lambda_of(text, task, [body], [mine])
            for text in _GRID
            for body, mine in zip(mmd.bodies, rows, strict=True)
        ]

        def train() -> list[nn.Module]:
            return train_static(
                task, start, lambdas, rows * len(_GRID), "Loss-Net"
            ).bodies

        found = kept(task, "Loss-Net", start, train)
        parts = len(rows)
        return [
            self._candidate(f"Loss-Net {text}", found[g * parts : (g + 1) * parts])
            for g, text in enumerate(_GRID)
        ]

    def _by_mmd(
        self, name: str, bodies: Sequence[nn.Module], head: Any = None
    ) -> list[nn.Module]:
        task, folds = self._task, self._folds
        return kept(
            task,
            name,
            bodies,
            lambda: train_mmd(
                task, bodies, folds.rows, folds.held_out, name, head=head
            ),
        )

    @property
    def _parts(self) -> list[tuple[int, np.ndarray]]:
        return list(enumerate(self._folds.rows))

    def _new(self, name: str, rows: np.ndarray, part: int) -> nn.Module:
        task = self._task
        return new_body(task, self._kind, free_outcomes(task, rows), task.rng(name))

    def _candidate(self, name: str, bodies: list[nn.Module]) -> Candidate:
        return Candidate(name, bodies, [self._task.head] * len(self._folds))
