"""Fits by default of odd histories: constant or discrete columns, wide or long data."""

import tracemalloc

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.distributions.forecasts.forecast import choose_by_column
from tests.learn.candidates.test_auto import cost_only
from tests.quick import QUICK, fit

RNG = np.random.default_rng(0)
ALL_KINDS = (
    "empirical",
    "neighbors",
    "forest weights",
    "extra trees weights",
    "ridge",
    "quadratic",
    "forest",
    "extra trees",
    "boosting",
    "stacked",
    "mixture",
)


@pytest.fixture(autouse=True)
def every_kind(short, monkeypatch):
    monkeypatch.setattr("pyomo_csg.learn.selection.plan.KINDS", ALL_KINDS)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("contexts", "outcomes"),
    [
        (RNG.normal(size=(30, 2)), np.column_stack([np.full(30, 2.0), RNG.random(30)])),
        (RNG.normal(size=(12, 2)), np.full((12, 2), 2.0)),
        (np.zeros((12, 2)), np.full((12, 2), 2.0)),
        (np.zeros((20, 1)), RNG.uniform(1, 3, (20, 2))),
        (RNG.integers(2, size=(40, 1)) * 1.0, RNG.integers(1, 4, (40, 2)) * 1.0),
        (RNG.normal(size=(5, 2)), RNG.uniform(1, 3, (5, 2))),
        (1e12 * RNG.normal(size=(20, 2)), 1e-6 * RNG.uniform(1, 3, (20, 2))),
    ],
    ids=[
        "one constant",
        "outcomes",
        "everything",
        "contexts",
        "discrete",
        "few",
        "units",
    ],
)
def test_a_policy_comes_of_it_and_back_from_its_file(contexts, outcomes, tmp_path):
    policy = fit((contexts, outcomes), cost_only())

    assert policy.decide(contexts[0]).status == "optimal"
    policy.save(tmp_path / "policy.csg")
    loaded = csg.load(tmp_path / "policy.csg", cost_only())
    np.testing.assert_array_equal(
        loaded.scenarios(contexts), policy.scenarios(contexts)
    )
    if (outcomes == outcomes[0]).all():
        assert policy.scenarios(contexts) == pytest.approx(
            np.broadcast_to(outcomes[0], (len(contexts), 2, 2))
        )


def test_a_column_that_all_options_forecast_exactly_has_no_vote():
    squares = np.array([[0.0, 4.0, 4.0], [0.0, 1.0, 1.0]])
    assert choose_by_column(squares).tolist() == [1, 1, 1]
    assert choose_by_column(np.zeros((3, 2))).tolist() == [0, 0]


def many_items(p):
    """Return a newsvendor of p items with a common budget."""
    m = pyo.ConcreteModel("many_items")
    m.demand = pyo.Param(
        range(p), mutable=True, initialize=5.0, within=pyo.NonNegativeReals
    )
    m.order = pyo.Var(range(p), bounds=(0, 20))
    m.sold = pyo.Var(range(p), within=pyo.NonNegativeReals)
    m.stock = pyo.Constraint(range(p), rule=lambda m, i: m.sold[i] <= m.order[i])
    m.market = pyo.Constraint(range(p), rule=lambda m, i: m.sold[i] <= m.demand[i])
    m.budget = pyo.Constraint(expr=sum(m.order.values()) <= 6 * p)
    m.cost = pyo.Objective(expr=sum(m.order[i] - 1.5 * m.sold[i] for i in range(p)))
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    return m


@pytest.mark.parametrize(("n", "p"), [(20_000, 1), (60, 500)])
def test_long_and_wide_histories_take_little_memory(n, p):
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(n, 3))
    outcomes = np.maximum(5 + contexts[:, :1] + rng.normal(size=(n, p)), 0)
    model = newsvendor.build() if p == 1 else many_items(p)
    config = {**vars(QUICK), "mmd_epochs": 1, "hidden": (4,)}
    found = csg.plan(model, (contexts[:60], outcomes[:60]), scenarios=2, config=config)
    few = {
        "kinds": ("empirical", "neighbors", "forest weights", "ridge"),
        "folds": 1,
        "scored_rows": 30,
        "programs": 0,
        "rehearses": False,
    }
    plan = type(found).restore({**found.summary(), **few})

    tracemalloc.start()
    try:
        policy = fit((contexts, outcomes), model, config=config, plan=plan)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < min(8 * n**2 / 2, 1.5e9) if n > 1000 else peak < 1.5e9
    assert np.isfinite(policy.decide(contexts[0]).value)
