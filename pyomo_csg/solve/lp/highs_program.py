"""One program kept in a persistent HiGHS object: arrays in, arrays out."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Shape
from pyomo_csg.solve.engine import SolveContext, SolverTrouble, Troubles
from pyomo_csg.solve.lp.highs_options import EXACT_OPTIONS

_STATUS = highspy.HighsModelStatus
_NAMES = {
    _STATUS.kInfeasible: "infeasible",
    _STATUS.kUnbounded: "unbounded",
    _STATUS.kUnboundedOrInfeasible: "unbounded or infeasible",
    _STATUS.kTimeLimit: "time limit",
    _STATUS.kIterationLimit: "iteration limit",
    _STATUS.kSolutionLimit: "solution limit",
    _STATUS.kInterrupt: "interrupted",
}
DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4
_LARGE = 1000  # rows; smaller programs lose little by a warm start that does not help
# A warm start is stopped after 500 iterations, or one for every 8 rows if that is more: the
# basis is then not that of a similar program.
_FEW_ITERATIONS, _SHARE_OF_ROWS = 500, 8
_MOST_SKIPPED = 64  # attempts in a row
_COLUMNWISE = int(highspy.MatrixFormat.kColwise)
_MINIMIZE = int(highspy.ObjSense.kMinimize)


def status_trouble(status: Any) -> SolverTrouble:
    """Return the trouble that a HiGHS model status stands for."""
    return SolverTrouble(_NAMES.get(status, f"not solved ({status.name[1:]})"))


def _check_accepted(status: Any) -> None:
    """Raise if HiGHS rejected data: it would continue with the old data."""
    if status == highspy.HighsStatus.kError:
        raise SolverTrouble("error", "HiGHS refused the program's data")


def unpack(packed: Sequence[bytes], width: int) -> np.ndarray:
    """Return numbers (n, width) from their bytes; NaN where there are none."""
    missing = width * struct.pack("d", math.nan)
    joined = bytearray().join([one or missing for one in packed])
    return np.frombuffer(joined).reshape(len(packed), width)


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return one is other or one.tobytes() == other.tobytes()  # faster than array_equal


class Attempts:
    """Decides whether to attempt a shortcut that may fail.

    After a failure the next attempts are skipped: one, then two, then four.
    """

    def __init__(self) -> None:
        self._skipped, self._left = 0, 0

    def is_due(self) -> bool:
        """Whether to attempt it now; each call counts."""
        if self._left:
            self._left -= 1
            return False
        return True

    def succeeded(self) -> None:
        """Go on with attempts."""
        self._skipped = 0

    def failed(self) -> None:
        """Skip one attempt, and twice the number at each further failure."""
        self._skipped = min(_MOST_SKIPPED, max(1, 2 * self._skipped))
        self._left = self._skipped


class WarmStarts(Attempts):
    """Decides whether a large program starts from the basis at hand.

    From the basis of a similar program, simplex takes few iterations. From that of a
    different one it can take more than a cold start, which is presolved. A warm start with
    too many iterations is stopped, and some starts after it are cold. Iterations count, not
    seconds, so answers do not depend on the machine.
    """

    def __init__(self, rows: int):
        super().__init__()
        self.most_iterations = max(_FEW_ITERATIONS, rows // _SHARE_OF_ROWS)


class HighsProgram:
    """One program kept in HiGHS; only what differs from the last one is sent.

    The context's options are added to exact tolerances and one thread. A ``time_limit`` among
    them holds for each run, the context's deadline for all runs. If ``relaxed``, integer
    variables become continuous; if ``scaled``, costs are scaled to suit HiGHS's tolerances. If
    the program ``stays_warm``, every run starts from the last basis, since programs differ in
    few numbers.
    """

    def __init__(
        self,
        layout: Shape,
        context: SolveContext,
        relaxed: bool = False,
        scaled: bool = False,
        stays_warm: bool = False,
    ):
        self.layout = layout
        self.highs: Any = highspy.Highs()
        self.scale = 1.0  # the factor of the costs, and so of the duals
        self._stats, self._deadline = context.stats, context.deadline
        for name, value in {**EXACT_OPTIONS, **context.options}.items():
            self.highs.setOptionValue(name, value)
        self._time_limit = context.options.get("time_limit", math.inf)
        self._is_mip = bool(layout.integer.any()) and not relaxed
        integer = layout.integer if not relaxed else np.zeros(layout.columns, bool)
        self._kinds = integer.astype(np.int32)  # HiGHS's code for an integer is 1
        adapts = layout.rows >= _LARGE and not self._is_mip and not stays_warm
        self._warm_starts = WarmStarts(layout.rows) if adapts else None
        self._scaled = scaled
        self._cost: tuple[np.ndarray, np.ndarray] | None = None  # original, scaled
        self._sent: Arrays | None = None
        self._columns = np.arange(layout.columns, dtype=np.int32)
        self._rows = np.arange(layout.rows, dtype=np.int32)

    @property
    def arrays(self) -> Arrays:
        """The program that HiGHS holds."""
        assert self._sent is not None
        return self._sent

    def solve(self, arrays: Arrays, basis: Any = None) -> None:
        """Solve from a basis, the last one by default; raise a SolverTrouble if not optimal."""
        self._deadline.left()  # raises if there is no time, before anything is sent
        self.load(arrays)
        if basis is not None:
            self.highs.setBasis(basis)
        self._solve_loaded()

    def solve_if_feasible(
        self, arrays: Arrays, basis: Any = None, start: np.ndarray | None = None
    ) -> bool:
        """Solve as :meth:`solve`, or from a point; return False if infeasible."""
        self._deadline.left()
        self.load(arrays)
        if basis is not None:
            self.highs.setBasis(basis)
        if start is not None:
            solution = highspy.HighsSolution()
            solution.col_value = start.tolist()
            self.highs.setSolution(solution)
        status = self._run()
        if status == _STATUS.kInfeasible:
            return False
        if status != _STATUS.kOptimal:
            if (trouble := status_trouble(status)).is_limit:
                raise trouble
            self._solve_loaded()
        return True

    def load(self, arrays: Arrays) -> None:
        """Make HiGHS hold this program."""
        # Until everything is sent, the state of the HiGHS object is unknown.
        (sent, self._sent), highs = (self._sent, None), self.highs
        if sent is None or not _is_same(sent.values, arrays.values):
            self._pass_model(arrays)
            self._sent = arrays
            return
        if not _is_same(sent.cost, arrays.cost):
            cost = self._scaled_cost(arrays.cost)
            _check_accepted(
                highs.changeColsCost(len(self._columns), self._columns, cost)
            )
        if (
            sent.row_lower is not arrays.row_lower
            or sent.row_upper is not arrays.row_upper
        ):
            sides = arrays.row_lower, arrays.row_upper
            _check_accepted(highs.changeRowsBounds(len(self._rows), self._rows, *sides))
        if not (
            _is_same(sent.column_lower, arrays.column_lower)
            and _is_same(sent.column_upper, arrays.column_upper)
        ):
            bounds = arrays.column_lower, arrays.column_upper
            _check_accepted(
                highs.changeColsBounds(len(self._columns), self._columns, *bounds)
            )
        self._sent = arrays

    def _pass_model(self, arrays: Arrays) -> None:
        # passModel drops the basis; the old one is a good start for the new matrix, too.
        basis, layout = self.highs.getBasis(), self.layout
        _check_accepted(
            self.highs.passModel(
                layout.columns,
                layout.rows,
                len(layout.index),
                _COLUMNWISE,
                _MINIMIZE,
                0.0,
                self._scaled_cost(arrays.cost),
                arrays.column_lower,
                arrays.column_upper,
                arrays.row_lower,
                arrays.row_upper,
                layout.start,
                layout.index,
                arrays.values,
                self._kinds,
            )
        )
        if basis.valid:
            self.highs.setBasis(basis)

    def _solve_loaded(self) -> None:
        status = self._run() if self._warm_starts is None else self._run_large()
        if status == _STATUS.kOptimal:
            return
        if status not in (_STATUS.kTimeLimit, _STATUS.kInterrupt):
            # A warm start can mislead the simplex method; the cold answer counts.
            self.highs.clearSolver()
            status = self._run()
        if status != _STATUS.kOptimal:
            raise status_trouble(status)

    def _run_large(self) -> Any:
        """Run HiGHS from the basis at hand if that pays, otherwise from scratch."""
        starts, highs = self._warm_starts, self.highs
        assert starts is not None
        if highs.getBasis().valid and starts.is_due():
            users = highs.getOptionValue("simplex_iteration_limit")[1]
            most = min(users, starts.most_iterations)
            with self._options(simplex_iteration_limit=most):
                status = self._run()
            if status != _STATUS.kIterationLimit:
                starts.succeeded()
                return status
            starts.failed()
        highs.clearSolver()
        cold = {"presolve": "on", "simplex_strategy": DUAL_SIMPLEX}
        with self._options(**cold):
            status = self._run()
        # Once more by simplex, from this basis: it leaves factors, and its tolerances are exact.
        return self._run() if status == _STATUS.kOptimal else status

    @contextmanager
    def _options(self, **options: Any) -> Iterator[None]:
        """Set HiGHS options for the runs inside."""
        before = {name: self.highs.getOptionValue(name)[1] for name in options}
        for name, value in options.items():
            self.highs.setOptionValue(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                self.highs.setOptionValue(name, value)

    def _run(self) -> Any:
        """Run HiGHS once, within the time limit, and return its model status."""
        seconds = min(self._time_limit, self._deadline.left())
        if seconds < math.inf:
            # HiGHS counts an LP's time over the life of the object, a MIP's from now.
            spent = 0.0 if self._is_mip else self.highs.getRunTime()
            self.highs.setOptionValue("time_limit", seconds + spent)
        start = time.perf_counter()
        outcome = self.highs.run()
        self._stats.solver_seconds += time.perf_counter() - start
        self._stats.solves += 1
        _, iterations = self.highs.getInfoValue("simplex_iteration_count")
        self._stats.iterations += max(0, iterations)
        if outcome == highspy.HighsStatus.kError:
            return _STATUS.kSolveError
        return self.highs.getModelStatus()

    def _scaled_cost(self, cost: np.ndarray) -> np.ndarray:
        """Return costs times the power of two that brings the largest to about 1.

        HiGHS's dual tolerance is absolute: with small costs, it would accept decisions that are
        not optimal.
        """
        if self._cost is None or self._cost[0] is not cost:
            largest = float(np.abs(cost).max(initial=0.0))
            if self._scaled and 0 < largest < math.inf:
                self.scale = math.ldexp(1.0, 1 - math.frexp(largest)[1])
            self._cost = cost, self.scale * cost
        return self._cost[1]

    def solution(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the column values, the reduced costs and the row duals."""
        numbers = np.frombuffer(
            bytearray(self.pack("col_value", "col_dual", "row_dual"))
        )
        columns = len(self._columns)
        x, duals = numbers[:columns], numbers[columns:] / self.scale
        return x, duals[:columns], duals[columns:]

    def dual_ray(self) -> np.ndarray | None:
        """Return the row multipliers that prove the last program infeasible, if HiGHS has them."""
        _, exists, ray = self.highs.getDualRay()
        return np.asarray(ray) if exists else None

    def point(self) -> np.ndarray:
        """Return the column values."""
        return np.frombuffer(bytearray(self.pack("col_value")))

    def pack(self, *parts: str) -> bytes:
        """Return parts of HiGHS's solution as bytes; duals are still times ``scale``."""
        # HiGHS returns lists; struct turns them into numbers faster than numpy does.
        found = self.highs.getSolution()
        numbers = list(chain.from_iterable(getattr(found, part) for part in parts))
        return struct.pack(f"{len(numbers)}d", *numbers)


class SolutionBuffer:
    """Collects points and row duals over many runs of one program, and their troubles."""

    def __init__(self, program: HighsProgram):
        self._program = program
        self._packed: list[bytes] = []
        self._scale: list[float] = []
        self.troubles: Troubles = {}

    def next_case(self) -> SolutionBuffer:
        """Record the solution of the run inside, or NaN and its SolverTrouble."""
        return self  # a generator would take longer than the rest of a small case

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> bool:
        if error is None:
            self._packed.append(self._program.pack("col_value", "row_dual"))
            self._scale.append(self._program.scale)
            return False
        if not isinstance(error, SolverTrouble):
            return False
        self.troubles[len(self._packed)] = error
        self._packed.append(b"")
        self._scale.append(1.0)
        return True

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return points (n, columns) and row duals (n, rows)."""
        columns, rows = self._program.layout.columns, self._program.layout.rows
        numbers = unpack(self._packed, columns + rows)
        return numbers[:, :columns], numbers[:, columns:] / np.array(self._scale)[
            :, None
        ]
