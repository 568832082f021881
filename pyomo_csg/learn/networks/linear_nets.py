"""Linear Task-Nets of bounded weights: the class that the paper's guarantees speak of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pyomo_csg.errors import DataError
from pyomo_csg.validation import positive_problems

_LEAST = 1e-12


@dataclass(frozen=True)
class Linear:
    """A linear Task-Net whose weights are bounded: ``network=`` of csg.fit.

    A scenario's free numbers are W (x, 1), where x is the standardised context; of each
    scenario, the Frobenius norm of W, with its column of constants, is at most ``bound``.
    The Params' domains then make outcomes of them: a free number 0 is the mean of the
    history, and a unit is about its standard deviation.

    Parameters
    ----------
    bound : float
        The smaller, the tighter the bounds of :mod:`pyomo_csg.guarantees`, and the nearer
        to the mean the scenarios.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> policy = csg.fit(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2, method="mmd",
    ...     network=csg.Linear(bound=1.5), progress=False,
    ... )
    >>> bool((policy.network.body.norms() <= 1.5).all())
    True
    """

    bound: float = 2.0

    def __post_init__(self) -> None:
        if problems := positive_problems(bound=self.bound):
            raise DataError("There is no such csg.Linear", problems)


class BoundedLinear(nn.Module):
    """The body of a :class:`Linear` Task-Net.

    Weights that have become too large count as if they were scaled back, so that whatever
    moves them leaves the network in its class.

    Parameters
    ----------
    inputs : int
        How many context numbers there are.
    shape : tuple of int
        Of the free numbers for a context: (K, p), or (K, p + 1) with learned weights.
    bound : float
        Of each scenario's Frobenius norm.
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
        """Return free numbers (B, K, p) for standardised contexts (B, d)."""
        weight = self.effective()
        return torch.einsum("bd,kpd->bkp", x, weight[..., :-1]) + weight[..., -1]

    def effective(self) -> Tensor:
        """Return the weights that count (K, p, d + 1); constants are the last column."""
        norms = self.weight.square().sum((-2, -1), keepdim=True).sqrt()
        return self.weight * (self.bound / norms.clamp(min=_LEAST)).clamp(max=1.0)

    def norms(self) -> Tensor:
        """Return the scenarios' Frobenius norms (K,)."""
        return self.effective().detach().square().sum((-2, -1)).sqrt()

    def start_at(self, free: Tensor) -> None:
        """Make all contexts give about these free numbers (K, p)."""
        with torch.no_grad():
            self.weight.mul_(0.5)
        self.shift(free)

    def shift(self, free: Tensor) -> None:
        """Add free numbers (K, p) to what every context gives, within the bound."""
        with torch.no_grad():
            self.weight[:, : free.shape[-1], -1] += free
