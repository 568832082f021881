"""Baseline, the base class of all baselines: it learns from a history in its constructor."""

from __future__ import annotations

from typing import Any

import cloudpickle
import numpy as np
from pyomo.core.base.block import BlockData

from pyomo_csg.decisions.decider import Decider
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.networks.domains import build_omega
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.tables.history import History, read_history
from pyomo_csg.learn.task import Task
from pyomo_csg.solve import Oracle
from pyomo_csg.validation import Problems

_SETTINGS = ("solver", "options", "workers", "executor")


class Baseline(Decider):
    """A policy by another method, to compare policies with.

    Subclasses learn in their constructor and implement ``_generate_scenarios``. Baselines
    can be pickled, without their executor.

    Parameters
    ----------
    model : ConcreteModel
        Annotated by :func:`pyomo_csg.annotate`. It is copied, so later changes to it have
        no effect.
    data : (contexts, outcomes) or DataFrame
        The history, as in :func:`pyomo_csg.fit`.
    context : str or list of str, optional
        The context columns of the DataFrame.
    known : mapping or array, optional
        Known numbers that the history has no columns for, as in :func:`pyomo_csg.fit`.
    preprocess : 'auto', None, mapping or transformer
        What happens to columns of text, dates and missing values, as in
        :func:`pyomo_csg.fit`.
    seed : int
        Seed of all randomness in learning.
    solver, options, workers, executor
        As in :class:`pyomo_csg.Oracle`.

    Attributes
    ----------
    name : str
        Name for tables.
    history : History
        The rows it learned from.
    oracle : Oracle
    context_shape : tuple of int
        (d,), or (W, d) for panels of W steps.
    context_names : tuple of str, or None

    Raises
    ------
    DataError
        If the data does not fit the model, or an option is invalid.
    """

    name = "baseline"
    takes_known = True  # whether the model may have known Params

    def __init__(
        self,
        model: BlockData | Oracle,
        data: Any,
        *,
        context: Any = None,
        known: Any = None,
        preprocess: Any = "auto",
        seed: int = 0,
        **settings: Any,
    ):
        problems = self._new_problems()
        problems.check_seed(seed)
        problems.add(
            *(
                f"there is no option '{name}'; see help(csg.baselines.{type(self).__name__})"
                for name in settings
                if name not in _SETTINGS
            )
        )
        problems.raise_any()
        super().__init__(model, **settings)
        self.seed = int(seed)
        # Internal callers pass a History, which is valid already.
        self.history = (
            data
            if isinstance(data, History)
            else read_history(
                self.two_stage, data, context, preprocess, known, int(seed)
            )
        )
        if self.two_stage.known_params and not self.takes_known:
            self._raise_problems(
                "the model has known Params, which this baseline does not support"
            )
        self.context_shape = self.history.contexts.shape[1:]
        self.context_names = self.history.context_names
        self.preprocessing = self.history.preprocessing
        omega = build_omega(self.two_stage, self.history.outcomes)
        self._lower, self._upper = omega.lower.numpy(), omega.upper.numpy()

    def _project(self, outcomes: np.ndarray) -> np.ndarray:
        """Return the nearest outcomes (..., p) in the Params' domains."""
        return np.clip(outcomes, self._lower, self._upper)

    def _task(self) -> Task:
        """Return the learning task of csg.fit, for one scenario."""
        return Task(self.oracle, self.history, 1, FitConfig(), self.seed, TrainingLog())

    def _raise_problems(self, *problems: str) -> None:
        """Raise one DataError that lists the problems, if there are any."""
        found = self._new_problems()
        found.add(*problems)
        found.raise_any()

    def _new_problems(self) -> Problems:
        return Problems(f"Cannot create {type(self).__name__}")

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
