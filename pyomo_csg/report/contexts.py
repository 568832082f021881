"""Which contexts to show, and what happened after contexts like them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from pyomo_csg.decisions.learned_decider import LearnedDecider
from pyomo_csg.learn.history import History

_SHOWN = 6
_FEWEST, _MOST = 10, 60  # neighbours; in between, a tenth of the pairs
_NAMED = 3


@dataclass(frozen=True, eq=False)
class Shown:
    """A context that a report shows.

    Attributes
    ----------
    name : str
        What a picker calls it.
    context : array (d,) or (W, d)
    near : array (m, p), optional
        Outcomes that followed the contexts nearest to it; None without data.
    """

    name: str
    context: np.ndarray
    near: np.ndarray | None = None


def shown_contexts(policy: LearnedDecider, pairs: History | None) -> list[Shown]:
    """Return a few contexts that differ: typical ones of the pairs, or around the mean."""
    if pairs is None:
        return _around_the_mean(policy)
    return [
        Shown(_named(policy, x), x, near_outcomes(policy, x, pairs))
        for x in _typical(policy, pairs.contexts)
    ]


def near_outcomes(
    policy: LearnedDecider, context: np.ndarray, pairs: History
) -> np.ndarray:
    """Return the outcomes (m, p) after the contexts nearest to one.

    Distances are Euclidean in standard deviations of what was learned from. The nearest
    tenth counts, but at least 10 and at most 60.
    """
    count = min(len(pairs), max(_FEWEST, min(_MOST, len(pairs) // 10)))
    nearest = NearestNeighbors(n_neighbors=count).fit(_flat(policy, pairs.contexts))
    (rows,) = nearest.kneighbors(_flat(policy, context[None]), return_distance=False)
    return pairs.outcomes[rows]


def _typical(policy: LearnedDecider, contexts: np.ndarray) -> np.ndarray:
    """Return the contexts that are nearest to the centers of clusters, in order."""
    distinct = np.unique(contexts, axis=0)
    if len(distinct) <= _SHOWN:
        return distinct
    points = _flat(policy, distinct)
    with threadpool_limits(1):  # the order of a sum, and so the choice, depends on it
        clusters = KMeans(_SHOWN, n_init=4, random_state=0).fit(points)
    nearest = NearestNeighbors(n_neighbors=1).fit(points)
    rows = nearest.kneighbors(clusters.cluster_centers_, return_distance=False)
    return distinct[np.unique(rows)]


def _around_the_mean(policy: LearnedDecider) -> list[Shown]:
    center, spread = _scaling(policy)
    middle = np.broadcast_to(center, policy.context_shape)
    found = [Shown("the mean context", np.array(middle))]
    for j, name in enumerate(_names(policy)[: _SHOWN // 2]):
        for sign, word in ((-1, "below"), (1, "above")):
            moved = np.array(middle)
            moved[..., j] += sign * spread[j]
            found.append(Shown(f"{name} one standard deviation {word}", moved))
    return found[:_SHOWN]


def _named(policy: LearnedDecider, context: np.ndarray) -> str:
    """Return a context in words; of a panel, its last step."""
    last = context if context.ndim == 1 else context[-1]
    words = [
        f"{name} {value:.4g}"
        for name, value in zip(_names(policy)[:_NAMED], last, strict=False)
    ]
    words += ["…"] * (len(last) > _NAMED)
    return ("" if context.ndim == 1 else "last step: ") + ", ".join(words)


def _names(policy: LearnedDecider) -> list[str]:
    given = policy.context_names
    return list(given or (f"x{j + 1}" for j in range(policy.context_shape[-1])))


def _flat(policy: LearnedDecider, contexts: np.ndarray) -> np.ndarray:
    center, spread = _scaling(policy)
    return ((contexts - center) / spread).reshape(len(contexts), -1)


def _scaling(policy: LearnedDecider) -> tuple[np.ndarray, np.ndarray]:
    network = policy.network
    return network.center.numpy(force=True), network.spread.numpy(force=True)
