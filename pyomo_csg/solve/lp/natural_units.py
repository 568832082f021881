"""Units of rows and columns in which the numbers of a program are near one.

The tolerances of branch-and-bound and of interior points are absolute, and HiGHS drops entries
that look like zero. Integer columns keep their unit.
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
