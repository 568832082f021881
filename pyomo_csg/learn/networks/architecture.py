"""Describe a network's architecture in JSON types, and restore it from that."""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.location_scale import Forecast
from pyomo_csg.learn.generators.network_description import (
    CUSTOM,
    KIND,
    check_arrays,
    network_parts,
    read_setting,
    read_size,
)
from pyomo_csg.learn.networks.domains import Omega
from pyomo_csg.learn.networks.task_nets import (
    BoundedLinear,
    Constant,
    Feedforward,
    LocationScaleHead,
    OmegaHead,
    Recurrent,
    TaskNet,
)
from pyomo_csg.learn.trainer import torch_seed

logger = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=type[nn.Module])
_KINDS: dict[str, type[nn.Module]] = {}


def buildable(kind: Kind) -> Kind:
    """Register a class of modules that is stored by name; usable as a decorator.

    Its instances keep their constructor's arguments (numbers and tuples of numbers) in a
    dict ``settings``, and their constructor computes nothing from tensor values.
    """
    _KINDS[kind.__name__] = kind
    return kind


for _kind in (Feedforward, Recurrent, Constant, Forecast, BoundedLinear):
    buildable(_kind)


def describe_network(network: TaskNet) -> dict[str, Any]:
    """Return a network's architecture in JSON types; of a user's module, only its class."""
    head = network.head
    places: dict[str, Any] = {"kind": type(head).__name__}
    if type(head) is LocationScaleHead:
        places["location"] = _describe_module(head.location)
        places["scale"] = _describe_module(head.scale)
    elif type(head) is not OmegaHead:
        found = f"its head is a {type(head).__name__}"
        wanted = "give an OmegaHead or a LocationScaleHead"
        raise DataError("The network cannot be described", [f"{found}; {wanted}"])
    return {
        "kind": KIND,
        "body": _describe_module(network.body),
        "head": places,
        "contexts": len(network.center),
        "numbers": len(head.omega.center),
    }


def restore_network(
    description: Mapping[str, Any],
    state: Mapping[str, Tensor],
    custom: Mapping[str, nn.Module] | None = None,
) -> TaskNet:
    """Return the network of a description with the tensors of ``state``, or a DataError.

    ``custom`` holds a module for each of ``custom_parts``; the network copies them.
    Sizes are compared before memory is allocated.
    """
    copies = {place: copy.deepcopy(part) for place, part in (custom or {}).items()}
    with torch.device("meta"):
        sketch = _build(description, copies).state_dict()
    wanted, found = (
        {name: _tensor_type(x) for name, x in one.items()} for one in (sketch, state)
    )
    check_arrays(wanted, found)
    with torch_seed():  # initial weights are drawn, then replaced
        network = _build(description, copies)
    network.load_state_dict(dict(state))
    return network


def _describe_module(module: nn.Module) -> dict[str, Any]:
    name = type(module).__name__
    if _KINDS.get(name) is not type(module):
        return {"kind": CUSTOM, "class": name}
    settings: Any = module.settings
    return {"kind": name, "settings": {key: _to_json(x) for key, x in settings.items()}}


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_to_json(x) for x in value]
    return value if isinstance(value, bool | str | float) else operator.index(value)


def _build(description: Mapping[str, Any], custom: Mapping[str, nn.Module]) -> TaskNet:
    try:
        parts = {
            place: _build_part(place, p, custom)
            for place, p in network_parts(description)
        }
        omega = Omega(
            *(torch.zeros(read_size(description["numbers"])) for _ in range(4))
        )
        head = _build_head(description["head"]["kind"], parts, omega)
        scaling = (torch.zeros(read_size(description["contexts"])) for _ in range(2))
        return TaskNet(parts["body"], head, *scaling)
    except DataError:
        raise
    except Exception as error:  # any error of a constructor with bad settings
        found = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DataError("The network cannot be built", [found]) from error


def _build_head(kind: str, parts: Mapping[str, nn.Module], omega: Omega) -> nn.Module:
    if kind == "LocationScaleHead":
        return LocationScaleHead(parts["location"], parts["scale"], omega)
    if kind == "OmegaHead":
        return OmegaHead(omega)
    raise ValueError(f"there is no head of kind {kind!r}")


def _build_part(
    place: str, part: Mapping[str, Any], custom: Mapping[str, nn.Module]
) -> nn.Module:
    if part["kind"] != CUSTOM:
        if part["kind"] not in _KINDS:
            raise ValueError(f"there is no network of kind {part['kind']!r}")
        settings = {key: read_setting(value) for key, value in part["settings"].items()}
        return _KINDS[part["kind"]](**settings)
    if place not in custom:
        found = f"its {place} is a module of your own, of class '{part['class']}'"
        raise DataError("The network cannot be built", [f"{found}; give it"])
    found = type(custom[place]).__name__
    if found != part["class"]:
        logger.warning(
            "The network's %s was of class '%s'; the one given is of class '%s'",
            *(place, part["class"], found),
        )
    return custom[place]


def _tensor_type(tensor: Tensor) -> str:
    kind = str(tensor.dtype).removeprefix("torch.")
    return f"{kind} {tuple(tensor.shape)}"
