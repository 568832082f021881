"""Dynamic PCSG: Algorithm 2, the Loss-Net goes where the Task-Net went."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from pyomo_csg.learn.methods.static import label_bodies, train_on_loss_net, train_static
from pyomo_csg.learn.networks.loss_net import (
    LossNet,
    LossSamples,
    concatenate_samples,
    train_loss_nets,
)
from pyomo_csg.learn.task import Task


class ReplayBuffer:
    """The samples of the last few rounds.

    Parameters
    ----------
    rounds : int
        How many it keeps. The labels of the MMD scenarios are a round, too.
    """

    def __init__(self, rounds: int):
        self.rounds: deque[LossSamples] = deque(maxlen=rounds)

    def push(self, samples: LossSamples) -> None:
        """Keep a round, and forget the oldest where there are too many."""
        self.rounds.append(samples)

    def samples(self) -> LossSamples:
        """Return all that is kept, the oldest first."""
        return concatenate_samples(list(self.rounds))


@dataclass(frozen=True, eq=False)
class DynamicResult:
    """What Algorithm 2 gives, a member an entry.

    Attributes
    ----------
    bodies : list of Module
    loss_nets : list of LossNet
    buffers : list of ReplayBuffer
        As the last update of the Loss-Nets saw them; one and the same where these are.
    """

    bodies: list[nn.Module]
    loss_nets: list[LossNet]
    buffers: list[ReplayBuffer]

    @property
    def samples(self) -> list[LossSamples]:
        """What the Loss-Nets were last trained on."""
        return [buffer.samples() for buffer in self.buffers]


def train_dynamic(
    task: Task,
    start: Sequence[nn.Module],
    lambdas: Sequence[float],
    rows: Sequence[np.ndarray],
    stage: str,
    rounds: int,
    buffer: int,
    *,
    fresh: bool = False,
    huber: bool = False,
    head: Any = None,
) -> DynamicResult:
    """Return bodies after static training and rounds of new labels, all in step.

    A round labels what each member now plans, updates its Loss-Net on its last rounds,
    and its body by that Loss-Net. Members that share a Loss-Net in static training go on
    to do so: each learns from the labels of all of them.

    Parameters
    ----------
    task, start, lambdas, rows, stage, fresh, huber, head
        As in :func:`~pyomo_csg.learn.methods.static.train_static`.
    rounds : int
        T.
    buffer : int
        T': how many rounds of labels a Loss-Net is updated on.
    """
    how: dict[str, Any] = {"huber": huber, "head": head}
    first = train_static(task, start, lambdas, rows, stage, fresh=fresh, **how)
    bodies, nets = first.bodies, list(dict.fromkeys(first.loss_nets))
    kinds = [nets.index(net) for net in first.loss_nets]
    buffers = [ReplayBuffer(buffer) for _ in nets]
    for kind, shared in enumerate(buffers):
        shared.push(first.samples[kinds.index(kind)])
    for t in range(1, rounds + 1):
        name = f"{stage} round {t}"
        labelled = label_bodies(task, bodies, rows, f"{name} labels", head)
        for kind, shared in enumerate(buffers):
            theirs = zip(kinds, labelled, strict=True)
            shared.push(
                concatenate_samples([samples for k, samples in theirs if k == kind])
            )
        kept = [shared.samples() for shared in buffers]
        epochs = _epochs(task.config.loss_epochs, first.samples, kept)
        nets = train_loss_nets(task, nets, kept, f"{name} Loss-Net", huber, epochs)
        mine = [nets[kind] for kind in kinds]
        bodies = train_on_loss_net(
            task, bodies, mine, lambdas, rows, f"{name} Task-Net", head
        )
    return DynamicResult(
        bodies, [nets[kind] for kind in kinds], [buffers[kind] for kind in kinds]
    )


def _epochs(
    most: int, first: Sequence[LossSamples], kept: Sequence[LossSamples]
) -> int:
    """Return for how many epochs to update: with more samples an epoch has more steps.

    So a round costs as much as the first training.
    """
    return max(1, most * max(map(len, first)) // max(map(len, kept)))
