"""csg.evaluate: run policies on the same cases, and measure the costs of their decisions."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pyomo.core.base.block import BlockData

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.decisions.extrapolation import one_warning
from pyomo_csg.errors import DataError, SolveError
from pyomo_csg.evaluation.cases import (
    FULL,
    Case,
    are_rows,
    cases_of_rows,
    check_options,
    read_cases,
    select_model,
)
from pyomo_csg.evaluation.evaluation import Evaluation
from pyomo_csg.evaluation.reference import (
    FULL_PROGRAM,
    USER_VALUES,
    FullProgram,
    ProgramCache,
    expected_cost,
    improve_reference,
    reference_table,
    solve_full_programs,
)
from pyomo_csg.evaluation.tables import low_cost_warnings
from pyomo_csg.progress_bars import progress_bar
from pyomo_csg.solve import Oracle
from pyomo_csg.stages.inputs import decision_vector
from pyomo_csg.stages.model_checks import check_feasible

logger = logging.getLogger(__name__)


def evaluate(
    policies: Mapping[str, Any],
    cases: Any,
    *,
    reference: Any = "auto",
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
    """Evaluate policies on the same cases by the costs of their decisions.

    Parameters
    ----------
    policies : mapping from name to policy
        Objects with ``decide(context)``, which returns a :class:`pyomo_csg.Decision` or
        another mapping from names of first-stage variables to values.
    cases : list of Case, (contexts, outcomes) or DataFrame
        Contexts, each with its conditional distribution. Or held-out rows, as in
        :func:`pyomo_csg.fit`: each is a case with its observed outcome.
    reference : 'auto', '2sp', array (n,) or None
        What to compare costs with: the full program on each case's distribution; given
        values, lower being better; or nothing. ``'auto'`` is ``'2sp'`` for cases and None
        for rows, where ``'2sp'`` would mean that the outcome is known in advance.
    model : ConcreteModel, optional
        The annotated model that decisions are evaluated with. Default: that of the first
        policy.
    solver : str
        As in :class:`pyomo_csg.Oracle`; for costs and for the full programs.
    options : mapping, optional
        Solver options for the full programs only: ``{'mip_rel_gap': 1e-3}``. Costs of
        decisions are always exact.
    tolerance : float
        A warning is logged for costs that are lower than a given reference or a proven
        bound by more than this, relatively.
    cache : path, optional
        A folder for solved full programs. Those found there are not solved again, so an
        interrupted run can continue.
    workers, executor
        As in :class:`pyomo_csg.Oracle`. Policies decide one case at a time regardless.
    trial : int or str
        A name for these cases, for :meth:`Evaluation.join`.
    progress : bool
        Whether to show progress bars.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
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

    Held-out rows of a history:

    >>> on_rows = csg.evaluate(policies, newsvendor.sample(20, seed=3))
    >>> on_rows.costs.shape, list(on_rows.differences(to="K=5"))
    ((20, 2), ['mean', 'standard_error'])
    """
    check_options(tolerance, trial)
    exact = Oracle(select_model(policies, model), solver, executor, workers)
    full = Oracle(exact.two_stage.model, solver, executor, workers, options)
    if has_rows := are_rows(cases):
        cases = cases_of_rows(exact.two_stage, cases)
    if isinstance(reference, str) and reference == "auto":
        reference = None if has_rows else FULL
    read, values = read_cases(exact.two_stage, policies, cases, reference)
    records = run_policies(policies, read, exact, trial, progress)
    if reference is None:
        programs, source = [FullProgram() for _ in read], ""
    elif values is not None:
        programs, source = [FullProgram(float(value)) for value in values], USER_VALUES
    else:
        settings = {"solver": solver, "options": dict(options or {})}
        programs = solve_full_programs(
            full,
            exact,
            read,
            ProgramCache(cache, exact.two_stage, settings),
            workers,
            progress,
        )
        source = FULL_PROGRAM
    table = reference_table(programs, source, read, trial)
    if source == FULL_PROGRAM:
        table = improve_reference(table, records)
    evaluation = Evaluation(records, table, int(exact.two_stage.sense) < 0)
    for warning in low_cost_warnings(evaluation, tolerance):
        logger.warning("%s", warning)
    return evaluation


@dataclass(frozen=True)
class Record:
    """The result of one policy in one case; times are NaN if the policy has no oracle."""

    cost: float = np.nan  # expected, of the decision; NaN if there is none
    seconds: float = np.nan  # to decide
    solve_seconds: float = np.nan  # of these, in the policy's oracle
    solver_seconds: float = np.nan  # of these, in the solver
    failure: str = ""  # why there is no cost


def run_policies(
    policies: Mapping[str, Any],
    cases: Sequence[Case],
    exact: Oracle,
    trial: Any,
    progress: bool,
) -> pd.DataFrame:
    """Return the records of all policies in all cases, by trial, case and policy."""
    rows: dict[tuple[Any, int, str], Record] = {}
    total = len(policies) * len(cases)
    with progress_bar("decisions", total, "decisions", progress) as bar:
        for name, policy in policies.items():
            with one_warning(name, len(cases)):
                for i, case in enumerate(cases):
                    rows[trial, i, name] = _run_policy(policy, case, i, exact)
                    bar.update()
            _warn_failures(name, [rows[trial, i, name] for i in range(len(cases))])
    keys = pd.MultiIndex.from_tuples(rows, names=["trial", "case", "policy"])
    return pd.DataFrame([asdict(row) for row in rows.values()], index=keys)


def _run_policy(policy: Any, case: Case, number: int, exact: Oracle) -> Record:
    try:
        decision, record = _timed_decision(policy, case)
    except SolveError as error:
        return Record(failure=error.status)
    if isinstance(decision, pd.DataFrame):
        found = f"cases[{number}].context: it is read as several contexts; give one"
        raise DataError("Cannot evaluate", [found])
    try:
        plain = exact.two_stage.plain
        vector = decision_vector(plain, decision)
        check_feasible(plain, vector.tolist(), case.numbers[0].tolist())
    except DataError as error:
        return replace(record, failure="; ".join(error.problems))
    cost = expected_cost(exact, vector, case)
    if np.isnan(cost):
        failures = exact.plain.failures
        found = f"{len(failures)} of {len(case.outcomes)} outcomes"
        return replace(record, failure=f"no recourse in {found}: {failures[0].status}")
    return replace(record, cost=cost)


def _timed_decision(policy: Any, case: Case) -> tuple[Any, Record]:
    """Return a decision, and a record of the time it took, without a cost."""
    oracle = getattr(policy, "oracle", None)
    before = None if oracle is None else replace(oracle.stats)
    start = time.perf_counter()
    if isinstance(policy, Decider) and case.numbers.size:
        decision = policy.decide(case.context, known=case.numbers)
    else:
        decision = policy.decide(case.context)
    seconds = time.perf_counter() - start
    if oracle is None or before is None:
        return decision, Record(seconds=seconds)
    in_solver = oracle.stats.solver_seconds - before.solver_seconds
    in_oracle = oracle.stats.total_seconds - before.total_seconds
    return decision, Record(np.nan, seconds, in_oracle, in_solver)


def _warn_failures(name: str, rows: list[Record]) -> None:
    failed = [i for i, row in enumerate(rows) if row.failure]
    if failed:
        logger.warning(
            "policy '%s' has no cost in %d of %d cases; the first is case %d: %s",
            name,
            len(failed),
            len(rows),
            failed[0],
            rows[failed[0]].failure,
        )
