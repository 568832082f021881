"""zeta-SAA and Opt-Search of linear programs, by simplex on persistent HiGHS objects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pyomo_csg.solve.compile.assembly import Blocks, Layout, Stack, held_at
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import Found, SolveContext, Solved, SolverTrouble, Troubles
from pyomo_csg.solve.lp.certificates import CertificateChecker
from pyomo_csg.solve.lp.face_search import FaceSearch, PessimisticSearch, is_unique
from pyomo_csg.solve.lp.highs_program import DUAL_SIMPLEX, HighsProgram, SolutionBuffer
from pyomo_csg.solve.lp.rescaling import RescaledSolver, not_exact
from pyomo_csg.solve.lp.sensitivity import BasisReader, Optima, have_equal_bounds

_MOST_BASES = 20_000


@dataclass(kw_only=True)
class LinearSolved(Solved):
    """Optima of linear programs, with what their search needs.

    Attributes
    ----------
    stack : Stack
        The programs.
    duals : tuple of arrays (n, columns), (n, rows), optional
        Where they were asked for.
    bases : list of HighsBasis
    """

    stack: Stack
    duals: tuple[np.ndarray, np.ndarray] | None
    bases: list[Any]


class LinearSolver:
    """Solves zeta-SAA by the dual simplex, and searches its optimal face.

    Opt-Search needs no optimality cut here, as a rule: the optimal solutions of a linear program are
    those feasible points at which every column and row whose dual is not zero stays at
    its bound. Where all duals of nonbasic places differ from zero there is only one such
    point, and no search.

    Parameters
    ----------
    compiled : CompiledModel
        Without integer variables or quadratic terms.
    count : int
        How many scenarios there are.
    context : SolveContext
    relaxed : bool, optional
        Whether to take integer variables as continuous.
    bases : dict, optional
        The last basis of each case, by its key; others may share it.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        context: SolveContext,
        relaxed: bool = False,
        bases: dict[int, Any] | None = None,
    ):
        self.layout = Layout(compiled, count)
        lean = {"presolve": "off", "simplex_strategy": DUAL_SIMPLEX}
        self.program = HighsProgram(
            self.layout, context.with_defaults(lean), relaxed, scaled=True
        )
        self._checker = CertificateChecker(self.layout)
        self._careful = RescaledSolver(self.layout, self._checker, context)
        self._face = cache(lambda: FaceSearch(compiled, count, context))
        self._worst = cache(lambda: PessimisticSearch(self.layout, context))
        self._bases = {} if bases is None else bases

    def solve(
        self, blocks: Blocks, weights: np.ndarray, held: np.ndarray | None = None
    ) -> Found:
        """Return an optimum, and whether it is certified to be the only one.

        With ``held`` (columns,) the integer variables are held at those values.
        """
        arrays = self.layout.arrays(blocks, weights)
        if held is not None:
            arrays = held_at(arrays, self.layout.integer, held)
        self.program.load(arrays)
        self.program.run()
        x, _, prices = self.program.solution()
        x, verdict = self._careful.settled(arrays, x, prices)
        return Found(
            x,
            float(arrays.cost @ x) + arrays.offset,
            *verdict.duals,
            unique=bool(is_unique(verdict.duals)),
        )

    def solve_many(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        keys: np.ndarray,
        certify: bool = True,
    ) -> LinearSolved:
        """Solve many cases, as :meth:`solve` for blocks with two leading axes.

        All that is not HiGHS is done for all cases at once. A case starts from the last
        basis of its key (n,), since training asks for the same pairs again with scenarios
        that moved a little. Nothing is certified to be unique unless asked for.
        """
        stack, program = self.layout.stack(blocks, weights), self.program
        gathered = SolutionBuffer(program)
        bases: list[Any] = []
        troubles: Troubles = {}
        for i, (arrays, key) in enumerate(zip(stack, keys.tolist(), strict=True)):
            try:
                program.load(arrays)
                program.start_from(self._bases.get(key))
                program.run()
            except SolverTrouble as trouble:
                troubles[i] = trouble
                gathered.add_nothing()
                bases.append(None)
            else:
                gathered.add()
                bases.append(program.highs.getBasis())
                if len(self._bases) < _MOST_BASES or key in self._bases:
                    self._bases[key] = bases[-1]
        x, prices = gathered.arrays()
        duals = None
        if certify:
            duals = self._careful.settle(stack, x, prices, troubles)
        else:
            self._careful.mend(stack, x, prices, troubles)
        decisions, values = x[:, : self.layout.n1], stack.values_of(x)
        return LinearSolved(
            decisions,
            values,
            values,
            np.zeros(len(x), bool) if duals is None else is_unique(duals),
            troubles,
            stack=stack,
            duals=duals,
            bases=bases,
        )

    def optima(
        self, blocks: Blocks, weights: np.ndarray, held: np.ndarray | None = None
    ) -> tuple[Optima, np.ndarray, Troubles]:
        """Return optima with what their bases say, which of them are smooth, and troubles.

        As :meth:`solve` for blocks with two leading axes. Where an optimum is not smooth
        another basis, or another decision, is as good.
        """
        stack, layout = self.layout.stack(blocks, weights), self.layout
        if held is not None:
            stack = held_at(stack, layout.integer, held)
        reader, program = (
            BasisReader(len(weights), layout.n1, layout.rows),
            self.program,
        )
        troubles: Troubles = {}
        for i, arrays in enumerate(stack):
            try:
                program.load(arrays)
                program.run()
            except SolverTrouble as trouble:
                troubles[i] = trouble
            else:
                reader.read(i, program)
        found = reader.optima(layout.columns)
        lower = _beside(len(weights), stack.column_lower, stack.row_lower)
        upper = _beside(len(weights), stack.column_upper, stack.row_upper)
        verdict = self._checker.look(stack, found.x, found.row_dual)
        for i in map(int, np.flatnonzero(~verdict.optimal)):
            troubles.setdefault(i, not_exact())
        smooth = is_unique(verdict.duals)
        smooth &= ~have_equal_bounds(layout.compiled, blocks) & ~found.degenerate(
            (lower, upper)
        )
        return found, smooth, troubles

    def search(
        self, found: Found, blocks: Blocks, weights: np.ndarray, outcome: Blocks
    ) -> float:
        """Return the least cost of an optimal decision under the outcome."""
        arrays = self.layout.arrays(blocks, weights)
        basis = self.program.highs.getBasis()
        return self._face().search(found, arrays, blocks, outcome, basis)

    def search_many(
        self, solved: LinearSolved, cases: np.ndarray, blocks: Blocks, outcomes: Blocks
    ) -> tuple[np.ndarray, Troubles]:
        """Return l_opt of some of the cases just solved, and troubles by their places.

        Blocks are those cases'; outcomes have one block each.
        """
        assert solved.duals is not None
        columns, rows = solved.duals
        return self._face().search_many(
            solved.stack.part(cases),
            solved.values[cases],
            (columns[cases], rows[cases]),
            [solved.bases[i] for i in cases],
            blocks,
            outcomes,
        )

    def search_worst(
        self, found: Found, blocks: Blocks, weights: np.ndarray, outcome: Blocks
    ) -> float:
        """Return the largest cost of an optimal decision under the outcome."""
        arrays = self.layout.arrays(blocks, weights)
        return self._worst().search(
            found, arrays, outcome[0], self.program.highs.getBasis()
        )


def _beside(cases: int, *parts: np.ndarray) -> np.ndarray:
    """Return arrays side by side (cases, ...), each its own or shared by all cases."""
    return np.hstack([np.broadcast_to(part, (cases, part.shape[-1])) for part in parts])
