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
_MAX_NUMBERS = 8_000_000  # in all bases: 64 MB
_MAX_SHARED_NUMBERS = 1_000_000  # in the bases that engines hand to each other
_ZERO_REDUCED_COST = 1e-12  # relative to the largest terms: rounding
# Ratio of units up to which the model's units are kept: others would only change the rounding.
_WILD = 1e4
_MOST_ERROR = 1e-9  # of a response in natural units: the precision of all costs
_FEASIBILITY = 1e-9  # HiGHS's feasibility tolerance
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

    def basic_values(self, fixed: np.ndarray, varying: np.ndarray) -> np.ndarray:
        """Return the basic values (basic, cases) at nonbasic values."""
        values = self.response[:, len(fixed) :] @ varying
        values += (self.response[:, : len(fixed)] @ fixed)[:, None]
        return np.asarray(values)

    def rounding(
        self, fixed: np.ndarray, sizes: np.ndarray, basic_sizes: np.ndarray
    ) -> np.ndarray:
        """Return the allowed violation of basic bounds (basic, cases).

        ``sizes`` (nonbasic, cases) are those of the terms that varying bounds consist of,
        ``basic_sizes`` (basic, cases) those of the basic bounds.
        """
        # Relative to the terms: in small units, an absolute tolerance would be large.
        terms = basic_sizes + np.abs(self.response[:, len(fixed) :]) @ sizes
        terms += (np.abs(self.response[:, : len(fixed)]) @ np.abs(fixed))[:, None]
        return np.asarray(np.minimum(_FEASIBILITY, _ROUNDING * terms))


class CaseBounds:
    """Lower and upper bounds of the places for many cases.

    ``fixed`` (places,) are those of the first places, where all cases share them, and
    ``varying`` (places, cases) those of the others. ``shift`` (rows, cases) was subtracted from
    the bounds of the last places, the rows.
    """

    def __init__(
        self,
        fixed: tuple[np.ndarray, np.ndarray],
        varying: tuple[np.ndarray, np.ndarray],
        shift: np.ndarray,
    ):
        self._shift = shift
        self._count = len(fixed[0])
        self._bounds = fixed, varying
        self._sometimes_finite = [
            np.concatenate([np.isfinite(f), np.isfinite(v).any(axis=1)])
            for f, v in zip(fixed, varying, strict=True)
        ]
        self._always_finite = [
            np.concatenate([np.isfinite(f), np.isfinite(v).all(axis=1)])
            for f, v in zip(fixed, varying, strict=True)
        ]

    def are_ordered(self) -> np.ndarray:
        """Return for which cases (n,) no lower bound exceeds its upper bound."""
        (low, high), (lower, upper) = self._bounds
        below, above = self._sometimes_finite
        both = (below & above)[self._count :]
        ordered = _is_ordered(lower[both], upper[both]).all(axis=0)
        return np.asarray(ordered & _is_ordered(low, high).all())

    def try_basis(
        self, basis: Basis, cases: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return for which of the cases the basis is feasible, and the costs of those."""
        fixed, varying = self._nonbasic_values(basis, cases)
        fits = np.ones(len(cases), bool)
        if not self._has_finite_bounds(basis):
            fits &= np.isfinite(varying).all(axis=0) & np.isfinite(fixed).all()
            fixed, varying = _finite(fixed), _finite(varying)
        if fits.any():
            values = basis.basic_values(fixed, varying)
            violation = self._violation(basis, cases, values)
            # The rounding of each case's terms is computed only where a bound is violated.
            doubtful = np.flatnonzero(
                fits & (violation > 0) & (violation <= _FEASIBILITY)
            )
            fits &= violation <= 0
            if len(doubtful):
                shift = self._shift[:, cases[doubtful]]
                places = basis.nonbasic[len(fixed) :]
                sizes = np.abs(varying[:, doubtful]) + self._sizes(places, shift)
                slack = basis.rounding(fixed, sizes, self._sizes(basis.basic, shift))
                violation = self._violation(
                    basis, cases[doubtful], values[:, doubtful], slack
                )
                fits[doubtful] = violation <= 0
        cost, first = basis.reduced_cost, len(fixed)
        return fits, (cost[first:] @ varying)[fits] + cost[:first] @ fixed

    def _sizes(self, places: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Return the sizes of the terms of which rows' bounds (places, cases) are differences.

        A bound of zero that is a difference of large numbers has their rounding.
        """
        rows = places - self._count - len(self._bounds[1][0]) + len(shift)
        # The bound before it was shifted is as large as the shift.
        return np.where(
            (rows >= 0)[:, None], 2 * np.abs(shift[np.maximum(rows, 0)]), 0.0
        )

    def _violation(
        self, basis: Basis, cases: np.ndarray, values: np.ndarray, slack: Any = None
    ) -> np.ndarray:
        """Return the largest violation (cases,) of a basic bound, beyond a slack."""
        worst = np.full(len(cases), -np.inf)
        for i, (row, place) in enumerate(zip(values, basis.basic, strict=True)):
            allowed = 0.0 if slack is None else slack[i]
            if self._sometimes_finite[0][place]:
                below = self._bound(0, place, cases) - row
                np.maximum(worst, below - allowed, out=worst)
            if self._sometimes_finite[1][place]:
                above = row - self._bound(1, place, cases)
                np.maximum(worst, above - allowed, out=worst)
        return worst

    def are_nondegenerate(self, basis: Basis, cases: np.ndarray) -> np.ndarray:
        """Return for which cases, of those a basis fits, no basic place is at a bound."""
        inside = np.ones(len(cases), bool)
        values = basis.basic_values(*self._nonbasic_values(basis, cases))
        for row, place in zip(values, basis.basic, strict=True):
            slack = 2 * _FEASIBILITY * (1 + np.abs(row))
            for which, sign in ((0, 1), (1, -1)):
                if self._sometimes_finite[which][place]:
                    inside &= sign * (row - self._bound(which, place, cases)) > slack
        return inside

    def _nonbasic_values(
        self, basis: Basis, cases: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds at which the nonbasic places are: shared ones, varying ones."""
        first = int(np.searchsorted(basis.nonbasic, self._count))
        (low, high), (lower, upper) = self._bounds
        places = basis.nonbasic[:first]
        fixed = np.where(basis.at_upper[:first], high[places], low[places])
        places, at_upper = basis.nonbasic[first:], basis.at_upper[first:]
        varying = np.empty((len(places), len(cases)))
        for row, (place, up) in enumerate(zip(places, at_upper, strict=True)):
            bound = (upper if up else lower)[place - self._count]
            if len(cases) == len(bound):
                varying[row] = bound
            else:
                np.take(bound, cases, out=varying[row], mode="clip")  # unbuffered
        return fixed, varying

    def _has_finite_bounds(self, basis: Basis) -> bool:
        """Whether every nonbasic place is at a bound that is finite in all cases."""
        lower, upper = (finite[basis.nonbasic] for finite in self._always_finite)
        return bool(np.where(basis.at_upper, upper, lower).all())

    def _bound(self, which: int, place: int, cases: np.ndarray) -> Any:
        if place < self._count:
            return self._bounds[0][which][place]
        bound = self._bounds[1][which][place - self._count]
        return bound if len(cases) == len(bound) else bound.take(cases, mode="clip")


class CacheBudget:
    """Decides whether another basis is worth learning, by what bases have saved so far.

    Times are estimated from sizes, since measured ones would make answers depend, in their
    last bits, on how busy the machine is.
    """

    _TRIAL = 20_000.0  # microseconds to spend before any saving

    def __init__(self, rows: int, columns: int):
        self._numbers = rows * columns  # in one basis
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

    def read(self, case: int, program: HighsProgram) -> None:
        """Read them from a linear program just solved."""
        z, _, self.rows[case] = program.solution()
        if self.smooth[case]:
            self.smooth[case] = not is_degenerate(program.highs, z, program.arrays)

    def set_from_basis(
        self, basis: Basis, cases: np.ndarray, bounds: CaseBounds
    ) -> None:
        """Read them from a basis that fits the cases."""
        columns = len(basis.basic) + len(basis.nonbasic) - self.rows.shape[1]
        is_row = basis.nonbasic >= columns
        row = np.zeros(self.rows.shape[1])
        row[basis.nonbasic[is_row] - columns] = basis.reduced_cost[is_row]
        self.rows[cases] = row
        if self.smooth[cases].any():
            self.smooth[cases] &= bounds.are_nondegenerate(basis, cases)


class BasisCache:
    """The bases of one recourse that were optimal once; each is optimal wherever it is feasible.

    Matrix and costs must be certain. Only bases that fit into the budget are learned.
    """

    def __init__(
        self,
        layout: RecourseLayout,
        checker: CertificateChecker,
        known: Iterable[Basis],
        stats: Stats,
    ):
        self._layout, self._checker, self._stats = layout, checker, stats
        self._bases = [replace(basis) for basis in known]  # copies: hits are counted
        self._budget = CacheBudget(layout.rows, layout.columns)
        self._matrix: np.ndarray | None = None

    def most_used(self) -> tuple[Basis, ...]:
        """Return the bases with most hits, up to a total size."""
        bases = self._by_hits()
        numbers = np.cumsum([basis.response.size for basis in bases], dtype=int)
        count = int(np.searchsorted(numbers, _MAX_SHARED_NUMBERS, "right"))
        return tuple(bases[:count])

    def _by_hits(self) -> list[Basis]:
        return sorted(self._bases, key=lambda basis: -basis.hits)

    def can_learn(self) -> bool:
        """Whether the budget allows for one more basis."""
        return self._budget.can_learn(len(self._bases))

    def try_bases(
        self,
        left: np.ndarray,
        bounds: CaseBounds,
        costs: np.ndarray,
        duals: RowDuals | None,
    ) -> tuple[np.ndarray, bool]:
        """Try the known bases, those with most hits first.

        Return the cases still without an answer, and whether all bases were tried, so that new
        ones are worth learning.
        """
        bases = self._by_hits()
        for tried, basis in enumerate(bases):
            # Solving a few cases is faster than trying many bases on them.
            if 4 * len(left) < 3 * (len(bases) - tried):
                return left, False
            left = self.apply(basis, left, bounds, costs, duals)
        return left, True

    def apply(
        self,
        basis: Basis,
        left: np.ndarray,
        bounds: CaseBounds,
        costs: np.ndarray,
        duals: RowDuals | None,
    ) -> np.ndarray:
        """Answer the cases that the basis fits; return those that are left."""
        if not len(left):
            return left
        fits, answers = bounds.try_basis(basis, left)
        costs[left[fits]] = answers
        if duals is not None and fits.any():
            duals.set_from_basis(basis, left[fits], bounds)
        hits = int(fits.sum())
        basis.hits += hits
        self._stats.cache_hits += hits
        self._budget.save(hits)
        return left[~fits]

    def learn(
        self, highs: Any, arrays: Arrays, entries: np.ndarray, cost: np.ndarray
    ) -> Basis | None:
        """Keep and return the basis that HiGHS just found; None if its matrix is singular.

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
        learned = Basis(basic, nonbasic, at_upper, response, reduced_cost)
        self._bases.append(learned)
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
    try:
        found, inverse = np.linalg.solve(matrix, sides), np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    # Errors beside the sums that they are rounding of, in the least favorable direction.
    terms = np.abs(matrix) @ np.abs(found) + np.abs(sides)
    error = np.finfo(float).eps * (np.abs(inverse) @ terms)
    size = np.maximum(1.0, np.abs(found).max(axis=0, initial=0.0))
    if not (error <= _MOST_ERROR * size).all():  # also where something is not a number
        return None
    return np.asarray(found)


def _is_ordered(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return where no lower bound exceeds the upper by more than a solver would allow."""
    size = 1 + np.minimum(np.abs(lower), np.abs(upper))
    return np.asarray(lower - upper <= _FEASIBILITY * size)


def _finite(values: np.ndarray) -> np.ndarray:
    """Return the values with zeros in the place of infinities."""
    return np.where(np.isfinite(values), values, 0.0)
