"""csg.Case: a context, and what may happen in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Case:
    """A context with the distribution of outcomes that it makes likely.

    Attributes
    ----------
    context : array, mapping or Series
        One context, as the policies take it.
    outcomes : array (M, p) or DataFrame
        What may happen.
    weights : array (M,), optional
        How likely each is; they sum to 1. Default: 1/M.

    Examples
    --------
    >>> case = Case([0.5, -1.0], outcomes=[[10.0], [14.0], [30.0]])
    >>> case.weights
    array([0.33333333, 0.33333333, 0.33333333])
    """

    context: Any
    outcomes: Any
    weights: Any = None

    def __post_init__(self) -> None:
        count = len(self.outcomes) if hasattr(self.outcomes, "__len__") else 0
        if self.weights is None and count:
            object.__setattr__(self, "weights", np.full(count, 1 / count))

    def digest(self) -> str:
        """Return what tells the distribution from another."""
        numbers = (np.asarray(part, float) for part in (self.outcomes, self.weights))
        content = b"".join(array.tobytes() for array in numbers)
        return hashlib.sha256(content).hexdigest()[:16]
