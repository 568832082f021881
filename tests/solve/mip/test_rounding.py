"""Rounding, and moves of one column, happen only at no cost."""

from dataclasses import replace

import numpy as np
import pytest

import pyomo_csg as csg
from models import cvar_portfolio
from pyomo_csg.solve.compile.assembly import Layout, evaluate
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.mip.rounding import Rounder


@pytest.fixture
def portfolio():
    """Return a program that may hold two assets, its rounder, a point that holds three, and
    the columns of the binaries; each binary equals the holding of its asset.
    """
    compiled = compile_model(csg.TwoStageModel(cvar_portfolio.build(most_held=2)))
    layout = Layout(compiled, 1)
    arrays = layout.arrays(evaluate(compiled, np.zeros((1, 10))), np.ones(1))
    binaries = np.flatnonzero(compiled.first.integer)
    holdings = np.flatnonzero(~compiled.first.integer)
    x = np.zeros(layout.columns)
    x[holdings[:3]] = x[binaries[:3]] = [0.5, 0.3, 0.2]
    return arrays, Rounder(layout), x, binaries


def test_binary_moves_if_the_rows_allow_it(portfolio):
    arrays, rounder, x, binaries = portfolio

    off, on = rounder.move_column(arrays, x, binaries[0], [0.0, 1.0])

    assert off is None  # its asset is held
    assert on[binaries[0]] == 1.0 and not np.delete(on - x, binaries[0]).any()
    assert x[binaries[0]] == 0.5
    assert rounder.move_column(arrays, on, binaries[1], [1.0]) == [
        None
    ]  # the binaries would sum to 2.2


def test_binary_does_not_move_at_a_cost(portfolio):
    arrays, rounder, x, binaries = portfolio
    costly = replace(arrays, cost=arrays.cost + np.isin(np.arange(len(x)), binaries))

    assert rounder.move_column(costly, x, binaries[0], [0.0, 1.0]) == [None, None]
    assert rounder.move_column(costly, x, binaries[0], [1.0]) == [None]
