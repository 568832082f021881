"""What one run after another found, made arrays all at once."""

from __future__ import annotations

import numpy as np

from pyomo_csg.solve.highs import HighsProgram, unpacked, with_prices


class Gathered:
    """Points and rows' duals of the runs of one program.

    Parameters
    ----------
    program : HighsProgram
    """

    def __init__(self, program: HighsProgram):
        self._program = program
        self._packed: list[bytes] = []
        self._scale: list[float] = []

    def add(self) -> None:
        """Take what the last run found."""
        self._packed.append(self._program.packed(with_prices))
        self._scale.append(self._program.scale)

    def add_nothing(self) -> None:
        """Leave NaN for a run that found nothing."""
        self._packed.append(b"")
        self._scale.append(1.0)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return points (n, columns) and rows' duals (n, rows)."""
        columns, rows = self._program.layout.columns, self._program.layout.rows
        numbers = unpacked(self._packed, columns + rows)
        scale = self._scale[0] if len(set(self._scale)) == 1 else _column(self._scale)
        return numbers[:, :columns], numbers[:, columns:] / scale


def _column(numbers: list[float]) -> np.ndarray:
    return np.array(numbers)[:, None]
