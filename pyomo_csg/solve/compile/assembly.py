"""Where the numbers of the recourse's own program go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import repeat
from typing import Any, Protocol, TypeVar

import numpy as np

from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.compile.parametric import Numbers, shared


class Shape(Protocol):
    """The size, the pattern column by column, and the integers of a program."""

    columns: int
    rows: int
    start: np.ndarray
    index: np.ndarray
    integer: np.ndarray


@dataclass(eq=False)
class Blocks:
    """The recourse data of some outcomes, one leading axis for each array.

    Attributes
    ----------
    entries, row_lower, row_upper, column_lower, column_upper : array (..., size)
    cost : array (..., columns)
        Linear cost of the first-stage and the recourse columns.
    constant : array (..., 1)
    hessian : array (..., entries)
    """

    entries: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray
    column_lower: np.ndarray
    column_upper: np.ndarray
    cost: np.ndarray
    constant: np.ndarray
    hessian: np.ndarray

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
        )

    def unusable(self) -> np.ndarray:
        """Say for which cases, on the first axis, some number is missing or infinite."""
        finite = (self.entries, self.cost, self.constant, self.hessian)
        lower = (self.row_lower, self.column_lower)
        upper = (self.row_upper, self.column_upper)
        good = [np.isfinite(one) for one in finite if not _shared(one)]
        good += [one < np.inf for one in lower if not _shared(one)]  # which no NaN is
        good += [one > -np.inf for one in upper if not _shared(one)]
        cases = self.cost.shape[0]
        bad = np.zeros(cases, bool)
        for one in good:
            bad |= ~np.logical_and.reduce(one.reshape(cases, -1), axis=1)
        return bad

    def joined(self, other: Blocks) -> Blocks:
        """Append another's blocks after these, on the axis before the last."""
        return Blocks(
            *(
                np.concatenate([getattr(self, f.name), getattr(other, f.name)], axis=-2)
                for f in fields(self)
            )
        )


_TINY = 1e-20  # what a network's output layer may underflow to; no unit is so large


def _shared(array: np.ndarray) -> bool:
    """Whether an array is the same for all cases, being certain."""
    return array.strides[0] == 0


def evaluate(compiled: CompiledModel, omega: np.ndarray) -> Blocks:
    """Return the recourse data at omega (..., p)."""
    omega = np.where(np.abs(omega) < _TINY, 0.0, omega)
    flat = omega.reshape(-1, compiled.p)
    rows, cost = compiled.recourse_rows, compiled.recourse_cost
    shape = omega.shape[:-1]

    def shaped(numbers: Numbers) -> np.ndarray:
        if numbers.certain:
            return _everywhere(numbers, shape)
        return numbers.at(flat).reshape(*shape, len(numbers.constant))

    return Blocks(
        shaped(rows.entries),
        shaped(rows.lower),
        shaped(rows.upper),
        *compiled.recourse.bounds(omega),
        shaped(cost.linear),
        shaped(cost.constant),
        shaped(cost.hessian),
    )


@lru_cache(256)
def _everywhere(numbers: Numbers, shape: tuple[int, ...]) -> np.ndarray:
    """Return numbers that are certain; decisions ask for few shapes again and again."""
    return shared(numbers.constant, shape)


@dataclass
class Arrays:
    """One program: minimise cost'x + offset, row_lower <= Ax <= row_upper, bounds."""

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
        cost, *others = self._picked(case)
        return Arrays(cost, float(self.offset[case]), *others)

    def __iter__(self) -> Iterator[Arrays]:
        cost, *others = (
            repeat(array) if array.ndim == 1 else array for array in self._all()
        )
        return map(Arrays, cost, self.offset.tolist(), *others)

    def part(self, cases: np.ndarray) -> Stack:
        """Return the programs of some of the cases."""
        cost, *others = self._picked(cases)
        return Stack(cost, self.offset[cases], *others)

    def _picked(self, cases: Any) -> list[np.ndarray]:
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

    def values_of(self, points: np.ndarray) -> np.ndarray:
        """Return what points (n, columns), one of each program, cost."""
        return (self.cost * points).sum(axis=1) + self.offset


Program = TypeVar("Program", Arrays, Stack)


def held_at(program: Program, places: np.ndarray, x: np.ndarray) -> Program:
    """Return programs whose columns at some places (columns,) are held at points, rounded."""
    values = np.rint(x)
    return replace(
        program,
        column_lower=np.where(places, values, program.column_lower),
        column_upper=np.where(places, values, program.column_upper),
    )


class Layout:
    """Where everything stands in a program of a first stage and some recourse blocks.

    Parameters
    ----------
    compiled : CompiledModel
    blocks : int
        How many recourse blocks there are.

    Attributes
    ----------
    columns, rows : int
    scenario_columns, scenario_rows : int
        How many of them zeta-SAA has; they come first.
    start, index : array
        The matrix's pattern, column by column.
    integer : array (columns,)
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
        self._first = _first_stage(compiled)
        self._known: dict[str, Any] = {}
        row, column = self._places()
        self._order = np.lexsort((row, column))
        self.index = row[self._order].astype(np.int32)
        counts = np.bincount(column, minlength=self.columns)
        self.start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def arrays(self, blocks: Blocks, weights: np.ndarray) -> Arrays:
        """Return the program of some blocks (one leading axis), their costs weighted."""
        return self.stack(blocks[None], weights[None])[0]

    def stack(self, blocks: Blocks, weights: np.ndarray) -> Stack:
        """Return the programs of many cases (two leading axes: cases, blocks).

        What no uncertain number moves is one array, the same object each time.
        """
        compiled, first = self.compiled, self._first
        rows, columns = compiled.recourse_rows, compiled.recourse
        return Stack(
            *self._costs(blocks, weights),
            self._joined("lower", columns.certain, first.lower, blocks.column_lower),
            self._joined("upper", columns.certain, first.upper, blocks.column_upper),
            self._joined(
                "row_lower", rows.lower.certain, first.row_lower, blocks.row_lower
            ),
            self._joined(
                "row_upper", rows.upper.certain, first.row_upper, blocks.row_upper
            ),
            self._joined("values", rows.entries.certain, first.entries, blocks.entries),
        )

    def _costs(
        self, blocks: Blocks, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the cost of every column, once where all cases share it, and offsets."""
        cost = self.compiled.recourse_cost
        alike = len(weights) == 1 or weights.strides[0] == 0
        if not (cost.linear.certain and alike):
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
        costs[:, : self.n1] = self._first.cost + np.einsum("nk,nks->ns", weights, first)
        costs[:, self.n1 :] = (weights[..., None] * recourse).reshape(len(weights), -1)
        return costs

    def _offsets(self, blocks: Blocks, weights: np.ndarray) -> np.ndarray:
        constant = blocks.constant[..., 0]
        return self._first.constant + np.einsum("nk,nk->n", weights, constant)

    def _joined(
        self, name: str, certain: bool, first: np.ndarray, blocks: np.ndarray
    ) -> np.ndarray:
        """Put the first stage before the blocks; once only where all is certain."""
        if certain and name in self._known:
            return self._known[name]
        cases = 1 if certain else len(blocks)
        flat = blocks[:cases].reshape(cases, -1)
        joined = np.concatenate([shared(first, (cases,)), flat], axis=1)
        if name == "values":
            joined = joined[:, self._order]
        if not certain:
            return joined
        # One object from the first time on, by which others know it again.
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


@dataclass(frozen=True)
class _FirstStage:
    lower: np.ndarray
    upper: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray
    entries: np.ndarray
    cost: np.ndarray
    constant: float


def _first_stage(compiled: CompiledModel) -> _FirstStage:
    nowhere = np.zeros((1, compiled.p))
    lower, upper = compiled.first.bounds(nowhere)
    return _FirstStage(
        lower[0],
        upper[0],
        compiled.first_rows.lower.constant,
        compiled.first_rows.upper.constant,
        compiled.first_rows.entries.constant,
        compiled.first_cost.linear.constant[: len(compiled.first)],
        float(compiled.first_cost.constant.constant[0]),
    )


class RecourseLayout:
    """The program of the recourse alone: the decision is part of the rows' sides."""

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
        self.recourse_columns = self.n1 + np.arange(self.columns)
        self._order = np.lexsort((row, column))
        self.index = row[self._order].astype(np.int32)
        counts = np.bincount(column, minlength=self.columns)
        self.start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self._places = (row, column)
        self._is_certain = rows.entries.certain_at(self.recourse)
        self._values: np.ndarray | None = None

    def _recourse_values(self, entries: np.ndarray) -> np.ndarray:
        """Return the matrix entries (..., nonzeros); one object where they are certain."""
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
        """Return T(omega) y (n, rows): what a decision takes up of each row."""
        shift = np.zeros((len(decisions), self.rows))
        used = blocks.entries[:, self.technology] * decisions[:, self.technology_column]
        for entry, row in enumerate(self.technology_row):
            shift[:, row] += used[:, entry]
        return shift

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
        """Return the programs of many blocks (one leading axis), each after its own."""
        return Stack(
            blocks.cost[:, self.n1 :],
            np.zeros(len(shift)),
            blocks.column_lower,
            blocks.column_upper,
            blocks.row_lower - shift,
            blocks.row_upper - shift,
            self._recourse_values(blocks.entries),
        )
