"""Networks that are trained together equal those trained one by one."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import backend_registration

from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import Constant, Feedforward, Recurrent

SHAPE = (2, 1)
MAKERS = {
    "feedforward": (lambda: Feedforward(3, SHAPE, (8, 8)), (5, 6, 3)),
    "constant": (lambda: Constant(SHAPE), (5, 6, 3)),
    "recurrent": (lambda: Recurrent(3, SHAPE, (4, 5)), (5, 6, 7, 3)),
}


def members(make, count=5):
    torch.manual_seed(0)
    found = [make() for _ in range(count)]
    for body in found:
        body.start_at(torch.randn(SHAPE, dtype=torch.float64))
    return found


def inputs(shape, steps=8):
    rng = np.random.default_rng(0)
    return [torch.as_tensor(rng.standard_normal(shape)) for _ in range(steps)]


def step(target, outputs, optimizer, clip):
    optimizer.zero_grad()
    outputs.square().sum().backward()
    clip(1.0)
    optimizer.step()
    return target


@pytest.mark.parametrize("name", MAKERS)
def test_some_members_are_copied_from_one_state_to_another(name):
    make, _ = MAKERS[name]
    bodies = [nn.Sequential(body, nn.BatchNorm1d(2)) for body in members(make)]
    for body in bodies:
        body[1].double().running_mean.fill_(float(torch.randn(())))  # a buffer
    ensemble = Ensemble(bodies)
    before = ensemble.state()
    with torch.no_grad():
        for tensor in ensemble.tensors():
            tensor.add_(1.0)
    after = ensemble.state()
    ensemble.copy_members(before, after, [1, 3])
    ensemble.load(after)
    for s, (member, body) in enumerate(zip(ensemble.members(), bodies, strict=True)):
        found, old = member.state_dict(), body.state_dict()
        for part, value in old.items():
            if value.is_floating_point():
                expected = value if s in (1, 3) else value + 1
                assert torch.allclose(found[part], expected), (s, part)


@pytest.mark.parametrize("name", MAKERS)
def test_members_trained_together_are_those_trained_alone(name):
    make, shape = MAKERS[name]
    bodies = members(make)
    alone = copy.deepcopy(bodies)
    together = Ensemble(bodies)
    optimizer = torch.optim.AdamW(together.parameters(), 0.01, weight_decay=0.1)
    for batch in inputs(shape):
        step(together, together(batch), optimizer, together.clip)
    for s, body in enumerate(alone):
        optimizer = torch.optim.AdamW(body.parameters(), 0.01, weight_decay=0.1)
        for batch in inputs(shape):

            def clip(norm, body=body):
                nn.utils.clip_grad_norm_(body.parameters(), norm)

            step(body, body(batch[s]), optimizer, clip)
    contexts = inputs(shape)[0]
    for s, body in enumerate(together.members()):
        assert torch.allclose(body(contexts[s]), alone[s](contexts[s]), atol=1e-9)
        assert torch.allclose(body(contexts[s]), together(contexts)[s], atol=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_the_networks_that_were_given_stay_as_they_are(name):
    make, shape = MAKERS[name]
    (body,) = members(make, 1)
    before = copy.deepcopy(body.state_dict())
    together = Ensemble([body, body])
    optimizer = torch.optim.SGD(together.parameters(), 0.1)
    batch = inputs(shape)[0][:2]
    step(together, together(batch), optimizer, together.clip)
    assert all(torch.equal(before[key], p) for key, p in body.state_dict().items())
    one, other = together.members()
    assert not torch.equal(one(batch[0]), body(batch[0]))
    if name != "constant":  # which hears nothing of its contexts
        assert not torch.equal(one(batch[0]), other(batch[0]))


@pytest.mark.parametrize("name", MAKERS)
def test_each_members_gradient_is_clipped_by_its_own_norm(name):
    make, shape = MAKERS[name]
    together = Ensemble(members(make))
    scales = torch.tensor([1e-6, 1.0, 1e3, 1e6, 0.0], dtype=torch.float64)
    (together(inputs(shape)[0]).square().flatten(1).sum(1) * scales).sum().backward()
    before = norms(together)
    together.clip(0.5)
    assert norms(together) == pytest.approx(np.minimum(before, 0.5), rel=1e-5)
    assert (before[2:4] > 0.5).all() and 0 < before[0] < 0.5


def norms(ensemble):
    """Return the norm of each member's gradient."""
    gradients = [p.grad for p in ensemble.parameters()]
    if all(len(g) == len(ensemble) for g in gradients) and ensemble._is_stacked:
        return np.sqrt(sum(g.flatten(1).square().sum(1).numpy() for g in gradients))
    each = len(gradients) // len(ensemble)
    parts = [gradients[i : i + each] for i in range(0, len(gradients), each)]
    return np.array([np.sqrt(sum((g**2).sum().item() for g in p)) for p in parts])


@pytest.mark.parametrize("name", MAKERS)
def test_a_state_is_a_copy_that_can_be_taken_back(name):
    make, shape = MAKERS[name]
    together = Ensemble(members(make))
    batch = inputs(shape)[0]
    state, before = together.state(), together(batch).detach().clone()
    optimizer = torch.optim.SGD(together.parameters(), 0.1)
    step(together, together(batch), optimizer, together.clip)
    assert not torch.allclose(together(batch), before)
    together.load(state)
    assert torch.equal(together(batch), before)


class Scaled(nn.Module):
    """Two inputs, one of them perhaps missing, two outputs, and a buffer of its own."""

    def __init__(self, factor):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.register_buffer("factor", torch.tensor(factor, dtype=torch.float64))

    def forward(self, one, other=None):
        found = one * self.factor + self.shift
        return found, found.sum(-1) if other is None else found.sum(-1) + other


def test_members_keep_buffers_and_may_take_and_give_several_tensors():
    together = Ensemble([Scaled(2.0), Scaled(3.0)])
    one = torch.ones(2, 4, 3, dtype=torch.float64)
    other = torch.full((2, 4), 10.0, dtype=torch.float64)
    whole, summed = together(one, other)
    assert whole[:, 0, 0].tolist() == [2, 3]
    assert summed[:, 0].tolist() == [16, 19]
    assert together(one, None)[1][:, 0].tolist() == [6, 9]
    assert [member.factor.item() for member in together.members()] == [2, 3]


class Normed(nn.Module):
    """A body with what torch cannot call as one, or what it must keep track of."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.layer = nn.Linear(3, 8), layer
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.layer(torch.relu(self.first(x))))[..., None]


class Branching(nn.Module):
    """A body whose way depends on its numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.layer = nn.Linear(3, 2), nn.Identity()

    def forward(self, x):
        found = self.first(x)
        return (found if float(found.detach().sum()) > 0 else 2 * found)[..., None]


LAYERS = {
    "batch norm": lambda: Normed(nn.BatchNorm1d(8)),
    "no dropout yet": lambda: Normed(nn.Dropout(0.0)),
    "spectral norm": lambda: Normed(nn.utils.spectral_norm(nn.Linear(8, 8))),
    "branching": Branching,
}


@pytest.mark.parametrize("name", LAYERS)
def test_modules_that_torch_cannot_call_as_one_are_trained_all_the_same(name):
    torch.manual_seed(0)
    bodies = [LAYERS[name]().double() for _ in range(3)]
    alone = copy.deepcopy(bodies)
    together = Ensemble(bodies)
    optimizer = torch.optim.SGD(together.parameters(), 0.01)
    for batch in inputs((3, 6, 3)):
        step(together, together(batch), optimizer, together.clip)
    for s, body in enumerate(alone):
        optimizer = torch.optim.SGD(body.parameters(), 0.01)
        for batch in inputs((3, 6, 3)):

            def clip(norm, body=body):
                nn.utils.clip_grad_norm_(body.parameters(), norm)

            step(body, body(batch[s]), optimizer, clip)
    contexts = inputs((3, 6, 3))[0]
    for s, body in enumerate(together.members()):
        found, expected = body.eval()(contexts[s]), alone[s].eval()(contexts[s])
        # torch's clipping adds 1e-6 to the norm that it divides by.
        assert found.detach().numpy() == pytest.approx(
            expected.detach().numpy(), rel=1e-4, abs=1e-6
        )


def test_dropout_is_other_for_each_member_and_none_in_use():
    member = Normed(nn.Dropout(0.5)).double()
    together = Ensemble([member, member])
    batch = inputs((6, 3))[0].expand(2, 6, 3)

    torch.manual_seed(0)
    one, other = together(batch)
    assert not torch.equal(one, other)

    with together.eval_mode():
        found = together(batch)
    assert torch.equal(found[0], found[1])
    assert found[0].detach().numpy() == pytest.approx(
        member.eval()(batch[0]).detach().numpy()
    )
    assert not torch.equal(*together(batch))


def test_a_state_has_what_a_batch_norm_keeps_track_of():
    together = Ensemble([Normed(nn.BatchNorm1d(8)).double()])
    before = together.state()
    together(inputs((1, 6, 3))[0])
    (moved,) = together.members()
    together.load(before)
    (back,) = together.members()

    assert moved.layer.running_mean.abs().max() > 0
    assert not back.layer.running_mean.any()


def test_a_module_that_fails_says_so_itself():
    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1, dtype=torch.float64))

        def forward(self, x):
            raise ValueError("no such context")

    with pytest.raises(ValueError, match="no such context"):
        Ensemble([Failing()])(inputs((1, 6, 3))[0])


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch has no device to pretend with",
)
@pytest.mark.parametrize("name", ["mlp", "loss"])
def test_members_may_be_trained_on_another_device(name):
    done = subprocess.run(
        [sys.executable, "-m", "tests.learn.networks.fake_device", name],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_device_changes_nothing_but_where_parameters_are():
    bodies = members(MAKERS["feedforward"][0])
    batch = inputs(MAKERS["feedforward"][1])[0]
    moved = Ensemble(bodies).to("cpu")
    assert torch.equal(moved(batch), Ensemble(bodies)(batch))
    assert all(p.requires_grad and p.is_leaf for p in moved.parameters())
