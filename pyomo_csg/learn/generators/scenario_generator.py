"""The protocol of scenario generators, which policies hold, and its check."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.stages import TwoStageModel

_ROUNDING = 1e-9  # of the sum of weights
# One array per context: stacked, or a list where their sizes differ.
PerContext = np.ndarray | list[np.ndarray]


class ScenarioGenerator(Protocol):
    """Generates weighted scenarios for contexts; several threads may call it.

    A policy reads nothing else. Arrays that a generator returns are new ones.
    """

    @property
    def count(self) -> int | None:
        """K, the number of scenarios for a context; None if it varies."""

    @property
    def is_weighted(self) -> bool:
        """Whether the weights of scenarios may differ."""

    @property
    def context_shape(self) -> tuple[int, ...]:
        """The shape of a context: (d,), or (W, d) for panels of W steps."""

    @property
    def center(self) -> np.ndarray:
        """The mean (d,) of the contexts in the history."""

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation (d,) of the contexts in the history; never zero."""

    @property
    def lower(self) -> np.ndarray:
        """The lower bounds (p,) of all scenarios; may be infinite."""

    @property
    def upper(self) -> np.ndarray:
        """The upper bounds (p,) of all scenarios; may be infinite."""

    def __call__(self, contexts: np.ndarray) -> tuple[PerContext, PerContext]:
        """Return scenarios (n, K, p) and weights (n, K); lists of n if K varies."""

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return a description in JSON types, with its ``kind``, and arrays by name.

        :func:`restore_generator` returns an equal generator from these.
        """


def largest_distance(contexts: np.ndarray, generator: ScenarioGenerator) -> float:
    """Return the largest root mean square of a standardized context."""
    squares = ((contexts - generator.center) / generator.spread) ** 2
    axes = tuple(range(1, contexts.ndim))
    return float(np.sqrt(squares.mean(axis=axes)).max())


def check_generator(generator: ScenarioGenerator, two_stage: TwoStageModel) -> None:
    """Raise a DataError unless a generator fits a model."""
    numbers = len(two_stage.uncertain_params)
    subject = f"The scenario generator does not fit '{two_stage.model.name}'"
    try:
        problem = _find_problem(generator, numbers)
    except Exception as error:  # a user's own module may raise anything
        found = f"it fails on contexts {(1, *generator.context_shape)}"
        found += f": {type(error).__name__}: {error}"
        raise DataError(subject, [found]) from error
    if problem:
        raise DataError(subject, [problem])


def _find_problem(generator: ScenarioGenerator, numbers: int) -> str:
    """Return the first problem with a generator; empty text if there is none."""
    if getattr(generator, "is_users", False):  # the mean context may mean nothing to it
        return _size_problem(generator, numbers)
    middle = np.array(np.broadcast_to(generator.center, generator.context_shape))[None]
    with np.errstate(all="ignore"):  # of numbers that are not finite, checked below
        scenarios, weights = generator(middle)
    count = generator.count
    return (
        _shape_problem(np.shape(scenarios), count, numbers)
        or _value_problem(np.asarray(scenarios), np.asarray(weights))
        or _size_problem(generator, numbers)
    )


def _shape_problem(shape: tuple[int, ...], count: int | None, numbers: int) -> str:
    fits = len(shape) == 3 and shape[::2] == (1, numbers)
    if fits and shape[1] and count in (None, shape[1]):
        return ""
    wanted = "K" if count is None else count
    return f"for one context it gives {shape}; expected (1, {wanted}, {numbers})"


def _value_problem(scenarios: np.ndarray, weights: np.ndarray) -> str:
    if weights.shape != scenarios.shape[:2]:
        return f"it gives weights {weights.shape} for scenarios {scenarios.shape}"
    if not (np.isfinite(scenarios).all() and np.isfinite(weights).all()):
        return "for the mean context it gives values that are not finite; fit it again"
    if (weights < 0).any() or abs(weights.sum() - 1) > _ROUNDING:
        return "its weights for the mean context are not shares of 1; fit it again"
    return ""


def _size_problem(generator: ScenarioGenerator, numbers: int) -> str:
    sizes: Any = {
        "center": generator.context_shape[-1:],
        "spread": generator.context_shape[-1:],
        "lower": (numbers,),
        "upper": (numbers,),
    }
    wrong = [
        name for name, size in sizes.items() if getattr(generator, name).shape != size
    ]
    return f"its {wrong[0]} does not have shape {sizes[wrong[0]]}" if wrong else ""
