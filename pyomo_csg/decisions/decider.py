"""The base classes of policies and baselines: a context in, a decision out."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Executor
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.decisions.decision import Decision
from pyomo_csg.decisions.extrapolation import report_extrapolation
from pyomo_csg.errors import SolveError
from pyomo_csg.learn.generators.scenario_generator import PerContext, check_generator
from pyomo_csg.learn.tables.column_names import match_columns, match_keys
from pyomo_csg.learn.tables.columns import is_frame, is_series
from pyomo_csg.learn.tables.context_reader import read_contexts
from pyomo_csg.learn.tables.known_columns import known_of_contexts
from pyomo_csg.progress_bars import progress_bar
from pyomo_csg.solve import Oracle, Solution
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.validation import Problems

if TYPE_CHECKING:
    import pandas as pd

    from pyomo_csg.learn.fit_result import FitResult
    from pyomo_csg.learn.networks.task_nets import TaskNet
    from pyomo_csg.learn.tables.preprocessing import Preprocessing

logger = logging.getLogger(__name__)

_FAR = 1.1  # times the largest distance in the history
_ROUNDING = 1e-9  # of distances relative to their size
_RESIDUE = 1e-12  # relative, of numbers that are whole but for rounding
_BATCH = 4096  # contexts, to bound memory


class Decider(ABC):
    """Solves the model on scenarios that it generates for each context.

    Subclasses implement :meth:`_generate_scenarios` and set ``context_shape`` and
    ``context_names``.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`. It is copied, so later changes to it have
        no effect.
    solver, options, workers, executor
        As in :class:`pyomo_csg.Oracle`.

    Attributes
    ----------
    oracle : Oracle
        Solves the programs; ``oracle.stats`` counts them and their seconds.
    context_shape : tuple of int
        (d,), or (W, d) for panels of W steps.
    context_names : tuple of str, or None
        Column names, if the history was a DataFrame.
    preprocessing : Preprocessing or None
        How columns of text, dates or gaps become the numbers of ``context_names``.
    """

    context_shape: tuple[int, ...]
    context_names: tuple[str, ...] | None = None
    preprocessing: Preprocessing | None = None

    def __init__(
        self,
        model: BlockData | Oracle,
        *,
        solver: str = "highs",
        options: Mapping[str, Any] | None = None,
        workers: int = 1,
        executor: Executor | None = None,
    ):
        # Internal callers may pass an oracle, to share its compiled model.
        self.oracle = (
            model
            if isinstance(model, Oracle)
            else Oracle(model, solver, executor, workers, options)
        )
        self._settings: dict[str, Any] = {
            "solver": solver,
            "options": options,
            "workers": workers,
        }
        variables = self.two_stage.plain.first_stage_variables
        self._names = tuple(v.name for v in variables)
        self._integer = [j for j, v in enumerate(variables) if not v.is_continuous()]

    @property
    def two_stage(self) -> TwoStageModel:
        """The checked view of the copied model."""
        return self.oracle.two_stage

    def scenarios(self, x: Any) -> Any:
        """Return the scenarios (K, p) for one context, or (n, K, p) for several.

        If K differs between contexts, several give a list.

        Parameters
        ----------
        x : array, mapping, Series or DataFrame
            One context (d,) or (W, d), or an array (n, ...) of several. If the history
            was a DataFrame, a mapping or Series is one context and a DataFrame several.
        """
        contexts, one = self._read_contexts(x)
        scenarios, _ = self._generate_scenarios(contexts)
        return scenarios[0] if one else scenarios

    def weights(self, x: Any) -> Any:
        """Return the scenario weights (K,) for one context, or (n, K) for several."""
        contexts, one = self._read_contexts(x)
        _, weights = self._generate_scenarios(contexts)
        return weights[0] if one else weights

    @overload
    def decide(
        self,
        x: Mapping[str, Any],
        *,
        known: Any = None,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
    ) -> Decision: ...

    @overload
    def decide(
        self,
        x: Any,
        *,
        known: Any = None,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
    ) -> Any: ...  # the shape of an array decides

    def decide(
        self,
        x: Any,
        *,
        known: Any = None,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
    ) -> Decision | pd.DataFrame:
        """Return a Decision for one context, or a DataFrame of decisions for several.

        Parameters
        ----------
        x : array, mapping, Series or DataFrame
            As in :meth:`scenarios`. The numbers of known Params are read from it by
            their Pyomo names, unless ``known`` has them.
        known : array (r,) or (n, r), DataFrame or mapping, optional
            The numbers of the known Params, as in :meth:`Oracle.solve`. Arrays of
            contexts need it.
        on_error : {'raise', 'record'}, optional
            If a program has no solution: raise its SolveError, or leave NaN for that
            context and log a warning. If a limit stopped an integer program, the best
            decision found so far is returned.
        progress : bool, optional
            Whether to show a progress bar for long batches.
        fresh : bool, optional
            Whether to ignore warm starts, so that decisions do not depend, to the last
            bit, on earlier calls. This is slower.

        Returns
        -------
        Decision or DataFrame
            The DataFrame has one column per first-stage variable, by its Pyomo name, and
            keeps the index of ``x`` if that is a DataFrame.
        """
        x = self._name_known(x)
        contexts, one = self._read_contexts(x)
        how = {"on_error": on_error, "progress": progress, "fresh": fresh}
        solution, scenarios, weights = self._solve_read(x, contexts, known, **how)
        decisions = solution.decision[:, : len(self._names)]
        if one:
            has_risk = self.two_stage.quantile is not None
            return Decision(
                self._names,
                decisions[0],
                float(solution.value[0]),
                scenarios[0],
                weights[0],
                str(solution.status[0]),
                float(solution.decision[0, -1]) if has_risk else None,
            )
        import pandas as pd

        index = x.index if is_frame(x) else None
        return pd.DataFrame(decisions, columns=list(self._names), index=index)

    def program_decisions(self, contexts: np.ndarray, **how: Any) -> np.ndarray:
        """Return decisions (n, s) for contexts, with the value at risk if there is one.

        ``how`` holds the options of :meth:`decide`.
        """
        read, _ = self._read_contexts(contexts)
        return self._solve_read(contexts, read, **how)[0].decision

    def _solve_read(
        self, x: Any, contexts: np.ndarray, known: Any, **how: Any
    ) -> tuple[Solution, PerContext, PerContext]:
        """Return the solutions for contexts that were read from ``x``."""
        numbers = np.zeros((len(contexts), 0))
        if known is not None or self.two_stage.known_params:
            numbers = self._read_known(x, known, contexts)
        try:
            found = self._solve_contexts(contexts, known=numbers, **how)
        except SolveError as error:
            raise _explain_infeasible(error, contexts) from error
        if how["on_error"] == "record":
            _warn_unsolved(found[0])
        return found

    @abstractmethod
    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[PerContext, PerContext]:
        """Return scenarios (n, K, p) and weights (n, K), or lists where K differs."""

    def _solve_contexts(
        self, contexts: np.ndarray, **how: Any
    ) -> tuple[Solution, PerContext, PerContext]:
        """Return the solutions for contexts, with their scenarios and weights.

        ``how`` holds the options of :meth:`decide`, and ``known`` (n, r).
        """
        scenarios, weights = self._generate_scenarios(contexts)
        solution = self._solve_scenarios(scenarios, weights, **how)
        decisions, whole = solution.decision, np.round(solution.decision)
        # Solvers return 249.99999999999997 for 250.
        residue = np.abs(decisions - whole) <= _RESIDUE * np.maximum(1, np.abs(whole))
        residue[:, self._integer] = True
        decisions[residue] = whole[residue]
        decisions += 0.0  # -0.0 becomes 0.0
        return solution, scenarios, weights

    def _read_contexts(self, x: Any) -> tuple[np.ndarray, bool]:
        """Return contexts to decide for, and whether ``x`` was a single one."""
        return self.read_contexts(x)

    def read_contexts(self, x: Any) -> tuple[np.ndarray, bool]:
        """Return contexts (n, ...) as numbers, and whether ``x`` was a single one."""
        if self.preprocessing is not None:
            x = self.preprocessing.encode_any(x)
        return read_contexts(x, self.context_shape, self.context_names)

    def _name_known(self, x: Any) -> Any:
        """Return contexts whose columns or keys for known Params have Pyomo's names."""
        names = [param.name for param in self.two_stage.known_params]
        is_row = isinstance(x, Mapping) and not {*names} <= x.keys()
        if not names or not (is_row or is_frame(x)):
            return x
        problems = Problems("The context does not fit the history")
        found = problems.check(
            "contexts", match_keys if is_row else match_columns, x, names
        )
        problems.raise_any()
        return found

    def _read_known(self, x: Any, known: Any, contexts: np.ndarray) -> np.ndarray:
        """Return the known numbers (n, r) of what was read as contexts."""
        if not (
            isinstance(x, Mapping) or is_frame(x) or is_series(x) or known is not None
        ):
            names = {param.name for param in self.two_stage.known_params}
            if names <= {*(self.context_names or ())}:
                known = self.known_numbers(contexts)
        problems = Problems(f"Cannot decide with '{self.two_stage.model.name}'")
        cases = len(contexts)
        found = problems.check(
            "known", known_of_contexts, self.two_stage, x, known, cases
        )
        problems.raise_any()
        return np.asarray(found)

    def known_numbers(self, contexts: np.ndarray) -> np.ndarray:
        """Return the known numbers (n, r) among contexts (n, d), or else the model's."""
        names, params = self.context_names or (), self.two_stage.known_params
        columns = [
            contexts[..., names.index(param.name)].reshape(len(contexts), -1)[:, -1]
            if param.name in names
            else np.full(len(contexts), float(param.value))
            for param in params
        ]
        return np.stack(columns, axis=-1) if columns else np.zeros((len(contexts), 0))

    def _solve_scenarios(self, scenarios: Any, weights: Any, **how: Any) -> Solution:
        """Return the solutions for all contexts, in one batch if K is the same."""
        if isinstance(scenarios, np.ndarray):
            return self.oracle.solve(scenarios, weights, **how)
        pairs, shown = list(zip(scenarios, weights, strict=True)), how["progress"]
        known = how.get("known", np.zeros((len(pairs), 0)))
        found = []
        with progress_bar("decisions", len(pairs), "decisions", shown) as bar:
            for case, (one, shares) in enumerate(pairs):
                try:
                    options = {**how, "progress": False, "known": known[case]}
                    found.append(self.oracle.solve(one[None], shares[None], **options))
                except SolveError as error:
                    raise error.replace(case=case) from error
                bar.update()
        return Solution(
            **{
                part: np.concatenate([getattr(one, part) for one in found])
                for part in ("decision", "value", "status", "bound")
            }
        )


class LearnedDecider(Decider):
    """A decider whose fit ``learned`` holds a generator of ``count`` scenarios.

    Reports and bounds use it, so that they need not import :class:`pyomo_csg.Policy`.
    """

    learned: FitResult
    count: int | None  # None if it varies by context

    def __init__(
        self,
        model: BlockData | Oracle,
        learned: FitResult,
        *,
        solver: str = "highs",
        options: Mapping[str, Any] | None = None,
        workers: int = 1,
        executor: Executor | None = None,
    ):
        super().__init__(
            model, solver=solver, options=options, workers=workers, executor=executor
        )
        self.learned = learned
        generator = self._generator = learned.generator
        check_generator(generator, self.two_stage)
        self.context_names = learned.context_names
        self.preprocessing = learned.preprocessing
        self.context_shape = tuple(generator.context_shape)
        self.count, self._weighted = generator.count, generator.is_weighted
        self._center, self._spread = generator.center, generator.spread
        size = np.abs(self._center / self._spread).max(initial=0.0)
        self._limit = _FAR * learned.reach + float(_ROUNDING * (1 + size))

    @property
    def network(self) -> TaskNet:
        """The torch network that generates the scenarios; a DataError if there is none."""
        return self.learned.network

    @property
    def method(self) -> str:
        """The method that was passed to :func:`pyomo_csg.fit`."""
        return self.learned.method

    @property
    def history(self) -> pd.DataFrame:
        """Training losses: stage, step and values."""
        return self.learned.log

    def _read_contexts(self, x: Any) -> tuple[np.ndarray, bool]:
        contexts, one = self.read_contexts(x)
        self._warn_if_far(contexts)
        return contexts, one

    def _warn_if_far(self, contexts: np.ndarray) -> None:
        flat = ((contexts - self._center) / self._spread).reshape(len(contexts), -1)
        if np.abs(flat).max() <= self._limit:
            return  # the usual case: the root mean square cannot be larger
        distance = np.sqrt(np.einsum("ni,ni->n", flat, flat) / flat.shape[1])
        report_extrapolation(distance, self._limit, self.learned.reach)

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[PerContext, PerContext]:
        """Return scenarios (n, K, p) and weights (n, K); lists of n if K varies."""
        if len(contexts) <= _BATCH:
            return self._generator(contexts)
        starts = range(0, len(contexts), _BATCH)
        parts = [self._generator(contexts[i : i + _BATCH]) for i in starts]
        scenarios, weights = zip(*parts, strict=True)
        if self.count is None:
            return list(chain(*scenarios)), list(chain(*weights))
        return np.concatenate(scenarios), np.concatenate(weights)

    def _solve_scenarios(self, scenarios: Any, weights: Any, **how: Any) -> Solution:
        is_stacked = isinstance(scenarios, np.ndarray)
        shares = None if is_stacked and not self._weighted else weights
        return super()._solve_scenarios(scenarios, shares, **how)


def _explain_infeasible(error: SolveError, contexts: np.ndarray) -> SolveError:
    """Return an infeasible program's error with its context and what to do."""
    if error.status != "infeasible":
        return error
    context = np.array2string(contexts[error.case], precision=6, threshold=8)
    return error.replace(
        f"no decision is feasible for all scenarios generated for context {context}; give "
        "the model complete recourse, such as shortage at a price, or restrict the Param's "
        "domain so that such scenarios are not generated"
    )


def _warn_unsolved(solution: Solution) -> None:
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
