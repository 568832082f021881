"""How optimal values and decisions move with the scenarios, through the optimal basis."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.compile.assembly import Blocks
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import Found
from pyomo_csg.solve.lp.highs_program import HighsProgram, activity_parts, unpack

_AT_BOUND = 1e-9


@dataclass(frozen=True)
class Sensitivity:
    """What a quantity gains per unit of each number of the recourse blocks.

    Attributes
    ----------
    row : array (blocks, rows)
        Per unit of the side that a row stands at.
    column : array (blocks, columns)
        Per unit of the bound that a column stands at.
    entries : array (blocks, entries)
    cost : array (blocks, all columns)
    constant : array (blocks, 1)
    row_at_lower, column_at_lower : array of bool
        At which of its sides a place stands: by the sign of zeta-SAA's dual.
    """

    row: np.ndarray
    column: np.ndarray
    entries: np.ndarray
    cost: np.ndarray
    constant: np.ndarray
    row_at_lower: np.ndarray
    column_at_lower: np.ndarray

    def scenario_gradient(
        self, compiled: CompiledModel, zeta: np.ndarray
    ) -> np.ndarray:
        """Return the gradient (blocks, p) with respect to the scenarios."""
        rows, columns = compiled.recourse_rows, compiled.recourse
        low, left = self.row_at_lower, self.column_at_lower
        return (
            rows.lower.pull_back(np.where(low, self.row, 0.0), zeta)
            + rows.upper.pull_back(np.where(low, 0.0, self.row), zeta)
            + columns.lower.pull_back(np.where(left, self.column, 0.0), zeta)
            + columns.upper.pull_back(np.where(left, 0.0, self.column), zeta)
            + rows.entries.pull_back(self.entries, zeta)
            + compiled.recourse_cost.linear.pull_back(self.cost, zeta)
            + compiled.recourse_cost.constant.pull_back(self.constant, zeta)
        )


def value_sensitivity(
    compiled: CompiledModel, found: Found, weights: np.ndarray
) -> Sensitivity:
    """How the optimal value of zeta-SAA moves: by its duals."""
    assert found.column_dual is not None and found.row_dual is not None
    x, column_dual, row_dual = found.x, found.column_dual, found.row_dual
    n1, m1 = len(compiled.first), len(compiled.first_rows)
    count = len(weights)
    duals = row_dual[m1:].reshape(count, -1)
    reduced = column_dual[n1:].reshape(count, -1)
    all_x = _columns(compiled, x, count)
    return Sensitivity(
        duals,
        reduced,
        _entry_movement(compiled, duals, all_x),
        weights[:, None] * all_x,
        weights[:, None],
        duals >= 0,
        reduced >= 0,
    )


@dataclass(frozen=True)
class Optima:
    """Optima of many linear programs, with what their bases say.

    Attributes
    ----------
    x, column_dual : array (n, columns)
    row_dual, activity : array (n, rows)
    prices : array (n, s, rows)
        How each decision moves with the sides of the rows.
    basic : array (n, columns + rows) of bool
    """

    x: np.ndarray
    column_dual: np.ndarray
    row_dual: np.ndarray
    activity: np.ndarray
    prices: np.ndarray
    basic: np.ndarray

    @classmethod
    def empty(cls, cases: int, decisions: int, columns: int, rows: int) -> Optima:
        """Return room for so many."""
        return cls(
            np.full((cases, columns), np.nan),
            np.zeros((cases, columns)),
            np.zeros((cases, rows)),
            np.zeros((cases, rows)),
            np.zeros((cases, decisions, rows)),
            np.zeros((cases, columns + rows), bool),
        )

    def select(self, cases: np.ndarray) -> Optima:
        """Return those of some cases."""
        return Optima(*(getattr(self, f.name)[cases] for f in fields(self)))

    def assign(self, cases: np.ndarray, others: Optima) -> None:
        """Take others in the places of some cases."""
        for f in fields(self):
            getattr(self, f.name)[cases] = getattr(others, f.name)

    def degenerate(self, sides: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Say where (n,) a basic place stands at one of its sides (n, places)."""
        values = np.hstack([self.x, self.activity])
        slack = _AT_BOUND * (1 + np.abs(values))
        touching = (values - sides[0] < slack) | (sides[1] - values < slack)
        return np.asarray((self.basic & touching).any(axis=1))


class BasisReader:
    """Reads optima off HiGHS, one after the other; all else is done for all at once.

    Parameters
    ----------
    cases, decisions, rows : int
        How many there are.
    """

    def __init__(self, cases: int, decisions: int, rows: int):
        self._packed = [b""] * cases
        self._scale = np.ones((cases, 1))
        self._basics = np.zeros((cases, rows), dtype=np.int32)
        self._prices = np.zeros((cases, decisions, rows))

    def read(self, case: int, program: HighsProgram) -> None:
        """Take a case from a program just solved."""
        self._packed[case] = program.packed(activity_parts)
        self._scale[case] = program.scale
        self._basics[case] = basics = basic_variables(program.highs)
        decisions = self._prices.shape[1]
        for place, column in enumerate(basics.tolist()):
            if 0 <= column < decisions:
                _, row = program.highs.getBasisInverseRow(place)
                self._prices[case, column] = row

    def optima(self, columns: int) -> Optima:
        """Return what was read; NaN where nothing was."""
        cases, rows = self._basics.shape
        numbers = unpack(self._packed, 2 * (columns + rows))
        ends = (columns, 2 * columns, 2 * columns + rows)
        x, column_dual, row_dual, activity = np.split(numbers, ends, axis=1)
        basic = np.zeros((cases, columns + rows), bool)
        places = np.where(self._basics < 0, columns - 1 - self._basics, self._basics)
        np.put_along_axis(basic, places, True, axis=1)
        duals = column_dual / self._scale, row_dual / self._scale
        return Optima(x, *duals, activity, self._prices, basic)


def decision_sensitivity(
    compiled: CompiledModel, blocks: Blocks, optima: Optima, slopes: np.ndarray
) -> Sensitivity:
    """How ``slope @ y`` moves, y being zeta-SAA's decision, case by case and block by block.

    Parameters
    ----------
    blocks : Blocks
        With two leading axes: cases, blocks.
    slopes : array (n, s)
    """
    n1, m1 = len(compiled.first), len(compiled.first_rows)
    cases, count = blocks.row_lower.shape[:2]
    n2 = len(compiled.recourse)
    prices = np.einsum("ns,nsr->nr", slopes, optima.prices)[:, m1:]
    m2 = len(compiled.recourse_rows)
    prices = prices.reshape(cases * count, m2)
    first = np.repeat(optima.x[:, :n1], count, axis=0)
    all_x = np.hstack([first, optima.x[:, n1:].reshape(cases * count, n2)])
    rows = compiled.recourse_rows
    column = np.zeros((cases * count, n2))
    if not compiled.recourse.certain:
        recourse = rows.column >= n1
        entries = blocks.entries.reshape(cases * count, blocks.entries.shape[-1])[
            :, recourse
        ]
        used = -prices[:, rows.row[recourse]] * entries
        for entry, place in enumerate(rows.column[recourse] - n1):
            column[:, place] += used[:, entry]
        nonbasic = ~optima.basic[:, n1 : optima.x.shape[1]]
        column *= nonbasic.reshape(cases * count, n2)
    return Sensitivity(
        prices,
        column,
        _entry_movement(compiled, prices, all_x),
        np.zeros_like(all_x),
        np.zeros((cases * count, 1)),
        optima.row_dual[:, m1:].reshape(cases * count, m2) >= 0,
        optima.column_dual[:, n1:].reshape(cases * count, n2) >= 0,
    )


def have_equal_bounds(compiled: CompiledModel, blocks: Blocks) -> np.ndarray:
    """Say where (...) two sides that are not one number have met, so that either may move.

    Blocks have one more axis: the scenarios of a case.
    """
    rows = (blocks.row_lower == blocks.row_upper) & ~compiled.recourse_rows.equality
    found = rows.any(axis=(-1, -2))
    if not compiled.recourse.certain:
        columns = blocks.column_lower == blocks.column_upper
        found = found | columns.any(axis=(-1, -2))
    return np.asarray(found)


def is_degenerate(highs: Any, x: np.ndarray, arrays: Any) -> bool:
    """Whether a basic place stands at a bound, so that the basis may change at once."""
    basics = basic_variables(highs)
    columns, rows = basics[basics >= 0], -1 - basics[basics < 0]
    activity = np.asarray(highs.getSolution().row_value)
    return bool(
        _touching(x, arrays.column_lower, arrays.column_upper, columns)
        or _touching(activity, arrays.row_lower, arrays.row_upper, rows)
    )


def _touching(
    values: np.ndarray, lower: np.ndarray, upper: np.ndarray, places: np.ndarray
) -> bool:
    v = values[places]
    slack = _AT_BOUND * (1 + np.abs(v))
    return bool(((v - lower[places] < slack) | (upper[places] - v < slack)).any())


def basic_variables(highs: Any) -> np.ndarray:
    """Return the basic columns j as j and the basic rows i as -1 - i."""
    status, basics = highs.getBasicVariables()
    assert status == highspy.HighsStatus.kOk
    return np.asarray(basics)


def _entry_movement(
    compiled: CompiledModel, prices: np.ndarray, all_x: np.ndarray
) -> np.ndarray:
    rows = compiled.recourse_rows
    return -prices[:, rows.row] * all_x[:, rows.column]


def _columns(compiled: CompiledModel, x: np.ndarray, count: int) -> np.ndarray:
    """Return the first-stage and recourse columns of each block (blocks, columns)."""
    n1 = len(compiled.first)
    first = np.broadcast_to(x[:n1], (count, n1))
    return np.hstack([first, x[n1:].reshape(count, -1)])
