"""``'auto'``: fit candidates, the cheap ones first, and choose the best decisions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from pyomo_csg.learn.candidates.candidate_list import Candidates
from pyomo_csg.learn.candidates.fits import Candidate, NetworkFit
from pyomo_csg.learn.candidates.untrained import sample_average
from pyomo_csg.learn.distributions.samplers import evenly_spaced
from pyomo_csg.learn.fit_result import MethodResult
from pyomo_csg.learn.methods.surrogate_diagnostics import loss_net_trust
from pyomo_csg.learn.progress import TimeUpError
from pyomo_csg.learn.selection.folds import make_folds
from pyomo_csg.learn.selection.full_distribution import compare_with_all_outcomes
from pyomo_csg.learn.selection.plan import Plan
from pyomo_csg.learn.selection.scoring import (
    Scoreboard,
    compare_candidates,
    observed_costs,
)
from pyomo_csg.learn.task import Task

_FOLD_NETWORK = (
    "The network trained on all rows decides clearly worse on them than the network of "
    "a fold, which is used in its place."
)
_ALL_ROWS = -1  # the last fold


def learn_auto(
    task: Task, plan: Plan, kind: Any, head: Any = None, chooses_network: bool = True
) -> MethodResult:
    """Return the best candidate, fitted to all rows.

    Every candidate is scored as soon as it is fitted. When the time is up, or the user
    interrupts the fit, the best one so far is at hand. If there is none when the time is
    up, the sample average needs none.
    """
    folds = make_folds(task, plan.folds)
    candidates = Candidates(task, folds, plan, kind, head)
    candidates.board = board = Scoreboard(task, folds, plan.scored_rows)
    try:
        with suppress(TimeUpError):
            board.samplers = candidates.scoring_samplers()
            for candidate in candidates.each(chooses_network):
                board.add(candidate)
    except KeyboardInterrupt as error:
        if board.has_candidate:
            error.best = _result(task, plan, board)  # type: ignore[attr-defined]
        raise
    if not board.has_candidate:
        board.keep(sample_average(task))
    return _result(task, plan, board, candidates)


def _result(
    task: Task, plan: Plan, board: Scoreboard, candidates: Candidates | None = None
) -> MethodResult:
    """Return the best candidate so far; ``candidates`` are there if all were fitted."""
    winner, selection = board.select(None if candidates is None else candidates.trusted)
    selection.plan = plan.summary()
    fold = _ALL_ROWS
    with suppress(TimeUpError, KeyboardInterrupt):
        task.log.check_time()
        final = winner.fits[-1]
        if isinstance(final, NetworkFit) and final.loss_net_fit is not None:
            trust = loss_net_trust(task, final.loss_net_fit, final.head, plan.loss_kind)
            selection.trust, selection.notes = trust.get("trust"), trust.get("notes")
        fold = choose_fold(task, winner, plan.scored_rows)
    if fold != _ALL_ROWS:
        selection.notes = [*(selection.notes or ()), _FOLD_NETWORK]
    if candidates is not None and candidates.has_distributions and board.candidates:
        with suppress(TimeUpError, KeyboardInterrupt):
            selection.all_outcomes = compare_with_all_outcomes(
                task, candidates.distributions, board, winner.name, plan
            )
    return MethodResult(
        winner.fits[fold].generator(task),
        selection,
        lambda: board.costs(winner.name),
    )


def choose_fold(task: Task, winner: Candidate, most: int) -> int:
    """Return the fold with the network to use: the last one, trained on all rows.

    Cross-validation scored the other folds' networks, and training on all rows may have
    reached another local minimum. A fold's network is used if it is clearly better on
    the history, although it has not seen all of it. What needs no training has no such
    minima.
    """
    if not winner.is_trained:
        return _ALL_ROWS
    rows = evenly_spaced(len(task.history), most)
    stage = f"check {winner.name}"
    stored = task.checkpoint.load(stage)
    if stored is None:
        fits = task.log.each(stage, winner.fits, "fold")
        costs = np.stack([observed_costs(task, fit, rows) for fit in fits])
        stored = task.checkpoint.save(stage, {"losses": costs})
    losses = stored["losses"]
    if np.isnan(losses).all():
        return _ALL_ROWS
    names = [*map(str, range(len(losses) - 1)), str(_ALL_ROWS)]
    return int(compare_candidates(names, losses, trusted=str(_ALL_ROWS)).chosen)
