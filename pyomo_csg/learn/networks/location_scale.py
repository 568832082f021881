"""Location and scale of the outcomes given a context, fitted to the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import Feedforward, LocationScaleHead, Recurrent
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule, torch_seed, train_ensemble

_HOLDOUT = 0.2
_STEPS, _MOST_EPOCHS = 400, 100
_LEAST_SCALE = 0.05
_SHARES = torch.linspace(0.0, 1.0, 11, dtype=torch.float64)  # shrinkage candidates
_HIDDEN, _RECURRENT = (32,), (24,)
_MEMBERS = 4  # networks per forecast: averaging reduces the variance of training


class Forecast(nn.Module):
    """The mean of networks from raw contexts to (B, p); ``positive`` bounds it below by 0.

    ``context_shape`` is (d,), or (W, d) for panels, which an LSTM reads.
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
        inputs = context_shape[-1]
        self.bodies = nn.ModuleList(
            kind(inputs, (1, numbers), hidden) for _ in range(members)
        )
        self.positive = positive
        for name in ("center", "spread"):
            self.register_buffer(name, torch.ones(inputs, dtype=torch.float64))
        for name in ("offset", "unit", "skill"):
            self.register_buffer(name, torch.ones(numbers, dtype=torch.float64))

    def set_scaling(self, task: Task, targets: np.ndarray) -> None:
        """Standardize contexts as the task does, and predict in the units of targets (m, p)."""
        self.center.copy_(torch.as_tensor(task.center))
        self.spread.copy_(torch.as_tensor(task.spread))
        self.offset.copy_(torch.as_tensor(np.median(targets, axis=0)))
        self.unit.copy_(torch.as_tensor(standard_spread(targets)))

    def forward(self, x: Tensor) -> Tensor:
        """Return predictions (B, p)."""
        mean = self.member_outputs((x - self.center) / self.spread).mean(0)
        return self.predict(mean * self.skill)

    def member_outputs(self, x: Tensor) -> Tensor:
        """Return the outputs (S, B, 1, p) of all networks on standardized contexts."""
        return torch.stack([body(x) for body in self.bodies])

    def predict(self, output: Tensor) -> Tensor:
        """Return predictions (B, p) from network outputs (B, 1, p)."""
        output = output[..., 0, :]
        if not self.positive:
            return self.offset + self.unit * output
        # A bounded exponential: do not extrapolate far beyond the history's scale.
        return self.offset * torch.exp(2.5 * torch.tanh(output / 2.5))


def fit_location_scale(
    task: Task, rows: Sequence[np.ndarray], stage: str
) -> list[LocationScaleHead]:
    """Fit a location-scale head to each set of rows by absolute errors.

    The last fifth of each set validates: it sets the number of epochs and the shrinkage.
    """
    outcomes = task.history.outcomes
    locations = _fit(task, [outcomes] * len(rows), rows, f"{stage} location", False)
    with torch.no_grad():
        contexts = torch.as_tensor(task.history.contexts)
        errors = [np.abs(outcomes - one(contexts).numpy()) for one in locations]
    scales = _fit(task, errors, rows, f"{stage} scale", True)
    return [
        LocationScaleHead(location, scale, task.omega)
        for location, scale in zip(locations, scales, strict=True)
    ]


def unfitted_head(task: Task) -> LocationScaleHead:
    """Return a head with the architecture that :func:`fit_location_scale` fits."""
    location, scale = (_build_forecast(task, positive) for positive in (False, True))
    return LocationScaleHead(location, scale, task.omega)


def scaled_residuals(
    task: Task, head: LocationScaleHead, rows: np.ndarray
) -> np.ndarray:
    """Return the residuals (m, p) of a head on rows, in units of its scale."""
    contexts = torch.as_tensor(task.history.contexts[rows])
    terms = head.context_terms(contexts).numpy()
    return (task.history.outcomes[rows] - terms[:, 0]) / terms[:, 1]


def intraclass_correlation(outputs: Tensor) -> Tensor:
    """Return the share (p,) of the variance over contexts that members (S, B, p) share."""
    apart = outputs.var(0).mean(0)
    shared = outputs.mean(0).var(0, correction=0) - apart / len(outputs)
    shared = shared.clamp(min=0.0)
    return torch.where(apart > 0, shared / (shared + apart), 1.0)


def shrinkage(
    task: Task, network: Forecast, targets: Tensor, validation: np.ndarray
) -> Tensor:
    """Return the factors (p,) from 0 to 1 by which to shrink a forecast to its median.

    Where the members disagree, the output is shrunk by their intraclass correlation. The
    rest is chosen on the validation rows: halfway between the best factor of each
    column and the best for all columns, since a few rows say little about one column.
    """
    if not len(validation):
        return torch.zeros_like(network.skill)
    with torch.no_grad():
        outputs = network.member_outputs(task.contexts[torch.as_tensor(validation)])
        agreed = intraclass_correlation(outputs[..., 0, :])
        mean = outputs.mean(0)
        tried = [network.predict(share * agreed * mean) for share in _SHARES]
    errors = torch.stack(
        [_errors(network, one, targets, validation).mean(0) for one in tried]
    )
    column, common = _SHARES[errors.argmin(0)], _SHARES[errors.mean(1).argmin()]
    return agreed * (column + common) / 2


def _fit(
    task: Task,
    targets: Sequence[np.ndarray],
    rows: Sequence[np.ndarray],
    stage: str,
    positive: bool,
) -> list[Forecast]:
    """Fit one forecast per set of rows, all networks in one ensemble."""
    networks = [
        _new_forecast(task, target[mine], positive, f"{stage} {number}")
        for number, (target, mine) in enumerate(zip(targets, rows, strict=True))
    ]
    fits = []
    for network, target, mine in zip(networks, targets, rows, strict=True):
        cut = round(len(mine) * (1 - _HOLDOUT))
        wanted = torch.as_tensor(target)
        fits += [
            _MemberFit(network, body, wanted, mine[:cut], mine[cut:])
            for body in network.bodies
        ]
    ensemble = Ensemble([fit.body for fit in fits]).to(task.device)

    def loss(batch: np.ndarray) -> Tensor:
        outputs = ensemble(task.contexts[torch.as_tensor(batch)])
        members = zip(fits, batch, outputs, strict=True)
        return torch.stack([fit.errors(*member).mean() for fit, *member in members])

    training = [fit.training for fit in fits]
    schedule = Schedule.of_steps(_STEPS, training, 64, 3e-3, 1e-3)
    schedule = replace(schedule, epochs=min(schedule.epochs, _MOST_EPOCHS))
    with task.log.stage(stage, schedule.epochs) as bar:

        def keep_best(epoch: int, losses: np.ndarray) -> None:
            for fit, body in zip(fits, ensemble.members(), strict=True):
                fit.keep_if_best(task, body)
            bar.step(loss=losses.mean())

        train_ensemble(ensemble, loss, training, schedule, task.rng(stage), keep_best)
    for fit in fits:
        fit.body.load_state_dict(fit.state)
    for fit in fits[::_MEMBERS]:  # one fit per network
        network = fit.network
        network.skill.copy_(shrinkage(task, network, fit.targets, fit.validation))
        network.requires_grad_(False)
    return networks


class _MemberFit:
    """A network of a forecast, and its state after the epoch with the least error.

    Without validation rows it keeps its first state.
    """

    def __init__(
        self,
        network: Forecast,
        body: nn.Module,
        targets: Tensor,
        training: np.ndarray,
        validation: np.ndarray,
    ):
        self.network, self.body, self.targets = network, body, targets
        self.training, self.validation = training, validation
        self._least = np.inf
        self.state: dict[str, Any] = body.state_dict()

    def errors(self, batch: np.ndarray, output: Tensor) -> Tensor:
        """Return absolute errors (B, p) in units of the targets."""
        return _errors(self.network, self.network.predict(output), self.targets, batch)

    def keep_if_best(self, task: Task, body: nn.Module) -> None:
        """Keep the state of a body if its validation error is the least so far."""
        with torch.no_grad():
            output = body(task.contexts[torch.as_tensor(self.validation)])
            error = float(self.errors(self.validation, output).mean())
        if error < self._least:
            self._least, self.state = error, body.state_dict()


def _errors(
    network: Forecast, predictions: Tensor, targets: Tensor, rows: np.ndarray
) -> Tensor:
    """Return absolute errors (B, p) on rows in units of the targets."""
    return (predictions - targets[torch.as_tensor(rows)]).abs() / network.unit


def _new_forecast(
    task: Task, targets: np.ndarray, positive: bool, stage: str
) -> Forecast:
    with torch_seed(int(task.rng(stage).integers(2**31))):
        network = _build_forecast(task, positive)
    network.set_scaling(task, targets)
    network.requires_grad_(True)
    if positive:
        network.offset.clamp_(min=_LEAST_SCALE * task.omega.spread)
    return network


def _build_forecast(task: Task, positive: bool) -> Forecast:
    shape = task.history.contexts.shape[1:]
    hidden = _HIDDEN if len(shape) == 1 else _RECURRENT
    network = Forecast(shape, task.history.outcomes.shape[1], hidden, positive)
    return network.requires_grad_(False)
