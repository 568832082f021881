"""Bodies that followed a Loss-Net, with that Loss-Net and what it was trained on, kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from pyomo_csg.learn.checkpoint import restore_parameters
from pyomo_csg.learn.networks.loss_net import LossNet, LossSamples, untrained_loss_nets
from pyomo_csg.learn.task import Task


@dataclass(frozen=True, eq=False)
class TrainedOnLossNet:
    """What a member followed: its Loss-Net, and the samples that it last learned from.

    Attributes
    ----------
    bodies : list of Module
    loss_nets : list of LossNet
    samples : list of Samples
    """

    bodies: list[nn.Module]
    loss_nets: list[LossNet]
    samples: list[LossSamples]


def kept_followed(
    task: Task,
    stage: str,
    start: Sequence[nn.Module],
    train: Callable[[], TrainedOnLossNet],
) -> TrainedOnLossNet:
    """Return what training gives, or gave when this stage was finished before."""

    def compute() -> dict[str, Any]:
        found = train()
        arrays: dict[str, Any] = {}
        for s, (body, net, samples) in enumerate(
            zip(found.bodies, found.loss_nets, found.samples, strict=True)
        ):
            arrays |= {f"{s}.{name}": x for name, x in body.state_dict().items()}
            arrays |= {f"net {s}.{name}": x for name, x in net.state_dict().items()}
            arrays |= {f"samples {s}.{i}": x for i, x in enumerate(samples.arrays())}
        return arrays

    arrays = task.checkpoint.stage(stage, compute, log=task.log)
    members, (new,) = range(len(start)), untrained_loss_nets(task, 1, stage)
    return TrainedOnLossNet(
        [restore_parameters(start[s], arrays, f"{s}.") for s in members],
        [restore_parameters(new, arrays, f"net {s}.") for s in members],
        [LossSamples(*(arrays[f"samples {s}.{i}"] for i in range(4))) for s in members],
    )
