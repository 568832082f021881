"""Rows of measurements: each in a process of its own, and a file of those that are done."""

import json
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from pathlib import Path

IDENTITY = (
    *("problem", "growth", "size", "rows", "scenarios", "seconds", "workers"),
    *("method", "seed", "fresh", "full"),
)


class RowStore:
    """Measures rows, and keeps them in a file of JSON lines.

    Parameters
    ----------
    path : path, optional
        Rows that are in it are not measured again.
    timeout : float
        Seconds, after which the process of a row is ended.
    gigabytes : float
        The most address space of a process.
    """

    def __init__(self, path, timeout, gigabytes):
        self._path, self._rows = path, {}
        self._timeout, self._gigabytes = timeout, gigabytes
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self._rows[_identity(row)] = row

    def find_or_run(self, key):
        """Return the row of a key; measure it in a process if it is not in the file."""
        if _identity(key) in self._rows:
            return self._rows[_identity(key)]
        row = _run(key, self._timeout, self._gigabytes)
        # A crash is measured again.
        if self._path is not None and not row["status"].startswith("exit"):
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return row


def _identity(row):
    return tuple(row.get(name) for name in IDENTITY)


def _run(key, timeout, gigabytes):
    """Measure one row in a process of its own, which is ended when its time is up."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row.json"
        process = multiprocessing.get_context("spawn").Process(
            target=_measure, args=(key, path, gigabytes)
        )
        start = time.perf_counter()
        process.start()
        process.join(timeout)
        late = process.is_alive()
        if late:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
        row = json.loads(path.read_text()) if path.exists() else dict(key)
    spent = time.perf_counter() - start
    if row.get("status") != "done" and (key["fresh"] or "wall" not in row):
        stage = "comparing" if "wall" in row else "fitting"
        why = "timeout" if late else f"exit code {process.exitcode}"
        row["status"] = f"{why} while {stage}, after {spent:.0f} s"
    return row


def _measure(key, path, gigabytes):
    """Measure in a process group of its own, so that workers end with it."""
    os.setsid()
    limit = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    from tests.benchmarks.real_size.measurement import measure

    measure(key, path)
