"""Time limits of fits and of programs, and Ctrl-C at any moment."""

import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn import progress
from tests.quick import METHODS, QUICK, ignore_deadlines, shorten
from tests.reliability.slow import hard

PAIRS = newsvendor.sample(60, seed=1)
LONG = csg.FitConfig(hidden=(8,), mmd_epochs=100_000, task_epochs=100_000, folds=2)
SCRIPT = """
from tests.reliability.slow import {job}
if __name__ == "__main__":
    {job}()
"""


def fit(method, seconds, config=QUICK, **options):
    options = {"scenarios": 2, "progress": False, "config": config, **options}
    return csg.fit(newsvendor.build(), PAIRS, method=method, seconds=seconds, **options)


@pytest.fixture
def ticking(monkeypatch):
    """Let every look at the clock take a second."""
    monkeypatch.setattr(progress, "clock", itertools.count().__next__)
    ignore_deadlines(monkeypatch.setattr)


def test_a_fit_ends_in_time():
    start = time.monotonic()
    policy = fit("mmd", 0.3, LONG)
    assert time.monotonic() - start < 60  # of what would be hours
    assert policy.learned.summary["cut_short"] == "mmd"


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("method", [one for one in METHODS if one != "auto"])
def test_a_fit_whose_time_is_up_returns_the_best_so_far_and_says_so(method):
    policy = fit(method, 5, LONG)
    assert policy.learned.summary["cut_short"] == "mmd"
    assert policy.learned.summary["chosen"] == "mmd"
    assert "Cut short: the 5 seconds were up in stage 'mmd'" in policy.report()
    assert np.isfinite(policy.scenarios(PAIRS[0])).all()
    assert policy.decide(PAIRS[0][0]).status == "optimal"


@pytest.fixture(scope="module")
def plan():
    found = csg.plan(newsvendor.build(), PAIRS, scenarios=2, config=QUICK)
    few = {"folds": 2, "programs": 8, "draws": 2, "sets": 8, "compared": 4}
    return replace(found, **few, kinds=("empirical", "ridge"), rehearses=False)


@pytest.mark.usefixtures("ticking")
def test_auto_returns_the_best_candidate_so_far(plan, monkeypatch):
    shorten(monkeypatch.setattr)
    policy = fit("auto", 60, LONG, plan=plan)
    summary = policy.learned.summary
    names = [row["name"] for row in summary["candidates"]]
    assert summary["cut_short"] == "mmd"  # which would train for hours
    assert set(names) == {"sample average", "ridge residuals"}
    assert summary["chosen"] in names
    assert "Cut short: the 60 seconds were up in stage 'mmd'" in policy.report()
    assert policy.decide(PAIRS[0][0]).status == "optimal"


@pytest.mark.usefixtures("ticking")
def test_what_was_done_before_the_time_was_up_is_compared(plan, monkeypatch):
    shorten(monkeypatch.setattr)
    config = csg.FitConfig(hidden=(8,), mmd_epochs=2, task_epochs=1, folds=2)
    everything = fit("auto", None, config, plan=plan).learned.summary["candidates"]
    policy = fit("auto", 60, config, plan=replace(plan, programs=100_000))
    summary = policy.learned.summary
    names = {row["name"] for row in summary["candidates"]}
    assert summary["cut_short"] in ("starts of atoms", "atoms")
    assert names == {"sample average", "ridge residuals", "mmd", "trained atoms"} or (
        names == {"sample average", "ridge residuals", "mmd"}
    )
    assert names < {row["name"] for row in everything}


def test_programs_that_take_longer_than_all_the_time_leave_the_sample_average():
    model, scenarios, _ = hard()
    contexts = np.zeros((3, 1))
    start = time.monotonic()
    policy = csg.fit(
        model,
        (contexts, scenarios),
        scenarios=2,
        progress=False,
        seconds=0.5,
        config=QUICK,
    )
    assert time.monotonic() - start < 60  # one program alone takes minutes
    assert policy.learned.summary["chosen"] == "sample average"
    assert "Cut short: the 0.5 seconds were up" in policy.report()
    assert policy.weights([0.0]) @ policy.scenarios([0.0]) == pytest.approx(
        scenarios.mean(axis=0)
    )


@pytest.mark.usefixtures("ticking")
def test_direct_keeps_what_it_learned_until_then():
    config = csg.FitConfig(hidden=(8,), mmd_epochs=2, task_epochs=100_000)
    policy = fit("direct", 50, config)
    assert policy.learned.summary["cut_short"] == "direct"
    plain = fit("mmd", None, config)
    assert (policy.scenarios(PAIRS[0]) != plain.scenarios(PAIRS[0])).any()


def test_enough_time_changes_nothing(monkeypatch):
    shorten(monkeypatch.setattr)
    one, other = fit("static", None), fit("static", 1000.0)
    assert (one.scenarios(PAIRS[0]) == other.scenarios(PAIRS[0])).all()
    assert "Cut short" not in other.report()
    assert one.report() == other.report()


@pytest.mark.usefixtures("ticking")
def test_what_was_cut_short_is_no_finished_stage(tmp_path):
    config = csg.FitConfig(hidden=(8,), mmd_epochs=60)
    short = fit("mmd", 5, config, checkpoint=tmp_path)
    again = fit("mmd", None, config, checkpoint=tmp_path)
    whole = fit("mmd", None, config)
    assert "cut_short" in short.learned.summary
    assert (again.scenarios(PAIRS[0]) == whole.scenarios(PAIRS[0])).all()


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("options", [{"scenarios": "auto"}, {"search": 3}])
def test_searches_over_fits_end_in_time(options):
    config = {**vars(LONG), **{k: v for k, v in options.items() if k == "search"}}
    scenarios = options.get("scenarios", 2)
    policy = fit("mmd", 5, csg.FitConfig(**config), scenarios=scenarios)
    assert policy.learned.summary["cut_short"] == "mmd"


@pytest.mark.parametrize("seconds", [0, -1.0, np.nan, "soon", True])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(csg.DataError, match="seconds is .*; give a number above 0"):
        fit("mmd", seconds)


def test_a_program_over_its_limit_has_its_best_decision_and_says_so():
    model, scenarios, outcomes = hard()
    options = {"time_limit": 0.5}
    oracle = csg.Oracle(model, options=options)
    found = oracle.solve(scenarios, on_error="record")
    assert found.status == "time limit"
    assert np.isfinite(found.decision).all() and found.bound < found.value
    with pytest.raises(csg.SolveError, match="time limit"):
        oracle.loss(scenarios[None], outcomes[:1])


def interrupted(job, tmp_path, after):
    """Start a job, interrupt it after its first output, and return seconds, errors and files."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(job=job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    time.sleep(after)
    start = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=60)
    return time.monotonic() - start, output, process.returncode


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="interrupts by a signal of POSIX")
@pytest.mark.parametrize(
    "job", ["solve_a_hard_program", "solve_in_threads", "train", "grow_forests"]
)
def test_an_interrupt_ends_what_would_take_minutes_at_once(job, tmp_path):
    seconds, output, code = interrupted(job, tmp_path, after=1.0)
    assert seconds < 10  # of minutes; a second or so where nothing else runs
    assert output.rstrip().endswith("KeyboardInterrupt") and code != 0
    assert not [f for f in tmp_path.rglob("*") if f.name.endswith(".partial")]
    assert not list(tmp_path.glob("*.csg"))


def test_after_an_interrupt_the_oracle_answers_as_before():
    model, scenarios, _ = hard()
    oracle = csg.Oracle(model)
    easy = scenarios[:1] * 0
    expected = oracle.solve(easy).value
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(1)
    try:
        with pytest.raises(KeyboardInterrupt):
            oracle.solve(scenarios)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert oracle.solve(easy).value == pytest.approx(expected)
