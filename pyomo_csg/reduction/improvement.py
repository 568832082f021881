"""Improve sets of scenarios by the true costs of their decisions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyomo_csg.reduction.decision_costs import DecisionCosts
from pyomo_csg.reduction.weighted_points import Admission, WeightedPoints
from pyomo_csg.solve import Oracle

_STEPS = 60
_RATE, _LAST_RATE = 0.1, 0.01  # of steps, in standard deviations of the outcomes
_NOISE = 0.1  # moves a step off the corners of the loss, in the same unit
_ROUNDS, _PATIENCE, _NEIGHBORS = 24, 6, 8


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

    ``cost`` is that of the start. The search stops after six rounds in vain.
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
