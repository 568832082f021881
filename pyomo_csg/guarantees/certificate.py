"""From a policy and new pairs to a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.baselines.standard_baselines import certificate_baselines
from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.guarantees.gap import NEIGHBOURS, PERFECT, Gap, estimate_gap
from pyomo_csg.guarantees.holdout import (
    decision_costs,
    read_pairs,
    select_pairs,
    split_halves,
)
from pyomo_csg.guarantees.intervals import Interval, mean_interval
from pyomo_csg.learn.history import History
from pyomo_csg.validation import is_number, seed_problems, share_problems

_BY = {
    "hoeffding": "by Hoeffding's inequality",
    "bernstein": "by Maurer and Pontil's empirical Bernstein inequality",
}


@dataclass(frozen=True)
class Certificate:
    """What held-out pairs prove of a policy. ``str()`` says it in words.

    All bounds hold together with confidence 1 - ``delta``. Costs are to be minimised: those
    of a model that is maximised are negative profits.

    Attributes
    ----------
    model : str
        Its name.
    pairs : int
        That the policy was not learned from.
    delta : float
    cost : Interval
        Of the expected cost; ``upper`` is the bound.
    advantages : dict of Interval
        How much less the policy costs than each rival, on pairs that neither has seen.
    gaps : tuple of Gap
        How much more than the best it costs; ``interval.upper`` is the bound.
    maximised : bool
        Whether the model's objective is.
    """

    model: str
    pairs: int
    delta: float
    cost: Interval
    advantages: dict[str, Interval]
    gaps: tuple[Gap, ...]
    maximised: bool

    @property
    def excess(self) -> float:
        """How much more than the best of the rivals it costs, at most; NaN for none."""
        found = [-interval.lower for interval in self.advantages.values()]
        return max(found, default=float("nan"))

    def __str__(self) -> str:
        head = [
            f"Certificate of a policy for '{self.model}', on {self.pairs} new pairs",
            f"With {100 * (1 - self.delta):.4g} % confidence, all of this together:",
            f"  {_cost_in_words(self.cost, self.maximised)}",
        ]
        rivals = [f"  {_rival_in_words(*one)}" for one in self.advantages.items()]
        if len(rivals) > 1:
            rivals.append(f"  {_excess_in_words(self.excess)}")
        gaps = [f"  {_gap_in_words(gap)}" for gap in self.gaps]
        return "\n".join([*head, *rivals, *gaps, *self._grounds()])

    def _grounds(self) -> list[str]:
        """Say what the bounds rest on."""
        found = [
            self.cost,
            *self.advantages.values(),
            *(gap.interval for gap in self.gaps),
        ]
        if self.cost.method in _BY:
            by = " and ".join(sorted({_BY[one.method] for one in found}))
            return [f"These hold whatever the law of costs in their range, {by}."]
        lines = [
            "These take means as nearly normal: Student's t, corrected for skewness."
        ]
        if any(one.doubtful for one in found):
            lines.append(
                "Caution: a few large costs decide, and there are too few pairs for that "
                "to be sure; give more, or the costs' range."
            )
        return lines


def _cost_in_words(cost: Interval, maximised: bool) -> str:
    if maximised:
        verb, mean, side, bound = "earns", -cost.mean, "at least", -cost.upper
    else:
        verb, mean, side, bound = "costs", cost.mean, "at most", cost.upper
    return f"the policy {verb} {_number(mean)} on average, {side} {_number(bound)}"


def _rival_in_words(name: str, advantage: Interval) -> str:
    low, high = advantage.lower, advantage.upper
    if low > 0:
        return f"it beats {name} by between {_number(low)} and {_number(high)}"
    if high < 0:
        return (
            f"it is beaten by {name}, by between {_number(-high)} and {_number(-low)}"
        )
    return (
        f"it may be better or worse than {name}: by at most {_number(high)} better, "
        f"{_number(-low)} worse"
    )


def _excess_in_words(excess: float) -> str:
    if excess < 0:
        return f"it beats the best of these by at least {_number(-excess)}"
    return f"it is at most {_number(excess)} worse than the best of these"


def _gap_in_words(gap: Gap) -> str:
    most = _number(gap.interval.upper)
    if gap.rival == PERFECT:
        return f"who knew every outcome beforehand would do better by at most {most}"
    return (
        f"the best policy would do better by about {_number(gap.interval.mean)}, at most "
        f"{most}, if groups of {gap.size} like contexts were one context each"
    )


def _number(value: float) -> str:
    """Return a number with five digits that count, never as a power of ten."""
    return np.format_float_positional(value, precision=5, fractional=False, trim="-")


_LEAST = 20  # pairs: on fewer, intervals of skewed costs held less often than they say


def certify(
    policy: Decider,
    data: Any,
    *,
    delta: float = 0.05,
    against: Mapping[str, Decider] | None = None,
    history: Any = None,
    cost_range: tuple[float, float] | None = None,
    gaps: bool = True,
    seed: int = 0,
) -> Certificate:
    """Return what pairs that a policy was not learned from prove of it.

    Parameters
    ----------
    policy : Decider
        A policy, or whatever decides like one.
    data : (contexts, outcomes) or DataFrame
        Independent pairs of the kind that is to come, as in :func:`pyomo_csg.fit`.
    delta : float
        The chance, at most, that any of the bounds is wrong.
    against : mapping of str to Decider, optional
        Rivals by name, which have not seen the data either. Default: the decision on a
        forest's forecast, and one decision for all contexts, from ``history``.
    history : (contexts, outcomes) or DataFrame, optional
        What the default rivals learn from: best, what the policy was fitted to. Without
        it they learn from half of ``data``, and are judged on the other half.
    cost_range : tuple of float, optional
        Between which numbers every cost is, of any decision and outcome. With it the
        bounds hold whatever the law; without, they take means as nearly normal. For
        linear models see :func:`pyomo_csg.guarantees.cost_range`.
    gaps : bool, optional
        Whether to bound the optimality gap, for which the model is solved on single
        outcomes and on groups of them.
    seed : int
        Of halves, forests and groups.

    Returns
    -------
    Certificate

    Raises
    ------
    DataError
        If the data does not fit the policy, there are fewer than 20 pairs, or 40 where
        rivals learn from half of them, or a cost is out of its range.
    SolveError
        If there is no decision for a context, or no recourse to an outcome: the expected
        cost is then infinite.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> history = newsvendor.sample(100, seed=1)
    >>> policy = csg.fit(
    ...     newsvendor.build(), history, scenarios=3, method="mmd", progress=False
    ... )
    >>> found = certify(policy, newsvendor.sample(200, seed=2), history=history)
    >>> found.cost.mean < found.cost.upper, sorted(found.advantages)
    (True, ['deciding on the forecast', 'one decision for all contexts'])
    """
    pairs = read_pairs(policy, data)
    width = _width(delta, cost_range, pairs, seed)
    rivals, rows = _rivals(policy, pairs, against, history, seed)
    costs = decision_costs(policy, pairs)
    judged = select_pairs(pairs, rows)
    theirs = {n: decision_costs(rival, judged, policy) for n, rival in rivals.items()}
    for charged in (costs, *theirs.values()):
        _refuse_costs(charged, cost_range)
    kinds = (PERFECT, NEIGHBOURS) if gaps else ()
    share = delta / (1 + 2 * len(rivals) + len(kinds))  # for each bound, by the union
    return Certificate(
        policy.two_stage.model.name or "",
        len(pairs),
        delta,
        mean_interval(costs, share, width),
        {
            name: mean_interval(
                rival - costs[rows], share, None if width is None else 2 * width
            )
            for name, rival in theirs.items()
        },
        tuple(
            estimate_gap(policy, pairs, costs, kind, share, width=width, seed=seed)
            for kind in kinds
        ),
        int(policy.two_stage.sense) < 0,
    )


def _rivals(
    policy: Decider,
    pairs: History,
    against: Mapping[str, Decider] | None,
    history: Any,
    seed: int,
) -> tuple[Mapping[str, Decider], np.ndarray]:
    """Return the rivals, and on which pairs they are judged."""
    everything = np.arange(len(pairs))
    if against is not None:
        _refuse_rivals(policy, against)
        return against, everything
    if history is not None:
        return certificate_baselines(
            policy, read_pairs(policy, history), seed
        ), everything
    seen, rows = split_halves(pairs, seed)
    if len(seen) < _LEAST:
        found = f"there are {len(pairs)} pairs, half of which rivals would learn from"
        remedy = f"give history=, or at least {2 * _LEAST}"
        raise DataError("There is no certificate", [f"{found}; {remedy}"])
    return certificate_baselines(policy, seen, seed), rows


def _refuse_rivals(policy: Decider, against: Mapping[str, Decider]) -> None:
    """Refuse what does not decide for the same contexts and variables."""
    if not isinstance(against, Mapping):
        found = f"against is a {type(against).__name__}; give a mapping from name"
        raise DataError("There is no certificate", [f"{found} to policy"])
    problems = []
    for name, rival in against.items():
        if not isinstance(rival, Decider):
            found = f"it is of type {type(rival).__name__}; give a csg.Policy or a rival of it"
        elif rival.context_shape != policy.context_shape:
            found = f"it decides for contexts of shape {rival.context_shape}"
        elif _variables(rival) != _variables(policy):
            found = "it decides on other first-stage variables"
        else:
            continue
        problems.append(f"against[{name!r}]: {found}")
    if problems:
        raise DataError("There is no certificate", problems)


def _variables(policy: Decider) -> set[str]:
    return {v.name for v in policy.two_stage.first_stage_variables}


def _width(
    delta: float, cost_range: tuple[float, float] | None, pairs: History, seed: int
) -> float | None:
    """Return how far apart costs can be, if that is known, or refuse what is off."""
    problems = [*share_problems(delta=delta), *seed_problems(seed)]
    if len(pairs) < _LEAST:
        problems.append(f"there are {len(pairs)} pairs; give at least {_LEAST}")
    if cost_range is not None and not _is_range(cost_range):
        found = f"cost_range is {cost_range!r:.80}"
        problems.append(f"{found}; give two finite numbers in order")
    if problems:
        raise DataError("There is no certificate", problems)
    return None if cost_range is None else float(cost_range[1] - cost_range[0])


def _is_range(given: Any) -> bool:
    two = isinstance(given, tuple | list | np.ndarray) and len(given) == 2
    return two and all(map(is_number, given)) and given[0] < given[1]


def _refuse_costs(costs: np.ndarray, cost_range: tuple[float, float] | None) -> None:
    if cost_range is None or (
        costs.min() >= cost_range[0] and costs.max() <= cost_range[1]
    ):
        return
    found = (
        f"costs are between {costs.min():.6g} and {costs.max():.6g}, but cost_range is "
        f"{cost_range}; give numbers that no cost can leave (profits count as negative)"
    )
    raise DataError("There is no certificate", [found])
