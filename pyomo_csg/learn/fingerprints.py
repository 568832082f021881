"""Fingerprints of models, data and settings, which identify a fit."""

from __future__ import annotations

import hashlib
import io
from dataclasses import fields
from typing import Any

import numpy as np
import pyomo.environ as pyo
import torch
from torch import Tensor

from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.methods.specifications import (
    BuiltIn,
    Method,
    describe_method,
)
from pyomo_csg.learn.networks.task_nets import FunctionModule, Linear, LocationScale
from pyomo_csg.learn.package_versions import dependency_versions
from pyomo_csg.learn.tables.history import History
from pyomo_csg.solve import Oracle
from pyomo_csg.stages import TwoStageModel
from pyomo_csg.storage import CONTENT_ERRORS

_UNUSUAL = ("distance", "loss_net")  # settings that are left out where there are none


def fit_identity(
    oracle: Oracle,
    history: History,
    settings: FitConfig,
    network: Any,
    method: BuiltIn | Method,
    **arguments: Any,
) -> dict[str, Any]:
    """Return what identifies a fit, as JSON types; ``arguments`` are others of csg.fit."""
    some = torch.as_tensor(history.outcomes[:8])
    scaled = some / torch.as_tensor(standard_spread(history.outcomes))
    shares, one = some.new_full((1, len(some)), 1 / len(some)), some.new_ones(1, 1)
    decisions = some.new_ones(len(some), len(oracle.two_stage.first_stage_variables))
    loss, net = getattr(method, "loss_kind", None), settings.loss_net
    functions: dict[str, tuple[Any, ...]] = {
        "kernel": (settings.kernel, some, some),
        "distance": (settings.distance, shares, scaled[None], one, scaled[None, :1]),
        "losses": (loss, decisions, some, some.sum(-1)),
    }
    return {
        "format": 3,
        "model": model_fingerprint(
            oracle.two_stage, history.outcomes[0], history.known[0]
        ),
        "history": history.fingerprint(),
        "network": _describe_network(network, history),
        **{name: _describe_function(*call) for name, call in functions.items()},
        "loss_net": None if net is None else _describe_network(net, history),
        **describe_method(method),
        "settings": {
            field.name: _json_value(getattr(settings, field.name))
            for field in fields(settings)
            if field.name not in _UNUSUAL or getattr(settings, field.name) is not None
        },
        "versions": dependency_versions(),
        **arguments,
    }


def model_fingerprint(
    two_stage: TwoStageModel, outcome: np.ndarray, known: np.ndarray
) -> str:
    """Return a digest of everything that a model prints.

    Values that a solver or a user may change later do not count: those of free variables
    are cleared, and the uncertain and known Params are set to ``outcome`` (p,) and
    ``known`` (r,).
    """
    two_stage = two_stage.copy()
    for variable in two_stage.model.component_data_objects(pyo.Var):
        if not variable.fixed:
            variable.set_value(None)
    params = *two_stage.uncertain_params, *two_stage.known_params
    for param, value in zip(params, [*outcome, *known], strict=True):
        param.set_value(float(value))
    text = io.StringIO()
    two_stage.model.pprint(text)
    return hashlib.sha256(text.getvalue().encode()).hexdigest()


def _describe_network(network: Any, history: History) -> str:
    """Return a text that differs between networks, by their weights or their outputs."""
    if network is None or isinstance(network, str | Linear):
        return str(network)
    if isinstance(network, LocationScale):
        location = _describe_network(network.location, history)
        scale = _describe_network(network.scale, history)
        return f"LocationScale({location}, {scale})"
    if isinstance(network, FunctionModule):
        return str(_describe_function(network, torch.as_tensor(history.contexts)))
    digest = hashlib.sha256()
    for name, value in network.state_dict().items():
        digest.update(name.encode() + value.numpy(force=True).tobytes())
    return f"{network} {digest.hexdigest()}"


def _describe_function(function: Any, *inputs: Tensor) -> str | None:
    """Return a text that differs between functions, by their outputs; None for a name."""
    if not callable(function):
        return None
    try:
        return f"function {digest_numbers(function(*inputs))}"
    except CONTENT_ERRORS:  # the error is reported later
        return "function"


def digest_numbers(values: Any) -> str:
    """Return a digest that does not depend on the rounding of a machine."""
    text = " ".join(
        f"{value:.6g}" for value in torch.as_tensor(values).flatten().tolist()
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _json_value(value: Any) -> Any:
    if callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    return list(value) if isinstance(value, tuple) else value
