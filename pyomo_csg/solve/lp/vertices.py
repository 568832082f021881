"""The recourse as a maximum over its dual vertices: Q(y, omega) = max pi'(side - C y)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr
from scipy.optimize import linprog

from pyomo_csg.solve.compile.assembly import Blocks, RecourseLayout

_MOST_BASES = 10_000
_ZERO = 1e-9  # relative to the largest number at hand
_DIGITS = 8


class TooManyBasesError(Exception):
    """There are more bases than one would wait for."""


@dataclass(frozen=True, eq=False)
class VerticesAndRays:
    """A polyhedron as what it is spanned by.

    Attributes
    ----------
    vertices : array (v, columns)
    rays : array (r, columns)
        Extreme directions in which it goes on for ever, their largest entry 1.
    """

    vertices: np.ndarray
    rays: np.ndarray


def enumerate_vertices(
    matrix: np.ndarray, side: np.ndarray, most: int = _MOST_BASES
) -> VerticesAndRays | None:
    """Return the vertices and extreme rays of {x >= 0: Ax = b}; None if it is empty.

    All lexicographically feasible bases are visited, from neighbour to neighbour: the
    simplex method's pivots connect them, and whatever a cost would lead to is among them.

    Parameters
    ----------
    matrix : array (rows, columns)
    side : array (rows,)
    most : int
        Bases to visit.

    Raises
    ------
    TooManyBasesError

    Examples
    --------
    >>> found = corners(np.array([[1.0, 1.0, -1.0]]), np.array([1.0]))
    >>> found.vertices
    array([[1., 0., 0.],
           [0., 1., 0.]])
    >>> found.rays
    array([[1., 0., 1.],
           [0., 1., 1.]])
    """
    start = linprog(
        np.zeros(matrix.shape[1]), A_eq=matrix, b_eq=side, method="highs-ds"
    )
    if start.status == 2:
        return None
    rows = _independent(matrix.T)
    matrix, side = matrix[rows], side[rows]
    walk = _Walk(matrix, side, _basis(matrix, start.x))
    return walk.corners(most)


class _Walk:
    """Goes from basis to basis."""

    def __init__(self, matrix: np.ndarray, side: np.ndarray, first: np.ndarray):
        self._matrix, self._first = matrix, first
        # Ties of ratios are broken as if the side were moved a little along the first
        # basis, so that no basis is degenerate.
        self._sides = np.column_stack([side, matrix[:, first]])

    def corners(self, most: int) -> VerticesAndRays:
        start = tuple(sorted(self._first.tolist()))
        seen, queue = {start}, deque([start])
        vertices: dict[bytes, np.ndarray] = {}
        rays: dict[bytes, np.ndarray] = {}
        while queue:
            vertex, directions, neighbours = self._look(np.array(queue.popleft()))
            _keep(vertices, vertex)
            for ray in directions:
                _keep(rays, ray / np.abs(ray).max())
            for basis in neighbours:
                if basis not in seen:
                    if len(seen) >= most:
                        raise TooManyBasesError(f"more than {most}")
                    seen.add(basis)
                    queue.append(basis)
        width = self._matrix.shape[1]
        return VerticesAndRays(_stacked(vertices, width), _stacked(rays, width))

    def _look(
        self, basis: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray], list[tuple[int, ...]]]:
        """Return the vertex of a basis, its rays and its neighbouring bases."""
        width = self._matrix.shape[1]
        both = np.column_stack([self._matrix, self._sides])
        solved = np.linalg.solve(self._matrix[:, basis], both)
        steps, levels = solved[:, :width], solved[:, width:]
        vertex = np.zeros(width)
        vertex[basis] = np.maximum(levels[:, 0], 0.0)
        directions, neighbours = [], []
        for entering in np.setdiff1d(np.arange(width), basis):
            step = steps[:, entering]
            blocking = np.flatnonzero(step > _ZERO * max(1.0, np.abs(step).max()))
            if not len(blocking):
                ray = np.zeros(width)
                ray[entering], ray[basis] = 1.0, np.maximum(-step, 0.0)
                directions.append(ray)
                continue
            leaving = _first_to_block(levels[blocking] / step[blocking, None])
            changed = basis.copy()
            changed[blocking[leaving]] = entering
            neighbours.append(tuple(sorted(changed.tolist())))
        return vertex, directions, neighbours


def _first_to_block(ratios: np.ndarray) -> int:
    """Return which row is lexicographically the least."""
    left = np.arange(len(ratios))
    for column in ratios.T:
        values = column[left]
        least = values.min()
        left = left[values <= least + _ZERO * max(1.0, abs(least))]
        if len(left) == 1:
            break
    return int(left[0])


def _basis(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return a basis that has the support of a vertex."""
    used = x > _ZERO * max(1.0, np.abs(x).max(initial=0.0))
    order = np.concatenate([np.flatnonzero(used), np.flatnonzero(~used)])
    basis: list[int] = []
    for column in order:
        if np.linalg.matrix_rank(matrix[:, [*basis, column]]) > len(basis):
            basis.append(int(column))
        if len(basis) == len(matrix):
            break
    return np.array(basis)


def _independent(columns: np.ndarray) -> np.ndarray:
    """Return which columns of a matrix are independent and span the others."""
    _, triangle, order = qr(columns, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    return np.sort(order[: np.count_nonzero(sizes > _ZERO * sizes.max(initial=0.0))])


def _keep(found: dict[bytes, np.ndarray], point: np.ndarray) -> None:
    """Add a point that is not there yet, but for rounding."""
    scale = np.abs(point).max(initial=0.0) or 1.0
    found.setdefault(
        (np.round(point / scale, _DIGITS) + 0.0).tobytes()
        + np.round(np.log(scale), _DIGITS).tobytes(),
        point,
    )


def _stacked(points: dict[bytes, np.ndarray], width: int) -> np.ndarray:
    return np.array(list(points.values())).reshape(-1, width)


@dataclass(frozen=True, eq=False)
class InequalityForm:
    """One outcome's recourse with every side on its own: min q'z, Wz >= side - C y.

    A row or column that is bounded on two sides is there twice, with its signs turned;
    bounds of recourse variables are rows.

    Attributes
    ----------
    recourse : array (rows, columns)
        W.
    technology : array (rows, s)
        C.
    side : array (rows,)
    cost : array (columns,)
        q.
    net : array (constraints, rows)
        Adds up, with their signs, the rows that a constraint gave.
    """

    recourse: np.ndarray
    technology: np.ndarray
    side: np.ndarray
    cost: np.ndarray
    net: np.ndarray

    def dual_vertices(self) -> VerticesAndRays | None:
        """Return the corners of {pi >= 0: W'pi = q}; None where the recourse is unbounded.

        Raises
        ------
        TooManyBasesError
        """
        rows, columns = self.recourse.shape
        if not columns:
            return VerticesAndRays(np.zeros((1, rows)), np.eye(rows))
        return enumerate_vertices(self.recourse.T, self.cost)


def to_inequality_form(layout: RecourseLayout, block: Blocks) -> InequalityForm:
    """Return the recourse of one block (no leading axis)."""
    recourse = np.vstack([layout.matrix(block.entries), np.eye(layout.columns)])
    technology = np.zeros((layout.rows + layout.columns, layout.n1))
    places = layout.technology_row, layout.technology_column
    np.add.at(technology, places, block.entries[layout.technology])
    lower = np.concatenate([block.row_lower, block.column_lower])
    upper = np.concatenate([block.row_upper, block.column_upper])
    low, high = np.isfinite(lower), np.isfinite(upper)
    own = np.eye(layout.rows, len(lower))
    return InequalityForm(
        np.vstack([recourse[low], -recourse[high]]),
        np.vstack([technology[low], -technology[high]]),
        np.concatenate([lower[low], -upper[high]]),
        block.cost[layout.n1 :],
        np.hstack([own[:, low], -own[:, high]]),
    )
