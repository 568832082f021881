"""The law of the outcomes after a context, estimated number by number.

A forest that has to tell all numbers apart at once finds few contexts that are alike in
all of them. One forest a number sees more; what the numbers do together is told by where
in their laws they were in each row of the history: a copula.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pyomo_csg.learn.omega import spread_of
from pyomo_csg.learn.outcomes import Forest

_LEAF = 10
_LEAST = 3  # pairs that a line needs to be judged by the others
_TREES = 1200  # of all numbers together
_LEVELS = 20_000  # the same, of quantiles that are kept
_PENALTIES = np.logspace(-2, 4, 13)


class Law:
    """What may happen after contexts, as a history tells.

    Parameters
    ----------
    contexts : array (m, d)
    outcomes : array (m, p)
    at : array (n, d)
        The contexts to draw for.
    seed : int
    """

    def __init__(
        self, contexts: np.ndarray, outcomes: np.ndarray, at: np.ndarray, seed: int
    ):
        rng = np.random.default_rng(seed)
        numbers = outcomes.shape[1]
        trees = int(np.clip(_TREES // numbers, 20, 200))
        levels = int(np.clip(_LEVELS // numbers, 20, 100))
        told = _linear(contexts, outcomes)
        self._quantiles = np.empty((len(at), numbers, levels))
        self._levels = np.empty(outcomes.shape, dtype=int)
        for j in range(numbers):
            known, asked = (np.column_stack([x, told(x)[:, j]]) for x in (contexts, at))
            target = outcomes[:, j]
            forest = Forest(
                known, target[:, None], int(rng.integers(2**31)), trees, _LEAF
            )
            self._quantiles[:, j] = _quantiles(forest.weights(asked), target, levels)
            places = _places(forest.weights(known), target, rng)
            self._levels[:, j] = (levels * places).astype(int)

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) for rows (B,) of ``at``."""
        picked = rng.integers(len(self._levels), size=(len(rows), count))
        numbers = np.arange(self._quantiles.shape[1])
        return self._quantiles[rows.reshape(-1, 1, 1), numbers, self._levels[picked]]


def _linear(
    contexts: np.ndarray, outcomes: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the linear map to predictions: trees split along single numbers only."""
    if len(contexts) < _LEAST:
        return lambda x: np.zeros((len(x), outcomes.shape[1]))
    line = make_pipeline(StandardScaler(), RidgeCV(_PENALTIES))
    line.fit(contexts, outcomes / spread_of(outcomes))
    return lambda x: line.predict(x).reshape(len(x), -1)


def _quantiles(weights: np.ndarray, values: np.ndarray, levels: int) -> np.ndarray:
    """Return quantiles (n, levels) of values (m,) under each row of weights (n, m)."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[:, order], axis=1)
    wanted = (np.arange(levels) + 0.5) / levels
    found = [np.searchsorted(row, wanted * row[-1]) for row in below]
    return values[order][np.minimum(found, len(values) - 1)]


def _places(
    weights: np.ndarray, values: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return where in (0, 1) each value (m,) is in its own law, which it has no part in.

    Ranked, so that all places are as frequent; ties fall anywhere within their jump.
    """
    others = weights * (1 - np.eye(len(values)))
    total = np.maximum(others.sum(axis=1), np.finfo(float).tiny)
    less = (others * (values < values[:, None])).sum(axis=1) / total
    same = (others * (values == values[:, None])).sum(axis=1) / total
    jump, chance = rng.random((2, len(values)))
    order = np.lexsort([chance, less + jump * same])
    return (np.argsort(order) + 0.5) / len(values)
