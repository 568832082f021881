"""The samplers that train and score the candidates of ``'auto'``, one per fold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.distributions.location_scale import (
    fit_location_scale,
    scaled_residuals,
    unfitted_head,
)
from pyomo_csg.learn.distributions.samplers import (
    ResidualSampler,
    Sampler,
    WeightedSampler,
    forest_weights,
)
from pyomo_csg.learn.networks.task_nets import LocationScaleHead
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.task import Task


class FoldSamplers:
    """Samplers of outcomes, each estimated from the rows of one fold.

    ``head`` is the user's location-scale head, if any. ``training`` samplers replace the
    default, which mixes observed outcomes with those that a forest weights.
    """

    def __init__(
        self,
        task: Task,
        folds: Folds,
        head: Any = None,
        training: Sequence[Sampler] | None = None,
    ):
        self._task, self._folds, self._head = task, folds, head
        if training is not None:
            self.training = list(training)

    def scoring(
        self, has_gradient: bool
    ) -> list[ResidualSampler | WeightedSampler | None]:
        """Return what decisions on held-out rows are evaluated on; None: the observed.

        Integer models and panels have a single holdout, whose few observed outcomes say
        little about the candidates. Integer models use a forest's weights instead; a
        user's location and scale, or the forecast for panels, use all their residuals.
        """
        task, folds = self._task, self._folds
        panels = task.history.has_panels
        if self._head is not None:
            heads = [self._head] * len(folds)
        elif panels and has_gradient:
            heads = self.forecasts
        elif task.has_integers and not panels:
            outcomes = task.history.outcomes
            return [WeightedSampler(outcomes, w, observed=0.0) for w in self._weights]
        else:
            return [None] * len(folds)
        return [
            self.residual_sampler(head, held if len(held) else rows)
            for head, rows, held in zip(heads, folds.rows, folds.held_out, strict=True)
        ]

    def residual_sampler(
        self, head: LocationScaleHead, rows: np.ndarray
    ) -> ResidualSampler:
        """Return the sampler by a head's predictions and its residuals on some rows."""
        task = self._task
        return ResidualSampler(
            head.context_terms(torch.as_tensor(task.history.contexts)).numpy(),
            scaled_residuals(task, head, rows),
            task.omega.lower.numpy(),
            task.omega.upper.numpy(),
        )

    @cached_property
    def training(self) -> list[Sampler]:
        """The samplers of training outcomes."""
        outcomes = self._task.history.outcomes
        return [WeightedSampler(outcomes, weights) for weights in self._weights]

    @cached_property
    def forecasts(self) -> list[LocationScaleHead]:
        """Location-scale heads fitted to each fold."""
        rows = self._folds.rows
        heads: Any = train_or_restore(
            self._task,
            "forecast",
            [unfitted_head(self._task) for _ in rows],
            lambda: fit_location_scale(self._task, rows, "forecast"),
        )
        return list(heads)

    @cached_property
    def _weights(self) -> list[np.ndarray]:
        """Conditional weights (n, n) by a forest on each fold."""
        task, outcomes = self._task, self._task.history.outcomes
        seed = int(task.rng("forest").integers(2**31))
        return [
            forest_weights(task.history.contexts, outcomes, rows, seed)
            for rows in self._folds.rows
        ]
