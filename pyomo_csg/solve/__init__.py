"""Solving the programs of an annotated model, exactly and in batches."""

from pyomo_csg.solve.oracle import Oracle
from pyomo_csg.solve.results import Audit, DecisionGradient, LossGradient, Solution

__all__ = ["Audit", "DecisionGradient", "LossGradient", "Oracle", "Solution"]
