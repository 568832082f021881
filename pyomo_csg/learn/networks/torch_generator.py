"""Scenario generators from torch networks: in NumPy where that is possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.distributions.location_scale import Forecast
from pyomo_csg.learn.generators.network_generator import NetworkGenerator
from pyomo_csg.learn.generators.scenario_generator import ScenarioGenerator
from pyomo_csg.learn.networks.architecture import describe_network, restore_network
from pyomo_csg.learn.networks.task_nets import (
    BoundedLinear,
    Constant,
    Feedforward,
    LocationScaleHead,
    OmegaHead,
    Recurrent,
    TaskNet,
)
from pyomo_csg.storage import as_arrays

_BODIES = (Constant, Feedforward, BoundedLinear, Recurrent)


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
