"""Omega: outcomes are within the domains, and free numbers are in standard deviations."""

import math

import numpy as np
import pyomo.environ as pyo
import pytest
import torch

import pyomo_csg as csg
from pyomo_csg.learn.networks.domains import Omega, build_omega, standard_spread

INF = math.inf
# One of each kind: nowhere bounded, from below, from above, between; spread 2.
OMEGA = Omega([-INF, 1, -INF, 0], [INF, INF, 9, 10], [5, 5, 5, 4], [2, 2, 2, 2])
FREE = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None].expand(9, 4)


def test_no_free_number_leaves_its_bounds():
    free = torch.tensor([-1e6, -40, -3, 0, 3, 40, 1e6], dtype=torch.float64)
    found = OMEGA(free[:, None].expand(7, 4))
    assert torch.isfinite(found).all()
    assert (found >= OMEGA.lower).all() and (found <= OMEGA.upper).all()
    assert (found.diff(dim=0) >= 0).all()


def test_rounding_takes_nothing_out_of_an_interval():
    ends = np.random.default_rng(0).uniform(-1, 1, (2, 1000)).round(3)
    ends = np.sort(ends, axis=0)
    assert (ends[0] + (ends[1] - ends[0]) > ends[1]).any()  # as it would
    omega = Omega(*ends, ends.mean(axis=0), np.full(1000, 0.1))
    found = omega(torch.tensor([[-1e9], [1e9]], dtype=torch.float64).expand(2, 1000))
    assert (found >= omega.lower).all() and (found <= omega.upper).all()


def test_zero_becomes_the_center():
    found = OMEGA(torch.zeros(4, dtype=torch.float64))
    assert found.tolist() == pytest.approx([5, 5, 5, 4], rel=1e-12)


def test_a_unit_is_about_a_spread_near_the_center():
    free = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    OMEGA(free).sum().backward()
    slopes = (free.grad / OMEGA.spread).tolist()
    # A softplus whose center is two spreads from its bound has the slope 1 - exp(-2).
    steep = 1 - math.exp(-2)
    assert slopes == pytest.approx([1, steep, steep, 1], rel=1e-12)


def test_the_inverse_undoes_it_and_is_undone():
    assert torch.allclose(OMEGA.inverse(OMEGA(FREE)), FREE, atol=1e-10)
    outcomes = torch.tensor([[-50, 1.5, -50, 0.1], [80, 70, 8.5, 9.9]]).double()
    assert torch.allclose(OMEGA(OMEGA.inverse(outcomes)), outcomes, atol=1e-8)


def test_the_inverse_of_what_is_not_allowed_is_near_the_bound():
    outcomes = torch.tensor([[0.0, -5, 20, -3], [0.0, 1, 9, 10]]).double()
    found = OMEGA(OMEGA.inverse(outcomes))
    assert torch.isfinite(found).all()
    assert torch.allclose(found, OMEGA.project(outcomes), atol=0.05)


@pytest.mark.parametrize("method", ["forward", "inverse"])
def test_gradients_agree_with_differences(method):
    start = FREE if method == "forward" else OMEGA(FREE)
    inputs = start.clone().requires_grad_()
    assert torch.autograd.gradcheck(getattr(OMEGA, method), inputs)


def test_gradients_are_finite_however_far_out():
    free = torch.tensor([[-1e4], [1e4]], dtype=torch.float64).expand(2, 4).clone()
    free.requires_grad_()
    OMEGA(free).sum().backward()
    assert torch.isfinite(free.grad).all()


def test_a_number_that_its_domain_pins_stays_there():
    omega = Omega([3.0], [3.0], [3.0], [1.0])
    free = torch.tensor([[-2.0], [0.0], [2.0]], dtype=torch.float64, requires_grad=True)
    found = omega(free)
    found.sum().backward()
    assert found.flatten().tolist() == [3.0, 3.0, 3.0]
    assert torch.isfinite(free.grad).all()
    assert torch.isfinite(omega.inverse(found.detach())).all()


def annotated(domain, value):
    m = pyo.ConcreteModel()
    m.w = pyo.Param([1, 2], within=domain, mutable=True, initialize=value)
    m.y = pyo.Var(bounds=(0, 1))
    m.z = pyo.Var(bounds=(0, None))
    m.c = pyo.Constraint(expr=m.z >= m.w[1] + m.w[2] - m.y)
    m.o = pyo.Objective(expr=m.y + 2 * m.z)
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    return csg.TwoStageModel(m)


@pytest.mark.parametrize(
    ("domain", "lower", "upper"),
    [
        (pyo.Reals, -INF, INF),
        (pyo.Any, -INF, INF),
        (pyo.NonNegativeReals, 0, INF),
        (pyo.NonPositiveReals, -INF, 0),
        (pyo.UnitInterval, 0, 1),
        (pyo.PercentFraction, 0, 1),
        (pyo.RealSet(bounds=(-2, 5)), -2, 5),
    ],
)
def test_omega_is_read_off_the_params_domain(domain, lower, upper):
    sign = -1 if upper == 0 else 1
    outcomes = sign * np.array([[0.25, 0.5], [0.5, 0.5], [0.75, 0.5]])
    omega = build_omega(annotated(domain, sign * 0.5), outcomes)
    assert omega.lower.tolist() == [lower] * 2
    assert omega.upper.tolist() == [upper] * 2
    assert omega.center.tolist() == pytest.approx([sign * 0.5] * 2)
    assert omega.spread.tolist() == pytest.approx([outcomes[:, 0].std(), 1.0])
    free = torch.tensor([[-1e5], [0.0], [1e5]]).double().expand(3, 2)
    assert all(value in domain for value in omega(free).flatten().tolist())


@pytest.mark.parametrize(
    ("domain", "sign"), [(pyo.PositiveReals, 1), (pyo.NegativeReals, -1)]
)
def test_an_open_bound_is_never_reached(domain, sign):
    outcomes = sign * np.array([[0.25, 300.0], [0.5, 500.0], [0.75, 900.0]])
    omega = build_omega(annotated(domain, sign * 0.5), outcomes)
    free = torch.tensor([[-1e5], [1e5]]).double().expand(2, 2)
    assert all(value in domain for value in omega(free).flatten().tolist())


def test_the_spread_is_the_standard_deviation_or_one_where_nothing_varies():
    values = np.array([[1.0, 7.0, 1e9], [3.0, 7.0, 1e9], [8.0, 7.0, 1e9]])
    assert standard_spread(values) == pytest.approx([values[:, 0].std(), 1, 1])
    panels = np.random.default_rng(0).normal(size=(6, 5, 2))
    assert standard_spread(panels) == pytest.approx(panels.reshape(-1, 2).std(axis=0))
