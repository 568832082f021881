"""What csg.Oracle refuses, and what it says of cases that have no answer."""

import pickle

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, newsvendor
from tests.solve.test_oracle import batch
from tests.zoo import sos_piecewise


def no_complete_recourse():
    """The second stage can make up for at most 3."""
    m = pyo.ConcreteModel("no_complete_recourse")
    m.w = pyo.Param(mutable=True, initialize=5.0)
    m.y = pyo.Var(bounds=(0, 10))
    m.z = pyo.Var(bounds=(0, 3))
    m.need = pyo.Constraint(expr=m.y + m.z >= m.w)
    m.cost = pyo.Objective(expr=m.y + 2 * m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    return m


def test_a_case_without_a_solution_is_named_and_can_be_written(tmp_path):
    oracle = csg.Oracle(no_complete_recourse())
    zetas = np.array([[[5.0]], [[12.0]], [[20.0]], [[6.0]]])
    with pytest.raises(csg.SolveError, match=r"Case 2: infeasible. To look") as error:
        oracle.solve(zetas)
    assert error.value.case == 2 and error.value.status == "infeasible"
    error.value.write(tmp_path / "case.lp")
    assert "scenario(1)_need" in (tmp_path / "case.lp").read_text()


def test_recording_goes_on_and_marks_what_failed():
    oracle = csg.Oracle(no_complete_recourse())
    zetas = np.array([[[5.0]], [[12.0]], [[20.0]], [[6.0]]])
    solution = oracle.solve(zetas, on_error="record")
    assert list(solution.status) == ["optimal", "optimal", "infeasible", "optimal"]
    assert solution.decision[[0, 1, 3], 0] == pytest.approx([5, 10, 6])
    assert np.isnan(solution.value[2]) and np.isnan(solution.decision[2]).all()
    losses = oracle.loss(zetas, [[5.0], [20.0], [5.0], [9.0]], on_error="record")
    assert losses == pytest.approx([5, np.nan, np.nan, 12], nan_ok=True)
    assert [failure.case for failure in oracle.failures] == [1, 2]
    costs = oracle.cost([4.0], [[5.0], [8.0], [6.0]], on_error="record")
    assert costs == pytest.approx([6, np.nan, 8], nan_ok=True)


def test_an_unbounded_program_is_said_to_be_so():
    m = newsvendor.build()
    m.order.setub(None)
    m.cost.set_value(-m.order - m.sold)
    m.salvaged.fix(0)
    with pytest.raises(csg.SolveError, match="unbounded"):
        csg.Oracle(m).solve([[3.0]])


def test_a_time_limit_is_an_error_of_its_own():
    oracle = csg.Oracle(cep1.build(), options={"time_limit": 0.0})
    with pytest.raises(csg.SolveError, match="time limit"):
        oracle.solve(np.random.default_rng(0).uniform(0, 3000, (80, 3)))


def test_a_time_limit_is_for_one_program_not_for_all():
    oracle = csg.Oracle(cep1.build(), options={"time_limit": 0.05})
    zetas, omegas = batch(cep1.build(), count=400)
    assert np.isfinite(oracle.loss(zetas, omegas)).all()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"presolv": "off"}, "no option 'presolv'; did you mean presolve"),
        ({"time_limit": "soon"}, "does not take 'soon' for option 'time_limit'"),
    ],
)
def test_options_that_highs_does_not_have_are_refused(options, words):
    with pytest.raises(csg.DataError, match=words):
        csg.Oracle(newsvendor.build(), options=options)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda o: o.solve(np.ones(3)), "expected (n, K, 3)"),
        (lambda o: o.solve(np.ones((2, 4, 2))), "shape (2, 4, 2) was given"),
        (
            lambda o: o.solve(-np.ones((2, 4, 3))),
            "'demand[1]' in case 0, scenario 1 is -1",
        ),
        (lambda o: o.solve(np.full((1, 1, 3), np.nan)), "is nan; give a finite number"),
        (
            lambda o: o.solve(np.ones((2, 4, 3)), [0.5, 0.5]),
            "weights: shape (2,) was given",
        ),
        (
            lambda o: o.solve(np.ones((2, 2, 3)), np.ones((2, 2))),
            "case 0: [1. 1.] sums to 2",
        ),
        (
            lambda o: o.loss(np.ones((2, 4, 3)), np.ones((3, 3))),
            "3 were given for 2 cases",
        ),
        (
            lambda o: o.loss(np.ones((2, 4, 3)), np.ones((2, 2))),
            "outcomes: an array of shape",
        ),
        (
            lambda o: o.loss(np.ones((1, 4, 3)), np.ones((1, 3)), "best"),
            "kind is 'best'",
        ),
        (lambda o: o.cost(np.ones(7), np.ones((2, 3))), "expected (8,) or (2, 8)"),
        (
            lambda o: o.cost(np.full(8, np.inf), np.ones((1, 3))),
            "'added[1]' in case 0 is inf",
        ),
        (lambda o: o.solve(np.ones((1, 3)), on_error="no"), "on_error is 'no'"),
        (
            lambda o: o.solve(np.ones((2, 4, 3)), keys=[1, 2, 3]),
            "an array of shape (3,) and type int64 was given",
        ),
        (
            lambda o: o.loss(np.ones((1, 4, 3)), np.ones((1, 3)), keys=[0.5]),
            "expected a whole number for each of 1 cases",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(call, words):
    with pytest.raises(csg.DataError) as error:
        call(csg.Oracle(cep1.build()))
    assert words in str(error.value)


def test_what_cannot_be_compiled_says_why_and_what_can_take_it():
    m = newsvendor.build()
    m.bent = pyo.Constraint(expr=m.sold**2 <= 50 * m.demand)
    m.curve = pyo.Constraint(expr=pyo.exp(m.sold) <= 1e9)
    with pytest.raises(csg.ModelError) as error:
        csg.Oracle(m)
    assert "Constraint 'bent' is not linear in the variables" in error.value.problems[0]
    assert "solver='ipopt'" in error.value.problems[0]
    assert "'curve'" in error.value.problems[1]
    with pytest.raises(
        csg.ModelError, match=r"SOSConstraint 'curve\[1\].*gurobi_persistent"
    ):
        csg.Oracle(sos_piecewise())


@pytest.mark.parametrize(
    "function, bad",
    [(pyo.log, -1.0), (pyo.sqrt, -1.0), (lambda w: 1 / w, 0.0), (pyo.exp, 800.0)],
)
@pytest.mark.parametrize("place", ["side", "cost", "bound"])
def test_data_that_is_no_number_is_an_error_and_not_the_last_answer(
    function, bad, place
):
    m = pyo.ConcreteModel("undefined")
    m.w = pyo.Param(mutable=True, initialize=1.0)
    m.y = pyo.Var(bounds=(0, 100))
    m.z = pyo.Var(bounds=(0, function(m.w) if place == "bound" else 10))
    side = function(m.w) if place == "side" else 0
    m.c = pyo.Constraint(expr=m.y + m.z >= side + 0 * m.w)
    price = function(m.w) if place == "cost" else 1
    m.o = pyo.Objective(expr=m.y + price * m.z + m.w)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    oracle = csg.Oracle(m)
    solution = oracle.solve([[[1.5]], [[bad]], [[1.5]]], on_error="record")
    assert list(solution.status) == ["optimal", "bad data", "optimal"]
    costs = oracle.cost([50.0], [[1.5], [bad], [1.5]], on_error="record")
    assert np.isnan(costs).tolist() == [False, True, False]


def test_a_quadratic_cost_that_is_not_convex_is_refused():
    m = newsvendor.build()
    m.cost.set_value(m.sold**2 + 12 * m.order * m.sold - 2 * m.order + m.salvaged)
    with pytest.raises(csg.ModelError, match="quadratic but not convex"):
        csg.Oracle(m)
    m.cost.set_value((m.demand - 5) * m.sold**2 + m.order**2 + m.salvaged)
    solution = csg.Oracle(m).solve([[[6.0]], [[4.0]]], on_error="record")
    assert list(solution.status) == ["optimal", "not convex"]


def test_decisions_must_be_whole_and_fixed_where_the_model_says_so():
    m = newsvendor.build()
    m.order.domain = pyo.NonNegativeIntegers
    with pytest.raises(
        csg.DataError, match="'order' in case 0 is 2.5, but it is integer"
    ):
        csg.Oracle(m).cost([2.5], [[10.0]])
    assert csg.Oracle(m).cost([2.0000001], [[10.0]]) == pytest.approx([-0.1])
    m.order.fix(7)
    with pytest.raises(csg.DataError, match="is 3, but it is fixed at 7"):
        csg.Oracle(m).cost([3.0], [[10.0]])


def test_a_domain_with_gaps_is_refused():
    m = newsvendor.build()
    m.steps = pyo.Set(initialize=[0, 5, 10])
    m.order.domain = m.steps
    with pytest.raises(csg.ModelError, match="neither an interval nor a range"):
        csg.Oracle(m)


@pytest.mark.parametrize(
    "options", [{"solver": "ipm"}, {"run_crossover": "off"}, {"threads": 2}]
)
def test_options_that_leave_no_exact_basis_are_refused(options):
    with pytest.raises(csg.DataError, match=f"option '{next(iter(options))}'"):
        csg.Oracle(newsvendor.build(), options=options)


def test_an_error_survives_pickling_and_writing_keeps_the_failures(tmp_path):
    oracle = csg.Oracle(no_complete_recourse())
    zetas = np.array([[[5.0]], [[20.0]]])
    oracle.loss(zetas, [[20.0], [5.0]], on_error="record")
    assert [failure.case for failure in oracle.failures] == [0, 1]
    for failure in oracle.failures:
        failure.write(tmp_path / "case.lp")
    assert len(oracle.failures) == 2
    assert str(pickle.loads(pickle.dumps(oracle.failures[0]))) == str(
        oracle.failures[0]
    )


def test_no_cases_and_no_whole_workers_are_refused():
    with pytest.raises(csg.DataError, match=r"shape \(0, 5, 1\)"):
        csg.Oracle(newsvendor.build()).solve(np.ones((0, 5, 1)))
    with pytest.raises(csg.DataError, match="workers is '2'"):
        csg.Oracle(newsvendor.build(), workers="2")


@pytest.mark.parametrize("solver", ["highs", "appsi_highs", "contrib_highs"])
@pytest.mark.parametrize("value", ["10", True])
def test_time_limit_that_is_no_number_is_refused(solver, value):
    with pytest.raises(csg.DataError, match="time_limit"):
        csg.Oracle(newsvendor.build(), solver=solver, options={"time_limit": value})


def test_scenarios_and_outcomes_of_bools_are_refused():
    oracle, numbers = csg.Oracle(newsvendor.build()), np.ones((2, 3, 1))
    with pytest.raises(csg.DataError, match="scenarios: True .* is a bool"):
        oracle.solve(numbers > 0)
    with pytest.raises(csg.DataError, match="outcomes: True .* is a bool"):
        oracle.loss(numbers, numbers[:, 0] > 0)
