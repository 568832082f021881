"""Rivals that estimate what may happen after a context, and solve on all of that."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.reduction import forward_selection, kmeans
from pyomo_csg.deciding import Sets
from pyomo_csg.learn.omega import spread_of
from pyomo_csg.options import is_one_of, is_whole

_REDUCTIONS = ("kmeans", "forward")
_UNITS = ("raw", "standard")


class Conditional(Baseline):
    """Solves on a distribution given the context, or on K scenarios that stand for it.

    Whoever derives from it gives the distribution, in ``_law``.

    Parameters
    ----------
    model, data, context, seed, solver, options, workers, executor
        As in :class:`Baseline`.
    scenarios : int, optional
        K, at most: a distribution of fewer outcomes stays as it is. Default: all.
    reduction : {'kmeans', 'forward'}, optional
        How to come to K: centers of clusters, or fast forward selection, which picks
        among the outcomes.
    units : {'raw', 'standard'}, optional
        Of the outcomes when their distances are taken: as they are, or in standard
        deviations of the history.
    """

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        scenarios: int | None = None,
        reduction: str = "kmeans",
        units: str = "raw",
        **settings: Any,
    ):
        self._refuse(*_problems(scenarios, reduction, units))
        super().__init__(model, data, **settings)
        self._count, self._reduction = scenarios, reduction
        raw = units == "raw"
        self._unit = 1.0 if raw else spread_of(self.history.outcomes)
        if scenarios is not None:
            self.name = f"{self.name}, K={scenarios} by {reduction}"

    @abstractmethod
    def _law(self, contexts: np.ndarray) -> tuple[Sets, Sets]:
        """Return outcomes (n, m, p) and weights (n, m), or lists where m differs."""

    def _generated(self, contexts: np.ndarray) -> tuple[Sets, Sets]:
        outcomes, weights = self._law(contexts)
        if self._count is None:
            return outcomes, weights
        reduced = [
            self._reduced(mine, shares, self._count)
            for mine, shares in zip(outcomes, weights, strict=True)
        ]
        sets, shares = zip(*reduced, strict=True)
        return _stacked(sets), _stacked(shares)

    def _reduced(
        self, outcomes: np.ndarray, weights: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._reduction == "kmeans":
            return kmeans(outcomes, weights, count, self.seed, self._unit)
        return forward_selection(outcomes, weights, count, self._unit)


def _stacked(arrays: Sequence[np.ndarray]) -> Sets:
    """Return one array where all are of a size, else a list."""
    same = len({len(array) for array in arrays}) == 1
    return np.stack(arrays) if same else list(arrays)


def _problems(scenarios: Any, reduction: Any, units: Any) -> list[str]:
    problems = []
    if not (scenarios is None or is_whole(scenarios) and scenarios >= 1):
        problems.append(
            f"scenarios is {scenarios!r}; give a whole number from 1 up, or None for all"
        )
    if not is_one_of(reduction, _REDUCTIONS):
        problems.append(f"reduction is {reduction!r}; give one of {_REDUCTIONS}")
    if not is_one_of(units, _UNITS):
        problems.append(f"units is {units!r}; give one of {_UNITS}")
    return problems
