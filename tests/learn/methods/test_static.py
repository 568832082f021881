"""Static PCSG on a newsvendor: labels, Loss-Nets, and the effect of lambda."""

import numpy as np
import pyomo.environ as pyo
import pytest
import torch
from scipy.spatial.distance import cdist

import pyomo_csg as csg
from models import cep1, newsvendor
from pyomo_csg import DataError
from pyomo_csg.learn.config import FitConfig, validate_fit_arguments
from pyomo_csg.learn.methods.dynamic import train_dynamic
from pyomo_csg.learn.methods.mmd import train_mmd
from pyomo_csg.learn.methods.specifications import parse_regularization
from pyomo_csg.learn.methods.static import resolve_lambda, train_static
from pyomo_csg.learn.methods.surrogate_diagnostics import loss_net_errors
from pyomo_csg.learn.networks.loss_net import torch_seed
from pyomo_csg.learn.networks.task_nets import Constant, Feedforward
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from tests.learn.methods.test_mmd import bodies, newsvendor_task

EVERY = np.arange(200)
QUICK = {
    "mmd_epochs": 30,
    "mmd_rate": 1e-2,
    "loss_rate": 1e-2,
    "loss_epochs": 100,
    "task_epochs": 15,
    "task_rate": 1e-2,
    "encoder": (16, 8),
    "head": (16, 16),
    "units": "raw",
}


@pytest.fixture(scope="module")
def trained():
    """A task, its MMD body, and static results for lambdas small and large."""
    task = newsvendor_task(200, **QUICK)
    (body,) = train_mmd(task, bodies(task, 1), [EVERY], None, "mmd")
    lambdas = [0.1, 1.0, 1000.0]
    result = train_static(task, [body] * 3, lambdas, [EVERY] * 3, "static")
    return task, body, result


def true_loss(task, body, count=2000):
    """Return the mean loss on pairs that nobody has seen, by the newsvendor's formula."""
    rng = np.random.default_rng(99)
    contexts = rng.uniform(-1, 1, (count, 1))
    demands = 10 + 2 * contexts + rng.gamma(1.0, 2.0, (count, 1))
    with torch.no_grad():
        scenarios, _ = task.network(body)(torch.as_tensor(contexts))
    orders, demands = scenarios.numpy()[:, 0, 0], demands[:, 0]
    sold = np.minimum(orders, demands)
    return np.mean(orders - 1.5 * sold - 0.1 * (orders - sold))


def test_labels_are_the_oracles_losses_of_what_the_mmd_body_plans(trained):
    task, body, result = trained
    samples = result[0].samples
    scenarios, _ = task.generate_scenarios(body, EVERY)
    assert samples.scenarios == pytest.approx(scenarios)
    assert samples.outcomes == pytest.approx(task.history.outcomes)
    exact = task.oracle.loss(scenarios, task.history.outcomes)
    assert samples.losses == pytest.approx(exact, rel=1e-9)


def test_members_of_one_start_share_labels_and_a_loss_net(trained):
    task, _, result = trained
    assert result[0].loss_net is result[2].loss_net
    assert result[0].samples is result[2].samples
    (noted,) = [entry for entry in task.log.entries if "missing" in entry]
    assert (noted["step"], noted["missing"]) == (200, 0)


def test_the_loss_net_tells_the_loss_of_what_it_has_seen(trained):
    *inputs, losses = map(torch.as_tensor, trained[2][0].samples.arrays())
    with torch.no_grad():
        errors = trained[2][0].loss_net(*inputs) - losses
    assert errors.square().mean() < 0.05 * losses.var()


def test_static_decides_better_than_mmd_on_pairs_that_nobody_has_seen(trained):
    task, body, result = trained
    assert true_loss(task, result[1].body) < true_loss(task, body) - 0.02


def test_a_large_lambda_stays_with_mmd_and_a_small_one_leaves(trained):
    task, body, result = trained
    before, _ = task.generate_scenarios(body, EVERY)
    moved = [
        np.abs(task.generate_scenarios(found, EVERY)[0] - before).mean()
        for found in [fit.body for fit in result]
    ]
    assert moved[0] > moved[1] > moved[2]
    assert moved[2] < 0.25 * task.omega.spread.item() < moved[0]


def test_a_member_is_what_it_would_be_alone_with_its_lambda(trained):
    _, body, _ = trained
    whole = {**QUICK, "batch": 200}  # so that the order of rows is of no matter
    task = newsvendor_task(200, **whole)
    both = train_static(task, [body] * 2, [0.1, 5.0], [EVERY] * 2, "static")
    one = train_static(task, [body], [5.0], [EVERY], "static")
    found, expected = (
        task.generate_scenarios(b, EVERY)[0] for b in (both[1].body, one[0].body)
    )
    assert found == pytest.approx(expected, abs=1e-6)


def test_members_learn_from_the_rows_that_they_may_see():
    task = newsvendor_task(60, **{**QUICK, "loss_epochs": 2})
    one, other = bodies(task, 2)
    rows = [np.arange(40), np.arange(59, 29, -1), np.arange(40), np.arange(20)]
    result = train_static(task, [one, one, other, other], [1.0] * 4, rows, "static")
    for body, mine, samples in zip(
        [one, one, other, other], rows, [fit.samples for fit in result], strict=True
    ):
        scenarios, _ = task.generate_scenarios(body, mine)
        assert samples.outcomes == pytest.approx(task.history.outcomes[mine])
        assert samples.scenarios == pytest.approx(scenarios)
        exact = task.oracle.loss(scenarios, task.history.outcomes[mine])
        assert samples.losses == pytest.approx(exact, rel=1e-9)
    assert len({id(net) for net in [fit.loss_net for fit in result]}) == 4
    (noted,) = [entry for entry in task.log.entries if "missing" in entry]
    assert noted["step"] == 60 + 40  # rows that two members share are labeled once


def test_fresh_bodies_are_where_training_begins():
    task = newsvendor_task(60, **{**QUICK, "mmd_epochs": 1, "mmd_rate": 1e-9})
    (body,) = start = bodies(task, 1)
    body.start_at(torch.tensor([[3.0]], dtype=torch.float64))
    state = torch.random.get_rng_state()
    rows, other = [np.arange(60)], bodies(task, 1)
    (fresh,) = train_static(task, start, [1.0], rows, "static", fresh=other)
    contexts = task.contexts
    assert torch.allclose(fresh.body(contexts), other[0](contexts), atol=1e-5)
    assert not torch.allclose(fresh.body(contexts), body(contexts), atol=1.0)
    scenarios, _ = task.generate_scenarios(body, rows[0])  # labels are of the others
    assert fresh.samples.scenarios == pytest.approx(scenarios)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("problem", "count"), [(newsvendor, 2), (cep1, 1), (cep1, 5)])
def test_with_a_large_lambda_static_is_as_near_the_outcomes_as_mmd(problem, count):
    history, later = problem.sample(200, seed=1), problem.sample(400, seed=2)
    options = {"scenarios": count, "config": {"units": "raw"}, "progress": False}
    model = problem.build()
    mmd = csg.fit(model, history, method="mmd", **options)
    static = csg.fit(model, history, method=csg.methods.Static("1e4x"), **options)
    one, other = (energy_loss(policy, *later) for policy in (mmd, static))
    assert other == pytest.approx(one, rel=5e-3)


def energy_loss(policy, contexts, outcomes):
    """Return the mean MMD loss with -||a - b|| / 2, by scipy."""
    found = []
    for scenarios, omega in zip(policy.scenarios(contexts), outcomes, strict=True):
        found.append(
            cdist(scenarios, omega[None]).mean()
            - cdist(scenarios, scenarios).mean() / 2
        )
    return np.mean(found)


def test_each_lambda_stops_where_its_held_out_loss_was_least():
    task = newsvendor_task(60, **{**QUICK, "mmd_epochs": 40, "batch": 10})
    held, start = np.arange(40, 60), bodies(task, 2)
    rows, lambdas = [np.arange(40), np.arange(60)], [0.01, 100.0]
    fits = train_static(
        task,
        start * 2,
        [*np.repeat(lambdas, 2)],
        rows * 2,
        "static",
        fresh=bodies(task, 2) * 2,
        held_out=[held, held[:0]],
    )
    *_, first, second = task.log.entries
    for (fit, _), best, weight in zip(
        (fits[:2], fits[2:]), (first, second), lambdas, strict=True
    ):
        scenarios, weights = map(
            torch.as_tensor, task.generate_scenarios(fit.body, held)
        )
        with torch.no_grad():
            predicted = fit.loss_net(scenarios, weights, task.outcomes[held])
        found = predicted + weight * task.mmd_losses(scenarios, weights, held)
        assert found.mean().item() == pytest.approx(best["best_held_out"], rel=1e-6)
    assert first["best_epoch"] != second["best_epoch"]


@pytest.mark.parametrize("method", ["static", "dynamic"])
def test_labels_may_be_of_fewer_scenarios(method):
    task = newsvendor_task(60, 4, **{**QUICK, "label_scenarios": 2, "mmd_epochs": 2})
    (body,) = bodies(task, 1)
    rows = np.arange(60)
    if method == "static":
        (fit,) = train_static(task, [body], [1.0], [rows], "static")
    else:
        (fit,) = train_dynamic(task, [body], [1.0], [rows], "dynamic", 1, 3)
    samples = fit.samples.take(rows)  # those of the MMD body come first
    every, _ = task.generate_scenarios(body, rows)
    assert samples.scenarios.shape == (60, 2, 1)
    found = (samples.scenarios[:, :, None] == every[:, None]).all(-1).argmax(-1)
    assert (
        np.take_along_axis(every[..., 0], found, 1) == samples.scenarios[..., 0]
    ).all()
    assert (found[:, 0] != found[:, 1]).all() and len(np.unique(found, axis=0)) > 6
    assert samples.weights == pytest.approx(0.5)
    exact = task.oracle.loss(samples.scenarios, task.history.outcomes)
    assert samples.losses == pytest.approx(exact, rel=1e-9)
    errors, _ = loss_net_errors(task, fit)  # the policy's own losses are of all four
    assert errors["shift"] >= 0
    chosen, _ = task.generate_scenarios(fit.body, rows)
    lowest, *_, highest = np.sort(task.oracle.loss(chosen, task.history.outcomes))
    assert lowest <= errors["loss_here"] <= highest


def test_labels_of_all_scenarios_are_the_default():
    task = newsvendor_task(30, 3, **{**QUICK, "label_scenarios": 9, "mmd_epochs": 2})
    (body,) = bodies(task, 1)
    (fit,) = train_static(task, [body], [1.0], [np.arange(30)], "static")
    assert fit.samples.scenarios.shape == (30, 3, 1)


def capped():
    """Return a model without recourse where demand passes what can be bought."""
    m = pyo.ConcreteModel("capped")
    m.demand = pyo.Param(within=pyo.NonNegativeReals, initialize=5.0, mutable=True)
    m.order = pyo.Var(bounds=(0, 20))
    m.extra = pyo.Var(bounds=(0, 2))
    m.serve = pyo.Constraint(expr=m.order + m.extra >= m.demand)
    m.cost = pyo.Objective(expr=m.order + 3 * m.extra)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    return m


def test_pairs_without_an_answer_are_the_worst_and_counted():
    rng = np.random.default_rng(0)
    demands = rng.uniform(4, 10, (50, 1))
    task = Task(
        csg.Oracle(capped()),
        History(rng.normal(size=(50, 1)), demands),
        1,
        FitConfig(**{**QUICK, "loss_epochs": 2}),
        0,
        TrainingLog(),
    )
    body = Constant((1, 1))
    result = train_static(task, [body], [1.0], [np.arange(50)], "static")
    order = task.generate_scenarios(body, np.arange(1))[0].item()
    # Ordered is the one scenario, and two more can be had.
    impossible = demands[:, 0] > order + 2
    assert 0 < impossible.sum() < 50
    losses = result[0].samples.losses
    known = losses[~impossible]
    assert losses[impossible] == pytest.approx(known.max() + known.std())
    (noted,) = [entry for entry in task.log.entries if "missing" in entry]
    assert noted["missing"] == impossible.sum()
    assert np.isfinite(task.generate_scenarios(result[0].body, np.arange(50))[0]).all()


def test_a_number_is_the_regularization_itself():
    task = newsvendor_task(20)
    assert resolve_lambda(80, task, [], []) == 80
    assert resolve_lambda(parse_regularization("0.5"), task, [], []) == 0.5
    assert resolve_lambda(0.0, task, [], []) == 0


@pytest.mark.parametrize("units", ["raw", "standard"])
def test_a_relative_regularization_is_a_multiple_of_the_squared_mmd(units):
    task = newsvendor_task(20, 3, units=units)
    with torch_seed(np.random.default_rng(3)):
        body = Feedforward(1, task.output_shape, (8,))
    rows = [np.arange(20), np.arange(5)]
    means = []
    for mine in rows:
        scenarios, _ = task.generate_scenarios(body, mine)
        squared = [
            cdist(z, w[None]).mean() - cdist(z, z).mean() / 2
            for z, w in zip(scenarios, task.history.outcomes[mine], strict=True)
        ]
        means.append(np.mean(squared))
    # A loss in standard deviations is so many times smaller, and weighs the more.
    unit = 1.0 if units == "raw" else task.history.outcomes.std()
    expected = np.mean(means) * unit
    assert expected > 0
    assert resolve_lambda("0.1x", task, [body] * 2, rows) == pytest.approx(
        0.1 * expected
    )
    assert resolve_lambda("10 X", task, [body] * 2, rows) == pytest.approx(
        10 * expected
    )


def test_a_relative_regularization_is_positive_for_a_bounded_kernel_too():
    task = newsvendor_task(20, kernel="gaussian", bandwidth=1.0, units="raw")
    (body,) = bodies(task, 1)
    scenarios, _ = task.generate_scenarios(body, np.arange(20))
    apart = scenarios[:, 0] - task.history.outcomes
    expected = np.mean(2 - 2 * np.exp(-(apart**2) / 2))
    assert resolve_lambda("1x", task, [body], [np.arange(20)]) == pytest.approx(
        expected
    )


@pytest.mark.parametrize(
    "wrong", ["much", "x", "-1x", -1.0, float("nan"), True, "infx"]
)
def test_what_is_no_regularization_is_refused(wrong):
    with pytest.raises(DataError, match="such as '0.1x'"):
        validate_fit_arguments(5, "static", wrong, 0, None, None, None)
