"""Costs of decisions under outcomes: h(y) + Q(y, omega), for many pairs at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from pyomo_csg.solve.engine import (
    SolveContext,
    SolverTrouble,
    Troubles,
    bad_cases,
    bad_data,
)
from pyomo_csg.solve.lp.basis_cache import (
    Basis,
    BasisCache,
    CaseSides,
    RowDuals,
    product,
)
from pyomo_csg.solve.lp.highs_program import DUAL_SIMPLEX, HighsProgram, unpack
from pyomo_csg.solve.lp.rescaling import RescaledSolver
from pyomo_csg.solve.lp.units import OutcomeSizes, are_violated
from pyomo_csg.solve.mip.mip_program import MipProgram

# New bases must pay: after the first 40, each must have answered 3 cases on average.
_TRIAL_BASES, _CASES_PER_BASIS = 40, 3
_ROW_TOLERANCE = 1e-9
_SMALL = 10_000  # numbers in a matrix
_FEASIBILITY = 1e-9  # HiGHS's feasibility tolerance
_FIRST_PART = 4_096  # cases: enough to learn the common bases from
_PART_NUMBERS = 120_000  # row sides per part: what fits into a processor's cache
_CHECKED_AT_ONCE = 64  # solved cases, for the same reason


@dataclass(eq=False)
class RecourseCases:
    """Decisions (n, s) and the outcomes (n, p + r) that they meet; data is made when needed.

    ``by_column`` (s, n) are the decisions with each variable's numbers side by side.
    """

    compiled: CompiledModel
    decisions: np.ndarray
    outcomes: np.ndarray
    by_column: np.ndarray

    @classmethod
    def of(
        cls, compiled: CompiledModel, decisions: np.ndarray, outcomes: np.ndarray
    ) -> RecourseCases:
        """Return the cases of arrays."""
        by_column = np.ascontiguousarray(decisions.T)  # sums along rows are much faster
        return cls(compiled, decisions, outcomes, by_column)

    def __len__(self) -> int:
        return len(self.decisions)

    def __getitem__(self, cases: np.ndarray) -> RecourseCases:
        if len(cases) == len(self):
            return self
        return self.of(self.compiled, self.decisions[cases], self.outcomes[cases])

    def within(self, compiled: CompiledModel) -> RecourseCases:
        """Return the same cases of a part of the model."""
        return replace(self, compiled=compiled)

    @cached_property
    def blocks(self) -> Blocks:
        """The recourse data of all cases."""
        return evaluate(self.compiled, self.outcomes)


class MovingSides:
    """The bounds of recourse columns and rows that depend on the outcome or the decision.

    Places are the columns, then the rows. ``constant`` (2, places) are the lower and upper bounds
    that do not move, and ``moving`` (2, places) the positions of those that do, or -1. Both
    sides of an equality have one position.
    """

    def __init__(self, compiled: CompiledModel):
        variables, rows = compiled.recourse, compiled.recourse_rows
        n1 = len(compiled.first)
        entries, n2 = np.flatnonzero(rows.column < n1), len(variables)
        self._entries = rows.entries.take(entries)
        self._entry_column = rows.column[entries]
        is_shifted = np.zeros(len(rows), bool)
        is_shifted[rows.row[entries]] = True
        lower, upper = variables.bounds(np.zeros(compiled.width))
        sides, moves = (rows.lower, rows.upper), np.zeros((2, n2 + len(rows)), bool)
        moves[:, :n2] = variables.lower.moves, variables.upper.moves
        for which, side in enumerate(sides):
            moves[which, n2:] = side.moves | (is_shifted & np.isfinite(side.constant))
        self.constant = np.array(
            [
                np.concatenate([lower, rows.lower.constant]),
                np.concatenate([upper, rows.upper.constant]),
            ]
        )
        is_equality = np.concatenate([np.zeros(n2, bool), rows.equality])
        is_equality &= moves.all(axis=0)
        moves[1] &= ~is_equality
        self.moving, self.count = np.full(moves.shape, -1), int(moves.sum())
        self.moving[moves] = np.arange(self.count)
        self.moving[1, is_equality] = self.moving[0, is_equality]
        columns, self._rows = moves[:, :n2], moves[:, n2:]
        self._columns = np.flatnonzero(columns.any(axis=0))
        self._of_columns = columns[:, self._columns]
        self._variables = variables.take(self._columns)
        self._sides = [
            side.take(np.flatnonzero(moving))
            for side, moving in zip(sides, self._rows, strict=True)
        ]
        self._positions = np.where(self._rows, self.moving[:, n2:], -1)[
            :, rows.row[entries]
        ]
        self._matrix = self._technology_matrix(n1)
        both = np.isfinite(self.constant) | (self.moving >= 0)
        both = both.all(axis=0) & ~is_equality & (self.moving >= 0).any(axis=0)
        self._pairs = np.flatnonzero(both)

    def _technology_matrix(self, columns: int) -> np.ndarray | None:
        """Return what a unit of each decision takes off the bounds; None if large or uncertain."""
        size = self.count * columns
        if not self._entries.certain or size > max(
            _SMALL, 16 * len(self._entry_column)
        ):
            return None
        matrix = np.zeros((self.count, columns))
        for positions in self._positions:
            some = np.flatnonzero(positions >= 0)
            places = positions[some], self._entry_column[some]
            np.add.at(matrix, places, self._entries.constant[some])
        return matrix

    def at(self, cases: RecourseCases) -> CaseSides:
        """Return the moving bounds of cases."""
        values = np.empty((self.count + 1, len(cases)))
        values[-1] = 1.0
        start = 0
        bounds: list[np.ndarray] = []
        if len(self._columns):
            bounds = [one.T for one in self._variables.bounds(cases.outcomes)]
        for which, side in enumerate(self._sides):
            if bounds:
                some = bounds[which][self._of_columns[which]]
                values[start : start + len(some)] = some
                start += len(some)
            end = start + len(side.constant)
            values[start:end] = side.at(cases.outcomes).T
            start = end
        shift = self._shift(cases)
        values[:-1] -= shift
        return CaseSides(values, shift)

    def _shift(self, cases: RecourseCases) -> np.ndarray:
        """Return what decisions are subtracted from the moving bounds (moving, n)."""
        if self._matrix is not None:
            return product(self._matrix, cases.by_column)
        shift = np.zeros((self.count, len(cases)))
        entries = self._entries.at(cases.outcomes)
        for positions in self._positions:
            for entry, place in enumerate(positions.tolist()):
                if place >= 0:
                    column = self._entry_column[entry]
                    shift[place] += entries[:, entry] * cases.by_column[column]
        return shift

    def are_crossed(self, sides: CaseSides) -> np.ndarray:
        """Return for which cases a lower bound exceeds its upper bound."""
        if not len(self._pairs):
            return np.zeros(sides.values.shape[1], bool)
        lower, upper = (
            np.where(
                position[:, None] < 0,
                constant[:, None],
                sides.values[np.maximum(position, 0)],
            )
            for position, constant in zip(
                self.moving[:, self._pairs], self.constant[:, self._pairs], strict=True
            )
        )
        # By more than a solver would allow.
        size = 1 + np.minimum(np.abs(lower), np.abs(upper))
        with np.errstate(invalid="ignore"):
            crossed = (lower - upper > _FEASIBILITY * size).any(axis=0)
        return np.asarray(crossed & np.isfinite(sides.values).all(axis=0))


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
        n1, cost = self.layout.n1, compiled.recourse_cost
        self._first_costs = cost.linear.take(np.arange(n1)), cost.constant
        if self.caches:
            self._sides = MovingSides(compiled)
            bounds = self._sides.constant, self._sides.moving
            checker = self._rescaled.checker
            self._cache = BasisCache(self.layout, checker, known, context.stats, bounds)

    @property
    def known(self) -> tuple[Basis, ...]:
        """The bases with most hits, up to a total size."""
        return self._cache.most_used() if self.caches else ()

    def costs(
        self, decisions: np.ndarray, outcomes: np.ndarray
    ) -> tuple[np.ndarray, Troubles]:
        """Return h(y) + Q(y, omega) (n,) and the cases without an answer."""
        costs = np.empty(len(decisions))
        troubles: Troubles = {}
        for part in self._parts(len(decisions)):
            cases = RecourseCases.of(self._compiled, decisions[part], outcomes[part])
            recourse, failed = self._recourse_costs(cases)
            costs[part] = self._add_first_stage(cases, recourse, failed)
            troubles.update((part.start + i, trouble) for i, trouble in failed.items())
        return costs, troubles

    def _add_first_stage(
        self, cases: RecourseCases, recourse: np.ndarray, troubles: Troubles
    ) -> np.ndarray:
        """Return h(y) + Q (n,); add troubles where the costs of the decision are no numbers."""
        costs = self._first_stage_costs(cases) + recourse
        if not np.isfinite(costs).all():
            for i in np.flatnonzero(~np.isfinite(costs)).tolist():
                troubles.setdefault(i, bad_data())
                costs[i] = np.nan
        return costs

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
        cases = RecourseCases.of(self._compiled, decisions, outcomes)
        duals = RowDuals(self.layout.rows, smooth.copy())
        recourse, troubles = self._recourse_costs(cases, duals)
        costs = self._add_first_stage(cases, recourse, troubles)
        slopes = self._slopes(cases.blocks, duals.rows)
        solved = np.isfinite(costs)
        slopes[~solved] = np.nan
        return costs, slopes, duals.smooth & solved, troubles

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

    def _first_stage_costs(self, cases: RecourseCases) -> np.ndarray:
        """Return h(y) and the outcome's cost of the decision itself."""
        first, (linear, constant) = self._compiled.first_cost, self._first_costs
        per_unit = first.linear.constant[: self.layout.n1]
        fixed = first.constant.constant[0] + constant.at(cases.outcomes)[:, 0]
        if linear.certain:
            per_unit = per_unit + linear.constant
            return np.einsum("sn,s->n", cases.by_column, per_unit) + fixed
        per_unit = per_unit + linear.at(cases.outcomes)
        return np.einsum("ns,ns->n", cases.decisions, per_unit) + fixed

    def _recourse_costs(
        self, cases: RecourseCases, duals: RowDuals | None = None
    ) -> tuple[np.ndarray, Troubles]:
        """Return Q(y, omega) (n,) and troubles; fill in the row duals, if any."""
        if not self.layout.columns:
            return self._check_rows(cases)
        costs = np.full(len(cases), np.nan)
        troubles: Troubles = {}
        queue = self._reuse_bases(cases, costs, troubles, duals)
        if not len(queue):
            return costs, troubles
        cases = cases[queue.cases]
        blocks = cases.blocks
        for place in np.flatnonzero(blocks.unusable()).tolist():
            troubles[queue.remove(place)] = bad_data()
        shift = self.layout.shift(blocks, cases.decisions)
        solved: dict[int, _SolvedCase] = {}
        learned = answered = 0
        while len(queue):
            place, case = queue.pop()
            try:
                arrays = self.layout.arrays(blocks[place], shift[place])
                solved[place], program = self._solve(arrays)
                if duals is not None:
                    duals.read(case, program, self._place_sizes(arrays, program))
            except SolverTrouble as trouble:
                troubles[case] = trouble
                continue
            sides = queue.sides
            if sides is not None and self._cache.can_learn():
                before, learned = len(queue), learned + 1
                data = blocks.entries[place], blocks.cost[place]
                basis = self._cache.learn(program.highs, arrays, *data)
                if basis is not None:
                    queue.left = self._cache.apply_last(queue.left, sides, costs, duals)
                answered += before - len(queue)
                if learned >= _TRIAL_BASES and answered < _CASES_PER_BASIS * learned:
                    queue.sides = None
        if solved:
            self._certify(solved, queue, blocks, shift, costs, troubles, duals)
        return costs, troubles

    def _reuse_bases(
        self,
        cases: RecourseCases,
        costs: np.ndarray,
        troubles: Troubles,
        duals: RowDuals | None,
    ) -> _Queue:
        """Answer the cases that a known basis fits; return those that wait for a solver."""
        everything = np.arange(len(cases))
        if not (self.caches and self._cache.is_useful):
            return _Queue(everything, False, None)
        sides = self._sides.at(cases)
        left, learn = self._cache.try_bases(sides, costs, duals)
        # A basis does not see the bound at which a place is not.
        is_crossed = self._sides.are_crossed(sides)
        for case in np.flatnonzero(is_crossed).tolist():
            costs[case], troubles[case] = np.nan, _crossed_bounds()
        return _Queue(left[~is_crossed[left]], learn, sides)

    def _place_sizes(self, arrays: Arrays, program: HighsProgram) -> np.ndarray:
        """Return typical sizes of columns, then rows, in the units of the program solved."""
        if program is self._program:
            return self._rescaled.checker.place_sizes(arrays)
        return np.ones(self.layout.columns + self.layout.rows)

    def _check_rows(self, cases: RecourseCases) -> tuple[np.ndarray, Troubles]:
        """Answer for a model without recourse variables: its rows hold or not."""
        blocks, decisions = cases.blocks, cases.decisions
        shift = self.layout.shift(blocks, decisions)
        sizes = replace(blocks, entries=np.abs(blocks.entries))
        terms = self.layout.shift(sizes, np.abs(decisions))
        rows, early = (blocks.row_lower, blocks.row_upper), self._compiled.first_rows

        def typical(case: int) -> np.ndarray:
            all_sizes = OutcomeSizes(self._compiled).at(blocks[case : case + 1])
            return all_sizes[1][len(early) :]

        bad = blocks.unusable()
        violated = are_violated(shift, terms, rows, _ROW_TOLERANCE, typical)
        broken = violated.any(axis=1) & ~bad
        troubles = {int(i): SolverTrouble("infeasible") for i in np.flatnonzero(broken)}
        costs = np.where(broken | bad, np.nan, 0.0)
        return costs, {**troubles, **bad_cases(bad)}

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
        queue: _Queue,
        blocks: Blocks,
        shift: np.ndarray,
        costs: np.ndarray,
        troubles: Troubles,
        duals: RowDuals | None,
    ) -> None:
        """Fill in the costs of solved cases that can be certified."""
        places = np.array(list(solved))
        cases, found = queue.cases[places], list(solved.values())
        columns = self.layout.columns
        numbers = unpack([one.packed for one in found], columns + self.layout.rows)
        z, row_duals = numbers[:, :columns], numbers[:, columns:]
        row_duals = row_duals / np.array([one.scale for one in found])[:, None]
        if len(places) < len(shift):
            blocks, shift = blocks[places], shift[places]
        stack = self.layout.stack(blocks, shift)
        if self._has_integers:
            best = np.array([one.z for one in found])
            stack = held_at(stack, self.layout.integer, best)
        for start in range(0, len(cases), _CHECKED_AT_ONCE):
            part, failed = slice(start, start + _CHECKED_AT_ONCE), Troubles()
            some, points = stack.part(part), z[part]
            if duals is None:
                self._rescaled.repair(some, points, row_duals[part], failed)
            else:
                _, duals.rows[cases[part]] = self._rescaled.certify_many(
                    some, points, row_duals[part], failed, need_clear=False
                )
            costs[cases[part]] = some.values_at(points)
            troubles.update((int(cases[part][i]), one) for i, one in failed.items())


class _Queue:
    """Cases that wait for a solver, in ascending order; ``sides`` of all while bases are learned."""

    def __init__(self, cases: np.ndarray, learn: bool, sides: CaseSides | None):
        self.cases, self.left = cases, cases
        self.sides = sides if learn else None

    def __len__(self) -> int:
        return len(self.left)

    def pop(self) -> tuple[int, int]:
        """Return the place of the next case among all of the queue, and its number."""
        case, self.left = int(self.left[0]), self.left[1:]
        return int(np.searchsorted(self.cases, case)), case

    def remove(self, place: int) -> int:
        """Return the number of the case at a place, which no longer waits."""
        case = int(self.cases[place])
        self.left = self.left[self.left != case]
        return case


def _crossed_bounds() -> SolverTrouble:
    return SolverTrouble("infeasible", "a lower bound exceeds the upper bound")
