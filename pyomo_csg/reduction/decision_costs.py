"""True costs of decisions: what they cost under all outcomes, or a sample of them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyomo_csg.reduction.weighted_points import WeightedPoints
from pyomo_csg.solve import Oracle

_SIZES = (10_000, 3_000, 1_000, 300, 100, 30)  # of samples
_MOST_COSTS = 200_000  # in one call, for memory
_TRIALS = (4, 64)  # outcomes; the second only if the first is fast
_TIMED = 6  # decisions
_FAST = 0.01  # seconds for a cost


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
        """Return for how many outcomes as many decisions as ``times`` can be evaluated in time.

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
            for _ in range(2):  # the first call learns the bases of the recourse
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
