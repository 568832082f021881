"""zeta-SAA and Opt-Search of linear programs, by simplex on persistent HiGHS objects."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from pyomo_csg.solve.assembly import Blocks, Layout
from pyomo_csg.solve.compiling import CompiledModel
from pyomo_csg.solve.engine import Found, Solved, SolverTrouble, Stats
from pyomo_csg.solve.face import is_unique
from pyomo_csg.solve.face_search import FaceSearch
from pyomo_csg.solve.highs import (
    DUAL_SIMPLEX,
    HighsProgram,
    columns_only,
    unpacked,
    with_duals,
)
from pyomo_csg.solve.pessimistic import WorstSearch
from pyomo_csg.solve.sensitivity import Optima, Reader, coincides

_MOST_BASES = 20_000


class LinearStrategy:
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
    stats : Stats
    options : mapping
        Of HiGHS.
    relaxed : bool, optional
        Whether to take integer variables as continuous.
    bases : dict, optional
        The last basis of each case, by its key; others may share it.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        stats: Stats,
        options: Mapping[str, Any],
        relaxed: bool = False,
        bases: dict[int, Any] | None = None,
    ):
        self.layout = Layout(compiled, count)
        lean = {"presolve": "off", "simplex_strategy": DUAL_SIMPLEX, **options}
        self.program = HighsProgram(self.layout, stats, lean, relaxed, scaled=True)
        self._face = cache(lambda: FaceSearch(compiled, count, stats, options))
        self._worst = cache(lambda: WorstSearch(self.layout, stats, options))
        self._bases = {} if bases is None else bases

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
        self,
        blocks: Blocks,
        weights: np.ndarray,
        keys: np.ndarray,
        certify: bool = True,
    ) -> Solved:
        """Solve many cases, as :meth:`solve` for blocks with two leading axes.

        All that is not HiGHS is done for all cases at once. A case starts from the last
        basis of its key (n,), since training asks for the same pairs again with scenarios
        that moved a little. Nothing is certified unless asked for.
        """
        stack, program = self.layout.stack(blocks, weights), self.program
        parts = with_duals if certify else columns_only
        found: list[bytes] = []
        scale: list[float] = []
        troubles: dict[int, SolverTrouble] = {}
        for i, (arrays, key) in enumerate(zip(stack, keys.tolist(), strict=True)):
            try:
                program.load(arrays)
                program.start_from(self._bases.get(key))
                program.run()
            except SolverTrouble as trouble:
                troubles[i] = trouble
                found.append(b"")
            else:
                found.append(program.packed(parts))
                if len(self._bases) < _MOST_BASES or key in self._bases:
                    self._bases[key] = program.highs.getBasis()
            scale.append(program.scale)
        columns, rows = self.layout.columns, self.layout.rows
        numbers = unpacked(found, 2 * columns + rows if certify else columns)
        x, unique = numbers[:, :columns], np.zeros(len(numbers), bool)
        if certify:
            duals = numbers[:, columns:] / np.array(scale)[:, None]
            unique = is_unique(stack.cost, duals[:, :columns], duals[:, columns:])
        decisions, values = x[:, : self.layout.n1], stack.values_of(x)
        return Solved(decisions, values, values, unique, troubles)

    def optima(
        self, blocks: Blocks, weights: np.ndarray, held: np.ndarray | None = None
    ) -> tuple[Optima, np.ndarray, dict[int, SolverTrouble]]:
        """Return optima with what their bases say, which of them are smooth, and troubles.

        As :meth:`solve` for blocks with two leading axes. Where an optimum is not smooth
        another basis, or another decision, is as good.
        """
        stack, layout = self.layout.stack(blocks, weights), self.layout
        if held is not None:
            whole, values = layout.integer, np.round(held)
            stack.column_lower = np.where(whole, values, stack.column_lower)
            stack.column_upper = np.where(whole, values, stack.column_upper)
        reader, program = Reader(len(weights), layout.n1, layout.rows), self.program
        troubles: dict[int, SolverTrouble] = {}
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
        smooth = is_unique(stack.cost, found.column_dual, found.row_dual)
        smooth &= ~coincides(layout.compiled, blocks) & ~found.degenerate(
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
