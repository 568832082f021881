"""Zeta-SAA and Opt-Search of programs with integer variables, exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Blocks, Layout, Stack
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import (
    Found,
    SolveContext,
    Solved,
    SolverTrouble,
    Troubles,
    noted,
)
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
from pyomo_csg.solve.mip.mip_program import (
    COST_SLACK,
    MipProgram,
    Relaxation,
    cost_size,
)
from pyomo_csg.solve.mip.rounding import Rounder
from pyomo_csg.solve.mip.tie_search import TieSearch

_MAX_INTEGERS = 50  # in the first stage, for the tree
_MAX_RELAXATIONS = 1000  # of one tree, before HiGHS takes over
_GENEROUS = 4  # in slacks of the cut, whose row has a tolerance as well
# With continuous recourse, HiGHS's heuristics find nothing that its tree does not.
_LEAN = {
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_effort": 0.0,
    "mip_detect_symmetry": False,
}


@dataclass
class IntegerFound(Found):
    """An optimum, and the regions that contain all optima.

    If a limit stopped the solve, ``x`` is the incumbent, NaN if there is none; the bound is
    proven all the same.
    """

    method: str = "plain"  # or 'relaxation' or 'tree'
    regions: list[Region] = field(default_factory=list)
    arrays: Arrays | None = None
    stopped: SolverTrouble | None = None  # by this limit

    @property
    def is_on_one_face(self) -> bool:
        """Whether all optima lie on the face of one relaxation."""
        return len(self.regions) == 1 and self.regions[0].duals is not None


@dataclass
class _Relaxed:
    """Relaxations of many cases, and which of them round to integer points."""

    blocks: Blocks
    weights: np.ndarray
    stack: Stack
    roots: dict[int, Node]
    troubles: Troubles
    points: np.ndarray
    is_integral: np.ndarray


class IntegerSolver:
    """Solves integer programs by their relaxation, a tree, or HiGHS alone.

    The relaxation comes first; where it rounds to an integer point of the same cost, that point
    is optimal. Otherwise, with 1 to 50 integers in the first stage, a tree branches on those
    alone. Without any, with more, or if the tree is forecast to need more than 1000 relaxations
    (a leaf that is an integer program counts as 20), HiGHS solves the whole program from the
    incumbent. So it does for first-stage integers with more than two values and a continuous recourse, where
    its cuts close the gap sooner than branching. ``method`` selects one of these ways,
    ``'relaxation'``, ``'tree'`` or ``'plain'``; HiGHS takes over where it cannot finish.

    With ``mip_rel_gap``, the value is the incumbent's, the bound is proven, and Opt-Search
    looks around the incumbent only. ``time_limit`` holds for each case; a case of
    :meth:`solve_many` that it stops has both an incumbent and a trouble.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        context: SolveContext,
        method: str | None = None,
    ):
        self._compiled, self._stats = compiled, context.stats
        self._context = context = context.with_deadline()
        self._deadline = context.deadline
        self._layout = Layout(compiled, count)
        self._rounder = Rounder(self._layout)
        self._recourse = ScenarioRecourse(compiled, context)
        relaxation = Relaxation(self._layout, context)
        gap = float(context.options.get("mip_rel_gap", 0.0))
        self._tree = FirstStageTree(
            self._layout, relaxation, self._rounder, gap, gives_up=method is None
        )
        few = 1 <= compiled.first.integer.sum() <= _MAX_INTEGERS
        self.uses_rounding = method in (None, "relaxation")
        self.uses_tree = method == "tree" or (method is None and bool(few))
        self._needs_binaries = method is None and not compiled.integer_recourse

    @cached_property
    def _leaf_solver(self) -> FixedIntegerSolver:
        return FixedIntegerSolver(self._layout, self._context, self._recourse)

    @property
    def _plain_context(self) -> SolveContext:
        lean = {} if self._compiled.integer_recourse else _LEAN
        return self._context.with_defaults(lean)

    @cached_property
    def _plain_program(self) -> MipProgram:
        return MipProgram(self._layout, self._plain_context)

    @cached_property
    def _leaf_search(self) -> TieSearch:
        return self._new_search(fixed_integer_context(self._context))

    @cached_property
    def _plain_search(self) -> TieSearch:
        return self._new_search(self._plain_context)

    def _new_search(self, context: SolveContext, outcomes: int = 1) -> TieSearch:
        return TieSearch(
            self._compiled, self._layout, context, self._recourse, outcomes
        )

    def solve(self, blocks: Blocks, weights: np.ndarray) -> IntegerFound:
        """Return an optimum of zeta-SAA."""
        found, troubles = self._find_optima(self._relax(blocks[None], weights[None]))
        if troubles:
            raise troubles[0]
        return found[0]

    def solve_many(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        keys: np.ndarray | None = None,
        certify: bool = True,
    ) -> Solved:
        """Solve many cases, as :meth:`solve` for blocks with two leading axes.

        Integer programs start from no basis, and none is proven to be unique.
        """
        found, troubles = self._find_optima(self._relax(blocks, weights))
        solved = Solved.empty(len(weights), self._layout.n1)
        for i, one in found.items():
            solved.put(i, one)
        solved.troubles.update(troubles)
        return solved

    def losses(
        self, blocks: Blocks, weights: np.ndarray, outcomes: Blocks
    ) -> tuple[np.ndarray, Troubles]:
        """Return l_opt (n,) and troubles, for blocks with two leading axes."""
        relaxed = self._relax(blocks, weights)
        found, troubles = self._find_optima(relaxed)
        losses = np.full(len(weights), np.nan)
        faces = {
            i: one.regions[0]
            for i, one in found.items()
            if one.is_on_one_face and i not in troubles
        }
        if faces:
            cases = np.array(list(faces))
            losses[cases] = self._plain_search.search_faces(
                relaxed.stack.part(cases),
                np.array([found[i].x for i in faces]),
                list(faces.values()),
                blocks[cases],
                outcomes[cases],
            )
        for i, one in found.items():
            if np.isnan(losses[i]) and i not in troubles:
                with noted(troubles, i):
                    losses[i] = self.search(one, blocks[i], weights[i], outcomes[i])
        return losses, troubles

    def search(
        self,
        found: Found,
        blocks: Blocks,
        weights: np.ndarray,
        outcome: Blocks,
        shares: np.ndarray | None = None,
    ) -> float:
        """Return the least mean cost of an optimal decision under the outcomes."""
        assert isinstance(found, IntegerFound) and found.arrays is not None
        self._deadline.start()
        is_leaf = found.method == "tree"
        if shares is None:
            search = self._leaf_search if is_leaf else self._plain_search
        else:
            leaf = fixed_integer_context(self._context)
            context = leaf if is_leaf else self._plain_context
            search = self._new_search(context, len(shares))
        arrays, regions = found.arrays, found.regions
        return search.search(found, arrays, regions, blocks, outcome, shares)

    def _relax(self, blocks: Blocks, weights: np.ndarray) -> _Relaxed:
        """Solve the relaxations, then round them all."""
        stack = self._layout.stack(blocks, weights)
        roots, troubles = self._tree.solve_roots(stack, self._deadline.start)
        points = np.full((len(weights), self._layout.columns), np.nan)
        for i, root in roots.items():
            points[i] = root.x
        is_integral = np.zeros(len(points), bool)
        if self.uses_rounding:
            points, is_integral = self._rounder.find_integer_points(stack, points)
            self._stats.relaxed += int(is_integral.sum())
        return _Relaxed(blocks, weights, stack, roots, troubles, points, is_integral)

    def _find_optima(
        self, relaxed: _Relaxed
    ) -> tuple[dict[int, IntegerFound], Troubles]:
        """Return the optima: integral relaxations as they are, the others by branching.

        A case that a limit stopped is among both the optima and the troubles.
        """
        found, troubles = {}, dict(relaxed.troubles)
        for i, root in relaxed.roots.items():
            arrays, x = relaxed.stack[i], relaxed.points[i]
            if relaxed.is_integral[i]:
                found[i] = _integer_found(arrays, x, root.bound, "relaxation", [root])
                continue
            root.may_round = not self.uses_rounding
            with noted(troubles, i):
                blocks, weights = relaxed.blocks[i], relaxed.weights[i]
                found[i] = self._branch(arrays, root, blocks, weights)
                if (stopped := found[i].stopped) is not None:
                    troubles[i] = stopped
        return found, troubles

    def _branch(
        self, arrays: Arrays, root: Node, blocks: Blocks, weights: np.ndarray
    ) -> IntegerFound:
        """Return the optimum by the tree, or by HiGHS if the tree cannot finish."""
        self._deadline.start()
        tree = TreeResult(bound=root.bound, complete=False)
        is_binary = bool((root.upper - root.lower <= 1).all())
        if self.uses_tree and (is_binary or not self._needs_binaries):
            solve_leaf = partial(self._leaf_solver.solve, blocks, weights)
            tree = self._tree.grow(arrays, root, solve_leaf, _MAX_RELAXATIONS)
        if tree.stopped is not None or (tree.complete and tree.x is not None):
            return _integer_found(
                arrays, tree.x, tree.bound, "tree", tree.regions, tree.stopped
            )
        size = cost_size(self._layout, arrays, root.x)
        best = self._plain_program.solve_to_limit(arrays, tree.x, size=size)
        if best.x is None and best.stopped is None:
            raise SolverTrouble("infeasible")
        region = Region(root.lower, root.upper)
        if best.x is not None:
            highest = arrays.value(best.x) + _GENEROUS * COST_SLACK * size
            region = self._tree.tighten_by_reduced_costs(root, highest)
        bound = max(best.bound, tree.bound)
        return _integer_found(arrays, best.x, bound, "plain", [region], best.stopped)


def _integer_found(
    arrays: Arrays,
    x: np.ndarray | None,
    bound: float,
    method: str,
    regions: list[Region],
    stopped: SolverTrouble | None = None,
) -> IntegerFound:
    if x is None:
        x = np.full(len(arrays.cost), np.nan)
    x = x + 0.0  # zero has no sign
    value = arrays.value(x)
    return IntegerFound(
        x,
        value,
        bound=bound if np.isnan(value) else min(bound, value),
        method=method,
        regions=regions,
        arrays=arrays,
        stopped=stopped,
    )
