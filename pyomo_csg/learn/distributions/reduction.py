"""Scenario reduction: replace many weighted outcomes by a few weighted scenarios."""

from __future__ import annotations

from typing import Any

import numpy as np

_STARTS = 10
_QUICK_STARTS, _QUICK_STEPS, _LAST_STEPS = 4, 2, 15


def reduce(
    points: np.ndarray,
    weights: np.ndarray | None,
    count: int,
    unit: Any = 1.0,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return exactly K cluster centers and their weights, in about a millisecond.

    A few starts by k-means++ take a few steps of Lloyd's algorithm together, and the best
    is then completed.

    Parameters
    ----------
    points : array (m, p)
    weights : array (m,), optional
        Default: 1/m each.
    count : int
        K. If there are fewer distinct points, some are repeated and share their weight.
    unit : float or array (p,), optional
        Points are divided by this before distances are computed.
    seed : int

    Returns
    -------
    scenarios : array (K, p)
    weights : array (K,)

    Examples
    --------
    >>> scenarios, weights = reduce(np.array([[1.0], [3], [9], [9]]), None, 2)
    >>> sorted(zip(scenarios.ravel().tolist(), weights.tolist()))
    [(2.0, 0.5), (9.0, 0.5)]
    """
    if weights is None:
        weights = np.full(len(points), 1 / len(points))
    elif not weights.all():
        points, weights = points[weights > 0], weights[weights > 0]
    weights = weights / weights.sum()
    if count == 1:
        return (weights @ points)[None], np.ones(1)
    middle = weights @ points
    scaled = (points - middle) / unit
    squares = np.einsum("ij,ij->i", scaled, scaled)
    rng = np.random.default_rng(seed)
    centers = _starts(scaled, squares, weights, count, rng)
    if centers is None:
        return _repeated(*_merge_duplicates(points, weights), count)
    for _ in range(_QUICK_STEPS):
        apart = _cluster_distances(scaled, squares, centers)
        centers, _ = _centers(scaled, weights, apart.argmin(axis=1), centers)
    apart = _cluster_distances(scaled, squares, centers)
    nearest = apart.argmin(axis=1)
    best = int((apart.min(axis=1) @ weights).argmin())
    centers, nearest = centers[best : best + 1], nearest[best : best + 1]
    for _ in range(_LAST_STEPS):
        centers, shares = _centers(scaled, weights, nearest, centers)
        before = nearest
        nearest = _cluster_distances(scaled, squares, centers).argmin(axis=1)
        if (nearest == before).all():
            break
    centers, shares = _centers(scaled, weights, nearest, centers)
    found = centers[0] * unit + middle
    # Rounding may push a center out of the range of its points.
    found = np.minimum(np.maximum(found, points.min(axis=0)), points.max(axis=0))
    filled = shares[0] > 0
    if filled.all():
        return found, shares[0]
    return _repeated(found[filled], shares[0][filled], count)


def _starts(
    points: np.ndarray,
    squares: np.ndarray,
    weights: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> np.ndarray | None:
    """Return centers (starts, K, p) by k-means++, or None if points are too few."""
    levels = rng.random((count, _QUICK_STARTS))
    chosen = np.searchsorted(np.cumsum(weights)[:-1], levels[0])
    centers = [points[chosen]]
    apart = _squared_distances(points, squares, centers[0])
    least = 1e-20 * float(squares.max(initial=0.0))
    for level in levels[1:]:
        mass = np.cumsum(apart * weights, axis=1)
        if (apart.max(axis=1) <= least).any():
            return None
        wanted = level * mass[:, -1]
        chosen = np.minimum((mass <= wanted[:, None]).sum(axis=1), len(points) - 1)
        centers.append(points[chosen])
        apart = np.minimum(apart, _squared_distances(points, squares, centers[-1]))
    return np.stack(centers, axis=1)


def _squared_distances(
    points: np.ndarray, squares: np.ndarray, centers: np.ndarray
) -> np.ndarray:
    """Return squared distances (k, m) from centers (k, p) to points (m, p)."""
    own = np.einsum("ij,ij->i", centers, centers)
    apart = (-2 * centers) @ points.T
    apart += own[:, None]
    apart += squares
    return np.maximum(apart, 0.0, out=apart)


def _cluster_distances(
    points: np.ndarray, squares: np.ndarray, centers: np.ndarray
) -> np.ndarray:
    """Return squared distances (starts, K, m) from centers (starts, K, p) to points."""
    apart = _squared_distances(points, squares, centers.reshape(-1, centers.shape[2]))
    return apart.reshape(*centers.shape[:2], len(points))


def _centers(
    points: np.ndarray, weights: np.ndarray, nearest: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean points (starts, K, p) and weights (starts, K) of the clusters.

    A cluster without points keeps its center.
    """
    starts, count, _ = before.shape
    belongs = (nearest[:, None] == np.arange(count)[:, None]) * weights
    sizes = belongs.sum(axis=2)
    sums = (belongs.reshape(starts * count, -1) @ points).reshape(before.shape)
    is_filled = (sizes > 0)[..., None]
    means = sums / np.where(is_filled, sizes[..., None], 1.0)
    return np.where(is_filled, means, before), sizes


def _repeated(
    points: np.ndarray, weights: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return K points, of which the heaviest are repeated and share their weight."""
    copies = np.ones(len(points), dtype=int)
    while copies.sum() < count:
        copies[(weights / copies).argmax()] += 1
    return points.repeat(copies, axis=0), (weights / copies).repeat(copies)


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
    from sklearn.cluster import KMeans  # deciding does without

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
    from scipy.spatial.distance import cdist  # deciding does without

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
