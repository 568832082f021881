"""New bodies, started where the outcomes are."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import nn

from pyomo_csg.learn.networks import Constant, Feedforward, Recurrent
from pyomo_csg.learn.task import Task


def new_body(
    task: Task, kind: Any, points: np.ndarray | None, seed: np.random.Generator
) -> Any:
    """Return a body whose free numbers start at the centers of K clusters.

    Parameters
    ----------
    task : Task
    kind : str or Module
        ``'mlp'``, ``'lstm'``, ``'linear'``, ``'constant'``, or a module to copy.
    points : array (n, p), optional
        Free numbers of what happened; without them the body starts as torch makes it.
    seed : Generator
        Of the weights and the clusters.
    """
    inputs, number = task.contexts.shape[-1], int(seed.integers(2**31))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        if isinstance(kind, nn.Module):
            return copy.deepcopy(kind)
        body: Any = {
            "mlp": lambda: Feedforward(inputs, task.shape, task.config.hidden),
            "linear": lambda: Feedforward(inputs, task.shape, ()),
            "lstm": lambda: Recurrent(inputs, task.shape, task.config.recurrent),
            "constant": lambda: Constant(task.shape),
        }[kind]()
    if points is None:
        return body
    body.start_at(torch.as_tensor(centers(points, task.scenarios, number)))
    return body


def free_outcomes(task: Task, rows: np.ndarray) -> np.ndarray:
    """Return the free numbers (n, p) of the outcomes of some rows."""
    return task.omega.inverse(task.outcomes[torch.as_tensor(rows)]).numpy()


def centers(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return the centers (count, p) of clusters; points at random where there are few."""
    if count == 1:
        return np.median(points, axis=0, keepdims=True)
    if len(np.unique(points, axis=0)) < count:
        return points[np.random.default_rng(seed).integers(len(points), size=count)]
    found = KMeans(count, n_init=1, random_state=seed).fit(points)
    return np.asarray(found.cluster_centers_)
