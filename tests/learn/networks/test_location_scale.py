"""Location and scale of a known conditional distribution."""

import numpy as np
import pytest
import torch

import pyomo_csg as csg
from models import cvar_portfolio
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.networks.location_scale import (
    Forecast,
    fit_location_scale,
    intraclass_correlation,
    scaled_residuals,
    shrinkage,
)
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task


def task_on(contexts, outcomes):
    model = cvar_portfolio.build(assets=outcomes.shape[1], most_held=1)
    history = History(contexts, outcomes)
    return Task(csg.Oracle(model), history, 1, FitConfig(), 0, TrainingLog())


def heteroscedastic(n, seed=0):
    """Return contexts, outcomes of two numbers, and the law's location and scale."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 2))
    location = np.stack([3 * contexts[:, 0], np.full(n, 2.0)], axis=1)
    scale = np.exp(0.8 * contexts[:, 1:]) * np.ones(2)
    return contexts, location + scale * rng.normal(size=(n, 2)), location, scale


@pytest.fixture(scope="module")
def forecast():
    contexts, outcomes, _, _ = heteroscedastic(500)
    task = task_on(contexts, outcomes)
    (head,) = fit_location_scale(task, [np.arange(500)], "forecast")
    return task, head


def test_location_and_scale_of_a_law_are_found_on_contexts_never_seen(forecast):
    _, head = forecast
    contexts, _, location, scale = heteroscedastic(400, seed=1)

    found = head.context_terms(torch.as_tensor(contexts)).numpy()

    missed = np.abs(found[:, 0] - location).mean(axis=0)
    assert missed[0] < 0.25 * np.abs(location[:, 0]).mean()
    assert missed[1] < 0.25
    # A scale is known but for a factor, so that its logarithm is but for a constant.
    left = np.log(found[:, 1] / scale).std(axis=0)
    assert (left < 0.4 * np.log(scale).std(axis=0)).all()


def test_residuals_have_one_spread_whatever_the_context(forecast):
    task, head = forecast
    rows = np.arange(500)
    residuals = scaled_residuals(task, head, rows)
    calm = task.history.contexts[:, 1] < 0

    frame = head.context_terms(torch.as_tensor(task.history.contexts)).numpy()
    assert frame[:, 0] + frame[:, 1] * residuals == pytest.approx(task.history.outcomes)
    assert residuals[calm].std(axis=0) == pytest.approx(
        residuals[~calm].std(axis=0), rel=0.3
    )


@pytest.mark.parametrize("seed", [0, 4, 7])
def test_a_context_that_tells_nothing_gives_about_a_constant(seed):
    rng = np.random.default_rng(seed)
    contexts, outcomes = rng.normal(size=(300, 2)), rng.normal(size=(300, 4))
    task = task_on(contexts, outcomes)

    (head,) = fit_location_scale(task, [np.arange(300)], "forecast")

    location, scale = head.context_terms(task.contexts).numpy().swapaxes(0, 1)
    assert location.std(axis=0).max() < 0.25
    assert np.log(scale).std(axis=0).max() < 0.25
    flat = np.ptp(location, axis=0) == 0
    assert flat.any()
    assert location[0, flat] == pytest.approx(np.median(outcomes, axis=0)[flat])


def test_a_number_without_skill_is_constant_beside_one_that_has_it():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(300, 1))
    outcomes = np.hstack([5 * contexts, rng.normal(size=(300, 1))])
    task = task_on(contexts, outcomes + 0.1 * rng.normal(size=(300, 2)))

    (head,) = fit_location_scale(task, [np.arange(300)], "forecast")

    moved = np.ptp(head.context_terms(task.contexts).numpy()[:, 0], axis=0)
    assert moved[0] > 10
    assert moved[1] < 1


def test_sets_of_rows_that_are_fitted_together_see_their_own():
    contexts = np.linspace(-1, 1, 200)[:, None]
    outcomes = np.where(np.arange(200) % 2, 1.0, -1.0)[:, None] + 0.0 * contexts
    task = task_on(contexts, outcomes + np.random.default_rng(0).normal(0, 0.01))

    heads = fit_location_scale(
        task, [np.arange(0, 200, 2), np.arange(1, 200, 2)], "forecast"
    )

    low, high = (
        head.context_terms(task.contexts).numpy()[:, 0].mean() for head in heads
    )
    assert high - low == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("shape", [(2, 1), (1, 3), (3, 4, 2), (1, 4, 2)])
def test_rows_too_few_to_hold_some_out_give_a_constant(shape):
    rng = np.random.default_rng(0)
    task = task_on(rng.normal(size=shape), rng.normal(size=(shape[0], 2)))

    (head,) = fit_location_scale(task, [np.arange(shape[0])[:2]], "forecast")

    frame = head.context_terms(torch.as_tensor(task.history.contexts)).numpy()
    assert np.ptp(frame, axis=0) == pytest.approx(np.zeros((2, 2)))
    assert (frame[:, 1] > 0).all()


def test_a_number_that_is_mostly_the_same_has_a_scale_that_it_can_be_told_in():
    rng = np.random.default_rng(0)
    rare = np.where(rng.random((200, 1)) < 0.1, 5.0, 0.0)
    task = task_on(rng.normal(size=(200, 1)), np.hstack([rare, rare + 1]))

    (head,) = fit_location_scale(task, [np.arange(200)], "forecast")

    assert np.abs(scaled_residuals(task, head, np.arange(200))).max() < 1000


def test_a_forecast_is_the_mean_of_its_networks():
    network = Forecast((2,), 3, (4,), False, members=3)
    x = torch.randn(5, 2, dtype=torch.float64)

    found = network(x).detach()

    standard = (x - network.center) / network.spread
    said = sum(body(standard)[:, 0] for body in network.bodies) / 3
    assert torch.allclose(found, network.offset + network.unit * said)


def test_networks_agree_on_as_much_as_their_variance_has_in_common():
    rng = np.random.default_rng(0)
    common, own = rng.normal(size=(1, 20_000, 1)), rng.normal(size=(4, 20_000, 3))
    said = torch.as_tensor(common * [3.0, 1.0, 0.0] + own * [1.0, 1.0, 1.0])

    assert intraclass_correlation(said).numpy() == pytest.approx(
        [0.9, 0.5, 0.0], abs=0.02
    )
    assert intraclass_correlation(said[:1].expand(4, -1, -1)).tolist() == [
        1.0,
        1.0,
        1.0,
    ]


@pytest.mark.parametrize(("size", "common"), [(0.5, 1.0), (2.0, 0.0)])
def test_what_later_rows_deny_is_believed_half_as_much_as_all_numbers_are(size, common):
    contexts = np.random.default_rng(0).normal(size=(40, 2)) * [1.0, size]
    wanted = contexts * [1.0, -0.1]  # the second number moves the other way
    task = task_on(contexts, wanted)
    network = Forecast((2,), 2, (), False)
    network.offset.zero_()
    for body in network.bodies:
        last = body.layers[-1]
        last.weight.data.copy_(torch.diag(torch.as_tensor(task.spread)))
        last.bias.data.copy_(torch.as_tensor(task.center))

    found = shrinkage(task, network, torch.as_tensor(wanted), np.arange(20, 40))

    assert found.tolist() == pytest.approx([(1 + common) / 2, common / 2])
