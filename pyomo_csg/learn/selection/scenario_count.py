"""The number of scenarios by the decisions of reduced distributions, without training."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pyomo_csg.learn.candidates.fits import Candidate
from pyomo_csg.learn.candidates.fold_distributions import FoldDistributions
from pyomo_csg.learn.candidates.untrained import untrained_candidates
from pyomo_csg.learn.progress import TimeUpError
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

_TIMED = 5  # decisions


def choose_count_untrained(
    task: Task, counts: Sequence[int], plan_for: Callable[[Task], Plan]
) -> tuple[int, list[dict[str, Any]]]:
    """Return the smallest K within one standard error of the best, and what was tried.

    For each K, the best distribution reduced to K scenarios decides on held-out rows. No
    larger K is tried once a decision takes longer than ``config.seconds``.
    """
    plan = plan_for(task)
    folds = make_folds(task, plan.folds)
    distributions = FoldDistributions(task, folds, plan.kinds)
    tried: list[int] = []
    costs: list[np.ndarray] = []
    with suppress(TimeUpError):
        for count in counts:
            one = task.with_scenarios(count)
            one.checkpoint = task.checkpoint.within(f"K={count}")
            board = Scoreboard(one, folds, plan.scored_rows)
            for candidate in untrained_candidates(one, distributions):
                board.add(candidate)
            best, _ = board.select()
            if costs and _is_slow(one, best):
                logger.info("a decision with K = %d takes too long", count)
                break
            tried.append(count)
            costs.append(board.costs(best.name))
            if len(costs) == 1 and _is_slow(one, best):
                logger.warning(
                    "even a decision with K = %d takes more than %g s",
                    count,
                    task.config.seconds,
                )
                break
    if not costs:
        return counts[0], []
    filled = fill_unsolved(np.stack(costs))
    apart = paired_difference(filled, filled[int(np.argmin(filled.mean(axis=1)))])
    chosen = int(np.flatnonzero(apart.mean <= apart.standard_error)[0])
    rows = [
        {
            "K": tried[i],
            "loss": float(filled[i].mean()),
            "standard_error": float(apart.standard_error[i]),
        }
        for i in range(len(tried))
    ]
    return tried[chosen], rows


def _is_slow(task: Task, candidate: Candidate) -> bool:
    """Whether the median decision takes longer than ``config.seconds``."""
    limit = task.config.seconds
    if limit is None:
        return False
    times = []
    for row in range(min(_TIMED, len(task.history))):
        start = time.perf_counter()
        decide_on_rows(task, candidate.fits[-1], np.array([row]))
        times.append(time.perf_counter() - start)
    return float(np.median(times)) > limit
