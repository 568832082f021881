"""Certificates: confidence bounds on a policy's expected cost, from held-out pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.decisions.verdict import POLICY, Verdict
from pyomo_csg.errors import DataError
from pyomo_csg.evaluation.comparison import (
    count_known_rows,
    default_baselines,
    kept_pairs,
    make_verdict,
    policy_costs,
    read_pairs,
    split_halves,
)
from pyomo_csg.guarantees.gap import NEIGHBORHOODS, PERFECT, Gap, estimate_gap
from pyomo_csg.guarantees.intervals import Interval, mean_interval
from pyomo_csg.learn.tables.history import History
from pyomo_csg.notebook import card
from pyomo_csg.stages import MeanCVaR
from pyomo_csg.validation import Problems, is_number

_SUBJECT = "Cannot certify the policy"
_MIN_PAIRS = 20  # with fewer, intervals of skewed costs cover less often than stated
_INEQUALITIES = {
    "hoeffding": "by Hoeffding's inequality",
    "bernstein": "by Maurer and Pontil's empirical Bernstein inequality",
}


@dataclass(frozen=True, repr=False)
class Certificate:
    """Confidence bounds for a policy from held-out pairs. ``print`` it to read it.

    All bounds hold together with confidence 1 - ``delta``. Lower costs are better; if the
    model is maximized, costs are negative profits.

    Attributes
    ----------
    model : str
        The name of the model.
    pairs : int
        The number of held-out pairs.
    delta : float
    cost : Interval
        Of the expected cost; ``upper`` is the bound.
    advantages : dict of Interval
        By how much the policy costs less than each baseline, on pairs that neither was
        fitted to.
    gaps : tuple of Gap
        By how much it costs more than the best; ``interval.upper`` is the bound.
    maximized : bool
        Whether the model is maximized.
    verdict : Verdict
        The mean beside the baselines' with standard errors, as in reports.
    risk : MeanCVaR or None
        The risk measure of the model. A cost then includes the excess over the value at
        risk of its decision, and the mean cost bounds the mean-CVaR.
    """

    model: str
    pairs: int
    delta: float
    cost: Interval
    advantages: dict[str, Interval]
    gaps: tuple[Gap, ...]
    maximized: bool
    verdict: Verdict | None = None
    risk: MeanCVaR | None = None

    @property
    def excess(self) -> float:
        """A bound on the extra cost over the best baseline; NaN if there is none."""
        found = [-interval.lower for interval in self.advantages.values()]
        return max(found, default=float("nan"))

    def __repr__(self) -> str:
        confidence = f"{100 * (1 - self.delta):.4g} % confidence"
        found = _describe_cost(self.cost, self.maximized)
        return f"<Certificate for '{self.model}': {found}, with {confidence}>"

    def __str__(self) -> str:
        lines = [
            _describe_cost(self.cost, self.maximized)
            + (f" ({self.risk})" if self.risk else ""),
            *(_describe_advantage(*one) for one in self.advantages.items()),
        ]
        if len(self.advantages) > 1:
            lines.append(_describe_excess(self.excess))
        lines += [_describe_gap(gap) for gap in self.gaps]
        return "\n".join(
            [
                f"Certificate of a policy for '{self.model}', on {self.pairs} held-out pairs",
                *(() if self.verdict is None else self.verdict.sentences),
                f"With {100 * (1 - self.delta):.4g} % confidence, all of these hold:",
                *(f"  {line}" for line in lines),
                *self._assumptions(),
            ]
        )

    def _repr_html_(self) -> str:
        first, *lines = str(self).splitlines()
        return card(first, text="\n".join(lines))

    def _assumptions(self) -> list[str]:
        gaps = [gap.interval for gap in self.gaps]
        intervals = [self.cost, *self.advantages.values(), *gaps]
        if self.cost.method in _INEQUALITIES:
            names = sorted({_INEQUALITIES[one.method] for one in intervals})
            by = " and ".join(names)
            return [f"They hold for any distribution of costs in the range, {by}."]
        lines = [
            "They assume nearly normal means: Student's t, corrected for skewness."
        ]
        if any(one.doubtful for one in intervals):
            lines.append(
                "Caution: a few large costs dominate, and there are too few pairs for "
                "this assumption; give more pairs, or the cost_range."
            )
        return lines


def _describe_cost(cost: Interval, maximized: bool) -> str:
    if maximized:
        verb, mean, side, bound = "earns", -cost.mean, "at least", -cost.upper
    else:
        verb, mean, side, bound = "costs", cost.mean, "at most", cost.upper
    return f"the policy {verb} {_format(mean)} on average, {side} {_format(bound)}"


def _describe_advantage(name: str, advantage: Interval) -> str:
    low, high = advantage.lower, advantage.upper
    if low > 0:
        return f"it beats {name} by between {_format(low)} and {_format(high)}"
    if high < 0:
        return f"{name} beats it by between {_format(-high)} and {_format(-low)}"
    return (
        f"it may be better or worse than {name}: by at most {_format(high)} better, "
        f"{_format(-low)} worse"
    )


def _describe_excess(excess: float) -> str:
    if excess < 0:
        return f"it beats the best of these by at least {_format(-excess)}"
    return f"it is at most {_format(excess)} worse than the best of these"


def _describe_gap(gap: Gap) -> str:
    most = _format(gap.interval.upper)
    if gap.reference == PERFECT:
        return f"perfect information would save at most {most}"
    return (
        f"the best policy would save about {_format(gap.interval.mean)}, at most {most}, "
        f"if each group of {gap.size} similar contexts were one context"
    )


def _format(value: float) -> str:
    """Return a number with five significant digits, without an exponent."""
    return np.format_float_positional(value, precision=5, fractional=False, trim="-")


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
    """Return confidence bounds for a policy from held-out pairs.

    Parameters
    ----------
    policy : Decider
        A policy or a baseline.
    data : (contexts, outcomes) or DataFrame
        Pairs that it was not fitted to, as in :func:`pyomo_csg.fit`: independent draws
        from the distribution of future pairs.
    delta : float
        The probability, at most, that any of the bounds is wrong.
    against : mapping of str to Decider, optional
        Baselines by name, not fitted to the data either. Default: the expected-value
        decision of a forest's forecast, and one decision for all contexts.
    history : (contexts, outcomes) or DataFrame, optional
        The pairs that the default baselines learn from. Default: the policy's own history.
        If the policy does not keep it, they learn from one half of ``data`` and are
        evaluated on the other.
    cost_range : tuple of float, optional
        A lower and an upper bound on the cost of any decision and outcome. With it the
        bounds hold for any distribution; without it they assume nearly normal means. For
        linear models see :func:`pyomo_csg.guarantees.cost_range`.
    gaps : bool, optional
        Whether to bound the optimality gap. This solves the model on single outcomes and
        on groups of them.
    seed : int
        Seed of the random halves and groups.

    Returns
    -------
    Certificate

    Raises
    ------
    DataError
        If the data do not fit the policy, there are fewer than 20 pairs (40 if baselines
        learn from half of them), or a cost is outside ``cost_range``.
    SolveError
        If a context has no decision, or an outcome no recourse: the expected cost is then
        infinite.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> history = newsvendor.sample(100, seed=1)
    >>> policy = csg.fit(
    ...     newsvendor.build(), history, scenarios=3, method="mmd", progress=False
    ... )
    >>> found = certify(policy, newsvendor.sample(200, seed=2), history=history)
    >>> found
    <Certificate for 'newsvendor': the policy costs ..., with 95 % confidence>
    >>> found.cost.mean < found.cost.upper, sorted(found.advantages)
    (True, ['deciding on the forecast', 'one decision for all contexts'])
    """
    pairs = read_pairs(policy, data)
    _check_arguments(delta, cost_range, pairs, seed)
    width = None if cost_range is None else float(cost_range[1] - cost_range[0])
    baselines, rows = _baselines(policy, pairs, against, history, seed)
    costs = policy_costs(policy, pairs)
    baseline_costs = {
        name: policy_costs(baseline, pairs.select(rows), policy)
        for name, baseline in baselines.items()
    }
    for found in (costs, *baseline_costs.values()):
        _check_costs(found, cost_range)
    kinds: tuple[str, ...] = (PERFECT, NEIGHBORHOODS) if gaps else ()
    if pairs.known.size:  # each row has its own program: there are no neighborhoods
        kinds = kinds[:1]
    share = delta / (1 + 2 * len(baselines) + len(kinds))  # Bonferroni: one per bound
    return Certificate(
        policy.two_stage.model.name or "",
        len(pairs),
        delta,
        mean_interval(costs, share, width),
        {
            name: mean_interval(
                found - costs[rows], share, None if width is None else 2 * width
            )
            for name, found in baseline_costs.items()
        },
        tuple(
            estimate_gap(policy, pairs, costs, kind, share, width=width, seed=seed)
            for kind in kinds
        ),
        int(policy.two_stage.sense) < 0,
        _verdict(policy, pairs, rows, costs, baseline_costs, history),
        policy.two_stage.risk,
    )


def _verdict(
    policy: Decider,
    pairs: History,
    rows: np.ndarray,
    costs: np.ndarray,
    baseline_costs: Mapping[str, np.ndarray],
    history: Any,
) -> Verdict:
    """Return the verdict that a report on the same pairs prints."""
    past, notes = kept_pairs(policy) if history is None else None, []
    if past is not None and (known := count_known_rows(pairs, past)):
        notes.append(f"Caution: {known:,} of these pairs are in the policy's history.")
    table = pd.DataFrame({POLICY: costs[rows], **baseline_costs})
    maximized = int(policy.two_stage.sense) < 0
    return make_verdict(table, maximized=maximized, notes=notes)


def _baselines(
    policy: Decider,
    pairs: History,
    against: Mapping[str, Decider] | None,
    history: Any,
    seed: int,
) -> tuple[Mapping[str, Decider], np.ndarray]:
    """Return the baselines, and the rows of the pairs that they are evaluated on."""
    everything = np.arange(len(pairs))
    if against is not None:
        _check_baselines(policy, against)
        return against, everything
    if history is not None:
        past = read_pairs(policy, history)
        return default_baselines(policy, past), everything
    if kept_pairs(policy) is not None:
        return default_baselines(policy), everything
    past, rows = split_halves(pairs, seed)
    if len(past) < _MIN_PAIRS:
        found = f"there are {len(pairs)} pairs, and baselines would learn from half"
        remedy = f"give history=, or at least {2 * _MIN_PAIRS}"
        raise DataError(_SUBJECT, [f"{found}; {remedy}"])
    return default_baselines(policy, past), rows


def _check_baselines(policy: Decider, against: Mapping[str, Decider]) -> None:
    """Raise a DataError unless all decide on the policy's contexts and variables."""
    problems = Problems(_SUBJECT)
    if not isinstance(against, Mapping):
        found = f"against is a {type(against).__name__}"
        problems.add(f"{found}; give a mapping from name to policy")
        problems.raise_any()
    for name, baseline in against.items():
        argument = f"against[{name!r}]"
        if not isinstance(baseline, Decider):
            found = f"it is of type {type(baseline).__name__}"
            problems.add_for(argument, f"{found}; give a csg.Policy or a baseline")
        elif baseline.context_shape != policy.context_shape:
            found = f"it decides for contexts of shape {baseline.context_shape}"
            problems.add_for(argument, found)
        elif _variables(baseline) != _variables(policy):
            problems.add_for(argument, "it decides on other first-stage variables")
    problems.raise_any()


def _variables(policy: Decider) -> set[str]:
    return {v.name for v in policy.two_stage.first_stage_variables}


def _check_arguments(delta: Any, cost_range: Any, pairs: History, seed: Any) -> None:
    problems = Problems(_SUBJECT)
    problems.check_fractions(delta=delta)
    problems.check_seed(seed)
    if len(pairs) < _MIN_PAIRS:
        problems.add(f"there are {len(pairs)} pairs; give at least {_MIN_PAIRS}")
    if cost_range is not None and not _is_range(cost_range):
        found = f"cost_range is {cost_range!r:.80}"
        problems.add(f"{found}; give two finite numbers in order")
    problems.raise_any()


def _is_range(value: Any) -> bool:
    is_pair = isinstance(value, tuple | list | np.ndarray) and len(value) == 2
    return is_pair and all(map(is_number, value)) and value[0] < value[1]


def _check_costs(costs: np.ndarray, cost_range: tuple[float, float] | None) -> None:
    if cost_range is None:
        return
    if costs.min() < cost_range[0] or costs.max() > cost_range[1]:
        found = f"costs are between {costs.min():.6g} and {costs.max():.6g}"
        remedy = "give bounds that no cost can exceed (profits count as negative)"
        raise DataError(
            _SUBJECT, [f"{found}, but cost_range is {cost_range}; {remedy}"]
        )
