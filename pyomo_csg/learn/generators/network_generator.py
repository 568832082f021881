"""Scenarios from a trained network: its arrays in NumPy, the torch network on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyomo_csg.learn.generators.array_networks import (
    body_function,
    domain_map,
    forecast_function,
    softmax,
    within,
)
from pyomo_csg.learn.generators.network_description import (
    DOMAIN,
    check_description,
    read_sizes,
)

if TYPE_CHECKING:
    from pyomo_csg.learn.networks.task_nets import TaskNet


class NetworkGenerator:
    """Scenarios from a network of the package, described as by ``describe_network``.

    It shares memory with its network, and so follows changes in place.
    """

    def __init__(
        self,
        description: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        context_shape: Sequence[int],
        network: TaskNet | None = None,
    ):
        self._description = dict(description)
        self.context_shape = tuple(context_shape)
        self._network = network
        self._use(arrays)

    @classmethod
    def restore(
        cls, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> NetworkGenerator:
        """Return the generator of a description, which may be hostile.

        Sizes are compared before memory is allocated.
        """
        check_description(description, arrays)
        return cls(description, arrays, read_sizes(description["context_shape"]))

    @property
    def count(self) -> int:
        """K."""
        return int(self._description["body"]["settings"]["shape"][0])

    @property
    def is_weighted(self) -> bool:
        """Whether the network generates weights, too."""
        return bool(self._description["body"]["settings"]["shape"][1] > len(self.lower))

    @property
    def center(self) -> np.ndarray:
        """The mean (d,) of the contexts in the history."""
        return self._arrays["center"]

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation (d,) of the contexts in the history."""
        return self._arrays["spread"]

    @property
    def lower(self) -> np.ndarray:
        """The lower bounds (p,) of all scenarios."""
        return self._arrays["head.omega.lower"]

    @property
    def upper(self) -> np.ndarray:
        """The upper bounds (p,) of all scenarios."""
        return self._arrays["head.omega.upper"]

    @property
    def network(self) -> TaskNet:
        """The torch network, built on first use."""
        if self._network is None:
            import torch

            from pyomo_csg.learn.networks.torch_generator import restore_network

            state = {name: torch.from_numpy(x) for name, x in self._arrays.items()}
            network = restore_network(self._description, state).eval()
            self._use({name: x.numpy() for name, x in network.state_dict().items()})
            self._network = network
        return self._network

    def __call__(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scenarios (n, K, p) and weights (n, K)."""
        numbers = len(self.lower)
        free = self._body((contexts - self.center) / self.spread)
        scenarios = self._place(free[..., :numbers], contexts)
        if free.shape[-1] == numbers:
            return scenarios, np.full(free.shape[:-1], 1 / free.shape[-2])
        return scenarios, softmax(free[..., numbers])

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the description of the network, and its parameters and buffers."""
        shape = list(self.context_shape)
        return {**self._description, "context_shape": shape}, dict(self._arrays)

    def __reduce__(self) -> Any:
        arrays = {name: np.array(array) for name, array in self._arrays.items()}
        return NetworkGenerator, (self._description, arrays, self.context_shape)

    def _use(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Generate from these arrays."""
        self._arrays = dict(arrays)
        body = self._description["body"]
        self._body = body_function(
            body["kind"], body["settings"], within(arrays, "body")
        )
        self._place = self._head_function()

    def _head_function(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return the head as a function of outputs (B, K, p) and raw contexts."""
        head = self._description["head"]
        omega = [self._arrays[f"head.omega.{name}"] for name in DOMAIN]
        if head["kind"] == "OmegaHead":
            outcomes = domain_map(*omega)
            return lambda free, x: outcomes(free)
        lower, upper, *_ = omega
        frame = forecast_function(
            [
                (head[part]["settings"], within(self._arrays, f"head.{part}"))
                for part in ("location", "scale")
            ]
        )

        def place(free: np.ndarray, x: np.ndarray) -> np.ndarray:
            location, scale = frame(x)
            moved = location[:, None] + scale[:, None] * free
            return np.minimum(np.maximum(moved, lower), upper)

        return place
