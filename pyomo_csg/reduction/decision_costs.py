"""Weighted outcomes, and expected costs of decisions over them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from pyomo_csg.errors import DataError
from pyomo_csg.solve import Oracle
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import scenario_array, valid_interval

_MOST_DISTANCES = 2_000_000  # at once: 16 MB
_SIZES = (10_000, 3_000, 1_000, 300, 100, 30)  # of samples
_MOST_COSTS = 200_000  # in one call, for memory
_TRIALS = (4, 64)  # outcomes; the second only if the first is fast
_TIMED = 6  # decisions
_FAST = 0.01  # seconds for a cost
# Recourse variables in a program that takes seconds.
_MOST_LINEAR, _MOST_OTHER = 30_000, 3_000
_GROUP_SHARE = 0.2  # of that, in each program of a group
_SMALLER = 4  # divide the groups by this while they take too long
_TIMED_GROUPS = 2
_MIP_GAP = 1e-3
_EXACT = 1e-6  # a relative gap that counts as solved


@dataclass(frozen=True)
class WeightedPoints:
    """Points (n, p) with weights (n,) that sum to 1."""

    points: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.points)

    @classmethod
    def distinct(cls, points: np.ndarray, weights: np.ndarray) -> WeightedPoints:
        """Return the distinct points of positive weight."""
        positive = weights > 0
        found, places = np.unique(points[positive], axis=0, return_inverse=True)
        sums = np.bincount(places.ravel(), weights[positive], len(found))
        return cls(found, sums / sums.sum())

    def sample(self, count: int, rng: np.random.Generator) -> WeightedPoints:
        """Return a systematic sample; all points if there are no more than ``count``.

        Every sum of the sample is an unbiased estimate of the same sum over all points.
        """
        if count >= len(self):
            return self
        order = rng.permutation(len(self))
        ends = np.cumsum(self.weights[order])
        places = np.searchsorted(
            ends / ends[-1], (np.arange(count) + rng.random()) / count
        )
        chosen, times = np.unique(order[places], return_counts=True)
        return WeightedPoints(self.points[chosen], times / count)

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return distinct points (count, p), drawn by weight."""
        chosen = rng.choice(len(self), count, replace=False, p=self.weights)
        return self.points[chosen]

    def shares(self, scenarios: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Return the weight of the points that are nearest to each scenario (K,)."""
        step = max(1, _MOST_DISTANCES // len(scenarios))
        nearest = np.concatenate(
            [
                cdist(self.points[i : i + step] / unit, scenarios / unit).argmin(axis=1)
                for i in range(0, len(self), step)
            ]
        )
        return np.bincount(nearest, self.weights, len(scenarios))

    def clusters(self, labels: np.ndarray) -> WeightedPoints:
        """Return the means of clusters, with the weights of their points."""
        shares = np.bincount(labels, self.weights)
        sums = np.stack(
            [np.bincount(labels, self.weights * column) for column in self.points.T],
            axis=1,
        )
        used = shares > 0
        means = sums[used] / shares[used, None]
        # Rounding may push a mean out of the range of its points.
        means = np.clip(means, self.points.min(axis=0), self.points.max(axis=0))
        return WeightedPoints(means, shares[used])

    @property
    def unit(self) -> np.ndarray:
        """The standard deviation of each column; 1 where a column is constant."""
        spread = np.sqrt(self.weights @ (self.points - self.weights @ self.points) ** 2)
        return np.where(spread > 0, spread, 1.0)


class Admission:
    """Moves scenarios to values that the model's uncertain Params can have."""

    def __init__(self, two_stage: TwoStageModel, outcomes: WeightedPoints):
        self._two_stage, self._outcomes = two_stage, outcomes
        self._low, self._high = outcomes.points.min(axis=0), outcomes.points.max(axis=0)

    def admit(self, scenarios: np.ndarray) -> np.ndarray:
        """Return scenarios within the range of the outcomes.

        Where a Param's validate= refuses one, it becomes the nearest outcome.
        """
        clipped = np.clip(scenarios, self._low, self._high)
        found = [one if self._is_valid(one) else self._nearest(one) for one in clipped]
        return np.array(found)

    def admits_means(self) -> bool:
        """Whether all points between the outcomes are valid."""
        params = self._two_stage.uncertain_params
        sides = [valid_interval(param.parent_component()) for param in params]
        return not np.isnan(sides).any()

    def _is_valid(self, scenario: np.ndarray) -> bool:
        try:
            scenario_array(self._two_stage, scenario[None])
        except DataError:
            return False
        return True

    def _nearest(self, scenario: np.ndarray) -> np.ndarray:
        points, unit = self._outcomes.points, self._outcomes.unit
        distances = cdist(scenario[None] / unit, points / unit)
        return np.asarray(points[distances.argmin()])


class DecisionCosts:
    """Solves sets of scenarios and evaluates their decisions, until a deadline."""

    def __init__(self, oracle: Oracle, deadline: float = math.inf):
        self._oracle, self.deadline = oracle, deadline

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self.deadline

    def decide(self, sets: Sequence[WeightedPoints], final: bool = False) -> np.ndarray:
        """Return the decisions (n, s) on sets of scenarios; NaN where there is none."""
        width = len(self._oracle.two_stage.first_stage_variables)
        decisions = np.full((len(sets), width), np.nan)
        counts = np.array([len(one) for one in sets])
        for count in np.unique(counts):
            places = np.flatnonzero(counts == count).tolist()
            decisions[places] = self._oracle.solve(
                np.stack([sets[i].points for i in places]),
                np.stack([sets[i].weights for i in places]),
                **self._options(final),
            ).decision
        return decisions

    def costs(
        self, decisions: np.ndarray, outcomes: WeightedPoints, final: bool = False
    ) -> np.ndarray:
        """Return expected costs (n,); infinite where an outcome has no recourse."""
        return np.asarray(
            self.cost_table(decisions, outcomes, final) @ outcomes.weights
        )

    def cost_table(
        self, decisions: np.ndarray, outcomes: WeightedPoints, final: bool = False
    ) -> np.ndarray:
        """Return the costs (n, m) of decisions under each outcome."""
        found = np.full((len(decisions), len(outcomes)), np.inf)
        solved = np.flatnonzero(np.isfinite(decisions).all(axis=1))
        distinct, places = np.unique(decisions[solved], axis=0, return_inverse=True)
        step = max(1, _MOST_COSTS // len(outcomes))
        tables = [
            self._table(distinct[i : i + step], outcomes.points, final)
            for i in range(0, len(distinct), step)
        ]
        if tables:
            found[solved] = np.concatenate(tables)[places.ravel()]
        return found

    def _table(
        self, decisions: np.ndarray, points: np.ndarray, final: bool
    ) -> np.ndarray:
        costs = self._oracle.cost(
            np.repeat(decisions, len(points), axis=0),
            np.tile(points, (len(decisions), 1)),
            check_first_stage=False,
            **self._options(final),
        )
        return np.nan_to_num(costs, nan=np.inf).reshape(len(decisions), len(points))

    def affordable(
        self,
        decisions: np.ndarray,
        outcomes: WeightedPoints,
        times: int,
        seconds: float,
    ) -> int:
        """Return on how many outcomes ``times`` decisions can be evaluated in time.

        The sizes are few and far apart, so that the answer rarely depends on the machine.
        """
        each = self._time_costs(decisions[:_TIMED], outcomes)
        sizes = [len(outcomes), *_SIZES]
        fitting = [size for size in sizes if size * each * times <= seconds]
        return min(len(outcomes), fitting[0] if fitting else _SIZES[-1])

    def _time_costs(self, decisions: np.ndarray, outcomes: WeightedPoints) -> float:
        """Return the seconds that one cost takes."""
        each = 0.0
        for trial in _TRIALS:
            points = outcomes.points[:: max(1, len(outcomes) // trial)]
            for _ in range(2):  # the first call fills the cache of recourse bases
                cpu, wall = time.process_time(), time.perf_counter()
                self._table(decisions, points, final=True)
                cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
                # CPU seconds vary less, but those of other processes are not counted.
                each = max(cpu, wall / 4) / (len(points) * len(decisions))
                if each > _FAST:
                    return each
        return each

    def _options(self, final: bool) -> dict[str, Any]:
        """Return the oracle's options; final answers have no deadline."""
        deadline = None if final else self.deadline
        return {
            "on_error": "record",
            "progress": False,
            "fresh": True,
            "deadline": deadline,
        }


@dataclass(frozen=True)
class Reference:
    """Decisions (n, s) to compare with, and a proven bound on the expected cost.

    If ``is_full``, the only decision is the optimal one on all outcomes. ``bound`` is
    -inf where nothing was proven.
    """

    decisions: np.ndarray
    bound: float
    is_full: bool


def find_reference(
    oracle: Oracle, outcomes: WeightedPoints, deadline: float, seed: int
) -> Reference:
    """Solve the program on all outcomes, or on groups of them if it is too large."""
    variables = max(1, len(oracle.two_stage.recourse_variables))
    kind = _MOST_LINEAR
    if oracle.two_stage.integer or _is_slow(oracle):
        kind = _MOST_OTHER
    if len(outcomes) * variables <= kind:
        return _solve_groups(oracle, outcomes, [np.arange(len(outcomes))], deadline)
    size = max(1, int(_GROUP_SHARE * kind / variables))
    order = np.random.default_rng(seed).permutation(len(outcomes))
    while True:
        groups = np.array_split(order, -(-len(outcomes) // size))
        start = time.monotonic()
        limit = start + (deadline - start) / _SMALLER
        _solve_groups(oracle, outcomes, groups[:_TIMED_GROUPS], limit)
        now = time.monotonic()
        if size == 1 or (now - start) / _TIMED_GROUPS * len(groups) <= deadline - now:
            return _solve_groups(oracle, outcomes, groups, deadline)
        size = max(1, size // _SMALLER)


def _is_slow(oracle: Oracle) -> bool:
    """Whether the model is quadratic or solved by another solver."""
    compiled = oracle._compiled
    return compiled is None or compiled.quadratic


def _solve_groups(
    oracle: Oracle, outcomes: WeightedPoints, groups: list[np.ndarray], deadline: float
) -> Reference:
    """Solve a program for each group.

    The mean of the groups' optimal values is a lower bound: one decision for all groups
    cannot cost less than the best for each.
    """
    width, sense = len(oracle.two_stage.first_stage_variables), oracle.two_stage.sense
    decisions, bounds = np.full((len(groups), width), np.nan), np.zeros(len(groups))
    is_full = len(groups) == 1
    shares = np.array([outcomes.weights[group].sum() for group in groups])
    sizes = np.array([len(group) for group in groups])
    for size in np.unique(sizes):
        places = np.flatnonzero(sizes == size)
        found = oracle.solve(
            np.stack([outcomes.points[groups[i]] for i in places]),
            np.stack([outcomes.weights[groups[i]] / shares[i] for i in places]),
            on_error="record",
            progress=False,
            fresh=True,
            deadline=deadline,
            mip_gap=None if is_full else _MIP_GAP,
        )
        decisions[places], bounds[places] = found.decision, int(sense) * found.bound
        values = int(sense) * found.value
        gaps = np.abs(values - bounds[places]) / np.maximum(1e-9, np.abs(values))
        is_full = is_full and bool((gaps <= _EXACT).all())
    bound = float(np.nan_to_num(shares @ bounds, nan=-np.inf))
    solved = np.isfinite(decisions).all(axis=1)
    return Reference(decisions[solved], bound, is_full)
