"""Locks between threads and between processes, safe across forks."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

_held_folders: set[FolderLock] = set()


def process_wide_lock() -> Any:
    """Return a reentrant lock that lives as long as the process.

    A fork waits until no other thread holds it, so that a child never starts with a
    lock that nobody in it can release.
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
    """A process-wide change: the first thread to enter makes it, the last undoes it.

    ``change`` returns a context manager that makes and undoes the change; ``lock`` guards
    entering and leaving.

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


class FolderLock:
    """An exclusive lock on a folder; the system releases it when the process ends."""

    def __init__(self, folder: Path):
        self._path = folder / "lock"
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def acquire(self) -> str | None:
        """Take the lock; return who holds it if that is another process or object."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self._path, flags, 0o666)
        try:
            if not _try_lock(descriptor):
                holder = os.read(descriptor, 1000).decode(errors="replace").strip()
                os.close(descriptor)
                return f"process {holder}" if holder else "another process"
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode())
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held_folders.add(self)
        return None

    def release(self) -> None:
        """Give the lock back if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held_folders.discard(self)


def _after_fork_in_child() -> None:
    """Close the child's share of folder locks.

    A worker can outlive a killed parent, and would keep the folder locked.
    """
    for lock in list(_held_folders):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        # Windows locks bytes: one far behind the text that others may want to read.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
