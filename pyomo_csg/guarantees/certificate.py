"""What held-out pairs prove of a policy, in numbers and in plain words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyomo_csg.guarantees.gap import PERFECT, Gap
from pyomo_csg.guarantees.intervals import Interval

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
