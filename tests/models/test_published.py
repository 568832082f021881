"""The zoo's classics reach the optima that others published."""

import numpy as np
import pytest
from scipy.stats import norm

import pyomo_csg as csg
from models import apl1p, cep1, farmer, mnv, newsvendor, sslp
from tests import reference
from tests.solving import solve, transform


def extensive_form(model, scenarios, weights=None):
    """Return the extensive form, solved, and its value."""
    ef = transform("extensive_form", model, scenarios=scenarios, weights=weights)
    return ef, solve(ef)


def test_farmer():
    ef, optimum = extensive_form(farmer.build(), farmer.scenarios())
    assert optimum == pytest.approx(-108390)
    acres = {crop: ef.acres[crop].value for crop in ef.crops}
    assert acres == pytest.approx({"wheat": 170, "corn": 80, "beets": 250})


def test_the_farmers_value_of_the_stochastic_solution_and_of_perfect_information():
    model, years = farmer.build(), farmer.scenarios()
    _, optimum = extensive_form(model, years)
    average, _ = extensive_form(model, [years.mean(axis=0)])
    decision = [average.acres[crop].value for crop in average.crops]
    expected = np.mean(
        [
            solve(transform("recourse", model, decision=decision, outcome=w))
            for w in years
        ]
    )
    informed = np.mean([extensive_form(model, [w])[1] for w in years])
    assert expected - optimum == pytest.approx(1150)
    assert optimum - informed == pytest.approx(7015.56, abs=0.01)


def test_cep1_on_the_scenarios_of_higle_and_sen():
    _, optimum = extensive_form(cep1.build(), cep1.higle_sen_scenarios())
    assert optimum == pytest.approx(355159.9537, rel=1e-9)


def test_cep1_with_the_original_production_cost_has_the_same_optimum(monkeypatch):
    original = list(map(list, cep1.PRODUCTION_COST))
    original[1][1] = 2.4
    monkeypatch.setattr(cep1, "PRODUCTION_COST", original)
    _, optimum = extensive_form(cep1.build(), cep1.higle_sen_scenarios())
    assert optimum == pytest.approx(355159.9537, rel=1e-9)


def test_apl1p_on_all_1280_scenarios():
    ef, optimum = extensive_form(apl1p.build(), *apl1p.scenarios())
    assert optimum == pytest.approx(24642.3206, abs=1e-4)
    capacity = [ef.capacity[g].value for g in ef.generators]
    assert capacity == pytest.approx([1800, 1571.43], abs=0.01)


@pytest.mark.parametrize("seed", [0, 1])
def test_sslp_has_the_optimum_of_mpi_sppys_extensive_form(seed):
    model = sslp.build(servers=4, clients=10, seed=seed)
    scenarios = sslp.scenarios(5, clients=10, seed=seed)
    _, optimum = extensive_form(model, scenarios)
    assert optimum == pytest.approx(reference.optimum(model, scenarios), rel=1e-6)


def test_sslp_instances_of_one_seed_are_one_and_of_another_another():
    same = str(csg.TwoStageModel(sslp.build(seed=3)))
    assert str(csg.TwoStageModel(sslp.build(seed=3))) == same
    assert str(csg.TwoStageModel(sslp.build(seed=4))) != same


def test_newsvendor_orders_the_critical_quantile():
    demands, weights = newsvendor.conditional([0.3, -0.8])
    ef, _ = extensive_form(newsvendor.build(), demands, weights)
    ratio = (1.05 - 1.0) / (1.05 - 0.1)
    expected = np.quantile(demands, ratio, method="inverted_cdf")
    assert ef.order.value == pytest.approx(expected)


@pytest.mark.parametrize(
    "model, context, support, numbers",
    [(newsvendor, 2, 200, 1), (cep1, 4, 216, 3), (mnv, 10, 80, 6)],
)
def test_samplers_draw_from_their_own_conditional_distribution(
    model, context, support, numbers
):
    contexts, outcomes = model.sample(30, seed=5, generator=2)
    assert contexts.shape == (30, context) and outcomes.shape == (30, numbers)
    for x, omega in zip(contexts, outcomes, strict=True):
        possible, weights = model.conditional(x, generator=2)
        assert possible.shape == (support, numbers)
        assert weights == pytest.approx(np.full(support, 1 / support))
        assert (possible == omega).all(axis=1).any()
    assert (outcomes >= 0).all()


@pytest.mark.parametrize("model", [newsvendor, cep1, mnv])
def test_the_draws_seed_and_the_generators_seed_are_apart(model):
    first = model.sample(10, seed=1, generator=0)
    again = model.sample(10, seed=1, generator=0)
    other_world = model.sample(10, seed=1, generator=1)
    other_draw = model.sample(10, seed=2, generator=0)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert np.array_equal(first[0], other_world[0])
    assert not np.allclose(first[1], other_world[1])
    assert not np.allclose(first[0], other_draw[0])


def test_demands_have_the_mean_and_deviation_that_the_paper_states():
    _, papers = newsvendor.sample(4000, seed=0)
    assert papers.mean() == pytest.approx(15.1, abs=0.02)
    assert papers.std() == pytest.approx(0.25, abs=0.02)
    _, parts = cep1.sample(4000, seed=0)
    assert parts.mean() == pytest.approx(1500, rel=0.06)
    assert parts.std() == pytest.approx(1024.7, rel=0.15)


def test_mnv_demand_has_two_modes_and_half_as_much_signal_as_noise():
    contexts, demands = mnv.sample(4000, seed=0)
    low, high = demands[demands < 9], demands[demands > 11]
    # Means of N(5, 5/3) below 9 and of N(15, 2.5) above 11.
    assert low.mean() == pytest.approx(
        5 - 5 / 3 * norm.pdf(2.4) / norm.cdf(2.4), abs=0.1
    )
    assert high.mean() == pytest.approx(
        15 + 2.5 * norm.pdf(1.6) / norm.cdf(1.6), abs=0.1
    )
    loadings, noise_sd = mnv._demand_states(0)
    signal = (contexts @ loadings.T).var(axis=0).mean()
    assert signal / noise_sd**2 == pytest.approx(0.5, rel=0.1)


def test_mnv_makes_at_most_three_products():
    demands, _ = mnv.conditional(np.zeros(10))
    ef, _ = extensive_form(mnv.build(), demands[:3])
    made = [ef.made[i].value > 1e-6 for i in ef.products]
    assert 1 <= sum(made) <= 3
