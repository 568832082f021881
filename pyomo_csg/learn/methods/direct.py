"""Direct: the task loss itself, by its gradient through the optimal basis."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.distributions.samplers import Sampler
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import scenarios_from_output
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import Schedule, train_ensemble
from pyomo_csg.solve import Oracle

logger = logging.getLogger(__name__)


class Direct:
    """Trains networks on what their decisions cost.

    Noise on the scenarios smooths the corners that a decision has as a function of them.
    Scenarios on which there is no decision, or none with a recourse, have no gradient: the
    MMD loss alone moves them, back to what happened.

    Parameters
    ----------
    task : Task
    likely : sequence of Likely
        What may happen, for each member.
    heads : sequence of Head
    oracle : Oracle, optional
        Default: the task's own. That of a relaxation is quicker.
    regularization : float
        What an MMD loss weighs beside the task loss, in standard deviations of either.
    draws : int, optional
        Outcomes that a decision is charged for. Default: as configured.
    together : bool
        Whether the noise moves all scenarios of a context alike. Where they are copies of
        one, noise of their own would spread them, and decisions then answer to that.

    Attributes
    ----------
    failed : int
        How many programs had no answer so far.
    """

    def __init__(
        self,
        task: Task,
        likely: Sequence[Sampler],
        heads: Sequence[Any] | None = None,
        oracle: Oracle | None = None,
        regularization: float = 0.0,
        draws: int | None = None,
        together: bool = False,
    ):
        self._together = together
        self._task, self._likely = task, likely
        self._oracle = oracle or task.oracle
        self._regularization = regularization
        self._draws = draws or task.config.draws
        self._heads = heads or [task.head] * len(likely)
        raw = torch.as_tensor(task.history.contexts)
        frames = {id(head): head.context_terms(raw) for head in self._heads}
        self._frames = [frames[id(head)] for head in self._heads]
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
        with self._task.log.stage(stage, steps, "step") as bar:

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
        config, task = self._task.config, self._task
        free = ensemble(task.contexts[torch.as_tensor(rows)])
        moved = 1 if self._together else free.shape[-2]
        size = (*free.shape[:-2], moved, task.omega.center.shape[0])
        noise = torch.as_tensor(config.noise * rng.standard_normal(size))
        scenarios, weights = self._placed(free, rows, noise)
        outcomes = np.stack(
            [
                likely.draw(mine, self._draws, rng)
                for likely, mine in zip(self._likely, rows, strict=True)
            ]
        )
        loss, lost = self._charged(scenarios, weights, outcomes)
        if self._regularization > 0:
            loss = loss + self._regularization * task.mmd_losses(
                scenarios, weights, rows
            )
        if lost.any():
            loss = torch.where(lost, task.mmd_losses(scenarios, weights, rows), loss)
        return loss.mean(dim=1)

    def _placed(
        self, free: Tensor, rows: np.ndarray, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        placed = [
            scenarios_from_output(free[s], head, _at(frame, mine), noise[s])
            for s, (head, frame, mine) in enumerate(
                zip(self._heads, self._frames, rows, strict=True)
            )
        ]
        return torch.stack([z for z, _ in placed]), torch.stack([w for _, w in placed])

    def _charged(
        self, scenarios: Tensor, weights: Tensor, outcomes: np.ndarray
    ) -> tuple[Tensor, Tensor]:
        """Return the task losses (S, B) as torch would had it solved the programs.

        Also where (S, B) they had no answer.
        """
        cases = scenarios.shape[0] * scenarios.shape[1]
        found = self._oracle.loss_gradient(
            scenarios.detach().numpy().reshape(cases, *scenarios.shape[2:]),
            outcomes.reshape(cases, *outcomes.shape[2:]),
            weights=self._task.solver_weights(
                weights.detach().numpy().reshape(cases, -1)
            ),
            on_error="record",
            progress=False,
            fresh=True,
        )
        self.failed += len(found.failures)
        unit = self._task.cost_scale
        losses = torch.as_tensor(np.nan_to_num(found.loss) / unit)
        slopes = torch.as_tensor(np.nan_to_num(found.gradient) / unit)
        moved = (scenarios - scenarios.detach()) * slopes.reshape(scenarios.shape)
        lost = torch.as_tensor(np.isnan(found.loss)).reshape(scenarios.shape[:2])
        return losses.reshape(scenarios.shape[:2]) + moved.sum(dim=(-1, -2)), lost


def _at(frame: Tensor | None, rows: np.ndarray) -> Tensor | None:
    return None if frame is None else frame[torch.as_tensor(rows)]
