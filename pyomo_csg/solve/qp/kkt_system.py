"""The KKT system of an active set: factored once, solved by refinement."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from pyomo.common.dependencies import attempt_import

from pyomo_csg.solve.qp.quadratic_program import (
    ActiveSet,
    KktPoint,
    Matrix,
    QuadraticProgram,
    submatrix,
)

# On first use: linear programs do without.
sparse, _ = attempt_import("scipy.sparse")
dense_algebra, _ = attempt_import("scipy.linalg")
sparse_algebra, _ = attempt_import("scipy.sparse.linalg")

_REGULARIZATION = 1e-9  # refinement removes its effect
_TINY_REGULARIZATION = 1e-12
_REFINEMENTS = 12
_EXACT = 1e-16
# The share of a unit vector in the null space above which a column is not determined.
_UNDETERMINED = 1e-7


def factor(
    hessian: Matrix, matrix: Matrix, regularization: float = _REGULARIZATION
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a function that solves [[H, -A'], [A, 0]] s = r; None if that is singular.

    The diagonal is regularized, so that redundant rows and flat directions do no harm.
    """
    n, m = hessian.shape[0], matrix.shape[0]
    if n + m == 0:
        return lambda r: r
    if isinstance(hessian, np.ndarray):
        system = np.zeros((n + m, n + m))
        system[:n, :n], system[:n, n:], system[n:, :n] = hessian, -matrix.T, matrix
        system[np.diag_indices(n + m)] += regularization
        lu, pivots, info = dense_algebra.lapack.dgetrf(system)
        return None if info else lambda r: dense_algebra.lapack.dgetrs(lu, pivots, r)[0]
    blocks = [[hessian, -matrix.T], [matrix, None]]
    diagonal = regularization * sparse.eye_array(n + m)
    try:
        found = sparse_algebra.splu(
            sparse.csc_array(sparse.block_array(blocks) + diagonal)
        )
    except RuntimeError:  # exactly singular
        return None
    return lambda r: np.asarray(found.solve(r))


def solve_on_active_set(
    program: QuadraticProgram, start: KktPoint, columns: np.ndarray, rows: np.ndarray
) -> KktPoint | None:
    """Return the point that is stationary with these columns and rows at their bounds."""
    bounds = np.where(columns < 0, program.column_lower, program.column_upper)
    x = np.where(columns != 0, bounds, start.x)
    free, active = np.flatnonzero(columns == 0), np.flatnonzero(rows)
    side = np.where(rows < 0, program.row_lower, program.row_upper)[active]
    everything = np.arange(len(x))
    matrix = submatrix(program.matrix, active, free)
    held = submatrix(program.matrix, active, everything)
    dual = start.row_dual[active].copy()
    solve = factor(submatrix(program.hessian, free, free), matrix)
    if solve is None:
        return None
    best, least = (x.copy(), dual.copy()), np.inf
    for _ in range(_REFINEMENTS):
        gradient = (program.hessian @ x + program.cost)[free] - matrix.T @ dual
        residual = np.concatenate([gradient, held @ x - side])
        size = float(np.abs(residual).max(initial=0.0))
        if size < least:
            best, least = (x.copy(), dual.copy()), size
        if size < _EXACT or not np.isfinite(size):
            break
        step = solve(residual)
        x[free] -= step[: len(free)]
        dual -= step[len(free) :]
    row_dual = np.zeros(len(program.row_lower))
    row_dual[active] = best[1]
    column_dual = program.hessian @ best[0] + program.cost - program.matrix.T @ row_dual
    return KktPoint(best[0], row_dual, column_dual)


def adjoint(
    program: QuadraticProgram, active: ActiveSet, slope: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return u and v with Hu + A'v = slope on free columns and Au = 0 on active rows.

    They give how ``slope @ x`` changes with the program's data; zero where a column is at a
    bound or a row is not. None if the system is singular.
    """
    free, rows = np.flatnonzero(active.columns == 0), np.flatnonzero(active.rows)
    hessian = submatrix(program.hessian, free, free)
    matrix = submatrix(program.matrix, rows, free)
    solve = factor(hessian, matrix)
    if solve is None:
        return None
    target = np.concatenate([slope[free], np.zeros(len(rows))])
    found = np.zeros(len(target))
    for _ in range(_REFINEMENTS):
        u, w = found[: len(free)], found[len(free) :]
        residual = target - np.concatenate([hessian @ u - matrix.T @ w, matrix @ u])
        if np.abs(residual).max(initial=0.0) <= _EXACT * np.abs(slope).max(initial=0.0):
            break
        found = found + solve(residual)
    u, v = np.zeros(len(program.cost)), np.zeros(len(program.row_lower))
    u[free], v[rows] = found[: len(free)], -found[len(free) :]
    return u, v


def are_determined(program: QuadraticProgram, active: ActiveSet, count: int) -> bool:
    """Whether the first columns, ``count`` of them, are the same at every optimum.

    Optima differ by directions in the null space of H and of the rows that must be active.
    """
    free = np.flatnonzero(~active.strong_columns)
    rows = np.flatnonzero(active.strong_rows)
    sought = np.flatnonzero(free < count)
    if not len(sought):
        return True
    hessian = submatrix(program.hessian, free, free)
    matrix = submatrix(program.matrix, rows, free)
    solve = factor(hessian, matrix, _TINY_REGULARIZATION)
    if solve is None:
        return False
    units = np.zeros((len(free) + len(rows), len(sought)))
    units[sought, np.arange(len(sought))] = 1.0
    share = _TINY_REGULARIZATION * solve(units)[sought, np.arange(len(sought))]
    return bool((np.abs(share) < _UNDETERMINED).all())
