"""How well a Loss-Net predicts losses outside its training samples."""

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
from pyomo_csg.learn.loss_kinds import LossKind
from pyomo_csg.learn.methods.labels import label_bodies, some_scenarios
from pyomo_csg.learn.methods.static import LossNetFit
from pyomo_csg.learn.networks.loss_net import LossNet, LossPredictor, LossSamples
from pyomo_csg.learn.task import Task

_ROWS, _INTEGER_ROWS = 100, 30  # rows on which losses are compared
# A Loss-Net is used outside its data if its error exceeds _WORSE times its training error,
# losses are _CLEAR standard errors above its predictions, or scenarios are _FAR standard
# deviations away.
_WORSE, _CLEAR, _FAR = 2.0, 3.0, 1.0
_MOST = 500  # rows of a plot


def loss_net_errors(
    task: Task, fit: LossNetFit, head: Any = None, kind: str | LossKind = "optimistic"
) -> tuple[dict[str, Any] | None, list[str] | None]:
    """Compare a Loss-Net's errors on its training samples and on the fitted scenarios.

    ``fit`` was trained on all rows, or on a sample of them, with losses of a kind. Return
    the errors, and a list with a warning if the Loss-Net is used outside its data; None
    and None if no program could be solved.
    """
    net, training = fit.loss_net, fit.samples
    rng, n = task.rng("trust"), len(task.history)
    known = np.arange(n) if fit.rows is None else np.asarray(fit.rows)
    size = len(known)
    count = min(size, _INTEGER_ROWS if task.has_integers else _ROWS)
    picked = np.sort(rng.choice(size, count, replace=False))
    rows = known[picked]
    (labeled,) = label_bodies(
        task, [fit.body], [rows], "Loss-Net error labels", head, kind
    )
    home, here = training.solved(), labeled.solved()
    if not len(here):
        return None, None
    # The same rows in both samples, so that only the scenarios differ.
    rounds = len(training) // size
    some = training.take(picked + size * rng.integers(rounds, size=count))
    at_home, away = _predictions(net, home), _predictions(net, here)
    found = {
        "cases": len(home),
        "pairs": n,
        "expected": _mean_prediction(task, net, fit.body, head),
        "compared": len(here),
        "error": float(np.abs(at_home - home.losses).mean()),
        "error_here": float(np.abs(away - here.losses).mean()),
        "expected_here": float(away.mean()),
        "loss_here": float(here.losses.mean()),
        "standard_error": float((here.losses - away).std() / math.sqrt(len(here))),
        **_shift(task, some, _as_many(labeled, some, rng)),
        **_network_size(task, net),
    }
    return found, _warnings(found)


def _mean_prediction(
    task: Task, net: LossPredictor, body: nn.Module, head: Any
) -> float:
    """Return the mean prediction for a body's scenarios over all rows."""
    scenarios = task.generate_scenarios(body, np.arange(len(task.history)), head)
    with torch.no_grad():
        losses = net(*map(torch.as_tensor, scenarios), task.outcomes)
    return float(losses.mean())


def _predictions(net: LossPredictor, samples: LossSamples) -> np.ndarray:
    inputs = map(torch.as_tensor, samples.arrays()[:3])
    with torch.no_grad():
        return net(*inputs).numpy()


def _as_many(
    here: LossSamples, home: LossSamples, rng: np.random.Generator
) -> LossSamples:
    """Return samples with as many scenarios as others, which may be labeled on a few."""
    count = home.scenarios.shape[1]
    scenarios, weights = some_scenarios(here.scenarios, here.weights, count, rng)
    return LossSamples(scenarios, weights, here.outcomes, here.losses)


def _shift(task: Task, home: LossSamples, here: LossSamples) -> dict[str, float]:
    """Return the distances between the fitted and the training scenarios."""
    unit, spread = task.kernel_unit.numpy(), task.omega.spread.numpy()
    samples = [
        (part.scenarios / unit, part.outcomes / unit, part.weights)
        for part in (home, here)
    ]
    split = joint_mmd(*samples[1], kernel=task.kernel)
    points = [
        np.concatenate([part.scenarios, part.outcomes[:, None]], axis=1)
        for part in (home, here)
    ]
    size = points[0][0].size
    return {
        "wasserstein": wasserstein(*points),
        # The root mean square over all numbers, in standard deviations.
        "shift": wasserstein(*(part / spread for part in points)) / math.sqrt(size),
        "kappa": kappa_distance(samples[0], samples[1], task.kernel),
        "kappa_bias": split.bias,
        "kappa_variance": split.variance,
    }


def _network_size(task: Task, net: LossPredictor) -> dict[str, float]:
    """Return a Loss-Net's Lipschitz bound, its value at the center, and its complexity.

    Nothing is known of a user's module.
    """
    if not isinstance(net, LossNet):
        return {}
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
    """Return a Lipschitz bound of a Loss-Net in scenarios and outcome together.

    It is the product of the layers' spectral norms; averaging the encoded scenarios does
    not increase it.
    """
    first, *others = [*_linears(net.encoder), *_linears(net.head)]
    speed = float(net.loss_spread) * _spectral(first.weight / net.spread)
    return speed * math.prod(_spectral(layer.weight) for layer in others)


def complexity(net: LossNet, scenarios: int) -> float:
    """Return c so that c norm(x) / sqrt(m) bounds the class's Rademacher complexity.

    By theorem 1 of Golowich, Rakhlin and Shamir (2018), for all Loss-Nets whose layers
    have at most this one's Frobenius norms; x are the standardized scenarios, the
    outcome and a 1 for the biases.
    """
    encoder = [_frobenius(layer, scenarios + 1) for layer in _linears(net.encoder)]
    first, *others = _linears(net.head)
    planned, happened = first.weight.detach().square().chunk(2, dim=1)
    bias = first.bias.detach().square().sum()
    entry = math.sqrt(float(planned.sum() / scenarios + happened.sum() + bias) + 1)
    norms = [*encoder, entry, *(_frobenius(layer) for layer in others)]
    depth = math.sqrt(2 * math.log(2) * len(norms)) + 1
    return float(net.loss_spread) * depth * math.prod(norms)


def _linears(layers: nn.Module) -> list[nn.Linear]:
    return [layer for layer in layers.modules() if isinstance(layer, nn.Linear)]


def _spectral(weight: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.detach(), ord=2))


def _frobenius(layer: nn.Linear, copies: int = 1) -> float:
    """Return the norm of a layer's copies side by side, with biases and the row of the 1."""
    weight, bias = layer.weight.detach(), layer.bias.detach()
    square = float(weight.square().sum() + bias.square().sum())
    return math.sqrt(copies * square + 1)


def _warnings(found: dict[str, float]) -> list[str]:
    above = found["loss_here"] - found["expected_here"]
    if (
        found["error_here"] <= _WORSE * found["error"]
        and above <= _CLEAR * found["standard_error"]
        and found["shift"] <= _FAR
    ):
        return []
    warning = (
        "Warning: the Loss-Net is used outside its data. On the policy's scenarios it "
        f"predicts {found['expected_here']:.6g} where the loss is "
        f"{found['loss_here']:.6g}, with a mean error of {found['error_here']:.6g}; on its "
        f"training scenarios, which are {found['shift']:.2g} standard deviations away, "
        f"the mean error is {found['error']:.6g}. Increase the regularization, or use "
        "method='dynamic'."
    )
    return [warning]


def loss_net_predictions(
    task: Task,
    fit: LossNetFit,
    rows: np.ndarray,
    head: Any = None,
    kind: str | LossKind = "optimistic",
) -> dict[str, list[float]]:
    """Return predicted and true losses of a fit's scenarios on rows that it has not seen.

    The body went where the Loss-Net predicted the least loss, so errors show up here that
    training samples would hide. Unsolved programs are left out.
    """
    some = rows[:: max(1, -(-len(rows) // _MOST))]
    (samples,) = label_bodies(
        task, [fit.body], [some], "Loss-Net check labels", head, kind
    )
    solved = samples.solved()
    predicted = _predictions(fit.loss_net, solved)
    return {"predicted": predicted.tolist(), "true": solved.losses.tolist()}
