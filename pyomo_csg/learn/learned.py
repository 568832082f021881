"""What learning hands on to a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pyomo_csg.learn.networks.task_nets import TaskNet


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What a method finds on a task.

    Attributes
    ----------
    network : TaskNet
        Fitted to all rows.
    comparison : dict
        What was compared on the way: as of :func:`pyomo_csg.learn.selection.auto.compared`.
    held_out : callable
        Returns losses (m,) on pairs that the network's like, fitted to other rows, had
        not seen: costs of decisions, or MMD losses of ``'mmd'``.
    decided : callable, optional
        Returns the costs of decisions there, where ``held_out`` does not.
    """

    network: TaskNet
    comparison: dict[str, Any]
    held_out: Callable[[], np.ndarray]
    decided: Callable[[], np.ndarray] | None = None

    def costs(self) -> np.ndarray:
        """Return what decisions on held-out pairs cost (m,)."""
        return (self.decided or self.held_out)()


@dataclass(frozen=True, eq=False)
class FitResult:
    """A network, and how it came about.

    Attributes
    ----------
    network : TaskNet
        From contexts, as they are, to scenarios and weights.
    method : str
        As it was asked for.
    summary : dict
        What a report tells, in JSON's types: the candidate that won, every candidate's
        cross-validated loss, what a Loss-Net told of held-out pairs, settings, seed.
    log : DataFrame
        Losses as they were seen: stage, step and numbers.
    context_names : tuple of str, optional
    reach : float
        How far the history's contexts are from their mean at most: root of the mean
        square of their standardised numbers.
    """

    network: TaskNet
    method: str
    summary: dict[str, Any]
    log: pd.DataFrame = field(default_factory=pd.DataFrame)
    context_names: tuple[str, ...] | None = None
    reach: float = 0.0
