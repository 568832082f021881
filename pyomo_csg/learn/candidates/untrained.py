"""Candidates without training: conditional distributions reduced to K scenarios."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyomo_csg.learn.candidates.fold_distributions import FoldDistributions
from pyomo_csg.learn.distributions.conditional import ConditionalDistribution
from pyomo_csg.learn.distributions.features import standard_spread
from pyomo_csg.learn.distributions.reduction import reduce
from pyomo_csg.learn.distributions.residuals import Residuals
from pyomo_csg.learn.distributions.weighted import Empirical
from pyomo_csg.learn.generators.distribution_generators import (
    AtomGenerator,
    ConstantGenerator,
    Frame,
    ReducedGenerator,
)
from pyomo_csg.learn.generators.scenario_generator import ScenarioGenerator
from pyomo_csg.learn.selection.fits import Candidate, GeneratorFit
from pyomo_csg.learn.task import Task

SAMPLE_AVERAGE = "sample average"
_MOST_POINTS = 2000  # reduced to K


def task_frame(task: Task) -> Frame:
    """Return the contexts and bounds that all generators of a task share."""
    return Frame(
        task.center,
        task.spread,
        task.history.contexts.shape[1:],
        task.omega.lower.numpy(),
        task.omega.upper.numpy(),
    )


def reduced_name(distribution: ConditionalDistribution) -> str:
    """Return the name of the candidate that reduces a distribution."""
    if isinstance(distribution, Empirical):
        return SAMPLE_AVERAGE
    if isinstance(distribution, Residuals):
        return f"{distribution.name} residuals"
    return distribution.name


def untrained_candidates(
    task: Task, distributions: FoldDistributions
) -> Iterator[Candidate]:
    """Yield the distributions of all folds, each reduced to K scenarios."""
    for name in distributions.names:
        found = [fold[name] for fold in distributions.by_fold]
        fits = [GeneratorFit(_reduce(task, one)) for one in found]
        yield Candidate(reduced_name(found[0]), fits, isinstance(found[0], Empirical))


def sample_average(task: Task) -> Candidate:
    """Return the outcomes of all rows, reduced to K scenarios; it takes next to no time."""
    found = Empirical("empirical", task.history.outcomes)
    return Candidate(SAMPLE_AVERAGE, [GeneratorFit(_reduce(task, found))], True)


def _reduce(task: Task, distribution: ConditionalDistribution) -> ScenarioGenerator:
    """Return a generator of K scenarios; what the context does not change is reduced once."""
    frame = task_frame(task)
    if isinstance(distribution, Residuals):
        atoms, weights = _few(task, distribution.residuals)
        return AtomGenerator(distribution, atoms, weights, frame)
    if isinstance(distribution, Empirical):
        scenarios, weights = _few(task, distribution.history)
        return ConstantGenerator(scenarios, weights, frame)
    unit = task.omega.spread.numpy()
    return ReducedGenerator(distribution, task.scenarios, unit, frame)


def _few(task: Task, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return K points and their weights."""
    if len(points) > _MOST_POINTS:
        rng = task.rng("thinned")
        points = points[np.sort(rng.choice(len(points), _MOST_POINTS, replace=False))]
    return reduce(points, None, task.scenarios, standard_spread(points), seed=task.seed)
