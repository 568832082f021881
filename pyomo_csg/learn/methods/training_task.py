"""What a method of the user's works with: some rows of a history, a network, the losses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.networks.task_nets import scenarios_from_output
from pyomo_csg.learn.progress import TimeUpError, TrainingLog
from pyomo_csg.learn.torch_layers import TaskLoss
from pyomo_csg.learn.trainer import Schedule, row_batches, train_ensemble

if TYPE_CHECKING:
    from pyomo_csg.learn.config import FitConfig
    from pyomo_csg.learn.task import Task


class TrainingTask:
    """What ``train`` of a :class:`Method` is given: rows of a history, and tools for them.

    Rows are numbered from 0 to ``len(task) - 1``. Tensors are in double precision on the
    CPU, in the units of the model except for contexts.

    Attributes
    ----------
    contexts : Tensor (n, d), or (n, W, d)
        Standardized.
    outcomes : Tensor (n, p)
    known : array (n, r)
        The numbers of the known Params.
    scenarios : int
        K.
    config : FitConfig
    log : TrainingLog
        ``log.record(stage, step, loss=...)`` adds a line to ``policy.learned.log``.
    """

    def __init__(
        self,
        task: Task,
        rows: np.ndarray,
        make_network: Callable[[], nn.Module],
        start: nn.Module,
        head: Any,
    ):
        self._task, self._rows, self._head = task, np.asarray(rows), head
        self._make_network, self._start = make_network, start
        index = torch.as_tensor(self._rows)
        self.contexts, self.outcomes = task.contexts[index], task.outcomes[index]
        self._drawing = task.rng("drawn outcomes")
        self.known = task.history.known[self._rows]
        self.scenarios: int = task.scenarios
        self.config: FitConfig = task.config
        self.log: TrainingLog = task.log

    def __len__(self) -> int:
        return len(self._rows)

    def new_network(self) -> nn.Module:
        """Return an untrained network, as ``network=`` of csg.fit asks for.

        Its scenarios are near the centers of clusters of the outcomes.
        """
        return copy.deepcopy(self._make_network())

    def mmd_network(self) -> nn.Module:
        """Return a copy of the network that was trained on these rows by ``'mmd'``."""
        return copy.deepcopy(self._start).requires_grad_(True)

    def to_scenarios(self, output: Tensor, rows: Any) -> tuple[Tensor, Tensor]:
        """Return scenarios and their weights from a network's output for some rows.

        Parameters
        ----------
        output : Tensor (B, K, p), or (B, K, p + 1) with learned weights
            0 is the mean of the history, and 1 is about a standard deviation away.
        rows : array of int (B,)

        Returns
        -------
        scenarios : Tensor (B, K, p)
            Within the domains of the Params.
        weights : Tensor (B, K)
        """
        terms = self._task.context_terms(self._head)
        mine = None if terms is None else terms[self._indices(rows)]
        return scenarios_from_output(output, self._head, mine)

    @cached_property
    def task_loss(self) -> TaskLoss:
        """The oracle's loss as a :class:`pyomo_csg.TaskLoss`, for outcomes of your choice.

        A program that cannot be solved has the loss NaN and the gradient zero.
        """
        return TaskLoss(self._task.oracle, on_error="record")

    def task_losses(
        self, scenarios: Tensor, weights: Tensor | None, rows: Any
    ) -> Tensor:
        """Return the costs (B,) of deciding on scenarios, with gradients.

        The cost is that under the observed outcome of the row, or the mean over
        ``config.draws`` draws of the user's distribution. It is NaN, with the gradient
        zero, where a program could not be solved. Weights have no gradient.
        """
        is_weighted = self.config.weights == "learned"
        shares = weights.detach() if is_weighted and weights is not None else None
        known = self.known[np.asarray(rows)] if self.known.shape[1] else None
        outcomes = self.draw(rows)
        found: Tensor = self.task_loss(scenarios, outcomes, shares, known=known)
        return found

    def draw(self, rows: Any, count: int | None = None) -> Tensor:
        """Return outcomes (B, count, p) for rows: of ``distribution=``, or those observed.

        Observed ones are (B, 1, p), since there is only one for a row.
        """
        places = self._indices(rows).numpy()
        sampler = self._task.target_sampler
        if sampler is None:
            return torch.as_tensor(self._task.targets[places])
        count = self.config.draws if count is None else count
        return torch.as_tensor(sampler.draw(places, count, self._drawing))

    def costs(self, scenarios: Tensor, weights: Tensor | None, rows: Any) -> np.ndarray:
        """Return the same costs (B,) without gradients, for any solver and kind of model."""
        places, task = self._indices(rows).numpy(), self._task
        shares = (
            None if weights is None else task.solver_weights(weights.detach().numpy())
        )
        decisions = task.solve(scenarios.detach().numpy(), shares, places).decision
        outcomes = self.draw(rows).numpy()
        n, m, p = outcomes.shape
        found = task.cost(
            decisions.repeat(m, axis=0), outcomes.reshape(-1, p), places.repeat(m)
        )
        return found.reshape(n, m).mean(axis=1)

    @property
    def cost_scale(self) -> float:
        """The standard deviation of the costs of one decision over the history."""
        return self._task.cost_scale

    def mmd_losses(
        self, scenarios: Tensor, weights: Tensor | None, rows: Any
    ) -> Tensor:
        """Return the MMD losses (B,) of scenarios and the outcomes of rows."""
        return self._task.mmd_losses(scenarios, weights, self._indices(rows).numpy())

    def rng(self, stage: str = "train") -> np.random.Generator:
        """Return a random generator that depends on the fit's seed and on a name alone."""
        return self._task.rng(stage)

    def batches(
        self, epochs: int | None = None, stage: str = "train"
    ) -> Iterator[np.ndarray]:
        """Yield shuffled rows, ``config.batch`` at a time; stop when the time is up.

        Parameters
        ----------
        epochs : int, optional
            Passes over the rows. Default: ``config.task_epochs``.
        stage : str
            The name on the progress bar; it also seeds the order.
        """
        everything = [np.arange(len(self))]
        count = self.config.task_epochs if epochs is None else epochs
        size = min(self.config.batch, len(self))
        steps, rng = Schedule(count, size).steps(everything), self.rng(stage)
        with self.log.stage(stage, steps * count) as bar, suppress(TimeUpError):
            for _ in range(count):
                for (rows,) in row_batches(everything, size, steps, rng):
                    yield rows
                    bar.step()

    def minimize(
        self,
        network: nn.Module,
        losses: Callable[[Tensor, np.ndarray], Tensor],
        stage: str = "train",
    ) -> nn.Module:
        """Return a copy of a network, trained as the package's methods train theirs.

        By AdamW with a falling rate, for ``config.task_epochs``, with the mean of the
        weights in the second half of the steps.

        Parameters
        ----------
        network : Module
        losses : callable
            From a network's output (B, K, p) for rows (B,) to their losses (B,).
            Gradients are clipped, so losses should be in units such as ``cost_scale``.
        stage : str
            The name on the progress bar and in the log.
        """
        config, ensemble = self.config, Ensemble([network]).to(self._task.device)
        schedule = Schedule(
            config.task_epochs, config.batch, config.task_rate, config.decay
        )
        rows = [np.arange(len(self))]
        steps = schedule.steps(rows)
        with self.log.stage(stage, steps * schedule.epochs) as bar:

            def loss(batch: np.ndarray) -> Tensor:
                outputs = ensemble(self.contexts[torch.as_tensor(batch)])
                found = losses(outputs[0], batch[0]).mean()
                bar.step()
                return found[None]

            train_ensemble(
                ensemble,
                loss,
                rows,
                schedule,
                self.rng(stage),
                lambda epoch, means: bar.step(0, epoch=epoch, loss=means.mean()),
            )
        return ensemble.members()[0]

    def _indices(self, rows: Any) -> Tensor:
        """Return the rows of the whole history that rows of this task are."""
        return torch.as_tensor(self._rows[np.asarray(rows)])
