"""Units of rows and continuous columns in which the numbers of an integer program are near one.

The tolerances of branch-and-bound are absolute, and HiGHS drops entries that look like zero.
Integer columns keep their unit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Shape

_SWEEPS = 20
_ORDINARY = 1e4  # units up to this factor from one suit HiGHS as they are


class NaturalUnits:
    """Units of one layout, found from its first program; powers of two, so exact.

    Attributes
    ----------
    is_needed : bool
        Whether the program's own units could mislead the solver.
    """

    def __init__(self, layout: Shape, arrays: Arrays):
        self._row = layout.index.astype(np.intp)
        self._column = np.repeat(np.arange(layout.columns), np.diff(layout.start))
        rows, columns = self._geometric_units(layout, arrays)
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

    def _geometric_units(
        self, layout: Shape, arrays: Arrays
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return binary logarithms: means over entries, sides and bounds, in turn."""
        nonzero = arrays.values != 0
        row, column = self._row[nonzero], self._column[nonzero]
        size = np.log2(np.abs(arrays.values[nonzero]))
        sides = _logarithms(arrays.row_lower, arrays.row_upper)
        bounds = _logarithms(arrays.column_lower, arrays.column_upper)
        in_row = np.bincount(row, minlength=layout.rows) + np.isfinite(sides)
        in_column = np.bincount(column, minlength=layout.columns) + np.isfinite(bounds)
        r, c = np.zeros(layout.rows), np.zeros(layout.columns)
        for _ in range(_SWEEPS):
            r = np.bincount(row, size + c[column], minlength=layout.rows)
            r = (r + np.nan_to_num(sides)) / np.maximum(in_row, 1)
            c = np.bincount(column, r[row] - size, minlength=layout.columns)
            c = (c + np.nan_to_num(bounds)) / np.maximum(in_column, 1)
            c[layout.integer] = 0.0
        return r, c


def _logarithms(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the logarithm of the larger of two sides; NaN where neither says anything."""
    sizes = [np.where(np.isfinite(s), np.abs(s), 0.0) for s in (lower, upper)]
    largest = np.maximum(*sizes)
    known = largest > 0
    return np.where(known, np.log2(np.where(known, largest, 1.0)), np.nan)
