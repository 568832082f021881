"""What a random search draws: the hyperparameters that the fit at hand looks at."""

from __future__ import annotations

from typing import Any

from scipy.stats import loguniform

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
# 'auto' follows a Loss-Net where decisions have no gradient.
_METHODS = {
    "mmd": {},
    "direct": _TASK,
    "static": {**_TASK, **_LOSS_NET},
    "dynamic": {**_TASK, **_LOSS_NET},
    "auto": {**_TASK, **_LOSS_NET},
}


def space_of(method: str, network: Any, panels: bool) -> dict[str, Any]:
    """Return lists and laws to draw settings from, by name.

    Parameters
    ----------
    method : str
    network : str, Module, LocationScale or Linear, optional
        As the user gave it; one that is not ours has its own layers.
    panels : bool
        Whether contexts are.

    Examples
    --------
    >>> sorted(space_of("mmd", None, panels=True))
    ['batch', 'decay', 'mmd_epochs', 'mmd_rate', 'recurrent']
    """
    usual = "lstm" if panels else "mlp"
    kind = usual if network is None else network
    layers = _LAYERS.get(kind, {}) if isinstance(kind, str) else {}
    return {**_ALWAYS, **_METHODS[method], **layers}
