"""Networks as arrays give the same scenarios as torch."""

import copy
import json
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from pyomo_csg.learn.generators.network_generator import NetworkGenerator
from pyomo_csg.learn.generators.restoration import restore_generator
from pyomo_csg.learn.networks.domains import Omega
from pyomo_csg.learn.networks.location_scale import Forecast
from pyomo_csg.learn.networks.task_nets import (
    BoundedLinear,
    Constant,
    Feedforward,
    FunctionModule,
    LocationScaleHead,
    OmegaHead,
    Recurrent,
    TaskNet,
)
from pyomo_csg.learn.networks.torch_generator import (
    TorchGenerator,
    generator_from_network,
)

INF = float("inf")
OMEGAS = {
    "one kind": Omega([0.0, 1.0], [INF, INF], [5.0, 2.0], [2.0, 0.1]),
    "every kind": Omega(
        [0.0, -INF, -1.0, -INF], [INF, 3.0, 1.0, INF], [5, 1, 0.9, -2], [2, 3, 0.5, 9]
    ),
}
BODIES = {
    "feedforward": lambda shape: Feedforward(3, shape, (8, 6)),
    "linear": lambda shape: Feedforward(3, shape, ()),
    "constant": Constant,
    "bounded": lambda shape: BoundedLinear(3, shape, 0.7),
}
X = np.random.default_rng(0).normal(size=(7, 3))
PANELS = np.random.default_rng(1).normal(size=(7, 9, 3))


def network(body, head, spread=1.0):
    """Return a Task-Net of random numbers; free ones are spread so far."""
    torch.manual_seed(0)
    net = TaskNet(body, head, torch.randn(3), torch.rand(3) + 0.5).requires_grad_(False)
    for parameter in net.body.parameters():
        parameter.copy_(spread * torch.randn_like(parameter))
    return net


def forecast(numbers, positive, context_shape=(3,)):
    """Return a forecast of random numbers, one of which is without skill."""
    found = Forecast(context_shape, numbers, (4,), positive).requires_grad_(False)
    for tensor in (found.center, found.spread, found.offset, found.unit):
        tensor.copy_(torch.rand(len(tensor)) + 0.5)
    found.skill[0] = 0.0
    return found


def in_numpy(net, x=X):
    """Return a network as a generator, which is not torch's."""
    generate = generator_from_network(net, x.shape[1:])
    assert type(generate) is NetworkGenerator
    return generate


def assert_same(net, generate, x=X, rtol=1e-12):
    with torch.no_grad():
        scenarios, weights = net(torch.as_tensor(x))
    found = generate(x)
    np.testing.assert_allclose(found[0], scenarios.numpy(), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(found[1], weights.numpy(), rtol=rtol)
    assert found[0].dtype == found[1].dtype == float


@pytest.mark.parametrize("learned", [0, 1], ids=["equal weights", "learned weights"])
@pytest.mark.parametrize("kind", OMEGAS)
@pytest.mark.parametrize("name", BODIES)
def test_scenarios_and_weights_are_those_of_torch(name, kind, learned):
    omega = OMEGAS[kind]
    shape = (5, len(omega.center) + learned)
    net = network(BODIES[name](shape), OmegaHead(omega))
    assert_same(net, in_numpy(net))
    assert_same(net, in_numpy(net), X[:1])


def test_free_numbers_far_out_stay_those_of_torch():
    net = network(BODIES["linear"]((5, 4)), OmegaHead(OMEGAS["every kind"]), 30.0)
    assert_same(net, in_numpy(net))


@pytest.mark.parametrize("name", BODIES)
def test_a_fitted_location_and_scale_are_those_of_torch(name):
    omega = OMEGAS["every kind"]
    head = LocationScaleHead(forecast(4, False), forecast(4, True), omega)
    net = network(BODIES[name]((5, 4)), head)
    assert_same(net, in_numpy(net))


@pytest.mark.parametrize("hidden", [(6, 8), (5,)])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_an_lstm_is_that_of_torch(hidden, spread):
    head = OmegaHead(OMEGAS["every kind"])
    net = network(Recurrent(3, (5, 4), hidden), head, spread).double()
    assert_same(net, in_numpy(net, PANELS), PANELS)
    assert_same(net, in_numpy(net, PANELS), PANELS[:1, :1])


def test_an_lstm_has_the_precision_that_it_was_trained_in():
    net = network(Recurrent(3, (5, 4), (6, 8)), OmegaHead(OMEGAS["every kind"]))
    assert {p.dtype for p in net.body.lstm.parameters()} == {torch.float32}
    assert_same(net, in_numpy(net, PANELS), PANELS, rtol=1e-5)
    exact = in_numpy(copy.deepcopy(net).double(), PANELS)(PANELS)[0]
    assert 0 < np.abs(in_numpy(net, PANELS)(PANELS)[0] - exact).max() < 1e-5


def test_a_forecast_by_an_lstm_is_that_of_torch():
    forecasts = (forecast(4, positive, (9, 3)) for positive in (False, True))
    head = LocationScaleHead(*forecasts, OMEGAS["every kind"])
    net = network(Constant((5, 4)), head)
    assert_same(net, in_numpy(net, PANELS), PANELS, rtol=1e-5)
    assert_same(net.double(), in_numpy(net, PANELS), PANELS)


@pytest.mark.parametrize(
    ("body", "x"),
    [
        (lambda: Feedforward(3, (5, 2), (8,)), X),
        (lambda: Recurrent(3, (5, 2), (6, 8)), PANELS),
    ],
    ids=["feedforward", "recurrent"],
)
def test_numbers_that_change_in_place_are_seen(body, x):
    net = network(body(), OmegaHead(OMEGAS["one kind"])).double()
    generate = in_numpy(net, x)
    before = generate(x)[0]
    for parameter in net.body.parameters():
        parameter.mul_(0.5)
    assert np.abs(generate(x)[0] - before).max() > 0.1
    assert_same(net, generate, x)


class Doubled(Feedforward):
    """What derives from a body may do as it likes."""

    def forward(self, x):
        return 2 * super().forward(x)


class Moved(OmegaHead):
    """So may what derives from a head."""

    def outcomes(self, free, frame):
        return 1 + self.omega(free)


def with_doubled(forecast):
    """Return a forecast whose last network may do as it likes."""
    forecast.bodies[-1] = Doubled(3, (1, 2), (4,)).requires_grad_(False)
    return forecast


OTHERS = {
    "own body": (lambda: nn.Unflatten(-1, (3, 1)), OmegaHead),
    "derived body": (lambda: Doubled(3, (5, 2), (8,)), OmegaHead),
    "derived head": (lambda: Constant((5, 2)), Moved),
    "own location": (
        lambda: Constant((5, 2)),
        lambda o: LocationScaleHead(
            FunctionModule(np.zeros_like), forecast(2, True), o
        ),
    ),
    "derived body of a forecast": (
        lambda: Constant((5, 2)),
        lambda o: LocationScaleHead(
            with_doubled(forecast(2, False)), forecast(2, True), o
        ),
    ),
    "single precision": (lambda: Constant((5, 2)).float(), OmegaHead),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_has_no_function_of_arrays_is_left_to_torch(name):
    body, head = OTHERS[name]
    net = network(body(), head(OMEGAS["one kind"]))
    generate = generator_from_network(net, (3,))
    assert type(generate) is TorchGenerator and generate.network is net


RESTORED = {
    **{name: (lambda body=body: body((5, 5)), (3,)) for name, body in BODIES.items()},
    "recurrent": (lambda: Recurrent(3, (5, 4), (6, 8)), (9, 3)),
}


@pytest.mark.parametrize("name", RESTORED)
def test_a_generator_comes_back_from_json_and_arrays_and_so_does_its_network(name):
    body, shape = RESTORED[name]
    net = network(body(), OmegaHead(OMEGAS["every kind"]))
    generate = generator_from_network(net, shape)
    description, arrays = generate.to_arrays()
    again = restore_generator(json.loads(json.dumps(description)), arrays)
    x = X if len(shape) == 1 else PANELS
    for one in (again, pickle.loads(pickle.dumps(generate))):
        for found, expected in zip(one(x), generate(x), strict=True):
            np.testing.assert_array_equal(found, expected)
        assert (one.count, one.is_weighted) == (5, name != "recurrent")
        assert one.context_shape == shape
        assert_same(one.network, one, x, rtol=1e-5 if name == "recurrent" else 1e-12)
    assert generate.network is net


def test_a_restored_network_that_changes_in_place_is_seen():
    net = network(BODIES["feedforward"]((5, 4)), OmegaHead(OMEGAS["every kind"]))
    again = restore_generator(*generator_from_network(net, (3,)).to_arrays())
    before = again(X)[0]
    for parameter in again.network.body.parameters():
        parameter.data.mul_(0.5)
    assert np.abs(again(X)[0] - before).max() > 0.1


@pytest.mark.parametrize(
    ("place", "value", "found"),
    [
        (("body", "settings", "inputs"), 2**40, "not a size"),
        (("body", "settings", "inputs"), 2**30, "takes float64"),
        (("body", "settings", "hidden"), [2**30] * 3, "no numbers for"),
        (("body", "settings", "hidden"), [1] * 10**5, "100000 numbers"),
        (("body", "settings", "shape"), [20, 1], "20 scenarios of 1 numbers"),
        (("body", "settings", "unknown"), 3, "unknown"),
        (("body", "kind"), "Forecast", "no network of kind 'Forecast'"),
        (("body", "kind"), [], "TypeError"),
        (("body",), None, "TypeError"),
        (("head", "kind"), "Other", "no head of kind 'Other'"),
        (("head", "kind"), "LocationScaleHead", "a LocationScaleHead with 'body'"),
        (("numbers",), 2**30, "takes float64"),
        (("contexts",), "3", "not a size"),
        (("context_shape",), [], "contexts have shape"),
        (("context_shape",), [9, 3], "does not take contexts of shape"),
    ],
)
def test_an_absurd_description_is_refused_before_anything_is_made(place, value, found):
    net = network(BODIES["feedforward"]((5, 4)), OmegaHead(OMEGAS["every kind"]))
    description, arrays = generator_from_network(net, (3,)).to_arrays()
    description = inner = json.loads(json.dumps(description))
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(csg.DataError, match=found):
        restore_generator(description, arrays)
