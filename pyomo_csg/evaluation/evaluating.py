"""csg.evaluate: policies on the same cases, beside the best that could be done."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import pandas as pd
from pyomo.core.base.block import BlockData

from pyomo_csg.evaluation.cache import Cache, Full
from pyomo_csg.evaluation.case import Case
from pyomo_csg.evaluation.checking import checked, model_of, refuse_options
from pyomo_csg.evaluation.evaluation import Evaluation
from pyomo_csg.evaluation.full_program import full_programs
from pyomo_csg.evaluation.judging import judged
from pyomo_csg.evaluation.reference import FULL_PROGRAM, GIVEN, best_known
from pyomo_csg.evaluation.remarks import warnings_of
from pyomo_csg.solve import Oracle

logger = logging.getLogger(__name__)


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
        known, source = [Full() for _ in sound], ""
    elif values is not None:
        known, source = [Full(float(value)) for value in values], GIVEN
    else:
        settings = {"solver": solver, "options": dict(options or {})}
        kept = Cache(cache, judge.two_stage, settings)
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
    known: Sequence[Full], source: str, cases: Sequence[Case], trial: Any
) -> pd.DataFrame:
    """Return what costs are compared with, by trial and case."""
    keys = pd.MultiIndex.from_product(
        [[trial], range(len(cases))], names=["trial", "case"]
    )
    columns = ("value", "bound", "seconds", "status")
    parts = {name: [getattr(full, name) for full in known] for name in columns}
    digests = [case.digest() for case in cases]
    return pd.DataFrame(parts, index=keys).assign(source=source, digest=digests)
