"""Folds of cross-validation, and the samplers that train and score on each fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import KFold, train_test_split

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
from pyomo_csg.learn.history import History
from pyomo_csg.learn.networks.task_nets import LocationScaleHead
from pyomo_csg.learn.task import Task

_HOLDOUT, _FOLDS = 0.2, 5


def duplicate_groups(history: History) -> np.ndarray:
    """Return the group number (n,) of each row, from 0; duplicate rows share a group.

    Duplicates would leak between folds, so they are kept together. If a context occurs
    with different outcomes, as discrete contexts do, equal rows are independent draws
    and are not grouped.
    """
    contexts = _numbered(history.contexts.reshape(len(history), -1))
    pairs = _numbered(np.column_stack([contexts, history.outcomes]))
    outcomes = pd.Series(pairs).groupby(contexts).transform("nunique").to_numpy()
    alone = len(history) + np.arange(len(history))
    return pd.factorize(np.where(outcomes == 1, pairs, alone))[0]


def _numbered(rows: np.ndarray) -> np.ndarray:
    """Return a number for each row (n, d), the same for equal rows."""
    rows = rows + 0.0  # turns -0.0 into 0.0
    return pd.factorize(np.array([row.tobytes() for row in rows], dtype=object))[0]


@dataclass(frozen=True)
class Folds:
    """Training and held-out rows of each fold; the last fold trains on all rows."""

    rows: list[np.ndarray]
    held_out: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.rows)


def make_folds(task: Task) -> Folds:
    """Return the folds for cross-validation, and one more for the fit on all rows.

    Rows are shuffled, except for panels and series, which are split into blocks of time.
    Integer models and panels are slow to fit, so by default only their last fifth is
    held out, once.
    """
    numbers = row_groups(task)
    units = np.arange(numbers.max() + 1)
    if uses_one_holdout(task):
        n = len(units)
        cut = max(1, n - max(1, round(_HOLDOUT * n)))
        held_out = [units[cut:]]
    else:
        shuffled = task.config.rows == "independent" and not task.history.has_panels
        seed = int(task.rng("folds").integers(2**31)) if shuffled else None
        count = min(task.config.folds or _FOLDS, len(units))
        parts = KFold(count, shuffle=shuffled, random_state=seed).split(units)
        held_out = [held for _, held in parts]
    return make_folds_from(held_out, numbers)


def holdout_folds(task: Task) -> Folds:
    """Return a fold that holds out a fifth of the rows, and one that trains on all.

    The fifth is drawn at random, except for panels and series, of which it is the last.
    """
    groups = row_groups(task)
    in_time = task.history.has_panels or task.config.rows == "series"
    seed = None if in_time else int(task.rng("holdout").integers(2**31))
    _, held = train_test_split(
        np.arange(groups.max() + 1),
        test_size=_HOLDOUT,
        shuffle=not in_time,
        random_state=seed,
    )
    return make_folds_from([held], groups)


def uses_one_holdout(task: Task) -> bool:
    """Whether candidates are scored on a single holdout in place of all folds."""
    slow = task.history.has_panels or task.has_integers
    return slow and task.config.folds is None


def make_folds_from(held_out: Sequence[np.ndarray], numbers: np.ndarray) -> Folds:
    """Return folds that hold out groups, given each row's group, and one with all rows."""
    away = [np.isin(numbers, held) for held in held_out]
    everything = np.arange(len(numbers))
    return Folds(
        [*(everything[~held] for held in away), everything],
        [*(everything[held] for held in away), everything[:0]],
    )


def row_groups(task: Task) -> np.ndarray:
    """Return the group number (n,) of each row, from 0; a fold holds out whole groups.

    Duplicates in a series carry information and are not grouped; a history of duplicates
    only must still be split.
    """
    everything = np.arange(len(task.history))
    if task.history.has_panels or task.config.rows == "series":
        return everything
    numbers = duplicate_groups(task.history)
    return numbers if numbers.max() else everything


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

        Integer models and panels have a single holdout, and its few observed outcomes say
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
