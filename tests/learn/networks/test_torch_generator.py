"""Networks described in JSON and restored: the same shapes and the same outputs."""

import json

import pytest
import torch
from torch import nn

import pyomo_csg as csg
from pyomo_csg.learn.generators.network_description import custom_parts
from pyomo_csg.learn.networks import torch_generator
from pyomo_csg.learn.networks.domains import Omega
from pyomo_csg.learn.networks.location_scale import Forecast
from pyomo_csg.learn.networks.task_nets import (
    Constant,
    Feedforward,
    LocationScaleHead,
    OmegaHead,
    Recurrent,
    TaskNet,
)
from pyomo_csg.learn.networks.torch_generator import describe_network, restore_network

OMEGA = ([0.0, -float("inf")], [float("inf"), 4.0], [1.0, 2.0], [0.5, 1.5])


class Own(nn.Module):
    """A user's own module."""

    def __init__(self, units=3):
        super().__init__()
        self.layer = nn.Linear(3, units).double()

    def forward(self, x):
        return self.layer(x)[:, :2]


class Settled(nn.Module):
    """A module that keeps the arguments of its constructor."""

    def __init__(self, context_shape, numbers, hidden, positive):
        super().__init__()
        self.settings = {
            "context_shape": context_shape,
            "numbers": numbers,
            "hidden": hidden,
            "positive": positive,
        }
        self.layer = nn.Linear(context_shape[-1], numbers).double()
        self.register_buffer("offset", torch.zeros(numbers, dtype=torch.float64))

    def forward(self, x):
        return self.layer(x).abs() + self.offset


@pytest.fixture
def settled(monkeypatch):
    """Make the class known for one test."""
    monkeypatch.setattr(torch_generator, "_KINDS", dict(torch_generator._KINDS))
    return torch_generator.buildable(Settled)


def network(body, head=OmegaHead, seed=0):
    """Return a network with random weights, of three context and two other numbers."""
    torch.manual_seed(seed)
    net = TaskNet(body(), head(Omega(*OMEGA)), torch.randn(3), torch.rand(3) + 0.5)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter))
    return net


def by_json(description):
    """Return a description as it comes back from a file."""
    return json.loads(json.dumps(description))


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (lambda: Feedforward(3, (4, 2), (5, 6)), (3,)),
        (lambda: Feedforward(3, (1, 3), ()), (3,)),
        (lambda: Recurrent(3, (4, 2), (5, 6)), (7, 3)),
        (lambda: Recurrent(3, (4, 2), [5]), (7, 3)),
        (lambda: Constant((4, 3)), (3,)),
    ],
)
def test_a_network_is_the_same_after_its_description_went_through_json(body, shape):
    net = network(body)
    again = restore_network(by_json(describe_network(net)), net.state_dict())
    x = torch.randn(8, *shape, dtype=torch.float64)
    for one, other in zip(net(x), again(x), strict=True):
        assert torch.equal(one, other)
    assert describe_network(again) == describe_network(net)


def test_location_and_scale_are_described_with_their_settings(settled):
    def head(omega):
        location = settled((3,), 2, (4,), False)
        return LocationScaleHead(location, settled((3,), 2, (4,), True), omega)

    net = network(lambda: Constant((4, 2)), head)
    description = by_json(describe_network(net))
    assert description["head"]["scale"] == {
        "kind": "Settled",
        "settings": {
            "context_shape": [3],
            "numbers": 2,
            "hidden": [4],
            "positive": True,
        },
    }
    again = restore_network(description, net.state_dict())
    x = torch.randn(8, 3, dtype=torch.float64)
    assert torch.equal(again(x)[0], net(x)[0])


@pytest.mark.parametrize("shape", [(3,), (7, 3)])
def test_fitted_forecasts_come_back_with_their_scaling(shape):
    def head(omega):
        location = Forecast(shape, 2, (4, 5), False)
        return LocationScaleHead(location, Forecast(shape, 2, (4,), True), omega)

    net = network(lambda: Constant((4, 2)), head)
    net.head.location.unit.fill_(3.0)
    net.head.scale.offset.fill_(0.5)
    again = restore_network(by_json(describe_network(net)), net.state_dict())
    x = torch.randn(8, *shape, dtype=torch.float64)
    assert torch.equal(again(x)[0], net(x)[0])
    assert not torch.equal(again(x)[0], again(x - 1)[0])


def test_a_users_own_module_is_named_and_must_be_given():
    net = network(
        lambda: Constant((4, 2)), lambda o: LocationScaleHead(Own(), Own(), o)
    )
    description = by_json(describe_network(net))
    assert description["head"]["location"] == {"kind": "custom", "class": "Own"}
    assert custom_parts(description) == {"location": "Own", "scale": "Own"}
    with pytest.raises(csg.DataError, match="its location is a module of your own"):
        restore_network(description, net.state_dict())
    mine = {"location": Own(), "scale": Own()}
    before = mine["scale"].layer.weight.clone()
    again = restore_network(description, net.state_dict(), mine)
    x = torch.randn(8, 3, dtype=torch.float64)
    assert torch.equal(again(x)[0], net(x)[0])
    assert torch.equal(mine["scale"].layer.weight, before)  # a copy was taken


def test_a_subclass_of_a_known_network_is_a_users_own():
    class Mine(Feedforward):
        pass

    description = describe_network(network(lambda: Mine(3, (4, 2))))
    assert description["body"] == {"kind": "custom", "class": "Mine"}


def test_a_module_of_another_class_is_told(caplog):
    net = network(Own)
    restore_network(describe_network(net), net.state_dict(), {"body": Own()})
    assert not caplog.records
    restore_network(
        describe_network(net),
        net.state_dict(),
        {"body": nn.ModuleDict({"layer": Own().layer})},
    )
    assert "of class 'Own'; the one given is of class 'ModuleDict'" in caplog.text


def test_numbers_that_do_not_fit_are_listed():
    net = network(lambda: Feedforward(3, (4, 2), (5,)))
    state = net.state_dict()
    state["body.layers.0.weight"] = torch.zeros(6, 3, dtype=torch.float64)
    state["center"] = state["center"].float()
    state["more"] = state.pop("spread")
    with pytest.raises(csg.DataError) as error:
        restore_network(describe_network(net), state)
    assert error.value.problems == (
        "there are no numbers for 'spread'",
        "the network has no place for 'more'",
        "'center' is float32 (3,); the network takes float64 (3,)",
        "'body.layers.0.weight' is float64 (6, 3); the network takes float64 (5, 3)",
    )


@pytest.mark.parametrize(
    ("place", "value", "found"),
    [
        (("body", "settings", "inputs"), 2**40, "not a size"),
        (("body", "settings", "inputs"), -1, "not a size"),
        (("body", "settings", "inputs"), 2**30, "takes float64"),
        (("body", "settings", "hidden"), [2**30, 2**30, 2**30], "no numbers for"),
        (("body", "settings", "hidden"), [1] * 10**5, "100000 numbers"),
        (("body", "settings", "hidden"), [[1]], "not a size"),
        (("body", "settings", "shape"), [2**30, 2**30], "takes float64|RuntimeError"),
        (("body", "settings", "shape"), "wide", "not a size"),
        (("body", "settings", "unknown"), 3, "unknown"),
        (("body", "kind"), "Linear", "no network of kind 'Linear'"),
        (("body", "kind"), [], "TypeError"),
        (("head", "kind"), "Other", "no head of kind 'Other'"),
        (("numbers",), 2**30, "takes float64"),
        (("contexts",), "3", "not a size"),
    ],
)
def test_an_absurd_description_is_refused_before_anything_is_made(place, value, found):
    net = network(lambda: Feedforward(3, (4, 2), (5,)))
    description = by_json(describe_network(net))
    inner = description
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(csg.DataError, match=found):
        restore_network(description, net.state_dict())


def test_restoring_leaves_the_random_numbers_alone():
    net = network(lambda: Feedforward(3, (4, 2)))
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    restore_network(describe_network(net), net.state_dict())
    assert torch.equal(torch.rand(1), expected)


def test_a_head_of_the_users_own_cannot_be_described():
    class Head(OmegaHead):
        pass

    with pytest.raises(csg.DataError, match="its head is a Head"):
        describe_network(network(lambda: Constant((4, 2)), Head))
