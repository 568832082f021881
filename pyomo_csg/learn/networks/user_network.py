"""Resolve ``network=`` of csg.fit, and check that it fits the history."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.checkpoint import train_or_restore
from pyomo_csg.learn.networks.location_scale import (
    fit_location_scale,
    unfitted_head,
)
from pyomo_csg.learn.networks.loss_net import UserLossNet
from pyomo_csg.learn.networks.task_nets import (
    FunctionModule,
    Linear,
    LocationScale,
    LocationScaleHead,
    eval_mode,
)
from pyomo_csg.learn.task import Task

_SUBJECT = "The network does not fit the data"
_BAD_LOSS_NET = "The Loss-Net cannot be used"


def resolve_network(network: Any, task: Task) -> tuple[Any, Any]:
    """Return the kind of body, and the head if it is not the default one."""
    if network is None:
        return ("lstm" if task.history.has_panels else "mlp"), None
    if network == "location-scale":
        return "constant", _fitted_head(task)
    if isinstance(network, str | Linear):
        problem = ""
        if task.history.has_panels and network not in ("lstm", "constant"):
            problem = f"network is {network!r}, but contexts are panels; give 'lstm'"
        elif network == "lstm" and not task.history.has_panels:
            problem = (
                "network is 'lstm', but contexts are vectors; give panels (n, W, d)"
            )
        if problem:
            raise DataError(_SUBJECT, [problem])
        return network, None
    if isinstance(network, LocationScale):
        return "constant", _location_scale_head(network, task)
    # A copy, so that the user's module keeps its weights and precision.
    body = copy.deepcopy(network).double()
    some = task.contexts[:2]
    _call_module("network", body, some, (len(some), *task.output_shape))
    if not any(parameter.requires_grad for parameter in body.parameters()):
        problem = "network has no parameters to train; give it some, or a "
        raise DataError(_SUBJECT, [problem + "csg.LocationScale"])
    return body, None


def _fitted_head(task: Task) -> LocationScaleHead:
    """Return a head with location and scale fitted to the history."""
    rows = [np.arange(len(task.history))]
    heads: Any = train_or_restore(
        task,
        "location-scale forecast",
        [unfitted_head(task)],
        lambda: fit_location_scale(task, rows, "location-scale forecast"),
    )
    return heads[0]


def _location_scale_head(network: LocationScale, task: Task) -> LocationScaleHead:
    """Return a head with the user's location and scale, checked on the history."""
    location, scale = (
        part if isinstance(part, FunctionModule) else copy.deepcopy(part)
        for part in (network.location, network.scale)
    )
    head = LocationScaleHead(location, scale, task.omega)
    head = head.double().eval().requires_grad_(False)
    contexts = torch.as_tensor(task.history.contexts)
    problems = []
    for what, part, wanted, least in (
        ("location", head.location, "finite numbers", -np.inf),
        ("scale", head.scale, "finite numbers above 0", 0.0),
    ):
        name = f"network's {what}"
        found = _call_module(name, part, contexts, tuple(task.history.outcomes.shape))
        wrong = torch.nonzero(~(torch.isfinite(found) & (found > least)))
        if len(wrong):
            row, column = wrong[0].tolist()
            problems.append(
                f"{name} gave {float(found[row, column]):g} in row {row} of the history, "
                f"column {column}, and {len(wrong)} such in all; expected {wanted}"
            )
    if problems:
        raise DataError(_SUBJECT, problems)
    return head


def check_loss_net(task: Task) -> None:
    """Raise a DataError unless the user's Loss-Net, if any, gives a loss for each case."""
    module = task.config.loss_net
    if module is None:
        return
    net = UserLossNet(len(task.omega.center), module)
    some = task.outcomes[:2]
    scenarios = some[:, None].expand(-1, task.scenarios, -1)
    shares = scenarios.new_full(scenarios.shape[:2], 1 / task.scenarios)
    inputs = scenarios, shares, some
    _call_module("loss_net", net.module, inputs, (len(some),), subject=_BAD_LOSS_NET)
    if not any(parameter.requires_grad for parameter in net.parameters()):
        raise DataError(_BAD_LOSS_NET, ["loss_net has no parameters to train"])


def _call_module(
    what: str,
    module: nn.Module,
    x: Tensor | tuple[Tensor, ...],
    wanted: tuple[int, ...],
    subject: str = _SUBJECT,
) -> Tensor:
    """Return a module's output for contexts, or other inputs, checked for its shape."""
    inputs = x if isinstance(x, tuple) else (x,)
    shapes = ", ".join(str(tuple(one.shape)) for one in inputs)
    kind = "inputs" if isinstance(x, tuple) else "contexts"
    expected = f"for {kind} {shapes}; expected {wanted}"
    try:
        with torch.no_grad(), eval_mode(module):
            output = module(*inputs)
            found = tuple(output.shape)
    except Exception as error:  # a user's module may raise anything
        failed = f"{what} gave an error ({type(error).__name__}: {error})"
        raise DataError(subject, [f"{failed} {expected}"]) from error
    if found != wanted:
        raise DataError(subject, [f"{what} gave {found} {expected}"])
    return output
