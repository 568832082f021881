"""csg.evaluate: policies on the same cases, beside the best that could be done."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pyomo.core.base.block import BlockData
from tqdm.auto import tqdm

from pyomo_csg.errors import DataError, SolveError
from pyomo_csg.evaluation.cases import Case, checked, model_of, refuse_options
from pyomo_csg.evaluation.evaluation import Evaluation
from pyomo_csg.evaluation.program_cache import FullProgram, ProgramCache
from pyomo_csg.evaluation.references import FULL_PROGRAM, GIVEN, best_known
from pyomo_csg.evaluation.tables import warnings_of
from pyomo_csg.solve import Oracle, Solution
from pyomo_csg.stages.inputs import decision_vector
from pyomo_csg.transform.recourse import refuse_infeasible

logger = logging.getLogger(__name__)

_QUIET_SECONDS = 2.0


@dataclass(frozen=True)
class Judged:
    """What a policy did in one case.

    Attributes
    ----------
    cost : float
        Of its decision, in the mean over the case's outcomes; NaN if it has none.
    seconds : float
        To decide.
    solve_seconds, solver_seconds : float
        Of these in the policy's oracle, and of those inside the solver; NaN if the
        policy has no oracle.
    failure : str
        Why there is no cost; empty if there is one.
    """

    cost: float = np.nan
    seconds: float = np.nan
    solve_seconds: float = np.nan
    solver_seconds: float = np.nan
    failure: str = ""


def judged(
    policies: Mapping[str, Any],
    cases: Sequence[Case],
    judge: Oracle,
    trial: Any,
    progress: bool,
) -> pd.DataFrame:
    """Return what every policy did in every case, by trial, case and policy.

    Parameters
    ----------
    judge : Oracle
        An exact one, which charges the decisions.
    """
    rows = {}
    with tqdm(
        total=len(policies) * len(cases),
        desc="decisions",
        delay=_QUIET_SECONDS,
        disable=not progress,
    ) as bar:
        for name, policy in policies.items():
            for i, case in enumerate(cases):
                rows[trial, i, name] = asdict(_judged(policy, case, i, judge))
                bar.update()
            _tell_failures(name, [rows[trial, i, name] for i in range(len(cases))])
    keys = pd.MultiIndex.from_tuples(rows, names=["trial", "case", "policy"])
    return pd.DataFrame(list(rows.values()), index=keys)


def cost_of(judge: Oracle, decision: np.ndarray, case: Case) -> float:
    """Return what a decision (s,) costs in the mean; NaN if some outcome has no recourse."""
    costs = judge.cost(decision, case.outcomes, on_error="record", progress=False)
    return float(case.weights @ costs)


def _judged(policy: Any, case: Case, number: int, judge: Oracle) -> Judged:
    try:
        decision, times = _timed(policy, case.context)
    except SolveError as error:
        return Judged(failure=error.status)
    if isinstance(decision, pd.DataFrame):
        found = f"cases[{number}].context: it is taken as many contexts; give one"
        raise DataError("Cannot evaluate", [found])
    try:
        vector = decision_vector(judge.two_stage, decision)
        refuse_infeasible(judge.two_stage, vector.tolist())
    except DataError as error:
        return replace(times, failure="; ".join(error.problems))
    cost = cost_of(judge, vector, case)
    if np.isnan(cost):
        failures = judge.failures
        found = f"{len(failures)} of {len(case.outcomes)} outcomes"
        reason = f"no recourse in {found}: {failures[0].status}"
        return replace(times, failure=reason)
    return replace(times, cost=cost)


def _timed(policy: Any, context: Any) -> tuple[Any, Judged]:
    """Return a decision, and the time it took as a judgement without a cost."""
    oracle = getattr(policy, "oracle", None)
    before = None if oracle is None else replace(oracle.stats)
    start = time.perf_counter()
    decision = policy.decide(context)
    seconds = time.perf_counter() - start
    if oracle is None or before is None:
        return decision, Judged(seconds=seconds)
    after = oracle.stats
    inside = after.solver_seconds - before.solver_seconds
    total = after.total_seconds - before.total_seconds
    return decision, Judged(np.nan, seconds, total, inside)


def _tell_failures(name: str, rows: list[dict[str, Any]]) -> None:
    failed = [i for i, row in enumerate(rows) if row["failure"]]
    if failed:
        logger.warning(
            "policy '%s' has no cost in %d of %d cases; the first is case %d: %s",
            name,
            len(failed),
            len(rows),
            failed[0],
            rows[failed[0]]["failure"],
        )


def full_programs(
    oracle: Oracle,
    judge: Oracle,
    cases: Sequence[Case],
    cache: ProgramCache,
    workers: int,
    progress: bool,
) -> list[FullProgram]:
    """Return the full program of each case, solved or known already.

    Parameters
    ----------
    oracle : Oracle
        What solves them; one after the other, each from what the last one left.
    judge : Oracle
        An exact one, which charges their decisions as it does those of policies.
    workers : int
        How many to solve at once.
    """
    known = {i: full for i, case in enumerate(cases) if (full := cache.read(case))}
    missing = [i for i in range(len(cases)) if i not in known]
    with tqdm(
        total=len(missing),
        desc="full programs",
        delay=_QUIET_SECONDS,
        disable=not progress,
    ) as bar:
        for i, found in _each(lambda i: _solved(oracle, cases[i]), missing, workers):
            known[i] = _charged(judge, cases[i], *found)
            cache.write(cases[i], known[i])
            bar.update()
    return [known[i] for i in range(len(cases))]


def _solved(oracle: Oracle, case: Case) -> tuple[Solution, float]:
    start = time.perf_counter()
    solution = oracle.solve(
        case.outcomes, case.weights, on_error="record", progress=False
    )
    return solution, time.perf_counter() - start


def _charged(
    judge: Oracle, case: Case, solution: Solution, seconds: float
) -> FullProgram:
    sense = int(judge.two_stage.sense)
    value = sense * solution.value
    if np.isfinite(solution.decision).all():
        # As policies are charged, so that the same decision has no gap at all.
        cost = cost_of(judge, solution.decision, case)
        value = value if np.isnan(cost) else cost
    bound, decision = sense * solution.bound, solution.decision.tolist()
    return FullProgram(value, bound, seconds, str(solution.status), decision)


def _each(
    function: Callable[[int], Any], numbers: Sequence[int], workers: int
) -> Iterator[tuple[int, Any]]:
    """Yield what a function makes of each number, as it comes."""
    if workers == 1:
        yield from ((i, function(i)) for i in numbers)
        return
    # Threads of ours wait for the oracle's workers; without an executor they are those.
    pool = ThreadPoolExecutor(workers)
    try:
        futures = {pool.submit(function, i): i for i in numbers}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def evaluate(
    policies: Mapping[str, Any],
    cases: Sequence[Case],
    *,
    reference: Any = "2sp",
    model: BlockData | None = None,
    solver: str = "highs",
    options: Mapping[str, Any] | None = None,
    tolerance: float = 1e-6,
    cache: str | os.PathLike[str] | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    trial: Any = 0,
    progress: bool = True,
) -> Evaluation:
    """Judge policies by what their decisions cost, all on the same cases.

    Parameters
    ----------
    policies : mapping from name to policy
        Whatever has ``decide(context)``, which returns a :class:`pyomo_csg.Decision` or
        another mapping from first-stage variables' names to values.
    cases : list of Case
        Contexts, each with its distribution of outcomes.
    reference : '2sp', array (n,) or None
        What to compare costs with: the full program on each case's own distribution; the
        values that are given, lower being better; or nothing.
    model : ConcreteModel, optional
        Annotated; what decisions are charged by. Default: that of the first policy.
    solver : str
        As in :class:`pyomo_csg.Oracle`; for costs and for the full programs.
    options : mapping, optional
        Of the solver, for the full programs alone: ``{'mip_rel_gap': 1e-3}``. What a
        decision costs is always computed exactly.
    tolerance : float
        A cost that is lower than a reference that was given, or than what is proven, by
        more than this, relatively, is told in the log.
    cache : path, optional
        A folder for full programs. What is there is not solved again, so that a run that
        was killed goes on.
    workers, executor
        As in :class:`pyomo_csg.Oracle`. Policies decide one case at a time, however many
        workers there are.
    trial : int or str
        A name for these cases, where evaluations are joined.
    progress : bool
        Whether to draw bars.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> pairs = newsvendor.sample(60, seed=1)
    >>> policies = {
    ...     f"K={count}": csg.fit(
    ...         newsvendor.build(), pairs, scenarios=count, method="mmd", progress=False
    ...     )
    ...     for count in (1, 5)
    ... }
    >>> contexts, _ = newsvendor.sample(4, seed=2)
    >>> cases = [csg.Case(x, *newsvendor.conditional(x)) for x in contexts]
    >>> evaluation = csg.evaluate(policies, cases)
    >>> evaluation.gaps.shape
    (4, 2)
    >>> bool(evaluation.median()["K=5"] < evaluation.median()["K=1"])
    True
    """
    refuse_options(tolerance, trial)
    judge = Oracle(model_of(policies, model), solver, executor, workers)
    full = Oracle(judge.two_stage.model, solver, executor, workers, options)
    sound, values = checked(judge.two_stage, policies, cases, reference)
    records = judged(policies, sound, judge, trial, progress)
    if reference is None:
        known, source = [FullProgram() for _ in sound], ""
    elif values is not None:
        known, source = [FullProgram(float(value)) for value in values], GIVEN
    else:
        settings = {"solver": solver, "options": dict(options or {})}
        kept = ProgramCache(cache, judge.two_stage, settings)
        known = full_programs(full, judge, sound, kept, workers, progress)
        source = FULL_PROGRAM
    table = _table(known, source, sound, trial)
    if source == FULL_PROGRAM:
        table = best_known(table, records)
    evaluation = Evaluation(records, table)
    for warning in warnings_of(evaluation, tolerance):
        logger.warning("%s", warning)
    return evaluation


def _table(
    known: Sequence[FullProgram], source: str, cases: Sequence[Case], trial: Any
) -> pd.DataFrame:
    """Return what costs are compared with, by trial and case."""
    keys = pd.MultiIndex.from_product(
        [[trial], range(len(cases))], names=["trial", "case"]
    )
    columns = ("value", "bound", "seconds", "status")
    parts = {name: [getattr(full, name) for full in known] for name in columns}
    digests = [case.digest() for case in cases]
    return pd.DataFrame(parts, index=keys).assign(source=source, digest=digests)
