"""Standard errors of means over rows that follow each other in time."""

import numpy as np


def block_standard_error(values: np.ndarray, block: int) -> float:
    """Return the standard error of a mean by overlapping (moving) blocks of rows.

    The variance of the mean is that of the means of all blocks of consecutive rows,
    scaled from the length of a block to that of the series (Kuensch, 1989). A block of 1
    gives the standard error of independent rows.
    """
    values = np.asarray(values, float)
    n = len(values)
    block = max(1, min(block, n // 2))
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means = (sums[block:] - sums[:-block]) / block
    if len(means) < 2:
        return float("nan")
    return float(means.std(ddof=1) * np.sqrt(block / n))
