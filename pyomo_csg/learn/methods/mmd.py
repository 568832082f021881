"""DCSG: networks whose scenarios are near what happened, as distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import scenarios_from_output
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule, train_ensemble

Generator = Callable[[np.ndarray], tuple[Tensor, Tensor]]


def train_mmd(
    task: Task,
    bodies: Sequence[nn.Module],
    rows: Sequence[np.ndarray],
    held_out: Sequence[np.ndarray] | None,
    stage: str,
    *,
    epochs: int | None = None,
    head: Any = None,
) -> list[nn.Module]:
    """Return bodies trained on the MMD loss, all in step.

    With held-out rows, all members are taken as they were when the mean held-out loss was
    least: after some epoch, or averaged over the second half. Members that hold nothing
    out, such as one on all data beside its folds, go along. When nobody holds anything
    out, all are averaged.

    Parameters
    ----------
    task : Task
    bodies : sequence of Module
        Of one shape. They stay as they are.
    rows : sequence of int arrays
        Those that each member learns from.
    held_out : sequence of int arrays, optional
        Those that each member is judged on; empty for a member that is not.
    stage : str
        Names the bar and seeds the order of the rows.
    epochs : int, optional
        Default: the settings' ``mmd_epochs``.
    head : Head or list of Head, optional
        Of all, or one a member. Default: the task's.
    """
    config = task.config
    ensemble = Ensemble(bodies).to(task.device)
    generate = scenario_generator(task, ensemble, head)
    scale = mmd_scale(task)

    def loss(batch: np.ndarray) -> Tensor:
        return task.mmd_losses(*generate(batch), batch).mean(-1) / scale

    schedule = Schedule(
        config.mmd_epochs if epochs is None else epochs,
        config.batch,
        config.mmd_rate,
        config.decay,
    )
    judge = Judge(task, ensemble, generate, held_out)
    with task.log.stage(stage, schedule.epochs) as bar:

        def after_epoch(epoch: int, losses: np.ndarray) -> None:
            bar.step(loss=float(losses.mean()) * scale, **judge.see(epoch))

        train_ensemble(ensemble, loss, rows, schedule, task.rng(stage), after_epoch)
    judge.see(0)
    if judge.state is not None:
        ensemble.load(judge.state)
        task.log.record(
            stage, schedule.epochs, best_epoch=judge.epoch, best_held_out=judge.least
        )
    return ensemble.members()


def scenario_generator(task: Task, ensemble: Ensemble, head: Any = None) -> Generator:
    """Return the function from rows (S, B) to members' scenarios and weights there."""
    heads = expand_heads(task, head, len(ensemble))
    contexts = torch.as_tensor(task.history.contexts)
    known = {id(one): (one, one.context_terms(contexts)) for one in heads}
    mine = [known[id(one)] for one in heads]

    def generate(rows: np.ndarray) -> tuple[Tensor, Tensor]:
        index = torch.as_tensor(rows)
        free = ensemble(task.contexts[index])
        if len(known) == 1:
            return _placed(free, *mine[0], index)
        placed = [_placed(free[s], *mine[s], index[s]) for s in range(len(mine))]
        scenarios, weights = zip(*placed, strict=True)
        return torch.stack(scenarios), torch.stack(weights)

    return generate


def expand_heads(task: Task, head: Any, count: int) -> list[Any]:
    """Return a head a member, from such a list, from one for all, or the task's."""
    if isinstance(head, list | tuple):
        return list(head)
    return [task.head if head is None else head] * count


def _placed(
    free: Tensor, head: Any, frame: Tensor | None, index: Tensor
) -> tuple[Tensor, Tensor]:
    return scenarios_from_output(free, head, None if frame is None else frame[index])


def mmd_scale(task: Task) -> float:
    """Return the outcomes' spread as the kernel sees it: 1 in standard units.

    Losses are divided by it, so that gradients are of one size whatever the units.
    """
    return float((task.omega.spread / task.kernel_unit).square().mean().sqrt())


class Judge:
    """Keeps the members as they were when held-out rows liked them best.

    Attributes
    ----------
    epoch : int
        The best one; 0 for the average of the second half.
    least : float
        The mean held-out loss then.
    state : list of tensor, optional
        The members then; None where nothing is held out.
    """

    def __init__(
        self,
        task: Task,
        ensemble: Ensemble,
        generate: Generator,
        held_out: Sequence[np.ndarray] | None,
    ):
        self._task, self._ensemble, self._generate = task, ensemble, generate
        self._rows, self._shares = _padded(held_out or [])
        self.epoch, self.least = 0, math.inf
        self.state: list[Tensor] | None = None

    def see(self, epoch: int) -> dict[str, Any]:
        """Look at the members as they are, and return the mean held-out loss."""
        if not self._rows.size:
            return {}
        with torch.no_grad(), self._ensemble.eval_mode():
            losses = self._task.mmd_losses(
                *self._generate(self._rows), self._rows
            ).numpy()
        found = float((self._shares * losses).sum())
        if found < self.least:
            self.epoch, self.least = epoch, found
            self.state = self._ensemble.state()
        return {"held_out": found}


def _padded(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (S, B) and what each counts: a mean over members of their means."""
    longest = max((len(mine) for mine in rows), default=0)
    judged = max(1, sum(len(mine) > 0 for mine in rows))
    found = np.zeros((len(rows), longest), dtype=int)
    shares = np.zeros((len(rows), longest))
    for s, mine in enumerate(rows):
        found[s, : len(mine)] = mine
        shares[s, : len(mine)] = 1 / (judged * max(1, len(mine)))
    return found, shares
