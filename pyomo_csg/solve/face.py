"""The optimal face of a linear program: all its optima, held by their duals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyomo_csg.solve.assembly import Arrays


def on_face(
    arrays: Arrays, duals: tuple[np.ndarray, np.ndarray], least: float
) -> Arrays:
    """Hold those of the first columns and rows that have a dual at their bounds.

    Parameters
    ----------
    arrays : Arrays
        A program whose first columns and rows are those of zeta-SAA.
    duals : tuple of arrays
        zeta-SAA's, of columns and of rows: a positive one holds a place at its lower
        side, a negative one at its upper.
    least : float
        How large a dual must be to differ from zero.
    """
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
