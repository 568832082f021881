"""A thin, persistent layer over one HiGHS object: arrays in, arrays out."""

from __future__ import annotations

import difflib
import math
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import highspy
import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.solve.compile.assembly import Arrays, Shape
from pyomo_csg.solve.engine import SolveContext, SolverTrouble


class SolutionBuffer:
    """Points and rows' duals of the runs of one program.

    Parameters
    ----------
    program : HighsProgram
    """

    def __init__(self, program: HighsProgram):
        self._program = program
        self._packed: list[bytes] = []
        self._scale: list[float] = []

    def add(self) -> None:
        """Take what the last run found."""
        self._packed.append(self._program.packed(row_dual_parts))
        self._scale.append(self._program.scale)

    def add_nothing(self) -> None:
        """Leave NaN for a run that found nothing."""
        self._packed.append(b"")
        self._scale.append(1.0)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return points (n, columns) and rows' duals (n, rows)."""
        columns, rows = self._program.layout.columns, self._program.layout.rows
        numbers = unpack(self._packed, columns + rows)
        scale = self._scale[0] if len(set(self._scale)) == 1 else _column(self._scale)
        return numbers[:, :columns], numbers[:, columns:] / scale


def _column(numbers: list[float]) -> np.ndarray:
    return np.array(numbers)[:, None]


_STATUS = highspy.HighsModelStatus
_OK = highspy.HighsStatus.kOk
_NAMES = {
    _STATUS.kInfeasible: "infeasible",
    _STATUS.kUnbounded: "unbounded",
    _STATUS.kUnboundedOrInfeasible: "unbounded or infeasible",
    _STATUS.kTimeLimit: "time limit",
    _STATUS.kIterationLimit: "iteration limit",
    _STATUS.kSolutionLimit: "solution limit",
    _STATUS.kInterrupt: "interrupted",
}
_EXACT = {
    "output_flag": False,
    "threads": 1,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}
_NEEDED = {"solver": ("choose", "simplex"), "run_crossover": ("on",)}
DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4
_COLUMNWISE = int(highspy.MatrixFormat.kColwise)
_MINIMISE = int(highspy.ObjSense.kMinimize)


def check_options(
    options: Mapping[str, Any] | None, basis: bool = False
) -> dict[str, Any]:
    """Return HiGHS options, or raise a DataError with the nearest names.

    With ``basis`` those are refused, too, that leave no exact basis.
    """
    known = [name for name in dir(highspy.HighsOptions()) if not name.startswith("_")]
    problems = []
    for name in options or {}:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=3)
            hint = (
                f"did you mean {' or '.join(near)}?" if near else "see HiGHS's manual"
            )
            problems.append(f"HiGHS has no option '{name}'; {hint}")
    if not problems:
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        for name, value in (options or {}).items():
            if not _takes(solver, name, value):
                problems.append(f"HiGHS does not take {value!r} for option '{name}'")
    for name, allowed in _NEEDED.items() if basis else ():
        if options is not None and name in options and options[name] not in allowed:
            problems.append(
                f"option '{name}' is {options[name]!r}; the oracle needs "
                f"{' or '.join(repr(a) for a in allowed)}, for an exact basis"
            )
    if basis and options is not None and options.get("threads", 1) != 1:
        problems.append(
            "option 'threads' must be 1, since HiGHS keeps one number of threads for "
            "all of a process; use workers= instead"
        )
    if problems:
        raise DataError("The solver's options do not fit", problems)
    return dict(options or {})


def _takes(solver: Any, name: str, value: Any) -> bool:
    """Whether HiGHS takes a value; NaN, which it would take, it does not."""
    if isinstance(value, float) and math.isnan(value):
        return False
    try:
        return solver.setOptionValue(name, value) == _OK
    except (TypeError, ValueError):
        return False


def run_highs(highs: Any) -> None:
    """Run HiGHS once and raise a SolverTrouble unless it found an optimum."""
    if highs.run() == highspy.HighsStatus.kError:
        raise SolverTrouble("error", "HiGHS could not run the program")
    status = highs.getModelStatus()
    if status != _STATUS.kOptimal:
        raise status_trouble(status)


def status_trouble(status: Any) -> SolverTrouble:
    """Return the trouble that a status of HiGHS is."""
    return SolverTrouble(_NAMES.get(status, f"not solved ({status.name[1:]})"))


def _check(status: Any) -> None:
    """Raise if HiGHS refused what it was sent; it would go on with what it had."""
    if status == highspy.HighsStatus.kError:
        raise SolverTrouble("error", "HiGHS refused the program's data")


def column_parts(found: Any) -> list[float]:
    """Return the columns' values of a solution."""
    return found.col_value


def row_dual_parts(found: Any) -> list[float]:
    """Return the columns' values and the rows' duals."""
    return [*found.col_value, *found.row_dual]


def dual_parts(found: Any) -> list[float]:
    """Return the columns' values, the columns' duals and the rows' duals."""
    return [*found.col_value, *found.col_dual, *found.row_dual]


def activity_parts(found: Any) -> list[float]:
    """Return the same and the rows' activity."""
    return [*found.col_value, *found.col_dual, *found.row_dual, *found.row_value]


def unpack(packed: Sequence[bytes], width: int) -> np.ndarray:
    """Return numbers (n, width) from their bytes; NaN where there are none."""
    missing = width * struct.pack("d", math.nan)
    joined = bytearray().join([one or missing for one in packed])
    return np.frombuffer(joined).reshape(len(packed), width)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one is other or one.tobytes() == other.tobytes()  # sooner than by number


class HighsProgram:
    """One program kept in HiGHS; only what differs from the last one is sent.

    Parameters
    ----------
    layout : Shape
        Such as a :class:`~pyomo_csg.solve.compile.assembly.Layout`.
    context : SolveContext
        Its options come on top of exact tolerances and one thread.
    relaxed : bool, optional
        Whether integer variables are taken as continuous.
    scaled : bool, optional
        Whether costs are brought to a size that suits HiGHS's tolerances.
    """

    def __init__(
        self,
        layout: Shape,
        context: SolveContext,
        relaxed: bool = False,
        scaled: bool = False,
    ):
        self.layout = layout
        self._stats, options = context.stats, context.options
        self._highs: Any = highspy.Highs()
        for name, value in {**_EXACT, **options}.items():
            self._highs.setOptionValue(name, value)
        self._integer = (
            layout.integer if not relaxed else np.zeros(layout.columns, bool)
        )
        self._scaled, self._scale = scaled, 1.0
        self._cost: tuple[np.ndarray, np.ndarray] | None = None  # as given, as sent
        self._seconds = options.get("time_limit")
        self._sent: Arrays | None = None
        self._kinds = self._integer.astype(np.int32)  # 1 is HiGHS's for an integer
        self._columns = np.arange(layout.columns, dtype=np.int32)
        self._rows = np.arange(layout.rows, dtype=np.int32)

    def load(self, arrays: Arrays) -> None:
        """Make HiGHS hold this program."""
        # Until all is sent nothing is known of what HiGHS holds.
        (sent, self._sent), highs = (self._sent, None), self._highs
        if sent is None or not _same(sent.values, arrays.values):
            self._pass(arrays)
            self._sent = arrays
            return
        if not _same(sent.cost, arrays.cost):
            cost = self._rescaled(arrays.cost)
            _check(highs.changeColsCost(len(self._columns), self._columns, cost))
        if (
            sent.row_lower is not arrays.row_lower
            or sent.row_upper is not arrays.row_upper
        ):
            _check(
                highs.changeRowsBounds(
                    len(self._rows), self._rows, arrays.row_lower, arrays.row_upper
                )
            )
        if not (
            _same(sent.column_lower, arrays.column_lower)
            and _same(sent.column_upper, arrays.column_upper)
        ):
            _check(
                highs.changeColsBounds(
                    len(self._columns),
                    self._columns,
                    arrays.column_lower,
                    arrays.column_upper,
                )
            )
        self._sent = arrays

    def start_from(self, basis: Any) -> None:
        """Start from a basis; None leaves the last one."""
        if basis is not None:
            self._highs.setBasis(basis)

    def run(self) -> None:
        """Solve, from the last basis or the one that was set."""
        status = self._run()
        if status == _STATUS.kOptimal:
            return
        if status not in (_STATUS.kTimeLimit, _STATUS.kInterrupt):
            # A warm start can lead astray; what counts is the answer from scratch.
            self._highs.clearSolver()
            status = self._run()
        if status != _STATUS.kOptimal:
            raise status_trouble(status)

    def _run(self) -> Any:
        if self._seconds is not None and not self._integer.any():
            # HiGHS counts a linear program's time over the life of the object.
            limit = self._highs.getRunTime() + self._seconds
            self._highs.setOptionValue("time_limit", limit)
        start = time.perf_counter()
        outcome = self._highs.run()
        self._stats.solver_seconds += time.perf_counter() - start
        self._stats.solves += 1
        _, pivots = self._highs.getInfoValue("simplex_iteration_count")
        self._stats.iterations += max(0, pivots)
        if outcome == highspy.HighsStatus.kError:
            return _STATUS.kSolveError
        return self._highs.getModelStatus()

    def _rescaled(self, cost: np.ndarray) -> np.ndarray:
        """Return costs times the power of two that brings the largest to about 1.

        HiGHS's tolerance on duals is absolute: with small costs it would call decisions
        optimal that are not.
        """
        if self._cost is None or self._cost[0] is not cost:
            largest = float(np.abs(cost).max(initial=0.0))
            if self._scaled and 0 < largest < math.inf:
                self._scale = math.ldexp(1.0, 1 - math.frexp(largest)[1])
            self._cost = cost, self._scale * cost
        return self._cost[1]

    def solution(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the columns' values, the columns' duals and the rows' duals."""
        numbers = np.frombuffer(bytearray(self.packed(dual_parts)))
        columns = len(self._columns)
        x, duals = numbers[:columns], numbers[columns:] / self._scale
        return x, duals[:columns], duals[columns:]

    def point(self) -> np.ndarray:
        """Return the columns' values."""
        return np.frombuffer(bytearray(self.packed(column_parts)))

    def packed(self, parts: Callable[[Any], list[float]]) -> bytes:
        """Return parts of HiGHS's solution as bytes, duals times ``scale``."""
        # HiGHS gives lists, and nothing makes numbers of lists sooner than this.
        numbers = parts(self._highs.getSolution())
        return struct.pack(f"{len(numbers)}d", *numbers)

    @property
    def scale(self) -> float:
        """What the costs were multiplied by."""
        return self._scale

    @property
    def arrays(self) -> Arrays:
        """The program that HiGHS holds."""
        assert self._sent is not None
        return self._sent

    @property
    def highs(self) -> Any:
        """The HiGHS object itself."""
        return self._highs

    def _pass(self, arrays: Arrays) -> None:
        basis, layout = self._highs.getBasis(), self.layout
        _check(
            self._highs.passModel(
                layout.columns,
                layout.rows,
                len(layout.index),
                _COLUMNWISE,
                _MINIMISE,
                0.0,
                self._rescaled(arrays.cost),
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
            self._highs.setBasis(basis)
