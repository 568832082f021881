"""The KKT system of an active set, from a point near an optimum to the optimum itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyomo.common.dependencies import attempt_import

from pyomo_csg.solve.qp.kkt_conditions import ActiveSet, KktPoint, size_terms
from pyomo_csg.solve.qp.quadratic_program import (
    Matrix,
    QuadraticProgram,
    rescale,
    submatrix,
)

# On first use: linear programs do without.
sparse, _ = attempt_import("scipy.sparse")
dense_algebra, _ = attempt_import("scipy.linalg")
sparse_algebra, _ = attempt_import("scipy.sparse.linalg")

_REGULARIZATION = 1e-9  # refinement removes its effect
_TINY_REGULARIZATION = 1e-12  # small enough to tell the null space from the rest
_REFINEMENTS = 12  # at most
_EXACT = 1e-16  # residual relative to the terms of its equation
_SWEEPS = 5  # of equilibration
# The share of a unit vector in the null space above which a column is not determined.
_UNDETERMINED = 1e-7

# How large a multiplier is, beside its slack, of a bound that counts as active. Near an optimum
# both are small where an active bound has no multiplier, and it has to be held all the same.
_ACTIVE_SHARES = (1e-5, 1.0)
_CORRECTIONS = 4  # of each active set, at most
_WRONG_SIDE = 1e-11  # relative to terms: violations and multipliers beyond rounding
_SOLVED = 1e-12  # largest residual of a KKT system, relative to terms
_FLOOR = 1e-6  # terms smaller than this share of the first point's count as noise

Floors = tuple[Any, Any]


def factor(
    hessian: Matrix,
    matrix: Matrix,
    regularization: float = _REGULARIZATION,
    slack: np.ndarray | None = None,
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a function that solves [[H, -A'], [A, S]] s = r; None if that is singular.

    S is diagonal, zero by default. The diagonal is regularized, so that redundant rows and
    flat directions do no harm.
    """
    n, m = hessian.shape[0], matrix.shape[0]
    diagonal = np.full(n + m, regularization)
    if slack is not None:
        diagonal[n:] += slack
    if n + m == 0:
        return lambda r: r
    if isinstance(hessian, np.ndarray):
        system = np.zeros((n + m, n + m))
        system[:n, :n], system[:n, n:], system[n:, :n] = hessian, -matrix.T, matrix
        system[np.diag_indices(n + m)] += diagonal
        lu, pivots, info = dense_algebra.lapack.dgetrf(system)
        return None if info else lambda r: dense_algebra.lapack.dgetrs(lu, pivots, r)[0]
    blocks = [[hessian, -matrix.T], [matrix, None]]
    try:
        found = sparse_algebra.splu(
            sparse.csc_array(sparse.block_array(blocks) + sparse.diags_array(diagonal))
        )
    except RuntimeError:  # exactly singular
        return None
    return lambda r: np.asarray(found.solve(r))


@dataclass
class _Bounds:
    """Values between bounds, with their multipliers.

    The shares turn a change of a value or of a multiplier into a share of the largest terms
    that it affects.
    """

    values: np.ndarray
    duals: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    value_share: np.ndarray
    dual_share: np.ndarray

    def guess(self, share: float) -> np.ndarray:
        """Return where multipliers exceed a share of slacks: -1 at the lower bound, 1 at the upper."""
        dual, (below, above) = self.duals * self.dual_share, self._excess()
        at_upper, at_lower = dual < share * above, dual > -share * below
        at_lower |= self.lower == self.upper
        return np.where(at_lower, -1, np.where(at_upper, 1, 0))

    def pairs(self, clear: float) -> np.ndarray:
        """Return ranges of values, ranges of multipliers, and directions inward, if unclear.

        A slack or multiplier below a ``clear`` share of the other is zero.
        """
        side, known = self.guess(clear), self.guess(1 / clear)
        fixed = self.lower == self.upper
        lower = np.where(known > 0, self.upper, self.lower)
        upper = np.where(known < 0, self.lower, self.upper)
        dual_lower = np.where((side > 0) | fixed, -np.inf, 0.0)
        dual_upper = np.where((side < 0) | fixed, np.inf, 0.0)
        return np.array(
            [lower, upper, dual_lower, dual_upper, np.where(known == 0, -side, 0)]
        )

    def correct(self, side: np.ndarray) -> bool:
        """Change the active set in place; return whether anything changed."""
        below, above = self._excess()
        wrong = side * self.duals * self.dual_share > _WRONG_SIDE
        low, high = (part > _WRONG_SIDE for part in (below, above))
        low, high = low & (side == 0), high & (side == 0)
        leave = wrong & (side != 0) & (self.lower != self.upper)
        side[low], side[high], side[leave] = -1, 1, 0
        return bool(low.any() or high.any() or leave.any())

    def _excess(self) -> tuple[np.ndarray, np.ndarray]:
        """Return how far values are below and above their bounds, as shares of terms."""
        with np.errstate(invalid="ignore"):  # no bound, and no term that would notice
            below = (self.lower - self.values) * self.value_share
            above = (self.values - self.upper) * self.value_share
        return below, above


def polish(program: QuadraticProgram, point: KktPoint) -> tuple[KktPoint, bool]:
    """Return the optimum on the active set that a point suggests, and if it is exact.

    The set is corrected where a bound is violated or a multiplier has the wrong sign.
    """
    parts, terms = size_terms(program, point)
    floors = (_FLOOR * parts, _FLOOR * terms)
    found = list(conditions(program, point, floors))
    for share in _ACTIVE_SHARES:
        columns, rows = (part.guess(share) for part in found)
        best, is_exact = _correct(program, point, columns, rows, floors)
        if is_exact:
            break
    return best, is_exact


def _correct(
    program: QuadraticProgram,
    point: KktPoint,
    columns: np.ndarray,
    rows: np.ndarray,
    floors: Floors,
) -> tuple[KktPoint, bool]:
    """Return the optimum near an active set, which is corrected in place, and if it is exact."""
    best = point
    for _ in range(_CORRECTIONS):
        found = _solve_on_active_set(program, point, columns, rows, floors)
        if found is None:
            break
        best, residual = found
        of_columns, of_rows = conditions(program, best, floors)
        changed = of_columns.correct(columns), of_rows.correct(rows)
        if not any(changed):
            return best, residual < _SOLVED
    return best, False


def conditions(
    program: QuadraticProgram, point: KktPoint, floors: Floors = (0.0, 0.0)
) -> Iterator[_Bounds]:
    """Yield the conditions of columns, then those of rows.

    A change of a column affects its rows and derivatives, and that of a multiplier the
    derivatives. Both are measured relative to the terms of these.
    """
    parts, terms = map(np.maximum, size_terms(program, point), floors)
    by_part, by_term = _inverse(parts), _inverse(terms)
    entries = program.matrix_sizes
    yield _Bounds(
        point.x,
        point.column_dual,
        program.column_lower,
        program.column_upper,
        entries.T @ by_term + program.hessian_sizes @ by_part,
        by_part,
    )
    yield _Bounds(
        program.matrix @ point.x,
        point.row_dual,
        program.row_lower,
        program.row_upper,
        by_term,
        entries @ by_part,
    )


def _inverse(values: np.ndarray) -> np.ndarray:
    """Return reciprocals; zero where there is nothing."""
    return 1 / np.where(values > 1e-200, values, np.inf)


def _solve_on_active_set(
    program: QuadraticProgram,
    start: KktPoint,
    columns: np.ndarray,
    rows: np.ndarray,
    floors: Floors,
) -> tuple[KktPoint, float] | None:
    """Return the point that is stationary with these columns and rows at their bounds.

    The second number is the largest residual of an equation, relative to its terms, or to
    the ``floors`` of columns and rows if these are larger. Each equation is solved to
    rounding by that measure: scenarios may have tiny weights, and columns any unit.
    """
    bounds = np.where(columns < 0, program.column_lower, program.column_upper)
    x = np.where(columns != 0, bounds, start.x)
    free, active = np.flatnonzero(columns == 0), np.flatnonzero(rows)
    side = np.where(rows < 0, program.row_lower, program.row_upper)[active]
    everything = np.arange(len(x))
    curvature = submatrix(program.hessian, free, everything)
    held = submatrix(program.matrix, active, everything)
    hessian = submatrix(program.hessian, free, free)
    matrix = submatrix(program.matrix, active, free)
    dual, row_dual = start.row_dual[active].copy(), np.zeros(len(program.row_lower))
    solve, units = factor_in_units(hessian, matrix)
    if solve is None:
        return None
    best, least = (x.copy(), dual.copy()), np.inf
    for _ in range(_REFINEMENTS):
        gradient = curvature @ x + program.cost[free] - matrix.T @ dual
        residual = np.concatenate([gradient, held @ x - side])
        row_dual[active] = dual
        at = size_terms(program, KktPoint(x, row_dual, row_dual))
        terms = np.concatenate(
            [np.maximum(at[0], floors[0])[free], np.maximum(at[1], floors[1])[active]]
        )
        share = np.abs(residual) / np.where(terms > 0, terms, 1.0)
        size = float(share.max(initial=0.0))
        if size < least:
            best, least = (x.copy(), dual.copy()), size
        if size < _EXACT or not np.isfinite(size):
            break
        step = units * solve(units * residual)
        x[free] -= step[: len(free)]
        dual -= step[len(free) :]
    row_dual[active] = best[1]
    column_dual = program.hessian @ best[0] + program.cost - program.matrix.T @ row_dual
    return KktPoint(best[0], row_dual, column_dual), least


def factor_in_units(
    hessian: Matrix, matrix: Matrix, regularization: float = _REGULARIZATION
) -> tuple[Callable[[np.ndarray], np.ndarray] | None, np.ndarray]:
    """Return the solution of the system in units that equilibrate it, and these units."""
    column, row = equilibrate(hessian, matrix)
    solve = factor(
        rescale(hessian, column, column), rescale(matrix, row, column), regularization
    )
    return solve, np.concatenate([column, row])


def equilibrate(
    hessian: Matrix, matrix: Matrix, slack: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return units of columns and rows in which the KKT system's entries are near one."""
    n, m = hessian.shape[0], matrix.shape[0]
    unit, corner = np.ones(n + m), np.zeros(m) if slack is None else slack
    if isinstance(hessian, np.ndarray):
        sizes = np.zeros((n + m, n + m))
        sizes[:n, :n], sizes[n:, :n] = np.abs(hessian), np.abs(matrix)
        sizes[:n, n:] = sizes[n:, :n].T
        sizes[np.arange(n, n + m), np.arange(n, n + m)] = corner
        largest = _dense_largest
    else:
        entries = abs(matrix)
        blocks = [[abs(hessian), entries.T], [entries, sparse.diags_array(corner)]]
        sizes = sparse.csr_array(sparse.block_array(blocks))
        largest = _sparse_largest
    for _ in range(_SWEEPS):
        found = unit * largest(sizes, unit)
        unit = unit / np.sqrt(np.where(found > 0, found, 1.0))
    return unit[:n], unit[n:]


def _dense_largest(sizes: np.ndarray, unit: np.ndarray) -> np.ndarray:
    return np.asarray((sizes * unit).max(axis=1, initial=0.0))


def _sparse_largest(sizes: Matrix, unit: np.ndarray) -> np.ndarray:
    """Return the largest scaled entry of each row; zero in empty rows."""
    entries, found = sizes.data * unit[sizes.indices], np.zeros(len(unit))
    there = np.flatnonzero(np.diff(sizes.indptr))
    if len(there):
        found[there] = np.maximum.reduceat(entries, sizes.indptr[there])
    return found


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
    sizes = abs(hessian), abs(matrix)
    solve, units = factor_in_units(hessian, matrix)
    if solve is None:
        return None
    target = np.concatenate([slope[free], np.zeros(len(rows))])
    found = np.zeros(len(target))
    for _ in range(_REFINEMENTS):
        u, w = found[: len(free)], found[len(free) :]
        residual = target - np.concatenate([hessian @ u - matrix.T @ w, matrix @ u])
        sums = sizes[0] @ np.abs(u) + sizes[1].T @ np.abs(w)
        terms = np.abs(target) + np.concatenate([sums, sizes[1] @ np.abs(u)])
        if (np.abs(residual) <= _EXACT * terms).all():
            break
        found = found + units * solve(units * residual)
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
    solve, _ = factor_in_units(hessian, matrix, _TINY_REGULARIZATION)
    if solve is None:
        return False
    units = np.zeros((len(free) + len(rows), len(sought)))
    units[sought, np.arange(len(sought))] = 1.0
    share = _TINY_REGULARIZATION * solve(units)[sought, np.arange(len(sought))]
    return bool((np.abs(share) < _UNDETERMINED).all())
