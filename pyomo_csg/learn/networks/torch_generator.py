"""Scenario generators from torch networks, and the description from which one is restored.

A network of the package becomes a function of arrays; one with a user's modules stays in
torch.
"""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.generators.network_description import (
    CUSTOM,
    KIND,
    check_arrays,
    network_parts,
    read_setting,
    read_size,
)
from pyomo_csg.learn.generators.network_generator import NetworkGenerator
from pyomo_csg.learn.generators.scenario_generator import ScenarioGenerator
from pyomo_csg.learn.networks.domains import Omega
from pyomo_csg.learn.networks.location_scale import Forecast
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
from pyomo_csg.storage import as_arrays

logger = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=type[nn.Module])
_KINDS: dict[str, type[nn.Module]] = {}
_BODIES = (Constant, Feedforward, BoundedLinear, Recurrent)


def buildable(kind: Kind) -> Kind:
    """Register a class of modules that is stored by name; usable as a decorator.

    Its instances keep their constructor's arguments (numbers and tuples of numbers) in a
    dict ``settings``, and their constructor computes nothing from tensor values.
    """
    _KINDS[kind.__name__] = kind
    return kind


for _kind in (*_BODIES, Forecast):
    buildable(_kind)


class TorchGenerator:
    """Scenarios from a network that has modules of a user, by torch."""

    def __init__(self, network: TaskNet, context_shape: Sequence[int]):
        self.network, self.context_shape = network.eval(), tuple(context_shape)

    @cached_property
    def _probe(self) -> Tensor:
        """The body's output for the mean context."""
        with torch.inference_mode():
            middle = self.network.center.expand(1, *self.context_shape)
            return self.network.body(middle - middle)

    @property
    def count(self) -> int:
        """K."""
        return self._probe.shape[1]

    @property
    def is_weighted(self) -> bool:
        """Whether the network generates weights, too."""
        return self._probe.shape[-1] > len(self.lower)

    @property
    def center(self) -> np.ndarray:
        """The mean (d,) of the contexts in the history."""
        return self.network.center.numpy(force=True)

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation (d,) of the contexts in the history."""
        return self.network.spread.numpy(force=True)

    @property
    def lower(self) -> np.ndarray:
        """The lower bounds (p,) of all scenarios."""
        return self.network.head.omega.lower.numpy(force=True)

    @property
    def upper(self) -> np.ndarray:
        """The upper bounds (p,) of all scenarios."""
        return self.network.head.omega.upper.numpy(force=True)

    @torch.inference_mode()
    def __call__(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scenarios (n, K, p) and weights (n, K)."""
        inputs = torch.from_numpy(contexts).to(self.network.center.device)
        scenarios, weights = self.network(inputs)
        return scenarios.cpu().numpy(), weights.cpu().numpy()

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the network's description, without modules of a user, and its state."""
        state = self.network.state_dict()
        if other := [name for name, x in state.items() if not isinstance(x, Tensor)]:
            found = f"its state has {shortlist(other)}, which is not a tensor"
            raise DataError("The network cannot be stored", [found])
        try:
            arrays = as_arrays(state)
        except TypeError as error:  # a dtype that NumPy or the file format lacks
            raise DataError("The network cannot be stored", [str(error)]) from error
        shape = list(self.context_shape)
        return {**describe_network(self.network), "context_shape": shape}, arrays


def generator_from_network(
    network: TaskNet, context_shape: Sequence[int]
) -> ScenarioGenerator:
    """Return a network as a generator, by arrays that share its memory if possible.

    That is not possible for modules of a user, and for parameters outside the CPU's
    memory or in another precision than the package's.
    """
    parts = chain(network.named_parameters(), network.named_buffers())
    if _is_known(network) and all(_is_supported(name, x) for name, x in parts):
        arrays = {name: x.numpy() for name, x in network.state_dict().items()}
        description = describe_network(network.eval())
        return NetworkGenerator(description, arrays, context_shape, network)
    return TorchGenerator(network, context_shape)


def restore_torch_generator(
    description: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    modules: Mapping[str, nn.Module],
) -> ScenarioGenerator:
    """Return the generator that ``to_arrays`` described, with a user's modules."""
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    network = restore_network(description, state, modules)
    return generator_from_network(network, description["context_shape"])


def _is_known(network: TaskNet) -> bool:
    """Whether all parts are of the package; subclasses may override forward."""
    head: Any = network.head
    if type(network.body) not in _BODIES:
        return False
    if type(head) is not LocationScaleHead:
        return type(head) is OmegaHead
    forecasts: list[Any] = [head.location, head.scale]
    return all(
        type(one) is Forecast and all(type(body) in _BODIES for body in one.bodies)
        for one in forecasts
    )


def _is_supported(name: str, tensor: Tensor) -> bool:
    kinds: tuple[torch.dtype, ...] = torch.float64, torch.bool
    if ".lstm." in name:
        kinds = torch.float64, torch.float32
    return tensor.dtype in kinds and tensor.device.type == "cpu"


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
