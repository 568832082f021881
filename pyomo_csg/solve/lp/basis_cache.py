"""Optimal bases of a linear program, tried on many right-hand sides at once.

"Places" are the columns, then the rows, of the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_FEASIBILITY = 1e-9  # HiGHS's feasibility tolerance
_ROUNDING = 1e-12  # of the absolute terms of a basic value


@dataclass(eq=False)
class Basis:
    """An optimal basis, and how its basic places depend on the nonbasic ones.

    Attributes
    ----------
    basic, nonbasic : array of int
        Places.
    at_upper : array (nonbasic,) of bool
        Whether a nonbasic place is at its upper bound, by the sign of its reduced cost: where
        two bounds coincide, a solver may report either.
    response : array (basic, nonbasic)
    reduced_cost : array (nonbasic,)
    hits : int
        How many cases it has answered.
    block : int
        Which block of a decomposed recourse it belongs to.
    """

    basic: np.ndarray
    nonbasic: np.ndarray
    at_upper: np.ndarray
    response: np.ndarray
    reduced_cost: np.ndarray
    hits: int = 0
    block: int = 0

    def basic_values(self, fixed: np.ndarray, varying: np.ndarray) -> np.ndarray:
        """Return the basic values (basic, cases) at nonbasic values."""
        values = self.response[:, len(fixed) :] @ varying
        values += (self.response[:, : len(fixed)] @ fixed)[:, None]
        return np.asarray(values)

    def rounding(
        self, fixed: np.ndarray, sizes: np.ndarray, own: np.ndarray
    ) -> np.ndarray:
        """Return the allowed violation of basic bounds (basic, cases).

        ``sizes`` (nonbasic, cases) are those of the terms that varying bounds consist of,
        ``own`` (basic, cases) those of the basic bounds.
        """
        # Relative to the terms: in small units, an absolute tolerance would be large.
        terms = own + np.abs(self.response[:, len(fixed) :]) @ sizes
        terms += (np.abs(self.response[:, : len(fixed)]) @ np.abs(fixed))[:, None]
        return np.asarray(np.minimum(_FEASIBILITY, _ROUNDING * terms))


class CaseBounds:
    """Lower and upper bounds of the places for many cases.

    Parameters
    ----------
    fixed : tuple of arrays (places,)
        Bounds of the first places, where all cases share them.
    varying : tuple of arrays (places, cases)
        Bounds of the other places.
    shift : array (rows, cases)
        What was subtracted from the bounds of the last places, the rows.
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


def _is_ordered(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return where no lower bound exceeds the upper by more than a solver would allow."""
    size = 1 + np.minimum(np.abs(lower), np.abs(upper))
    return np.asarray(lower - upper <= _FEASIBILITY * size)


def _finite(values: np.ndarray) -> np.ndarray:
    """Return the values with zeros in the place of infinities."""
    return np.where(np.isfinite(values), values, 0.0)
