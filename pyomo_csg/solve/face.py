"""The optimal face of a linear program: all its optima, held by their duals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyomo_csg.solve.assembly import Arrays

# Relative to the largest cost, which every program that gives duals brings to 1 or up to
# twice that: what HiGHS itself takes for zero, far above its rounding. A dual
# taken for zero shows, as a point that is no optimum; a zero taken for a dual would not,
# so that the tolerance must not be smaller than the solver's.
_DUAL = 1e-9


def least_dual(cost: np.ndarray) -> np.ndarray:
    """Return how large a dual must be to differ from zero, for costs (..., columns)."""
    return np.asarray(_DUAL * np.abs(cost).max(axis=-1, initial=0.0))


def is_unique(
    cost: np.ndarray, column_dual: np.ndarray, row_dual: np.ndarray
) -> np.ndarray:
    """Say where (...) every nonbasic place has a dual, so that the optimum is unique.

    There are as many nonbasic places as columns, and a basic one has none.
    """
    least = least_dual(cost)[..., None]
    nonzero = np.count_nonzero(np.abs(column_dual) > least, axis=-1)
    nonzero += np.count_nonzero(np.abs(row_dual) > least, axis=-1)
    return np.asarray(nonzero == column_dual.shape[-1])


def on_face(
    arrays: Arrays, duals: tuple[np.ndarray, np.ndarray], cost: np.ndarray
) -> Arrays:
    """Hold those of the first columns and rows that have a dual at their bounds.

    Parameters
    ----------
    arrays : Arrays
        A program whose first columns and rows are those of zeta-SAA.
    duals : tuple of arrays
        zeta-SAA's, of columns and of rows: a positive one holds a place at its lower
        side, a negative one at its upper.
    cost : array (columns of zeta-SAA,)
    """
    least = float(least_dual(cost))
    lower, upper = _held(arrays.column_lower, arrays.column_upper, duals[0], least)
    row_lower, row_upper = _held(arrays.row_lower, arrays.row_upper, duals[1], least)
    return replace(
        arrays,
        column_lower=lower,
        column_upper=upper,
        row_lower=row_lower,
        row_upper=row_upper,
    )


def _held(
    lower: np.ndarray, upper: np.ndarray, dual: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray]:
    lower, upper = lower.copy(), upper.copy()
    at_lower, at_upper = np.flatnonzero(dual > least), np.flatnonzero(dual < -least)
    upper[at_lower] = lower[at_lower]
    lower[at_upper] = upper[at_upper]
    return lower, upper
