"""Where the CPU time of a process goes, by a clock at a few doors.

Every thread's own CPU time is read when it enters and leaves HiGHS, a training in torch or
scikit-learn's forests; what is entered from within another counts there alone. The rest of
the process's CPU time is ours and the libraries' that we call besides. This is not a
profiler: nothing else is slowed down, and a door costs less than a microsecond.
"""

import sys
import threading
import time
from collections import Counter

import highspy

from pyomo_csg.learn.distributions.samplers import Forest
from pyomo_csg.learn.trainer import train_ensemble
from pyomo_csg.solve.batch import Batch

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
    "torch, training",
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
        self._door(Batch, "run", OURS)
        self._doors(train_ensemble, TORCH)
        for name in ("__init__", "weights"):
            self._door(Forest, name, FORESTS)
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

    def _doors(self, function, where):
        """Do as :meth:`_door` in every module that has imported a function by name."""
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("pyomo_csg"):
                for name in [
                    n for n, known in vars(module).items() if known is function
                ]:
                    self._door(module, name, where)

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
