"""Networks, locations and scales of the user's own."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from models import newsvendor
from tests.quick import METHODS, fit, panels, portfolio


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


@pytest.mark.parametrize("method", METHODS)
def test_a_location_and_a_scale_may_be_fitted(method, tmp_path):
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1, 1, size=(120, 1))
    demands = 20 + 8 * contexts + np.exp(contexts) * rng.normal(size=(120, 1))

    policy = fit((contexts, demands), network="location-scale", method=method)

    low, high = policy.scenarios([[-0.9], [0.9]])
    assert np.ptp(low) < np.ptp(high)  # the same atoms in units of another scale
    assert low.mean() < 20 < high.mean()
    policy.save(tmp_path / "policy.csg")
    loaded = csg.load(tmp_path / "policy.csg", newsvendor.build())
    np.testing.assert_array_equal(
        loaded.scenarios(contexts), policy.scenarios(contexts)
    )


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


class UserNet(nn.Module):
    def __init__(self, count=2, layer=None):
        super().__init__()
        self.first, self.inner = nn.Linear(2, 6), layer or nn.ReLU()
        self.last = nn.Linear(6, count)

    def forward(self, x):
        return self.last(self.inner(self.first(x)))[..., None]


@pytest.mark.parametrize("method", METHODS)
def test_a_network_of_ones_own_is_trained_and_stays_as_it_is(pairs, method):
    mine = UserNet()
    before = copy.deepcopy(mine.state_dict())

    policy = fit(pairs, network=mine, method=method)

    if method != "auto":  # where a constant may win
        assert isinstance(policy.network.body, UserNet)
        assert not torch.equal(
            policy.network.body.last.weight, mine.last.weight.double()
        )
    assert all(torch.equal(before[name], x) for name, x in mine.state_dict().items())
    assert mine.last.weight.dtype == torch.float32


@pytest.mark.parametrize("method", ["auto", "mmd", "static", "direct"])
@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.BatchNorm1d(6)])
def test_layers_that_act_otherwise_in_training_are_fine(pairs, method, layer):
    torch.manual_seed(0)
    mine = UserNet(layer=layer)
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
    "of the wrong shape": (UserNet(3), r"gave \(2, 3, 1\).*expected \(2, 2, 1\)"),
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
