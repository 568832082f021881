"""Warnings for a Loss-Net outside its data, and its size by brute force."""

import numpy as np
import pytest
import torch

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.methods.surrogate_diagnostics import complexity, lipschitz
from pyomo_csg.learn.networks.loss_net import LossNet
from tests.quick import fit


def _net(seed=0, numbers=2):
    torch.manual_seed(seed)
    net = LossNet(numbers, (6, 4), (5,))
    rng = np.random.default_rng(seed)
    losses = rng.normal(3, 2, 20)
    net.set_scaling(rng.normal(size=numbers), rng.uniform(0.5, 2, numbers), losses)
    return net


def _inputs(rng, cases, scenarios=3, numbers=2):
    zeta = rng.normal(size=(cases, scenarios, numbers))
    shares = np.full((cases, scenarios), 1 / scenarios)
    return [
        torch.as_tensor(a) for a in (zeta, shares, rng.normal(size=(cases, numbers)))
    ]


def test_no_gradient_is_longer_than_the_lipschitz_constant():
    net = _net()
    inputs = _inputs(np.random.default_rng(1), 200)
    zeta, omega = inputs[0].requires_grad_(), inputs[2].requires_grad_()
    gradients = torch.autograd.grad(net(zeta, inputs[1], omega).sum(), (zeta, omega))
    squares = sum(g.flatten(1).square().sum(1) for g in gradients)
    assert 0 < float(squares.max().sqrt()) <= lipschitz(net)


def test_the_class_s_complexity_is_bounded_on_members_that_were_drawn():
    """The mean over signs of the largest correlation, among Loss-Nets of like norms."""
    rng, m = np.random.default_rng(2), 30
    nets = [_net(seed) for seed in range(60)]
    for net in nets[1:]:
        net.set_scaling(nets[0].center, nets[0].spread, np.array([1.0, 5.0]))
    nets[0].set_scaling(nets[0].center, nets[0].spread, np.array([1.0, 5.0]))
    inputs = _inputs(rng, m)
    values = np.stack([net(*inputs).detach().numpy() - 3.0 for net in nets])
    signs = rng.choice([-1.0, 1.0], (500, m))
    drawn = (signs @ values.T / m).max(axis=1).mean()
    center, spread = nets[0].center, nets[0].spread
    points = torch.cat([inputs[0], inputs[2][:, None]], dim=1)
    standard = ((points - center) / spread).flatten(1).square().sum(1) + 1
    length = float(standard.sum().sqrt())
    largest = max(complexity(net, 3) for net in nets)
    assert 0 < drawn <= largest * length / m


@pytest.fixture(scope="module")
def pairs():
    return newsvendor.sample(80, seed=1)


@pytest.fixture(scope="module")
def policies(pairs):
    config = csg.FitConfig(
        mmd_epochs=80, task_epochs=20, loss_epochs=40, task_rate=1e-2
    )
    return {
        text: fit(pairs, method="static", regularization=text, config=config)
        for text in ("0x", "100x")
    }


def test_what_a_loss_net_expects_is_compared_with_what_comes(policies, pairs):
    found = policies["100x"].learned.summary["loss_net_errors"]
    scenarios = policies["100x"].scenarios(pairs[0])
    losses = policies["100x"].oracle.loss(scenarios, pairs[1])
    assert found["compared"] == found["cases"] == 80
    assert found["loss_here"] == pytest.approx(losses.mean())


def test_a_policy_that_runs_away_from_the_data_is_warned_of(policies):
    near, far = (p.learned.summary["loss_net_errors"] for p in policies.values())
    near, far = far, near
    assert far["shift"] > 3 * near["shift"] and far["kappa"] > near["kappa"]
    assert far["error_here"] > 2 * far["error"]
    assert "Warning: the Loss-Net is used outside" in policies["0x"].report()
    assert "Warning" not in policies["100x"].report()
    assert "Loss-Net error" in policies["100x"].report()


def test_what_was_found_survives_a_file(policies, tmp_path):
    policies["0x"].save(tmp_path / "p.csg")
    loaded = csg.load(tmp_path / "p.csg", newsvendor.build())
    assert loaded.report() == policies["0x"].report()


def test_a_fit_that_goes_on_says_the_same(pairs, tmp_path):
    how = {"method": "dynamic", "regularization": "1x", "checkpoint": tmp_path}
    first, again = (fit(pairs, **how) for _ in range(2))
    assert (
        first.learned.summary["loss_net_errors"]
        == again.learned.summary["loss_net_errors"]
    )
    assert first.learned.summary["loss_net_errors"]["cases"] == 3 * 80


def test_other_methods_have_no_loss_net(pairs):
    assert "Loss-Net" not in fit(pairs, method="mmd").report()
