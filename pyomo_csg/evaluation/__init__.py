"""Evaluation of policies: costs of their decisions, and gaps to the best known cost."""

from pyomo_csg.evaluation.cases import Case
from pyomo_csg.evaluation.evaluation import Evaluation
from pyomo_csg.evaluation.evaluator import evaluate

__all__ = ["Case", "Evaluation", "evaluate"]
