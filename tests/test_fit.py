"""csg.fit from end to end, on problems small enough for seconds."""

import copy
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from models import cvar_portfolio, newsvendor
from pyomo_csg.learn.forecast import fit_location_scale
from pyomo_csg.learn.history import History
from pyomo_csg.learn.learned import Learned
from pyomo_csg.learn.networks import Constant
from pyomo_csg.learn.progress import Journal
from pyomo_csg.learn.task import Task
from tests.learn.test_auto import cost_only
from tests.learn.test_direct import hard_to_serve
from tests.quick import QUICK, fit, maximised, panels, shorten
from tests.zoo import ZOO, scenarios

METHODS = ["auto", "mmd", "static", "dynamic", "direct"]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


@pytest.fixture(scope="module")
def pairs():
    return newsvendor.sample(40, seed=1)


@pytest.fixture(scope="module")
def fitted(pairs):
    """Return a function from a method to a policy, fitted once."""
    known = {}

    def policy(method):
        if method not in known:
            known[method] = fit(pairs, method=method)
        return known[method]

    return policy


def portfolio():
    return cvar_portfolio.build(assets=4, most_held=2)


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
    assert rows[0]["name"] == summary["chosen"]
    assert rows[0]["loss"] == min(row["loss"] for row in rows)
    assert summary["margin"] == pytest.approx(rows[1]["loss"] - rows[0]["loss"])
    assert 0.5 <= summary["confidence"] <= 1
    assert all(row["name"] in report for row in rows)
    assert f"{summary['confidence']:.0%}" in report


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
    monkeypatch.setattr("pyomo_csg.learn.candidates._CONSTANT_STEPS", 100)
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
    assert one.report() == two.report()
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
def test_few_rows_and_more_scenarios_than_rows_are_fine(method, count):
    contexts, outcomes = newsvendor.sample(count, seed=1)

    policy = fit((contexts, outcomes), scenarios=4, method=method)

    assert policy.scenarios(contexts[0]).shape == (4, 1)
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
    monkeypatch.setattr("pyomo_csg.fitting.COUNTS", (1, 2, 5))

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


def test_a_decision_time_that_nothing_meets_takes_the_smallest_number(pairs, caplog):
    config = csg.FitConfig(mmd_epochs=2, seconds=1e-9)

    policy = fit(pairs, scenarios="auto", method="mmd", config=config)

    assert policy.count == 1
    assert "more than 1e-09 s" in caplog.text


def test_a_decision_time_that_all_meet_changes_nothing(pairs, monkeypatch):
    monkeypatch.setattr("pyomo_csg.fitting.COUNTS", (1, 2, 5))
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


class Scale(nn.Module):
    def __init__(self, factor=0.01):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))
        self.drop = nn.Dropout(0.9)

    def forward(self, x):
        scale = self.factor * torch.exp(x[:, :, :1].mean(dim=1))
        return self.drop(scale) * torch.ones(4, dtype=x.dtype)


def zeros(x):
    return np.zeros((len(x), 4))


@pytest.mark.parametrize("method", METHODS)
def test_a_location_and_a_scale_may_be_given(method):
    scale = Scale()
    network = csg.LocationScale(zeros, scale)

    policy = fit(panels(), portfolio(), network=network, method=method)

    contexts = panels(2, seed=1)[0]
    found = policy.scenarios(contexts)
    size = np.exp(contexts[:, :, 0].mean(axis=1))
    assert found[0] / size[0] == pytest.approx(found[1] / size[1], rel=1e-6)
    assert found.any()
    assert scale.factor.dtype == torch.float32
    assert scale.factor.requires_grad
    assert scale.training


BAD_LOCATION_SCALE = {
    "a location of another shape": (lambda x: x[:, :, 0], Scale(), "location gave"),
    "a scale that fails": (zeros, lambda x: x.no_such, "scale gave an error"),
    "a scale of zero": (zeros, zeros, "scale gave 0 in row 0"),
    "a location that is not finite": (lambda x: zeros(x) + np.nan, Scale(), "gave nan"),
}


@pytest.mark.parametrize("name", BAD_LOCATION_SCALE)
def test_a_location_or_a_scale_that_does_not_fit_is_refused(name):
    location, scale, words = BAD_LOCATION_SCALE[name]

    with pytest.raises(csg.DataError, match=words):
        fit(panels(), portfolio(), network=csg.LocationScale(location, scale))


class Own(nn.Module):
    def __init__(self, count=2, layer=None):
        super().__init__()
        self.first, self.inner = nn.Linear(2, 6), layer or nn.ReLU()
        self.last = nn.Linear(6, count)

    def forward(self, x):
        return self.last(self.inner(self.first(x)))[..., None]


@pytest.mark.parametrize("method", METHODS)
def test_a_network_of_ones_own_is_trained_and_stays_as_it_is(pairs, method):
    mine = Own()
    before = copy.deepcopy(mine.state_dict())

    policy = fit(pairs, network=mine, method=method)

    if method != "auto":  # where a constant may win
        assert isinstance(policy.network.body, Own)
        assert not torch.equal(
            policy.network.body.last.weight, mine.last.weight.double()
        )
    assert all(torch.equal(before[name], x) for name, x in mine.state_dict().items())
    assert mine.last.weight.dtype == torch.float32


@pytest.mark.parametrize("method", ["auto", "mmd", "static", "direct"])
@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.BatchNorm1d(6)])
def test_layers_that_act_otherwise_in_training_are_fine(pairs, method, layer):
    torch.manual_seed(0)
    mine = Own(layer=layer)
    before = copy.deepcopy(mine.state_dict())

    policy, again = (fit(pairs, network=mine, method=method) for _ in range(2))

    found = policy.scenarios(pairs[0])
    assert np.array_equal(found, policy.scenarios(pairs[0]))
    assert np.array_equal(found, again.scenarios(pairs[0]))
    assert all(torch.equal(before[name], x) for name, x in mine.state_dict().items())
    if isinstance(layer, nn.BatchNorm1d) and method != "auto":
        assert policy.network.body.inner.running_mean.abs().max() > 1e-3


class Silent(nn.Module):
    def forward(self, x):
        return x[:, :, None]


BAD_NETWORKS = {
    "of the wrong shape": (Own(3), r"gave \(2, 3, 1\).*expected \(2, 2, 1\)"),
    "of no shape": (nn.LSTM(2, 3), "gave an error"),
    "for other contexts": (nn.Linear(5, 2), "gave an error"),
    "without parameters": (Silent(), "no parameters to train"),
}


@pytest.mark.parametrize("name", BAD_NETWORKS)
def test_a_network_that_does_not_fit_is_refused(pairs, name):
    network, words = BAD_NETWORKS[name]

    with pytest.raises(csg.DataError, match=words):
        fit(pairs, network=network)


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_network_gives_all_contexts_the_same(pairs, method):
    policy = fit(pairs, network="constant", method=method)

    found = policy.scenarios(pairs[0])
    assert np.ptp(found, axis=0) == pytest.approx(np.zeros((2, 1)))


@pytest.mark.parametrize("method", ["mmd", "direct"])
def test_a_linear_networks_free_numbers_are_linear_in_the_context(pairs, method):
    policy = fit(pairs, network="linear", method=method)

    contexts = torch.as_tensor(pairs[0])
    free = policy.network.body(contexts).detach().numpy()
    middle = policy.network.body((contexts[:20] + contexts[20:]) / 2).detach().numpy()
    assert middle == pytest.approx((free[:20] + free[20:]) / 2)
    assert np.ptp(free, axis=0).min() > 1e-6


def test_who_maximises_a_profit_learns_as_who_minimises_a_cost(pairs, fitted):
    policy = fit(pairs, maximised())

    assert policy.scenarios(pairs[0]) == pytest.approx(
        fitted("auto").scenarios(pairs[0])
    )
    assert policy.decide(pairs[0][0]).value == pytest.approx(
        -fitted("auto").decide(pairs[0][0]).value
    )


@pytest.mark.parametrize("build", [ZOO["quadratic"], cost_only])
def test_without_a_gradient_loss_nets_are_followed(build):
    rng = np.random.default_rng(0)
    history = rng.normal(size=(20, 2)), scenarios(build(), 20)

    policy = fit(history, build())

    assert "Loss-Net 0.1x" in policy.report()
    assert "direct" not in policy.report()
    assert np.isfinite(policy.decide([0.0, 0.0]).value)


def test_direct_says_that_a_quadratic_model_has_no_gradient():
    history = np.zeros((20, 2)), scenarios(ZOO["quadratic"](), 20)

    with pytest.raises(csg.ModelError, match="its objective is quadratic"):
        fit(history, ZOO["quadratic"](), method="direct")


@pytest.mark.parametrize("name", ["integers", "nonlinear_data", "farmer"])
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


BAD = {
    "no scenarios": ({"scenarios": 0}, "scenarios is 0"),
    "half a scenario": ({"scenarios": 2.5}, "scenarios is 2.5"),
    "true scenarios": ({"scenarios": True}, "scenarios is True"),
    "an array of scenarios": ({"scenarios": np.array([1, 2])}, "scenarios is array"),
    "many": ({"scenarios": "many"}, "'many'; give a whole number from 1 up, or 'auto'"),
    "a misspelt method": ({"method": "statik"}, "did you mean 'static'"),
    "a method out of nowhere": ({"method": "magic"}, "give one of"),
    "a negative lambda": ({"method": "static", "regularization": -1}, "from 0 up"),
    "a lambda that is none": (
        {"method": "static", "regularization": float("nan")},
        "regularization is nan; give a number from 0 up",
    ),
    "a true lambda": ({"method": "static", "regularization": True}, "is True; give"),
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
    "a device that is not used": ({"config": {"device": "cuda"}}, "trained on the CPU"),
    "a kernel out of nowhere": ({"config": {"kernel": "cosine"}}, "kernel is 'cosine'"),
    "a kernel of another shape": (
        {"config": {"kernel": lambda a, b: a}},
        "(..., m, p) and (..., n, p) to (..., m, n)",
    ),
    "no workers": ({"workers": 0}, "workers is 0"),
    "a callback that cannot be called": ({"callback": 3}, "callback is a int"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused_by_name(pairs, name):
    options, words = BAD[name]

    with pytest.raises(csg.CsgError) as caught:
        fit(pairs, **options)

    assert words in str(caught.value)


def test_several_bad_arguments_are_listed_at_once(pairs):
    with pytest.raises(csg.DataError) as caught:
        fit(pairs, scenarios=0, method="magic", seed=-1, config={"noise": -1})

    assert len(caught.value.problems) == 4


def test_an_mlp_for_panels_is_refused():
    with pytest.raises(csg.DataError, match="contexts are panels; give 'lstm'"):
        fit(panels(), portfolio(), network="mlp")


def test_all_that_is_wrong_with_the_data_is_told_at_once():
    frame = pd.DataFrame({"rain": [0.1, np.nan, 0.3], "demand": [5.0, -1.0, np.inf]})
    frame["day"] = ["Mon", "Tue", "Wed"]

    with pytest.raises(csg.DataError) as caught:
        fit(frame)

    told = str(caught.value)
    for words in (
        "'rain' is nan in row 1",
        "'day' holds text",
        "-1 in row 1",
        "inf in",
    ):
        assert words in told


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


PREPARED = """
import os, random, signal, sys, time
from pathlib import Path
from models import newsvendor
from tests.quick import fit, shorten

folder, method, workers = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def fit_it():
    fit(newsvendor.sample(40, seed=1), method=method, workers=workers, checkpoint=folder)

PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT

def kept():
    return len(list(folder.glob("*.safetensors")))

if __name__ == "__main__":
    shorten()
"""
KILLED = f"""{PREPARED}
    moments = random.Random(0)
    for _ in range(3):
        before = kept()
        child = os.fork()
        if child == 0:
            fit_it()
            os._exit(0)
        while kept() <= before and os.waitid(os.P_PID, child, PEEK) is None:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), kept() > before)
"""
INTERRUPTED = f"""{PREPARED}
    fit_it()
"""


def run(tmp_path, script, *arguments):
    """Start a script in a process, and a group of processes, of its own."""
    file = tmp_path / "script.py"
    file.write_text(script)
    return subprocess.Popen(
        [sys.executable, str(file), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )


def assert_goes_on_to(policy, pairs, method, folder):
    """See that the same call ends with this policy, to the last bit."""
    resumed = fit(pairs, method=method, checkpoint=folder)
    contexts = newsvendor.sample(20, seed=2)[0]
    assert np.array_equal(resumed.scenarios(contexts), policy.scenarios(contexts))
    assert resumed.report() == policy.report()
    pd.testing.assert_frame_equal(resumed.history, policy.history, check_exact=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills by a signal of POSIX")
@pytest.mark.parametrize("method", ["auto", "dynamic"])
def test_a_fit_that_was_killed_goes_on_and_ends_the_same(
    tmp_path, pairs, fitted, method
):
    folder = tmp_path / "run"
    process = run(tmp_path, KILLED, folder, method, 1)
    told, errors = process.communicate(timeout=100)

    # Killed, each time after it had come further than before; a quick one may end.
    assert told.splitlines().count("-9 True") >= 2, errors
    assert_goes_on_to(fitted(method), pairs, method, folder)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="interrupts by a signal of POSIX")
def test_an_interrupted_fit_ends_at_once_and_goes_on_later(tmp_path, pairs, fitted):
    folder = tmp_path / "run"
    process = run(tmp_path, INTERRUPTED, folder, "auto", 2)
    while process.poll() is None and len(list(folder.glob("*.safetensors"))) < 2:
        time.sleep(0.001)

    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, workers included
    _, told = process.communicate(timeout=60)

    assert process.returncode not in (0, None)
    assert told.rstrip().endswith("KeyboardInterrupt")
    with pytest.raises(ProcessLookupError):  # no worker is left
        os.killpg(process.pid, 0)
    assert_goes_on_to(fitted("auto"), pairs, "auto", folder)


def test_an_interrupt_comes_through(pairs):
    def stop(entry):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(pairs, method="mmd", callback=stop)


def test_a_fit_that_came_to_its_end_is_read_again(tmp_path, pairs, fitted):
    for _ in range(2):
        model = newsvendor.build()
        policy = fit(pairs, model, method="static", checkpoint=tmp_path, workers=1)
        decision = policy.decide(pairs[0][0])
        decision.load_into(model)
        model.demand.set_value(3.0)

    # What a solver or a user left in the model since is not another model.
    again = fit(pairs, model, method="static", checkpoint=tmp_path)

    assert np.array_equal(
        again.scenarios(pairs[0]), fitted("static").scenarios(pairs[0])
    )
    pd.testing.assert_frame_equal(again.history, fitted("static").history)


def one(x):
    return np.ones((len(x), 1))


def two(x):
    return 2 * np.ones((len(x), 1))


OTHERS = {
    "seed": {"seed": 1},
    "method": {"method": "direct"},
    "scenarios": {"scenarios": 3},
    "settings.noise": {"config": {**vars(QUICK), "noise": 0.2}},
    "network": {"network": csg.LocationScale(one, two)},
    "kernel": {"config": {**vars(QUICK), "kernel": lambda a, b: 2 * (a @ b.mT)}},
    "model": {"model": newsvendor.build(price=1.5)},
    "history": {"data": newsvendor.sample(40, seed=2)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, pairs, what):
    options = {
        "data": pairs,
        "method": "mmd",
        "network": csg.LocationScale(one, one),
        "config": {**vars(QUICK), "kernel": lambda a, b: a @ b.mT},
        "checkpoint": tmp_path,
    }
    fit(**options)
    fit(**options)

    with pytest.raises(csg.DataError) as caught:
        fit(**{**options, **OTHERS[what]})

    (difference, *_) = caught.value.problems[1:]
    assert "it holds another fit" in str(caught.value)
    assert any(p.startswith(f"{what} is ") for p in caught.value.problems), difference


def test_a_network_of_other_weights_is_another_fit(tmp_path, pairs):
    torch.manual_seed(0)
    fit(pairs, method="mmd", network=Own(), checkpoint=tmp_path)

    with pytest.raises(csg.DataError, match="network is"):
        fit(pairs, method="mmd", network=Own(), checkpoint=tmp_path)


def located_on_panels():
    """Return a policy whose location and scale were fitted to panels."""
    contexts, outcomes = panels()
    task = Task(
        csg.Oracle(portfolio()), History(contexts, outcomes), 2, QUICK, 0, Journal()
    )
    (head,) = fit_location_scale(task, [np.arange(len(contexts))], "forecast")
    body = Constant(task.shape)
    body.start_at(torch.tensor([[1.0] * 4, [-1.0] * 4], dtype=torch.float64))
    learned = Learned(
        task.network(body, head), "auto", {"context_shape": [6, 2]}, reach=5.0
    )
    return csg.Policy(portfolio(), learned)


LOAD = """
import sys
import numpy as np
from torch import nn
import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.networks import FromFunction
from tests.quick import panels
from tests.test_fit import Own, Scale, portfolio, zeros

folder = sys.argv[1]
own = {
    "own": Own(layer=nn.BatchNorm1d(6)).double(),
    "panels, given": {"location": FromFunction(zeros), "scale": Scale().double()},
}
for name in sys.argv[2:]:
    of_panels = name.startswith("panels")
    x = panels(5, seed=2)[0] if of_panels else newsvendor.sample(5, seed=2)[0]
    model = portfolio() if of_panels else newsvendor.build()
    policy = csg.load(f"{folder}/{name}.csg", model, own.get(name))
    np.savez(
        f"{folder}/{name}.npz",
        scenarios=policy.scenarios(x),
        weights=policy.weights(x),
        decision=policy.decide(x[0]).vector,
    )
    with open(f"{folder}/{name}.txt", "w") as file:
        file.write(policy.report())
"""


def test_policies_of_every_kind_are_the_same_in_another_process(
    tmp_path, pairs, fitted
):
    learned = {**vars(QUICK), "weights": "learned"}
    given = csg.LocationScale(zeros, Scale())
    policies = {
        **{method: fitted(method) for method in METHODS},
        "linear": fit(pairs, method="mmd", network="linear"),
        "constant": fit(pairs, method="mmd", network="constant"),
        "weighted": fit(pairs, method="mmd", config=learned),
        "own": fit(pairs, method="mmd", network=Own(layer=nn.BatchNorm1d(6))),
        "panels, lstm": fit(panels(), portfolio(), method="mmd"),
        "panels, auto": fit(panels(), portfolio()),
        "panels, fitted": located_on_panels(),
        "panels, given": fit(panels(), portfolio(), network=given),
    }
    for name, policy in policies.items():
        policy.save(tmp_path / f"{name}.csg")
    subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path), *policies],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    for name, policy in policies.items():
        contexts = panels(5, 2)[0] if "panels" in name else newsvendor.sample(5, 2)[0]
        with np.load(tmp_path / f"{name}.npz") as found:
            assert np.array_equal(found["scenarios"], policy.scenarios(contexts)), name
            assert np.array_equal(found["weights"], policy.weights(contexts)), name
            decision = policy.decide(contexts[0]).vector
            assert found["decision"] == pytest.approx(decision), name
        assert (tmp_path / f"{name}.txt").read_text() == policy.report(), name
