"""Outcomes of the history, weighted for a context by a forest or by nearness."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pyomo_csg.learn.distributions.features import (
    context_features,
    evenly_spaced,
    feature_spread,
    scale_features,
    standard_spread,
)
from pyomo_csg.learn.distributions.forecasts.forest import restore_forest
from pyomo_csg.learn.distributions.stored_arrays import (
    Arrays,
    StoredArrays,
    damage,
    with_prefix,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MOST_AT_ONCE = 4_000_000  # distances
_MOST_POINTS, _MOST_NEIGHBORS = 5000, 500
MOST_OUTCOMES = 1000  # of one context, where they do not depend on it
_FEWEST_SCORED, _MOST_SCORED = 20, 200  # rows that compare numbers of neighbors
_WORK = 5e8  # numbers that are compared for that


class RowWeights(Protocol):
    """Weights of m past outcomes; each row of weights sums to 1."""

    @property
    def feature_count(self) -> int:
        """The number of features f of a context."""

    def weights(self, contexts: np.ndarray) -> csr_array:
        """Return weights (n, m) for contexts."""

    def fitted_weights(self, rows: np.ndarray) -> csr_array:
        """Return weights (B, m) for rows of the history, 0 for the row itself."""

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description and arrays."""


@dataclass(frozen=True, eq=False)
class Weighted:
    """The outcomes (m, p) of the history, with weights for each context.

    Outcomes are those that were observed, and so within the Params' domains.
    """

    name: str
    weights: RowWeights
    history: np.ndarray

    @property
    def feature_count(self) -> int | None:
        """The number of features of a context, or None if it does not matter."""
        return self.weights.feature_count

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""
        return self.history.shape[1]

    def outcomes(
        self, contexts: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return, per context, the outcomes (k, p) with positive weights, and these (k,)."""
        return positive_outcomes(self.weights.weights(contexts), self.history)

    def sample(
        self, contexts: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (n, count, p) drawn for each context."""
        return self.history[draw_columns(self.weights.weights(contexts), count, rng)]

    def sample_fitted(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) drawn for rows of the history, never the row's."""
        return self.history[draw_columns(self.weights.fitted_weights(rows), count, rng)]

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description, and the arrays."""
        description, arrays = self.weights.to_arrays()
        arrays = with_prefix("weights", arrays) | {"history": self.history}
        return {"kind": "weighted", "name": self.name, "weights": description}, arrays


@dataclass(frozen=True, eq=False)
class Empirical:
    """The outcomes (m, p) of the history with equal weights, whatever the context."""

    name: str
    history: np.ndarray

    @property
    def feature_count(self) -> int | None:
        """The number of features of a context, or None if it does not matter."""
        return None

    @property
    def column_count(self) -> int:
        """The number of outcome columns p."""
        return self.history.shape[1]

    def outcomes(
        self, contexts: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the same outcomes (k, p) and weights (k,) for each context.

        At most 1000 outcomes are used, evenly spaced in the history.
        """
        points = self.history[evenly_spaced(len(self.history), MOST_OUTCOMES)]
        share = np.full(len(points), 1 / len(points))
        return [points] * len(contexts), [share] * len(contexts)

    def sample(
        self, contexts: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (n, count, p)."""
        return self.history[
            rng.integers(len(self.history), size=(len(contexts), count))
        ]

    def sample_fitted(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) drawn for rows of the history, never the row's."""
        return self.history[draw_others(rows, len(self.history), count, rng)]

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description, and the arrays."""
        return {"kind": "empirical", "name": self.name}, {"history": self.history}


def restore_weighted(stored: StoredArrays, name: str) -> Weighted:
    """Return the weighted outcomes that were stored."""
    inside = stored.part("weights")
    kind = inside.text("kind")
    if kind == "neighbors":
        neighbors = restore_neighbors(inside)
        history = stored.numbers("history", len(neighbors.points), None)
        return Weighted(name, neighbors, history)
    if kind == "forest":
        forest = restore_forest(inside)
        return Weighted(name, forest, stored.numbers("history", *forest.outcomes.shape))
    raise damage(f"weights have kind {kind!r:.40}")


def draw_others(
    rows: np.ndarray, m: int, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Return draws (B, count) from m rows, never the row itself unless it is the only one."""
    if m == 1:
        return np.zeros((len(rows), count), dtype=int)
    picked = rng.integers(m - 1, size=(len(rows), count))
    return picked + (picked >= rows[:, None])


def positive_outcomes(
    weights: csr_array, outcomes: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the outcomes (k, p) with positive weights, and these (k,), per row of weights."""
    ends = weights.indptr[1:-1]
    rows, shares = np.split(weights.indices, ends), np.split(weights.data, ends)
    return [outcomes[some] for some in rows], [w / w.sum() for w in shares]


def draw_columns(
    weights: csr_array, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Return columns (n, count) drawn in proportion to each row of weights (n, m)."""
    levels = rng.random((weights.shape[0], count))
    total = np.cumsum(weights.data)
    start, end = weights.indptr[:-1], weights.indptr[1:]
    below = np.concatenate([[0.0], total])[start][:, None]
    wanted = below + levels * (total[end - 1][:, None] - below)
    places = np.searchsorted(total, wanted, side="right")
    places = np.clip(places, start[:, None], end[:, None] - 1)
    return weights.indices[places]


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Equal weights of the ``count`` points whose features (k, f), in spreads, are nearest.

    The points are the contexts of the rows ``kept`` of a history, whose features are
    ``fitted`` (m, f). Both are empty after the neighbors are restored from arrays.
    """

    center: np.ndarray
    spread: np.ndarray
    points: np.ndarray
    count: int
    kept: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))
    fitted: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def feature_count(self) -> int:
        """The number of features f of a context."""
        return len(self.center)

    def weights(self, contexts: np.ndarray) -> csr_array:
        """Return weights (n, k)."""
        features = context_features(contexts)
        scaled = scale_features(features, self.center, self.spread)
        return self._equal(self.nearest(scaled, self.count))

    def fitted_weights(self, rows: np.ndarray) -> csr_array:
        """Return weights (B, k), 0 for the row itself."""
        return self._equal(self.nearest_others(rows, self.count))

    def nearest_others(self, rows: np.ndarray, count: int) -> np.ndarray:
        """Return the points (B, count) nearest to some rows, the nearest first."""
        found = self.nearest(self.fitted[rows], count + 1)
        is_self = self.kept[found] == rows[:, None]
        # A row may be missing if it is not among the points, or has more copies than fit.
        is_self[~is_self.any(axis=1), -1] = True
        return found[~is_self].reshape(len(rows), count)

    def nearest(self, scaled: np.ndarray, count: int) -> np.ndarray:
        """Return the nearest rows (n, count) of scaled features, the nearest first."""
        step = max(1, _MOST_AT_ONCE // len(self.points))
        parts = [
            self._nearest(scaled[start : start + step], count)
            for start in range(0, len(scaled), step)
        ]
        return np.concatenate(parts)

    def _nearest(self, scaled: np.ndarray, count: int) -> np.ndarray:
        # The square of the context's own length does not change the order.
        squares = self._squares - 2 * (scaled @ self.points.T)
        if count < len(self.points):
            some = np.argpartition(squares, count - 1, axis=1)[:, :count]
        else:
            some = np.tile(np.arange(len(self.points)), (len(scaled), 1))
        some.sort(axis=1)
        order = np.take_along_axis(squares, some, axis=1).argsort(axis=1, kind="stable")
        return np.take_along_axis(some, order, axis=1)

    @cached_property
    def _squares(self) -> np.ndarray:
        return (self.points**2).sum(axis=1)

    def _equal(self, columns: np.ndarray) -> csr_array:
        share = np.full(columns.size, 1 / columns.shape[1])
        return _sparse(share, columns.ravel(), len(columns), len(self.points))

    def to_arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON description, and the arrays."""
        names = "center", "spread", "points"
        arrays = {name: getattr(self, name) for name in names}
        count = np.array([self.count], dtype=np.int32)
        return {"kind": "neighbors"}, arrays | {"count": count}


def fit_neighbors(
    contexts: np.ndarray, outcomes: np.ndarray, seed: int
) -> tuple[Neighbors, np.ndarray]:
    """Return neighbors in contexts, in spreads of the features, and their outcomes (k, p).

    Their number is the one with the least energy score on some rows of the history, each
    predicted by the outcomes of its nearest other rows.
    """
    features, m = context_features(contexts), len(outcomes)
    center, spread = features.mean(axis=0), feature_spread(features)
    scaled = scale_features(features, center, spread)
    kept = evenly_spaced(m, _MOST_POINTS)
    every = Neighbors(center, spread, scaled[kept], 1, kept, scaled)
    most = min(max(1, len(kept) // 2), _MOST_NEIGHBORS)
    affordable = int(_WORK / (most**2 * outcomes.shape[1]))
    tried = int(np.clip(affordable, _FEWEST_SCORED, _MOST_SCORED))
    rows = np.random.default_rng(seed).permutation(m)[:tried]
    relative = outcomes / standard_spread(outcomes)
    nearest = every.nearest_others(rows, most)
    scores = energy_scores(relative[kept[nearest]], relative[rows])
    return replace(every, count=int(scores.argmin()) + 1), outcomes[kept]


def energy_scores(forecasts: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Return the mean energy score (m,) of the first 1, 2, ..., m points of forecasts.

    Forecasts are (n, m, p), the outcomes that followed (n, p).
    """
    from scipy.spatial.distance import cdist  # deciding does without

    counts = np.arange(1, forecasts.shape[1] + 1)
    total = np.zeros(len(counts))
    for points, outcome in zip(forecasts, outcomes, strict=True):
        errors = np.linalg.norm(points - outcome, axis=1)
        among = cdist(points, points).cumsum(axis=0).cumsum(axis=1).diagonal()
        total += errors.cumsum() / counts - among / (2 * counts**2)
    return total / len(outcomes)


def restore_neighbors(stored: StoredArrays) -> Neighbors:
    """Return the neighbors that were stored."""
    center = stored.numbers("center", None)
    points = stored.numbers("points", None, len(center))
    if not len(points):
        raise damage("array 'points' is empty")
    (count,) = stored.integers("count", 1, low=1, high=len(points) + 1)
    return Neighbors(center, stored.positive("spread", len(center)), points, int(count))


def _sparse(shares: np.ndarray, columns: np.ndarray, n: int, m: int) -> csr_array:
    """Return weights (n, m) with the same number of entries in every row."""
    from scipy.sparse import csr_array  # networks do without

    starts = np.linspace(0, len(columns), n + 1).round().astype(int)
    return csr_array((shares, columns, starts), (n, m))
