"""csg.TwoStageModel: what it infers, and each error it gives."""

import networkx as nx
import pyomo.environ as pyo
import pytest
from pyomo.core.expr.visitor import identify_variables
from pyomo.gdp import Disjunction
from pyomo.network import Arc, Port

import pyomo_csg as csg
from models import cep1, farmer, newsvendor, sslp
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.lp.recourse_blocks import independent_blocks
from tests.solving import solve, transform
from tests.zoo import ZOO, sos_piecewise


def names(components):
    """Return the names of components."""
    return [c.name for c in components]


def test_constraints_are_sorted_into_stages():
    two_stage = csg.TwoStageModel(cep1.build())
    assert names(two_stage.first_stage_constraints) == [
        *(f"capacity[{j}]" for j in range(1, 5)),
        "maintenance",
    ]
    assert names(two_stage.recourse_constraints) == [
        *(f"supply[{i}]" for i in range(1, 4)),
        *(f"utilization[{j}]" for j in range(1, 5)),
    ]


def test_a_row_on_decisions_alone_is_recourse_if_its_data_is_uncertain():
    m = newsvendor.build()
    m.cap = pyo.Constraint(expr=m.order <= 2 * m.demand)
    assert "cap" in names(csg.TwoStageModel(m).recourse_constraints)


def test_a_special_ordered_set_of_recourse_variables_is_recourse():
    two_stage = csg.TwoStageModel(sos_piecewise())
    sets = [c for c in two_stage.recourse_constraints if c.ctype is pyo.SOSConstraint]
    assert len(sets) == 2


@pytest.mark.parametrize("name", ZOO)
def test_the_two_costs_add_up_to_the_objective_and_h_has_no_recourse(name):
    two_stage = csg.TwoStageModel(ZOO[name]())
    for k, v in enumerate(two_stage.model.component_data_objects(pyo.Var)):
        v.set_value(0.3 + 0.1 * k, skip_validation=True)
    h, q = two_stage.first_stage_cost, two_stage.recourse_cost
    assert pyo.value(h) + pyo.value(q) == pytest.approx(
        pyo.value(two_stage.objective.expr)
    )
    in_h = set() if isinstance(h, (int, float)) else set(names(identify_variables(h)))
    assert in_h <= set(names(two_stage.first_stage_variables))
    assert not two_stage.uncertainty.touches(h)


def split(expression):
    """Split the cost that a function gives of y, z, certain c and uncertain w."""
    m = pyo.ConcreteModel()
    m.c = pyo.Param(mutable=True, initialize=2.0)
    m.w = pyo.Param(mutable=True, initialize=3.0)
    m.y, m.z = pyo.Var(), pyo.Var()
    m.row = pyo.Constraint(expr=m.y + m.z >= m.w)
    m.e = pyo.Expression(expr=m.y + m.z)
    m.cost = pyo.Objective(expr=expression(m))
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    two_stage = csg.TwoStageModel(m)
    return str(two_stage.first_stage_cost), str(two_stage.recourse_cost)


@pytest.mark.parametrize(
    "expression, h, q",
    [
        (lambda m: m.y + m.z, "y", "z"),
        (lambda m: m.y + m.w * m.y, "y", "w*y"),
        (lambda m: 2 * m.y, "2*y", "0"),
        (lambda m: 5 + m.z**2, "5", "z**2"),
        (lambda m: -(m.y - m.z), "- y", "z"),
        (lambda m: m.c * (m.y + m.z), "c*y", "c*z"),
        (lambda m: (m.y + m.z) / m.c, "1/c*y", "1/c*z"),
        (lambda m: (m.y + m.z) / m.w, "0", "(y + z)/w"),
        (lambda m: m.e, "y", "z"),
        (lambda m: m.y + 3 * m.e, "y + (3*y)", "3*z"),
        (lambda m: (m.y + m.z) ** 2 + m.y**2, "y**2", "(y + z)**2"),
        (lambda m: m.w + 7 + m.y, "7 + y", "w"),
        (lambda m: m.w**2, "0", "w**2"),
    ],
)
def test_the_objective_is_split_term_by_term(expression, h, q):
    assert split(expression) == (h, q)


def test_the_summary_shows_stages_uncertain_numbers_and_costs():
    m = sslp.build(servers=2, clients=9)
    m.located[1].fix(1)
    assert str(csg.TwoStageModel(m)).splitlines() == [
        "Two-stage model 'sslp_2_9', minimize",
        "                 first stage  recourse",
        "  variables                2        20",
        "    integer                2        18",
        "    fixed                  1         0",
        "  constraints              1        11",
        "",
        "  first-stage variables  located (2)",
        "  uncertain numbers      present (9) in UnitInterval, now 1",
        "  h(y)                   74*located[1] + 66*located[2]",
        (
            "  q(y, z, omega)         - (13*assigned[1,1] + 7*assigned[1,2] + "
            "8*assigned[1,3] + assigned[1,4] ..."
        ),
    ]


def test_the_summary_says_when_any_number_will_do_and_which_bounds_move():
    text = str(csg.TwoStageModel(ZOO["uncertain_bounds"]()))
    assert "low in Any (any real number), now 1" in text
    assert "uncertain bounds       y" in text


def test_the_graph_carries_stages_and_kinds():
    graph = csg.TwoStageModel(farmer.build()).graph
    assert graph.nodes["acres[corn]"]["stage"] == "first"
    assert graph.nodes["sold[corn]"]["stage"] == "recourse"
    assert graph.nodes["crop_yield[corn]"]["kind"] == "parameter"
    assert graph.nodes["land"] | {"component": None} == {
        "kind": "constraint",
        "stage": "first",
        "component": None,
    }
    assert set(graph["cattle[corn]"]) == {
        "crop_yield[corn]",
        "acres[corn]",
        "bought[corn]",
        "sold[corn]",
    }
    assert "acres[corn]" in graph["cost (first-stage cost)"]
    assert nx.is_bipartite(graph)


def test_an_uncertain_bound_is_an_edge_of_the_graph():
    graph = csg.TwoStageModel(ZOO["uncertain_bounds"]()).graph
    assert set(graph["y (upper bound)"]) == {"y", "high"}


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_small_model_can_be_drawn(tmp_path, ending):
    path = tmp_path / f"cep1.{ending}"
    csg.TwoStageModel(cep1.build()).draw(path)
    if ending == "svg":
        assert "recourse constraints" in path.read_text()
    else:
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 20_000


def test_a_large_model_is_not_drawn():
    two_stage = csg.TwoStageModel(sslp.build(15, 45))
    with pytest.raises(csg.DataError, match="813 nodes, and a drawing is readable"):
        two_stage.draw("never.png")


def problems_of(m):
    """Return the problems that a model has."""
    with pytest.raises(csg.ModelError) as error:
        csg.TwoStageModel(m)
    assert isinstance(error.value, csg.CsgError)
    return error.value.problems


def test_a_model_that_is_not_annotated_says_how():
    m = pyo.ConcreteModel()
    problems = problems_of(m)
    assert problems[2].startswith("no Objective is active")
    assert problems[0].startswith("no first-stage variable is annotated; call csg.ann")
    assert problems[1].startswith("no uncertain Param is annotated; call csg.annotate(")


def test_no_objective_and_several_objectives_are_problems():
    m = newsvendor.build()
    m.cost.deactivate()
    assert problems_of(m)[0].startswith("no Objective is active")
    m.cost.activate()
    m.second = pyo.Objective(expr=m.order)
    (problem,) = problems_of(m)
    assert problem == (
        "2 Objectives are active ('cost', 'second'); deactivate all but one"
    )


def test_an_uncertain_param_that_nothing_uses_is_a_problem():
    m = newsvendor.build()
    m.rain = pyo.Param([1, 2], mutable=True, initialize=0.0)
    m.wet = pyo.Constraint(expr=m.sold <= 100 - m.rain[1])
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=[m.demand, m.rain])
    (problem,) = problems_of(m)
    assert problem.startswith(
        "uncertain Param 'rain[2]' is used in no active constraint"
    )
    assert "value(param)" in problem


def test_a_param_used_only_in_what_is_deactivated_is_unused():
    m = newsvendor.build()
    m.market.deactivate()
    (problem,) = problems_of(m)
    assert "'demand' is used in no active constraint" in problem


@pytest.mark.parametrize(
    "domain", [pyo.Binary, pyo.Integers, pyo.NonNegativeIntegers, [1.0, 2.0]]
)
def test_a_discrete_domain_is_a_problem_with_the_remedy(domain):
    m = newsvendor.build()
    m.w = pyo.Param(mutable=True, initialize=1, within=domain)
    m.row = pyo.Constraint(expr=m.sold <= 50 * m.w)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=[m.demand, m.w])
    (problem,) = problems_of(m)
    assert problem.startswith("uncertain Param 'w' has the discrete domain")
    assert "declare it within=Reals, NonNegativeReals" in problem


@pytest.mark.parametrize(
    "domain",
    [pyo.Any, pyo.Reals, pyo.UnitInterval, pyo.RangeSet(0, 3, 0)],
)
def test_a_continuous_domain_is_welcome(domain):
    m = newsvendor.build()
    m.w = pyo.Param(mutable=True, initialize=1, within=domain)
    m.row = pyo.Constraint(expr=m.sold <= 50 * m.w)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=[m.demand, m.w])
    assert csg.TwoStageModel(m).uncertain_params[1] is m.w


def test_a_param_without_a_value_is_a_problem_certain_or_not():
    m = newsvendor.build()
    m.fee = pyo.Param([1], mutable=True)
    m.row = pyo.Constraint(expr=m.sold <= 50 * m.fee[1])
    m.demand.clear()
    problems = problems_of(m)
    assert [p.split(";")[0] for p in problems] == [
        "Param 'demand' has no value",
        "Param 'fee[1]' has no value",
    ]


def test_a_variable_that_stands_nowhere_is_a_problem():
    m = newsvendor.build()
    m.idle = pyo.Var([1, 2])
    (problem,) = problems_of(m)
    assert problem.startswith(
        "Var 'idle[1]', 'idle[2]' (2 of its 2) is used in no active"
    )
    m.idle.fix(0)
    assert csg.TwoStageModel(m)


def test_a_decision_that_stands_nowhere_is_a_problem_though_others_of_its_var_do():
    m = newsvendor.build()
    m.more = pyo.Var([1, 2])
    m.row = pyo.Constraint(expr=m.more[1] <= m.order)
    assert csg.TwoStageModel(m)
    csg.annotate(m, first_stage_variables=[m.order, m.more], uncertain_params=m.demand)
    (problem,) = problems_of(m)
    assert problem.startswith("Var 'more[2]' (1 of its 2) is used in no active")


def test_a_disjunction_is_to_be_reformulated_first():
    m = newsvendor.build()
    m.choice = Disjunction(expr=[[m.sold <= 5], [m.sold >= 9]])
    problem = problems_of(m)[0]
    assert "Disjunction 'choice' is not algebraic; apply" in problem
    assert "gdp.bigm" in problem


def test_each_kind_of_structure_has_its_own_remedy():
    m = newsvendor.build()
    m.a, m.b = Port(), Port()
    m.arc = Arc(source=m.a, destination=m.b)
    m.rule = pyo.LogicalConstraint(expr=pyo.BooleanVar())
    problems = problems_of(m)
    assert "Arc 'arc' is not algebraic; apply" in problems[0]
    assert "network.expand_arcs" in problems[0]
    assert "core.logical_to_linear" in problems[1]


def test_an_expanded_network_is_welcome():
    m = newsvendor.build()
    m.a, m.b = Port(), Port()
    m.a.add(m.sold, "flow")
    m.extra = pyo.Var(within=pyo.NonNegativeReals)
    m.b.add(m.extra, "flow")
    m.arc = Arc(source=m.a, destination=m.b)
    pyo.TransformationFactory("network.expand_arcs").apply_to(m)
    made = transform("extensive_form", m, scenarios=[[10], [20]])
    assert solve(made) == pytest.approx(-0.05 * 10)
    assert made.component("a") is None


def test_a_variable_of_another_model_is_a_problem():
    outer = pyo.ConcreteModel("outer")
    outer.x = pyo.Var()
    outer.inner = newsvendor.build()
    outer.inner.row = pyo.Constraint(expr=outer.inner.sold <= outer.x)
    problem = problems_of(outer.inner)[0]
    assert "'inner.row' refers to 'x', which is outside 'inner'" in problem


def test_what_was_annotated_and_then_deleted_is_a_problem():
    m = newsvendor.build()
    m.del_component(m.order)
    m.order = pyo.Var()
    (problem,) = problems_of(m)
    assert problem.startswith("first-stage variable 'order' was annotated but has left")


def test_every_problem_is_listed_at_once():
    m = newsvendor.build()
    m.idle = pyo.Var()
    m.rain = pyo.Param(mutable=True, initialize=1, within=pyo.Binary)
    m.second = pyo.Objective(expr=m.order)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=[m.demand, m.rain])
    problems = problems_of(m)
    assert len(problems) == 4
    with pytest.raises(csg.ModelError) as error:
        csg.TwoStageModel(m)
    assert str(error.value).startswith(
        "'newsvendor' is not a usable two-stage model:\n  - 2 Objectives"
    )


@pytest.mark.parametrize("name", ZOO)
def test_stages_are_those_that_follow_from_the_graph(name):
    """A row belongs to the recourse if it touches a recourse variable or uncertain data."""
    graph = csg.TwoStageModel(ZOO[name]()).graph
    late = {
        node
        for node, data in graph.nodes(data=True)
        if data["stage"] == "recourse" and data["kind"] in ("variable", "parameter")
    }
    for node, data in graph.nodes(data=True):
        if data["kind"] == "constraint":
            expected = "recourse" if late & set(graph[node]) else "first"
            assert data["stage"] == expected


@pytest.mark.parametrize("name", ZOO)
def test_the_graph_shows_the_blocks_that_the_recourse_is_decomposed_into(name):
    two_stage = csg.TwoStageModel(ZOO[name]())
    compiled = compile_model(two_stage)
    if compiled.quadratic or two_stage.risk is not None:
        pytest.skip("only linear recourse is decomposed")
    graph = two_stage.graph
    kept = [
        node
        for node, data in graph.nodes(data=True)
        if data["stage"] == "recourse"
        and data["kind"] in ("variable", "constraint")
        and not getattr(data["component"], "fixed", False)
    ]
    parts = [
        {node for node in part if graph.nodes[node]["kind"] == "variable"}
        for part in nx.connected_components(graph.subgraph(kept))
    ]
    names = [v.name for v in two_stage.recourse_variables]
    blocks = independent_blocks(compiled)
    found = [{names[j] for j in block.columns.tolist()} & set(kept) for block in blocks]
    linked = [part for part in parts if len(part) > 1]
    # Fixed variables and those of no row have no block of their own.
    for part in linked:
        assert any(part <= block for block in found)
    for block in (one for one in found if len(one) > 1):
        assert any(block <= part for part in linked) or all(
            not set(graph[v]) & set(kept) for v in block
        )
