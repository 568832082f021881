"""Which decisions satisfy the first stage: bounds and first-stage constraints."""

from __future__ import annotations

import numpy as np

from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import SolverTrouble, Troubles
from pyomo_csg.stages import TwoStageModel

_TOLERANCE = 1e-6  # the usual feasibility tolerance: decisions may be another solver's


class FirstStage:
    """The bounds and constraints of the first stage, by name."""

    def __init__(self, two_stage: TwoStageModel, compiled: CompiledModel):
        from scipy import sparse  # decisions do without

        rows, width = compiled.first_rows, len(compiled.first)
        entries = rows.entries.constant, (rows.row, rows.column)
        self._matrix = sparse.csr_array(entries, shape=(len(rows), width))
        lower, upper = compiled.first.bounds(np.zeros((1, compiled.p)))
        self._lower = np.concatenate([rows.lower.constant, lower[0]])
        self._upper = np.concatenate([rows.upper.constant, upper[0]])
        self._names = [
            *(f"constraint '{c.name}'" for c in two_stage.first_stage_constraints),
            *(f"the bounds of '{v.name}'" for v in two_stage.first_stage_variables),
        ]

    def violations(self, decisions: np.ndarray) -> Troubles:
        """Return a trouble for each of the decisions (n, s) that violates something."""
        body = np.hstack([decisions @ self._matrix.T, decisions])
        terms = np.hstack([np.abs(decisions) @ abs(self._matrix).T, np.abs(decisions)])
        allowed = _TOLERANCE * (1 + terms)
        off = np.maximum(self._lower - body, body - self._upper)
        return {
            int(i): self._trouble(body[i], int(np.argmax(off[i] - allowed[i])))
            for i in np.flatnonzero((off > allowed).any(axis=1))
        }

    def _trouble(self, body: np.ndarray, place: int) -> SolverTrouble:
        lower, upper = self._lower[place], self._upper[place]
        relation = f"below {lower:.9g}" if body[place] < lower else f"above {upper:.9g}"
        return SolverTrouble(
            "infeasible",
            f"the decision violates {self._names[place]}: {body[place]:.9g} is {relation}",
        )
