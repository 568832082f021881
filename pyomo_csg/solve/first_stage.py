"""Check decisions against the bounds and constraints of the first stage."""

from __future__ import annotations

import numpy as np

from pyomo_csg.solve.compile.assembly import first_stage_data
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import SolverTrouble, Troubles
from pyomo_csg.stages import TwoStageModel

_TOLERANCE = 1e-6  # the usual feasibility tolerance, since decisions may come from another solver


_NUMBERS = 1_000_000  # entries of all cases in one array


class FirstStage:
    """The bounds and constraints of the first stage, by name."""

    def __init__(self, two_stage: TwoStageModel, compiled: CompiledModel):
        from scipy import sparse  # decisions do without

        self._compiled, rows = compiled, compiled.first_rows
        places = np.arange(len(rows.row)), rows.row
        shape = len(rows.row), len(rows)
        self._sums = sparse.csr_array((np.ones(len(rows.row)), places), shape=shape)
        self._names = [
            *(f"constraint '{c.name}'" for c in two_stage.first_stage_constraints),
            *(f"the bounds of '{v.name}'" for v in two_stage.first_stage_variables),
        ]

    def violations(self, decisions: np.ndarray, data: np.ndarray) -> Troubles:
        """Return a trouble for each infeasible decision (n, s), given data (n, p + r)."""
        troubles: Troubles = {}
        size = max(1, _NUMBERS // max(1, len(self._compiled.first_rows.row)))
        for start in range(0, len(decisions), size):
            part = slice(start, start + size)
            found = self._violations(decisions[part], data[part])
            troubles.update((start + i, trouble) for i, trouble in found.items())
        return troubles

    def _violations(self, decisions: np.ndarray, data: np.ndarray) -> Troubles:
        rows, first = self._compiled.first_rows, first_stage_data(self._compiled, data)
        products = first.entries * decisions[:, rows.column]
        body = np.hstack([products @ self._sums, decisions])
        terms = np.hstack([np.abs(products) @ self._sums, np.abs(decisions)])
        lower = np.hstack([first.row_lower, first.lower])
        upper = np.hstack([first.row_upper, first.upper])
        off = np.maximum(lower - body, body - upper) - _TOLERANCE * (1 + terms)
        return {
            int(i): self._trouble(int(np.argmax(off[i])), body[i], lower[i], upper[i])
            for i in np.flatnonzero((off > 0).any(axis=1))
        }

    def _trouble(
        self, place: int, body: np.ndarray, lower: np.ndarray, upper: np.ndarray
    ) -> SolverTrouble:
        low, high = lower[place], upper[place]
        relation = f"below {low:.9g}" if body[place] < low else f"above {high:.9g}"
        return SolverTrouble(
            "infeasible",
            f"the decision violates {self._names[place]}: {body[place]:.9g} is {relation}",
        )
