"""Duplicate rows of a history are grouped."""

import numpy as np
import pytest

from pyomo_csg.learn.selection.folds import duplicate_groups
from pyomo_csg.learn.tables.history import History


def numbers(contexts, outcomes):
    history = History(np.array(contexts, dtype=float), np.array(outcomes, dtype=float))
    return duplicate_groups(history).tolist()


def test_rows_that_differ_have_numbers_in_order():
    assert numbers([[3], [1], [2]], [[5], [5], [5]]) == [0, 1, 2]


def test_copies_have_one_number():
    contexts, outcomes = [[3, 0], [1, 1], [3, -0.0]], [[5], [6], [5]]
    assert numbers(contexts, outcomes) == [0, 1, 0]


@pytest.mark.parametrize("size", [(8, 1), (8, 2, 1)])
def test_equal_draws_after_a_context_that_says_nothing_are_no_copies(size):
    assert numbers(np.zeros(size), [[1], [2]] * 4) == list(range(8))


def test_contexts_that_come_with_other_outcomes_do_not_split_copies_elsewhere():
    contexts, outcomes = [[0], [7], [0], [7], [0]], [[1], [4], [2], [4], [1]]
    assert numbers(contexts, outcomes) == [0, 1, 2, 1, 3]
