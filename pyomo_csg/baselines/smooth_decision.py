"""A differentiable stand-in for the decision that probabilities of points make optimal."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyomo_csg.errors import DataError
from pyomo_csg.solve import Oracle

_SAME = 9  # digits after the point that tell decisions apart, in their own spread


class SmoothDecision:
    """Takes each of some decisions with a chance that falls with its expected cost.

    It is what minimises, over all mixtures of these decisions, the expected cost less
    temperature times entropy.

    Parameters
    ----------
    on_support : array (J, S)
        What each decision costs at each point of the support.
    on_history : array (J, n)
        What it costs under each outcome of the history.
    temperature : float
        In the units of costs. Near 0 the best of the decisions is all but certain.
    """

    def __init__(
        self, on_support: np.ndarray, on_history: np.ndarray, temperature: float
    ):
        self._energies = torch.as_tensor(on_support.T / temperature)
        self._on_history = torch.as_tensor(on_history.T)

    def chances(self, probabilities: Tensor) -> Tensor:
        """Return the chances (..., J) of the decisions, of probabilities (..., S)."""
        return torch.softmax(-(probabilities @ self._energies), dim=-1)

    def costs(self, probabilities: Tensor, rows: Tensor) -> Tensor:
        """Return the mean costs (...) under the outcomes of rows (...)."""
        return (self.chances(probabilities) * self._on_history[rows]).sum(-1)


class KnownDecisions:
    """Decisions that are optimal for some probabilities, and what they cost.

    Parameters
    ----------
    oracle : Oracle
    support : array (S, p)
    outcomes : array (n, p)
        Of the history.

    Attributes
    ----------
    decisions : array (J, s)
    costs : array (J, S + n)
        At the points of the support, then under the outcomes.
    """

    def __init__(self, oracle: Oracle, support: np.ndarray, outcomes: np.ndarray):
        self._oracle, self._support = oracle, support
        self._outcomes = np.vstack([support, outcomes])
        width = len(oracle.two_stage.first_stage_variables)
        self.decisions = np.zeros((0, width))
        self.costs = np.zeros((0, len(self._outcomes)))

    def add(self, probabilities: np.ndarray) -> None:
        """Solve for probabilities (m, S) and keep the decisions that are new.

        Those that some outcome leaves without recourse are not kept.
        """
        how: Any = {"on_error": "record", "progress": False}
        points = np.broadcast_to(
            self._support, (len(probabilities), *self._support.shape)
        )
        found = self._oracle.solve(points, probabilities, **how).decision
        new = self._new(found[np.isfinite(found).all(axis=1)])
        count = len(self._outcomes)
        if len(new):
            costs = self._oracle.cost(
                np.repeat(new, count, axis=0),
                np.tile(self._outcomes, (len(new), 1)),
                **how,
            ).reshape(-1, count)
            answered = np.isfinite(costs).all(axis=1)
            self.decisions = np.vstack([self.decisions, new[answered]])
            self.costs = np.vstack([self.costs, costs[answered]])
        if not len(self.decisions):
            found_none = (
                f"none of {len(probabilities)} decisions on the support has recourse to "
                "all outcomes of the history; give the model complete recourse"
            )
            raise DataError("Cannot train through the decision", [found_none])

    def smooth(self, smoothing: float) -> SmoothDecision:
        """Return the stand-in at a temperature in units of :meth:`spread`."""
        points = len(self._support)
        on_support, on_history = self.costs[:, :points], self.costs[:, points:]
        return SmoothDecision(on_support, on_history, smoothing * self.spread())

    def spread(self) -> float:
        """Return the costs' standard deviation between decisions, a mean over outcomes.

        1 where all decisions cost the same.
        """
        spread = float(self.costs[:, len(self._support) :].std(axis=0).mean())
        return spread if spread > 1e-12 * np.abs(self.costs).max() else 1.0

    def _new(self, decisions: np.ndarray) -> np.ndarray:
        """Return those, each once, that are not known yet."""
        both = np.vstack([self.decisions, decisions])
        size = np.abs(both).max(axis=0, initial=0.0)
        rounded = np.round(both / np.where(size > 0, size, 1.0), _SAME)
        _, first = np.unique(rounded, axis=0, return_index=True)
        return both[np.sort(first[first >= len(self.decisions)])]
