"""Scenario reduction: replace many weighted outcomes by a few weighted scenarios."""

from __future__ import annotations

from typing import Any

import numpy as np

_STARTS = 10
_QUICK_STARTS, _QUICK_STEPS, _LAST_STEPS = 3, 2, 15


def reduce(
    points: np.ndarray,
    weights: np.ndarray | None,
    count: int,
    unit: Any = 1.0,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return exactly K cluster centers and their weights, in about a millisecond.

    Lloyd's algorithm takes a few steps from a few starts by k-means++, and then continues
    from the best of these.

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
    clusters = _Clusters((points - middle) / unit, weights)
    centers = clusters.starts(count, np.random.default_rng(seed))
    if centers is None:
        return _repeat_heaviest(*_merge_duplicates(points, weights), count)
    for _ in range(_QUICK_STEPS):
        centers, _ = clusters.means(clusters.distances(centers).argmin(1), centers)
    apart = clusters.distances(centers)
    best = int((apart.min(axis=1) @ weights).argmin())
    centers, nearest = centers[best : best + 1], apart[best : best + 1].argmin(axis=1)
    for _ in range(_LAST_STEPS):
        centers, shares = clusters.means(nearest, centers)
        before, nearest = nearest, clusters.distances(centers).argmin(axis=1)
        if (nearest == before).all():
            break
    centers, shares = clusters.means(nearest, centers)
    found = centers[0] * unit + middle
    # Rounding may push a center out of the range of its points.
    found = np.minimum(np.maximum(found, points.min(axis=0)), points.max(axis=0))
    filled = shares[0] > 0
    return _repeat_heaviest(found[filled], shares[0][filled] / shares[0].sum(), count)


class _Clusters:
    """Steps of Lloyd's algorithm from several starts at once, by two products each."""

    def __init__(self, points: np.ndarray, weights: np.ndarray):
        m = len(points)
        self._points, self._weights = points, weights
        self._squares = np.einsum("ij,ij->i", points, points)
        self._lifted = np.ascontiguousarray(np.hstack([points, np.ones((m, 1))]).T)
        self._weighted = np.hstack([points, np.ones((m, 1))]) * weights[:, None]

    def starts(self, count: int, rng: np.random.Generator) -> np.ndarray | None:
        """Return centers (starts, K, p), or None if there are fewer points.

        By greedy k-means++: each center is the best of some points drawn.
        """
        trials = 2 + int(np.log(count))
        levels = rng.random((count, _QUICK_STARTS, trials))
        chosen = np.searchsorted(np.cumsum(self._weights)[:-1], levels[0, :, 0])
        centers = [self._points[chosen]]
        apart = self._squares + self.distances(centers[0][None])[0]
        least, each = 1e-20 * float(self._squares.max()), np.arange(_QUICK_STARTS)
        for level in levels[1:]:
            mass = np.cumsum(np.maximum(apart, 0.0) * self._weights, axis=1)
            if (apart.max(axis=1) <= least).any():
                return None
            wanted = level * mass[:, -1:]
            chosen = (mass[:, None] <= wanted[..., None]).sum(axis=2)
            tried = self._points[np.minimum(chosen, len(self._points) - 1)]
            after = self._squares + self.distances(tried)
            after = np.minimum(after, apart[:, None])
            best = (after @ self._weights).argmin(axis=1)
            centers.append(tried[each, best])
            apart = after[each, best]
        return np.stack(centers, axis=1)

    def distances(self, centers: np.ndarray) -> np.ndarray:
        """Return squared distances (starts, K, m) from centers, less the points' squares."""
        starts, count, p = centers.shape
        squares = np.einsum("ijk,ijk->ij", centers, centers)[..., None]
        lifted = np.concatenate([-2 * centers, squares], axis=2)
        return (lifted.reshape(-1, p + 1) @ self._lifted).reshape(starts, count, -1)

    def means(
        self, nearest: np.ndarray, before: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean points (starts, K, p) and weights (starts, K) of the clusters.

        A cluster without points keeps its center.
        """
        starts, count, p = before.shape
        belongs = nearest[:, None] == np.arange(count)[:, None]
        sums = belongs.reshape(starts * count, -1).astype(float) @ self._weighted
        sums = sums.reshape(starts, count, p + 1)
        sizes = sums[..., -1:]
        if sizes.all():
            return sums[..., :-1] / sizes, sizes[..., 0]
        means = sums[..., :-1] / np.where(sizes > 0, sizes, 1.0)
        return np.where(sizes > 0, means, before), sizes[..., 0]


def _repeat_heaviest(
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
    """Return cluster centers by scikit-learn, weighted by the shares of their outcomes.

    Arguments and results are those of :func:`reduce`, but if there are fewer than K
    distinct outcomes, those are returned. There are ten starts.

    Examples
    --------
    >>> scenarios, weights = kmeans(np.array([[1.0], [3], [9], [9]]), None, 2)
    >>> sorted(zip(scenarios.ravel().tolist(), weights.tolist()))
    [(2.0, 0.5), (9.0, 0.5)]
    """
    outcomes, weights = _merge_duplicates(outcomes, weights)
    if count >= len(outcomes):
        return outcomes, weights
    from sklearn.cluster import KMeans  # reduce does without

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
    optimal for that selection. Arguments and results are those of :func:`kmeans`;
    scenarios are in order of selection.

    Examples
    --------
    >>> forward_selection(np.array([[1.0], [2], [3], [9]]), None, 2)
    (array([[2.], [9.]]), array([0.75, 0.25]))
    """
    outcomes, weights = _merge_duplicates(outcomes, weights)
    if count >= len(outcomes):
        return outcomes, weights
    from scipy.spatial.distance import cdist  # reduce does without

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
