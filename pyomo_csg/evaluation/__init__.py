"""Judging policies: what their decisions cost, beside the best that could be done."""

from pyomo_csg.evaluation.cases import Case
from pyomo_csg.evaluation.evaluation import Evaluation
from pyomo_csg.evaluation.evaluator import evaluate

__all__ = ["Case", "Evaluation", "evaluate"]
