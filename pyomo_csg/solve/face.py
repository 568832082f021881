"""The optimal face of a linear program: all its optima, held by their duals."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from pyomo_csg.solve.assembly import Arrays, Stack

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


Program = TypeVar("Program", Arrays, Stack)


def on_face(
    program: Program, duals: tuple[np.ndarray, np.ndarray], cost: np.ndarray
) -> Program:
    """Hold those of the first columns and rows that have a dual at their bounds.

    Parameters
    ----------
    program : Arrays or Stack
        One or more, whose first columns and rows are those of zeta-SAA.
    duals : tuple of arrays (..., columns), (..., rows)
        zeta-SAA's: a positive one holds a place at its lower side, a negative one at
        its upper.
    cost : array (..., columns)
        zeta-SAA's.
    """
    least = least_dual(cost)[..., None]
    columns = _held(program.column_lower, program.column_upper, duals[0], least)
    rows = _held(program.row_lower, program.row_upper, duals[1], least)
    return replace(
        program,
        column_lower=columns[0],
        column_upper=columns[1],
        row_lower=rows[0],
        row_upper=rows[1],
    )


def _held(
    lower: np.ndarray, upper: np.ndarray, dual: np.ndarray, least: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    held = dual.shape[-1]
    shape = (*dual.shape[:-1], lower.shape[-1])
    new_lower, new_upper = (np.array(np.broadcast_to(s, shape)) for s in (lower, upper))
    lower, upper = lower[..., :held], upper[..., :held]
    np.copyto(new_upper[..., :held], lower, where=dual > least)
    np.copyto(new_lower[..., :held], upper, where=dual < -least)
    return new_lower, new_upper
