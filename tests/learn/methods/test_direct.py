"""The gradient of the task loss, compared with differences of exact costs."""

import numpy as np
import pyomo.environ as pyo
import pytest
import torch

import pyomo_csg as csg
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.distributions.samplers import ObservedSampler, PooledSampler
from pyomo_csg.learn.methods.direct import Direct
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.loss_net import torch_seed
from pyomo_csg.learn.networks.task_nets import (
    Feedforward,
    FunctionModule,
    LocationScaleHead,
)
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule
from tests.zoo import ZOO, scenarios

STEP = 1e-6
ROWS = np.array([[0, 3, 5, 7], [1, 2, 6, 4]])


def task_on(model, outcomes, **config):
    rng = np.random.default_rng(0)
    history = History(rng.normal(size=(len(outcomes), 2)), outcomes)
    settings = FitConfig(**{"hidden": (6,), **config})
    return Task(csg.Oracle(model), history, 2, settings, 0, TrainingLog())


def zoo_task(name, **config):
    model = ZOO[name]()
    return task_on(model, scenarios(model, 8), **config)


def bodies(task, count=2):
    with torch_seed(np.random.default_rng(1)):
        return [Feedforward(2, task.output_shape, (6,)) for _ in range(count)]


def located(task):
    center, spread = task.omega.center.numpy(), task.omega.spread.numpy()
    return LocationScaleHead(
        FunctionModule(lambda x: center + 0.1 * x[:, :1] * spread),
        FunctionModule(lambda x: np.exp(0.1 * x[:, 1:]) * spread),
        task.omega,
    )


def mean_cost(task, body, head, rows, noise, weight):
    """Return what a body's decisions cost, solved anew, in units of the task's."""
    free = body(task.contexts[rows]).detach()[..., : noise.shape[-1]]
    raw = torch.as_tensor(task.history.contexts[rows])
    zetas = head.outcomes(free + torch.as_tensor(noise), head.context_terms(raw))
    losses = task.oracle.loss(
        zetas.numpy(), task.history.outcomes[rows], "recourse", progress=False
    )
    penalty = task.mmd_losses(zetas, None, rows).mean().item()
    return losses.mean() / task.cost_scale + weight * penalty


CASES = [
    ("newsvendor", 0.0, False),
    ("cep1", 0.0, False),
    ("farmer", 0.0, False),
    ("nonlinear_data", 0.3, False),
    ("from_abstract", 0.0, True),
]


@pytest.mark.parametrize(("name", "weight", "own_head"), CASES)
def test_a_steps_gradient_is_that_of_the_mean_cost(name, weight, own_head):
    task = zoo_task(name)
    heads = [located(task) if own_head else task.head] * 2
    likely = [ObservedSampler(task.history.outcomes)] * 2
    direct = Direct(task, likely, heads, regularization=weight)
    ensemble = Ensemble(bodies(task))

    losses = direct._losses(ensemble, ROWS, np.random.default_rng(5))
    losses.sum().backward()

    numbers = task.omega.center.shape[0]
    noise = task.config.noise * np.random.default_rng(5).standard_normal(
        (*ROWS.shape, task.scenarios, numbers)
    )
    rng = np.random.default_rng(6)
    directions = [rng.standard_normal(p.shape) for p in ensemble.parameters()]
    pairs = list(zip(ensemble.parameters(), directions, strict=True))
    start = ensemble.state()
    costs = []
    for sign in (0, 1, -1):
        moved = [
            old + sign * STEP * torch.as_tensor(d)
            for old, d in zip(start, directions, strict=True)
        ]
        ensemble.load(moved)
        costs.append(
            [
                mean_cost(task, body, heads[s], ROWS[s], noise[s], weight)
                for s, body in enumerate(ensemble.members())
            ]
        )
    here, up, down = np.array(costs)
    slopes = [sum((p.grad[s].numpy() * d[s]).sum() for p, d in pairs) for s in (0, 1)]
    assert losses.detach().numpy() == pytest.approx(here)
    assert slopes == pytest.approx((up - down) / (2 * STEP), rel=1e-4, abs=1e-6)
    assert np.abs(slopes).max() > 1e-3


def test_what_a_decision_is_charged_for_is_the_mean_over_the_draws():
    task = zoo_task("newsvendor", draws=16)
    rows = np.arange(8)
    pool = PooledSampler(task.history.outcomes, rows)
    direct = Direct(task, [pool])
    (body,) = bodies(task, 1)

    found = direct._losses(Ensemble([body]), rows[None], np.random.default_rng(5))

    rng = np.random.default_rng(5)
    noise = task.config.noise * rng.standard_normal((1, 8, 2, 1))
    outcomes = pool.draw(rows, 16, rng)
    zetas = task.omega(body(task.contexts) + torch.as_tensor(noise[0]))
    decisions = task.oracle.solve(zetas.detach().numpy()).decision
    costs = [
        task.oracle.cost(y, omegas)
        for y, omegas in zip(decisions, outcomes, strict=True)
    ]
    assert found.item() == pytest.approx(np.mean(costs) / task.cost_scale)


def test_weights_are_those_of_the_extensive_form():
    task = zoo_task("newsvendor", weights="learned", noise=0.0)
    (body,) = bodies(task, 1)
    body.start_at(torch.tensor([[0.0, 3.0], [0.0, 0.0]], dtype=torch.float64))
    direct = Direct(task, [ObservedSampler(task.history.outcomes)])

    found = direct._losses(
        Ensemble([body]), np.arange(8)[None], np.random.default_rng(5)
    )

    zetas, weights = task.generate_scenarios(body, np.arange(8))
    assert np.ptp(weights) > 0.5
    losses = task.oracle.loss(zetas, task.history.outcomes, "recourse", weights=weights)
    assert found.item() == pytest.approx(losses.mean() / task.cost_scale)


def hard_to_serve():
    """Return a model that has no plan for a need above 7."""
    m = pyo.ConcreteModel("hard_to_serve")
    m.need = pyo.Param(mutable=True, initialize=5.0)
    m.stock = pyo.Var(bounds=(0, 5))
    m.bought = pyo.Var(bounds=(0, 2))
    m.serve = pyo.Constraint(expr=m.stock + m.bought >= m.need)
    m.cost = pyo.Objective(expr=m.stock + 3 * m.bought)
    csg.annotate(m, first_stage_variables=m.stock, uncertain_params=m.need)
    return m


def test_scenarios_without_a_decision_are_counted_and_move_nothing(caplog):
    outcomes = np.random.default_rng(0).uniform(4, 6.9, (8, 1))
    task = task_on(hard_to_serve(), outcomes, noise=0.0, draws=1)
    body = bodies(task, 1)[0]
    body.start_at(torch.full((2, 1), 1.6, dtype=torch.float64))
    zetas, _ = task.generate_scenarios(body, np.arange(8))
    solved = task.oracle.solve(zetas, on_error="record", progress=False)
    answers = task.oracle.loss(
        zetas, outcomes, "recourse", on_error="record", progress=False
    )
    hopeless = int(np.isnan(answers).sum())
    assert 0 < (solved.status != "optimal").sum() <= hopeless < 8
    direct = Direct(task, [ObservedSampler(outcomes)])

    direct._losses(Ensemble([body]), np.arange(8)[None], np.random.default_rng(0))

    assert direct.failed == hopeless
    (trained,) = direct.train(
        [body], [np.arange(8)], "direct", Schedule(5, 8, rate=0.05)
    )
    assert direct.failed > hopeless
    assert f"direct: {direct.failed} programs could not be solved" in caplog.text
    after, _ = task.generate_scenarios(trained, np.arange(8))
    assert np.isfinite(after).all()


def test_training_lowers_what_decisions_cost():
    model = ZOO["newsvendor"]()
    rng = np.random.default_rng(0)
    outcomes = rng.gamma(4.0, 3.0, (60, 1))
    task = task_on(model, outcomes, noise=0.1, draws=16)
    rows = np.arange(60)
    start = bodies(task, 1)
    direct = Direct(task, [PooledSampler(outcomes, rows)])

    trained = direct.train(start, [rows], "direct", Schedule(20, 30, rate=0.02))

    costs = []
    for body in (start[0], trained[0]):
        decisions = task.oracle.solve(task.generate_scenarios(body, rows)[0]).decision
        costs.append(np.mean([task.oracle.cost(y, outcomes).mean() for y in decisions]))
    best = task.oracle.cost(task.oracle.solve(outcomes).decision, outcomes).mean()
    assert costs[1] - best < 0.5 * (costs[0] - best)


def test_noise_together_moves_all_scenarios_of_a_context_alike():
    task = zoo_task("newsvendor")
    rows = np.arange(8)
    direct = Direct(task, [ObservedSampler(task.history.outcomes)], together=True)
    (body,) = bodies(task, 1)

    found = direct._losses(Ensemble([body]), rows[None], np.random.default_rng(5))

    noise = task.config.noise * np.random.default_rng(5).standard_normal((8, 1, 1))
    zetas = task.omega(body(task.contexts) + torch.as_tensor(noise))
    decisions = task.oracle.solve(zetas.detach().numpy()).decision
    costs = task.oracle.cost(decisions, task.history.outcomes)
    assert found.item() == pytest.approx(np.mean(costs) / task.cost_scale)
