"""Convex quadratic programs as arrays, and the certificate of an optimum.

The certificate is independent of units: every tolerance is relative to the terms of the sum
it applies to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from pyomo.common.dependencies import attempt_import

from pyomo_csg.solve.compile.assembly import Arrays, Blocks, Layout
from pyomo_csg.solve.compile.compiled_model import (
    CompiledModel,
    hessian_matrix,
    is_positive,
)
from pyomo_csg.solve.engine import SolverTrouble

sparse, _ = attempt_import("scipy.sparse")  # on first use: linear programs do without

# A csc_array, or a dense array, which is faster for small programs.
Matrix: TypeAlias = Any

_DENSE = 300  # columns and rows up to which dense matrices are faster
_SMALLEST_SHARE = 1e-14  # of the largest weight; smaller ones count as this
_FEASIBLE = 1e-9  # allowed violation of a row or bound, relative to its terms
_STATIONARY = 1e-9  # allowed derivative of a free column, relative to its terms
_GAP = 1e-9  # allowed duality gap, relative to the sum of the absolute cost terms
_STRONG = 1e-7  # a multiplier above this share of its terms is not rounding
_ACTIVE = 1e-9  # distance from a bound, relative to its terms, that counts as none


@dataclass(frozen=True)
class QuadraticProgram:
    """Minimize x'Hx/2 + cost'x + offset subject to bounds of rows and columns.

    ``shares`` are the weights of the columns' scenarios, relative to the largest.
    """

    hessian: Matrix
    cost: np.ndarray
    offset: float
    matrix: Matrix
    row_lower: np.ndarray
    row_upper: np.ndarray
    column_lower: np.ndarray
    column_upper: np.ndarray
    shares: np.ndarray

    @property
    def is_dense(self) -> bool:
        """Whether the matrices are dense arrays."""
        return isinstance(self.hessian, np.ndarray)

    @cached_property
    def hessian_sizes(self) -> Matrix:
        """The absolute entries of the Hessian."""
        return abs(self.hessian)

    @cached_property
    def matrix_sizes(self) -> Matrix:
        """The absolute entries of the matrix."""
        return abs(self.matrix)

    def value(self, x: np.ndarray) -> float:
        """Return the objective at a point."""
        return float(self.cost @ x + x @ (self.hessian @ x) / 2) + self.offset

    def in_units(
        self, column: np.ndarray, row: np.ndarray, cost: float
    ) -> QuadraticProgram:
        """Return the program in units of columns, rows and cost."""
        return QuadraticProgram(
            rescale(self.hessian, column / cost, column),
            self.cost * column / cost,
            self.offset / cost,
            rescale(self.matrix, 1 / row, column),
            self.row_lower / row,
            self.row_upper / row,
            self.column_lower / column,
            self.column_upper / column,
            self.shares,
        )


@dataclass(frozen=True)
class KktPoint:
    """A point with multipliers: Hx + cost = A'row_dual + column_dual.

    A multiplier is positive at a lower bound and negative at an upper one.
    """

    x: np.ndarray
    row_dual: np.ndarray
    column_dual: np.ndarray


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
    def is_strict(self) -> bool:
        """Whether every active bound has a multiplier."""
        weak_columns = (self.columns != 0) & ~self.strong_columns
        weak_rows = (self.rows != 0) & ~self.strong_rows
        return not (weak_columns.any() or weak_rows.any())


class ProgramBuilder:
    """Builds the quadratic programs of a compiled model."""

    def __init__(self, compiled: CompiledModel):
        self._compiled = compiled

    def program(
        self, layout: Layout, arrays: Arrays, blocks: Blocks, weights: np.ndarray
    ) -> QuadraticProgram:
        """Return the program with the quadratic terms of weighted blocks."""
        matrix = sparse.csc_array(
            (arrays.values, layout.index, layout.start),
            shape=(layout.rows, layout.columns),
        )
        hessian = self._hessian(layout, blocks, weights)
        dense = layout.rows + layout.columns <= _DENSE
        return QuadraticProgram(
            hessian.toarray() if dense else hessian,
            arrays.cost,
            arrays.offset,
            matrix.toarray() if dense else matrix,
            arrays.row_lower,
            arrays.row_upper,
            arrays.column_lower,
            arrays.column_upper,
            _shares(layout, weights),
        )

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

    def _hessian(self, layout: Layout, blocks: Blocks, weights: np.ndarray) -> Any:
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
        return sparse.csc_array(upper + sparse.triu(upper, 1).T)


def _shares(layout: Layout, weights: np.ndarray) -> np.ndarray:
    """Return the weight of each column's scenario, relative to the largest weight."""
    relative = np.maximum(weights / weights.max(), _SMALLEST_SHARE)
    relative = np.where(weights > 0, relative, 1.0)
    return np.concatenate([np.ones(layout.n1), np.repeat(relative, layout.n2)])


def find_fault(program: QuadraticProgram, point: KktPoint) -> str:
    """Return why a point is not certified as optimal; empty if it is."""
    x, dual = point.x, point.row_dual
    if not (np.isfinite(x).all() and np.isfinite(dual).all()):
        return "the point is not finite"
    size, activity = np.abs(x), program.matrix @ x
    terms = program.matrix_sizes @ size
    if _violation(activity, program.row_lower, program.row_upper, terms) > _FEASIBLE:
        return "a row is violated"
    if _violation(x, program.column_lower, program.column_upper, size) > _FEASIBLE:
        return "a bound is violated"
    # Multipliers of bounds are recomputed, so stationarity holds but for free columns.
    rest = program.hessian @ x + program.cost - program.matrix.T @ dual
    parts = _stationarity_terms(program, size, dual)
    column_gap = _complementarity(rest, x, program.column_lower, program.column_upper)
    row_gap = _complementarity(dual, activity, program.row_lower, program.row_upper)
    unbounded = ~np.isfinite(column_gap)
    if (np.abs(rest[unbounded]) > _STATIONARY * parts[unbounded]).any():
        return "the gradient does not vanish"
    if not np.isfinite(row_gap).all():
        return "a multiplier has the wrong sign"
    # The gap bounds by how much the value exceeds the optimum.
    gap = row_gap.sum() + column_gap[~unbounded].sum()
    scale = np.abs(program.cost) @ size + size @ (program.hessian_sizes @ size)
    return f"the gap is {gap:g} of {scale:g}" if gap > _GAP * scale else ""


def find_active_set(program: QuadraticProgram, point: KktPoint) -> ActiveSet:
    """Return which columns and rows are at a bound, and which of them must be."""
    x, activity, size = point.x, program.matrix @ point.x, np.abs(point.x)
    parts = _stationarity_terms(program, size, point.row_dual)
    strong_columns = np.abs(point.column_dual) > _STRONG * parts
    # A row's multiplier counts if a column notices it.
    share = program.matrix_sizes @ (1 / np.where(parts > 0, parts, np.inf))
    strong_rows = np.abs(point.row_dual) * share > _STRONG
    columns = _side(x, program.column_lower, program.column_upper, size)
    terms = program.matrix_sizes @ size
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
    rows = program.matrix_sizes @ size + np.maximum(*known)
    return _stationarity_terms(program, size, point.row_dual), rows


def largest_in_rows(matrix: Matrix) -> np.ndarray:
    """Return the largest absolute entry of each row."""
    if not matrix.shape[0] or not matrix.shape[1]:
        return np.zeros(matrix.shape[0])
    largest = abs(matrix).max(axis=1)
    return largest if isinstance(largest, np.ndarray) else largest.toarray().ravel()


def rescale(matrix: Matrix, left: np.ndarray, right: np.ndarray) -> Matrix:
    """Return diag(left) @ matrix @ diag(right)."""
    if isinstance(matrix, np.ndarray):
        return left[:, None] * matrix * right
    matrix = sparse.csc_array(matrix)
    entries = matrix.data * left[matrix.indices]
    entries *= np.repeat(right, np.diff(matrix.indptr))
    return sparse.csc_array((entries, matrix.indices, matrix.indptr), matrix.shape)


def submatrix(matrix: Matrix, rows: np.ndarray, columns: np.ndarray) -> Matrix:
    """Return some rows and columns of a matrix."""
    if isinstance(matrix, np.ndarray):
        return matrix[rows[:, None], columns]
    return matrix[rows][:, columns].tocsc()


def _stationarity_terms(
    program: QuadraticProgram, size: np.ndarray, row_dual: np.ndarray
) -> np.ndarray:
    """Return the sum of the absolute terms of each column's derivative."""
    terms = program.hessian_sizes @ size + np.abs(program.cost)
    return np.asarray(terms + program.matrix_sizes.T @ np.abs(row_dual))


def _violation(
    values: np.ndarray, lower: np.ndarray, upper: np.ndarray, terms: np.ndarray
) -> float:
    """Return the largest violation of bounds, relative to the terms of each value."""
    worst = 0.0
    for excess, side in ((lower - values, lower), (values - upper, upper)):
        at = np.flatnonzero(excess > 0)
        if len(at):
            share = excess[at] / (terms[at] + np.abs(side[at]))
            worst = max(worst, float(share.max()))
    return worst


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
