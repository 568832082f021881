"""Opt-Search of linear programs, on the optimal face of zeta-SAA."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import highspy
import numpy as np

from pyomo_csg.solve.assembly import Arrays, Blocks, Layout
from pyomo_csg.solve.compiling import CompiledModel
from pyomo_csg.solve.cut import CutLayout, SearchLayout
from pyomo_csg.solve.engine import Found, SolverTrouble, Stats
from pyomo_csg.solve.face import on_face
from pyomo_csg.solve.highs import PRIMAL_SIMPLEX, HighsProgram

_SLACK = 1e-9  # of the cut
_CUT = 1e-9  # what a point may cost more and count as an optimum
_ROUNDING = 1e-13


class FaceProgram:
    """A linear program on the optimal face of zeta-SAA, kept in HiGHS.

    Where rows are in such different units that a dual passes for zero, the face is too
    wide: if the point found on it is no optimum, a cut joins it.

    Parameters
    ----------
    layout : Layout
        Of a program whose first columns and rows are those of zeta-SAA.
    stats : Stats
    options : mapping
        Of HiGHS.
    """

    def __init__(self, layout: Layout, stats: Stats, options: Mapping[str, Any]):
        self._layout = layout
        lean = {"presolve": "off", "simplex_strategy": PRIMAL_SIMPLEX, **options}
        self._context = stats, lean
        self._program = HighsProgram(layout, stats, lean, relaxed=True, scaled=True)

    @property
    def highs(self) -> Any:
        """The HiGHS object that has the face."""
        return self._program.highs

    def best(
        self, found: Found, saa: Arrays, arrays: Arrays, basis: Any
    ) -> tuple[np.ndarray, bool]:
        """Return the best point on a face, and whether the face alone held it there.

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
        self._program.load(arrays)
        self._program.start_from(basis)
        self._program.run()
        x = self._program.point()
        if excess(saa, x[: len(saa.cost)], found.value) > 0:
            return self._with_cut(found, saa, arrays), False
        return x, True

    def _with_cut(self, found: Found, saa: Arrays, arrays: Arrays) -> np.ndarray:
        """Return the best point on the face that also keeps a cut."""
        unit = size_of(saa, found.x, found.value)
        # HiGHS lets a row be broken by 1e-9: of small values that would be too much.
        scale = 1 / min(1.0, unit) if unit else 1.0
        limit = found.value + _SLACK * unit - saa.offset
        cut = self._cut_layout.cut(arrays, scale * saa.cost, scale * limit)
        self._cut_program.load(cut)
        self._cut_program.run()
        x = self._cut_program.point()
        over = excess(saa, x[: len(saa.cost)], found.value, 2 * _CUT)
        if over > 0:
            raise SolverTrouble(
                "cut broken",
                f"the point found costs {over:g} more than the optimum {found.value:g}",
            )
        return x

    @cached_property
    def _cut_layout(self) -> CutLayout:
        return CutLayout(self._layout)

    @cached_property
    def _cut_program(self) -> HighsProgram:
        return HighsProgram(self._cut_layout, *self._context, relaxed=True, scaled=True)


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
        arrays = on_face(self._layout.searching(blocks, outcome), duals, saa.cost)
        x, held = self._face.best(found, saa, arrays, self._started(basis))
        if held:
            self._keep_outcome_basis()
        return float(arrays.cost @ x) + arrays.offset

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
        found = self._face.highs.getBasis()
        states = highspy.HighsBasisStatus
        column_states = list(found.col_status)[self._layout.scenario_columns :]
        row_states = list(found.row_status)[self._layout.scenario_rows :]
        basics = sum(s == states.kBasic for s in (*column_states, *row_states))
        if basics == self._layout.m2:
            self._outcome_basis = (column_states, row_states)


def size_of(saa: Arrays, x: np.ndarray, value: float) -> float:
    """Return what tolerances on a value are relative to."""
    return max(min(1.0, float(np.abs(saa.cost * x).sum())), abs(value))


def excess(saa: Arrays, x: np.ndarray, value: float, relative: float = _CUT) -> float:
    """Return by how much a point costs more than an optimum, 0 within rounding."""
    terms = saa.cost * x
    over = float(terms.sum()) + saa.offset - value
    rounding = _ROUNDING * float(np.abs(terms).sum())
    allowed = relative * size_of(saa, x, value) + rounding
    return over if over > allowed else 0.0
