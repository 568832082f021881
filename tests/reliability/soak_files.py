"""Hostile files by the hundred thousand, in a process that may not have much memory."""

import json
import tempfile
import time
from pathlib import Path

from tests.reliability import bombs, hostile

ROOM = 512 * 2**20  # bytes beside what imports take


def files(mutations: int = 100_000, seed: int = 0) -> None:
    """Try mutations and bombs, and print what came of them as one line of JSON."""
    import resource  # of POSIX

    with tempfile.TemporaryDirectory() as name:
        hostile.targets(Path(tempfile.mkdtemp(dir=name)))  # torch, HiGHS: all at work
        limit = _size() + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        before, start = _peak(), time.perf_counter()
        exploded = bombs.refused(Path(tempfile.mkdtemp(dir=name)))
        refused, harmless = hostile.fuzz(
            Path(tempfile.mkdtemp(dir=name)), mutations, seed
        )
        found = {
            "mutations": mutations,
            "refused": refused,
            "harmless": harmless,
            "bombs": len(exploded),
            "room_mb": ROOM >> 20,
            "grown_mb": (_peak() - before) >> 10,
            "seconds": round(time.perf_counter() - start),
        }
    print(json.dumps(found), flush=True)


def _size() -> int:
    """Return the bytes of address space that this process has."""
    import resource

    pages, *_ = Path("/proc/self/statm").read_text().split()
    return int(pages) * resource.getpagesize()


def _peak() -> int:
    """Return the most kilobytes that were resident at once."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
