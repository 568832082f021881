"""A random search for hyperparameters, by the held-out losses of whole fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import loguniform
from sklearn.model_selection import ParameterSampler

from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.fit_result import MethodResult
from pyomo_csg.learn.progress import TimeUpError, TrainingLog
from pyomo_csg.learn.selection.scoring import fill_unsolved

_RATE = loguniform(3e-4, 1e-2)
_ALWAYS = {
    "batch": [25, 50, 100],
    "mmd_epochs": [20, 40, 80],
    "mmd_rate": _RATE,
    "decay": loguniform(1e-5, 1e-1),
}
_TASK = {"task_epochs": [10, 15, 30], "task_rate": _RATE}
_LOSS_NET = {
    "loss_epochs": [30, 60, 120],
    "loss_rate": _RATE,
    "encoder": [(32, 16), (64, 32), (128, 64)],
    "head": [(64,), (64, 64), (64, 64, 64), (128, 128)],
}
_LAYERS = {
    "mlp": {"hidden": [(32,), (64,), (64, 64), (128, 128)]},
    "lstm": {"recurrent": [(16, 32), (32,), (32, 64), (64, 64)]},
}
# 'auto' trains on a Loss-Net where decisions have no gradient.
_METHODS = {
    "mmd": {},
    "direct": _TASK,
    "static": {**_TASK, **_LOSS_NET},
    "dynamic": {**_TASK, **_LOSS_NET},
    "auto": {**_TASK, **_LOSS_NET},
}


def search_space(method: str, network: Any, panels: bool) -> dict[str, Any]:
    """Return lists and distributions to draw settings from, by name.

    The layers of a user's module are not searched. A user's method may use any setting;
    those of training on a task are searched.
    """
    kind = ("lstm" if panels else "mlp") if network is None else network
    layers = _LAYERS.get(kind, {}) if isinstance(kind, str) else {}
    return {**_ALWAYS, **_METHODS.get(method, _TASK), **layers}


def search(
    config: FitConfig,
    space: Mapping[str, Any],
    seed: int,
    log: TrainingLog,
    fit: Callable[[FitConfig, str], MethodResult],
) -> MethodResult:
    """Return the best fit over hyperparameters drawn from a space, by held-out losses.

    ``config`` itself is tried first. ``fit`` maps settings, and a name for their stages,
    to a fit.
    """
    drawn = ParameterSampler(space, config.search - 1, random_state=seed)
    settings = [config, *(replace(config, **one) for one in drawn)]
    found: list[MethodResult] = []
    held, losses = [], []
    with suppress(TimeUpError), log.stage("search", len(settings)) as bar:
        for number, mine in enumerate(settings):
            one = fit(mine, f"search {number}")
            if log.stopped_in is not None and found:
                break  # it was cut short
            found.append(one)
            held.append(one.holdout_losses())
            losses.append(_mean(held[-1]))
            bar.step(loss=losses[-1], best=min(losses))
    if not held:
        return found[0]  # the time was up before its losses were known
    means = fill_unsolved(np.stack(held)).mean(axis=1)
    best = int(np.argmin(means))
    selection = found[best].selection
    selection.settings = {name: getattr(settings[best], name) for name in space}
    selection.searched = len(held)
    selection.search_won = {
        "number": best + 1,
        "loss": float(means[best]),
        "loss_as_given": float(means[0]),
    }
    return found[best]


def _mean(losses: np.ndarray) -> float:
    return math.inf if np.isnan(losses).any() else float(losses.mean())
