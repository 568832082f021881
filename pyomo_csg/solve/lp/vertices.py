"""Vertices and extreme rays of polyhedra."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

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
