"""Whether what a solver returned is an optimum of a linear program, in any units.

A solver's tolerances are absolute: where rows or columns are in small units, or costs are
far apart, it calls points optimal that are not. Here everything is relative to the terms
that it is a sum of, so that no choice of units matters, and nothing but the point and the
rows' duals is taken from the solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyomo_csg.solve.assembly import Arrays, Stack
from pyomo_csg.solve.shape import Shape

_BROKEN = 1e-9  # of a row's terms: by so much a side may be missed
_NOISE = 1e-12  # of a typical row or column
_LEAST = 1e-6  # the same: of what is smaller, units are not taken
_SOME = 0.1  # of a typical cost: a dual whose terms are less is a sum of such costs
_SWEEPS = 20
_GAP = 1e-9  # of the cost's terms: so far the point and its duals may be apart
_ZERO, _SURE = 1e-11, 1e-9  # of a dual's terms: below is zero, above is not
_MIDDLE = (_ZERO + _SURE) / 2
_DUAL = 1e-10  # between the two, where nothing better is to be had


@dataclass
class Verdict:
    """What is left of an answer.

    Attributes
    ----------
    column_dual, row_dual : array (..., columns), (..., rows)
        Recomputed from the rows' duals; exactly 0 where rounding could have made them.
    optimal : array (...) of bool
        Whether the point keeps all sides and costs what its duals prove.
    clear : array (...) of bool
        Whether each dual is either zero or not, beyond doubt.
    """

    column_dual: np.ndarray
    row_dual: np.ndarray
    optimal: np.ndarray
    clear: np.ndarray

    @property
    def duals(self) -> tuple[np.ndarray, np.ndarray]:
        """Those of columns and of rows."""
        return self.column_dual, self.row_dual


class Checker:
    """Checks answers for linear programs of one layout.

    Parameters
    ----------
    layout : Shape
    """

    def __init__(self, layout: Shape):
        self._rows, self._columns = layout.rows, layout.columns
        self._sizes: tuple[np.ndarray, ...] | None = None
        self._row = layout.index.astype(np.intp)
        self._column = np.repeat(np.arange(layout.columns), np.diff(layout.start))

    def look(
        self, program: Arrays | Stack, x: np.ndarray, prices: np.ndarray
    ) -> Verdict:
        """Judge points (..., columns) by the duals of the rows (..., rows)."""
        used = program.values * x[..., self._column]
        paid = program.values * prices[..., self._row]
        activity, terms = self._by_row(used), self._by_row(np.abs(used))
        duals = program.cost - self._by_column(paid)
        weight = np.abs(program.cost) + self._by_column(np.abs(paid))
        row_size, column_size, price = self._typical_sizes(program)
        weight = np.maximum(weight, _SOME * price)
        share = np.abs(duals) / weight
        row_share = self._by_row(np.abs(paid) / weight[..., self._column])
        columns = x, program.column_lower, program.column_upper
        rows = activity, program.row_lower, program.row_upper
        optimal = self._feasible(program, columns, rows, terms)
        gap = _gap(*columns, duals, share, column_size)
        gap += _gap(*rows, prices, row_share, row_size)
        optimal &= gap <= _GAP * np.abs(program.cost * x).sum(axis=-1)
        return Verdict(
            np.where(share > _DUAL, duals, 0.0),
            np.where(row_share > _DUAL, prices, 0.0),
            optimal,
            np.asarray(
                ~(_doubtful(share).any(axis=-1) | _doubtful(row_share).any(axis=-1))
            ),
        )

    def activity(self, program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
        """Return Ax for points (..., columns)."""
        return self._by_row(program.values * x[..., self._column])

    def keeps(self, program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
        """Say which points (..., columns) keep all rows and bounds."""
        used = program.values * x[..., self._column]
        rows = self._by_row(used), program.row_lower, program.row_upper
        columns = x, program.column_lower, program.column_upper
        return self._feasible(program, columns, rows, self._by_row(np.abs(used)))

    def natural_units(
        self, arrays: Arrays, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the sizes of rows, and how far columns may move to be felt as much."""
        size = np.abs(arrays.values)
        terms = self._by_row(size * np.abs(x)[self._column])
        for side in (arrays.row_lower, arrays.row_upper):
            terms = np.maximum(terms, np.where(np.isfinite(side), np.abs(side), 0.0))
        terms = np.maximum(terms, _LEAST * self._typical_sizes(arrays)[0])
        units = np.full(self._columns, np.inf)
        there = size > 0
        felt = terms[self._row[there]] / size[there]
        np.minimum.at(units, self._column[there], felt)
        units[~np.isfinite(units)] = 1.0
        return terms, units

    def _feasible(
        self,
        program: Arrays | Stack,
        columns: tuple[np.ndarray, ...],
        rows: tuple[np.ndarray, ...],
        terms: np.ndarray,
    ) -> np.ndarray:
        """Say where (...) no side is missed by more than a row's terms leave open."""
        row_size, column_size, _ = self._typical_sizes(program)
        allowed = _BROKEN * terms + _NOISE * row_size
        good = (_missed(*rows) <= allowed).all(axis=-1)
        good &= np.isfinite(columns[0]).all(axis=-1)
        off = _missed(*columns)
        if not (off > _NOISE * column_size).any():
            return np.asarray(good)
        felt = np.abs(program.values) * off[..., self._column]
        share = self._by_column(felt / np.maximum(terms, row_size)[..., self._row])
        return np.asarray(good & (share <= _BROKEN).all(axis=-1))

    def _typical_sizes(self, program: Arrays | Stack) -> tuple[np.ndarray, ...]:
        """Return what rows, columns and costs are about, by the first program's numbers.

        What is much less is rounding. Units that all numbers share out between them:
        means of logarithms, over rows and columns in turn.
        """
        if self._sizes is None:
            numbers = (
                program.row_lower,
                program.row_upper,
                program.column_lower,
                program.column_upper,
                program.values,
                program.cost,
            )
            self._sizes = self._shared_out(
                *(n[0] if n.ndim > 1 else n for n in numbers)
            )
        return self._sizes

    def _shared_out(
        self,
        row_lower: np.ndarray,
        row_upper: np.ndarray,
        column_lower: np.ndarray,
        column_upper: np.ndarray,
        values: np.ndarray,
        cost: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        there = values != 0
        row, column, size = self._row[there], self._column[there], values[there]
        size, rows, columns = np.log2(np.abs(size)), self._rows, self._columns
        in_row = np.maximum(np.bincount(row, minlength=rows), 1)
        in_column = np.maximum(np.bincount(column, minlength=columns), 1)
        r, c = np.zeros(rows), np.zeros(columns)
        for _ in range(_SWEEPS):
            r = np.bincount(row, size + c[column], minlength=rows) / in_row
            c = np.bincount(column, r[row] - size, minlength=columns) / in_column
        places = np.concatenate([r, r, c, c])
        sides = np.concatenate([row_lower, row_upper, column_lower, column_upper])
        known = np.isfinite(sides) & (sides != 0)
        levels = np.log2(np.abs(sides[known])) - places[known]
        levels = levels[levels > levels.max(initial=-np.inf) + np.log2(_NOISE)]
        level = np.median(levels) if len(levels) else 0.0
        rows_about, columns_about = np.exp2(r + level), np.exp2(c + level)
        paid = np.abs(cost * columns_about)
        spent = np.median(paid[paid > 0]) if paid.any() else 1.0
        return rows_about, columns_about, spent / columns_about

    def _by_row(self, entries: np.ndarray) -> np.ndarray:
        return _summed(entries, self._row, self._rows)

    def _by_column(self, entries: np.ndarray) -> np.ndarray:
        return _summed(entries, self._column, self._columns)


def _summed(entries: np.ndarray, place: np.ndarray, count: int) -> np.ndarray:
    """Return the sums (..., count) of entries (..., nonzeros) by their places."""
    if entries.ndim == 1:
        return np.bincount(place, entries, minlength=count)
    cases = len(entries)
    if cases == 1:
        return np.bincount(place, entries[0], minlength=count)[None]
    places = place + count * np.arange(cases)[:, None]
    sums = np.bincount(places.ravel(), entries.ravel(), minlength=cases * count)
    return sums.reshape(cases, count)


def _missed(x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return by how much each number is outside its sides; 0 inside."""
    return np.maximum(np.maximum(lower - x, x - upper), 0.0)


def _gap(
    x: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    dual: np.ndarray,
    share: np.ndarray,
    size: np.ndarray,
) -> np.ndarray:
    """Return what the distances from the sides that duals hold places at cost.

    A dual that is zero but for rounding may stand for a side that is not there.
    """
    away = np.abs(x - np.where(dual > 0, lower, upper))
    away = np.where(np.isinf(away) & (share <= _DUAL), size, away)
    return (np.abs(dual) * np.where(dual == 0, 0.0, away)).sum(axis=-1)


def _doubtful(share: np.ndarray) -> np.ndarray:
    return np.abs(share - _MIDDLE) < _MIDDLE - _ZERO
