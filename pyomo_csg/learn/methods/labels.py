"""Labels of a Loss-Net: exact losses, solved in chunks that a checkpoint stores."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from pyomo_csg.learn.methods.mmd import expand_heads
from pyomo_csg.learn.networks.loss_net import LossSamples
from pyomo_csg.learn.task import Task
from pyomo_csg.solve import Oracle

logger = logging.getLogger(__name__)

# Cases per chunk. A chunk takes seconds at most, since that is what a kill loses.
_LINEAR_LABELS, _INTEGER_LABELS = 512, 32


def label_bodies(
    task: Task,
    bodies: Sequence[nn.Module],
    rows: Sequence[np.ndarray],
    stage: str,
    head: Any = None,
    kind: str = "optimistic",
) -> list[LossSamples]:
    """Return the scenarios of bodies on their rows with losses, solved in one batch."""
    heads = expand_heads(task, head, len(bodies))
    found = [
        task.generate_scenarios(body, mine, its_head)
        for body, mine, its_head in zip(bodies, rows, heads, strict=True)
    ]
    scenarios = np.concatenate([one for one, _ in found])
    weights = np.concatenate([one for _, one in found])
    places = np.concatenate(list(rows))
    outcomes = task.history.outcomes[places]
    shares = task.solver_weights(weights)
    losses = label_losses(task, stage, scenarios, outcomes, shares, kind, places)
    task.log.record(stage, len(losses), missing=int(np.isnan(losses).sum()))
    together = LossSamples(scenarios, weights, outcomes, penalize_unsolved(losses))
    *ends, total = np.cumsum([len(mine) for mine in rows])
    return [together.take(cases) for cases in np.split(np.arange(total), ends)]


def label_losses(
    task: Task,
    stage: str,
    scenarios: np.ndarray,
    outcomes: np.ndarray,
    weights: np.ndarray | None = None,
    kind: str = "optimistic",
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """Return the losses (n,) of deciding on scenarios (n, K, p) when outcomes (n, p) follow.

    They are NaN for programs that could not be solved and for scenarios that are not finite;
    a warning counts them. ``stage`` names the bar, the log entries and the stored chunks.
    ``rows`` (n,) are those of the history that the cases belong to.
    """
    n, reason, losses = len(scenarios), "", np.full(len(scenarios), np.nan)
    size = _INTEGER_LABELS if task.oracle.two_stage.integer else _LINEAR_LABELS
    with task.log.stage(stage, n) as bar:
        for start in range(0, n, size):
            chunk = slice(start, min(start + size, n))
            cases = _Cases(
                scenarios[chunk],
                outcomes[chunk],
                None if weights is None else weights[chunk],
                None if rows is None else rows[chunk],
            )
            stored = task.checkpoint.stage(
                f"{stage}-{start}",
                partial(_solve, task, cases, kind),
                note=cases.digest(task),
            )
            losses[chunk] = stored["numbers"]
            reason = reason or stored["reason"].tobytes().decode()
            solved = losses[~np.isnan(losses)]
            mean = float(solved.mean()) if len(solved) else float("nan")
            bar.step(chunk.stop - start, loss=mean)
    if unsolved := int(np.isnan(losses).sum()):
        logger.warning(
            "%s: %d of %d programs could not be solved; the first reason: %s",
            *(stage, unsolved, n, reason),
        )
    return losses


@dataclass(frozen=True, eq=False)
class _Cases:
    """The inputs of a chunk."""

    scenarios: np.ndarray
    outcomes: np.ndarray
    weights: np.ndarray | None
    rows: np.ndarray | None

    def digest(self, task: Task) -> str:
        """Return a digest of the numbers that the losses depend on."""
        known = None if self.rows is None else task.history.known[self.rows]
        digest = hashlib.sha256()
        for array in (self.scenarios, self.outcomes, self.weights, known):
            if array is not None and array.size:
                digest.update(repr(array.shape).encode())
                digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return digest.hexdigest()


def _solve(task: Task, cases: _Cases, kind: str) -> dict[str, np.ndarray]:
    """Return the losses of a chunk, and the first reason why one is missing."""
    finite = np.isfinite(cases.scenarios).all(axis=(1, 2))
    if cases.weights is not None:
        finite &= np.isfinite(cases.weights).all(axis=1)
    losses = np.full(len(finite), np.nan)
    reason = "" if finite.all() else "scenarios that are not finite"
    if finite.any():
        losses[finite] = task.loss(
            cases.scenarios[finite],
            cases.outcomes[finite],
            kind,
            None if cases.weights is None else cases.weights[finite],
            None if cases.rows is None else cases.rows[finite],
        )
        reason = _first_failure(task.oracle) or reason
    return {"numbers": losses, "reason": np.frombuffer(reason.encode(), np.uint8)}


def penalize_unsolved(losses: np.ndarray) -> np.ndarray:
    """Return losses in which NaN is one standard deviation worse than the worst loss.

    >>> penalize_unsolved(np.array([1.0, np.nan, 3.0]))
    array([1., 4., 3.])
    """
    known = losses[~np.isnan(losses)]
    if len(known) in (0, len(losses)):
        return losses
    return np.where(np.isnan(losses), known.max() + known.std(), losses)


def _first_failure(oracle: Oracle) -> str:
    """Return why the first program of the last batch failed; empty if none did."""
    if not oracle.failures:
        return ""
    _, status, detail = oracle.failures[0].args
    return f"{status} ({detail})" if detail else status
