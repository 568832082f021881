"""How far a policy is from the best there can be, on data alone.

The multiple replications of Mak, Morton and Wood (1999): the optimum on a few outcomes
costs less, in expectation, than any decision made before them. So the mean cost of a
policy on groups of pairs, less the optimum on each group's outcomes, is on average no
less than its optimality gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.guarantees.holdout import decision_costs, read_pairs
from pyomo_csg.guarantees.intervals import Interval, mean_interval
from pyomo_csg.learn.distributions.samplers import context_features
from pyomo_csg.learn.history import History
from pyomo_csg.learn.networks.domains import standard_spread
from pyomo_csg.validation import (
    is_one_of,
    is_whole,
    seed_problems,
    share_problems,
    size_problems,
)

PERFECT, NEIGHBOURS, CONTEXT_FREE = RIVALS = (
    "perfect information",
    "neighbourhoods",
    "context-free",
)
_GROUPS, _LARGEST = 30, 30  # as many groups as Mak, Morton and Wood have


@dataclass(frozen=True)
class Gap:
    """What no rival can save, with confidence.

    Attributes
    ----------
    rival : str
        Who it is measured against. ``'perfect information'``: who knows each outcome
        beforehand, as no policy does. ``'neighbourhoods'``: the best decision for each of
        some groups of like contexts. ``'context-free'``: the best decision for all.
    size : int
        Pairs a group.
    interval : Interval
        Of the mean gap; only ``upper`` is a bound of the true gap.
    """

    rival: str
    size: int
    interval: Interval

    @property
    def proven(self) -> bool:
        """Whether ``interval.upper`` bounds what the rival saves, as surely as its method.

        So it is but for neighbourhoods: their contexts differ, and the best policy may
        cost less than the best single decision for all of them.
        """
        return self.rival != NEIGHBOURS


def optimality_gap(
    policy: Decider,
    data: Any,
    *,
    rival: str = "neighbourhoods",
    delta: float = 0.05,
    size: int | None = None,
    width: float | None = None,
    seed: int = 0,
) -> Gap:
    """Return how much more than the best a policy costs, at most.

    Parameters
    ----------
    policy : Decider
    data : (contexts, outcomes) or DataFrame
        Pairs that it was not learned from.
    rival : str
        As in :class:`Gap`.
    delta : float
        The chance that the mean gap is above ``interval.upper``, at most.
    size : int, optional
        Pairs a group. Default: so that there are 30 groups, but at most 30; always 1
        for perfect information.
    width : float, optional
        How far apart two costs can be at most, if that is known.
    seed : int
        Of the groups.

    Raises
    ------
    DataError

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> policy = csg.fit(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2,
    ...     method="mmd", progress=False,
    ... )
    >>> held_out = newsvendor.sample(120, seed=2)
    >>> gap = optimality_gap(policy, held_out, rival="perfect information")
    >>> gap.size, gap.proven, 0 <= gap.interval.mean <= gap.interval.upper
    (1, True, True)
    """
    pairs = read_pairs(policy, data)
    problems = [*share_problems(delta=delta), *seed_problems(seed)]
    if not is_one_of(rival, RIVALS):
        problems.append(f"rival is {rival!r}; give one of {RIVALS}")
    if width is not None:
        problems += size_problems(width=width)
    most = len(pairs) // 2  # so that there are two groups
    if len(pairs) < 4:
        problems.append(f"there are {len(pairs)} pairs; give at least 4")
    if size is not None and not (is_whole(size) and 1 <= size <= most):
        problems.append(f"size is {size!r}; give a whole number from 1 to {most}")
    if problems:
        raise DataError("There is no such gap", problems)
    costs = decision_costs(policy, pairs)
    return estimate_gap(policy, pairs, costs, rival, delta, size, width, seed)


def estimate_gap(
    policy: Decider,
    pairs: History,
    costs: np.ndarray,
    rival: str,
    delta: float,
    size: int | None = None,
    width: float | None = None,
    seed: int = 0,
) -> Gap:
    """Return the gap of a policy whose decisions cost so much (n,) on pairs."""
    if size is None:
        size = min(_LARGEST, max(2, len(pairs) // _GROUPS))
    if rival == PERFECT:
        size = 1
    groups = _groups(pairs, size, rival, seed)
    best = policy.oracle.solve(pairs.outcomes[groups], progress=False).value
    gaps = costs[groups].mean(axis=1) - int(policy.two_stage.sense) * best
    apart = None if width is None else width * (1 if size == 1 else 2)
    return Gap(rival, size, mean_interval(gaps, delta, apart))


def _groups(pairs: History, size: int, rival: str, seed: int) -> np.ndarray:
    """Return which pairs (groups, size) go together; a few may be left over."""
    count = len(pairs) // size
    order = np.random.default_rng(seed).permutation(len(pairs))[: count * size]
    if rival == NEIGHBOURS:
        features = context_features(pairs.contexts)
        order = _sorted_by_place(features / standard_spread(features), order, count)
    return order.reshape(count, size)


def _sorted_by_place(features: np.ndarray, rows: np.ndarray, parts: int) -> np.ndarray:
    """Return rows so that consecutive parts are near each other, as in a k-d tree."""
    if parts < 2:
        return rows
    widest = np.ptp(features[rows], axis=0).argmax()
    rows = rows[np.argsort(features[rows, widest], kind="stable")]
    left = parts // 2
    middle = len(rows) // parts * left
    return np.concatenate(
        [
            _sorted_by_place(features, rows[:middle], left),
            _sorted_by_place(features, rows[middle:], parts - left),
        ]
    )
