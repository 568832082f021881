"""Decisions on all outcomes of a conditional distribution: ``scenarios='all'``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from pyomo_csg.learn.candidates.fold_distributions import FoldDistributions
from pyomo_csg.learn.candidates.untrained import reduced_name, task_frame
from pyomo_csg.learn.fit_result import MethodResult
from pyomo_csg.learn.generators.distribution_generators import FullGenerator
from pyomo_csg.learn.progress import TimeUpError, clock
from pyomo_csg.learn.selection.fits import Candidate, GeneratorFit
from pyomo_csg.learn.selection.folds import make_folds
from pyomo_csg.learn.selection.plan import Plan
from pyomo_csg.learn.selection.scoring import (
    Scoreboard,
    decide_on_rows,
    paired_difference,
)
from pyomo_csg.learn.task import Task
from pyomo_csg.validation import DEFAULT_SECONDS

_KINDS = ("empirical", "neighbors", "forest weights", "ridge", "forest", "stacked")
_FOLDS, _MOST_ROWS, _LEAST_ROWS, _MOST_COMPARED = 3, 200, 8, 60
_SHARE, _REPORT_SHARE = 0.6, 0.05  # of the time budget
_REPORT_SHARE_OF_FIT = 0.15  # of the time that the fit took
_REPORT_SECONDS = 5.0  # are always acceptable


def learn_full(task: Task, seconds: float) -> MethodResult:
    """Return the conditional distribution whose decisions on all outcomes cost least.

    If even a few held-out rows take too long, the mixture is returned without a comparison.
    """
    folds = make_folds(task, task.config.folds or _FOLDS)
    kinds = (*_KINDS, "mixture") if task.distribution is None else ()
    distributions = FoldDistributions(task, folds, kinds)
    candidates = list(_candidates(task, distributions))
    budget = _SHARE * min(DEFAULT_SECONDS, seconds)
    each = _seconds_each(task, candidates[-1])
    rows = int(min(_MOST_ROWS, budget / each / len(candidates)))
    board = Scoreboard(task, folds, max(1, rows))
    with suppress(TimeUpError):
        for candidate in candidates if rows >= _LEAST_ROWS else ():
            board.add(candidate)
    if not board.candidates:
        board = Scoreboard(task, folds, 1)
        board.keep(candidates[-1])
    winner, selection = board.select()
    return MethodResult(
        winner.fits[-1].generator(task),
        selection,
        lambda: board.costs(winner.name),
        scored_costs=board.observed_costs(winner.name),
    )


def _candidates(task: Task, distributions: FoldDistributions) -> Iterator[Candidate]:
    frame = task_frame(task)
    for name in distributions.names:
        found = [fold[name] for fold in distributions.by_fold]
        fits = [GeneratorFit(FullGenerator(one, frame)) for one in found]
        yield Candidate(reduced_name(found[0]), fits)


def compare_with_all_outcomes(
    task: Task,
    distributions: FoldDistributions,
    board: Scoreboard,
    chosen: str,
    plan: Plan,
) -> dict[str, Any] | None:
    """Return what deciding on all outcomes would cost instead, on some scored rows.

    It is measured for the distribution whose reduction decides best, on the rows that fit
    into a share of the time. Return None if these are too few.
    """
    frame, means = task_frame(task), board.means
    names = distributions.names
    first = distributions.by_fold[0]
    name = min(names, key=lambda one: means.get(reduced_name(first[one]), np.inf))
    fits = [
        GeneratorFit(FullGenerator(fold[name], frame)) for fold in distributions.by_fold
    ]
    candidate = Candidate(f"all outcomes of {name}", fits)
    budget = _REPORT_SHARE * (DEFAULT_SECONDS if plan.seconds is None else plan.seconds)
    taken = clock() - task.log.start
    budget = min(budget, max(_REPORT_SECONDS, _REPORT_SHARE_OF_FIT * taken))
    # Programs grow at least as fast as their scenarios.
    each = max(plan.program_seconds, 1e-4) * len(task.history) / plan.scenarios
    if budget < _LEAST_ROWS * each:
        return None
    found: list[tuple[int, float]] = []
    with task.log.stage("compare with all outcomes", _MOST_COMPARED) as bar:
        end = clock() + budget
        for place_and_cost in board.costs_on_some(candidate, _MOST_COMPARED):
            found.append(place_and_cost)
            bar.step()
            if clock() > end:
                break
    if len(found) < _LEAST_ROWS:
        return None
    places, costs = map(np.array, zip(*sorted(found), strict=True))
    apart = paired_difference(costs, board.costs(chosen)[places])
    if np.isnan(apart.mean):
        return None
    return {
        "distribution": name,
        "rows": len(costs),
        "cost": float(apart.mean),
        "standard_error": float(apart.standard_error),
    }


def _seconds_each(task: Task, candidate: Candidate) -> float:
    """Return the time of one decision by a candidate."""
    start = time.perf_counter()
    decide_on_rows(task, candidate.fits[-1], np.zeros(1, dtype=int))
    return time.perf_counter() - start
