"""LearnedDecider, the base class of deciders whose scenarios come from a trained network."""

from __future__ import annotations

import pandas as pd

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.learn.fit_result import FitResult
from pyomo_csg.learn.networks.task_nets import TaskNet


class LearnedDecider(Decider):
    """A decider with a trained network and the record of its fit.

    Reports and bounds are made of it, so that they need not import :class:`pyomo_csg.Policy`.

    Attributes
    ----------
    learned : FitResult
        The network, the fit summary and the training losses.
    count : int
        K, the number of scenarios for each context.
    """

    learned: FitResult
    count: int

    @property
    def network(self) -> TaskNet:
        """The network that generates the scenarios."""
        return self.learned.network

    @property
    def method(self) -> str:
        """The method that was passed to :func:`pyomo_csg.fit`."""
        return self.learned.method

    @property
    def history(self) -> pd.DataFrame:
        """Training losses: stage, step and values."""
        return self.learned.log
