"""Scenario reduction: replace many weighted outcomes by a few weighted scenarios."""

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
    """Return cluster centers, weighted by the share of outcomes in each cluster.

    Parameters
    ----------
    outcomes : array (m, p)
    weights : array (m,), optional
        Default: 1/m each.
    count : int
        K. If there are fewer distinct outcomes, those are returned.
    seed : int
        Seed of the ten starts.
    unit : float or array (p,), optional
        Outcomes are divided by this before distances are computed.

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
    outcomes, weights = _merge_duplicates(outcomes, weights)
    if count >= len(outcomes):
        return outcomes, weights
    clusters = KMeans(count, n_init=_STARTS, random_state=seed)
    clusters.fit(outcomes / unit, sample_weight=weights)
    # Rounding may push a center out of the range of its outcomes.
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
    """Return outcomes selected one by one to minimize the Kantorovich distance.

    The fast forward selection of Heitsch and Roemisch (2003), with Euclidean distances.
    Outcomes that are not selected pass their weight to the nearest selected one, which is
    optimal for that selection.

    Parameters
    ----------
    outcomes, weights, count, unit
        As in :func:`kmeans`.

    Returns
    -------
    scenarios : array (K, p)
        In order of selection.
    weights : array (K,)

    Examples
    --------
    >>> forward_selection(np.array([[1.0], [2], [3], [9]]), None, 2)
    (array([[2.], [9.]]), array([0.75, 0.25]))
    """
    outcomes, weights = _merge_duplicates(outcomes, weights)
    if count >= len(outcomes):
        return outcomes, weights
    distances = cdist(outcomes / unit, outcomes / unit)
    to_selected = np.full(len(outcomes), np.inf)
    selected: list[int] = []
    for _ in range(count):
        totals = weights @ np.minimum(to_selected[:, None], distances)
        totals[selected] = np.inf
        selected.append(int(totals.argmin()))
        to_selected = np.minimum(to_selected, distances[:, selected[-1]])
    nearest = distances[:, selected].argmin(axis=1)
    return outcomes[selected], np.bincount(nearest, weights, count)


def _merge_duplicates(
    outcomes: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct outcomes of positive weight; the weights sum to 1."""
    if weights is None:
        weights = np.full(len(outcomes), 1 / len(outcomes))
    positive = weights > 0
    points, which = np.unique(outcomes[positive], axis=0, return_inverse=True)
    shares = np.bincount(which.ravel(), weights[positive], len(points))
    return points, shares / shares.sum()
