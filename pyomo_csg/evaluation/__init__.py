"""Evaluation of policies: costs of their decisions on the same cases, or row by row."""

from pyomo_csg.evaluation.cases import Case
from pyomo_csg.evaluation.evaluation import Evaluation
from pyomo_csg.evaluation.evaluator import evaluate
from pyomo_csg.evaluation.simulation import Simulation, simulate

__all__ = ["Case", "Evaluation", "Simulation", "evaluate", "simulate"]
