"""Q(y, omega): what the best recourse to an outcome costs, for many pairs at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import highspy
import numpy as np

from pyomo_csg.solve.compile.assembly import (
    Arrays,
    Blocks,
    RecourseLayout,
    evaluate,
    held_at,
)
from pyomo_csg.solve.compile.compiler import CompiledModel
from pyomo_csg.solve.engine import SolveContext, SolverTrouble, bad_data
from pyomo_csg.solve.lp.basis_cache import Basis, Sides
from pyomo_csg.solve.lp.certificates import CertificateChecker
from pyomo_csg.solve.lp.highs_program import (
    DUAL_SIMPLEX,
    HighsProgram,
    row_dual_parts,
    unpack,
)
from pyomo_csg.solve.lp.rescaling import RescaledSolver
from pyomo_csg.solve.lp.sensitivity import basic_variables, is_degenerate
from pyomo_csg.solve.mip.mip_program import MipProgram

_MOST_BASES = 512
_MOST_NUMBERS = 1_000_000  # in the bases that engines hand to each other
_TRIALS, _WORTH = 40, 3  # after so many bases, each must have answered so many cases
_ROW = 1e-9
_PRICE = 1e-12  # relative to the largest cost: below it a price is none
_FIRST, _NUMBERS = 4_096, 500_000  # cases that bases are learned from; sides at once


class Prices:
    """What a unit of each row's side costs, case by case.

    Attributes
    ----------
    rows : array (cases, rows)
    smooth : array (cases,) of bool
        Whether no other prices are right, too. Found out only where it is in question.
    """

    def __init__(self, rows: int, smooth: np.ndarray):
        self.rows = np.zeros((len(smooth), rows))
        self.smooth = smooth

    def read(self, case: int, program: HighsProgram) -> None:
        """Take them from a linear program just solved."""
        z, _, self.rows[case] = program.solution()
        if self.smooth[case]:
            self.smooth[case] = not is_degenerate(program.highs, z, program.arrays)

    def take(self, basis: Basis, cases: np.ndarray, sides: Sides) -> None:
        """Take them from a basis that fits the cases."""
        columns = len(basis.basic) + len(basis.nonbasic) - self.rows.shape[1]
        is_row = basis.nonbasic >= columns
        row = np.zeros(self.rows.shape[1])
        row[basis.nonbasic[is_row] - columns] = basis.price[is_row]
        self.rows[cases] = row
        if self.smooth[cases].any():
            self.smooth[cases] &= sides.inside(basis, cases)


class _Solved(NamedTuple):
    """The best recourse and what rows cost, times a scale; and an integer program's z."""

    packed: bytes
    scale: float
    z: np.ndarray | None


class RecourseSolver:
    """Costs of decisions under outcomes.

    With linear recourse whose matrix and costs are certain the optimal bases are few:
    one that was optimal once is optimal wherever it is feasible, so cases are checked
    against the known bases all at once and only the rest is solved. Otherwise each case
    is solved.

    Parameters
    ----------
    compiled : CompiledModel
    context : SolveContext
    known : sequence of Basis, optional
        Bases that were optimal for others of the model's cases.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        context: SolveContext,
        known: Sequence[Basis] = (),
    ):
        self._compiled = compiled
        self._context, self._stats = context, context.stats
        self.layout = RecourseLayout(compiled)
        lean = {"presolve": "off", "simplex_strategy": DUAL_SIMPLEX}
        self._program = HighsProgram(
            self.layout, context.with_defaults(lean), relaxed=True, scaled=True
        )
        self._checker = CertificateChecker(self.layout)
        self._careful = RescaledSolver(self.layout, self._checker, context)
        self._whole = compiled.integer_recourse
        self.caches = (
            not self._whole
            and compiled.recourse_rows.entries.certain_at(self.layout.recourse)
            and compiled.recourse_cost.linear.certain_at(self.layout.recourse_columns)
        )
        self._bases = [replace(basis) for basis in known]  # which count their hits
        self._matrix: np.ndarray | None = None

    @property
    def known(self) -> tuple[Basis, ...]:
        """The bases that fit most cases so far, as many as are small in all."""
        bases = sorted(self._bases, key=lambda basis: -basis.hits)
        numbers = np.cumsum([basis.response.size for basis in bases], dtype=int)
        return tuple(bases[: int(np.searchsorted(numbers, _MOST_NUMBERS, "right"))])

    def costs(
        self, decisions: np.ndarray, outcomes: np.ndarray
    ) -> tuple[np.ndarray, dict[int, SolverTrouble]]:
        """Return h(y) + Q(y, omega) (n,) and the cases that have no answer."""
        costs = np.full(len(decisions), np.nan)
        troubles: dict[int, SolverTrouble] = {}
        for part in self._parts(len(decisions)):
            start = part.start
            blocks = evaluate(self._compiled, outcomes[part])
            bad = blocks.unusable()
            good = np.flatnonzero(~bad)
            ys = decisions[part]
            if bad.any():
                blocks, ys = blocks[good], ys[good]
            recourse, failed = self._recourse(ys, blocks)
            costs[start + good] = self._fixed_costs(ys, blocks) + recourse
            troubles.update((start + int(good[i]), t) for i, t in failed.items())
            troubles.update((start + int(i), bad_data()) for i in np.flatnonzero(bad))
        return costs, troubles

    def _parts(self, count: int) -> Iterator[slice]:
        """Cut cases: first a few, from which bases are learned, then as many as fit a cache."""
        most = max(_FIRST, _NUMBERS // max(1, self.layout.rows))
        start = 0
        while start < count:
            end = start + (most if start else _FIRST)
            yield slice(start, end)
            start = end

    def gradients(
        self, decisions: np.ndarray, outcomes: np.ndarray, smooth: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[int, SolverTrouble]]:
        """Return costs (n,), d cost / d y (n, s), whether each is smooth, and troubles.

        With integer recourse the derivative is that with the integers held. It is not
        smooth where (n,) it is said to be not, for another reason.
        """
        blocks = evaluate(self._compiled, outcomes)
        bad = blocks.unusable()
        good = np.flatnonzero(~bad)
        ys, blocks = decisions[good], blocks[good]
        prices = Prices(self.layout.rows, smooth[good])
        recourse, failed = self._recourse(ys, blocks, prices)
        costs, slopes = np.full(len(bad), np.nan), np.full(decisions.shape, np.nan)
        smooth = np.zeros(len(bad), bool)
        costs[good] = self._fixed_costs(ys, blocks) + recourse
        slopes[good] = self._slopes(blocks, prices.rows)
        smooth[good] = prices.smooth & np.isfinite(recourse)
        troubles = {int(good[i]): trouble for i, trouble in failed.items()}
        troubles.update((int(i), bad_data()) for i in np.flatnonzero(bad))
        return costs, slopes, smooth, troubles

    def _slopes(self, blocks: Blocks, prices: np.ndarray) -> np.ndarray:
        """Return d cost / d y (n, s) where the rows' prices are (n, rows)."""
        n1 = self.layout.n1
        slopes = self._compiled.first_cost.linear.constant[:n1] + blocks.cost[:, :n1]
        used = blocks.entries[:, self.layout.technology]
        used = used * prices[:, self.layout.technology_row]
        for entry, column in enumerate(self.layout.technology_column):
            slopes[:, column] -= used[:, entry]
        return slopes

    @cached_property
    def _integer_program(self) -> MipProgram:
        context = self._context.with_deadline()
        self._deadline = context.deadline
        return MipProgram(self.layout, context)

    def _fixed_costs(self, decisions: np.ndarray, blocks: Blocks) -> np.ndarray:
        """Return h(y) and what q charges for the decision itself."""
        n1, first = self.layout.n1, self._compiled.first_cost
        per_unit = first.linear.constant[:n1] + blocks.cost[:, :n1]
        constant = first.constant.constant[0] + blocks.constant[:, 0]
        return np.einsum("ns,ns->n", decisions, per_unit) + constant

    def _recourse(
        self, decisions: np.ndarray, blocks: Blocks, prices: Prices | None = None
    ) -> tuple[np.ndarray, dict[int, SolverTrouble]]:
        """Return Q(y, omega) (n,) and troubles; fill in the rows' prices if asked to."""
        if not self.layout.columns:
            return self._no_recourse(decisions, blocks)
        costs = np.full(len(decisions), np.nan)
        troubles: dict[int, SolverTrouble] = {}
        shift = self.layout.shift(blocks, decisions)
        left, learn = np.arange(len(decisions)), False
        crossed, learned, answered = left[:0], 0, 0
        solved: dict[int, _Solved] = {}
        if self.caches:
            sides = self._sides(blocks, shift)
            in_order = sides.in_order()
            left, crossed = left[in_order], left[~in_order]
            left, learn = self._try_known(left, sides, costs, prices)
        while len(left):
            case = left[0]
            try:
                arrays = self.layout.arrays(blocks[case], shift[case])
                solved[int(case)] = self._solve(arrays)
                if prices is not None:
                    prices.read(case, self._program)
            except SolverTrouble as trouble:
                troubles[int(case)] = trouble
            left = left[1:]
            if learn and int(case) not in troubles and len(self._bases) < _MOST_BASES:
                before, learned = len(left), learned + 1
                basis = self._read_basis(blocks.entries[case], blocks.cost[case])
                if basis is not None:
                    self._bases.append(basis)
                    left = self._apply(basis, left, sides, costs, prices)
                answered += before - len(left)
                learn = learned < _TRIALS or answered >= _WORTH * learned
        if solved:
            self._settle(solved, blocks, shift, costs, troubles, prices)
        for case in map(int, crossed):
            troubles[case] = SolverTrouble(
                "infeasible", "a lower side is above the upper"
            )
        return costs, troubles

    def _try_known(
        self, left: np.ndarray, sides: Sides, costs: np.ndarray, prices: Prices | None
    ) -> tuple[np.ndarray, bool]:
        """Try the known bases, those that fit most first.

        Returns
        -------
        left : array
            The cases that are still to be answered.
        learn : bool
            Whether all bases were tried, so that what is left has others. A few cases
            are solved sooner than many bases are tried on them.
        """
        bases = sorted(self._bases, key=lambda basis: -basis.hits)
        for tried, basis in enumerate(bases):
            if 4 * len(left) < 3 * (len(bases) - tried):
                return left, False
            left = self._apply(basis, left, sides, costs, prices)
        return left, True

    def _no_recourse(
        self, decisions: np.ndarray, blocks: Blocks
    ) -> tuple[np.ndarray, dict[int, SolverTrouble]]:
        """Answer for a model in which nothing is left to choose: the rows hold or not."""
        shift = self.layout.shift(blocks, decisions)
        low = shift < blocks.row_lower - _ROW * (1 + np.abs(shift))
        high = shift > blocks.row_upper + _ROW * (1 + np.abs(shift))
        broken = np.flatnonzero((low | high).any(axis=1))
        costs = np.zeros(len(decisions))
        costs[broken] = np.nan
        return costs, {int(i): SolverTrouble("infeasible") for i in broken}

    def _sides(self, blocks: Blocks, shift: np.ndarray) -> Sides:
        columns = (blocks.column_lower, blocks.column_upper)
        rows = (
            np.ascontiguousarray((blocks.row_lower - shift).T),
            np.ascontiguousarray((blocks.row_upper - shift).T),
        )
        if self._compiled.recourse.certain:
            return Sides((columns[0][0], columns[1][0]), rows)
        nothing = np.zeros(0)
        both = [np.concatenate([c.T, r]) for c, r in zip(columns, rows, strict=True)]
        return Sides((nothing, nothing), (both[0], both[1]))

    def _apply(
        self,
        basis: Basis,
        left: np.ndarray,
        sides: Sides,
        costs: np.ndarray,
        prices: Prices | None,
    ) -> np.ndarray:
        """Answer the cases that the basis fits; return those that are left."""
        if not len(left):
            return left
        fits, answers = sides.answer(basis, left)
        costs[left[fits]] = answers
        if prices is not None and fits.any():
            prices.take(basis, left[fits], sides)
        basis.hits += int(fits.sum())
        self._stats.cache_hits += int(fits.sum())
        return left[~fits]

    def _solve(self, arrays: Arrays) -> _Solved:
        """Return the best recourse, the integers held at their best."""
        z = None
        if self._whole:
            program = self._integer_program
            self._deadline.start()
            z = program.search(arrays)
            if z is None:
                raise SolverTrouble("infeasible")
            arrays = held_at(arrays, self.layout.integer, z)
        self._program.load(arrays)
        self._program.run()
        return _Solved(self._program.packed(row_dual_parts), self._program.scale, z)

    def _settle(
        self,
        solved: dict[int, _Solved],
        blocks: Blocks,
        shift: np.ndarray,
        costs: np.ndarray,
        troubles: dict[int, SolverTrouble],
        prices: Prices | None,
    ) -> None:
        """Take the costs of cases that were solved, if they pass their check."""
        cases = np.array(list(solved))
        found = list(solved.values())
        scale = [one.scale for one in found]
        columns = self.layout.columns
        numbers = unpack([one.packed for one in found], columns + self.layout.rows)
        z, row_prices = numbers[:, :columns], numbers[:, columns:]
        row_prices = row_prices / np.array(scale)[:, None]
        stack = self.layout.stack(blocks[cases], shift[cases])
        if self._whole:
            best = np.array([one.z for one in found])
            stack = held_at(stack, self.layout.integer, best)
        failed: dict[int, SolverTrouble] = {}
        _, duals = self._careful.settle(stack, z, row_prices, failed, clear=False)
        costs[cases] = stack.values_of(z)
        troubles.update((int(cases[i]), trouble) for i, trouble in failed.items())
        if prices is not None:
            prices.rows[cases] = duals

    def _read_basis(self, entries: np.ndarray, cost: np.ndarray) -> Basis | None:
        """Return the basis just found; None if it is none."""
        basics, columns = basic_variables(self._program.highs), self.layout.columns
        is_basic = np.zeros(columns + self.layout.rows, bool)
        is_basic[np.where(basics < 0, columns - 1 - basics, basics)] = True
        basic, nonbasic = np.flatnonzero(is_basic), np.flatnonzero(~is_basic)
        if self._matrix is None:  # it is certain, or no basis would be kept
            slacks = -np.eye(self.layout.rows)
            self._matrix = np.hstack([self.layout.matrix(entries), slacks])
        matrix = self._matrix
        try:
            response = -np.linalg.solve(matrix[:, basic], matrix[:, nonbasic])
        except np.linalg.LinAlgError:
            return None
        prices = np.concatenate([cost[self.layout.n1 :], np.zeros(self.layout.rows)])
        price = prices[nonbasic] + prices[basic] @ response
        at_upper = price < 0
        free = np.abs(price) <= _PRICE * np.abs(prices).max(initial=0.0)
        if free.any():
            at_upper[free] = self._stand_at_upper(nonbasic[free])
        return Basis(basic, nonbasic, at_upper, response, price)

    def _stand_at_upper(self, places: np.ndarray) -> list[bool]:
        """Say which of some nonbasic places HiGHS has at their upper sides."""
        found = self._program.highs.getBasis()
        states = [*found.col_status, *found.row_status]
        return [states[place] == highspy.HighsBasisStatus.kUpper for place in places]
