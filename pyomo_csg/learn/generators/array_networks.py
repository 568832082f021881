"""The parts of Task-Nets as functions of arrays: bodies, forecasts, domains.

For one context, torch's call overhead exceeds the arithmetic. A function shares memory
with its arrays, and so follows changes in place. Arrays are named as in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]
Arrays = Mapping[str, np.ndarray]
Types = Iterator[tuple[str, str, tuple[int, ...]]]  # of arrays: name, dtype, shape

_LEAST_NORM = 1e-12  # so that all-zero weights divide by something
_LEAST_WIDTH = 1e-300  # of an interval
_MARGIN = 0.01  # keeps centers on a bound invertible, as in networks.domains
_MAX_MEMBERS = 64


def feedforward_types(
    inputs: int, shape: Sequence[int], hidden: Sequence[int] = (64, 64)
) -> Types:
    """Yield the arrays of an MLP."""
    count, numbers = shape
    for i, (entering, leaving) in enumerate(
        pairwise([inputs, *hidden, count * numbers])
    ):
        yield f"layers.{2 * i}.weight", "float64", (leaving, entering)
        yield f"layers.{2 * i}.bias", "float64", (leaving,)


def recurrent_types(
    inputs: int, shape: Sequence[int], hidden: Sequence[int] = (32, 64)
) -> Types:
    """Yield the arrays of an LSTM, and of the MLP that reads its last state."""
    units = hidden[0]
    for name, size in (("ih", inputs), ("hh", units)):
        yield f"lstm.weight_{name}_l0", "float32", (4 * units, size)
        yield f"lstm.bias_{name}_l0", "float32", (4 * units,)
    for name, kind, wanted in feedforward_types(units, shape, hidden[1:]):
        yield f"head.{name}", kind, wanted


def constant_types(shape: Sequence[int]) -> Types:
    """Yield the array of scenarios that do not depend on the context."""
    count, numbers = shape
    yield "free", "float64", (count, numbers)


def bounded_linear_types(inputs: int, shape: Sequence[int], bound: float) -> Types:
    """Yield the array of a linear network with bounded weights."""
    count, numbers = shape
    yield "weight", "float64", (count, numbers, inputs + 1)


def forecast_types(
    context_shape: Sequence[int],
    numbers: int,
    hidden: Sequence[int],
    positive: bool,
    members: int = 4,
) -> Types:
    """Yield the arrays of the mean of several networks."""
    if not 1 <= members <= _MAX_MEMBERS:
        raise ValueError(f"a forecast by {members} networks")
    kind = feedforward_types if len(context_shape) == 1 else recurrent_types
    for i in range(members):
        for name, dtype, shape in kind(context_shape[-1], (1, numbers), hidden):
            yield f"bodies.{i}.{name}", dtype, shape
    for name in ("center", "spread"):
        yield name, "float64", (context_shape[-1],)
    for name in ("offset", "unit", "skill"):
        yield name, "float64", (numbers,)


TYPES: dict[str, Callable[..., Types]] = {
    "Feedforward": feedforward_types,
    "Recurrent": recurrent_types,
    "Constant": constant_types,
    "BoundedLinear": bounded_linear_types,
    "Forecast": forecast_types,
}


def within(arrays: Arrays, part: str) -> dict[str, np.ndarray]:
    """Return the arrays of a part, without its name."""
    start = f"{part}."
    return {
        name.removeprefix(start): array
        for name, array in arrays.items()
        if name.startswith(start)
    }


def body_function(kind: str, settings: Mapping[str, Any], arrays: Arrays) -> Function:
    """Return a body, from standardized contexts (B, ...) to outputs (B, K, p)."""
    if kind == "Recurrent":
        alone = _recurrent([arrays], settings["shape"])
        return lambda x: alone(x[None])[0]
    if kind == "Feedforward":
        return _feedforward(arrays, settings["shape"])
    if kind == "Constant":
        return _constant(arrays)
    return _bounded_linear(arrays, settings["bound"])


def _constant(arrays: Arrays) -> Function:
    free = arrays["free"]
    return lambda x: np.broadcast_to(free, (len(x), *free.shape))


def _bounded_linear(arrays: Arrays, bound: float) -> Function:
    weight = arrays["weight"]

    def forward(x: np.ndarray) -> np.ndarray:
        norms = np.sqrt((weight**2).sum(axis=(-2, -1), keepdims=True))
        scaled = weight * np.minimum(bound / np.maximum(norms, _LEAST_NORM), 1.0)
        flat = scaled.reshape(-1, weight.shape[-1])
        free = x @ flat[:, :-1].T + flat[:, -1]
        return free.reshape(-1, *weight.shape[:2])

    return forward


def _feedforward(arrays: Arrays, shape: Sequence[int]) -> Function:
    layers = range(len(arrays) // 2)
    *hidden, last = (
        (arrays[f"layers.{2 * i}.weight"].T, arrays[f"layers.{2 * i}.bias"])
        for i in layers
    )

    def forward(x: np.ndarray) -> np.ndarray:
        for weight, bias in hidden:
            x = np.maximum(x @ weight + bias, 0.0)
        return (x @ last[0] + last[1]).reshape(-1, *shape)

    return forward


def _recurrent(bodies: Sequence[Arrays], shape: Sequence[int]) -> Function:
    """Return LSTMs of one size as one function, which runs them in parallel."""
    heads = [_feedforward(within(body, "head"), shape) for body in bodies]
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    parts = [[body[f"lstm.{name}_l0"].T for name in names] for body in bodies]
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


def forecast_function(
    forecasts: Sequence[tuple[Mapping[str, Any], Arrays]],
) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Return forecasts (B, p) as one function of raw contexts (B, ...).

    Each is a pair of settings and arrays.
    """
    bodies = [
        (_body_kind(settings), within(arrays, f"bodies.{i}"))
        for settings, arrays in forecasts
        for i in range(_members(settings))
    ]
    each = _stacked_bodies(bodies, (1, forecasts[0][0]["numbers"]))
    sizes = [_members(settings) for settings, _ in forecasts]
    ends = np.cumsum(sizes)[:-1]
    scaled = [_forecast_function(settings, arrays) for settings, arrays in forecasts]
    views = [(arrays["center"], arrays["spread"]) for _, arrays in forecasts]

    def frame(x: np.ndarray) -> list[np.ndarray]:
        inputs = np.stack([(x - center) / spread for center, spread in views])
        outputs = np.split(each(inputs.repeat(sizes, axis=0)), ends)
        pairs = zip(scaled, outputs, strict=True)
        return [scale(output.mean(axis=0)) for scale, output in pairs]

    return frame


def _members(settings: Mapping[str, Any]) -> int:
    return int(settings.get("members", 4))


def _body_kind(settings: Mapping[str, Any]) -> str:
    return "Feedforward" if len(settings["context_shape"]) == 1 else "Recurrent"


def _stacked_bodies(
    bodies: Sequence[tuple[str, Arrays]], shape: Sequence[int]
) -> Function:
    """Return a function from contexts (S, B, ...) to outputs (S, B, 1, p) of S bodies."""
    units = {
        arrays["lstm.weight_hh_l0"].shape
        for kind, arrays in bodies
        if kind == "Recurrent"
    }
    if len(units) == 1 and all(kind == "Recurrent" for kind, _ in bodies):
        return _recurrent([arrays for _, arrays in bodies], shape)
    each = [body_function(kind, {"shape": shape}, arrays) for kind, arrays in bodies]
    return lambda x: np.stack([one(mine) for one, mine in zip(each, x, strict=True)])


def _forecast_function(settings: Mapping[str, Any], arrays: Arrays) -> Function:
    """Return the function from the mean of a forecast's networks (B, 1, p) to (B, p)."""
    offset, unit, skill = arrays["offset"], arrays["unit"], arrays["skill"]

    def scaled(free: np.ndarray) -> np.ndarray:
        moved = free[:, 0] * skill
        if settings["positive"]:
            return offset * np.exp(2.5 * np.tanh(moved / 2.5))
        return offset + unit * moved

    return scaled


def domain_map(
    lower: np.ndarray, upper: np.ndarray, center: np.ndarray, spread: np.ndarray
) -> Function:
    """Return the function of arrays (..., p) that ``networks.domains.Omega`` is in torch.

    An interval is mapped by a scaled sigmoid, a one-sided bound by a softplus, an
    unbounded domain linearly.
    """
    low, high = np.isfinite(lower), np.isfinite(upper)
    least = np.where(low, lower, center - spread)
    most = np.where(high, upper, np.maximum(center, least) + spread)
    with np.errstate(all="ignore"):  # numbers of a hostile file may overflow
        width = np.maximum(most - least, _LEAST_WIDTH)
        share = np.clip((center - least) / width, _MARGIN, 1 - _MARGIN)
        shift = np.log(share / (1 - share))
        gain = spread / (width * share * (1 - share))
        lower_shift = _softplus_inverse((center - least) / spread)
        upper_shift = _softplus_inverse((most - center) / spread)

    def above(free: np.ndarray) -> np.ndarray:
        return least + spread * _softplus(free + lower_shift)

    def below(free: np.ndarray) -> np.ndarray:
        return most - spread * _softplus(upper_shift - free)

    def between(free: np.ndarray) -> np.ndarray:
        part = least + (most - least) * (0.5 + 0.5 * np.tanh((shift + gain * free) / 2))
        return np.minimum(np.maximum(part, least), most)

    def anywhere(free: np.ndarray) -> np.ndarray:
        return center + spread * free

    kinds = (
        (low & ~high, above),
        (high & ~low, below),
        (low & high, between),
        (~low & ~high, anywhere),
    )
    (_, first), *others = (kind for kind in kinds if kind[0].any())

    def outcomes(free: np.ndarray) -> np.ndarray:
        outcome = first(free)
        for where, function in others:
            outcome = np.where(where, function(free), outcome)
        return outcome

    return outcomes


def softmax(logs: np.ndarray) -> np.ndarray:
    """Return the weights (..., K) of their logarithms."""
    shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def _softplus(values: np.ndarray) -> np.ndarray:
    """Return torch's softplus, which is the identity from 20 on."""
    return np.maximum(values, np.log1p(np.exp(np.minimum(values, 20.0))))


def _softplus_inverse(values: np.ndarray) -> np.ndarray:
    values = np.maximum(values, _MARGIN)
    return values + np.log(-np.expm1(-values))
