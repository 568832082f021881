"""Derivatives of quadratic programs' decisions, by implicit differentiation of the KKT system."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from pyomo_csg.solve.compile.assembly import Blocks
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.lp.sensitivity import Sensitivity
from pyomo_csg.solve.qp.kkt_system import adjoint
from pyomo_csg.solve.qp.quadratic_solver import QuadraticOptimum


@dataclass(frozen=True)
class QuadraticOptima:
    """Optima of many quadratic programs; None where a case could not be solved."""

    optima: list[QuadraticOptimum | None]
    weights: np.ndarray

    def select(self, cases: np.ndarray) -> QuadraticOptima:
        """Return the optima of some cases."""
        return QuadraticOptima([self.optima[i] for i in cases], self.weights[cases])

    @property
    def x(self) -> np.ndarray:
        """Points (n, columns)."""
        return np.array([one.x for one in self.optima if one is not None])

    def moving(self, count: int) -> np.ndarray:
        """Return which of the first columns (n, count) no multiplier holds at a bound."""
        actives = [one.active for one in self.optima if one is not None]
        return np.array([~a.strong_columns[:count] for a in actives if a is not None])

    def decision_sensitivity(
        self, compiled: CompiledModel, blocks: Blocks, slopes: np.ndarray
    ) -> Sensitivity:
        """Return the sensitivity of ``slope @ y``; slopes are (n, s)."""
        cases = zip(self.optima, self.weights, slopes, strict=True)
        parts = [_case_sensitivity(compiled, *case) for case in cases]
        return Sensitivity(
            *(
                np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(Sensitivity)
            )
        )


def _case_sensitivity(
    compiled: CompiledModel,
    found: QuadraticOptimum | None,
    weights: np.ndarray,
    slope: np.ndarray,
) -> Sensitivity:
    """Return the sensitivity for the scenario blocks of one case."""
    assert found is not None
    program, active, point = found.program, found.active, found.point
    assert program is not None and active is not None and point is not None
    assert found.units is not None
    n1, m1, count = len(compiled.first), len(compiled.first_rows), len(weights)
    column, row, cost = found.units
    full = np.zeros(len(found.x))
    full[:n1] = slope
    solved = adjoint(program.in_units(*found.units), active, column * full)
    if solved is None:
        u, v = np.zeros(len(found.x)), np.zeros(len(point.row_dual))
    else:
        u, v = column * solved[0] / cost, solved[1] / row
    bound = np.where(
        active.columns != 0, full - program.hessian @ u - program.matrix.T @ v, 0.0
    )
    all_u, all_x = (_by_block(z, n1, count) for z in (u, found.x))
    v_rows = v[m1:].reshape(count, -1)
    duals = point.row_dual[m1:].reshape(count, -1)
    rows, recourse = compiled.recourse_rows, compiled.recourse_cost
    entries = (
        duals[:, rows.row] * all_u[:, rows.column]
        - v_rows[:, rows.row] * all_x[:, rows.column]
    )
    i, j = recourse.hessian_row, recourse.hessian_column
    mixed = all_u[:, i] * all_x[:, j] + all_u[:, j] * all_x[:, i]
    hessian = -weights[:, None] * np.where(i == j, mixed / 2, mixed)
    return Sensitivity(
        v_rows,
        bound[n1:].reshape(count, -1),
        entries,
        -weights[:, None] * all_u,
        np.zeros((count, 1)),
        active.rows[m1:].reshape(count, -1) <= 0,
        active.columns[n1:].reshape(count, -1) <= 0,
        hessian,
    )


def _by_block(values: np.ndarray, n1: int, count: int) -> np.ndarray:
    """Return the first-stage and recourse columns of every block (count, all columns)."""
    first = np.broadcast_to(values[:n1], (count, n1))
    return np.hstack([first, values[n1:].reshape(count, -1)])
