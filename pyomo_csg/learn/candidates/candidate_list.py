"""The candidates of ``'auto'``, each fitted to every fold and to all rows at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import nn

from pyomo_csg.learn.candidates.atoms import AtomTraining
from pyomo_csg.learn.candidates.fits import (
    Candidate,
    NetworkFit,
    loss_net_candidates,
    network_candidate,
)
from pyomo_csg.learn.candidates.fold_distributions import (
    FoldDistributions,
    FoldForecasts,
)
from pyomo_csg.learn.candidates.integer_training import IntegerTraining
from pyomo_csg.learn.candidates.starting_points import (
    starting_atoms,
    starting_constants,
)
from pyomo_csg.learn.candidates.untrained import (
    SAMPLE_AVERAGE,
    reduced_name,
    untrained_candidates,
)
from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.distributions.location_scale import scaled_residuals
from pyomo_csg.learn.distributions.samplers import (
    ObservedSampler,
    PooledSampler,
    ResidualSampler,
    Sampler,
)
from pyomo_csg.learn.methods.direct import Direct
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.static import (
    GRID,
    load_loss_net_fits,
    save_loss_net_fits,
    standard_lambdas,
    train_static,
)
from pyomo_csg.learn.networks.initialization import new_body, unconstrained_outcomes
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.selection.plan import Plan, steps_and_batch
from pyomo_csg.learn.selection.scoring import Scoreboard, best_fit
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule, sampled_rows

_ATOM_RATE = 5e-2
_CONSTANT_STEPS, _CONSTANT_BATCH, _CONSTANT_DRAWS = 100, 5, 48
_ATOM_STEPS, _ATOM_BATCH = 800, 10
_ATOM_DRAWS = 256  # residuals, of which few may be in the tail that matters
_FAR_FROM_MMD, _NEAR_MMD = 0.03, 0.2
_LEADERS = 3


@dataclass(frozen=True, eq=False)
class _Start:
    """A constant body to train on one fold."""

    body: nn.Module
    fold: int


class Candidates:
    """Fits the candidates to every fold, the cheap ones first.

    ``kind`` is the body that reads contexts, and ``head`` the user's location and scale,
    if any. ``board`` has the mean costs of the candidates so far: training follows the
    distribution whose decisions cost least.
    """

    board: Scoreboard | None = None
    has_distributions = False

    def __init__(
        self,
        task: Task,
        folds: Folds,
        plan: Plan,
        kind: Any,
        head: Any = None,
    ):
        self._task, self._folds, self._plan = task, folds, plan
        self._kind, self._head = kind, head
        self.distributions = FoldDistributions(task, folds, plan.kinds)
        self._forecasts = FoldForecasts(task, folds, head)

    def each(self, chooses_network: bool = True) -> Iterator[Candidate]:
        """Yield every candidate once it is fitted; the first ones solve no programs.

        A network that the user chose has only the sample average beside it.
        """
        if self._head is not None:
            yield from self._with_users_head()
            return
        distributions = self.distributions
        self.has_distributions = chooses_network
        if not chooses_network:
            distributions = FoldDistributions(self._task, self._folds, ("empirical",))
        yield from untrained_candidates(self._task, distributions)
        yield (mmd := self.mmd())
        if not self._plan.has_gradient:
            if self._plan.labels:
                yield from self._on_loss_nets(mmd)
        elif self._plan.programs:
            yield from self._on_decision_costs(mmd, chooses_network)

    def _with_users_head(self) -> Iterator[Candidate]:
        heads = self._forecasts.heads
        yield (atoms := self._mmd_atoms("location-scale, MMD", heads))
        if self._plan.has_gradient and self._plan.programs:
            yield self._location_scale()
        elif self._plan.labels and not self._plan.has_gradient:
            yield from self._on_loss_nets(atoms)

    def _on_decision_costs(
        self, mmd: Candidate, chooses_network: bool
    ) -> Iterator[Candidate]:
        """Yield the candidates that are trained on the costs of their decisions."""
        if self._task.history.has_panels:
            yield self.constant()
            yield self._location_scale()
            return
        if chooses_network and self.distributions.residual_names:
            atoms = AtomTraining(
                self._task, self._folds, self._plan, self.distributions
            )
            yield (found := atoms.train(self._best_residuals(), self._sampled()))
            if not self._task.has_integers:
                yield atoms.train_networks(found, self._sampled())
        if self._task.has_integers:
            training = IntegerTraining(
                self._task, self._folds, self._plan, self._kind, self._sampled()
            )
            yield training.train(mmd)
            return
        observed = [ObservedSampler(self._task.history.outcomes)] * len(self._folds)
        yield self._direct("direct", mmd.bodies, self._sampled(), _FAR_FROM_MMD)
        if not chooses_network or self._leads("mmd", "direct"):
            yield self._direct("direct, near mmd", mmd.bodies, observed, _NEAR_MMD)
        if not chooses_network or self._leads(SAMPLE_AVERAGE):
            yield self.constant()

    def _leads(self, *names: str) -> bool:
        """Whether one of these is among the best three candidates so far."""
        means = {} if self.board is None else self.board.means
        best = sorted(means, key=lambda name: means[name])[:_LEADERS]
        return any(name in best for name in names)

    @property
    def trusted(self) -> str | None:
        """The candidate to choose unless another is clearly better.

        With a user's location and scale, atoms trained on the task loss have little to
        get wrong, and few held-out residuals cost much.
        """
        has_head = self._head is not None and self._plan.has_gradient
        return "location-scale" if has_head else None

    def scoring_samplers(self) -> list[ResidualSampler] | None:
        """Return what held-out decisions are evaluated on; None: the observed outcomes.

        With a location and scale, of the user or by LSTMs for panels, all their residuals
        serve.
        """
        uses_forecast = self._task.history.has_panels and self._plan.has_gradient
        if self._head is None and not uses_forecast:
            return None
        return self._forecasts.scoring_samplers()

    def mmd(self) -> Candidate:
        """Networks trained on the MMD loss."""
        bodies = [self._new_body("mmd", rows) for rows in self._folds.rows]
        heads = [self._task.head] * len(self._folds)
        return network_candidate("mmd", self._train_mmd("mmd", bodies), heads)

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

    @cached_property
    def _best_distribution(self) -> str:
        """The distribution whose reduction decides best; the last one without scores."""
        return self._best_of(self.distributions.names)

    def _best_residuals(self) -> str:
        """The best of the distributions that forecast."""
        return self._best_of(self.distributions.residual_names)

    def _best_of(self, names: Sequence[str]) -> str:
        found = self.distributions.by_fold[0]
        if self.board is None or not self.has_distributions:
            return names[-1]
        means = self.board.means
        return min(names, key=lambda name: means.get(reduced_name(found[name]), np.inf))

    def _sampled(self) -> list[Sampler]:
        """Return what decisions are evaluated on in training, for each fold."""
        return [*self.distributions.samplers(self._best_distribution)]

    def _direct(
        self,
        name: str,
        bodies: Sequence[nn.Module],
        samplers: Sequence[Sampler],
        regularization: float,
    ) -> Candidate:
        """Networks trained on the task loss plus a little of the MMD loss.

        Without the MMD loss, networks may stall where all contexts have one decision,
        since the gradient is zero there.
        """
        config, folds = self._task.config, self._folds
        rows = sampled_rows(
            folds.rows, self._plan.programs, config.task_epochs, self._task.rng(name)
        )
        trained = self._train_direct(
            name,
            bodies,
            rows,
            samplers,
            regularization=regularization,
            draws=self._plan.draws,
        )
        return network_candidate(name, trained, [self._task.head] * len(folds))

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

    def _location_scale(self) -> Candidate:
        """Constant atoms in units of location and scale, on the task loss."""
        starts, heads = [], self._forecasts.heads
        samplers = self._forecasts.training_samplers()
        for fold, rows in enumerate(self._folds.rows):
            atoms = starting_atoms(
                self._task, heads[fold], rows, samplers[fold], self._plan.sets
            )
            starts += [_Start(body, fold) for body in atoms]
        length = _ATOM_STEPS, _ATOM_BATCH, _ATOM_DRAWS
        return self._best_starts("location-scale", starts, samplers, heads, *length)

    def _mmd_atoms(self, name: str, heads: Sequence[Any]) -> Candidate:
        """Constant atoms in units of location and scale, on the MMD loss."""
        task, bodies = self._task, []
        for head, rows in zip(heads, self._folds.rows, strict=True):
            residuals = scaled_residuals(task, head, rows)
            bodies.append(new_body(task, "constant", residuals, task.rng(f"{name} 0")))
        return network_candidate(name, self._train_mmd(name, bodies, heads[0]), heads)

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
        trained = self._train_direct(
            f"{name} starts",
            bodies,
            rows,
            [samplers[start.fold] for start in starts],
            schedule,
            heads=[heads[start.fold] for start in starts],
            oracle=task.relaxed,
            draws=draws,
        )
        # Training may end with a higher cost than its start, so both are compared.
        tried = [
            *(_Start(body, s.fold) for body, s in zip(trained, starts, strict=True)),
            *starts,
        ]
        best = []
        for fold, head in enumerate(heads):
            fits = [NetworkFit(one.body, head) for one in tried if one.fold == fold]
            rows_here, sampler = self._folds.rows[fold], samplers[fold]
            number = best_fit(task, fits, rows_here, sampler, draws, plan.compared)
            best.append(fits[number].body)
        if task.has_integers:
            training = IntegerTraining(task, self._folds, plan, self._kind, samplers)
            best = training.polish(name, best, heads, _ATOM_RATE / 2, draws)
        return network_candidate(name, best, heads)

    def _on_loss_nets(self, mmd: Candidate) -> list[Candidate]:
        """Networks trained on a Loss-Net, one candidate for each lambda of a grid."""
        task, stage, count = self._task, "Loss-Net", len(GRID)
        start = mmd.bodies * count
        fits = load_loss_net_fits(task, stage, start)
        if fits is None:
            first_entry = len(task.log.entries)
            lambdas = [*np.repeat(standard_lambdas(task), len(self._folds))]
            rows = sampled_rows(
                self._folds.rows, self._plan.labels, 1, task.rng(f"{stage} rows")
            )
            fits = train_static(
                task,
                start,
                lambdas,
                rows * count,
                stage,
                head=mmd.heads * count,
                kind=self._plan.loss_kind,
            )
            save_loss_net_fits(task, stage, fits, first_entry)
        names = [f"Loss-Net {factor:g}" for factor in GRID]
        return loss_net_candidates(names, fits, mmd.heads)

    def _train_mmd(
        self, name: str, bodies: Sequence[nn.Module], head: Any = None
    ) -> list[nn.Module]:
        task, folds = self._task, self._folds
        # A single holdout of few rows is too small for early stopping.
        single = self._plan.folds == 1 and not task.history.has_panels
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
