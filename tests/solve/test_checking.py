"""Checks of linear programs: the quick one says nothing that the thorough one denies."""

import numpy as np
import pytest

from models import cep1, cvar_portfolio, newsvendor
from pyomo_csg.solve.assembly import Layout, evaluate
from pyomo_csg.solve.checking import Checker
from pyomo_csg.solve.compiling import compile_model
from pyomo_csg.solve.engine import Stats
from pyomo_csg.solve.highs import HighsProgram
from pyomo_csg.stages import TwoStageModel

MODELS = {
    "newsvendor": (newsvendor.build, newsvendor.sample),
    "cep1": (cep1.build, cep1.sample),
    "cvar": (cvar_portfolio.build, cvar_portfolio.sample),
}


def solved(name, cases=8, count=4):
    """Return a checker, programs of a model, and HiGHS's points and rows' duals."""
    build, sample = MODELS[name]
    compiled = compile_model(TwoStageModel(build()))
    outcomes = sample(cases * count, seed=3)[1].reshape(cases, count, -1)
    layout = Layout(compiled, count)
    weights = np.full((cases, count), 1 / count)
    stack = layout.stack(evaluate(compiled, outcomes), weights)
    program = HighsProgram(layout, Stats(), {}, relaxed=True)
    found = []
    for arrays in stack:
        program.load(arrays)
        program.run()
        x, _, prices = program.solution()
        found.append((x.copy(), prices.copy()))
    points, prices = map(np.array, zip(*found, strict=True))
    return Checker(layout), stack, points, prices


@pytest.mark.parametrize("name", MODELS)
def test_optima_are_proven_at_once(name):
    checker, stack, points, prices = solved(name)
    assert checker.proves(stack, points, prices).all()
    each = [
        bool(checker.proves(arrays, x, y))
        for arrays, x, y in zip(stack, points, prices, strict=True)
    ]
    assert all(each)


@pytest.mark.parametrize("part", ["point", "prices"])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_proven_at_once_is_proven(name, part):
    checker, stack, points, prices = solved(name)
    rng = np.random.default_rng(5)
    denied = 0
    for size in np.geomspace(1e-14, 1e-1, 40):
        moved = {"point": points.copy(), "prices": prices.copy()}
        moved[part] *= 1 + size * rng.standard_normal(moved[part].shape)
        moved[part] += size * rng.standard_normal(moved[part].shape)
        quick = checker.proves(stack, moved["point"], moved["prices"])
        thorough = checker.look(stack, moved["point"], moved["prices"]).optimal
        assert not (quick & ~thorough).any()
        denied += int((~quick).sum())
    assert denied > 0


def test_a_point_that_is_none_is_not_proven():
    checker, stack, points, prices = solved("cep1")
    points[2] = np.nan
    assert checker.proves(stack, points, prices).tolist() == [
        i != 2 for i in range(len(points))
    ]
