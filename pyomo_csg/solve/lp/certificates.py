"""Optimality certificates for linear programs, independent of units.

A solver's tolerances are absolute. Where rows or columns are in small units, or costs differ
by orders of magnitude, it reports points as optimal that are not. Here every tolerance is
relative to the terms of the sum it applies to, so the choice of units does not matter. Only
the point and the row duals come from the solver; all else is recomputed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Shape, Stack, entry_columns
from pyomo_csg.solve.lp.units import ROUNDING_NOISE, TypicalSizes, typical_sizes

# Allowed violation of a row, relative to the sum of its absolute terms. The simplex method runs
# with the same tolerance, so a sound answer in good units passes.
_ROW_TOLERANCE = 1e-9
# Smallest unit of a row, relative to its typical size. A row whose terms are nearly zero at a
# point would otherwise get a unit so small that rounding looks like a violation.
_SMALLEST_UNIT = 1e-6
# Smallest scale of a reduced cost, relative to a typical cost. A column that costs nothing and
# whose duals are tiny would otherwise be compared with its own rounding errors.
_COST_FLOOR = 0.1
# Allowed gap between primal and dual value, relative to the sum of the absolute cost terms: the
# precision that the package promises.
_GAP_TOLERANCE = 1e-9
# A dual below this share of its terms is zero for certain: the solver's own rounding.
_SURELY_ZERO = 1e-11
# A dual above this share of its terms is nonzero for certain: the solver's tolerance.
_SURELY_NONZERO = 1e-9
# The cutoff between zero and nonzero where a dual is neither: the geometric mean of the two.
_ZERO_DUAL = 1e-10

# How far, in typical sizes, an optimum may be away along a column without a bound. Where reduced
# costs are rounding beside the total cost, but not beside their own terms (scenarios with tiny
# weights), nothing else bounds what they could save.
_FARTHEST = 10.0

_MOST_ACTIVE = 500  # rows; a dense system of more takes longer than solving again
_MANY = 8  # cases from which sparse products are faster than sums of terms

# One comparison with the middle of the doubtful shares is faster than two with their ends.
_DOUBTFUL_MIDDLE = (_SURELY_ZERO + _SURELY_NONZERO) / 2


@dataclass
class Certificate:
    """Duals recomputed from a solver's answer, and whether they prove it optimal.

    Duals (..., columns) and (..., rows) are exactly 0 where rounding could have made them, and
    where they point to a bound that the point is not at. ``clear`` (...) says whether every dual
    is surely zero or surely nonzero, and points to the bound where the point is.
    """

    column_dual: np.ndarray
    row_dual: np.ndarray
    optimal: np.ndarray
    clear: np.ndarray

    @property
    def duals(self) -> tuple[np.ndarray, np.ndarray]:
        """Duals of columns and of rows."""
        return self.column_dual, self.row_dual

    def of(self, case: int) -> Certificate:
        """Return the certificate of one case."""
        return Certificate(
            self.column_dual[case],
            self.row_dual[case],
            self.optimal[case],
            self.clear[case],
        )


@dataclass
class _Position:
    """Values and bounds of columns, then rows, and the sum of each row's absolute terms."""

    point: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    row_terms: np.ndarray

    def violation(self) -> np.ndarray:
        """Return by how much each value is outside its bounds; negative inside."""
        return np.maximum(self.lower - self.point, self.point - self.upper)

    def are_astray(self, dual: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return which places are away from the bound that their dual points to."""
        columns = size.shape[-1] - self.row_terms.shape[-1]
        allowed = np.abs(self.point) + size
        allowed[..., columns:] += self.row_terms
        return np.asarray(self._distance(dual) > _ROW_TOLERANCE * allowed)

    def _distance(self, dual: np.ndarray) -> np.ndarray:
        """Return how far each place is from its active bound."""
        return np.abs(self.point - np.where(dual > 0, self.lower, self.upper))

    def gap(self, dual: np.ndarray, noise: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return the duality gap: the distances from the active bounds times the duals."""
        away = self._distance(dual)
        # A dual that is mere rounding may point to a bound that does not exist.
        np.copyto(away, size, where=noise & np.isinf(away))
        away *= np.abs(dual)
        return np.add.reduce(away, axis=-1)


class CertificateChecker:
    """Checks answers to the linear programs of one layout."""

    def __init__(self, layout: Shape):
        self._rows, self._columns = layout.rows, layout.columns
        self._sizes: TypicalSizes | None = None
        self._dual_noise: np.ndarray | None = None
        self._shared: tuple[np.ndarray, tuple[Any, ...]] | None = None
        self._row = layout.index.astype(np.intp)
        self._column = entry_columns(layout)

    def check(
        self, program: Arrays | Stack, x: np.ndarray, row_duals: np.ndarray
    ) -> Certificate:
        """Return the certificates of points (..., columns) with row duals (..., rows)."""
        reduced_costs, sizes = self._reduced_costs(program, row_duals)
        weight = np.abs(program.cost) + sizes
        floor = _COST_FLOOR * self._typical_sizes(program).unit_cost
        weight = np.maximum(weight, floor)
        noticed = self._products(program.values, 1 / weight)[1]
        share = _join(np.abs(reduced_costs) / weight, np.abs(row_duals) * noticed)
        dual, noise = _join(reduced_costs, row_duals), share <= _ZERO_DUAL
        position, size = self._position(program, x), self._typical_sizes(program).both
        optimal = self._is_optimal(program, position, x, dual, noise)
        # The costs of a scenario with a tiny weight are below HiGHS's dual tolerance: it may
        # leave a place at the wrong bound, where the dual's sign would mislead a search.
        astray = ~noise & position.are_astray(dual, size)
        dual = np.where(noise | astray, 0.0, dual)
        return Certificate(
            dual[..., : self._columns],
            dual[..., self._columns :],
            optimal,
            np.asarray(~(_is_doubtful(share) | astray).any(axis=-1)),
        )

    def check_quickly(
        self, program: Arrays | Stack, x: np.ndarray, row_duals: np.ndarray
    ) -> np.ndarray:
        """Return which points (..., columns) are proven optimal, in less time than :meth:`check`.

        Rounding is recognized by typical sizes alone, so some optimal points are missed.
        """
        dual = _join(self._reduced_costs(program, row_duals)[0], row_duals)
        noise = np.abs(dual) <= self._dual_rounding(program)
        return self._is_optimal(program, self._position(program, x), x, dual, noise)

    def is_nearly_optimal(
        self, program: Arrays | Stack, x: np.ndarray, row_duals: np.ndarray
    ) -> np.ndarray:
        """Return which points (..., columns) cost the optimum, to a relative 1e-9.

        Unlike :meth:`check`, it takes optima to be within 10 typical sizes where columns have
        no bound.
        """
        dual = _join(self._reduced_costs(program, row_duals)[0], row_duals)
        everything = np.ones(dual.shape, bool)
        position = self._position(program, x)
        return self._is_optimal(program, position, x, dual, everything, _FARTHEST)

    def row_activity(self, program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
        """Return Ax for points (..., columns)."""
        return self._products(program.values, x)[0]

    def is_feasible(self, program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
        """Return which points (..., columns) satisfy all rows and bounds."""
        return self._satisfies_bounds(program, self._position(program, x))

    def proves_infeasible(self, arrays: Arrays, ray: np.ndarray | None) -> bool:
        """Return whether row multipliers (rows,) prove that no point satisfies all rows.

        The sum of the rows times the multipliers is then outside the range that the sides
        of the rows allow, wherever the columns are within their bounds.
        """
        if ray is None:
            return False
        products = arrays.values * ray[self._row]
        sums, terms = self._sum_by_column(products), self._sum_by_column(abs(products))
        sums[np.abs(sums) <= ROUNDING_NOISE * terms] = 0.0
        columns = _range(sums, arrays.column_lower, arrays.column_upper)
        rows = _range(ray, arrays.row_lower, arrays.row_upper)
        apart = max(rows[0] - columns[1], columns[0] - rows[1])
        sizes = [abs(end) for end in (*rows, *columns) if math.isfinite(end)]
        return apart > _ROW_TOLERANCE * max(sizes, default=0.0)

    def correction(
        self,
        arrays: Arrays,
        x: np.ndarray,
        duals: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray | None:
        """Return the least step (columns,) that puts a point on its active rows.

        Those are rows with a dual, and rows that are violated. Columns at a bound, or with a dual,
        stay. None where no row is active, or where too many are.
        """
        activity = self.row_activity(arrays, x)
        target = np.clip(activity, arrays.row_lower, arrays.row_upper)
        target = np.where(duals[1] > 0, arrays.row_lower, target)
        target = np.where(duals[1] < 0, arrays.row_upper, target)
        active = np.flatnonzero((duals[1] != 0) | (target != activity))
        inside = (x > arrays.column_lower) & (x < arrays.column_upper)
        free = np.flatnonzero(inside & (duals[0] == 0))
        if not 0 < len(active) <= _MOST_ACTIVE or not len(free):
            return None
        if not np.isfinite(target[active]).all():
            return None
        sizes = self._typical_sizes(arrays)
        row, column = sizes.rows[active], sizes.both[free]
        matrix = np.zeros((self._rows, self._columns))
        matrix[self._row, self._column] = arrays.values
        matrix = matrix[np.ix_(active, free)] * column / row[:, None]
        off = (target - activity)[active] / row
        step = np.zeros(self._columns)
        step[free] = column * np.linalg.lstsq(matrix, off, rcond=1e-12)[0]
        return step

    def units_at_point(
        self, arrays: Arrays, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return units of rows, by their terms at a point, and of columns, by the rows' units."""
        size = np.abs(arrays.values)
        terms = self._sum_by_row(size * np.abs(x)[self._column])
        for side in (arrays.row_lower, arrays.row_upper):
            terms = np.maximum(terms, np.where(np.isfinite(side), np.abs(side), 0.0))
        terms = np.maximum(terms, _SMALLEST_UNIT * self._typical_sizes(arrays).rows)
        units = np.full(self._columns, np.inf)
        nonzero = size > 0
        # The step of a column that moves one of its rows by that row's unit.
        step = terms[self._row[nonzero]] / size[nonzero]
        np.minimum.at(units, self._column[nonzero], step)
        units[~np.isfinite(units)] = 1.0
        return terms, units

    def typical_units(
        self, arrays: Arrays, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return typical sizes of rows and columns, whatever the point."""
        sizes = self._typical_sizes(arrays)
        return sizes.rows, sizes.both[: self._columns]

    def place_sizes(self, program: Arrays | Stack) -> np.ndarray:
        """Return typical sizes of columns, then rows."""
        return self._typical_sizes(program).both

    def _is_optimal(
        self,
        program: Arrays | Stack,
        position: _Position,
        x: np.ndarray,
        dual: np.ndarray,
        noise: np.ndarray,
        farthest: float = 1.0,
    ) -> np.ndarray:
        """Return which points are feasible and cost what their duals prove."""
        sizes = self._typical_sizes(program)
        gap = position.gap(dual, noise, farthest * sizes.both)
        cost = np.add.reduce(np.abs(program.cost * x), axis=-1)
        # Rounding also affects points that cost nothing, such as "build nothing".
        close = gap <= _GAP_TOLERANCE * cost + ROUNDING_NOISE * sizes.total_cost
        return np.asarray(self._satisfies_bounds(program, position) & close)

    def _position(self, program: Arrays | Stack, x: np.ndarray) -> _Position:
        activity, terms = self._products(program.values, x)
        return _Position(
            _join(x, activity),
            _join(program.column_lower, program.row_lower),
            _join(program.column_upper, program.row_upper),
            terms,
        )

    def _products(
        self, values: np.ndarray, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return Ax (..., rows) and the sums of the absolute terms."""
        if values.ndim == 1 and x.ndim == 2 and len(x) >= _MANY:
            matrix, sizes = self._matrices(values)[:2]
            return (matrix @ x.T).T, (sizes @ np.abs(x).T).T
        terms = values * x[..., self._column]
        return self._sum_by_row(terms), self._sum_by_row(np.abs(terms))

    def _reduced_costs(
        self, program: Arrays | Stack, row_duals: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return c - A'y (..., columns) and the sums of the absolute terms of A'y."""
        values = program.values
        if values.ndim == 1 and row_duals.ndim == 2 and len(row_duals) >= _MANY:
            matrix, sizes = self._matrices(values)[2:]
            terms = sizes @ np.abs(row_duals).T
            return program.cost - (matrix @ row_duals.T).T, terms.T
        products = values * row_duals[..., self._row]
        return (
            program.cost - self._sum_by_column(products),
            self._sum_by_column(np.abs(products)),
        )

    def _matrices(self, values: np.ndarray) -> tuple[Any, ...]:
        """Return the matrix that all cases share, its absolute values, and both transposed."""
        if self._shared is None or self._shared[0] is not values:
            places = (self._row, self._column)
            shape = (self._rows, self._columns)
            from scipy import sparse

            matrix = sparse.csr_array((values, places), shape=shape)
            sizes = abs(matrix)
            self._shared = values, (matrix, sizes, matrix.T, sizes.T)
        return self._shared[1]

    def _satisfies_bounds(
        self, program: Arrays | Stack, position: _Position
    ) -> np.ndarray:
        """Return where no bound is violated by more than the row terms' rounding."""
        sizes, off = self._typical_sizes(program), position.violation()
        off[..., self._columns :] -= _ROW_TOLERANCE * position.row_terms
        kept = off <= sizes.noise  # False for NaN
        if np.logical_and.reduce(kept[..., : self._columns], axis=None):
            return np.asarray(np.logical_and.reduce(kept, axis=-1))
        # A column may miss its bound by as much as its rows would not notice.
        good = kept[..., self._columns :].all(axis=-1)
        good &= np.isfinite(position.point).all(axis=-1)
        off = np.maximum(off[..., : self._columns], 0.0)
        effect = np.abs(program.values) * off[..., self._column]
        terms = np.maximum(position.row_terms, sizes.rows)
        share = self._sum_by_column(effect / terms[..., self._row])
        return np.asarray(good & (share <= _ROW_TOLERANCE).all(axis=-1))

    def _dual_rounding(self, program: Arrays | Stack) -> np.ndarray:
        """Return the largest duals of columns, then rows, that rounding alone can cause."""
        sizes = self._typical_sizes(program)
        if program.values is sizes.values and self._dual_noise is not None:
            return self._dual_noise
        share = np.abs(program.values) / sizes.unit_cost[self._column]
        share = self._sum_by_row(share)
        least = np.divide(1, share, out=np.zeros(share.shape), where=share > 0)
        noise = _ZERO_DUAL * _COST_FLOOR * _join(sizes.unit_cost, least)
        if program.values is sizes.values:
            self._dual_noise = noise
        return noise

    def _typical_sizes(self, program: Arrays | Stack) -> TypicalSizes:
        """Return typical sizes of rows, columns and costs, from the first program checked."""
        if self._sizes is None:
            first = program[0] if isinstance(program, Stack) else program
            self._sizes = typical_sizes(self._row, self._column, first)
        return self._sizes

    def _sum_by_row(self, entries: np.ndarray) -> np.ndarray:
        return _sum_by(entries, self._row, self._rows)

    def _sum_by_column(self, entries: np.ndarray) -> np.ndarray:
        return _sum_by(entries, self._column, self._columns)


def _sum_by(entries: np.ndarray, place: np.ndarray, count: int) -> np.ndarray:
    """Return the sums (..., count) of matrix entries (..., nonzeros) by row or column."""
    if entries.ndim == 1:
        return np.bincount(place, entries, minlength=count)
    cases = len(entries)
    if cases == 1:
        return np.bincount(place, entries[0], minlength=count)[None]
    places = place + count * np.arange(cases)[:, None]
    sums = np.bincount(places.ravel(), entries.ravel(), minlength=cases * count)
    return sums.reshape(cases, count)


def _join(columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return numbers of columns, then of rows (..., columns + rows)."""
    if columns.ndim != rows.ndim:
        (cases,) = columns.shape[:-1] or rows.shape[:-1]
        columns, rows = (
            one if one.ndim == 2 else one[None].repeat(cases, axis=0)
            for one in (columns, rows)
        )
    return np.concatenate([columns, rows], axis=-1)


def _range(
    factors: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[float, float]:
    """Return the least and the largest sum of factors times numbers within their bounds."""
    used = factors != 0
    ends = factors[used] * lower[used], factors[used] * upper[used]
    return float(np.minimum(*ends).sum()), float(np.maximum(*ends).sum())


def _is_doubtful(share: np.ndarray) -> np.ndarray:
    """Return which duals, as shares of their terms, are neither zero nor nonzero for certain."""
    return np.abs(share - _DOUBTFUL_MIDDLE) < _DOUBTFUL_MIDDLE - _SURELY_ZERO


def is_unique(duals: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return where (...) every nonbasic column and row has a nonzero dual: a unique optimum."""
    # There are as many nonbasic columns and rows as columns, and basic ones have dual zero.
    columns, rows = duals
    nonzero = np.count_nonzero(columns, axis=-1) + np.count_nonzero(rows, axis=-1)
    return np.asarray(nonzero == columns.shape[-1])
