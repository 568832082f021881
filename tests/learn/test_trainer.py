"""Training: batches, the schedule, and the mean of the second half."""

import numpy as np
import pytest
import torch
from torch import nn

from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import Constant, Feedforward
from pyomo_csg.learn.trainer import Schedule, row_batches, train_ensemble

RNG = np.random.default_rng(0)
X = torch.as_tensor(RNG.standard_normal((60, 2)))
Y = torch.as_tensor(X.numpy() @ [2.0, -1.0] + 3 + 0.1 * RNG.standard_normal(60))


def squares(ensemble):
    """Return the loss of a regression of Y on X."""

    def loss(rows):
        index = torch.as_tensor(rows)
        return (ensemble(X[index])[..., 0, 0] - Y[index]).square().mean(-1)

    return loss


def linear(count):
    torch.manual_seed(1)
    return [Feedforward(2, (1, 1), ()) for _ in range(count)]


def test_members_are_given_their_own_rows_each_as_often_as_any_other():
    rows = [np.arange(100), np.arange(40, 70), np.array([7, 9, 11])]
    found = row_batches(rows, 20, 5, np.random.default_rng(0))
    assert found.shape == (5, 3, 20)
    for s, mine in enumerate(rows):
        seen, counts = np.unique(found[:, s], return_counts=True)
        assert seen.tolist() == mine.tolist()
        assert counts.max() - counts.min() <= 1
    assert (np.diff(found[:, 0].flatten()) != 1).any()


def test_an_epoch_has_steps_enough_for_the_longest_rows():
    assert Schedule(3, batch=50).steps([np.arange(101), np.arange(5)]) == 3
    assert Schedule(3, batch=50).steps([np.arange(7)]) == 1


@pytest.mark.parametrize("batch", [10, 60])
def test_a_line_is_found_as_least_squares_has_it(batch):
    ensemble = Ensemble(linear(3))
    rows = [np.arange(60), np.arange(30), np.arange(30, 60)]
    schedule = Schedule(6 * batch, batch, rate=0.1, decay=0.0)
    train_ensemble(
        ensemble, squares(ensemble), rows, schedule, np.random.default_rng(0)
    )
    for mine, body in zip(rows, ensemble.members(), strict=True):
        design = np.column_stack([X.numpy()[mine], np.ones(len(mine))])
        expected = np.linalg.lstsq(design, Y.numpy()[mine], rcond=None)[0]
        layer = body.layers[0]
        found = [*layer.weight.detach().numpy()[0], layer.bias.item()]
        assert found == pytest.approx(expected, abs=2e-3 if batch == 60 else 0.02)


def test_members_end_where_each_would_alone():
    bodies = linear(3)
    together = Ensemble(bodies)
    # All rows in every batch, so that their order is of no matter.
    schedule, rows = Schedule(20, 60, rate=0.05, decay=0.01, clip=0.5), np.arange(60)
    train_ensemble(
        together, squares(together), [rows] * 3, schedule, np.random.default_rng(0)
    )
    for body, found in zip(bodies, together.members(), strict=True):
        alone = Ensemble([body])
        train_ensemble(
            alone, squares(alone), [rows], schedule, np.random.default_rng(7)
        )
        assert torch.allclose(alone.members()[0](X), found(X), atol=1e-10)


@pytest.mark.parametrize("epochs", [1, 6, 7])
def test_what_is_left_is_the_mean_of_the_second_half_of_plain_adamw(epochs):
    (body,) = linear(1)
    ensemble, seen, losses = Ensemble([body]), [], []
    schedule = Schedule(epochs, 60, rate=0.1, decay=0.01, clip=6.0)

    def after_epoch(epoch, found):
        seen.append(epoch)
        losses.append(found[0])

    train_ensemble(
        ensemble,
        squares(ensemble),
        [np.arange(60)],
        schedule,
        np.random.default_rng(0),
        after_epoch,
    )
    optimizer = torch.optim.AdamW(body.parameters(), 0.1, weight_decay=0.01)
    expected, path, norms = [], [], []
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 + np.cos(np.pi * epoch / epochs))
        optimizer.zero_grad()
        loss = (body(X)[:, 0, 0] - Y).square().mean()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(body.parameters(), 6.0).item())
        optimizer.step()
        expected.append(loss.item())
        path.append(torch.cat([p.detach().flatten() for p in body.parameters()]))
    assert epochs == 1 or max(norms) > 6 > min(norms)  # some of them are clipped
    assert seen == list(range(1, epochs + 1))
    assert losses == pytest.approx(expected, rel=1e-9)
    found = torch.cat([p.detach().flatten() for p in ensemble.parameters()])
    assert torch.allclose(found, torch.stack(path[epochs // 2 :]).mean(0), atol=1e-10)


def test_a_constant_that_has_nothing_to_learn_from_contexts_finds_the_mean():
    ensemble = Ensemble([Constant((1, 1)), Constant((1, 1))])
    rows = [np.arange(60), np.arange(10)]
    schedule = Schedule(300, 20, rate=0.1, decay=0.0)
    train_ensemble(
        ensemble, squares(ensemble), rows, schedule, np.random.default_rng(0)
    )
    for mine, body in zip(rows, ensemble.members(), strict=True):
        assert body.free.item() == pytest.approx(Y.numpy()[mine].mean(), abs=0.05)


def test_the_same_seed_gives_the_same_members_and_torchs_own_numbers_are_left_alone():
    before = torch.random.get_rng_state()
    found = []
    for seed in (0, 0, 1):
        ensemble = Ensemble(linear(2))
        torch.random.set_rng_state(before)
        schedule, rows = Schedule(2, 10), [np.arange(60)] * 2
        train_ensemble(
            ensemble, squares(ensemble), rows, schedule, np.random.default_rng(seed)
        )
        found.append(torch.cat([p.flatten() for p in ensemble.state()]))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 1, dtype=torch.float64))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x * self.weight)


def test_what_a_module_draws_depends_on_the_seed_alone():
    def trained(seed):
        ensemble = Ensemble([Dropping()])
        before = torch.random.get_rng_state()
        train_ensemble(
            ensemble,
            lambda rows: (
                (ensemble(torch.ones(1, 5, 1).double()) - 3).square().mean((1, 2))
            ),
            [np.arange(5)],
            Schedule(5, 5, rate=0.1),
            np.random.default_rng(seed),
        )
        assert torch.equal(before, torch.random.get_rng_state())
        return ensemble.members()[0].weight.item()

    first = trained(0)
    torch.rand(3)
    assert trained(0) == first != trained(1)
