"""Omega: where the uncertain numbers live, as the last layer of a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn

from pyomo_csg.stages import TwoStageModel

_MARGIN = 0.01
_OPEN = 1e-6


class Omega(nn.Module):
    """Takes free numbers to outcomes that the Params' domains allow.

    A free number 0 becomes the center, and near it a unit becomes about one spread. An
    interval gives a scaled sigmoid, a bound on one side a softplus, no bound nothing.

    Parameters
    ----------
    lower, upper : array (p,)
        Infinite where there is no bound.
    center, spread : array (p,)
        Of the outcomes in the history.
    """

    lower: Tensor
    upper: Tensor
    center: Tensor
    spread: Tensor
    _where: Tensor
    _lower: Tensor
    _upper: Tensor
    _above: Tensor
    _below: Tensor
    _shift: Tensor
    _gain: Tensor
    _kinds: tuple[bool, ...] | None

    def __init__(self, lower: Any, upper: Any, center: Any, spread: Any):
        super().__init__()
        for name, values in zip(
            ("lower", "upper", "center", "spread"),
            (lower, upper, center, spread),
            strict=True,
        ):
            self.register_buffer(name, torch.as_tensor(values, dtype=torch.float64))
        self._derive()

    def forward(self, free: Tensor) -> Tensor:
        """Return outcomes (..., p)."""
        if self._kinds is None:
            self._kinds = tuple(bool(kind.any()) for kind in self._where)
        starts, ends, inside = self._kinds
        outcome = torch.addcmul(self.center, self.spread, free)
        if starts:
            start = nn.functional.softplus(free + self._above)
            start = torch.addcmul(self._lower, self.spread, start)
            outcome = torch.where(self._where[0], start, outcome)
        if ends:
            end = nn.functional.softplus(self._below - free)
            end = torch.addcmul(self._upper, self.spread, end, value=-1)
            outcome = torch.where(self._where[1], end, outcome)
        if inside:
            part = torch.sigmoid(torch.addcmul(self._shift, self._gain, free))
            part = torch.addcmul(self._lower, self._upper - self._lower, part)
            # Rounding may take the sum just above the upper end.
            outcome = torch.where(self._where[2], self.project(part), outcome)
        return outcome

    def numpy_function(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return the same as a function of arrays, on the numbers as they are now."""
        center, spread, lower, upper, above, below, shift, gain = (
            getattr(self, name).numpy()
            for name in ("center", "spread", "_lower", "_upper")
            + ("_above", "_below", "_shift", "_gain")
        )
        starting, ending, inner = self._where.numpy()

        def start(free: np.ndarray) -> np.ndarray:
            return lower + spread * _softplus(free + above)

        def end(free: np.ndarray) -> np.ndarray:
            return upper - spread * _softplus(below - free)

        def inside(free: np.ndarray) -> np.ndarray:
            part = lower + (upper - lower) * expit(shift + gain * free)
            return np.minimum(np.maximum(part, lower), upper)

        def anywhere(free: np.ndarray) -> np.ndarray:
            return center + spread * free

        rest = ~(starting | ending | inner)
        kinds = ((starting, start), (ending, end), (inner, inside), (rest, anywhere))
        (_, first), *others = ((where, of) for where, of in kinds if where.any())

        def outcomes(free: np.ndarray) -> np.ndarray:
            outcome = first(free)
            for where, of in others:
                outcome = np.where(where, of(free), outcome)
            return outcome

        return outcomes

    def _derive(self) -> None:
        """Compute once what every call needs of the bounds, the center and the spread."""
        low, high = torch.isfinite(self.lower), torch.isfinite(self.upper)
        lower = torch.where(low, self.lower, self.center - self.spread)
        highest = torch.maximum(self.center, lower) + self.spread
        upper = torch.where(high, self.upper, highest)
        width = (upper - lower).clamp(min=1e-300)
        share = ((self.center - lower) / width).clamp(_MARGIN, 1 - _MARGIN)
        for name, values in {
            "_where": torch.stack([low & ~high, high & ~low, low & high]),
            "_lower": lower,
            "_upper": upper,
            "_above": _softplus_inverse(_positive((self.center - lower) / self.spread)),
            "_below": _softplus_inverse(_positive((upper - self.center) / self.spread)),
            "_shift": torch.logit(share),
            "_gain": self.spread / (width * share * (1 - share)),
        }.items():
            self.register_buffer(name, values, persistent=False)
        self._kinds = None

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._derive()

    def max_slope(self) -> Tensor:
        """Return how fast each outcome (p,) moves with its free number, at most."""
        steepest = (self._upper - self._lower) * self._gain / 4
        return torch.where(self._where[2], steepest, self.spread)

    def inverse(self, outcome: Tensor) -> Tensor:
        """Return the free numbers (..., p) that become outcomes, or what is nearest."""
        starts, ends, inside = self._where
        lower, upper = self._lower, self._upper
        outcome = self.project(outcome)
        start = _softplus_inverse(_positive((outcome - lower) / self.spread))
        end = _softplus_inverse(_positive((upper - outcome) / self.spread))
        width = (upper - lower).clamp(min=1e-300)
        part = ((outcome - lower) / width).clamp(1e-4, 1 - 1e-4)
        free = (outcome - self.center) / self.spread
        free = torch.where(starts, start - self._above, free)
        free = torch.where(ends, self._below - end, free)
        return torch.where(inside, (torch.logit(part) - self._shift) / self._gain, free)

    def project(self, outcome: Tensor) -> Tensor:
        """Return the nearest outcomes that the domains allow."""
        return torch.minimum(torch.maximum(outcome, self.lower), self.upper)


def build_omega(two_stage: TwoStageModel, outcomes: np.ndarray) -> Omega:
    """Return Omega by the Params' domains, centered on outcomes (n, p)."""
    center, spread = outcomes.mean(axis=0), standard_spread(outcomes)
    return Omega(*domain_bounds(two_stage, spread), center, spread)


def domain_bounds(
    two_stage: TwoStageModel, spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends (p,) of the Params' domains; open ones moved in by spreads (p,)."""
    lower, upper = np.full(len(spread), -np.inf), np.full(len(spread), np.inf)
    for j, param in enumerate(two_stage.uncertain_params):
        domain = param.parent_component().domain
        low, high, _ = domain.get_interval()
        if low is not None:
            lower[j] = low if low in domain else low + _OPEN * spread[j]
        if high is not None:
            upper[j] = high if high in domain else high - _OPEN * spread[j]
    return lower, upper


def standard_spread(values: np.ndarray) -> np.ndarray:
    """Return the standard deviation over all axes but the last; 1 where it is none."""
    axes = tuple(range(values.ndim - 1))
    spread = values.std(axis=axes)
    size = np.abs(values).max(axis=axes, initial=0.0)
    return np.where(spread > 1e-12 * np.maximum(size, 1e-300), spread, 1.0)


def _positive(values: Tensor) -> Tensor:
    return values.clamp(min=_MARGIN)


def _softplus(values: np.ndarray) -> np.ndarray:
    """Return what torch's own gives, which from 20 on is the number itself."""
    return np.maximum(values, np.log1p(np.exp(np.minimum(values, 20.0))))


def _softplus_inverse(values: Tensor) -> Tensor:
    return values + torch.log(-torch.expm1(-values))
