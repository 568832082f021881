"""Neur2SP of Patel et al.: a network for the expected recourse, in the first stage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyomo.environ as pyo
import torch
from pyomo.common.modeling import unique_component_name
from pyomo.core.base.block import BlockData
from torch import Tensor, nn

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.trained.network_training import (
    Call,
    Features,
    RecourseSamples,
    Sampler,
    Training,
)
from pyomo_csg.decisions.decider import PerContext
from pyomo_csg.errors import CsgError
from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.networks.task_nets import mlp
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.trainer import Schedule, reproducible_torch, torch_seed
from pyomo_csg.solve import Oracle, Solution
from pyomo_csg.stages import TwoStageModel, annotate
from pyomo_csg.transform.recourse_copy import RecourseRemoval


@dataclass(frozen=True, eq=False)
class ReluLayer:
    """A cost of decisions: constant + outputs (H,) @ max(0, inputs (H, s) @ y + bias)."""

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
    """Return a copy of the model with its recourse replaced by a network.

    The uncertain parameters are the layer's biases, so an oracle solves the model for one
    set of biases as for one scenario. A unit whose output raises the cost needs no upper
    bound, because minimization keeps it down. Each other unit has a binary variable and
    big-M constraints from the finite bounds (s,) of the decision. Lower costs of the layer
    are better, also if the model is maximized.
    """
    two_stage = two_stage.copy()
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
    """Return the minimum and the maximum of weights @ y between bounds."""
    low, high = weights * lower, weights * upper
    return float(np.minimum(low, high).sum()), float(np.maximum(low, high).sum())


_CODE = (64,)


class RecourseNet(nn.Module):
    """The expected recourse cost of a decision, given context features.

    The decision goes through one ReLU layer of ``hidden`` units. Its biases are an encoding
    of the context by another network. The labels, ``decisions`` (m, s) and ``costs`` (m,),
    set the scales of inputs and output.
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
            "spread": standard_spread(decisions),
            "cost_center": costs.mean(),
            "cost_spread": standard_spread(costs[:, None])[0],
        }.items():
            self.register_buffer(name, torch.as_tensor(values))

    def forward(self, features: Tensor, decisions: Tensor) -> Tensor:
        """Return costs (B,) of features (B, f) and decisions (B, s)."""
        read = self.inputs((decisions - self.center) / self.spread)
        units = torch.relu(read + self.code(features))
        return self.cost_center + self.cost_spread * self.outputs(units)[..., 0]

    def layer(self) -> ReluLayer:
        """Return the layer for the decision, in the units of the decision."""
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


_BATCH, _RATE = 100, 2e-3


class Neur2SP(Baseline):
    """A network for the expected recourse, embedded in the first stage.

    Patel, Dumouchelle, Khalil and Bodur (2022), Neur2SP: neural two-stage stochastic
    programming. A decision minimizes the first-stage cost plus a ReLU network's
    prediction of the recourse cost, subject to the first-stage constraints. This is a
    small mixed-integer program. There are no scenarios.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    hidden : int
        Units of the layer that becomes part of the program.
    labels : int
        Number of pairs of context and decision to learn from.
    outcomes : int
        Number of outcomes that a label averages over, one recourse program each. Use
        fewer outcomes and labels if the recourse has integers, which is slow.
    decisions : int
        Number of programs on a few outcomes of the history. Decisions are sampled
        around their solutions.
    epochs : int
        Passes over the labels.
    progress : bool
        Whether to show progress bars.

    Attributes
    ----------
    network : RecourseNet

    Notes
    -----
    The paper encodes a set of scenarios. Here the context is encoded instead, and labels
    are averages over outcomes drawn by a forest's weights for it. As in the paper, the
    encoder is not part of the program, and the model must have recourse to every outcome.
    Each variable is limited to the range of decisions that are optimal for some outcomes:
    the network has few labels beyond it, and a variable may have no bounds of its own. A
    panel's features are the mean, standard deviation and last value of each column.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> baseline = csg.baselines.Neur2SP(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), labels=200, progress=False
    ... )
    >>> 14 < baseline.decide([0.0, 0.0])["order"] < 16
    True
    """

    name = "Neur2SP"
    takes_known = False  # the network has learned the recourse of one program

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        hidden: int = 16,
        labels: int = 5000,
        outcomes: int = 50,
        decisions: int = 200,
        epochs: int = 100,
        progress: bool = True,
        **settings: Any,
    ):
        problems = self._new_problems()
        problems.check_counts(
            hidden=hidden,
            labels=labels,
            outcomes=outcomes,
            decisions=decisions,
            epochs=epochs,
        )
        problems.raise_any()
        super().__init__(model, data, **settings)
        self._features = Features(self.history.contexts)
        with reproducible_torch():
            sampler = Sampler(self.oracle, self.history, decisions, self.seed)
            bounds = sampler.bounds
            # Embed a trivial layer: a model that cannot be embedded fails before training.
            nothing = ReluLayer(np.zeros((1, len(bounds[0]))), -np.ones(1), 0.0)
            self.oracle.on(embed(self.two_stage, nothing, *bounds))
            samples = sampler.draw(labels, outcomes, progress)
            self.network = self._train(samples, hidden, epochs, progress)
        self._program = embed(self.two_stage, self.network.layer(), *bounds)

    @cached_property
    def embedded(self) -> Oracle:
        """The oracle of the first stage with the network's layer as its recourse.

        Its uncertain numbers are the layer's biases, which the context sets.
        """
        return self.oracle.on(self._program)

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[PerContext, PerContext]:
        raise CsgError(
            "Neur2SP has no scenarios and no weights: a network predicts the recourse cost. "
            "Call decide"
        )

    def _solve_contexts(
        self, contexts: np.ndarray, *, known: Any = None, **how: Any
    ) -> tuple[Solution, PerContext, PerContext]:
        biases = self.network.biases(self._features(contexts))
        solution = self.embedded.solve(biases[:, None], **how)
        none = np.zeros((len(contexts), 0, self.history.outcomes.shape[1]))
        return solution, none, none[..., 0]

    def __getstate__(self) -> bytes:
        vars(self).pop("embedded", None)  # its executor may not be pickled
        return super().__getstate__()

    def _train(
        self, samples: RecourseSamples, hidden: int, epochs: int, progress: bool
    ) -> RecourseNet:
        """Return the network trained by least squares."""
        rng = np.random.default_rng(self.seed)
        ys, costs = samples.decisions, samples.costs
        with torch_seed(rng):
            start = RecourseNet(self._features.count, hidden, ys, costs)
        features = torch.as_tensor(self._features(self.history.contexts[samples.rows]))
        decisions, targets = torch.as_tensor(ys), torch.as_tensor(costs)

        def loss(network: Call, batch: Tensor) -> Tensor:
            errors = network(features[batch], decisions[batch]) - targets[batch]
            return (errors / start.cost_spread).square().mean()

        schedule = Schedule(epochs, _BATCH, _RATE)
        train = Training(len(samples), schedule, rng, TrainingLog(progress))
        trained = train("recourse", start, loss)
        assert isinstance(trained, RecourseNet)
        return trained
