"""Zeta-SAA, Opt-Search and recourse costs with a convex quadratic objective."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pyomo.common.dependencies import attempt_import

from pyomo_csg.solve.compile.assembly import Blocks, Layout
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import Found, SolveContext, Solved, SolverTrouble, noted
from pyomo_csg.solve.lp.face_search import SearchLayout, restrict_to_face
from pyomo_csg.solve.qp.kkt_conditions import (
    ActiveSet,
    KktPoint,
    find_active_set,
    value_terms,
)
from pyomo_csg.solve.qp.kkt_solver import KktSolver, Units
from pyomo_csg.solve.qp.kkt_system import are_determined
from pyomo_csg.solve.qp.quadratic_program import ProgramBuilder, QuadraticProgram

sparse, _ = attempt_import("scipy.sparse")  # on first use: linear programs do without

_OPTIMAL = (
    1e-9  # excess cost of an optimal decision, relative to the absolute cost terms
)


@dataclass
class QuadraticOptimum(Found):
    """An optimum with its program, the active set, and units in which it is well scaled."""

    program: QuadraticProgram | None = None
    point: KktPoint | None = None
    active: ActiveSet | None = None
    units: Units | None = None


class QuadraticSolver:
    """Solves zeta-SAA with a convex quadratic objective, and searches its optima.

    On all optima of such a program Hx is the same, and so is every column or row with a
    multiplier, so the search needs no quadratic cut.
    """

    def __init__(self, compiled: CompiledModel, count: int, context: SolveContext):
        self._builder, self._solver = ProgramBuilder(compiled), KktSolver(context)
        self._layout = Layout(compiled, count)
        self._search_layout = SearchLayout(compiled, count)
        self._compiled = compiled

    def solve(
        self, blocks: Blocks, weights: np.ndarray, certify: bool = True
    ) -> QuadraticOptimum:
        """Return an optimum; ``certify`` also proves whether its decision is unique."""
        self._builder.check_convex(blocks)
        layout = self._layout
        arrays = layout.arrays(blocks, weights)
        program = self._builder.program(layout, arrays, blocks, weights)
        certified = self._solver.solve(program)
        point, units = certified.point, certified.units
        found = QuadraticOptimum(
            point.x,
            program.value(point.x),
            point.column_dual,
            point.row_dual,
            program=program,
            point=point,
            units=units,
        )
        if certify:
            if not certified.is_exact:
                # Near an optimum, multipliers do not tell which bounds all optima are at.
                raise SolverTrouble("not exact", "the active constraints are not clear")
            found.active = find_active_set(program, point)
            scaled = program.in_units(*units)
            found.unique = are_determined(scaled, found.active, layout.n1)
        return found

    def solve_many(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        keys: np.ndarray | None = None,
        certify: bool = True,
    ) -> Solved:
        """Solve one case after the other, for blocks with two leading axes."""
        solved = Solved.empty(len(weights), self._layout.n1)
        for i in range(len(weights)):
            with noted(solved.troubles, i):
                solved.put(i, self.solve(blocks[i], weights[i], certify))
        return solved

    def search(
        self,
        found: Found,
        blocks: Blocks,
        weights: np.ndarray,
        outcome: Blocks,
        shares: np.ndarray | None = None,
    ) -> float:
        """Return the least mean cost of an optimal decision under the outcomes."""
        assert isinstance(found, QuadraticOptimum)
        assert found.program is not None and found.active is not None
        layout, active = self._search_layout, found.active
        if shares is None:
            shares = np.ones(1)
        else:
            layout = SearchLayout(self._compiled, len(weights), len(shares))
        self._builder.check_convex(outcome)
        arrays = layout.search_arrays(blocks, outcome, shares)
        # A multiplier that is not rounding holds its column or row at the bound.
        duals = (
            np.where(active.strong_columns, -active.columns, 0),
            np.where(active.strong_rows, -active.rows, 0),
        )
        arrays = restrict_to_face(arrays, duals)
        only_outcomes = layout.search_weights(shares)
        joined = blocks.joined(outcome)
        program = self._builder.program(layout, arrays, joined, only_outcomes)
        held = _without_fixed_rows(_hold_curvature(program, found))
        x = self._solver.solve(held).point.x
        saa = found.program
        over = saa.value(x[: len(found.x)]) - found.value
        if over > _OPTIMAL * value_terms(saa, np.abs(x[: len(found.x)])):
            raise SolverTrouble("not exact", "the decision found is not optimal")
        return program.value(x)


def _hold_curvature(
    search: QuadraticProgram, found: QuadraticOptimum
) -> QuadraticProgram:
    """Return the search with rows that hold Hx at its value at the optimum."""
    assert found.program is not None
    hessian = sparse.csr_array(found.program.hessian)
    rows = hessian[np.diff(hessian.indptr) > 0]
    values = rows @ found.x
    beyond = sparse.csr_array((rows.shape[0], len(search.cost) - len(found.x)))
    matrix = sparse.vstack(
        [sparse.csr_array(search.matrix), sparse.hstack([rows, beyond])], format="csc"
    )
    return replace(
        search,
        matrix=matrix.toarray() if search.is_dense else sparse.csc_array(matrix),
        row_lower=np.concatenate([search.row_lower, values]),
        row_upper=np.concatenate([search.row_upper, values]),
    )


def _without_fixed_rows(search: QuadraticProgram) -> QuadraticProgram:
    """Return the search without bounds of rows whose columns are all held.

    The optimum satisfies them to rounding; here, rounding would make them infeasible.
    """
    free = search.column_lower < search.column_upper
    moves = (search.matrix != 0) @ free.astype(float) > 0
    return replace(
        search,
        row_lower=np.where(moves, search.row_lower, -np.inf),
        row_upper=np.where(moves, search.row_upper, np.inf),
    )
