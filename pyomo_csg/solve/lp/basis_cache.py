"""Optimal bases of a linear program: learned, kept, and tried on many right-hand sides at once.

"Places" are the columns, then the rows, of the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, RecourseLayout
from pyomo_csg.solve.engine import Stats
from pyomo_csg.solve.lp.certificates import CertificateChecker
from pyomo_csg.solve.lp.highs_program import HighsProgram
from pyomo_csg.solve.lp.sensitivity import basic_variables, is_degenerate
from pyomo_csg.solve.lp.units import nearest_power_of_two

_MAX_BASES = 512
_MAX_NUMBERS = 16_000_000  # in all bases: 128 MB
_MAX_SHARED_NUMBERS = 1_000_000  # in the bases that engines hand to each other
_ZERO_REDUCED_COST = 1e-12  # relative to the largest terms: rounding
# Ratio of units up to which the model's units are kept: others would only change the rounding.
_WILD = 1e4
_MOST_ERROR = 1e-9  # of a response in natural units: the precision of all costs
_FEASIBILITY = 1e-9  # HiGHS's feasibility tolerance
_ONE_THREAD = 262_144  # multiplications that OpenBLAS does in one thread
_LEAST_PIECE = 64
_MAX_STACKED_NUMBERS = 200_000  # all bases tried at once on a few cases
_ROUNDING = 1e-12  # error of a basic value, relative to its absolute terms


@dataclass(eq=False)
class Basis:
    """An optimal basis, by its places, and how its basic places depend on the nonbasic ones.

    ``at_upper`` says whether a nonbasic place is at its upper bound, by the sign of its reduced
    cost: where two bounds coincide, a solver may report either.
    """

    basic: np.ndarray
    nonbasic: np.ndarray
    at_upper: np.ndarray
    response: np.ndarray  # (basic, nonbasic)
    reduced_cost: np.ndarray  # (nonbasic,)
    hits: int = 0  # cases that it has answered
    block: int = 0  # of a decomposed recourse


class CaseSides:
    """The moving bounds of many cases: ``values`` (moving + 1, cases), of which the last is 1.

    ``shift`` (moving, cases) is what decisions were subtracted from the bounds.
    """

    def __init__(self, values: np.ndarray, shift: np.ndarray):
        self.values, self.shift = values, shift

    def take(self, cases: np.ndarray) -> CaseSides:
        """Return those of some cases, in ascending order."""
        if len(cases) == self.values.shape[1]:
            return self
        return CaseSides(
            self.values.take(cases, axis=1), self.shift.take(cases, axis=1)
        )


def product(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a small matrix times values (..., n), in pieces that BLAS leaves to one thread.

    Other threads would spend more time on waiting than the whole product takes.
    """
    count, piece = values.shape[1], _ONE_THREAD // max(1, matrix.size)
    if count <= piece or piece < _LEAST_PIECE:
        return np.asarray(matrix @ values)
    found = np.empty((len(matrix), count))
    for start in range(0, count, piece):
        part = slice(start, start + piece)
        np.matmul(matrix, values[:, part], out=found[:, part])
    return found


class Region:
    """Where a basis is feasible, and its cost there: affine functions of the moving bounds.

    ``constant`` (2, places) are lower and upper bounds that do not move, and ``moving``
    (2, places) the positions of those that do, or -1.
    """

    def __init__(self, basis: Basis, constant: np.ndarray, moving: np.ndarray):
        self.basis = basis
        side = basis.at_upper.astype(int), basis.nonbasic
        bound, position = constant[side], moving[side]
        is_fixed, count = position < 0, int(moving.max(initial=-1)) + 1
        is_usable = bool(np.isfinite(bound[is_fixed]).all())
        bound = _finite(bound)

        def by_bounds(response: np.ndarray) -> np.ndarray:
            found = np.zeros((*response.shape[:-1], count + 1))
            found[..., position[~is_fixed]] = response[..., ~is_fixed]
            found[..., -1] = response[..., is_fixed] @ bound[is_fixed]
            return found

        self._basics, cost = by_bounds(basis.response), by_bounds(basis.reduced_cost)
        self._fixed_terms = np.abs(basis.response[:, is_fixed]) @ np.abs(
            bound[is_fixed]
        )
        rows, basics, positions = [], [], []
        for which, sign in ((0, 1.0), (1, -1.0)):
            place = moving[which, basis.basic]
            fixed = constant[which, basis.basic]
            bounded = np.flatnonzero((place >= 0) | np.isfinite(fixed))
            distance = self._basics[bounded]
            own = np.where(place < 0, count, place)[bounded]
            size = np.where(place < 0, fixed, 1.0)[bounded]
            distance[np.arange(len(bounded)), own] -= size
            rows.append(sign * distance)
            basics.append(bounded)
            positions.append(place[bounded])
        self._is_bounded = any(map(len, basics))
        if not self._is_bounded:  # a row that no case misses
            rows, positions = [np.zeros((1, count + 1))], [np.full(1, -1)]
            basics = [np.zeros(1, int)]
            self._basics, self._fixed_terms = rows[0], np.zeros(1)
        self._basic, self._position = np.concatenate(basics), np.concatenate(positions)
        # The distances of the basic places from their bounds, then the cost.
        self.matrix = np.vstack([*rows, cost]) + 0.0
        if not is_usable:
            self.matrix[:-1, -1] = -np.inf

    @property
    def rows(self) -> int:
        """How many bounds a basic place may miss."""
        return len(self._basic)

    def fits(self, sides: CaseSides) -> tuple[np.ndarray, np.ndarray]:
        """Return for which of the cases the basis is feasible, and its costs in all."""
        with np.errstate(invalid="ignore"):  # a bound that is infinite: nothing fits
            found = product(self.matrix, sides.values)
            worst = found[:-1].min(axis=0)
        fits = worst >= 0
        is_near = worst >= -_FEASIBILITY
        if np.count_nonzero(is_near) > np.count_nonzero(fits):
            # The rounding of each case's terms is computed only where a bound is violated.
            near = np.flatnonzero(is_near & ~fits)
            fits[near] = self.fits_by_rounding(sides.take(near), found[:-1, near])
        return fits, found[-1]

    def fits_by_rounding(
        self, sides: CaseSides, distances: np.ndarray | None = None
    ) -> np.ndarray:
        """Return in which cases no bound is violated by more than rounding."""
        if distances is None:
            distances = self.matrix[:-1] @ sides.values
        # Relative to the terms: in small units, an absolute tolerance would be large. A bound
        # of zero that is a difference of large numbers has their rounding: before it was
        # shifted, it was as large as the shift.
        shift = 2 * np.abs(sides.shift)
        sizes = np.abs(sides.values[:-1]) + shift
        terms = np.abs(self._basics[:, :-1]) @ sizes + self._fixed_terms[:, None]
        terms = terms[self._basic]
        moving = self._position >= 0
        terms[moving] += shift[self._position[moving]]
        slack = np.minimum(_FEASIBILITY, _ROUNDING * terms)
        return np.asarray((distances >= -slack).all(axis=0))

    def are_nondegenerate(self, sides: CaseSides) -> np.ndarray:
        """Return for which cases, of those the basis fits, no basic place is at a bound."""
        if not self._is_bounded:
            return np.ones(sides.values.shape[1], bool)
        # In small units the tolerance is relative to the terms.
        terms = np.abs(self._basics) @ np.abs(sides.values)
        size = np.minimum(1 + np.abs(self._basics @ sides.values), terms)
        slack = 2 * _FEASIBILITY * size[self._basic]
        distances = self.matrix[:-1] @ sides.values
        return np.asarray((distances > slack).all(axis=0))


class _Stack:
    """All regions of a cache as one matrix, to try them on a few cases at once."""

    def __init__(self, regions: list[Region]):
        self._regions = regions
        self._matrix = np.vstack([region.matrix[:-1] for region in regions])
        self._costs = np.array([region.matrix[-1] for region in regions])
        counts = [region.rows for region in regions]
        self._start = np.concatenate([[0], np.cumsum(counts)[:-1]])

    def choose(self, sides: CaseSides) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of a basis that fits each case, or -1, and its cost."""
        with np.errstate(invalid="ignore"):
            distances = product(self._matrix, sides.values)
            worst = np.minimum.reduceat(distances, self._start, axis=0)
        fits = worst >= 0
        is_near = (worst >= -_FEASIBILITY) & ~fits & ~fits.any(axis=0)
        for number in np.flatnonzero(is_near.any(axis=1)):
            near = np.flatnonzero(is_near[number])
            part = sides.take(near)
            fits[number, near] = self._regions[number].fits_by_rounding(part)
        chosen = fits.argmax(axis=0)
        costs = np.einsum("nm,mn->n", self._costs[chosen], sides.values)
        return np.where(fits.any(axis=0), chosen, -1), costs


class CacheBudget:
    """Decides whether another basis is worth learning, by what bases have saved so far.

    Times are estimated from sizes, since measured ones would make answers depend, in their
    last bits, on how busy the machine is.
    """

    _TRIAL = 20_000.0  # microseconds to spend before any saving

    def __init__(self, rows: int, columns: int, moving: int):
        # In one basis, and in its region.
        self._numbers = rows * columns + 3 * rows * (moving + 1)
        # A dense solve with as many right-hand sides as there are columns, and reading.
        self._learning = 300 + 6e-3 * rows * rows * (rows + columns)
        self._solving = 40 + 1.0 * (rows + columns)  # one warm solve
        self._balance = self._TRIAL

    def can_learn(self, bases: int) -> bool:
        """Whether time and memory are left for one more basis."""
        small = (bases + 1) * self._numbers <= _MAX_NUMBERS
        return bases < _MAX_BASES and small and self._balance >= self._learning

    def spend(self) -> None:
        """Count a basis that was learned."""
        self._balance -= self._learning

    def save(self, hits: int) -> None:
        """Count cases that a basis answered."""
        self._balance += hits * self._solving


class RowDuals:
    """Row duals (cases, rows) of the recourse, and whether each case's are unique.

    Uniqueness (cases,) is computed only where it was True at the start.
    """

    def __init__(self, rows: int, smooth: np.ndarray):
        self.rows = np.zeros((len(smooth), rows))
        self.smooth = smooth

    def read(self, case: int, program: HighsProgram, sizes: np.ndarray) -> None:
        """Read them from a linear program just solved, whose places have typical sizes."""
        z, _, self.rows[case] = program.solution()
        if self.smooth[case]:
            self.smooth[case] = not is_degenerate(
                program.highs, z, program.arrays, sizes
            )

    def set_from_basis(
        self, region: Region, cases: np.ndarray, sides: CaseSides
    ) -> None:
        """Read them from a basis that fits the cases, whose sides these are."""
        basis = region.basis
        columns = len(basis.basic) + len(basis.nonbasic) - self.rows.shape[1]
        is_row = basis.nonbasic >= columns
        row = np.zeros(self.rows.shape[1])
        row[basis.nonbasic[is_row] - columns] = basis.reduced_cost[is_row]
        self.rows[cases] = row
        if self.smooth[cases].any():
            self.smooth[cases] &= region.are_nondegenerate(sides)


class BasisCache:
    """The bases of one recourse that were optimal once; each is optimal wherever it is feasible.

    Matrix and costs must be certain. Only bases that fit into the budget are learned.
    ``bounds`` are the constant bounds of places, and the positions of those that move, as in
    :class:`Region`.
    """

    def __init__(
        self,
        layout: RecourseLayout,
        checker: CertificateChecker,
        known: Iterable[Basis],
        stats: Stats,
        bounds: tuple[np.ndarray, np.ndarray],
    ):
        self._layout, self._checker, self._stats = layout, checker, stats
        self._bounds = bounds
        # Copies, since hits are counted.
        self._regions = [Region(replace(basis), *bounds) for basis in known]
        self._keys = {
            region.basis.basic.tobytes() + region.basis.at_upper.tobytes()
            for region in self._regions
        }
        self._stack: _Stack | None = None
        self._budget = CacheBudget(
            layout.rows, layout.columns, int(bounds[1].max(initial=-1)) + 1
        )
        self._matrix: np.ndarray | None = None

    @property
    def bases(self) -> list[Basis]:
        """The bases, those with most hits first."""
        return [region.basis for region in self._by_hits()]

    def most_used(self) -> tuple[Basis, ...]:
        """Return the bases with most hits, up to a total size."""
        bases = self.bases
        numbers = np.cumsum([basis.response.size for basis in bases], dtype=int)
        count = int(np.searchsorted(numbers, _MAX_SHARED_NUMBERS, "right"))
        return tuple(bases[:count])

    def _by_hits(self) -> list[Region]:
        return sorted(self._regions, key=lambda region: -region.basis.hits)

    @property
    def is_useful(self) -> bool:
        """Whether there are bases, or may be some."""
        return bool(self._regions) or self.can_learn()

    def can_learn(self) -> bool:
        """Whether the budget allows for one more basis."""
        return self._budget.can_learn(len(self._regions))

    def try_bases(
        self, sides: CaseSides, costs: np.ndarray, duals: RowDuals | None
    ) -> tuple[np.ndarray, bool]:
        """Try the known bases on cases, those with most hits first.

        Return the cases still without an answer, and whether all bases were tried, so that new
        ones are worth learning.
        """
        left, regions = np.arange(len(costs)), self._by_hits()
        for tried, region in enumerate(regions):
            if not len(left):
                break
            if self._can_stack(len(left)):
                return self._try_all(left, sides, costs, duals), True
            # Solving a few cases is faster than trying many bases on them.
            if 4 * len(left) < 3 * (len(regions) - tried):
                return left, False
            left, sides = self._apply(region, left, sides, costs, duals)
        return left, True

    def apply_last(
        self,
        left: np.ndarray,
        sides: CaseSides,
        costs: np.ndarray,
        duals: RowDuals | None,
    ) -> np.ndarray:
        """Answer the cases that the basis learned last fits; return those that are left."""
        return self._apply(self._regions[-1], left, sides.take(left), costs, duals)[0]

    def _apply(
        self,
        region: Region,
        left: np.ndarray,
        sides: CaseSides,
        costs: np.ndarray,
        duals: RowDuals | None,
    ) -> tuple[np.ndarray, CaseSides]:
        """Answer the cases ``left`` that a basis fits; return those that are left, and sides."""
        if not len(left):
            return left, sides
        fits, answers = region.fits(sides)
        found = np.flatnonzero(fits)
        if not len(found):
            return left, sides
        self._note(region, left[found], sides, found, answers[found], costs, duals)
        others = np.flatnonzero(~fits)
        return left[others], sides.take(others)

    def _try_all(
        self,
        left: np.ndarray,
        sides: CaseSides,
        costs: np.ndarray,
        duals: RowDuals | None,
    ) -> np.ndarray:
        """Try all bases at once on the cases ``left``; return those that are left."""
        if self._stack is None:
            self._stack = _Stack(self._regions)
        chosen, answers = self._stack.choose(sides)
        for number in sorted(set(chosen.tolist()) - {-1}):
            found, region = np.flatnonzero(chosen == number), self._regions[number]
            self._note(region, left[found], sides, found, answers[found], costs, duals)
        return left[chosen < 0]

    def _can_stack(self, cases: int) -> bool:
        """Whether all bases on so many cases at once take little time."""
        rows = len(self._regions) * (self._layout.rows + 1)
        return rows * max(cases, self._layout.rows) <= _MAX_STACKED_NUMBERS

    def _note(
        self,
        region: Region,
        cases: np.ndarray,
        sides: CaseSides,
        found: np.ndarray,
        answers: np.ndarray,
        costs: np.ndarray,
        duals: RowDuals | None,
    ) -> None:
        """Write down the answers that a basis gives to cases; ``found`` are theirs in the sides."""
        costs[cases] = answers
        if duals is not None:
            duals.set_from_basis(region, cases, sides.take(found))
        region.basis.hits += len(cases)
        self._stats.cache_hits += len(cases)
        self._budget.save(len(cases))

    def learn(
        self, highs: Any, arrays: Arrays, entries: np.ndarray, cost: np.ndarray
    ) -> Basis | None:
        """Keep and return the basis that HiGHS just found; None if it is singular, or known.

        HiGHS may hold the program ``arrays`` in other units: the basis is the same.
        """
        self._budget.spend()
        basics, columns = basic_variables(highs), self._layout.columns
        is_basic = np.zeros(columns + self._layout.rows, bool)
        is_basic[np.where(basics < 0, columns - 1 - basics, basics)] = True
        basic, nonbasic = np.flatnonzero(is_basic), np.flatnonzero(~is_basic)
        if self._matrix is None:  # the same in every case, or no basis would be kept
            self._matrix, self._units = self._matrix_in_units(arrays, entries)
        matrix = self._matrix
        response = _solve_accurately(matrix[:, basic], -matrix[:, nonbasic])
        if response is None:
            return None
        costs = np.concatenate([cost[self._layout.n1 :], np.zeros(self._layout.rows)])
        costs *= self._units
        reduced_cost = costs[nonbasic] + costs[basic] @ response
        terms = np.abs(costs[nonbasic]) + np.abs(costs[basic]) @ np.abs(response)
        at_upper = reduced_cost < 0
        free = np.abs(reduced_cost) <= _ZERO_REDUCED_COST * terms.max(initial=0.0)
        response *= self._units[basic][:, None] / self._units[nonbasic]
        reduced_cost /= self._units[nonbasic]
        if free.any():
            # Without a reduced cost, only HiGHS knows which bound a place is at.
            found = highs.getBasis()
            states = [*found.col_status, *found.row_status]
            upper = highspy.HighsBasisStatus.kUpper
            at_upper[free] = [states[place] == upper for place in nonbasic[free]]
        key = basic.tobytes() + at_upper.tobytes()
        if key in self._keys:  # it misses a bound by rounding
            return None
        self._keys.add(key)
        learned = Basis(basic, nonbasic, at_upper, response, reduced_cost)
        self._regions.append(Region(learned, *self._bounds))
        self._stack = None
        return learned

    def _matrix_in_units(
        self, arrays: Arrays, entries: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrix of columns and slacks in natural units, and the units.

        In the model's own units a dense solve may lose all digits. Units are powers of two.
        """
        sizes = self._checker.typical_units(arrays, np.zeros(0))
        rows, columns = (nearest_power_of_two(size) for size in sizes)
        if np.ptp(np.log2(np.concatenate([rows, columns]))) < np.log2(_WILD):
            rows, columns = np.ones(len(rows)), np.ones(len(columns))
        matrix = self._layout.matrix(entries) * columns / rows[:, None]
        slacks = -np.eye(self._layout.rows)
        return np.hstack([matrix, slacks]), np.concatenate([columns, rows])


def _solve_accurately(matrix: np.ndarray, sides: np.ndarray) -> np.ndarray | None:
    """Return the solution of a linear system; None if rounding may have spoiled it."""
    count = sides.shape[1]
    try:
        both = np.linalg.solve(matrix, np.hstack([sides, np.eye(len(matrix))]))
    except np.linalg.LinAlgError:
        return None
    found, inverse = both[:, :count], both[:, count:]
    sizes, eps = np.abs(found), float(np.finfo(float).eps)
    # Errors beside the sums that they are rounding of, in the least favorable direction.
    terms = np.abs(matrix) @ sizes + np.abs(sides)
    error = eps * (np.abs(inverse) @ terms)
    largest = sizes.max(axis=0, initial=0.0)
    # Also where something is not a number.
    if not (error <= _MOST_ERROR * np.maximum(1.0, largest)).all():
        return None
    # What is rounding of zero would move a basic value off a bound that it is at.
    rounding = len(matrix) * error + 4 * eps * largest
    return np.where(sizes <= rounding, 0.0, found)


def _finite(values: np.ndarray) -> np.ndarray:
    """Return the values with zeros in the place of infinities."""
    return np.where(np.isfinite(values), values, 0.0)
