"""The program of Opt-Search with its cut: stay optimal on the scenarios."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.compile.assembly import (
    Arrays,
    Blocks,
    Layout,
    Shape,
    Stack,
    held_at,
)
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import SolveContext, SolverTrouble
from pyomo_csg.solve.executors import stop_of_thread
from pyomo_csg.solve.lp.certificates import CertificateChecker
from pyomo_csg.solve.lp.highs_program import HighsProgram, status_trouble
from pyomo_csg.solve.lp.rescaling import RescaledSolver

_STATUS = highspy.HighsModelStatus
_FEASIBLE = highspy.SolutionStatus.kSolutionStatusFeasible
# Steepest edge would have to find all its weights again for each basis that is set.
_DEVEX = 1
_RELAXED = {"presolve": "off", "simplex_dual_edge_weight_strategy": _DEVEX}
_OPTIMAL = 1e-9  # by so much a point may miss what is proven, beside the gap
_EXACT = {"mip_rel_gap": 0.0, "mip_abs_gap": 0.0, "mip_feasibility_tolerance": 1e-9}


class TimedProgram(HighsProgram):
    """A program that keeps a deadline.

    Parameters
    ----------
    layout : Shape
    context : SolveContext
    relaxed : bool, optional
        Whether integer variables are taken as continuous.
    """

    def __init__(
        self,
        layout: Shape,
        context: SolveContext,
        relaxed: bool = False,
    ):
        super().__init__(layout, context, relaxed, scaled=relaxed)
        self._deadline = context.deadline

    def attempt(self, arrays: Arrays, basis: Any = None) -> bool:
        """Solve, from a basis if there is one; say whether the program is feasible."""
        self.load(arrays)
        self.start_from(basis)
        return self._is_solved()

    def _is_solved(self) -> bool:
        status = self._run()
        if status == _STATUS.kInfeasible:
            return False
        if status != _STATUS.kOptimal:
            if (trouble := status_trouble(status)).is_limit:
                raise trouble
            self.run()
        return True

    def _run(self) -> Any:
        left = self._deadline.left()
        if left < math.inf:
            # HiGHS counts an LP's time from the making of the object, a MIP's from now.
            spent = 0.0 if self._integer.any() else self._highs.getRunTime()
            self._highs.setOptionValue("time_limit", left + spent)
        return super()._run()


class Relaxation(TimedProgram):
    """A program whose integer variables are taken as continuous."""

    def __init__(
        self,
        layout: Shape,
        context: SolveContext,
    ):
        super().__init__(layout, context.with_defaults(_RELAXED), relaxed=True)
        self.careful = RescaledSolver(layout, CertificateChecker(layout), context)

    def optimum(self) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Return the point just found, checked, and the duals of columns and rows."""
        x, _, prices = self.solution()
        x, verdict = self.careful.settled(self.arrays, x, prices)
        return x, verdict.duals


@dataclass
class MipResult:
    """What was found of an integer program.

    Attributes
    ----------
    x : array, optional
        The best point, its integer columns whole.
    bound : float
        What no point costs less than.
    stopped : SolverTrouble, optional
        The limit that stopped the solver before the point was proven to be optimal.
    """

    x: np.ndarray | None
    bound: float
    stopped: SolverTrouble | None = None


class MipProgram(TimedProgram):
    """An integer program that is solved exactly, unless options say otherwise."""

    def __init__(
        self,
        layout: Shape,
        context: SolveContext,
    ):
        super().__init__(layout, context.with_defaults(_EXACT))
        self._context, options = context, context.options
        self._checker = CertificateChecker(layout)
        self._highest = math.inf
        self._highs.cbMipInterrupt += self._watch
        self._gap = float(options.get("mip_rel_gap", 0.0))
        self._absolute_gap = float(options.get("mip_abs_gap", 0.0)) + _OPTIMAL
        self._bound = -math.inf

    def search(
        self,
        arrays: Arrays,
        start: np.ndarray | None = None,
        highest: float = math.inf,
    ) -> np.ndarray | None:
        """Return an optimal point whose integer columns are whole, if there is one.

        Once no point can cost as little as ``highest``, there is none.
        """
        best = self.best(arrays, start, highest)
        if best.stopped is not None:
            raise best.stopped
        return best.x

    def best(
        self,
        arrays: Arrays,
        start: np.ndarray | None = None,
        highest: float = math.inf,
    ) -> MipResult:
        """As :meth:`search`; if a limit stops the solver, what it had found by then."""
        self.load(arrays)
        self._highest = highest - arrays.offset  # HiGHS has no option for that
        self._bound = -math.inf
        if start is not None:
            solution = highspy.HighsSolution()
            solution.col_value = start.tolist()
            self._highs.setSolution(solution)
        try:
            if not self._is_solved():
                return MipResult(None, highest)
        except SolverTrouble as trouble:
            if not trouble.is_limit:
                raise
            return self._stopped(arrays, start, trouble)
        self._stats.nodes += max(0, self._highs.getInfo().mip_node_count)
        x = self._polished(arrays, self.point())
        self._check_bound(float(arrays.cost @ x))
        return MipResult(x, self._bound + arrays.offset)

    def _check_bound(self, value: float) -> None:
        """Raise a SolverTrouble where a point that is called optimal is not, by its bound."""
        size = max(abs(value), abs(self._bound))
        allowed = (self._gap + _OPTIMAL) * size + self._absolute_gap
        if not abs(value - self._bound) <= allowed:
            raise SolverTrouble(
                "not optimal",
                f"the point found costs {value:.9g}, but {self._bound:.9g} is all that "
                "is proven",
            )

    def _stopped(
        self, arrays: Arrays, start: np.ndarray | None, trouble: SolverTrouble
    ) -> MipResult:
        """Return the better of the start and of what HiGHS found."""
        points = [p for p in (start, self._incumbent(arrays)) if p is not None]
        x = min(points, key=lambda point: float(arrays.cost @ point), default=None)
        return MipResult(x, self._bound + arrays.offset, trouble)

    def _incumbent(self, arrays: Arrays) -> np.ndarray | None:
        """Return the best whole point that HiGHS has, if it has any."""
        if self._highs.getInfo().primal_solution_status != _FEASIBLE:
            return None
        self._deadline.start()  # anew: a point that is known is worth a linear program
        try:
            return self._polished(arrays, self.point())
        except SolverTrouble:
            return None

    def _run(self) -> Any:
        self._stop = stop_of_thread()
        status = super()._run()
        self._bound = self._proven(status)
        if status == _STATUS.kInterrupt and self._bound > self._highest:
            return _STATUS.kInfeasible
        return status

    def _proven(self, status: Any) -> float:
        if self._integer.any():
            return self._highs.getInfo().mip_dual_bound
        optimal = status == _STATUS.kOptimal
        return self._highs.getObjectiveValue() if optimal else -math.inf

    def _watch(self, event: Any) -> None:
        """Have HiGHS stop once its bound is above a cost; and let Ctrl-C come through."""
        # HiGHS keeps the answer from one event, and one run, to the next.
        above = event.data_out.mip_dual_bound > self._highest
        event.interrupt(above or self._stop.is_set())

    def bound(self) -> float:
        """Return what no point of the last program costs less than, without offset."""
        return self._bound

    def _polished(self, arrays: Arrays, x: np.ndarray) -> np.ndarray:
        """Round the integers; let the others follow where that breaks a row."""
        whole = self.layout.integer
        point = np.where(whole, np.rint(x), x)
        if self._checker.keeps(arrays, point):
            return point
        held = self.held(arrays, point)
        if held is None:
            raise SolverTrouble(
                "not whole", "rounding the integers of the point found breaks a row"
            )
        return held

    def held(self, arrays: Arrays, x: np.ndarray) -> np.ndarray | None:
        """Return the best point with the integers of ``x``, if there is any."""
        held = held_at(arrays, self.layout.integer, x)
        return self._relaxation.optimum()[0] if self._relaxation.attempt(held) else None

    @cached_property
    def _relaxation(self) -> Relaxation:
        return Relaxation(self.layout, self._context)


_SLACK = 1e-9
_ROUNDING = 1e-12
_BETTER = 1e-6


def cost_tolerance(value: Any) -> Any:
    """Return by how much costs (...) may exceed values and still count as equal."""
    return _SLACK * np.maximum(1.0, np.abs(value))


def excess(saa: Arrays | Stack, x: np.ndarray, value: Any) -> np.ndarray:
    """Return by how much points (...) of zeta-SAA break the cut, 0 within rounding."""
    paid = saa.cost * x
    over = paid.sum(axis=-1) + saa.offset - value
    # The cut has its slack, and a row the solver's tolerance.
    allowed = 2 * cost_tolerance(value) + _ROUNDING * np.abs(paid).sum(axis=-1)
    return np.where(over <= allowed, 0.0, over)


def check_cut(saa: Arrays, x: np.ndarray, value: float, gap: float = 0.0) -> None:
    """Raise a SolverTrouble where a point of zeta-SAA breaks the cut.

    A point that is better than the optimum, by more than the gap, is no label either.
    """
    over = float(excess(saa, x, value))
    if over:
        raise SolverTrouble(
            "cut broken",
            f"the point found costs {over:.3g} more than the optimum {value:.9g}",
        )
    under = value - float(saa.cost @ x) - saa.offset
    if under > (gap + _BETTER) * max(1.0, abs(value)):
        raise SolverTrouble(
            "not optimal",
            f"a point costs {under:.3g} less than the optimum found, {value:.9g}",
        )


class SearchLayout(Layout):
    """Where everything stands in Opt-Search: the scenarios' blocks, then the outcome's."""

    def __init__(self, compiled: CompiledModel, count: int):
        super().__init__(compiled, count + 1)
        self.scenario_columns = self.columns - self.n2
        self.scenario_rows = self.rows - self.m2
        self._outcome = np.concatenate([np.zeros(count), [1.0]])

    def searching(self, blocks: Blocks, outcome: Blocks) -> Arrays:
        """Return the program that minimises the outcome's cost alone."""
        return self.arrays(blocks.joined(outcome), self._outcome)

    def searching_many(self, blocks: Blocks, outcomes: Blocks) -> Stack:
        """Return the programs of many cases; outcomes have one block each."""
        weights = np.broadcast_to(self._outcome, (len(blocks.cost), len(self._outcome)))
        return self.stack(blocks.joined(outcomes), weights)


class CutLayout:
    """A layout and a last row: the cost on the scenarios.

    Parameters
    ----------
    base : Layout

    Attributes
    ----------
    columns, rows : int
    start, index : array
    integer : array (columns,)
    """

    def __init__(self, base: Layout):
        self.columns, self.rows = base.columns, base.rows + 1
        self.integer = base.integer
        added = np.minimum(np.arange(self.columns + 1), base.scenario_columns)
        self.start = (base.start + added).astype(np.int32)
        self._cut = np.zeros(self.start[-1], bool)
        self._cut[self.start[1 : base.scenario_columns + 1] - 1] = True
        self.index = np.empty(self.start[-1], np.int32)
        self.index[self._cut] = base.rows
        self.index[~self._cut] = base.index
        self._last: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def cut(self, base: Arrays, cost: np.ndarray, limit: float) -> Arrays:
        """Return the program; ``cost`` @ the scenarios' columns is at most ``limit``."""
        return Arrays(
            base.cost,
            base.offset,
            base.column_lower,
            base.column_upper,
            np.append(base.row_lower, -np.inf),
            np.append(base.row_upper, limit),
            self._values(base.values, cost),
        )

    def _values(self, values: np.ndarray, cost: np.ndarray) -> np.ndarray:
        """Return the matrix, the same object where neither part is another."""
        last = self._last
        if last is not None and last[0] is values and last[1] is cost:
            return last[2]
        joined = np.empty(len(self.index))
        joined[self._cut] = cost
        joined[~self._cut] = values
        self._last = values, cost, joined
        return joined
