"""The Rademacher complexity of linear Task-Nets with bounded weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pyomo_csg.errors import DataError
from pyomo_csg.learn.networks.task_nets import BoundedLinear, OmegaHead, TaskNet


@dataclass(frozen=True, eq=False)
class LinearClass:
    """The bounded linear task mappings that contain a Task-Net (Definition 2).

    ``bound`` limits the Frobenius norm of each scenario's weights; it is 1 in the paper.
    ``slope`` (p,) is L_rho, the largest derivative of each output with respect to its raw
    value.
    """

    scenarios: int
    numbers: int
    bound: float
    slope: np.ndarray
    network: TaskNet

    def radius(self, contexts: np.ndarray) -> float:
        """Return the largest norm of (x, 1) for standardized contexts (n, d)."""
        center, spread = self.network.center.numpy(), self.network.spread.numpy()
        squares = (((contexts - center) / spread) ** 2).sum(axis=1)
        return math.sqrt(float(squares.max()) + 1)

    def complexity(
        self, count: int, radius: float, unit: np.ndarray | float = 1.0
    ) -> float:
        """Return the bound K bound norm(L_rho) B / sqrt(n), with outcomes in ``unit``.

        It is the paper's L_rho K B sqrt(p / n) if L_rho is the same for all outcomes and
        the bound is 1.
        """
        slope = float(np.linalg.norm(self.slope / unit))
        return self.scenarios * self.bound * slope * radius / math.sqrt(count)

    def reach(self, radius: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the box (p,), (p,) of all scenarios for contexts within the radius."""
        raw = torch.full((self.numbers,), self.bound * radius, dtype=torch.float64)
        omega: Any = self.network.head.omega
        with torch.no_grad():
            return omega(-raw).numpy(), omega(raw).numpy()


def linear_class(network: Any) -> LinearClass:
    """Return the class of a Task-Net fitted with :class:`pyomo_csg.Linear`."""
    body, head = getattr(network, "body", None), getattr(network, "head", None)
    subject = "The network has no bounded complexity"
    if not isinstance(body, BoundedLinear) or not isinstance(head, OmegaHead):
        found = f"it is a {type(body).__name__}"
        remedy = "fit with network=csg.Linear(bound) and a method other than 'auto'"
        raise DataError(subject, [f"{found}; {remedy}"])
    count, numbers, _ = body.weight.shape
    if numbers != len(head.omega.center):
        found = "the weights of its scenarios are learned; fit with weights='equal'"
        raise DataError(subject, [found])
    slope = head.omega.max_slope().numpy()
    return LinearClass(count, numbers, body.bound, slope, network)
