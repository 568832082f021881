"""Programs with a convex quadratic objective, by HiGHS's QP solver."""

from __future__ import annotations

import time
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from pyomo_csg.solve.compile.assembly import Arrays, Blocks, Layout, evaluate
from pyomo_csg.solve.compile.compiler import CompiledModel, hessian_matrix, is_positive
from pyomo_csg.solve.engine import (
    Found,
    SolveContext,
    Solved,
    SolverTrouble,
    Troubles,
)
from pyomo_csg.solve.lp.face_search import SearchLayout
from pyomo_csg.solve.lp.highs_program import EXACT_OPTIONS, status_trouble

_SLACK = 1e-9  # of the rows that keep a point optimal: HiGHS's feasibility tolerance
_CUT = 1e-6  # allowed excess cost, relative to the optimum: the QP solver is less exact
_CURVED = 1e-9  # a smaller eigenvalue does not make the decision unique


class QuadraticPrograms:
    """Builds and solves the quadratic programs of a compiled model."""

    def __init__(self, compiled: CompiledModel, context: SolveContext):
        self._compiled = compiled
        self._stats, self._options = context.stats, context.options

    def hessian(
        self, layout: Layout, blocks: Blocks, weights: np.ndarray
    ) -> sparse.csc_array:
        """Return the symmetric matrix of the quadratic terms, with weighted blocks."""
        first, recourse = self._compiled.first_cost, self._compiled.recourse_cost
        rows, columns = [first.hessian_row], [first.hessian_column]
        values = [first.hessian.constant]
        for k, weight in enumerate(weights):
            shift = k * layout.n2
            for places, block in (
                (rows, recourse.hessian_row),
                (columns, recourse.hessian_column),
            ):
                places.append(np.where(block < layout.n1, block, block + shift))
            values.append(weight * blocks.hessian[k])
        upper = sparse.coo_array(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
            shape=(layout.columns, layout.columns),
        ).tocsc()
        return upper + sparse.triu(upper, 1).T

    def check_convex(self, blocks: Blocks) -> None:
        """Raise a SolverTrouble if uncertain quadratic terms are not convex in a block."""
        first, recourse = self._compiled.first_cost, self._compiled.recourse_cost
        if recourse.hessian.certain:
            return  # checked when the model was compiled
        size = len(self._compiled.first) + len(self._compiled.recourse)
        first_stage = hessian_matrix(first, first.hessian.constant, size)
        for entries in blocks.hessian:
            if not is_positive(first_stage + hessian_matrix(recourse, entries, size)):
                raise SolverTrouble(
                    "not convex", "the quadratic cost is not convex there"
                )

    def minimize(
        self,
        layout: Layout,
        arrays: Arrays,
        hessian: sparse.csc_array,
        rows: tuple[Any, np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return a minimizer; ``rows`` are a matrix and its sides to add."""
        matrix = sparse.csc_array(
            (arrays.values, layout.index, layout.start),
            shape=(layout.rows, layout.columns),
        )
        lower, upper = arrays.row_lower, arrays.row_upper
        if rows is not None:
            matrix = sparse.vstack([matrix, rows[0]], format="csc")
            lower = np.concatenate([lower, rows[1]])
            upper = np.concatenate([upper, rows[2]])
        highs = highspy.Highs()
        for name, value in {**EXACT_OPTIONS, **self._options}.items():
            highs.setOptionValue(name, value)
        model = _build_model(arrays, matrix, lower, upper, hessian)
        if highs.passModel(model) == highspy.HighsStatus.kError:
            raise SolverTrouble("error", "HiGHS refused the quadratic program's data")
        start = time.perf_counter()
        if highs.run() == highspy.HighsStatus.kError:
            raise SolverTrouble("error", "HiGHS could not run the program")
        status = highs.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise status_trouble(status)
        self._stats.solver_seconds += time.perf_counter() - start
        self._stats.solves += 1
        return np.array(highs.getSolution().col_value)


def _build_model(
    arrays: Arrays, matrix: Any, lower: np.ndarray, upper: np.ndarray, hessian: Any
) -> highspy.HighsModel:
    model = highspy.HighsModel()
    lp = model.lp_
    lp.num_col_, lp.num_row_ = matrix.shape[1], matrix.shape[0]
    lp.col_cost_ = arrays.cost
    lp.col_lower_, lp.col_upper_ = arrays.column_lower, arrays.column_upper
    lp.row_lower_, lp.row_upper_ = lower, upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
    lp.a_matrix_.value_ = matrix.data
    triangle = sparse.tril(hessian, format="csc")
    triangle.sort_indices()
    if triangle.nnz:
        quadratic = model.hessian_
        quadratic.dim_ = matrix.shape[1]
        quadratic.format_ = highspy.HessianFormat.kTriangular
        quadratic.start_, quadratic.index_ = triangle.indptr, triangle.indices
        quadratic.value_ = triangle.data
    return model


def _cost(arrays: Arrays, hessian: Any, x: np.ndarray) -> float:
    return float(arrays.cost @ x + x @ (hessian @ x) / 2) + arrays.offset


class QuadraticSolver:
    """Solves zeta-SAA with a convex quadratic objective, and searches its optima.

    On the optima of such a program Hx and c'x are constant, so the search needs no quadratic
    cut: linear rows hold them. HiGHS's QP solver is less exact than its simplex method: a point
    may cost up to 1e-6 more than the optimum, relative to it.
    """

    def __init__(self, compiled: CompiledModel, count: int, context: SolveContext):
        self._programs = QuadraticPrograms(compiled, context)
        self._layout = Layout(compiled, count)
        self._search_layout = SearchLayout(compiled, count)

    def solve(self, blocks: Blocks, weights: np.ndarray) -> Found:
        """Return an optimum; its decision is unique if the first-stage cost is curved."""
        arrays = self._layout.arrays(blocks, weights)
        self._programs.check_convex(blocks)
        hessian = self._programs.hessian(self._layout, blocks, weights)
        x = self._programs.minimize(self._layout, arrays, hessian)
        n1 = self._layout.n1
        own = self._programs.hessian(self._layout, blocks, np.zeros_like(weights))
        curvature = np.linalg.eigvalsh(own[:n1, :n1].toarray()) if n1 else np.ones(1)
        unique = bool(curvature.min() > _CURVED)
        return Found(x, _cost(arrays, hessian, x), unique=unique)

    def solve_many(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        keys: np.ndarray | None = None,
        certify: bool = True,
    ) -> Solved:
        """Solve one case after the other, for blocks with two leading axes."""
        solved = Solved.nothing(len(weights), self._layout.n1)
        for i in range(len(weights)):
            try:
                solved.put(i, self.solve(blocks[i], weights[i]))
            except SolverTrouble as trouble:
                solved.troubles[i] = trouble
        return solved

    def search(
        self, found: Found, blocks: Blocks, weights: np.ndarray, outcome: Blocks
    ) -> float:
        """Return the least cost of an optimal decision under the outcome."""
        layout, saa = self._search_layout, self._layout.arrays(blocks, weights)
        hessian = self._programs.hessian(self._layout, blocks, weights)
        held = sparse.vstack([hessian, saa.cost[None, :]], format="csr")
        held = held[np.diff(held.indptr) > 0]
        values = held @ found.x
        slack = _SLACK * (1 + np.abs(values))
        more = sparse.csr_array((held.shape[0], layout.n2))
        rows = (sparse.hstack([held, more]), values - slack, values + slack)
        arrays = layout.search_arrays(blocks, outcome)
        only_outcome = np.append(np.zeros(len(weights)), 1.0)
        quadratic = self._programs.hessian(layout, blocks.joined(outcome), only_outcome)
        x = self._programs.minimize(layout, arrays, quadratic, rows)
        over = _cost(saa, hessian, x[: self._layout.columns]) - found.value
        if over > _CUT * max(1.0, abs(found.value)):
            raise SolverTrouble(
                "cut broken", f"the point found costs {over:g} more than the optimum"
            )
        return _cost(arrays, quadratic, x)


class QuadraticRecourse:
    """Costs of decisions under outcomes, each by a quadratic program."""

    def __init__(self, compiled: CompiledModel, context: SolveContext):
        self._compiled = compiled
        self._programs = QuadraticPrograms(compiled, context)
        self._layout = Layout(compiled, 1)

    def costs(
        self, decisions: np.ndarray, outcomes: np.ndarray
    ) -> tuple[np.ndarray, Troubles]:
        """Return h(y) + Q(y, omega) (n,) and the cases without an answer."""
        costs = np.full(len(decisions), np.nan)
        troubles: Troubles = {}
        blocks = evaluate(self._compiled, outcomes[:, None, :])
        for i, decision in enumerate(decisions):
            try:
                costs[i] = self._cost(decision, blocks[i])
            except SolverTrouble as trouble:
                troubles[i] = trouble
        return costs, troubles

    def _cost(self, decision: np.ndarray, block: Blocks) -> float:
        layout, weight = self._layout, np.ones(1)
        self._programs.check_convex(block)
        arrays = layout.arrays(block, weight)
        for bounds in ("column_lower", "column_upper"):
            recourse = getattr(arrays, bounds)[layout.n1 :]
            setattr(arrays, bounds, np.concatenate([decision, recourse]))
        # The decision is fixed, so first-stage rows could only reject its rounding.
        first = np.arange(layout.rows) < layout.m1
        arrays.row_lower = np.where(first, -np.inf, arrays.row_lower)
        arrays.row_upper = np.where(first, np.inf, arrays.row_upper)
        hessian = self._programs.hessian(layout, block, weight)
        x = self._programs.minimize(layout, arrays, hessian)
        return _cost(arrays, hessian, x)
