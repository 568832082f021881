"""New bodies, initialized at clusters of the outcomes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from torch import Tensor, nn

from pyomo_csg.learn.networks.task_nets import (
    BoundedLinear,
    Constant,
    Feedforward,
    Linear,
    Recurrent,
)
from pyomo_csg.learn.task import Task
from pyomo_csg.learn.trainer import torch_seed

_CLUSTERS = 20
_COSTLY_SHARE = 0.2
_JITTER = 0.1  # in standard deviations
# Outcomes spread less around their context than in all: networks start with less spread.
_SPREAD = 0.5


def new_body(
    task: Task, kind: Any, points: np.ndarray | None, seed: np.random.Generator
) -> Any:
    """Return a body of a kind, or a copy of a module.

    Its outputs start at the centers of K clusters of unconstrained ``points`` (n, p),
    which are drawn halfway to their mean for a network that reads contexts, or at random
    without them.
    """
    inputs, number = task.contexts.shape[-1], int(seed.integers(2**31))
    with torch_seed(number):
        if isinstance(kind, nn.Module):
            return copy.deepcopy(kind)
        body: Any = _random_body(task, kind, inputs)
    if points is None:
        return body
    start = cluster_centers(points, task.scenarios, number)
    shares = cluster_shares(points, start)
    if kind != "constant":
        start = start.mean(axis=0) + _SPREAD * (start - start.mean(axis=0))
    if task.config.weights == "learned":
        start = np.hstack([start, np.log(shares)[:, None]])
    body.start_at(torch.as_tensor(start))
    return body


def new_bodies(
    task: Task, kind: Any, rows: Sequence[np.ndarray], stage: str
) -> list[Any]:
    """Return a new body for each set of rows, which starts at clusters of its outcomes."""
    return [
        new_body(task, kind, unconstrained_outcomes(task, mine), task.rng(stage))
        for mine in rows
    ]


def replicate_scenarios(body: Any, count: int, rng: np.random.Generator) -> Any:
    """Return a body with ``count`` jittered copies of the one scenario of another."""
    _, numbers = body.settings["shape"]
    with torch_seed(0):  # the weights are then replaced
        wide = type(body)(**{**body.settings, "shape": (count, numbers)})
    state = body.state_dict()
    for name, value in wide.state_dict().items():
        if value.shape != state[name].shape:
            times = [count] + [1] * (value.dim() - 1)
            state[name] = state[name].repeat(times)
    wide.load_state_dict(state)
    wide.shift(torch.as_tensor(_JITTER * rng.standard_normal((count, numbers))))
    return wide


def constant_body(task: Task, free: Tensor, weights: np.ndarray) -> Constant:
    """Return a body with these constant outputs (K, p), and weights (K,) if learned."""
    body = Constant(task.output_shape)
    if task.config.weights == "learned":
        free = torch.hstack([free, torch.as_tensor(np.log(weights))[:, None]])
    body.start_at(free)
    return body


def _random_body(task: Task, kind: str | Linear, inputs: int) -> nn.Module:
    """Return a body with random initial weights."""
    shape, config = task.output_shape, task.config
    if kind == "linear":
        kind = Linear()
    if isinstance(kind, Linear):
        return BoundedLinear(inputs, shape, kind.bound)
    if kind == "constant":
        return Constant(shape)
    if kind == "lstm":
        return Recurrent(inputs, shape, config.recurrent)
    return Feedforward(inputs, shape, config.hidden)


def unconstrained_outcomes(task: Task, rows: np.ndarray) -> np.ndarray:
    """Return the outcomes of some rows as unconstrained numbers (n, p)."""
    outcomes = task.draw_targets(rows, task.rng("starting outcomes"))
    return task.omega.inverse(torch.as_tensor(outcomes)).numpy()


def costliest_rows(task: Task, rows: np.ndarray) -> np.ndarray:
    """Return the positions of the rows that cost most under one common decision.

    The decision is optimal for the weighted centers of the rows' clusters.
    """
    outcomes = task.history.outcomes[rows]
    count = min(_CLUSTERS, len(np.unique(outcomes, axis=0)))
    seed = int(task.rng("dearest").integers(2**31))
    clusters = KMeans(count, n_init=1, random_state=seed).fit(outcomes)
    shares = np.bincount(clusters.labels_, minlength=count) / len(outcomes)
    # Rounding can move a mean out of Omega if its cluster is on the boundary.
    middles = task.omega.project(torch.as_tensor(clusters.cluster_centers_)).numpy()
    decision = task.solve(middles[None], shares[None]).decision
    if not np.isfinite(decision).all():
        return np.arange(len(rows))
    costs = task.cost(np.repeat(decision, len(outcomes), axis=0), outcomes)
    most = np.argsort(np.where(np.isnan(costs), np.inf, costs), kind="stable")
    return most[-max(1, round(_COSTLY_SHARE * len(rows))) :]


def cluster_shares(points: np.ndarray, middles: np.ndarray) -> np.ndarray:
    """Return the shares (K,) of points nearest to each center, smoothed to be positive."""
    nearest = pairwise_distances_argmin(points, middles)
    counts = np.bincount(nearest, minlength=len(middles)) + 1.0
    return counts / counts.sum()


def cluster_centers(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return cluster centers (count, p); random points if too few are distinct."""
    if count == 1:
        return np.median(points, axis=0, keepdims=True)
    if len(np.unique(points, axis=0)) < count:
        return points[np.random.default_rng(seed).integers(len(points), size=count)]
    found = KMeans(count, n_init=1, random_state=seed).fit(points)
    return np.asarray(found.cluster_centers_)
