"""A second solve in better units, for linear programs whose certificate fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Shape, Stack, entry_columns
from pyomo_csg.solve.engine import SolveContext, SolverTrouble, Troubles
from pyomo_csg.solve.lp.certificates import Certificate, CertificateChecker
from pyomo_csg.solve.lp.highs_program import DUAL_SIMPLEX, PRIMAL_SIMPLEX, HighsProgram
from pyomo_csg.solve.lp.units import nearest_power_of_two

_METHODS = (
    {"presolve": "off", "simplex_strategy": DUAL_SIMPLEX},
    {"presolve": "off", "simplex_strategy": PRIMAL_SIMPLEX},
    {"presolve": "on", "simplex_strategy": DUAL_SIMPLEX},
)
# The total cost in other units. HiGHS's dual tolerance is absolute: with a total of 1, it would
# leave scenarios with weights below 1e-10 as they are.
_COST_LEVEL = 1e6
_CROSSED = 1e-9  # difference of two bounds, relative to the larger one
# HiGHS's smallest: it takes no tolerance below 1e-10.
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class RescaledProgram(NamedTuple):
    """A solved program, by what its rows, columns and costs were multiplied."""

    program: HighsProgram
    row: np.ndarray
    column: np.ndarray
    cost: float


class RescaledSolver:
    """Certifies answers, and solves again in other units where the certificate fails.

    Each row is divided by the size of its terms at the best point so far, each column by the
    step that its rows notice, and costs by the cost of the point. If that does not help,
    typical sizes take their place. Units are powers of two, so nothing is rounded. For each
    choice of units, three variants of the simplex method are tried. ``last`` is the program
    whose optimum was returned last.
    """

    def __init__(self, layout: Shape, context: SolveContext):
        self._layout, self.checker = layout, CertificateChecker(layout)
        # The clock of a case may belong to a later one by now.
        self._context = context.without_case_limit()
        self._column = entry_columns(layout)
        self.last: RescaledProgram | None = None

    def certify(
        self,
        arrays: Arrays,
        x: np.ndarray,
        row_duals: np.ndarray,
        need_clear: bool = True,
    ) -> tuple[np.ndarray, Certificate]:
        """Return a point (columns,) and its certificate: this one, or solved again.

        ``need_clear`` says whether it matters which duals are zero.
        """
        certificate = self.checker.check(arrays, x, row_duals)
        if certificate.optimal and (certificate.clear or not need_clear):
            return x, certificate
        return self.solve(arrays, x)

    def certify_many(
        self,
        stack: Stack,
        x: np.ndarray,
        row_duals: np.ndarray,
        troubles: Troubles,
        need_clear: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the duals of points (n, columns); replace points that fail in place.

        Cases in ``troubles`` are solved again if rounding could be the reason; those that no
        solve can certify are added.
        """
        certificate = self.checker.check(stack, x, row_duals)
        columns, rows = certificate.duals
        failed = ~certificate.optimal | (~certificate.clear if need_clear else False)
        for i in map(int, np.flatnonzero(failed)):
            if i not in troubles:
                moved = self._move_onto_rows(
                    stack[i], x[i], row_duals[i], certificate.of(i)
                )
                if moved is not None and (moved[1].clear or not need_clear):
                    x[i], (columns[i], rows[i]) = moved[0], moved[1].duals
                    failed[i] = False
        for i, found in self._solve_failed(stack, x, failed, troubles).items():
            columns[i], rows[i] = found.duals
        return columns, rows

    def repair(
        self, stack: Stack, x: np.ndarray, row_duals: np.ndarray, troubles: Troubles
    ) -> None:
        """Do as :meth:`certify_many` where the duals are not needed, in less time."""
        if len(x) == 1:
            proven = self.checker.check_quickly(stack[0], x[0], row_duals[0])[None]
        else:
            proven = self.checker.check_quickly(stack, x, row_duals)
        if proven.all():
            return
        doubted = np.flatnonzero(~proven)
        points, failed = x[doubted], {}
        for place, case in enumerate(map(int, doubted)):
            if case in troubles:
                failed[place] = troubles.pop(case)
        self.certify_many(
            stack.part(doubted), points, row_duals[doubted], failed, need_clear=False
        )
        x[doubted] = points
        troubles.update((int(doubted[place]), one) for place, one in failed.items())

    def _move_onto_rows(
        self,
        arrays: Arrays,
        x: np.ndarray,
        row_duals: np.ndarray,
        certificate: Certificate,
    ) -> tuple[np.ndarray, Certificate] | None:
        """Return a point moved onto the rows that it misses, with its certificate.

        The simplex method stops within an absolute tolerance of its rows, which may be more than
        their terms. The least correction of the columns inside their bounds is what the exact
        basic solution differs by. None if that is not certified, or not worth the time.
        """
        step = self.checker.correction(arrays, x, certificate.duals)
        if step is None:
            return None
        point = np.clip(x + step, arrays.column_lower, arrays.column_upper)
        found = self.checker.check(arrays, point, row_duals)
        return (point, found) if found.optimal else None

    def _solve_failed(
        self, stack: Stack, x: np.ndarray, failed: np.ndarray, troubles: Troubles
    ) -> dict[int, Certificate]:
        """Solve the failed cases (n,) in other units, and return their certificates."""
        certificates = {}
        for i in map(int, np.flatnonzero(failed)):
            try:
                if i in troubles:
                    x[i], certificates[i] = self.solve_again(stack[i], troubles[i])
                    del troubles[i]
                else:
                    x[i], certificates[i] = self.solve(stack[i], x[i])
            except SolverTrouble as trouble:
                x[i], troubles[i] = np.nan, trouble
        return certificates

    def solve(self, arrays: Arrays, x: np.ndarray) -> tuple[np.ndarray, Certificate]:
        """Return a certified optimum, starting from a point that failed; or raise 'not exact'."""
        nearly: tuple[np.ndarray, Certificate, RescaledProgram | None] | None = None
        # Typical units come second: a row whose terms are all zero at x has no size there.
        for units in (self.checker.units_at_point, self.checker.typical_units):
            for method in _METHODS:
                x = np.nan_to_num(x)
                found = self._solve_in_units(arrays, x, units(arrays, x), method)
                if found is None:
                    continue
                x, certificate, is_nearly_optimal = found
                if certificate.optimal:
                    return x, certificate
                if is_nearly_optimal and nearly is None:
                    nearly = x, certificate, self.last
        if nearly is not None:
            self.last = nearly[2]
            return nearly[:2]
        raise not_exact()

    def solve_again(
        self, arrays: Arrays, trouble: SolverTrouble
    ) -> tuple[np.ndarray, Certificate]:
        """Return a certified optimum of a program in trouble, or raise that trouble.

        With large numbers, rounding exceeds the solver's absolute tolerances, and a program
        looks infeasible or unbounded. In typical units it does not.
        """
        if not trouble.may_be_rounding or have_crossed(arrays):
            raise trouble
        # One method is enough to doubt a clear answer, such as 'infeasible'.
        methods = _METHODS[: None if trouble.is_unclear else 1]
        origin = np.zeros(self._layout.columns)
        for units in (self.checker.units_at_point, self.checker.typical_units):
            for method in methods:
                scales = units(arrays, origin)
                found = self._solve_in_units(arrays, origin, scales, method)
                if found is not None and found[1].optimal:
                    return found[:2]
        raise trouble

    def _solve_in_units(
        self,
        arrays: Arrays,
        x: np.ndarray,
        units: tuple[np.ndarray, np.ndarray],
        method: Mapping[str, Any],
    ) -> tuple[np.ndarray, Certificate, bool] | None:
        """Solve in units of rows and columns; return None if the solver finds no optimum.

        The last result says whether the point is nearly optimal.
        """
        rows, columns = units
        row, column = nearest_power_of_two(1 / rows), nearest_power_of_two(columns)
        total = float(np.abs(arrays.cost * x).sum())
        total = total or float(np.abs(arrays.cost * column).max(initial=0.0)) or 1.0
        cost = float(nearest_power_of_two(_COST_LEVEL / total))
        context = self._context.with_defaults({**method, **_TIGHT})
        program = HighsProgram(self._layout, context, relaxed=True)
        scaled = replace(
            arrays,
            cost=cost * arrays.cost * column,
            column_lower=arrays.column_lower / column,
            column_upper=arrays.column_upper / column,
            row_lower=arrays.row_lower * row,
            row_upper=arrays.row_upper * row,
            values=arrays.values * row[self._layout.index] * column[self._column],
        )
        try:
            program.solve(scaled)
        except SolverTrouble as trouble:
            if trouble.is_limit:
                raise
            return None
        self.last = RescaledProgram(program, row, column, cost)
        found, _, row_duals = program.solution()
        found, row_duals = column * found, row * row_duals / cost
        certificate = self.checker.check(arrays, found, row_duals)
        nearly = self.checker.is_nearly_optimal(arrays, found, row_duals)
        return found, certificate, bool(nearly)


def have_crossed(arrays: Arrays) -> bool:
    """Whether a column's lower bound exceeds its upper one by more than rounding.

    In a large unit, the difference could look like rounding.
    """
    lower, upper = arrays.column_lower, arrays.column_upper
    size = np.maximum(np.abs(lower), np.abs(upper))
    return bool((lower - upper > _CROSSED * size).any())


def not_exact() -> SolverTrouble:
    """Return the trouble of a program that no solve can certify."""
    return SolverTrouble(
        "not exact",
        "the solver's answer is not optimal to a relative 1e-9; rescale the model so "
        "that its coefficients are closer in size",
    )


class CertifiedProgram(HighsProgram):
    """A linear program, or a relaxation, kept in HiGHS, with certified optima.

    ``lean`` are the options of its runs; a solve in other units has its own.
    """

    def __init__(self, layout: Shape, context: SolveContext, lean: Mapping[str, Any]):
        super().__init__(layout, context.with_defaults(lean), relaxed=True, scaled=True)
        self.rescaled = RescaledSolver(layout, context)

    def optimum(
        self, arrays: Arrays, basis: Any = None, need_clear: bool = True
    ) -> tuple[np.ndarray, Certificate]:
        """Solve, and return the optimum and its certificate."""
        try:
            self.solve(arrays, basis)
        except SolverTrouble as trouble:
            return self.rescaled.solve_again(arrays, trouble)
        return self.certified_solution(need_clear)

    def certified_solution(
        self, need_clear: bool = True
    ) -> tuple[np.ndarray, Certificate]:
        """Return the optimum just found and its certificate, solved again if need be."""
        x, _, row_duals = self.solution()
        return self.rescaled.certify(self.arrays, x, row_duals, need_clear)
