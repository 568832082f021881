"""``'auto'``: train a few candidates and choose the one with the best decisions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from pyomo_csg.learn.distributions.samplers import (
    ResidualSampler,
    WeightedSampler,
    evenly_spaced,
)
from pyomo_csg.learn.fit_result import MethodResult, Selection
from pyomo_csg.learn.methods.surrogate_diagnostics import loss_net_trust
from pyomo_csg.learn.progress import TimeUpError
from pyomo_csg.learn.selection.candidates import Candidate, Candidates, FoldFit
from pyomo_csg.learn.selection.folds import Folds, make_folds
from pyomo_csg.learn.selection.scoring import (
    compare_candidates,
    costs_by_residual,
    expected_costs,
    observed_costs,
)
from pyomo_csg.learn.task import Task

_FOLD_NETWORK = (
    "The network trained on all rows decides clearly worse on them than the network of "
    "a fold, which is used in its place."
)
_ROWS, _FEW_ROWS = 1000, 48  # of the history, for the check of the winner
_ALL_ROWS = -1  # the last fold

OptionalSampler = ResidualSampler | WeightedSampler | None


def learn_auto(task: Task, kind: Any, head: Any = None) -> MethodResult:
    """Return the network of the best candidate, fitted to all rows."""
    folds = make_folds(task)
    trainer = Candidates(task, folds, kind, head)
    candidates: list[Candidate] = []
    with suppress(TimeUpError):  # the candidates so far are compared
        for candidate in trainer.train_each():
            candidates.append(candidate)  # noqa: PERF402, partial results are kept
    if task.log.stopped_in is not None and len(candidates) == 1:
        (only,) = candidates
        network = task.network(only.fits[-1].body, only.fits[-1].head)
        return MethodResult(network, Selection(only.name), lambda: np.full(1, np.nan))
    samplers = trainer.scoring_samplers()
    each = task.log.each("scoring", candidates, "candidate")
    losses = np.stack([_held_out_costs(task, folds, samplers, one) for one in each])
    names = [candidate.name for candidate in candidates]
    selection = compare_candidates(names, losses, trainer.trusted)
    best = names.index(selection.chosen)
    winner = candidates[best]
    final = winner.fits[-1]
    if final.loss_net_fit is not None:
        trust = loss_net_trust(task, final.loss_net_fit, final.head)
        selection.trust, selection.notes = trust.get("trust"), trust.get("notes")
    fold = choose_fold(task, winner)
    if fold != _ALL_ROWS:
        selection.notes = [*(selection.notes or ()), _FOLD_NETWORK]
    network = task.network(winner.fits[fold].body, winner.fits[fold].head)
    return MethodResult(network, selection, lambda: losses[best])


def choose_fold(task: Task, winner: Candidate) -> int:
    """Return the fold with the network to use: the last one, trained on all rows.

    Cross-validation scored the other folds' networks, and training on all rows may have
    reached another local minimum. A fold's network is used if it is clearly better on
    the history, although it has not seen all of it.
    """
    rows = evenly_spaced(len(task.history), _FEW_ROWS if task.has_integers else _ROWS)
    stage = f"check {winner.name}"
    stored = task.checkpoint.load(stage)
    if stored is None:
        costs = [observed_costs(task, fit.body, rows, fit.head) for fit in winner.fits]
        stored = task.checkpoint.save(stage, {"losses": np.stack(costs)})
    losses = stored["losses"]
    if np.isnan(losses).all():
        return _ALL_ROWS
    names = [*map(str, range(len(losses) - 1)), str(_ALL_ROWS)]
    return int(compare_candidates(names, losses, trusted=str(_ALL_ROWS)).chosen)


def _held_out_costs(
    task: Task, folds: Folds, samplers: list[OptionalSampler], candidate: Candidate
) -> np.ndarray:
    """Return the costs on all held-out rows, each by the fold that has not seen it."""
    stage = f"judge {candidate.name}"
    stored = task.checkpoint.load(stage)
    if stored is None:
        costs = [
            _fold_costs(task, fit, held, sampler)
            for fit, held, sampler in zip(
                candidate.fits, folds.held_out, samplers, strict=True
            )
            if len(held)
        ]
        stored = task.checkpoint.save(stage, {"losses": np.concatenate(costs)})
    return stored["losses"]


def _fold_costs(
    task: Task, fit: FoldFit, held: np.ndarray, sampler: OptionalSampler
) -> np.ndarray:
    if sampler is None:
        return observed_costs(task, fit.body, held, fit.head)
    if isinstance(sampler, ResidualSampler):
        return costs_by_residual(task, fit.body, held, sampler, fit.head)
    return expected_costs(task, fit.body, held, sampler, fit.head)
