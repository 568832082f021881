"""Dates: how they are read and become numbers: the clock, the weekday, holidays, a trend."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar
from zoneinfo import ZoneInfo

import numpy as np

from pyomo_csg.errors import DataError, shortlist
from pyomo_csg.learn.tables.column_names import column_label
from pyomo_csg.learn.tables.columns import is_missing
from pyomo_csg.validation import is_number

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)

EPOCH = datetime(1970, 1, 1)
DAY, YEAR = 86400.0, 365.25 * 86400.0  # seconds
_LAST = 8000 * YEAR
_HALF_A_YEAR = 183 * DAY
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOLIDAY = "holiday"
_PARTS = {
    "hour": ("hour sine", "hour cosine"),
    "weekday": _WEEKDAYS,
    "season": ("season sine", "season cosine"),
    "trend": ("trend",),
    _HOLIDAY: (_HOLIDAY,),
}
_PART_NAMES = {
    "hour": "the hour as sine and cosine",
    "weekday": "an indicator for each weekday",
    "season": "the day of the year as sine and cosine",
    "trend": "the years since the first date",
    _HOLIDAY: "an indicator of holidays",
}
_YEARS_AHEAD = 10  # of the history's last date: policies decide without the library
_FORMS = "a country such as 'US' or 'DE-BY', a calendar of pandas, or ISO dates"
_NO_LIBRARY = "holidays of a country need the library holidays: pip install holidays"
ISO = ""  # the format of ISO text
_DAYS = (
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%B %d, %Y",
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
_FORMATS = (ISO, *(day + time for day in _DAYS for time in _TIMES))
_SHORTEST, _LONGEST = len("1/2/26"), 40  # characters of text


@dataclass(frozen=True)
class DateEncoding:
    """The parts of a date that vary in the history."""

    kind: ClassVar[str] = "date"
    name: str
    start: float  # seconds since 1970
    parts: tuple[str, ...]
    form: str = ISO  # of text, as in strptime
    zone: str = ""  # to which times with another zone are converted
    fill: float | None = None  # seconds; None: it was never missing
    holidays: tuple[str, ...] = ()  # ISO dates
    last_year: int = 0  # of the holidays

    @property
    def outputs(self) -> tuple[str, ...]:
        found = [f"{self.name} {one}" for part in self.parts for one in _PARTS[part]]
        if found and self.fill is not None:
            found.append(f"{self.name} missing")
        return tuple(found)

    def encode(self, cells: Sequence[Any]) -> np.ndarray:
        times = [self._read(cell) for cell in cells]
        if not self.parts:
            return np.empty((len(cells), 0))
        seconds = np.array([(one - EPOCH).total_seconds() for one in times])
        found = [self._encode_part(part, seconds) for part in self.parts]
        if _HOLIDAY in self.parts:
            self._warn_of_years(times)
        if self.fill is not None:
            found.append(np.array([is_missing(cell) for cell in cells], float))
        return np.column_stack(found)

    def _read(self, cell: Any) -> datetime:
        if is_missing(cell):
            if self.fill is None:
                raise ValueError(
                    "is missing, and was never missing in the history; give a date"
                )
            return EPOCH + timedelta(seconds=self.fill)
        found = read_date(cell, self.form, self.zone)
        if found is None:
            example = datetime(2026, 3, 28).strftime(self.form or "%Y-%m-%d")
            raise ValueError(f"is {cell!r:.60}; give a date, such as '{example}'")
        return found

    def _encode_part(self, part: str, seconds: np.ndarray) -> np.ndarray:
        if part == "trend":
            return (seconds - self.start) / YEAR
        days = np.floor(seconds / DAY).astype(int)
        if part == "weekday":
            return np.eye(7)[(days + 3) % 7]  # 1970 began on a Thursday
        if part == _HOLIDAY:
            dates = np.array(self.holidays, "datetime64[D]").astype(int)
            return np.isin(days, dates).astype(float)
        angle = 2 * np.pi * seconds / (DAY if part == "hour" else YEAR)
        return np.column_stack([np.sin(angle), np.cos(angle)])

    def _warn_of_years(self, times: Iterable[datetime]) -> None:
        """Warn of dates after the last year of which the holidays are stored."""
        if late := {one.year for one in times if one.year > self.last_year}:
            _log.warning(
                "column '%s' has dates in %s, but the policy knows holidays until %d only; "
                "fit it again",
                self.name,
                shortlist([str(year) for year in sorted(late)]),
                self.last_year,
            )

    def is_sound(self) -> bool:
        """Whether the fields of an encoding from a file have the right types and values."""
        texts = (self.form, self.zone, *self.holidays)
        if not all(isinstance(text, str) for text in texts):
            return False
        np.array(self.holidays, "datetime64[D]")  # a ValueError if damaged
        return (
            is_number(self.start)
            and (self.fill is None or (is_number(self.fill) and abs(self.fill) < _LAST))
            and type(self.last_year) is int
            and all(part in _PARTS for part in self.parts)
        )

    def __str__(self) -> str:
        found = [_PART_NAMES[part] for part in self.parts]
        if found and self.fill is not None:
            found.append("an indicator of missing dates, which count as the median")
        return ", ".join(found) or "nothing"


def learn_dates(
    name: str, cells: Sequence[Any], form: str, zone: str, calendar: Any = None
) -> DateEncoding:
    """Return the parts of a date that vary; ``calendar`` is a :class:`HolidayCalendar`."""
    found = [read_date(cell, form, zone) for cell in cells]
    dates = [one for one in found if one is not None]
    seconds = np.array([(one - EPOCH).total_seconds() for one in dates])
    span, parts = float(np.ptp(seconds)), []
    if len(np.unique(seconds % DAY)) > 1:
        parts.append("hour")
    if len({one.weekday() for one in dates}) > 1:
        parts.append("weekday")
    if span >= _HALF_A_YEAR:
        parts += ["season", "trend"]
    holidays, last_year = ((), 0) if calendar is None else calendar.dates(dates)
    days = {one.date().isoformat() for one in dates}
    if 0 < len(days.intersection(holidays)) < len(days):
        parts.append(_HOLIDAY)
    elif calendar is not None:
        _log.warning(
            "no date in column '%s' is a holiday, so holidays do not count", name
        )
        holidays, last_year = (), 0
    has_gaps = len(dates) < len(cells)
    middle = float(np.sort(seconds)[len(seconds) // 2]) if has_gaps else math.nan
    return DateEncoding(
        name,
        float(seconds.min()),
        tuple(parts),
        form,
        zone,
        middle if has_gaps else None,
        tuple(holidays),
        last_year,
    )


@dataclass(frozen=True)
class HolidayCalendar:
    """The holidays of a country, of a calendar of pandas, or in a list of dates."""

    source: Any

    def __post_init__(self) -> None:
        self.dates([datetime(2026, 1, 1)])  # reports what is wrong

    def dates(self, dates: Sequence[datetime]) -> tuple[tuple[str, ...], int]:
        """Return the holidays around some dates as ISO text, and the last year of them."""
        first = min(dates).year
        last = max(dates).year + _YEARS_AHEAD
        source = self.source
        if isinstance(source, str):
            return _sorted(_of_country(source, range(first, last + 1))), last
        if callable(getattr(source, "holidays", None)):
            start, end = datetime(first, 1, 1), datetime(last, 12, 31)
            calendar = source() if isinstance(source, type) else source
            return _sorted(calendar.holidays(start, end)), last
        listed = list(source) if isinstance(source, Iterable) else [source]
        if bad := [one for one in listed or [source] if read_date(one) is None]:
            raise _refuse(bad[0])
        days = [one for one in map(read_date, listed) if one is not None]
        return _sorted(days), max(days).year


def _of_country(code: str, years: range) -> Iterable[date]:
    """Return the public holidays of a country, or of a part such as DE-BY."""
    try:
        import holidays
    except ImportError:
        raise DataError("", [f"holidays: {_NO_LIBRARY}"]) from None
    country, _, part = code.partition("-")
    try:
        return holidays.country_holidays(country, subdiv=part or None, years=years)
    except (NotImplementedError, KeyError, AttributeError):
        raise _refuse(code) from None


def _sorted(days: Iterable[date]) -> tuple[str, ...]:
    return tuple(sorted({day.strftime("%Y-%m-%d") for day in days}))


def _refuse(source: Any) -> DataError:
    return DataError("", [f"holidays: {source!r:.60} was given; give {_FORMS}"])


def read_date(cell: Any, form: str = ISO, zone: str = "") -> datetime | None:
    """Return a date, a time or text as a datetime without a time zone, or None.

    Text is in a format of ``strptime``, or ISO. A time with a zone is converted to ``zone``
    if that is not empty; otherwise its own clock counts.
    """
    if is_missing(cell):
        return None
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[s]").item()
    if hasattr(cell, "to_timestamp"):  # a Period of pandas
        cell = cell.to_timestamp()
    if isinstance(cell, str):
        cell = _read_text(cell.strip(), form)
    if isinstance(cell, datetime):
        if cell.tzinfo is not None and (known := _find_zone(zone)) is not None:
            cell = cell.astimezone(known)
        return cell.replace(tzinfo=None)
    if isinstance(cell, date):
        return datetime(cell.year, cell.month, cell.day)
    return None


def _read_text(text: str, form: str) -> datetime | None:
    if form != ISO:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            pass  # text of other tables may be ISO
    if len(text) < len("2026-01-01") or text.count("-") < 2:
        return None
    try:  # Python 3.10 knows no Z
        return datetime.fromisoformat(text[:-1] + "+00:00" if text[-1] == "Z" else text)
    except ValueError:
        return None


def find_formats(cells: Sequence[Any]) -> list[str]:
    """Return the formats that read most cells as dates, without those that agree.

    Several remain if the text is ambiguous, such as 01/02/2026.
    """
    texts = list(dict.fromkeys(one.strip() for one in cells if isinstance(one, str)))
    if not texts:
        return [ISO] if any(read_date(one) is not None for one in cells) else []
    some = [t for t in texts if _SHORTEST <= len(t) <= _LONGEST][:100]
    found: dict[str, list[datetime | None]] = {}
    for form in _FORMATS:
        if 2 * sum(_read_text(text, form) is not None for text in some) > len(some):
            found[form] = [_read_text(text, form) for text in texts]
    if not found:
        return []
    counts = {
        form: sum(one is not None for one in dates) for form, dates in found.items()
    }
    most = max(counts.values())
    if 2 * most <= len(texts):
        return []
    best = [form for form, count in counts.items() if count == most]
    return [
        f for i, f in enumerate(best) if found[f] not in [found[g] for g in best[:i]]
    ]


def date_index(index: pd.Index) -> pd.Index | None:
    """Return row labels as dates; None if they are not dates."""
    import pandas as pd

    if isinstance(index, pd.DatetimeIndex | pd.PeriodIndex):
        return index
    if isinstance(index, pd.MultiIndex) or index.dtype.kind in "iufbmM":
        return None
    labels = index.tolist()
    forms = find_formats(labels) if labels else []
    if len(forms) != 1:
        return None
    dates = [read_date(label, forms[0]) for label in labels]
    if any(one is None for one in dates):
        return None
    return pd.DatetimeIndex(dates, name=index.name)


def zone_name(column: pd.Series) -> str:
    """Return the name of a column's time zone; empty if it has none, or no known name."""
    zone: tzinfo | None = getattr(column.dtype, "tz", None)
    return str(zone) if zone is not None and _find_zone(str(zone)) else ""


@lru_cache
def _find_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, KeyError):  # unknown here
        return None


def with_date_column(table: pd.DataFrame, name: str | None) -> pd.DataFrame:
    """Return a table that has its index as a column, too, if that holds dates.

    Without a name, or if there is such a column, the table stays as it is.
    """
    if name is None or name in map(column_label, table.columns):
        return table
    dates = date_index(table.index)
    if dates is None:
        return table
    wider = table.copy(deep=False)
    wider.insert(0, name, dates)
    return wider


def date_name(table: pd.DataFrame) -> str | None:
    """Return the column that an index of dates becomes: its name, or 'date'.

    None if an index without a name would repeat a column of dates.
    """
    if table.index.name is not None:
        return str(table.index.name)
    return None if any(kind.kind == "M" for kind in table.dtypes) else "date"
