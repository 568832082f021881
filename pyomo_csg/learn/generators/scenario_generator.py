"""The protocol of scenario generators, which policies hold."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

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
