"""Rows of a time series are found by their dates, or by their correlation."""

import warnings

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.config import FitConfig, are_correlated, complete_settings
from pyomo_csg.learn.tables.history import History, read_history

NUMBERS = 3


def rows_of(outcomes, **history):
    contexts = np.zeros((len(outcomes), 1))
    return complete_settings(FitConfig(), History(contexts, outcomes, **history)).rows


def autoregression(n, coefficient, seed):
    noise = np.random.default_rng(seed).normal(size=(n, NUMBERS))
    for i in range(1, n):
        noise[i] += coefficient * noise[i - 1]
    return 100 + noise


def test_independent_rows_are_not_mistaken_for_a_series():
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n, p = rng.integers(2, 400), rng.integers(1, 40)
        heavy_tailed = rng.lognormal(0, 1.5, (n, p))
        assert rows_of(heavy_tailed) == "independent", seed


@pytest.mark.parametrize("seed", range(5))
def test_days_that_resemble_the_day_before_are_a_series(seed):
    assert rows_of(autoregression(200, 0.7, seed)) == "series"


def test_days_that_resemble_the_same_day_of_last_week_are_a_series():
    days = np.arange(140)
    weekly = np.where(days % 7 < 2, 200.0, 100.0)[:, None]
    noise = np.random.default_rng(0).normal(0, 20, (140, 1))
    assert rows_of(weekly + noise) == "series"


def test_constant_outcomes_are_not_correlated():
    assert not are_correlated(np.full((100, 2), 5.0))
    assert not are_correlated(np.ones((2, 1)))


def test_a_setting_of_the_user_is_kept():
    history = History(np.zeros((200, 1)), autoregression(200, 0.9, 0))
    settings = FitConfig(rows="independent")
    assert complete_settings(settings, history).rows == "independent"


@pytest.mark.parametrize("kind", ["timestamps", "periods"])
def test_dates_in_the_index_make_a_series(kind):
    two_stage = csg.TwoStageModel(newsvendor.build())
    contexts, outcomes = newsvendor.sample(20, seed=0)
    dates = pd.date_range("2026-01-01", periods=20)
    index = dates if kind == "timestamps" else dates.to_period("D")
    frame = pd.DataFrame(contexts, columns=["a", "b"], index=index)

    assert read_history(two_stage, (frame, outcomes)).has_dates
    assert rows_of(outcomes, has_dates=True) == "series"
    assert not read_history(two_stage, (contexts, outcomes)).has_dates
    assert not read_history(
        two_stage, (frame.reset_index(drop=True), outcomes)
    ).has_dates


def test_a_named_index_of_dates_is_a_column_everywhere():
    contexts, outcomes = newsvendor.sample(60, seed=0)
    days = pd.date_range("2026-01-05", periods=60, name="day")
    by_index = pd.DataFrame({"a": contexts[:, 0], "demand": outcomes[:, 0]}, days)
    by_column = by_index.reset_index()
    baselines = [
        csg.baselines.SampleAverage(newsvendor.build(), table)
        for table in (by_index, by_column)
    ]
    names = baselines[0].context_names
    assert names == baselines[1].context_names
    assert names[:2] == ("day Mon", "day Tue") and names[-1] == "a"
    ours, theirs = (one.read_contexts(by_column)[0] for one in baselines)
    assert (ours == theirs).all()
    mine, _ = baselines[0].read_contexts(by_index)
    assert (mine == theirs).all() and mine[:, 0].sum() == 9  # Mondays
    one = baselines[0].decide({"day": "2026-03-02", "a": 0.0})
    assert one["order"] == baselines[0].decide(by_index)["order"].iloc[0]
    found = csg.evaluate({"SAA": baselines[0]}, by_index, progress=False)
    assert len(found.costs) == 60


def dated_rows(kind):
    """Return 60 rows with dates as labels without a name, and the weekdays' numbers."""
    contexts, outcomes = newsvendor.sample(60, seed=0)
    days = pd.date_range("2026-01-05", periods=60)
    kinds = {"dates": days, "periods": days.to_period("D"), "text": days.astype(str)}
    rows = {"a": contexts[:, 0], "demand": outcomes[:, 0]}
    return pd.DataFrame(rows, index=kinds[kind]), days.day_of_week.to_numpy()


@pytest.mark.parametrize("kind", ["dates", "periods", "text"])
def test_dates_as_labels_need_no_name(kind):
    table, weekdays = dated_rows(kind)
    baseline = csg.baselines.SampleAverage(newsvendor.build(), table)
    assert baseline.context_names[:2] == ("date Mon", "date Tue")
    assert baseline.context_names[-1] == "a" and baseline.history.has_dates
    contexts, _ = baseline.read_contexts(table)
    np.testing.assert_array_equal(contexts[:, :7].argmax(axis=1), weekdays)
    # One row of the table, and a mapping with the date, are the same context.
    for row in (table.iloc[8], {"date": "2026-01-13", "a": table["a"].iloc[8]}):
        np.testing.assert_array_equal(baseline.read_contexts(row)[0][0], contexts[8])
    with pytest.raises(csg.DataError, match="no column for 'date'; give the date of"):
        baseline.decide({"a": 0.0})
    assert len(csg.evaluate({"SAA": baseline}, table, progress=False).costs) == 60
    named = table.rename_axis("day")
    np.testing.assert_array_equal(baseline.read_contexts(named)[0], contexts)


def test_dates_as_labels_do_not_repeat_a_column_of_dates():
    table, _ = dated_rows("dates")
    table["day"] = table.index
    names = csg.baselines.SampleAverage(newsvendor.build(), table).context_names
    assert "day Mon" in names and "date Mon" not in names


def test_dates_as_labels_are_no_columns_without_preprocessing():
    table, _ = dated_rows("dates")
    baseline = csg.baselines.SampleAverage(newsvendor.build(), table, preprocess=None)
    assert baseline.context_names == ("a",) and baseline.history.has_dates


def test_dates_with_a_time_zone_are_in_order_without_a_warning():
    two_stage = csg.TwoStageModel(newsvendor.build())
    contexts, outcomes = newsvendor.sample(20, seed=0)
    dates = pd.date_range("2026-03-20", periods=20, tz="Europe/Berlin")
    frame = pd.DataFrame(contexts, columns=["a", "b"], index=dates)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_history(two_stage, (frame, outcomes)).has_dates


@pytest.mark.parametrize("kind", ["index", "periods", "column"])
def test_long_gaps_between_dates_are_reported(kind, caplog):
    two_stage = csg.TwoStageModel(newsvendor.build())
    contexts, outcomes = newsvendor.sample(20, seed=0)
    days = pd.date_range("2026-01-05", periods=40, freq="B")
    for dates, gaps in ((days[:20], 0), (days[:10].append(days[30:]), 1)):
        caplog.clear()
        frame = pd.DataFrame(contexts, columns=["a", "b"])
        if kind == "column":
            frame["day"] = dates
        else:
            frame.index = dates if kind == "index" else dates.to_period("D")
        assert read_history(two_stage, (frame, outcomes)).has_dates
        found = (
            "long gaps (1), the first from 2026-01-16 00:00:00 to 2026-02-16"
            in caplog.text
        )
        assert found == bool(gaps)


def test_dates_that_are_not_in_order_are_reported(caplog):
    two_stage = csg.TwoStageModel(newsvendor.build())
    contexts, outcomes = newsvendor.sample(20, seed=0)
    index = pd.date_range("2026-01-01", periods=20)[::-1]
    frame = pd.DataFrame(contexts, columns=["a", "b"], index=index)

    assert not read_history(two_stage, (frame, outcomes)).has_dates
    assert "not in order" in caplog.text and "sort_index()" in caplog.text


def test_a_policy_says_how_its_rows_were_held_out():
    contexts, outcomes = newsvendor.sample(30, seed=0)
    index = pd.date_range("2026-01-01", periods=30)
    frame = pd.DataFrame(contexts, columns=["a", "b"], index=index)
    policy = csg.fit(
        newsvendor.build(),
        (frame, outcomes),
        scenarios=2,
        method="mmd",
        config={"mmd_epochs": 2},
        progress=False,
    )
    assert "rows            series" in str(policy.report())
