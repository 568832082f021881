"""DCSG: train networks so that scenarios are distributed as the outcomes (MMD loss)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.distributions.features import evenly_spaced
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import scenarios_from_output
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule, train_ensemble

_MOST_STEPS, _LEAST_EPOCHS = 2400, 2  # a long history needs fewer passes over it
_MOST_STOPPING_ROWS = 1000  # held-out rows of a member, for early stopping

Generator = Callable[[np.ndarray], tuple[Tensor, Tensor]]


def train_mmd(
    task: Task,
    bodies: Sequence[nn.Module],
    rows: Sequence[np.ndarray],
    held_out: Sequence[np.ndarray] | None,
    stage: str,
    *,
    head: Any = None,
) -> list[nn.Module]:
    """Return copies of bodies trained on the MMD loss, or read them from the checkpoint.

    They are trained in one ensemble. With held-out rows, all members are restored to where their mean held-out loss was
    least: after some epoch, or averaged over the second half. A member without held-out
    rows, such as the one on all rows, follows the others. Without any held-out rows, all
    are averaged. ``head`` is one for all members, or a list.
    """
    return train_or_restore(
        task, stage, bodies, lambda: _train(task, bodies, rows, held_out, stage, head)
    )


def _train(
    task: Task,
    bodies: Sequence[nn.Module],
    rows: Sequence[np.ndarray],
    held_out: Sequence[np.ndarray] | None,
    stage: str,
    head: Any,
) -> list[nn.Module]:
    config = task.config
    ensemble = Ensemble(bodies).to(task.device)
    generate = scenario_generator(task, ensemble, head)
    scale = mmd_scale(task)

    def loss(batch: np.ndarray) -> Tensor:
        return task.mmd_losses(*generate(batch), batch).mean(-1) / scale

    rate, decay = config.mmd_rate, config.decay
    schedule = Schedule(config.mmd_epochs, config.batch, rate, decay)
    most = max(_LEAST_EPOCHS, _MOST_STEPS // schedule.steps(rows))
    schedule = replace(schedule, epochs=min(schedule.epochs, most))
    stopping = _EarlyStopping(task, ensemble, generate, held_out)
    with task.log.stage(stage, schedule.epochs) as bar:

        def after_epoch(epoch: int, losses: np.ndarray) -> None:
            bar.step(loss=float(losses.mean()) * scale, **stopping.update(epoch))

        train_ensemble(ensemble, loss, rows, schedule, task.rng(stage), after_epoch)
    stopping.update(0)
    if stopping.state is not None:
        ensemble.load(stopping.state)
        task.log.record(
            stage,
            schedule.epochs,
            best_epoch=stopping.epoch,
            best_held_out=stopping.least,
        )
    return ensemble.members()


def scenario_generator(task: Task, ensemble: Ensemble, head: Any = None) -> Generator:
    """Return the function from rows (S, B) to the members' scenarios and weights."""
    heads = expand_heads(task, head, len(ensemble))
    terms = {id(one): task.context_terms(one) for one in heads}

    def place(free: Tensor, one: Any, index: Tensor) -> tuple[Tensor, Tensor]:
        known = terms[id(one)]
        return scenarios_from_output(free, one, None if known is None else known[index])

    def generate(rows: np.ndarray) -> tuple[Tensor, Tensor]:
        index = torch.as_tensor(rows)
        free = ensemble(task.contexts[index])
        if len(terms) == 1:
            return place(free, heads[0], index)
        placed = [place(*member) for member in zip(free, heads, index, strict=True)]
        scenarios, weights = zip(*placed, strict=True)
        return torch.stack(scenarios), torch.stack(weights)

    return generate


def expand_heads(task: Task, head: Any, count: int) -> list[Any]:
    """Return one head per member, from a list of them, one for all, or the task's."""
    if isinstance(head, list | tuple):
        return list(head)
    return [task.head if head is None else head] * count


def mmd_scale(task: Task) -> float:
    """Return the outcomes' spread as the kernel sees it: 1 in standard units.

    Losses are divided by it, so that the size of gradients does not depend on units.
    """
    return float((task.omega.spread / task.kernel_unit).square().mean().sqrt())


class _EarlyStopping:
    """Keeps the state of an ensemble with the least mean held-out loss.

    ``state`` is None if no rows are held out; epoch 0 is the average of the second half.
    """

    def __init__(
        self,
        task: Task,
        ensemble: Ensemble,
        generate: Generator,
        held_out: Sequence[np.ndarray] | None,
    ):
        self._task, self._ensemble, self._generate = task, ensemble, generate
        some = [
            mine[evenly_spaced(len(mine), _MOST_STOPPING_ROWS)]
            for mine in held_out or []
        ]
        self._rows, self._shares = _pad_rows(some)
        self.epoch, self.least = 0, math.inf
        self.state: list[Tensor] | None = None

    def update(self, epoch: int) -> dict[str, Any]:
        """Return the mean held-out loss, and keep the state if it is the least so far."""
        if not self._rows.size:
            return {}
        with torch.no_grad(), self._ensemble.eval_mode():
            scenarios, weights = self._generate(self._rows)
            losses = self._task.mmd_losses(scenarios, weights, self._rows).numpy()
        found = float((self._shares * losses).sum())
        if found < self.least:
            self.epoch, self.least = epoch, found
            self.state = self._ensemble.state()
        return {"held_out": found}


def _pad_rows(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (S, B) and their weights in a mean over members of their means."""
    longest = max((len(mine) for mine in rows), default=0)
    members = max(1, sum(len(mine) > 0 for mine in rows))
    padded = np.zeros((len(rows), longest), dtype=int)
    shares = np.zeros((len(rows), longest))
    for s, mine in enumerate(rows):
        padded[s, : len(mine)] = mine
        shares[s, : len(mine)] = 1 / (members * max(1, len(mine)))
    return padded, shares
