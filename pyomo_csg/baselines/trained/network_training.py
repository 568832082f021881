"""Training of one network on rows of a history, and its standardized inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.distributions.samplers import context_features
from pyomo_csg.learn.networks.domains import standard_spread
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.trainer import Schedule, train_ensemble

Call = Callable[..., Tensor]


class Features:
    """Standardized context features (n, f); ``count`` is f.

    A panel's features are the mean, standard deviation and last value of each column.
    """

    def __init__(self, contexts: np.ndarray):
        features = context_features(contexts)
        self._center, self._spread = features.mean(axis=0), standard_spread(features)
        self.count = features.shape[1]

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Return the features (n, f) of contexts."""
        return (context_features(contexts) - self._center) / self._spread


class Training:
    """Trains networks on a number of rows, in an order drawn from ``rng``."""

    def __init__(
        self, rows: int, schedule: Schedule, rng: np.random.Generator, log: TrainingLog
    ):
        self._rows, self._schedule = np.arange(rows), schedule
        self._rng, self._log = rng, log

    def __call__(
        self,
        stage: str,
        network: nn.Module,
        loss: Callable[[Call, Tensor], Tensor],
    ) -> nn.Module:
        """Return a trained copy of a network.

        ``loss`` takes the network, as a function, and rows (B,), and returns a scalar.
        """
        ensemble = Ensemble([network])

        def call(*inputs: Tensor) -> Tensor:
            return ensemble(*(one[None] for one in inputs))[0]

        with self._log.stage(stage, self._schedule.epochs) as bar:
            train_ensemble(
                ensemble,
                lambda batch: loss(call, torch.as_tensor(batch[0]))[None],
                [self._rows],
                self._schedule,
                self._rng,
                lambda _, losses: bar.step(loss=float(losses[0])),
            )
        (trained,) = ensemble.members()
        return trained
