"""Convex quadratic programs as arrays, and how they are built from a compiled model."""

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


@dataclass(frozen=True)
class HeldTerms:
    """Sizes of the terms of columns that are held: in rows, derivatives and the value.

    Their rounding is part of what is left after they were added to sides and costs.
    """

    rows: np.ndarray
    columns: np.ndarray
    value: Any


@dataclass(frozen=True)
class QuadraticProgram:
    """Minimize x'Hx/2 + cost'x + offset subject to bounds of rows and columns.

    ``shares`` are the weights of the columns' scenarios, relative to the largest. Programs
    with the same matrices may be stacked: vectors then have the cases on their first axis.
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
    held: HeldTerms | None = None

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

    @cached_property
    def transposed(self) -> Matrix:
        """The transposed matrix."""
        return self.matrix.T if self.is_dense else self.matrix.T.tocsc()

    @cached_property
    def transposed_sizes(self) -> Matrix:
        """The absolute entries of the transposed matrix."""
        return abs(self.transposed)

    def value(self, x: np.ndarray) -> float:
        """Return the objective at a point."""
        return float(self.cost @ x + x @ (self.hessian @ x) / 2) + self.offset

    def in_units(
        self, column: np.ndarray, row: np.ndarray, cost: float
    ) -> QuadraticProgram:
        """Return the program in units of columns, rows and cost."""
        held = self.held
        if held is not None:
            parts = held.columns * column / cost
            held = HeldTerms(held.rows / row, parts, held.value / cost)
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
            held,
        )


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
        dense = is_small(layout.rows, layout.columns)
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


def is_small(rows: int, columns: int) -> bool:
    """Whether dense matrices are faster."""
    return rows + columns <= _DENSE


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
