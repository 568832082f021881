"""The Rademacher complexity of linear Task-Nets whose weights are bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pyomo_csg.errors import DataError
from pyomo_csg.learn.networks.linear_nets import BoundedLinear
from pyomo_csg.learn.networks.task_nets import OmegaHead, TaskNet


@dataclass(frozen=True, eq=False)
class LinearClass:
    """The bounded linear task mappings that a Task-Net is one of (Definition 2).

    Attributes
    ----------
    scenarios, numbers : int
        K and p.
    bound : float
        Of each scenario's Frobenius norm: 1 in the paper.
    speed : array (p,)
        L_rho: how fast each outcome moves with its free number.
    network : TaskNet
    """

    scenarios: int
    numbers: int
    bound: float
    speed: np.ndarray
    network: TaskNet

    def radius(self, contexts: np.ndarray) -> float:
        """Return the largest norm of contexts (n, d) as the weights see them: (x, 1)."""
        center, spread = self.network.center.numpy(), self.network.spread.numpy()
        squares = (((contexts - center) / spread) ** 2).sum(axis=1)
        return math.sqrt(float(squares.max()) + 1)

    def complexity(
        self, count: int, radius: float, unit: np.ndarray | float = 1.0
    ) -> float:
        """Return the bound of the Rademacher complexity for n pairs.

        K bound norm(L_rho) B / sqrt(n), which is the paper's L_rho K B sqrt(p / n) where
        L_rho is the same for all outcomes and the bound is 1.

        Parameters
        ----------
        count : int
            n.
        radius : float
            B, as of :meth:`radius`.
        unit : array (p,), optional
            In which outcomes are measured.
        """
        speed = float(np.linalg.norm(self.speed / unit))
        return self.scenarios * self.bound * speed * radius / math.sqrt(count)

    def reach(self, radius: float) -> tuple[np.ndarray, np.ndarray]:
        """Return what outcomes (p,) scenarios are between, for contexts in the radius."""
        free = torch.full((self.numbers,), self.bound * radius, dtype=torch.float64)
        omega: Any = self.network.head.omega
        with torch.no_grad():
            return omega(-free).numpy(), omega(free).numpy()


def linear_class(network: TaskNet | None) -> LinearClass:
    """Return the class of a Task-Net that was trained as a :class:`pyomo_csg.Linear`.

    Raises
    ------
    DataError
        If it is another one, or has learned weights.
    """
    body, head = getattr(network, "body", None), getattr(network, "head", None)
    subject = "The network is not of the class that bounds are for"
    if (
        network is None
        or not isinstance(body, BoundedLinear)
        or not isinstance(head, OmegaHead)
    ):
        found = f"it is a {type(body).__name__}, whose complexity is not bounded"
        remedy = "fit with network=csg.Linear(bound), and a method but 'auto'"
        raise DataError(subject, [f"{found}; {remedy}"])
    count, numbers, _ = body.weight.shape
    if numbers != len(head.omega.center):
        found = "its scenarios' weights are learned; fit with weights='equal'"
        raise DataError(subject, [found])
    speed = head.omega.max_slope().numpy()
    return LinearClass(count, numbers, body.bound, speed, network)
