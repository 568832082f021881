"""Samplers of outcomes given a context, and the forest that weights similar contexts.

A history holds one outcome per context. A decision that is evaluated on that outcome
alone overfits its noise, so training draws outcomes of similar contexts, or forecast
residuals, as well.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestRegressor

from pyomo_csg.learn.distributions.features import (
    context_features,
    evenly_spaced,
    standard_spread,
)

_TREES, _LEAF = 200, 5


class Sampler(Protocol):
    """Draws outcomes given the contexts of some rows of the history."""

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) for rows (B,)."""


class ObservedSampler:
    """Returns the observed outcome of each row."""

    def __init__(self, outcomes: np.ndarray):
        self._outcomes = outcomes

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, 1, p): there is only one."""
        return self._outcomes[rows][:, None]


class PooledSampler:
    """Draws from the outcomes of some rows, whatever the context."""

    def __init__(self, outcomes: np.ndarray, rows: np.ndarray):
        self._outcomes = outcomes[rows]

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p)."""
        picked = rng.integers(len(self._outcomes), size=(len(rows), count))
        return self._outcomes[picked]


class ResidualSampler:
    """Adds residuals (m, p) of a location-scale forecast to its predictions (n, 2, p).

    Residuals are in units of the scale; outcomes are clipped to bounds (p,).
    """

    def __init__(
        self,
        predictions: np.ndarray,
        residuals: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
    ):
        self._predictions, self._residuals = predictions, residuals
        self._lower, self._upper = lower, upper

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p)."""
        picked = rng.integers(len(self._residuals), size=(len(rows), count))
        return self._outcomes(rows, self._residuals[picked])

    def every_residual(self, rows: np.ndarray, limit: int) -> np.ndarray:
        """Return outcomes (B, m, p) by all residuals, or by ``limit`` evenly spaced ones."""
        picked = evenly_spaced(len(self._residuals), limit)
        return self._outcomes(rows, self._residuals[picked])

    def _outcomes(self, rows: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        location, scale = self._predictions[rows, 0], self._predictions[rows, 1]
        outcomes = location[:, None] + scale[:, None] * residuals
        return np.clip(outcomes, self._lower, self._upper)


class Forest:
    """A random forest that weights contexts by how often they share a leaf.

    Targets (m, p) are scaled, so that every column has the same influence. ``leaf`` is the fewest
    contexts in a leaf.
    """

    def __init__(
        self,
        contexts: np.ndarray,
        targets: np.ndarray,
        seed: int,
        trees: int | None = None,
        leaf: int = _LEAF,
    ):
        features = context_features(contexts)
        share = 1.0 if features.shape[1] < 4 else max(1 / 3, 2 / features.shape[1])
        self._trees = RandomForestRegressor(
            trees or _TREES,
            min_samples_leaf=leaf,
            max_features=share,
            random_state=seed,
        )
        self._trees.fit(features, targets if targets.shape[1] > 1 else targets[:, 0])
        within = self._leaves(contexts)
        sizes = np.maximum(np.asarray(within.sum(axis=0)).ravel(), 1)
        self._shares = (within / sizes).T

    def weights(self, contexts: np.ndarray) -> csr_array:
        """Return the weights (n, m) of the m training contexts; rows sum to 1.

        Entry (i, j) is the mean over trees of 1 / leaf size if j is in the leaf of i.
        """
        weights = self._leaves(contexts) @ self._shares / len(self._trees)
        weights.sort_indices()
        return weights

    def _leaves(self, contexts: np.ndarray) -> csr_array:
        """Return the indicator matrix (n, leaves) of the leaves of all trees."""
        nodes = [tree.tree_.node_count for tree in self._trees]
        leaves = self._trees.apply(context_features(contexts))
        leaves = leaves + np.cumsum([0, *nodes[:-1]])
        starts = np.arange(0, leaves.size + 1, leaves.shape[1])
        return csr_array(
            (np.ones(leaves.size), leaves.ravel(), starts), (len(contexts), sum(nodes))
        )


def forest_weights(
    contexts: np.ndarray, outcomes: np.ndarray, rows: np.ndarray, seed: int
) -> np.ndarray:
    """Return :func:`sparse_forest_weights` as a dense array."""
    return sparse_forest_weights(contexts, outcomes, rows, seed).toarray()


def sparse_forest_weights(
    contexts: np.ndarray, outcomes: np.ndarray, rows: np.ndarray, seed: int
) -> csr_array:
    """Return weights (n, n) by a forest fitted to some rows; other columns are zero."""
    targets = outcomes / standard_spread(outcomes)
    found = Forest(contexts[rows], targets[rows], seed).weights(contexts)
    n = len(contexts)
    return csr_array((found.data, rows[found.indices], found.indptr), (n, n))
