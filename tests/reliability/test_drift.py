"""Many labels in one process: memory stays, and so do the bits, in any order."""

import sys

import numpy as np
import pytest

import pyomo_csg as csg
from models import cep1, newsvendor
from tests.quick import portfolio
from tests.reliability.loss_batches import SIZE, labels, run
from tests.solve.test_faults import no_complete_recourse
from tests.solve.test_oracle import batch


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's account of memory")
@pytest.mark.parametrize("fresh", [False, True])
def test_labels_take_no_more_memory_after_a_thousand(fresh):
    _, _, resident = run(csg.Oracle(cep1.build()), range(4), fresh=fresh)

    assert resident[-1] < 1.01 * resident[1]


def test_fresh_labels_have_the_same_bits_in_any_order():
    oracle = csg.Oracle(cep1.build())
    found, _, _ = run(oracle, range(3), fresh=True)
    other, _, _ = run(oracle, [2, 0, 1], shuffled=True, fresh=True)
    parts = labels(csg.Oracle(cep1.build(), workers=2), 1, fresh=True)

    for number, losses in found.items():
        assert losses.tobytes() == other[number].tobytes()
    assert parts.tobytes() == found[1].tobytes()


@pytest.mark.parametrize("build", [newsvendor.build, portfolio])
def test_every_fresh_answer_has_the_same_bits_in_any_order(build):
    zetas, omegas = batch(build(), count=40)
    zetas, omegas = (np.concatenate([array, array[:7]]) for array in (zetas, omegas))
    oracle, order = csg.Oracle(build()), np.random.default_rng(0).permutation(47)

    def answers(rows):
        how = {"fresh": True, "progress": False}
        solution = oracle.solve(zetas[rows], **how)
        slopes = oracle.loss_gradient(zetas[rows], omegas[rows], **how)
        costs = oracle.cost(solution.decision, omegas[rows], **how)
        return solution.decision, solution.value, slopes.loss, slopes.gradient, costs

    for one, other in zip(answers(np.arange(47)), answers(order), strict=True):
        assert one[order].tobytes() == other.tobytes()
        assert one[:7].tobytes() == one[40:].tobytes()


def test_failures_of_a_fresh_batch_are_of_the_cases_as_they_came():
    demand = np.full((40, 1, 1), 5.0)
    demand[[7, 23, 39]] = 99.0
    oracle = csg.Oracle(no_complete_recourse())
    solution = oracle.solve(demand, on_error="record", fresh=True)

    assert [failure.case for failure in oracle.failures] == [7, 23, 39]
    assert np.flatnonzero(np.isnan(solution.value)).tolist() == [7, 23, 39]
    assert oracle.stats.solves < 40  # those that are equal are solved once


def test_warm_labels_agree_in_any_order():
    oracle, order = csg.Oracle(cep1.build()), np.random.default_rng(0).permutation(SIZE)

    assert labels(oracle, 0, order) == pytest.approx(labels(oracle, 0), rel=1e-11)
