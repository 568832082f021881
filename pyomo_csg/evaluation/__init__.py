"""Evaluation of policies: costs of their decisions, and gaps to the best known cost."""

from pyomo_csg.evaluation.cases import Case
from pyomo_csg.evaluation.evaluation import Evaluation
from pyomo_csg.evaluation.evaluator import evaluate
from pyomo_csg.evaluation.simulation import Simulation, simulate

__all__ = ["Case", "Evaluation", "Simulation", "evaluate", "simulate"]
