"""csg.Policy: scenarios and decisions against the network and the Pyomo programs."""

import logging
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import cloudpickle
import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from models import cep1, cvar_portfolio, newsvendor
from pyomo_csg.decisions.decision import Decision
from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.networks.domains import build_omega
from pyomo_csg.learn.networks.task_nets import (
    Constant,
    Feedforward,
    LocationScaleHead,
    OmegaHead,
    Recurrent,
    TaskNet,
)
from pyomo_csg.learn.networks.torch_generator import generator_from_network
from pyomo_csg.policy.policy import Policy
from pyomo_csg.report.policy_verdict import NOT_COMPARED
from tests.quick import fit
from tests.solve.test_faults import no_complete_recourse
from tests.solving import solve, transform

LOG = pd.DataFrame({"stage": ["mmd", "mmd"], "step": [1, 2], "loss": [0.5, 0.25]})
SUMMARY = {
    "pairs": 500,
    "candidates": [
        {"name": "direct", "loss": 354.25, "standard_error": 1.5},
        {"name": "mmd", "loss": 361.0, "standard_error": 2.0},
    ],
    "chosen": "direct",
    "margin": 6.75,
    "confidence": 0.93,
    "notes": ["The context tells little."],
    "settings": {"hidden": [64, 64], "noise": 0.3},
    "seed": 7,
}


def learned_for(
    model, body, outcomes, shape=(2,), *, head=None, names=None, reach=3.0, seed=0
):
    """Return what learning might have found, with random weights."""
    torch.manual_seed(seed)
    two_stage = csg.TwoStageModel(model)
    omega = build_omega(two_stage, np.asarray(outcomes, dtype=float))
    rng = np.random.default_rng(seed)
    center, spread = rng.normal(size=shape[-1]), rng.uniform(0.5, 2, shape[-1])
    network = TaskNet(body(), (head or OmegaHead)(omega), center, spread)
    summary = {**SUMMARY, "context_shape": list(shape)}
    generator = generator_from_network(network, shape)
    return FitResult(generator, "mmd", summary, LOG, names, reach)


def papers(**options):
    """Return the newsvendor with five scenarios from two numbers."""
    return learned_for(
        newsvendor.build(),
        lambda: Feedforward(2, (5, 1), (8,)),
        [[14.0], [16]],
        **options,
    )


def machines(k=5, **options):
    """Return CEP1 with K scenarios from four numbers."""
    return learned_for(
        cep1.build(),
        lambda: Feedforward(4, (k, 3), (8, 8)),
        [[1000.0, 1200, 1400], [2000, 1800, 1600]],
        (4,),
        **options,
    )


def portfolio(**options):
    """Return the portfolio with three scenarios from panels of six steps."""
    rng = np.random.default_rng(5)
    return learned_for(
        cvar_portfolio.build(),
        lambda: Recurrent(4, (3, 10), (6, 8)),
        rng.normal(0.0, 0.01, (20, 10)),
        (6, 4),
        **options,
    )


@pytest.fixture(scope="module")
def policy():
    """A policy for CEP1."""
    return Policy(cep1.build(), machines())


X = np.random.default_rng(1).normal(size=(6, 4))


def test_scenarios_are_those_of_the_network_for_one_context_and_for_many(policy):
    with torch.no_grad():
        scenarios, weights = policy.network(torch.as_tensor(X))
    many = policy.scenarios(X)
    assert many.shape == (6, 5, 3)
    np.testing.assert_allclose(many, scenarios.numpy(), rtol=1e-13)
    np.testing.assert_allclose(policy.weights(X), weights.numpy(), rtol=1e-13)
    one = policy.scenarios(X[2])
    assert one.shape == (5, 3) and policy.weights(X[2]).tolist() == [0.2] * 5
    np.testing.assert_allclose(one, many[2], rtol=1e-13)
    assert policy.count == 5 and policy.method == "mmd"


def test_very_many_contexts_are_generated_in_parts_that_agree(policy):
    contexts = np.tile(X, (800, 1))
    scenarios = policy.scenarios(contexts)
    assert len(scenarios) == 4800
    np.testing.assert_allclose(
        scenarios, np.tile(policy.scenarios(X), (800, 1, 1)), rtol=1e-12
    )


def test_a_decision_is_an_optimum_of_the_extensive_form_on_its_scenarios(policy):
    decision = policy.decide(X[0])
    program = transform(
        "extensive_form", cep1.build(), scenarios=policy.scenarios(X[0])
    )
    assert isinstance(decision, Decision)
    assert decision.value == pytest.approx(solve(program), rel=1e-7)
    recourse = transform(
        "extensive_form",
        cep1.build(),
        scenarios=decision.scenarios,
        weights=decision.weights,
    )
    for j in range(1, 5):
        recourse.added[j].fix(decision[f"added[{j}]"])
        recourse.operated[j].fix(decision[f"operated[{j}]"])
    assert solve(recourse) == pytest.approx(decision.value, rel=1e-7)


def test_the_value_of_a_maximized_model_is_its_profit():
    model = newsvendor.build()
    model.cost.deactivate()
    model.profit = pyo.Objective(expr=-model.cost.expr, sense=pyo.maximize)
    cost = Policy(newsvendor.build(), papers()).decide([0.1, 0.2])
    profit = Policy(model, papers()).decide([0.1, 0.2])
    assert profit.value == pytest.approx(-cost.value, rel=1e-9)
    assert profit["order"] == pytest.approx(cost["order"], rel=1e-9)


def test_learned_weights_flow_into_the_decision():
    learned = learned_for(
        cep1.build(),
        lambda: Feedforward(4, (4, 4), (8,)),
        [[1000.0, 1200, 1400], [2000, 1800, 1600]],
        (4,),
    )
    policy = Policy(cep1.build(), learned)
    decision = policy.decide(X[0])
    assert (
        decision.weights.sum() == pytest.approx(1) and np.ptp(decision.weights) > 0.01
    )
    np.testing.assert_array_equal(decision.weights, policy.weights(X[0]))
    program = transform(
        "extensive_form",
        cep1.build(),
        scenarios=decision.scenarios,
        weights=decision.weights,
    )
    assert decision.value == pytest.approx(solve(program), rel=1e-7)


def test_panels_and_integers():
    policy = Policy(cvar_portfolio.build(), portfolio())
    panel = np.random.default_rng(2).normal(size=(6, 4))
    decision = policy.decide(panel)
    held = [decision[f"held[{i}]"] for i in range(1, 11)]
    assert set(held) <= {0.0, 1.0} and 1 <= sum(held) <= 5
    assert sum(decision[f"holding[{i}]"] for i in range(1, 11)) == pytest.approx(1)
    many = policy.decide(np.stack([panel, panel]))
    assert many["held[1]"].tolist() == [held[0]] * 2


def test_decisions_have_exact_integers_and_no_negative_zero():
    policy = Policy(cvar_portfolio.build(), portfolio())
    panels = np.random.default_rng(3).normal(size=(20, 6, 4))
    table = policy.decide(panels)
    held = table[[f"held[{i}]" for i in range(1, 11)]].to_numpy()
    assert np.array_equal(held, np.round(held))
    for values in (table.to_numpy(), policy.decide(panels[0]).vector):
        assert not np.signbit(values[values == 0]).any()


def test_many_contexts_give_a_table_by_pyomo_names_with_the_index_kept():
    names = ("wind", "price", "rain", "day")
    policy = Policy(cep1.build(), machines(names=names))
    frame = pd.DataFrame(X, columns=list(names), index=list("abcdef"))
    table = policy.decide(frame[["day", "rain", "wind", "price"]])
    assert list(table.index) == list("abcdef")
    assert list(table.columns[:2]) == ["added[1]", "added[2]"] and table.shape == (6, 8)
    assert list(policy.decide(X).index) == list(range(6))
    for label, x in zip("abcdef", X, strict=True):
        alone = policy.decide(x)
        mapped = policy.decide(dict(zip(names, x, strict=True)))
        assert alone.value == pytest.approx(mapped.value, rel=1e-12)
        assert dict(table.loc[label]) == pytest.approx(dict(alone), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "x", [np.ones(3), np.array([1.0, np.nan, 0, 0]), "text", np.ones((2, 2, 4))]
)
def test_contexts_that_do_not_fit_are_refused(policy, x):
    with pytest.raises(csg.DataError, match="context does not fit"):
        policy.decide(x)


def test_the_context_that_was_given_is_left_as_it_was(policy):
    x = X[0][::-1]
    x.flags.writeable = False
    before = x.copy()
    decision = policy.decide(x)
    np.testing.assert_array_equal(x, before)
    assert decision.value == pytest.approx(policy.decide(before.tolist()).value)


def far(policy, distance):
    """Return a context whose standardized numbers have that root mean square."""
    center, spread = policy.network.center.numpy(), policy.network.spread.numpy()
    direction = np.array([1.0, -3, 2, 0.5])
    direction *= distance / np.sqrt(np.mean(direction**2))
    return center + spread * direction


def test_a_far_context_is_logged_with_its_distance(policy, caplog):
    near = far(policy, 1.0)
    policy.scenarios(np.stack([far(policy, 3.29), near]))
    assert not caplog.records
    policy.decide(np.stack([far(policy, 3.31), near, far(policy, 7.5)]))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "2 of 3 contexts" in record.message
    assert "7.5" in record.message and "at most 3;" in record.message


def test_a_constant_context_is_never_far(caplog):
    learned = learned_for(
        newsvendor.build(), lambda: Constant((2, 1)), [[14.0], [16]], (1,), reach=0.0
    )
    learned.network.center.fill_(1e9 / 3)
    learned.network.spread.fill_(1.0)
    policy = Policy(newsvendor.build(), learned)
    policy.decide(np.array([np.mean([1e9 / 3] * 7)]))
    assert not caplog.records
    policy.decide(np.array([4e8]))
    assert len(caplog.records) == 1


def infeasible_beyond(limit=10.0):
    """Return a policy whose scenario is its context: not feasible where that is large."""
    model = no_complete_recourse()

    class Itself(nn.Module):
        def forward(self, x):
            return x[:, None]

    class Plain(OmegaHead):
        def outcomes(self, free, frame):
            return free

    learned = learned_for(model, Itself, [[1.0], [limit]], (1,), head=Plain, reach=1e6)
    learned.network.center.fill_(0.0)
    learned.network.spread.fill_(1.0)
    return Policy(model, learned)


def test_a_context_whose_program_has_no_solution_is_raised_or_recorded(caplog):
    policy = infeasible_beyond()
    with pytest.raises(csg.SolveError, match="Case 1: infeasible"):
        policy.decide([[5.0], [99.0], [6.0], [98.0]])
    with pytest.raises(csg.SolveError, match="Case 0: infeasible"):
        policy.decide(np.array([99.0]))
    table = policy.decide([[5.0], [99.0], [6.0], [98.0]], on_error="record")
    assert table.isna().all(axis=1).tolist() == [False, True, False, True]
    assert "2 of 4 contexts have no optimal decision" in caplog.text
    assert "case 1: infeasible" in caplog.text
    with pytest.raises(csg.DataError, match="on_error"):
        policy.decide(np.array([5.0]), on_error="ignore")


def test_later_changes_to_the_model_are_not_seen():
    model = newsvendor.build()
    policy = Policy(model, papers())
    before = policy.decide([0.0, 1.0]).value
    model.order.setub(1.0)
    assert policy.decide([0.0, 1.0]).value == before


def test_a_network_that_does_not_fit_the_model_is_refused():
    with pytest.raises(csg.DataError, match=r"\(1, 5, 1\); expected \(1, 5, 3\)"):
        Policy(cep1.build(), papers())

    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("no such thing")

    learned = learned_for(newsvendor.build(), Broken, [[14.0], [16]])
    with pytest.raises(csg.DataError, match="KeyError"):
        Policy(newsvendor.build(), learned)


@pytest.mark.parametrize(
    ("build", "learn", "shape"),
    [
        (newsvendor.build, papers, (2,)),
        (cep1.build, machines, (4,)),
        (cvar_portfolio.build, portfolio, (6, 4)),
    ],
)
def test_a_policy_survives_pickling(build, learn, shape):
    policy = Policy(build(), learn(), options={"time_limit": 50.0}, workers=2)
    x = np.random.default_rng(3).normal(size=shape)
    for dumps in (pickle.dumps, cloudpickle.dumps):
        again = pickle.loads(dumps(policy))
        np.testing.assert_array_equal(again.scenarios(x), policy.scenarios(x))
        assert again.decide(x).value == pytest.approx(policy.decide(x).value, rel=1e-12)
        assert again.report() == policy.report()


def test_threads_share_a_policy():
    policy = infeasible_beyond()
    contexts = [np.array([5.0 + i % 4 / 8 if i % 3 else 99.0 + i]) for i in range(120)]
    expected = [
        np.nan if i % 3 == 0 else policy.decide(x).value for i, x in enumerate(contexts)
    ]

    def decided(x):
        try:
            return policy.decide(x).value
        except csg.SolveError as error:
            assert error.case == 0
            return np.nan

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(decided, contexts))
    assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_workers_give_the_same_decisions(policy):
    threads = Policy(cep1.build(), machines(), workers=2)
    assert threads.decide(X[0]).value == pytest.approx(
        policy.decide(X[0]).value, rel=1e-12
    )
    program = [policy.decide(x).value for x in X]
    table = threads.decide(X)
    outcomes = policy.scenarios(X)
    means = [
        policy.oracle.cost(table.iloc[i].to_numpy(), outcomes[i]).mean()
        for i in range(len(X))
    ]
    assert means == pytest.approx(program, rel=1e-7)


def test_a_location_scale_network_sees_contexts_as_they_are():
    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x[:, :1]

    class One(nn.Module):
        def forward(self, x):
            return torch.ones(len(x), 1, dtype=x.dtype)

    learned = learned_for(
        newsvendor.build(),
        lambda: Constant((2, 1)),
        [[14.0], [16]],
        head=lambda omega: LocationScaleHead(Doubled(), One(), omega),
        reach=100.0,
    )
    learned.network.body.start_at(torch.tensor([[-1.0], [3.0]]))
    policy = Policy(newsvendor.build(), learned)
    assert policy.scenarios([7.0, 0.0]).ravel().tolist() == [13.0, 17.0]
    assert policy.scenarios([0.0, 0.0]).ravel().tolist() == [0.0, 3.0]  # never negative


def test_the_report_tells_who_won_and_how_sure_that_is(policy):
    text = policy.report()
    lines = [line.split() for line in text.splitlines()]
    assert "Policy for 'cep1'" in text
    assert ["learned", "from", "500", "pairs"] in lines
    assert ["*", "direct", "354.25", "1.5"] in lines
    assert ["mmd", "361", "2"] in lines
    assert ["ahead", "by", "6.75"] in lines
    assert "probability that it beats the runner-up: 93%" in text
    assert "standard error of the difference" in text  # of the winner it is 0
    assert ["seed", "7"] in lines
    assert text.endswith("The context tells little.")


@pytest.mark.parametrize(
    ("method", "shown"), [("mmd", {"hidden"}), ("direct", {"hidden", "noise"})]
)
def test_the_report_leaves_out_settings_that_had_no_part(method, shown):
    settings = {"hidden": [64], "noise": 0.3, "recurrent": [32], "seconds": None}
    learned = replace(papers(), method=method, summary={"settings": settings})
    lines = Policy(newsvendor.build(), learned).report().splitlines()
    assert {line.split()[0] for line in lines} & settings.keys() == shown


def test_a_winner_without_a_network_has_no_settings_of_networks():
    policy = fit(newsvendor.sample(40, 1), scenarios=2)
    kind = policy.learned.generator
    shown = {line.split()[0] for line in policy.report().splitlines() if line.strip()}
    is_network = getattr(kind, "kind", None) is None
    assert ("hidden" in shown) == ("task_epochs" in shown) == is_network
    assert "folds" in shown


def test_the_report_tells_how_the_number_of_scenarios_was_chosen():
    tried = [
        {"K": 1, "loss": 9.5, "standard_error": 0.75},
        {"K": 5, "loss": 7.0, "standard_error": 0.25},
        {"K": 10, "loss": 6.875, "standard_error": 0.0},
    ]
    learned = replace(papers(), summary={"scenarios_tried": tried})

    text = Policy(newsvendor.build(), learned).report()

    lines = [line.split() for line in text.splitlines()]
    assert ["K", "loss", "standard", "error", "of", "the", "difference"] in lines
    assert ["1", "9.5", "0.75"] in lines
    assert ["*", "5", "7", "0.25"] in lines
    assert ["10", "6.875", "0"] in lines


def test_the_report_tells_which_settings_of_a_search_won():
    won = {"number": 3, "loss": 4.5, "loss_as_given": 5.25}
    learned = replace(papers(), summary={"searched": 30, "search_won": won})

    text = Policy(newsvendor.build(), learned).report()

    found = "30 settings; number 3 won with loss 4.5 (as given, number 1: 5.25)"
    assert f"searched        {found}" in text


def test_a_report_makes_do_with_what_there_is():
    learned = papers()
    bare = FitResult(learned.generator, "static", {}, reach=3.0)
    policy = Policy(newsvendor.build(), bare)
    lines = [" ".join(line.split()) for line in policy.report().splitlines()]
    assert lines == [
        "Policy for 'newsvendor'",
        NOT_COMPARED,
        "method static",
        "scenarios 5 of 1 numbers each",
    ]
    assert policy.history.empty
    assert repr(policy) == (
        "<Policy for 'newsvendor': 5 scenarios of 1 numbers, by 'static'>"
    )


def test_the_history_is_what_was_seen_while_learning(policy):
    pd.testing.assert_frame_equal(policy.history, LOG)
