"""How optimal values and decisions move with the scenarios, through the optimal basis."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.assembly import Blocks
from pyomo_csg.solve.compiling import CompiledModel
from pyomo_csg.solve.engine import Found

_AT_BOUND = 1e-9


@dataclass(frozen=True)
class Movement:
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

    def pulled_back(self, compiled: CompiledModel, zeta: np.ndarray) -> np.ndarray:
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


def value_movement(
    compiled: CompiledModel, found: Found, weights: np.ndarray
) -> Movement:
    """How the optimal value of zeta-SAA moves: by its duals."""
    assert found.column_dual is not None and found.row_dual is not None
    x, column_dual, row_dual = found.x, found.column_dual, found.row_dual
    n1, m1 = len(compiled.first), len(compiled.first_rows)
    count = len(weights)
    duals = row_dual[m1:].reshape(count, -1)
    reduced = column_dual[n1:].reshape(count, -1)
    all_x = _columns(compiled, x, count)
    return Movement(
        duals,
        reduced,
        _entry_movement(compiled, duals, all_x),
        weights[:, None] * all_x,
        weights[:, None],
        duals >= 0,
        reduced >= 0,
    )


@dataclass(frozen=True)
class Response:
    """How decisions move with the sides of rows, by the basis that HiGHS holds.

    Attributes
    ----------
    prices : array (s, rows)
        d y / d side.
    nonbasic : array (columns,) of bool
        Which columns stand at a bound.
    """

    prices: np.ndarray
    nonbasic: np.ndarray


def decision_response(compiled: CompiledModel, highs: Any, columns: int) -> Response:
    """Read off the basis how each decision moves: a transposed solve for each."""
    n1, basics = len(compiled.first), _basics(highs)
    prices = np.zeros((n1, len(basics)))
    unit = np.zeros(len(basics))
    for place in np.flatnonzero((basics >= 0) & (basics < n1)):
        unit[place] = 1.0
        _, prices[basics[place]] = highs.getBasisTransposeSolve(unit)
        unit[place] = 0.0
    nonbasic = np.ones(columns, bool)
    nonbasic[basics[basics >= 0]] = False
    return Response(prices, nonbasic)


def decision_movement(
    compiled: CompiledModel,
    blocks: Blocks,
    found: Found,
    response: Response,
    slope: np.ndarray,
) -> Movement:
    """How ``slope @ y`` moves, y being zeta-SAA's decision.

    Parameters
    ----------
    slope : array (s,)
    """
    n1, m1 = len(compiled.first), len(compiled.first_rows)
    count = len(blocks.row_lower)
    assert found.column_dual is not None and found.row_dual is not None
    prices = (slope @ response.prices)[m1:].reshape(count, -1)
    all_x = _columns(compiled, found.x, count)
    rows = compiled.recourse_rows
    column = np.zeros((count, len(compiled.recourse)))
    if not compiled.recourse.certain:
        recourse = rows.column >= n1
        used = -prices[:, rows.row[recourse]] * blocks.entries[:, recourse]
        for entry, place in enumerate(rows.column[recourse] - n1):
            column[:, place] += used[:, entry]
        column *= response.nonbasic[n1:].reshape(count, -1)
    return Movement(
        prices,
        column,
        _entry_movement(compiled, prices, all_x),
        np.zeros_like(all_x),
        np.zeros((count, 1)),
        found.row_dual[m1:].reshape(count, -1) >= 0,
        found.column_dual[n1:].reshape(count, -1) >= 0,
    )


def joined(movements: list[Movement]) -> Movement:
    """Put the blocks of many movements one after another."""
    return Movement(
        *(
            np.concatenate([getattr(movement, f.name) for movement in movements])
            for f in fields(Movement)
        )
    )


def coincides(compiled: CompiledModel, blocks: Blocks) -> bool:
    """Whether two sides that are not one number have met, so that either may move."""
    rows = (blocks.row_lower == blocks.row_upper) & ~compiled.recourse_rows.equality
    columns = blocks.column_lower == blocks.column_upper
    return bool(rows.any() or (columns.any() and not compiled.recourse.certain))


def is_degenerate(highs: Any, x: np.ndarray, arrays: Any) -> bool:
    """Whether a basic place stands at a bound, so that the basis may change at once."""
    basics = _basics(highs)
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


def _basics(highs: Any) -> np.ndarray:
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
