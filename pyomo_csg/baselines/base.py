"""What every rival shares: it learns from a history and decides like any policy."""

from __future__ import annotations

from typing import Any

import cloudpickle
import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.errors import DataError
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.history import read_history
from pyomo_csg.learn.networks.domains import build_omega
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.task import Task
from pyomo_csg.solve import Oracle
from pyomo_csg.validation import seed_problems

_SETTINGS = ("solver", "options", "workers", "executor")


class Baseline(Decider):
    """A policy as others have proposed it, to compare one's own with.

    Whoever derives from it learns in its constructor and makes scenarios in
    ``_generate_scenarios``. It can be pickled; an executor is not kept then.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`. It is copied: later changes to it are
        not seen.
    data : (contexts, outcomes) or DataFrame
        The history, as in :func:`pyomo_csg.fit`.
    context : str or list of str, optional
        The DataFrame's columns that are the context.
    seed : int
        Of what is random while learning.
    solver, options, workers, executor
        As in :class:`pyomo_csg.Oracle`.

    Attributes
    ----------
    name : str
        What tables call it.
    history : History
        The pairs that it learned from.
    oracle : Oracle
    context_shape : tuple of int
        (d,), or (W, d) for panels of W steps.
    context_names : tuple of str, or None

    Raises
    ------
    DataError
        If the data does not fit the model, or an option is not one.
    """

    name = "baseline"

    def __init__(
        self,
        model: BlockData,
        data: Any,
        *,
        context: Any = None,
        seed: int = 0,
        **settings: Any,
    ):
        unknown = [
            f"there is no option '{name}'; see help(csg.baselines.{type(self).__name__})"
            for name in settings
            if name not in _SETTINGS
        ]
        self._refuse(*seed_problems(seed), *unknown)
        super().__init__(model, **settings)
        self.seed = int(seed)
        self.history = read_history(self.two_stage, data, context)
        self.context_shape = self.history.contexts.shape[1:]
        self.context_names = self.history.context_names
        omega = build_omega(self.two_stage, self.history.outcomes)
        self._lower, self._upper = omega.lower.numpy(), omega.upper.numpy()

    def _project(self, outcomes: np.ndarray) -> np.ndarray:
        """Return the nearest outcomes (..., p) that the Params' domains allow."""
        return np.clip(outcomes, self._lower, self._upper)

    def _task(self) -> Task:
        """Return what the parts of csg.fit learn with, for one scenario."""
        return Task(self.oracle, self.history, 1, FitConfig(), self.seed, TrainingLog())

    def _refuse(self, *problems: str) -> None:
        """Raise one DataError for all problems, if there are any."""
        if problems:
            raise DataError(f"Cannot make {type(self).__name__}", problems)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} for '{self.two_stage.model.name}': {self.name}, "
            f"from {len(self.history)} pairs>"
        )

    def __getstate__(self) -> bytes:
        state = {key: value for key, value in vars(self).items() if key != "oracle"}
        return cloudpickle.dumps((self.two_stage.model, state))

    def __setstate__(self, content: bytes) -> None:
        model, state = cloudpickle.loads(content)
        vars(self).update(state)
        self.oracle = Oracle(model, **self._settings)
