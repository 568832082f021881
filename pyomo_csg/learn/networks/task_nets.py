"""Task-Nets: networks from a context to K scenarios.

A body maps standardized contexts to unconstrained outputs ``free``; a head maps these to
outcomes within the Params' domains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from pyomo_csg.errors import DataError
from pyomo_csg.learn.networks.domains import Omega
from pyomo_csg.validation import Problems

_LEAST_NORM = 1e-12  # so that all-zero weights divide by something


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Return a fully connected network with ReLU between its layers."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Put a module and its parts in evaluation mode, then restore each part's mode."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


class Feedforward(nn.Module):
    """An MLP body from contexts (B, d) to outputs (B, K, p), or (B, K, p + 1) with weights."""

    def __init__(
        self, inputs: int, shape: tuple[int, int], hidden: Sequence[int] = (64, 64)
    ):
        super().__init__()
        self.settings = {"inputs": inputs, "shape": shape, "hidden": tuple(hidden)}
        self.shape = shape
        self.layers = mlp([inputs, *hidden, shape[0] * shape[1]])

    def forward(self, x: Tensor) -> Tensor:
        """Return unconstrained outputs (B, *shape)."""
        return self.layers(x).unflatten(-1, self.shape)

    def start_at(self, free: Tensor) -> None:
        """Start near these outputs (K, p) for every context."""
        with torch.no_grad():
            self._last_layer().weight.mul_(0.5)
        self.shift(free)

    def shift(self, free: Tensor) -> None:
        """Add (K, p) to the outputs for every context."""
        with torch.no_grad():
            bias = self._last_layer().bias.unflatten(0, self.shape)
            bias[:, : free.shape[-1]] += free

    def _last_layer(self) -> nn.Linear:
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        return last


class Recurrent(nn.Module):
    """A body for panels (B, W, d): an LSTM, and an MLP that reads its last state.

    The LSTM has single precision, which is five times as fast in torch.
    """

    def __init__(
        self, inputs: int, shape: tuple[int, int], hidden: Sequence[int] = (32, 64)
    ):
        super().__init__()
        self.settings = {"inputs": inputs, "shape": shape, "hidden": tuple(hidden)}
        self.lstm = nn.LSTM(inputs, hidden[0], batch_first=True)
        self.head = Feedforward(hidden[0], shape, hidden[1:])

    def forward(self, x: Tensor) -> Tensor:
        """Return unconstrained outputs (B, *shape)."""
        states, _ = self.lstm(x.to(next(self.lstm.parameters()).dtype))
        return self.head(states[:, -1].double())

    def start_at(self, free: Tensor) -> None:
        """Start near these outputs (K, p) for every context."""
        self.head.start_at(free)


class Constant(nn.Module):
    """A body that ignores the context: the same scenarios for all."""

    def __init__(self, shape: tuple[int, int]):
        super().__init__()
        self.settings = {"shape": shape}
        self.free = nn.Parameter(torch.zeros(shape, dtype=torch.float64))

    def reset_parameters(self) -> None:
        """Draw new outputs from the standard normal distribution."""
        nn.init.normal_(self.free)

    def forward(self, x: Tensor) -> Tensor:
        """Return unconstrained outputs (B, *shape)."""
        return self.free.expand(x.shape[0], *self.free.shape)

    def start_at(self, free: Tensor) -> None:
        """Start at these outputs (K, p)."""
        self.shift(free)

    def shift(self, free: Tensor) -> None:
        """Add (K, p) to the outputs."""
        with torch.no_grad():
            self.free[:, : free.shape[-1]] += free


@dataclass(frozen=True)
class Linear:
    """A linear Task-Net with bounded weights, for ``network=`` of :func:`pyomo_csg.fit`.

    The unconstrained outputs of a scenario are W (x, 1), where x is the standardized
    context. The Frobenius norm of W, including its column of constants, is at most
    ``bound`` for each scenario. The Params' domains turn these outputs into outcomes: 0
    is the mean of the history, and 1 is about one standard deviation away. The paper's
    guarantees are stated for this class of networks.

    Parameters
    ----------
    bound : float
        A smaller bound gives tighter bounds in :mod:`pyomo_csg.guarantees` and scenarios
        nearer to the mean.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> policy = csg.fit(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2, method="mmd",
    ...     network=csg.Linear(bound=1.5), progress=False,
    ... )
    >>> bool((policy.network.body.norms() <= 1.5).all())
    True
    """

    bound: float = 2.0

    def __post_init__(self) -> None:
        problems = Problems("There is no such csg.Linear")
        problems.check_positive(bound=self.bound)
        problems.raise_any()


class BoundedLinear(nn.Module):
    """The body of a :class:`Linear` Task-Net, for contexts (B, d).

    Weights beyond the bound are scaled back where they are used, so that any optimizer
    step leaves the network in its class.
    """

    def __init__(self, inputs: int, shape: tuple[int, int], bound: float):
        super().__init__()
        self.settings = {"inputs": inputs, "shape": shape, "bound": float(bound)}
        self.bound = float(bound)
        self.weight = nn.Parameter(torch.empty(*shape, inputs + 1, dtype=torch.float64))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, as torch.nn.Linear does."""
        reach = 1 / math.sqrt(self.weight.shape[-1] - 1)
        nn.init.uniform_(self.weight, -reach, reach)

    def forward(self, x: Tensor) -> Tensor:
        """Return unconstrained outputs (B, *shape)."""
        weight = self.scaled_weight()
        return torch.einsum("bd,kpd->bkp", x, weight[..., :-1]) + weight[..., -1]

    def scaled_weight(self) -> Tensor:
        """Return the weights within the bound (K, p, d + 1); constants come last."""
        norms = self.weight.square().sum((-2, -1), keepdim=True).sqrt()
        return self.weight * (self.bound / norms.clamp(min=_LEAST_NORM)).clamp(max=1.0)

    def norms(self) -> Tensor:
        """Return the scenarios' Frobenius norms (K,)."""
        return self.scaled_weight().detach().square().sum((-2, -1)).sqrt()

    def start_at(self, free: Tensor) -> None:
        """Start near these outputs (K, p) for every context."""
        with torch.no_grad():
            self.weight.mul_(0.5)
        self.shift(free)

    def shift(self, free: Tensor) -> None:
        """Add (K, p) to the outputs for every context, as far as the bound allows."""
        with torch.no_grad():
            self.weight[:, : free.shape[-1], -1] += free


class OmegaHead(nn.Module):
    """Scenarios are the outputs, mapped to Omega."""

    def __init__(self, omega: Omega):
        super().__init__()
        self.omega = omega

    def context_terms(self, x: Tensor) -> None:
        """Return None: only the body uses the context."""

    def outcomes(self, free: Tensor, terms: Tensor | None) -> Tensor:
        """Return outcomes (..., p)."""
        return self.omega(free)


class LocationScaleHead(nn.Module):
    """Scenarios are location(x) + scale(x) * output, projected to Omega.

    ``location`` and ``scale`` map raw contexts (B, ...) to (B, p), in the outcomes' units.
    """

    def __init__(self, location: nn.Module, scale: nn.Module, omega: Omega):
        super().__init__()
        self.location, self.scale, self.omega = location, scale, omega

    def context_terms(self, x: Tensor) -> Tensor:
        """Return location and scale (B, 2, p)."""
        with torch.no_grad():
            return torch.stack([self.location(x), self.scale(x)], dim=1)

    def outcomes(self, free: Tensor, terms: Tensor | None) -> Tensor:
        """Return outcomes (..., B, K, p)."""
        assert terms is not None
        location, scale = terms[..., 0, None, :], terms[..., 1, None, :]
        return self.omega.project(location + scale * free)


class LocationScale:
    """A known location and scale of the outcomes, for ``network=`` of csg.fit.

    Scenario k of a context x is location(x) + scale(x) * e_k. The K atoms e_k are learned
    and are the same for every context.

    Parameters
    ----------
    location, scale : Module or callable
        From raw contexts to (n, p) in the outcomes' units: modules of tensors, or
        functions of arrays.

    Examples
    --------
    >>> import numpy as np
    >>> known = LocationScale(lambda x: 15 + x[:, :1], lambda x: np.ones((len(x), 1)))
    >>> known.location(torch.zeros(2, 3)).tolist()
    [[15.0], [15.0]]
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

    def __repr__(self) -> str:
        return f"LocationScale({self.location!r}, {self.scale!r})"


class FunctionModule(nn.Module):
    """A function of arrays as a module."""

    def __init__(self, function: Any):
        super().__init__()
        self._function = function

    def extra_repr(self) -> str:
        """Return the function's name."""
        return getattr(self._function, "__name__", repr(self._function))

    def forward(self, x: Tensor) -> Tensor:
        """Return the function's values for contexts (n, ...)."""
        return torch.as_tensor(self._function(x.numpy()), dtype=torch.float64)


class TaskNet(nn.Module):
    """A network from contexts to scenarios and their weights.

    The body maps standardized contexts to outputs (B, K, p), or (B, K, p + 1) where the
    last is the logarithm of a weight. Center and spread (d,) are those of the contexts.
    """

    center: Tensor
    spread: Tensor

    def __init__(self, body: nn.Module, head: Any, center: Any, spread: Any):
        super().__init__()
        self.body, self.head = body, head
        self.register_buffer("center", torch.as_tensor(center, dtype=torch.float64))
        self.register_buffer("spread", torch.as_tensor(spread, dtype=torch.float64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scenarios (B, K, p) and weights (B, K) for raw contexts."""
        free = self.body((x - self.center) / self.spread)
        return scenarios_from_output(free, self.head, self.head.context_terms(x))


def scenarios_from_output(
    free: Tensor, head: Any, terms: Tensor | None, noise: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return scenarios (..., K, p) and weights (..., K) from a body's output.

    ``noise`` (..., K, p) is added to the output, so that scenarios stay within Omega.
    """
    numbers = len(head.omega.center)
    moved = free[..., :numbers]
    scenarios = head.outcomes(moved if noise is None else moved + noise, terms)
    if free.shape[-1] > numbers:
        return scenarios, torch.softmax(free[..., numbers], dim=-1)
    return scenarios, scenarios.new_full(free.shape[:-1], 1 / free.shape[-2])
