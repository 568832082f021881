"""Solving the programs of an annotated model, exactly and in batches."""

from pyomo_csg.solve.answers import Audit, LossGradient, Solution
from pyomo_csg.solve.oracle import Oracle

__all__ = ["Audit", "LossGradient", "Oracle", "Solution"]
