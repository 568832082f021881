"""Weighted points: outcomes to reduce, samples of them, and sets of scenarios."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from pyomo_csg.errors import DataError
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import scenario_array, valid_interval

_MOST_DISTANCES = 2_000_000  # at once: 16 MB


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
