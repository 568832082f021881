"""Costs of decisions under outcomes: h(y) + Q(y, omega), for many pairs at once."""

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
from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import SolveContext, SolverTrouble, Troubles, bad_data
from pyomo_csg.solve.lp.basis_cache import Basis, CaseBounds
from pyomo_csg.solve.lp.highs_program import DUAL_SIMPLEX, HighsProgram, unpack
from pyomo_csg.solve.lp.rescaling import RescaledSolver
from pyomo_csg.solve.lp.sensitivity import basic_variables, is_degenerate
from pyomo_csg.solve.lp.units import nearest_power_of_two
from pyomo_csg.solve.mip.mip_program import MipProgram

_MAX_BASES = 512
_MAX_NUMBERS = 8_000_000  # in all bases: 64 MB
_MAX_SHARED_NUMBERS = 1_000_000  # in the bases that engines hand to each other
# New bases must pay: after the first 40, each must have answered 3 cases on average.
_TRIAL_BASES, _CASES_PER_BASIS = 40, 3
_ROW_TOLERANCE = 1e-9
_ZERO_REDUCED_COST = 1e-12  # relative to its terms
_WILD = 1e4  # between two units: without need, other units only change the rounding
_MOST_ERROR = 1e-9  # of a basis's responses, in natural units
_FIRST_PART = 4_096  # cases: enough to learn the common bases from
_PART_NUMBERS = 500_000  # row sides per part: what fits into a processor's cache
_CHECKED_AT_ONCE = 64  # solved cases, for the same reason


class CacheBudget:
    """Decides whether another basis is worth learning, by what bases have saved so far.

    Times are estimated from sizes, since measured ones would make answers depend, in their
    last bits, on how busy the machine is.
    """

    _TRIAL = 20_000.0  # microseconds to spend before any saving

    def __init__(self, rows: int, columns: int):
        self._numbers = rows * columns  # in one basis
        # A dense solve with as many right-hand sides as there are columns, and reading.
        self._learning = 300 + 6e-3 * rows * rows * (rows + columns)
        self._solving = 40 + 1.0 * (rows + columns)  # one warm solve
        self._balance = self._TRIAL

    def can_learn(self, bases: int) -> bool:
        """Whether time and memory are left for one more basis."""
        small = (bases + 1) * self._numbers <= _MAX_NUMBERS
        return bases < _MAX_BASES and small and self._balance >= self._learning

    def spend(self) -> None:
        """Count a basis that was learned."""
        self._balance -= self._learning

    def save(self, hits: int) -> None:
        """Count cases that a basis answered."""
        self._balance += hits * self._solving


class RowDuals:
    """Row duals (cases, rows) of the recourse, and whether each case's are unique.

    Uniqueness (cases,) is computed only where it was True at the start.
    """

    def __init__(self, rows: int, smooth: np.ndarray):
        self.rows = np.zeros((len(smooth), rows))
        self.smooth = smooth

    def read(self, case: int, program: HighsProgram) -> None:
        """Read them from a linear program just solved."""
        z, _, self.rows[case] = program.solution()
        if self.smooth[case]:
            self.smooth[case] = not is_degenerate(program.highs, z, program.arrays)

    def set_from_basis(
        self, basis: Basis, cases: np.ndarray, bounds: CaseBounds
    ) -> None:
        """Read them from a basis that fits the cases."""
        columns = len(basis.basic) + len(basis.nonbasic) - self.rows.shape[1]
        is_row = basis.nonbasic >= columns
        row = np.zeros(self.rows.shape[1])
        row[basis.nonbasic[is_row] - columns] = basis.reduced_cost[is_row]
        self.rows[cases] = row
        if self.smooth[cases].any():
            self.smooth[cases] &= bounds.are_nondegenerate(basis, cases)


class _SolvedCase(NamedTuple):
    """Recourse and row duals as bytes, the duals' scale, and an integer program's point."""

    packed: bytes
    scale: float
    z: np.ndarray | None


class RecourseSolver:
    """Costs of decisions under outcomes.

    With linear recourse whose matrix and costs are certain, few bases are ever optimal: a basis
    that was optimal once is optimal wherever it is feasible. So the known bases are tried on all
    cases at once, and only the rest is solved. Otherwise each case is solved.

    Parameters
    ----------
    compiled : CompiledModel
    context : SolveContext
    known : sequence of Basis, optional
        Bases that were optimal for other cases of the model.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        context: SolveContext,
        known: Sequence[Basis] = (),
    ):
        self._compiled, self._context, self._stats = compiled, context, context.stats
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
        self.caches = (
            not self._has_integers
            and compiled.recourse_rows.entries.certain_at(self.layout.recourse)
            and compiled.recourse_cost.linear.certain_at(self.layout.recourse_columns)
        )
        self._bases = [replace(basis) for basis in known]  # copies: hits are counted
        self._budget = CacheBudget(self.layout.rows, self.layout.columns)
        self._matrix: np.ndarray | None = None

    @property
    def known(self) -> tuple[Basis, ...]:
        """The bases with most hits, up to a total size."""
        bases = self._bases_by_hits()
        numbers = np.cumsum([basis.response.size for basis in bases], dtype=int)
        count = int(np.searchsorted(numbers, _MAX_SHARED_NUMBERS, "right"))
        return tuple(bases[:count])

    def _bases_by_hits(self) -> list[Basis]:
        return sorted(self._bases, key=lambda basis: -basis.hits)

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
            left, learn = self._try_known_bases(left, bounds, costs, duals)
        while len(left):
            case = left[0]
            try:
                arrays = self.layout.arrays(blocks[case], shift[case])
                solved[int(case)] = self._solve(arrays)
                if duals is not None:
                    duals.read(case, self._program)
            except SolverTrouble as trouble:
                troubles[int(case)] = trouble
            left = left[1:]
            learn = learn and self._budget.can_learn(len(self._bases))
            if learn and int(case) not in troubles:
                self._budget.spend()
                before, learned = len(left), learned + 1
                basis = self._read_basis(blocks.entries[case], blocks.cost[case])
                if basis is not None:
                    self._bases.append(basis)
                    left = self._apply(basis, left, bounds, costs, duals)
                answered += before - len(left)
                learn = learned < _TRIAL_BASES or answered >= _CASES_PER_BASIS * learned
        if solved:
            self._certify(solved, blocks, shift, costs, troubles, duals)
        for case in map(int, crossed):
            troubles[case] = SolverTrouble(
                "infeasible", "a lower bound exceeds the upper bound"
            )
        return costs, troubles

    def _try_known_bases(
        self,
        left: np.ndarray,
        bounds: CaseBounds,
        costs: np.ndarray,
        duals: RowDuals | None,
    ) -> tuple[np.ndarray, bool]:
        """Try the known bases, those with most hits first.

        Return the cases still without an answer, and whether all bases were tried, so that new
        ones are worth learning.
        """
        bases = self._bases_by_hits()
        for tried, basis in enumerate(bases):
            # Solving a few cases is faster than trying many bases on them.
            if 4 * len(left) < 3 * (len(bases) - tried):
                return left, False
            left = self._apply(basis, left, bounds, costs, duals)
        return left, True

    def _check_rows(
        self, decisions: np.ndarray, blocks: Blocks
    ) -> tuple[np.ndarray, Troubles]:
        """Answer for a model without recourse variables: its rows hold or not."""
        shift = self.layout.shift(blocks, decisions)
        low = shift < blocks.row_lower - _ROW_TOLERANCE * (1 + np.abs(shift))
        high = shift > blocks.row_upper + _ROW_TOLERANCE * (1 + np.abs(shift))
        broken = np.flatnonzero((low | high).any(axis=1))
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

    def _apply(
        self,
        basis: Basis,
        left: np.ndarray,
        bounds: CaseBounds,
        costs: np.ndarray,
        duals: RowDuals | None,
    ) -> np.ndarray:
        """Answer the cases that the basis fits; return those that are left."""
        if not len(left):
            return left
        fits, answers = bounds.try_basis(basis, left)
        costs[left[fits]] = answers
        if duals is not None and fits.any():
            duals.set_from_basis(basis, left[fits], bounds)
        hits = int(fits.sum())
        basis.hits += hits
        self._stats.cache_hits += hits
        self._budget.save(hits)
        return left[~fits]

    def _solve(self, arrays: Arrays) -> _SolvedCase:
        """Return the best recourse, with integers fixed at their best values."""
        z = None
        if self._has_integers:
            program = self._integer_program
            self._deadline.start()
            z = program.minimize(arrays)
            if z is None:
                raise SolverTrouble("infeasible")
            arrays = held_at(arrays, self.layout.integer, z)
        self._program.solve(arrays)
        packed = self._program.pack("col_value", "row_dual")
        return _SolvedCase(packed, self._program.scale, z)

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

    def _read_basis(self, entries: np.ndarray, cost: np.ndarray) -> Basis | None:
        """Return the basis just found; None if its matrix is singular."""
        basics, columns = basic_variables(self._program.highs), self.layout.columns
        is_basic = np.zeros(columns + self.layout.rows, bool)
        is_basic[np.where(basics < 0, columns - 1 - basics, basics)] = True
        basic, nonbasic = np.flatnonzero(is_basic), np.flatnonzero(~is_basic)
        if self._matrix is None:  # the same in every case, or no basis would be kept
            self._matrix, self._units = self._matrix_in_units(entries)
        matrix = self._matrix
        response = _solve_accurately(matrix[:, basic], -matrix[:, nonbasic])
        if response is None:
            return None
        costs = np.concatenate([cost[self.layout.n1 :], np.zeros(self.layout.rows)])
        costs *= self._units
        reduced_cost = costs[nonbasic] + costs[basic] @ response
        terms = np.abs(costs[nonbasic]) + np.abs(costs[basic]) @ np.abs(response)
        at_upper = reduced_cost < 0
        free = np.abs(reduced_cost) <= _ZERO_REDUCED_COST * terms.max(initial=0.0)
        response *= self._units[basic][:, None] / self._units[nonbasic]
        reduced_cost /= self._units[nonbasic]
        if free.any():
            # Without a reduced cost, only HiGHS knows which bound a place is at.
            found = self._program.highs.getBasis()
            states = [*found.col_status, *found.row_status]
            upper = highspy.HighsBasisStatus.kUpper
            at_upper[free] = [states[place] == upper for place in nonbasic[free]]
        return Basis(basic, nonbasic, at_upper, response, reduced_cost)

    def _matrix_in_units(self, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrix of columns and slacks in natural units, and the units.

        In the model's own units a dense solve may lose all digits. Units are powers of two.
        """
        arrays = self._program.arrays
        sizes = self._rescaled.checker.typical_units(arrays, np.zeros(0))
        rows, columns = (nearest_power_of_two(size) for size in sizes)
        if np.ptp(np.log2(np.concatenate([rows, columns]))) < np.log2(_WILD):
            rows, columns = np.ones(len(rows)), np.ones(len(columns))
        matrix = self.layout.matrix(entries) * columns / rows[:, None]
        slacks = -np.eye(self.layout.rows)
        return np.hstack([matrix, slacks]), np.concatenate([columns, rows])


def _once(numbers: np.ndarray) -> np.ndarray:
    """Return one row (1, ...) of numbers (n, ...) that are the same in all rows by design."""
    return numbers[:1] if numbers.strides[0] == 0 else numbers


def _solve_accurately(matrix: np.ndarray, sides: np.ndarray) -> np.ndarray | None:
    """Return the solution of a linear system; None if rounding may have spoiled it."""
    try:
        found, inverse = np.linalg.solve(matrix, sides), np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    # Errors beside the sums that they are rounding of, in the least favorable direction.
    terms = np.abs(matrix) @ np.abs(found) + np.abs(sides)
    error = np.finfo(float).eps * (np.abs(inverse) @ terms)
    size = np.maximum(1.0, np.abs(found).max(axis=0, initial=0.0))
    if not (error <= _MOST_ERROR * size).all():  # also where something is not a number
        return None
    return np.asarray(found)
