"""Opt-Search of linear programs, on the optimal face of zeta-SAA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.assembly import Arrays, Blocks, Layout, Stack
from pyomo_csg.solve.careful import Careful, not_exact
from pyomo_csg.solve.checking import Checker
from pyomo_csg.solve.compiling import CompiledModel
from pyomo_csg.solve.cut import SearchLayout
from pyomo_csg.solve.engine import Found, SolverTrouble, Stats, Troubles
from pyomo_csg.solve.face import on_face
from pyomo_csg.solve.gathering import Gathered
from pyomo_csg.solve.highs import PRIMAL_SIMPLEX, HighsProgram

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
    stats : Stats
    options : mapping
        Of HiGHS.
    """

    def __init__(self, layout: Layout, stats: Stats, options: Mapping[str, Any]):
        lean = {"presolve": "off", "simplex_strategy": PRIMAL_SIMPLEX, **options}
        self.careful = Careful(layout, Checker(layout), stats, options)
        self.program = HighsProgram(layout, stats, lean, relaxed=True, scaled=True)

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
    stats : Stats
    options : mapping
        Of HiGHS.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        stats: Stats,
        options: Mapping[str, Any],
    ):
        self._layout = SearchLayout(compiled, count)
        self._face = FaceProgram(self._layout, stats, options)
        self._outcome_basis: tuple[list, list] | None = None

    def search(
        self, found: Found, saa: Arrays, blocks: Blocks, outcome: Blocks, basis: Any
    ) -> float:
        """Return the least cost under the outcome on the face of an optimum."""
        assert found.column_dual is not None and found.row_dual is not None
        duals = (found.column_dual, found.row_dual)
        arrays = on_face(self._layout.searching(blocks, outcome), duals)
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
        stack = on_face(self._layout.searching_many(blocks, outcomes), duals)
        found, troubles = Gathered(self._face.program), Troubles()
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
