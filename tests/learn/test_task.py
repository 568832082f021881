"""The shared inputs of all methods."""

import numpy as np
import pytest
import torch
from torch import nn

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.distributions.distances import mmd_loss
from pyomo_csg.learn.networks.task_nets import Constant
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from tests.learn.methods.test_direct import hard_to_serve
from tests.zoo import ZOO


def task_on(contexts, outcomes, model=None, scenarios=2, **config):
    oracle = csg.Oracle(model or newsvendor.build())
    history = History(np.asarray(contexts), np.asarray(outcomes))
    return Task(oracle, history, scenarios, FitConfig(**config), 3, TrainingLog())


@pytest.fixture
def pairs():
    return newsvendor.sample(30, seed=1)


@pytest.mark.parametrize("shape", [(30, 2), (30, 5, 2)])
def test_contexts_are_standardized_column_by_column(pairs, shape):
    contexts = np.random.default_rng(0).normal([3.0, -50.0], [2.0, 0.1], shape)

    task = task_on(contexts, pairs[1])

    axes = tuple(range(len(shape) - 1))
    assert task.contexts.mean(dim=axes).tolist() == pytest.approx([0, 0], abs=1e-9)
    assert task.contexts.std(dim=axes, correction=0).tolist() == pytest.approx([1, 1])


def test_a_constant_column_stands_at_zero(pairs):
    task = task_on(np.full((30, 2), 7.0), pairs[1])
    assert not task.contexts.any()


def test_the_unit_of_losses_is_the_spread_of_the_median_orders_costs(pairs):
    task = task_on(*pairs)
    order, demands = np.median(pairs[1]), pairs[1][:, 0]
    sold = np.minimum(order, demands)
    costs = order - 1.05 * sold - 0.1 * (order - sold)

    assert task.cost_scale == pytest.approx(costs.std())


@pytest.mark.parametrize("outcomes", [[[5.0]] * 4, [[50.0], [60.0], [70.0], [80.0]]])
def test_the_unit_of_losses_is_a_number_where_costs_do_not_differ_or_are_none(
    outcomes, recwarn
):
    task = task_on(np.zeros((4, 1)), outcomes, hard_to_serve())

    assert 0 < task.cost_scale < np.inf
    assert not recwarn.list


def test_stages_have_random_numbers_of_their_own(pairs):
    task = task_on(*pairs)
    one, same, other = (task.rng(name).random() for name in ("a", "a", "b"))
    assert one == same != other


def test_the_kernel_sees_standard_deviations_or_raw_numbers(pairs):
    rows = np.array([0, 4])
    scenarios = torch.as_tensor(pairs[1][[[1, 2], [3, 5]]])
    happened, spread = torch.as_tensor(pairs[1][rows]), pairs[1].std()

    standard = task_on(*pairs).mmd_losses(scenarios, None, rows)
    raw = task_on(*pairs, units="raw").mmd_losses(scenarios, None, rows)

    assert raw.tolist() == pytest.approx(mmd_loss(scenarios, happened).tolist())
    assert standard.tolist() == pytest.approx((raw / spread).tolist())


def test_a_row_of_free_numbers_more_is_for_learned_weights(pairs):
    assert task_on(*pairs).output_shape == (2, 1)
    assert task_on(*pairs, weights="learned").output_shape == (2, 2)


def test_the_solver_gets_weights_only_where_they_are_learned(pairs):
    weights = np.array([[0.5, 0.5]])
    assert task_on(*pairs).solver_weights(weights) is None
    learned = task_on(*pairs, weights="learned").solver_weights(weights)
    assert learned.tolist() == [[0.5, 0.5]]


def test_integers_of_either_stage_are_seen():
    found = {
        name: task_on(
            np.zeros((2, 1)),
            [[p.value for p in csg.TwoStageModel(build()).uncertain_params]] * 2,
            build(),
        ).has_integers
        for name, build in ZOO.items()
        if name in ("newsvendor", "integers", "piecewise", "farmer")
    }
    assert found == {
        "newsvendor": False,
        "integers": True,
        "piecewise": True,
        "farmer": False,
    }


class Noisy(nn.Module):
    """A body whose dropout is all that it has."""

    def __init__(self):
        super().__init__()
        self.inner = Constant((2, 1))
        self.frozen = nn.Dropout(0.5).eval()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.frozen(self.inner(x) + 1))


def test_scenarios_are_those_of_a_body_in_use_and_it_learns_on_afterwards(pairs):
    task, body = task_on(*pairs), Noisy()

    scenarios, weights = task.generate_scenarios(body, np.arange(30))

    one = task.omega(torch.ones(1, dtype=torch.float64)).item()
    assert scenarios == pytest.approx(np.full((30, 2, 1), one))
    assert weights == pytest.approx(np.full((30, 2), 0.5))
    assert (body.training, body.drop.training, body.frozen.training) == (
        True,
        True,
        False,
    )
