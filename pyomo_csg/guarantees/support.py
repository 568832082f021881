"""The box that outcomes are in: Omega of the paper, which its bounds need to be bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.errors import DataError
from pyomo_csg.stages import TwoStageModel


@dataclass(frozen=True, eq=False)
class Support:
    """A box of outcomes.

    Attributes
    ----------
    lower, upper : array (p,)
        Infinite where there is no bound.
    """

    lower: np.ndarray
    upper: np.ndarray

    def diameter(self, unit: np.ndarray | float = 1.0) -> float:
        """Return how far apart two outcomes can be, in some unit."""
        return float(np.linalg.norm((self.upper - self.lower) / unit))

    def most(self, slope: np.ndarray) -> float:
        """Return the largest slope'omega in the box."""
        corner = np.where(slope > 0, self.upper, self.lower)
        return float(np.sum(slope * corner, where=slope != 0))

    def joined(self, lower: np.ndarray, upper: np.ndarray) -> Support:
        """Return the smallest box around this one and another."""
        return Support(np.minimum(self.lower, lower), np.maximum(self.upper, upper))


def support_of(two_stage: TwoStageModel, support: Any = None) -> Support:
    """Return the box that a user gives, or else that of the Params' domains.

    Parameters
    ----------
    two_stage : TwoStageModel
    support : (lower, upper), optional
        Each a number for all, or an array (p,).

    Raises
    ------
    DataError
    """
    params = two_stage.uncertain_params
    if support is None:
        sides = [p.parent_component().domain.get_interval()[:2] for p in params]
        return Support(
            np.array([-np.inf if low is None else low for low, _ in sides], float),
            np.array([np.inf if high is None else high for _, high in sides], float),
        )
    try:
        lower, upper = (
            np.broadcast_to(np.asarray(side, dtype=float), (len(params),))
            for side in support
        )
    except (TypeError, ValueError) as error:
        found = f"support is {support!r:.80}; give (lower, upper), numbers or ({len(params)},)"
        raise DataError("There is no such support", [found]) from error
    if not (lower <= upper).all():
        j = int(np.flatnonzero(~(lower <= upper))[0])
        found = (
            f"'{params[j].name}' is to be between {lower[j]} and {upper[j]}; give the"
        )
        found += " lower end first"
        raise DataError("There is no such support", [found])
    return Support(lower, upper)
