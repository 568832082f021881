"""Whether what a solver returned is an optimum of a linear program, in any units.

A solver's tolerances are absolute: where rows or columns are in small units, or costs are
far apart, it calls points optimal that are not. Here everything is relative to the terms
that it is a sum of, so that no choice of units matters, and nothing but the point and the
rows' duals is taken from the solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Shape, Stack

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
class Certificate:
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


@dataclass
class _Sizes:
    """What rows, columns then rows, columns' costs, and all that is paid are about.

    Entries of the matrix were ``values`` then. Columns, then rows, may be off by ``noise``.
    """

    rows: np.ndarray
    both: np.ndarray
    price: np.ndarray
    paid: float
    values: np.ndarray
    noise: np.ndarray


@dataclass
class _Places:
    """Where columns, then rows, are and may be; and the size of the rows' terms."""

    point: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    terms: np.ndarray

    def off(self) -> np.ndarray:
        """Return by how much each is outside its sides; negative inside."""
        return np.maximum(self.lower - self.point, self.point - self.upper)

    def gap(self, dual: np.ndarray, noise: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return what the distances from the sides that duals hold places at cost.

        A dual that is zero but for rounding may stand for a side that is not there.
        """
        away = np.abs(self.point - np.where(dual > 0, self.lower, self.upper))
        np.copyto(away, size, where=noise & np.isinf(away))
        away *= np.abs(dual)
        return np.add.reduce(away, axis=-1)


class CertificateChecker:
    """Checks answers for linear programs of one layout.

    Parameters
    ----------
    layout : Shape
    """

    def __init__(self, layout: Shape):
        self._rows, self._columns = layout.rows, layout.columns
        self._sizes: _Sizes | None = None
        self._noise: np.ndarray | None = None
        self._row = layout.index.astype(np.intp)
        self._column = np.repeat(np.arange(layout.columns), np.diff(layout.start))

    def look(
        self, program: Arrays | Stack, x: np.ndarray, prices: np.ndarray
    ) -> Certificate:
        """Judge points (..., columns) by the duals of the rows (..., rows)."""
        paid = program.values * prices[..., self._row]
        duals, spent = program.cost - self._by_column(paid), np.abs(paid)
        weight = np.abs(program.cost) + self._by_column(spent)
        weight = np.maximum(weight, _SOME * self._typical_sizes(program).price)
        share = _beside(
            np.abs(duals) / weight, self._by_row(spent / weight[..., self._column])
        )
        dual, noise = _beside(duals, prices), share <= _DUAL
        optimal = self._proven(program, x, self._places(program, x), dual, noise)
        dual = np.where(noise, 0.0, dual)
        return Certificate(
            dual[..., : self._columns],
            dual[..., self._columns :],
            optimal,
            np.asarray(~_doubtful(share).any(axis=-1)),
        )

    def proves(
        self, program: Arrays | Stack, x: np.ndarray, prices: np.ndarray
    ) -> np.ndarray:
        """Say which points (..., columns) are optima: as :meth:`look`, in less time.

        It tells rounding by typical sizes alone, and so may miss what look finds.
        """
        paid = program.values * prices[..., self._row]
        dual = _beside(program.cost - self._by_column(paid), prices)
        noise = np.abs(dual) <= self._rounding(program)
        return self._proven(program, x, self._places(program, x), dual, noise)

    def activity(self, program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
        """Return Ax for points (..., columns)."""
        return self._by_row(program.values * x[..., self._column])

    def keeps(self, program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
        """Say which points (..., columns) keep all rows and bounds."""
        return self._feasible(program, self._places(program, x))

    def natural_units(
        self, arrays: Arrays, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the sizes of rows, and how far columns may move to be felt as much."""
        size = np.abs(arrays.values)
        terms = self._by_row(size * np.abs(x)[self._column])
        for side in (arrays.row_lower, arrays.row_upper):
            terms = np.maximum(terms, np.where(np.isfinite(side), np.abs(side), 0.0))
        terms = np.maximum(terms, _LEAST * self._typical_sizes(arrays).rows)
        units = np.full(self._columns, np.inf)
        there = size > 0
        felt = terms[self._row[there]] / size[there]
        np.minimum.at(units, self._column[there], felt)
        units[~np.isfinite(units)] = 1.0
        return terms, units

    def typical_units(
        self, arrays: Arrays, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what rows and columns are about, wherever a point is."""
        sizes = self._typical_sizes(arrays)
        return sizes.rows, sizes.both[: self._columns]

    def _proven(
        self,
        program: Arrays | Stack,
        x: np.ndarray,
        places: _Places,
        dual: np.ndarray,
        noise: np.ndarray,
    ) -> np.ndarray:
        """Say where (...) points keep all sides and cost what their duals prove."""
        gap = places.gap(dual, noise, self._typical_sizes(program).both)
        spent = np.add.reduce(np.abs(program.cost * x), axis=-1)
        # What costs nothing, such as a decision not to do anything, is rounded, too.
        close = gap <= _GAP * spent + _NOISE * self._typical_sizes(program).paid
        return np.asarray(self._feasible(program, places) & close)

    def _places(self, program: Arrays | Stack, x: np.ndarray) -> _Places:
        used = program.values * x[..., self._column]
        return _Places(
            _beside(x, self._by_row(used)),
            _beside(program.column_lower, program.row_lower),
            _beside(program.column_upper, program.row_upper),
            self._by_row(np.abs(used)),
        )

    def _feasible(self, program: Arrays | Stack, places: _Places) -> np.ndarray:
        """Say where (...) no side is missed by more than a row's terms leave open."""
        sizes, off = self._typical_sizes(program), places.off()
        off[..., self._columns :] -= _BROKEN * places.terms
        kept = off <= sizes.noise  # which no NaN is
        if np.logical_and.reduce(kept[..., : self._columns], axis=None):
            return np.asarray(np.logical_and.reduce(kept, axis=-1))
        good = kept[..., self._columns :].all(axis=-1)
        good &= np.isfinite(places.point).all(axis=-1)
        off = np.maximum(off[..., : self._columns], 0.0)
        felt = np.abs(program.values) * off[..., self._column]
        terms = np.maximum(places.terms, sizes.rows)
        share = self._by_column(felt / terms[..., self._row])
        return np.asarray(good & (share <= _BROKEN).all(axis=-1))

    def _rounding(self, program: Arrays | Stack) -> np.ndarray:
        """Return up to where duals of columns, then rows, can be rounding alone."""
        sizes = self._typical_sizes(program)
        if program.values is sizes.values and self._noise is not None:
            return self._noise
        felt = self._by_row(np.abs(program.values) / sizes.price[self._column])
        least = np.divide(1, felt, out=np.zeros(felt.shape), where=felt > 0)
        noise = _DUAL * _SOME * _beside(sizes.price, least)
        if program.values is sizes.values:
            self._noise = noise
        return noise

    def _typical_sizes(self, program: Arrays | Stack) -> _Sizes:
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
    ) -> _Sizes:
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
        both = np.concatenate([columns_about, rows_about])
        price, noise = spent / columns_about, _NOISE * both
        return _Sizes(rows_about, both, price, float(spent), values, noise)

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


def _beside(columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return what is known of columns and of rows (..., columns + rows)."""
    if columns.ndim != rows.ndim:
        (cases,) = columns.shape[:-1] or rows.shape[:-1]
        columns, rows = (
            one if one.ndim == 2 else one[None].repeat(cases, axis=0)
            for one in (columns, rows)
        )
    return np.concatenate([columns, rows], axis=-1)


def _doubtful(share: np.ndarray) -> np.ndarray:
    return np.abs(share - _MIDDLE) < _MIDDLE - _ZERO
