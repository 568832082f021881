"""From a point of the relaxation to a whole point that costs no more, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Shape, Stack
from pyomo_csg.solve.lp.certificates import CertificateChecker
from pyomo_csg.solve.mip.mip_program import cost_tolerance

_FEASIBILITY = 2e-9  # what HiGHS allows, and rounding

Way = Callable[[np.ndarray], np.ndarray]


class Rounder:
    """Rounds the integer columns of points of one layout.

    Parameters
    ----------
    layout : Shape
    """

    def __init__(self, layout: Shape):
        self._layout = layout
        self._checker = CertificateChecker(layout)
        self._integer = np.flatnonzero(layout.integer)
        self._column = np.repeat(np.arange(layout.columns), np.diff(layout.start))
        self._entries = np.flatnonzero(layout.integer[self._column])

    def whole(self, arrays: Arrays, x: np.ndarray) -> np.ndarray | None:
        """Return a feasible point with whole integer columns at the cost of ``x``."""
        point = self.rounded(arrays, x)
        return self.moved(arrays, x) if point is None else point

    def rounded(self, arrays: Arrays, x: np.ndarray) -> np.ndarray | None:
        """Return a point as :meth:`whole` does, all its integers rounded in one way."""
        trials = np.stack([self._rounded(x, way) for way in _WAYS])
        serve = _paid(arrays, trials) <= _highest(arrays, x)
        serve &= self._checker.keeps(arrays, trials)
        return trials[serve.argmax()] if serve.any() else None

    def whole_many(self, stack: Stack, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return such points (n, columns), and say where (n,) they were found."""
        highest, serve = _highest(stack, x), np.zeros(len(x), bool)
        points = x.copy()
        for way in _WAYS:
            trial = self._rounded(x, way)
            good = _paid(stack, trial) <= highest
            good &= self._checker.keeps(stack, trial)
            points = np.where((good & ~serve)[:, None], trial, points)
            serve |= good
            if serve.all():
                break
        for i in map(int, np.flatnonzero(~serve & np.isfinite(x).all(axis=1))):
            point = self.moved(stack[i], x[i])
            if point is not None:
                points[i], serve[i] = point, True
        return points, serve

    def _rounded(self, x: np.ndarray, way: Way) -> np.ndarray:
        """Round all integers of points (..., columns) in one way."""
        trial = x.copy()
        trial[..., self._integer] = way(x[..., self._integer])
        return trial

    def moved(self, arrays: Arrays, x: np.ndarray) -> np.ndarray | None:
        """Return a point as :meth:`whole` does, its integers moved one by one."""
        point, activity = x.copy(), self._checker.activity(arrays, x)
        # Those that can go down go first: what they free, others may need to go up.
        self._move(arrays, point, activity, _down)
        if not self._move(arrays, point, activity, _up, all_or_none=True):
            return None
        point[self._integer] = np.rint(point[self._integer])
        cheap = _paid(arrays, point) <= _highest(arrays, x)
        return point if cheap and self._checker.keeps(arrays, point) else None

    def stepped(
        self, arrays: Arrays, x: np.ndarray, column: int, values: Sequence[float]
    ) -> list[np.ndarray | None]:
        """Return feasible points with one column elsewhere at the cost of ``x``, if any."""
        price = arrays.cost[column]
        if all(price * (value - x[column]) > 0 for value in values):
            return [None] * len(values)
        part = slice(self._layout.start[column], self._layout.start[column + 1])
        rows = self._layout.index[part]
        activity = self._checker.activity(arrays, x)[rows]

        def at(value: float) -> np.ndarray | None:
            step = value - x[column]
            moved = activity + arrays.values[part] * step
            inside = _within(moved, arrays.row_lower[rows], arrays.row_upper[rows])
            if price * step > 0 or not inside.all():
                return None
            point = x.copy()
            point[column] = value
            return point

        return [at(value) for value in values]

    def _move(
        self,
        arrays: Arrays,
        x: np.ndarray,
        activity: np.ndarray,
        way: Way,
        all_or_none: bool = False,
    ) -> bool:
        """Make whole, one after another, the columns that the rows let move."""
        step = np.zeros(len(x))
        step[self._integer] = way(x[self._integer]) - x[self._integer]
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


def _paid(program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
    return np.einsum("...c,...c->...", program.cost, x)


def _highest(program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
    """Return what points (...) may cost, without offset, to cost no more than ``x``."""
    paid = _paid(program, x)
    return paid + cost_tolerance(paid + program.offset)


def _up(x: np.ndarray) -> np.ndarray:
    return np.ceil(x - _FEASIBILITY)


def _down(x: np.ndarray) -> np.ndarray:
    return np.floor(x + _FEASIBILITY)


_WAYS: tuple[Way, ...] = (np.rint, _up, _down)


def _within(x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Say where x keeps its sides, up to what counts as feasible."""
    scale = _FEASIBILITY * np.maximum(1.0, np.abs(x))
    return (x >= lower - scale) & (x <= upper + scale)
