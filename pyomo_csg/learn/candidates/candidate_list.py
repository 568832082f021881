"""The candidates of ``'auto'``, each fitted to every fold and to all rows at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import nn

from pyomo_csg.learn.candidates.atoms import AtomTraining
from pyomo_csg.learn.candidates.fold_distributions import (
    FoldDistributions,
    FoldForecasts,
)
from pyomo_csg.learn.candidates.integer_training import IntegerTraining
from pyomo_csg.learn.candidates.several_starts import ConstantTraining
from pyomo_csg.learn.candidates.untrained import (
    SAMPLE_AVERAGE,
    reduced_name,
    untrained_candidates,
)
from pyomo_csg.learn.distributions.conditional import WEIGHTED
from pyomo_csg.learn.distributions.forecasts.fitting import FORECASTS
from pyomo_csg.learn.distributions.samplers import (
    ObservedSampler,
    ResidualSampler,
    Sampler,
)
from pyomo_csg.learn.distributions.user_distribution import USERS
from pyomo_csg.learn.methods.direct import train_direct
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.static import (
    GRID,
    load_loss_net_fits,
    save_loss_net_fits,
    standard_lambdas,
    train_static,
)
from pyomo_csg.learn.networks.initialization import new_bodies, new_body
from pyomo_csg.learn.networks.location_scale import scaled_residuals
from pyomo_csg.learn.selection.fits import (
    Candidate,
    Fit,
    loss_net_candidates,
    network_candidate,
)
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.selection.plan import FEW_ROWS, Plan
from pyomo_csg.learn.selection.scoring import Scoreboard
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import sampled_rows

_FAR_FROM_MMD, _NEAR_MMD = 0.03, 0.2
_LEADERS = 3
_USERS_ATOMS = "location-scale, MMD"
_LOSS_NETS = tuple(f"Loss-Net {factor:g}" for factor in GRID)
_UNTRAINED = (
    USERS,
    SAMPLE_AVERAGE,
    *(kind for kind in WEIGHTED if kind != "empirical"),
    *(f"{kind} residuals" for kind in FORECASTS),
    "mixture",
)
# All names, for the user to pick from.
CANDIDATES = (
    *_UNTRAINED,
    "mmd",
    "trained atoms",
    "networks on atoms",
    "direct",
    "direct, near mmd",
    "constant",
    "location-scale",
    _USERS_ATOMS,
    *_LOSS_NETS,
)


class Candidates:
    """Fits the candidates to every fold, the cheap ones first.

    ``kind`` is the body that reads contexts, and ``head`` the user's location and scale,
    if any. ``names`` are the only candidates to try, if any. ``board`` has the mean costs of
    the candidates so far: training draws outcomes from the distribution whose decisions
    cost least. A candidate is fitted once, even if several others start from it.
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
        names: Sequence[str] | None = None,
    ):
        self._task, self._folds, self._plan = task, folds, plan
        self._kind, self._head, self._names = kind, head, names
        self.distributions = FoldDistributions(task, folds, plan.kinds)
        self._forecasts = FoldForecasts(task, folds, head)
        self._constants = ConstantTraining(task, folds, plan, kind)
        self._fitted: dict[str, Candidate] = {}
        self._leaders: dict[tuple[str, ...], str] = {}

    def each(self, chooses_network: bool = True) -> Iterator[Candidate]:
        """Yield every candidate once it is fitted; the first ones solve no programs.

        If the user chose the network, the sample average is the only other candidate.
        """
        if self._head is not None:
            yield from self._with_users_head()
            return
        wants_untrained = any(map(self._is_wanted, _UNTRAINED))
        self.has_distributions = chooses_network and wants_untrained
        yield from self._untrained()
        yield from self._trained("mmd")
        if not self._plan.has_gradient:
            if self._plan.labels:
                yield from self._trained(*_LOSS_NETS)
        elif self._plan.programs:
            yield from self._on_decision_costs(chooses_network)

    def fit_to_all_rows(self, name: str) -> Fit:
        """Return a candidate's fit to all rows, after a comparison on folds alone."""
        task, everything = self._task.stored_within("all rows"), self._folds.all_rows
        other = Candidates(
            task, everything, self._plan, self._kind, self._head, self._names
        )
        other.has_distributions, other._leaders = self.has_distributions, self._leaders
        if name in self._fitted:
            return other._trained_candidate(name).fits[-1]
        return next(one for one in other._untrained() if one.name == name).fits[-1]

    def _untrained(self) -> Iterator[Candidate]:
        # The sample average is there at once, before distributions are estimated.
        plain = FoldDistributions(self._task, self._folds, ("empirical",))
        found = [self.distributions] if self.has_distributions else []
        if not found or "empirical" in self._plan.kinds:
            found = [plain, *found]
        yielded = set()
        for distributions in found:
            for candidate in untrained_candidates(self._task, distributions):
                if self._is_wanted(candidate.name) and candidate.name not in yielded:
                    yielded.add(candidate.name)
                    yield candidate

    def _is_wanted(self, name: str) -> bool:
        return self._names is None or name in self._names

    def _trained(self, *names: str) -> Iterator[Candidate]:
        """Yield trained candidates by name, without those that the user does not want."""
        for name in names:
            if self._is_wanted(name):
                yield self._trained_candidate(name)

    def _with_users_head(self) -> Iterator[Candidate]:
        yield from self._trained(_USERS_ATOMS)
        if self._plan.has_gradient and self._plan.programs:
            yield from self._trained("location-scale")
        elif self._plan.labels and not self._plan.has_gradient:
            yield from self._trained(*_LOSS_NETS)

    def _on_decision_costs(self, chooses_network: bool) -> Iterator[Candidate]:
        """Yield the candidates that are trained on the costs of their decisions."""
        if self._task.history.has_panels:
            yield from self._trained("location-scale")
            yield from self._trained("constant")
            return
        has_integers = self._task.has_integers
        if chooses_network and self.distributions.residual_names:
            yield from self._trained("trained atoms")
            if not has_integers:
                yield from self._trained("networks on atoms")
        is_short = len(self._task.history) < FEW_ROWS
        if chooses_network and is_short and self._names is None:
            return
        yield from self._trained("direct")
        if has_integers:
            return
        if (
            self._names is not None
            or not chooses_network
            or self._leads("mmd", "direct")
        ):
            yield from self._trained("direct, near mmd")
        if (
            self._names is not None
            or not chooses_network
            or self._context_may_not_pay()
        ):
            yield from self._trained("constant")

    def _trained_candidate(self, name: str) -> Candidate:
        """Return a trained candidate by its name; train those that it starts from first."""
        if name not in self._fitted:
            self._fitted |= {one.name: one for one in self._train(name)}
        return self._fitted[name]

    def _train(self, name: str) -> Sequence[Candidate]:
        match name:
            case "mmd":
                return [self.mmd()]
            case "trained atoms":
                return [
                    self._atoms.train(self._best_residuals(), self._outcome_samplers())
                ]
            case "networks on atoms":
                atoms = self._trained_candidate("trained atoms")
                return [self._atoms.train_networks(atoms, self._outcome_samplers())]
            case "direct" if self._task.has_integers:
                return [self._integers.train(lambda: self._trained_candidate("mmd"))]
            case "direct":
                return [self._direct(name, self._outcome_samplers(), _FAR_FROM_MMD)]
            case "direct, near mmd":
                observed = self._task.target_sampler or ObservedSampler(
                    self._task.history.outcomes
                )
                return [self._direct(name, [observed] * len(self._folds), _NEAR_MMD)]
            case "constant":
                return [self._constants.constant()]
            case "location-scale":
                return [self._constants.location_scale(self._forecasts)]
            case _ if name == _USERS_ATOMS:
                return [self._mmd_atoms(name, self._forecasts.heads)]
        start = "mmd" if self._head is None else _USERS_ATOMS
        return self._on_loss_nets(self._trained_candidate(start))

    @property
    def _atoms(self) -> AtomTraining:
        return AtomTraining(self._task, self._folds, self._plan, self.distributions)

    @property
    def _integers(self) -> IntegerTraining:
        return IntegerTraining(
            self._task, self._folds, self._plan, self._kind, self._outcome_samplers()
        )

    def _context_may_not_pay(self) -> bool:
        """Whether one decision for all contexts could be as good as the candidates so far.

        K clusters of all outcomes may decide badly where trained scenarios would not: they
        leave out the tails. So a series is asked for the decision on all outcomes as well.
        """
        if self._leads(SAMPLE_AVERAGE):
            return True
        has_known = self._task.history.known.shape[1] > 0  # a decision for each row
        if self.board is None or has_known or self._task.config.rows != "series":
            return False
        return self.board.sample_average_competes()

    def _leads(self, *names: str) -> bool:
        """Whether one of these is among the best three candidates so far."""
        means = {} if self.board is None else self.board.means
        best = sorted(means, key=lambda name: means[name])[:_LEADERS]
        return any(name in best for name in names)

    @property
    def trusted(self) -> str | None:
        """The candidate to choose unless another is clearly better.

        With a user's location and scale, atoms trained on the task loss have few parameters
        to overfit, and comparisons on few held-out residuals are noisy.
        """
        has_head = self._head is not None and self._plan.has_gradient
        return "location-scale" if has_head else None

    def scoring_samplers(self) -> list[ResidualSampler] | None:
        """Return what held-out decisions are evaluated on; None: the observed outcomes.

        With a location and scale, of the user or by LSTMs for panels, decisions are
        evaluated on all their residuals.
        """
        uses_forecast = self._task.history.has_panels and self._plan.has_gradient
        if self._head is None and not uses_forecast:
            return None
        return self._forecasts.scoring_samplers()

    def mmd(self) -> Candidate:
        """Networks trained on the MMD loss."""
        bodies = new_bodies(self._task, self._kind, self._folds.rows, "mmd")
        heads = [self._task.head] * len(self._folds)
        return network_candidate("mmd", self._train_mmd("mmd", bodies), heads)

    def _mmd_atoms(self, name: str, heads: Sequence[Any]) -> Candidate:
        """Constant atoms in units of location and scale, on the MMD loss."""
        task, bodies = self._task, []
        for head, rows in zip(heads, self._folds.rows, strict=True):
            residuals = scaled_residuals(task, head, rows)
            bodies.append(new_body(task, "constant", residuals, task.rng(f"{name} 0")))
        return network_candidate(name, self._train_mmd(name, bodies, heads[0]), heads)

    def _best_residuals(self) -> str:
        """The best of the distributions that forecast."""
        return self._best_distribution(self.distributions.residual_names)

    def _best_distribution(self, names: Sequence[str]) -> str:
        """Return the distribution whose reduction decides best; the last without scores.

        The choice is made once, for all candidates and for the fit to all rows.
        """
        key = tuple(names)
        if key not in self._leaders:
            best = names[-1]
            if self.board is not None and self.has_distributions:
                found, means = self.distributions.by_fold[0], self.board.means
                costs = [means.get(reduced_name(found[name]), np.inf) for name in names]
                if np.isfinite(costs).any():
                    best = names[int(np.argmin(costs))]
            self._leaders[key] = best
        return self._leaders[key]

    def _outcome_samplers(self) -> list[Sampler]:
        """Return what decisions are evaluated on in training, for each fold."""
        if self._task.distribution is not None:
            return [*self.distributions.samplers(USERS)]
        best = self._best_distribution(self.distributions.names)
        return [*self.distributions.samplers(best)]

    def _direct(
        self,
        name: str,
        samplers: Sequence[Sampler],
        regularization: float,
    ) -> Candidate:
        """Networks trained by MMD, then on the task loss plus a little of the MMD loss.

        Without the MMD loss, networks may stall where all contexts have one decision,
        since the gradient is zero there.
        """
        task, plan = self._task, self._plan
        bodies = self._trained_candidate("mmd").bodies
        epochs = task.config.task_epochs
        rows = sampled_rows(self._folds.rows, plan.programs, epochs, task.rng(name))
        trained = train_direct(
            task,
            name,
            bodies,
            rows,
            samplers,
            regularization=regularization,
            draws=plan.draws,
        )
        return network_candidate(name, trained, [task.head] * len(bodies))

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
        return loss_net_candidates(_LOSS_NETS, fits, mmd.heads)

    def _train_mmd(
        self, name: str, bodies: Sequence[nn.Module], head: Any = None
    ) -> list[nn.Module]:
        # A single holdout of few rows is too small for early stopping.
        single = self._plan.folds == 1 and not self._task.history.has_panels
        held_out = None if single else self._folds.held_out
        rows = self._folds.rows
        return train_mmd(self._task, bodies, rows, held_out, name, head=head)
