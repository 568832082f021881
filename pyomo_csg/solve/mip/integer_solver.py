"""zeta-SAA and Opt-Search of programs with integer variables, exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Blocks, Layout, Stack
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import Found, SolveContext, Solved, SolverTrouble, Troubles
from pyomo_csg.solve.mip.first_stage_tree import (
    FirstStageTree,
    Node,
    Region,
    TreeResult,
)
from pyomo_csg.solve.mip.fixed_integers import (
    FixedIntegerSolver,
    ScenarioRecourse,
    fixed_integer_context,
)
from pyomo_csg.solve.mip.mip_program import MipProgram, Relaxation
from pyomo_csg.solve.mip.rounding import Rounder
from pyomo_csg.solve.mip.tie_search import Optimum, TieSearch

_MOST_INTEGERS = 50
_MOST_RELAXATIONS = 1000
# With continuous recourse HiGHS's heuristics find nothing that its tree does not.
_LEAN = {
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_effort": 0.0,
    "mip_detect_symmetry": False,
}


@dataclass
class IntegerFound(Found):
    """An optimum, and where all the optima are.

    Attributes
    ----------
    method : str
        How it was found: ``'relaxation'``, ``'tree'`` or ``'plain'``.
    regions : list of Region
        Boxes of first-stage integers that hold all the optima.
    arrays : Arrays
        The program.
    stopped : SolverTrouble, optional
        The limit that it was solved up to. ``x`` is the best point found by then, NaN if
        there is none, and the bound is proven all the same.
    """

    method: str = "plain"
    regions: list[Region] = field(default_factory=list)
    arrays: Arrays | None = None
    stopped: SolverTrouble | None = None

    @property
    def is_on_one_face(self) -> bool:
        """Whether all optima lie on the face of one relaxation."""
        return len(self.regions) == 1 and self.regions[0].duals is not None


@dataclass
class _Relaxed:
    """Relaxations of many cases, and which of them round to whole points."""

    blocks: Blocks
    weights: np.ndarray
    stack: Stack
    roots: dict[int, Node] = field(default_factory=dict)
    troubles: Troubles = field(default_factory=dict)
    points: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    whole: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))


class IntegerSolver:
    """Solves integer programs by their relaxation, a tree, or plain HiGHS.

    The rule: the relaxation comes first, and where it rounds to a whole point of the same
    cost, that point is optimal. Otherwise, with 1 to 50 integers in the first stage, a
    tree branches on those alone. Without any, with more, or where the tree takes more
    than 1000 relaxations (a leaf that is an integer program counts as 20), HiGHS
    takes the whole program, from the best point known.

    Parameters
    ----------
    compiled : CompiledModel
        With integer variables and a linear objective.
    count : int
        How many scenarios there are.
    context : SolveContext
        With ``mip_rel_gap`` the value is that of the best point found, the
        bound is what is proven, and Opt-Search looks around that point only.
        ``time_limit`` is for a call of ``solve`` or ``search``; where it stops one of
        :meth:`solve_many`'s cases, the best point found by then comes with the trouble.
    method : str, optional
        ``'relaxation'``, ``'tree'`` or ``'plain'``: without the other two, whatever the
        rule; HiGHS takes over where the relaxation or the tree cannot do it.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        context: SolveContext,
        method: str | None = None,
    ):
        self._compiled, self._count, self._stats = compiled, count, context.stats
        self._context = context = context.with_deadline()
        self._deadline = context.deadline
        self._layout = Layout(compiled, count)
        self._rounder = Rounder(self._layout)
        self._reaction = ScenarioRecourse(compiled, self._context)
        relaxation = Relaxation(self._layout, self._context)
        gap = float(context.options.get("mip_rel_gap", 0.0))
        self._tree = FirstStageTree(self._layout, relaxation, self._rounder, gap)
        few = 1 <= compiled.first.integer.sum() <= _MOST_INTEGERS
        self.relaxes = method in (None, "relaxation")
        self.grows_tree = method == "tree" or (method is None and bool(few))

    def solve(self, blocks: Blocks, weights: np.ndarray) -> IntegerFound:
        """Return an optimum of zeta-SAA."""
        found, troubles = self._found(self._relaxed(blocks[None], weights[None]))
        if troubles:
            raise troubles[0]
        return found[0]

    def solve_many(self, blocks: Blocks, weights: np.ndarray) -> Solved:
        """Solve many cases, as :meth:`solve` for blocks with two leading axes."""
        found, troubles = self._found(self._relaxed(blocks, weights))
        solved = Solved.nothing(len(weights), self._layout.n1)
        for i, one in found.items():
            solved.put(i, one)
        solved.troubles.update(troubles)
        return solved

    def losses(
        self, blocks: Blocks, weights: np.ndarray, outcomes: Blocks
    ) -> tuple[np.ndarray, Troubles]:
        """Return l_opt (n,) and troubles, for blocks with two leading axes."""
        relaxed = self._relaxed(blocks, weights)
        found, troubles = self._found(relaxed)
        losses = np.full(len(weights), np.nan)
        faces = {
            i: one.regions[0]
            for i, one in found.items()
            if one.is_on_one_face and i not in troubles
        }
        if faces:
            cases = np.array(list(faces))
            losses[cases] = self._whole_search.on_faces(
                relaxed.stack.part(cases),
                np.array([found[i].value for i in faces]),
                list(faces.values()),
                blocks[cases],
                outcomes[cases],
            )
        for i, one in found.items():
            try:
                if np.isnan(losses[i]) and i not in troubles:
                    losses[i] = self.search(one, blocks[i], weights[i], outcomes[i])
            except SolverTrouble as trouble:
                troubles[i] = trouble
        return losses, troubles

    def _relaxed(self, blocks: Blocks, weights: np.ndarray) -> _Relaxed:
        """Solve the relaxations, then round them all."""
        stack = self._layout.stack(blocks, weights)
        relaxed = _Relaxed(blocks, weights, stack)
        relaxed.roots, relaxed.troubles = self._tree.roots(stack, self._deadline.start)
        x = np.full((len(weights), self._layout.columns), np.nan)
        for i, root in relaxed.roots.items():
            x[i] = root.x
        relaxed.points, relaxed.whole = x, np.zeros(len(x), bool)
        if self.relaxes:
            relaxed.points, relaxed.whole = self._rounder.whole_many(stack, x)
            self._stats.relaxed += int(relaxed.whole.sum())
        return relaxed

    def _found(self, relaxed: _Relaxed) -> tuple[dict[int, IntegerFound], Troubles]:
        """Return the optima: the relaxations' that are whole, and branch for the others.

        A case that a limit stopped is among both what was found and the troubles.
        """
        found, troubles = {}, dict(relaxed.troubles)
        for i, root in relaxed.roots.items():
            arrays, x = relaxed.stack[i], relaxed.points[i]
            if relaxed.whole[i]:
                found[i] = _found(arrays, x, root.bound, "relaxation", [root])
                continue
            root.rounds = not self.relaxes
            try:
                found[i] = self._branched(
                    arrays, root, relaxed.blocks[i], relaxed.weights[i]
                )
            except SolverTrouble as trouble:
                troubles[i] = trouble
                continue
            if (stopped := found[i].stopped) is not None:
                troubles[i] = stopped
        return found, troubles

    def _branched(
        self, arrays: Arrays, root: Node, blocks: Blocks, weights: np.ndarray
    ) -> IntegerFound:
        self._deadline.start()
        grown = self._grown(arrays, root, blocks, weights)
        if grown.stopped is not None or (grown.complete and grown.x is not None):
            bound, regions = grown.bound, grown.regions
            return _found(arrays, grown.x, bound, "tree", regions, grown.stopped)
        best = self._whole_program.best(arrays, grown.x)
        if best.x is None and best.stopped is None:
            raise SolverTrouble("infeasible")
        everywhere = Region(root.lower, root.upper)
        bound = max(best.bound, grown.bound)
        return _found(arrays, best.x, bound, "plain", [everywhere], best.stopped)

    def search(
        self, found: Found, blocks: Blocks, weights: np.ndarray, outcome: Blocks
    ) -> float:
        """Return the least cost of an optimal decision under the outcome."""
        assert isinstance(found, IntegerFound) and found.arrays is not None
        self._deadline.start()
        optimum = Optimum(found.x, found.value, found.arrays, blocks)
        search = self._leaf_search if found.method == "tree" else self._whole_search
        return search.best(optimum, found.regions, outcome)

    def _grown(
        self, arrays: Arrays, root: Node, blocks: Blocks, weights: np.ndarray
    ) -> TreeResult:
        if not self.grows_tree:
            return TreeResult(bound=root.bound, complete=False)
        leaf = partial(self._leaves.solve, blocks, weights)
        return self._tree.grow(arrays, root, leaf, _MOST_RELAXATIONS)

    @property
    def _whole_context(self) -> SolveContext:
        lean = {} if self._compiled.integer_recourse else _LEAN
        return self._context.with_defaults(lean)

    @cached_property
    def _leaves(self) -> FixedIntegerSolver:
        return FixedIntegerSolver(self._layout, self._context, self._reaction)

    @cached_property
    def _whole_program(self) -> MipProgram:
        return MipProgram(self._layout, self._whole_context)

    @cached_property
    def _leaf_search(self) -> TieSearch:
        return self._new_search(fixed_integer_context(self._context))

    @cached_property
    def _whole_search(self) -> TieSearch:
        return self._new_search(self._whole_context)

    def _new_search(self, context: SolveContext) -> TieSearch:
        return TieSearch(self._compiled, self._count, context, self._reaction)


def _found(
    arrays: Arrays,
    x: np.ndarray | None,
    bound: float,
    method: str,
    regions: list[Region],
    stopped: SolverTrouble | None = None,
) -> IntegerFound:
    if x is None:
        x = np.full(len(arrays.cost), np.nan)
    value = float(arrays.cost @ x) + arrays.offset
    return IntegerFound(
        x,
        value,
        bound=bound if np.isnan(value) else min(bound, value),
        method=method,
        regions=regions,
        arrays=arrays,
        stopped=stopped,
    )
