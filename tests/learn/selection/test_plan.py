"""A plan's counts fit into the time, for given times of programs."""

from dataclasses import replace

import numpy as np
import pyomo.environ as pyo
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.config import FitConfig
from pyomo_csg.learn.progress import TrainingLog
from pyomo_csg.learn.selection import plan as module
from pyomo_csg.learn.selection.plan import (
    Plan,
    ProgramTimes,
    make_plan,
    measure_programs,
    steps_and_batch,
)
from pyomo_csg.learn.tables.history import History
from pyomo_csg.learn.task import Task
from tests.learn.candidates.test_auto import cost_only, opened
from tests.zoo import scenarios

FAST = ProgramTimes(1e-4, 1e-6, 1e-4, 0.0)


def task_on(n=400, model=None, **config):
    model = model or newsvendor.build()
    rng = np.random.default_rng(0)
    history = History(rng.normal(size=(n, 2)), scenarios(model, n))
    return Task(csg.Oracle(model), history, 3, FitConfig(**config), 0, TrainingLog())


@pytest.fixture(scope="module")
def task():
    return task_on()


def training_seconds(plan, times):
    """Return what training all candidates on all folds would take."""
    each = times.gradient + plan.draws * times.cost
    return module._TRAINED * (plan.folds + 1) * plan.programs * each


@pytest.mark.parametrize("seconds", [1.0, 10.0, 60.0, 600.0, 86_400.0])
@pytest.mark.parametrize("solve", [1e-4, 1e-2, 0.3, 5.0, 100.0])
@pytest.mark.parametrize("cost", [1e-6, 1e-2, 1.0])
def test_training_fits_into_the_time(task, seconds, solve, cost):
    times = ProgramTimes(solve, cost, 2 * solve, 0.0)

    plan = make_plan(task, times, seconds)

    assert training_seconds(plan, times) <= seconds
    scoring = len(plan.kinds) * plan.scored_rows * (solve + cost)
    # A few rows are always scored, however slow the programs are.
    assert scoring <= seconds or plan.scored_rows <= 24
    assert 1 <= plan.folds <= 5 and 1 <= plan.scored_rows <= 400
    assert plan.draws >= 2
    assert plan.seconds == seconds


@pytest.mark.parametrize("solve", [1e-3, 0.1, 2.0])
def test_integer_programs_fit_into_the_time_too(solve):
    task = task_on(100, opened())
    times = ProgramTimes(solve, 1e-4, solve, 0.0)

    plan = make_plan(task, times, 300.0)

    spent = plan.integer_programs * (solve + plan.draws * times.cost)
    assert spent * (plan.folds + 1) <= 0.1 * 300 + 1e-9
    assert make_plan(task_on(100), times, 300.0).integer_programs == 0


def test_labels_fit_into_the_time_and_skip_a_slow_search():
    task = task_on(200, cost_only())
    for times, kind in (
        (ProgramTimes(0.1, 0.01, None, 0.05), "optimistic"),
        (ProgramTimes(0.1, 0.01, None, 7.0), "recourse"),
    ):
        plan = make_plan(task, times, 600.0)
        assert plan.loss_kind == kind
        assert not plan.has_gradient and plan.programs == 0
        search = times.search if kind == "optimistic" else 0.0
        label = times.solve + times.cost + search
        assert 0 < plan.labels * label * (plan.folds + 1) <= 600.0
    slow = make_plan(task, ProgramTimes(20.0, 1.0, None, 0.0), 60.0)
    assert slow.labels == 0 and "more time would allow them" in str(slow)


def test_labels_skip_a_search_that_changes_none():
    task = task_on(200, cost_only())
    times = ProgramTimes(0.1, 0.01, None, 0.05, search_matters=False)
    assert make_plan(task, times, 600.0).loss_kind == "recourse"


def test_a_sample_says_whether_the_search_changes_labels():
    task = task_on(20, either())
    equal, apart = np.ones((8, 1, 2)), np.tile([[1.0, 2.0], [2.0, 1.0]], (4, 1))
    assert module._search_changes_labels(task, equal, apart)
    assert not module._search_changes_labels(task, apart[:, None], apart)


def either():
    """Return a model that buys at one of two prices, decided before they are known."""
    m = pyo.ConcreteModel("either")
    m.price = pyo.Param([1, 2], mutable=True, initialize=1.0)
    m.pick = pyo.Var(within=pyo.Binary)
    m.bought = pyo.Var([1, 2], bounds=(0, 1))
    m.first = pyo.Constraint(expr=m.bought[1] == m.pick)
    m.second = pyo.Constraint(expr=m.bought[2] == 1 - m.pick)
    m.cost = pyo.Objective(expr=sum(m.price[i] * m.bought[i] for i in (1, 2)))
    csg.annotate(m, first_stage_variables=m.pick, uncertain_params=m.price)
    return m


def test_slow_programs_score_all_that_needs_no_training_on_few_rows(task):
    times = ProgramTimes(2.0, 0.02, 0.1, 0.0)
    plan = make_plan(task, times, 100.0)
    assert plan.kinds == module.SOME_KINDS
    assert module._LEAST_SCORED <= plan.scored_rows < module._FEW_SCORED
    untrained = (len(plan.kinds) + 1) * plan.scored_rows * (times.solve + times.cost)
    assert untrained <= 100.0


def test_a_gap_in_training_is_planned_where_it_pays():
    task = task_on(40, opened())
    slow = ProgramTimes(0.1, 1e-4, 0.1, 0.0, gap_pays=True)
    plan = make_plan(task, slow, 600.0)
    assert plan.training_gap == module.TRAINING_GAP and "a gap of 0.5%" in str(plan)
    assert Plan.restore(plan.summary()) == plan
    without = {k: v for k, v in plan.summary().items() if k != "training_gap"}
    assert Plan.restore(without).training_gap == 0.0  # plans of earlier versions
    assert make_plan(task, replace(slow, gap_pays=False), 600.0).training_gap == 0.0


@pytest.mark.parametrize(("seconds", "pays"), [((0.1, 1.0), True), ((1.0, 1.1), False)])
def test_a_gap_pays_if_programs_are_clearly_faster(monkeypatch, seconds, pays):
    task = task_on(40, opened())
    now, solve = 0.0, task.solve

    def slowly(scenarios, *arguments, mip_gap=None, **options):
        nonlocal now
        now += seconds[0] if mip_gap else seconds[1]
        return solve(scenarios, *arguments, mip_gap=mip_gap, **options)

    monkeypatch.setattr(task, "solve", slowly)
    monkeypatch.setattr(module.time, "process_time", lambda: now)
    outcomes = task.history.outcomes
    assert module._gap_pays(task, outcomes[:8, None], outcomes[8:16]) == pays


def test_more_time_never_means_less(task):
    for solve in (1e-4, 1e-2, 1.0):
        times = ProgramTimes(solve, solve / 10, solve, 0.0)
        plans = [make_plan(task, times, 4.0**i) for i in range(8)]
        for name in ("scored_rows", "programs", "labels"):
            counts = [getattr(plan, name) for plan in plans]
            if name != "scored_rows":  # fewer kinds leave more time for each
                assert counts == sorted(counts), name


def test_a_busy_machine_trains_as_much_where_the_budget_allows(task):
    idle = make_plan(task, ProgramTimes(1e-3, 1e-4, 1e-3, 0.0), 600.0)
    busy = make_plan(task, ProgramTimes(3e-3, 3e-4, 3e-3, 0.0, 1 / 3), 600.0)
    for count in ("programs", "folds", "scored_rows", "sets", "compared", "kinds"):
        assert getattr(busy, count) == getattr(idle, count), count


def test_programs_that_are_slower_mean_fewer_folds(task):
    folds = [
        make_plan(task, ProgramTimes(t, t, t, 0.0), 600.0).folds
        for t in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0)
    ]
    assert folds[0] == 5 and folds[-1] == 1
    assert folds == sorted(folds, reverse=True)
    assert make_plan(task_on(folds=4), FAST, 600.0).folds == 4  # as the user asked for


def test_training_that_is_too_short_to_help_is_left_out(task):
    plan = make_plan(task, ProgramTimes(50.0, 1.0, 50.0, 0.0), 600.0)
    assert plan.programs == 0 and plan.kinds == module.SOME_KINDS
    assert "Training on decision costs takes too long" in str(plan)


def test_no_limit_is_as_the_default(task):
    unlimited = make_plan(task, FAST, None)
    assert unlimited == replace(
        make_plan(task, FAST, module.DEFAULT_SECONDS), seconds=None
    )
    assert "within" not in str(unlimited)


def test_a_program_that_takes_longer_than_all_the_time_leaves_the_least(task):
    plan = make_plan(task, ProgramTimes.unknown(5.0), 5.0)
    assert (plan.programs, plan.labels, plan.folds, plan.draws) == (0, 0, 1, 2)
    assert not plan.rehearses


def test_a_plan_says_what_it_plans(task):
    plan = make_plan(task, FAST, 60.0)
    said = str(plan)
    assert "One program with 3 scenarios takes 0.0001 s." in said
    assert (
        f"Planned within 60 s: every candidate is scored on {plan.scored_rows}" in said
    )
    assert f"solves {plan.programs} programs per candidate" in said


def test_a_plan_comes_back_from_its_summary(task):
    plan = make_plan(task, FAST, 60.0)
    assert Plan.restore(plan.summary()) == plan
    assert plan.for_scenarios(7) == replace(plan, scenarios=7)


def test_all_kinds_of_programs_are_measured(monkeypatch):
    monkeypatch.setattr(module, "_MEASURING", 0.01)
    linear = measure_programs(task_on(20))
    assert linear.solve > 0 and linear.cost > 0
    assert linear.gradient is not None and linear.gradient > 0
    assert linear.search == 0.0
    assert measure_programs(task_on(20, cost_only())).gradient is None
    assert measure_programs(task_on(20, opened())).search >= 0.0


@pytest.mark.parametrize("programs", [1, 39, 40, 799, 6000])
@pytest.mark.parametrize("most", [1, 20, 50])
def test_steps_and_batches_make_up_the_programs(programs, most):
    steps, batch = steps_and_batch(programs, most)
    assert programs <= steps * batch < programs + batch
    assert 1 <= batch <= most
    assert steps >= min(programs, 40)
