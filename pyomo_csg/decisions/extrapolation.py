"""Warnings for contexts that are far from the history of a policy."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

logger = logging.getLogger(__name__)

# Distances and limits that a loop over single contexts collects; None: warn at once.
_collected: ContextVar[list[tuple[float, float]] | None] = ContextVar(
    "collected", default=None
)


def report_extrapolation(distances: np.ndarray, limit: float, reach: float) -> None:
    """Warn if distances (n,) from the history exceed a limit; ``reach`` is the largest in it."""
    found = _collected.get()
    if found is not None:
        found += [(float(one), reach) for one in distances[distances > limit]]
    elif distances.max() > limit:
        _warn(distances[distances > limit], len(distances), reach)


@contextmanager
def one_warning(name: str, count: int) -> Iterator[None]:
    """Collect the warnings of a policy's decisions, one context at a time, into one."""
    found: list[tuple[float, float]] = []
    token = _collected.set(found)
    try:
        yield
    finally:
        _collected.reset(token)
        if found:
            distances, reaches = zip(*found, strict=True)
            _warn(np.array(distances), count, max(reaches), f"policy '{name}': ")


def _warn(far: np.ndarray, count: int, reach: float, prefix: str = "") -> None:
    logger.warning(
        "%s%d of %d contexts are far from the history: the farthest is %.3g standard "
        "deviations from its mean, in the history at most %.3g; scenarios and decisions "
        "for such contexts are extrapolated",
        *(prefix, len(far), count, far.max(), reach),
    )
