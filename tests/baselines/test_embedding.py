"""A ReLU layer as part of a program, against its own arithmetic and other decisions."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from pyomo_csg.baselines.trained.neur2sp import ReluLayer, embed
from tests.solving import transform
from tests.zoo import ZOO, scenarios

UNITS = 5
LINEAR = [
    name for name in ZOO if name not in ("quadratic", "cross_products", "sos_piecewise")
]


def layer_between(lower, upper, seed=0):
    """Return a layer whose units turn on and off between the bounds, and its biases."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((UNITS, len(lower))) / (0.1 + upper - lower)
    outputs = 10 * rng.standard_normal(UNITS)
    inside = rng.uniform(lower, upper, (UNITS, len(lower)))
    return ReluLayer(inputs, outputs, 3.0), -(inputs * inside).sum(axis=1)


def total(two_stage, layer, bias, y):
    """Return h(y) and what the layer says, in the model's own sense."""
    for v, number in zip(two_stage.first_stage_variables, y, strict=True):
        v.set_value(number, skip_validation=True)
    return pyo.value(two_stage.first_stage_cost) + two_stage.sense * layer(y, bias)


@pytest.mark.parametrize("name", LINEAR)
def test_the_value_is_the_networks_and_no_feasible_decision_has_a_better(name):
    model = ZOO[name]()
    two_stage, data = csg.TwoStageModel(model), scenarios(model, 12).reshape(6, 2, -1)
    feasible = csg.Oracle(model).solve(data).decision
    lower, upper = feasible.min(axis=0), feasible.max(axis=0)
    for seed in range(3):
        layer, bias = layer_between(lower, upper, seed)

        solution = csg.Oracle(embed(two_stage, layer, lower, upper)).solve(bias[None])

        y, value = solution.decision, solution.value
        assert value == pytest.approx(total(two_stage, layer, bias, y), abs=1e-5)
        assert (y > lower - 1e-6).all() and (y < upper + 1e-6).all()
        others = [total(two_stage, layer, bias, other) for other in feasible]
        assert two_stage.sense * value <= min(two_stage.sense * np.array(others)) + 1e-6
        # It raises where y breaks a first-stage constraint.
        transform("recourse", model.clone(), decision=y, outcome=data[0, 0])


@pytest.mark.parametrize(
    ("name", "step"), [("newsvendor", 0.01), ("nonlinear_data", 0.1), ("integers", 1)]
)
def test_all_decisions_of_a_grid_are_no_better_and_one_is_as_good(name, step):
    two_stage = csg.TwoStageModel(ZOO[name]())
    size = len(two_stage.first_stage_variables)
    axis = np.arange(0, 9 + step / 2, step)
    grid = np.stack(np.meshgrid(*[axis] * size), axis=-1).reshape(-1, size)
    lower, upper = np.zeros(size), np.full(size, 9.0)
    for seed in range(4):
        layer, bias = layer_between(lower, upper, seed)
        found = csg.Oracle(embed(two_stage, layer, lower, upper)).solve(bias[None])
        values = [two_stage.sense * total(two_stage, layer, bias, y) for y in grid]
        slope = np.abs(layer.inputs).sum() * np.abs(layer.outputs).max() + 10
        assert two_stage.sense * found.value <= min(values) + 1e-6
        assert two_stage.sense * found.value >= min(values) - slope * step


def test_a_unit_that_is_always_on_or_off_is_exact_too():
    two_stage = csg.TwoStageModel(ZOO["newsvendor"]())
    layer = ReluLayer(np.array([[1.0], [1.0]]), np.array([-2.0, -3.0]), 0.0)
    oracle = csg.Oracle(embed(two_stage, layer, np.zeros(1), np.array([9.0])))

    assert oracle.solve([[100.0, -100.0]]).value == pytest.approx(9 - 2 * 109)
    assert oracle.solve([[-100.0, -100.0]]).value == pytest.approx(0)


def test_the_model_stays_as_it_was():
    model = ZOO["cep1"]()
    two_stage, before = csg.TwoStageModel(model), str(csg.TwoStageModel(model))
    bounds = np.zeros(8), np.full(8, 5e3)
    embedded = embed(two_stage, layer_between(*bounds)[0], *bounds)

    assert str(csg.TwoStageModel(model)) == before
    assert model.added[1].ub is None
    assert embedded.added[1].ub == 5e3
    assert embedded.operated[1].ub == 2000  # its own
    assert embedded.find_component("supply") is None
