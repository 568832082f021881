"""Candidates without training: conditional distributions reduced to K scenarios."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyomo_csg.learn.distributions.conditional import Residuals
from pyomo_csg.learn.distributions.reduction import reduce
from pyomo_csg.learn.generators.distribution_generators import (
    AtomGenerator,
    ConstantGenerator,
    Frame,
    ReducedGenerator,
)
from pyomo_csg.learn.networks.domains import standard_spread
from pyomo_csg.learn.selection.fits import Candidate, GeneratorFit
from pyomo_csg.learn.selection.fold_distributions import FoldDistributions
from pyomo_csg.learn.selection.folds import Folds
from pyomo_csg.learn.task import Task

_MOST_POINTS = 2000  # reduced to K


def frame_of(task: Task) -> Frame:
    """Return the contexts and bounds that all generators of a task share."""
    return Frame(
        task.center,
        task.spread,
        task.history.contexts.shape[1:],
        task.omega.lower.numpy(),
        task.omega.upper.numpy(),
    )


class UntrainedCandidates:
    """Reduces the distributions of each fold to K scenarios."""

    def __init__(self, task: Task, folds: Folds, distributions: FoldDistributions):
        self._task, self._folds, self._distributions = task, folds, distributions

    def each(self) -> Iterator[Candidate]:
        """Yield the candidates, the context-free one first."""
        yield self.sample_average()
        for name in self._distributions.names:
            yield self._reduced(name)

    def sample_average(self) -> Candidate:
        """The same scenarios for every context: the history reduced to K."""
        task, fits = self._task, []
        for rows in self._folds.rows:
            outcomes = self._thinned(task.history.outcomes[rows])
            unit = standard_spread(outcomes)
            scenarios, weights = reduce(
                outcomes, None, task.scenarios, unit, seed=task.seed
            )
            fits.append(
                GeneratorFit(
                    ConstantGenerator(
                        scenarios, weights, frame_of(self._task)
                    )
                )
            )
        return Candidate("sample average, reduced", fits)

    def _reduced(self, name: str) -> Candidate:
        fits = []
        for found in self._distributions.by_fold:
            distribution = found[name]
            if isinstance(distribution, Residuals):
                points = self._thinned(distribution.residuals)
                atoms, weights = reduce(
                    points,
                    None,
                    self._task.scenarios,
                    standard_spread(points),
                    seed=self._task.seed,
                )
                made = AtomGenerator(distribution, atoms, weights, frame_of(self._task))
                fits.append(GeneratorFit(made))
            else:
                fits.append(
                    GeneratorFit(
                        ReducedGenerator(
                            distribution,
                            self._task.scenarios,
                            self._task.omega.spread.numpy(),
                            frame_of(self._task),
                        )
                    )
                )
        return Candidate(f"{name}, reduced", fits)

    def _thinned(self, points: np.ndarray) -> np.ndarray:
        """Return at most so many points as a reduction needs."""
        if len(points) <= _MOST_POINTS:
            return points
        rng = self._task.rng("thinned")
        return points[np.sort(rng.choice(len(points), _MOST_POINTS, replace=False))]
