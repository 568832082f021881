"""Losses, distances and Loss-Nets of the user's, and regrets."""

import numpy as np
import ot
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.methods import labels
from tests.fitting.test_own_distribution import COST, PRICE, Normal, shop
from tests.quick import fit

methods = csg.methods


@pytest.fixture
def labeled(monkeypatch):
    """Return a list that gets the scenarios, outcomes and losses of all labels."""
    found = []
    label = labels.label_losses

    def record(task, stage, scenarios, outcomes, *rest):
        losses = label(task, stage, scenarios, outcomes, *rest)
        found.append((scenarios, outcomes, losses))
        return losses

    monkeypatch.setattr(labels, "label_losses", record)
    return found


@pytest.fixture(scope="module")
def demands():
    rng = np.random.default_rng(0)
    contexts = rng.uniform(0, 1, (40, 1))
    return contexts, 100 + 20 * contexts + 10 * rng.uniform(size=(40, 1))


def orders(scenarios):
    """Return the shop's best orders for two equally likely demands."""
    return scenarios.min(axis=(1, 2))  # the 40 % quantile of two is the lower one


def costs(scenarios, outcomes):
    made = orders(scenarios)
    return COST * made - PRICE * np.minimum(made, outcomes[:, 0])


@pytest.mark.parametrize("kind", [methods.Static, methods.Dynamic])
def test_regrets_are_costs_above_those_of_the_known_demand(demands, labeled, kind):
    fit(demands, shop(), method=kind(regret=True))
    for scenarios, outcomes, losses in labeled:
        best = (COST - PRICE) * outcomes[:, 0]
        assert losses == pytest.approx(costs(scenarios, outcomes) - best, abs=1e-6)
        assert (losses >= -1e-9).all()


@pytest.mark.parametrize("regret", [False, True])
def test_a_function_is_the_loss_of_labels(demands, labeled, regret):
    def squared_error(decisions, outcomes, costs):
        return (decisions[:, 0] - outcomes[:, 0]) ** 2 + costs

    policy = fit(
        demands, shop(), method=methods.Static(loss_kind=squared_error, regret=regret)
    )
    for scenarios, outcomes, losses in labeled:
        mine = costs(scenarios, outcomes)
        mine = mine - regret * (COST - PRICE) * outcomes[:, 0]
        wanted = (orders(scenarios) - outcomes[:, 0]) ** 2 + mine
        assert losses == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    identity = policy.learned.summary["identity"]
    assert identity["loss_kind"].endswith("squared_error")
    assert identity.get("regret", False) == regret


def test_direct_follows_the_gradient_of_a_function(demands):
    """An order 15 below the demand is best for this loss, whatever it costs."""

    def below(decisions, outcomes, costs):
        return (decisions[:, 0] - (outcomes[:, 0] - 15)) ** 2 / 100

    config = {"mmd_epochs": 2, "task_epochs": 60, "task_rate": 0.1, "batch": 4}
    policy = fit(
        tuple(part[:12] for part in demands),
        shop(),
        scenarios=1,
        method=methods.Direct(loss_kind=below),
        network="constant",
        config={**config, "noise": 0.02},
        distribution=Normal(),
    )
    assert policy.decide([0.5]).vector == pytest.approx([105], abs=1.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"loss_kind": "best"}, "loss_kind is 'best'; give one of"),
        ({"regret": 1}, "regret is 1; give True or False"),
        ({"loss_net": 3}, "loss_net is a int; give a torch.nn.Module"),
    ],
)
def test_settings_are_checked(options, said):
    with pytest.raises(csg.DataError, match=said):
        methods.Static(**options)


def test_direct_takes_no_kind_without_a_gradient_of_its_own():
    with pytest.raises(csg.DataError, match="give 'recourse' or a function"):
        methods.Direct(loss_kind="optimistic")


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda y, w, c: c.sum(), r"shape \(\); return a tensor \(\d+,\)"),
        (lambda y, w, c: 3.0, r"gave a float of shape \(\); return a tensor"),
        (lambda y, w, c: c.numpy(), r"gave a ndarray of shape \(\d+,\); return"),
        (lambda y, w, c: c * torch.nan, "gave nan in case 0"),
        (lambda y, w, c: y @ w, "gave an error"),
    ],
)
def test_what_a_function_returns_is_checked(demands, loss, said):
    with pytest.raises(csg.DataError, match=said):
        fit(demands, shop(), method=methods.Static(loss_kind=loss))


def test_a_function_without_a_gradient_is_refused_where_one_is_followed(demands):
    detached = methods.Direct(loss_kind=lambda y, w, c: c.detach())
    with pytest.raises(csg.DataError, match="a tensor without a gradient; make it of"):
        fit(demands, shop(), method=detached)


def sinkhorn(weights, scenarios, shares, outcomes):
    """Return debiased entropic transport costs, by POT."""

    def cost(a, x, b, y):
        squares = ((x[:, None] - y[None]) ** 2).sum(-1)
        return ot.sinkhorn2(a, b, squares, reg=0.2, numItermax=40, warn=False)

    cases = zip(weights, scenarios, shares, outcomes, strict=True)
    return torch.stack(
        [
            cost(a, x, b, y) - cost(a, x, a, x) / 2 - cost(b, y, b, y) / 2
            for a, x, b, y in cases
        ]
    )


def test_scenarios_are_trained_on_a_sinkhorn_distance(demands):
    """Two scenarios of a normal distribution, at the means of its halves."""
    policy = fit(
        tuple(part[:10] for part in demands),
        shop(),
        method=methods.MMD(distance=sinkhorn),
        network="constant",
        distribution=Normal(),
        config={"mmd_epochs": 60, "mmd_rate": 5e-2, "batch": 5},
    )
    draws = Normal().sample([0.0], 200)
    middle = np.median(draws)
    halves = [draws[draws < middle].mean(), draws[draws >= middle].mean()]
    found = np.sort(policy.scenarios([0.5]).ravel())
    assert found == pytest.approx(halves, abs=1.5)


def test_a_distance_replaces_the_mmd_loss_everywhere(demands):
    """The squared distance to one outcome is least at the mean, not at the median."""
    calls = []

    def squared(weights, scenarios, shares, outcomes):
        calls.append(tuple(scenarios.shape))
        apart = scenarios[:, :, None] - outcomes[:, None]
        return torch.einsum("bk,bm,bkmp->b", weights, shares, apart**2)

    skewed = np.random.default_rng(0).exponential(10, (200, 1))
    policy = fit(
        (np.zeros((200, 1)), skewed),
        newsvendor.build(),
        scenarios=1,
        method="mmd",
        network="constant",
        config={"mmd_epochs": 60, "mmd_rate": 5e-2, "batch": 10, "distance": squared},
    )
    found, mean = policy.scenarios([0.0]).item(), skewed.mean()
    assert abs(found - mean) < 0.15 * abs(mean - np.median(skewed))
    assert policy.learned.summary["settings"]["distance"].endswith("squared")
    calls.clear()
    fit(
        demands,
        shop(),
        method=methods.Static("0.1x"),
        config={"distance": squared, "mmd_epochs": 2, "task_epochs": 1},
    )
    assert {len(shape) for shape in calls} == {3}


@pytest.mark.parametrize(
    ("distance", "said"),
    [
        (lambda a, x, b, y: x.sum(), "gave an error"),
        (lambda a, x: x, "gave an error"),
        (
            lambda a, x, b, y: (x[:, 0] - y[:, 0]).norm(dim=-1) * np.inf,
            "return numbers",
        ),
        (
            lambda a, x, b, y: ((x[:, 0] - y[:, 0]) ** 2).sum(-1).sqrt(),
            "not finite where points coincide; add a small number",
        ),
        (lambda a, x, b, y: x.detach().sum((1, 2)), "gave an error"),
    ],
)
def test_what_a_distance_returns_is_checked(demands, distance, said):
    with pytest.raises(csg.DataError, match=said):
        fit(demands, shop(), method=methods.MMD(distance=distance))


class Pooled(nn.Module):
    """A Loss-Net of sums and products, for any number of scenarios."""

    def __init__(self, numbers):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3 * numbers, 16), nn.Tanh(), nn.Linear(16, 1)
        )

    def forward(self, scenarios, weights, outcomes):
        mean = (weights[..., None] * scenarios).sum(-2)
        least = scenarios.min(-2).values
        return self.layers(torch.cat([mean, least, outcomes], -1))[..., 0]


@pytest.mark.parametrize("kind", [methods.Static, methods.Dynamic])
def test_a_module_takes_the_place_of_the_loss_net(demands, kind, tmp_path):
    torch.manual_seed(0)
    module = Pooled(1)
    before = [value.clone() for value in module.parameters()]
    config = {"mmd_epochs": 10, "loss_epochs": 150, "loss_rate": 1e-2, "task_epochs": 2}
    policy = fit(
        demands,
        shop(),
        method=kind(loss_net=module),
        config={**config, "rounds": 1},
        checkpoint=tmp_path,
    )
    summary = policy.learned.summary
    predicted, true = (np.array(summary["loss_net"][x]) for x in ("predicted", "true"))
    # It has learned: far less error than the losses vary.
    assert np.abs(predicted - true).mean() < 0.4 * true.std()
    assert all(
        torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True)
    )
    again = fit(
        demands,
        shop(),
        method=kind(loss_net=module),
        config={**config, "rounds": 1},
        checkpoint=tmp_path,
    )
    assert (again.scenarios([0.5]) == policy.scenarios([0.5])).all()


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (nn.Linear(1, 1), "loss_net gave an error"),
        (Pooled(2), "loss_net gave an error"),
        (nn.Bilinear(1, 1, 1), "loss_net gave an error"),
    ],
)
def test_a_loss_net_is_checked_before_training(demands, module, said):
    with pytest.raises(csg.DataError, match=said):
        fit(demands, shop(), method=methods.Static(loss_net=module))
