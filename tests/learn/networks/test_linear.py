"""Linear Task-Nets with bounded weights stay within the bound."""

import numpy as np
import pytest
import torch

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.networks.task_nets import BoundedLinear
from tests.quick import fit, panels


def test_free_numbers_are_the_weights_times_the_context():
    body = BoundedLinear(3, (2, 4), bound=100.0)
    x = torch.randn(5, 3, dtype=torch.float64)
    weight = body.weight.detach().numpy()
    extended = np.column_stack([x.numpy(), np.ones(5)])
    expected = np.einsum("bd,kpd->bkp", extended, weight)
    assert np.allclose(body(x).detach().numpy(), expected)


def test_weights_that_are_too_large_count_as_if_scaled_back():
    body = BoundedLinear(3, (2, 4), bound=1.5)
    with torch.no_grad():
        body.weight[0] *= 100
        body.weight[1] *= 0.01
    norms = np.linalg.norm(body.scaled_weight().detach().numpy().reshape(2, -1), axis=1)
    assert norms[0] == pytest.approx(1.5) and norms[1] < 0.1
    assert body.norms().tolist() == pytest.approx(norms.tolist())


@pytest.mark.parametrize("method", ["mmd", "static", "dynamic", "direct"])
def test_a_fit_gives_a_network_of_the_class(method):
    policy = fit(
        newsvendor.sample(40, seed=1), method=method, network=csg.Linear(bound=0.7)
    )
    body = policy.network.body
    assert isinstance(body, BoundedLinear) and body.bound == 0.7
    assert (body.norms() <= 0.7 + 1e-12).all()


def test_new_weights_are_drawn_like_the_first_ones():
    body = BoundedLinear(4, (2, 3), bound=1.5)
    first = body.weight.detach().clone()
    body.reset_parameters()
    assert not torch.equal(body.weight, first)
    assert float(body.weight.detach().abs().max()) <= 0.5  # of four inputs


def test_a_bound_that_nothing_reaches_changes_nothing():
    data = newsvendor.sample(40, seed=1)
    one, other = (
        fit(data, method="mmd", network=csg.Linear(bound)) for bound in (50.0, 5000.0)
    )
    contexts = data[0]
    assert np.array_equal(one.scenarios(contexts), other.scenarios(contexts))


def test_a_small_bound_keeps_scenarios_near_the_mean():
    data = newsvendor.sample(40, seed=1)
    policy = fit(data, method="mmd", network=csg.Linear(bound=0.01))
    assert np.ptp(policy.scenarios(data[0])) < 0.1 * np.ptp(data[1])


def test_it_is_saved_and_loaded(tmp_path):
    data = newsvendor.sample(40, seed=1)
    policy = fit(data, method="mmd", network=csg.Linear(bound=0.7))
    policy.save(tmp_path / "linear.csg")
    loaded = csg.load(tmp_path / "linear.csg", newsvendor.build())
    assert loaded.network.body.bound == 0.7
    assert np.array_equal(loaded.scenarios(data[0]), policy.scenarios(data[0]))


def test_panels_are_refused():
    with pytest.raises(csg.DataError, match="contexts are panels"):
        contexts, outcomes = panels()
        fit((contexts, outcomes[:, :1] + 1), network=csg.Linear(), method="mmd")


@pytest.mark.parametrize("bound", [0, -1.0, float("inf"), "2"])
def test_a_bound_that_is_none_is_refused(bound):
    with pytest.raises(csg.DataError, match="number above 0"):
        csg.Linear(bound)
