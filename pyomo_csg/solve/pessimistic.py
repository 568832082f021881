"""The worst of all optimal decisions of a linear zeta-SAA under an outcome.

The cost of a decision is convex, so that its largest value on the optimal face is hard
to find in general. But it is a maximum over the recourse's dual vertices, which do not
depend on the decision: for each of them a linear program on the face is solved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pyomo_csg.solve.assembly import Arrays, Blocks, Layout
from pyomo_csg.solve.duals import OneSided, one_sided
from pyomo_csg.solve.engine import Found, SolverTrouble, Stats
from pyomo_csg.solve.face import on_face
from pyomo_csg.solve.face_search import FaceProgram
from pyomo_csg.solve.recourse_layout import RecourseLayout
from pyomo_csg.solve.vertices import Corners, TooManyBasesError

_FEASIBLE = 1e-7  # of the size of a row: by so much a decision may break it
_MOST_KNOWN = 64


class WorstSearch:
    """The search for the worst among all optima of a linear zeta-SAA.

    Parameters
    ----------
    layout : Layout
        Of zeta-SAA.
    stats : Stats
    options : mapping
        Of HiGHS.
    """

    def __init__(self, layout: Layout, stats: Stats, options: Mapping[str, Any]):
        self._compiled, self._layout = layout.compiled, layout
        self._recourse = RecourseLayout(layout.compiled)
        self._face = FaceProgram(layout, stats, options)
        self._known: dict[bytes, Corners] = {}

    def search(self, found: Found, saa: Arrays, outcome: Blocks, basis: Any) -> float:
        """Return the largest cost under an outcome (no leading axis) on the face."""
        assert found.column_dual is not None and found.row_dual is not None
        face = on_face(saa, (found.column_dual, found.row_dual))
        recourse = one_sided(self._recourse, outcome)
        corners = self._corners(recourse)
        first, n1 = self._compiled.first_cost, self._layout.n1
        own = first.linear.constant[:n1] + outcome.cost[:n1]
        constant = float(first.constant.constant[0] + outcome.constant[0])

        def largest(dual: np.ndarray, slope: np.ndarray) -> float:
            """Return the maximum on the face of slope'y + dual'(side - C y)."""
            nonlocal basis
            cost = np.zeros(self._layout.columns)
            cost[:n1] = dual @ recourse.technology - slope
            x = self._face.best(found, saa, replace(face, cost=cost), basis)
            basis = None  # the next starts where this one ended
            return float(dual @ recourse.side - cost @ x)

        for ray in corners.rays:
            size = 1 + np.abs(ray * recourse.side).sum()
            if largest(ray, np.zeros(n1)) > _FEASIBLE * size:
                detail = "an optimal decision has no recourse to the outcome"
                raise SolverTrouble("infeasible", detail)
        return constant + max(largest(vertex, own) for vertex in corners.vertices)

    def _corners(self, recourse: OneSided) -> Corners:
        """Return the duals' corners, once for outcomes that share matrix and costs."""
        key = recourse.recourse.tobytes() + recourse.cost.tobytes()
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = _enumerated(recourse)
        return self._known[key]


def _enumerated(recourse: OneSided) -> Corners:
    try:
        found = recourse.duals()
    except TooManyBasesError as error:
        detail = f"the recourse has too many dual bases to try them all: {error}"
        raise SolverTrouble("too large", detail) from None
    if found is None:
        raise SolverTrouble("unbounded", "the recourse has no dual solution")
    return found
