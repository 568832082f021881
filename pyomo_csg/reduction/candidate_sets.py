"""Candidate sets of K scenarios, and their improvement by the costs of their decisions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from pyomo_csg.learn.distributions.reduction import forward_selection, kmeans
from pyomo_csg.reduction.decision_costs import Admission, DecisionCosts, WeightedPoints
from pyomo_csg.solve import Oracle

_MOST_SELECTED_FROM = 2_000  # outcomes, whose distances are a square matrix
_RANDOM_SETS = 8
_POOL = 40  # outcomes whose best decisions are compared
_STEPS = 60
_RATE, _LAST_RATE = 0.1, 0.01  # of steps, in standard deviations of the outcomes
_NOISE = 0.1  # moves a step off the corners of the loss, in the same unit
_ROUNDS, _PATIENCE, _NEIGHBORS = 24, 6, 8


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
    """Return sets of outcomes under which decisions have similar costs.

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


def descend(
    oracle: Oracle,
    costs: DecisionCosts,
    starts: Sequence[WeightedPoints],
    outcomes: WeightedPoints,
    rng: np.random.Generator,
) -> list[WeightedPoints]:
    """Return the best sets on the way down from each start, which have K scenarios each.

    The steps are Adam's. Their noise shrinks with the rate. Nothing is returned if there
    is no gradient, as where only costs are uncertain.
    """
    scenarios = np.stack([start.points for start in starts])
    weights = np.stack([start.weights for start in starts])
    low, high = outcomes.points.min(axis=0), outcomes.points.max(axis=0)
    size = (len(starts), *outcomes.points.shape)
    points = np.broadcast_to(outcomes.points, size)
    best, least = scenarios.copy(), np.full(len(starts), np.inf)
    mean, square = np.zeros_like(scenarios), np.zeros_like(scenarios)
    for step in range(_STEPS):
        decay = (_LAST_RATE / _RATE) ** (step / _STEPS)
        noise = _NOISE * decay * outcomes.unit * rng.standard_normal(scenarios.shape)
        tried = np.clip(scenarios + (noise if step else 0.0), low, high)
        found = oracle.loss_gradient(
            tried,
            points,
            weights=weights,
            outcome_weights=np.broadcast_to(outcomes.weights, size[:2]),
            on_error="record",
            progress=False,
            fresh=True,
            deadline=costs.deadline,
        )
        slopes = np.nan_to_num(found.gradient) * outcomes.unit
        if step == 0 and not slopes.any():
            return []
        better = found.loss < least  # False where it is NaN
        best[better], least[better] = tried[better], found.loss[better]
        if costs.is_over:
            break
        mean = 0.9 * mean + 0.1 * slopes
        square = 0.99 * square + 0.01 * slopes**2
        bias = np.sqrt(1 - 0.99 ** (step + 1)) / (1 - 0.9 ** (step + 1))
        size_of_step = np.where(square > 0, np.sqrt(square), 1.0)
        move = _RATE * decay * bias * mean / size_of_step
        scenarios = np.clip(scenarios - move * outcomes.unit, low, high)
    return [WeightedPoints(*pair) for pair in zip(best, weights, strict=True)]


def swap(
    costs: DecisionCosts,
    start: WeightedPoints,
    cost: float,
    outcomes: WeightedPoints,
    admission: Admission,
    rng: np.random.Generator,
) -> WeightedPoints:
    """Return a set after changes of one scenario or weight at a time that lower its cost.

    ``cost`` is that of the start. The search stops after six rounds without improvement.
    """
    best, waited = start, 0
    for _ in range(_ROUNDS):
        tried = [
            _neighbor(best, outcomes, admission, rng, number)
            for number in range(_NEIGHBORS)
        ]
        found = costs.costs(costs.decide(tried), outcomes)
        least = int(found.argmin())
        waited = 0 if found[least] < cost else waited + 1
        if found[least] < cost:
            best, cost = tried[least], float(found[least])
        if waited == _PATIENCE or costs.is_over:
            break
    return best


def _neighbor(
    current: WeightedPoints,
    outcomes: WeightedPoints,
    admission: Admission,
    rng: np.random.Generator,
    number: int,
) -> WeightedPoints:
    """Return a set that differs in one scenario, or in two weights."""
    points, weights = current.points.copy(), current.weights.copy()
    place = int(rng.integers(len(points)))
    if number % 4 == 0 and len(points) > 1:
        other = (place + int(rng.integers(1, len(points)))) % len(points)
        moved = rng.uniform(0, 1) * weights[place]
        weights[place] -= moved
        weights[other] += moved
        return WeightedPoints(points, weights)
    target = outcomes.draw(1, rng)[0]
    share = 1.0 if number % 4 == 1 else rng.uniform(0, 1)
    points[place] += share * (target - points[place])
    points[place : place + 1] = admission.admit(points[place : place + 1])
    if number % 4 != 3:
        weights = outcomes.shares(points, outcomes.unit)
    return WeightedPoints(points, weights)
