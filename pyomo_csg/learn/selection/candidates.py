"""The candidates of ``'auto'``, each trained on every fold and on all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
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
from pyomo_csg.learn.methods.loss_net_stages import TrainedOnLossNet, kept_followed
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.static import GRID, standard_lambda, train_static
from pyomo_csg.learn.methods.surrogate_diagnostics import loss_net_trust
from pyomo_csg.learn.networks.initialization import (
    new_body,
    replicate_scenarios,
    unconstrained_outcomes,
)
from pyomo_csg.learn.networks.task_nets import LocationScaleHead
from pyomo_csg.learn.selection.fold_samplers import FoldSamplers
from pyomo_csg.learn.selection.folds import Folds, uses_one_holdout
from pyomo_csg.learn.selection.scoring import best_body
from pyomo_csg.learn.selection.starting_points import starting_atoms, starting_constants
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule
from pyomo_csg.solve import Oracle

_ATOM_RATE = 5e-2
_CONSTANT_STEPS, _CONSTANT_BATCH, _CONSTANT_DRAWS = 100, 5, 48
_ATOM_STEPS, _ATOM_BATCH = 800, 10
_ATOM_DRAWS = 256  # of errors, of which few may be in the tail that decides
_INTEGER_STEPS, _INTEGER_BATCH = 30, 20
_ONE_STEPS = 100  # on programs of one scenario
_SLOW_BATCH, _SLOW_DRAWS = 8, 16  # with integer recourse: each outcome is a program
_FAR_FROM_MMD, _NEAR_MMD = 0.03, 0.2


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to generate scenarios, trained on each part of the folds.

    Attributes
    ----------
    name : str
    bodies : list of Module
    heads : list of Head
    examined : callable, optional
        Returns what a report says of the Loss-Net that the last body followed.
    """

    name: str
    bodies: list[nn.Module]
    heads: list[Any] = field(default_factory=list)
    examined: Callable[[], dict[str, Any]] = dict


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
    likely : list of Likely, optional
        What each part's decisions are charged for in training. Default: what did happen,
        and what happened after contexts that forests find alike.
    """

    def __init__(
        self,
        task: Task,
        folds: Folds,
        kind: Any,
        head: Any = None,
        likely: list[Sampler] | None = None,
    ):
        self._task, self._folds, self._kind, self._head = task, folds, kind, head
        self._charges = FoldSamplers(task, folds, head, likely)

    def each(self) -> Iterator[Candidate]:
        """Yield every candidate, once it is trained; the first solves nothing."""
        if self._head is not None:
            heads = [self._head] * len(self._folds)
            yield (atoms := self._atoms("location-scale, MMD", heads))
            if self.has_gradient:
                yield self._direct_atoms(heads)
            else:
                yield from self._followers(atoms)
            return
        yield (mmd := self.mmd())
        if not self.has_gradient:
            yield self._candidate("constant", self._constants(1))
            yield from self._followers(mmd)
            return
        yield self.constant()
        if self._task.history.has_panels:
            yield self._direct_atoms(self._charges.forecasts)
            return
        if self._task.has_integers:
            yield self._from_one(mmd)
            return
        own = [ObservedSampler(self._task.history.outcomes)] * len(self._folds)
        yield self._direct("direct", mmd.bodies, self._charges.likely, _FAR_FROM_MMD)
        yield self._direct("direct, near mmd", mmd.bodies, own, _NEAR_MMD)

    def judges(self) -> list[ResidualSampler | WeightedSampler | None]:
        """Return what each part's decisions are charged for on held-out rows."""
        return self._charges.judges(self.has_gradient)

    @property
    def trusted(self) -> str | None:
        """The candidate that is taken unless another is clearly better.

        Where the user gives the law, atoms on the task loss have little to get wrong, and
        the few held-out errors that cost much cannot tell them from the others. In a
        series, what context told of some stretches may not hold for the next. Integer
        models are judged on one part of the history, which says little.
        """
        if self._head is not None:
            return "location-scale" if self.has_gradient else None
        if self._task.history.has_panels:
            return None
        if self._task.config.rows == "series":
            return "constant"
        return "direct" if self._task.has_integers and self.has_gradient else None

    def mmd(self) -> Candidate:
        """Networks on the MMD loss."""
        bodies = [self._new("mmd", rows) for rows in self._folds.rows]
        return self._candidate("mmd", self._by_mmd("mmd", bodies))

    def constant(self) -> Candidate:
        """The same scenarios for every context, on the task loss."""
        task, outcomes = self._task, self._task.history.outcomes
        pools = [PooledSampler(outcomes, rows) for rows in self._folds.rows]
        heads = [task.head] * len(self._folds)
        if task.has_integer_recourse:
            return self._slow_constant(pools, heads)
        length = _CONSTANT_STEPS, _CONSTANT_BATCH, _CONSTANT_DRAWS
        bodies = self._constants(task.config.starts)
        return self._best_starts("constant", bodies, pools, heads, *length)

    def _slow_constant(
        self, pools: Sequence[Sampler], heads: Sequence[Any]
    ) -> Candidate:
        """The same where every cost is a program: from one start, with few outcomes."""
        start = self._constants(1)
        rate, draws = _ATOM_RATE / 2, _SLOW_DRAWS
        found = self._finished("constant", start, pools, heads, rate, draws)
        parts = zip(found, start, self._folds.rows, pools, heads, strict=True)
        best = [
            best_body(self._task, [one, other], rows, pool, head)
            for one, other, rows, pool, head in parts
        ]
        return Candidate("constant", best, list(heads))

    def _constants(self, starts: int) -> list[nn.Module]:
        """Return the best of many draws of scenarios, so many for each part."""
        parts = (
            starting_constants(self._task, rows, starts) for rows in self._folds.rows
        )
        return list(chain.from_iterable(parts))

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

    def _direct(
        self,
        name: str,
        bodies: Sequence[nn.Module],
        likely: Sequence[Sampler],
        regularization: float,
        oracle: Oracle | None = None,
    ) -> Candidate:
        """Networks on the task loss, with a little of the MMD loss.

        Without any, networks may come to rest where all contexts have one decision, since
        nothing pulls there.
        """

        def train() -> list[nn.Module]:
            direct = Direct(
                self._task, likely, oracle=oracle, regularization=regularization
            )
            return direct.train(bodies, self._folds.rows, name)

        return self._candidate(name, train_or_restore(self._task, name, bodies, train))

    def _from_one(self, mmd: Candidate) -> Candidate:
        """Networks of one scenario on the task loss, then of as many as are wanted.

        Programs of one scenario are quick, so that there is time for many steps on the
        integers; those of more start near what was found. One scenario has no weights to
        learn, and a module of the user's own has as many as it has.
        """
        count, larger = self._task.scenarios, self._enlarged
        weighted = self._task.config.weights == "learned"
        if count == 1 or isinstance(self._kind, nn.Module) or weighted:
            return self._candidate("direct", larger._whole("direct", mmd.bodies))
        one = larger._with_scenarios(1)
        start = [one._new("one scenario", rows) for rows in one._folds.rows]
        found = one._whole("one scenario", one._by_mmd("one scenario, mmd", start))
        rng = self._task.rng("widened")
        wide = [replicate_scenarios(body, count, rng) for body in found]
        rate = self._task.config.task_rate / 2
        bodies = larger._finished(
            "direct", wide, larger._charges.likely, None, rate, together=True
        )
        return self._candidate("direct", bodies)

    @cached_property
    def _enlarged(self) -> Candidates:
        """The same with more pairs, charged by laws that were estimated part by part."""
        task, rows, forests = augment(self._task, self._folds.rows)
        folds = Folds(rows, self._folds.held_out)
        return Candidates(task, folds, self._kind, likely=list(forests))

    def _with_scenarios(self, count: int) -> Candidates:
        """The same with another number of scenarios."""
        task = self._task.with_scenarios(count)
        return Candidates(task, self._folds, self._kind, likely=self._charges.likely)

    def _whole(self, name: str, bodies: Sequence[nn.Module]) -> list[nn.Module]:
        """Train on the task loss: first on the relaxation, then with the integers."""
        rate, likely = self._task.config.task_rate / 2, self._charges.likely
        relaxed = self._direct(
            f"{name}, relaxed", bodies, likely, _FAR_FROM_MMD, self._relaxed
        )
        longer = self._task.scenarios == 1
        return self._finished(name, relaxed.bodies, likely, None, rate, longer=longer)

    def _direct_atoms(self, heads: Sequence[Any]) -> Candidate:
        """Constant atoms in units of location and scale, on the task loss."""
        pairs = list(zip(heads, self._folds.rows, strict=True))
        likely = [self._charges.errors(head, rows) for head, rows in pairs]
        parts = zip(pairs, likely, strict=True)
        starts = (starting_atoms(self._task, *pair, errors) for pair, errors in parts)
        bodies = list(chain.from_iterable(starts))
        length = _ATOM_STEPS, _ATOM_BATCH, _ATOM_DRAWS
        return self._best_starts("location-scale", bodies, likely, heads, *length)

    def _atoms(self, name: str, heads: Sequence[LocationScaleHead]) -> Candidate:
        """Constant atoms in units of location and scale, on the MMD loss."""
        task = self._task
        bodies = [
            new_body(
                task,
                "constant",
                scaled_residuals(task, head, rows),
                task.rng(f"{name} 0"),
            )
            for head, rows in zip(heads, self._folds.rows, strict=True)
        ]
        return Candidate(name, self._by_mmd(name, bodies, heads[0]), list(heads))

    def _best_starts(
        self,
        name: str,
        bodies: Sequence[nn.Module],
        likely: Sequence[Sampler],
        heads: Sequence[Any],
        steps: int,
        batch: int,
        draws: int,
    ) -> Candidate:
        """Train constant free numbers from several starts; keep each part's best."""
        task, starts = self._task, len(bodies) // len(heads)
        parts = [part for part in range(len(heads)) for _ in range(starts)]
        rows = [self._folds.rows[part] for part in parts]
        schedule = Schedule.of_steps(steps, rows, batch, _ATOM_RATE, 0.0)

        def train() -> list[nn.Module]:
            direct = Direct(
                task,
                [likely[part] for part in parts],
                [heads[part] for part in parts],
                self._relaxed if task.has_integers else None,
                draws=draws,
            )
            return direct.train(bodies, rows, f"{name} starts", schedule)

        trained = train_or_restore(task, f"{name} starts", bodies, train)
        best = [
            best_body(
                task,
                [
                    body
                    for some in (trained, bodies)  # a descent may end above its start
                    for body in some[part * starts : (part + 1) * starts]
                ],
                self._folds.rows[part],
                likely[part],
                heads[part],
                draws,
            )
            for part in range(len(heads))
        ]
        if task.has_integers:
            best = self._finished(name, best, likely, heads, _ATOM_RATE / 2, draws)
        return Candidate(name, best, list(heads))

    def _finished(
        self,
        name: str,
        bodies: Sequence[nn.Module],
        likely: Sequence[Sampler],
        heads: Sequence[Any] | None,
        rate: float,
        draws: int | None = None,
        longer: bool = False,
        together: bool = False,
    ) -> list[nn.Module]:
        """Go on with the integers, for the few steps that their programs allow."""
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

        def train() -> list[nn.Module]:
            direct = Direct(task, likely, heads, draws=draws, together=together)
            return direct.train(bodies, rows, name, schedule)

        return train_or_restore(task, name, bodies, train)

    @cached_property
    def _relaxed(self) -> Oracle:
        """The oracle of the model with its integers taken as continuous."""
        model = self._task.oracle.two_stage.copied().model
        pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
        return self._task.oracle.on(model)

    def _followers(self, mmd: Candidate) -> list[Candidate]:
        """Networks that follow a Loss-Net, one for each lambda of a grid."""
        task, rows = self._task, self._folds.rows
        start = [body for _ in GRID for body in mmd.bodies]
        lambdas = [standard_lambda(factor, task) for factor in GRID for _ in rows]

        def train() -> TrainedOnLossNet:
            heads = mmd.heads * len(GRID)
            found = train_static(
                task, start, lambdas, rows * len(GRID), "Loss-Net", head=heads
            )
            return TrainedOnLossNet(found.bodies, found.loss_nets, found.samples)

        found = kept_followed(task, "Loss-Net", start, train)
        parts = len(rows)
        return [
            Candidate(
                f"Loss-Net {factor:g}",
                found.bodies[last + 1 - parts : last + 1],
                mmd.heads,
                partial(loss_net_trust, task, found, last, mmd.heads[-1]),
            )
            for factor, last in zip(
                GRID, range(parts - 1, len(start), parts), strict=True
            )
        ]

    def _by_mmd(
        self, name: str, bodies: Sequence[nn.Module], head: Any = None
    ) -> list[nn.Module]:
        task, folds = self._task, self._folds
        # A fifth of few pairs, held out once, is too little to say when to stop.
        once = uses_one_holdout(task) and not task.history.has_panels
        held_out = None if once else folds.held_out
        return train_or_restore(
            task,
            name,
            bodies,
            lambda: train_mmd(task, bodies, folds.rows, held_out, name, head=head),
        )

    def _new(self, name: str, rows: np.ndarray) -> nn.Module:
        task = self._task
        return new_body(
            task, self._kind, unconstrained_outcomes(task, rows), task.rng(name)
        )

    def _candidate(self, name: str, bodies: list[nn.Module]) -> Candidate:
        return Candidate(name, bodies, [self._task.head] * len(self._folds))
