"""Monitoring: drift is named, quiet worlds stay quiet, and figures are right."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import newsvendor
from tests.quick import fit, maximized, panels, portfolio, shorten


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


def days(n, seed):
    contexts, demands = newsvendor.sample(n, seed)
    return pd.DataFrame(contexts, columns=["rain", "price"]).assign(demand=demands)


@pytest.fixture(scope="module")
def policy():
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch.setattr)
        return fit(days(120, 1), scenarios=3)


def test_the_same_world_raises_no_alarm(policy):
    found = policy.monitor(days(200, 2))
    assert not found.drift and found.alarms == ()
    assert str(found).splitlines()[1] == "No drift on 200 rows."
    assert found.verdict.mean == pytest.approx(policy.verdict(days(200, 2)).mean)
    assert found.promised == pytest.approx(policy.learned.holdout_costs.mean())


def test_a_column_outside_the_history_is_named(policy):
    rows = days(40, 2)
    rows["rain"] += 8
    found = policy.monitor(rows)
    assert found.columns[0].name == "rain" and found.columns[0].outside == 1
    past = policy.learned.pairs.contexts[:, 0]
    assert found.columns[0].farthest == pytest.approx(
        (rows["rain"].max() - past.max()) / past.std()
    )
    assert found.columns[0].moved == pytest.approx(
        (rows["rain"].mean() - past.mean()) / past.std()
    )
    assert found.drift and "'rain' is outside the history on 100%" in found.alarms[0]
    assert all("price" not in alarm for alarm in found.alarms)


def test_the_calendar_raises_no_alarm_by_moving_on():
    def dated(n, start, seed):
        dates = pd.date_range(start, periods=n).astype(str)
        return days(n, seed).assign(date=dates)

    policy = fit(dated(200, "2025-01-01", 1), scenarios=3)
    later = dated(40, "2025-07-20", 2)

    found = policy.monitor(later)

    names = [one.name for one in found.columns]
    assert max(names.index("rain"), names.index("price")) < names.index("date trend")
    shifts = {one.name: one for one in found.columns}
    assert shifts["date trend"].outside == 1 and shifts["date trend"].since is None
    assert found.alarms == ()
    later["rain"] += 8
    assert all("'rain'" in alarm for alarm in policy.monitor(later).alarms)


def test_costs_above_the_promise_are_found_with_the_contexts_unchanged(policy):
    rows = days(80, 2)
    rows["demand"] = rows["demand"] * 0.3
    found = policy.monitor(rows)
    assert any("worse than promised" in alarm for alarm in found.alarms)
    assert found.columns[0].since is None
    assert found.verdict.mean > found.promised
    assert all(one.below > 0.9 for one in found.calibration)


def test_an_alternative_that_does_better_is_found():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(100, 2))
    history = contexts, 15 + 0.5 * rng.normal(size=(100, 1))
    policy = fit(history, method="mmd")
    # Scenarios that promise far too much; the alternatives learn from the true history.
    foolish = fit((contexts, history[1] + 60), method="mmd").learned
    foolish = csg.Policy(
        newsvendor.build(), replace(foolish, pairs=policy.learned.pairs)
    )
    rows = rng.normal(size=(80, 2)), 15 + 0.5 * rng.normal(size=(80, 1))
    found = foolish.monitor(rows)
    assert any("is better than the policy" in alarm for alarm in found.alarms)
    assert "kept no costs on held-out rows" in str(found)
    assert found.promised is None


def test_calibration_is_what_counting_says(policy):
    rows = days(50, 2)
    (found,) = policy.monitor(rows).calibration
    scenarios = policy.scenarios(rows)[:, :, 0]
    demand = rows["demand"].to_numpy()
    assert found.below == np.mean(demand < scenarios.min(axis=1))
    assert found.above == np.mean(demand > scenarios.max(axis=1))
    assert sum(found.pit) == pytest.approx(1)
    assert found.below + found.inside + found.above == pytest.approx(1)


def test_the_energy_score_is_its_definition(policy):
    rows = days(4, 2)
    found = policy.monitor(rows)
    unit = policy.learned.pairs.outcomes.std()
    scores = []
    for points, weights, demand in zip(
        policy.scenarios(rows)[:, :, 0],
        policy.weights(rows),
        rows["demand"],
        strict=True,
    ):
        within = np.abs(points[:, None] - points) @ weights @ weights / 2
        scores.append((np.abs(points - demand) @ weights - within) / unit)
    assert found.energy_score == pytest.approx(np.mean(scores))


def test_looking_every_day_gives_the_alarm_of_the_first_look(policy):
    rows = days(60, 2)
    rows.loc[20:, "rain"] += 8
    looks = [policy.monitor(rows[:n]).drift for n in (10, 20, 35, 60)]
    assert looks == [False, False, True, True]
    since = policy.monitor(rows).columns[0].since
    assert 20 < since <= 35
    assert policy.monitor(rows[:since]).drift
    assert not policy.monitor(rows[: since - 1]).drift


def test_the_summary_the_page_and_the_json_agree(policy, tmp_path):
    rows = days(40, 2)
    rows["rain"] += 8
    found = policy.monitor(rows)
    found.to_json(tmp_path / "drift.json")
    found.report(tmp_path / "drift.html")
    stored = json.loads((tmp_path / "drift.json").read_text())
    assert stored == found.summary() and stored["drift"] is True
    page = (tmp_path / "drift.html").read_text()
    assert "outside the history on 100%" in page and "<script" not in page
    assert found._repr_html_().startswith("<div>")


def test_profits_panels_and_rows_without_a_cost(tmp_path):
    earning = fit(newsvendor.sample(60, 1), maximized()).monitor(
        newsvendor.sample(9, 2)
    )
    assert "earns" in str(earning) and "earned" in str(earning)
    of_panels = fit(panels(), portfolio(), method="mmd").monitor(panels(12, seed=2))
    assert len(of_panels.calibration) == 4 and not of_panels.drift
    of_panels.report(tmp_path / "panels.html")


def test_bad_arguments_are_refused(policy):
    with pytest.raises(csg.DataError, match="level is 2"):
        policy.monitor(days(5, 1), level=2)
    forgetful = csg.Policy(newsvendor.build(), replace(policy.learned, pairs=None))
    with pytest.raises(csg.DataError, match="does not keep its history"):
        forgetful.monitor(days(5, 1))


def test_false_alarms_stay_below_the_level_over_many_histories():
    """Whole monitorings of policies whose world does not change, looked at every row."""
    rng = np.random.default_rng(7)
    alarms, repeats = 0, 40
    policy = fit(days(120, 1), scenarios=3)
    for _ in range(repeats):
        contexts, demands = newsvendor.sample(100, int(rng.integers(10**6)))
        rows = pd.DataFrame(contexts, columns=["rain", "price"]).assign(demand=demands)
        alarms += policy.monitor(rows).drift
    assert alarms <= 6  # of 40, with a level of 5 %: more has a probability of 0.3 %
