"""Decisions in contexts, and what recourse to the outcomes that are likely then costs."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from pyomo.core.expr.numvalue import value

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.samplers import forest_weights
from pyomo_csg.learn.history import History
from pyomo_csg.solve import Oracle
from pyomo_csg.stages import TwoStageModel

logger = logging.getLogger(__name__)

_COUNTS = (1, 3, 10)  # of outcomes that the first decisions are optimal for
_BEYOND = 0.25  # how far beyond two of them others lie, in their distance
_NEAR = 2  # the larger, the more decisions are near the first ones


@dataclass(frozen=True, eq=False)
class RecourseSamples:
    """What a network for the expected recourse cost learns from.

    Attributes
    ----------
    rows : array (m,)
        Whose context it is, by its place in the history.
    decisions : array (m, s)
    costs : array (m,)
        Of the recourse, lower being better whatever the model's sense.
    """

    rows: np.ndarray
    decisions: np.ndarray
    costs: np.ndarray

    def __len__(self) -> int:
        return len(self.costs)


class Sampler:
    """Draws decisions around those that are optimal for some outcomes of a history.

    Parameters
    ----------
    oracle : Oracle
    history : History
    decisions : int
        About how many of the latter there are.
    seed : int

    Attributes
    ----------
    optimal : array (J, s)
    bounds : array (2, s)
        The least and the most of each variable in them.
    """

    def __init__(self, oracle: Oracle, history: History, decisions: int, seed: int):
        self._oracle, self._history, self._seed = oracle, history, seed
        self._rng = np.random.default_rng(seed)
        self.optimal = self._optimal_decisions(-(-decisions // len(_COUNTS)))
        self.bounds = np.stack([self.optimal.min(axis=0), self.optimal.max(axis=0)])

    def draw(self, count: int, outcomes: int, progress: bool) -> RecourseSamples:
        """Return about so many samples, each a mean over so many outcomes.

        Decisions without recourse to some outcome are left out, and counted in the log.
        """
        rows = self._rng.integers(len(self._history), size=count)
        ys = self._around(count)
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
                "%d of %d sampled decisions have no recourse to some outcome and are left "
                "out",
                missing,
                count,
            )
        return RecourseSamples(rows[known], ys[known], costs[known])

    def costs(
        self, rows: np.ndarray, ys: np.ndarray, count: int, progress: bool
    ) -> np.ndarray:
        """Return mean recourse costs (m,) of decisions (m, s) after the rows' contexts.

        Outcomes are drawn as a forest weights them.
        """
        history = self._history
        forest = forest_weights(
            history.contexts, history.outcomes, np.arange(len(history)), self._seed
        )
        drawn = history.outcomes[evenly(forest[rows], count, self._rng)]
        costs = self._oracle.cost(
            np.repeat(ys, count, axis=0),
            drawn.reshape(len(rows) * count, -1),
            on_error="record",
            progress=progress,
        )
        means = costs.reshape(len(rows), count).mean(axis=1)
        return means - first_stage_costs(self._oracle.two_stage, ys)

    def _optimal_decisions(self, count: int) -> np.ndarray:
        """Return the optimal decisions of programs on a few outcomes, so many of a size."""
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

    def _around(self, count: int) -> np.ndarray:
        """Return decisions (count, s): most near the optimal ones, some all over.

        Each lies between two others, or a little beyond, and is then moved part of the way
        to a point within the bounds: else nobody would know that it is dear to leave the
        good decisions.
        """
        rng, (lower, upper) = self._rng, self.bounds
        one, other = self.optimal[rng.integers(len(self.optimal), size=(2, count))]
        near = one + rng.uniform(-_BEYOND, 1 + _BEYOND, (count, 1)) * (other - one)
        # One power for all numbers of a decision, so that all may be low, or high.
        height = rng.random(near.shape) ** np.exp(rng.uniform(-2, 2, (count, 1)))
        far = lower + height * (upper - lower)
        found = near + rng.random((count, 1)) ** _NEAR * (far - near)
        two_stage = self._oracle.two_stage
        found = np.clip(found, *_own_bounds(two_stage))
        whole = [not v.is_continuous() for v in two_stage.first_stage_variables]
        return np.where(whole, np.round(found), found)


def evenly(weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return places (m, count) drawn by weights (m, n), each as often as it should be."""
    ends = np.cumsum(weights, axis=1)
    steps = (np.arange(count) + rng.random((len(weights), 1))) / count
    found = [
        np.searchsorted(end, step * end[-1], side="right")
        for end, step in zip(ends, steps, strict=True)
    ]
    return np.minimum(found, weights.shape[1] - 1)


def first_stage_costs(two_stage: TwoStageModel, ys: np.ndarray) -> np.ndarray:
    """Return h(y) of decisions (m, s), lower being better."""
    two_stage = two_stage.copied()
    costs = []
    for y in ys.tolist():
        for v, number in zip(two_stage.first_stage_variables, y, strict=True):
            v.set_value(number, skip_validation=True)
        costs.append(value(two_stage.first_stage_cost))
    return int(two_stage.sense) * np.array(costs)


def _own_bounds(two_stage: TwoStageModel) -> np.ndarray:
    """Return the variables' lower and upper bounds (2, s) that no outcome moves."""
    bounds = np.tile([[-np.inf], [np.inf]], len(two_stage.first_stage_variables))
    for j, v in enumerate(two_stage.first_stage_variables):
        sides = (v.value, v.value) if v.fixed else (v.lower, v.upper)
        for side, bound in enumerate(sides):
            if bound is not None and not two_stage.uncertainty.touches(bound):
                bounds[side, j] = value(bound)
    return bounds
