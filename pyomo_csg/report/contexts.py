"""Example contexts for a report, and the outcomes observed after similar contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from pyomo_csg.decisions.decider import LearnedDecider
from pyomo_csg.learn.history import History

_EXAMPLES = 6
_MIN_NEIGHBORS, _MAX_NEIGHBORS = 10, 60  # in between, a tenth of the pairs
_NAMED = 3  # columns in the name of a context


@dataclass(frozen=True, eq=False)
class ContextExample:
    """A context to show: its name, its values, and nearby outcomes (m, p) if there are data."""

    name: str
    context: np.ndarray
    near: np.ndarray | None = None


def example_contexts(
    policy: LearnedDecider, pairs: History | None
) -> list[ContextExample]:
    """Return a few different contexts: typical ones of the pairs, or around the mean."""
    if pairs is None:
        return _contexts_around_mean(policy)
    return [
        ContextExample(_describe(policy, x), x, nearby_outcomes(policy, x, pairs))
        for x in _typical_contexts(policy, pairs.contexts)
    ]


def nearby_outcomes(
    policy: LearnedDecider, context: np.ndarray, pairs: History
) -> np.ndarray:
    """Return the outcomes (m, p) after the nearest tenth of contexts, 10 to 60 of them.

    Distances are Euclidean, in standard deviations of the training contexts.
    """
    count = max(_MIN_NEIGHBORS, min(_MAX_NEIGHBORS, len(pairs) // 10))
    nearest = NearestNeighbors(n_neighbors=min(len(pairs), count))
    nearest.fit(_standardize(policy, pairs.contexts))
    point = _standardize(policy, context[None])
    (rows,) = nearest.kneighbors(point, return_distance=False)
    return pairs.outcomes[rows]


def _typical_contexts(policy: LearnedDecider, contexts: np.ndarray) -> np.ndarray:
    """Return the contexts nearest to cluster centers, in sorted order."""
    distinct = np.unique(contexts, axis=0)
    if len(distinct) <= _EXAMPLES:
        return distinct
    points = _standardize(policy, distinct)
    with threadpool_limits(
        1
    ):  # the order of summation, and so the choice, depends on it
        clusters = KMeans(_EXAMPLES, n_init=4, random_state=0).fit(points)
    nearest = NearestNeighbors(n_neighbors=1).fit(points)
    rows = nearest.kneighbors(clusters.cluster_centers_, return_distance=False)
    return distinct[np.unique(rows)]


def _contexts_around_mean(policy: LearnedDecider) -> list[ContextExample]:
    center, spread = _scaling(policy)
    mean = np.broadcast_to(center, policy.context_shape)
    found = [ContextExample("the mean context", np.array(mean))]
    for j, name in enumerate(_column_names(policy)[: _EXAMPLES // 2]):
        for sign, word in ((-1, "below"), (1, "above")):
            moved = np.array(mean)
            moved[..., j] += sign * spread[j]
            found.append(ContextExample(f"{name} one standard deviation {word}", moved))
    return found[:_EXAMPLES]


def _describe(policy: LearnedDecider, context: np.ndarray) -> str:
    """Return the first values of a context by name; for a panel, those of its last step."""
    last = context if context.ndim == 1 else context[-1]
    words = [
        f"{name} {value:.4g}"
        for name, value in zip(_column_names(policy)[:_NAMED], last, strict=False)
    ]
    words += ["…"] * (len(last) > _NAMED)
    return ("" if context.ndim == 1 else "last step: ") + ", ".join(words)


def _column_names(policy: LearnedDecider) -> list[str]:
    given = policy.context_names
    return list(given or (f"x{j + 1}" for j in range(policy.context_shape[-1])))


def _standardize(policy: LearnedDecider, contexts: np.ndarray) -> np.ndarray:
    center, spread = _scaling(policy)
    return ((contexts - center) / spread).reshape(len(contexts), -1)


def _scaling(policy: LearnedDecider) -> tuple[np.ndarray, np.ndarray]:
    generator = policy.learned.generator
    return generator.center, generator.spread
