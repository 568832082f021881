"""Calls with a deadline: what was solved is kept, what was not is recorded."""

import math
import pickle
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1, mnv, newsvendor
from pyomo_csg.solve.engine import Moment
from tests.solve.test_oracle import batch
from tests.solving import needs_solver
from tests.zoo import ZOO

CASES = [
    ("newsvendor", newsvendor.build, "highs"),
    ("integer", mnv.build, "highs"),
    ("quadratic", ZOO["quadratic"], "highs"),
    pytest.param(
        "scip", newsvendor.build, "scip_persistent", marks=needs_solver("scip_direct")
    ),
]


def answers(oracle, zetas, omegas, **settings):
    """Return the numbers of each kind of call, case by case."""
    decision = oracle.solve(zetas[:1]).decision[0]
    settings = {"on_error": "record", **settings}
    solution = oracle.solve(zetas, **settings)
    yield solution.value, list(solution.failures)
    yield oracle.loss(zetas, omegas, **settings), oracle.failures
    yield oracle.cost(decision, omegas, **settings), oracle.failures
    if oracle._settings[0] == "highs":
        found = oracle.loss_gradient(zetas, omegas, **settings)
        yield found.loss, list(found.failures)
        assert np.isfinite(found.gradient[np.isfinite(found.loss)]).all()


@pytest.mark.parametrize("name, build, solver", CASES)
def test_nothing_is_solved_after_the_deadline(name, build, solver):
    zetas, omegas = batch(build())
    oracle = csg.Oracle(build(), solver)
    for numbers, failures in answers(oracle, zetas, omegas, deadline=time.monotonic()):
        assert np.isnan(numbers).all() and len(numbers) == len(zetas)
        assert [one.case for one in failures] == list(range(len(zetas)))
        assert {one.status for one in failures} == {"time limit"}
        assert "deadline of the call passed" in str(failures[0])


@pytest.mark.parametrize("name, build, solver", CASES)
def test_a_far_deadline_changes_nothing_and_none_is_left_over(name, build, solver):
    zetas, omegas = batch(build())
    oracle = csg.Oracle(build(), solver)
    passed = {"deadline": time.monotonic(), "on_error": "record"}
    for later in (None, math.inf, time.monotonic() + 1e4):
        oracle.solve(zetas, **passed)
        for found, expected in zip(
            answers(oracle, zetas, omegas, deadline=later, on_error="raise"),
            answers(csg.Oracle(build(), solver), zetas, omegas),
            strict=True,
        ):
            assert found[0] == pytest.approx(expected[0], rel=1e-9)


def test_what_was_solved_before_the_deadline_is_kept():
    zetas, omegas = batch(mnv.build(), count=3, k=8)
    zetas, omegas = np.tile(zetas, (500, 1, 1)), np.tile(omegas, (500, 1))
    oracle = csg.Oracle(mnv.build())
    exact = oracle.loss(zetas[:3], omegas[:3])
    start = time.monotonic()
    losses = oracle.loss(zetas, omegas, deadline=start + 5, on_error="record")
    solved = np.isfinite(losses)
    assert 0 < solved.sum() < len(solved)
    assert losses[solved] == pytest.approx(np.tile(exact, 500)[solved], rel=1e-9)
    assert len(oracle.failures) == (~solved).sum()


@pytest.mark.parametrize("workers", [1, 2])
def test_the_deadline_holds_in_threads_and_processes(workers):
    zetas, omegas = batch(cep1.build(), count=20)
    passed = {"deadline": time.monotonic(), "on_error": "record"}
    with ProcessPoolExecutor(1) as pool:
        for executor in (None, pool):
            oracle = csg.Oracle(cep1.build(), executor=executor, workers=workers)
            assert np.isnan(oracle.loss(zetas, omegas, **passed)).all()
            later = time.monotonic() + 1e4
            assert np.isfinite(oracle.loss(zetas, omegas, deadline=later)).all()


def test_a_pickled_moment_is_the_same_moment():
    moment = Moment(time.monotonic() + 100)
    assert pickle.loads(pickle.dumps(moment)) == pytest.approx(moment, abs=1)
    assert pickle.loads(pickle.dumps(Moment(math.inf))) == math.inf


def test_a_gap_for_one_call_bounds_its_values_and_leaves_others_exact():
    zetas, omegas = batch(mnv.build(), count=6, k=5)
    oracle = csg.Oracle(mnv.build())
    exact = oracle.solve(zetas)
    rough = oracle.solve(zetas, mip_gap=0.05)
    sense = int(oracle.two_stage.sense)
    over = sense * (rough.value - exact.value)
    assert (over >= -1e-9 * abs(exact.value)).all()
    assert (over <= 0.05 * abs(rough.value) + 1e-9).all()
    assert oracle.solve(zetas).value == pytest.approx(exact.value, rel=1e-9)
    assert len(oracle.loss(zetas, omegas, "recourse", mip_gap=0.05, audit=False)) == 6
    assert oracle.audit is None


@pytest.mark.parametrize("setting", [{"deadline": "soon"}, {"mip_gap": 1.5}])
def test_deadlines_and_gaps_that_make_no_sense_are_refused(setting):
    with pytest.raises(csg.DataError, match=next(iter(setting))):
        csg.Oracle(newsvendor.build()).solve([[3.0]], **setting)
