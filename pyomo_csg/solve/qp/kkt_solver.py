"""Certified optima of convex quadratic programs.

An interior-point method in natural units finds the active set, a linear program decides what
it leaves unclear, and the KKT system of that set gives the optimum to machine precision. PIQP
comes first; a method without absolute tolerances follows where its active set is not optimal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
import piqp
from pyomo.common.dependencies import attempt_import

from pyomo_csg.solve.engine import SolveContext, SolverTrouble
from pyomo_csg.solve.lp.units import geometric_units
from pyomo_csg.solve.qp.central_path import CentralPath
from pyomo_csg.solve.qp.kkt_conditions import KktPoint, find_fault
from pyomo_csg.solve.qp.kkt_system import conditions, polish
from pyomo_csg.solve.qp.quadratic_program import (
    Matrix,
    QuadraticProgram,
    largest_in_rows,
    rescale,
    submatrix,
)

sparse, _ = attempt_import("scipy.sparse")  # on first use: linear programs do without

_ATTEMPTS = 3  # each in units that the point of the last one suggests
_WILD = 1e4  # between the typical sizes of two columns
_NEGLIGIBLE = 60.0  # binary digits below the largest side or bound
# PIQP's tolerance is absolute: it needs natural units. The last steps cost little, and tell
# active bounds from others where multipliers are small.
_INTERIOR_POINT = 1e-13
_MOST_ITERATIONS = 50
_FAR = 1e3  # how much larger columns are assumed to be where no optimum is found
_SMALLEST_COLUMN = 1e-4  # unit of a column, relative to the largest column
_CLEAR = 1e-4  # ratio of slack and multiplier beyond which the smaller one is zero
_NOISE = 1e-13  # in natural units: what rounding leaves of a zero
_RECESSION = 1e-7  # decrease along a direction, in natural units, that is not rounding
_STOPPED = (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED, piqp.PIQP_NUMERICS)

Units = tuple[np.ndarray, np.ndarray, float]


@dataclass(frozen=True)
class Certified:
    """A certified optimum, natural units, and if it solves its KKT system to rounding."""

    point: KktPoint
    units: Units
    is_exact: bool = True


class KktSolver:
    """Solves convex quadratic programs and certifies every optimum."""

    def __init__(self, context: SolveContext):
        self._stats = context.stats
        self._deadline = context.with_deadline().deadline
        self._typical: np.ndarray | None = None  # sizes of columns that served last

    def solve(self, program: QuadraticProgram) -> Certified:
        """Return a certified optimum, or raise a SolverTrouble."""
        start = time.perf_counter()
        self._deadline.start()
        self._deadline.left()
        self._stats.solves += 1
        try:
            return self._solve(program)
        finally:
            self._stats.solver_seconds += time.perf_counter() - start

    def _solve(self, program: QuadraticProgram) -> Certified:
        if (program.column_lower > program.column_upper).any():
            raise SolverTrouble("infeasible", "a lower bound exceeds the upper bound")
        if self._typical is not None and len(self._typical) == len(program.cost):
            # Answers are certified in the model's units, so any others may be tried.
            search = _Search(program, self._typical)
            search.certify(self._piqp_point)
            if search.best is not None and search.best.is_exact:
                return search.best
        typical = column = _typical_columns(program)
        self._typical = typical
        for attempt in range(_ATTEMPTS):
            search = _Search(program, column)
            for engine in (self._piqp_point, self._path_point):
                point = search.certify(engine)
                self._deadline.left()
                if search.best is not None and search.best.is_exact:
                    return search.best
            if search.best is not None:
                return search.best
            if point is None:
                if attempt == 0:
                    _raise_if_unsolvable(search.scaled)
                column = column * _FAR
                continue
            size = np.abs(point.x * search.units[0]) / typical
            largest = size.max(initial=0.0) or 1.0
            column = typical * np.maximum(size, _SMALLEST_COLUMN * largest)
        _raise_if_unsolvable(program.in_units(*_natural_units(program, column)))
        raise SolverTrouble(
            "not exact",
            f"the optimum found is not exact to a relative 1e-9: "
            f"{search.fault or 'no optimum was found'}",
        )

    def _path_point(self, program: QuadraticProgram) -> KktPoint | None:
        """Return an approximate optimum without absolute tolerances; None if not found."""
        path = CentralPath(program, self._deadline.left)
        found = path.follow()
        self._stats.iterations += path.steps
        return found

    def _piqp_point(self, program: QuadraticProgram) -> KktPoint | None:
        """Return PIQP's approximate optimum; None if it finds none."""
        equal = program.row_lower == program.row_upper
        bounded = np.isfinite(program.row_lower) | np.isfinite(program.row_upper)
        bounded &= ~equal
        solver = piqp.DenseSolver() if program.is_dense else piqp.SparseSolver()
        everything = np.arange(len(program.cost))
        matrices = [
            program.hessian,
            submatrix(program.matrix, np.flatnonzero(equal), everything),
            submatrix(program.matrix, np.flatnonzero(bounded), everything),
        ]
        if not program.is_dense:
            matrices = [sparse.csc_matrix(one) for one in matrices]
        solver.settings.eps_abs = solver.settings.eps_rel = _INTERIOR_POINT
        solver.settings.max_iter = _MOST_ITERATIONS
        solver.settings.verbose = False
        status, found = self._run_piqp(
            solver,
            matrices[0],
            program.cost,
            matrices[1],
            program.row_lower[equal],
            matrices[2],
            program.row_lower[bounded],
            program.row_upper[bounded],
            program.column_lower,
            program.column_upper,
        )
        self._stats.iterations += int(found.info.iter)
        if status not in _STOPPED or not np.isfinite(found.x).all():
            return None
        row_dual = np.zeros(len(program.row_lower))
        row_dual[equal] = -found.y
        row_dual[bounded] = found.z_l - found.z_u
        return KktPoint(found.x.copy(), row_dual, found.z_bl - found.z_bu)

    @staticmethod
    def _run_piqp(solver: Any, *arguments: Any) -> tuple[Any, Any]:
        """Return PIQP's status and result."""
        solver.setup(*arguments)
        return solver.solve(), solver.result


class _Search:
    """The search for an optimum in natural units with these sizes of columns."""

    def __init__(self, program: QuadraticProgram, column: np.ndarray):
        self.units = _natural_units(program, column / np.sqrt(program.shares))
        self.scaled = program.in_units(*self.units)
        self.best: Certified | None = None
        self.fault, self._program = "", program

    def certify(
        self, engine: Callable[[QuadraticProgram], KktPoint | None]
    ) -> KktPoint | None:
        """Look for an exact optimum from an engine's point, and return this point."""
        point = engine(self.scaled)
        if point is None:
            return None
        polished, is_exact = polish(self.scaled, point)
        if not is_exact and (basic := _basic_point(self.scaled, point)) is not None:
            polished, is_exact = polish(self.scaled, basic)
        for candidate in (_without_noise(polished), polished, point):
            found = _in_model_units(self._program, candidate, self.units)
            self.fault = find_fault(self._program, found)
            if not self.fault and (is_exact or self.best is None):
                self.best = Certified(found, self.units, is_exact)
            if not self.fault and is_exact:
                break
        return point


def _without_noise(point: KktPoint) -> KktPoint:
    """Return a point in natural units whose rounding errors beside zero are zero.

    The certificate is relative to terms: it would not pass where all of them are noise.
    """
    parts = (point.x, point.row_dual, point.column_dual)
    return KktPoint(*(np.where(np.abs(one) < _NOISE, 0.0, one) for one in parts))


def _in_model_units(
    program: QuadraticProgram, point: KktPoint, units: Units
) -> KktPoint:
    column, row, cost = units
    x = np.clip(point.x * column, program.column_lower, program.column_upper)
    row_dual = point.row_dual * cost / row
    return KktPoint(x, row_dual, point.column_dual * cost / column)


def _typical_columns(program: QuadraticProgram) -> np.ndarray:
    """Return the sizes that columns are expected to have: one, unless units differ wildly."""
    matrix = sparse.coo_array(program.matrix)
    entries = (*matrix.coords, matrix.data)
    nowhere = np.zeros(len(program.cost), bool)
    sides = np.array([program.row_lower, program.row_upper])
    bounds = np.array([program.column_lower, program.column_upper])
    # A decision that is held at what rounding left of zero says nothing about sizes.
    none = np.zeros(len(sides[0])), np.zeros(len(bounds[0]))
    rows, columns = geometric_units(
        entries, (none[0], none[0]), (none[1], none[1]), nowhere
    )
    sizes = np.concatenate([_sizes(sides) - rows, _sizes(bounds) - columns], axis=1)
    negligible = sizes < sizes.max(initial=-np.inf, where=sizes < np.inf) - _NEGLIGIBLE
    sides = np.where(negligible[:, : len(rows)], 0.0, sides)
    bounds = np.where(negligible[:, len(rows) :], 0.0, bounds)
    _, sizes = geometric_units(entries, tuple(sides), tuple(bounds), nowhere)
    if np.ptp(sizes) > np.log2(_WILD):
        return np.asarray(np.exp2(sizes))
    return np.full(len(sizes), _typical_quantity(program))


def _sizes(values: np.ndarray) -> np.ndarray:
    """Return binary logarithms of absolute values."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(np.abs(values)))


def _typical_quantity(program: QuadraticProgram) -> float:
    """Return the size that columns are expected to have."""
    largest = largest_in_rows(program.matrix)
    diagonal = program.hessian.diagonal()
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = [np.abs(s) / largest for s in (program.row_lower, program.row_upper)]
        bounds = [np.abs(program.column_lower), np.abs(program.column_upper)]
        centers = np.abs(program.cost) / diagonal
    for sizes in (np.concatenate(sides + bounds), centers):
        known = sizes[np.isfinite(sizes) & (sizes > 0)]
        if len(known):
            return float(np.median(known))
    return 1.0


def _natural_units(program: QuadraticProgram, column: np.ndarray) -> Units:
    """Return units of columns, rows and cost in which numbers are near one.

    They are powers of two, so nothing is rounded.
    """
    column = _power_of_two(column)
    ones = np.ones(program.matrix.shape[0])
    row = largest_in_rows(rescale(program.matrix, ones, column))
    row = _power_of_two(np.where(row > 0, row, 1.0))
    curvature = program.hessian_sizes @ column * column
    linear = np.abs(program.cost) * column
    cost = max(linear.max(initial=0.0), curvature.max(initial=0.0)) or 1.0
    return column, row, float(_power_of_two(np.array([cost]))[0])


def _power_of_two(values: np.ndarray) -> np.ndarray:
    return np.exp2(np.clip(np.rint(np.log2(values)), -500, 500))


def _basic_point(program: QuadraticProgram, point: KktPoint) -> KktPoint | None:
    """Return a basic solution of the optimality conditions near a point; None if not found.

    An interior point does not tell bounds that are active without a multiplier from others.
    Of each clear pair of slack and multiplier, one is zero; a linear program minimizes the
    sum of the others.
    """
    # Noise beside noise would look like a multiplier.
    cleaned = _without_noise(point)
    pairs = [part.pairs(_CLEAR) for part in conditions(program, cleaned)]
    lower, upper, dual_lower, dual_upper, inward = np.hstack(pairs)
    n = len(program.cost)
    system = sparse.block_array(
        [[program.hessian, -program.transposed], [program.matrix, None]], format="csc"
    )
    highs = _linear_program(
        (np.append(lower[:n], dual_lower[n:]), np.append(upper[:n], dual_upper[n:])),
        inward + system.T @ inward,
        system,
        (
            np.append(dual_lower[:n] - program.cost, lower[n:]),
            np.append(dual_upper[:n] - program.cost, upper[n:]),
        ),
    )
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    x, row_dual = np.split(np.array(highs.getSolution().col_value), [n])
    slope = program.hessian @ x + program.cost - program.matrix.T @ row_dual
    return KktPoint(x, row_dual, slope)


def _raise_if_unsolvable(program: QuadraticProgram) -> None:
    """Raise if no point is feasible, or if the cost decreases without bound.

    Linear programs decide both. The program is in natural units.
    """
    if not _is_feasible(program):
        raise SolverTrouble("infeasible")
    if _has_descent_ray(program):
        raise SolverTrouble("unbounded")


def _is_feasible(program: QuadraticProgram) -> bool:
    highs = _linear_program(
        (program.column_lower, program.column_upper),
        np.zeros_like(program.cost),
        program.matrix,
        (program.row_lower, program.row_upper),
    )
    return bool(highs.getModelStatus() != highspy.HighsModelStatus.kInfeasible)


def _has_descent_ray(program: QuadraticProgram) -> bool:
    """Whether the cost decreases along a direction without bounds and without curvature."""

    def cone(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(np.isfinite(lower), 0.0, -np.inf), np.where(
            np.isfinite(upper), 0.0, np.inf
        )

    columns = cone(program.column_lower, program.column_upper)
    flat = np.zeros(len(program.cost))
    matrix = sparse.vstack([sparse.csr_array(program.matrix), program.hessian])
    lower, upper = cone(program.row_lower, program.row_upper)
    highs = _linear_program(
        (np.maximum(columns[0], -1.0), np.minimum(columns[1], 1.0)),
        program.cost,
        matrix,
        (np.append(lower, flat), np.append(upper, flat)),
    )
    return bool(highs.getObjectiveValue() < -_RECESSION)


def _linear_program(
    bounds: tuple[np.ndarray, np.ndarray],
    cost: np.ndarray,
    matrix: Matrix,
    sides: tuple[np.ndarray, np.ndarray],
) -> highspy.Highs:
    """Return HiGHS after a run with these bounds of columns and rows."""
    entries = sparse.csc_array(matrix)
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = entries.shape
    lp.col_cost_ = cost
    lp.col_lower_, lp.col_upper_ = bounds
    lp.row_lower_, lp.row_upper_ = sides
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = entries.indptr, entries.indices
    lp.a_matrix_.value_ = entries.data
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.passModel(lp)
    highs.run()
    return highs
