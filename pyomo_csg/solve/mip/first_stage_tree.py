"""Branch and bound on the integers of the first stage alone, with exact leaves."""

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
from pyomo_csg.solve.mip.mip_program import COST_SLACK, MipResult, Relaxation, cost_size
from pyomo_csg.solve.mip.rounding import Rounder
from pyomo_csg.solve.mip.tree_size import SizeForecast

_WHOLE = 1e-6  # added before rounding down, so that rounding errors cut off no step
_INTEGRAL = 1e-9  # HiGHS's feasibility tolerance
_LEAF_COST = 20  # of an integer program, in relaxations; approximate
_MAX_ENTRIES = 200_000  # matrix entries that are checked at once


@dataclass
class Region:
    """A box of first-stage integers that contains optima of zeta-SAA.

    ``duals`` are those of the relaxation over the box where its value is the optimum: then all
    optima in the box lie on the relaxation's optimal face.
    """

    lower: np.ndarray
    upper: np.ndarray
    duals: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether all first-stage integers are fixed."""
        return bool((self.lower == self.upper).all())


@dataclass
class Node(Region):
    """A box with the optimum of its relaxation, and whether rounding it may be tried."""

    bound: float = math.inf
    x: np.ndarray = field(default_factory=lambda: np.zeros(0))
    basis: Any = None
    may_round: bool = True


class SolvedNode(NamedTuple):
    """A node with the point and the row duals that the solver returned for it."""

    node: Node
    x: np.ndarray
    row_duals: np.ndarray


@dataclass
class TreeResult:
    """The incumbent of a tree, its bound, and the regions with the optima."""

    x: np.ndarray | None = None  # the incumbent
    value: float = math.inf
    bound: float = math.inf
    slack: float = 0.0  # how much a cost may exceed the value and still count as equal
    complete: bool = True  # whether the incumbent is proven optimal within the gap
    stopped: SolverTrouble | None = None  # the limit that stopped the tree
    is_hopeless: bool = False  # whether the tree is forecast to exceed its budget
    solved: list[SolvedNode] = field(default_factory=list)
    _candidates: list[tuple[float, Region]] = field(default_factory=list)
    _start: Region | None = None  # the decision of an incumbent that no region gave

    @property
    def regions(self) -> list[Region]:
        """Boxes that contain all the optima; with a gap, the incumbent's."""
        # A tie within the tolerance is kept: Opt-Search chooses among all optimal decisions.
        highest = self.value + self.slack
        found = [region for value, region in self._candidates if value <= highest]
        return found or [region for region in [self._start] if region is not None]

    @property
    def has_region(self) -> bool:
        """Whether a region with a point was found."""
        return bool(self._candidates)

    def start_from(
        self, layout: Layout, arrays: Arrays, x: np.ndarray, region: Region
    ) -> None:
        """Take a point as the incumbent; the regions of optima are still to be found."""
        self.x, self.value, self._start = x, arrays.value(x), region
        self.slack = COST_SLACK * cost_size(layout, arrays, x)

    def add(
        self, layout: Layout, arrays: Arrays, result: MipResult, region: Node
    ) -> None:
        """Record the optimum of a region, if it has any."""
        self.bound = min(self.bound, max(result.bound, region.bound))
        self.stopped = result.stopped
        if result.x is None:
            return
        value = arrays.value(result.x)
        self._candidates.append((value, region))
        if value < self.value:
            self.x, self.value = result.x, value
            self.slack = COST_SLACK * cost_size(layout, arrays, result.x)


LeafSolver = Callable[[Arrays, Node, float], MipResult]


class FirstStageTree:
    """Branches on first-stage integers, best bound first, on one persistent LP.

    A node whose relaxation rounds to an integer point of the same cost is done. A node whose
    first-stage integers are all fixed is a leaf. The relaxations are certified all at once when
    the tree is complete; if one fails, the tree is grown again with each certified in turn. The
    tree stops at the relative ``gap``. If it ``gives_up``, it stops as soon as it is forecast to
    exceed its budget: where most of the gap is between a leaf's relaxation and its integer program, or the
    bound hardly rises.
    """

    def __init__(
        self,
        layout: Layout,
        relaxation: Relaxation,
        rounder: Rounder,
        gap: float = 0.0,
        gives_up: bool = False,
    ):
        self._layout, self._relaxation = layout, relaxation
        self._rounder, self._gap, self._gives_up = rounder, gap, gives_up
        self._checked_at_once = max(1, _MAX_ENTRIES // max(1, len(layout.index)))
        self.integers = np.flatnonzero(layout.compiled.first.integer)

    def solve_roots(
        self, stack: Stack, start_clock: Callable[[], None]
    ) -> tuple[dict[int, Node], Troubles]:
        """Return the relaxations' optima by case, and troubles where there is none."""
        buffer, bases = SolutionBuffer(self._relaxation), {}
        for i, arrays in enumerate(stack):
            start_clock()
            with buffer.next_case():
                self._relaxation.solve(arrays)
                bases[i] = self._relaxation.highs.getBasis()
        x, row_duals = buffer.arrays()
        troubles = buffer.troubles
        duals = self._relaxation.rescaled.certify_many(stack, x, row_duals, troubles)
        bounds, nodes = stack.values_at(x), {}
        for i, arrays in enumerate(stack):
            if i not in troubles:
                lower = arrays.column_lower[self.integers]
                upper = arrays.column_upper[self.integers]
                found = (duals[0][i], duals[1][i]), float(bounds[i]), x[i], bases.get(i)
                nodes[i] = Node(lower, upper, *found)
        return nodes, troubles

    def tighten_by_reduced_costs(self, node: Node, highest: float) -> Region:
        """Return the box without integers that lead to a cost above ``highest``.

        Each step of an integer away from its bound costs at least its reduced cost.
        """
        assert node.duals is not None
        reduced_cost = node.duals[0][self.integers]
        spare = max(0.0, highest - node.bound)
        with np.errstate(divide="ignore"):
            steps = np.floor(spare / np.abs(reduced_cost) + _WHOLE)
        lower, upper = node.lower, node.upper
        return Region(
            np.where(reduced_cost < 0, np.maximum(lower, upper - steps), lower),
            np.where(reduced_cost > 0, np.minimum(upper, lower + steps), upper),
        )

    def grow(
        self,
        arrays: Arrays,
        root: Node,
        solve_leaf: LeafSolver,
        budget: float = math.inf,
    ) -> TreeResult:
        """Return an optimum, or the incumbent when the budget or the time is spent.

        ``solve_leaf`` takes a leaf's program and node and a cost; it returns an optimum that
        costs no more, if any, and a bound. The budget counts relaxations; a leaf counts as 20.
        """
        result = self._grow(arrays, root, solve_leaf, budget, certify=False)
        if not self._certify_nodes(arrays, result.solved):
            result = self._grow(arrays, root, solve_leaf, budget, certify=True)
        return result

    def _grow(
        self,
        arrays: Arrays,
        root: Node,
        solve_leaf: LeafSolver,
        budget: float,
        certify: bool,
    ) -> TreeResult:
        result, order = TreeResult(), count()
        heap = [(root.bound, next(order), root)]
        worth = budget if self._gives_up else math.inf
        forecast = SizeForecast(root.bound, len(self.integers), worth)
        while heap and heap[0][0] <= self._cutoff(result):
            _, _, node = heapq.heappop(heap)
            worthwhile = forecast.highest_value(node.bound)
            try:
                value = self._expected_value(arrays, node, result, forecast)
                result.is_hopeless = worthwhile < value < math.inf
                children, spent = self._visit(
                    arrays, node, solve_leaf, result, worthwhile, certify
                )
            except SolverTrouble as trouble:
                if not trouble.is_limit:
                    raise
                result.stopped, children, spent = trouble, [node], 0
            for child in children:
                heapq.heappush(heap, (child.bound, next(order), child))
            budget -= spent
            forecast.visited += 1
            ends = result.stopped is not None or result.is_hopeless
            if ends or (budget < 0 and heap):
                result.complete = False
                break
        open_bounds = (bound for bound, _, _ in heap)
        result.bound = min([result.bound, result.value, *open_bounds])
        return result

    def _visit(
        self,
        arrays: Arrays,
        node: Node,
        solve_leaf: LeafSolver,
        result: TreeResult,
        worthwhile: float,
        certify: bool,
    ) -> tuple[list[Node], int]:
        """Return a node's children, and their cost in relaxations.

        The tree is hopeless if its first leaf costs more than ``worthwhile``.
        """
        if result.is_hopeless:
            return [node], 0
        rounded = self._rounder.round_all(arrays, node.x) if node.may_round else None
        if rounded is not None:
            result.add(self._layout, arrays, MipResult(rounded, node.bound), node)
            return [], 0
        if node.is_fixed:
            fixed = restrict_to(arrays, self.integers, node)
            highest = self._cutoff(result)
            tests_size = not result.has_region and worthwhile < highest
            if tests_size:
                slack = COST_SLACK * cost_size(self._layout, arrays, node.x)
                highest = worthwhile + slack
            best = solve_leaf(fixed, node, highest)
            if tests_size and best.x is None and best.stopped is None:
                result.is_hopeless = True
                return [node], _LEAF_COST
            result.add(self._layout, arrays, best, replace(node, duals=None))
            return [], _LEAF_COST
        children = self._branch(arrays, node, result, certify)
        return children, sum(child.may_round for child in children)

    def _expected_value(
        self, arrays: Arrays, node: Node, result: TreeResult, forecast: SizeForecast
    ) -> float:
        """Return about the optimal value; infinity if there is no telling yet."""
        if result.has_region:
            # Near the root, no bound has risen yet.
            return result.value if forecast.is_past_a_dive else math.inf
        if forecast.is_due():
            return min(self._dive(arrays, node, result), result.value)
        if self._gap and not forecast.visited:
            self._dive(arrays, node, result)
        return math.inf

    def _dive(self, arrays: Arrays, node: Node, result: TreeResult) -> float:
        """Return the cost of a node's decision, rounded, with its recourse relaxed.

        Half of the free integers are rounded at a time, the nearest first. If the recourse is
        integral, the point becomes the incumbent when it is better.
        """
        box, x = Region(node.lower.copy(), node.upper.copy()), node.x
        while not box.is_fixed:
            free = np.flatnonzero(box.lower < box.upper)
            values = x[self.integers[free]]
            nearest = np.argsort(np.abs(values - np.rint(values)), kind="stable")
            part = nearest[: (len(free) + 1) // 2]
            box.lower[free[part]] = box.upper[free[part]] = np.rint(values[part])
            program = restrict_to(arrays, self.integers, box)
            if not self._relaxation.solve_if_feasible(program, node.basis):
                return math.inf
            x = self._relaxation.point()
        point = self._rounder.round_all(arrays, x)
        if point is not None and arrays.value(point) < result.value:
            result.start_from(self._layout, arrays, point, box)
        return arrays.value(x)

    def _cutoff(self, result: TreeResult) -> float:
        """Return the bound above which a node is pruned."""
        if result.x is None or not self._gap:
            # Ties with the incumbent are kept: Opt-Search needs all optimal decisions.
            return result.value + result.slack
        return result.value - self._gap * abs(result.value)

    def _branch(
        self, arrays: Arrays, node: Node, result: TreeResult, certify: bool
    ) -> list[Node]:
        """Split a node on one integer, and return the feasible children."""
        lower, upper = node.lower.copy(), node.upper.copy()
        j, value = self._branching_integer(node)
        if value > np.floor(value) or value < upper[j]:
            upper[j], lower[j] = np.floor(value), np.floor(value) + 1
        else:
            upper[j], lower[j] = value - 1, value
        boxes = [Region(node.lower, upper), Region(lower, node.upper)]
        bounds = [(box.lower[j], box.upper[j]) for box in boxes]
        points = self._inherited_points(arrays, node.x, self.integers[j], bounds)
        children = []
        for box, x in zip(boxes, points, strict=True):
            if x is not None:
                child = replace(node, lower=box.lower, upper=box.upper, x=x)
                child.may_round = False
                children.append(child)
                continue
            program = restrict_to(arrays, self.integers, box)
            if self._relaxation.solve_if_feasible(program, node.basis):
                result.solved.append(self._read_node(program, box, certify))
                children.append(result.solved[-1].node)
        return children

    def _inherited_points(
        self,
        arrays: Arrays,
        x: np.ndarray,
        column: int,
        bounds: Sequence[tuple[float, float]],
    ) -> list[np.ndarray | None]:
        """Return, for each child, an optimum of the node that lies in it, if one is known.

        Binaries with zero cost can often move to their bound without solving an LP. If all
        integers are integral then, the child's own relaxation is solved instead: it rounds.
        """
        values = [min(max(x[column], low), high) for low, high in bounds]
        if x[column] in values:
            return [x if value == x[column] else None for value in values]
        points = self._rounder.move_column(arrays, x, column, values)
        return [
            p if p is not None and self._fractional(p).any() else None for p in points
        ]

    def _fractional(self, x: np.ndarray) -> np.ndarray:
        """Return which first-stage integers of a point are fractional."""
        integers = x[self.integers]
        return np.asarray(np.abs(integers - np.rint(integers)) > _INTEGRAL)

    def _branching_integer(self, node: Node) -> tuple[int, float]:
        """Return the integer to branch on, and its value.

        It is the largest fractional one; else the one with the largest reduced cost.
        """
        assert node.duals is not None
        x = node.x[self.integers]
        fractional = self._fractional(node.x)
        if fractional.any():
            j = int(np.argmax(np.where(fractional, x, -np.inf)))
            return j, float(x[j])
        reduced_cost = np.abs(node.duals[0][self.integers])
        j = int(np.argmax(np.where(node.lower < node.upper, reduced_cost, -1.0)))
        node.x = node.x.copy()  # the solver's point is still to be certified
        node.x[self.integers[j]] = nearest = np.rint(x[j])
        return j, float(nearest)

    def _read_node(self, arrays: Arrays, box: Region, certify: bool) -> SolvedNode:
        """Return the node of the relaxation just solved, certified or as HiGHS reports it."""
        if certify:
            x, certificate = self._relaxation.certified_solution()
            column_duals, row_duals = certificate.duals
        else:
            x, column_duals, row_duals = self._relaxation.solution()
        basis, duals = self._relaxation.highs.getBasis(), (column_duals, row_duals)
        node = Node(box.lower, box.upper, duals, arrays.value(x), x, basis)
        return SolvedNode(node, x, row_duals)

    def _certify_nodes(self, arrays: Arrays, solved: list[SolvedNode]) -> bool:
        """Return whether all nodes can be certified; give them the certificates' duals."""
        for first in range(0, len(solved), self._checked_at_once):
            part = solved[first : first + self._checked_at_once]
            nodes, x, row_duals = zip(*part, strict=True)
            boxes = restrict_each(arrays, self.integers, nodes)
            certificate = self._relaxation.rescaled.checker.check(
                boxes, np.array(x), np.array(row_duals)
            )
            if not (certificate.optimal & certificate.clear).all():
                return False
            for node, *duals in zip(nodes, *certificate.duals, strict=True):
                node.duals = duals[0], duals[1]
        return True


def restrict_to(arrays: Arrays, integers: np.ndarray, region: Region) -> Arrays:
    """Return the program with its first-stage integers in a box."""
    lower, upper = arrays.column_lower.copy(), arrays.column_upper.copy()
    lower[integers], upper[integers] = region.lower, region.upper
    return replace(arrays, column_lower=lower, column_upper=upper)


def restrict_each(
    programs: Program, integers: np.ndarray, regions: Sequence[Region]
) -> Program:
    """Return each program, or copies of one, with its first-stage integers in a box."""
    shape = len(regions), programs.column_lower.shape[-1]
    lower = np.array(np.broadcast_to(programs.column_lower, shape))
    upper = np.array(np.broadcast_to(programs.column_upper, shape))
    lower[:, integers] = [region.lower for region in regions]
    upper[:, integers] = [region.upper for region in regions]
    return replace(programs, column_lower=lower, column_upper=upper)
