"""The program of Opt-Search with its cut: stay optimal on the scenarios."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyomo_csg.solve.assembly import Arrays, Blocks, Layout, Stack
from pyomo_csg.solve.compiling import CompiledModel
from pyomo_csg.solve.engine import SolverTrouble

_SLACK = 1e-9
_ROUNDING = 1e-12
_BETTER = 1e-6


def slack(value: Any) -> Any:
    """Return by how much costs (...) may exceed values and still count as equal."""
    return _SLACK * np.maximum(1.0, np.abs(value))


def excess(saa: Arrays | Stack, x: np.ndarray, value: Any) -> np.ndarray:
    """Return by how much points (...) of zeta-SAA break the cut, 0 within rounding."""
    paid = saa.cost * x
    over = paid.sum(axis=-1) + saa.offset - value
    # The cut has its slack, and a row the solver's tolerance.
    allowed = 2 * slack(value) + _ROUNDING * np.abs(paid).sum(axis=-1)
    return np.where(over <= allowed, 0.0, over)


def check_cut(saa: Arrays, x: np.ndarray, value: float, gap: float = 0.0) -> None:
    """Raise a SolverTrouble where a point of zeta-SAA breaks the cut.

    A point that is better than the optimum, by more than the gap, is no label either.
    """
    over = float(excess(saa, x, value))
    if over:
        raise SolverTrouble(
            "cut broken",
            f"the point found costs {over:.3g} more than the optimum {value:.9g}",
        )
    under = value - float(saa.cost @ x) - saa.offset
    if under > (gap + _BETTER) * max(1.0, abs(value)):
        raise SolverTrouble(
            "not optimal",
            f"a point costs {under:.3g} less than the optimum found, {value:.9g}",
        )


class SearchLayout(Layout):
    """Where everything stands in Opt-Search: the scenarios' blocks, then the outcome's."""

    def __init__(self, compiled: CompiledModel, count: int):
        super().__init__(compiled, count + 1)
        self.scenario_columns = self.columns - self.n2
        self.scenario_rows = self.rows - self.m2
        self._outcome = np.concatenate([np.zeros(count), [1.0]])

    def searching(self, blocks: Blocks, outcome: Blocks) -> Arrays:
        """Return the program that minimises the outcome's cost alone."""
        return self.arrays(blocks.joined(outcome), self._outcome)

    def searching_many(self, blocks: Blocks, outcomes: Blocks) -> Stack:
        """Return the programs of many cases; outcomes have one block each."""
        weights = np.broadcast_to(self._outcome, (len(blocks.cost), len(self._outcome)))
        return self.stack(blocks.joined(outcomes), weights)


class CutLayout:
    """A layout and a last row: the cost on the scenarios.

    Parameters
    ----------
    base : Layout

    Attributes
    ----------
    columns, rows : int
    start, index : array
    integer : array (columns,)
    """

    def __init__(self, base: Layout):
        self.columns, self.rows = base.columns, base.rows + 1
        self.integer = base.integer
        added = np.minimum(np.arange(self.columns + 1), base.scenario_columns)
        self.start = (base.start + added).astype(np.int32)
        self._cut = np.zeros(self.start[-1], bool)
        self._cut[self.start[1 : base.scenario_columns + 1] - 1] = True
        self.index = np.empty(self.start[-1], np.int32)
        self.index[self._cut] = base.rows
        self.index[~self._cut] = base.index
        self._last: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def cut(self, base: Arrays, cost: np.ndarray, limit: float) -> Arrays:
        """Return the program; ``cost`` @ the scenarios' columns is at most ``limit``."""
        return Arrays(
            base.cost,
            base.offset,
            base.column_lower,
            base.column_upper,
            np.append(base.row_lower, -np.inf),
            np.append(base.row_upper, limit),
            self._values(base.values, cost),
        )

    def _values(self, values: np.ndarray, cost: np.ndarray) -> np.ndarray:
        """Return the matrix, the same object where neither part is another."""
        last = self._last
        if last is not None and last[0] is values and last[1] is cost:
            return last[2]
        joined = np.empty(len(self.index))
        joined[self._cut] = cost
        joined[~self._cut] = values
        self._last = values, cost, joined
        return joined
