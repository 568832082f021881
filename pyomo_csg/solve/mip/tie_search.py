"""Opt-Search in regions that hold all the optima of zeta-SAA."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Blocks, Stack
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import SolveContext, SolverTrouble, Troubles
from pyomo_csg.solve.lp.face_search import restrict_to_face
from pyomo_csg.solve.lp.highs_program import SolutionBuffer
from pyomo_csg.solve.mip.first_stage_tree import Region, restrict_each, restrict_to
from pyomo_csg.solve.mip.fixed_integers import ScenarioRecourse
from pyomo_csg.solve.mip.mip_program import (
    CutLayout,
    MipProgram,
    Relaxation,
    SearchLayout,
    check_cut,
    cost_tolerance,
    excess,
)
from pyomo_csg.solve.mip.rounding import Rounder


@dataclass
class Optimum:
    """An optimum of zeta-SAA, and its program.

    Attributes
    ----------
    x : array (columns,)
    value : float
    arrays : Arrays
    blocks : Blocks
    """

    x: np.ndarray
    value: float
    arrays: Arrays
    blocks: Blocks


@dataclass
class _Case:
    """One search: its program, the least cost so far, and a point to start from."""

    optimum: Optimum
    outcome: Blocks
    arrays: Arrays
    best: float = math.inf
    start: np.ndarray | None = None


class TieSearch:
    """Finds the least cost of an optimal decision under an outcome.

    A region that is one decision needs only its recourse. In one where the relaxation of
    zeta-SAA is exact its optimal face is searched without a cut, first relaxed: often
    that bound is met by the decision at hand or by rounding. Otherwise an integer
    program with the cut searches the region.

    Parameters
    ----------
    compiled : CompiledModel
    count : int
        How many scenarios there are.
    context : SolveContext
    reaction : Reaction
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        context: SolveContext,
        reaction: ScenarioRecourse,
    ):
        self._compiled, self._count, self._stats = compiled, count, context.stats
        self._context, self._deadline = context, context.deadline
        self._gap = float(context.options.get("mip_rel_gap", 0.0))
        self._integers = np.flatnonzero(compiled.first.integer)
        self._layout = SearchLayout(compiled, count)
        self._reaction = reaction

    def best(self, optimum: Optimum, regions: list[Region], outcome: Blocks) -> float:
        """Return l_opt, where all optima of zeta-SAA lie in the regions."""
        arrays = self._layout.searching(optimum.blocks, outcome)
        case = _Case(optimum, outcome, arrays)
        for region in regions:
            case.best = min(case.best, self._least(case, region))
        if case.best == math.inf:
            raise SolverTrouble("infeasible", "no optimal decision has a recourse")
        return case.best

    def on_faces(
        self,
        saa: Stack,
        values: np.ndarray,
        regions: list[Region],
        blocks: Blocks,
        outcomes: Blocks,
    ) -> np.ndarray:
        """Return l_opt (n,) where all optima lie on the face of one region each.

        All that is not HiGHS is done for all cases at once. NaN where rounding does not
        give it: :meth:`best` does.

        Parameters
        ----------
        saa : Stack
        values : array (n,)
            Optima of zeta-SAA.
        regions : list of Region
            With duals.
        blocks, outcomes : Blocks
            With two leading axes; outcomes have one block each.
        """
        columns, rows = zip(*(region.duals or () for region in regions), strict=True)
        stack = self._layout.searching_many(blocks, outcomes)
        stack = restrict_to_face(
            restrict_each(stack, self._integers, regions),
            (np.array(columns), np.array(rows)),
        )
        gathered, unsolved = SolutionBuffer(self._face_program), Troubles()
        for i, arrays in enumerate(stack):
            if self._is_solved_on_face(arrays):
                gathered.add()
            else:
                gathered.add_nothing()
                unsolved[i] = SolverTrouble("infeasible")
        points, prices = gathered.arrays()
        self._face_program.careful.mend(stack, points, prices, unsolved)
        whole, serve = self._rounder.whole_many(stack, points)
        serve &= excess(saa, whole[:, : self._layout.scenario_columns], values) == 0
        self._stats.relaxed += int(serve.sum())
        return np.where(serve, stack.values_of(whole), np.nan)

    def _is_solved_on_face(self, arrays: Arrays) -> bool:
        self._deadline.start()
        try:
            return self._face_program.attempt(arrays)
        except SolverTrouble:
            return False

    def _least(self, case: _Case, region: Region) -> float:
        if region.is_fixed and len(self._integers) == self._layout.n1:
            return self._reacting(case, region.lower)[0]
        exact = self._on_face(case, region) if region.duals is not None else None
        return self._by_cut(case, region) if exact is None else exact

    def _on_face(self, case: _Case, region: Region) -> float | None:
        """Return the least cost on the region's face, if its relaxation gives it."""
        assert region.duals is not None
        saa = case.optimum.arrays
        arrays = restrict_to(case.arrays, self._integers, region)
        arrays = restrict_to_face(arrays, region.duals)
        if not self._face_program.attempt(arrays):
            # No recourse on the face, or a face too narrow for the solver: the cut tells.
            return self._by_cut(case, Region(region.lower, region.upper))
        x, _ = self._face_program.optimum()
        bound = float(arrays.cost @ x) + arrays.offset
        if _reaches(bound, case.best):
            return case.best
        whole = self._rounder.whole(arrays, x)
        if whole is not None and not excess(
            saa, whole[: len(saa.cost)], case.optimum.value
        ):
            self._stats.relaxed += 1
            return float(arrays.cost @ whole) + arrays.offset
        self._use_decision_at_hand(case)
        return case.best if _reaches(bound, case.best) else None

    def _use_decision_at_hand(self, case: _Case) -> None:
        if case.start is None:
            decision = case.optimum.x[: self._layout.n1]
            cost, case.start = self._reacting(case, decision)
            case.best = min(case.best, cost)

    def _reacting(
        self, case: _Case, decision: np.ndarray
    ) -> tuple[float, np.ndarray | None]:
        """Return what a decision costs, infinite without a recourse, and the point."""
        reactions = self._reaction.to(case.outcome, decision)
        if reactions is None:
            return math.inf, None
        point = np.concatenate([case.optimum.x, reactions.z])
        point[: len(decision)] = decision
        return float(case.arrays.cost @ point) + case.arrays.offset, point

    def _by_cut(self, case: _Case, region: Region) -> float:
        """Return the least cost of the region's points that keep the cut."""
        self._use_decision_at_hand(case)
        optimum, saa = case.optimum, case.optimum.arrays
        limit = optimum.value + cost_tolerance(optimum.value) - saa.offset
        arrays = self._cut_layout.cut(case.arrays, saa.cost, limit)
        arrays = restrict_to(arrays, self._integers, region)
        if region.duals is not None:
            arrays = restrict_to_face(arrays, region.duals)
        start = case.start if self._holds(region, optimum.x) else None
        x = self._cut_program.search(arrays, start)
        if x is None:
            return math.inf
        check_cut(saa, x[: len(saa.cost)], optimum.value, self._gap)
        return float(arrays.cost @ x) + arrays.offset

    def _holds(self, region: Region, x: np.ndarray) -> bool:
        """Whether a point's first-stage integers are in a region."""
        whole = x[self._integers]
        return bool((region.lower <= whole).all() and (whole <= region.upper).all())

    @cached_property
    def _rounder(self) -> Rounder:
        return Rounder(self._layout)

    @cached_property
    def _face_program(self) -> Relaxation:
        return Relaxation(self._layout, self._context)

    @cached_property
    def _cut_layout(self) -> CutLayout:
        return CutLayout(self._layout)

    @cached_property
    def _cut_program(self) -> MipProgram:
        return MipProgram(self._cut_layout, self._context)


def _reaches(bound: float, cost: float) -> bool:
    """Whether nothing that keeps a bound costs less than a point that is known."""
    return cost < math.inf and bound >= cost - cost_tolerance(cost)
