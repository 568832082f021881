"""The optimality conditions of convex quadratic programs, and the certificate of an optimum.

The certificate is independent of units: every tolerance is relative to the terms of the sum
it applies to. Points may be stacked, as programs are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyomo_csg.solve.qp.quadratic_program import Matrix, QuadraticProgram

_FEASIBLE = 1e-9  # allowed violation of a row or bound, relative to its terms
_STATIONARY = 1e-9  # allowed derivative of a free column, relative to its terms
_GAP = 1e-9  # allowed duality gap, relative to the sum of the absolute cost terms
_STRONG = 1e-7  # a multiplier above this share of its terms is not rounding
_ACTIVE = 1e-9  # distance from a bound, relative to its terms, that counts as none


@dataclass(frozen=True)
class KktPoint:
    """A point with multipliers: Hx + cost = A'row_dual + column_dual.

    A multiplier is positive at a lower bound and negative at an upper one.
    """

    x: np.ndarray
    row_dual: np.ndarray
    column_dual: np.ndarray

    def at(self, case: int) -> KktPoint:
        """Return one of several points."""
        return KktPoint(self.x[case], self.row_dual[case], self.column_dual[case])


@dataclass(frozen=True)
class ActiveSet:
    """Where columns and rows are at a bound: -1 at the lower, 1 at the upper, 0 at none.

    ``strong`` columns and rows have a multiplier that is not rounding, so every optimum is
    at that bound.
    """

    columns: np.ndarray
    rows: np.ndarray
    strong_columns: np.ndarray
    strong_rows: np.ndarray

    @property
    def are_strict(self) -> np.ndarray:
        """Whether every active bound of each point has a multiplier."""
        weak_columns = (self.columns != 0) & ~self.strong_columns
        weak_rows = (self.rows != 0) & ~self.strong_rows
        return np.asarray(~(weak_columns.any(axis=-1) | weak_rows.any(axis=-1)))


def product(matrix: Matrix, x: np.ndarray) -> np.ndarray:
    """Return the matrix times one point, or times each of several."""
    return np.asarray((matrix @ x.T).T)


def find_fault(program: QuadraticProgram, point: KktPoint) -> str:
    """Return why a point is not certified as optimal; empty if it is."""
    faults = _faults(program, point)
    return next((text for text, found in faults.items() if found), "")


def are_certified(stack: QuadraticProgram, points: KktPoint) -> np.ndarray:
    """Return which of several points are certified as optimal."""
    return ~np.logical_or.reduce(list(_faults(stack, points).values()))


def _faults(program: QuadraticProgram, point: KktPoint) -> dict[str, np.ndarray]:
    """Return whether each optimality condition is violated, by its text."""
    x, dual = point.x, point.row_dual
    finite = np.isfinite(x).all(axis=-1) & np.isfinite(dual).all(axis=-1)
    size, activity = np.abs(x), product(program.matrix, x)
    row_terms = _row_terms(program, size)
    # Multipliers of bounds are recomputed, so stationarity holds but for free columns.
    rest = column_duals(program, point)
    parts = _stationarity_terms(program, size, dual)
    column_gap = _complementarity(rest, x, program.column_lower, program.column_upper)
    row_gap = _complementarity(dual, activity, program.row_lower, program.row_upper)
    free = ~np.isfinite(column_gap)
    slope = free & ~(np.abs(rest) <= _STATIONARY * parts)
    # The gap bounds by how much the value exceeds the optimum.
    gap = row_gap.sum(axis=-1) + np.where(free, 0.0, column_gap).sum(axis=-1)
    scale = value_terms(program, size)
    shown = f"{gap:g} of {scale:g}" if np.ndim(gap) == 0 else ""
    return {
        "the point is not finite": ~finite,
        "a row is violated": _violation(
            activity, program.row_lower, program.row_upper, row_terms
        ),
        "a bound is violated": _violation(
            x, program.column_lower, program.column_upper, size
        ),
        "the gradient does not vanish": slope.any(axis=-1),
        "a multiplier has the wrong sign": ~np.isfinite(row_gap).all(axis=-1),
        f"the gap is {shown}": ~(gap <= _GAP * scale),
    }


def column_duals(program: QuadraticProgram, point: KktPoint) -> np.ndarray:
    """Return the derivatives by columns of the cost without the rows' multipliers' part."""
    slope = product(program.hessian, point.x) + program.cost
    return np.asarray(slope - product(program.transposed, point.row_dual))


def find_active_set(program: QuadraticProgram, point: KktPoint) -> ActiveSet:
    """Return which columns and rows are at a bound, and which of them must be."""
    x, size = point.x, np.abs(point.x)
    parts = _stationarity_terms(program, size, point.row_dual)
    strong_columns = np.abs(point.column_dual) > _STRONG * parts
    # A row's multiplier counts if a column notices it.
    share = product(program.matrix_sizes, 1 / np.where(parts > 0, parts, np.inf))
    strong_rows = np.abs(point.row_dual) * share > _STRONG
    columns = _side(x, program.column_lower, program.column_upper, size)
    activity, terms = product(program.matrix, x), _row_terms(program, size)
    rows = _side(activity, program.row_lower, program.row_upper, terms)
    columns = np.where(strong_columns, -np.sign(point.column_dual), columns)
    rows = np.where(strong_rows, -np.sign(point.row_dual), rows)
    fixed = program.column_lower == program.column_upper
    equal = program.row_lower == program.row_upper
    return ActiveSet(
        np.where(fixed & (columns == 0), -1, columns).astype(int),
        np.where(equal & (rows == 0), -1, rows).astype(int),
        strong_columns | fixed,
        strong_rows | equal,
    )


def size_terms(
    program: QuadraticProgram, point: KktPoint
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of the absolute terms of columns' derivatives and of rows."""
    size = np.abs(point.x)
    sides = (program.row_lower, program.row_upper)
    known = [np.where(np.isfinite(side), np.abs(side), 0.0) for side in sides]
    rows = _row_terms(program, size) + np.maximum(*known)
    return _stationarity_terms(program, size, point.row_dual), rows


def _row_terms(program: QuadraticProgram, size: np.ndarray) -> np.ndarray:
    """Return the sum of the absolute terms of each row."""
    terms = product(program.matrix_sizes, size)
    return terms if program.held is None else terms + program.held.rows


def _stationarity_terms(
    program: QuadraticProgram, size: np.ndarray, row_dual: np.ndarray
) -> np.ndarray:
    """Return the sum of the absolute terms of each column's derivative."""
    terms = product(program.hessian_sizes, size) + _cost_terms(program)
    return terms + product(program.transposed_sizes, np.abs(row_dual))


def _cost_terms(program: QuadraticProgram) -> np.ndarray:
    return np.abs(program.cost) if program.held is None else program.held.columns


def value_terms(program: QuadraticProgram, size: np.ndarray) -> np.ndarray:
    """Return the sum of the absolute terms of the value."""
    curved = product(program.hessian_sizes, size)
    terms = ((_cost_terms(program) + curved) * size).sum(axis=-1)
    return np.asarray(terms if program.held is None else terms + program.held.value)


def _violation(
    values: np.ndarray, lower: np.ndarray, upper: np.ndarray, terms: np.ndarray
) -> np.ndarray:
    """Return whether a bound is violated by more than a share of the terms of its value."""
    below = _is_beyond(lower - values, lower, terms)
    above = _is_beyond(values - upper, upper, terms)
    return np.asarray(below | above)


def _is_beyond(excess: np.ndarray, side: np.ndarray, terms: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        allowed = _FEASIBLE * (terms + np.abs(side))
    return np.asarray(((excess > 0) & ~(excess <= allowed)).any(axis=-1))


def _complementarity(
    dual: np.ndarray, values: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """Return multipliers times slacks; infinite where the bound does not exist."""
    with np.errstate(invalid="ignore"):
        product = np.where(dual > 0, dual * (values - lower), dual * (values - upper))
    return np.abs(np.where(dual == 0, 0.0, product))


def _side(
    values: np.ndarray, lower: np.ndarray, upper: np.ndarray, terms: np.ndarray
) -> np.ndarray:
    """Return -1 where a value is at its lower bound, 1 at its upper, else 0."""
    with np.errstate(invalid="ignore"):
        at_lower = values - lower <= _ACTIVE * (terms + np.abs(lower))
        at_upper = upper - values <= _ACTIVE * (terms + np.abs(upper))
    at_lower &= np.isfinite(lower)
    at_upper &= np.isfinite(upper)
    return np.where(at_lower, -1, np.where(at_upper, 1, 0))
