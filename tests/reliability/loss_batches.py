"""Many batches of CEP1 losses in one process: exact bits, memory and CPU time."""

import os
import time
from functools import cache

import numpy as np

import pyomo_csg as csg
from models import cep1
from tests.benchmarks.oracle import pairs

SIZE = 500  # losses per batch


@cache
def pool():
    """Return scenarios (n, 5, p) and outcomes (n, p) to draw batches from."""
    return pairs(cep1, 2000, 5)


def cases(number):
    """Return the scenarios (SIZE, 5, p) and outcomes (SIZE, p) of a batch."""
    rng = np.random.default_rng(number)
    scenarios, outcomes = pool()
    rows = rng.integers(len(scenarios), size=SIZE)
    factors = rng.uniform(0.98, 1.02, scenarios[rows].shape)
    return scenarios[rows] * factors, outcomes[rows]


def labels(oracle, number, order=None, **options):
    """Return the losses (SIZE,) of a batch, computed in a given order of its cases."""
    order = np.arange(SIZE) if order is None else order
    scenarios, outcomes = cases(number)
    losses = np.empty(SIZE)
    losses[order] = oracle.loss(
        scenarios[order], outcomes[order], progress=False, **options
    )
    return losses


def run(oracle, numbers, shuffled=False, **options):
    """Return losses by batch number, CPU seconds and resident bytes."""
    rng = np.random.default_rng(7)
    found, seconds, resident = {}, [], []
    for number in numbers:
        order = rng.permutation(SIZE) if shuffled else None
        start = time.process_time()
        found[number] = labels(oracle, number, order, **options)
        seconds.append(time.process_time() - start)
        resident.append(resident_bytes())
    return found, np.array(seconds), np.array(resident)


@cache
def own_oracle():
    """Return this process's oracle."""
    return csg.Oracle(cep1.build())


def seconds_of(number, options):
    """Return the CPU seconds of a batch on this process's oracle."""
    _, (seconds,), _ = run(own_oracle(), [number], **options)
    return seconds


def resident_bytes():
    """Return the resident memory of this process (Linux)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
