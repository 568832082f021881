"""csg.Oracle: decisions, losses, costs and gradients of an annotated model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import cloudpickle
import numpy as np
from pyomo.core.base.block import BlockData
from pyomo.core.base.transformation import TransformationFactory

from pyomo_csg.errors import DataError, ModelError, SolveError
from pyomo_csg.solve.arguments import (
    Arguments,
    FirstStage,
    append_numbers,
    case_keys,
    check_call,
)
from pyomo_csg.solve.batch import Batch, Recipe
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.compile.compiler import compile_model
from pyomo_csg.solve.conflicts import ExplainedProgram
from pyomo_csg.solve.engine import (
    CostTask,
    DecisionTask,
    GradientTask,
    LossResult,
    LossTask,
    Result,
    SolveTask,
    Stats,
)
from pyomo_csg.solve.lp.highs_options import check_options
from pyomo_csg.solve.results import Audit, DecisionGradient, LossGradient, Solution
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import count_axes
from pyomo_csg.validation import Problems, is_one_of

_AUDITED = 20
_KINDS = ("optimistic", "recourse", "pessimistic")


class Oracle:
    """Solve the programs of a two-stage model, exactly and in batches.

    The model is compiled to arrays once. Programs for any number of scenarios are built
    from them and solved by HiGHS, whose bases and incumbents are kept from case to case.
    Losses and costs are minimized whatever the model's sense: the profits of a maximized
    model are negated. Several threads may use one oracle. It can be pickled, without its
    executor.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`. Later changes to it are not seen.
    solver : str, optional
        ``'highs'`` is this package's own engine. Any other name is a solver of Pyomo's,
        for any model that it accepts: ``'scip_persistent'``, ``'gurobi_persistent'``,
        ``'ipopt'``, ... of ``pyomo.contrib.solver``, by their names there, and
        ``'appsi_gurobi'``, ``'appsi_cbc'``, ... of appsi. ``'contrib_highs'`` is Pyomo's
        interface to HiGHS.
    executor : concurrent.futures.Executor, optional
        Where to solve batches: a pool of processes, Dask's ``Client.get_executor()``,
        ``mpi4py.futures.MPIPoolExecutor``.
    workers : int, optional
        How many threads to use without an executor, or how many workers it has.
    options : mapping, optional
        Options of the solver, such as ``{'time_limit': 10.0}``, in seconds per program.

    Attributes
    ----------
    two_stage : TwoStageModel
    stats : Stats
        Solves, iterations, cache hits and seconds so far.
    failures : list of SolveError
        Of this thread's last call, where ``on_error='record'``.
    audit : Audit or None
        Of this thread's last losses with ``kind='recourse'``.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> oracle = csg.Oracle(newsvendor.build())
    >>> solution = oracle.solve([[10], [14], [30]])
    >>> solution.decision, round(solution.value, 3)
    (array([10.]), -0.5)
    >>> oracle.cost([20], [[12], [25]]).round(3)
    array([ 6.6, -1. ])
    """

    _compiled: CompiledModel | None = None
    _rehearsal: tuple[np.ndarray, ...] | None = None

    def __init__(
        self,
        model: BlockData,
        solver: str = "highs",
        executor: Executor | None = None,
        workers: int = 1,
        options: Mapping[str, Any] | None = None,
    ):
        _check_settings(solver, executor, workers, options)
        # Copy the model, so that later changes to it have no effect.
        self.two_stage = TwoStageModel(model).copy()
        self._sense = int(self.two_stage.sense)
        self._arguments = Arguments(self.two_stage)
        self._settings = (solver, executor, workers, options)
        recipe = self._recipe(solver, options)
        self._batch = Batch(recipe, executor, workers)
        self._last = threading.local()

    def __repr__(self) -> str:
        return f"<Oracle for '{self.two_stage.model.name}', by '{self._settings[0]}'>"

    def __reduce__(self) -> Any:
        solver, _, workers, options = self._settings
        model = cloudpickle.dumps(self.two_stage.model)
        settings = solver, None, workers, options
        state = settings, self._rehearsal, self._arguments.known
        return _unpickle, (type(self), model, *state)

    def on(self, model: BlockData) -> Oracle:
        """Return an oracle of another annotated model with the same settings."""
        other = Oracle(model, *self._settings)
        return other._restore(self._rehearsal, self._arguments.known)

    def with_known(self, known: Any) -> Oracle:
        """Return the same oracle with other default numbers of the known Params.

        Parameters
        ----------
        known : array (r,), mapping or Series
            In the order of ``TwoStageModel.known_params``, or by their Pyomo names.
        """
        other = object.__new__(type(self))
        vars(other).update(vars(self), _arguments=self._arguments.with_known(known))
        return other

    def _restore(
        self, cases: tuple[np.ndarray, ...] | None, known: np.ndarray
    ) -> Oracle:
        """Return this oracle after a rehearsal on cases, with default known numbers."""
        if cases is not None:
            scenarios, outcomes, numbers = cases
            self.rehearse(scenarios, outcomes, numbers if numbers.size else None)
        self._arguments = self._arguments.with_known(known, checked=True)
        return self

    @property
    def stats(self) -> Stats:
        """Counts and times of all solves so far."""
        return self._batch.stats

    @property
    def failures(self) -> list[SolveError]:
        """The failures of this thread's last call."""
        return list(getattr(self._last, "failures", ()))

    @property
    def audit(self) -> Audit | None:
        """The audit of this thread's last losses with ``kind='recourse'``."""
        return getattr(self._last, "audit", None)

    def solve(
        self,
        scenarios: Any,
        weights: Any = None,
        *,
        known: Any = None,
        keys: Any = None,
        gradient: bool = False,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
        deadline: float | None = None,
        mip_gap: float | None = None,
    ) -> Solution:
        """Solve zeta-SAA.

        Parameters
        ----------
        scenarios : array (K, p), or (n, K, p) for a batch, or DataFrame (K, p)
        weights : array (K,) or (n, K), optional
            Each row sums to 1. Default: 1/K.
        known : array (r,) or (n, r), DataFrame or mapping, optional
            The numbers of the known Params, in the order of
            ``TwoStageModel.known_params``, or by their Pyomo names; for each case, or
            the same for all. Default: the values that the model had.
        keys : array (n,) of int, optional
            Names of the cases, such as row numbers in a shuffled batch. A linear program
            starts from the last basis of its key. Default: the position in the batch.
        gradient : bool, optional
            Whether to compute the gradient of the value.
        on_error : {'raise', 'record'}, optional
            For a case that cannot be solved: raise its SolveError, or leave NaN and record
            it in ``failures``. An integer program stopped by a limit leaves its incumbent,
            if any.
        progress : bool, optional
            Whether long batches show a progress bar.
        fresh : bool, optional
            Whether to ignore the bases and incumbents of earlier cases. This is slower, but
            results are then the same to the last bit whatever was solved before, whatever
            the order of the cases and the number of workers.
        deadline : float, optional
            A value of ``time.monotonic()``. Cases without an answer by then fail with the
            status ``'time limit'``; use it with ``on_error='record'``.
        mip_gap : float, optional
            The relative gap at which integer programs of this call may stop, instead of
            the option ``mip_rel_gap``. Solvers other than ``'highs'`` ignore it.

        Returns
        -------
        Solution
        """
        self._check(on_error, gradient, deadline, mip_gap)
        zetas, shares = self._arguments.cases(scenarios, weights, known=known)
        task = SolveTask(zetas, shares, case_keys(keys, len(zetas), fresh), gradient)
        found = self._batch.run(task, progress, fresh, deadline, mip_gap)
        failures = self._record(
            found, on_error, lambda i: self._saa_program(zetas[i], shares[i])
        )
        status = np.full(len(zetas), "optimal", dtype=object)
        for i, trouble in found.troubles.items():
            status[i] = trouble.status
        values, bounds = self._sense * found.values, self._sense * found.bounds
        slopes = None
        if found.gradients is not None:
            slopes = self._sense * self._by_scenario(found.gradients)
        if count_axes(scenarios) != 2:
            return Solution(
                found.decisions, values, status, slopes, found.smooth, bounds, failures
            )
        return Solution(
            found.decisions[0],
            float(values[0]),
            status[0],
            None if slopes is None else slopes[0],
            None if found.smooth is None else found.smooth[0],
            float(bounds[0]),
            failures,
        )

    def loss(
        self,
        scenarios: Any,
        outcomes: Any,
        kind: str = "optimistic",
        *,
        weights: Any = None,
        outcome_weights: Any = None,
        known: Any = None,
        keys: Any = None,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
        deadline: float | None = None,
        mip_gap: float | None = None,
        audit: bool = True,
    ) -> np.ndarray:
        """Return the losses (n,) of decisions on scenarios, evaluated on outcomes.

        Parameters
        ----------
        scenarios : array (n, K, p)
        outcomes : array (n, p), or (n, M, p)
            With M outcomes per case, costs are means over them, and ``'optimistic'`` is
            that of the one decision that is best for the mean.
        kind : {'optimistic', 'recourse', 'pessimistic'}, optional
            ``'optimistic'`` is l_opt, the cost of the best of zeta-SAA's optimal
            decisions; ``'pessimistic'`` that of the worst, for linear models;
            ``'recourse'`` that of the decision that the solver returns. All are equal where
            the decision is unique. For ``'recourse'``, ``audit`` says in how many cases
            that is proven, and how far the cost is above l_opt in the first others.
        outcome_weights : array (M,) or (n, M), optional
            Each row sums to 1. Default: 1/M.
        weights, known, keys, on_error, progress, fresh, deadline, mip_gap
            As in :meth:`solve`.
        audit : bool, optional
            Whether to make the ``audit`` for ``'recourse'``, which searches ties.
        """
        if not is_one_of(kind, _KINDS):
            raise DataError("Unknown loss", [f"kind is {kind!r}; give one of {_KINDS}"])
        if kind == "pessimistic":
            self._refuse_pessimism()
        self._check(on_error, deadline=deadline, mip_gap=mip_gap)
        parts = None
        is_single = getattr(outcomes, "ndim", 0) == 2 or count_axes(outcomes) != 3
        if outcome_weights is None and is_single:
            zetas, shares, omegas = self._arguments.cases(
                scenarios, weights, outcomes, known=known
            )
        else:
            zetas, shares, omegas, parts = self._arguments.means(
                scenarios, weights, outcomes, outcome_weights, known
            )
            self._refuse_mean(kind, parts.shape[1])
            if parts.shape[1] == 1:
                omegas, parts = omegas[:, 0], None
        names = case_keys(keys, len(zetas), fresh)
        task = LossTask(zetas, shares, omegas, names, kind, parts)
        found = self._batch.run(task, progress, fresh, deadline, mip_gap)
        self._record(
            found,
            on_error,
            lambda i: self._search_program(
                zetas[i], shares[i], omegas[i], None if parts is None else parts[i]
            ),
        )
        if kind == "recourse" and audit:
            self._last.audit = self._audit(found, task, keys is not None, deadline)
        return found.losses

    def cost(
        self,
        decisions: Any,
        outcomes: Any,
        *,
        known: Any = None,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
        check_first_stage: bool = True,
        deadline: float | None = None,
        mip_gap: float | None = None,
    ) -> np.ndarray:
        """Return the costs h(y) + Q(y, omega) (n,) of decisions under outcomes.

        Parameters
        ----------
        decisions : array (n, s) or (s,)
            A decision that violates the bounds or constraints of the first stage by more
            than a relative 1e-6 is infeasible. In a model with a risk measure, a decision
            that ends with its value at risk costs what the program adds up, and one
            without costs what is paid.
        outcomes : array (n, p)
        known, on_error, progress, fresh, deadline, mip_gap
            As in :meth:`solve`.
        check_first_stage : bool
            Whether to check decisions against the first stage. Solvers other than
            ``'highs'`` always do.
        """
        self._check(on_error, deadline=deadline, mip_gap=mip_gap)
        if self._is_paid(decisions):
            paid, numbers = self.plain, self._arguments.known
            costs = paid.cost(
                decisions,
                outcomes,
                known=numbers if known is None else known,
                on_error=on_error,
                progress=progress,
                fresh=fresh,
                check_first_stage=check_first_stage,
                deadline=deadline,
                mip_gap=mip_gap,
            )
            self._last.failures = tuple(paid.failures)
            return costs
        ys, omegas = self._arguments.decisions(decisions, outcomes, known)
        task = CostTask(ys, omegas)
        found = self._batch.run(task, progress, fresh, deadline, mip_gap)
        if check_first_stage and self._compiled is not None:
            broken = self._first_stage.violations(ys, omegas)
            found.troubles.update(broken)
            found.costs[list(broken)] = np.nan
        self._record(
            found,
            on_error,
            lambda i: self._transform("recourse", decision=ys[i], outcome=omegas[i]),
        )
        return found.costs

    @cached_property
    def plain(self) -> Oracle:
        """The oracle of the model without its risk measure; itself if there is none."""
        if self.two_stage.risk is None:
            return self
        return self.on(self.two_stage.plain.model)

    def _is_paid(self, decisions: Any) -> bool:
        """Whether decisions of a model with a risk measure lack their value at risk."""
        if self.two_stage.quantile is None:
            return False
        if hasattr(decisions, "columns"):
            return self.two_stage.quantile.name not in map(str, decisions.columns)
        shape = np.shape(decisions) if count_axes(decisions) else ()
        width = len(self.two_stage.first_stage_variables)
        return shape[-1:] == (width - 1,)

    def rehearse(self, scenarios: Any, outcomes: Any, known: Any = None) -> None:
        """Find the bases of the recourse on some cases, for all later batches.

        With ``fresh=True`` every batch would have to find them again. The last bits of
        results then depend on these cases, and on nothing else.

        Parameters
        ----------
        scenarios : array (n, K, p)
            Their decisions are combined with the outcomes.
        outcomes : array (m, p)
        known : array (r,) or (m, r), optional
            Known numbers of the outcomes. The scenarios use them in turn.
        """
        zetas, shares, data = self._arguments.rehearsal(scenarios, outcomes, known)
        p = self._arguments.p
        numbers = data[:, p:]
        self._rehearsal = zetas, data[:, :p], numbers
        turn = numbers[np.arange(len(zetas)) % len(numbers)]
        self._batch.rehearse(append_numbers(zetas, turn), shares, data)

    def loss_gradient(
        self,
        scenarios: Any,
        outcomes: Any,
        *,
        weights: Any = None,
        outcome_weights: Any = None,
        known: Any = None,
        keys: Any = None,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
        deadline: float | None = None,
        mip_gap: float | None = None,
    ) -> LossGradient:
        """Return losses and d loss / d zeta, from the optimal basis.

        The loss is that of the returned decision, with integer variables held at the
        incumbent. One decision can be evaluated on many outcomes at little cost.

        Losses are piecewise smooth. Where ``smooth`` is False, the gradient is that of the
        piece to which the optimal basis belongs. Where that piece has interior points nearby,
        it is a limit of gradients, and so an element of the generalized gradient.

        Parameters
        ----------
        scenarios : array (n, K, p)
        outcomes : array (n, p), or (n, M, p)
            With M outcomes per case, the loss is the mean over them.
        outcome_weights : array (n, M), optional
            Each row sums to 1. Default: 1/M.
        weights, known, keys, on_error, progress, fresh, deadline, mip_gap
            As in :meth:`solve`.
        """
        self._check(on_error, True, deadline, mip_gap)
        zetas, shares, omegas, parts = self._arguments.means(
            scenarios, weights, outcomes, outcome_weights, known
        )
        task = GradientTask(
            zetas, shares, omegas, parts, case_keys(keys, len(zetas), fresh)
        )
        found = self._batch.run(task, progress, fresh, deadline, mip_gap)
        failures = self._record(
            found,
            on_error,
            lambda i: self._search_program(zetas[i], shares[i], omegas[i, 0]),
        )
        slopes = self._by_scenario(found.gradients)
        return LossGradient(found.losses, slopes, found.smooth, failures)

    def decision_gradient(
        self,
        scenarios: Any,
        slopes: Any = None,
        *,
        weights: Any = None,
        known: Any = None,
        keys: Any = None,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
        deadline: float | None = None,
        mip_gap: float | None = None,
    ) -> DecisionGradient:
        """Return zeta-SAA's decisions and their derivatives, from the optimal basis.

        Integer variables are held at the incumbent, so their derivatives are zero.
        Derivatives of quadratic programs come from the KKT system.

        Parameters
        ----------
        scenarios : array (n, K, p)
        slopes : array (n, s), optional
            Return the gradient of ``slopes[i] @ decision[i]``, a vector-Jacobian product.
            Default: the whole Jacobian.
        weights, known, keys, on_error, progress, fresh, deadline, mip_gap
            As in :meth:`solve`.
        """
        self._check(on_error, True, deadline, mip_gap)
        zetas, shares, units = self._arguments.slopes(scenarios, weights, slopes, known)
        task = DecisionTask(zetas, shares, units, case_keys(keys, len(zetas), fresh))
        found = self._batch.run(task, progress, fresh, deadline, mip_gap)
        failures = self._record(
            found, on_error, lambda i: self._saa_program(zetas[i], shares[i])
        )
        derivatives = self._by_scenario(found.derivatives)
        return DecisionGradient(found.decisions, derivatives, found.smooth, failures)

    def _recipe(self, solver: str, options: Mapping[str, Any] | None) -> Recipe:
        width = len(self.two_stage.first_stage_variables)
        if solver == "highs":
            self._compiled = compile_model(self.two_stage)
            checked = check_options(options, basis=True)
            return Recipe(solver, checked, self._compiled, width=width)
        from pyomo_csg.solve.pyomo_solvers.solver_kinds import SolverKind

        SolverKind(solver, options)  # raises if it is not available
        model = cloudpickle.dumps(self.two_stage.model)
        return Recipe(solver, dict(options or {}), model=model, width=width)

    def _check(
        self,
        on_error: str,
        gradient: bool = False,
        deadline: float | None = None,
        mip_gap: float | None = None,
    ) -> None:
        """Raise before anything is solved if a setting cannot be used."""
        check_call(on_error, deadline, mip_gap)
        if gradient and self._compiled is None:
            raise ModelError(
                f"Solver '{self._settings[0]}' gives no gradient",
                ["gradients are read off the optimal basis; use solver='highs'"],
            )

    @cached_property
    def _first_stage(self) -> FirstStage:
        assert self._compiled is not None
        return FirstStage(self.two_stage, self._compiled)

    def _refuse_pessimism(self) -> None:
        """Raise if the optimal decisions are not a face of a polyhedron."""
        found = ""
        if self._compiled is None:
            found = "it is solved by another solver; use solver='highs'"
        elif self._compiled.integer:
            found = "it has integer variables; relax them"
        elif self._compiled.quadratic:
            found = "its objective is quadratic; the worst optimum is sought on a face"
        if found:
            subject = f"'{self.two_stage.model.name}' has no pessimistic loss here"
            raise ModelError(subject, [found])

    def _refuse_mean(self, kind: str, count: int) -> None:
        """Raise if the loss of a mean cost cannot be computed."""
        if kind == "pessimistic" and count > 1:
            found = f"there are {count} outcomes per case; give one, as outcomes (n, p)"
            subject = f"'{self.two_stage.model.name}' has no pessimistic loss here"
            raise ModelError(subject, [found])

    def _by_scenario(self, gradients: np.ndarray) -> np.ndarray:
        """Return the part (..., p) of gradients (..., p + r)."""
        p = self._arguments.p
        return gradients if gradients.shape[-1] == p else gradients[..., :p].copy()

    def _record(
        self, result: Result, on_error: str, program: Callable[[int], Any]
    ) -> tuple[SolveError, ...]:
        """Return the failures of a result; raise the first if ``on_error='raise'``."""
        failures = tuple(
            SolveError(
                i,
                trouble.status,
                trouble.detail,
                ExplainedProgram(partial(program, i)),
            )
            for i, trouble in sorted(result.troubles.items())
        )
        self._last.failures = failures
        if failures and on_error == "raise":
            raise failures[0]
        return failures

    def _audit(
        self,
        found: LossResult,
        task: LossTask,
        has_keys: bool,
        deadline: float | None,
    ) -> Audit:
        """Compare with l_opt in cases whose decision is not proven to be unique."""
        solved = ~np.isnan(found.losses)
        cases = np.flatnonzero(solved & ~found.unique)[:_AUDITED]
        worst = 0.0
        if len(cases):
            part = task.take(cases)
            keys = part.keys if has_keys else np.arange(len(cases))
            part = replace(part, keys=keys, kind="optimistic")
            exact = self._batch.run(part, deadline=deadline).losses
            apart = (found.losses[cases] - exact) / np.maximum(1, np.abs(exact))
            worst = float(np.nanmax(apart, initial=0.0))
        return Audit(int((solved & found.unique).sum()), len(cases), worst)

    def _saa_program(self, zetas: np.ndarray, shares: np.ndarray) -> Any:
        return self._transform("extensive_form", scenarios=zetas, weights=shares)

    def _search_program(
        self,
        zetas: np.ndarray,
        shares: np.ndarray,
        omega: np.ndarray,
        parts: np.ndarray | None = None,
    ) -> Any:
        """Return Opt-Search, or zeta-SAA itself if that could not be solved."""
        found = self._batch.run(SolveTask(zetas[None], shares[None], np.arange(1)))
        if found.troubles:
            return self._saa_program(zetas, shares)
        value = self._sense * found.values[0]
        return self._transform(
            "opt_search",
            scenarios=zetas,
            weights=shares,
            outcome=omega,
            outcome_weights=parts,
            optimal_value=value,
        )

    def _transform(self, name: str, **options: Any) -> Any:
        """Return a program of a case, whose scenarios and outcome hold p + r numbers."""
        p = self._arguments.p
        for key in {"scenarios", "outcome"} & set(options):
            if self.two_stage.known_params:
                options["known"] = options[key].reshape(-1, options[key].shape[-1])[
                    0, p:
                ]
            options[key] = options[key][..., :p]
        return TransformationFactory(f"csg.{name}").create_using(
            self.two_stage.model, **options
        )


def _unpickle(
    kind: type[Oracle],
    model: bytes,
    settings: tuple[Any, ...],
    rehearsal: tuple[np.ndarray, ...] | None,
    known: np.ndarray,
) -> Oracle:
    return kind(cloudpickle.loads(model), *settings)._restore(rehearsal, known)


def _check_settings(solver: Any, executor: Any, workers: Any, options: Any) -> None:
    problems = Problems("Cannot make the oracle")
    problems.check_counts(workers=workers)
    if not isinstance(solver, str):
        problems.add(
            f"solver is {solver!r:.80}; give 'highs', or 'scip_persistent', ..."
        )
    if executor is not None and not _is_executor(executor):
        problems.add(
            f"executor is a {type(executor).__name__}; give an Executor as those of "
            "concurrent.futures"
        )
    if not isinstance(options, Mapping | None):
        problems.add(
            f"options is a {type(options).__name__}; give a mapping from option to value"
        )
    problems.raise_any()


def _is_executor(executor: Any) -> bool:
    return callable(getattr(executor, "submit", None)) and not isinstance(
        executor, type
    )
