"""Upper bounds on the optimality gap of a policy, from held-out pairs.

They use the multiple replications of Mak, Morton and Wood (1999): in expectation the
optimum on a few outcomes costs no more than any decision made before them. So a policy's
mean cost on groups of pairs, minus the optimum on each group's outcomes, overestimates its
optimality gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.evaluation.comparison import policy_costs, read_pairs
from pyomo_csg.guarantees.intervals import Interval, mean_interval
from pyomo_csg.learn.distributions.features import context_features, standard_spread
from pyomo_csg.learn.tables.history import History
from pyomo_csg.validation import Problems, is_one_of, is_whole

PERFECT, NEIGHBORHOODS, CONTEXT_FREE = REFERENCES = (
    "perfect information",
    "neighborhoods",
    "context-free",
)
_GROUPS, _MAX_SIZE = 30, 30  # Mak, Morton and Wood use 30 groups


@dataclass(frozen=True)
class Gap:
    """The cost of a policy above a reference, with confidence.

    Attributes
    ----------
    reference : str
        The reference. ``'perfect information'`` knows each outcome beforehand.
        ``'neighborhoods'`` makes the best decision for each group of similar contexts.
        ``'context-free'`` makes the best single decision for all contexts.
    size : int
        The number of pairs in a group.
    interval : Interval
        Of the mean gap; only ``upper`` bounds the true gap.
    """

    reference: str
    size: int
    interval: Interval

    @property
    def proven(self) -> bool:
        """Whether ``interval.upper`` is a bound, and not just an estimate.

        It is an estimate for neighborhoods: their contexts differ, so the best policy may
        cost less than the best single decision for a whole group.
        """
        return self.reference != NEIGHBORHOODS


def optimality_gap(
    policy: Decider,
    data: Any,
    *,
    reference: str = "neighborhoods",
    delta: float = 0.05,
    size: int | None = None,
    width: float | None = None,
    seed: int = 0,
) -> Gap:
    """Return an upper bound on the optimality gap of a policy.

    Parameters
    ----------
    policy : Decider
    data : (contexts, outcomes) or DataFrame
        Pairs that it was not fitted to.
    reference : str
        The reference, as in :class:`Gap`.
    delta : float
        The probability, at most, that the mean gap exceeds ``interval.upper``.
    size : int, optional
        Pairs in a group. Default: for 30 groups, but at most 30. Always 1 for perfect
        information.
    width : float, optional
        The largest possible difference of two costs, if it is known.
    seed : int
        Seed of the random groups.

    Raises
    ------
    DataError

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> policy = csg.fit(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2,
    ...     method="mmd", progress=False,
    ... )
    >>> held_out = newsvendor.sample(120, seed=2)
    >>> gap = optimality_gap(policy, held_out, reference="perfect information")
    >>> gap.size, gap.proven, 0 <= gap.interval.mean <= gap.interval.upper
    (1, True, True)
    """
    pairs = read_pairs(policy, data)
    problems = Problems("Cannot bound the gap")
    problems.check_fractions(delta=delta)
    problems.check_seed(seed)
    if not is_one_of(reference, REFERENCES):
        problems.add(f"reference is {reference!r}; give one of {REFERENCES}")
    if width is not None:
        problems.check_nonnegative(width=width)
    most = len(pairs) // 2  # so that there are two groups
    if len(pairs) < 4:
        problems.add(f"there are {len(pairs)} pairs; give at least 4")
    if size is not None and not (is_whole(size) and 1 <= size <= most):
        problems.add(f"size is {size!r}; give a whole number from 1 to {most}")
    problems.raise_any()
    costs = policy_costs(policy, pairs)
    return estimate_gap(policy, pairs, costs, reference, delta, size, width, seed)


def estimate_gap(
    policy: Decider,
    pairs: History,
    costs: np.ndarray,
    reference: str,
    delta: float,
    size: int | None = None,
    width: float | None = None,
    seed: int = 0,
) -> Gap:
    """Return the gap of a policy from the costs (n,) of its decisions on the pairs."""
    if size is None:
        size = min(_MAX_SIZE, max(2, len(pairs) // _GROUPS))
    if pairs.known.size:  # each row has its own program: there are no groups
        reference = PERFECT
    if reference == PERFECT:
        size = 1
    groups = _group_rows(pairs, size, reference, seed)
    best = policy.oracle.solve(
        pairs.outcomes[groups], known=pairs.known[groups[:, 0]], progress=False
    ).value
    gaps = costs[groups].mean(axis=1) - int(policy.two_stage.sense) * best
    gap_width = None if width is None else width * (1 if size == 1 else 2)
    return Gap(reference, size, mean_interval(gaps, delta, gap_width))


def _group_rows(pairs: History, size: int, reference: str, seed: int) -> np.ndarray:
    """Return the rows of the groups (groups, size); a few rows may be left over."""
    count = len(pairs) // size
    order = np.random.default_rng(seed).permutation(len(pairs))[: count * size]
    if reference == NEIGHBORHOODS:
        features = context_features(pairs.contexts)
        order = _kd_order(features / standard_spread(features), order, count)
    return order.reshape(count, size)


def _kd_order(features: np.ndarray, rows: np.ndarray, parts: int) -> np.ndarray:
    """Return the rows in the order of a k-d tree, so that nearby rows are consecutive."""
    if parts < 2:
        return rows
    widest = np.ptp(features[rows], axis=0).argmax()
    rows = rows[np.argsort(features[rows, widest], kind="stable")]
    left = parts // 2
    middle = len(rows) // parts * left
    return np.concatenate(
        [
            _kd_order(features, rows[:middle], left),
            _kd_order(features, rows[middle:], parts - left),
        ]
    )
