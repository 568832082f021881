"""Dynamic PCSG on a newsvendor: rounds, buffers, and results."""

import numpy as np
import pytest

from pyomo_csg.learn.methods import dynamic
from pyomo_csg.learn.methods.dynamic import ReplayBuffer, train_dynamic
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.networks.loss_net import LossSamples, train_loss_nets
from tests.learn.methods.test_mmd import bodies, newsvendor_task
from tests.learn.methods.test_static import EVERY, QUICK, true_loss

SHORT = {**QUICK, "loss_epochs": 12, "task_epochs": 3}


def samples(number):
    """Return two cases that differ by one number."""
    return LossSamples(
        np.full((2, 1, 1), number),
        np.ones((2, 1)),
        np.full((2, 1), number),
        np.array([number, number + 0.5]),
    )


def test_a_buffer_forgets_the_oldest_round():
    buffer = ReplayBuffer(3)
    kept = []
    for number in range(5):
        buffer.push(samples(float(number)))
        kept.append(buffer.samples().losses.tolist())
    assert kept == [
        [0, 0.5],
        [0, 0.5, 1, 1.5],
        [0, 0.5, 1, 1.5, 2, 2.5],
        [1, 1.5, 2, 2.5, 3, 3.5],
        [2, 2.5, 3, 3.5, 4, 4.5],
    ]
    assert buffer.samples().scenarios[:, 0, 0].tolist() == [2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_buffers_hold_what_members_planned_round_by_round(rounds):
    task = newsvendor_task(60, **SHORT)
    one, other = bodies(task, 2)
    start, rows = [one, one, other], [np.arange(40), np.arange(40), np.arange(20, 60)]
    lambdas = [0.1, 10.0, 1.0]
    result = train_dynamic(task, start, lambdas, rows, "dynamic", rounds, 3)
    # Stages are seeded by their names, so fewer rounds are the beginning of more.
    planned = [start] + [
        [f.body for f in train_dynamic(task, start, lambdas, rows, "dynamic", t, 3)]
        for t in range(rounds)
    ]
    for s, buffer in enumerate([fit.buffer for fit in result]):
        assert len(buffer.rounds) == min(rounds + 1, 3)
        for kept, bodies_then in zip(buffer.rounds, planned[-3:], strict=True):
            # The first two share a Loss-Net; they begin as one, and then they part.
            sharing = [0, 1] if s < 2 and bodies_then is not start else [s]
            found = [task.generate_scenarios(bodies_then[r], rows[r]) for r in sharing]
            scenarios = np.concatenate([one for one, _ in found])
            outcomes = task.history.outcomes[np.concatenate([rows[r] for r in sharing])]
            assert kept.scenarios == pytest.approx(scenarios, rel=1e-12)
            assert kept.outcomes == pytest.approx(outcomes)
            exact = task.oracle.loss(scenarios, outcomes)
            assert kept.losses == pytest.approx(exact, rel=1e-9)


def test_members_share_a_loss_net_where_they_start_as_one_on_the_same_rows():
    task = newsvendor_task(60, **SHORT)
    one, other = bodies(task, 2)
    start = [one, one, other, one]
    rows = [np.arange(60)] * 3 + [np.arange(40)]
    result = train_dynamic(task, start, [0.1, 10.0, 1.0, 1.0], rows, "dynamic", 1, 3)
    nets = [fit.loss_net for fit in result]
    assert [nets.index(net) for net in nets] == [0, 0, 2, 3]
    assert [len(buffer.samples()) for buffer in [fit.buffer for fit in result]] == [
        180,
        180,
        120,
        80,
    ]


def test_one_lambda_is_updated_as_long_whatever_others_there_are(monkeypatch):
    task = newsvendor_task(60, **SHORT)
    (body,), seen = bodies(task, 1), []

    def watch(task, nets, samples, stage, epochs):
        seen.append((epochs, [len(mine) for mine in samples]))
        return train_loss_nets(task, nets, samples, stage, epochs)

    monkeypatch.setattr(dynamic, "train_loss_nets", watch)
    for lambdas in ([1.0], [0.1, 10.0]):
        both = [body] * len(lambdas), lambdas, [np.arange(60)] * len(lambdas)
        train_dynamic(task, *both, "dynamic", 2, 3)

    assert seen == [(6, [120]), (4, [180]), (4, [180]), (2, [300])]


def test_dynamic_decides_better_than_mmd_on_pairs_that_nobody_has_seen():
    task = newsvendor_task(200, **QUICK)
    (body,) = train_mmd(task, bodies(task, 1), [EVERY], None, "mmd")
    result = train_dynamic(task, [body] * 2, [0.3, 1000.0], [EVERY] * 2, "d", 2, 3)
    assert true_loss(task, result[0].body) < true_loss(task, body) - 0.02
    before, _ = task.generate_scenarios(body, EVERY)
    moved = [
        np.abs(task.generate_scenarios(found, EVERY)[0] - before).mean()
        for found in [fit.body for fit in result]
    ]
    assert moved[0] > moved[1]
