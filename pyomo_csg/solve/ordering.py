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
    _, cases, places = np.unique(_rows(arrays), return_index=True, return_inverse=True)
    return cases, places


def _rows(arrays: list[np.ndarray]) -> np.ndarray:
    """Return each case as its bytes: high ones first, so that what is near stays near."""
    parts = [
        np.ascontiguousarray(array, array.dtype.newbyteorder(">"))
        .reshape(len(array), -1)
        .view(np.uint8)
        for array in arrays
    ]
    rows = np.concatenate(parts, axis=1)
    return rows.view(f"V{rows.shape[1]}").ravel()
