"""Recourse costs of convex quadratic models, and their derivatives by the decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from pyomo.common.dependencies import attempt_import

from pyomo_csg.solve.compile.assembly import Blocks, RecourseLayout, Stack, evaluate
from pyomo_csg.solve.compile.compiled_model import CompiledModel, hessian_matrix
from pyomo_csg.solve.engine import (
    SolveContext,
    SolverTrouble,
    Troubles,
    bad_cases,
    noted,
)
from pyomo_csg.solve.qp.critical_regions import RegionCache
from pyomo_csg.solve.qp.kkt_conditions import (
    KktPoint,
    are_certified,
    column_duals,
    find_active_set,
)
from pyomo_csg.solve.qp.kkt_solver import KktSolver
from pyomo_csg.solve.qp.quadratic_program import (
    HeldTerms,
    Matrix,
    ProgramBuilder,
    QuadraticProgram,
    is_small,
    largest_in_rows,
)

sparse, _ = attempt_import("scipy.sparse")  # on first use: linear programs do without

_ROUNDING = 1e-15  # a side this small beside the terms it is a difference of is zero
_FEASIBLE = 1e-9  # allowed violation of a row without columns, relative to its terms


class QuadraticRecourse:
    """Costs of decisions under outcomes.

    Where matrix and Hessian are certain, the optimum is an affine function of the data as
    long as the active set stays the same. Such functions are kept, and their answers are
    certified as those of the solver are.
    """

    caches = False

    def __init__(self, compiled: CompiledModel, context: SolveContext):
        self._compiled, self._stats = compiled, context.stats
        self._programs, self._solver = (RecoursePrograms(compiled), KktSolver(context))
        self._regions: RegionCache | None = None
        if self._programs.are_alike:
            self._regions = RegionCache(*self._programs.certain_matrices())

    def costs(
        self, decisions: np.ndarray, outcomes: np.ndarray
    ) -> tuple[np.ndarray, Troubles]:
        """Return h(y) + Q(y, omega) (n,) and the cases without an answer."""
        smooth = np.zeros(len(decisions), bool)
        costs, _, _, troubles = self.gradients(decisions, outcomes, smooth)
        return costs, troubles

    def gradients(
        self,
        decisions: np.ndarray,
        outcomes: np.ndarray,
        smooth: np.ndarray,
        moves: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Troubles]:
        """Return costs (n,), d cost / d y (n, s), whether each is smooth, and troubles.

        Cases that are not ``smooth`` (n,) for another reason stay so. If ``moves`` (n, s) says
        which decisions can move, the derivatives by the others may be one-sided.
        """
        costs, slopes = np.full(len(decisions), np.nan), np.full_like(decisions, np.nan)
        blocks = evaluate(self._compiled, outcomes[:, None, :])
        bad = blocks.unusable()
        troubles, smooth = bad_cases(bad), smooth & ~bad
        if not self._compiled.recourse_cost.hessian.certain:
            self._check_convex(blocks, troubles)
        smooth[list(troubles)] = False
        good = np.array([i for i in range(len(costs)) if i not in troubles], int)
        if not len(good):
            return costs, slopes, smooth, troubles
        cases = RecourseCases(self._programs, decisions[good], blocks[good][:, 0])
        points, is_exact, failed = self._solve(cases)
        troubles.update((int(good[i]), trouble) for i, trouble in failed.items())
        costs[good] = cases.values(points.x)
        slopes[good] = cases.slopes(points)
        if smooth.any():
            smooth[good] &= is_exact & self._are_smooth(
                cases, points, None if moves is None else moves[good]
            )
        return costs, slopes, smooth, troubles

    def _check_convex(self, blocks: Blocks, troubles: Troubles) -> None:
        """Add the cases whose cost is not convex to the troubles."""
        builder = ProgramBuilder(self._compiled)
        for i in range(len(blocks.cost)):
            if i not in troubles:
                with noted(troubles, i):
                    builder.check_convex(blocks[i])

    def _solve(self, cases: RecourseCases) -> tuple[KktPoint, np.ndarray, Troubles]:
        """Return optima, NaN if there is none, which are exact, and the troubles."""
        count, exact = len(cases), np.zeros(len(cases), bool)
        points, troubles = cases.no_points(), Troubles()
        left = np.arange(count)
        search = None
        if self._regions is not None:
            search = self._regions.search(cases.stack)
        if search is not None:
            left = self._take(search.solved(), left, cases, points, exact)
        while len(left):
            i = int(left[0])
            try:
                program = cases.program(i)
                found = self._solver.solve(program)
            except SolverTrouble as trouble:
                troubles[i] = trouble
                left = left[1:]
                continue
            points.x[i], points.row_dual[i] = found.point.x, found.point.row_dual
            points.column_dual[i] = found.point.column_dual
            exact[i] = found.is_exact
            left = left[1:]
            if search is not None and found.is_exact and len(left):
                active = find_active_set(program, found.point)
                search.learn(i, found.point, active)
                left = self._take(search.solved(), left, cases, points, exact)
        return points, exact, troubles

    def _are_smooth(
        self, cases: RecourseCases, points: KktPoint, moves: np.ndarray | None
    ) -> np.ndarray:
        """Return for which cases (n,) the derivatives by decisions that move are unique.

        They are unique if the multipliers are, whether or not these are zero.
        """
        if self._regions is None:
            solved = ~np.isnan(points.x).any(axis=1)
            for i in map(int, np.flatnonzero(solved)):
                active = find_active_set(cases.program(i), points.at(i))
                solved[i] = active.are_strict
            return solved
        active = find_active_set(cases.stack, points)
        if not self._regions.is_usable:
            return active.are_strict
        unclear = self._regions.rows_with_several_multipliers(active)
        programs, count = self._programs, cases.stack.row_lower.shape[0]
        layout = programs.layout
        touched = np.zeros((count, layout.n1), bool)
        for row, column in zip(
            layout.technology_row, layout.technology_column, strict=True
        ):
            touched[:, column] |= unclear[:, row]
        unique = ~(touched if moves is None else touched & moves).any(axis=1)
        return np.asarray(unique)

    def _take(
        self,
        solved: tuple[np.ndarray, KktPoint],
        left: np.ndarray,
        cases: RecourseCases,
        points: KktPoint,
        exact: np.ndarray,
    ) -> np.ndarray:
        """Take over the certified answers of regions; return the cases that are left."""
        assert self._regions is not None
        some, found = solved
        is_left = np.isin(some, left)
        some = some[is_left]
        if not len(some):
            return left
        stack = cases.part(some)
        found = KktPoint(found.x[is_left], found.row_dual[is_left], found.x[is_left])
        found = replace(found, column_dual=column_duals(stack, found))
        good = are_certified(stack, found)
        some = some[good]
        self._stats.cache_hits += len(some)
        points.x[some], points.row_dual[some] = found.x[good], found.row_dual[good]
        points.column_dual[some] = found.column_dual[good]
        exact[some] = True
        return np.setdiff1d(left, some)


class RecoursePrograms:
    """The programs of the recourse alone: a decision shifts sides and costs."""

    def __init__(self, compiled: CompiledModel):
        self.layout = layout = RecourseLayout(compiled)
        self.compiled, n1, n2 = compiled, layout.n1, layout.columns
        cost = compiled.recourse_cost
        i, j = cost.hessian_row, cost.hessian_column
        self.second = np.flatnonzero(i >= n1)  # entries of recourse columns alone
        self.mixed = np.flatnonzero((i < n1) & (j >= n1))
        self.early = np.flatnonzero(j < n1)
        self._places = i[self.second] - n1, j[self.second] - n1
        self.mixed_row, self.mixed_column = i[self.mixed], j[self.mixed] - n1
        self.early_row, self.early_column = i[self.early], j[self.early]
        self.is_small = is_small(layout.rows, n2)
        self.are_alike = compiled.has_certain_recourse
        rows, first = layout.technology_row, layout.technology_column
        count = np.arange(len(rows))
        ones = np.ones(len(rows))
        shape = layout.rows, n1
        self.to_rows = sparse.csr_array((ones, (rows, count)), (shape[0], len(rows)))
        self.to_first = sparse.csr_array((ones, (first, count)), (shape[1], len(rows)))
        size = n1 + n2
        early = compiled.first_cost
        constant = early.hessian.constant
        self.first_hessian = hessian_matrix(early, constant, size)[:n1, :n1]
        self._certain: tuple[Matrix, Matrix] | None = None

    def certain_matrices(self) -> tuple[Matrix, Matrix]:
        """Return the Hessian and the matrix, which are the same in every case."""
        if self._certain is None:
            compiled, layout = self.compiled, self.layout
            entries = compiled.recourse_rows.entries.constant[layout.recourse]
            hessian = compiled.recourse_cost.hessian.constant[self.second]
            self._certain = self.matrices(hessian, entries)
        return self._certain

    def matrices(
        self, hessian: np.ndarray, entries: np.ndarray
    ) -> tuple[Matrix, Matrix]:
        """Return the Hessian and the matrix with these entries."""
        layout, size = self.layout, self.layout.columns
        upper = sparse.coo_array((hessian, self._places), shape=(size, size)).tocsc()
        curvature = sparse.csc_array(upper + sparse.triu(upper, 1).T)
        rows = self.compiled.recourse_rows
        places = rows.row[layout.recourse], rows.column[layout.recourse] - layout.n1
        shape = (layout.rows, size)
        matrix = sparse.csc_array((entries, places), shape=shape)
        if self.is_small:
            return curvature.toarray(), matrix.toarray()
        return curvature, matrix


class RecourseCases:
    """The recourse programs of decisions (n, s) under outcomes."""

    def __init__(
        self, programs: RecoursePrograms, decisions: np.ndarray, blocks: Blocks
    ):
        self._programs, self._blocks, self._y = programs, blocks, decisions
        layout, sizes = programs.layout, np.abs(decisions)
        technology = blocks.entries[:, layout.technology]
        products = technology * decisions[:, layout.technology_column]
        shift = (programs.to_rows @ products.T).T
        terms = (programs.to_rows @ np.abs(products).T).T
        self._technology = technology
        stack: Stack = layout.stack(blocks, shift)
        mixed = blocks.hessian[:, programs.mixed]
        self._mixed = mixed
        count = (len(decisions), layout.columns)
        pull = mixed * decisions[:, programs.mixed_row]
        cost = stack.cost + _summed(pull, programs.mixed_column, count)
        cost_terms = _summed(np.abs(pull), programs.mixed_column, count)
        self._first_slopes = self._slopes_of_first_stage()
        first = programs.compiled.first_cost
        self._offset = (
            (first.linear.constant[: layout.n1] + blocks.cost[:, : layout.n1])
            + self._first_slopes
        ) * decisions
        self._offset = self._offset.sum(axis=1) / 2
        self._offset += first.constant.constant[0] + blocks.constant[:, 0]
        linear = np.abs(first.linear.constant[: layout.n1]) + np.abs(
            blocks.cost[:, : layout.n1]
        )
        value = ((linear + np.abs(self._first_slopes)) * sizes).sum(axis=1)
        lower, upper = (
            _without_rounding(side, terms + np.abs(before))
            for side, before in (
                (stack.row_lower, blocks.row_lower),
                (stack.row_upper, blocks.row_upper),
            )
        )
        nothing: Any = None
        hessian, matrix = (
            programs.certain_matrices() if programs.are_alike else (nothing, nothing)
        )
        self.stack = QuadraticProgram(
            hessian,
            cost,
            0.0,
            matrix,
            lower,
            upper,
            np.broadcast_to(stack.column_lower, count),
            np.broadcast_to(stack.column_upper, count),
            np.ones(layout.columns),
            HeldTerms(terms, np.abs(blocks.cost[:, layout.n1 :]) + cost_terms, value),
        )

    def __len__(self) -> int:
        return len(self._y)

    def no_points(self) -> KktPoint:
        """Return points without numbers."""
        columns, rows = self.stack.cost.shape[1], self.stack.row_lower.shape[1]
        parts = (
            np.full((len(self), size), np.nan) for size in (columns, rows, columns)
        )
        return KktPoint(*parts)

    def part(self, cases: Any) -> QuadraticProgram:
        """Return the program of a case, or the stack of some; matrices must be certain."""
        stack, held = self.stack, self.stack.held
        assert held is not None
        return replace(
            stack,
            cost=stack.cost[cases],
            row_lower=stack.row_lower[cases],
            row_upper=stack.row_upper[cases],
            column_lower=stack.column_lower[cases],
            column_upper=stack.column_upper[cases],
            held=HeldTerms(held.rows[cases], held.columns[cases], held.value[cases]),
        )

    def program(self, case: int) -> QuadraticProgram:
        """Return the program of a case, or raise a SolverTrouble."""
        programs, program = self._programs, self.part(case)
        if not programs.are_alike:
            entries = self._blocks.entries[case][programs.layout.recourse]
            hessian = self._blocks.hessian[case][programs.second]
            curvature, matrix = programs.matrices(hessian, entries)
            program = replace(program, hessian=curvature, matrix=matrix)
        return _without_empty_rows(program)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return h(y) + Q(y, omega) (n,) at recourse points (n, columns)."""
        if self._programs.are_alike:
            curved = (self.stack.hessian @ x.T).T
        else:
            curved = np.array(
                [self.program(i).hessian @ one for i, one in enumerate(x)]
            )
        return ((self.stack.cost + curved / 2) * x).sum(axis=1) + self._offset

    def slopes(self, points: KktPoint) -> np.ndarray:
        """Return the derivatives (n, s) of the costs by the decisions."""
        programs, layout = self._programs, self._programs.layout
        pull = self._mixed * points.x[:, programs.mixed_column]
        slopes = self._first_slopes + _summed(pull, programs.mixed_row, self._y.shape)
        push = self._technology * points.row_dual[:, layout.technology_row]
        return np.asarray(slopes - (programs.to_first @ push.T).T)

    def _slopes_of_first_stage(self) -> np.ndarray:
        """Return the derivatives (n, s) of all terms without recourse columns."""
        programs, n1, y = self._programs, self._programs.layout.n1, self._y
        linear = programs.compiled.first_cost.linear.constant[:n1]
        slopes = linear + self._blocks.cost[:, :n1] + y @ programs.first_hessian
        early = self._blocks.hessian[:, programs.early]
        i, j = programs.early_row, programs.early_column
        slopes = slopes + _summed(early * y[:, j], i, y.shape)
        apart = i != j
        return slopes + _summed((early * y[:, i])[:, apart], j[apart], y.shape)


def _without_rounding(sides: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Return the sides with zeros where only the rounding of their terms is left."""
    noise = np.isfinite(sides) & (np.abs(sides) <= _ROUNDING * terms)
    return np.where(noise, 0.0, sides)


def _without_empty_rows(program: QuadraticProgram) -> QuadraticProgram:
    """Return the program without bounds of rows that only the decision enters.

    Rounding in the decision must not make the solver call the program infeasible.
    """
    empty = largest_in_rows(program.matrix) == 0
    if not empty.any():
        return program
    assert program.held is not None
    lower, upper = program.row_lower, program.row_upper
    sides = np.where(np.isfinite(lower), np.abs(lower), np.abs(upper))
    allowed = _FEASIBLE * (program.held.rows + sides)
    if (empty & ((lower > allowed) | (upper < -allowed))).any():
        raise SolverTrouble("infeasible", "the decision violates a row of the recourse")
    lower, upper = np.where(empty, -np.inf, lower), np.where(empty, np.inf, upper)
    return replace(program, row_lower=lower, row_upper=upper)


def _summed(
    terms: np.ndarray, places: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Return the sums (n, places) of terms (n, terms) by their places."""
    result = np.zeros(shape)
    for term, place in enumerate(places):
        result[:, place] += terms[:, term]
    return result
