"""Costs of decisions under outcomes: h(y) + Q(y, omega), for many pairs at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pyomo_csg.solve.compile.assembly import (
    Arrays,
    Blocks,
    RecourseLayout,
    evaluate,
    held_at,
)
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import SolveContext, SolverTrouble, Troubles, bad_data
from pyomo_csg.solve.lp.basis_cache import Basis, BasisCache, CaseBounds, RowDuals
from pyomo_csg.solve.lp.highs_program import DUAL_SIMPLEX, HighsProgram, unpack
from pyomo_csg.solve.lp.rescaling import RescaledSolver
from pyomo_csg.solve.lp.units import OutcomeSizes, are_violated
from pyomo_csg.solve.mip.mip_program import MipProgram

# New bases must pay: after the first 40, each must have answered 3 cases on average.
_TRIAL_BASES, _CASES_PER_BASIS = 40, 3
_ROW_TOLERANCE = 1e-9
_FIRST_PART = 4_096  # cases: enough to learn the common bases from
_PART_NUMBERS = 500_000  # row sides per part: what fits into a processor's cache
_CHECKED_AT_ONCE = 64  # solved cases, for the same reason


class _SolvedCase(NamedTuple):
    """Recourse and row duals as bytes, the duals' scale, and an integer program's point."""

    packed: bytes
    scale: float
    z: np.ndarray | None


class RecourseSolver:
    """Costs of decisions under outcomes.

    With linear recourse whose matrix and costs are certain, few bases are ever optimal: a basis
    that was optimal once is optimal wherever it is feasible. So the ``known`` bases are tried
    on all cases at once, and only the rest is solved. Otherwise each case is solved.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        context: SolveContext,
        known: Sequence[Basis] = (),
    ):
        self._compiled, self._context = compiled, context
        self.layout = RecourseLayout(compiled)
        # Presolve would drop the basis from which the next case starts.
        lean = {"presolve": "off", "simplex_strategy": DUAL_SIMPLEX}
        self._program = HighsProgram(
            self.layout,
            context.with_defaults(lean),
            relaxed=True,
            scaled=True,
            stays_warm=True,
        )
        self._rescaled = RescaledSolver(self.layout, context)
        self._has_integers = compiled.integer_recourse
        self.caches = not self._has_integers and compiled.has_certain_linear_recourse
        checker = self._rescaled.checker
        self._cache = BasisCache(self.layout, checker, known, context.stats)

    @property
    def known(self) -> tuple[Basis, ...]:
        """The bases with most hits, up to a total size."""
        return self._cache.most_used()

    def costs(
        self, decisions: np.ndarray, outcomes: np.ndarray
    ) -> tuple[np.ndarray, Troubles]:
        """Return h(y) + Q(y, omega) (n,) and the cases without an answer."""
        costs = np.full(len(decisions), np.nan)
        troubles: Troubles = {}
        for part in self._parts(len(decisions)):
            start = part.start
            blocks = evaluate(self._compiled, outcomes[part])
            bad = blocks.unusable()
            good = np.flatnonzero(~bad)
            ys = decisions[part]
            if bad.any():
                blocks, ys = blocks[good], ys[good]
            recourse, failed = self._recourse_costs(ys, blocks)
            costs[start + good] = self._first_stage_costs(ys, blocks) + recourse
            troubles.update((start + int(good[i]), t) for i, t in failed.items())
            troubles.update((start + int(i), bad_data()) for i in np.flatnonzero(bad))
        return costs, troubles

    def _parts(self, count: int) -> Iterator[slice]:
        """Split cases: first a few to learn bases from, then chunks that fit into a cache."""
        most = max(_FIRST_PART, _PART_NUMBERS // max(1, self.layout.rows))
        start = 0
        while start < count:
            end = start + (most if start else _FIRST_PART)
            yield slice(start, end)
            start = end

    def gradients(
        self, decisions: np.ndarray, outcomes: np.ndarray, smooth: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Troubles]:
        """Return costs (n,), d cost / d y (n, s), whether each is smooth, and troubles.

        With integer recourse, the integers are fixed for the derivative. Cases that are not
        ``smooth`` (n,) for another reason stay so.
        """
        blocks = evaluate(self._compiled, outcomes)
        bad = blocks.unusable()
        good = np.flatnonzero(~bad)
        ys, blocks = decisions[good], blocks[good]
        duals = RowDuals(self.layout.rows, smooth[good])
        recourse, failed = self._recourse_costs(ys, blocks, duals)
        costs, slopes = np.full(len(bad), np.nan), np.full(decisions.shape, np.nan)
        smooth = np.zeros(len(bad), bool)
        costs[good] = self._first_stage_costs(ys, blocks) + recourse
        slopes[good] = self._slopes(blocks, duals.rows)
        smooth[good] = duals.smooth & np.isfinite(recourse)
        troubles = {int(good[i]): trouble for i, trouble in failed.items()}
        troubles.update((int(i), bad_data()) for i in np.flatnonzero(bad))
        return costs, slopes, smooth, troubles

    def _slopes(self, blocks: Blocks, row_duals: np.ndarray) -> np.ndarray:
        """Return d cost / d y (n, s) from row duals (n, rows)."""
        n1 = self.layout.n1
        slopes = self._compiled.first_cost.linear.constant[:n1] + blocks.cost[:, :n1]
        terms = blocks.entries[:, self.layout.technology]
        terms = terms * row_duals[:, self.layout.technology_row]
        for entry, column in enumerate(self.layout.technology_column):
            slopes[:, column] -= terms[:, entry]
        return slopes

    @cached_property
    def _integer_program(self) -> MipProgram:
        context = self._context.with_deadline()
        self._deadline = context.deadline
        return MipProgram(self.layout, context)

    def _first_stage_costs(self, decisions: np.ndarray, blocks: Blocks) -> np.ndarray:
        """Return h(y) and the outcome's cost of the decision itself."""
        n1, first = self.layout.n1, self._compiled.first_cost
        per_unit = first.linear.constant[:n1] + _once(blocks.cost)[:, :n1]
        per_unit = np.broadcast_to(per_unit, decisions.shape)
        constant = first.constant.constant[0] + blocks.constant[:, 0]
        return np.einsum("ns,ns->n", decisions, per_unit) + constant

    def _recourse_costs(
        self, decisions: np.ndarray, blocks: Blocks, duals: RowDuals | None = None
    ) -> tuple[np.ndarray, Troubles]:
        """Return Q(y, omega) (n,) and troubles; fill in the row duals, if any."""
        if not self.layout.columns:
            return self._check_rows(decisions, blocks)
        costs = np.full(len(decisions), np.nan)
        troubles: Troubles = {}
        shift = self.layout.shift(blocks, decisions)
        left, learn = np.arange(len(decisions)), False
        crossed, learned, answered = left[:0], 0, 0
        solved: dict[int, _SolvedCase] = {}
        if self.caches:
            bounds = self._case_bounds(blocks, shift)
            ordered = bounds.are_ordered()
            left, crossed = left[ordered], left[~ordered]
            left, learn = self._cache.try_bases(left, bounds, costs, duals)
        while len(left):
            case = left[0]
            try:
                arrays = self.layout.arrays(blocks[case], shift[case])
                solved[int(case)], program = self._solve(arrays)
                if duals is not None:
                    duals.read(case, program)
            except SolverTrouble as trouble:
                troubles[int(case)] = trouble
            left = left[1:]
            learn = learn and self._cache.can_learn()
            if learn and int(case) not in troubles:
                before, learned = len(left), learned + 1
                data = blocks.entries[case], blocks.cost[case]
                basis = self._cache.learn(program.highs, arrays, *data)
                if basis is not None:
                    left = self._cache.apply(basis, left, bounds, costs, duals)
                answered += before - len(left)
                learn = learned < _TRIAL_BASES or answered >= _CASES_PER_BASIS * learned
        if solved:
            self._certify(solved, blocks, shift, costs, troubles, duals)
        for case in map(int, crossed):
            troubles[case] = SolverTrouble(
                "infeasible", "a lower bound exceeds the upper bound"
            )
        return costs, troubles

    def _check_rows(
        self, decisions: np.ndarray, blocks: Blocks
    ) -> tuple[np.ndarray, Troubles]:
        """Answer for a model without recourse variables: its rows hold or not."""
        shift = self.layout.shift(blocks, decisions)
        sizes = replace(blocks, entries=np.abs(blocks.entries))
        terms = self.layout.shift(sizes, np.abs(decisions))
        rows, early = (blocks.row_lower, blocks.row_upper), self._compiled.first_rows

        def typical(case: int) -> np.ndarray:
            all_sizes = OutcomeSizes(self._compiled).at(blocks[case : case + 1])
            return all_sizes[1][len(early) :]

        violated = are_violated(shift, terms, rows, _ROW_TOLERANCE, typical)
        broken = np.flatnonzero(violated.any(axis=1))
        costs = np.zeros(len(decisions))
        costs[broken] = np.nan
        return costs, {int(i): SolverTrouble("infeasible") for i in broken}

    def _case_bounds(self, blocks: Blocks, shift: np.ndarray) -> CaseBounds:
        columns = (blocks.column_lower, blocks.column_upper)
        rows = (
            np.subtract(blocks.row_lower.T, shift.T, order="C"),
            np.subtract(blocks.row_upper.T, shift.T, order="C"),
        )
        if self._compiled.recourse.certain:
            return CaseBounds((columns[0][0], columns[1][0]), rows, shift.T)
        nothing = np.zeros(0)
        both = [np.concatenate([c.T, r]) for c, r in zip(columns, rows, strict=True)]
        return CaseBounds((nothing, nothing), (both[0], both[1]), shift.T)

    def _solve(self, arrays: Arrays) -> tuple[_SolvedCase, HighsProgram]:
        """Return the best recourse, with integers fixed at their best values.

        The program is the one in HiGHS whose basis is optimal, maybe in other units.
        """
        z = None
        if self._has_integers:
            search = self._integer_program
            self._deadline.start()
            z = search.minimize(arrays)
            if z is None:
                raise SolverTrouble("infeasible")
            arrays = held_at(arrays, self.layout.integer, z)
        program = self._program
        try:
            program.solve(arrays)
        except SolverTrouble as trouble:
            return self._solve_again(arrays, trouble, z)
        packed = program.pack("col_value", "row_dual")
        return _SolvedCase(packed, program.scale, z), program

    def _solve_again(
        self, arrays: Arrays, trouble: SolverTrouble, z: np.ndarray | None
    ) -> tuple[_SolvedCase, HighsProgram]:
        """Solve in other units, or raise the trouble."""
        if trouble.status == "infeasible":
            ray = self._program.dual_ray()
            if self._rescaled.checker.proves_infeasible(arrays, ray):
                raise trouble
        x, certificate = self._rescaled.solve_again(arrays, trouble)
        assert self._rescaled.last is not None
        packed = np.concatenate([x, certificate.row_dual]).tobytes()
        return _SolvedCase(packed, 1.0, z), self._rescaled.last.program

    def _certify(
        self,
        solved: dict[int, _SolvedCase],
        blocks: Blocks,
        shift: np.ndarray,
        costs: np.ndarray,
        troubles: Troubles,
        duals: RowDuals | None,
    ) -> None:
        """Fill in the costs of solved cases that can be certified."""
        cases = np.array(list(solved))
        found = list(solved.values())
        columns = self.layout.columns
        numbers = unpack([one.packed for one in found], columns + self.layout.rows)
        z, row_duals = numbers[:, :columns], numbers[:, columns:]
        row_duals = row_duals / np.array([one.scale for one in found])[:, None]
        if len(cases) < len(shift):
            blocks, shift = blocks[cases], shift[cases]
        stack = self.layout.stack(blocks, shift)
        if self._has_integers:
            best = np.array([one.z for one in found])
            stack = held_at(stack, self.layout.integer, best)
        for start in range(0, len(cases), _CHECKED_AT_ONCE):
            part, failed = (
                slice(start, start + _CHECKED_AT_ONCE),
                dict[int, SolverTrouble](),
            )
            some, points = stack.part(part), z[part]
            if duals is None:
                self._rescaled.repair(some, points, row_duals[part], failed)
            else:
                _, duals.rows[cases[part]] = self._rescaled.certify_many(
                    some, points, row_duals[part], failed, need_clear=False
                )
            costs[cases[part]] = some.values_at(points)
            troubles.update((int(cases[part][i]), one) for i, one in failed.items())


def _once(numbers: np.ndarray) -> np.ndarray:
    """Return one row (1, ...) of numbers (n, ...) that are the same in all rows by design."""
    return numbers[:1] if numbers.strides[0] == 0 else numbers
