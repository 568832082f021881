"""How much it matters which of several optimal decisions a solver returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.guarantees.holdout import read_pairs

_SAME = 1e-7


@dataclass(frozen=True, eq=False)
class Ambiguity:
    """Losses of the best and the worst optimal decision. ``str()`` says it in words.

    Attributes
    ----------
    optimistic, pessimistic : array (n,)
    """

    optimistic: np.ndarray
    pessimistic: np.ndarray

    @property
    def spread(self) -> np.ndarray:
        """How far apart they are (n,)."""
        return self.pessimistic - self.optimistic

    @property
    def share(self) -> float:
        """The share of pairs whose outcome tells optimal decisions apart."""
        size = np.maximum(1.0, np.abs(self.optimistic))
        return float(np.mean(self.spread > _SAME * size))

    def __str__(self) -> str:
        if not self.share:
            return "All optimal decisions cost the same, on all pairs."
        return (
            f"On {self.share:.0%} of pairs optimal decisions cost differently: the best of "
            f"them {self.optimistic.mean():.6g} on average, the worst "
            f"{self.pessimistic.mean():.6g}, {self.spread.max():.6g} apart at most."
        )


def ambiguity(policy: Decider, data: Any) -> Ambiguity:
    """Return what the best and the worst of a policy's optimal decisions cost on pairs.

    Parameters
    ----------
    policy : Decider
        For a linear model, with as many scenarios for each context.
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
    >>> model = newsvendor.build(price=1.9)  # half of the demands are to be met
    >>> policy = csg.fit(
    ...     model, newsvendor.sample(60, seed=1), scenarios=2, method="mmd", progress=False
    ... )
    >>> ambiguity(policy, newsvendor.sample(20, seed=2)).share
    1.0
    """
    pairs = read_pairs(policy, data)
    scenarios, weights = (
        policy.scenarios(pairs.contexts),
        policy.weights(pairs.contexts),
    )
    if not isinstance(scenarios, np.ndarray):
        found = "it has more scenarios for some contexts than for others"
        raise DataError("The policy's losses cannot be compared", [found])
    best, worst = (
        policy.oracle.loss(
            scenarios, pairs.outcomes, kind, weights=weights, progress=False
        )
        for kind in ("optimistic", "pessimistic")
    )
    return Ambiguity(best, worst)
