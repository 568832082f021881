"""Sets of K scenarios to start from: by distance, at random, and by costs."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from pyomo_csg.learn.distributions.reduction import forward_selection, kmeans
from pyomo_csg.reduction.decision_costs import DecisionCosts
from pyomo_csg.reduction.weighted_points import Admission, WeightedPoints

_MOST_SELECTED_FROM = 2_000  # outcomes, whose distances are a square matrix
_RANDOM_SETS = 8
_POOL = 40  # outcomes whose own best decisions measure the others


def kmeans_set(
    outcomes: WeightedPoints, count: int, seed: int, admission: Admission
) -> WeightedPoints:
    """Return the centers of k-means."""
    with threadpool_limits(1):  # more threads wait for each other on a busy machine
        points, weights = kmeans(
            outcomes.points, outcomes.weights, count, seed, outcomes.unit
        )
    return WeightedPoints(admission.admit(points), weights)


def nearest_set(outcomes: WeightedPoints, centers: WeightedPoints) -> WeightedPoints:
    """Return the outcomes nearest to centers: programs may need whole numbers."""
    unit = outcomes.unit
    distances = cdist(centers.points / unit, outcomes.points / unit)
    return WeightedPoints(outcomes.points[distances.argmin(axis=1)], centers.weights)


def forward_set(
    outcomes: WeightedPoints, count: int, rng: np.random.Generator
) -> WeightedPoints:
    """Return the outcomes of fast forward selection, from a sample if there are many."""
    some, unit = outcomes.sample(_MOST_SELECTED_FROM, rng), outcomes.unit
    points, _ = forward_selection(some.points, some.weights, count, unit)
    return WeightedPoints(points, outcomes.shares(points, unit))


def random_sets(
    outcomes: WeightedPoints, count: int, rng: np.random.Generator
) -> list[WeightedPoints]:
    """Return outcomes drawn at random, with equal weights or those of the nearest."""
    sets = []
    for number in range(_RANDOM_SETS):
        points = outcomes.draw(count, rng)
        weights = np.full(count, 1 / count)
        if number % 2:
            weights = outcomes.shares(points, outcomes.unit)
        sets.append(WeightedPoints(points, weights))
    return sets


def cost_sets(
    outcomes: WeightedPoints,
    count: int,
    costs: DecisionCosts,
    seed: int,
    admission: Admission,
) -> list[WeightedPoints]:
    """Return sets of outcomes that are alike in what decisions cost under them.

    The decisions are those that are best for single outcomes. Outcomes are clustered by
    their vectors of costs (Keutchayan, Ortmann and Rei, 2023). Outcomes are selected by
    their opportunity costs, which each decision has under another's outcome (Bertsimas
    and Mundru, 2023; Hewitt, Ortmann and Rei, 2022).
    """
    rng = np.random.default_rng(seed)
    pool = outcomes.sample(_POOL, rng)
    singles = [WeightedPoints(point[None], np.ones(1)) for point in pool.points]
    table = costs.cost_table(costs.decide(singles), outcomes)
    known = np.isfinite(table).all(axis=1)
    if known.sum() < 2:
        return []
    sets = _clusters(outcomes, table[known], count, seed, admission)
    places = [
        int((outcomes.points == point).all(axis=1).argmax()) for point in pool.points
    ]
    if known.all() and count < len(pool):
        sets.append(_select_by_opportunity(outcomes, pool, table, places, count))
    return sets


def _clusters(
    outcomes: WeightedPoints,
    table: np.ndarray,
    count: int,
    seed: int,
    admission: Admission,
) -> list[WeightedPoints]:
    """Return clusters in the space of costs (decisions, m): their means and medoids."""
    features = table.T
    with threadpool_limits(1):
        centers, _ = kmeans(features, outcomes.weights, count, seed)
    distances = cdist(features, centers)
    means = outcomes.clusters(distances.argmin(axis=1))
    medoids = np.unique(distances.argmin(axis=0))
    shares = np.bincount(
        distances[:, _first_of_each(distances, medoids)].argmin(axis=1),
        outcomes.weights,
        len(medoids),
    )
    return [
        WeightedPoints(admission.admit(means.points), means.weights),
        WeightedPoints(outcomes.points[medoids], shares),
    ]


def _first_of_each(distances: np.ndarray, medoids: np.ndarray) -> np.ndarray:
    """Return a center for each medoid; two centers may have the same one."""
    nearest = distances.argmin(axis=0)
    return np.array([int((nearest == medoid).argmax()) for medoid in medoids])


def _select_by_opportunity(
    outcomes: WeightedPoints,
    pool: WeightedPoints,
    table: np.ndarray,
    places: list[int],
    count: int,
) -> WeightedPoints:
    """Select outcomes of the pool one by one, to lower the total opportunity cost."""
    least = table.min(axis=0)
    lost = table - least  # (pool, m): by deciding for another outcome
    lost_back = lost[:, places]
    selected: list[int] = []
    to_selected = np.full(len(pool), np.inf)
    symmetric = lost_back + lost_back.T
    for _ in range(count):
        totals = np.minimum(to_selected, symmetric) @ pool.weights
        totals[selected] = np.inf
        selected.append(int(totals.argmin()))
        to_selected = np.minimum(to_selected, symmetric[selected[-1]])
    nearest = lost[selected].argmin(axis=0)
    shares = np.bincount(nearest, outcomes.weights, count)
    return WeightedPoints(pool.points[selected], shares)
