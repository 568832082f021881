"""Judging policies: what their decisions cost, beside the best that could be done."""

from pyomo_csg.evaluation.case import Case
from pyomo_csg.evaluation.evaluating import evaluate
from pyomo_csg.evaluation.evaluation import Evaluation

__all__ = ["Case", "Evaluation", "evaluate"]
