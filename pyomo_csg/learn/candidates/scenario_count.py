"""The number of scenarios: the smallest whose decisions cost about as little as the best."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pyomo_csg.learn.candidates.fold_distributions import FoldDistributions
from pyomo_csg.learn.candidates.untrained import untrained_candidates
from pyomo_csg.learn.fit_result import MethodResult
from pyomo_csg.learn.progress import TimeUpError, TrainingLog
from pyomo_csg.learn.selection.fits import Candidate
from pyomo_csg.learn.selection.folds import make_folds
from pyomo_csg.learn.selection.plan import Plan
from pyomo_csg.learn.selection.scoring import (
    Scoreboard,
    decide_on_rows,
    fill_unsolved,
    paired_difference,
)
from pyomo_csg.learn.task import Task

logger = logging.getLogger(__name__)

COUNTS = (1, 2, 3, 5, 10, 20, 40)  # numbers of scenarios that scenarios='auto' tries
_TIMED, _TIMED_ROWS = 10, 5  # decisions


def choose_count_untrained(
    task: Task, counts: Sequence[int], plan_for: Callable[[Task], Plan]
) -> tuple[int, list[dict[str, Any]]]:
    """Return the smallest K within one standard error of the best, and what was tried.

    For each K, the best distribution reduced to K scenarios decides on held-out rows. No
    larger K is tried once a decision takes longer than ``config.seconds``.
    """
    plan, seconds = plan_for(task), task.config.seconds
    folds = make_folds(task, plan.folds)
    distributions = FoldDistributions(task, folds, plan.kinds)
    costs: list[np.ndarray] = []
    with suppress(TimeUpError):
        for count in counts:
            one = task.with_scenarios(count)
            one.checkpoint = task.checkpoint.within(f"K={count}")
            board = Scoreboard(one, folds, plan.scored_rows)
            for candidate in untrained_candidates(one, distributions):
                board.add(candidate)
            best, _ = board.select()
            is_first, mine = not costs, board.costs(best.name)
            if is_first:
                costs.append(mine)  # before the time may be up
            if seconds is not None and _row_seconds(one, best) > seconds:
                _log_slow(count, seconds, is_first)
                break
            if not is_first:
                costs.append(mine)
    if not costs:
        return counts[0], []
    chosen, tried = _smallest(counts, costs)
    return counts[chosen], tried


def smallest_scenario_count(
    counts: Sequence[int],
    seconds: float | None,
    log: TrainingLog,
    fit: Callable[[int], MethodResult],
    decide: Callable[[MethodResult], Any],
) -> MethodResult:
    """Return the fit with the smallest K within one standard error of the best.

    ``counts`` are in rising order; larger ones are not tried once ``decide`` takes longer
    than ``seconds``. A fit that the time budget cut short counts only if it is the first.
    """
    fits: list[MethodResult] = []
    costs: list[np.ndarray] = []
    for count in counts:
        found = fit(count)
        if log.stopped_in is not None and fits:
            break
        slow = seconds is not None and _seconds(decide, [found] * _TIMED) > seconds
        if slow:
            _log_slow(count, seconds, is_first=not fits)
            if fits:
                break
        try:
            costs.append(found.costs())
        except TimeUpError:
            if fits:
                break
            return found
        fits.append(found)
        if slow or log.stopped_in is not None:
            break
    chosen, tried = _smallest(counts, costs)
    fits[chosen].selection.scenarios_tried = tried
    return fits[chosen]


def _smallest(
    counts: Sequence[int], costs: Sequence[np.ndarray]
) -> tuple[int, list[dict[str, Any]]]:
    """Return the first place within one standard error of the best, and all in JSON types."""
    filled = fill_unsolved(np.stack(costs))
    apart = paired_difference(filled, filled[int(np.argmin(filled.mean(axis=1)))])
    chosen = int(np.flatnonzero(apart.mean <= apart.standard_error)[0])
    return chosen, [
        {"K": count, "loss": float(mine.mean()), "standard_error": float(error)}
        for count, mine, error in zip(
            counts, filled, apart.standard_error, strict=False
        )
    ]


def _row_seconds(task: Task, candidate: Candidate) -> float:
    """Return the median time of a candidate's decision."""
    rows = np.arange(min(_TIMED_ROWS, len(task.history)))
    return _seconds(
        lambda row: decide_on_rows(task, candidate.fits[-1], row), rows[:, None]
    )


def _seconds(decide: Callable[[Any], Any], cases: Sequence[Any] | np.ndarray) -> float:
    """Return the median time of a decision."""
    times = []
    for case in cases:
        start = time.perf_counter()
        decide(case)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _log_slow(count: int, seconds: float | None, is_first: bool) -> None:
    """Log that decisions take too long; a warning if no smaller K was tried."""
    level, even = (logging.WARNING, "even ") if is_first else (logging.INFO, "")
    text = "%sa decision with K = %d takes more than %g s"
    logger.log(level, text, even, count, seconds)
