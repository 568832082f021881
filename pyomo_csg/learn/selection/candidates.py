"""The candidates of ``'auto'``, each trained on every fold and on all rows at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyomo.environ as pyo
from torch import nn

from pyomo_csg.errors import CsgError
from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.distributions.copula_forest import augment
from pyomo_csg.learn.distributions.location_scale import scaled_residuals
from pyomo_csg.learn.distributions.samplers import (
    ObservedSampler,
    PooledSampler,
    ResidualSampler,
    Sampler,
    WeightedSampler,
)
from pyomo_csg.learn.methods.direct import Direct
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.static import (
    GRID,
    LossNetFit,
    load_loss_net_fits,
    save_loss_net_fits,
    standard_lambdas,
    train_static,
)
from pyomo_csg.learn.networks.initialization import (
    new_body,
    replicate_scenarios,
    unconstrained_outcomes,
)
from pyomo_csg.learn.selection.folds import Folds, FoldSamplers, uses_one_holdout
from pyomo_csg.learn.selection.scoring import best_body
from pyomo_csg.learn.selection.starting_points import starting_atoms, starting_constants
from pyomo_csg.learn.task import ORACLE_OPTIONS, Task
from pyomo_csg.learn.trainer import Schedule
from pyomo_csg.solve import Oracle

_ATOM_RATE = 5e-2
_CONSTANT_STEPS, _CONSTANT_BATCH, _CONSTANT_DRAWS = 100, 5, 48
_ATOM_STEPS, _ATOM_BATCH = 800, 10
_ATOM_DRAWS = 256  # residuals, of which few may be in the tail that matters
_INTEGER_STEPS, _INTEGER_BATCH = 30, 20
_ONE_STEPS = 100  # on programs of one scenario
_SLOW_BATCH, _SLOW_DRAWS = 8, 16  # with integer recourse: each cost is a program
_FAR_FROM_MMD, _NEAR_MMD = 0.03, 0.2


@dataclass(frozen=True, eq=False)
class FoldFit:
    """A network trained on one fold, with the Loss-Net that trained it, if any."""

    body: nn.Module
    head: Any
    loss_net_fit: LossNetFit | None = None


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to generate scenarios: one fit per fold, the last on all rows."""

    name: str
    fits: list[FoldFit]

    @property
    def bodies(self) -> list[nn.Module]:
        """The networks of all folds."""
        return [fit.body for fit in self.fits]

    @property
    def heads(self) -> list[Any]:
        """The heads of all folds."""
        return [fit.head for fit in self.fits]


def loss_net_candidates(
    names: Sequence[str], fits: Sequence[LossNetFit], heads: Sequence[Any]
) -> list[Candidate]:
    """Return one candidate per name; ``fits`` has all folds of the first, then the next."""
    remaining = iter(fits)
    return [
        Candidate(name, [FoldFit((fit := next(remaining)).body, h, fit) for h in heads])
        for name in names
    ]


@dataclass(frozen=True, eq=False)
class _Start:
    """A constant body to train on one fold."""

    body: nn.Module
    fold: int


class Candidates:
    """Trains the candidates on every fold.

    ``kind`` is the body that reads contexts, ``head`` the user's location and scale, if
    any. Training evaluates decisions on what ``samplers`` draw, one per fold; by default
    observed outcomes and those that a forest weights.
    """

    def __init__(
        self,
        task: Task,
        folds: Folds,
        kind: Any,
        head: Any = None,
        samplers: Sequence[Sampler] | None = None,
    ):
        self._task, self._folds, self._kind, self._head = task, folds, kind, head
        self._samplers = FoldSamplers(task, folds, head, samplers)

    def train_each(self) -> Iterator[Candidate]:
        """Yield every candidate once it is trained; the first solves no programs."""
        if self._head is not None:
            heads = [self._head] * len(self._folds)
            yield (atoms := self._mmd_atoms("location-scale, MMD", heads))
            if self.has_gradient:
                yield self._direct_atoms(heads)
            else:
                yield from self._on_loss_nets(atoms)
            return
        yield (mmd := self.mmd())
        if not self.has_gradient:
            starts = self._constant_starts(1)
            yield self._candidate("constant", [start.body for start in starts])
            yield from self._on_loss_nets(mmd)
            return
        yield self.constant()
        if self._task.history.has_panels:
            yield self._direct_atoms(self._samplers.forecasts)
        elif self._task.has_integers:
            yield self._direct_integer(mmd)
        else:
            observed = [ObservedSampler(self._task.history.outcomes)] * len(self._folds)
            training = self._samplers.training
            yield self._direct("direct", mmd.bodies, training, _FAR_FROM_MMD)
            yield self._direct("direct, near mmd", mmd.bodies, observed, _NEAR_MMD)

    def scoring_samplers(self) -> list[ResidualSampler | WeightedSampler | None]:
        """Return what decisions on held-out rows are evaluated on; None: the observed."""
        return self._samplers.scoring(self.has_gradient)

    @property
    def trusted(self) -> str | None:
        """The candidate to choose unless another is clearly better.

        With a user's location and scale, atoms trained on the task loss have little to
        get wrong, and few held-out residuals cost much. In a series, the effect of the
        context may change over time. Integer models have a single, small holdout.
        """
        if self._head is not None:
            return "location-scale" if self.has_gradient else None
        if self._task.history.has_panels:
            return None
        if self._task.config.rows == "series":
            return "constant"
        return "direct" if self._task.has_integers and self.has_gradient else None

    def mmd(self) -> Candidate:
        """Networks trained on the MMD loss."""
        bodies = [self._new_body("mmd", rows) for rows in self._folds.rows]
        return self._candidate("mmd", self._train_mmd("mmd", bodies))

    def constant(self) -> Candidate:
        """The same scenarios for every context, trained on the task loss."""
        task, outcomes = self._task, self._task.history.outcomes
        pools = [PooledSampler(outcomes, rows) for rows in self._folds.rows]
        heads = [task.head] * len(self._folds)
        if not task.has_integer_recourse:
            length = _CONSTANT_STEPS, _CONSTANT_BATCH, _CONSTANT_DRAWS
            starts = self._constant_starts(task.config.starts)
            return self._best_starts("constant", starts, pools, heads, *length)
        # Every cost is a program: train from one start, on few outcomes.
        first = [start.body for start in self._constant_starts(1)]
        trained = self._train_integer(
            "constant", first, pools, heads, _ATOM_RATE / 2, _SLOW_DRAWS
        )
        best = [
            best_body(task, [one, other], rows, pool, task.head)
            for one, other, rows, pool in zip(
                trained, first, self._folds.rows, pools, strict=True
            )
        ]
        return self._candidate("constant", best)

    def _constant_starts(self, count: int) -> list[_Start]:
        """Return the best of many random sets of scenarios, ``count`` per fold."""
        return [
            _Start(body, fold)
            for fold, rows in enumerate(self._folds.rows)
            for body in starting_constants(self._task, rows, count)
        ]

    @cached_property
    def has_gradient(self) -> bool:
        """Whether decisions move with scenarios, and the solver has their gradient."""
        task, rng = self._task, self._task.rng("gradient")
        picked = rng.integers(len(task.history), size=(8, task.scenarios))
        outcomes = task.history.outcomes
        try:
            found = task.oracle.loss_gradient(
                outcomes[picked],
                outcomes[rng.integers(len(outcomes), size=8)],
                **ORACLE_OPTIONS,
            )
        except CsgError:
            return False
        return bool(np.nan_to_num(found.gradient).any())

    def _direct(
        self,
        name: str,
        bodies: Sequence[nn.Module],
        samplers: Sequence[Sampler],
        regularization: float,
        oracle: Oracle | None = None,
    ) -> Candidate:
        """Networks trained on the task loss plus a little of the MMD loss.

        Without the MMD loss, networks may stall where all contexts have one decision,
        since the gradient is zero there.
        """
        trained = self._train_direct(
            name,
            bodies,
            self._folds.rows,
            samplers,
            oracle=oracle,
            regularization=regularization,
        )
        return self._candidate(name, trained)

    def _train_direct(
        self,
        stage: str,
        bodies: Sequence[nn.Module],
        rows: Sequence[np.ndarray],
        samplers: Sequence[Sampler],
        schedule: Schedule | None = None,
        **options: Any,
    ) -> list[nn.Module]:
        """Return bodies trained on the task loss; options are those of Direct."""

        def train() -> list[nn.Module]:
            direct = Direct(self._task, samplers, **options)
            return direct.train(bodies, rows, stage, schedule)

        return train_or_restore(self._task, stage, bodies, train)

    def _direct_integer(self, mmd: Candidate) -> Candidate:
        """Networks of one scenario on the task loss, then of K scenarios.

        Programs of one scenario are fast, which allows many steps with the integers; the
        networks of K scenarios start from their result. One scenario has no weights to
        learn, and a user's module has a fixed number of scenarios.
        """
        count, larger = self._task.scenarios, self._augmented
        weighted = self._task.config.weights == "learned"
        if count == 1 or isinstance(self._kind, nn.Module) or weighted:
            bodies = larger._train_relaxed_first("direct", mmd.bodies)
            return self._candidate("direct", bodies)
        one = larger._with_scenarios(1)
        start = [one._new_body("one scenario", rows) for rows in one._folds.rows]
        start = one._train_mmd("one scenario, mmd", start)
        found = one._train_relaxed_first("one scenario", start)
        rng = self._task.rng("widened")
        wide = [replicate_scenarios(body, count, rng) for body in found]
        rate = self._task.config.task_rate / 2
        bodies = larger._train_integer(
            "direct", wide, larger._samplers.training, None, rate, together=True
        )
        return self._candidate("direct", bodies)

    @cached_property
    def _augmented(self) -> Candidates:
        """The same on augmented rows, with samplers estimated fold by fold."""
        task, rows, forests = augment(self._task, self._folds.rows)
        folds = Folds(rows, self._folds.held_out)
        return Candidates(task, folds, self._kind, samplers=forests)

    def _with_scenarios(self, count: int) -> Candidates:
        """The same with another number of scenarios."""
        task, samplers = self._task.with_scenarios(count), self._samplers.training
        return Candidates(task, self._folds, self._kind, samplers=samplers)

    def _train_relaxed_first(
        self, name: str, bodies: Sequence[nn.Module]
    ) -> list[nn.Module]:
        """Train on the task loss of the relaxation, then of the integer model."""
        rate, samplers = self._task.config.task_rate / 2, self._samplers.training
        relaxed = self._direct(
            f"{name}, relaxed", bodies, samplers, _FAR_FROM_MMD, self._relaxed
        )
        longer = self._task.scenarios == 1
        return self._train_integer(
            name, relaxed.bodies, samplers, None, rate, longer=longer
        )

    def _direct_atoms(self, heads: Sequence[Any]) -> Candidate:
        """Constant atoms in units of location and scale, on the task loss."""
        starts, samplers = [], []
        for fold, (head, rows) in enumerate(zip(heads, self._folds.rows, strict=True)):
            sampler = self._samplers.residual_sampler(head, rows)
            atoms = starting_atoms(self._task, head, rows, sampler)
            starts += [_Start(body, fold) for body in atoms]
            samplers.append(sampler)
        length = _ATOM_STEPS, _ATOM_BATCH, _ATOM_DRAWS
        return self._best_starts("location-scale", starts, samplers, heads, *length)

    def _mmd_atoms(self, name: str, heads: Sequence[Any]) -> Candidate:
        """Constant atoms in units of location and scale, on the MMD loss."""
        task, bodies = self._task, []
        for head, rows in zip(heads, self._folds.rows, strict=True):
            residuals = scaled_residuals(task, head, rows)
            bodies.append(new_body(task, "constant", residuals, task.rng(f"{name} 0")))
        return self._candidate(name, self._train_mmd(name, bodies, heads[0]), heads)

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
        task, bodies = self._task, [start.body for start in starts]
        rows = [self._folds.rows[start.fold] for start in starts]
        schedule = Schedule.of_steps(steps, rows, batch, _ATOM_RATE, 0.0)
        trained = self._train_direct(
            f"{name} starts",
            bodies,
            rows,
            [samplers[start.fold] for start in starts],
            schedule,
            heads=[heads[start.fold] for start in starts],
            oracle=self._relaxed if task.has_integers else None,
            draws=draws,
        )
        # Training may end with a higher cost than its start, so both are compared.
        tried = [
            *(_Start(body, s.fold) for body, s in zip(trained, starts, strict=True)),
            *starts,
        ]
        best = [
            best_body(
                task,
                [start.body for start in tried if start.fold == fold],
                self._folds.rows[fold],
                samplers[fold],
                head,
                draws,
            )
            for fold, head in enumerate(heads)
        ]
        if task.has_integers:
            best = self._train_integer(
                name, best, samplers, heads, _ATOM_RATE / 2, draws
            )
        return self._candidate(name, best, heads)

    def _train_integer(
        self,
        name: str,
        bodies: Sequence[nn.Module],
        samplers: Sequence[Sampler],
        heads: Sequence[Any] | None,
        rate: float,
        draws: int | None = None,
        longer: bool = False,
        together: bool = False,
    ) -> list[nn.Module]:
        """Train on the integer model, for the few steps that its programs allow."""
        task = self._task
        rng, rows = task.rng(f"{name} rows"), []
        steps, batch = _INTEGER_STEPS, _INTEGER_BATCH
        if task.has_integer_recourse:
            batch = _SLOW_BATCH
        if longer:
            steps, batch = _ONE_STEPS, 2 * batch
        for mine in self._folds.rows:
            count = min(len(mine), steps * batch)
            rows.append(np.sort(rng.choice(mine, count, replace=False)))
        schedule = Schedule.of_steps(steps, rows, batch, rate, 0.0)
        return self._train_direct(
            name,
            bodies,
            rows,
            samplers,
            schedule,
            heads=heads,
            draws=draws,
            together=together,
        )

    @cached_property
    def _relaxed(self) -> Oracle:
        """The oracle of the model with its integers relaxed."""
        model = self._task.oracle.two_stage.copied().model
        pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
        return self._task.oracle.on(model)

    def _on_loss_nets(self, mmd: Candidate) -> list[Candidate]:
        """Networks trained on a Loss-Net, one candidate for each lambda of a grid."""
        task, stage, count = self._task, "Loss-Net", len(GRID)
        start = mmd.bodies * count
        fits = load_loss_net_fits(task, stage, start)
        if fits is None:
            first_entry = len(task.log.entries)
            lambdas = [*np.repeat(standard_lambdas(task), len(self._folds))]
            rows, heads = self._folds.rows * count, mmd.heads * count
            fits = train_static(task, start, lambdas, rows, stage, head=heads)
            save_loss_net_fits(task, stage, fits, first_entry)
        names = [f"Loss-Net {factor:g}" for factor in GRID]
        return loss_net_candidates(names, fits, mmd.heads)

    def _train_mmd(
        self, name: str, bodies: Sequence[nn.Module], head: Any = None
    ) -> list[nn.Module]:
        task, folds = self._task, self._folds
        # A single holdout of few rows is too small for early stopping.
        single = uses_one_holdout(task) and not task.history.has_panels
        held_out = None if single else folds.held_out
        return train_or_restore(
            task,
            name,
            bodies,
            lambda: train_mmd(task, bodies, folds.rows, held_out, name, head=head),
        )

    def _new_body(self, name: str, rows: np.ndarray) -> nn.Module:
        points = unconstrained_outcomes(self._task, rows)
        return new_body(self._task, self._kind, points, self._task.rng(name))

    def _candidate(
        self, name: str, bodies: Sequence[nn.Module], heads: Sequence[Any] | None = None
    ) -> Candidate:
        heads = heads or [self._task.head] * len(self._folds)
        return Candidate(
            name, [FoldFit(*pair) for pair in zip(bodies, heads, strict=True)]
        )
