"""The larger models: their sizes, recourse under any outcome, and their samplers."""

import numpy as np
import pytest
from scipy.stats import kstest

import pyomo_csg as csg
from models import facility_location, production, resource_allocation, unit_commitment

MODELS = [unit_commitment, facility_location, production, resource_allocation]


def name_of(model):
    return model.__name__.split(".")[-1]


@pytest.fixture(params=MODELS, ids=name_of)
def model(request):
    return request.param


@pytest.mark.parametrize(
    "model, first, binary, numbers, context",
    [
        (unit_commitment, 240, 240, 24, 10),
        (facility_location, 20, 10, 20, 5),
        (production, 63, 30, 40, 8),
        (resource_allocation, 20, 0, 30, 3),
    ],
    ids=map(name_of, MODELS),
)
def test_has_the_size_that_the_page_states(model, first, binary, numbers, context):
    two_stage = csg.TwoStageModel(model.build())
    assert len(two_stage.first_stage_variables) == first
    assert sum(v.is_binary() for v in two_stage.first_stage_variables) == binary
    assert all(v.is_continuous() for v in two_stage.recourse_variables)
    assert len(two_stage.uncertain_params) == numbers
    contexts, outcomes = model.sample(7, seed=1)
    assert contexts.shape == (7, context) and outcomes.shape == (7, numbers)


def test_every_decision_has_recourse_under_extreme_outcomes(model):
    _, outcomes = model.sample(40, seed=3)
    oracle = csg.Oracle(model.build(), options={"mip_rel_gap": 0.01})
    low, high = outcomes.min(axis=0), outcomes.max(axis=0)
    decisions = oracle.solve(
        np.stack([outcomes[:1], low[None], high[None], 0 * low[None]]), progress=False
    ).decision
    draws = np.random.default_rng(0).random((6, outcomes.shape[1])) < 0.5
    extremes = np.vstack([0 * low, 10 * high, low, high, draws * 10 * high])
    for decision in decisions:
        repeated = np.tile(decision, (len(extremes), 1))
        costs = oracle.cost(repeated, extremes, progress=False)
        assert np.isfinite(costs).all()


def test_a_seed_gives_the_same_rows_and_another_gives_others(model):
    first, again = model.sample(5, seed=1), model.sample(5, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.allclose(first[0], model.sample(5, seed=2)[0])
    x = first[0][0]
    given = model.sample_given(x, 4, seed=1)
    assert np.array_equal(given, model.sample_given(x, 4, seed=1))
    assert not np.allclose(given, model.sample_given(x, 4, seed=1, generator=1))


def test_rows_come_from_the_conditional_distribution(model):
    contexts, outcomes = model.sample(400, seed=4)
    ranks = [
        (model.sample_given(x, 200, seed=i) < outcome).mean(axis=0)
        for i, (x, outcome) in enumerate(zip(contexts, outcomes, strict=True))
    ]
    p_values = [kstest(column, "uniform").pvalue for column in np.transpose(ranks)]
    assert min(p_values) > 1e-4 / len(p_values)
    shuffled = [
        (model.sample_given(x, 200, seed=i) < outcome).mean(axis=0)
        for i, (x, outcome) in enumerate(zip(contexts, outcomes[::-1], strict=True))
    ]
    wrong = [kstest(column, "uniform").pvalue for column in np.transpose(shuffled)]
    assert min(wrong) < 1e-4 / len(wrong)


def test_outcomes_lie_in_the_domains_of_their_params(model):
    _, outcomes = model.sample(2000, seed=5)
    assert np.isfinite(outcomes).all() and (outcomes >= 0).all()
    if model is production:
        assert (outcomes[:, :30] < 1).all()


class TestResourceAllocation:
    @pytest.mark.parametrize("degree", [0.5, 1.0, 2.0])
    def test_demands_follow_the_power_with_errors_of_deviation_five(self, degree):
        x = np.array([0.5, 1.2, 0.3])
        intercept, slopes, _, _ = resource_allocation._demand_model(0, 1)
        drawn = resource_allocation.sample_given(x, 40_000, seed=1, degree=degree)
        expected = intercept + x**degree @ slopes
        assert np.abs(drawn.mean(axis=0) - expected).max() < 5 * 5 / np.sqrt(40_000)
        assert np.allclose(drawn.std(axis=0), 5, rtol=0.03)

    def test_covariates_are_folded_standard_normal(self):
        contexts, _ = resource_allocation.sample(20_000, seed=1, covariates=10)
        assert contexts.shape == (20_000, 10) and contexts.min() >= 0
        assert np.allclose((contexts**2).mean(axis=0), 1, atol=0.06)
        assert np.allclose(contexts.mean(axis=0), np.sqrt(2 / np.pi), atol=0.03)

    def test_at_a_higher_spread_half_of_the_errors_are_larger(self):
        _, _, exponents, medians = resource_allocation._demand_model(0, 3)
        contexts, _ = resource_allocation.sample(20_000, seed=2)
        variance = np.exp(np.log1p(contexts) @ exponents) / medians
        assert np.allclose((variance > 1).mean(axis=0), 0.5, atol=0.03)
        _, _, flat, one = resource_allocation._demand_model(0, 1)
        assert not flat.any() and (one == 1).all()


class TestFacilityLocation:
    def test_noise_leaves_the_mean_and_grows_with_the_last_number(self):
        calm, rough = np.zeros((2, 5))
        calm[-1], rough[-1] = -3, 3
        world = facility_location._economy(0)
        for x, sd in ((calm, 0.15 + 0.2 / (1 + np.e**3)), (rough, 0.15 + 0.2 / (1 + np.e**-3))):  # fmt: skip
            drawn = facility_location.sample_given(x, 40_000, seed=1)
            bent = x @ world["slopes"] + 0.4 * np.abs(x @ world["kinks"])
            expected = world["base"] * np.exp(0.5 * np.tanh(bent))
            assert np.allclose(drawn.mean(axis=0), expected, rtol=0.01)
            assert np.allclose(np.log(drawn).std(axis=0), sd, rtol=0.03)


class TestUnitCommitment:
    def test_days_follow_one_another(self):
        contexts, loads = unit_commitment.sample(60, seed=2)
        column = {name: i for i, name in enumerate(unit_commitment.CONTEXT)}
        before = contexts[:, column["load_before"]]
        assert np.allclose(before[1:], loads.mean(axis=1)[:-1])
        peaks = contexts[:, column["peak_before"]]
        assert np.allclose(peaks[1:], loads.max(axis=1)[:-1])
        week = contexts[:, column["load_week_before"]]
        assert np.allclose(week[7:], loads.mean(axis=1)[:-7])
        assert contexts[:, column["saturday"]].sum() in (8, 9)

    def test_days_are_mostly_within_the_capacity(self):
        capacity = sum(data[1] for data in unit_commitment.UNITS.values())
        _, loads = unit_commitment.sample(728, seed=3)
        peaks = loads.max(axis=1)
        assert (peaks > capacity).mean() < 0.02
        assert np.quantile(peaks, 0.1) < 0.7 * capacity < np.quantile(peaks, 0.9)
