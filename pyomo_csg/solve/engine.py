"""What the oracle asks of a way to solve programs, one case at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from pyomo_csg.solve.compile.assembly import Blocks


_LIMITS = ("time limit", "iteration limit", "solution limit")


class SolverTrouble(Exception):  # noqa: N818, it becomes a SolveError with its case
    """A program that has no answer: infeasible, unbounded, out of time, off.

    Parameters
    ----------
    status : str
        ``'infeasible'``, ``'unbounded'``, ``'time limit'``, ...
    detail : str, optional
    """

    def __init__(self, status: str, detail: str = ""):
        super().__init__(status, detail)
        self.status = status
        self.detail = detail

    @property
    def is_limit(self) -> bool:
        """Whether a limit stopped the solver: there may be more to find."""
        return self.status in _LIMITS


Troubles = dict[int, SolverTrouble]  # by the case's number


def bad_data() -> SolverTrouble:
    """Return the trouble of a case whose data cannot be computed."""
    return SolverTrouble(
        "bad data",
        "a coefficient, bound or cost is not a finite number at these outcomes",
    )


@dataclass
class Stats:
    """What the solver did, and how long it took.

    Attributes
    ----------
    solves : int
        Calls of the solver.
    iterations : int
        Simplex iterations.
    nodes : int
        Nodes of branch-and-bound.
    cache_hits : int
        Programs answered by a basis that was known already.
    certified : int
        Losses that needed no search: the decision is unique, by its duals.
    relaxed : int
        Integer programs answered by their relaxation.
    solver_seconds, total_seconds : float
        Time inside the solver, and in all.
    """

    solves: int = 0
    iterations: int = 0
    nodes: int = 0
    cache_hits: int = 0
    certified: int = 0
    relaxed: int = 0
    solver_seconds: float = 0.0
    total_seconds: float = 0.0

    def taken(self) -> Stats:
        """Return these counts, and count from zero again."""
        found = Stats()
        counts, none = vars(self), vars(found).copy()
        vars(found).update(counts)
        counts.update(none)
        return found

    def add(self, other: Stats) -> None:
        """Add another's counts to these."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class Deadline:
    """One time limit, in seconds, for all the programs that a case takes."""

    def __init__(self, limit: float = math.inf):
        self._limit = limit
        self._end = math.inf

    def start(self) -> None:
        """Start the clock."""
        self._end = time.perf_counter() + self._limit

    def left(self) -> float:
        """Return the seconds left, or raise a SolverTrouble."""
        if self._end == math.inf:
            return math.inf
        left = self._end - time.perf_counter()
        if left <= 0:
            raise SolverTrouble("time limit")
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
        return SolveContext(self.stats, options, Deadline(limit))


@dataclass(frozen=True)
class Point:
    """An optimal decision of zeta-SAA, its value and bound, lower being better."""

    decision: np.ndarray
    value: float
    bound: float
    status: str = field(default="optimal")


@dataclass
class Found:
    """An optimum of zeta-SAA as the arrays of its program.

    Attributes
    ----------
    x : array (columns,)
    value : float
        Recomputed from ``x``.
    column_dual, row_dual : array, optional
        Of a linear program.
    unique : bool
        Whether the first stage is certified to be unique.
    bound : float, optional
        What no decision costs less than, of an integer program; else it is the value.
    """

    x: np.ndarray
    value: float
    column_dual: np.ndarray | None = None
    row_dual: np.ndarray | None = None
    unique: bool = False
    bound: float | None = None


@dataclass
class Solved:
    """What was found for many cases; NaN where nothing was.

    Attributes
    ----------
    decisions : array (n, s)
    values, bounds : array (n,)
        What decisions cost, and what none costs less than.
    unique : array (n,) of bool
        Which decisions are certified to be the only optimal ones.
    troubles : dict
        By the case's number. A case that a limit stopped may have the best decision
        that was found by then all the same.
    """

    decisions: np.ndarray
    values: np.ndarray
    bounds: np.ndarray
    unique: np.ndarray
    troubles: Troubles = field(default_factory=dict)

    @classmethod
    def nothing(cls, cases: int, width: int) -> Solved:
        """Return what is known of cases before they are solved."""
        values, bounds = np.full((2, cases), np.nan)
        unknown = np.full((cases, width), np.nan)
        return cls(unknown, values, bounds, np.zeros(cases, bool))

    def put(self, case: int, found: Found) -> None:
        """Take what was found for a case."""
        self.decisions[case] = found.x[: self.decisions.shape[1]]
        self.values[case] = found.value
        self.bounds[case] = found.value if found.bound is None else found.bound
        self.unique[case] = found.unique

    def put_many(self, cases: np.ndarray, others: Solved) -> None:
        """Take what was found for some of the cases."""
        for name in ("decisions", "values", "bounds", "unique"):
            getattr(self, name)[cases] = getattr(others, name)
        self.troubles.update((int(cases[i]), t) for i, t in others.troubles.items())


class Strategy(Protocol):
    """A way to solve zeta-SAA on K scenarios, and to search its optimal decisions."""

    def solve(self, blocks: Blocks, weights: np.ndarray) -> Found:
        """Return an optimum; blocks hold the recourse data of the K scenarios."""

    def search(
        self, found: Found, blocks: Blocks, weights: np.ndarray, outcome: Blocks
    ) -> float:
        """Return l_opt for an outcome (blocks of length 1), after ``solve``."""


def solve_each(
    strategy: Strategy, blocks: Blocks, weights: np.ndarray, width: int
) -> Solved:
    """Solve one case after the other, for blocks with two leading axes."""
    solved = Solved.nothing(len(weights), width)
    for i in range(len(weights)):
        try:
            solved.put(i, strategy.solve(blocks[i], weights[i]))
        except SolverTrouble as trouble:
            solved.troubles[i] = trouble
    return solved
