"""Location and scale of the outcomes given a context, fitted to the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.descent import Schedule, descend
from pyomo_csg.learn.ensemble import Ensemble
from pyomo_csg.learn.networks import Feedforward, LocationScaleHead, Recurrent
from pyomo_csg.learn.omega import spread_of
from pyomo_csg.learn.seeding import seeded
from pyomo_csg.learn.task import Task

_HOLDOUT = 0.2
_EPOCHS = 25
_LEAST_SCALE = 0.05
_SKILL = 0.99  # of a constant's error: what must be beaten
_HIDDEN, _RECURRENT = (32,), (24,)


class Forecast(nn.Module):
    """From contexts, as they are, to a number for each uncertain one.

    Parameters
    ----------
    context_shape : tuple of int
        (d,), or (W, d) for panels, which an LSTM reads.
    numbers : int
        p.
    hidden : sequence of int
    positive : bool
        Whether the numbers are above zero.
    """

    center: Tensor
    spread: Tensor
    offset: Tensor
    unit: Tensor
    skill: Tensor

    def __init__(
        self,
        context_shape: Sequence[int],
        numbers: int,
        hidden: Sequence[int],
        positive: bool,
    ):
        super().__init__()
        self.settings = {
            "context_shape": list(context_shape),
            "numbers": numbers,
            "hidden": list(hidden),
            "positive": positive,
        }
        body = Feedforward if len(context_shape) == 1 else Recurrent
        self.body = body(context_shape[-1], (1, numbers), hidden)
        self.positive = positive
        inputs = context_shape[-1]
        for name, size in (("center", inputs), ("spread", inputs)):
            self.register_buffer(name, torch.ones(size, dtype=torch.float64))
        for name in ("offset", "unit", "skill"):
            self.register_buffer(name, torch.ones(numbers, dtype=torch.float64))

    def scale_to(self, task: Task, targets: np.ndarray) -> None:
        """See contexts standardised, and answer in the units of targets (m, p)."""
        self.center.copy_(torch.as_tensor(task.center))
        self.spread.copy_(torch.as_tensor(task.spread))
        self.offset.copy_(torch.as_tensor(np.median(targets, axis=0)))
        self.unit.copy_(torch.as_tensor(spread_of(targets)))

    def forward(self, x: Tensor) -> Tensor:
        """Return numbers (B, p)."""
        return self.scaled(self.body((x - self.center) / self.spread))

    def scaled(self, free: Tensor) -> Tensor:
        """Return numbers (B, p) of what the body says, (B, 1, p)."""
        moved = free[..., 0, :] * self.skill
        if not self.positive:
            return self.offset + self.unit * moved
        # exp, bounded: a scale far outside the history's has no ground.
        return self.offset * torch.exp(2.5 * torch.tanh(moved / 2.5))


def fit_location_scale(
    task: Task, rows: Sequence[np.ndarray], stage: str
) -> list[LocationScaleHead]:
    """Fit a location-scale head to each of some sets of rows, in the L1 norm.

    The last fifth of a set, in the order given, says when to stop, and for which numbers
    the context tells nothing: those get a constant.
    """
    outcomes = task.history.outcomes
    locations = _fit(task, [outcomes] * len(rows), rows, f"{stage} location", False)
    errors = [
        np.abs(outcomes - _apply(location, task.history.contexts))
        for location in locations
    ]
    scales = _fit(task, errors, rows, f"{stage} scale", True)
    return [
        LocationScaleHead(location, scale, task.omega)
        for location, scale in zip(locations, scales, strict=True)
    ]


def new_head(task: Task) -> LocationScaleHead:
    """Return a head of the make that is fitted, before it is."""
    location, scale = (_empty(task, positive) for positive in (False, True))
    return LocationScaleHead(location, scale, task.omega)


def residuals_of(task: Task, head: LocationScaleHead, rows: np.ndarray) -> np.ndarray:
    """Return what a head leaves unexplained on rows (m, p), in units of its scale."""
    frame = head.frame(torch.as_tensor(task.history.contexts[rows])).numpy()
    return (task.history.outcomes[rows] - frame[:, 0]) / frame[:, 1]


def _fit(
    task: Task,
    targets: Sequence[np.ndarray],
    rows: Sequence[np.ndarray],
    stage: str,
    positive: bool,
) -> list[Forecast]:
    networks = [
        _new(task, target[mine], positive, stage, number)
        for number, (target, mine) in enumerate(zip(targets, rows, strict=True))
    ]
    wanted = torch.as_tensor(np.stack(targets))
    split = [round(len(mine) * (1 - _HOLDOUT)) for mine in rows]
    early = [mine[:cut] for mine, cut in zip(rows, split, strict=True)]
    late = [mine[cut:] for mine, cut in zip(rows, split, strict=True)]
    ensemble = Ensemble([network.body for network in networks])

    def errors(batch: np.ndarray, free: Tensor, members: Sequence[int]) -> Tensor:
        """Return absolute errors (S, B, p) in units of the targets."""
        return torch.stack(
            [
                (
                    networks[s].scaled(free[i]) - wanted[s, torch.as_tensor(batch[i])]
                ).abs()
                / networks[s].unit
                for i, s in enumerate(members)
            ]
        )

    def loss(batch: np.ndarray) -> Tensor:
        free = ensemble(task.contexts[torch.as_tensor(batch)])
        return errors(batch, free, range(len(networks))).mean(dim=(1, 2))

    best = [_Best(network) for network in networks]
    schedule = Schedule(_EPOCHS, 64, 3e-3, 1e-3)
    with task.journal.stage(stage, schedule.epochs) as bar:

        def keep(epoch: int, losses: np.ndarray) -> None:
            for s, body in enumerate(ensemble.members()):
                with torch.no_grad():
                    free = body(task.contexts[torch.as_tensor(late[s])])
                    held = errors(late[s][None], free[None], [s])[0].mean(0).numpy()
                best[s].offer(held, body)
            bar.step(loss=losses.mean())

        keep_first = [
            _constant_error(n, wanted[s], late[s]) for s, n in enumerate(networks)
        ]
        descend(ensemble, loss, early, schedule, task.rng(stage), keep)
    for network, found, constant in zip(networks, best, keep_first, strict=True):
        network.body.load_state_dict(found.state)
        network.skill.copy_(
            torch.as_tensor((found.held < _SKILL * constant).astype(float))
        )
        network.requires_grad_(False)
    return networks


class _Best:
    """The state of a body at the epoch that did best on what was held out.

    Where nothing could be held out, no epoch did, and there is no skill to tell of.
    """

    def __init__(self, network: Forecast):
        self.held = np.full(len(network.unit), np.inf)
        self.state: dict[str, Any] = network.body.state_dict()

    def offer(self, held: np.ndarray, body: nn.Module) -> None:
        if held.mean() < self.held.mean():
            self.held, self.state = held, body.state_dict()


def _new(
    task: Task, targets: np.ndarray, positive: bool, stage: str, number: int
) -> Forecast:
    seed = int(task.rng(f"{stage} {number}").integers(2**31))
    with seeded(seed):
        network = _empty(task, positive)
    network.scale_to(task, targets)
    network.requires_grad_(True)
    if positive:
        network.offset.clamp_(min=_LEAST_SCALE * task.omega.spread)
    return network


def _empty(task: Task, positive: bool) -> Forecast:
    shape = task.history.contexts.shape[1:]
    hidden = _HIDDEN if len(shape) == 1 else _RECURRENT
    network = Forecast(shape, task.history.outcomes.shape[1], hidden, positive)
    return network.requires_grad_(False)


def _constant_error(network: Forecast, wanted: Tensor, late: np.ndarray) -> np.ndarray:
    """Return the errors (p,) of the offset alone."""
    apart = (network.offset - wanted[torch.as_tensor(late)]).abs() / network.unit
    return apart.mean(0).numpy()


def _apply(network: Forecast, contexts: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return network(torch.as_tensor(contexts)).numpy()
