"""Where the numbers of the recourse's own program go."""

from __future__ import annotations

import numpy as np

from pyomo_csg.solve.assembly import Arrays, Blocks, Stack
from pyomo_csg.solve.compiling import CompiledModel


class RecourseLayout:
    """The program of the recourse alone: the decision is part of the rows' sides."""

    def __init__(self, compiled: CompiledModel):
        rows = compiled.recourse_rows
        self.n1 = len(compiled.first)
        self.columns, self.rows = len(compiled.recourse), len(rows)
        self.integer = compiled.recourse.integer
        first = rows.column < self.n1
        self.technology = np.flatnonzero(first)
        self.technology_row = rows.row[first]
        self.technology_column = rows.column[first]
        row, column = rows.row[~first], rows.column[~first] - self.n1
        self.recourse = np.flatnonzero(~first)
        self.recourse_columns = self.n1 + np.arange(self.columns)
        self._order = np.lexsort((row, column))
        self.index = row[self._order].astype(np.int32)
        counts = np.bincount(column, minlength=self.columns)
        self.start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self._places = (row, column)

    def matrix(self, entries: np.ndarray) -> np.ndarray:
        """Return the recourse matrix (rows, columns) of one block, dense."""
        matrix = np.zeros((self.rows, self.columns))
        np.add.at(matrix, self._places, entries[self.recourse])
        return matrix

    def shift(self, blocks: Blocks, decisions: np.ndarray) -> np.ndarray:
        """Return T(omega) y (n, rows): what a decision takes up of each row."""
        shift = np.zeros((len(decisions), self.rows))
        used = blocks.entries[:, self.technology] * decisions[:, self.technology_column]
        for entry, row in enumerate(self.technology_row):
            shift[:, row] += used[:, entry]
        return shift

    def arrays(self, block: Blocks, shift: np.ndarray) -> Arrays:
        """Return the program of one block (no leading axis) after one decision."""
        return Arrays(
            block.cost[self.n1 :],
            0.0,
            block.column_lower,
            block.column_upper,
            block.row_lower - shift,
            block.row_upper - shift,
            block.entries[self.recourse][self._order],
        )

    def stack(self, blocks: Blocks, shift: np.ndarray) -> Stack:
        """Return the programs of many blocks (one leading axis), each after its own."""
        return Stack(
            blocks.cost[:, self.n1 :],
            np.zeros(len(shift)),
            blocks.column_lower,
            blocks.column_upper,
            blocks.row_lower - shift,
            blocks.row_upper - shift,
            blocks.entries[:, self.recourse][:, self._order],
        )
