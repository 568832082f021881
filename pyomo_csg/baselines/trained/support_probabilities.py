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
from pyomo_csg.baselines.trained.network_training import Call, Features, Training
from pyomo_csg.errors import DataError
from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.distributions.reduction import kmeans
from pyomo_csg.learn.networks.task_nets import mlp
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.trainer import Schedule, reproducible_torch, torch_seed
from pyomo_csg.solve import Oracle
from pyomo_csg.stages.inputs import count_axes, scenario_array
from pyomo_csg.validation import is_whole

_SAME = 9  # decimals, in standard deviations, to which two decisions are equal


class SmoothDecision:
    """A mixture of J decisions: the lower a decision's expected cost, the larger its share.

    The shares minimize the expected cost minus temperature times entropy; near temperature
    0, nearly all weight is on the best decision. Costs are given at the points of the
    support (J, S) and under the outcomes of the history (J, n).
    """

    def __init__(
        self, on_support: np.ndarray, on_history: np.ndarray, temperature: float
    ):
        self._energies = torch.as_tensor(on_support.T / temperature)
        self._on_history = torch.as_tensor(on_history.T)

    def shares(self, probabilities: Tensor) -> Tensor:
        """Return the decisions' shares (..., J) for probabilities (..., S)."""
        return torch.softmax(-(probabilities @ self._energies), dim=-1)

    def costs(self, probabilities: Tensor, rows: Tensor) -> Tensor:
        """Return the mean costs (...) under the outcomes of rows (...)."""
        return (self.shares(probabilities) * self._on_history[rows]).sum(-1)


class KnownDecisions:
    """Decisions (J, s) that are optimal for some probabilities of the support, with costs.

    ``costs`` (J, S + n) are those at the points of the support, then those under the
    outcomes of the history.
    """

    def __init__(self, oracle: Oracle, support: np.ndarray, outcomes: np.ndarray):
        self._oracle, self._support = oracle, support
        self._outcomes = np.vstack([support, outcomes])
        width = len(oracle.two_stage.first_stage_variables)
        self.decisions = np.zeros((0, width))
        self.costs = np.zeros((0, len(self._outcomes)))

    def add(self, probabilities: np.ndarray) -> None:
        """Solve for probabilities (m, S) and add the decisions that are new.

        Decisions without recourse to some outcome are left out.
        """
        how: Any = {"on_error": "record", "progress": False}
        points = np.broadcast_to(
            self._support, (len(probabilities), *self._support.shape)
        )
        found = self._oracle.solve(points, probabilities, **how).decision
        new = self._new(found[np.isfinite(found).all(axis=1)])
        count = len(self._outcomes)
        if len(new):
            costs = self._oracle.cost(
                np.repeat(new, count, axis=0),
                np.tile(self._outcomes, (len(new), 1)),
                **how,
            ).reshape(-1, count)
            feasible = np.isfinite(costs).all(axis=1)
            self.decisions = np.vstack([self.decisions, new[feasible]])
            self.costs = np.vstack([self.costs, costs[feasible]])
        if not len(self.decisions):
            found_none = (
                f"none of {len(probabilities)} decisions on the support has recourse to "
                "all outcomes of the history; give the model complete recourse"
            )
            raise DataError("Cannot train through the decision", [found_none])

    def smooth(self, smoothing: float) -> SmoothDecision:
        """Return the smooth decision at a temperature in units of :meth:`spread`."""
        points = len(self._support)
        on_support, on_history = self.costs[:, :points], self.costs[:, points:]
        return SmoothDecision(on_support, on_history, smoothing * self.spread())

    def spread(self) -> float:
        """Return the standard deviation of costs between decisions, averaged over outcomes.

        It is 1 if all decisions cost the same.
        """
        spread = float(self.costs[:, len(self._support) :].std(axis=0).mean())
        return spread if spread > 1e-12 * np.abs(self.costs).max() else 1.0

    def _new(self, decisions: np.ndarray) -> np.ndarray:
        """Return the decisions that are not known yet, without duplicates."""
        both = np.vstack([self.decisions, decisions])
        size = np.abs(both).max(axis=0, initial=0.0)
        rounded = np.round(both / np.where(size > 0, size, 1.0), _SAME)
        _, first = np.unique(rounded, axis=0, return_index=True)
        return both[np.sort(first[first >= len(self.decisions)])]


_BATCH, _RATE = 50, 2e-3

Loss = Callable[[Call, Tensor], Tensor]


class SupportProbabilities(Baseline):
    """Probabilities of a fixed support, by a network trained through the decision.

    Grigas, Qi and Shen (2021), Integrated conditional estimation-optimization. A softmax
    network predicts the probabilities of fixed points from the context, and the model is
    solved on these points with the probabilities as weights. The network is first fitted
    by maximum likelihood and then trained on the costs of decisions.

    Parameters
    ----------
    model, data, **settings
        As in :class:`Baseline`.
    support : int, array (S, p) or DataFrame, optional
        The points, or their number: then they are cluster centers of the history's
        outcomes. None: all outcomes of the history.
    decisions : int
        Number of programs solved before the first round, for random probabilities, and
        in each round, for the network's probabilities.
    rounds : int
        Number of rounds of training on costs. Each round adds the decisions that the
        network makes at its start.
    smoothing : float
        The temperature of the first round, in standard deviations of the costs between
        decisions. It is halved in every round.
    hidden : tuple of int
        Units of the network's layers.
    epochs : int
        Passes over the history in each training.
    progress : bool
        Whether to show progress bars.

    Attributes
    ----------
    support : array (S, p)

    Notes
    -----
    The optimal decision of a linear program is a step function of the probabilities, so
    its derivative is zero almost everywhere. The paper approximates it by a smooth
    function fitted to decisions at sampled probabilities, and differentiates the cost in
    the decision. Here the smooth decision is a mixture of sampled decisions, regularized
    by entropy, and its cost is the mean of their exact costs. This also works with
    integers, and every sampled decision is feasible. A mixture cannot contain a decision
    that was not sampled, so each round adds new ones. A panel's features are the mean,
    standard deviation and last value of each column.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from pyomo_csg.zoo import newsvendor
    >>> baseline = csg.baselines.SupportProbabilities(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), support=5, progress=False
    ... )
    >>> baseline.scenarios([0.0, 0.0]).shape, float(baseline.weights([0.0, 0.0]).sum().round(9))
    ((5, 1), 1.0)
    """

    name = "probabilities on a support"
    takes_known = False  # decisions are shared between contexts

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
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
        if support is not None and count_axes(support) == 0:
            counts["support"] = support
        problems = self._new_problems()
        problems.check_counts(**counts)
        problems.check_positive(smoothing=smoothing)
        if not _are_units(hidden):
            found = f"hidden is {hidden!r}; give whole numbers above 0, such as (64,)"
            problems.add(found)
        problems.raise_any()
        super().__init__(model, data, **settings)
        self._features = Features(self.history.contexts)
        rng = np.random.default_rng(self.seed)
        with reproducible_torch():
            self.support = self._points(support)
            with torch_seed(rng):
                layers = [self._features.count, *hidden, len(self.support)]
                self._network: nn.Module = mlp(layers)
            schedule = Schedule(epochs, _BATCH, _RATE)
            train = Training(len(self.history), schedule, rng, TrainingLog(progress))
            self._network = train(
                "likelihood", self._network, self._negative_log_likelihood()
            )
            known = KnownDecisions(self.oracle, self.support, self.history.outcomes)
            known.add(random_probabilities(len(self.support), decisions, rng))
            for number in range(1, rounds + 1):
                some = rng.permutation(len(self.history))[:decisions]
                known.add(self._probabilities(self.history.contexts[some]))
                loss = self._cost(known, smoothing / 2 ** (number - 1))
                self._network = train(f"costs {number}", self._network, loss)

    def _generate_scenarios(
        self, contexts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        points = np.tile(self.support, (len(contexts), 1, 1))
        return points, self._probabilities(contexts)

    def _probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """Return probabilities (n, S)."""
        with torch.no_grad():
            logits = self._network(torch.as_tensor(self._features(contexts)))
            return torch.softmax(logits, dim=-1).numpy()

    def _points(self, support: Any) -> np.ndarray:
        """Return the support (S, p)."""
        if count_axes(support) > 0:
            return scenario_array(self.two_stage, support)
        outcomes = self.history.outcomes
        count = len(outcomes) if support is None else support
        points, _ = kmeans(outcomes, None, count, self.seed, standard_spread(outcomes))
        return points

    def _negative_log_likelihood(self) -> Loss:
        """Return the negative log-likelihood of the probabilities."""
        inputs = torch.as_tensor(self._features(self.history.contexts))
        unit = standard_spread(self.history.outcomes)
        nearest = torch.as_tensor(
            pairwise_distances_argmin(self.history.outcomes / unit, self.support / unit)
        )
        return lambda network, rows: nn.functional.cross_entropy(
            network(inputs[rows]), nearest[rows]
        )

    def _cost(self, known: KnownDecisions, smoothing: float) -> Loss:
        """Return the mean cost of smooth decisions, as a loss."""
        inputs = torch.as_tensor(self._features(self.history.contexts))
        smooth, unit = known.smooth(smoothing), known.spread()

        def loss(network: Call, rows: Tensor) -> Tensor:
            probabilities = torch.softmax(network(inputs[rows]), dim=-1)
            return smooth.costs(probabilities, rows).mean() / unit

        return loss


def random_probabilities(
    points: int, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Return probabilities (count, points), some sparse and some nearly uniform."""
    concentrations = np.exp(rng.uniform(-np.log(points), 0.0, count))
    return np.stack([rng.dirichlet(np.full(points, c)) for c in concentrations])


def _are_units(hidden: Any) -> bool:
    is_list = isinstance(hidden, tuple | list)
    return is_list and all(is_whole(units) and units > 0 for units in hidden)
