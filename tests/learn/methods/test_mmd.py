"""Training on the MMD loss against closed forms and by held-out rows."""

import numpy as np
import pytest
import torch

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.methods.mmd import scenario_generator, train_mmd
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.loss_net import torch_seed
from pyomo_csg.learn.networks.task_nets import Constant, Feedforward, LocationScaleHead
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task

NOTHING = np.array([], dtype=int)


def newsvendor_task(count, scenarios=1, **config):
    """Return a task on pairs whose demand is skewed and grows with the context."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1, 1, (count, 1))
    demands = 10 + 2 * contexts + rng.gamma(1.0, 2.0, (count, 1))
    return task_on(contexts, demands, scenarios, **config)


def task_on(contexts, demands, scenarios=1, **config):
    oracle = csg.Oracle(newsvendor.build(price=1.5))
    settings = FitConfig(**{"hidden": (16,), **config})
    return Task(
        oracle, History(contexts, demands), scenarios, settings, 0, TrainingLog()
    )


def bodies(task, count, hidden=(16,)):
    with torch_seed(np.random.default_rng(0)):
        return [Feedforward(1, task.output_shape, hidden) for _ in range(count)]


def mean_mmd(task, body, rows):
    scenarios, weights = map(torch.as_tensor, task.generate_scenarios(body, rows))
    return task.mmd_losses(scenarios, weights, rows).mean().item()


def test_one_constant_scenario_becomes_the_median_of_its_rows():
    task = newsvendor_task(201, mmd_epochs=100, mmd_rate=0.02)
    rows = [np.arange(201), np.arange(101)]
    found = train_mmd(task, [Constant((1, 1))] * 2, rows, None, "mmd")
    for mine, body in zip(rows, found, strict=True):
        demands = task.history.outcomes[mine, 0]
        scenario = task.generate_scenarios(body, np.arange(1))[0].item()
        assert scenario == pytest.approx(np.median(demands), abs=0.1)
        assert abs(scenario - demands.mean()) > 0.2


def test_two_constant_scenarios_become_what_a_search_finds():
    task = newsvendor_task(200, 2, mmd_epochs=150, mmd_rate=0.02, decay=0.0)
    body = Constant((2, 1))
    body.start_at(torch.tensor([[-1.0], [1.0]], dtype=torch.float64))
    (found,) = train_mmd(task, [body], [np.arange(200)], None, "mmd")
    demands = task.history.outcomes[:, 0]
    grid = np.linspace(demands.min(), demands.max(), 400)
    to_outcomes = np.abs(grid[:, None] - demands).mean(axis=1)
    among = np.abs(grid[:, None] - grid) / 4
    losses = (to_outcomes[:, None] + to_outcomes) / 2 - among
    best = grid[list(np.unravel_index(losses.argmin(), losses.shape))]
    scenarios = task.generate_scenarios(found, np.arange(1))[0][0, :, 0]
    assert np.sort(scenarios) == pytest.approx(np.sort(best), abs=0.15)


@pytest.mark.parametrize("units", ["standard", "raw"])
def test_scenarios_follow_the_context(units):
    task = newsvendor_task(300, mmd_epochs=60, mmd_rate=1e-2, units=units)
    (found,) = train_mmd(task, bodies(task, 1), [np.arange(300)], None, "mmd")
    scenarios = task.generate_scenarios(found, np.arange(300))[0][:, 0, 0]
    # The median of a gamma distribution of shape 1 and scale 2 is 2 log 2.
    truth = 10 + 2 * task.history.contexts[:, 0] + 2 * np.log(2)
    assert np.abs(scenarios - truth).mean() < 0.35


def test_the_journal_has_the_loss_in_the_kernels_units():
    task = newsvendor_task(100, units="raw", mmd_epochs=2, mmd_rate=1e-9, batch=100)
    (body,) = start = bodies(task, 1)
    train_mmd(task, start, [np.arange(100)], None, "mmd")
    entries = task.log.entries
    assert [entry["step"] for entry in entries] == [1, 2]
    expected = mean_mmd(task, body, np.arange(100))
    assert entries[0]["loss"] == pytest.approx(expected, rel=1e-6)


def test_the_epoch_that_held_out_rows_like_best_is_taken_for_all():
    # Few rows, no sense in the contexts and a large network: it learns them by heart.
    rng = np.random.default_rng(1)
    task = task_on(
        rng.normal(size=(60, 1)),
        rng.gamma(2.0, 2.0, (60, 1)),
        mmd_epochs=60,
        mmd_rate=3e-2,
        batch=10,
    )
    parts = np.array_split(rng.permutation(60), 3)
    rows = [np.setdiff1d(np.arange(60), part) for part in parts] + [np.arange(60)]
    start = bodies(task, 4, (64, 64))
    found = train_mmd(task, start, rows, [*parts, NOTHING], "mmd")
    *seen, best = task.log.entries
    held_out = np.array([entry["held_out"] for entry in seen])
    mean = np.mean(
        [mean_mmd(task, b, part) for b, part in zip(found, parts, strict=False)]
    )
    assert mean == pytest.approx(best["best_held_out"], rel=1e-9)
    assert mean <= held_out.min() * (1 + 1e-12)
    assert mean < held_out[-1] - 0.01
    if best["best_epoch"]:
        assert best["best_epoch"] == held_out.argmin() + 1
    # The member on all rows stopped early, too: it would have gone on to fit them.
    (late,) = train_mmd(task, start[3:], rows[3:], None, "mmd alone")
    everything = np.arange(60)
    assert (
        mean_mmd(task, found[3], everything) > mean_mmd(task, late, everything) + 0.01
    )


def test_the_members_average_is_taken_where_nothing_is_held_out():
    task = newsvendor_task(40, mmd_epochs=4, batch=40)
    start = bodies(task, 2)
    rows = [np.arange(40)] * 2
    averaged = train_mmd(task, start, rows, None, "mmd")
    same = train_mmd(task, start, rows, [NOTHING, NOTHING], "mmd")
    for one, other in zip(averaged, same, strict=True):
        assert torch.equal(one(task.contexts), other(task.contexts))
    assert not any("best_epoch" in entry for entry in task.log.entries)


def test_the_bodies_that_were_given_stay_and_a_seed_gives_the_same_again():
    task = newsvendor_task(40, mmd_epochs=2)
    start = bodies(task, 1)
    before, state = start[0](task.contexts).detach(), torch.random.get_rng_state()
    one = train_mmd(task, start, [np.arange(40)], None, "mmd")
    same = train_mmd(task, start, [np.arange(40)], None, "mmd")
    other = train_mmd(task, start, [np.arange(40)], None, "another")
    assert torch.equal(start[0](task.contexts), before)
    assert torch.equal(one[0](task.contexts), same[0](task.contexts))
    assert not torch.equal(one[0](task.contexts), other[0](task.contexts))
    assert torch.equal(torch.random.get_rng_state(), state)


class Affine(torch.nn.Module):
    """A location or scale that grows with the context."""

    def forward(self, x):
        return 20 + 5 * x


@pytest.mark.parametrize("own", [False, True])
def test_a_generator_gives_each_member_its_head_and_the_frames_of_its_rows(own):
    task = newsvendor_task(40, 3)
    head = LocationScaleHead(Affine(), Affine(), task.omega)
    heads = [head, task.head if own else head]
    start = bodies(task, 2)
    rows = np.array([[3, 1, 4], [1, 5, 9]])
    scenarios, weights = scenario_generator(task, Ensemble(start), heads)(rows)
    assert scenarios.shape == (2, 3, 3, 1) and weights.shape == (2, 3, 3)
    for s, body in enumerate(start):
        expected, _ = task.generate_scenarios(body, rows[s], heads[s])
        assert scenarios[s].detach().numpy() == pytest.approx(expected, rel=1e-12)
