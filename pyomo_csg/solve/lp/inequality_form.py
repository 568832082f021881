"""The recourse as one-sided inequalities, dense, and its dual vertices.

By duality the recourse is a maximum over its dual vertices: Q(y, omega) = max pi'(side - C y).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyomo_csg.errors import ModelError
from pyomo_csg.solve.compile.assembly import Blocks, RecourseLayout, evaluate
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.lp.vertices import VerticesAndRays, enumerate_vertices
from pyomo_csg.stages import TwoStageModel


@dataclass(frozen=True, eq=False)
class InequalityForm:
    """One outcome's recourse in the form min q'z, Wz >= side - C y.

    A row or column with two bounds gives two rows, the second one negated.

    Attributes
    ----------
    recourse : array (rows, columns)
        W.
    technology : array (rows, s)
        C.
    side : array (rows,)
    cost : array (columns,)
        q.
    net : array (constraints, rows)
        Maps the duals of rows to those of the constraints they came from.
    """

    recourse: np.ndarray
    technology: np.ndarray
    side: np.ndarray
    cost: np.ndarray
    net: np.ndarray

    def dual_vertices(self) -> VerticesAndRays | None:
        """Return the vertices and rays of {pi >= 0: W'pi = q}; None if the recourse is unbounded."""
        rows, columns = self.recourse.shape
        if not columns:
            return VerticesAndRays(np.zeros((1, rows)), np.eye(rows))
        return enumerate_vertices(self.recourse.T, self.cost)


def to_inequality_form(layout: RecourseLayout, block: Blocks) -> InequalityForm:
    """Return one block's recourse (no leading axis) as one-sided inequalities."""
    recourse = np.vstack([layout.matrix(block.entries), np.eye(layout.columns)])
    technology = np.zeros((layout.rows + layout.columns, layout.n1))
    places = layout.technology_row, layout.technology_column
    np.add.at(technology, places, block.entries[layout.technology])
    lower = np.concatenate([block.row_lower, block.column_lower])
    upper = np.concatenate([block.row_upper, block.column_upper])
    low, high = np.isfinite(lower), np.isfinite(upper)
    constraint = np.eye(layout.rows, len(lower))
    return InequalityForm(
        np.vstack([recourse[low], -recourse[high]]),
        np.vstack([technology[low], -technology[high]]),
        np.concatenate([lower[low], -upper[high]]),
        block.cost[layout.n1 :],
        np.hstack([constraint[:, low], -constraint[:, high]]),
    )


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
