"""Vertices and rays of polyhedra, compared with trying all bases."""

from itertools import combinations

import numpy as np
import pytest

from pyomo_csg.solve.lp.vertices import TooManyBasesError, enumerate_vertices


def _enumerate_all_bases(matrix, side):
    """Return the basic feasible solutions, rounded."""
    rows, columns = matrix.shape
    found = set()
    for basis in map(list, combinations(range(columns), rows)):
        if np.linalg.matrix_rank(matrix[:, basis]) < rows:
            continue
        values = np.linalg.solve(matrix[:, basis], side)
        if (values > -1e-9).all():
            x = np.zeros(columns)
            x[basis] = values
            found.add(_rounded(x))
    return found


def _rounded(x):
    return tuple(np.round(np.maximum(x, 0), 6) + 0.0)


@pytest.mark.parametrize("seed", range(40))
def test_finds_exactly_the_vertices_and_rays(seed):
    """Small integer coefficients make many bases degenerate."""
    rng = np.random.default_rng(seed)
    rows, more = rng.integers(1, 5), rng.integers(1, 5)
    matrix = np.column_stack([np.eye(rows), rng.integers(-2, 3, (rows, more))]).astype(
        float
    )
    side = matrix @ (rng.integers(0, 3, rows + more) * (rng.random(rows + more) < 0.6))
    found = enumerate_vertices(matrix, side)
    assert {_rounded(x) for x in found.vertices} == _enumerate_all_bases(matrix, side)
    # A ray whose entries sum to 1 is a vertex of the cone cut there.
    cut, at = np.vstack([matrix, np.ones(rows + more)]), np.append(np.zeros(rows), 1.0)
    rays = {_rounded(ray / ray.sum()) for ray in found.rays}
    assert rays == (
        _enumerate_all_bases(cut, at) if np.linalg.matrix_rank(cut) > rows else set()
    )


def test_redundant_rows():
    once = enumerate_vertices(np.array([[1.0, 2.0, 1.0]]), np.array([2.0]))
    twice = enumerate_vertices(
        np.array([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0]]), np.array([2.0, 4.0])
    )
    assert np.allclose(once.vertices, twice.vertices)


def test_empty_polyhedron():
    assert enumerate_vertices(np.array([[1.0, 1.0]]), np.array([-1.0])) is None


def test_too_many_bases_are_an_error():
    cube = np.hstack([np.eye(8), np.eye(8)])
    assert len(enumerate_vertices(cube, np.ones(8)).vertices) == 256
    with pytest.raises(TooManyBasesError, match="more than 100"):
        enumerate_vertices(cube, np.ones(8), most=100)
