"""What trained baselines share: features, labels of recourse costs, and the training loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from pyomo.core.expr.numvalue import value
from torch import Tensor, nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.features import context_features, standard_spread
from pyomo_csg.learn.distributions.samplers import forest_weights
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.trainer import Schedule, train_ensemble
from pyomo_csg.solve import Oracle
from pyomo_csg.stages import TwoStageModel

logger = logging.getLogger(__name__)

Call = Callable[..., Tensor]

_COUNTS = (1, 3, 10)  # outcomes of the programs that give the optimal decisions
_BEYOND = 0.25  # how far samples lie beyond two of these, relative to their distance
_NEAR = 2  # larger values keep more samples near the optimal decisions


class Features:
    """Standardized context features (n, f); ``count`` is f.

    A panel's features are the mean, standard deviation and last value of each column.
    """

    def __init__(self, contexts: np.ndarray):
        features = context_features(contexts)
        self._center, self._spread = features.mean(axis=0), standard_spread(features)
        self.count = features.shape[1]

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Return the features (n, f) of contexts."""
        return (context_features(contexts) - self._center) / self._spread


class Training:
    """Trains networks on a number of rows, in an order drawn from ``rng``."""

    def __init__(
        self, rows: int, schedule: Schedule, rng: np.random.Generator, log: TrainingLog
    ):
        self._rows, self._schedule = np.arange(rows), schedule
        self._rng, self._log = rng, log

    def __call__(
        self,
        stage: str,
        network: nn.Module,
        loss: Callable[[Call, Tensor], Tensor],
    ) -> nn.Module:
        """Return a trained copy of a network.

        ``loss`` takes the network, as a function, and rows (B,), and returns a scalar.
        """
        ensemble = Ensemble([network])

        def call(*inputs: Tensor) -> Tensor:
            return ensemble(*(one[None] for one in inputs))[0]

        with self._log.stage(stage, self._schedule.epochs) as bar:
            train_ensemble(
                ensemble,
                lambda batch: loss(call, torch.as_tensor(batch[0]))[None],
                [self._rows],
                self._schedule,
                self._rng,
                lambda _, losses: bar.step(loss=float(losses[0])),
            )
        (trained,) = ensemble.members()
        return trained


@dataclass(frozen=True, eq=False)
class RecourseSamples:
    """Labels for a network that predicts expected recourse costs.

    ``rows`` (m,) are the rows of the history with the contexts, ``decisions`` (m, s) and
    ``costs`` (m,) the expected recourse costs, lower being better.
    """

    rows: np.ndarray
    decisions: np.ndarray
    costs: np.ndarray

    def __len__(self) -> int:
        return len(self.costs)


class Sampler:
    """Samples decisions around those that are optimal for a few outcomes of a history.

    ``optimal`` (J, s) are these decisions, about ``decisions`` of them, and ``bounds``
    (2, s) their range.
    """

    def __init__(self, oracle: Oracle, history: History, decisions: int, seed: int):
        self._oracle, self._history, self._seed = oracle, history, seed
        self._rng = np.random.default_rng(seed)
        self.optimal = self._optimal_decisions(-(-decisions // len(_COUNTS)))
        self.bounds = np.stack([self.optimal.min(axis=0), self.optimal.max(axis=0)])

    def draw(self, count: int, outcomes: int, progress: bool) -> RecourseSamples:
        """Return up to ``count`` samples, each a mean over a number of outcomes.

        Decisions without recourse to some outcome are dropped, with a warning.
        """
        rows = self._rng.integers(len(self._history), size=count)
        ys = self._sample_decisions(count)
        costs = self.costs(rows, ys, outcomes, progress)
        known = np.isfinite(costs)
        missing = count - int(known.sum())
        if missing == count:
            found = (
                f"none of {count} sampled decisions has recourse to all outcomes drawn for "
                "it; give the model complete recourse"
            )
            raise DataError("Cannot sample the recourse", [found])
        if missing:
            logger.warning(
                "%d of %d sampled decisions have no recourse to some outcome and are "
                "dropped",
                missing,
                count,
            )
        return RecourseSamples(rows[known], ys[known], costs[known])

    def costs(
        self, rows: np.ndarray, ys: np.ndarray, count: int, progress: bool
    ) -> np.ndarray:
        """Return mean recourse costs (m,) of decisions (m, s), over a forest's outcomes."""
        history = self._history
        forest = forest_weights(
            history.contexts, history.outcomes, np.arange(len(history)), self._seed
        )
        drawn = history.outcomes[systematic_sample(forest[rows], count, self._rng)]
        costs = self._oracle.cost(
            np.repeat(ys, count, axis=0),
            drawn.reshape(len(rows) * count, -1),
            on_error="record",
            check_first_stage=False,  # the network also learns from infeasible ones
            progress=progress,
        )
        means = costs.reshape(len(rows), count).mean(axis=1)
        return means - first_stage_costs(self._oracle.two_stage, ys)

    def _optimal_decisions(self, count: int) -> np.ndarray:
        """Return optimal decisions of ``count`` programs for each number of outcomes."""
        decisions = np.concatenate(
            [
                self._oracle.solve(
                    self._history.outcomes[
                        self._rng.integers(len(self._history), size=(count, size))
                    ],
                    on_error="record",
                    progress=False,
                ).decision
                for size in _COUNTS
            ]
        )
        solved = np.isfinite(decisions).all(axis=1)
        if not solved.any():
            found = (
                f"none of {len(decisions)} programs on outcomes of the history has a "
                "solution; see Oracle.solve for why"
            )
            raise DataError("Cannot sample decisions", [found])
        return decisions[solved]

    def _sample_decisions(self, count: int) -> np.ndarray:
        """Return decisions (count, s): most near the optimal ones, some far away.

        Each lies on the line through two optimal ones and is then moved toward a random
        point within the bounds. The network must also learn that bad decisions are
        expensive.
        """
        rng, (lower, upper) = self._rng, self.bounds
        one, other = self.optimal[rng.integers(len(self.optimal), size=(2, count))]
        near = one + rng.uniform(-_BEYOND, 1 + _BEYOND, (count, 1)) * (other - one)
        # One power per decision, so that all its values may be low, or high.
        height = rng.random(near.shape) ** np.exp(rng.uniform(-2, 2, (count, 1)))
        far = lower + height * (upper - lower)
        found = near + rng.random((count, 1)) ** _NEAR * (far - near)
        two_stage = self._oracle.two_stage
        found = np.clip(found, *_variable_bounds(two_stage))
        whole = [not v.is_continuous() for v in two_stage.first_stage_variables]
        return np.where(whole, np.round(found), found)


def systematic_sample(
    weights: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Return columns (m, count) of weights (m, n), drawn by systematic sampling."""
    ends = np.cumsum(weights, axis=1)
    steps = (np.arange(count) + rng.random((len(weights), 1))) / count
    found = [
        np.searchsorted(end, step * end[-1], side="right")
        for end, step in zip(ends, steps, strict=True)
    ]
    return np.minimum(found, weights.shape[1] - 1)


def first_stage_costs(two_stage: TwoStageModel, ys: np.ndarray) -> np.ndarray:
    """Return first-stage costs (m,) of decisions (m, s), lower being better."""
    two_stage = two_stage.copy()
    costs = []
    for y in ys.tolist():
        for v, number in zip(two_stage.first_stage_variables, y, strict=True):
            v.set_value(number, skip_validation=True)
        costs.append(value(two_stage.first_stage_cost))
    return int(two_stage.sense) * np.array(costs)


def _variable_bounds(two_stage: TwoStageModel) -> np.ndarray:
    """Return the lower and upper bounds (2, s) that do not depend on the outcome."""
    bounds = np.tile([[-np.inf], [np.inf]], len(two_stage.first_stage_variables))
    for j, v in enumerate(two_stage.first_stage_variables):
        sides = (v.value, v.value) if v.fixed else (v.lower, v.upper)
        for side, bound in enumerate(sides):
            if bound is not None and not two_stage.uncertainty.touches(bound):
                bounds[side, j] = value(bound)
    return bounds
