"""Dynamic PCSG (Algorithm 2): retrain the Loss-Net where the Task-Net has moved."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from pyomo_csg.learn.loss_kinds import LossKind
from pyomo_csg.learn.methods.labels import label_bodies
from pyomo_csg.learn.methods.static import (
    LossNetFit,
    train_on_loss_net,
    train_static,
)
from pyomo_csg.learn.networks.loss_net import (
    LossSamples,
    concatenate_samples,
    train_loss_nets,
)
from pyomo_csg.learn.task import Task


class ReplayBuffer:
    """The samples of the last rounds; the labels of the MMD scenarios are the first."""

    def __init__(self, rounds: int):
        self.rounds: deque[LossSamples] = deque(maxlen=rounds)

    def push(self, samples: LossSamples) -> None:
        """Add a round, and drop the oldest if the buffer is full."""
        self.rounds.append(samples)

    def samples(self) -> LossSamples:
        """Return the samples of all rounds, the oldest first."""
        return concatenate_samples(list(self.rounds))


@dataclass(frozen=True, eq=False)
class DynamicFit(LossNetFit):
    """A fit with the buffer that last trained its Loss-Net."""

    buffer: ReplayBuffer


def train_dynamic(
    task: Task,
    start: Sequence[nn.Module],
    lambdas: Sequence[float],
    rows: Sequence[np.ndarray],
    stage: str,
    rounds: int,
    buffer: int,
    *,
    fresh: Sequence[nn.Module] | None = None,
    held_out: Sequence[np.ndarray] | None = None,
    head: Any = None,
    kind: str | LossKind = "optimistic",
) -> list[DynamicFit]:
    """Train as :func:`~pyomo_csg.learn.methods.static.train_static`, then in rounds.

    A round labels each body's current scenarios, updates the Loss-Nets on the last
    ``buffer`` rounds (T'), and trains the bodies on them. Members that share a Loss-Net
    in static training continue to, and it learns from the labels of all of them.
    """
    options = {"head": head, "kind": kind}
    first = train_static(
        task, start, lambdas, rows, stage, fresh=fresh, held_out=held_out, **options
    )
    bodies = [fit.body for fit in first]
    nets = list(dict.fromkeys(fit.loss_net for fit in first))
    shared = [nets.index(fit.loss_net) for fit in first]  # the Loss-Net of each member
    buffers = [ReplayBuffer(buffer) for _ in nets]
    for s, replay in enumerate(buffers):
        replay.push(first[shared.index(s)].samples)
    largest = max(len(fit.samples) for fit in first)
    for t in range(1, rounds + 1):
        name = f"{stage} round {t}"
        count = task.config.label_scenarios
        labeled = label_bodies(
            task, bodies, rows, f"{name} labels", count=count, **options
        )
        for s, replay in enumerate(buffers):
            members = zip(shared, labeled, strict=True)
            replay.push(concatenate_samples([mine for k, mine in members if k == s]))
        samples = [replay.samples() for replay in buffers]
        # More samples make an epoch longer; a round costs as much as the first training.
        epochs = task.config.loss_epochs * largest // max(map(len, samples))
        nets = train_loss_nets(task, nets, samples, f"{name} Loss-Net", max(1, epochs))
        mine = [nets[s] for s in shared]
        bodies = train_on_loss_net(
            task, bodies, mine, lambdas, rows, f"{name} Task-Net", head, held_out
        )
    return [
        DynamicFit(body, nets[s], buffers[s].samples(), buffers[s])
        for body, s in zip(bodies, shared, strict=True)
    ]
