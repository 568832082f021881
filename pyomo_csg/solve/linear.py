"""zeta-SAA and Opt-Search of linear programs, by simplex on persistent HiGHS objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.assembly import Arrays, Blocks, Layout
from pyomo_csg.solve.compiling import CompiledModel
from pyomo_csg.solve.engine import Found, SolverTrouble, Stats
from pyomo_csg.solve.face import on_face
from pyomo_csg.solve.highs import DUAL_SIMPLEX, PRIMAL_SIMPLEX, HighsProgram

_DUAL = 1e-9  # relative to the largest cost: a dual above it is not zero
_CUT = 1e-9
_ROUNDING = 1e-13
_MOST_BASES = 20_000


class LinearStrategy:
    """Solves zeta-SAA by the dual simplex, and searches its optimal face.

    Opt-Search needs no optimality cut here: the optimal solutions of a linear program are
    those feasible points at which every column and row whose dual is not zero stays at
    its bound. Where all duals of nonbasic places differ from zero there is only one such
    point, and no search.

    Parameters
    ----------
    compiled : CompiledModel
        Without integer variables or quadratic terms.
    count : int
        How many scenarios there are.
    stats : Stats
    options : mapping
        Of HiGHS.
    relaxed : bool, optional
        Whether to take integer variables as continuous.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        stats: Stats,
        options: Mapping[str, Any],
        relaxed: bool = False,
    ):
        self.layout = Layout(compiled, count)
        lean = {"presolve": "off", "simplex_strategy": DUAL_SIMPLEX, **options}
        self.program = HighsProgram(self.layout, stats, lean, relaxed, scaled=True)
        self._face = OptimalFace(compiled, count, stats, options)
        self._bases: dict[int, Any] = {}

    def solve(
        self, blocks: Blocks, weights: np.ndarray, held: np.ndarray | None = None
    ) -> Found:
        """Return an optimum, and whether it is certified to be the only one.

        With ``held`` (columns,) the integer variables are held at those values.
        """
        arrays = self.layout.arrays(blocks, weights)
        if held is not None:
            whole, values = self.layout.integer, np.round(held)
            arrays.column_lower = np.where(whole, values, arrays.column_lower)
            arrays.column_upper = np.where(whole, values, arrays.column_upper)
        self.program.load(arrays)
        self.program.run()
        x, column_dual, row_dual = self.program.solution()
        return Found(
            x,
            float(arrays.cost @ x) + arrays.offset,
            column_dual,
            row_dual,
            unique=bool(is_unique(arrays.cost, column_dual, row_dual)),
        )

    def solve_many(
        self, blocks: Blocks, weights: np.ndarray, first: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[int, SolverTrouble]]:
        """Return decisions (n, s), values (n,), certificates (n,) and troubles.

        As :meth:`solve` for blocks with two leading axes; all that is not HiGHS is done
        for all cases at once. ``first`` is the number of the first case in its batch: a
        case starts from the basis that its namesake had in the batch before, since
        training asks for the same pairs again with scenarios that moved a little.
        """
        stack, n = self.layout.stack(blocks, weights), len(weights)
        x = np.full((n, self.layout.columns), np.nan)
        column_dual = np.zeros_like(x)
        row_dual = np.zeros((n, self.layout.rows))
        troubles: dict[int, SolverTrouble] = {}
        for i in range(n):
            try:
                self.program.load(stack[i])
                self.program.start_from(self._bases.get(first + i))
                self.program.run()
            except SolverTrouble as trouble:
                troubles[i] = trouble
                continue
            x[i], column_dual[i], row_dual[i] = self.program.solution()
            if first + i < _MOST_BASES:
                self._bases[first + i] = self.program.highs.getBasis()
        values = np.einsum("nc,nc->n", x, np.broadcast_to(stack.cost, x.shape))
        unique = is_unique(stack.cost, column_dual, row_dual)
        decisions = x[:, : self.layout.n1]
        return decisions, values + stack.offset, unique, troubles

    def search(
        self, found: Found, blocks: Blocks, weights: np.ndarray, outcome: Blocks
    ) -> float:
        """Return the least cost of an optimal decision under the outcome."""
        arrays = self.layout.arrays(blocks, weights)
        basis = self.program.highs.getBasis()
        return self._face.search(found, arrays, blocks, outcome, basis)


class OptimalFace:
    """The search among all optima of a linear zeta-SAA."""

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        stats: Stats,
        options: Mapping[str, Any],
    ):
        self._layout = Layout(compiled, count + 1)
        lean = {"presolve": "off", "simplex_strategy": PRIMAL_SIMPLEX, **options}
        self._program = HighsProgram(
            self._layout, stats, lean, relaxed=True, scaled=True
        )
        self._only_outcome = np.append(np.zeros(count), 1.0)
        self._outcome_basis: tuple[list, list] | None = None

    def search(
        self, found: Found, saa: Arrays, blocks: Blocks, outcome: Blocks, basis: Any
    ) -> float:
        """Return the least cost under the outcome on the face of an optimum."""
        arrays = self._layout.arrays(blocks.joined(outcome), self._only_outcome)
        assert found.column_dual is not None and found.row_dual is not None
        duals = (found.column_dual, found.row_dual)
        self._program.load(on_face(arrays, duals, float(dual_tolerance(saa.cost))))
        self._start_from(basis)
        self._program.run()
        x, _, _ = self._program.solution()
        refuse_broken_cut(saa, found.value, x[: len(saa.cost)])
        self._keep_outcome_basis(len(saa.cost), len(saa.row_lower))
        return float(arrays.cost @ x) + arrays.offset

    def _start_from(self, saa: Any) -> None:
        """Start at the optimum of zeta-SAA, which lies on the face."""
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
        self._program.highs.setBasis(basis)

    def _keep_outcome_basis(self, columns: int, rows: int) -> None:
        found = self._program.highs.getBasis()
        states = highspy.HighsBasisStatus
        column_states = list(found.col_status)[columns:]
        row_states = list(found.row_status)[rows:]
        basics = sum(s == states.kBasic for s in (*column_states, *row_states))
        if basics == self._layout.m2:
            self._outcome_basis = (column_states, row_states)


def dual_tolerance(cost: np.ndarray) -> np.ndarray:
    """Return how large a dual must be to differ from zero, for costs (..., columns)."""
    return np.asarray(_DUAL * np.abs(cost).max(axis=-1))


def is_unique(
    cost: np.ndarray, column_dual: np.ndarray, row_dual: np.ndarray
) -> np.ndarray:
    """Say where (...) every nonbasic place has a dual, so that the optimum is unique.

    There are as many nonbasic places as columns, and a basic one has none.
    """
    scale = dual_tolerance(cost)[..., None]
    nonzero = np.count_nonzero(np.abs(column_dual) > scale, axis=-1)
    nonzero += np.count_nonzero(np.abs(row_dual) > scale, axis=-1)
    return np.asarray(nonzero == column_dual.shape[-1])


def refuse_broken_cut(saa: Arrays, value: float, x: np.ndarray) -> None:
    """Raise if a point of the search is not an optimum of zeta-SAA after all."""
    terms = saa.cost * x
    excess = float(terms.sum()) + saa.offset - value
    size = float(np.abs(terms).sum())
    allowed = _CUT * max(min(1.0, size), abs(value)) + _ROUNDING * size
    if excess > allowed:
        raise SolverTrouble(
            "cut broken",
            f"the point found costs {excess:g} more than the optimum {value:g}",
        )
