"""What may happen after a context: outcomes to charge a decision for.

A history has one outcome for each context, and a decision that is charged for it alone
learns its noise. Outcomes of like contexts, or a forecast's errors, tell more.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestRegressor

from pyomo_csg.learn.networks.domains import standard_spread

_TREES, _LEAF = 200, 5


class Sampler(Protocol):
    """Draws outcomes that are likely after the contexts of some rows."""

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) for rows (B,)."""


class ObservedSampler:
    """The outcome that did happen."""

    def __init__(self, outcomes: np.ndarray):
        self._outcomes = outcomes

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, 1, p): there is only one."""
        return self._outcomes[rows][:, None]


class PooledSampler:
    """Any outcome of some rows, whatever the context."""

    def __init__(self, outcomes: np.ndarray, rows: np.ndarray):
        self._outcomes = outcomes[rows]

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p)."""
        return self._outcomes[
            rng.integers(len(self._outcomes), size=(len(rows), count))
        ]


class WeightedSampler:
    """What happened after like contexts, and for a share of the draws what did happen.

    Parameters
    ----------
    outcomes : array (n, p)
    weights : array (n, n)
        Row i says how much the outcomes count after context i.
    own : float
        The share.
    """

    def __init__(self, outcomes: np.ndarray, weights: np.ndarray, own: float = 0.5):
        self._outcomes, self._own = outcomes, own
        self._cumulative = np.cumsum(weights, axis=1)
        self._cumulative /= self._cumulative[:, -1:]

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p)."""
        chance = rng.random((len(rows), count))
        drawn = [
            np.searchsorted(self._cumulative[row], chance[i], side="right")
            for i, row in enumerate(rows)
        ]
        found = np.minimum(drawn, self._cumulative.shape[1] - 1)
        found[:, : int(self._own * count)] = rows[:, None]
        return self._outcomes[found]


class ResidualSampler:
    """A forecast, and what it left unexplained elsewhere, in units of its scale.

    Parameters
    ----------
    frame : array (n, 2, p)
        Location and scale after each context.
    residuals : array (m, p)
    lower, upper : array (p,)
        Of Omega.
    """

    def __init__(
        self,
        frame: np.ndarray,
        residuals: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
    ):
        self._frame, self._residuals = frame, residuals
        self._lower, self._upper = lower, upper

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p)."""
        picked = rng.integers(len(self._residuals), size=(len(rows), count))
        return self._after(rows, self._residuals[picked])

    def each(self, rows: np.ndarray, count: int) -> np.ndarray:
        """Return outcomes (B, m, p): all errors after each row, or ``count`` spread evenly."""
        return self._after(
            rows, self._residuals[evenly_spaced(len(self._residuals), count)]
        )

    def _after(self, rows: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        location, scale = self._frame[rows, 0], self._frame[rows, 1]
        found = location[:, None] + scale[:, None] * residuals
        return np.clip(found, self._lower, self._upper)


def evenly_spaced(n: int, count: int) -> np.ndarray:
    """Return at most ``count`` of the numbers 0 to n - 1, spread evenly."""
    return np.linspace(0, n - 1, min(n, count)).round().astype(int)


def context_features(contexts: np.ndarray) -> np.ndarray:
    """Return numbers (n, f) that a tree can split on; of panels: mean, spread and last."""
    if contexts.ndim == 2:
        return contexts
    return np.hstack([contexts.mean(1), contexts.std(1), contexts[:, -1]])


class Forest:
    """Random trees that tell how alike contexts are: by how often they share a leaf.

    Parameters
    ----------
    contexts : array (m, d) or (m, W, d)
    targets : array (m, p)
        What the trees learn to tell apart, in units that count alike.
    seed : int
    trees, leaf : int, optional
        How many, and how many contexts a leaf has at least.
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

    def weights(self, contexts: np.ndarray) -> np.ndarray:
        """Return how much the m contexts count for others, (n, m); rows sum to 1.

        Entry (i, j) is the mean over trees of 1 / size where j is in the leaf of i.
        """
        return (self._leaves(contexts) @ self._shares).toarray() / len(self._trees)

    def _leaves(self, contexts: np.ndarray) -> csr_array:
        """Return which leaves of all trees (n, leaves) contexts are in: 1, or else 0."""
        nodes = [tree.tree_.node_count for tree in self._trees]
        found = self._trees.apply(context_features(contexts)) + np.cumsum(
            [0, *nodes[:-1]]
        )
        starts = np.arange(0, found.size + 1, found.shape[1])
        return csr_array(
            (np.ones(found.size), found.ravel(), starts), (len(contexts), sum(nodes))
        )


def forest_weights(
    contexts: np.ndarray, outcomes: np.ndarray, rows: np.ndarray, seed: int
) -> np.ndarray:
    """Return how alike contexts (n, n) are to a forest that learned from some rows.

    Columns of other rows are zero.
    """
    targets = outcomes / standard_spread(outcomes)
    forest = Forest(contexts[rows], targets[rows], seed)
    weights = np.zeros((len(contexts), len(contexts)))
    weights[:, rows] = forest.weights(contexts)
    return weights
