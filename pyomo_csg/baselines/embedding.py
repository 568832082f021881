"""A ReLU network in place of the recourse: the first stage and the network as one MIP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.modeling import unique_component_name
from pyomo.core.base.block import BlockData

from pyomo_csg.stages import TwoStageModel, annotate
from pyomo_csg.transform.removal import RecourseRemoval


@dataclass(frozen=True, eq=False)
class ReluLayer:
    """A cost of decisions: constant + outputs @ max(0, inputs @ y + bias).

    Attributes
    ----------
    inputs : array (H, s)
    outputs : array (H,)
    constant : float
    """

    inputs: np.ndarray
    outputs: np.ndarray
    constant: float

    def __call__(self, decision: np.ndarray, bias: np.ndarray) -> float:
        """Return the cost of a decision (s,) at a bias (H,)."""
        units = np.maximum(self.inputs @ decision + bias, 0.0)
        return float(self.constant + self.outputs @ units)


def embed(
    two_stage: TwoStageModel, layer: ReluLayer, lower: np.ndarray, upper: np.ndarray
) -> BlockData:
    """Return the model with h(y) and first-stage constraints whose recourse is a network.

    It is annotated: the first stage is as it was, the uncertain numbers are the layer's
    biases, and so an oracle solves it for one set of biases as for one scenario. In a
    unit that adds to the cost nothing holds the maximum down but the cost; the others
    have a binary variable each, and constraints whose constants follow from the bounds.

    Parameters
    ----------
    two_stage : TwoStageModel
        It stays as it is.
    layer : ReluLayer
        The expected recourse cost, lower being better whatever the model's sense.
    lower, upper : array (s,)
        Finite bounds of the decision, which hold beside those of the variables.
    """
    two_stage = two_stage.copied()
    removal = RecourseRemoval(two_stage)
    model, variables = two_stage.model, two_stage.first_stage_variables
    network = pyo.Block()
    model.add_component(unique_component_name(model, "network"), network)
    _fill(network, layer, variables, (lower, upper))
    sense = int(two_stage.sense)
    two_stage.objective.set_value(two_stage.first_stage_cost + sense * network.cost)
    removal.run()
    for v, low, high in zip(variables, lower.tolist(), upper.tolist(), strict=True):
        if not v.fixed:
            v.setlb(low if v.lb is None else max(v.lb, low))
            v.setub(high if v.ub is None else min(v.ub, high))
    annotate(model, first_stage_variables=variables, uncertain_params=network.bias)
    return model


def _fill(
    network: Any,
    layer: ReluLayer,
    variables: list[Any],
    bounds: tuple[np.ndarray, np.ndarray],
) -> None:
    """Write the layer into a block."""
    units = range(len(layer.outputs))
    network.bias = pyo.Param(units, mutable=True, initialize=0.0)
    network.unit = pyo.Var(units, within=pyo.NonNegativeReals)
    network.on = pyo.Var([h for h in units if layer.outputs[h] < 0], within=pyo.Binary)
    network.rows = pyo.ConstraintList()
    for h, weights in enumerate(layer.inputs):
        unit, bias = network.unit[h], network.bias[h]
        terms = zip(weights.tolist(), variables, strict=True)
        reached = pyo.quicksum(weight * v for weight, v in terms) + bias
        network.rows.add(unit >= reached)
        if h in network.on:
            on, (least, most) = network.on[h], _ends(weights, *bounds)
            network.rows.add(unit <= reached - (least + bias) * (1 - on))
            network.rows.add(unit <= (most + bias) * on)
    cost = (o * network.unit[h] for h, o in enumerate(layer.outputs.tolist()))
    network.cost = pyo.Expression(expr=layer.constant + pyo.quicksum(cost))


def _ends(
    weights: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[float, float]:
    """Return the least and the most of weights @ y between bounds."""
    low, high = weights * lower, weights * upper
    return float(np.minimum(low, high).sum()), float(np.maximum(low, high).sum())
