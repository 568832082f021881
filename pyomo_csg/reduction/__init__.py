"""Reduces many outcomes to a few weighted scenarios that lead to nearly the same decision."""

from pyomo_csg.reduction.scenario_reduction import Reduction, reduce

__all__ = ["Reduction", "reduce"]
