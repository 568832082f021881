"""The Loss-Net: a smooth surrogate of the loss of deciding on a few scenarios."""

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
from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import mlp
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule, torch_seed, train_ensemble

# Batches are larger than a Task-Net's: about as accurate in a quarter of the steps.
_BATCH_FACTOR = 4
_FIRST_LAYER = 64  # units of a complete encoder


class LossPredictor(nn.Module):
    """Predicts losses in the model's units from standardized scenarios and outcomes.

    Subclasses implement ``standard_loss``.
    """

    center: Tensor
    spread: Tensor
    loss_center: Tensor
    loss_spread: Tensor

    def __init__(self, numbers: int):
        super().__init__()
        for name, shape in (
            ("center", (numbers,)),
            ("spread", (numbers,)),
            ("loss_center", ()),
            ("loss_spread", ()),
        ):
            fill = torch.ones if name.endswith("spread") else torch.zeros
            self.register_buffer(name, fill(shape, dtype=torch.float64))

    def set_scaling(self, center: Any, spread: Any, losses: np.ndarray) -> None:
        """Set center and spread of the outcomes (p,), and those of losses (n,)."""
        self.center.copy_(torch.as_tensor(center))
        self.spread.copy_(torch.as_tensor(spread))
        self.loss_center.fill_(float(losses.mean()))
        self.loss_spread.fill_(float(standard_spread(losses[:, None])[0]))

    def forward(self, scenarios: Tensor, weights: Tensor, outcomes: Tensor) -> Tensor:
        """Return losses (B,) of scenarios (B, K, p), weights (B, K), outcomes (B, p)."""
        standard = self.standard_loss(
            (scenarios - self.center) / self.spread,
            weights,
            (outcomes - self.center) / self.spread,
        )
        return self.loss_center + self.loss_spread * standard.double()

    def standard_loss(
        self, scenarios: Tensor, weights: Tensor, outcomes: Tensor
    ) -> Tensor:
        """Return standardized losses (B,)."""
        raise NotImplementedError


class LossNet(LossPredictor):
    """Predicts l_opt of scenarios and an outcome, in any order and number of scenarios.

    One encoder reads each scenario and the outcome; the scenarios' codes are averaged, and
    a head predicts the loss from the two codes (section 3.5 of the paper). Single precision
    is accurate enough and takes half the time. ``encoder`` and ``head`` are units of layers.
    """

    def __init__(
        self,
        numbers: int,
        encoder: Sequence[int] = (64, 32),
        head: Sequence[int] = (64, 64, 64),
    ):
        super().__init__(numbers)
        self.encoder = mlp([numbers, *encoder]).float()
        self.head = mlp([2 * encoder[-1], *head, 1]).float()

    def standard_loss(
        self, scenarios: Tensor, weights: Tensor, outcomes: Tensor
    ) -> Tensor:
        """Return standardized losses (B,)."""
        codes = self._code(scenarios)
        scenario_code = (weights.to(codes.dtype)[..., None] * codes).sum(-2)
        codes = torch.cat([scenario_code, self._code(outcomes)], dim=-1)
        return self.head(codes)[..., 0]

    def _code(self, standard: Tensor) -> Tensor:
        return self.encoder(standard.to(next(self.encoder.parameters()).dtype))


class UserLossNet(LossPredictor):
    """A module of the user's in place of the Loss-Net; it starts from its own weights."""

    def __init__(self, numbers: int, module: nn.Module):
        super().__init__(numbers)
        self.module = copy.deepcopy(module).double().requires_grad_(True)

    def standard_loss(
        self, scenarios: Tensor, weights: Tensor, outcomes: Tensor
    ) -> Tensor:
        """Return standardized losses (B,)."""
        found: Tensor = self.module(scenarios, weights, outcomes)
        return found


@dataclass(frozen=True, eq=False)
class LossSamples:
    """Training data of a Loss-Net: S' of the paper."""

    scenarios: np.ndarray  # (n, K, p)
    weights: np.ndarray  # (n, K)
    outcomes: np.ndarray  # (n, p)
    losses: np.ndarray  # l_opt (n,); NaN if the program could not be solved

    def __len__(self) -> int:
        return len(self.losses)

    def take(self, cases: np.ndarray) -> LossSamples:
        """Return some of the cases."""
        return LossSamples(*(array[cases] for array in self.arrays()))

    def solved(self) -> LossSamples:
        """Return the cases with a solved program."""
        return self.take(np.isfinite(self.losses))

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return the four arrays."""
        return self.scenarios, self.weights, self.outcomes, self.losses


def concatenate_samples(parts: Sequence[LossSamples]) -> LossSamples:
    """Return several sets of samples as one."""
    columns = zip(*(part.arrays() for part in parts), strict=True)
    return LossSamples(*(np.concatenate(column) for column in columns))


def new_loss_nets(
    task: Task, samples: Sequence[LossSamples], stage: str
) -> list[LossPredictor]:
    """Return untrained Loss-Nets scaled to their samples."""
    for one in samples:
        if not len(one.solved()):
            problem = (
                f"none of {len(one)} programs with generated scenarios could be solved; "
                "see Oracle.loss for why, and give the model complete recourse"
            )
            name = task.oracle.two_stage.model.name
            raise DataError(f"The loss of '{name}' cannot be learned", [problem])
    omega, nets = task.omega, untrained_loss_nets(task, len(samples), stage)
    for net, one in zip(nets, samples, strict=True):
        net.set_scaling(omega.center, omega.spread, one.solved().losses)
    return nets


def untrained_loss_nets(task: Task, count: int, stage: str) -> list[LossPredictor]:
    """Return Loss-Nets with initial weights drawn for a stage, or copies of the user's."""
    config, numbers = task.config, len(task.omega.center)
    if config.loss_net is not None:
        return [UserLossNet(numbers, config.loss_net) for _ in range(count)]
    encoder = config.encoder
    if isinstance(encoder, str):
        encoder = _FIRST_LAYER, representation_width(task.scenarios, numbers)
    with torch_seed(task.rng(f"{stage} weights")):
        return [LossNet(numbers, encoder, config.head) for _ in range(count)]


def representation_width(scenarios: int, numbers: int) -> int:
    """Return the width of codes whose mean determines K scenarios in any order.

    >>> representation_width(5, 3)
    55
    """
    return math.comb(scenarios + numbers, numbers) - 1


def train_loss_nets(
    task: Task,
    nets: Sequence[LossPredictor],
    samples: Sequence[LossSamples],
    stage: str,
    epochs: int | None = None,
) -> list[LossPredictor]:
    """Return copies of the Loss-Nets, each trained on the solved cases of its samples."""
    config = task.config
    solved = [one.solved() for one in samples]
    data = [torch.as_tensor(array) for array in concatenate_samples(solved).arrays()]
    *ends, total = np.cumsum([len(one) for one in solved])
    rows = np.split(np.arange(total), ends)
    scales = torch.stack([net.loss_spread for net in nets])[:, None]
    ensemble = Ensemble(nets).to(task.device)

    def loss(batch: np.ndarray) -> Tensor:
        *inputs, losses = (column[torch.as_tensor(batch)] for column in data)
        return ((ensemble(*inputs) - losses) / scales).square().mean(-1)

    schedule = Schedule(
        config.loss_epochs if epochs is None else epochs,
        _BATCH_FACTOR * config.batch,
        config.loss_rate,
        config.decay,
    )
    with task.log.stage(stage, schedule.epochs) as bar:
        train_ensemble(
            ensemble,
            loss,
            rows,
            schedule,
            task.rng(stage),
            lambda _, losses: bar.step(loss=float(losses.mean())),
        )
    return [net for net in ensemble.members() if isinstance(net, LossPredictor)]
