"""Perturbed: its gradient is that of the smoothed cost, and training on it pays."""

import numpy as np
import pyomo.environ as pyo
import pytest
import torch

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.methods.perturbed import smoothed_costs
from tests.quick import fit, shorten

NOISE = 0.5


def market():
    """Return a model whose prices are uncertain: which of three goods to stock."""
    m = pyo.ConcreteModel("market")
    m.goods = pyo.RangeSet(3)
    m.price = pyo.Param(m.goods, initialize=1.0, mutable=True, within=pyo.Reals)
    m.stock = pyo.Var(m.goods, bounds=(0, 1))
    m.sold = pyo.Var(m.goods, within=pyo.NonNegativeReals)
    m.room = pyo.Constraint(expr=pyo.quicksum(m.stock.values()) <= 1)

    @m.Constraint(m.goods)
    def available(m, i):
        return m.sold[i] <= m.stock[i]

    m.cost = pyo.Objective(expr=-pyo.quicksum(m.price[i] * m.sold[i] for i in m.goods))
    csg.annotate(m, first_stage_variables=m.stock, uncertain_params=m.price)
    return m


def prices(n, seed):
    """Return pairs in which the good with the best median is not that with the best mean."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1, 1, (n, 1))
    safe = 1 + 0.3 * contexts + 0.05 * rng.standard_normal((n, 1))
    rare = 0.5 + 5 * (rng.uniform(size=(n, 1)) < 0.2)  # median .5, mean 1.5
    other = 1 - 0.3 * contexts + 0.05 * rng.standard_normal((n, 1))
    return contexts, np.hstack([safe, rare, other])


def newsvendor_costs():
    """Return the function from scenarios (S, B, 1, 1) to costs (S, B)."""
    oracle = csg.Oracle(newsvendor.build())
    outcomes = np.array([[12.0], [18.0]])

    def costs(moved):
        size = moved.shape[:2]
        zetas = moved.reshape(-1, 1, 1).numpy()
        repeated = np.tile(outcomes, (size[0], 1))
        return oracle.loss(zetas, repeated, progress=False).reshape(size)

    return costs


def test_the_gradient_is_that_of_the_smoothed_cost():
    """Finite differences of the mean cost under the noise, by quadrature."""
    costs = newsvendor_costs()
    output = torch.tensor([[[12.2]], [[16.5]]], dtype=torch.float64, requires_grad=True)
    estimate = smoothed_costs(costs, output, 4000, NOISE, np.random.default_rng(0))
    estimate.sum().backward()

    # A uniform grid is accurate for smooth densities, also where the cost has a corner.
    nodes = np.linspace(-6, 6, 1201)
    density = np.exp(-(nodes**2) / 2)
    density /= density.sum()

    def mean_costs(shift):
        centers = output.detach().numpy()[:, 0, 0] + shift
        moved = torch.as_tensor(centers + NOISE * nodes[:, None])[..., None, None]
        return density @ costs(moved)

    step = 1e-2
    slopes = (mean_costs(step) - mean_costs(-step)) / (2 * step)
    assert output.grad.flatten().numpy() == pytest.approx(slopes, rel=0.1)
    assert estimate.detach().numpy() == pytest.approx(mean_costs(0.0), rel=0.01)
    assert slopes[0] * slopes[1] < 0  # one order is too large, the other too small


def test_the_estimate_has_no_bias_with_two_samples():
    """The control variate, a mean over the samples themselves, does not shrink it."""
    output = torch.zeros(40_000, 1, 1, dtype=torch.float64, requires_grad=True)

    def costs(moved):
        return 3 * moved[..., 0, 0].numpy() + 100

    rng = np.random.default_rng(0)
    smoothed_costs(costs, output, 2, NOISE, rng).sum().backward()

    error = float(output.grad.std()) / 200
    assert abs(float(output.grad.mean()) - 3) < 4 * error
    assert error < 0.05


def test_unsolved_samples_count_as_the_worst_of_their_row():
    output = torch.zeros(2, 1, 1, dtype=torch.float64, requires_grad=True)

    def costs(moved):
        found = moved[..., 0, 0].numpy().copy()
        found[found < 0] = np.nan
        found[:, 1] = np.nan
        return found

    losses = smoothed_costs(costs, output, 200, 1.0, np.random.default_rng(0))
    losses.sum().backward()

    assert output.grad[0].item() < -0.5  # away from where programs are not solved
    assert losses[1].item() == 0 and output.grad[1].item() == 0


def test_it_learns_prices_on_which_direct_stands_still(monkeypatch):
    shorten(monkeypatch.setattr)
    pairs, unseen = prices(120, seed=1), prices(400, seed=2)
    settings = {"hidden": (8,), "mmd_epochs": 10, "task_epochs": 8}

    def policy(method):
        options = {"scenarios": 1, "config": settings}
        return fit(pairs, market(), method=method, **options)

    def mean_cost(found):
        stock = found.decide(unseen[0], progress=False).to_numpy()
        return found.oracle.cost(stock, unseen[1], progress=False).mean()

    perturbed = csg.methods.Perturbed(samples=8, noise=1.0)
    start, direct, found = map(policy, ("mmd", "direct", perturbed))

    # Only the decay of the weights moves them.
    moved = direct.scenarios(unseen[0]) - start.scenarios(unseen[0])
    assert np.abs(moved).max() < 1e-3
    assert mean_cost(direct) == pytest.approx(mean_cost(start))
    assert mean_cost(found) < mean_cost(start) - 0.1


def test_the_same_seed_gives_the_same_policy():
    pairs, settings = prices(40, seed=1), {"mmd_epochs": 3, "task_epochs": 2}
    method = csg.methods.Perturbed(samples=4)
    found = [
        fit(pairs, market(), method=method, config=settings, seed=seed)
        for seed in (0, 0, 1)
    ]
    first, again, other = (policy.scenarios(pairs[0]) for policy in found)

    assert np.array_equal(again, first)
    assert not np.array_equal(other, first)
