"""``'auto'``: a few candidates, and the one whose decisions cost least is taken."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.stats import norm

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.samplers import (
    ResidualSampler,
    WeightedSampler,
    evenly_spaced,
)
from pyomo_csg.learn.fit_result import MethodResult
from pyomo_csg.learn.progress import TimeUpError
from pyomo_csg.learn.selection.candidates import Candidate, Candidates
from pyomo_csg.learn.selection.folds import Folds, make_folds
from pyomo_csg.learn.selection.scoring import (
    costs_by_residual,
    expected_costs,
    observed_costs,
)
from pyomo_csg.learn.task import Task

_NO_COSTS = (
    "no decision on generated scenarios has a cost on held-out pairs; see Oracle.solve "
    "and Oracle.cost on the history for why, and give the model complete recourse"
)

_ELSEWHERE = (
    "The network that learned from all rows decides clearly worse on them than one that "
    "did not see a part of them, which is taken in its place."
)
_CLEARLY = 2.0  # standard errors that a difference must have to count as clear
_ROWS, _FEW_ROWS = 1000, 48  # of the history that the winner is checked on
_LAST = -1


def learn_auto(task: Task, kind: Any, head: Any = None) -> MethodResult:
    """Return the network of the best candidate, fitted to all rows."""
    folds = make_folds(task)
    contenders = Candidates(task, folds, kind, head)
    candidates = list(_in_time(contenders.each()))
    if task.log.stopped_in is not None and len(candidates) == 1:
        (only,) = candidates
        network = task.network(only.bodies[-1], only.heads[-1])
        return MethodResult(network, {"chosen": only.name}, lambda: np.full(1, np.nan))
    judges = contenders.judges()
    each = task.log.each("judging", candidates, "candidate")
    losses = np.stack([_judged(task, folds, judges, found) for found in each])
    names = [candidate.name for candidate in candidates]
    contest = compared(names, losses, contenders.trusted)
    best = names.index(contest["chosen"])
    winner = candidates[best]
    contest.update(winner.examined())
    member = sound_member(task, winner)
    if member != _LAST:
        contest["notes"] = [*contest.get("notes", ()), _ELSEWHERE]
    network = task.network(winner.bodies[member], winner.heads[member])
    return MethodResult(network, contest, lambda: losses[best])


def sound_member(task: Task, winner: Candidate) -> int:
    """Return which of the winner's networks to take: the last, which learned from all rows.

    It is the others that were judged, and its descent may have ended elsewhere than theirs.
    One of them is taken if it is clearly better on the history, which it has not all seen.
    """
    rows = evenly_spaced(len(task.history), _FEW_ROWS if task.has_integers else _ROWS)

    def compute() -> dict[str, Any]:
        members = zip(winner.bodies, winner.heads, strict=True)
        found = [observed_costs(task, body, rows, head) for body, head in members]
        return {"losses": np.stack(found)}

    losses = task.checkpoint.stage(f"check {winner.name}", compute)["losses"]
    if np.isnan(losses).all():
        return _LAST
    names = [*map(str, range(len(losses) - 1)), str(_LAST)]
    return int(compared(names, losses, trusted=str(_LAST))["chosen"])


def _in_time(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates that are trained until the time is up; the first in any case."""
    with suppress(TimeUpError):
        yield from candidates


def compared(
    names: Sequence[str], losses: np.ndarray, trusted: str | None = None
) -> dict[str, Any]:
    """Say which of some candidates is best, by how much, and how sure that is.

    Parameters
    ----------
    names : sequence of str
    losses : array (candidates, pairs)
        Costs on held-out pairs, the same for all; NaN where there was no decision, which
        counts as the worst cost that any candidate had.
    trusted : str, optional
        Taken, if it is among them, unless another is better by more than two standard
        errors.

    Returns
    -------
    dict
        ``chosen``; ``candidates``, the best first, with each one's mean loss and the standard error of its
        difference from the chosen; ``margin`` to the second; ``confidence`` that the
        chosen is indeed the better of the two, by the normal law of paired differences.
    """
    if np.isnan(losses).all():
        raise DataError("Nothing could be compared", [_NO_COSTS])
    filled = np.where(np.isnan(losses), np.nanmax(losses, initial=-math.inf), losses)
    means = filled.mean(axis=1)
    order = np.argsort(means, kind="stable")
    best = order[0]
    if trusted in names:
        own = names.index(trusted)
        doubt = (filled[own] - filled[best]).std() / math.sqrt(losses.shape[1])
        best = own if means[own] - means[best] <= _CLEARLY * doubt else best
    errors = (filled - filled[best]).std(axis=1) / math.sqrt(losses.shape[1])
    others = [c for c in order if c != best]
    second = others[0] if others else best
    margin = float(means[second] - means[best])
    if errors[second] > 0:
        sure = norm.cdf(margin / errors[second])
    else:  # always apart by as much, or just as good, or judged on one pair
        sure = 1.0 if margin > 0 and losses.shape[1] > 1 else 0.5
    return {
        "chosen": names[best],
        "margin": margin,
        "confidence": float(sure),
        "pairs_judged": int(losses.shape[1]),
        "candidates": [
            {
                "name": names[c],
                "loss": float(means[c]),
                "standard_error": float(errors[c]),
                "unsolved": int(np.isnan(losses[c]).sum()),
            }
            for c in order
        ],
    }


def _judged(
    task: Task,
    folds: Folds,
    judges: Sequence[ResidualSampler | WeightedSampler | None],
    candidate: Candidate,
) -> np.ndarray:
    """Return the costs of all that is held out, each by the part that has not seen it."""

    def compute() -> dict[str, Any]:
        parts = [
            _charged(task, body, held, judge, head)
            for body, held, judge, head in zip(
                candidate.bodies, folds.held_out, judges, candidate.heads, strict=True
            )
            if len(held)
        ]
        return {"losses": np.concatenate(parts)}

    return task.checkpoint.stage(f"judge {candidate.name}", compute)["losses"]


def _charged(
    task: Task,
    body: Any,
    held: np.ndarray,
    judge: ResidualSampler | WeightedSampler | None,
    head: Any,
) -> np.ndarray:
    if judge is None:
        return observed_costs(task, body, held, head)
    if isinstance(judge, ResidualSampler):
        return costs_by_residual(task, body, held, judge, head)
    return expected_costs(task, body, held, judge, head)
