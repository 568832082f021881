"""Location and scale of the outcomes given a context, fitted to the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.networks.domains import standard_spread
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import Feedforward, LocationScaleHead, Recurrent
from pyomo_csg.learn.random_state import torch_seed
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule, train_ensemble

_HOLDOUT = 0.2
_STEPS, _MOST_EPOCHS = 400, 100
_LEAST_SCALE = 0.05
_SHARES = torch.linspace(0.0, 1.0, 11, dtype=torch.float64)  # to choose from
_HIDDEN, _RECURRENT = (32,), (24,)
_MEMBERS = 4  # networks of one forecast: what training leaves to chance averages out


class Forecast(nn.Module):
    """From contexts, as they are, to a number for each uncertain one: a mean of networks.

    Parameters
    ----------
    context_shape : tuple of int
        (d,), or (W, d) for panels, which an LSTM reads.
    numbers : int
        p.
    hidden : sequence of int
    positive : bool
        Whether the numbers are above zero.
    members : int
        How many networks there are.
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
        members: int = _MEMBERS,
    ):
        super().__init__()
        self.settings = {
            "context_shape": list(context_shape),
            "numbers": numbers,
            "hidden": list(hidden),
            "positive": positive,
            "members": members,
        }
        kind = Feedforward if len(context_shape) == 1 else Recurrent
        self.bodies = nn.ModuleList(
            kind(context_shape[-1], (1, numbers), hidden) for _ in range(members)
        )
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
        self.unit.copy_(torch.as_tensor(standard_spread(targets)))

    def forward(self, x: Tensor) -> Tensor:
        """Return numbers (B, p)."""
        said = self.each((x - self.center) / self.spread).mean(0)
        return self.scaled(said * self.skill)

    def each(self, x: Tensor) -> Tensor:
        """Return what each body says, (S, B, 1, p), of standardised contexts."""
        return torch.stack([body(x) for body in self.bodies])

    def scaled(self, free: Tensor) -> Tensor:
        """Return numbers (B, p) of free ones (B, 1, p)."""
        moved = free[..., 0, :]
        if not self.positive:
            return self.offset + self.unit * moved
        # exp, bounded: a scale far outside the history's has no ground.
        return self.offset * torch.exp(2.5 * torch.tanh(moved / 2.5))


def fit_location_scale(
    task: Task, rows: Sequence[np.ndarray], stage: str
) -> list[LocationScaleHead]:
    """Fit a location-scale head to each of some sets of rows, in the L1 norm.

    The last fifth of a set, in the order given, says when to stop, and how much of what
    contexts seem to tell is to be believed.
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


def unfitted_head(task: Task) -> LocationScaleHead:
    """Return a head of the make that is fitted, before it is."""
    location, scale = (_empty(task, positive) for positive in (False, True))
    return LocationScaleHead(location, scale, task.omega)


def scaled_residuals(
    task: Task, head: LocationScaleHead, rows: np.ndarray
) -> np.ndarray:
    """Return what a head leaves unexplained on rows (m, p), in units of its scale."""
    frame = head.context_terms(torch.as_tensor(task.history.contexts[rows])).numpy()
    return (task.history.outcomes[rows] - frame[:, 0]) / frame[:, 1]


def intraclass_correlation(said: Tensor) -> Tensor:
    """Return the part (p,) of the variance over contexts that members (S, B, p) share.

    It is the intraclass correlation. Where all say the same, it is 1.
    """
    apart = said.var(0).mean(0)
    shared = (said.mean(0).var(0, correction=0) - apart / len(said)).clamp(min=0.0)
    return torch.where(apart > 0, shared / (shared + apart), 1.0)


def shrinkage(
    task: Task, network: Forecast, wanted: Tensor, late: np.ndarray
) -> Tensor:
    """Return how much of what bodies say is to be believed, (p,) from 0 to 1.

    Of each number as much as they agree on, for their training differs by chance alone;
    of that, the share that does best on the later rows: half way between its own and that
    of all numbers, since a few rows say little of one.
    """
    if not len(late):
        return torch.zeros_like(network.skill)
    with torch.no_grad():
        said = network.each(task.contexts[torch.as_tensor(late)])
        agreed = intraclass_correlation(said[..., 0, :])
        told = [network.scaled(share * agreed * said.mean(0)) for share in _SHARES]
    errors = torch.stack([_errors(network, one, wanted, late).mean(0) for one in told])
    own, common = _SHARES[errors.argmin(0)], _SHARES[errors.mean(1).argmin()]
    return agreed * (own + common) / 2


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
    split = [round(len(mine) * (1 - _HOLDOUT)) for mine in rows]
    late = [mine[cut:] for mine, cut in zip(rows, split, strict=True)]
    fits = [
        _BodyFit(network, body, torch.as_tensor(target), mine[:cut], mine[cut:])
        for network, target, mine, cut in zip(
            networks, targets, rows, split, strict=True
        )
        for body in network.bodies
    ]
    ensemble = Ensemble([fit.body for fit in fits]).to(task.device)

    def loss(batch: np.ndarray) -> Tensor:
        free = ensemble(task.contexts[torch.as_tensor(batch)])
        members = zip(fits, batch, free, strict=True)
        return torch.stack([fit.errors(*member).mean() for fit, *member in members])

    early = [fit.early for fit in fits]
    schedule = Schedule.of_steps(_STEPS, early, 64, 3e-3, 1e-3)
    schedule = replace(schedule, epochs=min(schedule.epochs, _MOST_EPOCHS))
    with task.log.stage(stage, schedule.epochs) as bar:

        def keep(epoch: int, losses: np.ndarray) -> None:
            for fit, body in zip(fits, ensemble.members(), strict=True):
                fit.offer(task, body)
            bar.step(loss=losses.mean())

        train_ensemble(ensemble, loss, early, schedule, task.rng(stage), keep)
    for fit in fits:
        fit.body.load_state_dict(fit.state)
    for network, target, held in zip(networks, targets, late, strict=True):
        network.skill.copy_(shrinkage(task, network, torch.as_tensor(target), held))
        network.requires_grad_(False)
    return networks


class _BodyFit:
    """A body of a forecast, and its state at the epoch that did best on later rows.

    Where nothing could be held out, no epoch did, and it stays as it was.
    """

    def __init__(
        self,
        network: Forecast,
        body: nn.Module,
        wanted: Tensor,
        early: np.ndarray,
        late: np.ndarray,
    ):
        self.body, self.early = body, early
        self._network, self._wanted, self._late = network, wanted, late
        self._least = np.inf
        self.state: dict[str, Any] = body.state_dict()

    def errors(self, batch: np.ndarray, free: Tensor) -> Tensor:
        """Return absolute errors (B, p) in units of the targets."""
        return _errors(self._network, self._network.scaled(free), self._wanted, batch)

    def offer(self, task: Task, body: nn.Module) -> None:
        """Keep a body if none did better on the later rows."""
        with torch.no_grad():
            free = body(task.contexts[torch.as_tensor(self._late)])
            held = float(self.errors(self._late, free).mean())
        if held < self._least:
            self._least, self.state = held, body.state_dict()


def _errors(
    network: Forecast, told: Tensor, wanted: Tensor, rows: np.ndarray
) -> Tensor:
    """Return absolute errors (B, p) on rows in units of the targets."""
    return (told - wanted[torch.as_tensor(rows)]).abs() / network.unit


def _new(
    task: Task, targets: np.ndarray, positive: bool, stage: str, number: int
) -> Forecast:
    seed = int(task.rng(f"{stage} {number}").integers(2**31))
    with torch_seed(seed):
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


def _apply(network: Forecast, contexts: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return network(torch.as_tensor(contexts)).numpy()
