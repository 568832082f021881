"""Programs with a convex quadratic objective, by HiGHS's solver for them."""

from __future__ import annotations

import time
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from pyomo_csg.solve.compile.assembly import Arrays, Blocks, Layout, evaluate
from pyomo_csg.solve.compile.compiler import CompiledModel, hessian_matrix, is_positive
from pyomo_csg.solve.engine import Found, SolveContext, SolverTrouble
from pyomo_csg.solve.lp.highs_program import run_highs

_SLACK = 1e-9
_CUT = 1e-6
_EXACT = {
    "output_flag": False,
    "threads": 1,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}
_CURVED = 1e-9


class QuadraticPrograms:
    """Puts together and solves the quadratic programs of a compiled model.

    Parameters
    ----------
    compiled : CompiledModel
    context : SolveContext
    """

    def __init__(self, compiled: CompiledModel, context: SolveContext):
        self._compiled = compiled
        self._stats, self._options = context.stats, context.options

    def hessian(
        self, layout: Layout, blocks: Blocks, weights: np.ndarray
    ) -> sparse.csc_array:
        """Return the symmetric matrix of the quadratic terms, the blocks weighted."""
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

    def refuse_concave(self, blocks: Blocks) -> None:
        """Raise if uncertain quadratic terms do not curve upwards in every block."""
        first, recourse = self._compiled.first_cost, self._compiled.recourse_cost
        if recourse.hessian.certain:
            return  # seen when the model was compiled
        size = len(self._compiled.first) + len(self._compiled.recourse)
        own = hessian_matrix(first, first.hessian.constant, size)
        for entries in blocks.hessian:
            if not is_positive(own + hessian_matrix(recourse, entries, size)):
                raise SolverTrouble(
                    "not convex", "the quadratic cost is not convex there"
                )

    def minimise(
        self,
        layout: Layout,
        arrays: Arrays,
        hessian: sparse.csc_array,
        rows: tuple[Any, np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return a minimiser; ``rows`` are a matrix and sides to add."""
        matrix = sparse.csc_array(
            (arrays.values, layout.index, layout.start),
            shape=(layout.rows, layout.columns),
        )
        lower, upper = arrays.row_lower, arrays.row_upper
        if rows is not None:
            matrix = sparse.vstack([matrix, rows[0]], format="csc")
            lower = np.concatenate([lower, rows[1]])
            upper = np.concatenate([upper, rows[2]])
        highs = self._loaded(arrays, matrix, lower, upper, hessian)
        start = time.perf_counter()
        run_highs(highs)
        self._stats.solver_seconds += time.perf_counter() - start
        self._stats.solves += 1
        return np.array(highs.getSolution().col_value)

    def _loaded(
        self,
        arrays: Arrays,
        matrix: Any,
        lower: np.ndarray,
        upper: np.ndarray,
        hessian: Any,
    ) -> Any:
        highs = highspy.Highs()
        for name, value in {**_EXACT, **self._options}.items():
            highs.setOptionValue(name, value)
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
            model.hessian_.dim_ = matrix.shape[1]
            model.hessian_.format_ = highspy.HessianFormat.kTriangular
            model.hessian_.start_, model.hessian_.index_ = (
                triangle.indptr,
                triangle.indices,
            )
            model.hessian_.value_ = triangle.data
        if highs.passModel(model) == highspy.HighsStatus.kError:
            raise SolverTrouble("error", "HiGHS did not take the quadratic program")
        return highs


class QuadraticSolver:
    """Solves zeta-SAA with a convex quadratic objective, and searches its optima.

    On the optima of such a program Hx and c'x are constant, so the search needs no
    quadratic cut: it holds them by linear rows. HiGHS's solver is less exact here than
    for linear programs: a point may cost 1e-6 of the optimum more than it.

    Parameters
    ----------
    compiled : CompiledModel
    count : int
    context : SolveContext
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        context: SolveContext,
    ):
        self._programs = QuadraticPrograms(compiled, context)
        self._layout = Layout(compiled, count)
        self._wider = Layout(compiled, count + 1)

    def solve(self, blocks: Blocks, weights: np.ndarray) -> Found:
        """Return an optimum; its first stage is unique if the cost curves in it."""
        arrays = self._layout.arrays(blocks, weights)
        self._programs.refuse_concave(blocks)
        hessian = self._programs.hessian(self._layout, blocks, weights)
        x = self._programs.minimise(self._layout, arrays, hessian)
        value = float(arrays.cost @ x + x @ (hessian @ x) / 2) + arrays.offset
        n1 = self._layout.n1
        own = self._programs.hessian(self._layout, blocks, np.zeros_like(weights))
        curvature = np.linalg.eigvalsh(own[:n1, :n1].toarray()) if n1 else np.ones(1)
        return Found(x, value, unique=bool(curvature.min() > _CURVED))

    def search(
        self, found: Found, blocks: Blocks, weights: np.ndarray, outcome: Blocks
    ) -> float:
        """Return the least cost of an optimal decision under the outcome."""
        saa = self._layout.arrays(blocks, weights)
        hessian = self._programs.hessian(self._layout, blocks, weights)
        held = sparse.vstack([hessian, saa.cost[None, :]], format="csr")
        held = held[np.diff(held.indptr) > 0]
        values = held @ found.x
        slack = _SLACK * (1 + np.abs(values))
        more = sparse.csr_array((held.shape[0], self._wider.n2))
        rows = (sparse.hstack([held, more]), values - slack, values + slack)
        joined = blocks.joined(outcome)
        only_outcome = np.append(np.zeros(len(weights)), 1.0)
        arrays = self._wider.arrays(joined, only_outcome)
        wider = self._programs.hessian(self._wider, joined, only_outcome)
        x = self._programs.minimise(self._wider, arrays, wider, rows)
        scenarios = x[: self._layout.columns]
        paid = saa.cost @ scenarios + scenarios @ (hessian @ scenarios) / 2 + saa.offset
        if paid - found.value > _CUT * max(1.0, abs(found.value)):
            raise SolverTrouble(
                "cut broken",
                f"the point found costs {paid - found.value:g} more than the optimum",
            )
        return float(arrays.cost @ x + x @ (wider @ x) / 2) + arrays.offset


class QuadraticRecourse:
    """Costs of decisions under outcomes, each by a quadratic program."""

    def __init__(self, compiled: CompiledModel, context: SolveContext):
        self._compiled = compiled
        self._programs = QuadraticPrograms(compiled, context)
        self._layout = Layout(compiled, 1)

    def costs(
        self, decisions: np.ndarray, outcomes: np.ndarray
    ) -> tuple[np.ndarray, dict[int, SolverTrouble]]:
        """Return h(y) + Q(y, omega) (n,) and the cases that have no answer."""
        costs = np.full(len(decisions), np.nan)
        troubles: dict[int, SolverTrouble] = {}
        blocks = evaluate(self._compiled, outcomes[:, None, :])
        for i, decision in enumerate(decisions):
            try:
                costs[i] = self._cost(decision, blocks[i])
            except SolverTrouble as trouble:
                troubles[i] = trouble
        return costs, troubles

    def _cost(self, decision: np.ndarray, block: Blocks) -> float:
        layout, whole = self._layout, np.ones(1)
        self._programs.refuse_concave(block)
        arrays = layout.arrays(block, whole)
        for bounds in ("column_lower", "column_upper"):
            recourse = getattr(arrays, bounds)[layout.n1 :]
            setattr(arrays, bounds, np.concatenate([decision, recourse]))
        first = np.arange(layout.rows) < layout.m1
        arrays.row_lower = np.where(first, -np.inf, arrays.row_lower)
        arrays.row_upper = np.where(first, np.inf, arrays.row_upper)
        hessian = self._programs.hessian(layout, block, whole)
        x = self._programs.minimise(layout, arrays, hessian)
        return float(arrays.cost @ x + x @ (hessian @ x) / 2) + arrays.offset
