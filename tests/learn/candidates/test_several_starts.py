"""The best of many random sets of scenarios is found, whatever the model."""

import numpy as np
import pytest
import torch

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.candidates.several_starts import (
    best_scenario_sets,
    starting_atoms,
)
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.distributions.samplers import ResidualSampler
from pyomo_csg.learn.networks.initialization import constant_body
from pyomo_csg.learn.networks.task_nets import (
    Constant,
    FunctionModule,
    LocationScaleHead,
)
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection.fits import NetworkFit
from pyomo_csg.learn.selection.scoring import expected_costs
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from tests.zoo import ZOO, scenarios


def task_on(model, outcomes, count, **config):
    oracle = csg.Oracle(model)
    contexts = np.zeros((len(outcomes), 1))
    history, settings = History(contexts, outcomes), FitConfig(**config)
    return Task(oracle, history, count, settings, 0, TrainingLog())


def mean_cost(task, sets, outcomes):
    made = task.oracle.solve(sets).decision
    return [task.oracle.cost(y, outcomes, progress=False).mean() for y in made]


def best_of(task, rows, count):
    found = best_scenario_sets(task, rows, count, 200, np.random.default_rng(0))
    return np.array([scenarios for scenarios, _ in found])


@pytest.mark.parametrize("count", [1, 3])
def test_they_decide_as_well_as_all_outcomes_do(count):
    demands = np.random.default_rng(0).lognormal(2, 1, (60, 1))
    task = task_on(newsvendor.build(price=1.4), demands, count)
    rows = np.arange(60)

    found = best_of(task, rows, 4)

    assert found.shape == (4, count, 1)
    costs = mean_cost(task, found, demands)
    assert costs == sorted(costs)
    whole = task.oracle.solve(demands)
    assert costs[0] == pytest.approx(whole.value, abs=0.02 * abs(whole.value))


def test_only_the_rows_that_are_given_count():
    demands = np.concatenate([np.full((30, 1), 5.0), np.full((30, 1), 90.0)])
    task = task_on(newsvendor.build(), demands, 2)

    found = best_of(task, np.arange(30), 1)

    assert found == pytest.approx(np.full((1, 2, 1), 5.0))


@pytest.mark.parametrize("draws", [3, 7])
def test_as_many_sets_are_drawn_as_the_plan_allows(draws, monkeypatch):
    model = ZOO["integers"]()
    task = task_on(model, scenarios(model, 12), 2)
    solved = []
    solve = task.oracle.solve

    def counting(zetas, *args, **options):
        solved.append(len(zetas))
        return solve(zetas, *args, **options)

    monkeypatch.setattr(task.oracle, "solve", counting)
    found = best_scenario_sets(task, np.arange(12), 2, draws, np.random.default_rng(0))

    assert solved == [draws + 1]  # and the cluster centers
    sets = np.array([one for one, _ in found])
    assert np.isfinite(mean_cost(task, sets, task.history.outcomes)).all()


def test_learned_weights_start_at_the_shares_of_what_is_nearest():
    demands = np.concatenate([np.full((30, 1), 5.0), np.full((10, 1), 90.0)])
    task = task_on(newsvendor.build(), demands, 2, weights="learned")

    found = best_scenario_sets(task, np.arange(40), 200, 200, np.random.default_rng(0))

    pairs = {tuple(z[:, 0]): tuple(w) for z, w in found}
    assert pairs[5.0, 90.0] == pytest.approx((31 / 42, 11 / 42))


@pytest.mark.parametrize(
    ("weights", "shares"), [("equal", [0.5, 0.5]), ("learned", [0.2, 0.8])]
)
def test_a_body_starts_at_a_set(weights, shares):
    demands = np.array([[3.0], [8.0], [21.0]])
    task = task_on(newsvendor.build(), demands, 2, weights=weights)

    free = task.omega.inverse(torch.as_tensor(demands[:2]))
    body = constant_body(task, free, np.array([0.2, 0.8]))

    planned, found = task.generate_scenarios(body, np.arange(3))
    assert planned == pytest.approx(np.tile(demands[:2], (3, 1, 1)))
    assert found == pytest.approx(np.tile(shares, (3, 1)))


def location_scale(task):
    """Return a head that knows the law, and the errors that are left."""
    location = FunctionModule(lambda x: 20 + 3 * x[:, :1])
    scale = FunctionModule(lambda x: 1 + x[:, :1] ** 2)
    head = LocationScaleHead(location, scale, task.omega)
    frame = head.context_terms(torch.as_tensor(task.history.contexts)).numpy()
    residuals = (task.history.outcomes - frame[:, 0]) / frame[:, 1]
    return head, ResidualSampler(frame, residuals, np.zeros(1), np.full(1, np.inf))


def skewed(count, **config):
    """Return a task whose noise has a long tail, in units that contexts move."""
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(80, 1))
    noise = rng.lognormal(0, 1, (80, 1))
    demands = 20 + 3 * contexts + (1 + contexts**2) * noise
    oracle = csg.Oracle(newsvendor.build(price=9.0))
    history, settings = History(contexts, demands), FitConfig(**config)
    return Task(oracle, history, count, settings, 0, TrainingLog())


@pytest.mark.parametrize("count", [1, 3])
def test_atoms_start_where_they_decide_nearly_as_well_as_all_errors(count):
    task = skewed(count, starts=2)
    head, errors = location_scale(task)
    rows = np.arange(80)

    bodies = starting_atoms(task, head, rows, errors, 200)

    assert [body.free.shape for body in bodies] == [(count, 1)] * 3
    outcomes = errors.every_residual(rows, 80)
    least = [-np.inf] * 80
    for row, law in enumerate(outcomes):
        least[row] = task.oracle.solve(law).value
    found = expected_costs(task, NetworkFit(bodies[0], head), rows, errors, 48)
    middle = Constant((count, 1))
    middle.start_at(torch.zeros((count, 1)))
    far = expected_costs(task, NetworkFit(middle, head), rows, errors, 48)
    assert found.mean() - np.mean(least) < 0.1 * (far.mean() - np.mean(least))


def test_atoms_have_the_weights_of_what_is_nearest_where_they_are_learned():
    task = skewed(2, starts=2, weights="learned")
    head, errors = location_scale(task)

    for body in starting_atoms(task, head, np.arange(80), errors, 200):
        atoms, logarithms = body.free.detach().numpy().T
        nearest = np.abs(errors._residuals - atoms).argmin(axis=1)
        counts = np.bincount(nearest, minlength=2) + 1
        assert np.exp(logarithms) == pytest.approx(counts / counts.sum())
