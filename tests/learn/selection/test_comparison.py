"""The comparison of candidates by their costs on the same held-out rows."""

import numpy as np
import pytest
from scipy.stats import norm, ttest_rel
from scipy.stats import t as student

import pyomo_csg as csg
from pyomo_csg.learn.selection.scoring import (
    compare_candidates,
    fill_unsolved,
    paired_difference,
    standard_error,
)

NAN = float("nan")


def test_the_best_is_reported_with_its_margin_and_confidence():
    losses = np.array(
        [[3.0, 2.0, 4.0, 3.0], [1.0, 2.0, 2.0, 1.0], [2.0, 2.0, 2.0, 2.0]]
    )

    found = compare_candidates(["a", "b", "c"], losses)

    # c - b is 1, 0, 0, 1: a mean of 1/2, a deviation of 1/2, an error of 1/4.
    assert found.chosen == "b"
    assert found.margin == pytest.approx(0.5)
    # A normal prior as wide as the error halves the margin's mean and variance.
    # Student's t allows for the few rows of the error.
    assert found.confidence == pytest.approx(student.cdf(2 / np.sqrt(2), 3))
    assert found.pairs_scored == 4
    assert [row.name for row in found.candidates] == ["b", "c", "a"]
    assert [row.loss for row in found.candidates] == [1.5, 2.0, 3.0]
    assert [row.standard_error for row in found.candidates] == pytest.approx(
        [0, 0.25, np.sqrt(0.75) / 2]
    )


def test_confidence_is_that_of_a_paired_test_with_the_margin_shrunk():
    rng = np.random.default_rng(0)
    shared = rng.normal(0, 10, 400)
    losses = np.stack([shared + 0.1, shared]) + rng.normal(0, 1, (2, 400))

    found = compare_candidates(["worse", "better"], losses)

    t = ttest_rel(losses[0], losses[1]).statistic
    assert found.confidence == pytest.approx(norm.cdf(t / np.sqrt(2)), abs=0.03)


def test_no_decision_counts_as_the_worst_cost_of_all():
    losses = np.array([[0.0, NAN, 0.0, 0.0], [1.0, 1.0, 1.0, 8.0]])

    found = compare_candidates(["hasty", "sound"], losses)

    rows = {row.name: row for row in found.candidates}
    assert rows["hasty"].loss == 2.0
    assert rows["hasty"].unsolved == 1
    assert rows["sound"].unsolved == 0
    assert found.chosen == "hasty"
    shorter = compare_candidates(["hasty", "sound"], losses[:, :3])
    assert shorter.margin == pytest.approx(2 / 3)


def test_of_two_with_the_same_mean_the_first_is_chosen():
    losses = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]])

    found = compare_candidates(["a", "b", "c"], losses)

    assert (found.chosen, found.margin, found.confidence) == ("a", 0.0, 0.5)


def test_a_candidate_with_the_same_costs_is_not_the_runner_up():
    losses = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 3.5]])

    found = compare_candidates(["a", "b", "c"], losses)

    assert (found.chosen, found.margin) == ("a", 1.75)
    assert found.confidence > 0.9


def test_candidates_that_all_cost_the_same_have_no_runner_up():
    found = compare_candidates(["a", "b"], np.array([[1.0, 2.0], [1.0, 2.0]]))
    assert (found.chosen, found.margin, found.confidence) == ("a", 0.0, 0.5)


def test_one_that_is_always_better_by_as_much_is_surely_better():
    assert (
        compare_candidates(["a", "b"], np.array([[1.0, 2.0], [0.0, 1.0]])).confidence
        == 1.0
    )
    assert compare_candidates(["a", "b"], np.array([[1.0], [0.0]])).confidence == 0.5


def test_a_lone_candidate_is_the_best():
    found = compare_candidates(["a"], np.array([[1.0, 2.0]]))
    assert (found.chosen, found.margin, found.confidence) == ("a", 0.0, 0.5)


def test_no_cost_at_all_is_an_error():
    with pytest.raises(csg.DataError, match="give the model complete recourse"):
        compare_candidates(["a", "b"], np.full((2, 3), NAN))


@pytest.mark.parametrize(("lead", "chosen"), [(0.1, "trusted"), (2.0, "other")])
def test_a_trusted_candidate_gives_way_to_what_is_clearly_better(lead, chosen):
    noise = np.array([-1.0, 1.0, -1.0, 1.0])  # its standard error is 0.5
    losses = np.stack([5 + noise, np.full(4, 5 - lead)])

    found = compare_candidates(["trusted", "other"], losses, trusted="trusted")

    assert found.chosen == chosen
    assert found.margin == pytest.approx(lead if chosen == "other" else -lead)
    assert (found.confidence > 0.5) == (chosen == "other")


def test_a_trusted_candidate_that_was_not_trained_in_time_is_not_missed():
    found = compare_candidates(["mmd"], np.ones((1, 4)), trusted="direct")
    assert found.chosen == "mmd"


def test_a_simpler_candidate_within_half_a_standard_error_is_preferred():
    apart = np.array([1.0, -1.0, 1.0, -1.0])  # a standard error of 0.5

    close, far = (
        compare_candidates(
            ["simple", "best"], np.stack([apart + lead, np.zeros(4)])
        ).chosen
        for lead in (0.24, 0.26)
    )

    assert (close, far) == ("simple", "best")


@pytest.mark.parametrize("n", [1, 5, 15])
def test_the_standard_error_of_few_rows_is_that_of_independent_ones(n):
    values = np.random.default_rng(0).normal(size=(2, n))
    lags = min(n // 8, 7)
    assert lags in (0, 1)
    expected = values.std(axis=1) / np.sqrt(n)
    found = standard_error(values)
    assert (found >= expected - 1e-15).all()
    if not lags:
        assert found == pytest.approx(expected)


@pytest.mark.parametrize("n", [24, 100, 700])
def test_the_standard_error_is_the_quadratic_form_with_bartlett_weights(n):
    rng = np.random.default_rng(n)
    values = np.cumsum(rng.normal(size=n)) + 5.0  # neighbors are much alike
    lags = min(n // 8, max(7, round(n ** (1 / 3))))

    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    weights = np.maximum(1 - apart / (lags + 1), 0.0)
    centered = values - values.mean()
    expected = np.sqrt(centered @ weights @ centered) / n

    assert standard_error(values) == pytest.approx(expected)
    assert expected > 1.2 * values.std() / np.sqrt(n)


def test_the_standard_error_of_a_long_series_is_known():
    rng, noise = np.random.default_rng(0), 0.5
    values = np.zeros(40_000)
    for i, shock in enumerate(rng.normal(size=len(values) - 1)):
        values[i + 1] = noise * values[i] + shock

    # The long-run variance of an autoregression is the shocks' over (1 - 0.5)^2.
    assert standard_error(values) == pytest.approx(2 / np.sqrt(40_000), rel=0.1)


def test_values_that_alternate_have_no_smaller_error_than_independent_ones():
    values = np.tile([1.0, -1.0], 50)
    assert standard_error(values) == pytest.approx(0.1)


def test_ties_count_half():
    found = paired_difference(np.array([1.0, 2.0, 3.0, 3.0]), np.full(4, 2.0))
    assert found.mean == pytest.approx(0.25)
    assert found.reference_wins == pytest.approx(0.625)


def test_unsolved_programs_cost_as_much_as_the_worst():
    assert fill_unsolved(np.array([[1.0, NAN], [7.0, 2.0]])).tolist() == [
        [1.0, 7.0],
        [7.0, 2.0],
    ]
    assert fill_unsolved(np.full(2, NAN)).tolist() == [0.0, 0.0]


def test_a_candidate_without_context_is_chosen_unless_the_context_pays_clearly():
    # Differences from the best: a mean of 1 with a standard error of 1.2, so t = 0.83.
    apart = np.array([1.0, 1.0, 1.0, 1.0]) + 2.4 * np.array([1, -1, 1, -1])
    best = np.array([5.0, 2.0, 4.0, 7.0])
    losses = np.stack([best + apart + 3.0, best + apart, best])
    names, free = ["average", "constant", "contextual"], {"average", "constant"}

    assert compare_candidates(names, losses).chosen == "contextual"
    assert compare_candidates(names, losses, context_free=free).chosen == "constant"
    losses[1] += 1.0  # now by 1.7 standard errors
    assert compare_candidates(names, losses, context_free=free).chosen == "contextual"


@pytest.mark.parametrize(("failed", "chosen"), [(1, "cheap"), (12, "sure")])
def test_clearly_more_rows_without_recourse_lose_whatever_the_cost(failed, chosen):
    losses = np.array([np.ones(100), np.full(100, 5.0)])
    losses[0, :: 100 // failed][:failed] = NAN
    found = compare_candidates(["cheap", "sure"], losses)
    assert found.chosen == chosen
    assert found.candidates[0].name == chosen
