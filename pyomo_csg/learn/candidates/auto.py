"""``'auto'``: fit candidates, the cheap ones first, and choose the best decisions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.learn.candidates.candidate_list import Candidates
from pyomo_csg.learn.candidates.full_distribution import compare_with_all_outcomes
from pyomo_csg.learn.candidates.untrained import sample_average
from pyomo_csg.learn.distributions.features import evenly_spaced
from pyomo_csg.learn.fit_result import MethodResult, Selection
from pyomo_csg.learn.methods.surrogate_diagnostics import loss_net_errors
from pyomo_csg.learn.progress import TimeUpError
from pyomo_csg.learn.selection.fits import Candidate, NetworkFit
from pyomo_csg.learn.selection.folds import make_folds
from pyomo_csg.learn.selection.plan import Plan
from pyomo_csg.learn.selection.scoring import (
    Scoreboard,
    compare_candidates,
    held_out_costs,
)
from pyomo_csg.learn.task import Task

_FOLD_NETWORK = (
    "The network trained on all rows decides clearly worse on them than the network of "
    "a fold, which is used in its place."
)
_NO_CANDIDATE = (
    "the model, the history, the network or the time rule out all of the candidates {}; "
    "name others, or leave them out and see which the report lists"
)
_ALL_ROWS = -1  # the last fold
_COMPARISON_SHARE = 0.8  # of the time budget, if the winner is fitted to all rows later


def learn_auto(
    task: Task,
    plan: Plan,
    kind: Any,
    head: Any = None,
    chooses_network: bool = True,
    names: Sequence[str] | None = None,
) -> MethodResult:
    """Return the best candidate, fitted to all rows.

    Every candidate is scored as soon as it is fitted. When the time is up, or the user
    interrupts the fit, the best one so far is used. If there is none when the time is up,
    the sample average is used, which takes no time. With a single fold, only the winner is
    fitted to all rows, in time reserved for that. ``names`` are the only candidates to
    try, if any.
    """
    folds = make_folds(task, plan.folds)
    fits_winner = plan.folds == 1 and head is None and not task.history.has_panels
    compared = folds.with_held_out if fits_winner else folds
    candidates = Candidates(task, compared, plan, kind, head, names)
    candidates.board = board = Scoreboard(task, folds, plan.scored_rows)
    share = _COMPARISON_SHARE if fits_winner else 1.0
    try:
        with suppress(TimeUpError), task.log.limit_to(share):
            board.samplers = candidates.scoring_samplers()
            for candidate in candidates.each(chooses_network):
                board.add(candidate)
        if names is not None and not (board.has_candidate or task.log.is_over):
            raise DataError("Nothing to choose from", [_NO_CANDIDATE.format(names)])
        if not board.has_candidate:
            board.keep(sample_average(task))
        winner, selection = board.select(candidates.trusted)
        if fits_winner and board.candidates:
            winner = _with_all_rows(task, winner, candidates)
    except KeyboardInterrupt as error:
        if board.has_candidate:
            best = _result(task, plan, board, *board.select())
            error.best = best  # type: ignore[attr-defined]
        raise
    return _result(task, plan, board, winner, selection, candidates)


def _with_all_rows(task: Task, winner: Candidate, candidates: Candidates) -> Candidate:
    """Return a candidate with its fit to all rows, if the time is enough for that."""
    try:
        with task.log.stage("the best on all rows", 1):
            fit = candidates.fit_to_all_rows(winner.name)
    except TimeUpError:
        return winner
    return winner if task.log.is_over else replace(winner, fits=[*winner.fits, fit])


def _result(
    task: Task,
    plan: Plan,
    board: Scoreboard,
    winner: Candidate,
    selection: Selection,
    candidates: Candidates | None = None,
) -> MethodResult:
    """Return the result for the best candidate; ``candidates`` are there if not cut."""
    selection.plan = plan.summary()
    fold = _ALL_ROWS
    with suppress(TimeUpError, KeyboardInterrupt):
        task.log.check_time()
        final = winner.fits[-1]
        if isinstance(final, NetworkFit) and final.loss_net_fit is not None:
            selection.loss_net_errors, selection.notes = loss_net_errors(
                task, final.loss_net_fit, final.head, plan.loss_kind
            )
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
        scored_costs=board.observed_costs(winner.name),
    )


def choose_fold(task: Task, winner: Candidate, most: int) -> int:
    """Return the fold with the network to use: the last one, trained on all rows.

    Cross-validation scored the other folds' networks, and training on all rows may have
    reached another local minimum. A fold's network is used if it is clearly better on
    the history, although it has not seen all of it. What needs no training has no such
    minima.
    """
    if not winner.is_trained or len(winner.fits) == 1:
        return _ALL_ROWS
    rows = evenly_spaced(len(task.history), most)
    stage = f"check {winner.name}"

    def compute() -> dict[str, np.ndarray]:
        fits = task.log.each(stage, winner.fits)
        return {"losses": np.stack([held_out_costs(task, fit, rows) for fit in fits])}

    losses = task.checkpoint.stage(stage, compute)["losses"]
    if np.isnan(losses).all():
        return _ALL_ROWS
    names = [*map(str, range(len(losses) - 1)), str(_ALL_ROWS)]
    return int(compare_candidates(names, losses, trusted=str(_ALL_ROWS)).chosen)
