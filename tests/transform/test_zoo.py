"""Every transformation on every model of the zoo: the battery they all pass."""

import gc
import io
import pickle

import cloudpickle
import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from tests import reference
from tests.solving import by_name, objective_of, solve, transform
from tests.zoo import ZOO, scenarios, sos_piecewise

WEIGHTS = [0.5, 0.2, 0.3]
QUADRATIC = ("quadratic", "cross_products")  # a quadratic cut is beyond HiGHS
EVERY = pytest.mark.parametrize("name", ZOO)


def lp_text(model, path):
    """Return the model's LP file."""
    model.write(str(path), io_options={"symbolic_solver_labels": True})
    return path.read_text()


def programs(model):
    """Return the options of each of the three transformations on a model."""
    two_stage = csg.TwoStageModel(model)
    zetas = scenarios(model)
    decision = solve_decision(model, zetas)
    return {
        "extensive_form": {"scenarios": zetas, "weights": WEIGHTS},
        "opt_search": {
            "scenarios": zetas,
            "weights": WEIGHTS,
            "outcome": [p.value for p in two_stage.uncertain_params],
            "optimal_value": 10.0,
        },
        "recourse": {"decision": decision, "outcome": zetas[0]},
    }


def solve_decision(model, zetas, weights=WEIGHTS):
    """Return an optimal first-stage decision by name."""
    ef = transform("extensive_form", model, scenarios=zetas, weights=weights)
    solve(ef)
    names = [v.name for v in csg.TwoStageModel(model).first_stage_variables]
    return {name: ef.find_component(name).value for name in names}


@EVERY
def test_the_extensive_form_has_the_optimum_of_mpi_sppys(name):
    model = ZOO[name]()
    zetas = scenarios(model)
    ours = solve(transform("extensive_form", model, scenarios=zetas, weights=WEIGHTS))
    assert ours == pytest.approx(reference.optimum(model, zetas, WEIGHTS), rel=1e-6)


@EVERY
def test_the_expected_recourse_after_the_decision_is_the_optimum(name):
    model = ZOO[name]()
    zetas = scenarios(model)
    ef = transform("extensive_form", model, scenarios=zetas, weights=WEIGHTS)
    optimum = solve(ef)
    decision = solve_decision(model, zetas)
    costs = [
        solve(transform("recourse", model, decision=decision, outcome=zeta))
        for zeta in zetas
    ]
    assert np.dot(WEIGHTS, costs) == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("name", [name for name in ZOO if name not in QUADRATIC])
def test_the_search_lies_between_the_best_there_is_and_the_decision_at_hand(name):
    model = ZOO[name]()
    zetas = scenarios(model)
    omega = zetas.mean(axis=0)
    ef = transform("extensive_form", model, scenarios=zetas)
    optimum = solve(ef)
    search = transform(
        "opt_search", model, scenarios=zetas, outcome=omega, optimal_value=optimum
    )
    found = solve(search)
    decision = solve_decision(model, zetas, weights=None)
    at_hand = solve(transform("recourse", model, decision=decision, outcome=omega))
    best = solve(transform("extensive_form", model, scenarios=[omega]))
    sign = csg.TwoStageModel(model).sense
    slack = 1e-6 * max(1, abs(found))
    assert sign * best - slack <= sign * found <= sign * at_hand + slack
    assert sign * pyo.value(search.csg.optimality_cut.body) <= sign * optimum + slack


@EVERY
@pytest.mark.parametrize("program", ["extensive_form", "opt_search", "recourse"])
def test_apply_to_and_create_using_agree_and_leave_the_model_alone(
    name, program, tmp_path
):
    model = ZOO[name]()
    options = programs(model)[program]
    text = describe(model)
    made = transform(program, model, **options)
    assert describe(model) == text
    pyo.TransformationFactory(f"csg.{program}").apply_to(model, **options)
    assert lp_text(model, tmp_path / "a.lp") == lp_text(made, tmp_path / "b.lp")


def describe(model):
    """Return everything pprint knows, and what it leaves out: values and activity."""
    text = io.StringIO()
    model.pprint(ostream=text)
    active = {
        c.name: c.active
        for c in model.component_data_objects(
            (pyo.Constraint, pyo.Objective, pyo.Block)
        )
    }
    values = by_name(model.component_data_objects(pyo.Var))
    return text.getvalue(), active, values


@EVERY
@pytest.mark.parametrize("program", ["extensive_form", "opt_search", "recourse"])
def test_a_program_survives_clone_and_pickle(name, program, tmp_path, caplog):
    model = ZOO[name]()
    made = transform(program, model, **programs(model)[program])
    text = lp_text(made, tmp_path / "made.lp")
    gc.collect()  # so that nothing lives on by chance
    caplog.clear()
    assert lp_text(made.clone(), tmp_path / "clone.lp") == text
    thawed = cloudpickle.loads(cloudpickle.dumps(made))
    assert lp_text(thawed, tmp_path / "thawed.lp") == text
    assert [r for r in caplog.records if r.levelname == "ERROR"] == []


@EVERY
def test_the_root_keeps_the_first_stage_and_nothing_else(name):
    model = ZOO[name]()
    names = [v.name for v in csg.TwoStageModel(model).first_stage_variables]
    made = transform("extensive_form", model, scenarios=scenarios(model))
    roots = [
        v.name
        for v in made.component_data_objects(pyo.Var)
        if not v.name.startswith("scenario[")
    ]
    assert sorted(roots) == sorted(names)
    assert objective_of(made).name == objective_of(model).name


@EVERY
def test_each_scenario_block_repeats_the_recourse_by_its_own_names(name):
    model = ZOO[name]()
    two_stage = csg.TwoStageModel(model)
    made = transform("extensive_form", model, scenarios=scenarios(model, count=2))
    for part, ctype in (
        (two_stage.recourse_variables, pyo.Var),
        (two_stage.uncertain_params, pyo.Param),
        (two_stage.recourse_constraints, pyo.Constraint),
    ):
        copied = [c.name for c in made.scenario[2].component_data_objects(ctype)]
        expected = [f"scenario[2].{c.name}" for c in part]
        bounds = [c for c in copied if "first_stage_bounds" in c]
        assert sorted(set(copied) - set(bounds)) == sorted(expected)


def test_special_ordered_sets_are_repeated_too(tmp_path):
    made = transform("extensive_form", sos_piecewise(), scenarios=[[5.0], [7.0]])
    sets = list(made.component_data_objects(pyo.SOSConstraint, active=True))
    assert len(sets) == 4
    for sos in sets:
        block = sos.name[: len("scenario[1]")]
        assert all(v.name.startswith(block) for v in sos.get_variables())
    assert lp_text(made, tmp_path / "sos.lp").count("S2::") == 4


def test_a_program_with_special_ordered_sets_pickles_where_its_model_does():
    m = pyo.ConcreteModel("choice")
    m.w = pyo.Param(mutable=True, initialize=8.0)
    m.y = pyo.Var(bounds=(0, 6))
    m.z = pyo.Var([1, 2, 3], bounds=(0, 10))
    m.one = pyo.SOSConstraint(var=m.z, sos=1)
    m.need = pyo.Constraint(expr=m.y + sum(m.z.values()) >= m.w)
    m.cost = pyo.Objective(expr=2 * m.y + sum(m.z.values()))
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    made = transform("extensive_form", m, scenarios=[[5.0], [7.0]])
    assert pickle.loads(pickle.dumps(made)).scenario[2].w.value == 7.0


def test_suffix_values_follow_the_members_that_move():
    model = ZOO["suffixes_and_references"]()
    made = transform("extensive_form", model, scenarios=[[1, 2], [3, 4]])
    marked = {component.name: value for component, value in made.priority.items()}
    assert marked == {
        "y[1]": 1,
        "scenario[1].b[1].z": 2,
        "scenario[2].b[1].z": 2,
        "scenario[1].b[2].need": 3,
        "scenario[2].b[2].need": 3,
    }
    assert made.component("all_z") is None
    assert [v.name for v in made.all_y.values()] == ["y[1]", "y[2]"]


def test_uncertain_data_stays_mutable_in_the_program():
    made = transform("extensive_form", ZOO["newsvendor"](), scenarios=[[10], [20]])
    for k in (1, 2):
        made.scenario[k].demand = 7
    assert solve(made) == pytest.approx(-0.05 * 7)


def test_one_decision_can_be_read_at_the_root_by_its_old_name():
    made = transform("extensive_form", ZOO["farmer"](), scenarios=farmer_years())
    solve(made)
    assert made.acres["beets"].value == pytest.approx(250)


def farmer_years():
    """Return the book's three years."""
    from models import farmer

    return farmer.scenarios()
