"""Where the CPU time of a process goes, by a clock at a few doors.

Every thread's own CPU time is read when it enters and leaves HiGHS, a descent of torch or
scikit-learn's forests; what is entered from within another counts there alone. The rest of
the process's CPU time is ours and the libraries' that we call besides. This is not a
profiler: nothing else is slowed down, and a door costs less than a microsecond.
"""

import threading
import time
from collections import Counter

import highspy

from pyomo_csg.learn import trainer
from pyomo_csg.learn.selection import folds, registry
from pyomo_csg.solve.oracle import Oracle

_OTHER_CALLS = (
    "passModel",
    "changeRowsBounds",
    "changeColsBounds",
    "changeColsCost",
    "setBasis",
    "getBasis",
    "getSolution",
    "getBasicVariables",
    "getBasisInverseRow",
    "getInfoValue",
)
RUN, CALLS, TORCH, FORESTS, OURS = (
    "HiGHS, run()",
    "HiGHS, other calls",
    "torch, descents",
    "scikit-learn, forests",
    "ours and the rest",
)


class Clock:
    """Keeps the CPU seconds of a ``with`` block by where they were spent.

    Attributes
    ----------
    seconds : dict of str to float
    total : float
        Of all threads.
    """

    def __init__(self):
        self.seconds, self.total = {}, 0.0
        self._own = threading.local()
        self._tallies, self._kept = [], []

    def __enter__(self):
        self._door(highspy.Highs, "run", RUN)
        for name in _OTHER_CALLS:
            self._door(highspy.Highs, name, CALLS)
        self._door(trainer, "_descend", TORCH)
        self._door(Oracle, "_run", OURS)
        for module in (folds, registry):
            self._door(module, "forest_weights", FORESTS)
        self._start = time.process_time()
        return self

    def __exit__(self, *exception):
        self.total = time.process_time() - self._start
        for owner, name, function in reversed(self._kept):
            setattr(owner, name, function)
        named = {
            where: sum(tally[where] for tally in self._tallies)
            for where in (RUN, CALLS, TORCH, FORESTS)
        }
        self.seconds = {**named, OURS: self.total - sum(named.values())}

    def _door(self, owner, name, where):
        """Let a function's own CPU time count for a place."""
        function = getattr(owner, name)

        def timed(*arguments, **options):
            tally, outer = self._tally(), self._own.inner
            self._own.inner = 0.0
            start = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                spent = time.thread_time() - start
                tally[where] += spent - self._own.inner
                self._own.inner = outer + spent

        setattr(owner, name, timed)
        self._kept.append((owner, name, function))

    def _tally(self):
        """Return the seconds of this thread."""
        if not hasattr(self._own, "tally"):
            self._own.tally, self._own.inner = Counter(), 0.0
            self._tallies.append(self._own.tally)
        return self._own.tally
