"""Leaves of the first-stage tree: integer programs whose first-stage integers are fixed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Blocks, Layout, RecourseLayout
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import SolveContext
from pyomo_csg.solve.mip.first_stage_tree import Node
from pyomo_csg.solve.mip.mip_program import COST_SLACK, MipProgram, MipResult

_MANY_INTEGERS = 50  # in the recourse, from which a start helps HiGHS
_START_ROUNDS = 3
_LITE = {
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_allow_restart": False,
    "mip_detect_symmetry": False,
}
_NO_SUBPROGRAMS = {"mip_heuristic_run_rins": False, "mip_heuristic_run_rens": False}


def fixed_integer_context(context: SolveContext) -> SolveContext:
    """Return a context with options that suit a leaf; the user's take precedence."""
    # A leaf's start is mostly optimal, so only the proof remains. With a gap, better points help
    # as much as better bounds, and HiGHS's subprograms find them.
    has_gap = context.options.get("mip_rel_gap")
    return context.with_defaults(_LITE if has_gap else {**_LITE, **_NO_SUBPROGRAMS})


@dataclass
class RecourseResult:
    """The best recourse to each outcome, and lower bounds of its costs, without constants."""

    z: np.ndarray  # (outcomes * recourse columns,), as in a program on these outcomes
    bound: np.ndarray  # (outcomes,)


@dataclass
class CostLimit:
    """A limit on the weighted total cost of the recourse to some outcomes."""

    weights: np.ndarray
    least: np.ndarray  # lower bounds of the weighted costs
    terms: np.ndarray  # the sums of the absolute terms of these bounds
    spare: float  # by how much the total may exceed the sum of the bounds

    def highest(self, k: int) -> float:
        """Return the limit on one outcome's cost if all others are at their bounds."""
        if self.weights[k] <= 0:
            return math.inf
        slack = COST_SLACK * (self.terms[k] + abs(self.spare))
        return float((self.least[k] + self.spare + slack) / self.weights[k])

    def spend(self, k: int, cost: float) -> None:
        """Subtract what an outcome's recourse costs above its bound."""
        self.spare -= float(self.weights[k] * cost - self.least[k])


class ScenarioRecourse:
    """Finds the best recourse to one decision, one outcome at a time."""

    def __init__(self, compiled: CompiledModel, context: SolveContext):
        self._layout = RecourseLayout(compiled)
        self._program = MipProgram(self._layout, context)

    def solve(
        self, blocks: Blocks, decision: np.ndarray, limit: CostLimit | None = None
    ) -> RecourseResult | None:
        """Return the best recourse to each outcome.

        None if an outcome has none, or as soon as the total must exceed the limit.
        """
        count = len(blocks.row_lower)
        decisions = np.broadcast_to(decision, (count, len(decision)))
        shift = self._layout.shift(blocks, decisions)
        z, bound = np.empty((count, self._layout.columns)), np.empty(count)
        for k in range(count):
            arrays = self._layout.arrays(blocks[k], shift[k])
            highest = math.inf if limit is None else limit.highest(k)
            found = self._program.minimize(arrays, highest=highest)
            if found is None or (cost := float(arrays.cost @ found)) > highest:
                return None
            z[k], bound[k] = found, self._program.bound
            if limit is not None:
                limit.spend(k, cost)
        return RecourseResult(z.ravel(), bound)


class FixedIntegerSolver:
    """Solves leaves: scenario by scenario if the whole first stage is fixed, else by HiGHS."""

    def __init__(
        self, layout: Layout, context: SolveContext, recourse: ScenarioRecourse
    ):
        self._layout, self._recourse = layout, recourse
        self._fixes_decision = bool(layout.compiled.first.integer.all())
        # With few integers, HiGHS finishes before a start is found.
        recourse_integers = int(layout.integer[layout.n1 :].sum())
        self._needs_start = recourse_integers >= _MANY_INTEGERS
        self._program = MipProgram(layout, fixed_integer_context(context))

    def solve(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        arrays: Arrays,
        node: Node,
        highest: float,
    ) -> MipResult:
        """Return an optimum that costs at most ``highest``, if any, and a bound."""
        if not self._fixes_decision:
            start = None
            if self._needs_start:
                start = self._find_start(blocks, arrays, node)
            return self._program.solve_to_limit(arrays, start, highest)
        decision, n1 = node.lower, self._layout.n1
        # With the decision fixed, the relaxation separates by scenario.
        terms = (arrays.cost * node.x)[n1:].reshape(len(weights), -1)
        least, sizes = terms.sum(axis=1), np.abs(terms).sum(axis=1)
        limit = CostLimit(weights, least, sizes, highest - node.bound)
        recourse = self._recourse.solve(blocks, decision, limit)
        if recourse is None:
            return MipResult(None, highest)
        fixed = float(arrays.cost[:n1] @ decision) + arrays.offset
        x = np.concatenate([decision, recourse.z])
        return MipResult(x, fixed + float(weights @ recourse.bound))

    def _find_start(
        self, blocks: Blocks, arrays: Arrays, node: Node
    ) -> np.ndarray | None:
        """Return a good point, if one is found, by alternating between the stages.

        The relaxation's decision gets its best recourse, then the best decision for the integers
        of that recourse is found, and so on.
        """
        best, x = None, node.x
        for _ in range(_START_ROUNDS):
            decision = x[: self._layout.n1]
            recourse = self._recourse.solve(blocks, decision)
            if recourse is None:
                break
            point = np.concatenate([decision, recourse.z])
            if best is not None and arrays.cost @ point >= arrays.cost @ best:
                break
            best, follower = (
                point,
                self._program.solve_with_fixed_integers(arrays, point),
            )
            if follower is None:
                break
            x = follower
            if arrays.cost @ x < arrays.cost @ best:
                best = x
        return best
