"""How well a Loss-Net tells the losses of pairs that it has not seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from pyomo_csg.learn.distributions.distances import (
    joint_mmd,
    kappa_distance,
    wasserstein,
)
from pyomo_csg.learn.methods.loss_net_stages import TrainedOnLossNet
from pyomo_csg.learn.methods.static import label_bodies
from pyomo_csg.learn.networks.loss_net import LossNet, LossSamples
from pyomo_csg.learn.task import Task

_ROWS, _INTEGER_ROWS = 100, 30  # whose losses are compared
# From where on it counts as trusted outside its data: an error so many times that at
# home, losses so many standard errors above what it expects, or scenarios so many standard
# deviations away.
_WORSE, _SURE, _FAR = 2.0, 3.0, 1.0


def loss_net_trust(
    task: Task, followed: TrainedOnLossNet, member: int, head: Any = None
) -> dict:
    """Return what a report says of the Loss-Net that a member followed.

    Parameters
    ----------
    task : Task
    followed : Followed
    member : int
        The one that counts, which learned from all rows.
    head : Head, optional

    Returns
    -------
    dict
        ``trust`` with numbers, and ``notes`` with a warning where, on the member's
        scenarios, its error is more than twice that on those it learned from, the
        losses are more than three standard errors above what it expects, or the two
        kinds are a standard deviation apart.
    """
    net, taught = followed.loss_nets[member], followed.samples[member]
    rng, n = task.rng("trust"), len(task.history)
    count = min(n, _INTEGER_ROWS if task.has_integers else _ROWS)
    rows = np.sort(rng.choice(n, count, replace=False))
    met = label_bodies(task, [followed.bodies[member]], [rows], "trust labels", head)[0]
    home, here = taught.solved(), met.solved()
    if not len(here):
        return {}
    # The same pairs in both laws, so that only the scenarios are apart.
    some = taught.take(rows + n * rng.integers(len(taught) // n, size=count))
    at_home, away = _predicted(net, home), _predicted(net, here)
    found = {
        "cases": len(home),
        "pairs": n,
        "expected": _expected(task, net, followed.bodies[member], head),
        "compared": len(here),
        "error": float(np.abs(at_home - home.losses).mean()),
        "error_here": float(np.abs(away - here.losses).mean()),
        "expected_here": float(away.mean()),
        "loss_here": float(here.losses.mean()),
        "standard_error": float((here.losses - away).std() / math.sqrt(len(here))),
        **_shift(task, some, met),
        **_size(task, net),
    }
    return {"trust": found, "notes": _warning(found)}


def _expected(task: Task, net: LossNet, body: nn.Module, head: Any) -> float:
    """Return what a Loss-Net expects of a body's scenarios, on average over all pairs."""
    planned = task.generate_scenarios(body, np.arange(len(task.history)), head)
    with torch.no_grad():
        losses = net(*map(torch.as_tensor, planned), task.outcomes)
    return float(losses.mean())


def _predicted(net: LossNet, samples: LossSamples) -> np.ndarray:
    inputs = map(torch.as_tensor, samples.arrays()[:3])
    with torch.no_grad():
        return net(*inputs).numpy()


def _shift(task: Task, home: LossSamples, here: LossSamples) -> dict[str, float]:
    """Return how far the scenarios that count are from those that taught the Loss-Net."""
    unit, spread = task.kernel_unit.numpy(), task.omega.spread.numpy()
    laws = [
        (part.scenarios / unit, part.outcomes / unit, part.weights)
        for part in (home, here)
    ]
    split = joint_mmd(*laws[1], kernel=task.kernel)
    points = [
        np.concatenate([part.scenarios, part.outcomes[:, None]], axis=1)
        for part in (home, here)
    ]
    size = points[0][0].size
    return {
        "wasserstein": wasserstein(*points),
        # By the root of the mean square over all numbers, in standard deviations.
        "shift": wasserstein(*(part / spread for part in points)) / math.sqrt(size),
        "kappa": kappa_distance(laws[0], laws[1], task.kernel),
        "kappa_bias": split.bias,
        "kappa_variance": split.variance,
    }


def _size(task: Task, net: LossNet) -> dict[str, float]:
    """Return how fast and how large a Loss-Net can be, and how rich its class is."""
    middle = net.center.expand(1, task.scenarios, -1)
    shares = middle.new_full(middle.shape[:2], 1 / task.scenarios)
    with torch.no_grad():
        center = float(net(middle, shares, net.center[None]))
    return {
        "lipschitz": lipschitz(net),
        "at_center": center,
        "complexity": complexity(net, task.scenarios),
    }


def lipschitz(net: LossNet) -> float:
    """Return how fast a Loss-Net moves with scenarios and outcome together, at most.

    The product of its layers' spectral norms; codes of scenarios are averaged, so that
    they move no faster than one.
    """
    first, *others = _layers(net)
    speed = float(net.loss_spread) * _spectral(first.weight / net.spread)
    return speed * math.prod(_spectral(layer.weight) for layer in others)


def complexity(net: LossNet, scenarios: int) -> float:
    """Return c so that c norm(x) / sqrt(m) bounds the class's Rademacher complexity.

    By theorem 1 of Golowich, Rakhlin and Shamir (2018), for all Loss-Nets whose layers
    have at most this one's Frobenius norms; x are the standardised scenarios, the
    outcome and a 1, which carries the biases.
    """
    encoder = [_frobenius(layer, scenarios + 1) for layer in _linears(net.encoder)]
    first, *others = _linears(net.head)
    planned, happened = first.weight.detach().square().chunk(2, dim=1)
    bias = first.bias.detach().square().sum()
    entry = math.sqrt(float(planned.sum() / scenarios + happened.sum() + bias) + 1)
    norms = [*encoder, entry, *(_frobenius(layer) for layer in others)]
    depth = math.sqrt(2 * math.log(2) * len(norms)) + 1
    return float(net.loss_spread) * depth * math.prod(norms)


def _layers(net: LossNet) -> list[nn.Linear]:
    return [*_linears(net.encoder), *_linears(net.head)]


def _linears(layers: nn.Module) -> list[nn.Linear]:
    return [layer for layer in layers.modules() if isinstance(layer, nn.Linear)]


def _spectral(weight: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.detach(), ord=2))


def _frobenius(layer: nn.Linear, copies: int = 1) -> float:
    """Return the norm of a layer's copies side by side, with biases and the 1's own row."""
    weight, bias = layer.weight.detach(), layer.bias.detach()
    square = float(weight.square().sum() + bias.square().sum())
    return math.sqrt(copies * square + 1)


def _warning(found: dict[str, float]) -> list[str]:
    above = found["loss_here"] - found["expected_here"]
    if (
        found["error_here"] <= _WORSE * found["error"]
        and above <= _SURE * found["standard_error"]
        and found["shift"] <= _FAR
    ):
        return []
    warning = (
        "Warning: the Loss-Net is trusted outside its data. On the policy's scenarios it "
        f"expects {found['expected_here']:.6g} where the loss is {found['loss_here']:.6g}, "
        f"and is off by {found['error_here']:.6g} on average; by {found['error']:.6g} on "
        f"those it learned from, which are {found['shift']:.2g} standard deviations away. "
        "Give more regularization, or method='dynamic'."
    )
    return [warning]


_MOST = 500


def loss_net_predictions(
    task: Task, net: nn.Module, body: nn.Module, rows: np.ndarray, head: Any = None
) -> dict[str, list[float]]:
    """Return predicted and true l_opt of what a body plans on rows, in JSON's types.

    Parameters
    ----------
    task : Task
    net : LossNet
    body : Module
        The one that followed the Loss-Net: it went where the Loss-Net promised most, so
        that errors show which training pairs would hide.
    rows : int array
        Those that neither has seen. Of very many, some.
    head : Head, optional
        Default: the task's.

    Returns
    -------
    dict
        ``predicted`` and ``true``, without the pairs that have no answer.
    """
    some = rows[:: max(1, -(-len(rows) // _MOST))]
    (samples,) = label_bodies(task, [body], [some], "Loss-Net check labels", head)
    *inputs, losses = samples.solved().arrays()
    with torch.no_grad():
        predicted = net(*map(torch.as_tensor, inputs))
    return {"predicted": predicted.tolist(), "true": losses.tolist()}
