"""Every row is held out once, by a fold that has not seen it."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection.folds import holdout_folds, make_folds
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task


def task_of(n, panels=False, model=None, seed=0, again=None, **settings):
    """Return a task whose rows all differ, or are some of such rows by their numbers."""
    oracle = csg.Oracle(model or newsvendor.build())
    rng = np.random.default_rng(1)
    contexts = rng.normal(size=(n, 3, 2) if panels else (n, 2))
    outcomes = rng.uniform(1, 2, (n, len(oracle.two_stage.uncertain_params)))
    given = slice(None) if again is None else again
    history = History(contexts[given], outcomes[given])
    return Task(oracle, history, 1, FitConfig(**settings), seed, TrainingLog())


def sides_of(folds, of):
    """Yield what is learned from and what is held out, by the numbers of rows."""
    for rows, held in zip(folds.rows[:-1], folds.held_out[:-1], strict=True):
        yield set(np.asarray(of)[rows]), set(np.asarray(of)[held])


@pytest.mark.parametrize(("n", "parts"), [(2, 2), (3, 3), (5, 5), (23, 5), (100, 5)])
def test_every_row_is_held_out_once_and_the_last_part_has_all(n, parts):
    folds = make_folds(task_of(n), 5)

    assert len(folds) == parts + 1
    assert sorted(np.concatenate(folds.held_out)) == list(range(n))
    for rows, held in zip(folds.rows[:-1], folds.held_out[:-1], strict=True):
        assert sorted([*rows, *held]) == list(range(n))
        assert len(rows)
    assert folds.rows[-1].tolist() == list(range(n))
    assert not len(folds.held_out[-1])


@pytest.mark.parametrize("n", [2, 4, 50])
@pytest.mark.parametrize("panels", [True, False])
def test_a_single_fold_holds_out_the_last_fifth_once(n, panels):
    folds = make_folds(task_of(n, panels), 1)

    assert len(folds) == 2
    held = folds.held_out[0]
    assert held.tolist() == list(range(n - len(held), n))
    assert len(held) == max(1, round(n / 5))
    assert folds.rows[0].tolist() == list(range(n - len(held)))


@pytest.mark.parametrize("panels", [True, False])
def test_panels_and_vectors_have_as_many_parts_as_are_asked_for(panels):
    folds = make_folds(task_of(50, panels), 3)

    assert len(folds) == 4
    assert sorted(np.concatenate(folds.held_out)) == list(range(50))
    in_time = all((np.diff(held) == 1).all() for held in folds.held_out)
    assert in_time == panels  # windows overlap, rows of vectors do not


def test_rows_are_dealt_out_at_random_by_the_seed():
    one, same, other = (make_folds(task_of(40, seed=seed), 5) for seed in (0, 0, 1))

    assert (
        np.concatenate(one.held_out).tolist() == np.concatenate(same.held_out).tolist()
    )
    assert (
        np.concatenate(one.held_out).tolist() != np.concatenate(other.held_out).tolist()
    )
    assert one.held_out[0].tolist() != list(range(8))


def test_of_a_series_stretches_of_time_are_held_out():
    task = task_of(23, rows="series")

    folds, by_name = make_folds(task, 5), holdout_folds(task)

    assert np.concatenate(folds.held_out).tolist() == list(range(23))
    assert all((np.diff(held) == 1).all() for held in folds.held_out)
    assert by_name.held_out[0].tolist() == list(range(18, 23))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 50])
@pytest.mark.parametrize("panels", [True, False])
def test_methods_by_name_hold_out_a_fifth_however_few_rows_there_are(n, panels):
    folds = holdout_folds(task_of(n, panels))

    rows, held = folds.rows[0], folds.held_out[0]
    assert sorted([*rows, *held]) == list(range(n))
    assert len(rows) >= len(held) == max(1, -(-n // 5))
    assert folds.rows[1].tolist() == list(range(n))
    if panels:
        assert held.tolist() == list(range(n - len(held), n))


TWICE = [*range(30), *range(10), 3, 3]


@pytest.mark.parametrize("count", [1, 5])
def test_rows_that_come_twice_are_on_one_side_and_all_are_held_out_as_before(count):
    task = task_of(30, again=TWICE)

    auto, by_name = make_folds(task, count), holdout_folds(task)

    for learned, held in [*sides_of(auto, TWICE), *sides_of(by_name, TWICE)]:
        assert learned and held and not learned & held
    assert auto.rows[-1].tolist() == list(range(42))
    if count > 1:
        assert sorted(np.concatenate(auto.held_out)) == list(range(42))


def test_folds_of_rows_that_differ_are_those_of_scikit_learn():
    task = task_of(23)
    seed = int(task.rng("folds").integers(2**31))
    parts = KFold(5, shuffle=True, random_state=seed).split(np.arange(23))

    folds = make_folds(task, 5)

    for (rows, held), mine, out in zip(parts, folds.rows, folds.held_out, strict=False):
        assert rows.tolist() == mine.tolist() and held.tolist() == out.tolist()


def test_of_a_series_stretches_are_held_out_whatever_comes_again():
    folds = make_folds(task_of(30, again=TWICE, rows="series"), 5)

    assert np.concatenate(folds.held_out).tolist() == list(range(42))


@pytest.mark.parametrize("n", [2, 3, 12])
def test_a_history_of_one_pair_is_split_all_the_same(n):
    folds = make_folds(task_of(1, again=[0] * n), 5)

    assert sorted(np.concatenate(folds.held_out)) == list(range(n))
    assert all(len(rows) for rows in folds.rows)
