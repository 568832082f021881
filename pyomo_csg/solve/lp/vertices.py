"""Vertices and extreme rays of polyhedra, and dense forms of the recourse for its dual.

By duality the recourse is a maximum over its dual vertices: Q(y, omega) = max pi'(side - C y).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from pyomo_csg.errors import ModelError
from pyomo_csg.solve.compile.assembly import Blocks, RecourseLayout, evaluate
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.lp.units import geometric_units, power_of_two_below
from pyomo_csg.stages import TwoStageModel

_MAX_BASES = 10_000
_ZERO = 1e-9  # relative to the largest number of the vector in question
_DIGITS = 8  # to which points must agree to count as one


class TooManyBasesError(Exception):
    """There are more bases than can be visited in reasonable time."""


@dataclass(frozen=True, eq=False)
class VerticesAndRays:
    """Vertices (v, columns) and extreme rays (r, columns), scaled to a largest entry of 1."""

    vertices: np.ndarray
    rays: np.ndarray


def enumerate_vertices(
    matrix: np.ndarray, side: np.ndarray, most: int = _MAX_BASES
) -> VerticesAndRays | None:
    """Return the vertices and extreme rays of {x >= 0: Ax = b}; None if it is empty.

    Visits all lexicographically feasible bases, neighbor by neighbor: simplex pivots connect
    them. Raises a TooManyBasesError beyond ``most`` bases.

    Examples
    --------
    >>> found = enumerate_vertices(np.array([[1.0, 1.0, -1.0]]), np.array([1.0]))
    >>> found.vertices
    array([[1., 0., 0.],
           [0., 1., 0.]])
    >>> found.rays
    array([[1., 0., 1.],
           [0., 1., 1.]])
    """
    from scipy.optimize import linprog  # decisions do without

    start = linprog(
        np.zeros(matrix.shape[1]), A_eq=matrix, b_eq=side, method="highs-ds"
    )
    if start.status == 2:
        return None
    rows = _independent_columns(matrix.T)
    matrix, side = matrix[rows], side[rows]
    return _BasisWalk(matrix, side, _basis_of_vertex(matrix, start.x)).run(most)


class _BasisWalk:
    """A breadth-first walk over the bases of {x >= 0: Ax = b}."""

    def __init__(self, matrix: np.ndarray, side: np.ndarray, first: np.ndarray):
        self._matrix, self._first = matrix, first
        # Lexicographic rule: ties in the ratio test are broken as if the right-hand side were
        # perturbed along the first basis, so no basis is degenerate.
        self._sides = np.column_stack([side, matrix[:, first]])

    def run(self, most: int) -> VerticesAndRays:
        start = tuple(sorted(self._first.tolist()))
        seen, queue = {start}, deque([start])
        vertices: dict[bytes, np.ndarray] = {}
        rays: dict[bytes, np.ndarray] = {}
        while queue:
            vertex, directions, neighbors = self._visit(np.array(queue.popleft()))
            _add_point(vertices, vertex)
            for ray in directions:
                _add_point(rays, ray / np.abs(ray).max())
            for basis in neighbors:
                if basis not in seen:
                    if len(seen) >= most:
                        raise TooManyBasesError(f"more than {most}")
                    seen.add(basis)
                    queue.append(basis)
        width = self._matrix.shape[1]
        return VerticesAndRays(
            _stack_points(vertices, width), _stack_points(rays, width)
        )

    def _visit(
        self, basis: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray], list[tuple[int, ...]]]:
        """Return the vertex of a basis, its rays and its neighboring bases."""
        width = self._matrix.shape[1]
        both = np.column_stack([self._matrix, self._sides])
        solved = np.linalg.solve(self._matrix[:, basis], both)
        steps, levels = solved[:, :width], solved[:, width:]
        vertex = np.zeros(width)
        vertex[basis] = np.maximum(levels[:, 0], 0.0)
        directions, neighbors = [], []
        for entering in np.setdiff1d(np.arange(width), basis):
            step = steps[:, entering]
            blocking = np.flatnonzero(step > _ZERO * max(1.0, np.abs(step).max()))
            if not len(blocking):
                ray = np.zeros(width)
                ray[entering], ray[basis] = 1.0, np.maximum(-step, 0.0)
                directions.append(ray)
                continue
            leaving = _lexicographic_minimum(levels[blocking] / step[blocking, None])
            changed = basis.copy()
            changed[blocking[leaving]] = entering
            neighbors.append(tuple(sorted(changed.tolist())))
        return vertex, directions, neighbors


def _lexicographic_minimum(ratios: np.ndarray) -> int:
    """Return the lexicographically smallest row."""
    left = np.arange(len(ratios))
    for column in ratios.T:
        values = column[left]
        least = values.min()
        left = left[values <= least + _ZERO * max(1.0, abs(least))]
        if len(left) == 1:
            break
    return int(left[0])


def _basis_of_vertex(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return a basis that contains the support of a vertex."""
    used = x > _ZERO * max(1.0, np.abs(x).max(initial=0.0))
    order = np.concatenate([np.flatnonzero(used), np.flatnonzero(~used)])
    basis: list[int] = []
    for column in order:
        if np.linalg.matrix_rank(matrix[:, [*basis, column]]) > len(basis):
            basis.append(int(column))
        if len(basis) == len(matrix):
            break
    return np.array(basis)


def _independent_columns(columns: np.ndarray) -> np.ndarray:
    """Return a maximal set of linearly independent columns."""
    from scipy.linalg import qr

    _, triangle, order = qr(columns, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    return np.sort(order[: np.count_nonzero(sizes > _ZERO * sizes.max(initial=0.0))])


def _add_point(found: dict[bytes, np.ndarray], point: np.ndarray) -> None:
    """Add a point unless it is there already, up to rounding."""
    scale = np.abs(point).max(initial=0.0) or 1.0
    found.setdefault(
        (np.round(point / scale, _DIGITS) + 0.0).tobytes()
        + np.round(np.log(scale), _DIGITS).tobytes(),
        point,
    )


def _stack_points(points: dict[bytes, np.ndarray], width: int) -> np.ndarray:
    return np.array(list(points.values())).reshape(-1, width)


@dataclass(frozen=True, eq=False)
class InequalityForm:
    """One outcome's recourse in the form min q'z, Wz >= side - C y.

    A row or column with two bounds gives two rows, the second one negated. ``net``
    (constraints, rows) maps the duals of rows to those of the constraints they came from.
    """

    recourse: np.ndarray  # W (rows, columns)
    technology: np.ndarray  # C (rows, s)
    side: np.ndarray
    cost: np.ndarray  # q
    net: np.ndarray

    def dual_vertices(self) -> VerticesAndRays | None:
        """Return the vertices and rays of {pi >= 0: W'pi = q}; None if the recourse is unbounded."""
        rows, columns = self.recourse.shape
        if not columns:
            return VerticesAndRays(np.zeros((1, rows)), np.eye(rows))
        return _in_model_units(*_in_natural_units(self.recourse.T, self.cost))


def _in_natural_units(
    matrix: np.ndarray, side: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the matrix and side of {x >= 0: Ax = b} in other units, and the columns' units.

    The walk's tolerances suit numbers near one. Units are powers of two.
    """
    row, column = np.nonzero(matrix)
    nothing = [np.zeros((2, size)) for size in matrix.shape]
    rows, columns = geometric_units(
        (row, column, matrix[row, column]),
        (nothing[0][0], nothing[0][1]),
        (nothing[1][0], nothing[1][1]),
        np.zeros(matrix.shape[1], bool),
    )
    rows, columns = np.exp2(np.rint(rows)), np.exp2(np.rint(columns))
    factor = power_of_two_below(float(np.abs(side / rows).max(initial=0.0)))
    scaled = matrix * columns / rows[:, None]
    return scaled, factor * side / rows, columns / factor


def _in_model_units(
    matrix: np.ndarray, side: np.ndarray, units: np.ndarray
) -> VerticesAndRays | None:
    """Return vertices and rays of {x >= 0: Ax = b} times the units (columns,) of x."""
    found = enumerate_vertices(matrix, side)
    if found is None:
        return None
    rays = found.rays * units
    largest = np.abs(rays).max(axis=1, keepdims=True, initial=0.0)
    return VerticesAndRays(found.vertices * units, rays / largest)


def to_inequality_form(layout: RecourseLayout, block: Blocks) -> InequalityForm:
    """Return one block's recourse (no leading axis) as one-sided inequalities."""
    recourse = np.vstack([layout.matrix(block.entries), np.eye(layout.columns)])
    technology = np.zeros((layout.rows + layout.columns, layout.n1))
    places = layout.technology_row, layout.technology_column
    np.add.at(technology, places, block.entries[layout.technology])
    lower = np.concatenate([block.row_lower, block.column_lower])
    upper = np.concatenate([block.row_upper, block.column_upper])
    low, high = np.isfinite(lower), np.isfinite(upper)
    constraint = np.eye(layout.rows, len(lower))
    return InequalityForm(
        np.vstack([recourse[low], -recourse[high]]),
        np.vstack([technology[low], -technology[high]]),
        np.concatenate([lower[low], -upper[high]]),
        block.cost[layout.n1 :],
        np.hstack([constraint[:, low], -constraint[:, high]]),
    )


@dataclass(frozen=True, eq=False)
class RightHandSideArrays:
    """min h'y + q'z + constant, where Ay >= b and Wz >= side + R omega - C y.

    Every bound is a row, and every equality two. ``recourse`` holds W, C, q, and the right-hand
    side at omega = 0.
    """

    name: str  # of the model
    matrix: np.ndarray  # A (rows, s)
    side: np.ndarray  # b
    cost: np.ndarray  # h
    constant: float
    recourse: InequalityForm
    slopes: np.ndarray  # R (rows, p)


def right_hand_side_arrays(two_stage: TwoStageModel) -> RightHandSideArrays:
    """Return the matrices of a model, or raise a ModelError that lists why it has none."""
    compiled, name = compile_model(two_stage), two_stage.model.name or ""
    _check_form(name, compiled)
    layout = RecourseLayout(compiled)
    origin, *shifted = (
        to_inequality_form(layout, evaluate(compiled, omega)[()])
        for omega in np.vstack([np.zeros(compiled.p), np.eye(compiled.p)])
    )
    costs = compiled.first_cost, compiled.recourse_cost
    return RightHandSideArrays(
        name,
        *_first_stage(compiled),
        np.sum([cost.linear.constant for cost in costs], axis=0)[: len(compiled.first)],
        float(sum(cost.constant.constant[0] for cost in costs)),
        origin,
        np.column_stack([one.side - origin.side for one in shifted]),
    )


def _first_stage(compiled: CompiledModel) -> tuple[np.ndarray, np.ndarray]:
    """Return A and b of Ay >= b."""
    rows, width = compiled.first_rows, len(compiled.first)
    matrix = np.vstack([np.zeros((len(rows), width)), np.eye(width)])
    np.add.at(matrix, (rows.row, rows.column), rows.entries.constant)
    bounds = compiled.first.bounds(np.zeros(compiled.p))
    lower = np.concatenate([rows.lower.constant, bounds[0]])
    upper = np.concatenate([rows.upper.constant, bounds[1]])
    low, high = np.isfinite(lower), np.isfinite(upper)
    side = np.concatenate([lower[low], -upper[high]])
    return np.vstack([matrix[low], -matrix[high]]), side


def _check_form(name: str, compiled: CompiledModel) -> None:
    rows, cost = compiled.recourse_rows, compiled.recourse_cost
    sides = (rows.lower, rows.upper, compiled.recourse.lower, compiled.recourse.upper)
    faults = {
        "it has known Params; annotate it without": compiled.r > 0,
        "it has integer variables": compiled.integer,
        "its objective is quadratic": compiled.quadratic,
        "coefficients of its constraints are uncertain": not rows.entries.certain,
        "its costs are uncertain": not (cost.linear.certain and cost.constant.certain),
        "its right-hand sides are not affine in the uncertain Params": not all(
            side.affine for side in sides
        ),
    }
    if problems := [fault for fault, found in faults.items() if found]:
        subject = f"'{name}' is not linear with uncertain right-hand sides only"
        raise ModelError(subject, problems)
