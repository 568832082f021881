"""Between which numbers costs are, over all outcomes of a support and optimal decisions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData
from scipy.optimize import linprog

from pyomo_csg.errors import ModelError
from pyomo_csg.guarantees.linear_model import RightHandSideModel, right_hand_side_model
from pyomo_csg.guarantees.support import Support, support_of
from pyomo_csg.solve.vertices import Corners
from pyomo_csg.stages import TwoStageModel


def cost_range(model: BlockData, support: Any = None) -> tuple[float, float]:
    """Return between which numbers all costs are, to be minimised.

    These are costs of decisions that are optimal on some scenarios of the support, when
    one of its outcomes comes.

    Parameters
    ----------
    model, support
        As in :func:`pyomo_csg.guarantees.task_constants`.

    Raises
    ------
    ModelError

    Examples
    --------
    >>> from models import newsvendor
    >>> low, high = cost_range(newsvendor.build(), (14.0, 16.0))
    >>> round(low, 3), round(high, 3)
    (-0.8, 1.2)
    """
    two_stage = TwoStageModel(model)
    arrays, box = right_hand_side_model(two_stage), support_of(two_stage, support)
    duals = checked_duals(arrays, box)
    return least_cost(arrays, box), largest_cost(arrays, duals, box)


def checked_duals(model: RightHandSideModel, support: Support) -> Corners:
    """Return Pi's corners, if there is a recourse to all outcomes of the support."""
    duals = model.corners()
    if not model.is_relatively_complete(duals, support):
        found = (
            "some first stage has no recourse to some outcome of the support (Assumption "
            "4); add slack variables at a cost, or give a smaller support"
        )
        raise ModelError(model.subject, [found])
    return duals


def speed(model: RightHandSideModel, duals: Corners) -> float:
    """Return U_Pi: how much a unit of outcomes moves the recourse's cost at most."""
    return float(np.linalg.norm(duals.vertices @ model.slopes, axis=1).max())


def least_cost(model: RightHandSideModel, support: Support) -> float:
    """Return the least cost of any decision and outcome: one program for both."""
    n1, n2 = len(model.cost), len(model.recourse.cost)
    first = np.hstack(
        [model.matrix, np.zeros((len(model.matrix), n2 + len(support.lower)))]
    )
    later = np.hstack(
        [model.recourse.technology, model.recourse.recourse, -model.slopes]
    )
    found = linprog(
        np.concatenate([model.cost, model.recourse.cost, np.zeros(len(support.lower))]),
        A_ub=-np.vstack([first, later]),
        b_ub=-np.concatenate([model.side, model.recourse.side]),
        bounds=[
            *[(None, None)] * (n1 + n2),
            *zip(support.lower, support.upper, strict=True),
        ],
    )
    return float(found.fun) + model.constant if found.status == 0 else -math.inf


def largest_cost(model: RightHandSideModel, duals: Corners, support: Support) -> float:
    """Return what no decision that is optimal on scenarios of the support costs more than.

    No decision of the first stage does; nor does the optimum on any scenarios, which the
    most robust decision bounds, and what the way from scenarios to the outcome adds.
    """
    slopes = model.cost - duals.vertices @ model.recourse.technology
    levels = duals.vertices @ model.recourse.side + [
        support.most(dual @ model.slopes) for dual in duals.vertices
    ]
    if not np.isfinite(levels).all():
        return math.inf
    of_all = max(
        level - model.least(-slope) for level, slope in zip(levels, slopes, strict=True)
    )
    added = speed(model, duals) * support.diameter()
    return float(model.constant + min(of_all, _robust(model, slopes, levels) + added))


def _robust(model: RightHandSideModel, slopes: np.ndarray, levels: np.ndarray) -> float:
    """Return the least that one decision costs at most: min max slope'y + level."""
    n1, m1 = len(model.cost), len(model.matrix)
    found = linprog(
        np.append(np.zeros(n1), 1.0),
        A_ub=np.vstack(
            [
                np.column_stack([slopes, -np.ones(len(slopes))]),
                np.column_stack([-model.matrix, np.zeros(m1)]),
            ]
        ),
        b_ub=np.concatenate([-levels, -model.side]),
        bounds=(None, None),
    )
    return float(found.fun)
