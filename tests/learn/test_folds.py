"""Every row is judged once, by what has not seen it."""

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.folds import folds_of
from pyomo_csg.learn.history import History
from pyomo_csg.learn.methods import Method
from pyomo_csg.learn.progress import Journal
from pyomo_csg.learn.task import Task
from tests.zoo import ZOO


def task_of(n, panels=False, model=None, seed=0, **settings):
    oracle = csg.Oracle(model or newsvendor.build())
    contexts = np.zeros((n, 3, 2) if panels else (n, 2))
    outcomes = np.ones((n, len(oracle.two_stage.uncertain_params)))
    config = FitConfig(**settings)
    return Task(oracle, History(contexts, outcomes), 1, config, seed, Journal())


@pytest.mark.parametrize(("n", "parts"), [(2, 2), (3, 3), (5, 5), (23, 5), (100, 5)])
def test_every_row_is_held_out_once_and_the_last_part_has_all(n, parts):
    folds = folds_of(task_of(n))

    assert len(folds) == parts + 1
    assert sorted(folds.judged) == list(range(n))
    for rows, held in zip(folds.rows[:-1], folds.held_out[:-1], strict=True):
        assert sorted([*rows, *held]) == list(range(n))
        assert len(rows)
    assert folds.rows[-1].tolist() == list(range(n))
    assert not len(folds.held_out[-1])


@pytest.mark.parametrize("n", [2, 4, 50])
@pytest.mark.parametrize("panels", [True, False])
def test_panels_and_integers_hold_out_the_last_fifth_once(n, panels):
    model = None if panels else ZOO["integers"]()

    folds = folds_of(task_of(n, panels, model))

    assert len(folds) == 2
    held = folds.held_out[0]
    assert held.tolist() == list(range(n - len(held), n))
    assert len(held) == max(1, round(n / 5))
    assert folds.rows[0].tolist() == list(range(n - len(held)))


def test_rows_are_dealt_out_at_random_by_the_seed():
    one, same, other = (folds_of(task_of(40, seed=seed)) for seed in (0, 0, 1))

    assert one.judged.tolist() == same.judged.tolist()
    assert one.judged.tolist() != other.judged.tolist()
    assert one.held_out[0].tolist() != list(range(8))


def test_of_a_series_stretches_of_time_are_held_out():
    task = task_of(23, rows="series")

    folds, by_name = folds_of(task), Method(task, "mmd", "auto", "constant")._folds

    assert folds.judged.tolist() == list(range(23))
    assert all((np.diff(held) == 1).all() for held in folds.held_out)
    assert by_name.held_out[0].tolist() == list(range(18, 23))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 50])
@pytest.mark.parametrize("panels", [True, False])
def test_methods_by_name_hold_out_a_fifth_however_few_rows_there_are(n, panels):
    folds = Method(task_of(n, panels), "mmd", "auto", "constant")._folds

    rows, held = folds.rows[0], folds.held_out[0]
    assert sorted([*rows, *held]) == list(range(n))
    assert len(rows) >= len(held) == max(1, -(-n // 5))
    assert folds.rows[1].tolist() == list(range(n))
    if panels:
        assert held.tolist() == list(range(n - len(held), n))
