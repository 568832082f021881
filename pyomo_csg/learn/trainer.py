"""One way to train: many networks in step, on rows of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.progress import TimeUpError
from pyomo_csg.learn.random_state import shared_torch_seed


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to descend.

    Attributes
    ----------
    epochs, batch : int
        Passes over the longest of the members' rows, and rows a step.
    rate, decay : float
        Of AdamW; the rate falls to zero along a cosine.
    clip : float
        The largest norm of a member's gradient.
    """

    epochs: int
    batch: int = 50
    rate: float = 1e-3
    decay: float = 1e-3
    clip: float = 10.0

    @classmethod
    def of_steps(
        cls,
        steps: int,
        rows: Sequence[np.ndarray],
        batch: int,
        rate: float,
        decay: float,
    ) -> Schedule:
        """Return the schedule of about so many steps."""
        epoch = max(1, math.ceil(max(map(len, rows)) / batch))
        return cls(max(1, round(steps / epoch)), batch, rate, decay)

    def steps(self, rows: Sequence[np.ndarray]) -> int:
        """Return how many steps an epoch has."""
        return max(1, math.ceil(max(map(len, rows)) / self.batch))


def train_ensemble(
    ensemble: Ensemble,
    loss: Callable[[np.ndarray], Tensor],
    rows: Sequence[np.ndarray],
    schedule: Schedule,
    rng: np.random.Generator,
    after_epoch: Callable[[int, np.ndarray], None] | None = None,
) -> None:
    """Train the members, and leave them at the mean of their second half.

    When the time of the fit is up they are left at what there is of it.

    Parameters
    ----------
    ensemble : Ensemble
    loss : callable
        From rows (S, B) to each member's loss (S,).
    rows : sequence of int arrays
        Those that each member may see.
    after_epoch : callable, optional
        Takes the epoch's number, from 1, and the members' losses (S,) in it.
    """
    # For modules that draw, such as Dropout; the order of rows is the same.
    with shared_torch_seed(int(rng.spawn(1)[0].integers(2**31))):
        _descend(ensemble, loss, rows, schedule, rng, after_epoch)


def _descend(
    ensemble: Ensemble,
    loss: Callable[[np.ndarray], Tensor],
    rows: Sequence[np.ndarray],
    schedule: Schedule,
    rng: np.random.Generator,
    after_epoch: Callable[[int, np.ndarray], None] | None,
) -> None:
    optimizer = torch.optim.AdamW(
        ensemble.parameters(), schedule.rate, weight_decay=schedule.decay
    )
    steps = schedule.steps(rows)
    total = steps * schedule.epochs
    decline = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    mean, counted, step = ensemble.state(), 0, 0

    def train() -> None:
        nonlocal counted, step
        for epoch in range(1, schedule.epochs + 1):
            losses = np.zeros(len(ensemble))
            for batch in row_batches(rows, schedule.batch, steps, rng):
                optimizer.zero_grad()
                found = loss(batch)
                found.sum().backward()
                ensemble.clip(schedule.clip)
                optimizer.step()
                decline.step()
                losses += found.detach().numpy() / steps
                step += 1
                if step > total // 2:
                    counted += 1
                    for old, new in zip(mean, ensemble.tensors(), strict=True):
                        old.add_((new.detach() - old) / counted)
            if after_epoch is not None:
                after_epoch(epoch, losses)

    with suppress(TimeUpError):  # the members are then as they are by now
        train()
    if counted:
        ensemble.load(mean)


def row_batches(
    rows: Sequence[np.ndarray], size: int, steps: int, rng: np.random.Generator
) -> np.ndarray:
    """Return rows (steps, S, size) in random order; a member with fewer begins again."""
    needed = steps * size
    drawn = []
    for mine in rows:
        rounds = math.ceil(needed / len(mine))
        order = np.concatenate([rng.permutation(mine) for _ in range(rounds)])
        drawn.append(order[:needed].reshape(steps, size))
    return np.stack(drawn, axis=1)
