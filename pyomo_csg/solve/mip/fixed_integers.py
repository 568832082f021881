"""The best recourse to each of some outcomes, after one decision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Blocks, Layout, RecourseLayout
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import SolveContext
from pyomo_csg.solve.mip.first_stage_tree import Node
from pyomo_csg.solve.mip.mip_program import MipProgram, MipResult, cost_tolerance

_MANY = 50
_ROUNDS = 3
_LITE = {
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_allow_restart": False,
    "mip_detect_symmetry": False,
}
_NO_SUBPROGRAMS = {"mip_heuristic_run_rins": False, "mip_heuristic_run_rens": False}


def fixed_integer_context(context: SolveContext) -> SolveContext:
    """Return options that suit a leaf, under those of the user.

    A leaf's start is mostly optimal, so that only the proof is left. With a gap better
    points count as much as better bounds, and subprograms find them.
    """
    has_gap = context.options.get("mip_rel_gap")
    return context.with_defaults(_LITE if has_gap else {**_LITE, **_NO_SUBPROGRAMS})


class FixedIntegerSolver:
    """Solves leaves of the tree: scenario by scenario where nothing else joins them.

    Parameters
    ----------
    layout : Layout
    context : SolveContext
    reaction : Reaction
    """

    def __init__(
        self,
        layout: Layout,
        context: SolveContext,
        reaction: ScenarioRecourse,
    ):
        self._layout, self._reaction = layout, reaction
        self._is_decision = bool(layout.compiled.first.integer.all())
        # With few integers HiGHS is done before a start is found.
        self._wants_start = int(layout.integer[layout.n1 :].sum()) >= _MANY
        self._program = MipProgram(layout, fixed_integer_context(context))

    def solve(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        arrays: Arrays,
        node: Node,
        highest: float,
    ) -> MipResult:
        """Return an optimum, if there is any that costs no more, and a bound."""
        if self._is_decision:
            return self._by_scenario(blocks, weights, arrays, node, highest)
        start = self._start(blocks, arrays, node) if self._wants_start else None
        return self._program.best(arrays, start, highest)

    def _by_scenario(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        arrays: Arrays,
        node: Node,
        highest: float,
    ) -> MipResult:
        decision, n1 = node.lower, self._layout.n1
        # With the decision fixed, the relaxation is one for each scenario.
        least = (arrays.cost * node.x)[n1:].reshape(len(weights), -1).sum(axis=1)
        limit = CostLimit(weights, least, highest - node.bound)
        reactions = self._reaction.to(blocks, decision, limit)
        if reactions is None:
            return MipResult(None, highest)
        fixed = float(arrays.cost[:n1] @ decision) + arrays.offset
        x = np.concatenate([decision, reactions.z])
        return MipResult(x, fixed + float(weights @ reactions.bound))

    def _start(self, blocks: Blocks, arrays: Arrays, node: Node) -> np.ndarray | None:
        """Return a good point, if one is found.

        The decision of the relaxation gets its best recourse; then the decision follows
        the integers of that recourse; and so in turn.
        """
        best, x = None, node.x
        for _ in range(_ROUNDS):
            decision = x[: self._layout.n1]
            reactions = self._reaction.to(blocks, decision)
            if reactions is None:
                break
            point = np.concatenate([decision, reactions.z])
            if best is not None and arrays.cost @ point >= arrays.cost @ best:
                break
            best, follower = point, self._program.held(arrays, point)
            if follower is None:
                break
            x = follower
            if arrays.cost @ x < arrays.cost @ best:
                best = x
        return best


@dataclass
class RecourseResult:
    """The best recourse to each outcome.

    Attributes
    ----------
    z : array (outcomes * recourse columns,)
        As the columns of a program on these outcomes.
    bound : array (outcomes,)
        What no recourse to each costs less than, without constants.
    """

    z: np.ndarray
    bound: np.ndarray


@dataclass
class CostLimit:
    """What recourse to some outcomes may cost, weighted, in all.

    Attributes
    ----------
    weights, least : array (outcomes,)
        What each counts, and what no recourse to it costs less than, weighted.
    spare : float
        By how much all together may cost more than that.
    """

    weights: np.ndarray
    least: np.ndarray
    spare: float

    def highest(self, k: int) -> float:
        """Return what the recourse to an outcome may cost, if all others cost least."""
        if self.weights[k] <= 0:
            return math.inf
        highest = float((self.least[k] + self.spare) / self.weights[k])
        return highest + float(cost_tolerance(highest))

    def take(self, k: int, cost: float) -> None:
        """Take what the recourse to an outcome costs."""
        self.spare -= float(self.weights[k] * cost - self.least[k])


class ScenarioRecourse:
    """Finds recourse, one outcome at a time.

    Parameters
    ----------
    compiled : CompiledModel
    context : SolveContext
    """

    def __init__(
        self,
        compiled: CompiledModel,
        context: SolveContext,
    ):
        self._layout = RecourseLayout(compiled)
        self._program = MipProgram(self._layout, context)

    def to(
        self, blocks: Blocks, decision: np.ndarray, limit: CostLimit | None = None
    ) -> RecourseResult | None:
        """Return the best recourse to each outcome, if they all have one.

        None, too, as soon as they are known to cost more than a limit.
        """
        count = len(blocks.row_lower)
        shift = self._layout.shift(
            blocks, np.broadcast_to(decision, (count, len(decision)))
        )
        z, bound = np.empty((count, self._layout.columns)), np.empty(count)
        for k in range(count):
            arrays = self._layout.arrays(blocks[k], shift[k])
            highest = math.inf if limit is None else limit.highest(k)
            found = self._program.search(arrays, highest=highest)
            if found is None or (cost := float(arrays.cost @ found)) > highest:
                return None
            z[k], bound[k] = found, self._program.bound()
            if limit is not None:
                limit.take(k, cost)
        return RecourseResult(z.ravel(), bound)
