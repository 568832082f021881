"""Points move to whole ones, or to other places of a column, only at no cost."""

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
    """Return a program that may hold two assets, its rounder, and a point on three.

    Also the places of the switches; each is on as far as its asset is held.
    """
    compiled = compile_model(csg.TwoStageModel(cvar_portfolio.build(most_held=2)))
    layout = Layout(compiled, 1)
    arrays = layout.arrays(evaluate(compiled, np.zeros((1, 10))), np.ones(1))
    switches = np.flatnonzero(compiled.first.integer)
    holdings = np.flatnonzero(~compiled.first.integer)
    x = np.zeros(layout.columns)
    x[holdings[:3]] = x[switches[:3]] = [0.5, 0.3, 0.2]
    return arrays, Rounder(layout), x, switches


def test_a_switch_steps_where_the_rows_let_it(portfolio):
    arrays, rounder, x, switches = portfolio

    off, on = rounder.move_column(arrays, x, switches[0], [0.0, 1.0])

    assert off is None  # its asset is held
    assert on[switches[0]] == 1.0 and not np.delete(on - x, switches[0]).any()
    assert x[switches[0]] == 0.5
    assert rounder.move_column(arrays, on, switches[1], [1.0]) == [
        None
    ]  # 2.2 would be on


def test_a_switch_does_not_step_where_that_costs(portfolio):
    arrays, rounder, x, switches = portfolio
    dear = replace(arrays, cost=arrays.cost + np.isin(np.arange(len(x)), switches))

    assert rounder.move_column(dear, x, switches[0], [0.0, 1.0]) == [None, None]
    assert rounder.move_column(dear, x, switches[0], [1.0]) == [None]
