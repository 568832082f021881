"""Context-free SAA: the critical quantile, an extensive form that others built."""

import logging

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1
from pyomo_csg.baselines import SampleAverage
from pyomo_csg.learn.distributions.reduction import forward_selection, kmeans
from pyomo_csg.learn.networks.domains import standard_spread
from tests.baselines import papers
from tests.reference import optimum
from tests.solve.test_faults import no_complete_recourse

X = np.zeros((3, 2))


@pytest.mark.parametrize("level", [0.13, 0.5001, 0.94])
def test_a_newsvendor_orders_the_critical_quantile_of_all_demands(level):
    contexts, demands = papers.pairs()
    policy = SampleAverage(papers.build(level), (contexts, demands))
    expected = papers.order(demands, np.full(60, 1 / 60), level)
    assert policy.decide(X)["order"].tolist() == pytest.approx([expected] * 3)


def test_its_value_is_that_of_an_extensive_form():
    model, pairs = cep1.build(), cep1.sample(12, seed=0)
    decision = SampleAverage(model, pairs).decide(np.zeros(4))
    assert decision.value == pytest.approx(optimum(model, pairs[1]))


def test_it_solves_once():
    policy = SampleAverage(papers.build(0.62), papers.pairs())
    first = policy.decide(X)
    solves = policy.oracle.stats.solves
    second = policy.decide(X + 1)

    assert solves >= 1
    assert policy.oracle.stats.solves == solves
    assert second.equals(first)
    assert policy.decide(X[0])["order"] == first["order"][0]


@pytest.mark.parametrize("units", ["raw", "standard"])
def test_its_scenarios_are_those_of_the_reduction(units):
    model, pairs = papers.of_two()
    demands = pairs[1]
    unit = 1.0 if units == "raw" else standard_spread(demands)
    for reduction, expected in (
        ("kmeans", kmeans(demands, None, 4, seed=2, unit=unit)),
        ("forward", forward_selection(demands, None, 4, unit=unit)),
    ):
        policy = SampleAverage(
            model, pairs, scenarios=4, reduction=reduction, units=units, seed=2
        )
        assert policy.scenarios(X).tolist() == [expected[0].tolist()] * 3
        assert policy.weights(X[0]).tolist() == expected[1].tolist()
        for i in (1, 2):
            best = papers.order(expected[0][:, i - 1], expected[1], 2 / 3)
            assert policy.decide(X[0])[f"order[{i}]"] == pytest.approx(best)


def test_a_program_without_a_solution_is_told_each_time(caplog):
    policy = SampleAverage(no_complete_recourse(), ([[0.0], [1]], [[5.0], [50]]))
    with caplog.at_level(logging.WARNING):
        table = policy.decide([[0.0], [1]], on_error="record")

    assert table.isna().all(axis=None)
    assert "2 of 2 contexts have no optimal decision" in caplog.text
    for _ in range(2):
        with pytest.raises(csg.SolveError, match="infeasible"):
            policy.decide([0.0])
