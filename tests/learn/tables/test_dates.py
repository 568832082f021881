"""Dates in other formats, with gaps, zones and holidays, and dates that cannot be read."""

import json
from datetime import date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from pandas.tseries.holiday import USFederalHolidayCalendar

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.learn.tables.date_encoding import HolidayCalendar
from pyomo_csg.learn.tables.preprocessing import Preprocessing, learn_preprocessing

DAYS = pd.date_range("2024-01-05", periods=60)


def weekdays(cells, **more):
    """Return the weekday numbers of the cells of a column."""
    table = pd.DataFrame({"day": cells})
    numbers = learn_preprocessing(table, **more).encode_table(table)
    names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    return numbers[[f"day {name}" for name in names]].to_numpy().argmax(axis=1)


@pytest.mark.parametrize(
    "form",
    [
        "%d.%m.%Y",
        "%d.%m.%y",
        "%m/%d/%Y",
        "%d/%m/%Y %H:%M",
        "%Y/%m/%d",
        "%d %b %Y",
        "%B %d, %Y",
        "%m/%d/%y %I:%M %p",
        "%Y-%m-%dT%H:%M:%SZ",
    ],
)
def test_dates_as_text_are_read_in_the_one_format_that_fits(form):
    text = DAYS.strftime(form)
    np.testing.assert_array_equal(weekdays(text), DAYS.day_of_week)
    found = learn_preprocessing(pd.DataFrame({"day": text}))
    found = Preprocessing.restore(json.loads(json.dumps(found.summary())))
    same = [found.encode_row({"day": one}) for one in (text[3], DAYS[3], "2024-01-08")]
    assert same[0] == same[1] == same[2] and same[0]["day Mon"] == 1


def test_dates_that_can_be_read_in_two_ways_are_refused():
    text = [f"0{month}/0{day}/2024" for month in range(1, 6) for day in range(1, 6)]
    table = pd.DataFrame({"day": text, "demand": np.arange(25.0)})
    with pytest.raises(
        csg.DataError,
        match=r"column 'day' has dates that can be read in several ways \('01/02/2024': "
        "01 February or 02 January|02 January or 01 February",
    ):
        csg.fit(newsvendor.build(), table.iloc[1:], progress=False)


def test_text_among_dates_is_refused_with_its_row():
    table = pd.DataFrame({"day": DAYS.strftime("%d.%m.%Y"), "demand": np.arange(60.0)})
    table.loc[7, "day"] = "soon"
    with pytest.raises(
        csg.DataError, match=r"column 'day' contains 'soon' among dates \(row 7\)"
    ):
        csg.fit(newsvendor.build(), table, progress=False)


def test_a_wrong_date_at_a_decision_is_refused_with_an_example():
    found = learn_preprocessing(pd.DataFrame({"day": DAYS.strftime("%d.%m.%Y")}))
    with pytest.raises(
        csg.DataError, match=r"'soon'; give a date, such as '28.03.2026'"
    ):
        found.encode_row({"day": "soon"})
    with pytest.raises(csg.DataError, match="is missing, and was never missing"):
        found.encode_row({"day": None})


def test_missing_dates_are_the_median_with_an_indicator():
    cells = [None if i in (3, 9) else day for i, day in enumerate(DAYS)]
    table = pd.DataFrame({"day": cells})
    found = learn_preprocessing(table)
    numbers = found.encode_table(table)
    assert numbers["day missing"].to_numpy().nonzero()[0].tolist() == [3, 9]
    middle = sorted(day for day in cells if day is not None)[29]
    known = found.encode_row({"day": middle})
    assert found.encode_row({"day": pd.NaT}) == {**known, "day missing": 1}


def test_times_of_other_zones_are_converted_to_that_of_the_history():
    hours = pd.date_range("2024-07-01", periods=96, freq="h", tz="Europe/Berlin")
    found = learn_preprocessing(pd.DataFrame({"at": hours}))
    local = datetime(2024, 7, 2, 6)
    same = [
        local,
        local.replace(tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2024, 7, 2, 4, tzinfo=ZoneInfo("UTC")),
        "2024-07-02T04:00:00Z",
        "2024-07-02 06:00",
    ]
    for cell in same:
        assert found.encode_row({"at": cell})["at hour sine"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "damage",
    [
        {"start": "soon"},
        {"fill": 1e300},
        {"form": 3},
        {"holidays": ["soon"]},
        {"holidays": [20260101]},
        {"last_year": 2026.5},
        {"parts": ["minute"]},
    ],
)
def test_a_damaged_summary_is_refused(damage):
    (entry,) = learn_preprocessing(pd.DataFrame({"day": DAYS})).summary()
    with pytest.raises((ValueError, KeyError, TypeError)):
        Preprocessing.restore([{**entry, **damage}])


def test_a_zone_that_is_not_known_here_leaves_the_clock_of_the_cell():
    found = learn_preprocessing(pd.DataFrame({"day": DAYS}))
    (entry,) = found.summary()
    other = Preprocessing.restore([{**entry, "zone": "Atlantis/Capital"}])
    day = {"day": "2024-07-02T04:00:00Z"}
    assert other.encode_row(day) == found.encode_row(day)


class TestHolidays:
    """Holidays by country, by a calendar of pandas, and as dates."""

    def rows(self):
        days = pd.date_range("2023-06-01", "2024-05-31")
        demand = np.where(days == "2024-01-01", 90.0, 20.0 + np.arange(len(days)) % 7)
        return pd.DataFrame({"day": days, "demand": demand})

    def holidays(self, calendar, table=None):
        table = self.rows() if table is None else table
        found = learn_preprocessing(table[["day"]], HolidayCalendar(calendar))
        numbers = found.encode_table(table)["day holiday"].to_numpy()
        return set(table["day"][numbers > 0].dt.date), found

    def test_of_a_country(self):
        found, encoding = self.holidays("US")
        assert date(2024, 7, 4) not in found and date(2023, 7, 4) in found
        # What pandas calls a federal holiday is one, on the day when it is observed.
        federal = USFederalHolidayCalendar().holidays("2023-06-01", "2024-05-31")
        assert found >= {day.date() for day in federal}
        # The file holds the dates, so that deciding needs no library.
        again = Preprocessing.restore(json.loads(json.dumps(encoding.summary())))
        assert again.encode_row({"day": "2030-07-04"})["day holiday"] == 1
        assert again.encode_row({"day": "2030-07-05"})["day holiday"] == 0

    def test_of_a_part_of_a_country(self):
        epiphany = date(2024, 1, 6)
        assert epiphany in self.holidays("DE-BY")[0]
        assert epiphany not in self.holidays("DE-BE")[0]

    @pytest.mark.parametrize(
        "calendar", [USFederalHolidayCalendar, USFederalHolidayCalendar()]
    )
    def test_of_a_calendar_of_pandas(self, calendar):
        federal = USFederalHolidayCalendar().holidays("2023-06-01", "2024-05-31")
        assert self.holidays(calendar)[0] == {day.date() for day in federal}

    def test_in_a_list(self, caplog):
        found, encoding = self.holidays(["2024-02-12", date(2024, 2, 13)])
        assert found == {date(2024, 2, 12), date(2024, 2, 13)}
        encoding.encode_row({"day": "2024-12-31"})
        assert not caplog.records
        encoding.encode_row({"day": "2025-02-12"})
        assert (
            "dates in '2025', but the policy knows holidays until 2024" in caplog.text
        )

    def test_without_a_holiday_among_the_rows(self, caplog):
        found = learn_preprocessing(self.rows(), HolidayCalendar(["2020-01-01"]))
        assert "day holiday" not in found.names
        assert "no date in column 'day' is a holiday" in caplog.text

    def test_the_one_that_is_no_date_is_named(self):
        with pytest.raises(csg.DataError, match="holidays: '13.02.2024' was given"):
            HolidayCalendar(["2024-02-12", "13.02.2024"])

    @pytest.mark.parametrize("holidays", ["Atlantis", "DE-XX", "", 7, [], ["soon"]])
    def test_that_are_none_are_refused(self, holidays):
        with pytest.raises(
            csg.DataError, match="holidays: .* was given; give a country"
        ):
            csg.fit(
                newsvendor.build(),
                self.rows(),
                preprocess={"holidays": holidays},
                progress=False,
            )

    def test_need_a_date(self):
        table = pd.DataFrame({"a": np.arange(9.0), "demand": np.arange(9.0)})
        with pytest.raises(
            csg.DataError, match="holidays need a column or an index of"
        ):
            csg.fit(
                newsvendor.build(), table, preprocess={"holidays": "US"}, progress=False
            )

    def test_reach_policies_and_baselines(self, tmp_path):
        how = {"preprocess": {"holidays": "US"}}
        table, model = self.rows(), newsvendor.build()
        policy = csg.fit(model, table, scenarios=2, method="mmd", progress=False, **how)
        assert "an indicator of holidays" in str(policy.report())
        policy.save(tmp_path / "p.csg")
        contexts, _ = csg.load(tmp_path / "p.csg", model).read_contexts(table)
        column = policy.context_names.index("day holiday")
        found = set(table["day"][contexts[:, column] > 0].dt.date)
        assert found == self.holidays("US")[0]
        baseline = csg.baselines.ForestWeighted(model, table, **how)
        np.testing.assert_array_equal(baseline.read_contexts(table)[0], contexts)
