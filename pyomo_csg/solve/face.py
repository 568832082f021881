"""The optimal face of a linear program: all its optima, held by their duals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyomo_csg.solve.assembly import Program


def is_unique(duals: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Say where (...) every nonbasic place has a dual, so that the optimum is unique.

    There are as many nonbasic places as columns, and a basic one has none.
    """
    columns, rows = duals
    nonzero = np.count_nonzero(columns, axis=-1) + np.count_nonzero(rows, axis=-1)
    return np.asarray(nonzero == columns.shape[-1])


def on_face(program: Program, duals: tuple[np.ndarray, np.ndarray]) -> Program:
    """Hold those of the first columns and rows that have a dual at their bounds.

    Parameters
    ----------
    program : Arrays or Stack
        One or more, whose first columns and rows are those of zeta-SAA.
    duals : tuple of arrays (..., columns), (..., rows)
        zeta-SAA's, as a :class:`~pyomo_csg.solve.checking.Verdict` has them: a positive
        one holds a place at its lower side, a negative one at its upper.
    """
    columns = _held(program.column_lower, program.column_upper, duals[0])
    rows = _held(program.row_lower, program.row_upper, duals[1])
    return replace(
        program,
        column_lower=columns[0],
        column_upper=columns[1],
        row_lower=rows[0],
        row_upper=rows[1],
    )


def _held(
    lower: np.ndarray, upper: np.ndarray, dual: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    held = dual.shape[-1]
    shape = (*dual.shape[:-1], lower.shape[-1])
    new_lower, new_upper = (np.array(np.broadcast_to(s, shape)) for s in (lower, upper))
    lower, upper = lower[..., :held], upper[..., :held]
    np.copyto(new_upper[..., :held], lower, where=dual > 0)
    np.copyto(new_lower[..., :held], upper, where=dual < 0)
    return new_lower, new_upper
