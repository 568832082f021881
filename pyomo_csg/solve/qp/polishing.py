"""From a point near an optimum to the optimum, by its active set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pyomo_csg.solve.qp.kkt_system import solve_on_active_set
from pyomo_csg.solve.qp.quadratic_program import KktPoint, QuadraticProgram, size_terms

_CORRECTIONS = 8  # of the active set
_WRONG_SIDE = 1e-11  # relative to terms: violations and multipliers beyond rounding
_SOLVED = 1e-12  # largest residual of a KKT system, relative to terms
_FLOOR = 1e-6  # terms smaller than this share of the first point's are taken for noise

Floors = tuple[np.ndarray, np.ndarray]


@dataclass
class _Bounds:
    """Values with multipliers between bounds, and how much of either would be noticed."""

    values: np.ndarray
    duals: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    value_share: np.ndarray
    dual_share: np.ndarray

    def guess(self) -> np.ndarray:
        """Return where multipliers exceed slacks: -1 at the lower bound, 1 at the upper."""
        dual, (below, above) = self.duals * self.dual_share, self._excess()
        at_upper, at_lower = dual < above, dual > -below
        at_lower |= self.lower == self.upper
        return np.where(at_lower, -1, np.where(at_upper, 1, 0))

    def correct(self, side: np.ndarray) -> bool:
        """Change the active set in place; return whether anything changed."""
        below, above = self._excess()
        wrong = side * self.duals * self.dual_share > _WRONG_SIDE
        low, high = (part > _WRONG_SIDE for part in (below, above))
        low, high = low & (side == 0), high & (side == 0)
        leave = wrong & (side != 0) & (self.lower != self.upper)
        side[low], side[high], side[leave] = -1, 1, 0
        return bool(low.any() or high.any() or leave.any())

    def _excess(self) -> tuple[np.ndarray, np.ndarray]:
        """Return how far values are below and above their bounds, as shares of terms."""
        with np.errstate(invalid="ignore"):  # no bound, and no term that would notice
            below = (self.lower - self.values) * self.value_share
            above = (self.values - self.upper) * self.value_share
        return below, above


def polish(program: QuadraticProgram, point: KktPoint) -> tuple[KktPoint, bool]:
    """Return the optimum on the active set that a point suggests, and if it is exact.

    The set is corrected where a bound is violated or a multiplier has the wrong sign.
    """
    parts, terms = size_terms(program, point)
    floors = (_FLOOR * parts, _FLOOR * terms)
    columns, rows = (part.guess() for part in _conditions(program, point, floors))
    best = point
    for _ in range(_CORRECTIONS):
        found = solve_on_active_set(program, point, columns, rows, floors)
        if found is None:
            break
        best, residual = found
        of_columns, of_rows = _conditions(program, best, floors)
        changed = of_columns.correct(columns), of_rows.correct(rows)
        if not any(changed):
            return best, residual < _SOLVED
    return best, False


def _conditions(
    program: QuadraticProgram, point: KktPoint, floors: Floors
) -> Iterator[_Bounds]:
    """Yield the conditions of columns, then those of rows.

    A change of a column is noticed by its rows and derivatives, and a multiplier by the
    columns' derivatives, in proportion to the terms of these.
    """
    parts, terms = map(np.maximum, size_terms(program, point), floors)
    by_part, by_term = _inverse(parts), _inverse(terms)
    entries = program.matrix_sizes
    yield _Bounds(
        point.x,
        point.column_dual,
        program.column_lower,
        program.column_upper,
        entries.T @ by_term + program.hessian_sizes @ by_part,
        by_part,
    )
    yield _Bounds(
        program.matrix @ point.x,
        point.row_dual,
        program.row_lower,
        program.row_upper,
        by_term,
        entries @ by_part,
    )


def _inverse(values: np.ndarray) -> np.ndarray:
    """Return reciprocals; zero where there is nothing."""
    return 1 / np.where(values > 1e-200, values, np.inf)
