"""Task-Nets: from a context to K scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.networks.domains import Omega


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Return a fully connected network with ReLU between its layers."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Let a module act as when it is used: without dropout, say; then as it did."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


class Feedforward(nn.Module):
    """An MLP: the body of a Task-Net for contexts (B, d).

    Parameters
    ----------
    inputs : int
        How many context numbers there are.
    shape : tuple of int
        Of the free numbers that come out for a context: (K, p), or (K, p + 1) with
        learned weights.
    hidden : sequence of int
        Units of the layers between.
    """

    def __init__(
        self, inputs: int, shape: tuple[int, int], hidden: Sequence[int] = (64, 64)
    ):
        super().__init__()
        self.settings = {"inputs": inputs, "shape": shape, "hidden": tuple(hidden)}
        self.shape = shape
        self.layers = mlp([inputs, *hidden, shape[0] * shape[1]])

    def forward(self, x: Tensor) -> Tensor:
        """Return free numbers (B, *shape)."""
        return self.layers(x).unflatten(-1, self.shape)

    def start_at(self, free: Tensor) -> None:
        """Make all contexts give about these free numbers (K, p)."""
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.weight.mul_(0.5)
        self.shift(free)

    def shift(self, free: Tensor) -> None:
        """Add free numbers (K, p) to what every context gives."""
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.bias.unflatten(0, self.shape)[:, : free.shape[-1]] += free


class Recurrent(nn.Module):
    """An LSTM whose last state an MLP reads: the body for panels (B, W, d).

    The LSTM has single precision: torch is five times as quick with it.
    """

    def __init__(
        self, inputs: int, shape: tuple[int, int], hidden: Sequence[int] = (32, 64)
    ):
        super().__init__()
        self.settings = {"inputs": inputs, "shape": shape, "hidden": tuple(hidden)}
        self.lstm = nn.LSTM(inputs, hidden[0], batch_first=True)
        self.head = Feedforward(hidden[0], shape, hidden[1:])

    def forward(self, x: Tensor) -> Tensor:
        """Return free numbers (B, *shape)."""
        states, _ = self.lstm(x.to(next(self.lstm.parameters()).dtype))
        return self.head(states[:, -1].double())

    def start_at(self, free: Tensor) -> None:
        """Make all contexts give about these free numbers (K, p)."""
        self.head.start_at(free)


class Constant(nn.Module):
    """The same scenarios for every context."""

    def __init__(self, shape: tuple[int, int]):
        super().__init__()
        self.settings = {"shape": shape}
        self.free = nn.Parameter(torch.zeros(shape, dtype=torch.float64))

    def reset_parameters(self) -> None:
        """Draw new free numbers, in standard deviations."""
        nn.init.normal_(self.free)

    def forward(self, x: Tensor) -> Tensor:
        """Return free numbers (B, *shape)."""
        return self.free.expand(x.shape[0], *self.free.shape)

    def start_at(self, free: Tensor) -> None:
        """Start at these free numbers (K, p)."""
        self.shift(free)

    def shift(self, free: Tensor) -> None:
        """Add free numbers (K, p) to what every context gives."""
        with torch.no_grad():
            self.free[:, : free.shape[-1]] += free


class Head(Protocol):
    """Places free numbers among the outcomes that the Params' domains allow."""

    omega: Omega

    def context_terms(self, x: Tensor) -> Tensor | None:
        """Return what the head knows of contexts (B, ...), as they are: (B, ...)."""

    def outcomes(self, free: Tensor, frame: Tensor | None) -> Tensor:
        """Return outcomes (..., B, K, p) for free numbers of that shape."""


class OmegaHead(nn.Module):
    """Scenarios are the free numbers, taken to Omega."""

    def __init__(self, omega: Omega):
        super().__init__()
        self.omega = omega

    def context_terms(self, x: Tensor) -> None:
        """Nothing: the context speaks through the free numbers alone."""

    def outcomes(self, free: Tensor, frame: Tensor | None) -> Tensor:
        """Return outcomes (..., p)."""
        return self.omega(free)


class LocationScaleHead(nn.Module):
    """Scenarios are location(x) + scale(x) * free, moved to Omega where they leave it.

    Parameters
    ----------
    location, scale : Module
        From contexts (B, ...) as they are to (B, p), in the outcomes' units.
    omega : Omega
    """

    def __init__(self, location: nn.Module, scale: nn.Module, omega: Omega):
        super().__init__()
        self.location, self.scale, self.omega = location, scale, omega

    def context_terms(self, x: Tensor) -> Tensor:
        """Return location and scale (B, 2, p)."""
        with torch.no_grad():
            return torch.stack([self.location(x), self.scale(x)], dim=1)

    def outcomes(self, free: Tensor, frame: Tensor | None) -> Tensor:
        """Return outcomes (..., B, K, p)."""
        assert frame is not None
        location, scale = frame[..., 0, None, :], frame[..., 1, None, :]
        return self.omega.project(location + scale * free)


class LocationScale:
    """Location and scale of the outcomes as the user knows them: ``network=`` of csg.fit.

    K atoms e_k are learned, the same for every context; scenario k of a context x is
    location(x) + scale(x) * e_k.

    Parameters
    ----------
    location, scale : Module or callable
        From contexts, as they are, to (n, p) in the outcomes' units: modules of tensors,
        or functions of arrays.
    """

    def __init__(self, location: Any, scale: Any):
        problems = [
            f"{name} is a {type(part).__name__}; give a module, or a function of arrays"
            for name, part in (("location", location), ("scale", scale))
            if not callable(part)
        ]
        if problems:
            raise DataError("There is no such csg.LocationScale", problems)
        self.location, self.scale = (
            part if isinstance(part, nn.Module) else FunctionModule(part)
            for part in (location, scale)
        )


class FunctionModule(nn.Module):
    """A function of arrays as a module."""

    def __init__(self, function: Any):
        super().__init__()
        self._function = function

    def forward(self, x: Tensor) -> Tensor:
        """Return what the function says of contexts (n, ...)."""
        return torch.as_tensor(self._function(x.numpy()), dtype=torch.float64)


class TaskNet(nn.Module):
    """From contexts to scenarios, and to their weights where they are learned.

    Parameters
    ----------
    body : Module
        From standardised contexts to free numbers (B, K, p), or (B, K, p + 1) where the
        last one is the logarithm of a weight.
    head : Head
        Takes free numbers to scenarios.
    center, spread : array (d,)
        Of the contexts in the history.
    """

    center: Tensor
    spread: Tensor

    def __init__(self, body: nn.Module, head: Any, center: Any, spread: Any):
        super().__init__()
        self.body, self.head = body, head
        self.register_buffer("center", torch.as_tensor(center, dtype=torch.float64))
        self.register_buffer("spread", torch.as_tensor(spread, dtype=torch.float64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scenarios (B, K, p) and weights (B, K) for contexts as they are."""
        free = self.body((x - self.center) / self.spread)
        return scenarios_from_output(free, self.head, self.head.context_terms(x))


def scenarios_from_output(
    free: Tensor, head: Any, frame: Tensor | None, noise: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return scenarios (..., K, p) and weights (..., K) of a body's free numbers.

    Parameters
    ----------
    free : tensor (..., K, p) or (..., K, p + 1)
    head : Head
    frame : tensor, optional
        What the head says of the contexts.
    noise : tensor (..., K, p), optional
        Added to the free numbers, so that scenarios stay in Omega.
    """
    numbers = len(head.omega.center)
    moved = free[..., :numbers]
    scenarios = head.outcomes(moved if noise is None else moved + noise, frame)
    if free.shape[-1] > numbers:
        return scenarios, torch.softmax(free[..., numbers], dim=-1)
    return scenarios, scenarios.new_full(free.shape[:-1], 1 / free.shape[-2])
