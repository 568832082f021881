"""Assemble the arrays of programs from the compiled first stage and recourse blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import repeat
from typing import Any, Protocol, TypeVar

import numpy as np

from pyomo_csg.solve.compile.compiled_model import CompiledModel, Numbers, shared


class Shape(Protocol):
    """The size, the sparsity pattern by column, and the integer columns of a program."""

    columns: int
    rows: int
    start: np.ndarray
    index: np.ndarray
    integer: np.ndarray


def entry_columns(layout: Shape) -> np.ndarray:
    """Return the column of each matrix entry."""
    return np.repeat(np.arange(layout.columns), np.diff(layout.start))


@dataclass(frozen=True)
class FirstStageData:
    """The first-stage part of programs; arrays may have the axes of recourse blocks first."""

    lower: np.ndarray
    upper: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray
    entries: np.ndarray

    def __getitem__(self, key: Any) -> FirstStageData:
        return FirstStageData(
            self.lower[key],
            self.upper[key],
            self.row_lower[key],
            self.row_upper[key],
            self.entries[key],
        )


@dataclass(eq=False)
class Blocks:
    """The recourse data of some outcomes; every array has the outcomes on its first axes.

    ``cost`` (..., columns) is the linear cost of first-stage and recourse columns.
    ``first`` is the first-stage data if it depends on known numbers; it is the same for
    all blocks of a case.
    """

    entries: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray
    column_lower: np.ndarray
    column_upper: np.ndarray
    cost: np.ndarray
    constant: np.ndarray
    hessian: np.ndarray
    first: FirstStageData | None = None

    def __getitem__(self, key: Any) -> Blocks:
        return Blocks(
            self.entries[key],
            self.row_lower[key],
            self.row_upper[key],
            self.column_lower[key],
            self.column_upper[key],
            self.cost[key],
            self.constant[key],
            self.hessian[key],
            None if self.first is None else self.first[key],
        )

    def unusable(self) -> np.ndarray:
        """Return the cases, on the first axis, with a number that is missing or infinite."""
        finite = [self.entries, self.cost, self.constant, self.hessian]
        lower = [self.row_lower, self.column_lower]
        upper = [self.row_upper, self.column_upper]
        if self.first is not None:
            finite.append(self.first.entries)
            lower += [self.first.row_lower, self.first.lower]
            upper += [self.first.row_upper, self.first.upper]
        good = [np.isfinite(one) for one in finite if not _is_shared(one)]
        # A comparison with NaN is False, so NaN is found, too.
        good += [one < np.inf for one in lower if not _is_shared(one)]
        good += [one > -np.inf for one in upper if not _is_shared(one)]
        cases = self.cost.shape[0]
        bad = np.zeros(cases, bool)
        for one in good:
            bad |= ~np.logical_and.reduce(one.reshape(cases, -1), axis=1)
        return bad

    def joined(self, other: Blocks) -> Blocks:
        """Return these blocks followed by others, along the axis before the last."""
        first = None
        if self.first is not None and other.first is not None:
            first = FirstStageData(*_joined_arrays(self.first, other.first))
        return replace(Blocks(*_joined_arrays(self, other)), first=first)


def _joined_arrays(one: Any, other: Any) -> list[Any]:
    """Return each array of one followed by that of the other, along the axis before the last."""
    names = [name for name, array in vars(one).items() if isinstance(array, np.ndarray)]
    return [
        np.concatenate([getattr(one, name), getattr(other, name)], axis=-2)
        for name in names
    ]


_TINY = 1e-20  # smaller numbers count as zero: a network's output may underflow


def _is_shared(array: np.ndarray) -> bool:
    """Whether an array holds certain data, which is one array for all cases."""
    return array.strides[0] == 0


def evaluate(compiled: CompiledModel, omega: np.ndarray) -> Blocks:
    """Return the recourse data at omega (..., p + r)."""
    omega = np.where(np.abs(omega) < _TINY, 0.0, omega)
    flat = omega.reshape(-1, compiled.width)
    rows, cost = compiled.recourse_rows, compiled.recourse_cost
    shape = omega.shape[:-1]

    def read(numbers: Numbers) -> np.ndarray:
        if numbers.certain:
            return _everywhere(numbers, shape)
        return numbers.at(flat).reshape(*shape, len(numbers.constant))

    return Blocks(
        read(rows.entries),
        read(rows.lower),
        read(rows.upper),
        *compiled.recourse.bounds(omega),
        read(cost.linear),
        read(cost.constant),
        read(cost.hessian),
        first_stage_data(compiled, omega) if compiled.first_stage_moves else None,
    )


def first_stage_data(compiled: CompiledModel, omega: np.ndarray) -> FirstStageData:
    """Return the first-stage data at omega (..., p + r)."""
    rows, shape = compiled.first_rows, omega.shape[:-1]
    flat = omega.reshape(-1, omega.shape[-1])
    return FirstStageData(
        *compiled.first.bounds(omega),
        *(
            numbers.at(flat).reshape(*shape, -1)
            for numbers in (rows.lower, rows.upper, rows.entries)
        ),
    )


@lru_cache(256)
def _everywhere(numbers: Numbers, shape: tuple[int, ...]) -> np.ndarray:
    """Return certain numbers for all outcomes; cached, because few shapes occur."""
    return shared(numbers.constant, shape)


@dataclass
class Arrays:
    """One program: minimize cost'x + offset, row_lower <= Ax <= row_upper, bounds."""

    cost: np.ndarray
    offset: float
    column_lower: np.ndarray
    column_upper: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray
    values: np.ndarray

    def value(self, x: np.ndarray) -> float:
        """Return the cost of a point."""
        return float(self.cost @ x) + self.offset


@dataclass
class Stack:
    """The programs of many cases; an array without a leading axis is shared by all."""

    cost: np.ndarray
    offset: np.ndarray
    column_lower: np.ndarray
    column_upper: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray
    values: np.ndarray

    def __getitem__(self, case: int) -> Arrays:
        cost, *others = self._pick_cases(case)
        return Arrays(cost, float(self.offset[case]), *others)

    def __iter__(self) -> Iterator[Arrays]:
        cost, *others = (
            repeat(array) if array.ndim == 1 else array for array in self._all()
        )
        return map(Arrays, cost, self.offset.tolist(), *others)

    def part(self, cases: np.ndarray | slice) -> Stack:
        """Return the programs of some of the cases."""
        cost, *others = self._pick_cases(cases)
        return Stack(cost, self.offset[cases], *others)

    def _pick_cases(self, cases: Any) -> list[np.ndarray]:
        return [array if array.ndim == 1 else array[cases] for array in self._all()]

    def _all(self) -> tuple[np.ndarray, ...]:
        return (
            self.cost,
            self.column_lower,
            self.column_upper,
            self.row_lower,
            self.row_upper,
            self.values,
        )

    def values_at(self, points: np.ndarray) -> np.ndarray:
        """Return the costs (n,) of points (n, columns), one per program."""
        return (self.cost * points).sum(axis=1) + self.offset


Program = TypeVar("Program", Arrays, Stack)


def held_at(program: Program, places: np.ndarray, x: np.ndarray) -> Program:
    """Return programs with the columns at ``places`` (columns,) fixed at rounded points."""
    values = np.rint(x)
    return replace(
        program,
        column_lower=np.where(places, values, program.column_lower),
        column_upper=np.where(places, values, program.column_upper),
    )


class Layout:
    """The positions of rows and columns in a program with some recourse blocks.

    ``scenario_columns`` and ``scenario_rows`` count those of zeta-SAA, which come first.
    ``start`` and ``index`` are the sparsity pattern of the matrix, column by column.
    """

    def __init__(self, compiled: CompiledModel, blocks: int):
        self.compiled = compiled
        self.blocks = blocks
        self.n1, self.n2 = len(compiled.first), len(compiled.recourse)
        self.m1, self.m2 = len(compiled.first_rows), len(compiled.recourse_rows)
        self.columns = self.n1 + blocks * self.n2
        self.rows = self.m1 + blocks * self.m2
        self.scenario_columns, self.scenario_rows = self.columns, self.rows
        self.integer = np.concatenate(
            [compiled.first.integer, np.tile(compiled.recourse.integer, blocks)]
        )
        self._first = first_stage_data(compiled, np.zeros(compiled.width))
        cost = compiled.first_cost
        self._first_cost = cost.linear.constant[: self.n1]
        self._first_constant = float(cost.constant.constant[0])
        self._known: dict[str, Any] = {}
        row, column = self._places()
        self._order, self.start, self.index = _by_column(row, column, self.columns)

    def arrays(self, blocks: Blocks, weights: np.ndarray) -> Arrays:
        """Return the program of some blocks (one leading axis), with weights on their costs."""
        return self.stack(blocks[None], weights[None])[0]

    def stack(self, blocks: Blocks, weights: np.ndarray) -> Stack:
        """Return the programs of many cases (two leading axes: cases, blocks).

        Certain data is one array for all cases, and the same object in every call.
        """
        compiled = self.compiled
        first = self._first if blocks.first is None else blocks.first[:, 0]
        rows, early = compiled.recourse_rows, compiled.first_rows
        columns = compiled.recourse.certain and compiled.first.certain
        lower = rows.lower.certain and early.lower.certain
        upper = rows.upper.certain and early.upper.certain
        entries = rows.entries.certain and early.entries.certain
        join = self._join_stages
        return Stack(
            *self._costs(blocks, weights),
            join("lower", columns, first.lower, blocks.column_lower),
            join("upper", columns, first.upper, blocks.column_upper),
            join("row_lower", lower, first.row_lower, blocks.row_lower),
            join("row_upper", upper, first.row_upper, blocks.row_upper),
            join("values", entries, first.entries, blocks.entries),
        )

    def _costs(
        self, blocks: Blocks, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns' costs, as one row if all cases share it, and the offsets."""
        cost = self.compiled.recourse_cost
        is_shared = len(weights) == 1 or weights.strides[0] == 0
        if not (cost.linear.certain and is_shared):
            return self._cost_rows(blocks, weights), self._offsets(blocks, weights)
        known = self._known.get("cost")
        if known is None or not np.array_equal(known[0], weights[0]):
            one, same = blocks[:1], weights[:1].copy()
            known = (same[0], self._cost_rows(one, same)[0], self._offsets(one, same))
            self._known["cost"] = known
        if cost.constant.certain:
            return known[1], known[2].repeat(len(weights))
        return known[1], self._offsets(blocks, weights)

    def _cost_rows(self, blocks: Blocks, weights: np.ndarray) -> np.ndarray:
        first, recourse = blocks.cost[..., : self.n1], blocks.cost[..., self.n1 :]
        costs = np.empty((len(weights), self.columns))
        costs[:, : self.n1] = self._first_cost + np.einsum("nk,nks->ns", weights, first)
        costs[:, self.n1 :] = (weights[..., None] * recourse).reshape(len(weights), -1)
        return costs

    def _offsets(self, blocks: Blocks, weights: np.ndarray) -> np.ndarray:
        constant = blocks.constant[..., 0]
        return self._first_constant + np.einsum("nk,nk->n", weights, constant)

    def _join_stages(
        self, name: str, certain: bool, first: np.ndarray, blocks: np.ndarray
    ) -> np.ndarray:
        """Return first-stage and recourse data joined; certain data is joined only once."""
        if certain and name in self._known:
            return self._known[name]
        cases = 1 if certain else len(blocks)
        flat = blocks[:cases].reshape(cases, -1)
        first = shared(first, (cases,)) if first.ndim == 1 else first[:cases]
        joined = np.concatenate([first, flat], axis=1)
        if name == "values":
            joined = joined[:, self._order]
        if not certain:
            return joined
        # Callers recognize certain data by the identity of this array.
        known = self._known[name] = joined[0]
        return known

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        first, recourse = self.compiled.first_rows, self.compiled.recourse_rows
        block = np.arange(self.blocks)[:, None]
        row = self.m1 + block * self.m2 + recourse.row
        shift = np.where(recourse.column < self.n1, 0, block * self.n2)
        column = shift + recourse.column
        return (
            np.concatenate([first.row, row.ravel()]),
            np.concatenate([first.column, column.ravel()]),
        )


def _by_column(
    row: np.ndarray, column: np.ndarray, columns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the order of entries by column, where each column starts, and the rows."""
    order = np.lexsort((row, column))
    counts = np.bincount(column, minlength=columns)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return order, start, row[order].astype(np.int32)


class RecourseLayout:
    """The program of the recourse alone: the decision shifts the sides of the rows."""

    def __init__(self, compiled: CompiledModel):
        rows = compiled.recourse_rows
        self.n1 = len(compiled.first)
        self.columns, self.rows = len(compiled.recourse), len(rows)
        self.integer = compiled.recourse.integer
        first = rows.column < self.n1
        self.technology = np.flatnonzero(first)
        self.technology_row = rows.row[first]
        self.technology_column = rows.column[first]
        row, column = rows.row[~first], rows.column[~first] - self.n1
        self.recourse = np.flatnonzero(~first)
        self._order, self.start, self.index = _by_column(row, column, self.columns)
        self._places = (row, column)
        self._is_certain = rows.entries.certain_at(self.recourse)
        self._values: np.ndarray | None = None

    def _recourse_values(self, entries: np.ndarray) -> np.ndarray:
        """Return the matrix entries (..., nonzeros); the same object if they are certain."""
        if not self._is_certain:
            return entries[..., self.recourse][..., self._order]
        if self._values is None:
            one = entries if entries.ndim == 1 else entries[0]
            self._values = one[self.recourse][self._order]
        return self._values

    def matrix(self, entries: np.ndarray) -> np.ndarray:
        """Return the recourse matrix (rows, columns) of one block, dense."""
        matrix = np.zeros((self.rows, self.columns))
        np.add.at(matrix, self._places, entries[self.recourse])
        return matrix

    def shift(self, blocks: Blocks, decisions: np.ndarray) -> np.ndarray:
        """Return T(omega) y (n, rows): the part of each row that the decision determines."""
        shift = np.zeros((self.rows, len(decisions)))
        ys = np.ascontiguousarray(decisions.T)  # sums along rows are much faster
        places = zip(
            self.technology, self.technology_row, self.technology_column, strict=True
        )
        for entry, row, column in places:
            shift[row] += blocks.entries[:, entry] * ys[column]
        return shift.T

    def arrays(self, block: Blocks, shift: np.ndarray) -> Arrays:
        """Return the program of one block (no leading axis) after one decision."""
        return Arrays(
            block.cost[self.n1 :],
            0.0,
            block.column_lower,
            block.column_upper,
            block.row_lower - shift,
            block.row_upper - shift,
            self._recourse_values(block.entries),
        )

    def stack(self, blocks: Blocks, shift: np.ndarray) -> Stack:
        """Return the programs of many blocks (one leading axis), each with its own shift."""
        return Stack(
            blocks.cost[:, self.n1 :],
            np.zeros(len(shift)),
            blocks.column_lower,
            blocks.column_upper,
            blocks.row_lower - shift,
            blocks.row_upper - shift,
            self._recourse_values(blocks.entries),
        )
