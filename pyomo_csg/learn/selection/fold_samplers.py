"""What the decisions of ``'auto'`` are charged for: in training, and on held-out rows."""

from __future__ import annotations

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
    """What may happen after contexts, as each part of the folds tells.

    Parameters
    ----------
    task : Task
    folds : Folds
    head : LocationScaleHead, optional
        The user's own location and scale.
    likely : list of Likely, optional
        For each part in training. Default: what did happen, and what happened after
        contexts that forests find alike.
    """

    def __init__(
        self,
        task: Task,
        folds: Folds,
        head: Any = None,
        likely: list[Sampler] | None = None,
    ):
        self._task, self._folds, self._head = task, folds, head
        self._given = likely

    def judges(
        self, has_gradient: bool
    ) -> list[ResidualSampler | WeightedSampler | None]:
        """Return what each part's decisions are charged for on held-out rows.

        None for what did happen. Integer models and panels are judged on one part of the
        history, where few outcomes would say more of themselves than of the candidates.
        After panels every error counts that the forecast made there, if there is one,
        which takes a gradient; else, what a forest finds likely.
        """
        task, folds = self._task, self._folds
        law_is_given = self._head is not None
        if not law_is_given and not task.history.has_panels and task.has_integers:
            return [
                WeightedSampler(task.history.outcomes, w, observed=0.0)
                for w in self._alike
            ]
        if not law_is_given and not (task.history.has_panels and has_gradient):
            return [None] * len(folds)
        heads = [self._head] * len(folds) if law_is_given else self.forecasts
        return [
            self.errors(head, held if len(held) else rows)
            for head, rows, held in zip(heads, folds.rows, folds.held_out, strict=True)
        ]

    def errors(self, head: LocationScaleHead, rows: np.ndarray) -> ResidualSampler:
        """Return what may happen by a forecast and its errors on some rows."""
        task = self._task
        return ResidualSampler(
            head.context_terms(torch.as_tensor(task.history.contexts)).numpy(),
            scaled_residuals(task, head, rows),
            task.omega.lower.numpy(),
            task.omega.upper.numpy(),
        )

    @cached_property
    def likely(self) -> list[Sampler]:
        """What may happen after the contexts, for each part in training."""
        if self._given is not None:
            return self._given
        return [
            WeightedSampler(self._task.history.outcomes, weights)
            for weights in self._alike
        ]

    @cached_property
    def forecasts(self) -> list[LocationScaleHead]:
        """Location and scale as each part tells."""
        rows = self._folds.rows
        heads: Any = train_or_restore(
            self._task,
            "forecast",
            [unfitted_head(self._task) for _ in rows],
            lambda: fit_location_scale(self._task, rows, "forecast"),
        )
        return list(heads)

    @cached_property
    def _alike(self) -> list[np.ndarray]:
        """How much outcomes count after contexts (n, n), by forests on the parts."""
        task, outcomes = self._task, self._task.history.outcomes
        seed = int(task.rng("forest").integers(2**31))
        return [
            forest_weights(task.history.contexts, outcomes, rows, seed)
            for rows in self._folds.rows
        ]
