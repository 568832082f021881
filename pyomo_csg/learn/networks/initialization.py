"""New bodies, started where the outcomes are."""

from __future__ import annotations

import copy
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
from pyomo_csg.learn.random_state import torch_seed
from pyomo_csg.learn.task import Task

_CLUSTERS = 20
_DEAR = 0.2
_APART = 0.1  # of a standard deviation


def new_body(
    task: Task, kind: Any, points: np.ndarray | None, seed: np.random.Generator
) -> Any:
    """Return a body whose free numbers start at the centers of K clusters.

    Parameters
    ----------
    task : Task
    kind : str, Linear or Module
        ``'mlp'``, ``'lstm'``, ``'linear'``, ``'constant'``, or a module to copy.
    points : array (n, p), optional
        Free numbers of what happened; without them the body starts as torch makes it.
    seed : Generator
        Of the weights and the clusters.
    """
    inputs, number = task.contexts.shape[-1], int(seed.integers(2**31))
    with torch_seed(number):
        if isinstance(kind, nn.Module):
            return copy.deepcopy(kind)
        body: Any = _made(task, kind, inputs)
    if points is None:
        return body
    start = cluster_centers(points, task.scenarios, number)
    if task.config.weights == "learned":
        start = np.hstack([start, np.log(cluster_shares(points, start))[:, None]])
    body.start_at(torch.as_tensor(start))
    return body


def replicate_scenarios(body: Any, count: int, rng: np.random.Generator) -> Any:
    """Return a body that gives the one scenario of another so many times, a little apart.

    Parameters
    ----------
    body : Feedforward, BoundedLinear or Constant
        Of one scenario.
    count : int
    rng : Generator
        Of how far apart they are.
    """
    _, numbers = body.settings["shape"]
    with torch_seed(0):  # for the weights that are then put in their place
        wide = type(body)(**{**body.settings, "shape": (count, numbers)})
    state = body.state_dict()
    for name, value in wide.state_dict().items():
        if value.shape != state[name].shape:
            times = [count] + [1] * (value.dim() - 1)
            state[name] = state[name].repeat(times)
    wide.load_state_dict(state)
    wide.shift(torch.as_tensor(_APART * rng.standard_normal((count, numbers))))
    return wide


def constant_body(task: Task, free: Tensor, weights: np.ndarray) -> Constant:
    """Return a body that gives free numbers (K, p) after any context.

    The scenarios' weights (K,) count where they are learned.
    """
    body = Constant(task.output_shape)
    if task.config.weights == "learned":
        free = torch.hstack([free, torch.as_tensor(np.log(weights))[:, None]])
    body.start_at(free)
    return body


def _made(task: Task, kind: str | Linear, inputs: int) -> nn.Module:
    """Return a body as torch's random numbers make it."""
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
    """Return the free numbers (n, p) of the outcomes of some rows."""
    return task.omega.inverse(task.outcomes[torch.as_tensor(rows)]).numpy()


def costliest_rows(task: Task, rows: np.ndarray) -> np.ndarray:
    """Return which of some rows cost most after one sensible decision for all of them.

    The decision is optimal for the centers of their clusters, each with its share.
    """
    outcomes = task.history.outcomes[rows]
    count = min(_CLUSTERS, len(np.unique(outcomes, axis=0)))
    seed = int(task.rng("dearest").integers(2**31))
    clusters = KMeans(count, n_init=1, random_state=seed).fit(outcomes)
    shares = np.bincount(clusters.labels_, minlength=count) / len(outcomes)
    # Rounding takes a mean out of Omega where all of a cluster is at its edge.
    middles = task.omega.project(torch.as_tensor(clusters.cluster_centers_)).numpy()
    found = task.oracle.solve(
        middles[None],
        shares[None],
        on_error="record",
        progress=False,
        fresh=True,
    )
    if not np.isfinite(found.decision).all():
        return np.arange(len(rows))
    costs = task.oracle.cost(
        found.decision[0], outcomes, on_error="record", progress=False, fresh=True
    )
    most = np.argsort(np.where(np.isnan(costs), np.inf, costs), kind="stable")
    return most[-max(1, round(_DEAR * len(rows))) :]


def cluster_shares(points: np.ndarray, middles: np.ndarray) -> np.ndarray:
    """Return the shares (K,), none of them zero, of points that are nearest to each."""
    nearest = pairwise_distances_argmin(points, middles)
    counts = np.bincount(nearest, minlength=len(middles)) + 1.0
    return counts / counts.sum()


def cluster_centers(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return the centers (count, p) of clusters; points at random where there are few."""
    if count == 1:
        return np.median(points, axis=0, keepdims=True)
    if len(np.unique(points, axis=0)) < count:
        return points[np.random.default_rng(seed).integers(len(points), size=count)]
    found = KMeans(count, n_init=1, random_state=seed).fit(points)
    return np.asarray(found.cluster_centers_)
