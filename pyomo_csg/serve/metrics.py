"""Counts and times of a worker, in the text format of Prometheus."""

from __future__ import annotations

import os
import threading
from collections import Counter

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)


class Metrics:
    """Counts of requests by status, of decisions, and a histogram of seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: Counter[float] = Counter()
        self._decisions = self._count = 0
        self._seconds = 0.0

    def record(
        self, path: str, status: int, seconds: float = 0.0, decisions: int = 0
    ) -> None:
        """Count one request; ``decisions`` is how many it made."""
        with self._lock:
            self._requests[path, status] += 1
            self._decisions += decisions
            if decisions:
                self._count += 1
                self._seconds += seconds
                self._buckets.update(limit for limit in _BUCKETS if seconds <= limit)

    def text(self, reloads: int, loaded: float) -> str:
        """Return all in Prometheus' format, with the worker's process as a label."""
        worker = f'worker="{os.getpid()}"'
        with self._lock:
            lines = [
                "# TYPE csg_requests_total counter",
                *(
                    f'csg_requests_total{{{worker},path="{path}",status="{status}"}} {n}'
                    for (path, status), n in sorted(self._requests.items())
                ),
                "# TYPE csg_decisions_total counter",
                f"csg_decisions_total{{{worker}}} {self._decisions}",
                "# TYPE csg_decide_seconds histogram",
                *(
                    f'csg_decide_seconds_bucket{{{worker},le="{limit:g}"}} '
                    f"{self._buckets[limit]}"
                    for limit in _BUCKETS
                ),
                f'csg_decide_seconds_bucket{{{worker},le="+Inf"}} {self._count}',
                f"csg_decide_seconds_sum{{{worker}}} {self._seconds:.6f}",
                f"csg_decide_seconds_count{{{worker}}} {self._count}",
                "# TYPE csg_policy_loaded_timestamp_seconds gauge",
                f"csg_policy_loaded_timestamp_seconds{{{worker}}} {loaded:.3f}",
                "# TYPE csg_policy_reloads_total counter",
                f"csg_policy_reloads_total{{{worker}}} {reloads}",
            ]
        return "\n".join(lines) + "\n"
