"""Joint distributions of SMPS problems: independent groups of uncertain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyomo_csg.errors import DataError


@dataclass(frozen=True)
class Discrete:
    """Uncertain numbers that take the values (k, m) together, with probabilities (k,)."""

    positions: list[int]
    values: np.ndarray
    probabilities: np.ndarray

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, m)."""
        cumulative = np.cumsum(self.probabilities)
        places = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], "right")
        return self.values[np.minimum(places, len(cumulative) - 1)]


@dataclass(frozen=True)
class Continuous:
    """One uncertain number: scale * Z + shift, with Z normal or uniform.

    ``parameters`` are the mean and variance, or the two ends of the interval.
    """

    positions: list[int]
    kind: str
    parameters: tuple[float, float]
    scale: float = 1.0
    shift: float = 0.0

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws (n, 1)."""
        one, other = self.parameters
        if self.kind == "NORMAL":
            drawn = rng.normal(one, math.sqrt(other), n)
        else:
            drawn = rng.uniform(one, other, n)
        return (self.scale * drawn + self.shift)[:, None]


Group = Discrete | Continuous


def count_scenarios(groups: Sequence[Group]) -> int | None:
    """Return the number of joint outcomes; None if there are infinitely many."""
    if any(isinstance(group, Continuous) for group in groups):
        return None
    return math.prod(len(g.probabilities) for g in groups if isinstance(g, Discrete))


def enumerate_scenarios(
    groups: Sequence[Group], size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return all joint outcomes (n, size) and probabilities; the last group is fastest."""
    discrete = [group for group in groups if isinstance(group, Discrete)]
    shape = tuple(len(group.probabilities) for group in discrete)
    places = np.unravel_index(np.arange(math.prod(shape)), shape)
    values, weights = np.empty((len(places[0]), size)), np.ones(len(places[0]))
    for group, place in zip(discrete, places, strict=True):
        values[:, group.positions] = group.values[place]
        weights *= group.probabilities[place]
    return values, weights / weights.sum()


def sample_scenarios(
    groups: Sequence[Group], size: int, n: int, seed: int
) -> np.ndarray:
    """Return n independent draws (n, size) of the joint distribution."""
    rng = np.random.default_rng(seed)
    values = np.empty((n, size))
    for group in groups:
        values[:, group.positions] = group.draw(n, rng)
    return values


def normalize(
    probabilities: Sequence[float], error: type[DataError], subject: str, found: str
) -> np.ndarray:
    """Return probabilities that sum to 1; files round them to six digits or so."""
    array = np.array(probabilities, float)
    if abs(array.sum() - 1) > 1e-3:
        sums = f"{found} sum to {array.sum():g}; correct them so that they sum to 1"
        raise error(subject, [sums])
    return array / array.sum()
