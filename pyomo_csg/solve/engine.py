"""The interface between the oracle and its engines: tasks, results and errors.

The oracle makes a task, a worker gives it to an :class:`Engine`, and the engine returns
a result. Tasks and results are dataclasses whose arrays all have the cases on their
first axis, so that batches can be cut and joined.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from typing_extensions import Self

if TYPE_CHECKING:
    from pyomo_csg.solve.compile.assembly import Blocks


DEADLINE_PASSED = "the deadline of the call passed"
_LIMITS = ("time limit", "iteration limit", "solution limit")
_FINAL = (*_LIMITS, "interrupted", "bad data", "not exact")


class SolverTrouble(Exception):  # noqa: N818
    """A program that could not be solved; the status is ``'infeasible'``, ``'time limit'``, ..."""

    def __init__(self, status: str, detail: str = ""):
        super().__init__(status, detail)
        self.status = status
        self.detail = detail

    @property
    def is_limit(self) -> bool:
        """Whether a limit stopped the solver before it had an answer."""
        return self.status in _LIMITS

    @property
    def may_be_rounding(self) -> bool:
        """Whether the status may be due to rounding, so that other units are worth trying."""
        return self.status not in _FINAL

    @property
    def is_unclear(self) -> bool:
        """Whether the solver ended without an answer and without reaching a limit."""
        return self.status == "error" or self.status.startswith("not solved")


Troubles: TypeAlias = dict[int, SolverTrouble]  # by the number of the case


@contextmanager
def noted(troubles: Troubles, case: int) -> Iterator[None]:
    """Note the SolverTrouble that the code inside raises, if any, under the case."""
    try:
        yield
    except SolverTrouble as trouble:
        troubles[case] = trouble


def bad_data() -> SolverTrouble:
    """Return the trouble of a case whose coefficients are not finite."""
    return SolverTrouble(
        "bad data",
        "a coefficient, bound or cost is not a finite number at these outcomes",
    )


def bad_cases(bad: np.ndarray) -> Troubles:
    """Return the troubles of the cases (n,) whose coefficients are not finite."""
    return {int(i): bad_data() for i in np.flatnonzero(bad)}


@dataclass
class Stats:
    """Counts and times of the solver.

    Attributes
    ----------
    solves : int
        Calls of the solver.
    iterations : int
        Simplex iterations.
    nodes : int
        Nodes of branch-and-bound.
    cache_hits : int
        Programs answered by a known basis, without a solve.
    certified : int
        Losses that needed no search, since the duals prove a unique decision.
    relaxed : int
        Integer programs solved by their relaxation.
    solver_seconds, total_seconds : float
        Time in the solver, and in total.
    """

    solves: int = 0
    iterations: int = 0
    nodes: int = 0
    cache_hits: int = 0
    certified: int = 0
    relaxed: int = 0
    solver_seconds: float = 0.0
    total_seconds: float = 0.0

    def reset(self) -> Stats:
        """Return a copy of the counts, and set them to zero."""
        counts = replace(self)
        vars(self).update(vars(Stats()))
        return counts

    def add(self, other: Stats) -> None:
        """Add another's counts to these."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class Moment(float):
    """A value of ``time.monotonic()``; its pickle is valid in other processes, too."""

    def __reduce__(self) -> Any:
        return _moment_at, (self - time.monotonic() + time.time(),)

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self


def _moment_at(wall_clock: float) -> Moment:
    return Moment(wall_clock - time.time() + time.monotonic())


FOREVER = Moment(math.inf)


class Deadline:
    """When to stop: after the time limit of a case, in seconds, or at the end of the call.

    The limit holds for all programs of a case together. All solvers of an engine share the
    deadline of the call, ``call``.
    """

    def __init__(self, limit: float = math.inf, call: Deadline | None = None):
        self._limit, self._end = limit, math.inf
        self.of_call = self if call is None else call

    def start(self) -> None:
        """Start the clock of a case."""
        self._end = time.monotonic() + self._limit

    def set_end(self, end: float) -> None:
        """Set the end to a value of ``time.monotonic()``."""
        self._end = end

    def left(self) -> float:
        """Return the seconds left, or raise a SolverTrouble."""
        end = min(self._end, self.of_call._end)
        if end == math.inf:
            return math.inf
        left = end - time.monotonic()
        if left <= 0:
            over = end == self.of_call._end
            raise SolverTrouble("time limit", DEADLINE_PASSED if over else "")
        return left


@dataclass(frozen=True)
class SolveContext:
    """What the solvers of one engine share: counters, HiGHS options and a time limit."""

    stats: Stats = field(default_factory=Stats)
    options: Mapping[str, Any] = field(default_factory=dict)
    deadline: Deadline = field(default_factory=Deadline)

    def with_defaults(self, options: Mapping[str, Any]) -> SolveContext:
        """Return a context with these options where the user set none."""
        return replace(self, options={**options, **self.options})

    def with_deadline(self) -> SolveContext:
        """Return a context whose ``time_limit`` holds for a case, not for a program."""
        options = dict(self.options)
        limit = float(options.pop("time_limit", math.inf))
        deadline = Deadline(limit, self.deadline.of_call)
        return SolveContext(self.stats, options, deadline)

    def without_case_limit(self) -> SolveContext:
        """Return a context in which only the deadline of the call holds."""
        return replace(self, deadline=self.deadline.of_call)


C = TypeVar("C", bound="Cases")
R = TypeVar("R", bound="Result")


class Cases:
    """A dataclass whose arrays all have the cases on their first axis."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that are set, by name, in the order of the fields."""
        return {n: a for n, a in vars(self).items() if isinstance(a, np.ndarray)}

    def take(self, cases: Any) -> Self:
        """Return some of the cases, by a slice or by their numbers."""
        some = {name: array[cases] for name, array in self.arrays().items()}
        return replace(self, **some)  # type: ignore[type-var]

    def __len__(self) -> int:
        return len(next(iter(self.arrays().values())))


class Task(Cases, Generic[R]):
    """Cases to solve, which give a result of type ``R``; ``label`` is for progress bars."""

    label: ClassVar[str]

    def empty_result(self, width: int) -> R:
        """Return a result without answers, all NaN, for decisions of this width."""
        raise NotImplementedError

    def no_case(self) -> np.ndarray:
        """Return False for each case: nothing is proven of it."""
        return np.zeros(len(self), bool)

    def no_number(self, *shape: int) -> np.ndarray:
        """Return NaN for each case, (n, *shape)."""
        return np.full((len(self), *shape), np.nan)


@dataclass(frozen=True)
class SolveTask(Task["SolveResult"]):
    """Solve zeta-SAA on scenarios (n, K, p) with weights (n, K)."""

    label: ClassVar[str] = "solve"
    scenarios: np.ndarray
    weights: np.ndarray
    keys: np.ndarray | None = None
    gradient: bool = False

    def empty_result(self, width: int) -> SolveResult:
        values, bounds = self.no_number(), self.no_number()
        result = SolveResult(self.no_number(width), values, bounds)
        if self.gradient:
            result.gradients = np.full(self.scenarios.shape, np.nan)
            result.smooth = self.no_case()
        return result


@dataclass(frozen=True)
class LossTask(Task["LossResult"]):
    """Compute losses of one ``kind`` under outcomes (n, p).

    With ``outcome_weights`` (n, M), outcomes are (n, M, p), and a loss is that of the mean cost.
    """

    label: ClassVar[str] = "losses"
    scenarios: np.ndarray
    weights: np.ndarray
    outcomes: np.ndarray
    keys: np.ndarray | None = None
    kind: str = "optimistic"
    outcome_weights: np.ndarray | None = None

    def empty_result(self, width: int) -> LossResult:
        return LossResult(self.no_number(), self.no_case())


@dataclass(frozen=True)
class CostTask(Task["CostResult"]):
    """Compute the costs of decisions (n, s) under outcomes (n, p)."""

    label: ClassVar[str] = "costs"
    decisions: np.ndarray
    outcomes: np.ndarray

    def empty_result(self, width: int) -> CostResult:
        return CostResult(self.no_number())


@dataclass(frozen=True)
class GradientTask(Task["GradientResult"]):
    """Compute mean losses under outcomes (n, M, p) and their gradients."""

    label: ClassVar[str] = "loss gradients"
    scenarios: np.ndarray
    weights: np.ndarray
    outcomes: np.ndarray
    outcome_weights: np.ndarray
    keys: np.ndarray | None = None

    def empty_result(self, width: int) -> GradientResult:
        gradients = np.full(self.scenarios.shape, np.nan)
        return GradientResult(self.no_number(), gradients, self.no_case())


@dataclass(frozen=True)
class DecisionTask(Task["DecisionResult"]):
    """Compute decisions on scenarios, and derivatives of ``slope @ decision``.

    Slopes are (n, s). Without them, the derivatives are those of every decision variable.
    """

    label: ClassVar[str] = "decision gradients"
    scenarios: np.ndarray
    weights: np.ndarray
    slopes: np.ndarray | None = None
    keys: np.ndarray | None = None

    def empty_result(self, width: int) -> DecisionResult:
        shape = self.scenarios.shape[1:]
        shape = shape if self.slopes is not None else (width, *shape)
        derivatives = self.no_number(*shape)
        return DecisionResult(self.no_number(width), derivatives, self.no_case())


@dataclass(kw_only=True)
class Result(Cases):
    """The answers to cases, NaN if there is none, and the troubles of unsolved cases."""

    troubles: Troubles = field(default_factory=dict)

    def put_many(self, cases: np.ndarray, others: Result) -> None:
        """Fill in the answers to some of the cases."""
        for name, array in self.arrays().items():
            array[cases] = getattr(others, name)
        self.troubles.update((int(cases[i]), t) for i, t in others.troubles.items())

    def take(self, cases: Any) -> Self:
        """Return the answers to cases, by their numbers."""
        troubles = self.troubles
        kept = {i: troubles[c] for i, c in enumerate(cases.tolist()) if c in troubles}
        return replace(super().take(cases), troubles=kept)


@dataclass
class SolveResult(Result):
    """Decisions (n, s), values and bounds (n,), and gradients (n, K, p) if requested."""

    decisions: np.ndarray
    values: np.ndarray
    bounds: np.ndarray
    gradients: np.ndarray | None = None
    smooth: np.ndarray | None = None


@dataclass
class LossResult(Result):
    """Losses (n,), and whether each decision (n,) is proven to be unique."""

    losses: np.ndarray
    unique: np.ndarray


@dataclass
class CostResult(Result):
    """Costs (n,) of decisions."""

    costs: np.ndarray


@dataclass
class GradientResult(Result):
    """Losses (n,), gradients (n, K, p), and whether each loss (n,) is smooth there."""

    losses: np.ndarray
    gradients: np.ndarray
    smooth: np.ndarray


@dataclass
class DecisionResult(Result):
    """Decisions (n, s), derivatives (n, K, p) or (n, s, K, p), and where they are smooth."""

    decisions: np.ndarray
    derivatives: np.ndarray
    smooth: np.ndarray


def join(results: list[R]) -> R:
    """Join the results of consecutive chunks."""
    if len(results) == 1:
        return results[0]
    names = results[0].arrays()
    arrays = {n: np.concatenate([getattr(r, n) for r in results]) for n in names}
    troubles, first = Troubles(), 0
    for result in results:
        troubles.update((first + i, t) for i, t in result.troubles.items())
        first += len(result)
    return replace(results[0], **arrays, troubles=troubles)


class Engine(Protocol):
    """Solves batches of cases, one thread at a time; keeps its programs between calls."""

    stats: Stats

    def stop_at(self, end: float) -> None:
        """Solve nothing after this value of ``time.monotonic()``, until it is set anew."""

    def solve(self, task: SolveTask) -> SolveResult:
        """Solve zeta-SAA; a case starts from the last basis of its key, if any."""

    def losses(self, task: LossTask) -> LossResult:
        """Return losses; kinds are those of :meth:`pyomo_csg.Oracle.loss`."""

    def costs(self, task: CostTask) -> CostResult:
        """Return h(y) + Q(y, omega)."""

    def gradients(self, task: GradientTask) -> GradientResult:
        """Return mean losses over the outcomes of each case, and their gradients."""

    def decision_gradients(self, task: DecisionTask) -> DecisionResult:
        """Return decisions and their derivatives, integer variables held."""


@dataclass
class Found:
    """One optimum of zeta-SAA.

    ``value`` is recomputed from the point ``x``. Duals are those of a linear program.
    ``unique`` says that the first stage is proven to be the only optimal one. ``bound``
    is the proven bound of an integer program; otherwise the value is the bound.
    """

    x: np.ndarray
    value: float
    column_dual: np.ndarray | None = None
    row_dual: np.ndarray | None = None
    unique: bool = False
    bound: float | None = None


@dataclass
class Solved(Result):
    """Optima of zeta-SAA: decisions (n, s), values and bounds (n,), proven unique (n,).

    A case stopped by a limit has a trouble, and may have an incumbent all the same.
    """

    decisions: np.ndarray
    values: np.ndarray
    bounds: np.ndarray
    unique: np.ndarray

    @classmethod
    def empty(cls, cases: int, width: int) -> Solved:
        """Return a result without answers."""
        values, bounds = np.full((2, cases), np.nan)
        unknown = np.full((cases, width), np.nan)
        return cls(unknown, values, bounds, np.zeros(cases, bool))

    def put(self, case: int, found: Found) -> None:
        """Fill in the optimum of a case."""
        self.decisions[case] = found.x[: self.decisions.shape[1]]
        self.values[case] = found.value
        self.bounds[case] = found.value if found.bound is None else found.bound
        self.unique[case] = found.unique


class ScenarioSolver(Protocol):
    """Solves zeta-SAA on K scenarios and searches its optimal decisions."""

    def solve(self, blocks: Blocks, weights: np.ndarray) -> Found:
        """Return an optimum; blocks hold the recourse data of the K scenarios."""

    def solve_many(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        keys: np.ndarray,
        certify: bool = True,
    ) -> Solved:
        """Solve many cases, with two leading axes; prove uniqueness if ``certify``."""

    def search(
        self,
        found: Found,
        blocks: Blocks,
        weights: np.ndarray,
        outcome: Blocks,
        shares: np.ndarray | None = None,
    ) -> float:
        """Return l_opt for an outcome (blocks of length 1), after ``solve``.

        With ``shares`` (M,), there are M outcomes, and the cost is their weighted mean.
        """
