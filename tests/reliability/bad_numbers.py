"""Bad scenarios, weights, outcomes and decisions, for the oracle and the programs."""

import numpy as np
import pandas as pd
import torch

import pyomo_csg as csg
from tests.reliability.bad import grid
from tests.reliability.bad_contexts import ATTACHED, DATES, INF, NAN, RAGGED
from tests.reliability.scene import transformed

# Scenarios are (K, 1), or (n, K, 1).
NUMBERS = {
    "None": (None, "not given", "numbers"),
    "text": ("many", "not all are numbers", "text"),
    "words": ([["ten"], ["twelve"]], "not all are numbers", "text"),
    "words as objects": (np.array([["10"]], dtype=object), "not all are", "'10'"),
    "complex": (np.array([[1 + 2j]]), "not all are numbers", "complex"),
    "dates": (DATES[:, None], "not all are numbers", "datetime64"),
    "objects": (np.array([[object()]]), "not all are numbers", "object"),
    "ragged": (RAGGED, "not all are numbers", "give an array"),
    "beyond floats": ([[10**400]], "not all are numbers", "large"),
    "a mapping": ({"demand": 3.0}, "not all are numbers", "give an array"),
    "to be differentiated": (ATTACHED, "not all are numbers", "detach"),
}
SCENARIOS = {
    **NUMBERS,
    "one too many axes": (np.ones((1, 1, 1, 1)), "shape (1, 1, 1, 1)", "expected"),
    "a vector": (np.ones(3), "shape (3,)", "expected"),
    "too many columns": (np.ones((3, 2)), "shape (3, 2)", "'demand'"),
    "K = 0": (np.ones((0, 1)), "shape (0, 1)", "expected"),
    "NaN": ([[1.0], [NAN]], "'demand' in scenario 2 is nan", "give a finite number"),
    "infinity": ([[INF]], "'demand' is inf", "give a finite number"),
    "negative": ([[-1.0]], "'demand' is -1", "domain NonNegativeReals"),
    "huge": ([[1e30]], "'demand' is 1e+30", "larger unit"),
    "masked": (np.ma.array([[1.0]], mask=[[True]]), "nan", "give a finite number"),
    "an unknown column": (
        pd.DataFrame({"demand": [1.0], "price": [2.0]}),
        "'price'",
        "drop it",
    ),
    "a missing column": (pd.DataFrame({"price": [2.0]}), "'demand'", "add it"),
    "two columns of a name": (
        pd.DataFrame([[1.0, 2.0]], columns=["demand", "demand"]),
        "'demand'",
        "drop one",
    ),
    "a missing number": (pd.DataFrame({"demand": [None, 1.0]}), "nan", "finite number"),
}
OF_SCENARIOS = {
    "Oracle.solve": lambda s, z: s.oracle.solve(z),
    "Oracle.loss": lambda s, z: s.oracle.loss(z, [[1.0]]),
    "Oracle.loss_gradient": lambda s, z: s.oracle.loss_gradient(z, [[1.0]]),
    "Oracle.decision_gradient": lambda s, z: s.oracle.decision_gradient(z),
    "csg.reduce": lambda s, z: csg.reduce(s.oracle, z),
    "Oracle.rehearse": lambda s, z: s.oracle.rehearse(z, [[1.0]]),
    "csg.extensive_form": lambda s, z: transformed(s, "extensive_form", scenarios=z),
    "TwoStageModel.to_mpisppy": lambda s, z: csg.TwoStageModel(s.model).to_mpisppy(z),
}
OUTCOMES = {
    **NUMBERS,
    "too many columns": (np.ones((1, 2)), "shape (1, 2)", "'demand'"),
    "too many": (np.ones((3, 1)), "does not fit", "3"),
    "none": (np.ones((0, 1)), "shape (0, 1)", "expected"),
    "NaN": ([[NAN]], "'demand' is nan", "give a finite number"),
    "negative": ([[-1.0]], "'demand' is -1", "domain NonNegativeReals"),
    "huge": ([[1e30]], "'demand' is 1e+30", "larger unit"),
}
OF_OUTCOMES = {
    "Oracle.loss": lambda s, w: s.oracle.loss([[[1.0]]], w),
    "Oracle.loss_gradient": lambda s, w: s.oracle.loss_gradient([[[1.0]]], w),
    "Oracle.cost": lambda s, w: s.oracle.cost([[1.0]], w),
}
WEIGHTS = {
    "text": ("equal", "weights", "not all are numbers"),
    "a number": (0.5, "weights", "expected"),
    "too few": ([1.0], "shape (1,)", "expected (2,)"),
    "ragged": (RAGGED, "weights", "not all are numbers"),
    "a sum below 1": ([0.5, 0.4], "sum to 0.9", "divide them by their sum"),
    "a sum of 0": ([0.0, 0.0], "sum to 0", "divide them by their sum"),
    "negative": ([1.5, -0.5], "weight 2 is -0.5", "from 0 to 1"),
    "NaN": ([NAN, 1.0], "weight 1 is nan", "from 0 to 1"),
    "infinity": ([INF, 0.0], "weight 1 is inf", "from 0 to 1"),
    "beyond floats": ([10**400, 0], "weights", "not all are numbers"),
}
BATCH_OF_WEIGHTS = {
    "too many rows": ([[0.5, 0.5]] * 3, "shape (3, 2)", "expected (1, 2)"),
    "a case's sum": ([[0.5, 0.4]], "case 0", "sum to 1"),
    "a case's NaN": ([[NAN, 1.0]], "case 0", "numbers from 0 to 1"),
}
OF_WEIGHTS = {
    "Oracle.solve": lambda s, w: s.oracle.solve([[[1.0], [2.0]]], w),
    "Oracle.loss": lambda s, w: s.oracle.loss([[[1.0], [2.0]]], [[1.0]], weights=w),
    "Oracle.loss_gradient": lambda s, w: s.oracle.loss_gradient(
        [[[1.0], [2.0]]], [[1.0]], weights=w
    ),
    "csg.DecisionLayer": lambda s, w: csg.DecisionLayer(s.oracle)(
        torch.ones(1, 2, 1), w
    ),
}
DECISIONS = {
    **NUMBERS,
    "NaN": ([NAN], "'order' in case 0 is nan", "give a finite number"),
    "huge": ([-1e30], "'order' in case 0 is -1e+30", "larger unit"),
    "too many numbers": ([1.0, 2.0], "shape (2,)", "'order'"),
    "too many": (np.ones((3, 1)), "shape (3, 1)", "expected"),
    "none": (np.ones((0, 1)), "shape (0, 1)", "expected"),
    "an unknown column": (pd.DataFrame({"ordr": [1.0]}), "'ordr'", "drop it"),
}
ONE_SCENARIO = torch.ones(1, 1, 1)
CASES = [
    *grid(OF_SCENARIOS, SCENARIOS, "scenarios"),
    *grid(OF_OUTCOMES, OUTCOMES, "outcomes"),
    *grid(
        {
            "csg.TaskLoss": lambda s, w: csg.TaskLoss(s.oracle)(ONE_SCENARIO, w),
            "csg.TaskLoss of a function": lambda s, w: csg.TaskLoss(
                s.oracle, lambda decisions, outcomes, costs: costs
            )(ONE_SCENARIO, w),
        },
        {
            **OUTCOMES,
            "to be differentiated": (ATTACHED, "outcomes require a gradient", "detach"),
        },
        "outcomes",
    ),
    *grid(OF_WEIGHTS, {**WEIGHTS, **BATCH_OF_WEIGHTS}, "weights"),
    *grid(
        {
            "csg.extensive_form": lambda s, w: transformed(
                s, "extensive_form", scenarios=[[1.0], [2.0]], weights=w
            )
        },
        WEIGHTS,
        "weights",
    ),
    *grid(
        {"Oracle.cost": lambda s, y: s.oracle.cost(y, [[1.0]])}, DECISIONS, "decisions"
    ),
]
