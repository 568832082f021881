"""csg.evaluate against the newsvendor's closed form, and what it does with failures."""

import logging
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import cep1, newsvendor
from tests.evaluation.sample_cases import (
    OnScenarios,
    Rule,
    best_order,
    make_evaluation,
    newsvendor_cases,
    newsvendor_cost,
)
from tests.quick import fit, maximized
from tests.solve.test_faults import no_complete_recourse
from tests.zoo import shared_component


def rules():
    return {
        "ten": Rule(lambda x: {"order": 10.0}),
        "by context": Rule(lambda x: {"order": 12 + x[0]}),
        "known": OnScenarios(newsvendor.build(), lambda x: [[15.0]]),
    }


def test_the_full_program_is_the_critical_quantile():
    cases = newsvendor_cases()
    evaluation = csg.evaluate(rules(), cases)
    best = [newsvendor_cost(best_order(case), case) for case in cases]
    assert evaluation.reference["value"].tolist() == pytest.approx(best)
    assert evaluation.reference["bound"].tolist() == pytest.approx(best)
    assert evaluation.reference["gap"].max() < 1e-9
    assert set(evaluation.reference["source"]) == {"full program"}


def test_costs_and_gaps_are_those_of_the_formula():
    cases = newsvendor_cases()
    evaluation = csg.evaluate(rules(), cases, trial=7)
    orders = {"ten": lambda x: 10, "by context": lambda x: 12 + x[0]}
    for name, order in orders.items():
        costs = np.array([newsvendor_cost(order(c.context), c) for c in cases])
        best = np.array([newsvendor_cost(best_order(c), c) for c in cases])
        assert evaluation.costs[name].to_numpy() == pytest.approx(costs)
        gaps = (costs - best) / np.abs(best)
        assert evaluation.gaps[name].to_numpy() == pytest.approx(gaps, abs=1e-9)
    assert evaluation.costs.index.tolist() == [(7, i) for i in range(len(cases))]
    assert list(evaluation.costs.columns) == ["ten", "by context", "known"]


def test_the_best_decision_has_no_gap_at_all():
    cases = newsvendor_cases()
    orders = iter([best_order(case) for case in cases])
    evaluation = csg.evaluate(
        {"best": Rule(lambda x: {"order": next(orders)})},
        cases,
        model=newsvendor.build(),
    )
    assert evaluation.gaps["best"].tolist() == pytest.approx([0] * 6, abs=1e-12)
    assert evaluation.gaps["best"].min() >= 0


def test_a_profit_counts_as_a_negated_cost():
    cases = newsvendor_cases()
    policies = {
        "ten": Rule(lambda x: {"order": 10.0}),
        "known": OnScenarios(maximized(), lambda x: [[15.0]]),
    }
    profits = csg.evaluate(policies, cases)
    costs = csg.evaluate(policies, cases, model=newsvendor.build())
    assert profits.costs.to_numpy() == pytest.approx(costs.costs.to_numpy())
    assert profits.gaps.to_numpy() == pytest.approx(costs.gaps.to_numpy(), abs=1e-9)
    assert profits.reference["bound"].tolist() == pytest.approx(
        costs.reference["bound"].tolist()
    )


def test_weights_count_and_outcomes_without_any_do_not():
    outcomes, weights = np.array([[5.0], [10.0], [1e9]]), np.array([0.25, 0.75, 0.0])
    case = csg.Case(np.zeros(2), outcomes, weights)
    evaluation = csg.evaluate(rules(), [case])
    cost = newsvendor_cost(10, csg.Case(None, outcomes[:2], weights[:2]))
    assert evaluation.costs["ten"].item() == pytest.approx(cost)


def test_a_learned_policy_decides_by_the_names_of_its_contexts():
    rng = np.random.default_rng(0)
    history = pd.DataFrame({"rain": rng.normal(size=40)})
    history["demand"] = 15 + history["rain"]
    policy = fit(history, method="mmd")
    cases = [csg.Case({"rain": x}, [[15 + x], [16 + x]]) for x in (-0.5, 0.5)]
    evaluation = csg.evaluate({"mmd": policy}, cases)
    costs = [
        newsvendor_cost(policy.decide(case.context)["order"], case) for case in cases
    ]
    assert evaluation.costs["mmd"].tolist() == pytest.approx(costs)
    timing = evaluation.timing().loc["mmd"]
    assert 0 < timing["solver"] <= timing["solve"] <= timing["decision"]
    assert timing["scenarios"] == pytest.approx(timing["decision"] - timing["solve"])
    assert timing["speed-up"] == timing["full program"] / timing["decision"] > 0


def test_decisions_are_read_by_name_whatever_their_order():
    model = shared_component()
    cases = [csg.Case(None, [[6.0, 8.0], [2.0, 3.0]])]
    orders = [{"x[1,now]": 2.0, "x[2,now]": 5.0}, {"x[2,now]": 5.0, "x[1,now]": 2.0}]
    policies = {str(i): Rule(lambda x, y=y: y) for i, y in enumerate(orders)}
    evaluation = csg.evaluate(policies, cases, model=model)
    one, other = evaluation.costs.loc[(0, 0)]
    assert one == other == pytest.approx(7 + 2 * (4 + 3) / 2)


def test_a_policy_without_an_oracle_has_no_split_of_its_time():
    timing = csg.evaluate(rules(), newsvendor_cases(2)).timing()
    assert timing.loc["ten", "decision"] > 0
    assert timing.loc["ten", ["scenarios", "solve", "solver"]].isna().all()
    assert timing.loc["known"].notna().all()


@pytest.mark.parametrize("pool", [False, True])
def test_workers_change_nothing(pool):
    model, (contexts, _) = cep1.build(), cep1.sample(3, seed=1)
    cases = [csg.Case(x, *cep1.conditional(x)) for x in contexts]
    policies = {
        "mean": OnScenarios(model, lambda x: cep1.conditional(x)[0].mean(0)[None])
    }
    alone = csg.evaluate(policies, cases)
    if pool:
        with ProcessPoolExecutor(2) as executor:
            shared = csg.evaluate(policies, cases, workers=2, executor=executor)
    else:
        shared = csg.evaluate(policies, cases, workers=2)
    assert shared.costs.to_numpy() == pytest.approx(alone.costs.to_numpy(), rel=1e-9)
    value = alone.reference["value"].tolist()
    assert shared.reference["value"].tolist() == pytest.approx(value, rel=1e-9)


def test_values_that_are_given_are_used_and_what_is_below_is_told(caplog):
    cases = newsvendor_cases(3)
    evaluation = csg.evaluate(rules(), cases, reference=[-1.0, -1e-3, -1.0])
    costs = evaluation.costs["ten"].to_numpy()
    gaps = (costs - [-1.0, -1e-3, -1.0]) / [1.0, 1e-3, 1.0]
    assert evaluation.gaps["ten"].to_numpy() == pytest.approx(gaps)
    assert set(evaluation.reference["source"]) == {"given"}
    assert "costs are lower than the reference" in caplog.text
    assert "for which nothing is proven" in str(evaluation)


def test_without_a_reference_there_are_costs_and_wins():
    cases = newsvendor_cases(4)
    evaluation = csg.evaluate(rules(), cases, reference=None)
    assert np.isfinite(evaluation.costs.to_numpy()).all()
    assert evaluation.wins().sum() == pytest.approx(1)
    assert evaluation.timing()["full program"].isna().all()


def needs(*values):
    return [csg.Case(np.array([v]), [[v], [2.0]]) for v in values]


def test_a_policy_that_fails_is_recorded_and_the_others_go_on(caplog):
    model = no_complete_recourse()
    policies = {
        "no solution": OnScenarios(model, lambda x: [[3 * x[0]]]),
        "no recourse": Rule(lambda x: {"y": 4.0}),
        "out of bounds": Rule(lambda x: {"y": 20.0}),
        "not a number": Rule(lambda x: {"y": np.nan}),
        "sound": Rule(lambda x: {"y": 9.0}),
    }
    with caplog.at_level(logging.WARNING):
        evaluation = csg.evaluate(policies, needs(3.0, 8.0), model=model)
    costs = evaluation.costs
    assert costs["sound"].tolist() == [9, 9]
    assert np.isnan(costs["no solution"]).tolist() == [False, True]
    assert np.isnan(costs["no recourse"]).tolist() == [False, True]
    assert costs[["out of bounds", "not a number"]].isna().all(axis=None)
    reasons = evaluation.failures.set_index(["policy", "case"])["failure"]
    assert reasons["no solution", 1] == "infeasible"
    assert reasons["no recourse", 1] == "no recourse in 1 of 2 outcomes: infeasible"
    assert "'y' is 20, but it is bounded by (0, 10)" in reasons["out of bounds", 0]
    assert "finite" in reasons["not a number", 0]
    assert len(reasons) == 6
    assert (
        "'no solution' has no cost in 1 of 2 cases; the first is case 1" in caplog.text
    )
    assert evaluation.wins().to_dict() == {
        "no solution": 0,
        "no recourse": 0.5,
        "out of bounds": 0,
        "not a number": 0,
        "sound": 0.5,
    }


def test_a_decision_that_breaks_a_first_stage_constraint_has_no_cost():
    model = newsvendor.build()
    model.room = pyo.Constraint(expr=model.order <= 8)
    evaluation = csg.evaluate(rules(), newsvendor_cases(1), model=model)
    assert evaluation.costs["ten"].isna().all()
    assert "first-stage constraint 'room'" in evaluation.failures["failure"][0]


def test_all_that_is_wrong_is_said_at_once():
    cases = [
        csg.Case(np.zeros(2), [[1.0, 2.0]]),
        csg.Case(np.zeros(2), [[1.0], [2.0]], [0.5, 0.6]),
        csg.Case(np.zeros(2), [[-1.0]]),
        csg.Case(np.zeros(2), []),
        (np.zeros(2), [[1.0]]),
        csg.Case(np.zeros(2), 15.0),
    ]
    policies = {"other": OnScenarios(cep1.build(), None), "none": object(), **rules()}
    with pytest.raises(csg.DataError) as error:
        csg.evaluate(policies, cases, model=newsvendor.build(), reference=[1.0])
    text = str(error.value)
    for words in (
        "policies['other']: it is for another model: its first-stage variables are 'added",
        "its uncertain params are 'demand[1]', 'demand[2]', 'demand[3]'; expected 'demand'",
        "policies['none']: object has no method decide",
        "cases[0].outcomes: an array of shape (1, 2) was given; expected (K, 1)",
        "cases[1].weights: they sum to 1.1",
        "cases[2].outcomes: 'demand' is -1, outside its domain",
        "cases[3].outcomes: an array of shape (0,)",
        "cases[4]: tuple was given, not a csg.Case",
        "cases[5].outcomes: an array of shape () was given",
        "reference: [1.0] was given; give '2sp', None, or a finite number for each of 6",
    ):
        assert words in text


@pytest.mark.parametrize(
    "policies, cases, words",
    [
        ({}, newsvendor_cases(1), "give a dict from name to policy"),
        ([1], newsvendor_cases(1), "give a dict from name to policy"),
        (rules(), [], "cases: none were given"),
        (rules(), 3, "cases: a int was given"),
        ({"a": Rule(None)}, newsvendor_cases(1), "model: no policy has one"),
    ],
)
def test_nothing_to_evaluate_is_refused(policies, cases, words):
    with pytest.raises(csg.DataError, match=words):
        csg.evaluate(policies, cases)


def test_many_contexts_in_a_case_are_refused():
    pairs = newsvendor.sample(40, seed=1)
    policy = fit(pairs, method="mmd")
    many = csg.Case(pairs[0][:3], [[15.0]])
    with pytest.raises(
        csg.DataError, match=r"cases\[0\].context: it is read as several"
    ):
        csg.evaluate({"mmd": policy}, [many])


def test_rows_of_a_frame_are_evaluated_on_their_outcomes():
    frame = pd.DataFrame({"heat": [0.0, 1.0, 2.0], "demand": [9.0, 13.0, 16.0]})
    evaluation = csg.evaluate(
        {
            "ten": Rule(lambda x: {"order": 10.0}),
            "by heat": Rule(lambda x: {"order": 12 + x["heat"]}),
        },
        frame,
        model=newsvendor.build(),
    )
    orders = {"ten": [10, 10, 10], "by heat": [12, 13, 14]}
    for name, quantities in orders.items():
        expected = [
            newsvendor_cost(order, csg.Case([0.0], [[demand]]))
            for order, demand in zip(quantities, frame["demand"], strict=True)
        ]
        assert evaluation.costs[name].tolist() == pytest.approx(expected)
    assert not evaluation.has_reference


def test_rows_as_arrays_give_the_costs_of_the_same_cases():
    contexts, outcomes = newsvendor.sample(5, seed=4)
    policies = {"by context": rules()["by context"]}
    cases = [csg.Case(x, w[None]) for x, w in zip(contexts, outcomes, strict=True)]
    model = newsvendor.build()
    by_case = csg.evaluate(policies, cases, reference=None, model=model)
    on_rows = csg.evaluate(policies, (contexts, outcomes), model=model)
    assert on_rows.costs.equals(by_case.costs)
    known = csg.evaluate(policies, (contexts, outcomes), model=model, reference="2sp")
    assert (known.gaps.to_numpy() > 0).all()


def test_differences_are_paired_on_the_cases_that_both_have():
    table = make_evaluation({"a": [1.0, 2.0, 4.0, 5.0], "b": [2.0, np.nan, 5.0, 9.0]})
    found = table.differences()
    assert found.loc["b", "mean"] == pytest.approx(2.0)
    assert found.loc["b", "standard_error"] == pytest.approx(np.sqrt(3 / 3))
    assert table.differences(to="b").loc["a", "mean"] == pytest.approx(-2.0)


def test_contexts_far_from_the_history_give_one_warning_a_policy(caplog):
    pairs = newsvendor.sample(60, seed=1)
    policy = csg.fit(
        newsvendor.build(), pairs, scenarios=2, method="mmd", progress=False
    )
    contexts, demands = newsvendor.sample(6, seed=2)
    contexts[:4] += 1e3
    policies = {"near": csg.baselines.SampleAverage(newsvendor.build(), pairs)}
    csg.evaluate(policies | {"far": policy}, (contexts, demands), progress=False)
    warnings = [one for one in caplog.messages if "far from the history" in one]
    assert len(warnings) == 1
    assert warnings[0].startswith("policy 'far': 4 of 6 contexts")
    policy.decide(contexts[0])  # outside an evaluation, each decision warns
    assert "1 of 1 contexts are far from the history" in caplog.messages[-1]
