"""What trained rivals share: numbers of a context, and the training of one network."""

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
    """Numbers of contexts in standard deviations from the mean of a history.

    Of panels: each number's mean, spread and last value.

    Parameters
    ----------
    contexts : array (n, d) or (n, W, d)
        Of the history.

    Attributes
    ----------
    count : int
        How many numbers a context has: f.
    """

    def __init__(self, contexts: np.ndarray):
        features = context_features(contexts)
        self._center, self._spread = features.mean(axis=0), standard_spread(features)
        self.count = features.shape[1]

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Return numbers (n, f)."""
        return (context_features(contexts) - self._center) / self._spread


class Training:
    """One way to train networks on rows of some data.

    Parameters
    ----------
    rows : int
        How many there are.
    schedule : Schedule
    rng : Generator
        Of the rows' order.
    log : TrainingLog
    """

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
        """Return a network trained on; the one given stays as it is.

        Parameters
        ----------
        stage : str
            Names the bar.
        network : Module
        loss : callable
            From the network, to be called, and rows (B,) to a number.
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
