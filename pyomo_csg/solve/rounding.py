"""From a point of the relaxation to a whole point that costs no more, if there is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyomo_csg.solve.assembly import Arrays
from pyomo_csg.solve.cut import slack
from pyomo_csg.solve.highs import Shape

_FEASIBILITY = 2e-9  # what HiGHS allows, and rounding


class Rounder:
    """Rounds the integer columns of points of one layout.

    Parameters
    ----------
    layout : Shape
    """

    def __init__(self, layout: Shape):
        self._layout = layout
        self._integer = np.flatnonzero(layout.integer)
        self._column = np.repeat(np.arange(layout.columns), np.diff(layout.start))
        self._entries = np.flatnonzero(layout.integer[self._column])

    def activity(self, arrays: Arrays, x: np.ndarray) -> np.ndarray:
        """Return Ax."""
        terms = arrays.values * x[self._column]
        return np.bincount(self._layout.index, terms, minlength=self._layout.rows)

    def is_feasible(self, arrays: Arrays, x: np.ndarray) -> bool:
        """Whether the rows and bounds hold."""
        return bool(
            _within(x, arrays.column_lower, arrays.column_upper).all()
            and _within(
                self.activity(arrays, x), arrays.row_lower, arrays.row_upper
            ).all()
        )

    def whole(self, arrays: Arrays, x: np.ndarray) -> np.ndarray | None:
        """Return a feasible point with whole integer columns at the cost of ``x``."""
        cost = float(arrays.cost @ x)
        highest = cost + slack(cost + arrays.offset)
        for rounded in (np.rint, _up, _down):
            point = x.copy()
            point[self._integer] = rounded(x[self._integer])
            if arrays.cost @ point <= highest and self.is_feasible(arrays, point):
                return point
        point = x.copy()
        # Those that can go down go first: what they free, others may need to go up.
        self._move(arrays, point, _down)
        if not self._move(arrays, point, _up, all_or_none=True):
            return None
        point[self._integer] = np.rint(point[self._integer])
        if arrays.cost @ point <= highest and self.is_feasible(arrays, point):
            return point
        return None

    def _move(
        self,
        arrays: Arrays,
        x: np.ndarray,
        rounded: Callable[[np.ndarray], np.ndarray],
        all_or_none: bool = False,
    ) -> bool:
        """Make whole, one after another, the columns that the rows let move."""
        step = np.zeros(len(x))
        step[self._integer] = rounded(x[self._integer]) - x[self._integer]
        activity = self.activity(arrays, x)
        able = self._able(arrays, activity, step)
        if all_or_none and len(able) < np.count_nonzero(np.abs(step) > _FEASIBILITY):
            return False
        for column in able:
            part = slice(self._layout.start[column], self._layout.start[column + 1])
            rows = self._layout.index[part]
            moved = activity[rows] + arrays.values[part] * step[column]
            if _within(moved, arrays.row_lower[rows], arrays.row_upper[rows]).all():
                x[column] = np.rint(x[column] + step[column])
                activity[rows] = moved
            elif all_or_none:
                return False
        return True

    def _able(
        self, arrays: Arrays, activity: np.ndarray, step: np.ndarray
    ) -> np.ndarray:
        """Return the integer columns that could move at no cost if no other did."""
        rows, column = self._layout.index[self._entries], self._column[self._entries]
        moved = activity[rows] + arrays.values[self._entries] * step[column]
        inside = _within(moved, arrays.row_lower[rows], arrays.row_upper[rows])
        blocked = np.bincount(column[~inside], minlength=len(step)) > 0
        blocked |= arrays.cost * step > 0
        return np.flatnonzero(~blocked & (np.abs(step) > _FEASIBILITY))


def _up(x: np.ndarray) -> np.ndarray:
    return np.ceil(x - _FEASIBILITY)


def _down(x: np.ndarray) -> np.ndarray:
    return np.floor(x + _FEASIBILITY)


def _within(x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Say where x keeps its sides, up to what counts as feasible."""
    scale = _FEASIBILITY * np.maximum(1.0, np.abs(x))
    return (x >= lower - scale) & (x <= upper + scale)
