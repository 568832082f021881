"""Exact losses of many cases, in chunks that a checkpoint keeps."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from pyomo_csg.learn.checkpoint import Checkpoint
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.solve import Oracle

logger = logging.getLogger(__name__)

# Cases a chunk: as many as take seconds at most, for that is what a kill loses.
_LINEAR_LABELS, _INTEGER_LABELS = 512, 32

Answer = tuple[np.ndarray, str]  # numbers, NaN where there is none, and why


class Labeller(Protocol):
    """What labelling needs of a task."""

    oracle: Oracle
    log: TrainingLog
    checkpoint: Checkpoint


def label_losses(
    task: Labeller,
    stage: str,
    scenarios: np.ndarray,
    outcomes: np.ndarray,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return l_opt (n,) of deciding on scenarios when outcomes then happen.

    Parameters
    ----------
    task : Task
    stage : str
        Its name in the bar, the log and the checkpoint, which keeps every chunk.
    scenarios : array (n, K, p)
    outcomes : array (n, p)
    weights : array (n, K), optional

    Returns
    -------
    array (n,)
        NaN for a case that has no answer or whose scenarios are not finite; how many
        there are is logged.
    """
    oracle = task.oracle

    def losses(
        zetas: np.ndarray, omegas: np.ndarray, shares: np.ndarray | None
    ) -> Answer:
        usable = np.isfinite(zetas).all(axis=(1, 2))
        if shares is not None:
            usable &= np.isfinite(shares).all(axis=1)

        def solve(rows: np.ndarray) -> np.ndarray:
            return oracle.loss(
                zetas[rows],
                omegas[rows],
                kind="optimistic",
                weights=None if shares is None else shares[rows],
                on_error="record",
                progress=False,
                fresh=True,
            )

        return _answer(oracle, solve, usable, "scenarios that are not finite")

    size = _INTEGER_LABELS if oracle.two_stage.integer else _LINEAR_LABELS
    cases = [scenarios, outcomes, weights]
    return _in_chunks(task, stage, "label", size, cases, losses)


def penalize_unsolved(losses: np.ndarray) -> np.ndarray:
    """Return losses in which plans without an answer are worse than all that have one.

    By a standard deviation; NaN if none has any.

    Examples
    --------
    >>> penalised(np.array([1.0, np.nan, 3.0]))
    array([1., 4., 3.])
    """
    known = losses[~np.isnan(losses)]
    if len(known) in (0, len(losses)):
        return losses
    return np.where(np.isnan(losses), known.max() + known.std(), losses)


def _in_chunks(
    task: Labeller,
    stage: str,
    unit: str,
    size: int,
    cases: list[Any],
    answer: Callable[..., Answer],
) -> np.ndarray:
    """Answer all cases, which are on the first axis of the arrays, chunk by chunk."""
    n, reason = len(cases[0]), ""
    found = np.full(n, np.nan)
    with task.log.stage(stage, n, unit) as bar:
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            chunk = [None if array is None else array[rows] for array in cases]
            kept = task.checkpoint.stage(
                f"{stage}-{start}", partial(_stored, answer, chunk), note=_digest(chunk)
            )
            found[rows] = kept["numbers"]
            reason = reason or kept["reason"].tobytes().decode()
            bar.step(rows.stop - rows.start, loss=_mean(found))
    missing = int(np.isnan(found).sum())
    if missing:
        logger.warning(
            "%s: %d of %d have no answer; the first reason: %s",
            stage,
            missing,
            n,
            reason,
        )
    return found


def _stored(answer: Callable[..., Answer], chunk: list[Any]) -> dict[str, np.ndarray]:
    numbers, reason = answer(*chunk)
    return {"numbers": numbers, "reason": np.frombuffer(reason.encode(), np.uint8)}


def _answer(
    oracle: Oracle,
    solve: Callable[[np.ndarray], np.ndarray],
    usable: np.ndarray,
    excuse: str,
) -> Answer:
    """Solve for the usable rows; the others are NaN with an excuse."""
    found = np.full(len(usable), np.nan)
    rows = np.flatnonzero(usable)
    reason = "" if usable.all() else excuse
    if len(rows):
        found[rows] = solve(rows)
        if oracle.failures:
            _, status, detail = oracle.failures[0].args
            reason = f"{status} ({detail})" if detail else status
    return found, reason


def _digest(chunk: list[Any]) -> str:
    """Return what tells a chunk from one of the same name but other numbers."""
    digest = hashlib.sha256()
    for array in chunk:
        if array is not None:
            digest.update(repr(array.shape).encode())
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def _mean(found: np.ndarray) -> float:
    """Return the mean of what there is so far."""
    there = found[~np.isnan(found)]
    return float(there.mean()) if len(there) else float("nan")
