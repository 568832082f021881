"""zeta-SAA and Opt-Search of programs with integer variables, exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from pyomo_csg.solve.assembly import Arrays, Blocks, Layout
from pyomo_csg.solve.compiling import CompiledModel
from pyomo_csg.solve.engine import Found, Stats
from pyomo_csg.solve.leaf import LeafSolver, leaf_options
from pyomo_csg.solve.mip import Deadline, MipProgram, Relaxation
from pyomo_csg.solve.reaction import Reaction
from pyomo_csg.solve.rounding import Rounder
from pyomo_csg.solve.searching import Optimum, OptSearch
from pyomo_csg.solve.tree import Grown, Node, Region, Tree

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
    """

    method: str = "plain"
    regions: list[Region] = field(default_factory=list)
    arrays: Arrays | None = None


class IntegerStrategy:
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
    stats : Stats
    options : mapping
        Of HiGHS. With ``mip_rel_gap`` the value is that of the best point found, the
        bound is what is proven, and Opt-Search looks around that point only.
        ``time_limit`` is for a call of ``solve`` or ``search``.
    method : str, optional
        ``'relaxation'``, ``'tree'`` or ``'plain'``: without the other two, whatever the
        rule; HiGHS takes over where the relaxation or the tree cannot do it.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        stats: Stats,
        options: Mapping[str, Any],
        method: str | None = None,
    ):
        self._compiled, self._count, self._stats = compiled, count, stats
        self._options = dict(options)
        self._deadline = Deadline(float(self._options.pop("time_limit", math.inf)))
        self._layout = Layout(compiled, count)
        self._rounder = Rounder(self._layout)
        self._reaction = Reaction(compiled, *self._context)
        relaxation = Relaxation(self._layout, *self._context)
        gap = float(self._options.get("mip_rel_gap", 0.0))
        self._tree = Tree(self._layout, relaxation, self._rounder, gap)
        few = 1 <= compiled.first.integer.sum() <= _MOST_INTEGERS
        self.relaxes = method in (None, "relaxation")
        self.grows_tree = method == "tree" or (method is None and bool(few))

    def solve(self, blocks: Blocks, weights: np.ndarray) -> IntegerFound:
        """Return an optimum of zeta-SAA."""
        self._deadline.start()
        arrays = self._layout.arrays(blocks, weights)
        root = self._tree.root(arrays)
        if self.relaxes:
            whole = self._rounder.whole(arrays, root.x)
            root.rounds = False
            if whole is not None:
                self._stats.relaxed += 1
                return _found(arrays, whole, root.bound, "relaxation", [root])
        grown = self._grown(arrays, root, blocks, weights)
        if grown.complete and grown.x is not None:
            return _found(arrays, grown.x, grown.bound, "tree", grown.regions)
        x = self._whole_program.optimum(arrays, grown.x)
        bound = max(self._whole_program.bound() + arrays.offset, grown.bound)
        everywhere = Region(root.lower, root.upper)
        return _found(arrays, x, bound, "plain", [everywhere])

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
    ) -> Grown:
        if not self.grows_tree:
            return Grown(bound=root.bound, complete=False)
        leaf = partial(self._leaves.solve, blocks, weights)
        return self._tree.grow(arrays, root, leaf, _MOST_RELAXATIONS)

    @property
    def _context(self) -> tuple[Stats, Mapping[str, Any], Deadline]:
        return self._stats, self._options, self._deadline

    @property
    def _whole_options(self) -> Mapping[str, Any]:
        lean = {} if self._compiled.recourse.integer.any() else _LEAN
        return {**lean, **self._options}

    @cached_property
    def _leaves(self) -> LeafSolver:
        return LeafSolver(self._layout, *self._context, self._reaction)

    @cached_property
    def _whole_program(self) -> MipProgram:
        return MipProgram(
            self._layout, self._stats, self._whole_options, self._deadline
        )

    @cached_property
    def _leaf_search(self) -> OptSearch:
        return self._new_search(leaf_options(self._options))

    @cached_property
    def _whole_search(self) -> OptSearch:
        return self._new_search(self._whole_options)

    def _new_search(self, options: Mapping[str, Any]) -> OptSearch:
        return OptSearch(
            self._compiled,
            self._count,
            self._stats,
            options,
            self._deadline,
            self._reaction,
        )


def _found(
    arrays: Arrays, x: np.ndarray, bound: float, method: str, regions: list[Region]
) -> IntegerFound:
    value = float(arrays.cost @ x) + arrays.offset
    return IntegerFound(
        x, value, bound=bound, method=method, regions=regions, arrays=arrays
    )
