"""An engine that answers one case at a time, made to answer batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.errors import ModelError
from pyomo_csg.solve.appsi import AppsiEngine
from pyomo_csg.solve.engine import SolverTrouble, Stats, Troubles
from pyomo_csg.stages import TwoStageModel


class CaseByCase:
    """Answers batches through an :class:`AppsiEngine`; it has no gradients.

    Parameters
    ----------
    model : ConcreteModel
    solver : str
    options : mapping
    """

    def __init__(self, model: BlockData, solver: str, options: Mapping[str, Any]):
        self._engine = AppsiEngine(model, solver, options)
        self._solver = solver
        self._width = len(TwoStageModel(model).first_stage_variables)

    @property
    def stats(self) -> Stats:
        """What the engine did."""
        return self._engine.stats

    def solve(
        self,
        scenarios: np.ndarray,
        weights: np.ndarray,
        keys: np.ndarray | None = None,
        *,
        gradient: bool,
        first: int = 0,
    ) -> tuple[Any, ...]:
        """As :meth:`HighsEngine.solve`."""
        if gradient:
            self._refuse_gradient()
        points, troubles = _each(
            len(scenarios), lambda i: self._engine.solve(scenarios[i], weights[i])
        )
        missing = np.full(self._width, np.nan)
        decisions = np.array([missing if p is None else p.decision for p in points])
        pairs = [(np.nan,) * 2 if p is None else (p.value, p.bound) for p in points]
        values, bounds = np.array(pairs).T
        empty = np.full((len(points), 0), np.nan)
        return decisions, values, bounds, empty, np.zeros(len(points), bool), troubles

    def losses(
        self,
        scenarios: np.ndarray,
        weights: np.ndarray,
        outcomes: np.ndarray,
        keys: np.ndarray | None = None,
        *,
        kind: str,
        first: int = 0,
    ) -> tuple[np.ndarray, np.ndarray, Troubles]:
        """As :meth:`HighsEngine.losses`; nothing is certified."""
        found, troubles = _each(
            len(scenarios),
            lambda i: self._engine.loss(scenarios[i], weights[i], outcomes[i], kind),
        )
        losses = np.array([np.nan if loss is None else loss for loss in found])
        return losses, np.zeros(len(losses), bool), troubles

    def costs(
        self, decisions: np.ndarray, outcomes: np.ndarray, first: int = 0
    ) -> tuple[np.ndarray, Troubles]:
        """As :meth:`HighsEngine.costs`."""
        found, troubles = _each(
            len(decisions), lambda i: self._engine.cost(decisions[i], outcomes[i])
        )
        return np.array([np.nan if c is None else c for c in found]), troubles

    def loss_gradients(self, *_: Any, **__: Any) -> Any:
        """Refuse: gradients are read off HiGHS's basis."""
        self._refuse_gradient()

    def _refuse_gradient(self) -> None:
        raise ModelError(
            f"Solver '{self._solver}' gives no gradient",
            ["gradients are read off the optimal basis; use solver='highs'"],
        )


def _each(count: int, answer: Callable[[int], Any]) -> tuple[list[Any], Troubles]:
    answers: list[Any] = [None] * count
    troubles: Troubles = {}
    for i in range(count):
        try:
            answers[i] = answer(i)
        except SolverTrouble as trouble:
            troubles[i] = trouble
    return answers, troubles
