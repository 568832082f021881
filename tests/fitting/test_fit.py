"""csg.fit from end to end, on problems small enough for seconds."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.candidates import registry
from tests.learn.candidates.test_auto import cost_only
from tests.learn.methods.test_direct import hard_to_serve
from tests.quick import METHODS, QUICK, fit, maximized, panels, portfolio
from tests.zoo import ZOO, scenarios


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_a_policy_that_decides(pairs, fitted, method):
    policy = fitted(method)

    decision = policy.decide(pairs[0][0])

    assert policy.scenarios(pairs[0][0]).shape == (2, 1)
    exact = csg.Oracle(newsvendor.build()).solve(policy.scenarios(pairs[0][0]))
    assert decision.vector == pytest.approx(exact.decision)
    assert len(policy.history)
    assert f"method          {method}" in policy.report()


def test_auto_says_which_candidate_won_and_how_sure_that_is(fitted):
    summary, report = fitted("auto").learned.summary, fitted("auto").report()

    rows = summary["candidates"]
    (chosen,) = (row for row in rows if row["name"] == summary["chosen"])
    lowest, *_ = others = [row for row in rows if row is not chosen]
    assert [row["loss"] for row in rows] == sorted(row["loss"] for row in rows)
    # A simpler candidate wins within half a standard error of the lowest loss.
    assert chosen["loss"] - lowest["loss"] <= lowest["standard_error"] / 2
    assert len(others) == len(rows) - 1
    assert summary["margin"] == pytest.approx(lowest["loss"] - chosen["loss"])
    assert (summary["confidence"] >= 0.5) == (summary["margin"] >= 0)
    assert all(row["name"] in report for row in rows)
    assert f"{summary['confidence']:.0%}" in report


@pytest.mark.parametrize("method", METHODS)
def test_what_a_loss_net_told_of_held_out_pairs_is_kept(fitted, method):
    summary = fitted(method).learned.summary
    output = summary.get("loss_net")

    follows = method in ("static", "dynamic") and summary["chosen"] != "mmd"
    assert (output is not None) == follows
    if output is not None:
        assert len(output["predicted"]) == len(output["true"]) == 8  # a fifth of 40


@pytest.mark.parametrize("method", ["static", "dynamic"])
def test_where_the_loss_net_leads_astray_the_mmd_network_is_taken(
    pairs, fitted, method, monkeypatch
):
    train = getattr(registry, f"train_{method}")

    def astray(*given, **options):
        found = train(*given, **options)
        with torch.no_grad():
            for one in found:
                for numbers in one.body.parameters():
                    numbers += 30  # scenarios that are far too high
        return found

    monkeypatch.setattr(registry, f"train_{method}", astray)
    policy = fit(pairs, method=method)

    summary = policy.learned.summary
    assert summary["chosen"] == summary["candidates"][0]["name"] == "mmd"
    assert (
        "loss_net" not in summary and "loss_net_errors" not in summary
    )  # it followed none
    x = pairs[0][:5]
    assert policy.scenarios(x) == pytest.approx(fitted("mmd").scenarios(x))


def test_auto_beats_the_mean_on_contexts_that_it_has_not_seen():
    policy = csg.fit(
        newsvendor.build(),
        newsvendor.sample(300, seed=1),
        scenarios=2,
        config=csg.FitConfig(folds=2, starts=1, task_epochs=4),
        progress=False,
    )
    oracle = csg.Oracle(newsvendor.build())
    contexts, _ = newsvendor.sample(40, seed=2)

    costs = {"policy": 0.0, "mean": 0.0, "best": 0.0}
    for x in contexts:
        outcomes, weights = newsvendor.conditional(x)
        decisions = {
            "policy": policy.decide(x).vector,
            "mean": oracle.solve((weights @ outcomes)[None]).decision,
            "best": oracle.solve(outcomes, weights).decision,
        }
        for name, y in decisions.items():
            costs[name] += weights @ oracle.cost(y, outcomes)

    gap = costs["policy"] - costs["best"]
    assert gap < 0.1 * (costs["mean"] - costs["best"])


def test_a_context_that_tells_nothing_costs_little(monkeypatch):
    monkeypatch.setattr(
        "pyomo_csg.learn.candidates.several_starts._CONSTANT_STEPS", 100
    )
    rng = np.random.default_rng(3)
    contexts, outcomes = rng.normal(size=(150, 3)), rng.gamma(4.0, 3.0, (150, 1))
    config = csg.FitConfig(folds=2, starts=1, task_epochs=2)
    policy = fit((contexts, outcomes), config=config)
    oracle = csg.Oracle(newsvendor.build())
    fresh = rng.gamma(4.0, 3.0, (2000, 1))

    best = oracle.cost(oracle.solve(fresh).decision, fresh).mean()
    mean = oracle.cost(outcomes.mean(axis=0), fresh).mean()
    ours = np.mean(
        [oracle.cost(policy.decide(x).vector, fresh).mean() for x in contexts[:20]]
    )

    assert ours - best < 0.02 * (mean - best)


@pytest.mark.parametrize("method", ["auto", "dynamic"])
def test_the_same_seed_gives_the_same_policy_with_one_or_two_workers(
    pairs, fitted, method
):
    one, two = fitted(method), fit(pairs, method=method, workers=2)

    assert np.array_equal(one.scenarios(pairs[0]), two.scenarios(pairs[0]))
    reports, summaries = [], []
    for policy in (one, two):  # what a program took is for information only
        lines = policy.report().splitlines()
        reports.append([line for line in lines if " takes " not in line])
        plan = {**policy.learned.summary.get("plan", {}), "program_seconds": 0.0}
        plan["seconds"] = 0.0
        summaries.append({**policy.learned.summary, "plan": plan})
    assert reports[0] == reports[1]
    assert summaries[0] == summaries[1]
    pd.testing.assert_frame_equal(one.history, two.history, check_exact=True)


def test_another_seed_gives_another_policy(pairs, fitted):
    other = fit(pairs, method="mmd", seed=1)

    assert not np.array_equal(
        fitted("mmd").scenarios(pairs[0]), other.scenarios(pairs[0])
    )


def test_whole_numbers_of_numpy_are_whole_numbers(pairs, fitted):
    same = fit(pairs, method="mmd", scenarios=np.int64(2), seed=np.int32(0))

    assert np.array_equal(fitted("mmd").scenarios(pairs[0]), same.scenarios(pairs[0]))


def test_fitting_leaves_torchs_random_numbers_and_threads_and_the_model_alone(pairs):
    torch.manual_seed(5)
    torch.set_num_threads(2)
    before, model = torch.random.get_rng_state(), newsvendor.build()
    model.order.set_value(3.25)

    fit(pairs, model)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.equal(before, torch.random.get_rng_state())
    assert threads == 2
    assert (model.order.value, model.demand.value) == (3.25, 15.1)
    assert not model.order.fixed


def test_scenarios_stay_where_the_params_may_be(pairs):
    nearly_nothing = np.abs(np.random.default_rng(0).normal(0, 0.01, (40, 1)))

    policy = fit((pairs[0], nearly_nothing))

    assert (policy.scenarios(100 * pairs[0]) >= 0).all()


def test_a_constant_context_and_repeated_rows_are_fine():
    outcomes = np.repeat([[10.0], [20.0], [30.0]], 10, axis=0)

    policy = fit((np.zeros((30, 1)), outcomes), config={"folds": 2, "starts": 1})

    # Nobody asks for less than 10, and to order the mean, 20, loses 2.17.
    cost = csg.Oracle(newsvendor.build()).cost(policy.decide([0.0]).vector, outcomes)
    assert cost.mean() < 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [2, 3])
def test_few_rows_and_as_many_scenarios_as_rows_are_fine(method, count):
    contexts, outcomes = newsvendor.sample(count, seed=1)

    policy = fit((contexts, outcomes), scenarios=count, method=method)

    assert policy.scenarios(contexts[0]).shape == (count, 1)
    assert np.isfinite(policy.decide(contexts[0]).value)


@pytest.mark.parametrize("count", [2, 3])
def test_few_panels_are_fine(count):
    policy = fit(panels(count), portfolio())

    assert np.isfinite(policy.decide(panels(1, seed=1)[0][0]).value)


@pytest.mark.parametrize("method", ["mmd", "static"])
def test_few_rows_suffice_to_choose_and_to_search(method):
    few = newsvendor.sample(3, seed=1)
    config = {"search": 2, "mmd_epochs": 1, "task_epochs": 1, "loss_epochs": 1}

    assert fit(few, method=method, scenarios="auto").count in (1, 2, 3)
    assert fit(few, method=method, config=config).learned.summary["searched"] == 2


def test_a_frame_names_its_context(pairs):
    frame = pd.DataFrame(pairs[0], columns=["rain", "price"])
    frame["demand"] = pairs[1]

    policy = fit(frame, context=["rain"], method="mmd")

    assert isinstance(policy.decide({"rain": 0.3}), csg.Decision)
    assert policy.decide(frame.head(3)).shape == (3, 1)


@pytest.mark.parametrize("method", METHODS)
def test_learned_weights_sum_to_one_and_differ(pairs, method):
    skewed = pairs[0], np.where(np.arange(40)[:, None] % 4, pairs[1], 30.0)
    config = {**vars(QUICK), "weights": "learned"}

    policy = fit(skewed, config=config, method=method)

    weights = policy.weights(pairs[0][:5])
    assert weights.sum(axis=1) == pytest.approx(np.ones(5))
    assert np.ptp(weights) > 1e-3
    solved = csg.Oracle(newsvendor.build()).solve(
        policy.scenarios(pairs[0][0]), weights[0]
    )
    assert policy.decide(pairs[0][0]).vector == pytest.approx(solved.decision)


@pytest.mark.parametrize("method", ["mmd", "auto"])
def test_the_number_of_scenarios_can_be_chosen(pairs, method, monkeypatch):
    monkeypatch.setattr("pyomo_csg.policy.fit_run.COUNTS", (1, 2, 5))

    policy = fit(pairs, scenarios="auto", method=method)

    tried = policy.learned.summary["scenarios_tried"]
    losses = {row["K"]: row for row in tried}
    best = min(row["loss"] for row in tried)
    assert list(losses) == [1, 2, 5]
    chosen = losses[policy.count]
    assert chosen["loss"] <= best + chosen["standard_error"] + 1e-12
    assert all(
        row["loss"] > best + row["standard_error"]
        for k, row in losses.items()
        if k < policy.count
    )
    assert policy.learned.summary["scenarios"] == policy.count


def test_the_number_of_scenarios_is_chosen_by_what_decisions_cost(pairs, monkeypatch):
    monkeypatch.setattr("pyomo_csg.policy.fit_run.COUNTS", (1, 2))
    dear = newsvendor.build()
    dear.cost.set_value(1e6 * dear.cost.expr)  # the MMD loss sees no costs

    policy = fit(pairs, dear, scenarios="auto", method="mmd")

    tried = policy.learned.summary["scenarios_tried"]
    assert all(abs(row["loss"]) > 1e4 for row in tried)


def test_a_decision_time_that_nothing_meets_takes_the_smallest_number(pairs, caplog):
    config = csg.FitConfig(mmd_epochs=2, seconds=1e-9)

    policy = fit(pairs, scenarios="auto", method="mmd", config=config)

    assert policy.count == 1
    assert "more than 1e-09 s" in caplog.text


def test_a_decision_time_that_all_meet_changes_nothing(pairs, monkeypatch):
    monkeypatch.setattr("pyomo_csg.policy.fit_run.COUNTS", (1, 2, 5))
    plain, timed = (
        fit(pairs, scenarios="auto", method="mmd", config={"mmd_epochs": 2, **more})
        for more in ({}, {"seconds": 1000.0})
    )

    assert plain.count == timed.count
    assert np.array_equal(plain.scenarios(pairs[0]), timed.scenarios(pairs[0]))


def test_a_search_reports_the_settings_that_it_took(pairs):
    config = csg.FitConfig(search=3, mmd_epochs=3)

    policy = fit(pairs, method="mmd", config=config)

    summary = policy.learned.summary
    assert summary["searched"] == 3
    layers = [
        m.out_features for m in policy.network.modules() if isinstance(m, nn.Linear)
    ]
    assert layers == [*summary["settings"]["hidden"], 2]
    assert f"{summary['settings']['mmd_rate']:.6g}" in policy.report()


@pytest.mark.parametrize("method", METHODS)
def test_panels_are_read_by_an_lstm(method):
    policy = fit(panels(), portfolio(), method=method)

    contexts = panels(3, seed=1)[0]
    decisions = policy.decide(contexts)
    holdings = decisions[[f"holding[{i}]" for i in range(1, 5)]]
    assert holdings.sum(axis=1).to_numpy() == pytest.approx(np.ones(3))
    assert policy.context_shape == (6, 2)


def test_who_maximizes_a_profit_learns_as_who_minimizes_a_cost(pairs, fitted):
    policy = fit(pairs, maximized())

    assert policy.scenarios(pairs[0]) == pytest.approx(
        fitted("auto").scenarios(pairs[0])
    )
    assert policy.decide(pairs[0][0]).value == pytest.approx(
        -fitted("auto").decide(pairs[0][0]).value
    )


def test_without_a_gradient_loss_nets_are_followed():
    rng = np.random.default_rng(0)
    history = rng.normal(size=(20, 2)), scenarios(cost_only(), 20)

    policy = fit(history, cost_only())

    assert "Loss-Net 0.3" in policy.report()
    assert "direct" not in policy.report()
    assert np.isfinite(policy.decide([0.0, 0.0]).value)


@pytest.mark.parametrize(
    "name", ["integers", "nonlinear_data", "farmer", "quadratic", "cross_products"]
)
@pytest.mark.parametrize("method", ["auto", "direct"])
def test_models_of_the_zoo_are_fitted(name, method):
    rng = np.random.default_rng(0)
    history = rng.normal(size=(12, 2)), scenarios(ZOO[name](), 12)

    policy = fit(history, ZOO[name](), method=method)

    assert np.isfinite(policy.decide([0.0, 0.0]).value)


@pytest.mark.parametrize("method", METHODS)
def test_programs_without_an_answer_do_not_stop_a_fit(method):
    rng = np.random.default_rng(0)
    needs = rng.uniform(3.0, 7.4, (30, 1))  # no plan serves more than 7

    policy = fit((rng.normal(size=(30, 2)), needs), hard_to_serve(), method=method)

    assert np.isfinite(policy.scenarios(np.zeros(2))).all()
    if method == "auto":
        rows = policy.learned.summary["candidates"]
        assert max(row["unsolved"] for row in rows) > 0


@pytest.mark.parametrize("method", ["auto", "static"])
def test_a_model_that_never_has_an_answer_is_told(method):
    history = np.zeros((12, 2)), np.linspace(20.0, 30.0, 12)[:, None]

    with pytest.raises(csg.DataError, match="complete recourse"):
        fit(history, hard_to_serve(), method=method)


@pytest.mark.parametrize("method", ["mmd", "auto"])
def test_a_callback_sees_every_entry(pairs, method):
    seen = []

    policy = fit(pairs, method=method, callback=seen.append)

    assert len(seen) == len(policy.history)
    assert {"stage", "step"} <= set(seen[0])
    assert [entry["stage"] for entry in seen] == policy.history["stage"].tolist()


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", lambda a, b: a @ b.mT])
def test_kernels_are_taken_by_name_or_as_a_function(pairs, fitted, kernel):
    policy = fit(pairs, method="mmd", config={**vars(QUICK), "kernel": kernel})

    found = policy.scenarios(pairs[0])
    assert np.isfinite(found).all()
    assert not np.array_equal(found, fitted("mmd").scenarios(pairs[0]))


@pytest.mark.parametrize(("money", "units"), [(1e4, 1.0), (1.0, 1e3)])
def test_lambdas_to_choose_from_serve_whatever_the_units(pairs, money, units):
    contexts, demands = pairs
    model = newsvendor.build(budget=60 * units)
    model.cost.set_value(money * model.cost.expr)

    found = fit((contexts, units * demands), model, method="static")

    usual = fit(pairs, newsvendor.build(), method="static")
    assert found.learned.summary["chosen"] == usual.learned.summary["chosen"]
    for mine, other in zip(losses_of(found), losses_of(usual), strict=True):
        assert mine == pytest.approx(money * units * other, rel=1e-3)


def losses_of(policy):
    """Return the candidates' losses, by their names."""
    rows = policy.learned.summary["candidates"]
    return [row["loss"] for row in sorted(rows, key=lambda row: row["name"])]


@pytest.mark.parametrize(("text", "number"), [("2", 2.0), ("0x", 0.0), ("0", 0)])
def test_a_text_without_the_mmd_loss_is_a_number(pairs, text, number):
    one, other = (
        fit(pairs, method="static", regularization=lam) for lam in (text, number)
    )
    np.testing.assert_array_equal(one.scenarios(pairs[0]), other.scenarios(pairs[0]))


def test_a_kernel_that_scenarios_cannot_be_learned_by_is_refused_at_once(pairs):
    def rooted(one, other):
        return -(one[..., :, None, :] - other[..., None, :, :]).square().sum(-1).sqrt()

    with pytest.raises(csg.DataError, match="'rooted' is not finite"):
        fit(pairs, method="mmd", config={**vars(QUICK), "kernel": rooted})


def test_one_bar_tells_of_the_whole_fit(pairs, capsys, monkeypatch):
    monkeypatch.setattr("pyomo_csg.learn.progress._is_interactive", lambda: True)
    monkeypatch.setattr("pyomo_csg.learn.progress._REFRESH_SECONDS", 0.005)
    fit(pairs, progress=True)
    output = capsys.readouterr().err
    assert "\rmmd " in output and "best so far: " in output
    assert output.count("\n") <= 1  # one bar, not one for each stage


def test_without_a_terminal_there_is_no_bar(pairs, capsys):
    fit(pairs, method="mmd", progress=True)
    assert capsys.readouterr().err == ""
