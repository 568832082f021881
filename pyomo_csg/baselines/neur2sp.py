"""Neur2SP of Patel et al.: a network for the expected recourse, in the first stage."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from pyomo.core.base.block import BlockData
from torch import Tensor

from pyomo_csg.baselines.base import Baseline
from pyomo_csg.baselines.embedding import ReluLayer, embed
from pyomo_csg.baselines.recourse_net import RecourseNet
from pyomo_csg.baselines.recourse_samples import RecourseSamples, Sampler
from pyomo_csg.baselines.training import Call, Features, Training
from pyomo_csg.deciding import Sets
from pyomo_csg.errors import CsgError
from pyomo_csg.learn.descent import Schedule
from pyomo_csg.learn.progress import Journal
from pyomo_csg.learn.seeding import seeded
from pyomo_csg.learn.threads import one_thread
from pyomo_csg.options import whole_problems
from pyomo_csg.solve import Oracle, Solution

_BATCH, _RATE = 100, 2e-3


class Neur2SP(Baseline):
    """A network for the expected recourse, embedded in the first stage.

    Patel, Dumouchelle, Khalil and Bodur (2022), Neur2SP: neural two-stage stochastic
    programming. A decision minimises h(y) plus what a ReLU network says of y and the
    context, subject to the first-stage constraints: a small mixed-integer program. It
    has no scenarios.

    Parameters
    ----------
    model, data, context, seed
        As in :class:`Baseline`.
    hidden : int
        Units of the layer that becomes part of the program.
    labels : int
        How many pairs of a context and a decision to learn from.
    outcomes : int
        How many outcomes a label is the mean over: so many recourse programs it takes.
        With integer recourse, which is slow, take fewer of both.
    decisions : int
        How many programs, on a few outcomes of the history each, give the decisions that
        others are sampled around.
    epochs : int
        Passes over the labels.
    progress : bool
        Whether to draw bars.
    **settings
        ``solver``, ``options``, ``workers`` and ``executor`` of the oracle.

    Attributes
    ----------
    network : RecourseNet

    Notes
    -----
    Theirs encodes a set of scenarios. Here the context is encoded, and stands for the
    outcomes that a forest finds likely after it; these make the labels. As with theirs,
    the encoder stays out of the program, and the model is to have recourse to every
    outcome. Decisions are kept within the range, variable by variable, of those that are
    optimal for some outcomes: beyond it the network knows little, and a variable may have
    no bounds of its own. Contexts that are panels are told by each number's mean, spread
    and last value.

    Examples
    --------
    >>> import pyomo_csg as csg
    >>> from models import newsvendor
    >>> rival = csg.baselines.Neur2SP(
    ...     newsvendor.build(), newsvendor.sample(60, seed=1), labels=200, progress=False
    ... )
    >>> 14 < rival.decide([0.0, 0.0])["order"] < 16
    True
    """

    name = "Neur2SP"

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        context: Any = None,
        seed: int = 0,
        hidden: int = 16,
        labels: int = 5000,
        outcomes: int = 50,
        decisions: int = 200,
        epochs: int = 100,
        progress: bool = True,
        **settings: Any,
    ):
        self._refuse(
            *whole_problems(
                hidden=hidden,
                labels=labels,
                outcomes=outcomes,
                decisions=decisions,
                epochs=epochs,
            )
        )
        super().__init__(model, data, context=context, seed=seed, **settings)
        self._features = Features(self.history.contexts)
        with one_thread():
            sampler = Sampler(self.oracle, self.history, decisions, self.seed)
            bounds = sampler.bounds
            # What no solver takes is to be told now, not after the training.
            nothing = ReluLayer(np.zeros((1, len(bounds[0]))), -np.ones(1), 0.0)
            self.oracle.on(embed(self.two_stage, nothing, *bounds))
            samples = sampler.draw(labels, outcomes, progress)
            self.network = self._trained(samples, hidden, epochs, progress)
        self._program = embed(self.two_stage, self.network.layer(), *bounds)

    @cached_property
    def embedded(self) -> Oracle:
        """The oracle of the first stage with the network's layer as its recourse.

        Its uncertain numbers are the layer's biases, which the context sets.
        """
        return self.oracle.on(self._program)

    def _generated(self, contexts: np.ndarray) -> tuple[Sets, Sets]:
        raise CsgError(
            "Neur2SP has no scenarios, and no weights: a network stands for the recourse. "
            "Call decide"
        )

    def _decided(self, contexts: np.ndarray, **how: Any) -> tuple[Solution, Sets, Sets]:
        biases = self.network.biases(self._features(contexts))
        solution = self.embedded.solve(biases[:, None], **how)
        none = np.zeros((len(contexts), 0, self.history.outcomes.shape[1]))
        return solution, none, none[..., 0]

    def __getstate__(self) -> bytes:
        vars(self).pop("embedded", None)  # its executor may not be pickled
        return super().__getstate__()

    def _trained(
        self, samples: RecourseSamples, hidden: int, epochs: int, progress: bool
    ) -> RecourseNet:
        """Return the network that squared errors like best."""
        rng = np.random.default_rng(self.seed)
        ys, costs = samples.decisions, samples.costs
        with seeded(rng):
            start = RecourseNet(self._features.count, hidden, ys, costs)
        features = torch.as_tensor(self._features(self.history.contexts[samples.rows]))
        decisions, targets = torch.as_tensor(ys), torch.as_tensor(costs)

        def loss(network: Call, batch: Tensor) -> Tensor:
            errors = network(features[batch], decisions[batch]) - targets[batch]
            return (errors / start.cost_spread).square().mean()

        schedule = Schedule(epochs, _BATCH, _RATE)
        train = Training(len(samples), schedule, rng, Journal(progress))
        trained = train("recourse", start, loss)
        assert isinstance(trained, RecourseNet)
        return trained
