"""Labels without end."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

import pyomo_csg as csg
from models import cep1
from tests.benchmarks.oracle import heading, row
from tests.reliability.loss_batches import SIZE, run, seconds_of

LABELS = 200_000


def drift():
    """Label without end: memory and speed stay, and so do bits in another order."""
    heading(
        f"{LABELS:,} CEP1 labels on 5 scenarios in one process, {SIZE} a batch",
        *("", "MB after a tenth", "MB at the end", "growth"),
        *("CPU ms a label, last tenth", "first tenth of a new process", "ratio"),
    )
    batches = np.arange(LABELS // SIZE)
    found = _steady("fresh", batches, fresh=True)
    _steady("warm", batches, fresh=False)
    order = np.random.default_rng(0).permutation(batches)
    again = _steady("fresh, shuffled", order, shuffled=True, fresh=True)
    differ = sum(np.count_nonzero(found[b] != again[b]) for b in batches)
    print(f"\nLabels that differ in a bit, batches and cases shuffled: {differ}")
    assert differ == 0


def _steady(name, batches, **options):
    """Print a row of a run, see that it does not drift, and return its losses.

    The first tenth is that of a new process, batch by batch beside the last tenth: how
    busy the machine is changes from minute to minute.
    """
    oracle, tenth = csg.Oracle(cep1.build()), len(batches) // 10
    found, _, resident = run(oracle, batches[:-tenth], **options)
    before, ours, theirs = resident[tenth - 1], [], []
    with ProcessPoolExecutor(1, get_context("spawn")) as young:
        for number in batches[-tenth:]:
            part, seconds, resident = run(oracle, [number], **options)
            found |= part
            ours.append(seconds[0])
            theirs.append(young.submit(seconds_of, number, options).result())
    growth = resident[-1] / before - 1
    last, first = (1e3 * np.median(seconds) / SIZE for seconds in (ours, theirs))
    row(
        name,
        *(f"{memory / 1e6:.1f}" for memory in (before, resident[-1])),
        f"{growth:.1%}",
        *(f"{time:.3f}" for time in (last, first)),
        f"{last / first:.3f}",
    )
    assert growth < 0.05, "memory grows"
    assert last < 1.1 * first, "it slows down"
    return found
