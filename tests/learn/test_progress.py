"""What a fit reports while it runs, and how it keeps its time budget."""

import logging
import math
import threading

import pytest

from pyomo_csg.learn import progress
from pyomo_csg.learn.progress import TimeUpError, TrainingLog


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that is set by hand."""

    class Clock:
        now = 100.0

        def __call__(self):
            return self.now

    mine = Clock()
    monkeypatch.setattr(progress, "clock", mine)
    return mine


def test_a_callback_that_changes_its_entry_does_not_change_what_is_kept():
    log = TrainingLog(callback=dict.clear)

    log.record("mmd", 1, loss=0.5)

    assert log.entries == [{"stage": "mmd", "step": 1, "loss": 0.5}]


def test_the_time_is_up_after_the_budget_and_names_the_stage(clock):
    log = TrainingLog(seconds=10.0)
    with pytest.raises(TimeUpError), log.stage("mmd", 3) as bar:
        bar.step()
        clock.now = 110.0
        bar.step()  # not yet more than the budget
        clock.now = 110.5
        bar.step(loss=1.0)
    assert log.stopped_in == "mmd"
    assert log.entries == [{"stage": "mmd", "step": 3, "loss": 1.0}]
    with pytest.raises(TimeUpError), log.stage("direct", 1):
        pass
    assert log.stopped_in == "mmd"
    assert log.seconds_left == -0.5


def test_without_a_budget_the_time_is_never_up(clock):
    log = TrainingLog()
    clock.now = 1e9
    log.check_time()
    assert log.seconds_left == math.inf and log.stopped_in is None


def test_a_stage_within_a_stage_is_part_of_it():
    log = TrainingLog()
    with log.stage("score ridge", 4) as bar:
        bar.step()
        with log.stage("labels", 100) as inner:
            inner.step(50)
        assert log.bar.text() == "score ridge: 1 of 4"
        bar.step(2)
    assert log.bar.text().startswith("score ridge: 3 of 4")


def test_the_rest_of_the_time_follows_from_what_was_planned(clock):
    log = TrainingLog()
    log.bar.plan({"mmd": 10.0, "direct": 30.0})
    with log.stage("mmd", 2) as bar:
        clock.now += 10
        bar.step()
        # 5 of 40 planned seconds took 10, so 70 are left.
        assert log.bar.share_done() == pytest.approx(1 / 8)
        assert log.bar.seconds_left() == pytest.approx(70)
        clock.now += 10
        bar.step()
    assert log.bar.share_done() == pytest.approx(1 / 4)
    assert log.bar.seconds_left() == pytest.approx(60)
    log.bar.best = "mmd"
    assert log.bar.text() == "mmd: 2 of 2, about 60 s left, best so far: mmd"


def test_the_rest_of_the_time_is_at_most_the_budget(clock):
    log = TrainingLog(seconds=30.0)
    assert log.bar.seconds_left() == 30.0
    log.bar.plan({"mmd": 10.0})
    with log.stage("mmd", 10) as bar:
        clock.now += 20
        bar.step()
        assert log.bar.seconds_left() == pytest.approx(10)
    assert "10 s left" in log.bar.text()


def test_a_long_stage_is_logged_every_minute(clock, caplog):
    log = TrainingLog()
    with caplog.at_level(logging.INFO, "pyomo_csg"), log.stage("mmd", 400) as bar:
        for _ in range(300):
            clock.now += 1
            bar.step()
    lines = [r.getMessage() for r in caplog.records if "of 400" in r.getMessage()]
    assert lines == [f"mmd: {n} of 400" for n in (61, 122, 183, 244)]


def test_a_long_program_is_logged_too(clock, monkeypatch):
    monkeypatch.setattr(progress, "_REFRESH_SECONDS", 0.01)
    logged = threading.Event()
    monkeypatch.setattr(progress.logger, "info", lambda *_: logged.set())
    with TrainingLog() as log, log.stage("direct", 10):  # which takes no step
        assert not logged.wait(0.05)
        clock.now += 61.0
        assert logged.wait(20.0)


@pytest.mark.parametrize(("interactive", "shown"), [(True, True), (False, False)])
def test_a_bar_is_shown_only_where_someone_watches(
    interactive, shown, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "_is_interactive", lambda: interactive)
    with TrainingLog(True) as log, log.stage("mmd", 2) as bar:
        bar.step()
    assert bool(capsys.readouterr().err) == shown
    with TrainingLog(False) as log, log.stage("mmd", 2) as bar:
        bar.step()
    assert not capsys.readouterr().err


def test_a_share_of_the_time_is_kept_for_later_stages(clock):
    log = TrainingLog(seconds=10.0)
    with pytest.raises(TimeUpError), log.limit_to(0.8), log.stage("mmd", 3) as bar:
        clock.now = 107.9
        bar.step()
        clock.now = 108.1
        bar.step()
    assert log.stopped_in == "mmd" and not log.is_over
    with pytest.raises(TimeUpError), log.stage("on all rows", 2) as bar:
        bar.step()
        clock.now = 110.1
        bar.step()
    assert log.stopped_in == "mmd" and log.is_over


def test_no_share_is_left_once_the_time_is_up(clock):
    log = TrainingLog(seconds=10.0)
    with pytest.raises(TimeUpError), log.limit_to(0.8), log.stage("mmd", 1) as bar:
        clock.now = 111.0  # one long program
        bar.step()
    assert log.is_over
