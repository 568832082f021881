"""Units and typical sizes of rows and columns, in which the numbers of a program are near one.

The tolerances of branch-and-bound and of interior points are absolute, and HiGHS drops entries
that look like zero. Integer columns keep their unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyomo_csg.solve.compile.assembly import (
    Arrays,
    Blocks,
    Layout,
    Shape,
    entry_columns,
)
from pyomo_csg.solve.compile.compiled_model import CompiledModel

# Alternating means over rows and columns converge geometrically; 20 sweeps are plenty.
_SWEEPS = 20
# Size of rounding errors, relative to typical rows, columns and costs: about 5000 times machine
# precision, since sums have many terms, and still far below every other tolerance.
ROUNDING_NOISE = 1e-12
_ORDINARY = 1e4  # HiGHS copes with units up to this factor from one


class NaturalUnits:
    """Units of one layout, found from its first program; powers of two, so exact.

    They are needed, ``is_needed``, if the program's units could mislead the solver.
    """

    def __init__(self, layout: Shape, arrays: Arrays):
        self._row = layout.index.astype(np.intp)
        self._column = entry_columns(layout)
        rows, columns = geometric_units(
            (self._row, self._column, arrays.values),
            (arrays.row_lower, arrays.row_upper),
            (arrays.column_lower, arrays.column_upper),
            layout.integer,
        )
        both = np.abs(np.concatenate([rows, columns]))
        self.is_needed = bool((both > np.log2(_ORDINARY)).any())
        self.rows, self.columns = np.exp2(np.rint(rows)), np.exp2(np.rint(columns))
        self._entries = self.columns[self._column] / self.rows[self._row]

    def scaled(self, arrays: Arrays) -> Arrays:
        """Return the program in these units; its cost stays."""
        return replace(
            arrays,
            cost=arrays.cost * self.columns,
            column_lower=arrays.column_lower / self.columns,
            column_upper=arrays.column_upper / self.columns,
            row_lower=arrays.row_lower / self.rows,
            row_upper=arrays.row_upper / self.rows,
            values=arrays.values * self._entries,
        )


def geometric_units(
    entries: tuple[np.ndarray, np.ndarray, np.ndarray],
    sides: tuple[np.ndarray, np.ndarray],
    bounds: tuple[np.ndarray, np.ndarray],
    pinned: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return binary logarithms of units of rows and columns: means over entries, in turn.

    Entries are rows, columns and values; sides and bounds count as entries. Pinned columns
    (columns,) keep their unit.
    """
    row, column, values = (part[entries[2] != 0] for part in entries)
    size = np.log2(np.abs(values))
    side, bound = _logarithms(*sides), _logarithms(*bounds)
    rows, columns = len(side), len(bound)
    in_row = np.bincount(row, minlength=rows) + np.isfinite(side)
    in_column = np.bincount(column, minlength=columns) + np.isfinite(bound)
    r, c = np.zeros(rows), np.zeros(columns)
    for _ in range(_SWEEPS):
        total = np.bincount(row, size + c[column], minlength=rows)
        r = (total + np.nan_to_num(side)) / np.maximum(in_row, 1)
        total = np.bincount(column, r[row] - size, minlength=columns)
        c = (total + np.nan_to_num(bound)) / np.maximum(in_column, 1)
        c[pinned] = 0.0
    return r, c


def _logarithms(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the logarithm of the larger of two sides; NaN where neither says anything."""
    sizes = [np.where(np.isfinite(s), np.abs(s), 0.0) for s in (lower, upper)]
    largest = np.maximum(*sizes)
    known = largest > 0
    return np.where(known, np.log2(np.where(known, largest, 1.0)), np.nan)


def nearest_power_of_two(numbers: Any) -> Any:
    """Return the powers of two nearest to positive numbers."""
    return np.exp2(np.clip(np.rint(np.log2(numbers)), -200, 200))


def power_of_two_below(size: float) -> float:
    """Return a factor that brings a size to between a half and one; 1 if there is none."""
    if not 0 < size < math.inf:
        return 1.0
    return math.ldexp(1.0, min(1000, -math.frexp(size)[1]))


@dataclass
class TypicalSizes:
    """Typical sizes of rows, columns then rows, costs per unit of a column, and total cost.

    ``values`` are the matrix entries they were computed from; ``noise`` is what rounding does
    to columns, then rows.
    """

    rows: np.ndarray
    both: np.ndarray
    unit_cost: np.ndarray
    total_cost: float
    values: np.ndarray
    noise: np.ndarray


def typical_sizes(row: np.ndarray, column: np.ndarray, program: Arrays) -> TypicalSizes:
    """Scale by geometric means over rows and columns in turn, then by the bounds' level."""
    values, cost = program.values, program.cost
    rows, columns = len(program.row_lower), len(cost)
    nonzero = values != 0
    row, column = row[nonzero], column[nonzero]
    size = np.log2(np.abs(values[nonzero]))
    in_row = np.maximum(np.bincount(row, minlength=rows), 1)
    in_column = np.maximum(np.bincount(column, minlength=columns), 1)
    r, c = np.zeros(rows), np.zeros(columns)
    for _ in range(_SWEEPS):
        r = np.bincount(row, size + c[column], minlength=rows) / in_row
        c = np.bincount(column, r[row] - size, minlength=columns) / in_column
    scales = np.concatenate([r, r, c, c])
    sides = program.row_lower, program.row_upper
    bounds = np.concatenate([*sides, program.column_lower, program.column_upper])
    known = np.isfinite(bounds) & (bounds != 0)
    levels = np.log2(np.abs(bounds[known])) - scales[known]
    # Bounds that are rounding beside the largest one say nothing about sizes.
    levels = levels[levels > levels.max(initial=-np.inf) + np.log2(ROUNDING_NOISE)]
    level = np.median(levels) if len(levels) else 0.0
    row_sizes, column_sizes = np.exp2(r + level), np.exp2(c + level)
    costs = np.abs(cost * column_sizes)
    total = np.median(costs[costs > 0]) if costs.any() else 1.0
    both = np.concatenate([column_sizes, row_sizes])
    unit_cost, noise = total / column_sizes, ROUNDING_NOISE * both
    return TypicalSizes(row_sizes, both, unit_cost, float(total), values, noise)


class OutcomeSizes:
    """Typical sizes of the first-stage columns and of all rows of a model, by outcome."""

    def __init__(self, compiled: CompiledModel):
        self._layout = Layout(compiled, 1)
        self._row = self._layout.index.astype(np.intp)
        self._column = entry_columns(self._layout)

    def at(self, block: Blocks) -> tuple[np.ndarray, np.ndarray]:
        """Return the sizes of decisions (s,) and of rows, given the data of one outcome."""
        program = self._layout.arrays(block, np.ones(1))
        sizes, n1 = typical_sizes(self._row, self._column, program), self._layout.n1
        bounds = np.abs([program.column_lower[:n1], program.column_upper[:n1]])
        largest = np.where(np.isfinite(bounds), bounds, 0.0).max(axis=0)
        # A large bound may say nothing about the size, but a small one does.
        largest[largest == 0] = math.inf
        return np.minimum(sizes.both[:n1], largest), sizes.rows


def are_violated(
    body: np.ndarray,
    terms: np.ndarray,
    sides: tuple[np.ndarray, np.ndarray],
    tolerance: float,
    typical: Callable[[int], np.ndarray],
) -> np.ndarray:
    """Return which sums (n, m) are outside their lower and upper sides.

    The tolerance is relative to the sums of the absolute terms and to the side. Beside a side
    of zero, it is relative to the ``typical`` sizes (m,) of a case, if those are larger.
    """
    lower, upper = sides
    off = np.maximum(lower - body, body - upper)
    size = np.abs(np.where(body < lower, lower, upper))
    violated = off > tolerance * (terms + size)
    for i in map(int, np.flatnonzero((violated & (size == 0)).any(axis=1))):
        sizes = np.where(size[i] == 0, typical(i), 0.0)
        violated[i] &= off[i] > tolerance * np.maximum(terms[i] + size[i], sizes)
    return np.asarray(violated)
