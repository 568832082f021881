"""The compiled arrays against Pyomo's own evaluation of the model."""

import pickle

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from pyomo_csg.solve.compile.assembly import Layout, evaluate
from pyomo_csg.solve.compile.compiler import compile_model
from tests.zoo import ZOO, scenarios


@pytest.mark.parametrize("name", ZOO)
def test_rows_bounds_and_costs_are_those_of_the_model(name):
    model = ZOO[name]()
    two_stage = csg.TwoStageModel(model)
    compiled = pickle.loads(pickle.dumps(compile_model(two_stage)))
    (omega,) = scenarios(model, 1, seed=7)
    for param, number in zip(two_stage.uncertain_params, omega, strict=True):
        param.set_value(float(number))
    variables = two_stage.first_stage_variables + two_stage.recourse_variables
    x = np.random.default_rng(0).uniform(0.1, 3, len(variables))
    for v, number in zip(variables, x, strict=True):
        if not v.fixed:
            v.set_value(float(number), skip_validation=True)
    x = np.array([v.value for v in variables])

    layout, block = Layout(compiled, 1), evaluate(compiled, omega[None])
    arrays = layout.arrays(block, np.ones(1))
    matrix = np.zeros((layout.rows, layout.columns))
    for column in range(layout.columns):
        entries = slice(layout.start[column], layout.start[column + 1])
        matrix[layout.index[entries], column] = arrays.values[entries]
    free = np.array([not v.fixed for v in variables])
    activity = matrix[:, free] @ x[free]
    constraints = two_stage.first_stage_constraints + two_stage.recourse_constraints
    for row, con in enumerate(constraints):
        body = pyo.value(con.body)
        for side, ours in (
            (con.lower, arrays.row_lower),
            (con.upper, arrays.row_upper),
        ):
            if side is not None:
                expected = pyo.value(side) - body
                assert ours[row] - activity[row] == pytest.approx(expected, abs=1e-9)
    cost = arrays.cost[free] @ x[free] + arrays.offset
    for part, weights in (
        (compiled.first_cost, compiled.first_cost.hessian.constant),
        (compiled.recourse_cost, block.hessian[0]),
    ):
        places = zip(part.hessian_row, part.hessian_column, weights, strict=True)
        cost += sum(h * x[i] * x[j] / (2 if i == j else 1) for i, j, h in places)
    assert compiled.sense * cost == pytest.approx(pyo.value(two_stage.objective))


def test_functions_of_params_are_vectorized_and_differentiated():
    compiled = compile_model(csg.TwoStageModel(ZOO["nonlinear_data"]()))
    numbers = compiled.recourse_rows.entries
    omega = np.random.default_rng(0).uniform(0.5, 2, (6, 2))
    move = np.random.default_rng(1).standard_normal((6, len(numbers.constant)))
    step = 1e-6
    for j in range(2):
        shift = step * np.eye(2)[j]
        slope = (numbers.at(omega + shift) - numbers.at(omega - shift)) / (2 * step)
        expected = (move * slope).sum(axis=1)
        assert numbers.pull_back(move, omega)[:, j] == pytest.approx(expected, rel=1e-6)


def test_a_change_to_the_model_after_compiling_is_not_seen():
    model = ZOO["newsvendor"]()
    oracle = csg.Oracle(model)
    model.order.setub(3)
    assert oracle.solve([[10.0]]).decision == pytest.approx([10])
    assert csg.Oracle(model).solve([[10.0]]).decision == pytest.approx([3])
