"""Zeta-SAA and Opt-Search of linear programs, by the simplex method on persistent HiGHS objects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pyomo_csg.solve.compile.assembly import Arrays, Blocks, Layout, Stack, held_at
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import Found, SolveContext, Solved, SolverTrouble, Troubles
from pyomo_csg.solve.lp.certificates import is_unique
from pyomo_csg.solve.lp.face_search import FaceSearch, PessimisticSearch
from pyomo_csg.solve.lp.highs_program import DUAL_SIMPLEX, SolutionBuffer
from pyomo_csg.solve.lp.rescaling import CertifiedProgram
from pyomo_csg.solve.lp.sensitivity import BasisReader, Optima, have_equal_bounds

_MAX_BASES = 20_000
_MAX_BASIS_BYTES = 100_000_000  # a byte for each column and row


@dataclass(kw_only=True)
class LinearSolved(Solved):
    """Optima of linear programs, with the duals (if certified) and bases their search needs."""

    stack: Stack
    duals: tuple[np.ndarray, np.ndarray] | None
    bases: list[Any]


class LinearSolver:
    """Solves zeta-SAA by the dual simplex method, and searches its optimal face.

    Where every nonbasic column and row has a nonzero dual, the optimum is unique and needs no
    search. Integer variables become continuous. Solvers may share ``bases``, the last one of
    each case, by its key.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        count: int,
        context: SolveContext,
        bases: dict[int, Any] | None = None,
    ):
        self.layout = Layout(compiled, count)
        self._count, self._context = count, context
        # With presolve, HiGHS would drop the basis of the last, similar program.
        lean = {"presolve": "off", "simplex_strategy": DUAL_SIMPLEX}
        self.program = CertifiedProgram(self.layout, context, lean)
        self._rescaled = self.program.rescaled
        self._bases = {} if bases is None else bases
        self._mean: tuple[int, FaceSearch] | None = None
        size = self.layout.columns + self.layout.rows
        self._most_bases = min(_MAX_BASES, _MAX_BASIS_BYTES // max(1, size))

    @cached_property
    def _face_search(self) -> FaceSearch:
        return FaceSearch(self.layout.compiled, self._count, self._context)

    def _mean_search(self, outcomes: int) -> FaceSearch:
        """Return the search for a number of outcomes; that of the last number is kept."""
        if self._mean is None or self._mean[0] != outcomes:
            compiled, context = self.layout.compiled, self._context
            search = FaceSearch(compiled, self._count, context, outcomes)
            self._mean = outcomes, search
        return self._mean[1]

    @cached_property
    def _pessimistic_search(self) -> PessimisticSearch:
        return PessimisticSearch(self.layout, self._context)

    def solve(
        self, blocks: Blocks, weights: np.ndarray, held: np.ndarray | None = None
    ) -> Found:
        """Return an optimum, and whether it is certified to be unique.

        With ``held`` (columns,), integer variables are fixed at those values.
        """
        arrays = self.layout.arrays(blocks, weights)
        if held is not None:
            arrays = held_at(arrays, self.layout.integer, held)
        x, certificate = self.program.optimum(arrays)
        return Found(
            x,
            arrays.value(x),
            *certificate.duals,
            unique=bool(is_unique(certificate.duals)),
        )

    def solve_many(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        keys: np.ndarray,
        certify: bool = True,
    ) -> LinearSolved:
        """Solve many cases, as :meth:`solve` for blocks with two leading axes.

        Everything but HiGHS runs on all cases at once. A case starts from the last basis of its
        key (n,): training repeats the same cases with scenarios that moved a little. Uniqueness
        is certified only on request.
        """
        stack, program = self.layout.stack(blocks, weights), self.program
        buffer, bases = SolutionBuffer(program), [None] * len(weights)
        for i, (arrays, key) in enumerate(zip(stack, keys.tolist(), strict=True)):
            with buffer.next_case():
                program.solve(arrays, self._bases.get(key))
                # Saved now: the face search starts here, and the next case overwrites it.
                bases[i] = program.highs.getBasis()
                self._keep(key, bases[i])
        x, row_duals = buffer.arrays()
        duals = None
        if certify:
            duals = self._rescaled.certify_many(stack, x, row_duals, buffer.troubles)
        else:
            self._rescaled.repair(stack, x, row_duals, buffer.troubles)
        values, n1 = stack.values_at(x), self.layout.n1
        # A solver's decision may miss a bound by rounding; its recourse would notice.
        bounds = stack.column_lower[..., :n1], stack.column_upper[..., :n1]
        return LinearSolved(
            np.clip(x[:, :n1], *bounds),
            values,
            values,
            np.zeros(len(x), bool) if duals is None else is_unique(duals),
            troubles=buffer.troubles,
            stack=stack,
            duals=duals,
            bases=bases,
        )

    def optima(
        self,
        blocks: Blocks,
        weights: np.ndarray,
        held: np.ndarray | None = None,
        keys: np.ndarray | None = None,
    ) -> tuple[Optima, np.ndarray, Troubles]:
        """Return optima with their bases, which of them are smooth, and troubles.

        As :meth:`solve` for blocks with two leading axes, from the last bases of the keys
        (n,), if any. Where an optimum is not smooth, another basis, or another decision, is
        as good.
        """
        stack, layout = self.layout.stack(blocks, weights), self.layout
        if held is not None:
            stack = held_at(stack, layout.integer, held)
        reader = BasisReader(len(weights), layout.n1, layout.rows)
        troubles: Troubles = {}
        names = [None] * len(weights) if keys is None else keys.tolist()
        for i, (arrays, key) in enumerate(zip(stack, names, strict=True)):
            try:
                self.program.solve(arrays, self._bases.get(key))
            except SolverTrouble as trouble:
                troubles[i] = trouble
            else:
                reader.read(i, self.program)
                if key is not None:
                    self._keep(key, self.program.highs.getBasis())
        found = reader.optima(layout.columns)
        lower = _join(len(weights), stack.column_lower, stack.row_lower)
        upper = _join(len(weights), stack.column_upper, stack.row_upper)
        certificate = self._rescaled.checker.check(stack, found.x, found.row_dual)
        for i in map(int, np.flatnonzero(~certificate.optimal)):
            try:
                duals = self._solve_again(stack[i], found.x[i], troubles.pop(i, None))
            except SolverTrouble as trouble:
                troubles[i] = trouble
                continue
            assert self._rescaled.last is not None
            reader.read_rescaled(i, self._rescaled.last)
            certificate.column_dual[i], certificate.row_dual[i] = duals
            found = reader.optima(layout.columns)
        smooth = is_unique(certificate.duals)
        smooth &= ~have_equal_bounds(layout.compiled, blocks)
        smooth &= ~found.is_degenerate(lower, upper)
        return found, smooth, troubles

    def _solve_again(
        self, arrays: Arrays, x: np.ndarray, trouble: SolverTrouble | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Solve in other units, and return the certified duals."""
        if trouble is None:
            return self._rescaled.solve(arrays, x)[1].duals
        return self._rescaled.solve_again(arrays, trouble)[1].duals

    def _keep(self, key: int, basis: Any) -> None:
        """Keep a basis for the next case of its key, as long as there is room."""
        if len(self._bases) < self._most_bases or key in self._bases:
            self._bases[key] = basis

    def search(
        self,
        found: Found,
        blocks: Blocks,
        weights: np.ndarray,
        outcome: Blocks,
        shares: np.ndarray | None = None,
    ) -> float:
        """Return the least mean cost of an optimal decision under the outcomes."""
        arrays = self.layout.arrays(blocks, weights)
        basis = self.program.highs.getBasis()  # of the solve just before
        if shares is None:
            return self._face_search.search(found, arrays, blocks, outcome, basis)
        search = self._mean_search(len(shares))
        return search.search(found, arrays, blocks, outcome, basis, shares)

    def search_many(
        self, solved: LinearSolved, cases: np.ndarray, blocks: Blocks, outcomes: Blocks
    ) -> tuple[np.ndarray, Troubles]:
        """Return l_opt of some of the cases just solved, and troubles by position.

        Blocks are those cases'; outcomes have one block each.
        """
        assert solved.duals is not None
        columns, rows = solved.duals
        return self._face_search.search_many(
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
        basis = self.program.highs.getBasis()
        return self._pessimistic_search.search(found, arrays, outcome[0], basis)


def _join(cases: int, *parts: np.ndarray) -> np.ndarray:
    """Return arrays side by side (cases, ...); those without a case axis are repeated."""
    return np.hstack([np.broadcast_to(part, (cases, part.shape[-1])) for part in parts])
