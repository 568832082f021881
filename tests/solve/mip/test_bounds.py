"""Bounds on the value of integer programs, solved to optimality or not."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1, mnv, sslp
from pyomo_csg.solve import highs_engine
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.engine import CostTask, SolveTask
from pyomo_csg.solve.highs_engine import HighsEngine
from tests.solve.mip.test_integer_solver import Solver
from tests.solving import solve, transform
from tests.zoo import ZOO, integers, scenarios

ROOT_ONLY = {"mip_max_nodes": 1}


@pytest.mark.parametrize("name", ["cep1", "farmer", "quadratic", "mnv", "integers"])
def test_bound_equals_value_at_optimality(name):
    model = ZOO[name]()
    zetas = np.array([scenarios(model, 3, seed) for seed in range(2)])
    batch = csg.Oracle(model).solve(zetas)
    assert batch.bound == pytest.approx(batch.value, rel=1e-8)
    one = csg.Oracle(model).solve(zetas[0])
    assert isinstance(one.bound, float)
    assert one.bound == pytest.approx(one.value, rel=1e-8)


def test_gap_of_a_maximization_brackets_the_optimum():
    model, demands = mnv.build(), mnv.sample(6, seed=5)[1]
    optimum = solve(transform("extensive_form", model, scenarios=demands))
    loose = csg.Oracle(model, options={"mip_rel_gap": 0.05}).solve(demands)
    assert loose.status == "optimal"
    assert loose.value <= optimum * (1 + 1e-9)  # a profit
    assert optimum <= loose.bound * (1 + 1e-9)
    assert 1e-3 < loose.bound / loose.value - 1 <= 0.05


def test_gap_of_a_minimization_brackets_the_optimum():
    model, clients = sslp.build(4, 8), sslp.scenarios(6, 8)
    optimum = solve(transform("extensive_form", model, scenarios=clients))
    loose = csg.Oracle(model, options={"mip_rel_gap": 0.05}).solve(clients)
    assert loose.bound <= optimum + 1e-7 and optimum <= loose.value + 1e-7
    assert 1e-3 < 1 - loose.bound / loose.value <= 0.05


def test_pyomo_solvers_return_bounds():
    model, clients = sslp.build(4, 8), sslp.scenarios(6, 8)
    exact = csg.Oracle(model, "appsi_highs").solve(clients)
    assert exact.bound == pytest.approx(exact.value, rel=1e-7)
    loose = csg.Oracle(model, "appsi_highs", options={"mip_rel_gap": 0.5})
    found = loose.solve(clients)
    assert found.bound <= exact.value + 1e-6 <= found.value + 2e-6
    assert found.bound < found.value - 1e-3


@pytest.mark.parametrize("method", ["tree", "plain"])
def test_limit_returns_incumbent_and_bound(method):
    model, demands = mnv.build(), mnv.sample(6, seed=5)[1]
    exact, stopped = Solver(model, 6), Solver(model, 6, method, **ROOT_ONLY)
    exact.solve(demands)
    weights = exact.weights[None]
    found = stopped.solver.solve_many(exact.blocks[None], weights)
    assert found.troubles[0].status == "solution limit"
    assert found.bounds[0] < exact.found.value - 1 <= found.values[0]
    engine = HighsEngine(stopped.compiled, {})
    costs = engine.costs(CostTask(np.repeat(found.decisions, 6, axis=0), demands)).costs
    assert costs.mean() <= found.values[0] + 1e-6  # it is feasible


def test_oracle_raises_or_records_at_a_limit():
    oracle = csg.Oracle(mnv.build(), options=ROOT_ONLY)
    demands = mnv.sample(6, seed=5)[1]
    with pytest.raises(csg.SolveError, match="solution limit"):
        oracle.solve(demands)
    found = oracle.solve(demands, on_error="record")
    assert found.status == "solution limit"
    assert [failure.status for failure in oracle.failures] == ["solution limit"]
    assert np.isfinite(found.decision).all()
    assert found.value < found.bound


def test_limit_before_any_incumbent_returns_the_relaxation_bound():
    demands = mnv.sample(6, seed=5)[1]
    exact = csg.Oracle(mnv.build()).solve(demands)
    oracle = csg.Oracle(mnv.build(), options={"mip_max_nodes": 0})
    found = oracle.solve(demands, on_error="record")
    assert found.status == "solution limit"
    assert np.isnan(found.value) and np.isnan(found.decision).all()
    assert exact.value < found.bound < np.inf


@pytest.mark.parametrize("limit", [0.02, 0.3])
def test_incumbent_at_a_time_limit_respects_its_bound(limit):
    demands = mnv.sample(30, seed=0)[1]
    oracle = csg.Oracle(mnv.build(), options={"time_limit": limit})
    found = oracle.solve(demands, on_error="record")
    assert found.status == "time limit"
    assert not found.value > found.bound
    assert np.isnan(found.value) == np.isnan(found.decision).all()


def test_no_loss_from_a_program_that_was_stopped():
    demands = mnv.sample(6, seed=5)[1]
    oracle = csg.Oracle(mnv.build(), options=ROOT_ONLY)
    losses = oracle.loss(demands[None], demands[:1], on_error="record")
    assert np.isnan(losses).all()
    assert oracle.failures[0].status == "solution limit"


def test_only_the_last_used_solvers_are_kept(monkeypatch):
    monkeypatch.setattr(highs_engine, "_MOST_SOLVERS", 3)
    for model in (cep1.build(), integers()):
        engine = HighsEngine(compile_model(csg.TwoStageModel(model)), {})
        oracle = csg.Oracle(model)
        for count in (1, 2, 3, 1, 4, 5, 1, 2):
            zetas, weights = (
                scenarios(model, count)[None],
                np.full((1, count), 1 / count),
            )
            values = engine.solve(SolveTask(zetas, weights)).values
            assert oracle.solve(zetas).value == pytest.approx(values)
        assert list(engine._solvers._solvers) == [5, 1, 2]
