"""What one of the paper's experiments is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import pyomo_csg as csg

EVALUATION_SEED = 1_000_000
DEVELOPMENT = 0  # generators 0 to 9 are for development
REPORT = 100  # reported figures are of generators from here on
QUICKLY: dict[str, Any] = {
    "first": DEVELOPMENT,
    "trials": 1,
    "contexts": 30,
    "config": {"starts": 2},
}


@dataclass(frozen=True)
class Experiment:
    """A problem of the paper with its parameters. Each trial has its own distribution.

    Attributes
    ----------
    name : str
    build : callable
        Returns the annotated model.
    sample : callable
        ``sample(n, seed, generator=trial)``: contexts and outcomes of n pairs.
    conditional : callable
        ``conditional(x, generator=trial)``: the outcomes that a context makes possible,
        and their weights.
    pairs, contexts, trials : int
        n, n_eval and n_trials.
    first : int
        The number of the first trial.
    counts : tuple of int
        The numbers of scenarios K.
    penalties : tuple of float or str
        The grid of lambda.
    rounds : int
        T of the dynamic method.
    config : dict
        Other settings of csg.fit.
    options : dict
        Of HiGHS, for the full program on a context's conditional distribution.
    location_scale : callable, optional
        ``location_scale(trial)``: the true location and scale, if there are any.
    doubled : tuple of int
        The numbers of scenarios for which static and dynamic are also run with the kernel
        -||a - b||, which doubles the MMD loss.
    protocol : str
        ``'paper'``: the paper's methods have the settings of a random search.
        ``'defaults'``: they have those of the package.
    searched : dict
        What the random search has found.
    level : float, optional
        The quantile that is the best decision, if there is one.
    quickly : dict
        What to change for a quick run.
    """

    name: str
    build: Callable[[], Any]
    sample: Callable[..., tuple[np.ndarray, np.ndarray]]
    conditional: Callable[..., tuple[np.ndarray, np.ndarray]]
    pairs: int
    contexts: int
    trials: int
    counts: tuple[int, ...]
    penalties: tuple[float | str, ...]
    rounds: int = 4
    config: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    location_scale: Callable[[int], csg.LocationScale] | None = None
    level: float | None = None
    doubled: tuple[int, ...] = ()
    first: int = REPORT
    protocol: str = "defaults"
    searched: dict[str, Any] = field(default_factory=dict)
    quickly: dict[str, Any] = field(default_factory=dict)

    def quick(self) -> Experiment:
        """Return the same on fewer contexts, scenarios and lambdas, and in one trial."""
        return replace(self, **{**QUICKLY, **self.quickly})

    @property
    def made_with(self) -> dict[str, Any]:
        """What has to be the same for rows to stand in one table."""
        return {
            "contexts": self.contexts,
            "pairs": self.pairs,
            "config": {"rounds": self.rounds, **self.config},
            "protocol": self.protocol,
            "searched": self.searched,
        }

    @property
    def numbers(self) -> range:
        """The numbers of the trials: generators, and seeds of the fits."""
        return range(self.first, self.first + self.trials)

    def history(self, trial: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs to learn from."""
        return self.sample(self.pairs, 17 * trial + 1, generator=trial)

    def evaluation_contexts(self, trial: int) -> np.ndarray:
        """Return the contexts to decide for.

        Fewer are the first of more, but for CVaR: there they are spread over the later
        pairs, so that another number has other contexts.
        """
        seed = EVALUATION_SEED + trial
        return self.sample(self.contexts, seed, generator=trial)[0]

    def cases(self, trial: int) -> list[csg.Case]:
        """Return these contexts with their conditional distributions."""
        return [
            csg.Case(x, *self.conditional(x, generator=trial))
            for x in self.evaluation_contexts(trial)
        ]

    def mean(self, trial: int) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function from contexts (n, ...) to true conditional means (n, p)."""

        def true_mean(contexts: np.ndarray) -> np.ndarray:
            known = [self.conditional(x, generator=trial) for x in contexts]
            return np.array([weights @ outcomes for outcomes, weights in known])

        return true_mean
