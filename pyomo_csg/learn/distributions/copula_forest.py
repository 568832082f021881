"""More pairs than happened, where there are few: contexts between those that were seen.

A network that sees the same few hundred contexts again and again learns them by heart. In
between, the estimated law says what may happen.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pyomo_csg.learn.distributions.samplers import Forest
from pyomo_csg.learn.networks.domains import standard_spread
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.task import Task

_LEAF = 10
_LEAST = 3  # pairs that a line needs to be judged by the others
_TREES = 1200  # of all numbers together
_LEVELS = 20_000  # the same, of quantiles that are kept
_PENALTIES = np.logspace(-2, 4, 13)


class CopulaForest:
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
    line.fit(contexts, outcomes / standard_spread(outcomes))
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


_ENOUGH = 1500  # pairs, with which none are added
_MOST = 4  # added for each that happened
_NEAR = 5


def augment(task: Task, folds: Folds) -> tuple[Task, Folds, list[CopulaForest]]:
    """Return the task and the folds with pairs added, and each part's law.

    A part's own pairs alone tell what is added to it, and its law. Added rows come after
    those of the history, and are in no part's ``held_out``.
    """
    rng, history = task.rng("enlarged"), task.history
    added = [
        interpolate_contexts(
            history.contexts[rows], _wanted(len(rows)), task.rng("between")
        )
        for rows in folds.rows
    ]
    ends = len(history) + np.cumsum([len(some) for some in added])
    fresh = [np.arange(end - len(x), end) for x, end in zip(added, ends, strict=True)]
    contexts = np.concatenate([history.contexts, *added])
    seed = int(rng.integers(2**31))
    laws = [
        CopulaForest(history.contexts[rows], history.outcomes[rows], contexts, seed)
        for rows in task.log.each("law", folds.rows, "part")
    ]
    drawn = [
        law.draw(rows, 1, rng)[:, 0] for law, rows in zip(laws, fresh, strict=True)
    ]
    larger = task.with_rows(contexts[len(history) :], np.concatenate(drawn))
    rows = [np.concatenate(both) for both in zip(folds.rows, fresh, strict=True)]
    return larger, Folds(rows, folds.held_out), laws


def _wanted(pairs: int) -> int:
    return max(0, min(_ENOUGH - pairs, _MOST * pairs))


def interpolate_contexts(
    contexts: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Return contexts (count, d), each somewhere between one that was seen and a near one.

    None where there is no other context.
    """
    if count == 0 or len(contexts) < 2:
        return contexts[:0]
    near = min(_NEAR, len(contexts) - 1)
    search = NearestNeighbors(n_neighbors=near).fit(
        contexts / standard_spread(contexts)
    )
    found = search.kneighbors(return_distance=False)
    one = rng.integers(len(contexts), size=count)
    other = found[one, rng.integers(near, size=count)]
    share = rng.random((count, 1))
    return contexts[one] + share * (contexts[other] - contexts[one])
