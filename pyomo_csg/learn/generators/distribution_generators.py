"""Generators made from conditional distributions: constant, atoms, reduced, and full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import Self

from pyomo_csg.learn.distributions.conditional import (
    ConditionalDistribution,
    restore_stored,
)
from pyomo_csg.learn.distributions.reduction import reduce
from pyomo_csg.learn.distributions.residuals import Residuals
from pyomo_csg.learn.distributions.stored_arrays import (
    StoredArrays,
    damage,
    with_prefix,
)
from pyomo_csg.learn.distributions.user_distribution import UserDistribution
from pyomo_csg.learn.generators.array_networks import (
    body_function,
    feedforward_types,
    softmax,
)
from pyomo_csg.learn.generators.scenario_generator import PerContext

Arrays = Mapping[str, np.ndarray]
_MOST_SCENARIOS = 100_000


@dataclass(frozen=True, eq=False)
class Frame:
    """The contexts that a generator takes, and the bounds (p,) of its scenarios."""

    center: np.ndarray
    spread: np.ndarray
    context_shape: tuple[int, ...]
    lower: np.ndarray
    upper: np.ndarray

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the shape and the arrays."""
        names = "center", "spread", "lower", "upper"
        arrays = {name: getattr(self, name) for name in names}
        return {"context_shape": list(self.context_shape)}, arrays

    @classmethod
    def restore(cls, stored: StoredArrays) -> Frame:
        """Return the frame of a stored generator."""
        inside = stored.part("frame")
        shape = inside.sizes("context_shape")
        if len(shape) not in (1, 2):
            raise damage(f"contexts have shape {shape}")
        center = inside.numbers("center", shape[-1])
        spread = inside.positive("spread", shape[-1])
        p = len(inside.numbers("lower", None, finite=False))
        return cls(center, spread, shape, *inside.bounds(p))

    def distribution(self, stored: StoredArrays) -> ConditionalDistribution:
        """Return the stored distribution of the outcomes."""
        found = restore_stored(stored.part("distribution"))
        if found.column_count != len(self.lower):
            raise damage(f"a distribution has {found.column_count} columns")
        return found

    def residuals(self, stored: StoredArrays) -> Residuals:
        """Return the stored distribution, which must be a forecast with its errors."""
        found = self.distribution(stored)
        if not isinstance(found, Residuals):
            raise damage("a distribution is no forecast")
        return found

    def points(self, stored: StoredArrays, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return stored points (K, p) and their weights (K,)."""
        points = stored.numbers(name, None, len(self.lower))
        if not len(points):
            raise damage(f"array '{name}' is empty")
        return points, stored.shares("weights", len(points))


class _FramedGenerator:
    """A generator of ``count`` scenarios; their number varies if it is None."""

    kind: str
    is_weighted = True

    def __init__(self, frame: Frame, count: int | None):
        self.frame, self.count = frame, count

    @property
    def is_users(self) -> bool:
        """Whether scenarios come from an object of the user's."""
        return isinstance(getattr(self, "distribution", None), UserDistribution)

    @property
    def context_shape(self) -> tuple[int, ...]:
        """The shape of a context."""
        return self.frame.context_shape

    @property
    def center(self) -> np.ndarray:
        """The mean of the contexts in the history."""
        return self.frame.center

    @property
    def spread(self) -> np.ndarray:
        """Their standard deviation."""
        return self.frame.spread

    @property
    def lower(self) -> np.ndarray:
        """The lower bounds (p,) of all scenarios."""
        return self.frame.lower

    @property
    def upper(self) -> np.ndarray:
        """The upper bounds (p,) of all scenarios."""
        return self.frame.upper

    @classmethod
    def restore(cls, description: Mapping[str, Any], arrays: Arrays) -> Self:
        """Return the generator of a description."""
        stored = StoredArrays(description, arrays)
        return cls._from_stored(stored, Frame.restore(stored))

    @classmethod
    def _from_stored(cls, stored: StoredArrays, frame: Frame) -> Self:
        raise NotImplementedError

    def _clip(self, scenarios: np.ndarray) -> np.ndarray:
        return np.minimum(np.maximum(scenarios, self.lower), self.upper)

    def _describe(
        self,
        arrays: dict[str, np.ndarray],
        distribution: ConditionalDistribution | None = None,
        **more: Any,
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the description and the arrays, with those of a distribution."""
        frame, inside = self.frame.to_arrays()
        description: dict[str, Any] = {"kind": self.kind, "frame": frame}
        arrays = {**with_prefix("frame", inside), **arrays}
        if distribution is not None:
            description["distribution"], inside = distribution.to_arrays()
            arrays |= with_prefix("distribution", inside)
        return {**description, **more}, arrays


class ConstantGenerator(_FramedGenerator):
    """The same scenarios (K, p) and weights (K,) for every context."""

    kind = "constant"

    def __init__(self, scenarios: np.ndarray, weights: np.ndarray, frame: Frame):
        super().__init__(frame, len(scenarios))
        self.scenarios, self.weights = self._clip(scenarios), weights

    def __call__(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scenarios (n, K, p) and weights (n, K)."""
        n = len(contexts)
        return _repeat(self.scenarios, n), _repeat(self.weights, n)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the description and the arrays."""
        return self._describe({"scenarios": self.scenarios, "weights": self.weights})

    @classmethod
    def _from_stored(cls, stored: StoredArrays, frame: Frame) -> Self:
        return cls(*frame.points(stored, "scenarios"), frame)


class AtomGenerator(_FramedGenerator):
    """Scenarios location(x) + scale(x) * atoms (K, p), with fixed weights (K,)."""

    kind = "atoms"

    def __init__(
        self,
        distribution: Residuals,
        atoms: np.ndarray,
        weights: np.ndarray,
        frame: Frame,
    ):
        super().__init__(frame, len(atoms))
        self.distribution, self.atoms, self.weights = distribution, atoms, weights

    def __call__(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scenarios (n, K, p) and weights (n, K)."""
        location, scale = self.distribution.location_and_scale(contexts)
        scenarios = self._clip(location[:, None] + scale[:, None] * self.atoms)
        return scenarios, _repeat(self.weights, len(contexts))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the description and the arrays."""
        arrays = {"atoms": self.atoms, "weights": self.weights}
        return self._describe(arrays, self.distribution)

    @classmethod
    def _from_stored(cls, stored: StoredArrays, frame: Frame) -> Self:
        return cls(frame.residuals(stored), *frame.points(stored, "atoms"), frame)


class ForecastNetworkGenerator(_FramedGenerator):
    """Scenarios location(x) + scale(x) * the mean output of some networks.

    ``settings`` are those of a feedforward network from standardized contexts to (K, p + 1)
    numbers; the last are logarithms of weights.
    """

    kind = "forecast networks"

    def __init__(
        self,
        distribution: Residuals,
        settings: Mapping[str, Any],
        members: Sequence[Arrays],
        frame: Frame,
    ):
        super().__init__(frame, int(settings["shape"][0]))
        self.distribution, self.members = distribution, [*map(dict, members)]
        self.settings: dict[str, Any] = {
            "inputs": int(settings["inputs"]),
            "shape": [int(size) for size in settings["shape"]],
            "hidden": [int(size) for size in settings["hidden"]],
        }
        self._bodies = [
            body_function("Feedforward", self.settings, one) for one in self.members
        ]

    def __call__(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scenarios (n, K, p) and weights (n, K)."""
        inputs = (contexts - self.center) / self.spread
        free = np.mean([body(inputs) for body in self._bodies], axis=0)
        location, scale = self.distribution.location_and_scale(contexts)
        scenarios = location[:, None] + scale[:, None] * free[..., :-1]
        return self._clip(scenarios), softmax(free[..., -1])

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the description and the arrays."""
        arrays: dict[str, np.ndarray] = {}
        for number, member in enumerate(self.members):
            arrays |= with_prefix(f"members/{number}", member)
        return self._describe(
            arrays,
            self.distribution,
            settings={**self.settings, "inputs": [self.settings["inputs"]]},
            members=[{}] * len(self.members),
        )

    @classmethod
    def _from_stored(cls, stored: StoredArrays, frame: Frame) -> Self:
        inside = stored.part("settings")
        inputs, shape = inside.sizes("inputs"), inside.sizes("shape")
        if (inputs, shape[1:]) != (frame.context_shape, (len(frame.lower) + 1,)):
            raise damage(f"networks map {inputs} to {shape}")
        hidden = inside.sizes("hidden")
        types = list(feedforward_types(inputs[0], shape, hidden))
        members = [
            {name: part.numbers(name, *size) for name, _, size in types}
            for part in stored.parts("members")
        ]
        settings = {"inputs": inputs[0], "shape": shape, "hidden": hidden}
        return cls(frame.residuals(stored), settings, members, frame)


class ReducedGenerator(_FramedGenerator):
    """A conditional distribution reduced to K weighted scenarios for each context.

    Distances are in ``unit`` (p,).
    """

    kind = "reduced"

    def __init__(
        self,
        distribution: ConditionalDistribution,
        count: int,
        unit: np.ndarray,
        frame: Frame,
    ):
        super().__init__(frame, count)
        self.distribution, self.unit = distribution, unit

    def __call__(self, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scenarios (n, K, p) and weights (n, K)."""
        assert self.count is not None
        pairs = zip(*self.distribution.outcomes(contexts), strict=True)
        found = [
            reduce(points, weights, self.count, self.unit) for points, weights in pairs
        ]
        scenarios, shares = (np.stack(part) for part in zip(*found, strict=True))
        return self._clip(scenarios), shares

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the description and the arrays."""
        return self._describe(
            {"unit": self.unit}, self.distribution, count=[self.count]
        )

    @classmethod
    def _from_stored(cls, stored: StoredArrays, frame: Frame) -> Self:
        count, *more = stored.sizes("count")
        if more or count > _MOST_SCENARIOS:
            raise damage(f"there are {count} scenarios")
        unit = stored.positive("unit", len(frame.lower))
        return cls(frame.distribution(stored), count, unit, frame)


class FullGenerator(_FramedGenerator):
    """All outcomes of a conditional distribution, with their weights."""

    kind = "full"

    def __init__(self, distribution: ConditionalDistribution, frame: Frame):
        super().__init__(frame, None)
        self.distribution = distribution

    def __call__(self, contexts: np.ndarray) -> tuple[PerContext, PerContext]:
        """Return scenarios and weights, a list of one array per context."""
        points, weights = self.distribution.outcomes(contexts)
        return [self._clip(one) for one in points], list(weights)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the description and the arrays."""
        return self._describe({}, self.distribution)

    @classmethod
    def _from_stored(cls, stored: StoredArrays, frame: Frame) -> Self:
        return cls(frame.distribution(stored), frame)


def _repeat(values: np.ndarray, n: int) -> np.ndarray:
    """Return a new array of n copies."""
    return np.repeat(values[None], n, axis=0)
