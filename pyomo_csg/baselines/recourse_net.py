"""A network for the expected recourse cost, small enough to be part of a program."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.baselines.embedding import ReluLayer
from pyomo_csg.learn.networks import mlp
from pyomo_csg.learn.omega import spread_of

_CODE = (64,)


class RecourseNet(nn.Module):
    """The expected recourse cost of a decision in a context.

    One ReLU layer reads the decision; its biases are a network's code of the context.
    Decisions and costs are standardised within.

    Parameters
    ----------
    features : int
        How many numbers a context has.
    hidden : int
        Units of the layer that reads the decision.
    decisions : array (m, s)
    costs : array (m,)
        What is to be learned, and gives the scale.
    """

    center: Tensor
    spread: Tensor
    cost_center: Tensor
    cost_spread: Tensor

    def __init__(
        self, features: int, hidden: int, decisions: np.ndarray, costs: np.ndarray
    ):
        super().__init__()
        self.code = mlp([features, *_CODE, hidden])
        width = decisions.shape[1]
        self.inputs = nn.Linear(width, hidden, bias=False, dtype=torch.float64)
        self.outputs = nn.Linear(hidden, 1, dtype=torch.float64)
        for name, values in {
            "center": decisions.mean(axis=0),
            "spread": spread_of(decisions),
            "cost_center": costs.mean(),
            "cost_spread": spread_of(costs[:, None])[0],
        }.items():
            self.register_buffer(name, torch.as_tensor(values))

    def forward(self, features: Tensor, decisions: Tensor) -> Tensor:
        """Return costs (B,) of features (B, f) and decisions (B, s)."""
        read = self.inputs((decisions - self.center) / self.spread)
        units = torch.relu(read + self.code(features))
        return self.cost_center + self.cost_spread * self.outputs(units)[..., 0]

    def layer(self) -> ReluLayer:
        """Return the part that reads decisions, in their own units."""
        weights, outputs, bias = (
            part.detach().numpy()
            for part in (self.inputs.weight, self.outputs.weight[0], self.outputs.bias)
        )
        unit = self.cost_spread.item()
        constant = self.cost_center.item() + unit * float(bias[0])
        return ReluLayer(weights / self.spread.numpy(), unit * outputs, constant)

    def biases(self, features: np.ndarray) -> np.ndarray:
        """Return the biases (n, H) of that layer, for contexts of features (n, f)."""
        with torch.no_grad():
            codes = self.code(torch.as_tensor(features))
            return (codes - self.inputs(self.center / self.spread)).numpy()
