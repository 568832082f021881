"""Static PCSG: Algorithm 1, a Loss-Net trained once, then Task-Nets that follow it."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.methods.labels import label_losses, penalize_unsolved
from pyomo_csg.learn.methods.mmd import expand_heads, mmd_scale, scenario_generator
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.loss_net import (
    LossNet,
    LossSamples,
    new_loss_nets,
    train_loss_nets,
)
from pyomo_csg.learn.random_state import torch_seed
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule, train_ensemble

GRID = (0.03, 0.3, 3.0, 30.0)  # lambdas to choose from, in standard deviations


@dataclass(frozen=True, eq=False)
class StaticResult:
    """What Algorithm 1 gives, a member an entry.

    Attributes
    ----------
    bodies : list of Module
    loss_nets : list of LossNet
        One and the same for members that started from one body on the same rows.
    samples : list of Samples
        What the Loss-Nets were trained on.
    """

    bodies: list[nn.Module]
    loss_nets: list[LossNet]
    samples: list[LossSamples]


def train_static(
    task: Task,
    start: Sequence[nn.Module],
    lambdas: Sequence[float],
    rows: Sequence[np.ndarray],
    stage: str,
    *,
    fresh: bool = False,
    huber: bool = False,
    head: Any = None,
) -> StaticResult:
    """Return bodies trained on Loss-Net + lambda * MMD, all in step.

    Members that start from the same body, the same object, share its labels; on the same
    rows they share a Loss-Net, too.

    Parameters
    ----------
    task : Task
    start : sequence of Module
        Trained by MMD. They stay as they are.
    lambdas : sequence of float
        The weight of the MMD loss, in the task's units, beside a loss in the model's.
    rows : sequence of int arrays
        Those that each member may see.
    stage : str
        Names bars and labels, and seeds.
    fresh : bool, optional
        Begin with new weights, as the paper does, and not at the MMD bodies; these take as
        many epochs as an MMD fit.
    huber : bool, optional
        Take Huber's loss for the Loss-Net's squares.
    head : Head or list of Head, optional
        Of all, or one a member. Default: the task's.
    """
    samples, kinds = _labelled_starts(task, start, rows, stage, head)
    nets = new_loss_nets(task, samples, f"{stage} Loss-Net")
    nets = train_loss_nets(task, nets, samples, f"{stage} Loss-Net", huber)
    mine = [nets[kind] for kind in kinds]
    begin = reset_weights(task, start, stage) if fresh else start
    epochs = task.config.mmd_epochs if fresh else task.config.task_epochs
    bodies = train_on_loss_net(
        task, begin, mine, lambdas, rows, f"{stage} Task-Net", head, epochs
    )
    return StaticResult(bodies, mine, [samples[kind] for kind in kinds])


def train_on_loss_net(
    task: Task,
    bodies: Sequence[nn.Module],
    nets: Sequence[LossNet],
    lambdas: Sequence[float],
    rows: Sequence[np.ndarray],
    stage: str,
    head: Any = None,
    epochs: int | None = None,
) -> list[nn.Module]:
    """Return bodies after a descent on Loss-Net + lambda * MMD (Static-PCSG).

    By default it takes ``config.task_epochs``.
    """
    config = task.config
    ensemble = Ensemble(bodies).to(task.device)
    frozen = [copy.deepcopy(net).requires_grad_(False) for net in nets]
    critics = Ensemble(frozen).to(task.device)
    generate = scenario_generator(task, ensemble, head)
    penalty = torch.as_tensor(np.asarray(lambdas, dtype=float))
    # Adam moves the same whatever the scale, but its gradients are clipped.
    scale = torch.stack([net.loss_spread for net in nets]) + penalty * mmd_scale(task)

    def loss(batch: np.ndarray) -> Tensor:
        scenarios, weights = generate(batch)
        outcomes = task.outcomes[torch.as_tensor(batch)]
        task_loss = critics(scenarios, weights, outcomes).mean(-1)
        return (
            task_loss + penalty * task.mmd_losses(scenarios, weights, batch).mean(-1)
        ) / scale

    schedule = Schedule(
        epochs or config.task_epochs, config.batch, config.task_rate, config.decay
    )
    with task.log.stage(stage, schedule.epochs) as bar:

        def after_epoch(epoch: int, losses: np.ndarray) -> None:
            bar.step(loss=float((losses * scale.numpy()).mean()))

        train_ensemble(ensemble, loss, rows, schedule, task.rng(stage), after_epoch)
    return ensemble.members()


def label_bodies(
    task: Task,
    bodies: Sequence[nn.Module],
    rows: Sequence[np.ndarray],
    stage: str,
    head: Any = None,
) -> list[LossSamples]:
    """Return what bodies plan on their rows, with l_opt, labelled in one batch.

    Where there is no answer the loss is :func:`~pyomo_csg.learn.methods.labels.penalize_unsolved`.
    """
    heads = expand_heads(task, head, len(bodies))
    found = [
        task.generate_scenarios(body, mine, own)
        for body, mine, own in zip(bodies, rows, heads, strict=True)
    ]
    scenarios = np.concatenate([one for one, _ in found])
    weights = np.concatenate([one for _, one in found])
    outcomes = task.history.outcomes[np.concatenate(list(rows))]
    losses = label_losses(
        task, stage, scenarios, outcomes, task.solver_weights(weights)
    )
    missing = int(np.isnan(losses).sum())
    task.log.record(stage, len(losses), missing=missing)
    together = LossSamples(scenarios, weights, outcomes, penalize_unsolved(losses))
    ends = np.cumsum([len(mine) for mine in rows])
    return [
        together.take(np.arange(end - len(mine), end))
        for end, mine in zip(ends, rows, strict=True)
    ]


def resolve_lambda(
    regularization: float | str,
    task: Task,
    bodies: Sequence[nn.Module],
    rows: Sequence[np.ndarray],
    head: Any = None,
) -> float:
    """Return lambda from a number, or relative to the MMD loss from text such as '0.1x'.

    ``'0.1x'`` is 0.1 times the mean squared MMD between what the bodies plan and what
    happened: the paper's scaling for CEP1, whose loss and MMD are apart by orders of
    magnitude. It is a matter of raw units; where the kernel sees standard ones, lambda is
    such that the penalty is the same (exactly so for the energy kernel and outcomes of
    one spread). The paper's k_E leaves -||omega|| in the MMD loss, so that it would be
    negative and reward scenarios for being far off; the squared MMD is the same but for
    this term, and never negative.

    Parameters
    ----------
    regularization : float or str
    task : Task
    bodies : sequence of Module
        Trained by MMD.
    rows : sequence of int arrays
        Those of each body.
    head : Head or list of Head, optional
        Of all, or one a body. Default: the task's.
    """
    factor, relative = _parsed(regularization)
    if not relative:
        return factor
    members = zip(bodies, rows, expand_heads(task, head, len(bodies)), strict=True)
    sizes = [_squared_mmd(task, *member) for member in members]
    raw = float(task.omega.spread.square().mean().sqrt()) / mmd_scale(task)
    # Once for the MMD that lambda is relative to, once for the MMD that it multiplies.
    return factor * float(np.mean(sizes)) * raw**2


def standard_lambda(factor: float, task: Task) -> float:
    """Return lambda from one in standard deviations of costs, an MMD in those of outcomes.

    So one grid serves every problem, whatever its units.
    """
    return factor * task.cost_scale / mmd_scale(task)


def _squared_mmd(task: Task, body: nn.Module, rows: np.ndarray, head: Any) -> float:
    scenarios, weights = map(torch.as_tensor, task.generate_scenarios(body, rows, head))
    scaled = (task.outcomes[torch.as_tensor(rows)] / task.kernel_unit)[:, None]
    own = task.kernel(scaled, scaled)[:, 0, 0]
    # Not negative but for rounding, or for a user's function that is no kernel.
    return abs(float((task.mmd_losses(scenarios, weights, rows) + own).mean()))


def _parsed(regularization: float | str) -> tuple[float, bool]:
    """Return the number, and whether it is relative."""
    text = str(regularization).strip().lower()
    relative = text.endswith("x")
    try:
        number = float(text.removesuffix("x"))
    except ValueError:
        number = math.nan
    if isinstance(regularization, bool) or not 0 <= number < math.inf:
        found = (
            f"regularization is {regularization!r}; give a number from 0 up, or one "
            "relative to the MMD loss, such as '0.1x'"
        )
        raise DataError("The settings do not fit", [found])
    return number, relative


def _labelled_starts(
    task: Task,
    start: Sequence[nn.Module],
    rows: Sequence[np.ndarray],
    stage: str,
    head: Any,
) -> tuple[list[LossSamples], list[int]]:
    """Return samples of each distinct start, and whose is which.

    What a body plans is labelled once a row, whichever members may see it.
    """
    heads = expand_heads(task, head, len(start))
    keys = [(id(body), id(own)) for body, own in zip(start, heads, strict=True)]
    first = {key: keys.index(key) for key in keys}
    seen = {
        key: np.unique(
            np.concatenate([r for k, r in zip(keys, rows, strict=True) if k == key])
        )
        for key in first
    }
    labelled = label_bodies(
        task,
        [start[s] for s in first.values()],
        list(seen.values()),
        f"{stage} labels",
        [heads[s] for s in first.values()],
    )
    by_key = dict(zip(first, labelled, strict=True))
    known: dict[Any, int] = {}
    samples: list[LossSamples] = []
    for key, mine in zip(keys, rows, strict=True):
        kind = key, np.asarray(mine, dtype=np.int64).tobytes()
        if kind not in known:
            known[kind] = len(samples)
            samples.append(by_key[key].take(np.searchsorted(seen[key], mine)))
    kinds = [
        known[key, np.asarray(mine, dtype=np.int64).tobytes()]
        for key, mine in zip(keys, rows, strict=True)
    ]
    return samples, kinds


def reset_weights(
    task: Task, bodies: Sequence[nn.Module], stage: str
) -> list[nn.Module]:
    """Return bodies of the same make with new weights."""
    found = [copy.deepcopy(body) for body in bodies]
    with torch_seed(task.rng(f"{stage} weights")):
        for body in found:
            for module in body.modules():
                reset = getattr(module, "reset_parameters", None)
                if callable(reset):
                    reset()
    return found
