"""Task-Nets in NumPy: for one context, torch's call overhead exceeds its arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor, nn

from pyomo_csg.learn.distributions.location_scale import Forecast
from pyomo_csg.learn.networks.task_nets import (
    Constant,
    Feedforward,
    LocationScaleHead,
    OmegaHead,
    Recurrent,
    TaskNet,
)

Function = Callable[[np.ndarray], np.ndarray]
Generator = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def numpy_generator(network: TaskNet) -> Generator | None:
    """Return a network as a function of arrays, or None if that is not supported.

    Not supported are modules of a user and parameters outside the CPU's memory. The
    function maps raw contexts (B, d) or (B, W, d) to scenarios (B, K, p) and weights
    (B, K). It shares memory with the network, and so follows changes in place.
    """
    parts = chain(network.named_parameters(), network.named_buffers())
    if not all(_is_supported(name, tensor) for name, tensor in parts):
        return None
    body, place = _body_function(network.body), _head_function(network.head)
    if body is None or place is None:
        return None
    center, spread = _array(network.center), _array(network.spread)
    numbers = len(network.head.omega.center)

    def generate(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        free = body((x - center) / spread)
        scenarios = place(free[..., :numbers], x)
        if free.shape[-1] > numbers:
            return scenarios, softmax(free[..., numbers], axis=-1)
        return scenarios, np.full(free.shape[:-1], 1 / free.shape[-2])

    return generate


def _is_supported(name: str, tensor: Tensor) -> bool:
    kinds: tuple[torch.dtype, ...] = torch.float64, torch.bool
    if ".lstm." in name:
        kinds = torch.float64, torch.float32
    return tensor.dtype in kinds and tensor.device.type == "cpu"


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def _body_function(body: nn.Module) -> Function | None:
    # Exact classes only, because a subclass may override forward.
    if type(body) is Recurrent:
        alone = _recurrent([body])
        return lambda x: alone(x[None])[0]
    return _SINGLE[type(body)](body) if type(body) in _SINGLE else None


def _stacked_bodies(bodies: list[Any]) -> Function | None:
    """Return a function from contexts (S, B, ...) to outputs (S, B, K, p) of S bodies.

    It is None if a body is not supported.
    """
    if all(type(body) is Recurrent for body in bodies):
        return _recurrent(bodies)
    each = [one for body in bodies if (one := _body_function(body)) is not None]
    if len(each) < len(bodies):
        return None
    return lambda x: np.stack([one(mine) for one, mine in zip(each, x, strict=True)])


def _constant(body: Constant) -> Function:
    free = _array(body.free)
    return lambda x: np.broadcast_to(free, (len(x), *free.shape))


def _feedforward(body: Feedforward) -> Function:
    linear = [layer for layer in body.layers if isinstance(layer, nn.Linear)]
    *hidden, last = ((_array(one.weight).T, _array(one.bias)) for one in linear)

    def forward(x: np.ndarray) -> np.ndarray:
        for weight, bias in hidden:
            x = np.maximum(x @ weight + bias, 0.0)
        return (x @ last[0] + last[1]).reshape(-1, *body.shape)

    return forward


_SINGLE: dict[type, Callable[[Any], Function]] = {
    Constant: _constant,
    Feedforward: _feedforward,
}


def _recurrent(bodies: list[Recurrent]) -> Function:
    """Return LSTMs of one size as one function, which runs them in parallel."""
    heads = [_feedforward(body.head) for body in bodies]
    parts = [[_array(one).T for one in body.lstm.parameters()] for body in bodies]
    kind = parts[0][0].dtype
    # One tanh serves all four gates: sigmoid(x) = (1 + tanh(x / 2)) / 2.
    slopes = np.array([0.5, 0.5, 1.0, 0.5], kind)[:, None, None, None]

    def forward(x: np.ndarray) -> np.ndarray:
        entering, back, bias, other = (
            _by_gate(np.stack(one)) for one in zip(*parts, strict=True)
        )
        bias = slopes * (bias + other)
        input_terms = _input_terms(slopes * entering, bias, x.astype(kind))
        back = slopes * back
        gates = np.empty(input_terms.shape[1:], kind)
        take, keep, new, show = gates  # views
        # Copied once, because broadcasting in the loop is slower.
        slope = np.array(np.broadcast_to(slopes, gates.shape))
        level = 1 - slope
        state, memory, fresh = np.zeros((3, *take.shape), kind)
        for step in input_terms:
            np.matmul(state, back, out=gates)
            gates += step
            np.tanh(gates, out=gates)
            gates *= slope
            gates += level
            memory *= keep
            np.multiply(take, new, out=fresh)
            memory += fresh
            np.tanh(memory, out=state)
            state *= show
        ends = state.astype(float)
        return np.stack([head(end) for head, end in zip(heads, ends, strict=True)])

    return forward


def _by_gate(numbers: np.ndarray) -> np.ndarray:
    """Return LSTM parameters (S, n, 4 H) or (S, 4 H) by gate: (4, S, n, H)."""
    apart = numbers.reshape(len(numbers), -1, 4, numbers.shape[-1] // 4)
    return np.ascontiguousarray(apart.transpose(2, 0, 1, 3))


def _input_terms(entering: np.ndarray, bias: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the gates' input terms for panels (S, B, W, d): (W, 4, S, B, H)."""
    networks, cases, steps, inputs = x.shape
    input_terms = x.reshape(networks, -1, inputs) @ entering + bias
    input_terms = input_terms.reshape(4, networks, cases, steps, -1)
    return np.ascontiguousarray(input_terms.transpose(3, 0, 1, 2, 4))


def _head_function(head: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """Return a head as a function of outputs (B, K, p) and raw contexts, or None."""
    if type(head) is OmegaHead:
        omega = head.omega.numpy_function()
        return lambda free, x: omega(free)
    if type(head) is not LocationScaleHead:
        return None
    frame = _forecast_function([head.location, head.scale])
    if frame is None:
        return None
    lower, upper = _array(head.omega.lower), _array(head.omega.upper)

    def place(free: np.ndarray, x: np.ndarray) -> np.ndarray:
        location, scale = frame(x)
        moved = location[:, None] + scale[:, None] * free
        return np.minimum(np.maximum(moved, lower), upper)

    return place


def _forecast_function(
    forecasts: list[Any],
) -> Callable[[np.ndarray], list[np.ndarray]] | None:
    """Return forecasts (B, p) as one function of contexts, or None."""
    if not all(type(forecast) is Forecast for forecast in forecasts):
        return None
    each = _stacked_bodies([body for forecast in forecasts for body in forecast.bodies])
    if each is None:
        return None
    sizes = [len(forecast.bodies) for forecast in forecasts]
    ends = np.cumsum(sizes)[:-1]
    scaled = [_scaled(forecast) for forecast in forecasts]
    views = [(_array(one.center), _array(one.spread)) for one in forecasts]

    def frame(x: np.ndarray) -> list[np.ndarray]:
        inputs = np.stack([(x - center) / spread for center, spread in views])
        outputs = np.split(each(inputs.repeat(sizes, axis=0)), ends)
        pairs = zip(scaled, outputs, strict=True)
        return [scale(output.mean(axis=0)) for scale, output in pairs]

    return frame


def _scaled(forecast: Forecast) -> Function:
    """Return the function from the mean of a forecast's networks (B, 1, p) to (B, p)."""
    offset, unit = _array(forecast.offset), _array(forecast.unit)
    skill = _array(forecast.skill)

    def scaled(free: np.ndarray) -> np.ndarray:
        moved = free[:, 0] * skill
        if forecast.positive:
            return offset * np.exp(2.5 * np.tanh(moved / 2.5))
        return offset + unit * moved

    return scaled
