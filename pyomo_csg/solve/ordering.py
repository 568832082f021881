"""An order of a batch's cases that is the same however they came."""

from __future__ import annotations

import numpy as np


def in_order(arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return which cases to answer, each once, and where the answer to each then is.

    A case that is solved after others starts from what they left, so that its last bits
    depend on their order.

    Parameters
    ----------
    arrays : list of arrays
        With the n cases on the first axis.

    Returns
    -------
    cases : array (m,) of int
        One of those that are equal to each other, in an order of their numbers.
    places : array (n,) of int
        Where among those each case is.

    Examples
    --------
    >>> in_order([np.array([[3.0], [1.0], [3.0], [2.0]])])
    (array([1, 3, 0]), array([2, 0, 2, 1]))
    """
    rows = _rows(arrays)
    first: dict[bytes, int] = {}
    for case, row in enumerate(rows):
        first.setdefault(row, case)
    ordered = sorted(first)
    place = {row: i for i, row in enumerate(ordered)}
    cases = np.array([first[row] for row in ordered])
    return cases, np.array([place[row] for row in rows])


def _rows(arrays: list[np.ndarray]) -> list[bytes]:
    """Return each case as bytes: high ones first, so that what is near stays near."""
    parts = [
        array.astype(array.dtype.newbyteorder(">")).reshape(len(array), -1)
        for array in arrays
    ]
    return [b"".join(map(bytes, row)) for row in zip(*parts, strict=True)]
