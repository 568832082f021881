"""What every policy shares: contexts in, scenarios, then a decision out."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any, overload

import numpy as np
import pandas as pd
from pyomo.core.base.block import BlockData
from tqdm import tqdm

from pyomo_csg.decisions.decision import Decision
from pyomo_csg.errors import SolveError
from pyomo_csg.learn.columns import LARGEST
from pyomo_csg.learn.history import context_batch
from pyomo_csg.solve import Oracle, Solution
from pyomo_csg.stages import TwoStageModel

logger = logging.getLogger(__name__)

Sets = np.ndarray | list[np.ndarray]  # one a context; a list where sizes differ


class Decider(ABC):
    """Decides for a context by solving the model on scenarios made for that context.

    Whoever derives from it says how scenarios are made, in :meth:`_generated`, and sets
    ``context_shape`` and ``context_names``.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`. It is copied: later changes to it are
        not seen.
    solver, options, workers, executor
        As in :class:`pyomo_csg.Oracle`.

    Attributes
    ----------
    oracle : Oracle
        What solves; its ``stats`` tell how long that took.
    context_shape : tuple of int
        (d,), or (W, d) for panels of W steps.
    context_names : tuple of str, or None
        Names of the d numbers, where the history was a DataFrame.
    """

    context_shape: tuple[int, ...]
    context_names: tuple[str, ...] | None = None

    def __init__(
        self,
        model: BlockData,
        *,
        solver: str = "highs",
        options: Mapping[str, Any] | None = None,
        workers: int = 1,
        executor: Executor | None = None,
    ):
        self.oracle = Oracle(model, solver, executor, workers, options)
        self._settings: dict[str, Any] = {
            "solver": solver,
            "options": options,
            "workers": workers,
        }
        variables = self.two_stage.first_stage_variables
        self._names = tuple(v.name for v in variables)
        integer = np.array([not v.is_continuous() for v in variables], bool)
        self._integer = np.flatnonzero(integer)

    @property
    def two_stage(self) -> TwoStageModel:
        """The checked view of the policy's copy of the model."""
        return self.oracle.two_stage

    def scenarios(self, x: Any) -> Any:
        """Return the scenarios (K, p) of a context, or (n, K, p) of many.

        Where K is not the same for all contexts, those of many are a list.

        Parameters
        ----------
        x : array, mapping, Series or DataFrame
            One context (d,) or (W, d), or an array (n, ...) of many. Where the history
            was a DataFrame: a mapping or a Series is one context, a DataFrame is many.
        """
        contexts, one = self._contexts(x)
        scenarios, _ = self._generated(contexts)
        return scenarios[0] if one else scenarios

    def weights(self, x: Any) -> Any:
        """Return the scenarios' weights (K,) for a context, or (n, K) for many."""
        contexts, one = self._contexts(x)
        _, weights = self._generated(contexts)
        return weights[0] if one else weights

    @overload
    def decide(
        self,
        x: Mapping[str, Any],
        *,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
    ) -> Decision: ...

    @overload
    def decide(
        self,
        x: Any,
        *,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
    ) -> Any: ...  # of an array, its shape tells which

    def decide(
        self,
        x: Any,
        *,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
    ) -> Decision | pd.DataFrame:
        """Return a Decision for a context, or a DataFrame of decisions for many.

        Parameters
        ----------
        x : array, mapping, Series or DataFrame
            As in :meth:`scenarios`.
        on_error : {'raise', 'record'}, optional
            What to do with a context whose program has no solution: raise its
            SolveError, or go on, leave NaN in its place and tell it in the log. Where a
            limit stopped an integer program, the best decision found by then is left.
        progress : bool, optional
            Whether long batches show a bar.
        fresh : bool, optional
            Whether decisions are to be the same to the last bit whatever was decided
            before, at some cost.

        Returns
        -------
        Decision or DataFrame
            The latter has a column for each first-stage variable, by its Pyomo name, and
            the index of a DataFrame of contexts.
        """
        contexts, one = self._contexts(x)
        try:
            solution, scenarios, weights = self._decided(
                contexts, on_error=on_error, progress=progress, fresh=fresh
            )
        except SolveError as error:
            raise _of_context(error, contexts) from error
        if on_error == "record":
            _tell_unsolved(solution)
        decisions = solution.decision
        if len(self._integer):
            decisions[:, self._integer] = np.round(decisions[:, self._integer])
        if one:
            value, status = float(solution.value[0]), str(solution.status[0])
            given = scenarios[0], weights[0]
            return Decision(self._names, decisions[0], value, *given, status)
        index = x.index if isinstance(x, pd.DataFrame) else None
        return pd.DataFrame(decisions, columns=list(self._names), index=index)

    @abstractmethod
    def _generated(self, contexts: np.ndarray) -> tuple[Sets, Sets]:
        """Return scenarios (n, K, p) and weights (n, K), or lists where K differs."""

    def _decided(self, contexts: np.ndarray, **how: Any) -> tuple[Solution, Sets, Sets]:
        """Return the solutions of contexts, with the scenarios and weights they are for.

        How is as of :meth:`decide`: ``on_error``, ``progress`` and ``fresh``.
        """
        scenarios, weights = self._generated(contexts)
        solution = self._solved(scenarios, weights, **how)
        return solution, scenarios, weights

    def _contexts(self, x: Any) -> tuple[np.ndarray, bool]:
        """Return contexts (n, ...), and whether it was a single one."""
        if (
            type(x) is np.ndarray
            and x.dtype == np.float64
            and x.shape == self.context_shape
            and (np.abs(x) < LARGEST).all()
        ):
            return np.array(x)[None], True  # what is most often asked, at once
        return context_batch(x, self.context_shape, self.context_names)

    def _solved(self, scenarios: Any, weights: Any, **how: Any) -> Solution:
        """Return the solutions of all contexts, as one batch where that can be."""
        if isinstance(scenarios, np.ndarray):
            return self.oracle.solve(scenarios, weights, **how)
        found = [
            self._solved_one(case, z, w, **{**how, "progress": False})
            for case, (z, w) in enumerate(
                tqdm(
                    list(zip(scenarios, weights, strict=True)),
                    desc="decisions",
                    delay=2,
                    disable=not how["progress"],
                )
            )
        ]
        return Solution(
            **{
                part: np.concatenate([getattr(one, part) for one in found])
                for part in ("decision", "value", "status", "bound")
            }
        )

    def _solved_one(
        self, case: int, scenarios: np.ndarray, weights: np.ndarray, **how: Any
    ) -> Solution:
        try:
            return self.oracle.solve(scenarios[None], weights[None], **how)
        except SolveError as error:
            raise error.told(case=case) from error


def _of_context(error: SolveError, contexts: np.ndarray) -> SolveError:
    """Return the error with the context that it is about and what to do."""
    if error.status != "infeasible":
        return error
    context = np.array2string(contexts[error.case], precision=6, threshold=8)
    return error.told(
        f"no decision serves the scenarios generated for context {context}; give the "
        "model complete recourse, such as shortage at a price, or a Param's domain that "
        "keeps scenarios where there is one"
    )


def _tell_unsolved(solution: Solution) -> None:
    cases = np.flatnonzero(solution.status != "optimal")
    if len(cases):
        first = int(cases[0])
        logger.warning(
            "%d of %d contexts have no optimal decision; the first is case %d: %s",
            len(cases),
            len(solution.status),
            first,
            solution.status[first],
        )
