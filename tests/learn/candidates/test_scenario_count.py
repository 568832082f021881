"""The number of scenarios, chosen among fits with made-up losses."""

import numpy as np
import pytest

from pyomo_csg.learn.candidates import scenario_count
from pyomo_csg.learn.candidates.scenario_count import smallest_scenario_count
from pyomo_csg.learn.fit_result import MethodResult, Selection
from pyomo_csg.learn.progress import TrainingLog
from tests.learn.selection.test_hyperparameter_search import found, time_is_up

NAN = float("nan")


class Clock:
    """Continues only after a signal."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    mine = Clock()
    monkeypatch.setattr(scenario_count.time, "perf_counter", mine)
    return mine


def of_counts(table, seconds=None, clock=None, durations=None):
    """Return the K taken of a table of losses by K, and which were tried."""
    tried, fits = [], {}

    def fit(count):
        tried.append(count)
        fits[count] = found(table[count])
        return fits[count]

    def decide(fitted):
        clock.now += durations.get(tried[-1], 0.0)

    fitted = smallest_scenario_count(list(table), seconds, TrainingLog(), fit, decide)
    (count,) = (k for k, one in fits.items() if one is fitted)
    return count, fitted, tried


def test_the_smallest_within_one_standard_error_of_the_best_is_taken():
    # Apart from K = 5 by 1 +- 0, 1 +- 0.64, 0.6 +- 0.28 and 0.
    table = {1: [3.0, 3.0], 2: [3.9, 2.1], 3: [3.0, 2.2], 5: [2.0, 2.0]}

    count, fitted, tried = of_counts(table)

    assert tried == [1, 2, 3, 5]
    assert count == 5
    # Apart by 0.55 +- 0.74.
    assert of_counts({1: [5.0, 1.0, 2.1, 2.1], 5: [2.0] * 4})[0] == 1
    assert fitted.selection.scenarios_tried[1] == {
        "K": 2,
        "loss": pytest.approx(3.0),
        "standard_error": pytest.approx(0.9 / np.sqrt(2)),
    }


def test_the_best_itself_is_taken_where_nothing_smaller_is_near():
    count, fitted, _ = of_counts({1: [9.0, 9.0], 2: [1.0, 2.0], 3: [5.0, 5.0]})
    assert count == 2
    assert fitted.holdout_losses().tolist() == [1.0, 2.0]


def test_no_decision_counts_as_the_worst():
    assert of_counts({1: [NAN, 0.0], 2: [1.0, 1.0], 3: [8.0, 8.0]})[0] == 2
    assert of_counts({1: [NAN, NAN], 2: [NAN, NAN]})[0] == 1


def test_larger_numbers_are_not_tried_once_decisions_take_too_long(clock):
    table = {1: [9.0, 9.0], 2: [5.0, 5.0], 3: [1.0, 1.0], 5: [0.0, 0.0]}

    count, _, tried = of_counts(table, 0.01, clock, {2: 0.005, 3: 0.02, 5: 0.02})

    assert tried == [1, 2, 3]
    assert count == 2


def test_even_the_smallest_number_may_take_too_long(clock, caplog):
    count, _, tried = of_counts({1: [9.0], 2: [5.0]}, 0.001, clock, {1: 0.002})

    assert (count, tried) == (1, [1])
    assert "even a decision with K = 1 takes more than 0.001 s" in caplog.text


def test_a_count_whose_costs_take_too_long_is_left_out():
    fits = {
        1: found([3.0, 3.0]),
        2: MethodResult(None, Selection("mmd"), time_is_up),
        3: found([0.0, 0.0]),
    }
    for counts, expected in (([1, 2, 3], 1), ([2, 3], 2)):
        best = smallest_scenario_count(
            counts, None, TrainingLog(), fits.__getitem__, lambda fitted: None
        )
        assert best is fits[expected]
