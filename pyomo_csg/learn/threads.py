"""One thread for all arithmetic, so that the same seed gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Let all use one thread: the order of a sum, and so the policy, depends on it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):  # of the clusters' centers, too
            yield
    finally:
        torch.set_num_threads(threads)
