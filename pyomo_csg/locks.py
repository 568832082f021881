"""What the threads of a process share, and how they stay out of each other's way."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_ancestors = 0


def fork_count() -> int:
    """Return a number that is another in a forked child, sooner than its process's own."""
    return _ancestors


def _forked() -> None:
    global _ancestors
    _ancestors += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def process_wide_lock() -> Any:
    """Return a lock to keep for as long as the process lives.

    A fork waits until no other thread holds it: no child begins with half the work of a
    thread that it does not have, or waits for that thread for ever.
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire,
            after_in_parent=lock.release,
            after_in_child=lock.release,
        )
    return lock


class SharedChange:
    """A change to what all threads see: the first to enter makes it, the last undoes it.

    Parameters
    ----------
    change : callable
        Returns a context manager that makes the change and undoes it.
    lock : lock
        Held meanwhile.

    Examples
    --------
    >>> from contextlib import contextmanager
    >>> @contextmanager
    ... def change():
    ...     print("made")
    ...     yield
    ...     print("undone")
    >>> shared = SharedChange(change, process_wide_lock())
    >>> with shared, shared:
    ...     print("inside")
    made
    inside
    undone
    """

    def __init__(self, change: Callable[[], AbstractContextManager[Any]], lock: Any):
        self._change, self._lock = change, lock
        self._inside = 0
        self._made: AbstractContextManager[Any] = nullcontext()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._made = self._change()
                self._made.__enter__()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._made.__exit__(None, None, None)
