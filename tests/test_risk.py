"""A risk measure from the fit to the report: what is decided, what it costs, what is shown."""

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg import guarantees
from pyomo_csg.evaluation.comparison import compare
from tests.evaluation.test_simulation import ORDER, OrderUpTo, shop

PRICE, SALVAGE = 1.9, 0.1
RISK = csg.MeanCVaR(0.5, 0.8)
HISTORY, HELD_OUT = newsvendor.sample(60, seed=1), newsvendor.sample(40, seed=2)


def model(risk=RISK):
    m = newsvendor.build(price=PRICE, salvage=SALVAGE)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand, risk=risk)
    return m


def paid(orders, demands):
    sold = np.minimum(orders, demands)
    return orders - PRICE * sold - SALVAGE * (orders - sold)


def tail_mean(costs, share=0.2):
    """Return the mean of the highest fifth of the costs."""
    return np.sort(costs)[-round(share * len(costs)) :].mean()


@pytest.fixture(scope="module")
def policy():
    return csg.fit(model(), HISTORY, scenarios=3, method="mmd", progress=False)


def test_a_decision_holds_the_users_variables_and_its_value_at_risk(policy):
    decision = policy.decide([0.0, 0.0])
    assert list(decision) == ["order"]
    costs = paid(decision["order"], decision.scenarios[:, 0])
    assert decision.value == pytest.approx(RISK.measure(costs, decision.weights))
    assert decision.value_at_risk == pytest.approx(costs.max())
    assert "value at risk" in str(decision)
    fresh = model()
    decision.load_into(fresh)
    assert fresh.order.value == decision["order"]
    assert list(policy.decide(HELD_OUT[0])) == ["order"]


def test_a_policy_file_is_for_the_model_with_the_measure(policy, tmp_path):
    policy.save(tmp_path / "orders.csg")
    again = csg.load(tmp_path / "orders.csg", model())
    assert again.decide([0.0, 0.0]) == policy.decide([0.0, 0.0])
    with pytest.raises(csg.DataError, match=r"not in the model: 'risk.value_at_risk'"):
        csg.load(tmp_path / "orders.csg", model(None))


def test_cases_are_evaluated_by_the_measure_of_what_is_paid(policy):
    class Always:
        def decide(self, context):
            return {"order": 15.0}

    contexts = HELD_OUT[0][:3]
    cases = [csg.Case(x, *newsvendor.conditional(x)) for x in contexts]
    found = csg.evaluate({"mine": policy, "15": Always()}, cases, progress=False)
    for i, case in enumerate(cases):
        costs = paid(15.0, case.outcomes[:, 0])
        by_hand = 0.5 * costs.mean() + 0.5 * tail_mean(costs)
        assert found.costs["15"].iloc[i] == pytest.approx(by_hand)
    assert (found.gaps.to_numpy() >= -1e-9).all()


def test_rows_are_evaluated_by_what_is_paid(policy):
    found = csg.evaluate({"mine": policy}, HELD_OUT, progress=False)
    orders = policy.decide(HELD_OUT[0])["order"].to_numpy()
    costs = paid(orders, HELD_OUT[1][:, 0])
    assert found.costs["mine"].to_numpy() == pytest.approx(costs)
    assert found.cvar(0.8)["mine"] == pytest.approx(tail_mean(costs))


def test_a_comparison_and_the_page_show_the_tail_beside_the_mean(policy, tmp_path):
    compared = compare({"mine": policy}, HELD_OUT, HISTORY)
    orders = policy.decide(HELD_OUT[0])["order"].to_numpy()
    costs = paid(orders, HELD_OUT[1][:, 0])
    row = compared.table().loc["mine"]
    assert (row["mean"], row["cvar"]) == pytest.approx((costs.mean(), tail_mean(costs)))
    text = policy.report(tmp_path / "page.html", HELD_OUT)
    assert str(RISK) in text
    page = (tmp_path / "page.html").read_text()
    assert '"cvar":' in page and '"level": "80"' in page


def test_the_score_of_an_estimator_is_the_measure():
    estimator = csg.ScenarioGenerator(
        model(), scenarios=2, method="mmd", progress=False
    ).fit(*HISTORY)
    costs = paid(estimator.predict(HELD_OUT[0])[:, 0], HELD_OUT[1][:, 0])
    by_hand = 0.5 * costs.mean() + 0.5 * tail_mean(costs)
    assert estimator.score(*HELD_OUT) == pytest.approx(-by_hand)


def test_a_certificate_bounds_the_measure_from_above(policy):
    found = policy.certify(HELD_OUT, history=HISTORY)
    decisions = [policy.decide(x) for x in HELD_OUT[0]]
    orders = np.array([one["order"] for one in decisions])
    quantiles = np.array([one.value_at_risk for one in decisions])
    costs = paid(orders, HELD_OUT[1][:, 0])
    excess = np.maximum(costs - quantiles, 0)
    by_hand = 0.5 * costs + 0.5 * (quantiles + excess / 0.2)
    assert found.cost.mean == pytest.approx(by_hand.mean())
    assert str(RISK) in str(found)


def test_the_value_of_information_is_in_units_of_the_measure(policy):
    contexts = HELD_OUT[0][:2]
    cases = [(x, *newsvendor.conditional(x)) for x in contexts]
    table = guarantees.conditional_values(policy, cases).table
    for i, (x, demands, _) in enumerate(cases):
        costs = paid(policy.decide(x)["order"], demands[:, 0])
        by_hand = 0.5 * costs.mean() + 0.5 * tail_mean(costs)
        assert table["policy"].iloc[i] == pytest.approx(by_hand)
        perfect = (1 - PRICE) * demands[:, 0]
        by_hand = 0.5 * perfect.mean() + 0.5 * tail_mean(perfect)
        assert table["perfect"].iloc[i] == pytest.approx(by_hand)


def test_a_simulation_shows_what_is_paid_and_its_tail():
    m = shop()
    marks = {"first_stage_variables": m.order, "uncertain_params": m.demand}
    days = pd.DataFrame({"day": range(10), "demand": [3.0, 9.0] * 5})
    tables = []
    for risk in (None, RISK):
        csg.annotate(m, known_params=m.stock0, risk=risk, **marks)
        found = csg.simulate(
            {"level": OrderUpTo(6.0)}, m, days, {"stock0": m.stock_end}, progress=False
        )
        tables.append(found.table)
    pd.testing.assert_frame_equal(*tables)
    assert found.table["cost"].min() >= ORDER * 3
    assert "CVaR 80%" in str(found)
    assert f"{tail_mean(found.table['cost'])}" in str(found)


def test_the_measure_decides_less_boldly():
    # The CVaR of the newsvendor's cost falls with the order above the low demands.
    saa, safe = (
        csg.baselines.SampleAverage(model(risk), HISTORY).decide([0.0, 0.0])["order"]
        for risk in (None, csg.MeanCVaR(1.0, 0.8))
    )
    assert safe < saa


def test_smps_files_and_mpisppy_carry_the_measure(tmp_path):
    m, outcomes = model(), [[10.0], [14.0], [20.0]]
    csg.write_smps(m, outcomes, None, tmp_path / "orders")
    read = csg.read_smps(tmp_path / "orders")
    scenarios, weights = read.scenarios(10)
    value = csg.Oracle(m).solve(outcomes).value
    assert csg.Oracle(read.model).solve(scenarios, weights).value == pytest.approx(
        value
    )
    pytest.importorskip("mpisppy")
    creator, names, kwargs = csg.TwoStageModel(m).to_mpisppy(outcomes)
    scenario = creator(names[0], **kwargs)
    (node,) = scenario._mpisppy_node_list
    assert [v.name for v in node.nonant_vardata_list] == ["order", "risk.value_at_risk"]
