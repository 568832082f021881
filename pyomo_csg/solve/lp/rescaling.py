"""A linear program again, in units in which a solver's tolerances are small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Shape, Stack
from pyomo_csg.solve.engine import SolveContext, SolverTrouble, Troubles
from pyomo_csg.solve.lp.certificates import Certificate, CertificateChecker
from pyomo_csg.solve.lp.highs_program import DUAL_SIMPLEX, PRIMAL_SIMPLEX, HighsProgram

_WAYS = (
    {"presolve": "off", "simplex_strategy": DUAL_SIMPLEX},
    {"presolve": "off", "simplex_strategy": PRIMAL_SIMPLEX},
    {"presolve": "on", "simplex_strategy": DUAL_SIMPLEX},
)
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class RescaledSolver:
    """Solves what failed its check: rows and columns in units that a point tells.

    Each row is divided by the size of its terms at the best point so far, each column
    counts in what a row would feel, and costs in what the point costs; if that does not
    help, rows and columns count in what is typical of them. Units are powers of two, so
    that nothing is rounded. Every way of the simplex method is tried in turn.

    Parameters
    ----------
    layout : Shape
    checker : Checker
    context : SolveContext

    Attributes
    ----------
    checker : Checker
    """

    def __init__(
        self,
        layout: Shape,
        checker: CertificateChecker,
        context: SolveContext,
    ):
        self._layout, self.checker = layout, checker
        self._context = context
        self._column = np.repeat(np.arange(layout.columns), np.diff(layout.start))

    def settled(
        self, arrays: Arrays, x: np.ndarray, prices: np.ndarray, clear: bool = True
    ) -> tuple[np.ndarray, Certificate]:
        """Return a point (columns,) and its verdict: as they are, or solved again.

        ``clear`` is whether it matters which duals are zero.
        """
        verdict = self.checker.look(arrays, x, prices)
        if verdict.optimal and (verdict.clear or not clear):
            return x, verdict
        return self.solve(arrays, x)

    def settle(
        self,
        stack: Stack,
        x: np.ndarray,
        prices: np.ndarray,
        troubles: Troubles,
        clear: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Check points (n, columns), and put better ones in the place of those that fail.

        Returns the duals. Cases that are troubles already are let be, and those for which
        no point is found join them.
        """
        verdict = self.checker.look(stack, x, prices)
        columns, rows = verdict.duals
        failed = ~verdict.optimal | (~verdict.clear if clear else False)
        for i, found in self._solved_again(stack, x, failed, troubles).items():
            columns[i], rows[i] = found.duals
        return columns, rows

    def mend(
        self, stack: Stack, x: np.ndarray, prices: np.ndarray, troubles: Troubles
    ) -> None:
        """Do as :meth:`settle` where nobody asks for the duals."""
        if len(x) == 1:
            proven = self.checker.proves(stack[0], x[0], prices[0])[None]
        else:
            proven = self.checker.proves(stack, x, prices)
        if proven.all():
            return
        doubted = np.flatnonzero(~proven)
        verdict = self.checker.look(stack.part(doubted), x[doubted], prices[doubted])
        proven[doubted] = verdict.optimal
        self._solved_again(stack, x, ~proven, troubles)

    def _solved_again(
        self, stack: Stack, x: np.ndarray, failed: np.ndarray, troubles: Troubles
    ) -> dict[int, Certificate]:
        """Solve cases that failed (n,) in other units, and return what that proves."""
        proofs = {}
        for i in map(int, np.flatnonzero(failed)):
            if i in troubles:
                continue
            try:
                x[i], proofs[i] = self.solve(stack[i], x[i])
            except SolverTrouble as trouble:
                x[i], troubles[i] = np.nan, trouble
        return proofs

    def solve(self, arrays: Arrays, x: np.ndarray) -> tuple[np.ndarray, Certificate]:
        """Return an optimum and its verdict, from a point that failed its check.

        Raises
        ------
        SolverTrouble
            ``'not exact'`` if no way gives an optimum that can be proven.
        """
        # Where all that a row has is zero, the point tells too small a unit.
        for units in (self.checker.natural_units, self.checker.typical_units):
            for way in _WAYS:
                x = np.nan_to_num(x)
                found = self._again(arrays, x, units(arrays, x), way)
                if found is not None and found[1].optimal:
                    return found
                x = x if found is None else found[0]
        raise not_exact()

    def _again(
        self,
        arrays: Arrays,
        x: np.ndarray,
        units: tuple[np.ndarray, np.ndarray],
        way: Mapping[str, Any],
    ) -> tuple[np.ndarray, Certificate] | None:
        """Solve in units of rows and columns; None if the solver finds nothing."""
        rows, columns = units
        row, column = _power(1 / rows), _power(columns)
        spent = float(np.abs(arrays.cost * x).sum())
        spent = spent or float(np.abs(arrays.cost * column).max(initial=0.0)) or 1.0
        price = float(_power(1 / spent))
        context = self._context.with_defaults({**way, **_TIGHT})
        program = HighsProgram(self._layout, context, relaxed=True)
        try:
            program.load(self._in_units(arrays, row, column, price))
            program.run()
        except SolverTrouble as trouble:
            if trouble.is_limit:
                raise
            return None
        found, _, prices = program.solution()
        found = column * found
        return found, self.checker.look(arrays, found, row * prices / price)

    def _in_units(
        self, arrays: Arrays, row: np.ndarray, column: np.ndarray, price: float
    ) -> Arrays:
        return replace(
            arrays,
            cost=price * arrays.cost * column,
            column_lower=arrays.column_lower / column,
            column_upper=arrays.column_upper / column,
            row_lower=arrays.row_lower * row,
            row_upper=arrays.row_upper * row,
            values=arrays.values * row[self._layout.index] * column[self._column],
        )


def not_exact() -> SolverTrouble:
    """Return the trouble of a program whose answer no check accepts."""
    return SolverTrouble(
        "not exact",
        "the solver's answer is not optimal to 1e-9 of its own terms; bring the model's "
        "numbers nearer to each other",
    )


def _power(numbers: Any) -> Any:
    """Return the powers of two nearest to numbers above 0."""
    return np.exp2(np.clip(np.rint(np.log2(numbers)), -200, 200))
