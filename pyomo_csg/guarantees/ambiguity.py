"""Ambiguity: the cost difference between several optimal decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.guarantees.holdout import read_pairs

_SAME = 1e-7  # relative difference of costs that counts as none


@dataclass(frozen=True, eq=False)
class Ambiguity:
    """Losses of the best and the worst optimal decisions. ``print`` it to read it.

    Attributes
    ----------
    optimistic, pessimistic : array (n,)
    """

    optimistic: np.ndarray
    pessimistic: np.ndarray

    @property
    def spread(self) -> np.ndarray:
        """The difference of the two losses (n,)."""
        return self.pessimistic - self.optimistic

    @property
    def share(self) -> float:
        """The share of pairs on which optimal decisions have different costs."""
        size = np.maximum(1.0, np.abs(self.optimistic))
        return float(np.mean(self.spread > _SAME * size))

    def __str__(self) -> str:
        if not self.share:
            return "All optimal decisions cost the same on every pair."
        return (
            f"On {self.share:.0%} of pairs optimal decisions differ in cost: the best "
            f"cost {self.optimistic.mean():.6g} on average, the worst "
            f"{self.pessimistic.mean():.6g}. The largest difference is "
            f"{self.spread.max():.6g}."
        )


def ambiguity(policy: Decider, data: Any) -> Ambiguity:
    """Return the costs of the best and the worst of a policy's optimal decisions.

    Parameters
    ----------
    policy : Decider
        For a linear model, with the same number of scenarios for every context.
    data : (contexts, outcomes) or DataFrame

    Raises
    ------
    DataError
    ModelError
        If the model is not linear.
    SolveError
        If a worst decision has no recourse.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> model = newsvendor.build(price=1.9)  # meeting half of the demands is optimal
    >>> policy = csg.fit(
    ...     model, newsvendor.sample(60, seed=1), scenarios=2, method="mmd", progress=False
    ... )
    >>> ambiguity(policy, newsvendor.sample(20, seed=2)).share
    1.0
    """
    pairs = read_pairs(policy, data)
    scenarios = policy.scenarios(pairs.contexts)
    if not isinstance(scenarios, np.ndarray):
        found = "the number of scenarios differs between contexts"
        raise DataError("Cannot compute the ambiguity of the policy", [found])
    weights = policy.weights(pairs.contexts)
    best, worst = (
        policy.oracle.loss(
            scenarios, pairs.outcomes, kind, weights=weights, progress=False
        )
        for kind in ("optimistic", "pessimistic")
    )
    return Ambiguity(best, worst)
