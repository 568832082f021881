"""A conditional distribution by forests and a copula, and augmentation of small histories.

A network that sees the same few hundred contexts again and again memorizes them.
Augmentation adds contexts between the observed ones, with outcomes drawn from the
estimated conditional distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.distributions.samplers import Forest
from pyomo_csg.learn.task import Task
from pyomo_csg.stages.inputs import valid_interval

_LEAF = 10
_LEAST = 3  # rows that cross-validated ridge regression needs
_TREES = 1200  # of all outcome columns together
_LEVELS = 20_000  # quantile levels of all outcome columns together
_PENALTIES = np.logspace(-2, 4, 13)
_ENOUGH = 1500  # rows from which on none are added
_MOST = 4  # rows added per observed row
_NEAR = 5


class CopulaForest:
    """Draws outcomes given the contexts ``at``: marginals by forests, dependence by ranks."""

    def __init__(
        self, contexts: np.ndarray, outcomes: np.ndarray, at: np.ndarray, seed: int
    ):
        rng = np.random.default_rng(seed)
        columns = outcomes.shape[1]
        trees = int(np.clip(_TREES // columns, 20, 200))
        levels = int(np.clip(_LEVELS // columns, 20, 100))
        predict = _linear_model(contexts, outcomes)
        self._quantiles = np.empty((len(at), columns, levels))
        self._levels = np.empty(outcomes.shape, dtype=int)
        for j in range(columns):
            known, new = (
                np.column_stack([x, predict(x)[:, j]]) for x in (contexts, at)
            )
            target = outcomes[:, j]
            forest = Forest(
                known, target[:, None], int(rng.integers(2**31)), trees, _LEAF
            )
            self._quantiles[:, j] = _quantiles(forest.weights(new), target, levels)
            ranks = _conditional_ranks(forest.weights(known), target, rng)
            self._levels[:, j] = (levels * ranks).astype(int)

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) for rows (B,) of ``at``."""
        picked = rng.integers(len(self._levels), size=(len(rows), count))
        columns = np.arange(self._quantiles.shape[1])
        return self._quantiles[rows.reshape(-1, 1, 1), columns, self._levels[picked]]


def _linear_model(
    contexts: np.ndarray, outcomes: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """Return ridge predictions as features: trees split along single columns only."""
    if len(contexts) < _LEAST:
        return lambda x: np.zeros((len(x), outcomes.shape[1]))
    ridge = make_pipeline(StandardScaler(), RidgeCV(_PENALTIES))
    ridge.fit(contexts, outcomes / standard_spread(outcomes))
    return lambda x: ridge.predict(x).reshape(len(x), -1)


def _quantiles(weights: csr_array, values: np.ndarray, levels: int) -> np.ndarray:
    """Return quantiles (n, levels) of values (m,) under each row of weights (n, m)."""
    order = np.argsort(values, kind="stable")
    by_value, ordered = weights[:, order], values[order]
    by_value.sort_indices()
    wanted = (np.arange(levels) + 0.5) / levels
    quantiles = np.empty((weights.shape[0], levels))
    for i, (start, end) in enumerate(pairwise(by_value.indptr)):
        below = np.cumsum(by_value.data[start:end])
        found = np.searchsorted(below, wanted * below[-1])
        quantiles[i] = ordered[by_value.indices[start + found]]
    return quantiles


def _conditional_ranks(
    weights: csr_array, values: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the leave-one-out conditional rank in (0, 1) of each value (m,).

    The ranks are uniform; ties are broken at random.
    """
    m, entries = len(values), weights.tocoo()
    row, column = entries.coords
    shares = np.where(row == column, 0.0, entries.data)
    total = np.maximum(np.bincount(row, shares, m), np.finfo(float).tiny)
    less = np.bincount(row, shares * (values[column] < values[row]), m) / total
    same = np.bincount(row, shares * (values[column] == values[row]), m) / total
    jump, chance = rng.random((2, m))
    order = np.lexsort([chance, less + jump * same])
    return (np.argsort(order) + 0.5) / m


def augment(
    task: Task, rows: Sequence[np.ndarray]
) -> tuple[Task, list[np.ndarray], list[CopulaForest]]:
    """Return the task with rows added, each fold's rows, and each fold's distribution.

    What is added to a fold depends on that fold's rows alone. Added rows follow those of
    the history.
    """
    rng, history = task.rng("enlarged"), task.history
    added = [
        interpolate_contexts(
            np.hstack([history.contexts[mine], history.known[mine]]),
            _added_count(len(mine)),
            task.rng("between"),
        )
        for mine in rows
    ]
    *ends, total = np.cumsum([len(some) for some in added])
    fresh = np.split(len(history) + np.arange(total), ends)
    width = history.contexts.shape[1]
    known = _admitted(task, np.concatenate(added)[:, width:])
    contexts = np.concatenate([history.contexts, *(one[:, :width] for one in added)])
    seed = int(rng.integers(2**31))
    forests = [
        CopulaForest(history.contexts[mine], history.outcomes[mine], contexts, seed)
        for mine in task.log.each("conditional distribution", rows)
    ]
    drawn = [
        forest.draw(mine, 1, rng)[:, 0]
        for forest, mine in zip(forests, fresh, strict=True)
    ]
    larger = task.with_rows(contexts[len(history) :], np.concatenate(drawn), known)
    return larger, [np.concatenate(r) for r in zip(rows, fresh, strict=True)], forests


def _admitted(task: Task, known: np.ndarray) -> np.ndarray:
    """Return known numbers (n, r), moved to observed ones where a domain has gaps."""
    for j, param in enumerate(task.oracle.two_stage.known_params):
        if np.isnan(valid_interval(param.parent_component())[0]):
            values = np.unique(task.history.known[:, j])
            nearest = np.abs(known[:, j, None] - values).argmin(axis=1)
            known[:, j] = values[nearest]
    return known


def _added_count(rows: int) -> int:
    return max(0, min(_ENOUGH - rows, _MOST * rows))


def interpolate_contexts(
    contexts: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Return contexts (count, d) between an observed one and one of its neighbors.

    Return none if there is only one context.
    """
    if count == 0 or len(contexts) < 2:
        return contexts[:0]
    near = min(_NEAR, len(contexts) - 1)
    scaled = contexts / standard_spread(contexts)
    neighbors = NearestNeighbors(n_neighbors=near).fit(scaled)
    found = neighbors.kneighbors(return_distance=False)
    one = rng.integers(len(contexts), size=count)
    other = found[one, rng.integers(near, size=count)]
    share = rng.random((count, 1))
    return contexts[one] + share * (contexts[other] - contexts[one])
