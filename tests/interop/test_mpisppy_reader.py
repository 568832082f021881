"""What from_mpisppy finds in a scenario_creator, and what it says where it cannot."""

import contextlib
import io
import math

import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from tests.interop import mpisppy_models as models

with contextlib.redirect_stdout(io.StringIO()):
    from mpisppy.tests.examples import aircond, apl1p, farmer
    from mpisppy.utils import sputils

NUMBERED = [f"scen{k}" for k in range(4)]
DEMAND = {"low": 10.0, "high": 20.0}


def creator(change=None, probability="uniform", **root):
    """Return the scenario_creator of a newsvendor, its model changed in some way.

    Parameters
    ----------
    change : callable, optional
        Takes the model and the scenario's name.
    probability : mapping or str
    **root
        For attach_root_node.
    """

    def create(name):
        m = pyo.ConcreteModel("newsvendor")
        m.demand = pyo.Param(initialize=DEMAND[name], mutable=True)
        m.order = pyo.Var(bounds=(0, 60))
        m.sold = pyo.Var(within=pyo.NonNegativeReals)
        m.stock = pyo.Constraint(expr=m.sold <= m.order)
        m.market = pyo.Constraint(expr=m.sold <= m.demand)
        m.cost = pyo.Objective(expr=m.order - 1.5 * m.sold)
        more = {
            key: [m.find_component(v) for v in found] for key, found in root.items()
        }
        sputils.attach_root_node(m, m.order, [m.order], **more)
        if probability != "uniform":
            m._mpisppy_probability = probability[name]
        if change is not None:
            change(m, name)
        return m

    return create


def problems(error):
    """Return what an error lists."""
    return "\n".join(error.value.problems)


def test_the_model_has_the_first_scenarios_data_and_no_trace_of_mpisppy():
    model, scenarios, weights = csg.from_mpisppy(creator(), ["high", "low"])
    assert model.demand.value == 20
    assert not hasattr(model, "_mpisppy_node_list")
    two_stage = csg.TwoStageModel(model)
    assert [v.name for v in two_stage.first_stage_variables] == ["order"]
    assert scenarios.to_dict() == {"demand": {"high": 20.0, "low": 10.0}}
    assert weights.to_dict() == {"high": 0.5, "low": 0.5}


def test_probabilities_are_divided_by_their_sum_as_in_an_extensive_form():
    create = creator(probability={"low": 0.1, "high": 0.3})
    _, _, weights = csg.from_mpisppy(create, ["low", "high"])
    assert weights.tolist() == pytest.approx([0.25, 0.75])


@pytest.mark.parametrize("wrong", [-0.5, math.nan])
def test_wrong_probabilities_are_refused(wrong):
    create = creator(probability={"low": wrong, "high": 1.0})
    with pytest.raises(csg.DataError, match="weight 1 is"):
        csg.from_mpisppy(create, ["low", "high"])


def test_only_numbers_that_differ_and_matter_are_uncertain():
    def change(m, name):
        m.number = pyo.Param(initialize=len(name), mutable=True)
        m.price = pyo.Param(["sale", "waste"], mutable=True, initialize=1.0)
        m.price["sale"] = 0.1 * len(name)
        m.cost.expr -= m.price["sale"] * m.sold - m.price["waste"] * m.order

    _, scenarios, _ = csg.from_mpisppy(creator(change), ["low", "high"])
    assert list(scenarios) == ["demand", "price[sale]"]


def test_a_named_param_is_uncertain_whether_it_differs_or_not():
    def change(m, name):
        m.price = pyo.Param(mutable=True, initialize=0.2)
        m.cost.expr -= m.price * m.sold

    _, scenarios, _ = csg.from_mpisppy(
        creator(change), ["low", "high"], uncertain_params=["price", "demand"]
    )
    assert scenarios.to_numpy().tolist() == [[0.2, 10.0], [0.2, 20.0]]


def test_params_in_bounds_of_variables_are_found():
    def change(m, name):
        m.market.deactivate()
        m.sold.setub(m.demand)

    _, scenarios, _ = csg.from_mpisppy(creator(change), ["low", "high"])
    assert list(scenarios) == ["demand"]


def test_the_order_of_terms_does_not_matter():
    def change(m, name):
        terms = [m.order, 2 * m.sold, m.demand]
        m.mixed = pyo.Constraint(expr=sum(sorted(terms, key=str)) >= 0)
        if name == "high":
            m.mixed.set_value(sum(sorted(terms, key=str, reverse=True)) >= 0)

    _, scenarios, _ = csg.from_mpisppy(creator(change), ["low", "high"])
    assert list(scenarios) == ["demand"]


def test_what_only_the_extensive_form_holds_equal_is_first_stage_and_a_surrogate_not():
    def first_stage(**root):
        model, _, _ = csg.from_mpisppy(creator(**root), ["low", "high"])
        return [v.name for v in csg.TwoStageModel(model).first_stage_variables]

    assert first_stage(nonant_ef_suppl_list=["sold"]) == ["order", "sold"]
    assert first_stage(surrogate_nonant_list=["sold"]) == ["order"]


def test_params_that_are_not_mutable_are_named_with_the_constraints_that_hold_them():
    with pytest.raises(csg.ModelError) as error:
        csg.from_mpisppy(apl1p.scenario_creator, NUMBERED)
    found = problems(error)
    assert "the coefficient of 'CapacityGenerators[2]' is -0.7 in 'scen0'" in found
    assert "'SatisfyDemand[2]': the lower bound is 1000 in 'scen0' but 900" in found
    assert "Param 'Availability', 'Demand' differs" in found
    assert "mutable=True" in found and "uncertain_params" in found


def test_params_that_are_not_mutable_may_be_named():
    _, scenarios, _ = csg.from_mpisppy(
        apl1p.scenario_creator, NUMBERED, ["Demand", "Availability"]
    )
    expected = {
        name: [
            *apl1p.scenario_creator(name).Demand.values(),
            *apl1p.scenario_creator(name).Availability.values(),
        ]
        for name in NUMBERED
    }
    assert scenarios.T.to_dict("list") == expected
    assert not apl1p.scenario_creator(NUMBERED[0]).Demand.mutable


def test_one_that_differs_and_is_not_named_is():
    with pytest.raises(csg.ModelError) as error:
        csg.from_mpisppy(apl1p.scenario_creator, NUMBERED, "Demand")
    assert "Param 'Availability' differs" in problems(error)
    assert "name it in uncertain_params" in problems(error)

    def change(m, name):
        m.price = pyo.Param(mutable=True, initialize=len(name))
        m.cost.expr -= m.price * m.sold

    with pytest.raises(csg.ModelError, match="'price' differs.*; add it"):
        csg.from_mpisppy(creator(change), ["low", "high"], "demand")


def test_a_misspelled_name_is_told_the_nearest():
    with pytest.raises(csg.AnnotationError, match="did you mean Yield"):
        csg.from_mpisppy(farmer.scenario_creator, NUMBERED, "Yeild")


SHOP = pyo.AbstractModel("shop")
SHOP.shelves = pyo.RangeSet(2)
SHOP.guests = pyo.Param(within=pyo.NonNegativeIntegers)
SHOP.empty = pyo.Param(SHOP.shelves, within=pyo.Binary, default=0)
SHOP.order = pyo.Var(SHOP.shelves, bounds=(0, 9))
SHOP.sold = pyo.Var(SHOP.shelves, bounds=(0, 9))
SHOP.stock = pyo.Constraint(
    SHOP.shelves, rule=lambda m, i: m.sold[i] <= m.order[i] - 5 * m.empty[i]
)
SHOP.market = pyo.Constraint(rule=lambda m: pyo.summation(m.sold) <= m.guests)
SHOP.cost = pyo.Objective(
    rule=lambda m: pyo.summation(m.order) - 3 * pyo.summation(m.sold)
)


def shop_creator(name):
    """Return an instance of an AbstractModel that stands elsewhere."""
    data = {"guests": {None: int(DEMAND[name])}}
    if name == "high":
        data["empty"] = {2: 1}
    m = SHOP.create_instance({None: data})
    sputils.attach_root_node(m, 0.0, [m.order])
    return m


def test_named_params_of_an_abstract_model_need_be_neither_mutable_nor_real():
    names = ["low", "high"]
    with pytest.raises(csg.ModelError, match="name it in uncertain_params"):
        csg.from_mpisppy(shop_creator, names)
    named = ["guests", "empty[*]"]
    model, scenarios, _ = csg.from_mpisppy(shop_creator, names, named)

    assert scenarios.to_dict("list") == {
        "guests": [10.0, 20.0],
        "empty[1]": [0.0, 0.0],
        "empty[2]": [0.0, 1.0],
    }
    assert model.guests.domain.bounds() == (0, None)
    assert model.empty.domain.bounds() == (0, 1) and 0.5 in model.empty.domain
    again = shop_creator("low")
    assert not again.guests.mutable and again.empty.domain is pyo.Binary


def test_what_names_no_param_is_refused():
    with pytest.raises(csg.AnnotationError, match="the number 3 was given"):
        csg.from_mpisppy(shop_creator, ["low", "high"], 3)
    with pytest.raises(csg.AnnotationError, match="'order' is a Var"):
        csg.from_mpisppy(shop_creator, ["low", "high"], [["order"], "guests"])


def test_a_mutable_param_with_gaps_must_be_changed_itself():
    with pytest.raises(csg.ModelError, match="discrete domain"):
        csg.from_mpisppy(
            models.sizes_creator("within=NonNegativeIntegers, mutable=True"),
            ["low", "high"],
        )


def branching(name):
    m = creator()(name)
    m.price = pyo.Param(initialize=len(name) / 10)
    if m.price > 0.2:
        m.cost.expr -= m.price * m.sold
    return m


def spelling(name):
    m = creator()(name)
    m.price = pyo.Param(initialize=len(name) / 10)
    m.cost.expr -= m.price * m.sold
    if str(m.price + 0) == "price":
        m.unwanted = pyo.Constraint(expr=m.order <= 1)
    return m


@pytest.mark.parametrize("create", [branching, spelling])
def test_code_that_needs_plain_numbers_is_not_given_params(create):
    with pytest.raises(csg.AnnotationError, match="'price' is not mutable"):
        csg.from_mpisppy(create, ["low", "high"], ["price", "demand"])
    assert pyo.Param().mutable is False and not create("low").price.mutable


def test_plain_numbers_are_named_by_the_constraint_that_holds_them():
    with pytest.raises(csg.ModelError) as error:
        csg.from_mpisppy(aircond.scenario_creator, NUMBERED, **models.AIRCOND)
    (found,) = error.value.problems
    assert found.startswith(
        "Constraint 'MaterialBalance[2]': the lower bound is 264.974"
    )
    assert "declare a Param(..., mutable=True)" in found


def test_every_component_with_plain_numbers_is_named_once():
    with pytest.raises(csg.ModelError) as error:
        csg.from_mpisppy(models.netdes_creator, NUMBERED[:3], mutable=False)
    starts = [found.split(":")[0] for found in error.value.problems]
    assert starts == [
        "Constraint 'capacity[0,1]'",
        "Constraint 'balance[0]'",
        "Objective 'cost'",
    ]


def use_value(m, name):
    m.market.set_value(m.sold <= pyo.value(m.demand))


def other_cost(m, name):
    m.cost.expr -= m.sold * m.order * len(name)


def other_curve(m, name):
    m.cost.expr += pyo.exp(len(name) * m.sold)


def other_bound(m, name):
    m.order.setub(len(name))


def other_domain(m, name):
    m.order.domain = pyo.Integers if name == "high" else pyo.Reals


def other_fixing(m, name):
    m.order.fix(len(name))


def other_sense(m, name):
    m.cost.sense = pyo.maximize if name == "high" else pyo.minimize


def other_set(m, name):
    weights = [len(name), 2 * len(name)]
    m.either = pyo.SOSConstraint(rule=lambda m: ([m.order, m.sold], weights), sos=1)


def more_constraints(m, name):
    if name == "high":
        m.more = pyo.Constraint(expr=m.sold >= 1)


def other_decisions(m, name):
    if name == "high":
        sputils.attach_root_node(m, 0.0, [m.order, m.sold])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (use_value, "'market': the upper bound is 10 in 'low' but 20 in 'high'"),
        (other_cost, "the coefficient of 'order*sold' is -3 in 'low' but -4"),
        (other_curve, "'cost': the expression is 'order - 1.5*sold + exp(3*sold)'"),
        (other_bound, "Var 'order': the upper bound is 3 in 'low' but 4"),
        (other_domain, "Var 'order': the domain is 'Reals' in 'low' but 'Integers'"),
        (other_fixing, "Var 'order': the fixed value is 3 in 'low' but 4"),
        (other_sense, "'cost': the sense is 'minimize' in 'low' but 'maximize'"),
        (other_set, "'either': the list of members is"),
        (more_constraints, "'more' is in 'high' but not in 'low'"),
        (other_decisions, "the root node of 'high' lists other variables"),
    ],
)
def test_scenarios_that_are_not_one_model_are_told_apart(change, expected):
    with pytest.raises(csg.ModelError) as error:
        csg.from_mpisppy(creator(change), ["low", "high"])
    assert expected in problems(error)


def test_more_than_two_stages_are_refused():
    three = {**models.AIRCOND, "branching_factors": [2, 2]}
    with pytest.raises(csg.ModelError, match="'ROOT', 'ROOT_0', more than two stages"):
        csg.from_mpisppy(aircond.scenario_creator, NUMBERED, **three)


def test_a_scenario_without_a_root_node_is_refused():
    with pytest.raises(csg.ModelError, match="call attach_root_node"):
        csg.from_mpisppy(lambda name: pyo.ConcreteModel(), ["low"])
    with pytest.raises(csg.AnnotationError, match="type NoneType was given"):
        csg.from_mpisppy(lambda name: None, ["low"])


def test_scenarios_that_do_not_differ_are_refused():
    with pytest.raises(csg.ModelError, match="no mutable Param differs"):
        csg.from_mpisppy(creator(), ["low"])


@pytest.mark.parametrize("names", ["low", [], ["low", "low"]])
def test_names_must_be_a_list_of_different_names(names):
    with pytest.raises(csg.DataError, match="expected a list of different names"):
        csg.from_mpisppy(creator(), names)
