"""A Task-Net in plain arrays: for one context torch's calls outlast its arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor, nn

from pyomo_csg.learn.forecast import Forecast
from pyomo_csg.learn.networks import (
    Constant,
    Feedforward,
    LocationScaleHead,
    OmegaHead,
    Recurrent,
    TaskNet,
)

Function = Callable[[np.ndarray], np.ndarray]
Generator = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def plain(network: TaskNet) -> Generator | None:
    """Return a network's function of arrays; None where it has parts that have none.

    Those are a module of a user's own, or numbers elsewhere than in this machine's memory.
    The function sees the network's own numbers, also as they change in place.

    Parameters
    ----------
    network : TaskNet

    Returns
    -------
    callable or None
        From contexts (B, d) or (B, W, d), as they are, to scenarios (B, K, p) and weights
        (B, K).

    Examples
    --------
    >>> from pyomo_csg.learn.omega import Omega
    >>> head = OmegaHead(Omega([0.0], [float("inf")], [15.0], [0.25]))
    >>> generate = plain(TaskNet(Constant((5, 1)), head, [0.0, 0.0], [1.0, 1.0]))
    >>> scenarios, weights = generate(np.zeros((1, 2)))
    >>> scenarios[0, :, 0], weights[0]
    (array([15., 15., 15., 15., 15.]), array([0.2, 0.2, 0.2, 0.2, 0.2]))
    """
    parts = chain(network.named_parameters(), network.named_buffers())
    if not all(_is_at_hand(name, tensor) for name, tensor in parts):
        return None
    body, place = _body(network.body), _place(network.head)
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


def _is_at_hand(name: str, tensor: Tensor) -> bool:
    kinds: tuple[torch.dtype, ...] = torch.float64, torch.bool
    if ".lstm." in name:  # which has single precision, and has double here
        kinds = torch.float64, torch.float32
    return tensor.dtype in kinds and tensor.device.type == "cpu"


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def _body(body: nn.Module) -> Function | None:
    # By their very class: one derived from it may do as it likes.
    if type(body) is Feedforward:
        return _feedforward(body)
    if type(body) is Recurrent:
        return _recurrent([body])
    if type(body) is Constant:
        free = _array(body.free)
        return lambda x: np.broadcast_to(free, (len(x), *free.shape))
    return None


def _mean(bodies: list[Any]) -> Function | None:
    """Return the mean of bodies; None where one has no function of arrays."""
    if all(type(body) is Recurrent for body in bodies):
        return _recurrent(bodies)
    each = [one for body in bodies if (one := _body(body)) is not None]
    if len(each) < len(bodies):
        return None
    return lambda x: np.mean([one(x) for one in each], axis=0)


def _feedforward(body: Feedforward) -> Function:
    linear = [layer for layer in body.layers if isinstance(layer, nn.Linear)]
    *hidden, last = ((_array(one.weight).T, _array(one.bias)) for one in linear)

    def forward(x: np.ndarray) -> np.ndarray:
        for weight, bias in hidden:
            x = np.maximum(x @ weight + bias, 0.0)
        return (x @ last[0] + last[1]).reshape(-1, *body.shape)

    return forward


def _recurrent(bodies: list[Recurrent]) -> Function:
    """Return the mean of LSTMs of one size, which go through the steps together."""
    heads = [_feedforward(body.head) for body in bodies]
    parts = [[_array(one).T for one in body.lstm.parameters()] for body in bodies]
    size = bodies[0].lstm.hidden_size
    # All four gates by one tanh: a sigmoid is (1 + tanh(x / 2)) / 2.
    slope = np.repeat([0.5, 0.5, 1.0, 0.5], size)
    level = 1.0 - slope

    def forward(x: np.ndarray) -> np.ndarray:
        given = _given(parts, x) * slope
        back = np.stack([returning for _, returning, *_ in parts]) * slope
        state, memory = np.zeros((2, len(bodies), len(x), size))
        gates = np.empty((len(bodies), len(x), 4 * size))
        take, keep, new, show = np.split(gates, 4, axis=-1)  # which see it change
        for step in given:
            np.matmul(state, back, out=gates)
            gates += step
            np.tanh(gates, out=gates)
            gates *= slope
            gates += level
            memory *= keep
            memory += take * new
            np.tanh(memory, out=state)
            state *= show
        told = [head(one) for head, one in zip(heads, state, strict=True)]
        return np.mean(told, axis=0)

    return forward


def _given(parts: list[list[np.ndarray]], x: np.ndarray) -> np.ndarray:
    """Return what panels (B, W, d) add to the gates of some LSTMs: (W, S, B, 4 H)."""
    entering, _, bias, other = (np.hstack(part) for part in zip(*parts, strict=True))
    given = x.swapaxes(0, 1) @ entering + bias + other
    return given.reshape(*given.shape[:2], len(parts), -1).swapaxes(1, 2)


def _place(head: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """Return the function of free numbers (B, K, p) and of contexts as they are."""
    if type(head) is OmegaHead:
        omega = head.omega.plain()
        return lambda free, x: omega(free)
    if type(head) is not LocationScaleHead:
        return None
    location, scale = _forecast(head.location), _forecast(head.scale)
    if location is None or scale is None:
        return None
    lower, upper = _array(head.omega.lower), _array(head.omega.upper)

    def place(free: np.ndarray, x: np.ndarray) -> np.ndarray:
        moved = location(x)[:, None] + scale(x)[:, None] * free
        return np.minimum(np.maximum(moved, lower), upper)

    return place


def _forecast(forecast: nn.Module) -> Function | None:
    if type(forecast) is not Forecast:
        return None
    if (body := _mean(list(forecast.bodies))) is None:
        return None
    center, spread = _array(forecast.center), _array(forecast.spread)
    offset, unit = _array(forecast.offset), _array(forecast.unit)
    skill = _array(forecast.skill)

    def forward(x: np.ndarray) -> np.ndarray:
        moved = body((x - center) / spread)[:, 0] * skill
        if forecast.positive:
            return offset * np.exp(2.5 * np.tanh(moved / 2.5))
        return offset + unit * moved

    return forward
