"""csg.MeanCVaR: an objective that weighs the expected cost against its tail.

The quantile joins the first stage and the excess over it the recourse, so that everything
else sees an ordinary two-stage model (Rockafellar and Uryasev, 2000).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pyomo.common.modeling import unique_component_name
from pyomo.core.base.block import Block, BlockData
from pyomo.core.base.constraint import Constraint
from pyomo.core.base.expression import Expression
from pyomo.core.base.objective import Objective
from pyomo.core.base.set import NonNegativeReals
from pyomo.core.base.suffix import Suffix
from pyomo.core.base.var import Var

from pyomo_csg.errors import DataError
from pyomo_csg.validation import Problems, is_number

_ROUNDING = 1e-12  # of sums of weights


@dataclass(frozen=True)
class MeanCVaR:
    """The risk measure ``(1 - weight) * mean + weight * CVaR`` of a cost.

    CVaR at level 0.95 is the mean of the worst 5 % of the costs; if the model is
    maximized, of the lowest 5 % of the profits. Pass it to :func:`pyomo_csg.annotate`.

    Parameters
    ----------
    weight : float
        The weight of CVaR, from 0 to 1. With 0, the objective is the expectation.
    level : float
        Between 0 and 1, both excluded.

    Raises
    ------
    DataError
        If a number is outside its range.

    Examples
    --------
    >>> risk = MeanCVaR(weight=0.5, level=0.75)
    >>> risk.cvar([1, 2, 3, 10])
    10.0
    >>> risk.measure([1, 2, 3, 10])
    7.0
    """

    weight: float = 0.5
    level: float = 0.95

    def __post_init__(self) -> None:
        problems = Problems("Cannot measure risk")
        if not (is_number(self.weight) and 0 <= self.weight <= 1):
            problems.add(f"weight is {self.weight!r:.80}; give a number from 0 to 1")
        if not (is_number(self.level) and 0 < self.level < 1):
            problems.add(
                f"level is {self.level!r:.80}; give a number between 0 and 1, such as "
                "0.95"
            )
        problems.raise_any()

    def cvar(self, costs: Any, weights: Any = None) -> float:
        """Return the mean of the highest costs; NaN if a cost is NaN.

        Parameters
        ----------
        costs : array (n,)
            Lower is better: negate profits.
        weights : array (n,), optional
            Probabilities that sum to 1. Default: 1/n each.
        """
        costs = np.asarray(costs, float)
        if costs.ndim != 1 or not len(costs):
            found = f"costs has shape {costs.shape}; give a vector of costs"
            raise DataError("Cannot measure risk", [found])
        shares = np.full(len(costs), 1 / len(costs)) if weights is None else weights
        if np.isnan(costs).any():
            return float("nan")
        order = np.argsort(costs)
        reached = np.cumsum(np.asarray(shares)[order]) >= self.level - _ROUNDING
        quantile = costs[order[np.argmax(reached)]]
        excess = shares @ np.maximum(costs - quantile, 0.0)
        return float(quantile + excess / (1 - self.level))

    def measure(self, costs: Any, weights: Any = None) -> float:
        """Return ``(1 - weight) * mean + weight * CVaR`` of costs (n,)."""
        tail = self.cvar(costs, weights)
        mean = np.average(np.asarray(costs, float), weights=weights)
        return float((1 - self.weight) * mean + self.weight * tail)

    def __str__(self) -> str:
        return f"{1 - self.weight:g} mean + {self.weight:g} CVaR at {self.level:g}"


def add_risk(model: BlockData, first_stage: Suffix, risk: MeanCVaR) -> BlockData | None:
    """Rewrite the objective, in place, and return the Block of what is added.

    Change nothing, and return None, unless exactly one Objective is active.
    """
    objectives = list(model.component_data_objects(Objective, active=True))
    if len(objectives) != 1:
        return None
    objective, sense = objectives[0], int(objectives[0].sense)
    block = Block()
    model.add_component(unique_component_name(model, "risk"), block)
    block.cost = Expression(expr=objective.expr)
    block.value_at_risk = Var(initialize=0.0)
    block.excess = Var(within=NonNegativeReals, initialize=0.0)
    above = sense * (block.cost - block.value_at_risk)
    block.tail = Constraint(expr=block.excess >= above)
    share = sense * risk.weight / (1 - risk.level)
    tail = risk.weight * block.value_at_risk + share * block.excess
    # Without a mean, the cost must not stay in the objective as 0 * cost.
    mean = (1 - risk.weight) * block.cost if risk.weight < 1 else 0.0
    objective.set_value(mean + tail)
    first_stage[block.value_at_risk] = len(first_stage)
    return block


def remove_risk(model: BlockData, first_stage: Suffix, block: BlockData) -> None:
    """Undo :func:`add_risk`."""
    (objective,) = model.component_data_objects(Objective, active=True)
    objective.set_value(block.cost.expr)
    del first_stage[block.value_at_risk]
    model.del_component(block)
