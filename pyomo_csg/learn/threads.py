"""One thread for all arithmetic, so that the same seed gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits

from pyomo_csg.locks import SharedChange, process_wide_lock


@contextmanager
def _limited() -> Iterator[None]:
    threads = torch.get_num_threads()
    try:
        with threadpool_limits(1):  # of the clusters' centers, too
            yield
    finally:
        torch.set_num_threads(threads)


_limit = SharedChange(_limited, process_wide_lock())


@contextmanager
def one_thread() -> Iterator[None]:
    """Let all use one thread: the order of a sum, and so the policy, depends on it."""
    with _limit:
        torch.set_num_threads(1)  # of which each thread may have a number of its own
        yield
