"""Conditional distributions fitted to each fold, and the samplers that train on it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.distributions.conditional import (
    ConditionalDistribution,
    fit_distributions,
)
from pyomo_csg.learn.distributions.residuals import Residuals
from pyomo_csg.learn.distributions.samplers import ResidualSampler, Sampler
from pyomo_csg.learn.distributions.user_distribution import USERS
from pyomo_csg.learn.networks.domains import Omega
from pyomo_csg.learn.networks.location_scale import (
    fit_location_scale,
    scaled_residuals,
    unfitted_head,
)
from pyomo_csg.learn.networks.task_nets import LocationScaleHead
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.task import Task


class DistributionSampler:
    """Draws outcomes for rows of the history from a distribution fitted to some of them.

    The distribution never draws a fitted row's own outcome. Instead, a share ``observed``
    of the draws is that outcome.
    """

    def __init__(
        self,
        distribution: ConditionalDistribution,
        rows: np.ndarray,
        task: Task,
        observed: float = 0.5,
    ):
        self._distribution, self._rows = distribution, rows
        self._history, self._observed = task.history, observed

    def draw(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return outcomes (B, count, p) for rows (B,)."""
        outcomes = self._history.outcomes
        drawn = np.empty((len(rows), count, outcomes.shape[1]))
        places = np.minimum(np.searchsorted(self._rows, rows), len(self._rows) - 1)
        fitted = self._rows[places] == rows
        if fitted.any():
            drawn[fitted] = self._distribution.sample_fitted(places[fitted], count, rng)
        if not fitted.all():
            contexts = self._history.contexts[rows[~fitted]]
            drawn[~fitted] = self._distribution.sample(contexts, count, rng)
        drawn[:, : int(self._observed * count)] = outcomes[rows][:, None]
        return drawn


class ForecastHead:
    """Scenarios are location(x) + scale(x) * output, by a distribution's forecast.

    ``history_terms`` (n, 2, p) are the location and scale of all rows of the history; those
    of fitted rows are out of fold, so that training sees honest errors.
    """

    def __init__(
        self, distribution: Residuals, rows: np.ndarray, task: Task, omega: Omega
    ):
        self.distribution, self.omega = distribution, omega
        contexts = task.history.contexts
        terms = _terms(distribution, contexts)
        terms[rows, 0] = distribution.fitted_location
        terms[rows, 1] = distribution.fitted_scale
        self.history_terms = torch.as_tensor(terms)

    def context_terms(self, x: Tensor) -> Tensor:
        """Return location and scale (B, 2, p)."""
        return torch.as_tensor(_terms(self.distribution, x.numpy()))

    def outcomes(self, free: Tensor, terms: Tensor | None) -> Tensor:
        """Return outcomes (..., B, K, p)."""
        assert terms is not None
        location, scale = terms[..., 0, None, :], terms[..., 1, None, :]
        return self.omega.project(location + scale * free)


def _terms(distribution: Residuals, contexts: np.ndarray) -> np.ndarray:
    return np.stack(distribution.location_and_scale(contexts), axis=1)


class FoldDistributions:
    """The conditional distributions of each fold, estimated from its rows alone."""

    def __init__(self, task: Task, folds: Folds, kinds: Sequence[str]):
        self._task, self._folds, self._kinds = task, folds, kinds

    @cached_property
    def by_fold(self) -> list[dict[str, ConditionalDistribution]]:
        """All distributions by name, for each fold."""
        task, history = self._task, self._task.history
        lower, upper = task.omega.lower.numpy(), task.omega.upper.numpy()
        in_time = history.has_panels or task.config.rows == "series"
        seed = int(task.rng("distributions").integers(2**31))
        rows = self._folds.rows
        mine = task.distribution
        own: dict[str, ConditionalDistribution] = {} if mine is None else {USERS: mine}
        return [
            own
            | fit_distributions(
                history.contexts[some],
                history.outcomes[some],
                lower,
                upper,
                seed,
                in_time=in_time,
                kinds=self._kinds,
            )
            for some in task.log.each("conditional distributions", rows)
        ]

    @property
    def names(self) -> list[str]:
        """The distributions that all folds have."""
        first, *others = self.by_fold
        return [name for name in first if all(name in other for other in others)]

    @property
    def residual_names(self) -> list[str]:
        """Those that forecast and add residuals."""
        found = self.by_fold[0]
        return [name for name in self.names if isinstance(found[name], Residuals)]

    def samplers(self, name: str, observed: float = 0.5) -> Sequence[Sampler]:
        """Return the samplers of a distribution, one for each fold."""
        if name == USERS and (own := self._task.target_sampler) is not None:
            return [own] * len(self._folds)
        pairs = zip(self.by_fold, self._folds.rows, strict=True)
        return [
            DistributionSampler(found[name], rows, self._task, observed)
            for found, rows in pairs
        ]

    def heads(self, name: str) -> list[ForecastHead]:
        """Return the heads of a distribution of residuals, one for each fold."""
        heads = []
        for found, rows in zip(self.by_fold, self._folds.rows, strict=True):
            distribution = found[name]
            assert isinstance(distribution, Residuals)
            heads.append(ForecastHead(distribution, rows, self._task, self._task.omega))
        return heads


class FoldForecasts:
    """Location-scale heads of each fold for panels, by LSTMs, and their samplers."""

    def __init__(self, task: Task, folds: Folds, head: Any = None):
        self._task, self._folds, self._head = task, folds, head

    @cached_property
    def heads(self) -> list[LocationScaleHead]:
        """The user's head, or heads fitted to each fold."""
        if self._head is not None:
            return [self._head] * len(self._folds)
        rows = self._folds.rows
        heads: Any = train_or_restore(
            self._task,
            "forecast",
            [unfitted_head(self._task) for _ in rows],
            lambda: fit_location_scale(self._task, rows, "forecast"),
        )
        return list(heads)

    def training_samplers(self) -> list[ResidualSampler]:
        """Return the samplers by the residuals on the rows of each fold."""
        pairs = zip(self.heads, self._folds.rows, strict=True)
        return [self._sampler(head, rows) for head, rows in pairs]

    def scoring_samplers(self) -> list[ResidualSampler]:
        """Return the samplers by the residuals on the held-out rows of each fold.

        A single holdout has too few observed outcomes to compare candidates on.
        """
        parts = zip(self.heads, self._folds.rows, self._folds.held_out, strict=True)
        return [
            self._sampler(head, held if len(held) else rows)
            for head, rows, held in parts
        ]

    def _sampler(self, head: LocationScaleHead, rows: np.ndarray) -> ResidualSampler:
        task = self._task
        return ResidualSampler(
            head.context_terms(torch.as_tensor(task.history.contexts)).numpy(),
            scaled_residuals(task, head, rows),
            task.omega.lower.numpy(),
            task.omega.upper.numpy(),
        )
