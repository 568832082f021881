"""Scenario reduction: few scenarios, with weights, that stand for many."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

_STARTS = 10


def kmeans(
    outcomes: np.ndarray,
    weights: np.ndarray | None,
    count: int,
    seed: int = 0,
    unit: Any = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the centers of clusters, and what share of the outcomes is in each.

    Parameters
    ----------
    outcomes : array (m, p)
    weights : array (m,), optional
        Default: 1/m each.
    count : int
        K. Where fewer outcomes are distinct, those are returned.
    seed : int
        Of the first centers: the best of ten starts is taken.
    unit : float or array (p,), optional
        What outcomes are divided by before distances are taken.

    Returns
    -------
    scenarios : array (K, p)
    weights : array (K,)

    Examples
    --------
    >>> scenarios, weights = kmeans(np.array([[1.0], [3], [9], [9]]), None, 2)
    >>> sorted(zip(scenarios.ravel().tolist(), weights.tolist()))
    [(2.0, 0.5), (9.0, 0.5)]
    """
    outcomes, weights = _distinct(outcomes, weights)
    if count >= len(outcomes):
        return outcomes, weights
    clusters = KMeans(count, n_init=_STARTS, random_state=seed)
    clusters.fit(outcomes / unit, sample_weight=weights)
    # Rounding may take a mean beyond what it is the mean of.
    centers = np.clip(
        clusters.cluster_centers_ * unit, outcomes.min(axis=0), outcomes.max(axis=0)
    )
    return centers, np.bincount(clusters.labels_, weights, count)


def forward_selection(
    outcomes: np.ndarray,
    weights: np.ndarray | None,
    count: int,
    unit: Any = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return outcomes picked one by one, each for the least Kantorovich distance.

    The fast forward selection of Heitsch and Roemisch (2003), with the Euclidean norm as
    the cost of moving an outcome. What is not picked gives its weight to the nearest that
    is, which is optimal for those that were picked.

    Parameters
    ----------
    outcomes, weights, count, unit
        As in :func:`kmeans`.

    Returns
    -------
    scenarios : array (K, p)
        In the order in which they were picked.
    weights : array (K,)

    Examples
    --------
    >>> forward_selection(np.array([[1.0], [2], [3], [9]]), None, 2)
    (array([[2.], [9.]]), array([0.75, 0.25]))
    """
    outcomes, weights = _distinct(outcomes, weights)
    if count >= len(outcomes):
        return outcomes, weights
    apart = cdist(outcomes / unit, outcomes / unit)
    nearest = np.full(len(outcomes), np.inf)
    picked: list[int] = []
    for _ in range(count):
        distances = weights @ np.minimum(nearest[:, None], apart)
        distances[picked] = np.inf
        picked.append(int(distances.argmin()))
        nearest = np.minimum(nearest, apart[:, picked[-1]])
    owner = apart[:, picked].argmin(axis=1)
    return outcomes[picked], np.bincount(owner, weights, count)


def _distinct(
    outcomes: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the outcomes that have a weight, each once; weights sum to 1."""
    if weights is None:
        weights = np.full(len(outcomes), 1 / len(outcomes))
    used = weights > 0
    points, owner = np.unique(outcomes[used], axis=0, return_inverse=True)
    shares = np.bincount(owner.ravel(), weights[used], len(points))
    return points, shares / shares.sum()
