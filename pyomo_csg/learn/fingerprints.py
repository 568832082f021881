"""What tells one fit from another, so that a checkpoint serves its own fit only."""

from __future__ import annotations

import hashlib
import io
import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np
import pyomo.environ as pyo
import torch
from torch import Tensor

from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.distributions.distances import trainable_kernel
from pyomo_csg.learn.history import History
from pyomo_csg.learn.networks.task_nets import FunctionModule, Linear, LocationScale
from pyomo_csg.solve import Oracle
from pyomo_csg.stages import TwoStageModel

_PACKAGES = (
    "pyomo-csg",
    "pyomo",
    "highspy",
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
)
_FAULTS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def fit_identity(
    oracle: Oracle,
    history: History,
    settings: FitConfig,
    network: Any,
    **arguments: Any,
) -> dict[str, Any]:
    """Return what is fitted, and how, in JSON's types.

    Parameters
    ----------
    network : str, Module, LocationScale or Linear, optional
        As the user gave it.
    **arguments
        Others of csg.fit, in JSON's types already.
    """
    return {
        "format": 3,
        "model": model_fingerprint(oracle.two_stage, history.outcomes[0]),
        "history": history.fingerprint(),
        "network": _describe_network(network, history),
        "kernel": _fingerprint_kernel(settings, history),
        "settings": {
            key: _json_value(value) for key, value in asdict(settings).items()
        },
        "versions": _packages(),
        **arguments,
    }


def package_versions() -> dict[str, str]:
    """Return the versions of what a policy came about with."""
    return {"python": platform.python_version(), **_packages()}


def model_fingerprint(two_stage: TwoStageModel, outcome: np.ndarray) -> str:
    """Return what tells this model from another: a digest of all it prints.

    But for what a solver or a user may have left in it since: values of variables that
    are free, and of the uncertain Params, in whose place the outcome (p,) stands.
    """
    two_stage = two_stage.copied()
    for variable in two_stage.model.component_data_objects(pyo.Var):
        if not variable.fixed:
            variable.set_value(None)
    for param, value in zip(two_stage.uncertain_params, outcome, strict=True):
        param.set_value(float(value))
    text = io.StringIO()
    two_stage.model.pprint(text)
    return hashlib.sha256(text.getvalue().encode()).hexdigest()


def _packages() -> dict[str, str]:
    """Return the versions of what a policy's numbers depend on."""
    return {package: version(package) for package in _PACKAGES}


def _describe_network(network: Any, history: History) -> str:
    """Return what tells this network from another."""
    if network is None or isinstance(network, str | Linear):
        return str(network)
    if isinstance(network, LocationScale):
        parts = (
            _describe_network(part, history)
            for part in (network.location, network.scale)
        )
        return f"LocationScale({', '.join(parts)})"
    if isinstance(network, FunctionModule):
        try:
            return f"function {_digest(network(torch.as_tensor(history.contexts)))}"
        except _FAULTS:
            return "function"  # what is wrong is told when it is looked at closely
    digest = hashlib.sha256()
    for name, value in network.state_dict().items():
        digest.update(name.encode() + value.numpy(force=True).tobytes())
    return f"{network} {digest.hexdigest()}"


def _fingerprint_kernel(settings: FitConfig, history: History) -> str | None:
    """Return what tells a kernel of the user's own from another: its answers."""
    kernel = trainable_kernel(settings.kernel, history.outcomes.shape[1])
    if isinstance(settings.kernel, str):
        return None
    some = torch.as_tensor(history.outcomes[None, :8])
    return _digest(kernel(some, some))


def _digest(values: Tensor) -> str:
    """Return a digest that another machine's rounding does not change."""
    text = " ".join(f"{value:.6g}" for value in values.flatten().tolist())
    return hashlib.sha256(text.encode()).hexdigest()


def _json_value(value: Any) -> Any:
    if callable(value):
        return getattr(value, "__qualname__", "function")
    return list(value) if isinstance(value, tuple) else value
