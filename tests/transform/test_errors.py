"""What the transformations refuse, in which words; the model stays as it was."""

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, farmer, newsvendor
from pyomo_csg.transform.recourse_copy import RecoursePart
from tests.solving import solve, transform
from tests.transform.test_zoo import describe
from tests.zoo import ZOO

GOOD = {
    "extensive_form": {"scenarios": [[1.0, 2.0, 3.0]]},
    "opt_search": {
        "scenarios": [[1.0, 2.0, 3.0]],
        "outcome": [1.0, 2.0, 3.0],
        "optimal_value": 1.0,
    },
    "recourse": {"decision": np.zeros(8), "outcome": [1.0, 2.0, 3.0]},
}


def refused(program, error=csg.DataError, **options):
    """Transform CEP1, in place, with one option off, and return the problems."""
    model = cep1.build()
    before = describe(model)
    with pytest.raises(error) as caught:
        pyo.TransformationFactory(f"csg.{program}").apply_to(
            model, **{**GOOD[program], **options}
        )
    assert describe(model) == before
    return caught.value.problems


@pytest.mark.parametrize("program", ["extensive_form", "opt_search"])
@pytest.mark.parametrize(
    "scenarios, words",
    [
        ([1.0, 2.0, 3.0], "shape (3,) was given; expected (K, 3): a row for each"),
        (np.ones((2, 4)), "shape (2, 4) was given; expected (K, 3)"),
        (np.ones((0, 3)), "shape (0, 3) was given; expected (K, 3)"),
        (np.ones((1, 2, 3)), "shape (1, 2, 3) was given"),
        (None, "scenarios: not given"),
        ([["a", 1, 2]], "not all are numbers"),
        ([[1, 2], [1, 2, 3]], "not all are numbers"),
        ([[1, np.nan, 2]], "'demand[2]' is nan; give a finite number"),
        ([[1, 2, 2], [1, np.inf, 2]], "'demand[2]' in scenario 2 is inf"),
        ([[1, 2, -3]], "'demand[3]' is -3, outside its domain NonNegativeReals"),
    ],
)
def test_scenarios_that_do_not_fit_are_refused(program, scenarios, words):
    (problem,) = refused(program, scenarios=scenarios)
    assert words in problem


def test_one_dimension_is_refused_with_the_remedy_where_it_is_easy():
    with pytest.raises(csg.DataError, match=r"use scenarios.reshape\(-1, 1\)"):
        transform("extensive_form", newsvendor.build(), scenarios=[1, 2, 3])


def test_many_bad_values_are_listed_up_to_ten():
    problems = refused("extensive_form", scenarios=np.full((9, 3), -1.0))
    assert len(problems) == 11
    assert problems[-1] == "scenarios: ... and 17 more"


def test_a_data_frame_goes_by_column_names_in_any_order():
    frame = pd.DataFrame({"demand[3]": [3.0], "demand[1]": [1.0], "demand[2]": [2.0]})
    ef = transform("extensive_form", cep1.build(), scenarios=frame)
    assert [p.value for p in ef.scenario[1].demand.values()] == [1, 2, 3]


def test_columns_that_are_missing_or_unknown_are_refused_together():
    frame = pd.DataFrame({"demand[1]": [1.0], "demnd[2]": [2.0], "demand[3]": [3.0]})
    assert refused("extensive_form", scenarios=frame) == (
        "scenarios: no column for 'demand[2]'; add it",
        (
            "scenarios: the column 'demnd[2]' is not among 'demand[1]', 'demand[2]', 'demand[3]'; "
            "drop it"
        ),
    )


@pytest.mark.parametrize("program", ["extensive_form", "opt_search"])
@pytest.mark.parametrize(
    "weights, words",
    [
        ([0.5, 0.5], "shape (2,) was given; expected (1,)"),
        ([0.9], "they sum to 0.9; divide them by their sum"),
        ([-1.0], "weight 1 is -1.0; a weight is a number from 0 to 1"),
        ([np.nan], "weight 1 is nan"),
        (["x"], "not all are numbers"),
    ],
)
def test_weights_that_do_not_fit_are_refused(program, weights, words):
    (problem,) = refused(program, weights=weights)
    assert words in problem


@pytest.mark.parametrize("program", ["opt_search", "recourse"])
@pytest.mark.parametrize(
    "outcome, words",
    [
        ([1.0, 2.0], "shape (2,) was given; expected (3,)"),
        (None, "outcome: not given"),
        ([1.0, 2.0, np.nan], "'demand[3]' is nan"),
        ([1.0, -2.0, 3.0], "'demand[2]' is -2, outside its domain"),
        ({"demand[1]": 1.0, "demand[2]": 2.0}, "no name for 'demand[3]'; add it"),
        (pd.Series({"demand[1]": 1.0}), "no name for 'demand[2]', 'demand[3]'"),
    ],
)
def test_outcomes_that_do_not_fit_are_refused(program, outcome, words):
    (problem,) = refused(program, outcome=outcome)
    assert words in problem


@pytest.mark.parametrize("value", [None, "x", np.nan, np.inf])
def test_the_search_needs_an_optimal_value(value):
    (problem,) = refused("opt_search", optimal_value=value)
    assert problem.startswith(f"optimal_value: it is {value!r}; give the optimal value")


@pytest.mark.parametrize(
    "decision, words",
    [
        ([0.0], "shape (1,) was given; expected (8,)"),
        ([np.nan] + [0.0] * 7, "'added[1]' is nan; give a finite number"),
        ([-1.0] + [0.0] * 7, "'added[1]' is -1, but it is bounded by (0, None)"),
        (
            [0, 0, 0, 0, 600, 0, 0, 0],
            "it breaks the first-stage constraint 'capacity[1]'",
        ),
    ],
)
def test_decisions_that_do_not_fit_are_refused(decision, words):
    (problem,) = refused("recourse", decision=decision)
    assert words in problem


def test_a_decision_that_is_nearly_whole_is_taken_as_whole_and_others_refused():
    model = ZOO["integers"]()
    made = transform("recourse", model, decision=[3.0000001], outcome=[7.0, 5.0])
    assert made.trucks.value == 3
    with pytest.raises(csg.DataError, match=r"'trucks' is 2.5, but it is integer"):
        transform("recourse", model, decision=[2.5], outcome=[7.0, 5.0])


def test_a_decision_may_not_move_what_is_fixed():
    with pytest.raises(csg.DataError, match=r"'y\[2\]' is 0, but it is fixed at 1.5"):
        transform("recourse", ZOO["fixed_variables"](), decision=[1, 0], outcome=[4])


def test_a_bound_is_checked_though_the_other_one_is_uncertain():
    model = ZOO["uncertain_bounds"]()
    model.y.setub(7)
    with pytest.raises(
        csg.DataError, match=r"'y' is 9, but it is bounded by \(None, 7"
    ):
        transform("recourse", model, decision=[9.0], outcome=[0.0, 3.0])


def test_a_decision_must_keep_special_ordered_sets_and_stay_where_rows_are_defined():
    m = newsvendor.build()
    m.y = pyo.Var([1, 2, 3], bounds=(0, 5))
    m.one = pyo.SOSConstraint(var=m.y, sos=1)
    m.log = pyo.Constraint(expr=pyo.log(m.y[3]) <= 2)
    csg.annotate(m, first_stage_variables=[m.order, m.y], uncertain_params=m.demand)
    with pytest.raises(csg.DataError) as error:
        transform("recourse", m, decision=[1, 1, 1, 0], outcome=[3])
    assert "'log': log(y[3])  <=  2 cannot be evaluated" in str(error.value)
    assert "'one': at most 1 neighbors may differ from 0" in str(error.value)


def test_what_is_wrong_with_several_options_is_said_at_once():
    problems = refused(
        "opt_search",
        scenarios=[[1, 2, -3]],
        weights=[0.5, 0.5],
        outcome=[1.0],
        optimal_value=None,
        tolerance=np.inf,
    )
    assert [problem.split(":")[0] for problem in problems] == [
        "scenarios",
        "outcome",
        "optimal_value",
        "tolerance",
    ]


def test_a_params_own_validation_counts():
    m = newsvendor.build()
    m.cap = pyo.Param(mutable=True, initialize=1.0, validate=lambda m, v: v < 5)
    m.row = pyo.Constraint(expr=m.sold <= 50 * m.cap)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.cap)
    with pytest.raises(
        csg.DataError, match="'cap' in scenario 2 is 7, which the Param"
    ):
        transform("extensive_form", m, scenarios=[[1], [7]])


def test_text_is_not_taken_for_numbers():
    (problem,) = refused("extensive_form", scenarios=[["1", "2", "3"]])
    assert "there is text among them" in problem


def test_a_failure_in_the_middle_leaves_the_model_as_it_was(monkeypatch):
    model = cep1.build()
    before = describe(model)
    copy, calls = RecoursePart.copy_into, []

    def fail_at_second(self, *args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return copy(self, *args)

    monkeypatch.setattr(RecoursePart, "copy_into", fail_at_second)
    with pytest.raises(KeyboardInterrupt):
        pyo.TransformationFactory("csg.extensive_form").apply_to(
            model, scenarios=np.ones((3, 3))
        )
    assert describe(model) == before


def test_names_that_the_program_needs_must_be_free():
    model = newsvendor.build()
    model.scenario = pyo.Set(initialize=[1, 2])
    with pytest.raises(csg.ModelError, match="'scenario' has a name that the program"):
        transform("extensive_form", model, scenarios=[[1]])


def test_an_unknown_option_is_refused_with_the_nearest():
    with pytest.raises(csg.DataError, match="did you mean scenarios"):
        transform("extensive_form", newsvendor.build(), scenario=[[1]])


def test_a_model_with_problems_is_refused_before_anything_changes():
    (problem,) = refused("extensive_form", error=csg.DataError, weights=[2.0])
    assert "sum to 2" in problem
    model = farmer.build()
    model.idle = pyo.Var()
    before = describe(model)
    with pytest.raises(csg.ModelError, match="'idle'"):
        pyo.TransformationFactory("csg.extensive_form").apply_to(
            model, scenarios=farmer.scenarios()
        )
    assert describe(model) == before


def test_a_recourse_that_an_uncertain_bound_forbids_is_infeasible():
    made = transform(
        "recourse", ZOO["uncertain_bounds"](), decision=[5.0], outcome=[0.0, 3.0]
    )
    with pytest.raises(Exception, match="feasible solution was not found"):
        solve(made)


def test_the_transformations_document_their_options():
    for name in GOOD:
        factory = pyo.TransformationFactory(f"csg.{name}")
        for option in factory.CONFIG:
            assert f"{option}" in type(factory).create_using.__doc__
