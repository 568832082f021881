"""The worst of all optimal decisions of a linear zeta-SAA under an outcome.

The cost of a decision is convex, so that its largest value on the optimal face is hard
to find in general. But it is a maximum over the recourse's dual vertices, which do not
depend on the decision: for each of them a linear program on the face is solved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.compile.assembly import (
    Arrays,
    Blocks,
    Layout,
    Program,
    RecourseLayout,
    Stack,
)
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import Found, SolveContext, SolverTrouble, Troubles
from pyomo_csg.solve.lp.certificates import CertificateChecker
from pyomo_csg.solve.lp.highs_program import (
    PRIMAL_SIMPLEX,
    HighsProgram,
    SolutionBuffer,
)
from pyomo_csg.solve.lp.rescaling import RescaledSolver, not_exact
from pyomo_csg.solve.lp.vertices import (
    InequalityForm,
    TooManyBasesError,
    VerticesAndRays,
    to_inequality_form,
)
from pyomo_csg.solve.mip.mip_program import SearchLayout


def is_unique(duals: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Say where (...) every nonbasic place has a dual, so that the optimum is unique.

    There are as many nonbasic places as columns, and a basic one has none.
    """
    columns, rows = duals
    nonzero = np.count_nonzero(columns, axis=-1) + np.count_nonzero(rows, axis=-1)
    return np.asarray(nonzero == columns.shape[-1])


def restrict_to_face(program: Program, duals: tuple[np.ndarray, np.ndarray]) -> Program:
    """Hold those of the first columns and rows that have a dual at their bounds.

    Parameters
    ----------
    program : Arrays or Stack
        One or more, whose first columns and rows are those of zeta-SAA.
    duals : tuple of arrays (..., columns), (..., rows)
        zeta-SAA's, as a :class:`~pyomo_csg.solve.lp.certificates.Certificate` has them: a positive
        one holds a place at its lower side, a negative one at its upper.
    """
    columns = _held(program.column_lower, program.column_upper, duals[0])
    rows = _held(program.row_lower, program.row_upper, duals[1])
    return replace(
        program,
        column_lower=columns[0],
        column_upper=columns[1],
        row_lower=rows[0],
        row_upper=rows[1],
    )


def _held(
    lower: np.ndarray, upper: np.ndarray, dual: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    held = dual.shape[-1]
    shape = (*dual.shape[:-1], lower.shape[-1])
    new_lower, new_upper = (np.array(np.broadcast_to(s, shape)) for s in (lower, upper))
    lower, upper = lower[..., :held], upper[..., :held]
    np.copyto(new_upper[..., :held], lower, where=dual > 0)
    np.copyto(new_lower[..., :held], upper, where=dual < 0)
    return new_lower, new_upper


_CUT = 1e-9  # what a point may cost more and count as an optimum
_ROUNDING = 1e-13


class FaceProgram:
    """A linear program on the optimal face of zeta-SAA, kept in HiGHS.

    If the point found on it is no optimum of zeta-SAA, the face is too wide: there is no
    answer then.

    Parameters
    ----------
    layout : Layout
        Of a program whose first columns and rows are those of zeta-SAA.
    context : SolveContext
    """

    def __init__(self, layout: Layout, context: SolveContext):
        lean = {"presolve": "off", "simplex_strategy": PRIMAL_SIMPLEX}
        self.careful = RescaledSolver(layout, CertificateChecker(layout), context)
        self.program = HighsProgram(
            layout, context.with_defaults(lean), relaxed=True, scaled=True
        )

    def best(self, found: Found, saa: Arrays, arrays: Arrays, basis: Any) -> np.ndarray:
        """Return the best point on a face.

        Parameters
        ----------
        found : Found
            An optimum of zeta-SAA.
        saa : Arrays
            zeta-SAA.
        arrays : Arrays
            What is minimised, on the face.
        basis : HighsBasis, optional
            To start from. Default: the last one.
        """
        self.run(arrays, basis)
        x, _, prices = self.program.solution()
        x, _ = self.careful.settled(arrays, x, prices, clear=False)
        if excess(saa, x[: len(saa.cost)], found.value) > 0:
            raise not_exact()
        return x

    def run(self, arrays: Arrays, basis: Any) -> None:
        """Solve on a face, from a basis."""
        self.program.load(arrays)
        self.program.start_from(basis)
        self.program.run()


class FaceSearch:
    """The search for the best among all optima of a linear zeta-SAA.

    Parameters
    ----------
    compiled : CompiledModel
    count : int
        How many scenarios there are.
    context : SolveContext
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        context: SolveContext,
    ):
        self._layout = SearchLayout(compiled, count)
        self._face = FaceProgram(self._layout, context)
        self._outcome_basis: tuple[list, list] | None = None

    def search(
        self, found: Found, saa: Arrays, blocks: Blocks, outcome: Blocks, basis: Any
    ) -> float:
        """Return the least cost under the outcome on the face of an optimum."""
        assert found.column_dual is not None and found.row_dual is not None
        duals = (found.column_dual, found.row_dual)
        arrays = restrict_to_face(self._layout.searching(blocks, outcome), duals)
        x = self._face.best(found, saa, arrays, self._started(basis))
        self._keep_outcome_basis()
        return float(arrays.cost @ x) + arrays.offset

    def search_many(
        self,
        saa: Stack,
        values: np.ndarray,
        duals: tuple[np.ndarray, np.ndarray],
        bases: list[Any],
        blocks: Blocks,
        outcomes: Blocks,
    ) -> tuple[np.ndarray, Troubles]:
        """As :meth:`search`, for many cases; all that is not HiGHS is done at once.

        Parameters
        ----------
        saa : Stack
        values : array (n,)
            Optima of zeta-SAA.
        duals : tuple of arrays (n, columns), (n, rows)
        bases : list of HighsBasis
        blocks, outcomes : Blocks
            With two leading axes; outcomes have one block each.
        """
        stack = restrict_to_face(self._layout.searching_many(blocks, outcomes), duals)
        found, troubles = SolutionBuffer(self._face.program), Troubles()
        for i, (arrays, basis) in enumerate(zip(stack, bases, strict=True)):
            try:
                self._face.run(arrays, self._started(basis))
                found.add()
                self._keep_outcome_basis()
            except SolverTrouble as trouble:
                troubles[i] = trouble
                found.add_nothing()
        x, prices = found.arrays()
        self._face.careful.mend(stack, x, prices, troubles)
        over = excess(saa, x[:, : self._layout.scenario_columns], values)
        for i in map(int, np.flatnonzero(over > 0)):
            x[i], troubles[i] = np.nan, not_exact()
        return stack.values_of(x), troubles

    def _started(self, saa: Any) -> Any:
        """Return the basis of zeta-SAA's optimum, which lies on the face."""
        states = highspy.HighsBasisStatus
        if self._outcome_basis is None:
            self._outcome_basis = (
                [states.kLower] * self._layout.n2,
                [states.kBasic] * self._layout.m2,
            )
        basis = highspy.HighsBasis()
        basis.col_status = [*saa.col_status, *self._outcome_basis[0]]
        basis.row_status = [*saa.row_status, *self._outcome_basis[1]]
        basis.valid = True
        basis.alien = True  # a column that was fixed may be at either bound
        return basis

    def _keep_outcome_basis(self) -> None:
        found = self._face.program.highs.getBasis()
        states = highspy.HighsBasisStatus
        column_states = list(found.col_status)[self._layout.scenario_columns :]
        row_states = list(found.row_status)[self._layout.scenario_rows :]
        basics = sum(s == states.kBasic for s in (*column_states, *row_states))
        if basics == self._layout.m2:
            self._outcome_basis = (column_states, row_states)


def size_of(saa: Arrays | Stack, x: np.ndarray, value: Any) -> Any:
    """Return what tolerances on values (...) are relative to."""
    paid = np.abs(saa.cost * x).sum(axis=-1)
    return np.maximum(np.minimum(1.0, paid), np.abs(value))


def excess(
    saa: Arrays | Stack, x: np.ndarray, value: Any, relative: float = _CUT
) -> np.ndarray:
    """Return by how much points (...) cost more than optima, 0 within rounding."""
    terms = saa.cost * x
    over = terms.sum(axis=-1) + saa.offset - value
    rounding = _ROUNDING * np.abs(terms).sum(axis=-1)
    allowed = relative * size_of(saa, x, value) + rounding
    return np.where(over > allowed, over, 0.0)


_FEASIBLE = 1e-7  # of the size of a row: by so much a decision may break it
_MOST_KNOWN = 64


class PessimisticSearch:
    """The search for the worst among all optima of a linear zeta-SAA.

    Parameters
    ----------
    layout : Layout
        Of zeta-SAA.
    context : SolveContext
    """

    def __init__(self, layout: Layout, context: SolveContext):
        self._compiled, self._layout = layout.compiled, layout
        self._recourse = RecourseLayout(layout.compiled)
        self._face = FaceProgram(layout, context)
        self._known: dict[bytes, VerticesAndRays] = {}

    def search(self, found: Found, saa: Arrays, outcome: Blocks, basis: Any) -> float:
        """Return the largest cost under an outcome (no leading axis) on the face."""
        assert found.column_dual is not None and found.row_dual is not None
        face = restrict_to_face(saa, (found.column_dual, found.row_dual))
        recourse = to_inequality_form(self._recourse, outcome)
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

    def _corners(self, recourse: InequalityForm) -> VerticesAndRays:
        """Return the duals' corners, once for outcomes that share matrix and costs."""
        key = recourse.recourse.tobytes() + recourse.cost.tobytes()
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = _enumerated(recourse)
        return self._known[key]


def _enumerated(recourse: InequalityForm) -> VerticesAndRays:
    try:
        found = recourse.dual_vertices()
    except TooManyBasesError as error:
        detail = f"the recourse has too many dual bases to try them all: {error}"
        raise SolverTrouble("too large", detail) from None
    if found is None:
        raise SolverTrouble("unbounded", "the recourse has no dual solution")
    return found
