"""Labels of a Loss-Net: exact losses, solved in chunks that a checkpoint stores."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from pyomo_csg.learn.loss_kinds import LossKind
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
    kind: str | LossKind = "optimistic",
    count: int | None = None,
) -> list[LossSamples]:
    """Return the scenarios of bodies on their rows with losses, solved in one batch.

    With a ``count``, they are as many of each row's scenarios, drawn at random.
    """
    heads = expand_heads(task, head, len(bodies))
    found = [
        task.generate_scenarios(body, mine, its_head)
        for body, mine, its_head in zip(bodies, rows, heads, strict=True)
    ]
    scenarios = np.concatenate([one for one, _ in found])
    weights = np.concatenate([one for _, one in found])
    scenarios, weights = some_scenarios(scenarios, weights, count, task.rng(stage))
    places = np.concatenate(list(rows))
    outcomes = task.draw_targets(places, task.rng(f"{stage} outcomes"))
    shares = task.solver_weights(weights)
    losses = label_losses(task, stage, scenarios, outcomes, shares, kind, places)
    task.log.record(stage, len(losses), missing=int(np.isnan(losses).sum()))
    together = LossSamples(scenarios, weights, outcomes, penalize_unsolved(losses))
    *ends, total = np.cumsum([len(mine) for mine in rows])
    return [together.take(cases) for cases in np.split(np.arange(total), ends)]


def some_scenarios(
    scenarios: np.ndarray,
    weights: np.ndarray,
    count: int | None,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``count`` of each case's scenarios (n, K, p), and their weights (n, count)."""
    if count is None or count >= scenarios.shape[1]:
        return scenarios, weights
    order = rng.random(weights.shape).argsort(axis=1)[:, :count]
    some = np.take_along_axis(weights, order, axis=1)
    picked = np.take_along_axis(scenarios, order[..., None], axis=1)
    return picked, some / some.sum(axis=1, keepdims=True)


def label_losses(
    task: Task,
    stage: str,
    scenarios: np.ndarray,
    outcomes: np.ndarray,
    weights: np.ndarray | None = None,
    kind: str | LossKind = "optimistic",
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """Return the losses (n,) of deciding on scenarios (n, K, p) when outcomes (n, p) follow.

    They are NaN for programs that could not be solved and for scenarios that are not finite;
    a warning counts them. ``stage`` names the bar, the log entries and the stored chunks.
    ``rows`` (n,) are those of the history that the cases belong to.
    """
    known = None if rows is None else task.history.known[rows]
    oracle, n, reason = task.oracle, len(scenarios), ""
    size = _INTEGER_LABELS if oracle.two_stage.integer else _LINEAR_LABELS
    finite = np.isfinite(scenarios).all(axis=(1, 2))
    if weights is not None:
        finite &= np.isfinite(weights).all(axis=1)
    losses = np.full(n, np.nan)
    with task.log.stage(stage, n) as bar:
        for start in range(0, n, size):
            chunk = slice(start, min(start + size, n))
            name = f"{stage}-{start}"
            note = _digest(chunk, scenarios, outcomes, weights, known)
            stored = task.checkpoint.load(name, note=note)
            if stored is None:
                cases = start + np.flatnonzero(finite[chunk])
                found = np.full(chunk.stop - start, np.nan)
                why = "" if finite[chunk].all() else "scenarios that are not finite"
                if len(cases):
                    found[cases - start] = task.loss(
                        scenarios[cases],
                        outcomes[cases],
                        kind,
                        None if weights is None else weights[cases],
                        None if rows is None else rows[cases],
                    )
                    why = _first_failure(oracle) or why
                text = np.frombuffer(why.encode(), np.uint8)
                stored = {"numbers": found, "reason": text}
                task.checkpoint.save(name, stored, note=note)
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


def _digest(chunk: slice, *arrays: np.ndarray | None) -> str:
    """Return a digest of the inputs of a chunk."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None and array.size:
            digest.update(repr(array[chunk].shape).encode())
            digest.update(np.ascontiguousarray(array[chunk], dtype="<f8").tobytes())
    return digest.hexdigest()
