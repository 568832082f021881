"""Perturbed: the gradient of the cost smoothed by noise, for models without a gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from pyomo_csg.learn.methods.training_task import TrainingTask
from pyomo_csg.validation import Problems, is_whole


@dataclass(frozen=True)
class Perturbed:
    """Trains on the cost smoothed by Gaussian noise, whose gradient needs no derivative.

    Where only costs are uncertain, a decision jumps from vertex to vertex: its cost is
    constant in between, and ``'direct'`` has no gradient. The mean cost over noise on the
    scenarios is smooth, and its gradient is estimated from the costs of some noisy
    scenarios alone. So it also suits integer models and every solver. Training starts from
    the network of ``'mmd'`` and takes ``task_epochs`` of :class:`pyomo_csg.FitConfig`; a
    row of an epoch takes ``samples`` programs.

    Parameters
    ----------
    samples : int
        Noisy scenarios for each row in a step, at least 2.
    noise : float
        Standard deviation of the noise, in standard deviations of the outcomes. More
        smooths more, and makes the estimate less noisy.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> policy = csg.fit(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), scenarios=2,
    ...     method=csg.methods.Perturbed(samples=4), config={"task_epochs": 1},
    ...     progress=False,
    ... )
    >>> policy.method
    'perturbed'
    """

    name: ClassVar[str] = "perturbed"
    samples: int = 8
    noise: float = 0.3

    def __post_init__(self) -> None:
        problems = Problems("Invalid settings of csg.methods.Perturbed")
        if not (is_whole(self.samples) and self.samples >= 2):
            found = f"samples is {self.samples!r:.80}"
            problems.add(f"{found}; give a whole number from 2 up")
        problems.check_positive(noise=self.noise)
        problems.raise_any()

    def train(self, task: TrainingTask) -> nn.Module:
        """Return the MMD network after training on the smoothed cost."""
        rng, scale = task.rng(f"{self.name} noise"), task.cost_scale

        def losses(output: Tensor, rows: np.ndarray) -> Tensor:
            repeated = np.tile(rows, self.samples)

            def costs(moved: Tensor) -> np.ndarray:
                scenarios, weights = task.to_scenarios(moved.flatten(0, 1), repeated)
                found = task.costs(scenarios, weights, repeated)
                return found.reshape(self.samples, -1) / scale

            return smoothed_costs(costs, output, self.samples, self.noise, rng)

        return task.minimize(task.mmd_network(), losses, self.name)


def smoothed_costs(
    costs: Callable[[Tensor], np.ndarray],
    output: Tensor,
    samples: int,
    noise: float,
    rng: np.random.Generator,
) -> Tensor:
    """Return estimates (B,) of the mean costs of outputs (B, K, p) under noise.

    ``costs`` maps moved outputs (S, B, K, p) to costs (S, B). The gradient is the score
    function's: the mean of (cost - mean cost) * move / noise, where the mean cost over the
    row's S samples is the control variate. Dividing by S - 1 makes it unbiased. A cost
    that is NaN counts as the worst of its row; a row without any cost has the loss 0.
    """
    moves = torch.as_tensor(rng.standard_normal((samples, *output.shape)))
    moves = moves.to(output)
    found = costs(output.detach() + noise * moves)
    worst = np.nanmax(np.where(np.isnan(found), -np.inf, found), axis=0)
    worst = np.where(np.isfinite(worst), worst, 0.0)
    known = torch.as_tensor(np.where(np.isnan(found), worst, found)).to(output)
    mean = known.mean(dim=0)
    shares = (known - mean) / ((samples - 1) * noise)
    slopes = torch.einsum("sb,sb...->b...", shares, moves)
    # The added term is zero; its gradient is the estimate.
    change = (output - output.detach()) * slopes
    return mean + change.flatten(1).sum(dim=1)
