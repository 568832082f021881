"""csg.Decision: a mapping by Pyomo names that goes back into Pyomo models."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg.decisions.decision import Decision
from tests.zoo import ZOO, scenarios


def decision_of(model, k=2):
    """Return an optimal decision of a model."""
    zetas = scenarios(model, k)
    solution = csg.Oracle(model).solve(zetas)
    names = tuple(v.name for v in csg.TwoStageModel(model).first_stage_variables)
    return Decision(names, solution.decision, solution.value, zetas, np.full(k, 1 / k))


def made(**values):
    """Return a decision of these values."""
    vector = np.array(list(values.values()), dtype=float)
    return Decision(tuple(values), vector, 1.5, np.ones((1, 1)), np.ones(1))


def test_it_is_a_mapping_from_pyomo_names_to_numbers():
    decision = decision_of(cep1.build())
    assert list(decision) == [
        f"{name}[{j}]" for name in ("added", "operated") for j in range(1, 5)
    ]
    assert list(decision.values()) == decision.vector.tolist()
    assert len(decision) == 8 and "added[2]" in decision and "added" not in decision
    assert type(decision["added[1]"]) is float
    with pytest.raises(KeyError):
        decision["added[9]"]
    assert decision == dict(decision)


@pytest.mark.parametrize("name", ZOO)
def test_it_goes_into_the_model_that_it_was_found_for(name):
    model = ZOO[name]()
    decision = decision_of(model)
    fresh = ZOO[name]()
    decision.load_into(fresh)
    two_stage = csg.TwoStageModel(fresh)
    values = [v.value for v in two_stage.first_stage_variables]
    assert values == pytest.approx(decision.vector.tolist(), abs=1e-6)
    assert all(v.value is None or v.fixed for v in two_stage.recourse_variables)


def test_integers_are_set_whole():
    model = ZOO["integers"]()
    made(trucks=3.0000000001).load_into(model)
    assert model.trucks.value == 3 and isinstance(model.trucks.value, int)


def test_a_value_just_below_its_bound_is_loaded_as_solvers_do():
    model = newsvendor.build()
    made(order=-1e-10).load_into(model)
    assert model.order.value == -1e-10


def test_nothing_is_set_when_the_model_lacks_a_variable():
    model = newsvendor.build()
    with pytest.raises(csg.DataError) as error:
        made(order=3.0, price=2.0, market=1.0).load_into(model)
    assert "'price', 'market'" in str(error.value) and "newsvendor" in str(error.value)
    assert model.order.value is None


def test_nothing_is_set_when_a_value_does_not_suit():
    model = pyo.ConcreteModel("mixed")
    model.n = pyo.Var(within=pyo.Integers)
    model.f = pyo.Var()
    model.x = pyo.Var()
    model.v = pyo.Var([1, 2])
    model.f.fix(2.0)
    with pytest.raises(csg.DataError) as error:
        made(x=1.0, n=1.5, f=3.0, v=1.0).load_into(model)
    problems = error.value.problems
    assert len(problems) == 3
    assert "'v'" in problems[0]
    assert problems[1] == "'n' is 1.5, but it is integer"
    assert problems[2] == "'f' is 3, but it is fixed at 2.0; unfix it"
    assert model.x.value is None and model.f.value == 2.0
    with pytest.raises(csg.DataError, match="not a finite number"):
        made(n=np.nan).load_into(model)
    made(x=1.0, n=2.0, f=2.0000001).load_into(model)
    assert (model.x.value, model.n.value, model.f.value) == (1.0, 2, 2.0)


def test_it_prints_as_a_short_table():
    assert str(made(order=15.0, price=1.0 / 3)) == (
        "Decision of value 1.5 by 1 scenario\n  order  15\n  price  0.333333"
    )
    assert repr(made(order=15.0)) == "<Decision of value 1.5: order=15>"
    long = made(**{f"x{i}": i for i in range(30)})
    assert str(long).splitlines()[-1] == "  ... and 10 more"
    assert repr(long) == "<Decision of value 1.5: x0=0, x1=1, x2=2, x3=3, ...>"
