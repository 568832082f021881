"""Verdicts: one set of numbers wherever a policy is compared, in the model's own sense."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.baselines.standard_baselines import CONTEXT_FREE, FORECAST
from pyomo_csg.decisions.number_formats import number, round_like, with_error
from pyomo_csg.decisions.verdict import Advantage, Verdict
from pyomo_csg.evaluation.comparison import compare, make_verdict
from tests.quick import fit, maximized, shorten


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


@pytest.fixture(scope="module")
def history():
    return newsvendor.sample(60, seed=1)


@pytest.fixture(scope="module")
def held_out():
    return newsvendor.sample(40, seed=2)


@pytest.fixture(scope="module", params=[newsvendor.build, maximized])
def policy(request, history):
    return fit(history, request.param(), method="mmd")


def closed_form(orders, demands):
    """Return what a newsvendor's orders cost."""
    sold = np.minimum(orders, demands)
    return orders - 1.05 * sold - 0.1 * (orders - sold)


def test_all_calls_give_the_same_numbers(policy, held_out):
    verdict = policy.verdict(held_out)

    everyone = {"this policy": policy, **policy.baselines()}
    evaluated = csg.evaluate(everyone, held_out, progress=False).verdict()
    certified = policy.certify(held_out, gaps=False).verdict
    for other in (evaluated, certified):
        assert other.mean == pytest.approx(verdict.mean)
        assert other.standard_error == pytest.approx(verdict.standard_error)
        assert [one.name for one in other.advantages] == [
            one.name for one in verdict.advantages
        ]
        for mine, theirs in zip(verdict.advantages, other.advantages, strict=True):
            assert theirs.mean == pytest.approx(mine.mean)
            assert theirs.standard_error == pytest.approx(mine.standard_error)
        assert str(other) == str(verdict)
    assert str(verdict) in str(policy.certify(held_out, gaps=False)).replace("\n", " ")
    assert all(one in policy.report(data=held_out) for one in verdict.sentences)


def test_the_numbers_are_the_newsvendors(history, held_out, policy):
    verdict = policy.verdict(held_out)
    contexts, demands = held_out
    sign = -1 if policy.two_stage.sense < 0 else 1
    orders = policy.decide(contexts)["order"].to_numpy()
    costs = closed_form(orders, demands[:, 0])
    assert verdict.mean == pytest.approx(sign * costs.mean())
    level = 0.05 / 0.95
    best = np.quantile(history[1], level, method="inverted_cdf")
    saved = (closed_form(best, demands[:, 0]) - costs).mean()
    found = {one.name: one.mean for one in verdict.advantages}
    assert found.keys() == {FORECAST, CONTEXT_FREE}
    assert found[CONTEXT_FREE] == pytest.approx(saved)
    assert verdict.nearest.mean == min(found.values())


def test_a_profit_is_shown_as_a_profit(policy, held_out):
    earns = policy.two_stage.sense < 0
    words = str(policy.verdict(held_out))
    assert (" earns " in words) == earns and (" costs " in words) == (not earns)
    table = str(csg.evaluate({"it": policy, **policy.baselines()}, held_out))
    assert ("mean profit" in table) == earns


def test_a_policy_that_loses_is_told_so_in_the_same_place():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=100)
    costs = pd.DataFrame(
        {"this policy": 10 + noise, "simple": 8 + 0.9 * noise, "worse": 12 + noise}
    )
    verdict = make_verdict(costs)
    assert not verdict.beats and verdict.nearest.name == "simple"
    result, advice = verdict.sentences
    assert "more than the best alternative (simple)" in result
    assert "2.0" in result and "less than worse" in result
    assert advice.startswith("It does not beat 'simple': decide by that instead")


def test_a_difference_by_chance_is_not_a_win():
    apart = np.array([1.0, -1.0] * 50) + 0.1
    costs = pd.DataFrame({"this policy": np.zeros(100), "simple": apart})
    verdict = make_verdict(costs)
    assert not verdict.beats and verdict.nearest.mean == pytest.approx(0.1)
    # The error is 0.1, so that two errors fit into 0.1 on four times as many rows.
    assert "about 410 held-out rows would show it" in verdict.sentences[1]
    same = make_verdict(pd.DataFrame({"this policy": [1.0, 2], "simple": [1.0, 2]}))
    assert "prefer that" in same.sentences[1]


def test_rows_of_the_history_are_found(policy, history, held_out):
    contexts, demands = (
        np.concatenate([mine[:7], new])
        for mine, new in zip(history, held_out, strict=True)
    )
    (note,) = policy.verdict((contexts, demands)).notes
    assert note.startswith("Caution: 7 of these rows are in the history")
    assert policy.verdict(held_out).notes == ()


def test_without_a_kept_history_the_verdict_says_how_alternatives_learned(
    policy, held_out
):
    learned = replace(policy.learned, pairs=None)
    forgetful = csg.Policy(policy.two_stage.model, learned)
    assert "cross-validation" in str(forgetful.verdict(held_out))
    with pytest.raises(csg.DataError, match="does not keep its history"):
        forgetful.baselines()


def test_the_history_is_stored_unless_told_otherwise(policy, held_out, tmp_path):
    model = policy.two_stage.model
    policy.save(tmp_path / "with.csg")
    policy.save(tmp_path / "without.csg", history=False)
    kept = csg.load(tmp_path / "with.csg", model)
    left_out = csg.load(tmp_path / "without.csg", model)
    assert kept.verdict(held_out) == policy.verdict(held_out)
    assert left_out.learned.pairs is None
    assert kept.learned.lineage == policy.learned.lineage == left_out.learned.lineage
    (entry,) = kept.learned.lineage
    assert entry["data"] == policy.learned.pairs.fingerprint() and entry["rows"] == 60


def test_every_row_without_a_cost_has_a_reason(history):
    m = newsvendor.build()
    m.least = csg_constraint(m)
    fussy = fit((history[0], history[1] + 5), m, method="mmd")
    compared = compare({"it": fussy}, history)
    assert compared.costs["it"].isna().all()
    assert set(compared.reasons["it"]) == {"no recourse: infeasible"}
    assert (
        compared.reasons[CONTEXT_FREE].ne("").equals(compared.costs.isna().any(axis=1))
    )


def csg_constraint(m):
    """Return a constraint that recourse can meet only for demands of 18 and more."""
    import pyomo.environ as pyo

    return pyo.Constraint(expr=m.sold >= 18.0)


def test_auto_gives_the_verdict_of_its_own_held_out_rows(history):
    policy = fit(history)
    verdict, costs = policy.verdict(), policy.learned.holdout_costs
    assert verdict.rows == len(costs) == 60
    assert verdict.mean == pytest.approx(costs.mean())
    assert "held-out rows of its history" in policy.report()
    assert fit(history, method="mmd").verdict() is None


@pytest.mark.parametrize(
    ("mean", "error", "shown"),
    [
        (38.912, 1.0499, "38.9 +- 1.0"),
        (-0.00004, 0.02, "0.000 +- 0.020"),
        (0.9996, 0.0996, "1.00 +- 0.10"),
        (123456.0, 9876.0, "123,500 +- 9,900"),
        (249.99999999999997, 0.0, "250 +- 0"),
        (5.0, np.inf, "5"),
    ],
)
def test_errors_have_two_digits(mean, error, shown):
    assert with_error(mean, error) == shown


def test_numbers_have_no_residues():
    assert number(-1e-17 * 0) == "0" and number(1e-9) == "1e-09"
    assert round_like(-0.4, 10.0) == "0"


def test_objects_show_themselves_in_a_notebook(policy, held_out):
    verdict = policy.verdict(held_out)
    evaluation = csg.evaluate({"this policy": policy, **policy.baselines()}, held_out)
    certificate = policy.certify(held_out, gaps=False)
    for shown in (verdict, evaluation, certificate, policy, policy.two_stage):
        page = shown._repr_html_()
        assert page.startswith("<div>") and page.endswith("</div>")
        assert type(shown).__repr__ is not object.__repr__
    for shown in (evaluation, certificate, verdict):
        assert verdict.sentences[0] in shown._repr_html_()
    evil = Verdict(1, 0.0, 0.0, (Advantage("<script>", 1.0, 0.1),))
    assert "<script>" not in evil._repr_html_()


def test_the_package_lists_its_public_names_only():
    assert set(dir(csg)) == {*csg.__all__, "__version__"}
    for name in csg.__all__:
        found = getattr(csg, name)
        if isinstance(found, type) and not issubclass(found, Exception):
            assert found.__repr__ is not object.__repr__, name


def test_policies_that_decide_alike_cost_as_much_as_each_other():
    same = Verdict(40, 14.5, 0.2, (Advantage("SAA", 0.0, 0.0),))

    assert "14.50 +- 0.20 on average, as much as the best alternative (SAA)." in str(
        same
    )
