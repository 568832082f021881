"""The decision on all outcomes, or bounds on its cost where that program is too large."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from pyomo_csg.reduction.weighted_points import WeightedPoints
from pyomo_csg.solve import Oracle

# Recourse variables in a program that takes seconds.
_MOST_LINEAR, _MOST_OTHER = 30_000, 3_000
_GROUP_SHARE = 0.2  # of that, in each program of a group
_SMALLER = 4  # divide the groups by this while they take too long
_TRIAL = 2  # groups
_MIP_GAP = 1e-3
_EXACT = 1e-6  # a relative gap that counts as solved


@dataclass(frozen=True)
class Reference:
    """Decisions (n, s) to compare with, and a proven bound on the expected cost.

    If ``is_full``, the only decision is the optimal one on all outcomes. ``bound`` is
    -inf where nothing was proven.
    """

    decisions: np.ndarray
    bound: float
    is_full: bool


def find_reference(
    oracle: Oracle, outcomes: WeightedPoints, deadline: float, seed: int
) -> Reference:
    """Solve the program on all outcomes, or on groups of them if it is too large."""
    variables = max(1, len(oracle.two_stage.recourse_variables))
    kind = _MOST_LINEAR
    if oracle.two_stage.integer or _is_slow(oracle):
        kind = _MOST_OTHER
    if len(outcomes) * variables <= kind:
        return _solve_groups(oracle, outcomes, [np.arange(len(outcomes))], deadline)
    size = max(1, int(_GROUP_SHARE * kind / variables))
    order = np.random.default_rng(seed).permutation(len(outcomes))
    while True:
        groups = np.array_split(order, -(-len(outcomes) // size))
        start = time.monotonic()
        limit = start + (deadline - start) / _SMALLER
        _solve_groups(oracle, outcomes, groups[:_TRIAL], limit)
        now = time.monotonic()
        if size == 1 or (now - start) / _TRIAL * len(groups) <= deadline - now:
            return _solve_groups(oracle, outcomes, groups, deadline)
        size = max(1, size // _SMALLER)


def _is_slow(oracle: Oracle) -> bool:
    """Whether the model is quadratic or solved by another solver."""
    compiled = oracle._compiled
    return compiled is None or compiled.quadratic


def _solve_groups(
    oracle: Oracle, outcomes: WeightedPoints, groups: list[np.ndarray], deadline: float
) -> Reference:
    """Solve a program for each group.

    The mean of the groups' optimal values is a lower bound: one decision for all groups
    cannot cost less than the best for each.
    """
    width, sense = len(oracle.two_stage.first_stage_variables), oracle.two_stage.sense
    decisions, bounds = np.full((len(groups), width), np.nan), np.zeros(len(groups))
    is_full = len(groups) == 1
    shares = np.array([outcomes.weights[group].sum() for group in groups])
    sizes = np.array([len(group) for group in groups])
    for size in np.unique(sizes):
        places = np.flatnonzero(sizes == size)
        found = oracle.solve(
            np.stack([outcomes.points[groups[i]] for i in places]),
            np.stack([outcomes.weights[groups[i]] / shares[i] for i in places]),
            on_error="record",
            progress=False,
            fresh=True,
            deadline=deadline,
            mip_gap=None if is_full else _MIP_GAP,
        )
        decisions[places], bounds[places] = found.decision, int(sense) * found.bound
        values = int(sense) * found.value
        gaps = np.abs(values - bounds[places]) / np.maximum(1e-9, np.abs(values))
        is_full = is_full and bool((gaps <= _EXACT).all())
    bound = float(np.nan_to_num(shares @ bounds, nan=-np.inf))
    solved = np.isfinite(decisions).all(axis=1)
    return Reference(decisions[solved], bound, is_full)
