"""Whether a quadratic program is infeasible or unbounded, by linear programs."""

from __future__ import annotations

from dataclasses import replace

import highspy
import numpy as np
from pyomo.common.dependencies import attempt_import

from pyomo_csg.solve.engine import SolverTrouble
from pyomo_csg.solve.qp.quadratic_program import Matrix, QuadraticProgram

sparse, _ = attempt_import("scipy.sparse")  # on first use: linear programs do without

_RECESSION = 1e-7  # a descent direction, in natural units, that is not rounding


def raise_if_unsolvable(program: QuadraticProgram) -> None:
    """Raise if no point is feasible, or if the cost falls without end along a direction.

    Both are linear programs; this one is in natural units.
    """
    if not _is_feasible(program):
        raise SolverTrouble("infeasible")
    if _has_descent_ray(program):
        raise SolverTrouble("unbounded")


def _is_feasible(program: QuadraticProgram) -> bool:
    flat = replace(program, cost=np.zeros_like(program.cost))
    highs = _linear_program(flat, program.matrix, program.row_lower, program.row_upper)
    highs.run()
    return bool(highs.getModelStatus() != highspy.HighsModelStatus.kInfeasible)


def _has_descent_ray(program: QuadraticProgram) -> bool:
    """Whether some direction keeps every bound and the curvature, and lowers the cost."""

    def cone(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(np.isfinite(lower), 0.0, -np.inf), np.where(
            np.isfinite(upper), 0.0, np.inf
        )

    columns = cone(program.column_lower, program.column_upper)
    ray = replace(
        program,
        column_lower=np.maximum(columns[0], -1.0),
        column_upper=np.minimum(columns[1], 1.0),
    )
    flat = np.zeros(len(program.cost))
    matrix = sparse.vstack([sparse.csr_array(program.matrix), program.hessian])
    lower, upper = cone(program.row_lower, program.row_upper)
    highs = _linear_program(
        ray, matrix, np.concatenate([lower, flat]), np.concatenate([upper, flat])
    )
    highs.run()
    return bool(highs.getObjectiveValue() < -_RECESSION)


def _linear_program(
    program: QuadraticProgram, matrix: Matrix, lower: np.ndarray, upper: np.ndarray
) -> highspy.Highs:
    """Return HiGHS with the linear terms, the column bounds and these rows."""
    entries = sparse.csc_array(matrix)
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = entries.shape
    lp.col_cost_ = program.cost
    lp.col_lower_, lp.col_upper_ = program.column_lower, program.column_upper
    lp.row_lower_, lp.row_upper_ = lower, upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = entries.indptr, entries.indices
    lp.a_matrix_.value_ = entries.data
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.passModel(lp)
    return highs
