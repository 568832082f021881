"""An interior-point method without absolute tolerances.

It is slower than PIQP, but measures every residual relative to the terms of its equation, so
it finds the active set where units or the weights of scenarios differ by many orders of
magnitude. It is Mehrotra's predictor-corrector method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from pyomo.common.dependencies import attempt_import

from pyomo_csg.solve.qp.kkt_conditions import KktPoint, size_terms
from pyomo_csg.solve.qp.kkt_system import equilibrate, factor
from pyomo_csg.solve.qp.quadratic_program import QuadraticProgram, rescale, submatrix

sparse, _ = attempt_import("scipy.sparse")  # on first use: linear programs do without

_MOST_STEPS = 100
_STALLED = 10  # steps without progress that end the path
_TO_BOUNDARY = 0.995  # share of the longest step: slacks stay positive
_REFINEMENTS = 3
_REGULARIZATION = 1e-13  # in equilibrated units
# Largest residual, and smaller one of slack and multiplier, relative to terms, of an optimum.
_DONE = 1e-10

System = Callable[[np.ndarray], np.ndarray]


@dataclass
class _Side:
    """The bounds on one side: where they exist, slacks (one elsewhere) and multipliers.

    Slacks are kept beside the values, whose rounding they would otherwise share. A value
    moves by ``sign`` times the change of its slack.
    """

    there: np.ndarray
    sign: float
    slack: np.ndarray
    dual: np.ndarray

    def toward(self, target: np.ndarray, dv: np.ndarray) -> np.ndarray:
        """Return the change of multipliers that brings slack times multiplier to a target."""
        missing = target - self.dual * self.slack - self.dual * self.sign * dv
        return np.where(self.there, missing / self.slack, 0.0)

    def longest(self, dv: np.ndarray, change: np.ndarray) -> float:
        """Return the longest step up to one that keeps slacks and multipliers positive."""
        share = 1.0
        for value, step in ((self.slack, self.sign * dv), (self.dual, change)):
            falling = self.there & (step < 0)
            if falling.any():
                share = min(share, float((-value[falling] / step[falling]).min()))
        return share

    def moved(self, share: float, dv: np.ndarray, change: np.ndarray) -> _Side:
        """Return the side after a step."""
        slack = np.where(self.there, self.slack + share * self.sign * dv, 1.0)
        return replace(self, slack=slack, dual=self.dual + share * change)


@dataclass
class _Iterate:
    """Columns and row activities ``v``, multipliers of rows, and the sides of bounds."""

    v: np.ndarray
    row_dual: np.ndarray
    low: _Side
    high: _Side

    @property
    def sides(self) -> tuple[_Side, _Side]:
        return self.low, self.high

    @property
    def gap(self) -> float:
        """The sum of slacks times multipliers."""
        return float(sum(side.dual @ side.slack for side in self.sides))

    def moved(
        self, share: float, dv: np.ndarray, dual: np.ndarray, changes: list[np.ndarray]
    ) -> _Iterate:
        """Return the iterate after a step."""
        low, high = (
            side.moved(share, dv, change)
            for side, change in zip(self.sides, changes, strict=True)
        )
        return _Iterate(self.v + share * dv, self.row_dual + share * dual, low, high)


class CentralPath:
    """The path to the optimum of one program, in ``steps``; ``check`` may end it by an error."""

    def __init__(self, program: QuadraticProgram, check: Callable[[], object]):
        self.steps, self._check, self._n = 0, check, len(program.cost)
        self._all_rows = len(program.row_lower)
        bounded = np.isfinite(program.row_lower) | np.isfinite(program.row_upper)
        self._rows = np.flatnonzero(bounded)
        self._program = program = replace(
            program,
            matrix=submatrix(program.matrix, self._rows, np.arange(self._n)),
            row_lower=program.row_lower[self._rows],
            row_upper=program.row_upper[self._rows],
        )
        self._lower = np.concatenate([program.column_lower, program.row_lower])
        self._upper = np.concatenate([program.column_upper, program.row_upper])
        self._fixed = self._lower == self._upper
        self._equal = self._fixed[self._n :]
        self._free = np.flatnonzero(~self._fixed[: self._n])
        rows = np.arange(len(program.row_lower))
        self._hessian = submatrix(program.hessian, self._free, self._free)
        self._matrix = submatrix(program.matrix, rows, self._free)

    def follow(self) -> KktPoint | None:
        """Return the point of the path nearest to the optimum; None if there is none."""
        best, least, last = None, np.inf, 0
        with np.errstate(all="ignore"):
            at: _Iterate | None = self._start()
            while at is not None and self.steps < _MOST_STEPS:
                distance = self._distance(at)
                if distance < least:
                    last = self.steps if distance < least / 2 else last
                    best, least = at, distance
                stalled = self.steps - last > _STALLED
                if distance < _DONE or not np.isfinite(distance) or stalled:
                    break
                self._check()
                self.steps += 1
                at = self._step(at)
        return None if best is None else self._point(best)

    def _point(self, at: _Iterate) -> KktPoint:
        row_dual = np.zeros(self._all_rows)
        row_dual[self._rows] = at.row_dual
        return KktPoint(at.v[: self._n].copy(), row_dual, self._gradient(at))

    def _gradient(self, at: _Iterate) -> np.ndarray:
        """Return the derivatives of the Lagrangian without the bounds of columns."""
        program, x = self._program, at.v[: self._n]
        return np.asarray(
            program.hessian @ x + program.cost - program.matrix.T @ at.row_dual
        )

    def _start(self) -> _Iterate:
        """Return values at least one unit, or half the way, from their bounds."""
        below = np.isfinite(self._lower) & ~self._fixed
        above = np.isfinite(self._upper) & ~self._fixed
        room = np.where(below & above, (self._upper - self._lower) / 2, 1.0)
        low = np.where(below, self._lower + np.minimum(1.0, room), -np.inf)
        high = np.where(above, self._upper - np.minimum(1.0, room), np.inf)
        low, high = (np.where(self._fixed, self._lower, part) for part in (low, high))
        n = self._n
        x = np.clip(np.zeros(n), low[:n], high[:n])
        v = np.concatenate([x, np.clip(self._program.matrix @ x, low[n:], high[n:])])
        slacks = (
            np.where(below, v - self._lower, 1.0),
            np.where(above, self._upper - v, 1.0),
        )
        return _Iterate(
            v,
            np.zeros(len(self._rows)),
            _Side(below, 1.0, slacks[0], below.astype(float)),
            _Side(above, -1.0, slacks[1], above.astype(float)),
        )

    def _residuals(self, at: _Iterate) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the residuals of the derivatives by columns and by activities, and of rows."""
        n, bound = self._n, at.low.dual - at.high.dual
        column = (bound[:n] - self._gradient(at))[self._free]
        row = np.where(self._equal, 0.0, bound[n:] - at.row_dual)
        return column, row, at.v[n:] - self._program.matrix @ at.v[:n]

    def _distance(self, at: _Iterate) -> float:
        """Return the largest violation of an optimality condition, relative to terms."""
        program = self._program
        point = KktPoint(at.v[: self._n], at.row_dual, at.row_dual)
        by_part, by_term = (
            1 / np.where(part > 0, part, np.inf) for part in size_terms(program, point)
        )
        noticed = program.matrix_sizes @ by_part
        seen = program.matrix_sizes.T @ by_term + program.hessian_sizes @ by_part
        values, duals = np.append(seen, by_term), np.append(by_part, noticed)
        column, row, missing = self._residuals(at)
        errors = [
            np.abs(column) * by_part[self._free],
            np.abs(row) * noticed,
            np.abs(missing) * by_term,
        ]
        for side in at.sides:
            pairs = np.minimum(side.slack * values, side.dual * duals)
            errors.append(pairs[side.there])
        return float(np.concatenate(errors).max(initial=0.0))

    def _step(self, at: _Iterate) -> _Iterate | None:
        """Return the next iterate; None if the system cannot be solved."""
        barrier = np.asarray(sum(side.dual / side.slack for side in at.sides))
        system = self._system(barrier)
        if system is None:
            return None
        count = int(sum(side.there.sum() for side in at.sides))
        nothing = np.zeros(len(at.v))
        dv, dual, changes = self._direction(at, system, barrier, [nothing, nothing])
        ahead = at.moved(self._longest(at, dv, changes), dv, dual, changes)
        before = at.gap
        shrinks = max(ahead.gap / before, 0.0) if before > 0 else 0.0
        target = before / max(count, 1) * min(1.0, shrinks) ** 3
        targets = [
            target - side.sign * dv * change
            for side, change in zip(at.sides, changes, strict=True)
        ]
        dv, dual, changes = self._direction(at, system, barrier, targets)
        share = _TO_BOUNDARY * self._longest(at, dv, changes) if count else 1.0
        return at.moved(share, dv, dual, changes)

    @staticmethod
    def _longest(at: _Iterate, dv: np.ndarray, changes: list[np.ndarray]) -> float:
        pairs = zip(at.sides, changes, strict=True)
        return min(side.longest(dv, change) for side, change in pairs)

    def _system(self, barrier: np.ndarray) -> System | None:
        """Return the solution of [[H + D, -A'], [A, S]] for right-hand sides.

        D and 1 / S are the barrier's curvatures of columns and of row activities.
        """
        of_columns, slack = barrier[: self._n][self._free], self._inverse(barrier)
        more = np.diag if self._program.is_dense else sparse.diags_array
        hessian, matrix = self._hessian + more(of_columns), self._matrix
        if not self._program.is_dense:
            hessian = sparse.csc_array(hessian)
        column, row = equilibrate(hessian, matrix, slack)
        solve = factor(
            rescale(hessian, column, column),
            rescale(matrix, row, column),
            _REGULARIZATION,
            slack * row**2,
        )
        if solve is None:
            return None
        units, count = np.append(column, row), len(column)

        def refined(target: np.ndarray) -> np.ndarray:
            found = np.zeros(len(target))
            for _ in range(_REFINEMENTS):
                x, dual = found[:count], found[count:]
                upper, lower = hessian @ x - matrix.T @ dual, matrix @ x + slack * dual
                rest = target - np.append(upper, lower)
                found = found + units * solve(units * rest)
            return found

        return refined

    def _inverse(self, barrier: np.ndarray) -> np.ndarray:
        """Return the inverse curvature of row activities; zero in equations."""
        return np.where(self._equal, 0.0, 1 / barrier[self._n :])

    def _direction(
        self,
        at: _Iterate,
        system: System,
        barrier: np.ndarray,
        targets: list[np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return Newton's direction to targets of slack times multiplier."""
        column, row, missing = self._residuals(at)
        push = np.zeros(len(at.v))
        for side, target in zip(at.sides, targets, strict=True):
            push += side.sign * side.toward(target, np.zeros(len(at.v)))
        slack = self._inverse(barrier)
        column, row = column + push[: self._n][self._free], row + push[self._n :]
        found = system(np.append(column, missing + slack * row))
        dx, dual = np.zeros(self._n), found[len(self._free) :]
        dx[self._free] = found[: len(self._free)]
        dv = np.append(dx, slack * (row - dual))
        pairs = zip(at.sides, targets, strict=True)
        return dv, dual, [side.toward(target, dv) for side, target in pairs]
