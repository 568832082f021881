"""Task-Nets: shapes, starts and heads."""

import numpy as np
import pytest
import torch
from torch import nn

from pyomo_csg.learn.networks.domains import Omega
from pyomo_csg.learn.networks.task_nets import (
    Constant,
    Feedforward,
    LocationScaleHead,
    OmegaHead,
    Recurrent,
    TaskNet,
    mlp,
    scenarios_from_output,
)

INF = float("inf")
OMEGA = Omega([0, -INF], [INF, INF], [5, -1], [2, 3])
VECTORS = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)
PANELS = torch.linspace(-1, 1, 60, dtype=torch.float64).reshape(4, 5, 3)
BODIES = {
    "feedforward": (lambda shape: Feedforward(3, shape, (8,)), VECTORS),
    "linear": (lambda shape: Feedforward(3, shape, ()), VECTORS),
    "recurrent": (lambda shape: Recurrent(3, shape, (6, 8)), PANELS),
    "constant": (Constant, VECTORS),
}


def test_an_mlp_has_relu_between_its_layers_and_none_at_the_end():
    torch.manual_seed(0)
    net = mlp([3, 5, 2])
    first, second = (layer for layer in net if isinstance(layer, nn.Linear))
    hidden = np.maximum(
        VECTORS.numpy() @ first.weight.detach().numpy().T + first.bias.detach().numpy(),
        0,
    )
    expected = hidden @ second.weight.detach().numpy().T + second.bias.detach().numpy()
    assert net(VECTORS).detach().numpy() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", BODIES)
def test_a_body_gives_free_numbers_of_its_shape_in_double_precision(name):
    make, contexts = BODIES[name]
    found = make((7, 2))(contexts)
    assert found.shape == (4, 7, 2)
    assert found.dtype == torch.float64


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("numbers", [2, 3])
def test_a_body_can_start_about_given_scenarios(name, numbers):
    torch.manual_seed(0)
    make, contexts = BODIES[name]
    free = torch.tensor([[-9.0, 4.0], [0.0, 0.0], [7.0, 30.0]], dtype=torch.float64)
    body = make((3, numbers))  # the third number is a weight's logarithm
    before = body(contexts)
    body.start_at(free)
    found = body(contexts)
    assert torch.allclose(found[..., :2], free.expand(4, 3, 2), atol=1.5)
    assert torch.allclose(found[..., 2:], before[..., 2:], atol=1.0)


def test_a_recurrent_body_reads_the_panel_in_its_order():
    torch.manual_seed(0)
    body = Recurrent(3, (2, 1), (6, 8))
    _, (last, _) = body.lstm(PANELS.float())
    assert torch.allclose(body(PANELS), body.head(last[0].double()))
    assert not torch.allclose(body(PANELS), body(PANELS.flip(1)))


def test_constant_scenarios_are_the_same_for_every_context():
    body = Constant((3, 2))
    body.start_at(torch.arange(6.0).reshape(3, 2).double())
    found = body(VECTORS)
    assert found.std(0).max() == 0
    assert found[0].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_scenarios_are_the_free_numbers_in_omega_with_equal_weights():
    free = torch.linspace(-3, 3, 24, dtype=torch.float64).reshape(4, 3, 2)
    scenarios, weights = scenarios_from_output(free, OmegaHead(OMEGA), None)
    assert torch.equal(scenarios, OMEGA(free))
    assert weights.tolist() == [[1 / 3] * 3] * 4


def test_learned_weights_are_a_softmax_over_the_scenarios_of_a_context():
    free = torch.linspace(-3, 3, 36, dtype=torch.float64).reshape(4, 3, 3)
    scenarios, weights = scenarios_from_output(free, OmegaHead(OMEGA), None)
    odds = np.exp(free[..., 2].numpy())
    expected = odds / odds.sum(axis=1, keepdims=True)
    assert weights.numpy() == pytest.approx(expected, rel=1e-12)
    assert torch.equal(scenarios, OMEGA(free[..., :2]))


def test_noise_moves_scenarios_within_omega():
    free = torch.zeros(4, 3, 3, dtype=torch.float64)
    noise = torch.full((4, 3, 2), -100.0, dtype=torch.float64)
    scenarios, weights = scenarios_from_output(free, OmegaHead(OMEGA), None, noise)
    assert torch.equal(scenarios, OMEGA(noise))
    assert (scenarios[..., 0] >= 0).all() and (scenarios[..., 1] < -100).all()
    assert weights.numpy() == pytest.approx(1 / 3)


class Said(nn.Module):
    """A location or scale of its own: a context's first number times something."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, x):
        return x[:, :1] * torch.tensor(self.times, dtype=torch.float64)


def test_location_and_scale_place_atoms_and_omega_bounds_them():
    head = LocationScaleHead(Said([1.0, 2.0]), Said([3.0, 4.0]), OMEGA)
    x = torch.tensor([[1.0, 9.0], [2.0, 9.0]], dtype=torch.float64)
    atoms = torch.tensor([[1.0, 1.0], [-5.0, -5.0]]).double().expand(2, 2, 2)
    scenarios, _ = scenarios_from_output(atoms, head, head.context_terms(x))
    # 1 + 3, 2 + 4 and 1 - 15, which the domain brings to 0, and 2 - 20; then twice that.
    assert scenarios.tolist() == [[[4, 6], [0, -18]], [[8, 12], [0, -36]]]
    stacked = scenarios_from_output(
        atoms.expand(5, 2, 2, 2), head, head.context_terms(x).expand(5, 2, 2, 2)
    )
    assert torch.equal(stacked[0][4], scenarios)


def test_a_task_net_standardizes_for_its_body_and_not_for_its_head():
    torch.manual_seed(0)
    x = torch.tensor([[10.0, -4.0, 0.5], [12.0, -8.0, 0.5]], dtype=torch.float64)
    center, spread = np.array([11.0, -6.0, 0.5]), np.array([1.0, 2.0, 1.0])
    body = Feedforward(3, (2, 2), (8,))
    head = LocationScaleHead(Said([1.0, 2.0]), Said([0.0, 0.0]), OMEGA)
    scenarios, _ = TaskNet(body, head, center, spread)(x)
    assert scenarios[:, 0].tolist() == [[10, 20], [12, 24]]
    scenarios, _ = TaskNet(body, OmegaHead(OMEGA), center, spread)(x)
    standard = torch.tensor([[-1.0, 1.0, 0.0], [1.0, -1.0, 0.0]], dtype=torch.float64)
    assert torch.allclose(scenarios, OMEGA(body(standard)), rtol=1e-12)
