"""Rows that are added to small histories: where they are, and which fold sees them."""

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import mnv
from pyomo_csg.learn.candidates.copula_forest import augment, interpolate_contexts
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection.folds import make_folds
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task


@pytest.fixture(scope="module")
def task():
    history = History(*mnv.sample(40, 1))
    return Task(csg.Oracle(mnv.build()), history, 2, FitConfig(), 0, TrainingLog())


@pytest.fixture(scope="module")
def found(task):
    return augment(task, make_folds(task, 1).rows)


def test_contexts_lie_between_one_and_a_near_one():
    contexts = np.array([[0.0, 0.0], [1.0, 1.0], [100.0, 0.0], [101.0, 1.0]])
    found = interpolate_contexts(contexts, 200, np.random.default_rng(0))

    assert found.shape == (200, 2)
    # With three others, each is near: all lines between two of them.
    on_a_line = [
        any(
            np.allclose(a + t * (b - a), x, atol=1e-9)
            for a in contexts
            for b in contexts
            for t in [np.dot(x - a, b - a) / max(np.dot(b - a, b - a), 1e-12)]
        )
        for x in found
    ]
    assert all(on_a_line)
    assert (found >= contexts.min(axis=0)).all() and (found <= contexts.max(0)).all()


def test_far_contexts_are_not_joined():
    rng = np.random.default_rng(0)
    groups = np.concatenate([rng.normal(size=(20, 2)), 1e3 + rng.normal(size=(20, 2))])
    found = interpolate_contexts(groups, 300, rng)
    assert ((found < 10).all(axis=1) | (found > 990).all(axis=1)).all()


@pytest.mark.parametrize(("n", "count"), [(1, 5), (6, 0)])
def test_none_where_none_are_wanted_or_there_is_no_other(n, count):
    assert interpolate_contexts(
        np.ones((n, 2)), count, np.random.default_rng(0)
    ).shape == (0, 2)


def test_four_are_added_for_each_that_happened(task, found):
    larger, rows, _ = found
    assert [len(mine) for mine in rows] == [5 * 32, 5 * 40]
    assert len(larger.history) == 40 + 4 * 32 + 4 * 40


def test_with_many_pairs_none_are_added(task, monkeypatch):
    monkeypatch.setattr("pyomo_csg.learn.candidates.copula_forest._ENOUGH", 40)
    larger, rows, _ = augment(task, make_folds(task, 1).rows)
    assert len(larger.history) == 40 + 8  # the part that holds out eight
    assert rows[-1].tolist() == list(range(40))


def test_the_history_comes_first_in_the_same_units(task, found):
    larger, *_ = found
    assert (larger.history.contexts[:40] == task.history.contexts).all()
    assert (larger.history.outcomes[:40] == task.history.outcomes).all()
    assert (larger.contexts[:40] == task.contexts).all()
    assert larger.omega is task.omega and larger.kernel_unit is task.kernel_unit
    assert len(task.history) == 40
    standardized = (larger.history.contexts - task.center) / task.spread
    assert larger.contexts.numpy() == pytest.approx(standardized)
    assert (larger.outcomes.numpy() == larger.history.outcomes).all()


def test_a_part_learns_nothing_of_what_it_holds_out(task):
    """Other held-out pairs leave its rows and its law as they were."""
    folds = make_folds(task, 1)
    contexts, outcomes = (
        array.copy() for array in (task.history.contexts, task.history.outcomes)
    )
    held = folds.held_out[0]
    contexts[held] += 7.0
    outcomes[held] += 7.0
    other = Task(
        task.oracle, History(contexts, outcomes), 2, FitConfig(), 0, TrainingLog()
    )

    pair = [augment(one, folds.rows) for one in (task, other)]

    (rows, *_), laws = pair[0][1], [laws[0] for _, _, laws in pair]
    mine = [one.history.contexts[rows] for one, _, _ in pair]
    assert mine[0] == pytest.approx(mine[1])
    drawn = [law.draw(rows[:9], 30, np.random.default_rng(0)) for law in laws]
    assert (drawn[0] == drawn[1]).all()
    assert not np.isin(rows, held).any()


def test_outcomes_that_are_added_are_in_the_params_domains(found):
    larger, *_ = found
    assert (larger.history.outcomes >= 0).all()
    assert np.isin(larger.history.outcomes[:, 0], larger.history.outcomes[:40, 0]).all()


def test_added_rows_have_known_numbers_that_their_params_can_have():
    m = mnv.build()
    m.trucks = pyo.Param(mutable=True, initialize=3, within=pyo.NonNegativeIntegers)
    m.stock = pyo.Param(mutable=True, initialize=1.0, within=pyo.NonNegativeReals)
    two_stage = csg.TwoStageModel(m)
    first = two_stage.first_stage_variables
    m.haul = pyo.Constraint(expr=first[0] <= 1000 * m.trucks + m.stock)
    csg.annotate(
        m,
        first_stage_variables=first,
        uncertain_params=two_stage.uncertain_params,
        known_params=[m.trucks, m.stock],
    )
    rng = np.random.default_rng(1)
    known = np.column_stack([rng.choice([2.0, 5.0, 9.0], 40), rng.uniform(0, 3, 40)])
    history = History(*mnv.sample(40, 1), known=known)
    task = Task(csg.Oracle(m), history, 2, FitConfig(), 0, TrainingLog())
    larger, _, _ = augment(task, make_folds(task, 1).rows)
    found = larger.history.known
    assert len(found) == len(larger.history) > 40
    np.testing.assert_array_equal(found[:40], known)
    assert {*found[:, 0]} == {2.0, 5.0, 9.0}
    assert known[:, 1].min() <= found[:, 1].min() <= found[:, 1].max() <= 3
    assert len(np.unique(found[:, 1])) > 40
