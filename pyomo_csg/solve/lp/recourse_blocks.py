"""Recourse that falls apart into independent blocks, such as one per product or region.

Without the first-stage variables, blocks share no row and no column. Each is solved by itself:
the number of bases is then a sum over blocks instead of a product, and an integer recourse
becomes a few small programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from pyomo_csg.solve.compile.compiled_model import CompiledModel
from pyomo_csg.solve.engine import SolveContext, SolverTrouble, Troubles
from pyomo_csg.solve.lp.basis_cache import Basis, RowDuals
from pyomo_csg.solve.lp.highs_program import Attempts
from pyomo_csg.solve.lp.recourse_costs import RecourseCases, RecourseSolver

_NODES_PER_BLOCK = 1  # of an integer recourse that is first solved whole
_MOST_AT_ONCE = 8  # cases solved whole before their nodes are looked at

_Solve: TypeAlias = Callable[
    [RecourseCases, RowDuals | None], tuple[np.ndarray, Troubles]
]


def new_recourse_solver(
    compiled: CompiledModel, context: SolveContext, known: Sequence[Basis] = ()
) -> RecourseSolver:
    """Return the solver of a linear or integer recourse, decomposed where that pays.

    Where neither bases can be reused nor integers be separated, one program is faster.
    """
    whole = RecourseSolver(compiled, context, known)
    if not (whole.caches or compiled.integer_recourse):
        return whole
    blocks = independent_blocks(compiled)
    if len(blocks) < 2:
        return whole
    return DecomposedRecourse(compiled, context, blocks, known)


class RecourseBlock:
    """The columns and rows of one block, and the model restricted to them."""

    def __init__(self, compiled: CompiledModel, columns: np.ndarray, rows: np.ndarray):
        self.columns, self.rows = columns, rows
        n1, matrix = len(compiled.first), compiled.recourse_rows
        entries = np.flatnonzero(np.isin(matrix.row, rows))
        row, column = matrix.row[entries], matrix.column[entries]
        first = column < n1
        place = n1 + np.searchsorted(columns, column - n1)
        costs = np.concatenate([np.arange(n1), n1 + columns])
        cost = compiled.recourse_cost
        self.compiled = replace(
            compiled,
            recourse=compiled.recourse.take(columns),
            recourse_rows=replace(
                matrix,
                row=np.searchsorted(rows, row),
                column=np.where(first, column, place),
                entries=matrix.entries.take(entries),
                lower=matrix.lower.take(rows),
                upper=matrix.upper.take(rows),
                equality=matrix.equality[rows],
            ),
            recourse_cost=replace(cost, linear=cost.linear.take(costs)),
        )


def independent_blocks(compiled: CompiledModel) -> list[RecourseBlock]:
    """Return the connected components of recourse columns and rows, in model order."""
    n1, rows = len(compiled.first), compiled.recourse_rows
    import networkx as nx  # decisions do without

    graph = nx.Graph()
    graph.add_nodes_from(("column", j) for j in range(len(compiled.recourse)))
    graph.add_nodes_from(("row", i) for i in range(len(rows)))
    recourse = rows.column >= n1
    graph.add_edges_from(
        (("row", i), ("column", j))
        for i, j in zip(
            rows.row[recourse].tolist(),
            (rows.column[recourse] - n1).tolist(),
            strict=True,
        )
    )
    # All columns without a row share one block, and all rows without a column another.
    parts: dict[Any, tuple[list[int], list[int]]] = {}
    for number, component in enumerate(nx.connected_components(graph)):
        columns = [j for kind, j in component if kind == "column"]
        block_rows = [i for kind, i in component if kind == "row"]
        key = number if columns and block_rows else ("alone", bool(columns))
        part = parts.setdefault(key, ([], []))
        part[0].extend(columns)
        part[1].extend(block_rows)
    return [
        RecourseBlock(compiled, np.array(sorted(c), int), np.array(sorted(r), int))
        for c, r in parts.values()
    ]


class DecomposedRecourse(RecourseSolver):
    """Costs of decisions under outcomes, as sums over independent blocks.

    Where an integer recourse needs little branching, one program is faster than one for each
    block. So cases are first solved whole, but with few nodes: branching on all blocks at once
    takes a number of nodes that is a product over blocks.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        context: SolveContext,
        blocks: list[RecourseBlock],
        known: Sequence[Basis] = (),
    ):
        nodes = {"mip_max_nodes": max(1, _NODES_PER_BLOCK * len(blocks))}
        super().__init__(compiled, context)
        # A solver of its own: blocks may reuse bases where the whole has integers.
        self._as_one = RecourseSolver(compiled, context.with_defaults(nodes))
        self._blocks, self._whole, self._at_once = blocks, Attempts(), 1
        self._solvers = [
            RecourseSolver(
                block.compiled, context, [basis for basis in known if basis.block == b]
            )
            for b, block in enumerate(blocks)
        ]
        self.caches = any(solver.caches for solver in self._solvers)

    @property
    def known(self) -> tuple[Basis, ...]:
        """The bases of all blocks, with the number of their block."""
        return tuple(
            replace(basis, block=b)
            for b, solver in enumerate(self._solvers)
            for basis in solver.known
        )

    def _recourse_costs(
        self, cases: RecourseCases, duals: RowDuals | None = None
    ) -> tuple[np.ndarray, Troubles]:
        found = _Recourse(cases, duals)
        left = np.arange(len(cases))
        while len(left):
            is_whole = self._has_integers and self._whole.is_due()
            size = self._at_once if self._has_integers else len(left)
            part, left = left[:size], left[size:]
            if is_whole:
                found.fill(part, self._as_one._recourse_costs)
                part = found.cases_in_trouble(
                    part, lambda one: one.status != "infeasible"
                )
                self._note_whole(not len(part))
            found.fill(part, self._sums_over_blocks)
            # A cost that is rounding beside those of other blocks is not so in its block.
            part = found.cases_in_trouble(part, _may_be_rounding)
            found.fill(part, self._as_one._recourse_costs)
        return found.costs, found.troubles

    def _note_whole(self, succeeded: bool) -> None:
        """Solve more cases whole at once after a success, and one after a failure."""
        if succeeded:
            self._whole.succeeded()
            self._at_once = min(_MOST_AT_ONCE, 2 * self._at_once)
        else:
            self._whole.failed()
            self._at_once = 1

    def _sums_over_blocks(
        self, cases: RecourseCases, duals: RowDuals | None = None
    ) -> tuple[np.ndarray, Troubles]:
        total, troubles = np.zeros(len(cases)), Troubles()
        for block, solver in zip(self._blocks, self._solvers, strict=True):
            part = None if duals is None else RowDuals(len(block.rows), duals.smooth)
            costs, failed = solver._recourse_costs(cases.within(block.compiled), part)
            total += costs
            for case, trouble in failed.items():
                troubles.setdefault(case, trouble)
            if duals is not None and part is not None:
                duals.rows[:, block.rows] = part.rows
                duals.smooth = part.smooth
        return total, troubles


class _Recourse:
    """Costs, row duals (if wanted) and troubles of cases, filled in part by part."""

    def __init__(self, cases: RecourseCases, duals: RowDuals | None = None):
        self._cases, self._duals = cases, duals
        self._asked = None if duals is None else duals.smooth.copy()
        self.costs = np.full(len(cases), np.nan)
        self.troubles: Troubles = {}

    def fill(self, cases: np.ndarray, solve: _Solve) -> None:
        """Solve some of the cases, and put their answers in the place of earlier ones."""
        if not len(cases):
            return
        part, duals = None, self._duals
        if duals is not None and self._asked is not None:
            part = RowDuals(duals.rows.shape[1], self._asked[cases])
        self.costs[cases], failed = solve(self._cases[cases], part)
        for case in cases.tolist():
            self.troubles.pop(case, None)
        self.troubles.update((int(cases[i]), trouble) for i, trouble in failed.items())
        if duals is not None and part is not None:
            duals.rows[cases], duals.smooth[cases] = part.rows, part.smooth

    def cases_in_trouble(
        self, cases: np.ndarray, kind: Callable[[SolverTrouble], bool]
    ) -> np.ndarray:
        """Return those of the cases that have a trouble of a kind."""
        if not self.troubles:
            return cases[:0]
        found = [i for i in cases.tolist() if i in self.troubles]
        return np.array([i for i in found if kind(self.troubles[i])], int)


def _may_be_rounding(trouble: SolverTrouble) -> bool:
    """Whether the trouble of a block may be none beside the other blocks."""
    if trouble.status == "infeasible":
        return False
    return trouble.may_be_rounding or trouble.status == "not exact"
