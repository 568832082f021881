"""How optimal values and decisions change with the scenarios, through the optimal basis."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Blocks
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import Found
from pyomo_csg.solve.lp.highs_program import HighsProgram, unpack
from pyomo_csg.solve.lp.rescaling import RescaledProgram

_AT_BOUND = 1e-9  # HiGHS's feasibility tolerance: closer to a bound is at the bound


@dataclass(frozen=True)
class Sensitivity:
    """The derivatives of a quantity with respect to every number of the recourse blocks.

    Those of rows and columns are by the active side or bound: the lower one where
    ``row_at_lower`` or ``column_at_lower``, by the sign of zeta-SAA's dual.
    """

    row: np.ndarray  # (blocks, rows)
    column: np.ndarray  # (blocks, columns)
    entries: np.ndarray  # (blocks, entries)
    cost: np.ndarray  # (blocks, all columns)
    constant: np.ndarray  # (blocks, 1)
    row_at_lower: np.ndarray
    column_at_lower: np.ndarray
    hessian: np.ndarray | None = None

    def scenario_gradient(
        self, compiled: CompiledModel, zeta: np.ndarray
    ) -> np.ndarray:
        """Return the gradient (blocks, p) with respect to the scenarios."""
        rows, columns = compiled.recourse_rows, compiled.recourse
        low, left = self.row_at_lower, self.column_at_lower
        gradient = (
            rows.lower.pull_back(np.where(low, self.row, 0.0), zeta)
            + rows.upper.pull_back(np.where(low, 0.0, self.row), zeta)
            + columns.lower.pull_back(np.where(left, self.column, 0.0), zeta)
            + columns.upper.pull_back(np.where(left, 0.0, self.column), zeta)
            + rows.entries.pull_back(self.entries, zeta)
            + compiled.recourse_cost.linear.pull_back(self.cost, zeta)
            + compiled.recourse_cost.constant.pull_back(self.constant, zeta)
        )
        if self.hessian is not None:
            gradient += compiled.recourse_cost.hessian.pull_back(self.hessian, zeta)
        return gradient


def value_sensitivity(
    compiled: CompiledModel, found: Found, weights: np.ndarray
) -> Sensitivity:
    """Return the sensitivity of zeta-SAA's optimal value: its duals."""
    assert found.column_dual is not None and found.row_dual is not None
    n1, m1 = len(compiled.first), len(compiled.first_rows)
    count = len(weights)
    row_duals = found.row_dual[m1:].reshape(count, -1)
    reduced_costs = found.column_dual[n1:].reshape(count, -1)
    first = np.broadcast_to(found.x[:n1], (count, n1))
    all_x = np.hstack([first, found.x[n1:].reshape(count, -1)])
    i, j = compiled.recourse_cost.hessian_row, compiled.recourse_cost.hessian_column
    # The quadratic form is x'Hx / 2, in which an entry off the diagonal stands twice.
    products = all_x[:, i] * all_x[:, j] * np.where(i == j, 0.5, 1.0)
    return Sensitivity(
        row_duals,
        reduced_costs,
        _entry_sensitivity(compiled, row_duals, all_x),
        weights[:, None] * all_x,
        weights[:, None],
        row_duals >= 0,
        reduced_costs >= 0,
        weights[:, None] * products,
    )


@dataclass(frozen=True)
class Optima:
    """Optima of many linear programs, with their bases.

    ``inverse`` holds the rows of the basis inverse that belong to the decisions: how each
    decision changes with the sides of the rows.
    """

    x: np.ndarray  # (n, columns)
    column_dual: np.ndarray  # (n, columns)
    row_dual: np.ndarray  # (n, rows)
    activity: np.ndarray  # (n, rows)
    inverse: np.ndarray  # (n, s, rows)
    basic: np.ndarray  # (n, columns + rows), bool

    def select(self, cases: np.ndarray) -> Optima:
        """Return the optima of some cases."""
        return Optima(*(getattr(self, f.name)[cases] for f in fields(self)))

    def decision_sensitivity(
        self, compiled: CompiledModel, blocks: Blocks, slopes: np.ndarray
    ) -> Sensitivity:
        """Return the sensitivity of ``slope @ y``, where y is zeta-SAA's decision.

        Blocks have two leading axes, cases and blocks; slopes are (n, s).
        """
        n1, m1 = len(compiled.first), len(compiled.first_rows)
        n2, m2 = len(compiled.recourse), len(compiled.recourse_rows)
        cases, count = blocks.row_lower.shape[:2]
        row = np.einsum("ns,nsr->nr", slopes, self.inverse)[:, m1:]
        row = row.reshape(cases * count, m2)
        first = np.repeat(self.x[:, :n1], count, axis=0)
        all_x = np.hstack([first, self.x[:, n1:].reshape(cases * count, n2)])
        rows = compiled.recourse_rows
        column = np.zeros((cases * count, n2))
        if not compiled.recourse.certain:
            recourse = rows.column >= n1
            entries = blocks.entries.reshape(cases * count, blocks.entries.shape[-1])[
                :, recourse
            ]
            terms = -row[:, rows.row[recourse]] * entries
            for entry, place in enumerate(rows.column[recourse] - n1):
                column[:, place] += terms[:, entry]
            nonbasic = ~self.basic[:, n1 : self.x.shape[1]]
            column *= nonbasic.reshape(cases * count, n2)
        return Sensitivity(
            row,
            column,
            _entry_sensitivity(compiled, row, all_x),
            np.zeros_like(all_x),
            np.zeros((cases * count, 1)),
            self.row_dual[:, m1:].reshape(cases * count, m2) >= 0,
            self.column_dual[:, n1:].reshape(cases * count, n2) >= 0,
        )

    def is_degenerate(
        self, lower: np.ndarray, upper: np.ndarray, sizes: np.ndarray
    ) -> np.ndarray:
        """Return where (n,) a basic column or row is at one of its bounds.

        ``sizes`` are typical sizes of columns, then rows.
        """
        values = np.hstack([self.x, self.activity])
        at_bound = _is_at_bound(values, lower, upper, sizes)
        return np.asarray((self.basic & at_bound).any(axis=1))


class BasisReader:
    """Reads optima off HiGHS one by one; everything else happens for all cases at once."""

    def __init__(self, cases: int, decisions: int, rows: int):
        self._packed = [b""] * cases
        self._scale = np.ones((cases, 1))
        self._basics = np.zeros((cases, rows), dtype=np.int32)
        self._inverse = np.zeros((cases, decisions, rows))
        self._units: dict[int, tuple[np.ndarray, np.ndarray, float]] = {}

    def read_rescaled(self, case: int, found: RescaledProgram) -> None:
        """Record a case that was solved in other units."""
        self._inverse[case] = 0.0  # from a basis that was not optimal, if any
        self.read(case, found.program)
        self._units[case] = found.row, found.column, found.cost
        decisions = self._inverse.shape[1]
        self._inverse[case] *= found.column[:decisions, None] * found.row

    def read(self, case: int, program: HighsProgram) -> None:
        """Record a case that was just solved."""
        self._packed[case] = program.pack(
            "col_value", "col_dual", "row_dual", "row_value"
        )
        self._scale[case] = program.scale
        self._basics[case] = basics = basic_variables(program.highs)
        decisions = self._inverse.shape[1]
        for place, column in enumerate(basics.tolist()):
            if 0 <= column < decisions:
                _, row = program.highs.getBasisInverseRow(place)
                self._inverse[case, column] = row

    def optima(self, columns: int) -> Optima:
        """Return the cases read; NaN where none was."""
        cases, rows = self._basics.shape
        numbers = unpack(self._packed, 2 * (columns + rows))
        for case, (row, column, cost) in self._units.items():
            factors = (column, 1 / (cost * column), row / cost, 1 / row)
            numbers[case] *= np.concatenate(factors)
        ends = (columns, 2 * columns, 2 * columns + rows)
        x, column_dual, row_dual, activity = np.split(numbers, ends, axis=1)
        basic = np.zeros((cases, columns + rows), bool)
        places = np.where(self._basics < 0, columns - 1 - self._basics, self._basics)
        np.put_along_axis(basic, places, True, axis=1)
        duals = column_dual / self._scale, row_dual / self._scale
        return Optima(x, *duals, activity, self._inverse, basic)


def _entry_sensitivity(
    compiled: CompiledModel, row: np.ndarray, all_x: np.ndarray
) -> np.ndarray:
    rows = compiled.recourse_rows
    return -row[:, rows.row] * all_x[:, rows.column]


def have_equal_bounds(compiled: CompiledModel, blocks: Blocks) -> np.ndarray:
    """Return where (...) two uncertain bounds coincide, so that either could be the active one.

    Blocks have one more axis: the scenarios of a case.
    """
    rows = (blocks.row_lower == blocks.row_upper) & ~compiled.recourse_rows.equality
    found = rows.any(axis=(-1, -2))
    if not compiled.recourse.certain:
        columns = blocks.column_lower == blocks.column_upper
        found = found | columns.any(axis=(-1, -2))
    return np.asarray(found)


def is_degenerate(highs: Any, x: np.ndarray, arrays: Arrays, sizes: np.ndarray) -> bool:
    """Whether a basic column or row is at a bound, so that the basis may change at once.

    ``sizes`` are typical sizes of columns, then rows.
    """
    basics = basic_variables(highs)
    places = np.where(basics < 0, len(x) - 1 - basics, basics)
    values = np.concatenate([x, highs.getSolution().row_value])
    lower = np.concatenate([arrays.column_lower, arrays.row_lower])
    upper = np.concatenate([arrays.column_upper, arrays.row_upper])
    at_bound = _is_at_bound(values, lower, upper, sizes)
    return bool(at_bound[places].any())


def _is_at_bound(
    values: np.ndarray, lower: np.ndarray, upper: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Return which values are at a bound; where sizes are small, the tolerance is, too."""
    slack = _AT_BOUND * (np.minimum(1, sizes) + np.abs(values))
    return (values - lower < slack) | (upper - values < slack)


def basic_variables(highs: Any) -> np.ndarray:
    """Return the basic columns j as j and the basic rows i as -1 - i."""
    if not highs.getNumNz():
        # HiGHS factors nothing then, and getBasicVariables would end the process.
        return -1 - np.arange(highs.getNumRow(), dtype=np.int32)
    status, basics = highs.getBasicVariables()
    assert status == highspy.HighsStatus.kOk
    return np.asarray(basics)
