"""What a policy's decisions cost, and how long they take, one case at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from pyomo_csg.errors import DataError, SolveError
from pyomo_csg.evaluation.case import Case
from pyomo_csg.solve import Oracle
from pyomo_csg.stages.arrays import decision_vector
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
