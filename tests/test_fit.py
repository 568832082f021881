"""csg.fit from end to end, on problems small enough for seconds."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from models import cvar_portfolio, newsvendor
from tests.zoo import ZOO

QUICK = csg.FitConfig(
    mmd_epochs=6,
    task_epochs=2,
    loss_epochs=10,
    rounds=1,
    folds=2,
    starts=1,
    hidden=(16,),
)


@pytest.fixture(scope="module")
def pairs():
    return newsvendor.sample(80, seed=1)


def quick_fit(data, model=None, **options):
    options = {"scenarios": 2, "config": QUICK, "progress": False, **options}
    return csg.fit(model or newsvendor.build(), data, **options)


@pytest.mark.parametrize("method", ["auto", "mmd", "static", "dynamic", "direct"])
def test_every_method_gives_a_policy_that_decides(pairs, method):
    policy = quick_fit(pairs, method=method)

    decision = policy.decide(pairs[0][0])

    assert policy.scenarios(pairs[0][0]).shape == (2, 1)
    exact = csg.Oracle(newsvendor.build()).solve(policy.scenarios(pairs[0][0]))
    assert decision.vector == pytest.approx(exact.decision)
    assert len(policy.history)


def test_auto_beats_the_mean_on_contexts_that_it_has_not_seen():
    policy = csg.fit(
        newsvendor.build(),
        newsvendor.sample(300, seed=1),
        scenarios=2,
        config=csg.FitConfig(folds=2, starts=1, task_epochs=6),
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


def test_the_same_seed_gives_the_same_policy_with_one_or_two_workers(pairs):
    one, two = (quick_fit(pairs, workers=workers) for workers in (1, 2))

    assert np.array_equal(one.scenarios(pairs[0]), two.scenarios(pairs[0]))
    assert one.report() == two.report()


def test_another_seed_gives_another_policy(pairs):
    one, other = (quick_fit(pairs, method="mmd", seed=seed) for seed in (0, 1))

    assert not np.array_equal(one.scenarios(pairs[0]), other.scenarios(pairs[0]))


def test_fitting_leaves_torchs_random_numbers_and_threads_alone(pairs):
    torch.manual_seed(5)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()

    quick_fit(pairs)

    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


def test_scenarios_stay_where_the_params_may_be(pairs):
    contexts = pairs[0]
    nearly_nothing = np.abs(np.random.default_rng(0).normal(0, 0.01, (80, 1)))

    policy = quick_fit((contexts, nearly_nothing))

    assert (policy.scenarios(100 * contexts) >= 0).all()


def test_a_context_that_tells_nothing_costs_nothing():
    rng = np.random.default_rng(3)
    contexts, outcomes = rng.normal(size=(150, 3)), rng.gamma(4.0, 3.0, (150, 1))
    policy = quick_fit((contexts, outcomes), config=csg.FitConfig(folds=3, starts=1))
    oracle = csg.Oracle(newsvendor.build())
    fresh = rng.gamma(4.0, 3.0, (2000, 1))

    saa = oracle.cost(oracle.solve(outcomes).decision, fresh).mean()
    ours = np.mean(
        [oracle.cost(policy.decide(x).vector, fresh).mean() for x in contexts[:20]]
    )

    assert ours <= saa + 0.02 * abs(saa)


def test_a_constant_context_and_repeated_rows_are_fine():
    outcomes = np.repeat([[10.0], [20.0], [30.0]], 10, axis=0)

    policy = quick_fit((np.zeros((30, 1)), outcomes))

    assert 10 <= policy.decide([0.0])["order"] <= 30


def test_few_rows_and_more_scenarios_than_rows_are_fine():
    contexts, outcomes = newsvendor.sample(4, seed=1)

    policy = quick_fit((contexts, outcomes), scenarios=6)

    assert policy.scenarios(contexts[0]).shape == (6, 1)


def test_a_frame_names_its_context(pairs):
    frame = pd.DataFrame(pairs[0], columns=["rain", "price"])
    frame["demand"] = pairs[1]

    policy = quick_fit(frame, context=["rain"], method="mmd")

    assert isinstance(policy.decide({"rain": 0.3}), csg.Decision)
    assert policy.decide(frame.head(3)).shape == (3, 1)


def test_learned_weights_sum_to_one_and_differ(pairs):
    config = csg.FitConfig(
        weights="learned", mmd_epochs=10, folds=2, starts=1, task_epochs=1
    )

    policy = quick_fit(pairs, config=config)

    weights = policy.weights(pairs[0][:5])
    assert weights.sum(axis=1) == pytest.approx(np.ones(5))
    assert np.ptp(weights) > 1e-3
    solved = csg.Oracle(newsvendor.build()).solve(
        policy.scenarios(pairs[0][0]), weights[0]
    )
    assert policy.decide(pairs[0][0]).vector == pytest.approx(solved.decision)


def test_the_number_of_scenarios_can_be_chosen(pairs):
    policy = quick_fit(pairs, scenarios="auto", method="mmd")

    tried = policy.learned.summary["scenarios_tried"]
    losses = {row["K"]: row for row in tried}
    best = min(row["loss"] for row in tried)
    assert policy.count in losses
    chosen = losses[policy.count]
    assert chosen["loss"] <= best + chosen["standard_error"] + 1e-12
    assert all(
        row["loss"] > best + row["standard_error"]
        for k, row in losses.items()
        if k < policy.count
    )


def test_a_decision_time_that_nothing_meets_takes_the_smallest_number(pairs, caplog):
    config = csg.FitConfig(mmd_epochs=2, seconds=1e-9)

    policy = quick_fit(pairs, scenarios="auto", method="mmd", config=config)

    assert policy.count == 1
    assert "more than 1e-09 s" in caplog.text


def test_a_search_reports_its_settings(pairs):
    config = csg.FitConfig(search=3, mmd_epochs=3)

    policy = quick_fit(pairs, method="mmd", config=config)

    assert policy.learned.summary["searched"] == 3


def panels(n=40, seed=0):
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 6, 2))
    scale = np.exp(contexts[:, :, 0].mean(axis=1, keepdims=True))
    return contexts, 0.01 * scale * rng.normal(size=(n, 4))


@pytest.mark.parametrize("method", ["auto", "mmd"])
def test_panels_are_read_by_an_lstm(method):
    model = cvar_portfolio.build(assets=4, most_held=2)

    policy = quick_fit(panels(), model, method=method, scenarios=3)

    decision = policy.decide(panels(1, seed=1)[0][0])
    assert sum(decision[f"holding[{i}]"] for i in range(1, 5)) == pytest.approx(1)


def test_a_location_and_a_scale_may_be_given():
    model = cvar_portfolio.build(assets=4, most_held=2)
    network = csg.LocationScale(
        lambda x: np.zeros((len(x), 4)),
        lambda x: 0.01 * np.exp(x[:, :, :1].mean(axis=1)) * np.ones(4),
    )

    policy = quick_fit(panels(), model, network=network, scenarios=3)

    contexts = panels(2, seed=1)[0]
    scenarios = policy.scenarios(contexts)
    scale = np.exp(contexts[:, :, 0].mean(axis=1))
    assert scenarios[0] / scale[0] == pytest.approx(scenarios[1] / scale[1])


class Own(nn.Module):
    def __init__(self, count=2):
        super().__init__()
        self.layer = nn.Linear(2, count)

    def forward(self, x):
        return self.layer(x)[..., None]


def test_a_network_of_ones_own_is_trained(pairs):
    mine = Own()

    policy = quick_fit(pairs, network=mine, method="mmd")

    assert isinstance(policy.network.body, Own)
    assert not torch.equal(policy.network.body.layer.weight, mine.layer.weight)


def test_a_network_of_the_wrong_shape_is_refused(pairs):
    with pytest.raises(csg.DataError, match=r"gave \(2, 3, 1\).*expected \(2, 2, 1\)"):
        quick_fit(pairs, network=Own(3))


def test_integer_and_quadratic_models_are_fitted():
    for name in ("sslp", "quadratic"):
        if name not in ZOO:
            continue
        model = ZOO[name]()
        numbers = len(csg.TwoStageModel(model).uncertain_params)
        base = [pyo.value(p) for p in csg.TwoStageModel(model).uncertain_params]
        rng = np.random.default_rng(0)
        outcomes = np.array(base) * rng.uniform(0.9, 1.1, (20, numbers))

        policy = quick_fit((rng.normal(size=(20, 2)), outcomes), model)

        assert np.isfinite(policy.decide([0.0, 0.0]).value)


BAD = {
    "no scenarios": ({"scenarios": 0}, "scenarios is 0"),
    "half a scenario": ({"scenarios": 2.5}, "scenarios is 2.5"),
    "many": ({"scenarios": "many"}, "'many'; give a whole number from 1 up, or 'auto'"),
    "a misspelt method": ({"method": "statik"}, "did you mean 'static'"),
    "a method out of nowhere": ({"method": "magic"}, "give one of"),
    "a negative lambda": ({"method": "static", "regularization": -1}, "from 0 up"),
    "a lambda of words": ({"method": "static", "regularization": "much"}, "'0.1x'"),
    "a lambda for mmd": ({"method": "mmd", "regularization": 1.0}, "takes none"),
    "a relative lambda for direct": (
        {"method": "direct", "regularization": "0.1x"},
        "'direct' takes a number",
    ),
    "a seed of words": ({"seed": "x"}, "seed is 'x'"),
    "a network out of nowhere": (
        {"network": "transformer"},
        "network is 'transformer'",
    ),
    "a network that is none": ({"network": 3}, "give a torch.nn.Module"),
    "an lstm for vectors": ({"network": "lstm"}, "contexts are vectors"),
    "settings that are none": ({"config": 3}, "csg.FitConfig or a dict"),
    "a misspelt setting": ({"config": {"epoch": 3}}, "there is no setting 'epoch'"),
    "a setting out of range": ({"config": {"noise": -1}}, "noise is -1"),
    "a kernel out of nowhere": ({"config": {"kernel": "cosine"}}, "kernel is 'cosine'"),
    "no workers": ({"workers": 0}, "workers is 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused_by_name(pairs, name):
    options, words = BAD[name]

    with pytest.raises(csg.CsgError) as caught:
        quick_fit(pairs, **options)

    assert words in str(caught.value)


def test_several_bad_arguments_are_listed_at_once(pairs):
    with pytest.raises(csg.DataError) as caught:
        quick_fit(pairs, scenarios=0, method="magic", seed=-1, config={"noise": -1})

    assert len(caught.value.problems) == 4


def test_a_callback_sees_every_entry(pairs):
    seen = []

    policy = quick_fit(pairs, method="mmd", callback=seen.append)

    assert len(seen) == len(policy.history)
    assert {"stage", "step"} <= set(seen[0])


def test_an_interrupt_comes_through(pairs):
    def stop(entry):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick_fit(pairs, method="mmd", callback=stop)


SCRIPT = """
import sys, numpy as np, torch, pyomo_csg as csg
from models import newsvendor
from tests.test_fit import QUICK
policy = csg.fit(newsvendor.build(), newsvendor.sample(80, seed=1), scenarios=2,
                 method=sys.argv[3], config=QUICK, progress=False, checkpoint=sys.argv[1] or None)
np.save(sys.argv[2], policy.scenarios(newsvendor.sample(20, seed=2)[0]))
policy.history.to_csv(sys.argv[2] + ".csv")
"""


def run_fit(folder, result, method, kill_after=None):
    """Run a fit in a process of its own; return whether it came to its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(result), method]
    )
    if kill_after is not None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if len(list(folder.glob("*.safetensors"))) >= kill_after:
                os.kill(process.pid, signal.SIGKILL)
                break
            time.sleep(0.002)
    return process.wait() == 0


@pytest.mark.skipif(os.name != "posix", reason="kills by a signal of POSIX")
@pytest.mark.parametrize("method", ["auto", "dynamic"])
def test_a_fit_that_was_killed_goes_on_and_ends_the_same(tmp_path, method):
    whole, resumed = tmp_path / "whole.npy", tmp_path / "resumed.npy"
    folder = tmp_path / "run"
    folder.mkdir()
    assert run_fit("", whole, method)

    for stages in (1, 3):
        run_fit(folder, resumed, method, kill_after=stages)
    assert run_fit(folder, resumed, method)

    assert np.array_equal(np.load(whole), np.load(resumed))
    log = [pd.read_csv(f"{path}.csv") for path in (whole, resumed)]
    pd.testing.assert_frame_equal(*log)


def test_a_checkpoint_of_another_fit_is_refused(tmp_path, pairs):
    quick_fit(pairs, method="mmd", checkpoint=tmp_path)

    with pytest.raises(csg.DataError, match="seed"):
        quick_fit(pairs, method="mmd", checkpoint=tmp_path, seed=1)
