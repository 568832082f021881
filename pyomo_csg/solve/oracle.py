"""csg.Oracle: values, decisions, losses, costs and gradients of an annotated model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import lru_cache, partial
from typing import Any

import cloudpickle
import numpy as np
from pyomo.core.base.block import BlockData
from pyomo.core.base.transformation import TransformationFactory

from pyomo_csg.errors import DataError, ModelError, SolveError
from pyomo_csg.solve.batch import Batch, Recipe
from pyomo_csg.solve.compile.compiler import CompiledModel, compile_model
from pyomo_csg.solve.compile.parametric import shared
from pyomo_csg.solve.engine import Stats
from pyomo_csg.solve.lp.highs_program import check_options
from pyomo_csg.solve.results import Audit, LossGradient, Solution
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.stages.inputs import (
    count_axes,
    decision_batch,
    outcome_batch,
    scenario_batch,
    valid_interval,
    weight_batch,
)
from pyomo_csg.validation import Problems, is_one_of, whole_problems

_AUDITED = 20
_KINDS = ("optimistic", "recourse", "pessimistic")


class Oracle:
    """Answers the questions that learning and deciding ask of a two-stage model.

    The model is compiled to arrays once; programs are put together from them for any
    number of scenarios and solved by HiGHS, whose objects, bases and incumbents are kept
    from case to case. Losses and costs are to be minimised whatever the model's sense: a
    maximised model's profits are negated. Several threads may use one oracle, but
    ``failures`` and ``audit`` are those of whichever asked last. It can be pickled; an
    executor is not kept then.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`. Later changes to it are not seen.
    solver : str, optional
        ``'highs'``, or the name of an appsi solver (``'appsi_gurobi'``,
        ``'appsi_ipopt'``, ...), which takes whatever Pyomo model it understands.
    executor : concurrent.futures.Executor, optional
        Where to solve batches: a pool of processes, Dask's ``Client.get_executor()``,
        ``mpi4py.futures.MPIPoolExecutor``.
    workers : int, optional
        How many threads to use without an executor, or how many workers it has.
    options : mapping, optional
        Of the solver, such as ``{'time_limit': 10.0}`` seconds for one program.

    Attributes
    ----------
    two_stage : TwoStageModel
    stats : Stats
        Solves, iterations, cache hits and seconds so far.
    failures : list of SolveError
        Of the last batch, where ``on_error='record'``.
    audit : Audit or None
        Of the last ``kind='recourse'`` losses.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> oracle = csg.Oracle(newsvendor.build())
    >>> solution = oracle.solve([[10], [14], [30]])
    >>> solution.decision, round(solution.value, 3)
    (array([10.]), -0.5)
    >>> oracle.cost([20], [[12], [25]]).round(3)
    array([ 6.6, -1. ])
    """

    _compiled: CompiledModel | None = None
    _rehearsal: tuple[np.ndarray, np.ndarray] | None = None

    def __init__(
        self,
        model: BlockData,
        solver: str = "highs",
        executor: Executor | None = None,
        workers: int = 1,
        options: Mapping[str, Any] | None = None,
    ):
        if problems := _problems(solver, executor, workers, options):
            raise DataError("Cannot make the oracle", problems)
        # A copy: what is solved and what an error writes stay what they are now.
        self.two_stage = TwoStageModel(model).copied()
        self._sense = int(self.two_stage.sense)
        params = self.two_stage.uncertain_params
        sides = [valid_interval(param.parent_component()) for param in params]
        self._low, self._high = np.array(sides).reshape(-1, 2).T
        self._settings = (solver, executor, workers, options)
        recipe = self._recipe(solver, options)
        self._batch = Batch(recipe, executor, workers)
        self.failures: list[SolveError] = []
        self.audit: Audit | None = None

    def __reduce__(self) -> Any:
        solver, _, workers, options = self._settings
        model = cloudpickle.dumps(self.two_stage.model)
        settings = solver, None, workers, options
        return _unpickled, (type(self), model, settings, self._rehearsal)

    def on(self, model: BlockData) -> Oracle:
        """Return an oracle of another annotated model, solved in the same way."""
        return Oracle(model, *self._settings)._rehearsed(self._rehearsal)

    def _rehearsed(self, cases: tuple[np.ndarray, np.ndarray] | None) -> Oracle:
        if cases is not None:
            self.rehearse(*cases)
        return self

    @property
    def stats(self) -> Stats:
        """What was solved so far, and how long it took."""
        return self._batch.stats

    def solve(
        self,
        scenarios: Any,
        weights: Any = None,
        *,
        keys: Any = None,
        gradient: bool = False,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
    ) -> Solution:
        """Solve zeta-SAA.

        Parameters
        ----------
        scenarios : array (K, p), or (n, K, p) for a batch, or DataFrame (K, p)
        weights : array (K,) or (n, K), optional
            Each summing to 1. Default: 1/K.
        keys : array (n,) of int, optional
            Names of the cases, such as the numbers of the pairs in a shuffled batch. A
            linear program starts from the last basis of its name. Default: the place in
            the batch.
        gradient : bool, optional
            Whether to give the gradient of the value, too.
        on_error : {'raise', 'record'}, optional
            What to do with a case that has no answer: raise its SolveError, or go on,
            leave NaN in its place and keep it in ``failures``. An integer program that
            a limit stopped has the best decision found by then in its place, if any.
        progress : bool, optional
            Whether long batches show a bar.
        fresh : bool, optional
            Whether to forget the bases and incumbents of earlier cases, at some cost:
            answers are then the same to the last bit whatever was asked before, in
            whatever order the cases come and however many workers there are.

        Returns
        -------
        Solution
        """
        self._check(on_error, gradient)
        one = count_axes(scenarios) == 2
        zetas, shares = self._sets(scenarios, weights)
        arrays, troubles = self._run(
            "solve",
            [zetas, shares, *_named(keys, zetas)],
            progress,
            fresh=fresh,
            gradient=gradient,
        )
        decisions, values, bounds, gradients, smooth = arrays
        status = np.full(len(zetas), "optimal", dtype=object)
        for i, trouble in troubles.items():
            status[i] = trouble.status
        self._settle(
            troubles, on_error, lambda i: self._saa_program(zetas[i], shares[i])
        )
        values, bounds = self._sense * values, self._sense * bounds
        slopes = self._sense * gradients if gradient else None
        smooth = smooth if gradient else None
        if not one:
            return Solution(decisions, values, status, slopes, smooth, bounds)
        return Solution(
            decisions[0],
            float(values[0]),
            status[0],
            None if slopes is None else slopes[0],
            None if smooth is None else smooth[0],
            float(bounds[0]),
        )

    def loss(
        self,
        scenarios: Any,
        outcomes: Any,
        kind: str = "optimistic",
        *,
        weights: Any = None,
        keys: Any = None,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
    ) -> np.ndarray:
        """Return the losses (n,) of deciding on scenarios when outcomes then happen.

        Parameters
        ----------
        scenarios : array (n, K, p)
        outcomes : array (n, p)
        kind : {'optimistic', 'recourse', 'pessimistic'}, optional
            ``'optimistic'`` is l_opt: the best of zeta-SAA's optimal decisions counts.
            ``'pessimistic'``: the worst of them counts; for linear models.
            ``'recourse'`` takes the decision that the solver returned. Where it is unique
            all are equal: ``audit`` has how many cases were certified to be so, and how
            far it was above l_opt on the first of the others.
        weights, keys, on_error, progress, fresh
            As in :meth:`solve`.
        """
        if not is_one_of(kind, _KINDS):
            raise DataError("Unknown loss", [f"kind is {kind!r}; give one of {_KINDS}"])
        if kind == "pessimistic":
            self._refuse_pessimism()
        self._check(on_error)
        zetas, shares, omegas = self._pairs(scenarios, weights, outcomes)
        pairs = [zetas, shares, omegas, *_named(keys, zetas)]
        (losses, unique), troubles = self._run(
            "losses", pairs, progress, fresh=fresh, kind=kind
        )
        self._settle(
            troubles,
            on_error,
            lambda i: self._search_program(zetas[i], shares[i], omegas[i]),
        )
        if kind == "recourse":
            self._audit(losses, unique, pairs)
        return losses

    def cost(
        self,
        decisions: Any,
        outcomes: Any,
        *,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
    ) -> np.ndarray:
        """Return the costs h(y) + Q(y, omega) (n,) of decisions when outcomes happen.

        Parameters
        ----------
        decisions : array (n, s) or (s,)
        outcomes : array (n, p)
        on_error, progress, fresh
            As in :meth:`solve`.
        """
        self._check(on_error)
        problems = Problems(f"The data does not fit '{self.two_stage.model.name}'")
        omegas = problems.check("outcomes", outcome_batch, self.two_stage, outcomes)
        ys = problems.check(
            "decisions", decision_batch, self.two_stage, decisions, omegas
        )
        problems.raise_any()
        (costs,), troubles = self._run("costs", [ys, omegas], progress, fresh=fresh)
        self._settle(
            troubles, on_error, lambda i: self._recourse_program(ys[i], omegas[i])
        )
        return costs

    def rehearse(self, scenarios: Any, outcomes: Any) -> None:
        """Learn from some cases by which bases the recourse answers.

        With ``fresh=True`` every batch would find them again. Answers then depend, in
        their last bits, on what was rehearsed, and on nothing else.

        Parameters
        ----------
        scenarios : array (n, K, p)
            Whose decisions are tried on the outcomes.
        outcomes : array (m, p)
        """
        problems = Problems(f"The data does not fit '{self.two_stage.model.name}'")
        zetas = problems.check("scenarios", scenario_batch, self.two_stage, scenarios)
        shares = problems.check("weights", weight_batch, None, zetas)
        omegas = problems.check("outcomes", outcome_batch, self.two_stage, outcomes)
        problems.raise_any()
        self._rehearsal = zetas, omegas
        self._batch.rehearse(zetas, shares, omegas)

    def loss_gradient(
        self,
        scenarios: Any,
        outcomes: Any,
        *,
        weights: Any = None,
        outcome_weights: Any = None,
        on_error: str = "raise",
        progress: bool = True,
        fresh: bool = False,
    ) -> LossGradient:
        """Return losses and d loss / d zeta, through the optimal basis.

        The loss is that of the decision at hand; with integer variables they are held at
        the incumbent. One decision can be charged for many outcomes at little cost.

        Parameters
        ----------
        scenarios : array (n, K, p)
        outcomes : array (n, p), or (n, M, p)
            With M outcomes a case, its loss is their mean.
        outcome_weights : array (n, M), optional
            Each row summing to 1. Default: 1/M.
        weights, on_error, progress, fresh
            As in :meth:`solve`.
        """
        self._check(on_error, gradient=True)
        problems = Problems(f"The data does not fit '{self.two_stage.model.name}'")
        zetas = problems.check("scenarios", scenario_batch, self.two_stage, scenarios)
        shares = problems.check("weights", weight_batch, weights, zetas)
        many = count_axes(outcomes) == 3
        taken = scenario_batch if many else outcome_batch
        omegas = problems.check("outcomes", taken, self.two_stage, outcomes)
        if omegas is not None and not many:
            omegas = omegas[:, None]
        parts = problems.check("outcome_weights", weight_batch, outcome_weights, omegas)
        if zetas is not None and omegas is not None and len(zetas) != len(omegas):
            problems.add_for(
                "outcomes", f"{len(omegas)} cases, but {len(zetas)} of scenarios"
            )
        problems.raise_any()
        arrays, troubles = self._run(
            "loss_gradients", [zetas, shares, omegas, parts], progress, fresh=fresh
        )
        self._settle(
            troubles,
            on_error,
            lambda i: self._search_program(zetas[i], shares[i], omegas[i, 0]),
        )
        return LossGradient(*arrays)

    def _recipe(self, solver: str, options: Mapping[str, Any] | None) -> Recipe:
        if solver == "highs":
            self._compiled = compile_model(self.two_stage)
            return Recipe(solver, check_options(options, basis=True), self._compiled)
        from pyomo_csg.solve.pyomo_solvers.appsi_solvers import SolverKind

        SolverKind(solver, options)  # refuses what is not there
        model = cloudpickle.dumps(self.two_stage.model)
        return Recipe(solver, dict(options or {}), model=model)

    def _check(self, on_error: str, gradient: bool = False) -> None:
        """Refuse, before anything is solved, what can be refused."""
        if not is_one_of(on_error, ("raise", "record")):
            raise DataError(
                "Unknown way with errors",
                [f"on_error is {on_error!r}; give 'raise' or 'record'"],
            )
        if gradient and self._compiled is not None and self._compiled.quadratic:
            raise ModelError(
                f"'{self.two_stage.model.name}' gives no gradient",
                ["its objective is quadratic; gradients are read off a linear basis"],
            )

    def _refuse_pessimism(self) -> None:
        """Refuse a model whose optimal decisions are not a face of a polyhedron."""
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

    def _sets(self, scenarios: Any, weights: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return scenarios (n, K, p) and weights (n, K), checked."""
        if weights is None and self._is_sound(scenarios, 3):
            cases, count, _ = scenarios.shape
            return scenarios.copy(), shared(_equal(count), (cases,))
        problems = Problems(f"The data does not fit '{self.two_stage.model.name}'")
        zetas = problems.check("scenarios", scenario_batch, self.two_stage, scenarios)
        shares = problems.check("weights", weight_batch, weights, zetas)
        problems.raise_any()
        return zetas, shares

    def _pairs(self, scenarios: Any, weights: Any, outcomes: Any) -> tuple:
        """Return scenarios (n, K, p), weights (n, K) and outcomes (n, p), checked."""
        if (
            weights is None
            and self._is_sound(outcomes, 2)
            and self._is_sound(scenarios, 3)
            and len(scenarios) == len(outcomes)
        ):
            return *self._sets(scenarios, None), outcomes.copy()
        problems = Problems(f"The data does not fit '{self.two_stage.model.name}'")
        zetas = problems.check("scenarios", scenario_batch, self.two_stage, scenarios)
        shares = problems.check("weights", weight_batch, weights, zetas)
        omegas = problems.check(
            "outcomes", outcome_batch, self.two_stage, outcomes, zetas
        )
        problems.raise_any()
        return zetas, shares, omegas

    def _is_sound(self, numbers: Any, axes: int) -> bool:
        """Say at little cost of what may be floats (..., p) already if all are good."""
        return (
            type(numbers) is np.ndarray
            and numbers.dtype == np.float64
            and numbers.ndim == axes
            and numbers.shape[-1] == len(self._low)
            and numbers.size > 0
            and bool(((numbers > self._low) & (numbers < self._high)).all())
        )

    def _run(
        self, method: str, arrays: list[np.ndarray], progress: bool, **constants: Any
    ) -> Any:
        start = time.perf_counter()
        try:
            return self._batch.run(method, arrays, progress, **constants)
        finally:
            self._batch.count_seconds(time.perf_counter() - start)

    def _settle(
        self, troubles: dict[int, Any], on_error: str, program: Callable[[int], Any]
    ) -> None:
        """Raise the first trouble, or keep all."""
        # Not read again: another thread's batch may put its own in their place.
        self.failures = failures = [
            SolveError(i, trouble.status, trouble.detail, partial(program, i))
            for i, trouble in sorted(troubles.items())
        ]
        if failures and on_error == "raise":
            raise failures[0]

    def _audit(
        self, losses: np.ndarray, unique: np.ndarray, pairs: list[np.ndarray]
    ) -> None:
        """Compare with l_opt where no certificate says that it is the same."""
        solved = ~np.isnan(losses)
        cases = np.flatnonzero(solved & ~unique)[:_AUDITED]
        worst = 0.0
        if len(cases):
            arrays = [array[cases] for array in pairs]
            (exact, _), _ = self._run("losses", arrays, False, kind="optimistic")
            apart = (losses[cases] - exact) / np.maximum(1, np.abs(exact))
            worst = float(np.nanmax(apart, initial=0.0))
        self.audit = Audit(int((solved & unique).sum()), len(cases), worst)

    def _saa_program(self, zetas: np.ndarray, shares: np.ndarray) -> Any:
        return self._transformed("extensive_form", scenarios=zetas, weights=shares)

    def _search_program(
        self, zetas: np.ndarray, shares: np.ndarray, omega: np.ndarray
    ) -> Any:
        """The search, or zeta-SAA itself where that has no optimum."""
        (_, values, *_), troubles = self._run(
            "solve", [zetas[None], shares[None]], False, gradient=False
        )
        if troubles:
            return self._saa_program(zetas, shares)
        value = self._sense * values[0]
        return self._transformed(
            "opt_search",
            scenarios=zetas,
            weights=shares,
            outcome=omega,
            optimal_value=value,
        )

    def _recourse_program(self, y: np.ndarray, omega: np.ndarray) -> Any:
        return self._transformed("recourse", decision=y, outcome=omega)

    def _transformed(self, name: str, **options: Any) -> Any:
        return TransformationFactory(f"csg.{name}").create_using(
            self.two_stage.model, **options
        )


def _unpickled(
    kind: type[Oracle],
    model: bytes,
    settings: tuple[Any, ...],
    rehearsal: tuple[np.ndarray, np.ndarray] | None,
) -> Oracle:
    return kind(cloudpickle.loads(model), *settings)._rehearsed(rehearsal)


def _problems(solver: Any, executor: Any, workers: Any, options: Any) -> list[str]:
    """Say what is wrong with what programs are to be solved by."""
    problems = whole_problems(workers=workers)
    if not isinstance(solver, str):
        problems.append(
            f"solver is {solver!r:.80}; give 'highs', or 'appsi_gurobi', ..."
        )
    if executor is not None and not _is_executor(executor):
        problems.append(
            f"executor is a {type(executor).__name__}; give an Executor as those of "
            "concurrent.futures"
        )
    if not isinstance(options, Mapping | None):
        problems.append(
            f"options is a {type(options).__name__}; give a mapping from option to value"
        )
    return problems


def _is_executor(executor: Any) -> bool:
    return callable(getattr(executor, "submit", None)) and not isinstance(
        executor, type
    )


@lru_cache
def _equal(count: int) -> np.ndarray:
    """Return equal weights (count,)."""
    return np.full(count, 1 / count)


def _named(keys: Any, zetas: np.ndarray) -> list[np.ndarray]:
    """Return the names of cases (n,), if there are any, or raise a DataError."""
    if keys is None:
        return []
    try:
        names = np.asarray(keys)
    except ValueError:
        names = np.asarray(keys, dtype=object)
    if names.shape != (len(zetas),) or names.dtype.kind not in "iu":
        found = (
            f"keys: an array of shape {names.shape} and type {names.dtype} was given; "
            f"expected a whole number for each of {len(zetas)} cases"
        )
        raise DataError("The keys do not fit the cases", [found])
    return [names]
