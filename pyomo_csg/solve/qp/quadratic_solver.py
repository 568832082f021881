"""Zeta-SAA, Opt-Search and recourse costs with a convex quadratic objective."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pyomo.common.dependencies import attempt_import

from pyomo_csg.solve.compile.assembly import Blocks, Layout, evaluate
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import (
    Found,
    SolveContext,
    Solved,
    SolverTrouble,
    Troubles,
    bad_cases,
    noted,
)
from pyomo_csg.solve.lp.face_search import SearchLayout, restrict_to_face
from pyomo_csg.solve.qp.kkt_solver import KktSolver, Units
from pyomo_csg.solve.qp.kkt_system import are_determined
from pyomo_csg.solve.qp.quadratic_program import (
    ActiveSet,
    KktPoint,
    ProgramBuilder,
    QuadraticProgram,
    find_active_set,
)

sparse, _ = attempt_import("scipy.sparse")  # on first use: linear programs do without


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

    def solve(
        self, blocks: Blocks, weights: np.ndarray, certify: bool = True
    ) -> QuadraticOptimum:
        """Return an optimum; ``certify`` also proves whether its decision is unique."""
        self._builder.check_convex(blocks)
        layout = self._layout
        arrays = layout.arrays(blocks, weights)
        program = self._builder.program(layout, arrays, blocks, weights)
        point, units = self._solver.solve(program)
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
        self, found: Found, blocks: Blocks, weights: np.ndarray, outcome: Blocks
    ) -> float:
        """Return the least cost of an optimal decision under the outcome."""
        assert isinstance(found, QuadraticOptimum)
        assert found.program is not None and found.active is not None
        layout, active = self._search_layout, found.active
        self._builder.check_convex(outcome)
        arrays = layout.search_arrays(blocks, outcome)
        # A multiplier that is not rounding holds its column or row at the bound.
        duals = (
            np.where(active.strong_columns, -active.columns, 0),
            np.where(active.strong_rows, -active.rows, 0),
        )
        arrays = restrict_to_face(arrays, duals)
        only_outcome = np.append(np.zeros(len(weights)), 1.0)
        joined = blocks.joined(outcome)
        program = self._builder.program(layout, arrays, joined, only_outcome)
        held = _without_fixed_rows(_hold_curvature(program, found))
        point, _ = self._solver.solve(held)
        return program.value(point.x)


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


class QuadraticRecourse:
    """Costs of decisions under outcomes, each by a quadratic program."""

    caches = False

    def __init__(self, compiled: CompiledModel, context: SolveContext):
        self._compiled = compiled
        self._builder, self._solver = ProgramBuilder(compiled), KktSolver(context)
        self._layout = Layout(compiled, 1)

    def costs(
        self, decisions: np.ndarray, outcomes: np.ndarray
    ) -> tuple[np.ndarray, Troubles]:
        """Return h(y) + Q(y, omega) (n,) and the cases without an answer."""
        smooth = np.zeros(len(decisions), bool)
        costs, _, _, troubles = self.gradients(decisions, outcomes, smooth)
        return costs, troubles

    def gradients(
        self, decisions: np.ndarray, outcomes: np.ndarray, smooth: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Troubles]:
        """Return costs (n,), d cost / d y (n, s), whether each is smooth, and troubles.

        Cases that are not ``smooth`` (n,) for another reason stay so.
        """
        costs, slopes = np.full(len(decisions), np.nan), np.full_like(decisions, np.nan)
        blocks = evaluate(self._compiled, outcomes[:, None, :])
        bad = blocks.unusable()
        troubles, smooth = bad_cases(bad), smooth & ~bad
        for i in map(int, np.flatnonzero(~bad)):
            try:
                program, point = self._solve(decisions[i], blocks[i])
            except SolverTrouble as trouble:
                troubles[i], smooth[i] = trouble, False
                continue
            costs[i] = program.value(point.x)
            slopes[i] = point.column_dual[: self._layout.n1]
            smooth[i] = smooth[i] and find_active_set(program, point).is_strict
        return costs, slopes, smooth, troubles

    def _solve(
        self, decision: np.ndarray, block: Blocks
    ) -> tuple[QuadraticProgram, KktPoint]:
        """Return the program with the decision held, and its optimum."""
        layout, weight = self._layout, np.ones(1)
        self._builder.check_convex(block)
        arrays = layout.arrays(block, weight)
        arrays = replace(
            arrays,
            column_lower=np.concatenate([decision, arrays.column_lower[layout.n1 :]]),
            column_upper=np.concatenate([decision, arrays.column_upper[layout.n1 :]]),
            # Its rounding must not break first-stage rows.
            row_lower=np.where(_is_first(layout), -np.inf, arrays.row_lower),
            row_upper=np.where(_is_first(layout), np.inf, arrays.row_upper),
        )
        program = self._builder.program(layout, arrays, block, weight)
        point, _ = self._solver.solve(program)
        return program, point


def _is_first(layout: Layout) -> np.ndarray:
    """Return which rows belong to the first stage."""
    return np.arange(layout.rows) < layout.m1
