"""The Loss-Net: from sets of scenarios to a loss."""

from itertools import product

import numpy as np
import pytest
import torch

from pyomo_csg import DataError
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.loss_net import (
    LossNet,
    LossSamples,
    concatenate_samples,
    new_loss_nets,
    representation_width,
    torch_seed,
    train_loss_nets,
    untrained_loss_nets,
)
from tests.learn.methods.test_mmd import newsvendor_task, task_on

RNG = np.random.default_rng(0)
SCENARIOS = torch.as_tensor(RNG.standard_normal((6, 4, 3)))
OUTCOMES = torch.as_tensor(RNG.standard_normal((6, 3)))
WEIGHTS = torch.as_tensor(RNG.dirichlet(np.ones(4), 6))


def loss_net(seed=0):
    with torch_seed(np.random.default_rng(seed)):
        net = LossNet(3, (8, 5), (7,)).double()  # so that rounding hides nothing
    net.set_scaling([1.0, 2.0, 3.0], [0.5, 1.0, 2.0], np.array([100.0, 140.0]))
    return net


def by_hand(net, scenarios, weights, outcome):
    """Return Psi_2(sum of weights * Psi_1(scenarios), Psi_1(outcome)) in numpy."""

    def layers(sequence, x):
        linear = [layer for layer in sequence if hasattr(layer, "weight")]
        for i, layer in enumerate(linear):
            x = layer.weight.detach().numpy() @ x + layer.bias.detach().numpy()
            x = np.maximum(x, 0) if i < len(linear) - 1 else x
        return x

    def code(x):
        return layers(net.encoder, (x - [1.0, 2.0, 3.0]) / [0.5, 1.0, 2.0])

    planned = sum(w * code(z) for w, z in zip(weights, scenarios, strict=True))
    (found,) = layers(net.head, np.concatenate([planned, code(outcome)]))
    return 120 + 20 * found


def test_the_loss_is_a_head_on_the_mean_code_and_the_outcomes_code():
    net = loss_net()
    found = net(SCENARIOS, WEIGHTS, OUTCOMES)
    assert found.shape == (6,)
    for i in range(6):
        arrays = (t[i].numpy() for t in (SCENARIOS, WEIGHTS, OUTCOMES))
        assert found[i].item() == pytest.approx(by_hand(net, *arrays), rel=1e-12)


def test_the_order_of_scenarios_does_not_matter():
    net, order = loss_net(), torch.tensor([2, 0, 3, 1])
    found = net(SCENARIOS, WEIGHTS, OUTCOMES)
    moved = net(SCENARIOS[:, order], WEIGHTS[:, order], OUTCOMES)
    assert torch.allclose(found, moved, rtol=1e-12)
    assert not torch.allclose(found, net(SCENARIOS[:, order], WEIGHTS, OUTCOMES))


def test_a_scenario_counts_by_its_weight_and_any_number_of_them_will_do():
    net = loss_net()
    thirds = torch.tensor([[2 / 3, 1 / 3]], dtype=torch.float64).expand(6, 2)
    twice = SCENARIOS[:, [0, 0, 1]]
    equal = torch.full((6, 3), 1 / 3, dtype=torch.float64)
    assert torch.allclose(
        net(SCENARIOS[:, :2], thirds, OUTCOMES), net(twice, equal, OUTCOMES), rtol=1e-12
    )
    none = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64).expand(6, 4)
    one = torch.ones(6, 1, dtype=torch.float64)
    assert torch.allclose(
        net(SCENARIOS, none, OUTCOMES), net(SCENARIOS[:, :1], one, OUTCOMES), rtol=1e-12
    )


def test_gradients_agree_with_differences():
    inputs = [t.clone().requires_grad_() for t in (SCENARIOS, WEIGHTS, OUTCOMES)]
    assert torch.autograd.gradcheck(loss_net(), inputs)


def test_nets_can_be_called_as_one_each_in_its_own_scale():
    nets = [loss_net(0), loss_net(1)]
    nets[1].set_scaling([0.0] * 3, [1.0] * 3, np.array([-3.0, -1.0]))
    inputs = [t.expand(2, *t.shape) for t in (SCENARIOS, WEIGHTS, OUTCOMES)]
    found = Ensemble(nets)(*inputs)
    for s, net in enumerate(nets):
        assert torch.allclose(found[s], net(SCENARIOS, WEIGHTS, OUTCOMES), rtol=1e-12)


def test_single_precision_tells_the_same_in_double():
    net = loss_net()
    exact = net(SCENARIOS, WEIGHTS, OUTCOMES)
    net.encoder.float()
    net.head.float()
    found = net(SCENARIOS, WEIGHTS, OUTCOMES)
    assert found.dtype == torch.float64
    assert LossNet(3).head[0].weight.dtype == torch.float32
    assert torch.allclose(found, exact, rtol=1e-6)
    assert not torch.equal(found, exact)


def test_labels_that_are_all_the_same_leave_the_scale_at_one():
    net = loss_net()
    net.set_scaling([0.0] * 3, [1.0] * 3, np.array([7.0, 7.0]))
    assert (net.loss_center.item(), net.loss_spread.item()) == (7, 1)


def test_weights_are_seeded_and_torchs_own_random_numbers_left_alone():
    before = torch.random.get_rng_state()
    one, same, other = (loss_net(seed).encoder[0].weight for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def quadratic_samples(count, seed, missing=0):
    """Return cases whose loss is 50 + 10 (mean of scenarios - outcome)^2."""
    rng = np.random.default_rng(seed)
    scenarios, outcomes = (
        rng.normal(12, 2, (count, 2, 1)),
        rng.normal(12, 2, (count, 1)),
    )
    apart = scenarios.mean(axis=(1, 2)) - outcomes[:, 0]
    losses = 50 + 10 * apart**2
    losses[:missing] = np.nan
    return LossSamples(scenarios, np.full((count, 2), 0.5), outcomes, losses)


def test_a_loss_is_learned_where_samples_are_solved():
    task = newsvendor_task(20, 2, loss_epochs=100, loss_rate=2e-2)
    samples = [quadratic_samples(300, 0, missing=40), quadratic_samples(400, 1)]
    untrained = new_loss_nets(task, samples, "loss")
    first = untrained[0].head[0].weight.clone()
    nets = train_loss_nets(task, untrained, samples, "loss")
    assert torch.equal(untrained[0].head[0].weight, first)
    test = quadratic_samples(200, 2)
    inputs = [torch.as_tensor(array) for array in test.arrays()[:3]]
    for net in nets:
        found = net(*inputs).detach().numpy()
        error = np.mean((found - test.losses) ** 2)
        assert error < 0.1 * test.losses.var()
    seen = task.log.table()
    assert seen.loss.iloc[-1] < 0.1 * seen.loss.iloc[0]
    assert np.isfinite(seen.loss).all()


def test_samples_without_an_answer_do_not_count():
    samples = quadratic_samples(10, 0, missing=3)
    assert len(samples) == 10
    known = samples.solved()
    assert len(known) == 7
    assert known.losses == pytest.approx(samples.losses[3:])
    assert known.scenarios == pytest.approx(samples.scenarios[3:])
    both = concatenate_samples([samples, known])
    assert both.outcomes == pytest.approx(
        np.concatenate([samples.outcomes, samples.outcomes[3:]])
    )


def test_samples_of_which_none_has_an_answer_are_refused():
    task = newsvendor_task(20)
    with pytest.raises(DataError, match=r"'newsvendor' .*\n.* none of 10 programs"):
        new_loss_nets(task, [quadratic_samples(10, 0, missing=10)], "loss")


@pytest.mark.parametrize(("scenarios", "numbers"), [(1, 1), (2, 1), (3, 2), (2, 4)])
def test_a_complete_encoder_has_a_unit_for_each_moment(scenarios, numbers):
    # The power sums of degree 1 to K of p numbers determine K points in any order.
    moments = [
        powers
        for powers in product(range(scenarios + 1), repeat=numbers)
        if 1 <= sum(powers) <= scenarios
    ]
    assert representation_width(scenarios, numbers) == len(moments)
    rng = np.random.default_rng(0)
    demands = rng.uniform(1, 9, (20, 1))
    task = task_on(rng.normal(size=(20, 1)), demands, scenarios, encoder="complete")
    (net,) = untrained_loss_nets(task, 1, "complete")
    width = representation_width(scenarios, 1)
    assert net.encoder[-1].out_features == width
    assert net.head[0].in_features == 2 * width
