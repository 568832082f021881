"""Probabilities on a fixed support, trained through the decision: Grigas et al."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from pyomo.core.base.block import BlockData
from sklearn.metrics import pairwise_distances_argmin
from torch import Tensor, nn

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.reduction import kmeans
from pyomo_csg.baselines.smooth_decision import KnownDecisions
from pyomo_csg.baselines.training import Call, Features, Training
from pyomo_csg.learn.descent import Schedule
from pyomo_csg.learn.networks import mlp
from pyomo_csg.learn.omega import spread_of
from pyomo_csg.learn.progress import Journal
from pyomo_csg.learn.seeding import seeded
from pyomo_csg.learn.threads import one_thread
from pyomo_csg.options import is_whole, positive_problems, whole_problems
from pyomo_csg.stages.arrays import axes_of, scenario_array

_BATCH, _RATE = 50, 2e-3

Loss = Callable[[Call, Tensor], Tensor]


class SupportProbabilities(Baseline):
    """Probabilities of a fixed support, by a network trained through the decision.

    Grigas, Qi and Shen (2021), Integrated conditional estimation-optimization. A softmax
    network takes a context to probabilities of points that stay where they are; the model
    is solved on all points with these weights. The network starts at the most likely
    probabilities and is then trained on what decisions cost.

    Parameters
    ----------
    model, data, context, seed
        As in :class:`Baseline`.
    support : int, array (S, p) or DataFrame, optional
        The points; or how many: the centers of clusters of the history's outcomes. None
        takes all outcomes.
    decisions : int
        How many probabilities are drawn from all there may be, and in every round from
        those of the history's contexts, to solve the model for.
    rounds : int
        How often the network is trained on costs, each time with the decisions that it
        then makes beside those known already.
    smoothing : float
        The temperature of the first round, in standard deviations of the costs between
        decisions; it is halved every round.
    hidden : tuple of int
        Units of the network's layers.
    epochs : int
        Passes over the history of each training.
    progress : bool
        Whether to draw bars.
    **settings
        ``solver``, ``options``, ``workers`` and ``executor`` of the oracle.

    Attributes
    ----------
    support : array (S, p)

    Notes
    -----
    The optimal decision of a linear program does not move with the probabilities: it
    jumps. Theirs is approximated by a smooth function fitted to decisions at sampled
    probabilities, and the cost is differentiated in the decision. Ours, made of such
    samples as well, is the mixture of the sampled decisions that is best but for an
    entropy, charged with the mean of their exact costs: it serves with integers, too, and
    never leaves the feasible decisions. It cannot find a decision that no sample has;
    hence the rounds. Contexts that are panels are told by each number's mean, spread and
    last value.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> rival = csg.baselines.SupportProbabilities(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), support=5, progress=False
    ... )
    >>> rival.scenarios([0.0, 0.0]).shape, float(rival.weights([0.0, 0.0]).sum().round(9))
    ((5, 1), 1.0)
    """

    name = "probabilities on a support"

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        context: Any = None,
        seed: int = 0,
        support: Any = 50,
        decisions: int = 100,
        rounds: int = 2,
        smoothing: float = 0.1,
        hidden: tuple[int, ...] = (64,),
        epochs: int = 30,
        progress: bool = True,
        **settings: Any,
    ):
        counts = {"decisions": decisions, "rounds": rounds, "epochs": epochs}
        if support is not None and axes_of(support) == 0:
            counts["support"] = support
        problems = [*whole_problems(**counts), *positive_problems(smoothing=smoothing)]
        if not _are_units(hidden):
            found = f"hidden is {hidden!r}; give whole numbers above 0, such as (64,)"
            problems.append(found)
        self._refuse(*problems)
        super().__init__(model, data, context=context, seed=seed, **settings)
        self._features = Features(self.history.contexts)
        rng = np.random.default_rng(self.seed)
        with one_thread():
            self.support = self._points(support)
            with seeded(rng):
                layers = [self._features.count, *hidden, len(self.support)]
                self._network: nn.Module = mlp(layers)
            schedule = Schedule(epochs, _BATCH, _RATE)
            train = Training(len(self.history), schedule, rng, Journal(progress))
            self._network = train("likelihood", self._network, self._surprise())
            known = KnownDecisions(self.oracle, self.support, self.history.outcomes)
            known.add(anywhere(len(self.support), decisions, rng))
            for number in range(1, rounds + 1):
                some = rng.permutation(len(self.history))[:decisions]
                known.add(self._probabilities(self.history.contexts[some]))
                loss = self._cost(known, smoothing / 2 ** (number - 1))
                self._network = train(f"costs {number}", self._network, loss)

    def _generated(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        points = np.tile(self.support, (len(contexts), 1, 1))
        return points, self._probabilities(contexts)

    def _probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """Return probabilities (n, S)."""
        with torch.no_grad():
            logits = self._network(torch.as_tensor(self._features(contexts)))
            return torch.softmax(logits, dim=-1).numpy()

    def _points(self, support: Any) -> np.ndarray:
        """Return the support (S, p)."""
        if axes_of(support) > 0:
            return scenario_array(self.two_stage, support)
        outcomes = self.history.outcomes
        count = len(outcomes) if support is None else support
        points, _ = kmeans(outcomes, None, count, self.seed, spread_of(outcomes))
        return points

    def _surprise(self) -> Loss:
        """Return the loss whose least is at the most likely probabilities."""
        inputs = torch.as_tensor(self._features(self.history.contexts))
        unit = spread_of(self.history.outcomes)
        nearest = torch.as_tensor(
            pairwise_distances_argmin(self.history.outcomes / unit, self.support / unit)
        )
        return lambda network, rows: nn.functional.cross_entropy(
            network(inputs[rows]), nearest[rows]
        )

    def _cost(self, known: KnownDecisions, smoothing: float) -> Loss:
        """Return the loss that is the mean cost of smooth decisions."""
        inputs = torch.as_tensor(self._features(self.history.contexts))
        smooth, unit = known.smooth(smoothing), known.spread()

        def loss(network: Call, rows: Tensor) -> Tensor:
            probabilities = torch.softmax(network(inputs[rows]), dim=-1)
            return smooth.costs(probabilities, rows).mean() / unit

        return loss


def anywhere(points: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return probabilities (count, points): of a few points some, of about all others."""
    concentrations = np.exp(rng.uniform(-np.log(points), 0.0, count))
    return np.stack([rng.dirichlet(np.full(points, c)) for c in concentrations])


def _are_units(hidden: Any) -> bool:
    listed = isinstance(hidden, tuple | list)
    return listed and all(is_whole(units) and units > 0 for units in hidden)
