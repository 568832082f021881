"""New networks start at the outcomes."""

import numpy as np
import pytest
import torch
from torch import nn

from pyomo_csg.learn.networks.initialization import (
    cluster_centers,
    costliest_rows,
    new_body,
    replicate_scenarios,
    unconstrained_outcomes,
)
from pyomo_csg.learn.networks.task_nets import (
    BoundedLinear,
    Constant,
    Feedforward,
    Linear,
    Recurrent,
)
from tests.learn.methods.test_mmd import task_on

KINDS = {"mlp": Feedforward, "linear": BoundedLinear, "constant": Constant}


def clustered(counts=(30, 10), at=(5.0, 20.0), **config):
    """Return a task whose demands are near a few numbers."""
    rng = np.random.default_rng(0)
    demands = np.repeat(at, counts) + rng.normal(0, 0.01, sum(counts))
    contexts = rng.normal(size=(sum(counts), 1))
    return task_on(contexts, demands[:, None], len(counts), **config)


def everything(task):
    return np.arange(len(task.history))


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_starts_at_the_clusters_of_the_outcomes(kind):
    task = clustered()
    points = unconstrained_outcomes(task, everything(task))

    body = new_body(task, kind, points, task.rng("start"))

    assert isinstance(body, KINDS[kind])
    middle = task.omega(body(torch.zeros(1, 1, dtype=torch.float64)))
    near = 0.02 if kind == "constant" else 0.8 * task.omega.spread.item()
    centers = torch.tensor([[5.0], [20.0]], dtype=torch.float64)
    free = task.omega.inverse(centers)
    if kind != "constant":  # halfway to their mean
        free = (free + free.mean()) / 2
    expected = sorted(task.omega(free).flatten().tolist())
    assert sorted(middle.flatten().tolist()) == pytest.approx(expected, abs=near)


def test_networks_start_halfway_between_the_clusters_and_their_mean():
    task = clustered(counts=(30, 30, 30), at=(5.0, 9.0, 20.0))
    points = unconstrained_outcomes(task, everything(task))
    constant = new_body(task, "constant", points, task.rng("start"))(task.contexts[:1])
    random = new_body(task, "mlp", None, task.rng("start"))
    network = new_body(task, "mlp", points, task.rng("start"))
    far = torch.full((1, 1), 1e6, dtype=torch.float64)
    assert torch.allclose(network(far), random(far) / 2, rtol=1e-3)  # the same weights
    with torch.no_grad():
        random.layers[-1].weight.zero_(), network.layers[-1].weight.zero_()
        start = network(task.contexts[:1]) - random(task.contexts[:1])
    mean = constant.mean(dim=1, keepdim=True)
    assert torch.allclose(start, mean + (constant - mean) / 2, atol=1e-9)


def test_a_kind_has_its_layers():
    task = clustered(hidden=(7, 3))
    mlp, linear = (
        new_body(task, kind, None, task.rng("start")) for kind in ("mlp", "linear")
    )
    layers = [part for part in mlp.modules() if isinstance(part, nn.Linear)]
    assert [layer.out_features for layer in layers] == [7, 3, 2]
    assert linear.bound == Linear().bound


def test_a_panel_is_read_by_an_lstm():
    rng = np.random.default_rng(0)
    task = task_on(rng.normal(size=(9, 4, 2)), rng.uniform(5, 9, (9, 1)), 3)
    points = unconstrained_outcomes(task, everything(task))

    body = new_body(task, "lstm", points, task.rng("start"))

    assert isinstance(body, Recurrent)
    assert body(task.contexts).shape == (9, 3, 1)


def test_learned_weights_start_at_the_shares_of_the_clusters():
    task = clustered(weights="learned")
    points = unconstrained_outcomes(task, everything(task))
    body = new_body(task, "constant", points, task.rng("start"))

    zetas, weights = task.generate_scenarios(body, np.array([0]))

    order = np.argsort(zetas[0, :, 0])
    # A pair more in each: 31 and 11 of 42.
    assert weights[0, order] == pytest.approx([31 / 42, 11 / 42])


def test_the_users_module_is_copied():
    task = clustered()
    mine = nn.Linear(1, 2)

    body = new_body(
        task, mine, unconstrained_outcomes(task, everything(task)), task.rng("a")
    )

    assert body is not mine
    assert torch.equal(body.weight, mine.weight)


def test_the_seed_decides_and_torchs_own_numbers_are_left_alone():
    task = clustered()
    before = torch.random.get_rng_state()

    one, same, other = (
        new_body(task, "mlp", None, task.rng(name)) for name in ("a", "a", "b")
    )

    assert torch.equal(one.layers[0].weight, same.layers[0].weight)
    assert not torch.equal(one.layers[0].weight, other.layers[0].weight)
    assert torch.equal(before, torch.random.get_rng_state())


def test_free_numbers_become_the_outcomes_again():
    task = clustered()
    rows = np.array([3, 0, 7])

    free = unconstrained_outcomes(task, rows)

    found = task.omega(torch.as_tensor(free)).numpy()
    assert found == pytest.approx(task.history.outcomes[rows])


def test_one_center_is_the_median_and_few_points_are_taken_themselves():
    points = np.array([[1.0], [2.0], [9.0]])

    assert cluster_centers(points, 1, 0).tolist() == [[2.0]]
    assert sorted(cluster_centers(points, 3, 0).ravel()) == [1, 2, 9]
    many = cluster_centers(points, 5, 0)
    assert many.shape == (5, 1)
    assert set(many.ravel()) <= {1.0, 2.0, 9.0}


def test_the_dearest_rows_are_those_that_an_order_for_all_serves_worst():
    # An unsold paper costs 0.9, a missed one 0.5 in this newsvendor: after an order near
    # the middle, the smallest demands cost most.
    rng = np.random.default_rng(0)
    demands = rng.permutation(np.linspace(5.0, 25.0, 50))[:, None]
    task = task_on(rng.normal(size=(50, 1)), demands)

    found = costliest_rows(task, np.arange(50))

    assert sorted(demands[found, 0]) == pytest.approx(np.linspace(5, 25, 50)[:10])


def test_the_dearest_are_counted_among_the_rows_given():
    rng = np.random.default_rng(0)
    demands = np.linspace(5.0, 25.0, 50)[:, None]
    task = task_on(rng.normal(size=(50, 1)), demands)
    rows = np.arange(30, 50)

    found = costliest_rows(task, rows)

    assert sorted(rows[found]) == [30, 31, 32, 33]


@pytest.mark.parametrize("weights", ["equal", "learned"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_wide_body_gives_the_one_scenario_many_times_a_little_apart(kind, weights):
    task = clustered(weights=weights).with_scenarios(1)
    points = unconstrained_outcomes(task, everything(task))
    body = new_body(task, kind, points, task.rng("start"))

    before = torch.random.get_rng_state()
    wide = replicate_scenarios(body, 5, np.random.default_rng(0))

    assert torch.equal(torch.random.get_rng_state(), before)
    assert isinstance(wide, KINDS[kind]) and wide.settings["shape"][0] == 5
    one, many = body(task.contexts).detach(), wide(task.contexts).detach()
    assert many.shape == (len(task.history), 5, one.shape[-1])
    apart = (many - one).numpy()
    assert 0.03 < apart.std() < 0.3
    assert np.abs(apart).max() < 1
    assert len(np.unique(many[0, :, 0].numpy())) == 5
