"""What every layout of a program says of itself."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Shape(Protocol):
    """The size, the pattern column by column, and the integers of a program."""

    columns: int
    rows: int
    start: np.ndarray
    index: np.ndarray
    integer: np.ndarray
