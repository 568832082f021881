"""Static PCSG (Algorithm 1): train a Loss-Net once, then Task-Nets on its predictions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.checkpoint import restore_parameters
from pyomo_csg.learn.loss_kinds import LossKind
from pyomo_csg.learn.methods.labels import label_bodies
from pyomo_csg.learn.methods.mmd import (
    expand_heads,
    mmd_scale,
    mmd_schedule,
    train_task_nets,
)
from pyomo_csg.learn.methods.specifications import parse_number
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.loss_net import (
    LossPredictor,
    LossSamples,
    new_loss_nets,
    train_loss_nets,
    untrained_loss_nets,
)
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule

GRID = (0.03, 0.3, 3.0, 30.0)  # candidate lambdas, in standard deviations


@dataclass(frozen=True, eq=False)
class LossNetFit:
    """A body, the Loss-Net that trained it, and the samples that trained the Loss-Net.

    ``rows`` are those of the history that the samples are for, once or several times; all
    by default.
    """

    body: nn.Module
    loss_net: LossPredictor
    samples: LossSamples
    rows: np.ndarray | None = field(default=None, kw_only=True)


def train_static(
    task: Task,
    start: Sequence[nn.Module],
    lambdas: Sequence[float],
    rows: Sequence[np.ndarray],
    stage: str,
    *,
    fresh: Sequence[nn.Module] | None = None,
    held_out: Sequence[np.ndarray] | None = None,
    head: Any = None,
    kind: str | LossKind = "optimistic",
) -> list[LossNetFit]:
    """Train one body per lambda and set of rows on Loss-Net + lambda * MMD.

    Members that start from the same body (the same object, trained by MMD) share its
    labels; on the same rows they share a Loss-Net, too. With ``fresh`` bodies, training
    begins at these instead, with the schedule and the order of rows of an MMD fit: the
    paper's methods then differ in what they minimize alone. Held-out rows, of each fold,
    stop the training as they do an MMD fit's. ``head`` is one for all members, or a list;
    ``kind`` is that of the losses.
    """
    heads = expand_heads(task, head, len(start))
    keys = [(id(body), id(mine)) for body, mine in zip(start, heads, strict=True)]
    # Each distinct start is labeled once per row, whichever members train on it.
    firsts = {key: keys.index(key) for key in keys}
    labeled_rows = {
        key: np.unique(
            np.concatenate([r for k, r in zip(keys, rows, strict=True) if k == key])
        )
        for key in firsts
    }
    labeled = label_bodies(
        task,
        [start[s] for s in firsts.values()],
        list(labeled_rows.values()),
        f"{stage} labels",
        [heads[s] for s in firsts.values()],
        kind,
        task.config.label_scenarios,
    )
    by_start = dict(zip(firsts, labeled, strict=True))
    number: dict[Any, int] = {}  # of the Loss-Net, by start and rows
    shared: list[int] = []
    samples: list[LossSamples] = []
    for key, its_rows in zip(keys, rows, strict=True):
        pair = key, np.asarray(its_rows, dtype=np.int64).tobytes()
        if pair not in number:
            number[pair] = len(samples)
            places = np.searchsorted(labeled_rows[key], its_rows)
            samples.append(by_start[key].take(places))
        shared.append(number[pair])
    nets = new_loss_nets(task, samples, f"{stage} Loss-Net")
    nets = train_loss_nets(task, nets, samples, f"{stage} Loss-Net")
    mine = [nets[s] for s in shared]
    bodies = train_on_loss_net(
        task,
        fresh or start,
        mine,
        lambdas,
        rows,
        f"{stage} Task-Net",
        head,
        held_out,
        is_fresh=fresh is not None,
    )
    return [
        LossNetFit(body, nets[s], samples[s], rows=mine)
        for body, s, mine in zip(bodies, shared, rows, strict=True)
    ]


def load_loss_net_fits(
    task: Task, stage: str, start: Sequence[nn.Module]
) -> list[LossNetFit] | None:
    """Return the fits of a stage from the checkpoint; None if it is not stored."""
    arrays = task.checkpoint.load(stage, log=task.log)
    if arrays is None:
        return None
    (net,) = untrained_loss_nets(task, 1, stage)
    return [
        LossNetFit(
            restore_parameters(body, arrays, f"{s}."),
            restore_parameters(net, arrays, f"net {s}."),
            LossSamples(*(arrays[f"samples {s}.{i}"] for i in range(4))),
            rows=arrays.get(f"rows {s}"),
        )
        for s, body in enumerate(start)
    ]


def save_loss_net_fits(
    task: Task, stage: str, fits: Sequence[LossNetFit], first_entry: int
) -> None:
    """Store the fits of a stage, with the log's entries from one on."""
    arrays: dict[str, Any] = {}
    for s, fit in enumerate(fits):
        arrays |= {f"{s}.{name}": x for name, x in fit.body.state_dict().items()}
        arrays |= {
            f"net {s}.{name}": x for name, x in fit.loss_net.state_dict().items()
        }
        arrays |= {f"samples {s}.{i}": x for i, x in enumerate(fit.samples.arrays())}
        if fit.rows is not None:
            arrays[f"rows {s}"] = np.asarray(fit.rows)
    task.checkpoint.save(stage, arrays, log=task.log, first_entry=first_entry)


def train_on_loss_net(
    task: Task,
    bodies: Sequence[nn.Module],
    nets: Sequence[LossPredictor],
    lambdas: Sequence[float],
    rows: Sequence[np.ndarray],
    stage: str,
    head: Any = None,
    held_out: Sequence[np.ndarray] | None = None,
    *,
    is_fresh: bool = False,
) -> list[nn.Module]:
    """Return bodies trained on Loss-Net + lambda * MMD.

    Fresh ones are trained as an MMD fit is, others for ``task_epochs``.
    """
    config = task.config
    frozen = [copy.deepcopy(net).requires_grad_(False) for net in nets]
    critics = Ensemble(frozen).to(task.device)
    penalty = torch.as_tensor(np.asarray(lambdas, dtype=float))
    # Adam does not depend on the scale, but gradients are clipped.
    scale = torch.stack([net.loss_spread for net in nets]) + penalty * mmd_scale(task)
    drawing = task.rng(f"{stage} outcomes")

    def losses(scenarios: Tensor, weights: Tensor, batch: np.ndarray) -> Tensor:
        outcomes = torch.as_tensor(task.draw_targets(batch, drawing))
        mmd = task.mmd_losses(scenarios, weights, batch)
        return critics(scenarios, weights, outcomes) + penalty[:, None] * mmd

    continued = Schedule(
        config.task_epochs, config.batch, config.task_rate, config.decay
    )
    return train_task_nets(
        task,
        bodies,
        losses,
        rows,
        held_out,
        stage,
        schedule=mmd_schedule(task, rows) if is_fresh else continued,
        scale=scale,
        head=head,
        order="mmd" if is_fresh else None,
    )


def resolve_lambda(
    regularization: float | str,
    task: Task,
    bodies: Sequence[nn.Module],
    rows: Sequence[np.ndarray],
    head: Any = None,
) -> float:
    """Return lambda from a number, or relative to the squared MMD from text like '0.1x'.

    ``'0.1x'`` is 0.1 times the mean squared MMD between the bodies' scenarios and the
    outcomes, as the paper scales CEP1. It refers to raw units. Where the kernel sees
    standardized ones, lambda is chosen so that the penalty is the same (exactly so for
    the energy kernel and outcomes of one spread). The paper's k_E leaves -||omega|| in
    the MMD loss, which could make it negative and reward distant scenarios; the squared
    MMD differs by this term only, and is never negative.
    """
    if not isinstance(regularization, str):
        return regularization
    factor = parse_number(regularization)
    members = zip(bodies, rows, expand_heads(task, head, len(bodies)), strict=True)
    sizes = [_squared_mmd(task, *member) for member in members]
    raw = float(task.omega.spread.square().mean().sqrt()) / mmd_scale(task)
    # Once for the MMD that lambda is relative to, once for the MMD that it multiplies.
    return factor * float(np.mean(sizes)) * raw**2


def standard_lambdas(task: Task) -> list[float]:
    """Return a grid of lambdas in standard deviations of costs per one of outcomes.

    One grid then suits every problem, in any units.
    """
    cost_scale, outcome_scale = task.cost_scale, mmd_scale(task)
    return [factor * cost_scale / outcome_scale for factor in GRID]


def _squared_mmd(task: Task, body: nn.Module, rows: np.ndarray, head: Any) -> float:
    scenarios, weights = map(torch.as_tensor, task.generate_scenarios(body, rows, head))
    own = torch.zeros(())
    if task.config.distance is None:  # the term that the loss leaves out
        targets = task.target_points(rows) / task.kernel_unit
        own = task.kernel(targets, targets).mean((-1, -2))
    # Negative only by rounding, or if a user's function is not a kernel.
    return abs(float((task.mmd_losses(scenarios, weights, rows) + own).mean()))
