"""The best recourse to each of some outcomes, after one decision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.solve.assembly import Blocks
from pyomo_csg.solve.compiling import CompiledModel
from pyomo_csg.solve.cut import slack
from pyomo_csg.solve.engine import Stats
from pyomo_csg.solve.mip import Deadline, MipProgram
from pyomo_csg.solve.recourse_layout import RecourseLayout


@dataclass
class Reactions:
    """The best recourse to each outcome.

    Attributes
    ----------
    z : array (outcomes * recourse columns,)
        As the columns of a program on these outcomes.
    bound : array (outcomes,)
        What no recourse to each costs less than, without constants.
    """

    z: np.ndarray
    bound: np.ndarray


@dataclass
class Limit:
    """What recourse to some outcomes may cost, weighted, in all.

    Attributes
    ----------
    weights, least : array (outcomes,)
        What each counts, and what no recourse to it costs less than, weighted.
    spare : float
        By how much all together may cost more than that.
    """

    weights: np.ndarray
    least: np.ndarray
    spare: float

    def highest(self, k: int) -> float:
        """Return what the recourse to an outcome may cost, if all others cost least."""
        if self.weights[k] <= 0:
            return math.inf
        highest = float((self.least[k] + self.spare) / self.weights[k])
        return highest + float(slack(highest))

    def take(self, k: int, cost: float) -> None:
        """Take what the recourse to an outcome costs."""
        self.spare -= float(self.weights[k] * cost - self.least[k])


class Reaction:
    """Finds recourse, one outcome at a time.

    Parameters
    ----------
    compiled : CompiledModel
    stats : Stats
    options : mapping
        Of HiGHS.
    deadline : Deadline
    """

    def __init__(
        self,
        compiled: CompiledModel,
        stats: Stats,
        options: Mapping[str, Any],
        deadline: Deadline,
    ):
        self._layout = RecourseLayout(compiled)
        self._program = MipProgram(self._layout, stats, options, deadline)

    def to(
        self, blocks: Blocks, decision: np.ndarray, limit: Limit | None = None
    ) -> Reactions | None:
        """Return the best recourse to each outcome, if they all have one.

        None, too, as soon as they are known to cost more than a limit.
        """
        count = len(blocks.row_lower)
        shift = self._layout.shift(
            blocks, np.broadcast_to(decision, (count, len(decision)))
        )
        z, bound = np.empty((count, self._layout.columns)), np.empty(count)
        for k in range(count):
            arrays = self._layout.arrays(blocks[k], shift[k])
            highest = math.inf if limit is None else limit.highest(k)
            found = self._program.search(arrays, highest=highest)
            if found is None or (cost := float(arrays.cost @ found)) > highest:
                return None
            z[k], bound[k] = found, self._program.bound()
            if limit is not None:
                limit.take(k, cost)
        return Reactions(z.ravel(), bound)
