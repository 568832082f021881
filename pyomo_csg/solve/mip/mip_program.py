"""Integer programs and their relaxations in HiGHS, and the size of a program's costs.

The tolerances of branch-and-bound are relative to that size. It is measured at a point of the
program itself: the cost of other scenarios, or of the Params' current values, may be millions
of times larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Shape, Stack, held_at
from pyomo_csg.solve.engine import SolveContext, SolverTrouble
from pyomo_csg.solve.executors import thread_stop_event
from pyomo_csg.solve.lp.certificates import CertificateChecker
from pyomo_csg.solve.lp.highs_program import HighsProgram
from pyomo_csg.solve.lp.rescaling import CertifiedProgram
from pyomo_csg.solve.lp.units import NaturalUnits, power_of_two_below

_STATUS = highspy.HighsModelStatus
_FEASIBLE = highspy.SolutionStatus.kSolutionStatusFeasible
# Steepest edge would recompute all its weights for each basis that is set. Presolve would drop
# the basis from which the next node starts.
_DEVEX = 1
_RELAXED = {"presolve": "off", "simplex_dual_edge_weight_strategy": _DEVEX}
_OPTIMAL = 1e-9  # allowed distance between a point's cost and its bound, beside the gap
_EXACT = {"mip_rel_gap": 0.0, "mip_abs_gap": 0.0, "mip_feasibility_tolerance": 1e-9}
# The slack of the cut "stay optimal on the scenarios". HiGHS's feasibility tolerance is 1e-9: with
# less slack the optimum itself could be cut off, with more the loss would be visibly too low.
COST_SLACK = 1e-9
_MOST_COST = 2.0**20  # in all: beside it, HiGHS's tolerances are not below the rounding
_NOTHING = 1e-12  # share of a typical cost below which a point counts as free


class Relaxation(CertifiedProgram):
    """A program with its integer variables continuous, and certified optima."""

    def __init__(self, layout: Shape, context: SolveContext):
        super().__init__(layout, context, _RELAXED)


@dataclass
class MipResult:
    """The best point of an integer program, if any, and a bound.

    ``stopped`` is the limit that ended the solve before the point was proven optimal.
    """

    x: np.ndarray | None
    bound: float
    stopped: SolverTrouble | None = None


class MipProgram(HighsProgram):
    """An integer program, solved exactly unless options say otherwise.

    HiGHS's tolerances are absolute. So it gets the costs of each program in a unit, a power of
    two, in which the cost terms of the program's relaxation add up to one at least, and to a
    million at most. Costs between these are left as they are: HiGHS's heuristics and cuts depend on
    them, and smaller ones take it longer. ``bound`` is the lower bound of the last program,
    without its offset.
    """

    def __init__(self, layout: Shape, context: SolveContext):
        super().__init__(layout, context.with_defaults(_EXACT))
        self._context, options = context, context.options
        self._checker = CertificateChecker(layout)
        self._highest, self._factor, self._size = math.inf, 1.0, 1.0
        self._units: NaturalUnits | None = None
        self.highs.cbMipInterrupt += self._interrupt
        self._gap = float(options.get("mip_rel_gap", 0.0))
        self._absolute_gap = float(options.get("mip_abs_gap", 0.0))
        self.bound = -math.inf

    def load(self, arrays: Arrays) -> None:
        """Make HiGHS hold this program, in natural units if its own could mislead it."""
        units = self._natural_units(arrays)
        arrays = replace(arrays, cost=self._factor * arrays.cost)
        super().load(units.scaled(arrays) if units.is_needed else arrays)

    def _natural_units(self, arrays: Arrays) -> NaturalUnits:
        """Return the units of the first program, which all others share."""
        if self._units is None:
            self._units = NaturalUnits(self.layout, arrays)
        return self._units

    def point(self) -> np.ndarray:
        """Return the column values."""
        found = super().point()
        if self._units is None or not self._units.is_needed:
            return found
        return found * self._units.columns

    def minimize(
        self,
        arrays: Arrays,
        start: np.ndarray | None = None,
        highest: float = math.inf,
    ) -> np.ndarray | None:
        """Return an optimal point, or None if there is none that costs at most ``highest``."""
        result = self.solve_to_limit(arrays, start, highest)
        if result.stopped is not None:
            raise result.stopped
        return result.x

    def solve_to_limit(
        self,
        arrays: Arrays,
        start: np.ndarray | None = None,
        highest: float = math.inf,
        size: float | None = None,
    ) -> MipResult:
        """Solve as :meth:`minimize`; if a limit stops HiGHS, return the incumbent.

        ``size`` is that of the relaxation's cost terms, where it is known.
        """
        self.bound, self._highest = -math.inf, highest - arrays.offset
        try:
            self._set_unit(arrays, size)
            if not self.solve_if_feasible(arrays, start=self._start(arrays, start)):
                return MipResult(None, highest)
        except SolverTrouble as trouble:
            if not trouble.is_limit:
                raise
            points = [p for p in (start, self._incumbent(arrays)) if p is not None]
            x = min(points, key=lambda point: float(arrays.cost @ point), default=None)
            return MipResult(x, self.bound + arrays.offset, trouble)
        self._stats.nodes += max(0, self.highs.getInfo().mip_node_count)
        x = self._polish(arrays, self.point())
        self._check_gap(float(arrays.cost @ x))
        return MipResult(x, self.bound + arrays.offset)

    def _set_unit(self, arrays: Arrays, size: float | None) -> None:
        """Choose the unit of the costs that HiGHS gets."""
        self._size = size = self._cost_size(arrays) if size is None else size
        is_usual = 1 <= size <= _MOST_COST
        self._factor = 1.0 if is_usual else power_of_two_below(size)
        if size > _MOST_COST:
            self._factor *= _MOST_COST
        if self._absolute_gap:
            gap = self._factor * self._absolute_gap
            self.highs.setOptionValue("mip_abs_gap", gap)

    def _cost_size(self, arrays: Arrays) -> float:
        """Return the sum of the relaxation's absolute cost terms."""
        if not self._is_mip:
            return float(np.abs(arrays.cost).max(initial=0.0))
        try:
            if self._relaxation.solve_if_feasible(arrays):
                return cost_size(self.layout, arrays, self._relaxation.point())
        except SolverTrouble as trouble:
            if trouble.is_limit:
                raise
        return typical_cost(self.layout, arrays)

    def _start(self, arrays: Arrays, start: np.ndarray | None) -> np.ndarray | None:
        """Return a start in the units of the program that HiGHS holds."""
        if start is None:
            return None
        units = self._natural_units(arrays)
        return start / units.columns if units.is_needed else start

    def _check_gap(self, value: float) -> None:
        """Raise a SolverTrouble if the bound does not prove the value optimal."""
        size = max(abs(value), abs(self.bound))
        allowed = (self._gap + _OPTIMAL) * size + self._absolute_gap
        allowed += _OPTIMAL * self._size
        if not abs(value - self.bound) <= allowed:
            raise SolverTrouble(
                "not optimal",
                f"the point found costs {value:.9g}, but the proven bound is "
                f"{self.bound:.9g}",
            )

    def _incumbent(self, arrays: Arrays) -> np.ndarray | None:
        """Return the best integer point that HiGHS has, if any."""
        if self.highs.getInfo().primal_solution_status != _FEASIBLE:
            return None
        self._deadline.start()  # polishing a known point is worth one more LP
        try:
            return self._polish(arrays, self.point())
        except SolverTrouble:
            return None

    def _run(self) -> Any:
        self._stop = thread_stop_event()
        status = super()._run()
        if self._is_mip:
            bound = self.highs.getInfo().mip_dual_bound
        else:
            optimal = status == _STATUS.kOptimal
            bound = self.highs.getObjectiveValue() if optimal else -math.inf
        self.bound = bound / self._factor
        if status == _STATUS.kInterrupt and self.bound > self._highest:
            return _STATUS.kInfeasible
        return status

    def _interrupt(self, event: Any) -> None:
        """Stop HiGHS when its bound exceeds the highest cost, or on Ctrl-C."""
        # HiGHS has no option for the former. It keeps the flag between events and runs, so the
        # flag must be reset, too.
        above = event.data_out.mip_dual_bound / self._factor > self._highest
        event.interrupt(above or self._stop.is_set())

    def _polish(self, arrays: Arrays, x: np.ndarray) -> np.ndarray:
        """Round the integers; re-optimize the other variables if that violates a row."""
        point = np.where(self.layout.integer, np.rint(x), x)
        if self._checker.is_feasible(arrays, point):
            return point
        fixed = self.solve_with_fixed_integers(arrays, point)
        if fixed is None:
            raise SolverTrouble(
                "not whole", "rounding the integers of the point found violates a row"
            )
        return fixed

    def solve_with_fixed_integers(
        self, arrays: Arrays, x: np.ndarray
    ) -> np.ndarray | None:
        """Return the best point with the integers of ``x``, if there is any."""
        fixed = held_at(arrays, self.layout.integer, x)
        if not self._relaxation.solve_if_feasible(fixed):
            return None
        return self._relaxation.certified_solution()[0]

    @cached_property
    def _relaxation(self) -> Relaxation:
        return Relaxation(self.layout, self._context)


def cost_terms(program: Arrays | Stack, x: np.ndarray) -> np.ndarray:
    """Return the sums of the absolute cost terms of points (..., columns)."""
    return np.asarray(np.abs(program.cost * x).sum(axis=-1))


def cost_size(layout: Shape, arrays: Arrays, x: np.ndarray) -> float:
    """Return the sum of a point's absolute cost terms; a typical cost if it costs nothing."""
    terms = float(cost_terms(arrays, x))
    costs = np.abs(arrays.cost)
    if terms > _NOTHING * costs.max(initial=0.0) * np.abs(x).max(initial=1.0):
        return terms
    typical = typical_cost(layout, arrays)
    return terms if terms > _NOTHING * typical else typical


def typical_cost(layout: Shape, arrays: Arrays) -> float:
    """Return the median cost of a column's natural unit; 1 if nothing costs anything."""
    costs = np.abs(arrays.cost * NaturalUnits(layout, arrays).columns)
    costs = costs[(costs > 0) & np.isfinite(costs)]
    return float(np.median(costs)) if len(costs) else 1.0
