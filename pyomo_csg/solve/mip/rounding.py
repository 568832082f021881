"""Rounding: from a relaxation's optimum to an integer point that costs no more, if possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Shape, Stack, entry_columns
from pyomo_csg.solve.lp.certificates import CertificateChecker
from pyomo_csg.solve.mip.mip_program import COST_SLACK, cost_terms

_FEASIBILITY = 2e-9  # HiGHS's tolerance of 1e-9, and as much for rounding

RoundingMode = Callable[[np.ndarray], np.ndarray]


class Rounder:
    """Rounds the integer columns of points of one layout."""

    def __init__(self, layout: Shape):
        self._layout = layout
        self._checker = CertificateChecker(layout)
        self._integer = np.flatnonzero(layout.integer)
        self._column = entry_columns(layout)
        self._entries = np.flatnonzero(layout.integer[self._column])

    def find_integer_point(self, arrays: Arrays, x: np.ndarray) -> np.ndarray | None:
        """Return a feasible point with integral integer columns at the cost of ``x``."""
        point = self.round_all(arrays, x)
        return self._round_one_by_one(arrays, x) if point is None else point

    def round_all(self, arrays: Arrays, x: np.ndarray) -> np.ndarray | None:
        """Return a point as :meth:`find_integer_point` with all integers rounded one way."""
        trials = np.stack([self._apply(mode, x) for mode in _MODES])
        is_good = _cost(arrays, trials) <= _highest_cost(arrays, x)
        is_good &= self._checker.is_feasible(arrays, trials)
        return trials[is_good.argmax()] if is_good.any() else None

    def find_integer_points(
        self, stack: Stack, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return integer points (n, columns) of many programs, and which (n,) were found."""
        highest, found = _highest_cost(stack, x), np.zeros(len(x), bool)
        points = x.copy()
        for mode in _MODES:
            trial = self._apply(mode, x)
            is_good = _cost(stack, trial) <= highest
            is_good &= self._checker.is_feasible(stack, trial)
            points = np.where((is_good & ~found)[:, None], trial, points)
            found |= is_good
            if found.all():
                break
        for i in map(int, np.flatnonzero(~found & np.isfinite(x).all(axis=1))):
            point = self._round_one_by_one(stack[i], x[i])
            if point is not None:
                points[i], found[i] = point, True
        return points, found

    def _apply(self, mode: RoundingMode, x: np.ndarray) -> np.ndarray:
        """Round all integers of points (..., columns)."""
        trial = x.copy()
        trial[..., self._integer] = mode(x[..., self._integer])
        return trial

    def _round_one_by_one(self, arrays: Arrays, x: np.ndarray) -> np.ndarray | None:
        """Return an integer point with each integer rounded down where possible, else up."""
        point, activity = x.copy(), self._checker.row_activity(arrays, x)
        # Down first: that frees capacity that others may need to go up.
        self._round_columns(arrays, point, activity, _round_down)
        if not self._round_columns(
            arrays, point, activity, _round_up, all_or_none=True
        ):
            return None
        point[self._integer] = np.rint(point[self._integer])
        is_cheap = _cost(arrays, point) <= _highest_cost(arrays, x)
        return point if is_cheap and self._checker.is_feasible(arrays, point) else None

    def move_column(
        self, arrays: Arrays, x: np.ndarray, column: int, values: Sequence[float]
    ) -> list[np.ndarray | None]:
        """Return, for each value of one column, ``x`` moved there if feasible at no cost."""
        unit_cost = arrays.cost[column]
        if all(unit_cost * (value - x[column]) > 0 for value in values):
            return [None] * len(values)
        part, rows = self._column_entries(column)
        activity = self._checker.row_activity(arrays, x)[rows]
        points: list[np.ndarray | None] = []
        for value in values:
            step = value - x[column]
            moved = activity + arrays.values[part] * step
            if unit_cost * step > 0 or not _is_within(arrays, rows, moved).all():
                points.append(None)
                continue
            point = x.copy()
            point[column] = value
            points.append(point)
        return points

    def _round_columns(
        self,
        arrays: Arrays,
        x: np.ndarray,
        activity: np.ndarray,
        mode: RoundingMode,
        all_or_none: bool = False,
    ) -> bool:
        """Round, one after another, the columns that the rows allow to move."""
        step = np.zeros(len(x))
        step[self._integer] = mode(x[self._integer]) - x[self._integer]
        movable = self._movable(arrays, activity, step)
        needed = np.count_nonzero(np.abs(step) > _FEASIBILITY)
        if all_or_none and len(movable) < needed:
            return False
        for column in movable:
            part, rows = self._column_entries(column)
            moved = activity[rows] + arrays.values[part] * step[column]
            if _is_within(arrays, rows, moved).all():
                x[column] = np.rint(x[column] + step[column])
                activity[rows] = moved
            elif all_or_none:
                return False
        return True

    def _movable(
        self, arrays: Arrays, activity: np.ndarray, step: np.ndarray
    ) -> np.ndarray:
        """Return the integer columns that could move at no cost if no other did."""
        rows, column = self._layout.index[self._entries], self._column[self._entries]
        moved = activity[rows] + arrays.values[self._entries] * step[column]
        outside = ~_is_within(arrays, rows, moved)
        blocked = np.bincount(column[outside], minlength=len(step)) > 0
        blocked |= arrays.cost * step > 0
        return np.flatnonzero(~blocked & (np.abs(step) > _FEASIBILITY))

    def _column_entries(self, column: int) -> tuple[slice, np.ndarray]:
        """Return where a column's matrix entries are, and their rows."""
        part = slice(self._layout.start[column], self._layout.start[column + 1])
        return part, self._layout.index[part]


def _cost(program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
    return np.einsum("...c,...c->...", program.cost, x)


def _highest_cost(program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
    """Return the cost (...), without offset, that still counts as that of ``x``."""
    return np.asarray(_cost(program, x) + COST_SLACK * cost_terms(program, x))


def _round_up(x: np.ndarray) -> np.ndarray:
    return np.ceil(x - _FEASIBILITY)


def _round_down(x: np.ndarray) -> np.ndarray:
    return np.floor(x + _FEASIBILITY)


_MODES: tuple[RoundingMode, ...] = (np.rint, _round_up, _round_down)


def _is_within(arrays: Arrays, rows: np.ndarray, activity: np.ndarray) -> np.ndarray:
    """Return where the activity of some rows is within their sides, up to rounding."""
    slack = _FEASIBILITY * np.maximum(1.0, np.abs(activity))
    lower, upper = arrays.row_lower[rows], arrays.row_upper[rows]
    return (activity >= lower - slack) & (activity <= upper + slack)
