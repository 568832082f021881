"""The recourse as a maximum over its dual vertices: Q(y, omega) = max pi'(side - C y)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyomo_csg.solve.assembly import Blocks
from pyomo_csg.solve.recourse_layout import RecourseLayout
from pyomo_csg.solve.vertices import Corners, corners


@dataclass(frozen=True, eq=False)
class OneSided:
    """One outcome's recourse with every side on its own: min q'z, Wz >= side - C y.

    A row or column that is bounded on two sides is there twice, with its signs turned;
    bounds of recourse variables are rows.

    Attributes
    ----------
    recourse : array (rows, columns)
        W.
    technology : array (rows, s)
        C.
    side : array (rows,)
    cost : array (columns,)
        q.
    net : array (constraints, rows)
        Adds up, with their signs, the rows that a constraint gave.
    """

    recourse: np.ndarray
    technology: np.ndarray
    side: np.ndarray
    cost: np.ndarray
    net: np.ndarray

    def duals(self) -> Corners | None:
        """Return the corners of {pi >= 0: W'pi = q}; None where the recourse is unbounded.

        Raises
        ------
        TooManyBasesError
        """
        rows, columns = self.recourse.shape
        if not columns:
            return Corners(np.zeros((1, rows)), np.eye(rows))
        return corners(self.recourse.T, self.cost)


def one_sided(layout: RecourseLayout, block: Blocks) -> OneSided:
    """Return the recourse of one block (no leading axis)."""
    recourse = np.vstack([layout.matrix(block.entries), np.eye(layout.columns)])
    technology = np.zeros((layout.rows + layout.columns, layout.n1))
    places = layout.technology_row, layout.technology_column
    np.add.at(technology, places, block.entries[layout.technology])
    lower = np.concatenate([block.row_lower, block.column_lower])
    upper = np.concatenate([block.row_upper, block.column_upper])
    low, high = np.isfinite(lower), np.isfinite(upper)
    own = np.eye(layout.rows, len(lower))
    return OneSided(
        np.vstack([recourse[low], -recourse[high]]),
        np.vstack([technology[low], -technology[high]]),
        np.concatenate([lower[low], -upper[high]]),
        block.cost[layout.n1 :],
        np.hstack([own[:, low], -own[:, high]]),
    )
