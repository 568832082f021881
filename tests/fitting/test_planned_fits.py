"""Fits by a plan: repeated to the bit, refused if they cannot be, ended in time."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn import progress
from pyomo_csg.learn.selection import plan as module
from pyomo_csg.learn.selection.plan import Plan, ProgramTimes
from pyomo_csg.learn.selection.scoring import Scoreboard
from pyomo_csg.solve import Oracle
from tests.quick import QUICK, fit, ignore_deadlines, portfolio
from tests.quick import panels as some_panels


@pytest.fixture(scope="module")
def plan(pairs):
    found = csg.plan(newsvendor.build(), pairs, scenarios=2, config=QUICK)
    return replace(
        found,
        folds=2,
        programs=8,
        draws=2,
        sets=8,
        compared=4,
        kinds=("empirical", "ridge"),
    )


def same(one, other, contexts):
    """Whether two policies have the same scenarios and weights to the bit."""
    return all(
        np.array_equal(getattr(one, name)(contexts), getattr(other, name)(contexts))
        for name in ("scenarios", "weights")
    )


def test_a_plan_repeats_a_policy_to_the_bit(pairs, plan, monkeypatch):
    one = fit(pairs, plan=plan)

    # As on a machine where programs take a thousand times as long.
    monkeypatch.setattr(module, "_seconds_each", lambda run: 0.1)
    elsewhere = Plan.restore(json.loads(json.dumps(plan.summary())))
    again = fit(pairs, plan=elsewhere)

    assert one.plan == again.plan == plan
    assert one.report() == again.report()
    assert same(one, again, pairs[0])


def test_a_policy_has_the_plan_that_repeats_it(pairs, tmp_path):
    policy = fit(pairs)
    policy.save(tmp_path / "policy.csg")
    loaded = csg.load(tmp_path / "policy.csg", newsvendor.build())

    again = fit(pairs, plan=loaded.plan)

    assert policy.plan == loaded.plan == again.plan
    assert same(policy, again, pairs[0])
    assert fit(pairs, method="mmd").plan is None


def test_a_plan_is_followed(pairs, plan):
    policy = fit(pairs, plan=replace(plan, scored_rows=24, programs=0))

    summary = policy.learned.summary
    names = {row["name"] for row in summary["candidates"]}
    assert names == {"sample average", "ridge residuals", "mmd"}
    assert summary["pairs_scored"] == 24
    assert policy.plan.programs == 0


def test_the_scenarios_of_a_plan_may_be_chosen(pairs, plan, monkeypatch):
    monkeypatch.setattr("pyomo_csg.policy.fit_run.COUNTS", (1, 3))
    policy = fit(pairs, scenarios="auto", plan=replace(plan, programs=0))
    assert policy.count in (1, 3)
    assert policy.plan.scenarios == policy.count
    assert [row["K"] for row in policy.learned.summary["scenarios_tried"]] == [1, 3]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"method": "mmd"}, "a plan is for method='auto', but method is 'mmd'"),
        ({"scenarios": 3}, "the plan is for 2 scenarios, but scenarios is 3"),
        ({"plan": {"folds": 2}}, "plan is a dict; give what csg.plan returned"),
    ],
)
def test_a_plan_that_does_not_belong_to_the_fit_is_refused(pairs, plan, options, found):
    with pytest.raises(csg.DataError, match=found):
        fit(pairs, **{"plan": plan, **options})


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"scenarios": 41}, "the history has 40 rows"),
        ({"scenarios": "auto"}, "scenarios is 'auto'; give the number to plan for"),
        ({"scenarios": 0}, "give a whole number"),
        ({"seconds": -1.0}, "seconds is -1.0"),
    ],
)
def test_what_cannot_be_planned_is_refused(pairs, options, found):
    with pytest.raises(csg.DataError, match=found):
        csg.plan(newsvendor.build(), pairs, **options)


@pytest.mark.parametrize("changed", [{"programs": 12}, {"scored_rows": 20}])
def test_a_checkpoint_belongs_to_one_plan(pairs, plan, changed, tmp_path):
    first = fit(pairs, plan=plan, checkpoint=tmp_path)
    assert same(fit(pairs, plan=plan, checkpoint=tmp_path), first, pairs[0])
    with pytest.raises(csg.DataError, match="belongs to another fit"):
        fit(pairs, plan=replace(plan, **changed), checkpoint=tmp_path)


def test_a_checkpoint_keeps_the_measured_plan(pairs, tmp_path, monkeypatch):
    first = fit(pairs, checkpoint=tmp_path)
    monkeypatch.setattr(module, "_seconds_each", lambda run: 0.1)
    again = fit(pairs, checkpoint=tmp_path)
    assert again.plan == first.plan
    assert same(first, again, pairs[0])


class Ticking:
    """A clock on which every program takes a second, and nothing else takes time."""

    def __init__(self, monkeypatch):
        self.now, self._depth = 0.0, 0
        for name in ("solve", "cost", "loss", "loss_gradient"):
            monkeypatch.setattr(Oracle, name, self._counted(getattr(Oracle, name)))
        monkeypatch.setattr(progress, "clock", lambda: self.now)
        times = ProgramTimes(1.0, 1.0, 1.0, 0.0)
        monkeypatch.setattr(
            "pyomo_csg.policy.fit_run.measure_programs", lambda task: times
        )

    def _counted(self, call):
        def counted(oracle, first, *args, deadline=None, **options):
            # The oracle's own clock is not this one.
            self._depth += 1
            try:
                found = call(oracle, first, *args, **options)
            finally:
                self._depth -= 1
            if not self._depth:
                # As the oracle does at its deadline: what is left is not solved.
                left = np.inf if deadline is None else deadline - self.now
                self.now += min(len(first) if first.ndim > 1 else 1, left + 1)
            return found

        return counted


@pytest.mark.parametrize("seconds", [1.0, 30.0, 300.0, 3000.0])
def test_a_fit_ends_within_its_time_and_one_program(pairs, seconds, monkeypatch):
    clock = Ticking(monkeypatch)

    policy = fit(pairs, seconds=seconds)

    assert clock.now <= seconds + 1
    assert np.isfinite(policy.scenarios(pairs[0])).all()
    if seconds == 1.0:
        assert "cut_short" in policy.learned.summary


@pytest.mark.parametrize(
    "options", [{}, {"scenarios": "auto"}, {"config": {**vars(QUICK), "search": 2}}]
)
def test_time_that_is_up_at_once_leaves_the_sample_average(pairs, options, monkeypatch):
    monkeypatch.setattr(progress, "clock", itertools.count().__next__)
    ignore_deadlines(monkeypatch.setattr)

    policy = fit(pairs, seconds=0.5, **options)

    assert policy.learned.summary["chosen"] == "sample average"
    assert "cut_short" in policy.learned.summary
    centers = np.sort(policy.scenarios(pairs[0][0])[:, 0])
    assert centers.mean() == pytest.approx(pairs[1].mean(), rel=0.5)
    weights = policy.weights(pairs[0][0])
    means = weights @ policy.scenarios(pairs[0][0])
    assert means == pytest.approx(pairs[1].mean(axis=0))
    assert policy.decide(pairs[0][0]).status == "optimal"


def test_panels_have_a_policy_too_when_time_is_up_at_once(monkeypatch):
    monkeypatch.setattr(progress, "clock", itertools.count().__next__)
    ignore_deadlines(monkeypatch.setattr)
    data = some_panels(12)
    policy = fit(data, portfolio(), seconds=0.5)
    assert np.isfinite(policy.decide(data[0][0]).value)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_ctrl_c_leaves_the_best_policy_so_far(pairs, plan, after, monkeypatch):
    add, added = Scoreboard.add, []

    def interrupted(board, candidate):
        add(board, candidate)
        added.append(candidate.name)
        if len(added) == after:
            raise KeyboardInterrupt

    monkeypatch.setattr(Scoreboard, "add", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        fit(pairs, plan=plan)

    best = stopped.value.best
    assert isinstance(best, csg.Policy)
    rows = best.learned.summary["candidates"]
    assert {row["name"] for row in rows} == set(added)
    assert best.learned.summary["chosen"] in added
    assert best.decide(pairs[0][0]).status == "optimal"
    assert best.report()


def test_ctrl_c_before_the_first_candidate_leaves_none(pairs, plan, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Scoreboard, "add", interrupt)
    with pytest.raises(KeyboardInterrupt) as stopped:
        fit(pairs, plan=plan)
    assert not hasattr(stopped.value, "best")
