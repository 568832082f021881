"""Direct: train on the task loss, by its gradient through the optimal basis."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.distributions.samplers import Sampler
from pyomo_csg.learn.loss_kinds import LossKind
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import scenarios_from_output
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.torch_layers import TaskLoss
from pyomo_csg.learn.trainer import Schedule, train_ensemble
from pyomo_csg.solve import Oracle

logger = logging.getLogger(__name__)


def train_direct(
    task: Task,
    stage: str,
    bodies: Sequence[nn.Module],
    rows: Sequence[np.ndarray],
    samplers: Sequence[Sampler],
    heads: Sequence[Any] | None = None,
    schedule: Schedule | None = None,
    **options: Any,
) -> list[nn.Module]:
    """Return bodies trained by :class:`Direct`, or read them from the checkpoint."""

    def train() -> list[nn.Module]:
        direct = Direct(task, samplers, heads, **options)
        return direct.train(bodies, rows, stage, schedule)

    return train_or_restore(task, stage, bodies, train)


class Direct:
    """Trains networks on the costs of their decisions, one sampler of outcomes per member.

    Noise on the scenarios smooths the corners of the decision as a function of them. With
    ``together``, the noise is the same for all scenarios of a context, since copies of one
    scenario would spread otherwise. Programs that could not be solved have no gradient:
    there, only the MMD loss moves the scenarios. ``regularization`` is the weight of the MMD
    loss, in standard deviations of either loss. ``oracle`` may be that of a relaxation,
    which is faster than the task's; its integer programs may stop at ``mip_gap``. ``kind`` is
    that of the losses. ``failed`` counts the unsolved programs.
    """

    def __init__(
        self,
        task: Task,
        samplers: Sequence[Sampler],
        heads: Sequence[Any] | None = None,
        oracle: Oracle | None = None,
        regularization: float = 0.0,
        draws: int | None = None,
        together: bool = False,
        kind: str | LossKind = "recourse",
        mip_gap: float | None = None,
    ):
        self._task, self._samplers, self._together = task, samplers, together
        named = LossKind(kind) if isinstance(kind, str) else kind
        self._task_loss = TaskLoss(
            oracle or task.oracle, named.kind, regret=named.regret, on_error="record"
        )
        self._task_loss.mip_gap = mip_gap
        self._regularization = regularization
        self._draws = draws or task.config.draws
        self._heads = heads or [task.head] * len(samplers)
        self._terms = [task.context_terms(head) for head in self._heads]
        self.failed = 0

    def train(
        self,
        bodies: Sequence[nn.Module],
        rows: Sequence[np.ndarray],
        stage: str,
        schedule: Schedule | None = None,
    ) -> list[nn.Module]:
        """Return the bodies after training on their rows."""
        config, rng = self._task.config, self._task.rng(stage)
        if schedule is None:
            schedule = Schedule(
                config.task_epochs, config.batch, config.task_rate, config.decay
            )
        ensemble = Ensemble(bodies).to(self._task.device)
        steps = schedule.steps(rows) * schedule.epochs
        with self._task.log.stage(stage, steps) as bar:

            def loss(batch: np.ndarray) -> Tensor:
                found = self._losses(ensemble, batch, rng)
                bar.step()
                return found

            train_ensemble(
                ensemble,
                loss,
                rows,
                schedule,
                rng,
                lambda epoch, losses: bar.step(0, epoch=epoch, loss=losses.mean()),
            )
        if self.failed:
            logger.warning(
                "%s: %d programs could not be solved; the MMD loss moved their scenarios",
                stage,
                self.failed,
            )
            self._task.log.record(stage, steps, missing=self.failed)
        return ensemble.members()

    def _losses(
        self, ensemble: Ensemble, rows: np.ndarray, rng: np.random.Generator
    ) -> Tensor:
        """Return the members' losses (S,) on rows (S, B), with their gradient."""
        task = self._task
        free = ensemble(task.contexts[torch.as_tensor(rows)])
        moved = 1 if self._together else free.shape[-2]
        size = (*free.shape[:-2], moved, task.omega.center.shape[0])
        noise = torch.as_tensor(task.config.noise * rng.standard_normal(size))
        scenarios, weights = self._scenarios(free, rows, noise)
        outcomes = np.stack(
            [
                sampler.draw(mine, self._draws, rng)
                for sampler, mine in zip(self._samplers, rows, strict=True)
            ]
        )
        loss, unsolved = self._task_losses(scenarios, weights, outcomes, rows)
        if self._regularization > 0:
            mmd = task.mmd_losses(scenarios, weights, rows)
            loss = loss + self._regularization * mmd
        if unsolved.any():
            mmd = task.mmd_losses(scenarios, weights, rows)
            loss = torch.where(unsolved, mmd, loss)
        return loss.mean(dim=1)

    def _scenarios(
        self, free: Tensor, rows: np.ndarray, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the scenarios (S, B, K, p) and weights (S, B, K) of outputs on rows."""
        index, found = torch.as_tensor(rows), []
        for s, (head, terms) in enumerate(zip(self._heads, self._terms, strict=True)):
            mine = None if terms is None else terms[index[s]]
            found.append(scenarios_from_output(free[s], head, mine, noise[s]))
        return torch.stack([z for z, _ in found]), torch.stack([w for _, w in found])

    def _task_losses(
        self, scenarios: Tensor, weights: Tensor, outcomes: np.ndarray, rows: np.ndarray
    ) -> tuple[Tensor, Tensor]:
        """Return differentiable task losses (S, B), and where they could not be solved."""
        shape = scenarios.shape[:2]
        shares = weights.detach().numpy().reshape(-1, weights.shape[-1])
        task_loss, known = self._task_loss, self._task.history.known[rows.reshape(-1)]
        task_loss.deadline = self._task.log.deadline
        found = task_loss(
            scenarios.flatten(0, 1),
            outcomes.reshape(-1, *outcomes.shape[2:]),
            self._task.solver_weights(shares),
            known=known if known.size else None,
        )
        self._task.log.check_time()
        self.failed += len(task_loss.failures)
        losses = (found / self._task.cost_scale).reshape(shape)
        unsolved = torch.isnan(losses.detach())
        return torch.where(unsolved, torch.zeros_like(losses), losses), unsolved
