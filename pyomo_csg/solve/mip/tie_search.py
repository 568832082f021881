"""Opt-Search of integer programs: the best of all tied optimal decisions under an outcome."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Blocks, Layout, Stack
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import Found, SolveContext, SolverTrouble
from pyomo_csg.solve.lp.face_search import SearchLayout, excess_cost, restrict_to_face
from pyomo_csg.solve.lp.highs_program import SolutionBuffer
from pyomo_csg.solve.lp.units import power_of_two_below
from pyomo_csg.solve.mip.first_stage_tree import Region, restrict_each, restrict_to
from pyomo_csg.solve.mip.fixed_integers import ScenarioRecourse
from pyomo_csg.solve.mip.mip_program import (
    COST_SLACK,
    MipProgram,
    Relaxation,
    cost_size,
    cost_terms,
)
from pyomo_csg.solve.mip.rounding import Rounder

_ROUNDING = 1e-12  # error of a cost, relative to its absolute terms
# A point cheaper than the optimum by this share of its cost terms shows that the optimum was wrong.
# Smaller differences are within the solver's tolerances.
_BETTER = 1e-6


@dataclass
class _Case:
    """One search: zeta-SAA and its optimum, the search program, and the best so far."""

    found: Found
    saa: Arrays
    size: float  # of zeta-SAA's cost terms at its optimum
    outcome: Blocks
    arrays: Arrays
    best: float = math.inf
    start: np.ndarray | None = None


class TieSearch:
    """Finds the least cost of an optimal decision under an outcome, or the mean of several.

    The optima lie in given regions. A region that is a single decision needs only its recourse.
    In a region where the relaxation of zeta-SAA is exact, the optimal face is searched without a
    cut, relaxed first: often the decision at hand or rounding meets that bound. Otherwise, if
    the first stage is binary, zeta-SAA without the decision at hand may prove that there is no
    tie. Otherwise an integer program with the cut searches the region.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        layout: Layout,
        context: SolveContext,
        recourse: ScenarioRecourse,
        outcomes: int = 1,
    ):
        self._context, self._recourse = context, recourse
        self._stats, self._deadline = context.stats, context.deadline
        self._gap = float(context.options.get("mip_rel_gap", 0.0))
        self._integers = np.flatnonzero(compiled.first.integer)
        self._layout = SearchLayout(compiled, layout.blocks, outcomes)
        self._saa_layout = layout

    @cached_property
    def _rounder(self) -> Rounder:
        return Rounder(self._layout)

    @cached_property
    def _face_program(self) -> Relaxation:
        return Relaxation(self._layout, self._context)

    @cached_property
    def _other_layout(self) -> CutLayout:
        return CutLayout(self._saa_layout)

    @cached_property
    def _other_program(self) -> MipProgram:
        return MipProgram(self._other_layout, self._context)

    @cached_property
    def _cut_layout(self) -> CutLayout:
        return CutLayout(self._layout)

    @cached_property
    def _cut_program(self) -> MipProgram:
        return MipProgram(self._cut_layout, self._context)

    def search(
        self,
        found: Found,
        saa: Arrays,
        regions: list[Region],
        blocks: Blocks,
        outcome: Blocks,
        shares: np.ndarray | None = None,
    ) -> float:
        """Return l_opt, where all optima of zeta-SAA lie in the regions."""
        arrays = self._layout.search_arrays(blocks, outcome, shares)
        size = cost_size(self._saa_layout, saa, found.x)
        case = _Case(found, saa, size, outcome, arrays)
        for region in regions:
            case.best = min(case.best, self._search_region(case, region))
        if case.best == math.inf:
            raise SolverTrouble("infeasible", "no optimal decision has a recourse")
        return case.best

    def search_faces(
        self,
        saa: Stack,
        optima: np.ndarray,
        regions: list[Region],
        blocks: Blocks,
        outcomes: Blocks,
    ) -> np.ndarray:
        """Return l_opt (n,) of cases whose optima lie on the face of one region each.

        Everything but HiGHS runs on all cases at once. NaN where rounding does not give the
        answer: :meth:`search` does. Blocks have two leading axes; optima (n, columns) are
        zeta-SAA's.
        """
        columns, rows = zip(*(region.duals or () for region in regions), strict=True)
        stack = self._layout.search_stack(blocks, outcomes)
        stack = restrict_to_face(
            restrict_each(stack, self._integers, regions),
            (np.array(columns), np.array(rows)),
        )
        buffer = SolutionBuffer(self._face_program)
        for arrays in stack:
            self._deadline.start()
            with buffer.next_case():
                if not self._face_program.solve_if_feasible(arrays):
                    raise SolverTrouble("infeasible")
        points, row_duals = buffer.arrays()
        self._face_program.rescaled.repair(stack, points, row_duals, buffer.troubles)
        rounded, is_good = self._rounder.find_integer_points(stack, points)
        scenarios = rounded[:, : self._layout.scenario_columns]
        values, sizes = saa.values_at(optima), cost_terms(saa, optima)
        is_good &= cut_violation(saa, scenarios, values, sizes) == 0
        self._stats.relaxed += int(is_good.sum())
        return np.where(is_good, stack.values_at(rounded), np.nan)

    def _search_region(self, case: _Case, region: Region) -> float:
        if region.is_fixed and len(self._integers) == self._layout.n1:
            return self._solve_recourse(case, region.lower)[0]
        exact = self._search_face(case, region) if region.duals is not None else None
        return self._search_with_cut(case, region) if exact is None else exact

    def _search_face(self, case: _Case, region: Region) -> float | None:
        """Return the least cost on the region's face, if its relaxation gives it."""
        assert region.duals is not None
        arrays = restrict_to(case.arrays, self._integers, region)
        arrays = restrict_to_face(arrays, region.duals)
        if not self._face_program.solve_if_feasible(arrays):
            # No recourse on the face, or a face too narrow for the solver: the cut decides.
            return self._search_with_cut(case, Region(region.lower, region.upper))
        x, _ = self._face_program.certified_solution()
        bound = arrays.value(x)
        near = COST_SLACK * float(cost_terms(arrays, x))
        if bound >= case.best - near:
            return case.best
        rounded = self._rounder.find_integer_point(arrays, x)
        if rounded is not None and not cut_violation(
            case.saa, rounded[: len(case.saa.cost)], case.found.value, case.size
        ):
            self._stats.relaxed += 1
            return arrays.value(rounded)
        self._use_known_decision(case)
        return case.best if bound >= case.best - near else None

    def _search_with_cut(self, case: _Case, region: Region) -> float:
        """Return the least cost of the region's points that satisfy the cut."""
        self._use_known_decision(case)
        if self._is_only_decision(case):
            return case.best
        value, saa = case.found.value, case.saa
        limit = value + COST_SLACK * case.size - saa.offset
        unit = power_of_two_below(case.size)  # HiGHS's tolerance is absolute
        arrays = self._cut_layout.add_cut(case.arrays, unit * saa.cost, unit * limit)
        arrays = restrict_to(arrays, self._integers, region)
        if region.duals is not None:
            arrays = restrict_to_face(arrays, region.duals)
        start = case.start if self._contains(region, case.found.x) else None
        x = self._cut_program.minimize(arrays, start)
        if x is None:
            return math.inf
        check_cut(saa, x[: len(saa.cost)], value, case.size, self._gap)
        return arrays.value(x)

    def _is_only_decision(self, case: _Case) -> bool:
        """Whether a binary first stage has no other optimal decision.

        The program without that decision stops as soon as its bound exceeds the optimum, so it
        is easier than the search with a cut, which has to find a point.
        """
        saa, n1, found = case.saa, self._layout.n1, case.found
        lower, upper = saa.column_lower[:n1], saa.column_upper[:n1]
        is_binary = len(self._integers) == n1 and (upper - lower <= 1).all()
        if not is_binary or self._gap:
            return False
        decision, signs = found.x[:n1], np.zeros(len(saa.cost))
        signs[:n1] = np.where(decision > lower, 1.0, -1.0)
        limit = float(signs[:n1] @ decision) - 1
        # Not restricted to the region: with more binaries fixed, HiGHS took longer.
        others = self._other_layout.add_cut(saa, signs, limit)
        highest = found.value + 2 * COST_SLACK * case.size
        result = self._other_program.solve_to_limit(
            others, highest=highest, size=case.size
        )
        if result.stopped is not None:
            raise result.stopped
        return result.x is None or others.value(result.x) > highest

    def _use_known_decision(self, case: _Case) -> None:
        """Evaluate zeta-SAA's own decision, once, as an incumbent."""
        if case.start is None:
            decision = case.found.x[: self._layout.n1]
            cost, case.start = self._solve_recourse(case, decision)
            case.best = min(case.best, cost)

    def _solve_recourse(
        self, case: _Case, decision: np.ndarray
    ) -> tuple[float, np.ndarray | None]:
        """Return a decision's cost, infinite without recourse, and its point."""
        recourse = self._recourse.solve(case.outcome, decision)
        if recourse is None:
            return math.inf, None
        point = np.concatenate([case.found.x, recourse.z])
        point[: len(decision)] = decision
        return case.arrays.value(point), point

    def _contains(self, region: Region, x: np.ndarray) -> bool:
        """Whether a point's first-stage integers are in a region."""
        integers = x[self._integers]
        return bool(
            (region.lower <= integers).all() and (integers <= region.upper).all()
        )


def cut_violation(
    saa: Arrays | Stack, x: np.ndarray, value: Any, size: Any
) -> np.ndarray:
    """Return by how much points (...) of zeta-SAA violate the cut; 0 within rounding.

    ``size`` is that of the cost terms at the optimum.
    """
    # Twice: the cut has its slack, and the solver's rows have their tolerance.
    return excess_cost(saa, x, value, 2 * COST_SLACK * size, _ROUNDING)


def check_cut(
    saa: Arrays, x: np.ndarray, value: float, size: float, gap: float = 0.0
) -> None:
    """Raise a SolverTrouble if a point violates the cut, or is better than the optimum."""
    over = float(cut_violation(saa, x, value, size))
    if over:
        raise SolverTrouble(
            "cut broken",
            f"the point found costs {over:.3g} more than the optimum {value:.9g}",
        )
    under = value - float(saa.cost @ x) - saa.offset
    if under > (gap + _BETTER) * size:
        raise SolverTrouble(
            "not optimal",
            f"a point costs {under:.3g} less than the optimum found, {value:.9g}",
        )


class CutLayout:
    """A layout with one more row, the cut: the cost on the scenarios is at most a limit."""

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

    def add_cut(self, base: Arrays, cost: np.ndarray, limit: float) -> Arrays:
        """Return the program with the cut ``cost @ x <= limit`` on the scenarios' columns."""
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
        """Return the matrix: the same object while its parts are, so HiGHS keeps it."""
        last = self._last
        if last is not None and last[0] is values and last[1] is cost:
            return last[2]
        joined = np.empty(len(self.index))
        joined[self._cut] = cost
        joined[~self._cut] = values
        self._last = values, cost, joined
        return joined
