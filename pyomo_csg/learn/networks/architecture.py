"""A network's architecture in JSON's types, and the network again from that."""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.distributions.location_scale import Forecast
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
from pyomo_csg.learn.random_state import torch_seed

logger = logging.getLogger(__name__)

_CUSTOM = "custom"
_MOST_UNITS = 2**31
_MOST_LAYERS = 64
_MOST_PROBLEMS = 10

Kind = TypeVar("Kind", bound=type[nn.Module])
_KINDS: dict[str, type[nn.Module]] = {}


def buildable(kind: Kind) -> Kind:
    """Let a class of modules be described by name; usable as a decorator.

    Its instances keep their constructor's arguments, numbers and tuples of numbers, in a
    dict ``settings``, and their constructor computes nothing from tensors' values.
    """
    _KINDS[kind.__name__] = kind
    return kind


for _kind in (Feedforward, Recurrent, Constant, Forecast, BoundedLinear):
    buildable(_kind)


def describe_network(network: TaskNet) -> dict[str, Any]:
    """Return a network's architecture in JSON's types.

    A module of a class that is not known here, such as a user's own, is described by its
    class's name alone.

    Examples
    --------
    >>> body = Constant((5, 1))
    >>> head = OmegaHead(Omega([0.0], [float("inf")], [15.0], [0.25]))
    >>> describe(TaskNet(body, head, [0.0, 0.0], [1.0, 1.0]))["body"]
    {'kind': 'Constant', 'settings': {'shape': [5, 1]}}
    """
    head = network.head
    places: dict[str, Any] = {"kind": type(head).__name__}
    if type(head) is LocationScaleHead:
        places["location"] = _described(head.location)
        places["scale"] = _described(head.scale)
    elif type(head) is not OmegaHead:
        found = f"its head is a {type(head).__name__}; give an OmegaHead or a "
        raise DataError(
            "The network cannot be described", [found + "LocationScaleHead"]
        )
    return {
        "body": _described(network.body),
        "head": places,
        "contexts": len(network.center),
        "numbers": len(head.omega.center),
    }


def custom_parts(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the class's name of each part that only its user can make.

    The parts are ``'body'``, ``'location'`` and ``'scale'``.
    """
    return {
        place: str(part.get("class"))
        for place, part in _parts(description)
        if part.get("kind") == _CUSTOM
    }


def restore_network(
    description: Mapping[str, Any],
    state: Mapping[str, Tensor],
    custom: Mapping[str, nn.Module] | None = None,
) -> TaskNet:
    """Return the network with the numbers of ``state``, which must fit exactly.

    Sizes are compared before anything of such a size is made.

    Parameters
    ----------
    description : mapping
        From :func:`describe_network`, perhaps by way of JSON.
    state : mapping of str to Tensor
    custom : mapping, optional
        A module for each of :func:`custom_parts`; the network takes copies.

    Raises
    ------
    DataError
    """
    copies = {place: copy.deepcopy(part) for place, part in (custom or {}).items()}
    with torch.device("meta"):
        sketch = _built(description, copies).state_dict()
    problems = list(_mismatches(sketch, state))
    if more := problems[_MOST_PROBLEMS:]:
        problems[_MOST_PROBLEMS:] = [f"... and {len(more)} more"]
    if problems:
        raise DataError("The network does not fit its numbers", problems)
    with torch_seed():  # first weights are drawn, then replaced
        network = _built(description, copies)
    network.load_state_dict(dict(state))
    return network


def _described(module: nn.Module) -> dict[str, Any]:
    name = type(module).__name__
    if _KINDS.get(name) is not type(module):
        return {"kind": _CUSTOM, "class": name}
    settings: Any = module.settings
    return {"kind": name, "settings": {key: _plain(x) for key, x in settings.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(x) for x in value]
    return value if isinstance(value, bool | str | float) else operator.index(value)


def _parts(description: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    head = description["head"]
    yield "body", description["body"]
    for place in ("location", "scale"):
        if place in head:
            yield place, head[place]


def _built(description: Mapping[str, Any], custom: Mapping[str, nn.Module]) -> TaskNet:
    try:
        parts = {place: _part(place, p, custom) for place, p in _parts(description)}
        omega = Omega(*(torch.zeros(_size(description["numbers"])) for _ in range(4)))
        head = _head(description["head"]["kind"], parts, omega)
        scaling = (torch.zeros(_size(description["contexts"])) for _ in range(2))
        return TaskNet(parts["body"], head, *scaling)
    except DataError:
        raise
    except Exception as error:  # whatever a constructor makes of settings that are off
        found = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DataError("The network cannot be built", [found]) from error


def _head(kind: str, parts: Mapping[str, nn.Module], omega: Omega) -> nn.Module:
    if kind == "LocationScaleHead":
        return LocationScaleHead(parts["location"], parts["scale"], omega)
    if kind == "OmegaHead":
        return OmegaHead(omega)
    raise ValueError(f"there is no head of kind {kind!r}")


def _part(
    place: str, part: Mapping[str, Any], custom: Mapping[str, nn.Module]
) -> nn.Module:
    if part["kind"] == _CUSTOM:
        return _given(place, part, custom)
    if part["kind"] not in _KINDS:
        raise ValueError(f"there is no network of kind {part['kind']!r}")
    settings = {key: _setting(value) for key, value in part["settings"].items()}
    return _KINDS[part["kind"]](**settings)


def _given(
    place: str, part: Mapping[str, Any], custom: Mapping[str, nn.Module]
) -> nn.Module:
    if place not in custom:
        found = f"its {place} is a module of your own, of class '{part['class']}'"
        raise DataError("The network cannot be built", [f"{found}; give it"])
    if type(custom[place]).__name__ != part["class"]:
        logger.warning(
            "The network's %s was of class '%s'; the one given is of class '%s'",
            place,
            part["class"],
            type(custom[place]).__name__,
        )
    return custom[place]


def _setting(value: Any) -> Any:
    """Return a constructor's argument, if it is of a kind and size to be believed."""
    if isinstance(value, list):
        if len(value) > _MOST_LAYERS:
            raise ValueError(f"a setting of {len(value)} numbers")
        return tuple(_size(x) for x in value)
    return value if isinstance(value, bool | str | float) else _size(value)


def _size(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < _MOST_UNITS:
        raise ValueError(f"{value!r:.40} is not a size")
    return value


def _mismatches(
    wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]
) -> Iterator[str]:
    if missing := [name for name in wanted if name not in found]:
        yield f"there are no numbers for {shortlist(missing)}"
    if unknown := [name for name in found if name not in wanted]:
        yield f"the network has no place for {shortlist(unknown)}"
    for name in wanted:
        if name in found and _kind_of(wanted[name]) != _kind_of(found[name]):
            yield (
                f"'{name}' is {_kind_of(found[name])}; the network takes "
                f"{_kind_of(wanted[name])}"
            )


def _kind_of(tensor: Tensor) -> str:
    kind = str(tensor.dtype).removeprefix("torch.")
    return f"{kind} {tuple(tensor.shape)}"
