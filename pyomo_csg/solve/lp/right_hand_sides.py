"""Linear models in which only right-hand sides are uncertain, as dense matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyomo_csg.errors import ModelError
from pyomo_csg.solve.compile.assembly import RecourseLayout, evaluate
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.lp.vertices import InequalityForm, to_inequality_form
from pyomo_csg.stages import TwoStageModel


@dataclass(frozen=True, eq=False)
class RightHandSideArrays:
    """min h'y + q'z + constant, where Ay >= b and Wz >= side + R omega - C y.

    Every bound is a row, and every equality two.

    Attributes
    ----------
    name : str
        Of the model.
    matrix, side : array (rows, s), (rows,)
        A and b.
    cost : array (s,)
        h.
    constant : float
    recourse : InequalityForm
        W, C, the right-hand side at omega = 0, and q.
    slopes : array (rows, p)
        R.
    """

    name: str
    matrix: np.ndarray
    side: np.ndarray
    cost: np.ndarray
    constant: float
    recourse: InequalityForm
    slopes: np.ndarray


def right_hand_side_arrays(two_stage: TwoStageModel) -> RightHandSideArrays:
    """Return the matrices of a model, or raise a ModelError that lists why it has none."""
    compiled, name = compile_model(two_stage), two_stage.model.name or ""
    _check_form(name, compiled)
    layout = RecourseLayout(compiled)
    origin, *shifted = (
        to_inequality_form(layout, evaluate(compiled, omega)[()])
        for omega in np.vstack([np.zeros(compiled.p), np.eye(compiled.p)])
    )
    costs = compiled.first_cost, compiled.recourse_cost
    return RightHandSideArrays(
        name,
        *_first_stage(compiled),
        np.sum([cost.linear.constant for cost in costs], axis=0)[: len(compiled.first)],
        float(sum(cost.constant.constant[0] for cost in costs)),
        origin,
        np.column_stack([one.side - origin.side for one in shifted]),
    )


def _first_stage(compiled: CompiledModel) -> tuple[np.ndarray, np.ndarray]:
    """Return A and b of Ay >= b."""
    rows, width = compiled.first_rows, len(compiled.first)
    matrix = np.vstack([np.zeros((len(rows), width)), np.eye(width)])
    np.add.at(matrix, (rows.row, rows.column), rows.entries.constant)
    bounds = compiled.first.bounds(np.zeros(compiled.p))
    lower = np.concatenate([rows.lower.constant, bounds[0]])
    upper = np.concatenate([rows.upper.constant, bounds[1]])
    low, high = np.isfinite(lower), np.isfinite(upper)
    side = np.concatenate([lower[low], -upper[high]])
    return np.vstack([matrix[low], -matrix[high]]), side


def _check_form(name: str, compiled: CompiledModel) -> None:
    rows, cost = compiled.recourse_rows, compiled.recourse_cost
    sides = (rows.lower, rows.upper, compiled.recourse.lower, compiled.recourse.upper)
    faults = {
        "it has known Params; annotate it without": compiled.r > 0,
        "it has integer variables": compiled.integer,
        "its objective is quadratic": compiled.quadratic,
        "coefficients of its constraints are uncertain": not rows.entries.certain,
        "its costs are uncertain": not (cost.linear.certain and cost.constant.certain),
        "its right-hand sides are not affine in the uncertain Params": not all(
            side.affine for side in sides
        ),
    }
    if problems := [fault for fault, found in faults.items() if found]:
        subject = f"'{name}' is not linear with uncertain right-hand sides only"
        raise ModelError(subject, problems)
