"""A method of one's own: what it is given, what becomes of its network, and bad ones."""

import numpy as np
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from models import newsvendor
from tests.learn.test_known_history import shop, table
from tests.quick import fit


class Calibrated:
    """Trains a new network in a loop of its own, on both losses."""

    name = "calibrated"

    def __init__(self, epochs=2):
        self.epochs, self.tasks = epochs, []

    def train(self, task):
        self.tasks.append(task)
        network = task.new_network()
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
        for step, rows in enumerate(task.batches(self.epochs)):
            output = network(task.contexts[rows])
            scenarios, weights = task.to_scenarios(output, rows)
            losses = task.task_losses(scenarios, weights, rows)
            loss = (losses + task.mmd_losses(scenarios, weights, rows)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            task.log.record("calibrated", step, loss=loss.item())
        return network


class Module(nn.Module):
    """A network of the user's, in single precision."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return torch.tanh(self.layer(x))[..., None]


class Returns:
    """Returns what it was made with."""

    name = "returns"

    def __init__(self, make):
        self._make = make

    def train(self, task):
        return self._make(task)


@pytest.fixture(scope="module")
def policy():
    return fit(newsvendor.sample(40, seed=1), method=Calibrated())


def test_the_policy_decides_saves_and_loads(policy, tmp_path):
    policy.save(tmp_path / "mine.csg")
    again = csg.load(tmp_path / "mine.csg", newsvendor.build())
    contexts = newsvendor.sample(10, seed=2)[0]

    assert again.method == "calibrated"
    assert "calibrated" in again.report()
    assert np.array_equal(again.scenarios(contexts), policy.scenarios(contexts))
    assert np.array_equal(again.decide(contexts), policy.decide(contexts))


def test_the_training_log_has_its_lines(policy):
    log = policy.learned.log

    assert len(log[log.stage == "calibrated"].loss.dropna()) == 2 * 2  # one batch each


def test_the_holdout_scores_a_network_that_has_not_seen_it(pairs):
    method = Calibrated()
    fit(pairs, method=method)
    first, last = method.tasks

    assert (len(first), len(last)) == (32, 40)
    seen = {tuple(row) for row in first.outcomes.tolist()}
    assert seen < {tuple(row) for row in pairs[1].tolist()}
    assert np.array_equal(last.outcomes.numpy(), pairs[1])
    contexts = (pairs[0] - pairs[0].mean(axis=0)) / pairs[0].std(axis=0)
    assert np.allclose(last.contexts.numpy(), contexts)


def test_the_same_seed_gives_the_same_policy(pairs, policy):
    contexts = newsvendor.sample(10, seed=2)[0]
    again, other = (fit(pairs, method=Calibrated(), seed=seed) for seed in (0, 1))

    assert np.array_equal(again.scenarios(contexts), policy.scenarios(contexts))
    assert not np.array_equal(other.scenarios(contexts), policy.scenarios(contexts))


def test_losses_are_those_of_the_oracle(pairs):
    found = {}

    def look(task):
        network, rows = task.mmd_network(), np.array([3, 0, 11])
        scenarios, weights = task.to_scenarios(network(task.contexts[rows]), rows)
        found["losses"] = task.task_losses(scenarios, weights, rows).detach().numpy()
        found["costs"] = task.costs(scenarios, weights, rows)
        oracle, outcomes = task.task_loss.oracle, task.outcomes[rows].numpy()
        found["loss"] = oracle.loss(scenarios.detach().numpy(), outcomes)
        return network

    fit(pairs, method=Returns(look))

    assert np.allclose(found["losses"], found["loss"])
    assert np.allclose(found["costs"], found["loss"])


def test_known_numbers_are_those_of_the_row():
    found = {}

    def look(task):
        rows = np.array([5, 2])
        network = task.new_network()
        scenarios, weights = task.to_scenarios(network(task.contexts[rows]), rows)
        found["losses"] = task.task_losses(scenarios, weights, rows).detach().numpy()
        found["costs"] = task.costs(scenarios, weights, rows)
        oracle, outcomes = task.task_loss.oracle, task.outcomes[rows].numpy()
        arrays = scenarios.detach().numpy(), outcomes
        found["loss"] = oracle.loss(*arrays, known=task.known[rows])
        found["others"] = oracle.loss(*arrays, known=task.known[rows[::-1]])
        return network

    fit(table(), shop(), method=Returns(look))

    assert np.allclose(found["losses"], found["loss"])
    assert np.allclose(found["costs"], found["loss"])
    assert not np.allclose(found["loss"], found["others"])


def test_a_module_of_ones_own_is_kept_in_double_precision(pairs, tmp_path):
    policy = fit(pairs, method=Returns(lambda task: Module()))
    policy.save(tmp_path / "own.csg")
    again = csg.load(tmp_path / "own.csg", newsvendor.build(), network=Module())

    assert policy.network.body.layer.weight.dtype == torch.float64
    assert np.array_equal(again.scenarios(pairs[0]), policy.scenarios(pairs[0]))


def test_the_mmd_network_is_that_of_mmd(pairs, fitted):
    policy = fit(pairs, method=Returns(lambda task: task.mmd_network()))

    assert np.array_equal(policy.scenarios(pairs[0]), fitted("mmd").scenarios(pairs[0]))


def test_the_network_of_the_user_is_the_one_to_train(pairs):
    found = []

    def look(task):
        found.append(task.new_network())
        return found[-1]

    fit(pairs, method=Returns(look), network=Module())

    assert all(isinstance(network, Module) for network in found)


def test_weights_and_k_can_be_learned(pairs):
    settings = {"weights": "learned", "mmd_epochs": 2}
    policy = fit(pairs, method=Calibrated(), scenarios=3, config=settings)

    assert np.ptp(policy.weights(pairs[0][0])) > 0


def test_a_fit_resumes_without_training_again(pairs, tmp_path):
    first = fit(pairs, method=Calibrated(), checkpoint=tmp_path / "stages")
    method = Calibrated()
    again = fit(pairs, method=method, checkpoint=tmp_path / "stages")

    assert method.tasks == []
    assert np.array_equal(again.scenarios(pairs[0]), first.scenarios(pairs[0]))


def test_a_checkpoint_of_other_settings_is_refused(pairs, tmp_path):
    fit(pairs, method=_Weighted(1.0), checkpoint=tmp_path / "stages")

    with pytest.raises(csg.DataError, match="method_settings"):
        fit(pairs, method=_Weighted(2.0), checkpoint=tmp_path / "stages")


class _Weighted:
    name = "weighted"

    def __init__(self, weight):
        self.weight = weight

    def train(self, task):
        return task.mmd_network()


def test_hyperparameters_are_searched(pairs):
    policy = fit(
        pairs, method=Returns(lambda task: task.mmd_network()), config={"search": 2}
    )

    assert policy.learned.summary["searched"] == 2


def test_batches_stop_when_the_time_is_up(pairs):
    counts = []

    def wait(task):
        task.log.deadline = task.log.start  # the share of the budget is used up
        counts.append(sum(1 for _ in task.batches(1000)))
        return task.new_network()

    policy = fit(pairs, method=Returns(wait))

    assert counts == [1, 1]  # the second network has time of its own
    assert policy.learned.summary["chosen"] == "returns"
    assert policy.learned.summary["cut_short"] == "train"


def test_the_mmd_network_is_returned_if_a_method_runs_out_of_time(pairs, fitted):
    def wait(task):
        task.log.deadline = task.log.start
        task.log.check_time()

    policy = fit(pairs, method=Returns(wait))

    assert policy.learned.summary["chosen"] == "mmd"
    assert "cut_short" in policy.learned.summary
    assert np.array_equal(policy.scenarios(pairs[0]), fitted("mmd").scenarios(pairs[0]))


def with_nan(task):
    network = task.new_network()
    with torch.no_grad():
        next(iter(network.parameters())).fill_(float("nan"))
    return network


class Broken(nn.Module):
    def forward(self, x):
        raise ValueError("no luck")


BAD = {
    "nothing": (lambda task: None, "train returned a NoneType; return a torch"),
    "a shape": (lambda task: nn.Linear(2, 5), "gave (32, 5) for contexts (32, 2)"),
    "nan": (with_nan, "gave nan for row 0, scenario 0, column 0, and 64 such in all"),
    "an error": (lambda task: Broken(), "gave an error (ValueError: no luck)"),
    "no tensor": (lambda task: Pair(), "gave an error (AttributeError"),
}


class Pair(nn.Module):
    def forward(self, x):
        return x, x


@pytest.mark.parametrize("name", BAD)
def test_bad_networks_are_errors_that_name_the_method(pairs, name):
    make, words = BAD[name]

    with pytest.raises(csg.DataError, match="Method 'returns' cannot be") as caught:
        fit(pairs, method=Returns(make))

    assert words in str(caught.value)


@pytest.mark.parametrize("name", [None, "", "a\nb", "x" * 81, "mmd", 3])
def test_a_method_needs_a_name_of_its_own(pairs, name):
    method = Calibrated()
    method.name = name

    with pytest.raises(csg.DataError, match="Calibrated has name"):
        fit(pairs, method=method)


def test_an_update_does_not_go_on_with_another_method(policy):
    with pytest.raises(csg.DataError, match="'calibrated', which is not the package's"):
        policy.update(newsvendor.sample(20, seed=3))
