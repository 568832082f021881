"""Descriptions of Task-Nets in JSON types, and the arrays that they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.generators.array_networks import TYPES

KIND = "network"
CUSTOM = "custom"  # the kind of a user's module
DOMAIN = ("lower", "upper", "center", "spread")  # the arrays of Omega
_HEADS = ("OmegaHead", "LocationScaleHead")
_MAX_SIZE = 2**31
_MAX_LAYERS = 64
_MAX_PROBLEMS = 10


def network_parts(
    description: Mapping[str, Any],
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and description of a network's body, location and scale."""
    yield "body", description["body"]
    for place in ("location", "scale"):
        if place in description["head"]:
            yield place, description["head"][place]


def custom_parts(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the class names of user modules among body, location and scale."""
    if description.get("kind") != KIND:
        return {}
    return {
        place: str(part.get("class"))
        for place, part in network_parts(description)
        if part.get("kind") == CUSTOM
    }


def check_description(
    description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Raise a DataError unless a network can be made from a description and arrays.

    Both may be hostile: no memory is allocated by the sizes that they claim.
    """
    try:
        wanted = dict(_array_types(description))
    except Exception as error:  # any error of a function with bad settings
        found = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DataError("The network cannot be built", [found]) from error
    check_arrays(wanted, {name: f"{x.dtype} {x.shape}" for name, x in arrays.items()})
    _check_widths(description)


def check_arrays(wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise a DataError if arrays differ from what a network takes, by type and shape."""
    problems = []
    if missing := [name for name in wanted if name not in found]:
        problems.append(f"there are no numbers for {shortlist(missing)}")
    if unknown := [name for name in found if name not in wanted]:
        problems.append(f"the network has no place for {shortlist(unknown)}")
    problems += [
        f"'{name}' is {found[name]}; the network takes {kind}"
        for name, kind in wanted.items()
        if found.get(name, kind) != kind
    ]
    if more := problems[_MAX_PROBLEMS:]:
        problems[_MAX_PROBLEMS:] = [f"... and {len(more)} more"]
    if problems:
        raise DataError("The network does not fit its numbers", problems)


def read_setting(value: Any) -> Any:
    """Return a network's setting, or raise a ValueError if it is implausible."""
    if isinstance(value, list):
        return read_sizes(value)
    return value if isinstance(value, bool | float) else read_size(value)


def read_size(value: Any) -> int:
    """Return a size, or raise a ValueError if it is implausible."""
    if not isinstance(value, int) or not 0 <= value < _MAX_SIZE:
        raise ValueError(f"{value!r:.40} is not a size")
    return value


def read_sizes(values: Sequence[Any]) -> tuple[int, ...]:
    """Return several sizes, or raise a ValueError if they are implausible."""
    if len(values) > _MAX_LAYERS:
        raise ValueError(f"a setting of {len(values)} numbers")
    return tuple(read_size(x) for x in values)


def _array_types(description: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names and types of the arrays of a network."""
    kind = description["head"]["kind"]
    if kind not in _HEADS:
        raise ValueError(f"there is no head of kind {kind!r:.40}")
    contexts, numbers = (read_size(description[key]) for key in ("contexts", "numbers"))
    for name in ("center", "spread"):
        yield name, f"float64 {(contexts,)}"
    for name in DOMAIN:
        yield f"head.omega.{name}", f"float64 {(numbers,)}"
    parts = dict(network_parts(description))
    if (kind == "LocationScaleHead") != ("location" in parts and "scale" in parts):
        raise ValueError(f"a {kind} with {shortlist(parts)}")
    for place, part in parts.items():
        if part["kind"] not in TYPES or (part["kind"] == "Forecast") != (
            place != "body"
        ):
            raise ValueError(f"there is no network of kind {part['kind']!r:.40} there")
        settings = {key: read_setting(x) for key, x in part["settings"].items()}
        start = place if place == "body" else f"head.{place}"
        for name, dtype, shape in TYPES[part["kind"]](**settings):
            yield f"{start}.{name}", f"{dtype} {shape}"


def _check_widths(description: Mapping[str, Any]) -> None:
    """Raise a DataError if the parts of a network do not fit together."""
    contexts, numbers = description["contexts"], description["numbers"]
    body = description["body"]["settings"]
    count, width = body["shape"]
    problems = []
    if count < 1 or numbers < 1 or width not in (numbers, numbers + 1):
        problems.append(f"its body gives {count} scenarios of {width} numbers")
    if body.get("inputs", contexts) != contexts:
        problems.append(f"its body takes {body['inputs']} numbers, not {contexts}")
    shape = description["context_shape"]
    if len(shape) not in (1, 2) or shape[-1] != contexts:
        problems.append(f"its contexts have shape {shape}")
    is_recurrent = description["body"]["kind"] == "Recurrent"
    if description["body"]["kind"] != "Constant" and is_recurrent != (len(shape) == 2):
        problems.append(f"its body does not take contexts of shape {shape}")
    for place, part in network_parts(description):
        settings = part["settings"]
        if place != "body" and (
            settings["numbers"] != numbers or list(settings["context_shape"]) != shape
        ):
            problems.append(f"its {place} does not fit")
    if problems:
        raise DataError("The network does not fit together", problems)
