"""Results of a learning method and of a whole fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.learn.networks.task_nets import TaskNet
from pyomo_csg.learn.selection.result import Selection


@dataclass(frozen=True, eq=False)
class MethodResult:
    """The network that a method learned, and how well it did on held-out rows.

    Attributes
    ----------
    network : TaskNet
        Fitted to all rows.
    selection : Selection
        Which candidate was chosen, and why.
    holdout_losses : callable
        Returns the losses (m,) on held-out rows of networks fitted to the other rows:
        costs of decisions, or MMD losses of ``'mmd'``.
    holdout_costs : callable, optional
        Returns the costs of decisions there, if ``holdout_losses`` returns others.
    """

    network: TaskNet
    selection: Selection
    holdout_losses: Callable[[], np.ndarray]
    holdout_costs: Callable[[], np.ndarray] | None = None

    def costs(self) -> np.ndarray:
        """Return the costs of decisions on held-out rows (m,)."""
        return (self.holdout_costs or self.holdout_losses)()


@dataclass(frozen=True, eq=False)
class FitResult:
    """A trained network and the record of its fit.

    Attributes
    ----------
    network : TaskNet
        From raw contexts to scenarios and weights.
    method : str
        As given to :func:`pyomo_csg.fit`.
    summary : dict
        The content of a report, in JSON types: the chosen candidate, every candidate's
        cross-validated loss, the Loss-Net's accuracy on held-out rows, settings, seed.
    log : DataFrame
        Losses during the fit: stage, step and numbers.
    context_names : tuple of str, optional
    reach : float
        The largest distance of a context in the history from their mean: the root mean
        square of its standardized numbers.
    """

    network: TaskNet
    method: str
    summary: dict[str, Any]
    log: pd.DataFrame = field(default_factory=pd.DataFrame)
    context_names: tuple[str, ...] | None = None
    reach: float = 0.0
