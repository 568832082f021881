"""How often the statements of ``'auto'`` about its winner hold on fresh rows.

``python -m tests.benchmarks.confidence`` simulates comparisons of candidates whose true mean
costs are known, on independent rows and on rows of a time series, and prints the share of
the statements "it beats the runner-up with probability p" that hold.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from pyomo_csg.learn.selection.scoring import compare_candidates

REPEATS = 1500
LEVELS = (0.5, 0.7, 0.8, 0.9, 1.01)


def simulate(rows: int, correlation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the stated probabilities, and whether the winner truly beats the runner-up.

    Candidates share most of the noise of a row, as decisions on the same day do. True means
    differ by about a standard error, where choices are hard, or by several.
    """
    rng = np.random.default_rng(seed)
    stated, held = [], []
    for _ in range(REPEATS):
        count = int(rng.integers(2, 15))
        spread = float(rng.choice([0.3, 1.0, 3.0])) / np.sqrt(rows)
        means = spread * rng.normal(size=count)
        noise = _series(rng, (count, rows), correlation)
        costs = means[:, None] + noise + 3 * _series(rng, (1, rows), correlation)
        names = [str(i) for i in range(count)]
        found = compare_candidates(names, costs)
        ranking = [int(row.name) for row in found.candidates or ()]
        chosen = int(found.chosen)
        runner_up = next(i for i in ranking if i != chosen)
        stated.append(found.confidence)
        held.append(means[chosen] < means[runner_up])
    return np.array(stated), np.array(held)


def _series(
    rng: np.random.Generator, shape: tuple[int, int], correlation: float
) -> np.ndarray:
    """Return an AR(1) series in each row, with variance 1."""
    steps = rng.normal(size=shape) * np.sqrt(1 - correlation**2)
    steps[:, 0] = rng.normal(size=shape[0])
    for t in range(1, shape[1]):
        steps[:, t] += correlation * steps[:, t - 1]
    return steps


def main() -> None:
    """Print the share of statements that hold."""
    print("rows  correlation  stated      how many  hold")
    for rows in (9, 60, 250):
        for correlation in (0.0, 0.6):
            stated, held = simulate(rows, correlation, seed=100 + rows)
            for low, high in pairwise(LEVELS):
                some = (stated >= low) & (stated < high)
                share = f"{held[some].mean():.0%}" if some.any() else "-"
                print(
                    f"{rows:4}  {correlation:11}  {low:.0%} to {min(high, 1):.0%}"
                    f"{some.sum():10}  {share}"
                )


if __name__ == "__main__":
    main()
