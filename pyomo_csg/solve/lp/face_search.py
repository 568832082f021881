"""The best and the worst optimal decision of a linear zeta-SAA under an outcome.

The optimal solutions of a linear program are the feasible points at which every column and row
with a nonzero dual stays at its bound: the optimal face. Opt-Search (step 2) therefore needs no
optimality cut; it minimizes the outcome's cost on the face.

The pessimistic loss maximizes that cost, a convex function, which is hard in general. But the
recourse cost is a maximum over dual vertices that do not depend on the decision, so one linear
program on the face for each of them is enough.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, repeat
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
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import Found, SolveContext, SolverTrouble, Troubles
from pyomo_csg.solve.lp.highs_program import PRIMAL_SIMPLEX, SolutionBuffer
from pyomo_csg.solve.lp.rescaling import CertifiedProgram, not_exact
from pyomo_csg.solve.lp.vertices import (
    InequalityForm,
    TooManyBasesError,
    VerticesAndRays,
    to_inequality_form,
)

_STATES = highspy.HighsBasisStatus
# A point may cost this much more, relative to the optimum, and still count as optimal.
_OPTIMAL = 1e-9
_ROUNDING = 1e-13  # error of a cost, relative to its absolute terms
_FEASIBLE = 1e-7  # allowed violation of a recourse row, relative to its terms
_CACHE_SIZE = 64  # sets of dual vertices


class SearchLayout(Layout):
    """The layout of Opt-Search: the scenarios' blocks, then those of one or more outcomes."""

    def __init__(self, compiled: CompiledModel, count: int, outcomes: int = 1):
        super().__init__(compiled, count + outcomes)
        self.scenario_columns = self.columns - outcomes * self.n2
        self.scenario_rows = self.rows - outcomes * self.m2
        self._count = count
        self._outcome = self.search_weights(np.full(outcomes, 1 / outcomes))

    def search_weights(self, shares: np.ndarray) -> np.ndarray:
        """Return the weights of all blocks: 0 for scenarios, then those of the outcomes."""
        return np.concatenate([np.zeros(self._count), shares])

    def search_arrays(
        self, blocks: Blocks, outcome: Blocks, shares: np.ndarray | None = None
    ) -> Arrays:
        """Return the program that minimizes the outcomes' mean cost alone."""
        weights = self._outcome if shares is None else self.search_weights(shares)
        return self.arrays(blocks.joined(outcome), weights)

    def search_stack(self, blocks: Blocks, outcomes: Blocks) -> Stack:
        """Return the programs of many cases; outcomes have one block each."""
        weights = np.broadcast_to(self._outcome, (len(blocks.cost), len(self._outcome)))
        return self.stack(blocks.joined(outcomes), weights)


def restrict_to_face(program: Program, duals: tuple[np.ndarray, np.ndarray]) -> Program:
    """Fix the columns and rows of zeta-SAA that have a nonzero dual at their bounds.

    Zeta-SAA's columns and rows come first. Its duals are those of a certificate: a positive one
    fixes at the lower bound, a negative one at the upper.
    """
    columns = _fix_at_bounds(program.column_lower, program.column_upper, duals[0])
    rows = _fix_at_bounds(program.row_lower, program.row_upper, duals[1])
    return replace(
        program,
        column_lower=columns[0],
        column_upper=columns[1],
        row_lower=rows[0],
        row_upper=rows[1],
    )


def _fix_at_bounds(
    lower: np.ndarray, upper: np.ndarray, dual: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    count = dual.shape[-1]
    shape = (*dual.shape[:-1], lower.shape[-1])
    new_lower, new_upper = (np.array(np.broadcast_to(s, shape)) for s in (lower, upper))
    lower, upper = lower[..., :count], upper[..., :count]
    np.copyto(new_upper[..., :count], lower, where=dual > 0)
    np.copyto(new_lower[..., :count], upper, where=dual < 0)
    return new_lower, new_upper


def excess_cost(
    saa: Arrays | Stack, x: np.ndarray, value: Any, tolerance: Any, rounding: float
) -> np.ndarray:
    """Return by how much points (...) cost more than ``value``; 0 within the tolerances."""
    terms = saa.cost * x
    over = terms.sum(axis=-1) + saa.offset - value
    allowed = tolerance + rounding * np.abs(terms).sum(axis=-1)
    return np.where(over > allowed, over, 0.0)


def _is_off_face(saa: Arrays | Stack, x: np.ndarray, value: Any) -> np.ndarray:
    """Return which points (...) are not optimal for zeta-SAA."""
    terms = np.abs(saa.cost * x).sum(axis=-1)
    tolerance = _OPTIMAL * np.maximum(np.minimum(1.0, terms), np.abs(value))
    return excess_cost(saa, x, value, tolerance, _ROUNDING) > 0


class FaceProgram:
    """A linear program on the optimal face of zeta-SAA, kept in HiGHS.

    If its optimum is not optimal for zeta-SAA, the face was too wide, and there is no answer.
    """

    def __init__(self, layout: Layout, context: SolveContext):
        # Zeta-SAA's optimum lies on the face, so its basis is primal feasible here: primal
        # simplex continues from it. Presolve would discard that basis.
        lean = {"presolve": "off", "simplex_strategy": PRIMAL_SIMPLEX}
        self.program = CertifiedProgram(layout, context, lean)

    def minimize(
        self, found: Found, saa: Arrays, arrays: Arrays, basis: Any
    ) -> np.ndarray:
        """Return the best point of ``arrays``, restricted to the face of ``found``."""
        x, _ = self.program.optimum(arrays, basis, need_clear=False)
        if _is_off_face(saa, x[: len(saa.cost)], found.value):
            raise not_exact()
        return x


class FaceSearch:
    """The search for the best of all optimal decisions of a linear zeta-SAA."""

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        context: SolveContext,
        outcomes: int = 1,
    ):
        self._layout = SearchLayout(compiled, count, outcomes)
        self._face = FaceProgram(self._layout, context)
        self._outcome_basis = (
            [_STATES.kLower] * (outcomes * self._layout.n2),
            [_STATES.kBasic] * (outcomes * self._layout.m2),
        )

    def search(
        self,
        found: Found,
        saa: Arrays,
        blocks: Blocks,
        outcome: Blocks,
        basis: Any,
        shares: np.ndarray | None = None,
    ) -> float:
        """Return the least mean cost under the outcomes on the face of an optimum."""
        assert found.column_dual is not None and found.row_dual is not None
        duals = (found.column_dual, found.row_dual)
        program = self._layout.search_arrays(blocks, outcome, shares)
        arrays = restrict_to_face(program, duals)
        x = self._face.minimize(found, saa, arrays, self._extend_basis(basis))
        self._save_outcome_basis()
        return arrays.value(x)

    def search_many(
        self,
        saa: Stack,
        values: np.ndarray,
        duals: tuple[np.ndarray, np.ndarray],
        bases: list[Any],
        blocks: Blocks,
        outcomes: Blocks,
    ) -> tuple[np.ndarray, Troubles]:
        """Do as :meth:`search` for many cases; everything but HiGHS runs on all at once.

        Blocks have two leading axes; values (n,), duals (n, ...) and bases are zeta-SAA's.
        """
        stack = restrict_to_face(self._layout.search_stack(blocks, outcomes), duals)
        buffer = SolutionBuffer(self._face.program)
        for arrays, basis in zip(stack, bases, strict=True):
            with buffer.next_case():
                self._face.program.solve(arrays, self._extend_basis(basis))
                self._save_outcome_basis()
        x, row_duals = buffer.arrays()
        self._face.program.rescaled.repair(stack, x, row_duals, buffer.troubles)
        off_face = _is_off_face(saa, x[:, : self._layout.scenario_columns], values)
        for i in map(int, np.flatnonzero(off_face)):
            x[i], buffer.troubles[i] = np.nan, not_exact()
        return stack.values_at(x), buffer.troubles

    def _extend_basis(self, saa: Any | None) -> Any | None:
        """Return zeta-SAA's basis with the last search's basis of the outcome's block."""
        if saa is None:  # zeta-SAA was solved in other units
            return None
        basis = highspy.HighsBasis()
        basis.col_status = [*saa.col_status, *self._outcome_basis[0]]
        basis.row_status = [*saa.row_status, *self._outcome_basis[1]]
        basis.valid = True
        # Alien: HiGHS must check it, since a fixed column may be at either bound.
        basis.alien = True
        return basis

    def _save_outcome_basis(self) -> None:
        """Keep the basis of the outcome's block, if it is one by itself."""
        found = self._face.program.highs.getBasis()
        columns = list(found.col_status)[self._layout.scenario_columns :]
        rows = list(found.row_status)[self._layout.scenario_rows :]
        if sum(s == _STATES.kBasic for s in (*columns, *rows)) == len(rows):
            self._outcome_basis = (columns, rows)


class PessimisticSearch:
    """The search for the worst of all optimal decisions of a linear zeta-SAA."""

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
        duals = self._dual_vertices(recourse)
        first, n1 = self._compiled.first_cost, self._layout.n1
        unit_cost = first.linear.constant[:n1] + outcome.cost[:n1]
        constant = float(first.constant.constant[0] + outcome.constant[0])
        bases = chain([basis], repeat(None))  # each run starts where the last one ended

        def maximize(dual: np.ndarray, slope: np.ndarray) -> float:
            """Return the maximum on the face of slope'y + dual'(side - C y)."""
            cost = np.zeros(self._layout.columns)
            cost[:n1] = dual @ recourse.technology - slope
            arrays = replace(face, cost=cost)
            x = self._face.minimize(found, saa, arrays, next(bases))
            return float(dual @ recourse.side - cost @ x)

        checker = self._face.program.rescaled.checker
        typical = (
            np.abs(recourse.technology) @ checker.typical_units(saa, found.x)[1][:n1]
        )
        for ray in duals.rays:
            size = np.abs(ray) @ (typical + np.abs(recourse.side))
            if maximize(ray, np.zeros(n1)) > _FEASIBLE * size:
                detail = "an optimal decision has no recourse to the outcome"
                raise SolverTrouble("infeasible", detail)
        return constant + max(maximize(vertex, unit_cost) for vertex in duals.vertices)

    def _dual_vertices(self, recourse: InequalityForm) -> VerticesAndRays:
        """Return the dual vertices; outcomes with the same matrix and costs share them."""
        key = recourse.recourse.tobytes() + recourse.cost.tobytes()
        if key not in self._known:
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            self._known[key] = _enumerate_dual_vertices(recourse)
        return self._known[key]


def _enumerate_dual_vertices(recourse: InequalityForm) -> VerticesAndRays:
    try:
        found = recourse.dual_vertices()
    except TooManyBasesError as error:
        detail = f"the recourse has too many dual bases to try them all: {error}"
        raise SolverTrouble("too large", detail) from None
    if found is None:
        raise SolverTrouble("unbounded", "the recourse has no dual solution")
    return found
