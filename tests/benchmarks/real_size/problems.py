"""The problems by name, and those by which growth is measured."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from models import (
    cep1,
    facility_location,
    production,
    resource_allocation,
    unit_commitment,
)
from tests.benchmarks.real_size import large_programs as large

STRIDE = 9  # days between fresh rows, so that days in a row count as apart


@dataclass(frozen=True)
class Problem:
    """A model, its history and which baselines can be afforded on it.

    Attributes
    ----------
    build : callable
        Returns the model.
    draw : callable
        Maps a count and a seed to contexts and outcomes.
    rows, scenarios : int
        Of the default call.
    saa : int or None
        Scenarios of context-free SAA; None: all outcomes.
    full : bool
        Whether the weighted SAAs on all outcomes are affordable.
    """

    build: Callable[[], Any]
    draw: Callable[[int, int], tuple[np.ndarray, np.ndarray]]
    rows: int
    scenarios: int = 5
    saa: int | None = None
    full: bool = True

    def history(self, seed):
        """Return the rows to learn from."""
        return self.draw(self.rows, 2 * seed + 1)

    def fresh(self, count, seed):
        """Return later rows, of another seed."""
        contexts, outcomes = self.draw(STRIDE * count, 2 * seed + 1_000_000)
        return contexts[::STRIDE], outcomes[::STRIDE]


def network(first, columns, rows, numbers, n, **options):
    """Return a linear problem of a size."""
    return Problem(
        partial(large.build_network, first, columns, rows, numbers),
        partial(large.sample_network, numbers=numbers),
        n,
        **options,
    )


def many_rows(n, columns):
    """Return a newsvendor with a history of a size."""
    return Problem(
        large.build_newsvendor,
        partial(large.sample_newsvendor, columns=columns),
        n,
        full=n * n <= 1e8,
    )


def _zoo(module, rows, **options):
    return Problem(module.build, module.sample, rows, **options)


def _allocation(degree):
    draw = partial(resource_allocation.sample, degree=degree)
    return Problem(resource_allocation.build, draw, 400)


PROBLEMS = {
    "unit_commitment": _zoo(unit_commitment, 300, saa=30, full=False),
    "production": _zoo(production, 400, saa=60, full=False),
    "facility_location": _zoo(facility_location, 300, saa=100, full=False),
    "resource_allocation": _allocation(1.0),
    "resource_allocation_root": _allocation(0.5),
    "resource_allocation_square": _allocation(2.0),
    "lp": network(20, 400, 120, 30, 400, saa=60, full=False),
    "lp_few_rows": network(20, 400, 120, 30, 20),
    "big_lp": network(50, 5000, 2000, 200, 1000, scenarios=10, saa=10, full=False),
    "newsvendor_long": many_rows(20_000, 20),
    "newsvendor_wide": many_rows(20_000, 200),
    "cep1": _zoo(cep1, 500),
}


def _by_scenarios(count):
    return replace(PROBLEMS["lp"], scenarios=count)


# By name: the sizes, and the problem of a size.
GROWTH = {
    "rows": (
        (500, 1000, 2000, 5000, 10_000, 20_000),
        lambda n: many_rows(n, 20),
    ),
    "numbers": (
        (1, 5, 20, 50, 100, 200, 500),
        lambda p: network(10, 1000, 700, p, 500),
    ),
    "recourse": (
        (50, 150, 500, 1500, 5000),
        lambda columns: network(10, columns, 2 * columns // 5, 10, 300),
    ),
    "scenarios": ((1, 2, 5, 10, 20, 40), _by_scenarios),
}
