"""The best recourse to each of some outcomes, after one decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyomo_csg.solve.assembly import Blocks
from pyomo_csg.solve.compiling import CompiledModel
from pyomo_csg.solve.engine import Stats
from pyomo_csg.solve.mip import Deadline, MipProgram
from pyomo_csg.solve.recourse import RecourseLayout


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

    def to(self, blocks: Blocks, decision: np.ndarray) -> Reactions | None:
        """Return the best recourse to each outcome, if they all have one."""
        count = len(blocks.row_lower)
        shift = self._layout.shift(
            blocks, np.broadcast_to(decision, (count, len(decision)))
        )
        z, bound = np.empty((count, self._layout.columns)), np.empty(count)
        for k in range(count):
            arrays = self._layout.arrays(blocks[k], shift[k])
            found = self._program.search(arrays)
            if found is None:
                return None
            z[k], bound[k] = found, self._program.bound()
        return Reactions(z.ravel(), bound)
