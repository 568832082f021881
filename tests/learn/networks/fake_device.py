"""Trains an Ensemble on a device that is not the CPU, as far as torch can tell.

The device has no arithmetic: torch's fake tensors only know of shapes and of where they
are, and refuse an operation on two devices. It is set up for a whole process, so that a
test runs this in one of its own: python -m tests.learn.networks.fake_device mlp|loss

There is no backward pass, for which torch wants to count its devices: gradients are made up.
"""

import sys

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration

from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.loss_net import LossNet
from pyomo_csg.learn.networks.task_nets import Feedforward

ELSEWHERE = "privateuseone"
NETWORKS = {
    "mlp": (lambda: Feedforward(3, (2, 4), (5,)), [(7, 3)]),
    "loss": (lambda: LossNet(4), [(7, 2, 4), (7, 2), (7, 4)]),
}


def train(name):
    """Take a step there, and assert where everything is."""
    make, shapes = NETWORKS[name]
    ensemble = Ensemble([make() for _ in range(3)])
    with FakeTensorMode(allow_non_fake_inputs=True):
        ensemble.to(ELSEWHERE)
        inputs = [torch.randn(3, *shape, dtype=torch.float64) for shape in shapes]
        before = ensemble.state()
        said = ensemble(*inputs)
        assert said.device.type == "cpu"
        assert said.requires_grad
        for parameter in ensemble.parameters():
            parameter.grad = torch.ones_like(parameter)
        ensemble.clip(1.0)
        torch.optim.AdamW(ensemble.parameters(), foreach=False).step()
        ensemble.load(before)
        for tensor in [*before, *ensemble.tensors()]:
            assert tensor.device.type == ELSEWHERE


if __name__ == "__main__":
    backend_registration._setup_privateuseone_for_python_backend()
    train(sys.argv[1])
