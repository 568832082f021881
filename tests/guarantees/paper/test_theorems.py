"""The paper's bounds: each term by hand, complexities by drawing signs, no violations."""

import math

import numpy as np
import pytest
import torch

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg.guarantees import approximate_bound, mmd_bound, task_bound
from pyomo_csg.guarantees.paper import constants
from pyomo_csg.guarantees.paper.complexity import linear_class
from pyomo_csg.learn.distributions.distances import KERNELS, mmd_loss, resolve_kernel
from pyomo_csg.learn.networks.domains import Omega
from tests.quick import fit

SUPPORT = (13.5, 16.5)


@pytest.fixture(scope="module")
def pairs():
    return newsvendor.sample(80, seed=3)


@pytest.fixture(scope="module")
def linear(pairs):
    return fit(
        pairs, method="static", regularization="1x", network=csg.Linear(bound=0.8)
    )


def _terms(bound):
    return {term.name: term.value for term in bound.terms}


def test_the_complexity_of_the_class_is_bounded(linear, pairs):
    """For given signs the best weights are along them: their sup is in closed form."""
    found, rng = linear_class(linear.network), np.random.default_rng(0)
    standard = (
        pairs[0] - linear.network.center.numpy()
    ) / linear.network.spread.numpy()
    extended = np.column_stack([standard, np.ones(80)])
    signs = rng.choice([-1.0, 1.0], (2000, 2, 80))
    sup = 0.8 * np.linalg.norm(signs @ extended, axis=2).sum(axis=1) / 80
    drawn = float(linear.network.head.omega.spread[0]) * sup.mean()
    bound = found.complexity(80, found.radius(pairs[0]))
    assert drawn <= bound <= 4 * drawn


def test_scenarios_of_the_class_stay_within_its_reach(linear, pairs):
    found = linear_class(linear.network)
    low, high = found.reach(found.radius(pairs[0]))
    scenarios = linear.scenarios(pairs[0])
    assert (low <= scenarios).all() and (scenarios <= high).all()


def test_max_slope_bounds_the_slope_of_outcomes():
    omega = Omega([-np.inf, 0.0, 0.0], [np.inf, np.inf, 4.0], [1.0] * 3, [0.5] * 3)
    free = torch.linspace(-9, 9, 4001, dtype=torch.float64)[:, None].expand(-1, 3)
    slopes = (omega(free).diff(dim=0) / free.diff(dim=0)).abs().amax(dim=0)
    speed = omega.max_slope()
    assert (slopes <= speed + 1e-9).all() and (slopes > 0.99 * speed).all()


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_lemma_1_holds_on_random_draws(kernel):
    """The loss moves by at most 4 L_k / sqrt(K), and stays within a range of width 2 U."""
    rng, count, p = np.random.default_rng(0), 3, 2
    zeta, omega = rng.uniform(0, 4, (400, count, p)), rng.uniform(0, 4, (400, p))
    moved = np.clip(zeta + rng.normal(0, 0.1, zeta.shape), 0, 4)
    arrays = [torch.as_tensor(a) for a in (zeta, moved, omega)]
    one, other = (mmd_loss(z, arrays[2], None, KERNELS[kernel]) for z in arrays[:2])
    apart = np.linalg.norm((zeta - moved).reshape(400, -1), axis=1)
    speed = {"energy": 0.5, "gaussian": math.exp(-0.5), "laplacian": math.sqrt(p)}
    steepest = float(np.max(np.abs((one - other).numpy()) / apart))
    assert steepest <= 4 * speed[kernel] / math.sqrt(count)
    size = math.hypot(4, 4) / 2 if kernel == "energy" else 1.0
    low = 0.0 if kernel == "energy" else -1.0
    assert low <= float(one.min()) and float(one.max()) <= low + 2 * size


def test_theorem_2_for_the_mmd_loss_is_the_sum_of_its_terms(linear, pairs):
    bound = mmd_bound(linear, pairs, support=SUPPORT, delta=0.1)
    spread = linear.network.head.omega.spread.numpy()
    scaled = [
        torch.as_tensor(a / spread) for a in (linear.scenarios(pairs[0]), pairs[1])
    ]
    terms, found = _terms(bound), linear_class(linear.network)
    assert terms["mean MMD loss"] == pytest.approx(float(mmd_loss(*scaled).mean()))
    own = found.complexity(80, found.radius(pairs[0]), spread)
    assert terms["complexity"] == pytest.approx(8 * own / 2)
    assert bound.total == pytest.approx(sum(terms.values()))
    width = bound.largest
    assert terms["confidence"] == pytest.approx(width * math.sqrt(math.log(10) / 160))


def test_theorem_2_for_the_mmd_loss_uses_the_fitted_bandwidth(pairs):
    config = {"kernel": "gaussian", "bandwidth": 3.0, "mmd_epochs": 2}
    policy = fit(pairs, method="mmd", network=csg.Linear(bound=0.8), config=config)

    terms = _terms(mmd_bound(policy, pairs, support=SUPPORT))

    unit = policy.network.head.omega.spread.numpy()
    scaled = [torch.as_tensor(a / unit) for a in (policy.scenarios(pairs[0]), pairs[1])]
    losses = mmd_loss(*scaled, None, resolve_kernel("gaussian", 1, 3.0))
    assert terms["mean MMD loss"] == pytest.approx(float(losses.mean()))


def test_theorem_2_for_the_task_loss_names_the_vacuous_term(linear, pairs):
    bound = task_bound(linear, pairs, support=SUPPORT)
    losses = linear.oracle.loss(linear.scenarios(pairs[0]), pairs[1])
    assert _terms(bound)["mean task loss"] == pytest.approx(losses.mean())
    assert bound.vacuous and bound.culprit.name == "complexity"
    assert "Vacuous, because of 'complexity'" in str(bound)


def test_a_very_small_class_has_a_bound_that_is_not_vacuous(pairs):
    policy = fit(pairs, method="mmd", network=csg.Linear(bound=0.05))
    bound = task_bound(policy, pairs, support=SUPPORT)
    assert not bound.vacuous and "Not vacuous" in str(bound)


def test_terms_of_the_approximate_bound_come_from_the_fit(linear, pairs):
    bound = approximate_bound(linear, pairs, support=SUPPORT)
    terms, net = _terms(bound), linear.learned.summary["loss_net_errors"]
    assert terms["Loss-Net's error"] == net["error"]
    assert terms["mean expected loss"] == net["expected"]
    assert net["pairs"] == len(pairs[0])
    assert terms["shift"] >= net["wasserstein"] * net["lipschitz"]
    assert bound.culprit.name == "complexity of Loss-Nets" and bound.vacuous


def test_the_approximate_bound_needs_the_training_pairs(linear, pairs):
    more = [np.concatenate([part, part]) for part in pairs]
    with pytest.raises(csg.DataError, match="the policy was fitted to"):
        approximate_bound(linear, tuple(more), support=SUPPORT)


def test_bounds_hold_on_fresh_pairs():
    """Over histories of 20 pairs, beside the mean on many others."""
    contexts, demands = newsvendor.sample(400, seed=100)
    for seed in range(6):
        pairs = newsvendor.sample(20, seed=seed)
        options = {"network": csg.Linear(bound=0.8), "regularization": "1x"}
        policy = fit(pairs, method="static", **options)
        scenarios = policy.scenarios(contexts)
        losses = policy.oracle.loss(scenarios, demands)
        unit = policy.network.head.omega.spread.numpy()
        scaled = [torch.as_tensor(a / unit) for a in (scenarios, demands)]
        near = {"support": SUPPORT, "radius": 12.0}
        assert task_bound(policy, pairs, **near).total >= losses.mean()
        assert approximate_bound(policy, pairs, **near).total >= losses.mean()
        assert mmd_bound(policy, pairs, **near).total >= float(mmd_loss(*scaled).mean())


def test_an_unbounded_support_gives_an_unbounded_bound(linear, pairs):
    assert "give a bounded support" in str(mmd_bound(linear, pairs))


def test_an_unknown_lipschitz_constant_is_bounded_from_below(monkeypatch):
    monkeypatch.setattr(constants, "_MAX_BASES", 50)
    pairs = cep1.sample(30, seed=1)
    policy = fit(pairs, cep1.build(), method="mmd", network=csg.Linear(bound=0.5))
    bound = task_bound(policy, pairs, support=(0.0, 9000.0))
    assert bound.total == np.inf and "and the term at least" in str(bound)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"support": (14.9, 15.1)}, "outcomes of number 0"),
        ({"support": SUPPORT, "radius": 1.0}, "radius is 1.0"),
    ],
)
def test_bad_arguments_are_refused(linear, pairs, options, says):
    with pytest.raises(csg.DataError, match=says):
        mmd_bound(linear, pairs, **options)


def test_other_networks_are_refused(policy, history):
    with pytest.raises(csg.DataError, match="csg.Linear"):
        mmd_bound(policy, history, support=SUPPORT)


def test_learned_weights_are_refused(pairs):
    config = csg.FitConfig(weights="learned", mmd_epochs=2)
    policy = fit(pairs, method="mmd", network=csg.Linear(), config=config)
    with pytest.raises(csg.DataError, match="weights='equal'"):
        mmd_bound(policy, pairs, support=SUPPORT)


def test_a_policy_without_a_loss_net_has_no_approximate_bound(pairs):
    policy = fit(pairs, method="mmd", network=csg.Linear())
    with pytest.raises(csg.DataError, match="'static' or 'dynamic'"):
        approximate_bound(policy, pairs, support=SUPPORT)
