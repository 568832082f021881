"""Atoms and networks around a forecast, trained on the costs of their decisions.

Scenarios are location(x) + scale(x) * e_k, where a conditional distribution forecasts
location and scale. The atoms e_k are trained, or come from small networks that start at the
trained atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.candidates.fold_distributions import (
    FoldDistributions,
    ForecastHead,
)
from pyomo_csg.learn.candidates.several_starts import (
    FoldTraining,
    Start,
    atom_costs,
)
from pyomo_csg.learn.candidates.untrained import task_frame
from pyomo_csg.learn.distributions.features import evenly_spaced, standard_spread
from pyomo_csg.learn.distributions.reduction import reduce
from pyomo_csg.learn.distributions.residuals import Residuals
from pyomo_csg.learn.distributions.samplers import Sampler
from pyomo_csg.learn.generators.array_networks import softmax
from pyomo_csg.learn.generators.distribution_generators import (
    AtomGenerator,
    ForecastNetworkGenerator,
)
from pyomo_csg.learn.networks.initialization import constant_body
from pyomo_csg.learn.networks.task_nets import Constant, Feedforward
from pyomo_csg.learn.selection.fits import Candidate, NetworkFit
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.selection.plan import Plan, steps_and_batch
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import torch_seed

_ATOM_RATE, _NETWORK_RATE, _NETWORK_DECAY = 3e-2, 1e-3, 1e-3
_ATOM_BATCH, _NETWORK_BATCH = 20, 50
_STARTS_EACH = 2  # from clusters, and from random sets
_MANY_PROGRAMS = 1500
_CONTEXTS, _OUTCOMES = 8, 32  # on which random sets are compared
_MEMBERS = 3  # networks whose outputs are averaged
_HIDDEN = (32,)
_NEAR_MMD = 0.03


class AtomTraining:
    """Trains atoms of a distribution of residuals on every fold."""

    def __init__(
        self,
        task: Task,
        folds: Folds,
        plan: Plan,
        distributions: FoldDistributions,
    ):
        # Weights are those of the clusters; a body stores their logarithms.
        self._task = task.with_config(weights="learned")
        self._folds, self._plan, self._distributions = folds, plan, distributions

    def train(self, name: str, samplers: Sequence[Sampler]) -> Candidate:
        """Return the trained atoms, or their start on folds where that is better."""
        task, plan, stage = self._task, self._plan, "atoms"
        heads = self._distributions.heads(name)
        starts = [
            Start(body, fold)
            for fold, head in enumerate(task.log.each(f"starts of {stage}", heads))
            for body in self._starts(fold, head, samplers[fold])
        ]
        training = FoldTraining(task, self._folds, plan, heads, samplers, plan.draws)
        programs = plan.programs // (len(starts) // len(heads))
        length = steps_and_batch(programs, _ATOM_BATCH)
        rng = task.rng(f"{stage} rows")
        trained = training.train(stage, starts, length, _ATOM_RATE, rng)
        best = training.best_bodies(stage, [*trained, *starts])
        fits = [_AtomFit(body, head) for body, head in zip(best, heads, strict=True)]
        return Candidate("trained atoms", fits)

    def train_networks(
        self, atoms: Candidate, samplers: Sequence[Sampler]
    ) -> Candidate:
        """Return small networks that start at the atoms, averaged over some seeds."""
        task, name, heads = self._task, "networks on atoms", atoms.heads
        members = [
            Start(self._network(body, fold, member), fold)
            for fold, body in enumerate(atoms.bodies)
            for member in range(_MEMBERS)
        ]
        plan = self._plan
        training = FoldTraining(task, self._folds, plan, heads, samplers, plan.draws)
        trained = training.train(
            name,
            members,
            steps_and_batch(plan.programs // _MEMBERS, _NETWORK_BATCH),
            _NETWORK_RATE,
            task.rng(name),
            decay=_NETWORK_DECAY,
            regularization=_NEAR_MMD,
        )
        fits = [
            _NetworksFit([one.body for one in trained if one.fold == fold], head)
            for fold, head in enumerate(heads)
        ]
        return Candidate(name, fits)

    def _starts(
        self, fold: int, head: ForecastHead, sampler: Sampler
    ) -> list[nn.Module]:
        """Return bodies at cluster centers and at the best of some random sets."""
        task, count = self._task, self._task.scenarios
        rng = task.rng(f"atoms of fold {fold}")
        residuals = head.distribution.residuals
        unit = standard_spread(residuals)
        sets = [
            reduce(residuals, None, count, unit, seed=int(rng.integers(2**31)))
            for _ in range(self._starts_each)
        ]
        sets += self._random_sets(fold, head, sampler, rng)
        return [
            constant_body(task, torch.as_tensor(atoms), np.maximum(weights, 1e-6))
            for atoms, weights in sets
        ]

    def _random_sets(
        self,
        fold: int,
        head: ForecastHead,
        sampler: Sampler,
        rng: np.random.Generator,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the random sets of residuals with the best decisions on some rows."""
        task, residuals = self._task, head.distribution.residuals
        rows = self._folds.rows[fold]
        some = rows[evenly_spaced(len(rows), _CONTEXTS)]
        tried = max(4, self._plan.sets // len(some))
        picked = rng.integers(len(residuals), size=(tried, task.scenarios))
        sets = residuals[picked]
        weights = np.full(sets.shape[:2], 1 / task.scenarios)
        outcomes = sampler.draw(some, min(_OUTCOMES, 4 * self._plan.draws), rng)
        costs = atom_costs(task, head, sets, weights, some, outcomes)
        best = np.argsort(np.nan_to_num(costs, nan=np.inf), kind="stable")
        return [(sets[i], weights[i]) for i in best[: self._starts_each]]

    @property
    def _starts_each(self) -> int:
        """How many starts there are of either kind: few programs allow for one."""
        return _STARTS_EACH if self._plan.programs >= _MANY_PROGRAMS else 1

    def _network(self, atoms: nn.Module, fold: int, member: int) -> Feedforward:
        """Return a network whose outputs start at the atoms."""
        assert isinstance(atoms, Constant) and isinstance(atoms.free, Tensor)
        rng = self._task.rng(f"network {member} of fold {fold}")
        with torch_seed(rng):
            body = Feedforward(
                self._task.contexts.shape[-1], self._task.output_shape, _HIDDEN
            )
        last = body.layers[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.weight.mul_(0.1)
            last.bias.copy_(atoms.free.flatten())
        return body


class _AtomFit(NetworkFit):
    """Atoms around a distribution's forecast."""

    def generator(self, task: Task) -> AtomGenerator:
        """Return the atoms as arrays."""
        body: Any = self.body
        free = body.free.detach().numpy()
        return AtomGenerator(
            _distribution(self.head),
            free[:, :-1],
            softmax(free[:, -1]),
            task_frame(task),
        )

    def scenarios(
        self, task: Task, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return scenarios and weights for rows of the history."""
        return self.generator(task)(task.history.contexts[rows])


class _NetworksFit:
    """Networks around a distribution's forecast, with their outputs averaged."""

    is_trained: ClassVar[bool] = True

    def __init__(self, bodies: Sequence[nn.Module], head: ForecastHead):
        self._bodies, self._head = bodies, head

    def generator(self, task: Task) -> ForecastNetworkGenerator:
        """Return the networks as arrays."""
        arrays = [
            {name: value.numpy() for name, value in body.state_dict().items()}
            for body in self._bodies
        ]
        first: Any = self._bodies[0]
        return ForecastNetworkGenerator(
            _distribution(self._head), first.settings, arrays, task_frame(task)
        )

    def scenarios(
        self, task: Task, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return scenarios and weights for rows of the history."""
        return self.generator(task)(task.history.contexts[rows])


def _distribution(head: ForecastHead) -> Residuals:
    return head.distribution
