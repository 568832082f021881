"""Branch-and-bound on the first stage's integers alone, with exact leaves."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Layout, Program, Stack
from pyomo_csg.solve.engine import SolverTrouble, Troubles
from pyomo_csg.solve.lp.highs_program import SolutionBuffer
from pyomo_csg.solve.mip.mip_program import MipResult, Relaxation, cost_tolerance
from pyomo_csg.solve.mip.rounding import Rounder

_WHOLE = 1e-9
_LEAF_COST = 20
_MOST_ENTRIES = 200_000  # of matrices that are checked at once


@dataclass
class Region:
    """A box of first-stage integers that holds optima of zeta-SAA.

    Attributes
    ----------
    lower, upper : array (first-stage integers,)
    duals : tuple of arrays, optional
        Of the relaxation over the box (columns, rows) where its value is the optimum:
        then the box's optima all lie on the relaxation's optimal face.
    """

    lower: np.ndarray
    upper: np.ndarray
    duals: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether all first-stage integers are."""
        return bool((self.lower == self.upper).all())


@dataclass
class Node(Region):
    """A box with the optimum of its relaxation, and whether rounding may be tried."""

    bound: float = math.inf
    x: np.ndarray = field(default_factory=lambda: np.zeros(0))
    basis: Any = None
    rounds: bool = True


class SolvedNode(NamedTuple):
    """A node, and the point and rows' duals that the solver returned for it."""

    node: Node
    x: np.ndarray
    prices: np.ndarray


@dataclass
class TreeResult:
    """What a tree found.

    Attributes
    ----------
    x : array, optional
        The best whole point.
    value, bound : float
        What it costs, and what no point can cost less than.
    complete : bool
        Whether the value is proven to be optimal within the gap.
    stopped : SolverTrouble, optional
        The limit that stopped it.
    seen : list of Seen
        What relaxations returned.
    """

    x: np.ndarray | None = None
    value: float = math.inf
    bound: float = math.inf
    complete: bool = True
    stopped: SolverTrouble | None = None
    seen: list[SolvedNode] = field(default_factory=list)
    _solved: list[tuple[float, Region]] = field(default_factory=list)

    @property
    def regions(self) -> list[Region]:
        """Boxes that hold all the optima."""
        highest = self.value + cost_tolerance(self.value)
        return [region for value, region in self._solved if value <= highest]

    def add(self, arrays: Arrays, best: MipResult, region: Node) -> None:
        """Take note of a region's optimum, if it has any."""
        self.bound = min(self.bound, max(best.bound, region.bound))
        self.stopped = best.stopped
        if best.x is None:
            return
        value = float(arrays.cost @ best.x) + arrays.offset
        self._solved.append((value, region))
        if value < self.value:
            self.x, self.value = best.x, value


Leaf = Callable[[Arrays, Node, float], MipResult]
Read = Callable[[Arrays, np.ndarray, np.ndarray], SolvedNode]


class FirstStageTree:
    """Branches on first-stage integers, best bound first, on one persistent LP.

    A node whose relaxation rounds to a whole point of the same cost is done. One whose
    first-stage integers are all fixed is a leaf. Ties with the incumbent are kept: they
    are what Opt-Search searches. The relaxations' answers are checked all at once when
    the tree is grown; if one fails, the tree is grown again with each checked in turn.

    Parameters
    ----------
    layout : Layout
    relaxation : Relaxation
    rounder : Rounder
    gap : float
        Relative; how far from optimal the answer may be.
    """

    def __init__(
        self,
        layout: Layout,
        relaxation: Relaxation,
        rounder: Rounder,
        gap: float = 0.0,
    ):
        self._relaxation = relaxation
        self._rounder = rounder
        self._gap = gap
        self._at_once = max(1, _MOST_ENTRIES // len(layout.index))
        self.integers = np.flatnonzero(layout.compiled.first.integer)

    def roots(
        self, stack: Stack, start: Callable[[], None]
    ) -> tuple[dict[int, Node], Troubles]:
        """Return the relaxations' optima by case, and troubles where there is none.

        ``start`` is called before each.
        """
        gathered, troubles = SolutionBuffer(self._relaxation), Troubles()
        bases: list[Any] = []
        for i, arrays in enumerate(stack):
            start()
            try:
                self._relaxation.load(arrays)
                self._relaxation.run()
            except SolverTrouble as trouble:
                gathered.add_nothing()
                bases.append(None)
                troubles[i] = trouble
            else:
                gathered.add()
                bases.append(self._relaxation.highs.getBasis())
        x, prices = gathered.arrays()
        duals = self._relaxation.careful.settle(stack, x, prices, troubles)
        bounds, nodes = stack.values_of(x), {}
        for i, arrays in enumerate(stack):
            if i not in troubles:
                lower = arrays.column_lower[self.integers]
                upper = arrays.column_upper[self.integers]
                found = (duals[0][i], duals[1][i]), float(bounds[i]), x[i], bases[i]
                nodes[i] = Node(lower, upper, *found)
        return nodes, troubles

    def grow(
        self, arrays: Arrays, root: Node, leaf: Leaf, budget: float = math.inf
    ) -> TreeResult:
        """Return an optimum, or what is known when the budget or the time is spent.

        Parameters
        ----------
        arrays : Arrays
        root : Node
        leaf : function
            Takes a leaf's program and node, and a cost; returns an optimum that costs
            no more, if there is any, and a bound.
        budget : float
            How many relaxations to solve; a leaf counts as 20.
        """
        grown = self._grown(arrays, root, leaf, budget, self._read)
        if not self._proven(arrays, grown.seen):
            grown = self._grown(arrays, root, leaf, budget, self._read_carefully)
        return grown

    def _grown(
        self, arrays: Arrays, root: Node, leaf: Leaf, budget: float, read: Read
    ) -> TreeResult:
        grown, order = TreeResult(), count()
        heap = [(root.bound, next(order), root)]
        while heap and heap[0][0] <= self._threshold(grown.value):
            _, _, node = heapq.heappop(heap)
            try:
                children, spent = self._visit(arrays, node, leaf, grown, read)
            except SolverTrouble as trouble:
                if not trouble.is_limit:
                    raise
                grown.stopped, children, spent = trouble, [node], 0
            for child in children:
                heapq.heappush(heap, (child.bound, next(order), child))
            budget -= spent
            if grown.stopped is not None or (budget < 0 and heap):
                grown.complete = False
                break
        grown.bound = min([grown.bound, grown.value, *(bound for bound, _, _ in heap)])
        return grown

    def _visit(
        self, arrays: Arrays, node: Node, leaf: Leaf, grown: TreeResult, read: Read
    ) -> tuple[list[Node], int]:
        """Return a node's children, and what they count of the budget."""
        whole = self._rounder.rounded(arrays, node.x) if node.rounds else None
        if whole is not None:
            grown.add(arrays, MipResult(whole, node.bound), node)
            return [], 0
        if node.is_fixed:
            fixed = restrict_to(arrays, self.integers, node)
            best = leaf(fixed, node, self._threshold(grown.value))
            grown.add(arrays, best, replace(node, duals=None))
            return [], _LEAF_COST
        children = self._children(arrays, node, grown, read)
        return children, sum(child.rounds for child in children)

    def _threshold(self, incumbent: float) -> float:
        """Return the bound above which a node holds nothing of interest."""
        if incumbent == math.inf or not self._gap:
            return incumbent + cost_tolerance(incumbent)
        return incumbent - self._gap * abs(incumbent)

    def _children(
        self, arrays: Arrays, node: Node, grown: TreeResult, read: Read
    ) -> list[Node]:
        lower, upper = node.lower.copy(), node.upper.copy()
        j, value = self._branching(node)
        if value > np.floor(value) or value < upper[j]:
            upper[j], lower[j] = np.floor(value), np.floor(value) + 1
        else:
            upper[j], lower[j] = value - 1, value
        boxes = [(node.lower, upper), (lower, node.upper)]
        sides = [(low[j], high[j]) for low, high in boxes]
        points = self._shared(arrays, node.x, self.integers[j], sides)
        children = []
        for (low, high), x in zip(boxes, points, strict=True):
            if x is not None:
                children.append(replace(node, lower=low, upper=high, x=x, rounds=False))
                continue
            box = restrict_to(arrays, self.integers, Region(low, high))
            if self._relaxation.attempt(box, node.basis):
                grown.seen.append(read(box, low, high))
                children.append(grown.seen[-1].node)
        return children

    def _shared(
        self,
        arrays: Arrays,
        x: np.ndarray,
        column: int,
        sides: Sequence[tuple[float, float]],
    ) -> list[np.ndarray | None]:
        """Return optima of a node that its children have, too, where they are at hand.

        They are where a switch that is not fully on can be so at no cost. A point that
        is whole then is left to the child, which rounds it.
        """
        values = [min(max(x[column], low), high) for low, high in sides]
        if x[column] in values:
            return [x if value == x[column] else None for value in values]
        points = self._rounder.stepped(arrays, x, column, values)
        return [
            p if p is not None and self._fractional(p).any() else None for p in points
        ]

    def _fractional(self, x: np.ndarray) -> np.ndarray:
        """Say which first-stage integers of a point are not whole."""
        integers = x[self.integers]
        return np.asarray(np.abs(integers - np.rint(integers)) > _WHOLE)

    def _branching(self, node: Node) -> tuple[int, float]:
        """Return the integer to branch on, and its value."""
        assert node.duals is not None
        x = node.x[self.integers]
        fractional = self._fractional(node.x)
        if fractional.any():
            j = int(np.argmax(np.where(fractional, x, -np.inf)))
            return j, float(x[j])
        price = np.abs(node.duals[0][self.integers])
        j = int(np.argmax(np.where(node.lower < node.upper, price, -1.0)))
        node.x = node.x.copy()  # as the solver returned it, it is still to be checked
        node.x[self.integers[j]] = nearest = np.rint(x[j])
        return j, float(nearest)

    def _read(self, arrays: Arrays, lower: np.ndarray, upper: np.ndarray) -> SolvedNode:
        """Return a node with what the solver says of it."""
        return self._seen(arrays, lower, upper, *self._relaxation.solution())

    def _read_carefully(
        self, arrays: Arrays, lower: np.ndarray, upper: np.ndarray
    ) -> SolvedNode:
        """Return a node with what is true of it."""
        x, duals = self._relaxation.optimum()
        return self._seen(arrays, lower, upper, x, *duals)

    def _seen(
        self,
        arrays: Arrays,
        lower: np.ndarray,
        upper: np.ndarray,
        x: np.ndarray,
        duals: np.ndarray,
        prices: np.ndarray,
    ) -> SolvedNode:
        bound = float(arrays.cost @ x) + arrays.offset
        basis = self._relaxation.highs.getBasis()
        node = Node(lower, upper, (duals, prices), bound, x, basis)
        return SolvedNode(node, x, prices)

    def _proven(self, arrays: Arrays, seen: list[SolvedNode]) -> bool:
        """Say whether all answers pass their check, and give their nodes clean duals."""
        for first in range(0, len(seen), self._at_once):
            nodes, x, prices = zip(*seen[first : first + self._at_once], strict=True)
            boxes = restrict_each(arrays, self.integers, nodes)
            verdict = self._relaxation.careful.checker.look(
                boxes, np.array(x), np.array(prices)
            )
            if not (verdict.optimal & verdict.clear).all():
                return False
            for node, *duals in zip(nodes, *verdict.duals, strict=True):
                node.duals = duals[0], duals[1]
        return True


def restrict_to(arrays: Arrays, integers: np.ndarray, region: Region) -> Arrays:
    """Return the program with the first-stage integers in a box."""
    lower, upper = arrays.column_lower.copy(), arrays.column_upper.copy()
    lower[integers], upper[integers] = region.lower, region.upper
    return replace(arrays, column_lower=lower, column_upper=upper)


def restrict_each(
    programs: Program, integers: np.ndarray, regions: Sequence[Region]
) -> Program:
    """Return programs, or one as often, with the first-stage integers in a box each."""
    shape = len(regions), programs.column_lower.shape[-1]
    lower = np.array(np.broadcast_to(programs.column_lower, shape))
    upper = np.array(np.broadcast_to(programs.column_upper, shape))
    lower[:, integers] = [region.lower for region in regions]
    upper[:, integers] = [region.upper for region in regions]
    return replace(programs, column_lower=lower, column_upper=upper)
