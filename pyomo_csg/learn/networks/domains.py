"""Omega, the domain of the outcomes, as the last layer of a network."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.stages import TwoStageModel

_INSET = 1e-6  # of open bounds, in standard deviations
_MARGIN = 0.01  # keeps centers on a bound invertible


class Omega(nn.Module):
    """Maps unconstrained numbers to outcomes within the Params' domains.

    0 becomes the center, and near it 1 is about one spread. An interval is mapped by a
    scaled sigmoid, a one-sided bound by a softplus, an unbounded domain linearly. Center
    and spread (p,) are those of the history; bounds (p,) that do not exist are infinite.
    """

    lower: Tensor
    upper: Tensor
    center: Tensor
    spread: Tensor
    _where: Tensor
    _lower: Tensor
    _upper: Tensor
    _lower_shift: Tensor
    _upper_shift: Tensor
    _shift: Tensor
    _gain: Tensor
    _present: tuple[bool, ...] | None

    def __init__(self, lower: Any, upper: Any, center: Any, spread: Any):
        super().__init__()
        buffers = {"lower": lower, "upper": upper, "center": center, "spread": spread}
        for name, values in buffers.items():
            self.register_buffer(name, torch.as_tensor(values, dtype=torch.float64))
        self._derive()

    def forward(self, free: Tensor) -> Tensor:
        """Return outcomes (..., p)."""
        if self._present is None:
            self._present = tuple(bool(kind.any()) for kind in self._where)
        has_lower, has_upper, has_both = self._present
        outcome = torch.addcmul(self.center, self.spread, free)
        if has_lower:
            start = nn.functional.softplus(free + self._lower_shift)
            start = torch.addcmul(self._lower, self.spread, start)
            outcome = torch.where(self._where[0], start, outcome)
        if has_upper:
            end = nn.functional.softplus(self._upper_shift - free)
            end = torch.addcmul(self._upper, self.spread, end, value=-1)
            outcome = torch.where(self._where[1], end, outcome)
        if has_both:
            part = torch.sigmoid(torch.addcmul(self._shift, self._gain, free))
            part = torch.addcmul(self._lower, self._upper - self._lower, part)
            # Rounding may take the sum just above the upper bound.
            outcome = torch.where(self._where[2], self.project(part), outcome)
        return outcome

    def _derive(self) -> None:
        """Compute the constants of the maps from the bounds, the center and the spread."""
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
            "_lower_shift": _softplus_inverse((self.center - lower) / self.spread),
            "_upper_shift": _softplus_inverse((upper - self.center) / self.spread),
            "_shift": torch.logit(share),
            "_gain": self.spread / (width * share * (1 - share)),
        }.items():
            self.register_buffer(name, values, persistent=False)
        self._present = None

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._derive()

    def max_slope(self) -> Tensor:
        """Return the largest derivative of each outcome (p,)."""
        steepest = (self._upper - self._lower) * self._gain / 4
        return torch.where(self._where[2], steepest, self.spread)

    def inverse(self, outcome: Tensor) -> Tensor:
        """Return the unconstrained numbers (..., p) of outcomes, or of the nearest ones."""
        has_lower, has_upper, has_both = self._where
        lower, upper = self._lower, self._upper
        outcome = self.project(outcome)
        start = _softplus_inverse((outcome - lower) / self.spread)
        end = _softplus_inverse((upper - outcome) / self.spread)
        width = (upper - lower).clamp(min=1e-300)
        part = ((outcome - lower) / width).clamp(1e-4, 1 - 1e-4)
        free = (outcome - self.center) / self.spread
        free = torch.where(has_lower, start - self._lower_shift, free)
        free = torch.where(has_upper, self._upper_shift - end, free)
        return torch.where(
            has_both, (torch.logit(part) - self._shift) / self._gain, free
        )

    def project(self, outcome: Tensor) -> Tensor:
        """Return the nearest outcomes within the domains."""
        return torch.minimum(torch.maximum(outcome, self.lower), self.upper)


def domain_bounds(
    two_stage: TwoStageModel, spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds (p,) of the Params' domains; open bounds are moved inward."""
    lower, upper = np.full(len(spread), -np.inf), np.full(len(spread), np.inf)
    for j, param in enumerate(two_stage.uncertain_params):
        domain = param.parent_component().domain
        low, high, _ = domain.get_interval()
        if low is not None:
            lower[j] = low if low in domain else low + _INSET * spread[j]
        if high is not None:
            upper[j] = high if high in domain else high - _INSET * spread[j]
    return lower, upper


def build_omega(two_stage: TwoStageModel, outcomes: np.ndarray) -> Omega:
    """Return Omega for the Params' domains, centered on outcomes (n, p)."""
    center, spread = outcomes.mean(axis=0), standard_spread(outcomes)
    return Omega(*domain_bounds(two_stage, spread), center, spread)


def _softplus_inverse(values: Tensor) -> Tensor:
    values = values.clamp(min=_MARGIN)
    return values + torch.log(-torch.expm1(-values))
