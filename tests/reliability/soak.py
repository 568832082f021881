"""What takes too long for every change: many kills, many labels. With figures.

Run: python -m tests.reliability.soak [part ...]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks.oracle import heading, row
from tests.reliability.killing import CHUNK, killed_fits
from tests.reliability.labelling import SIZE, run

KILLS = 30
LABELS = 200_000


def kills():
    """Kill fits at random moments; each ends with the policy of one left alone."""
    with tempfile.TemporaryDirectory() as place:
        found = killed_fits(Path(place), KILLS, seed=1)
    heading(
        f"{KILLS} kills of fits at random moments, labels in chunks of {CHUNK}",
        *("fits", "kills", "same policy", "labels a fit", "solved again", "at most"),
    )
    killed, again = (sum(f[key] for f in found) for key in ("kills", "solved again"))
    same = sum(f["same policy"] and f["same files"] for f in found)
    row(len(found), killed, same, found[0]["labels"], again, CHUNK * killed)
    for one in found:
        assert one["same policy"] and one["same files"] and one["left out"] == 0
        assert one["solved again"] <= CHUNK * one["kills"]
    assert killed == KILLS


def drift():
    """Label without end: memory and speed stay, and so do bits in another order."""
    heading(
        f"{LABELS:,} CEP1 labels on 5 scenarios in one process, {SIZE} a batch",
        *("", "MB after a tenth", "MB at the end", "growth"),
        *("CPU ms a label, first tenth", "last tenth", "ratio"),
    )
    batches = range(LABELS // SIZE)
    found = _steady("fresh", batches, fresh=True)
    _steady("warm", batches, fresh=False)
    order = np.random.default_rng(0).permutation(batches)
    again = _steady("fresh, shuffled", order.tolist(), shuffled=True, fresh=True)
    differ = sum(np.count_nonzero(found[b] != again[b]) for b in batches)
    print(f"\nLabels that differ in a bit, batches and cases shuffled: {differ}")
    assert differ == 0


def _steady(name, batches, **options):
    """Print a row of a run, see that it does not drift, and return its losses."""
    found, seconds, resident = run(batches, **options)
    tenth = len(seconds) // 10
    first, last = (
        1e3 * np.median(s) / SIZE for s in (seconds[:tenth], seconds[-tenth:])
    )
    before, after = resident[tenth - 1], resident[-1]
    growth = after / before - 1
    row(
        name,
        *(f"{memory / 1e6:.1f}" for memory in (before, after)),
        f"{growth:.1%}",
        *(f"{time:.3f}" for time in (first, last)),
        f"{last / first:.3f}",
    )
    assert growth < 0.05, "memory grows"
    assert last < 1.1 * first, "it slows down"
    return found


PARTS = {"kills": kills, "drift": drift}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
