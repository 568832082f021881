"""Costs of decisions, compared with costs computed by hand."""

import numpy as np
import pytest
import torch

from pyomo_csg.learn.distributions.samplers import (
    ObservedSampler,
    PooledSampler,
    ResidualSampler,
)
from pyomo_csg.learn.networks.task_nets import Constant
from pyomo_csg.learn.selection.fits import NetworkFit
from pyomo_csg.learn.selection.scoring import (
    best_fit,
    costs_by_residual,
    expected_costs,
    observed_costs,
)
from tests.learn.methods.test_direct import hard_to_serve, task_on

ROWS = np.arange(8)


def at(task, *needs):
    """Return a fit that gives these scenarios whatever the context."""
    body = Constant(task.output_shape)
    body.start_at(task.omega.inverse(torch.tensor(needs, dtype=torch.float64)[:, None]))
    return NetworkFit(body, task.head)


@pytest.fixture
def task():
    outcomes = np.array([4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 6.8, 6.9])[:, None]
    return task_on(hard_to_serve(), outcomes)


def test_losses_are_the_costs_of_the_decisions(task):
    rows = np.array([1, 4, 7])

    found = observed_costs(task, at(task, 5.0, 5.0), rows)

    # Stock is 5: it costs 1 a unit, and what is missing costs 3.
    assert found == pytest.approx([5.0, 5.0 + 3 * 1.0, 5.0 + 3 * 1.9])


def test_there_is_none_without_a_decision_or_without_recourse(task):
    assert np.isnan(observed_costs(task, at(task, 5.0, 9.0), ROWS)).all()
    # Stock is 4: needs above 6 cannot be met.
    found = observed_costs(task, at(task, 4.0, 4.0), ROWS)
    assert np.isnan(found).tolist() == [False] * 5 + [True] * 3


def test_no_rows_have_no_losses(task):
    assert observed_costs(task, at(task, 5.0, 5.0), ROWS[:0]).shape == (0,)


def test_the_mean_over_likely_outcomes_is_that_of_all(task):
    outcomes = task.history.outcomes
    expected = np.mean(5.0 + 3 * np.maximum(outcomes - 5, 0))

    fit, pool = at(task, 5.0, 5.0), PooledSampler(outcomes, ROWS)
    observed = expected_costs(task, fit, ROWS, ObservedSampler(outcomes), 48)
    assert observed.mean() == pytest.approx(expected)
    assert observed == pytest.approx(observed_costs(task, fit, ROWS))
    drawn = expected_costs(task, fit, ROWS, pool, 48).mean()
    assert drawn == pytest.approx(expected, rel=0.2)
    more = expected_costs(task, fit, ROWS, pool, draws=20_000).mean()
    assert more == pytest.approx(expected, rel=0.01)


def test_every_error_is_charged_for_in_the_mean_over_contexts(task):
    frame = np.stack([np.linspace(4.0, 6.0, 8), np.ones(8)], axis=1)[:, :, None]
    residuals = np.array([-1.0, 0.0, 0.5])
    errors = ResidualSampler(frame, residuals[:, None], np.zeros(1), np.full(1, 6.9))

    found = costs_by_residual(task, at(task, 5.0, 5.0), ROWS, errors)

    outcomes = np.minimum(frame[:, 0] + residuals, 6.9)
    costs = 5.0 + 3 * np.maximum(outcomes - 5, 0)
    assert found == pytest.approx(costs.mean(axis=0))


@pytest.mark.parametrize("needs", [(5.0, 9.0), (4.0, 4.0)])
def test_what_cannot_always_be_done_is_never_the_best(task, needs):
    own = ObservedSampler(task.history.outcomes)
    assert np.isnan(expected_costs(task, at(task, *needs), ROWS, own, 48)).any()
    assert (
        best_fit(task, [at(task, *needs), at(task, 6.9, 6.9)], ROWS, own, 48, 48) == 1
    )


def test_the_best_of_some_is_the_cheapest(task):
    fits = [at(task, 5.0, 9.0), at(task, 4.95, 4.95), at(task, 5.0, 5.0)]
    own = ObservedSampler(task.history.outcomes)

    # A unit of stock costs 1 and saves 3 in five rows of eight.
    assert best_fit(task, fits, ROWS, own, 48, 48) == 2
    assert best_fit(task, fits[:1], ROWS, own, 48, 48) == 0
