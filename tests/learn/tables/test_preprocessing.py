"""Columns of text, dates and gaps become numbers, and the same ones at every decision."""

import json
import logging
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.tables.history import read_history
from pyomo_csg.learn.tables.preprocessing import Preprocessing, learn_preprocessing
from tests.quick import QUICK

NAN = float("nan")
ROWS = 56


def real_table(seed=0):
    """Return a table as people keep it: dates, weekday names, holes, flags and demand."""
    rng = np.random.default_rng(seed)
    dates = pd.date_range("2025-03-03", periods=ROWS)
    table = pd.DataFrame(
        {
            "date": dates.strftime("%Y-%m-%d"),
            "weekday": dates.day_name(),
            "weather": rng.choice(["clear", "rain", None], ROWS),
            "temperature": rng.normal(15, 5, ROWS).round(1),
            "holiday": rng.random(ROWS) < 0.1,
            "demand": rng.uniform(20, 60, ROWS).round(),
        }
    )
    table.loc[[4, 9], "temperature"] = NAN
    return table


def encoded(table, **more):
    found = learn_preprocessing(pd.DataFrame(table))
    return found, found.encode_table(pd.DataFrame({**table, **more}))


def test_numbers_without_gaps_need_no_preprocessing():
    assert learn_preprocessing(pd.DataFrame({"a": [1, 2], "b": [True, False]})) is None


def test_text_becomes_an_indicator_for_each_value_the_most_frequent_first():
    found, numbers = encoded({"a": ["x", "y", "y", "x", "y", "y", "x"]})
    assert found.names == ("a = y", "a = x")
    assert numbers.to_numpy().tolist() == [
        [0, 1],
        [1, 0],
        [1, 0],
        [0, 1],
        [1, 0],
        [1, 0],
        [0, 1],
    ]


def test_categories_and_numbers_as_text_are_told_apart():
    table = pd.DataFrame({"a": pd.Categorical([3, 1, 3, 1, 3, 1]), "b": list("123123")})
    found = learn_preprocessing(table)
    assert found.names == ("a = 1", "a = 3", "b")
    assert found.encode_table(table)["b"].tolist() == [1, 2, 3, 1, 2, 3]


def test_rare_and_new_values_are_other(caplog):
    found, numbers = encoded({"a": ["x"] * 5 + ["y"] * 5 + ["odd"]})
    assert found.names == ("a = x", "a = y", "a = other")
    assert numbers.iloc[-1].tolist() == [0, 0, 1]
    other = {"a = x": 0, "a = y": 0, "a = other": 1}
    assert found.encode_row({"a": "odd"}) == other
    assert not caplog.records  # a rare value is not new
    again = Preprocessing.restore(json.loads(json.dumps(found.summary())))
    for one in (found, again):
        caplog.clear()
        assert one.encode_row({"a": "new"}) == other
        (record,) = caplog.records
        assert "'a' has values that the history does not have" in record.getMessage()
        assert record.getMessage().endswith("'new'")


def test_a_new_value_is_reported_if_the_history_has_no_other(caplog):
    found, _ = encoded({"a": ["x", "y"] * 4})
    with caplog.at_level(logging.WARNING):
        assert found.encode_row({"a": "new"}) == {"a = x": 0, "a = y": 0}
    assert "column 'a' has values that the history does not have" in caplog.text
    assert "'new'" in caplog.text


def test_many_values_are_hashed_the_same_way_each_time(caplog):
    values = [f"shop {i}" for i in range(200) for _ in range(3)]
    found, numbers = encoded({"a": values})
    assert len(found.names) == 16 and (numbers.sum(axis=1) == 1).all()
    assert (numbers.sum(axis=0) > 0).all()
    again = Preprocessing.restore(json.loads(json.dumps(found.summary())))
    assert again.encode_row({"a": "shop 7"}) == dict(numbers.iloc[21])
    assert not caplog.records
    assert not any(again.encode_row({"a": "shop 999"}).values())
    assert "does not have, treated as 'other': 'shop 999'" in caplog.text


def test_missing_text_is_a_value_of_its_own():
    found, _ = encoded({"a": ["x", None, "x", NAN, "", "x"]})
    assert set(found.names) == {"a = x", "a = missing"}


def test_missing_numbers_are_the_median_with_an_indicator():
    found, numbers = encoded({"a": [1.0, NAN, 2.0, 9.0]})
    assert found.names == ("a", "a missing")
    assert numbers.to_numpy().tolist() == [[1, 0], [2, 1], [2, 0], [9, 0]]
    assert found.encode_row({"a": None}) == {"a": 2, "a missing": 1}
    assert found.encode_row({"a": pd.NA}) == {"a": 2, "a missing": 1}


def test_a_number_that_was_never_missing_must_be_given():
    found, _ = encoded({"a": [1.0, 2.0], "b": ["x", "y"]})
    with pytest.raises(
        csg.DataError, match="column 'a' is missing, and was never missing"
    ):
        found.encode_row({"a": NAN, "b": "x"})


@pytest.mark.parametrize(
    "dates",
    [
        pd.date_range("2024-01-01", periods=800),
        pd.date_range("2024-01-01", periods=800).strftime("%Y-%m-%d"),
        pd.period_range("2024-01-01", periods=800, freq="D"),
        pd.date_range("2024-01-01", periods=800).date,
        pd.date_range("2024-01-01", periods=800, tz="UTC"),
    ],
    ids=["timestamps", "text", "periods", "dates", "time zone"],
)
def test_a_date_becomes_its_weekday_its_season_and_a_trend(dates):
    found, numbers = encoded({"day": dates})
    row = numbers.iloc[366]  # 2025-01-01, a Wednesday
    assert (
        row["day Wed"] == 1
        and row[[f"day {d}" for d in ("Mon", "Tue", "Sun")]].sum() == 0
    )
    assert row["day trend"] == pytest.approx(366 / 365.25)
    assert row["day season cosine"] == pytest.approx(1.0, abs=1e-3)
    assert numbers["day season sine"].iloc[91] == pytest.approx(1.0, abs=1e-2)
    assert not any("hour" in name for name in found.names)
    day = found.encode_row({"day": datetime(2025, 1, 1)})
    assert day == pytest.approx(dict(row))


def test_hours_become_a_point_on_the_clock():
    hours = pd.date_range("2026-01-05", periods=96, freq="h")
    found, numbers = encoded({"at": hours})
    assert numbers["at hour sine"].iloc[6] == pytest.approx(1.0)
    assert numbers["at hour cosine"].iloc[36] == pytest.approx(-1.0)
    assert "at trend" not in found.names  # a few days have none


def test_durations_are_seconds():
    _, numbers = encoded({"a": [timedelta(minutes=1)] * 3, "b": list("xyx")})
    assert numbers["a"].tolist() == [60.0] * 3


def test_a_missing_column_and_a_wrong_cell_are_both_reported():
    found, _ = encoded({"a": [1.0, NAN], "b": ["x", "y"], "c": [1.0, 2.0]})
    with pytest.raises(csg.DataError) as error:
        found.encode_table(
            pd.DataFrame({"a": [1.0, 2.0], "c": [1.0, "?"]}, index=["m", "n"])
        )
    assert error.value.problems == (
        "no column for 'b'; add it or rename one",
        "column 'c', row n, is '?'; give a number",
    )


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "elsewhere"},
        {"levels": [1, 2]},
        {"has_other": "yes"},
        {"name": 3},
        {"more": 1},
    ],
)
def test_a_damaged_summary_is_refused(damage):
    found, _ = encoded({"a": ["x", "y"] * 3})
    (entry,) = found.summary()
    with pytest.raises((ValueError, KeyError, TypeError)):
        Preprocessing.restore([{**entry, **damage}])


def test_a_table_as_people_keep_it_is_fitted_saved_and_decided_on(tmp_path):
    model, table = newsvendor.build(), real_table()
    policy = csg.fit(
        model, table, scenarios=2, method="mmd", config=QUICK, progress=False
    )
    policy.save(tmp_path / "policy.csg")
    loaded = csg.load(tmp_path / "policy.csg", model)

    rows = table.drop(columns="demand")
    decisions = policy.decide(rows)
    assert loaded.decide(rows).equals(decisions)
    one = loaded.decide(rows.iloc[9].to_dict())
    assert one.value == pytest.approx(policy.decide(rows.iloc[9]).value)
    assert one["order"] == pytest.approx(decisions["order"].iloc[9])

    report = str(policy.report())
    assert "weekday: an indicator for each of 7 values" in report
    assert "temperature: a number; " in report and "rows            series" in report
    pairs = csg.evaluate({"ours": policy}, table.iloc[:10], progress=False)
    assert np.isfinite(pairs.costs["ours"]).all()
    assert "on 56 held-out pairs" in str(policy.certify(table))
    policy.report(tmp_path / "page.html", data=table)
    assert "weekday = Monday" in (tmp_path / "page.html").read_text()
    baseline = csg.baselines.ForestWeighted(model, table)
    assert np.isfinite(baseline.decide(rows.iloc[:3]).to_numpy(float)).all()


def test_dates_of_a_column_in_order_make_a_series():
    two_stage = csg.TwoStageModel(newsvendor.build())
    assert read_history(two_stage, real_table()).has_dates
    shuffled = real_table().sample(frac=1, random_state=0)
    assert not read_history(two_stage, shuffled).has_dates
    assert not read_history(two_stage, real_table().drop(columns="date")).has_dates


def test_without_preprocessing_text_is_refused():
    with pytest.raises(csg.DataError, match="column 'date' contains text"):
        csg.fit(newsvendor.build(), real_table(), preprocess=None, progress=False)
    with pytest.raises(csg.DataError, match="preprocess is 'all'; give 'auto' or None"):
        csg.fit(newsvendor.build(), real_table(), preprocess="all", progress=False)


def test_stray_text_among_numbers_is_still_refused():
    table = real_table().astype({"temperature": object})
    table.loc[3, "temperature"] = "?"
    with pytest.raises(
        csg.DataError, match="'temperature', row 3, is '.'; give a number"
    ):
        csg.fit(newsvendor.build(), table, progress=False)


def test_a_date_that_says_nothing_is_no_context():
    mondays = pd.date_range("2026-01-05", periods=20, freq="7D")
    table = pd.DataFrame({"day": mondays, "demand": np.arange(20.0)})
    with pytest.raises(csg.DataError, match="there are no context columns"):
        csg.fit(newsvendor.build(), table, progress=False)


def test_a_column_that_comes_twice_is_refused_when_deciding():
    found, _ = encoded({"a": ["x", "y"] * 3})
    twice = pd.DataFrame([["x", "y"]], columns=["a", "a"])
    with pytest.raises(csg.DataError, match="more than one column is called 'a'"):
        found.encode_table(twice)
