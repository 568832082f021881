"""Optimal bases of a linear program, tried on many right-hand sides at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_FEASIBILITY = 1e-9
_ROUNDING = 1e-12  # of the largest terms that a place is a sum of


class Sides:
    """Lower and upper sides of the places (columns, then rows) for many cases.

    Parameters
    ----------
    still : tuple of arrays (places,)
        Sides of the first places, where they are the same for all cases.
    moving : tuple of arrays (places, cases)
        Sides of the others. Picking places is picking rows of these.
    """

    def __init__(
        self,
        still: tuple[np.ndarray, np.ndarray],
        moving: tuple[np.ndarray, np.ndarray],
    ):
        self._still = len(still[0])
        self._bounds = still, moving
        self._finite = [
            np.concatenate([np.isfinite(s), np.isfinite(m).any(axis=1)])
            for s, m in zip(still, moving, strict=True)
        ]
        self._always = [
            np.concatenate([np.isfinite(s), np.isfinite(m).all(axis=1)])
            for s, m in zip(still, moving, strict=True)
        ]

    def in_order(self) -> np.ndarray:
        """Say for which cases (n,) no lower side is above its upper one."""
        (low, high), (lower, upper) = self._bounds
        return np.asarray(
            _ordered(lower, upper).all(axis=0) & _ordered(low, high).all()
        )

    def answer(self, basis: Basis, cases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Say which of the cases the basis fits, and what those cost."""
        still, values, first = self._nonbasic(basis, cases)
        fits = np.ones(len(cases), bool)
        if not self._all_finite(basis):
            fits &= np.isfinite(values).all(axis=0) & np.isfinite(still).all()
            still, values = np.nan_to_num(still), np.nan_to_num(values)
        if fits.any():
            moved, slack = _moved(basis, still, values), _slack(basis, still, values)
            self._admit(basis, moved, slack, cases, fits)
        costs = (basis.price[first:] @ values)[fits] + basis.price[:first] @ still
        return fits, costs

    def inside(self, basis: Basis, cases: np.ndarray) -> np.ndarray:
        """Say in which of the cases that a basis fits no basic place is at a side."""
        still, values, _ = self._nonbasic(basis, cases)
        inside = np.ones(len(cases), bool)
        for row, place in zip(_moved(basis, still, values), basis.basic, strict=True):
            slack = 2 * _FEASIBILITY * (1 + np.abs(row))
            for which, sign in ((0, 1), (1, -1)):
                if self._finite[which][place]:
                    inside &= sign * (row - self._side(which, place, cases)) > slack
        return inside

    def _nonbasic(
        self, basis: Basis, cases: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the sides that the nonbasic places stand at: still, moving, how many."""
        first = int(np.searchsorted(basis.nonbasic, self._still))
        lower, upper = self._bounds[0]
        places = basis.nonbasic[:first]
        still = np.where(basis.at_upper[:first], upper[places], lower[places])
        values = self._values(basis.nonbasic[first:], basis.at_upper[first:], cases)
        return still, values, first

    def _all_finite(self, basis: Basis) -> bool:
        """Whether every nonbasic place stands at a side that all cases have."""
        lower, upper = (always[basis.nonbasic] for always in self._always)
        return bool(np.where(basis.at_upper, upper, lower).all())

    def _values(
        self, places: np.ndarray, at_upper: np.ndarray, cases: np.ndarray
    ) -> np.ndarray:
        lower, upper = self._bounds[1]
        values = np.empty((len(places), len(cases)))
        for row, (place, up) in enumerate(zip(places, at_upper, strict=True)):
            side = (upper if up else lower)[place - self._still]
            if len(cases) == len(side):
                values[row] = side
            else:
                np.take(side, cases, out=values[row], mode="clip")  # unbuffered
        return values

    def _admit(
        self,
        basis: Basis,
        moved: np.ndarray,
        slack: np.ndarray,
        cases: np.ndarray,
        fits: np.ndarray,
    ) -> None:
        """Keep the cases in which the basic places stay within their sides."""
        for row, place, free in zip(moved, basis.basic, slack, strict=True):
            if self._finite[0][place]:
                fits &= row >= self._side(0, place, cases) - free
            if self._finite[1][place]:
                fits &= row <= self._side(1, place, cases) + free

    def _side(self, which: int, place: int, cases: np.ndarray) -> Any:
        if place < self._still:
            return self._bounds[0][which][place]
        side = self._bounds[1][which][place - self._still]
        return side if len(cases) == len(side) else side.take(cases, mode="clip")


def _moved(basis: Basis, still: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return where the basic places go (basic, cases)."""
    moved = basis.response[:, len(still) :] @ values
    moved += (basis.response[:, : len(still)] @ still)[:, None]
    return np.asarray(moved)


def _slack(basis: Basis, still: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return by how much basic places (basic,) may miss their sides, for rounding.

    Not by an absolute tolerance: in small units that would be much.
    """
    largest = np.abs(values).max(axis=1, initial=0.0)
    terms = np.abs(basis.response) @ np.concatenate([np.abs(still), largest])
    return np.asarray(np.minimum(_FEASIBILITY, _ROUNDING * terms))


def _ordered(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Say where no lower side is above the upper, but for what a solver lets pass."""
    size = 1 + np.minimum(np.abs(lower), np.abs(upper))
    return np.asarray(lower - upper <= _FEASIBILITY * size)


@dataclass(eq=False)
class Basis:
    """An optimal basis: which of the columns and rows move, and how with the others.

    Attributes
    ----------
    basic, nonbasic : array of int
        Places among the columns, then the rows.
    at_upper : array (nonbasic,) of bool
        Whether a nonbasic place stands at its upper side: by the sign of its price,
        since where two sides coincide a solver may name either.
    response : array (basic, nonbasic)
    price : array (nonbasic,)
        What a unit of each nonbasic place costs.
    """

    basic: np.ndarray
    nonbasic: np.ndarray
    at_upper: np.ndarray
    response: np.ndarray
    price: np.ndarray
    hits: int = 0
