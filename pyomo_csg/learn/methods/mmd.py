"""DCSG: train networks so that scenarios are distributed as the outcomes (MMD loss)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import scenarios_from_output
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import EarlyStopping, Schedule, train_ensemble

_MOST_STEPS, _LEAST_EPOCHS = 2400, 2  # a long history needs fewer passes over it

Generator = Callable[[np.ndarray], tuple[Tensor, Tensor]]
Losses = Callable[[Tensor, Tensor, np.ndarray], Tensor]


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
    return train_task_nets(
        task,
        bodies,
        task.mmd_losses,
        rows,
        held_out,
        stage,
        schedule=mmd_schedule(task, rows),
        scale=torch.full((len(bodies),), mmd_scale(task)),
        head=head,
    )


def mmd_schedule(task: Task, rows: Sequence[np.ndarray]) -> Schedule:
    """Return the schedule of networks that begin anew, whatever they minimize."""
    config = task.config
    schedule = Schedule(config.mmd_epochs, config.batch, config.mmd_rate, config.decay)
    most = max(_LEAST_EPOCHS, _MOST_STEPS // schedule.steps(rows))
    return replace(schedule, epochs=min(schedule.epochs, most))


def train_task_nets(
    task: Task,
    bodies: Sequence[nn.Module],
    losses: Losses,
    rows: Sequence[np.ndarray],
    held_out: Sequence[np.ndarray] | None,
    stage: str,
    *,
    schedule: Schedule,
    scale: Tensor,
    head: Any = None,
    order: str | None = None,
) -> list[nn.Module]:
    """Return copies of bodies trained on losses of their scenarios, in one ensemble.

    This is the optimizer of all methods with an MMD loss. ``losses`` maps scenarios
    (S, B, K, p), weights and rows (S, B) to losses (S, B), and ``scale`` (S,) is their
    size. Held-out rows are those of each fold, and members come fold by fold, objective
    by objective: see :class:`EarlyStopping`. Stages of one ``order`` visit their rows in
    the same order.
    """
    ensemble = Ensemble(bodies).to(task.device)
    generate = scenario_generator(task, ensemble, head)

    def loss(batch: np.ndarray) -> Tensor:
        return losses(*generate(batch), batch).mean(-1) / scale

    def held_out_losses(batch: np.ndarray) -> Tensor:
        return losses(*generate(batch), batch)

    stopping = EarlyStopping(ensemble, held_out_losses, held_out)
    with task.log.stage(stage, schedule.epochs) as bar:

        def after_epoch(epoch: int, found: np.ndarray) -> None:
            mean = float((found * scale.numpy()).mean())
            bar.step(loss=mean, **stopping.update(epoch))

        rng = task.rng(order or stage)
        train_ensemble(ensemble, loss, rows, schedule, rng, after_epoch)
    for best in stopping.finish():
        task.log.record(stage, schedule.epochs, **best)
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
