"""Calendar arithmetic on plain ints: days and "local seconds" since 1970-01-01T00:00 on the wall clock.

Contract: no zone and no clock. Searches are bounded to the years 1970 to 2199.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from datetime import date, datetime, timedelta

DAY_S = 86_400
#: No occurrence lies outside these instants: 1970-01-01T00:00Z and 2200-01-01T00:00Z (exclusive).
FIRST_INSTANT_S = 0
END_INSTANT_S = 7_258_118_400

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall-clock value, on purpose without a zone
_THURSDAY = 4  # 1970-01-01, with Sunday = 0


def _month_tables() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First day number of each month from December 1969 to February 2200, and each month's shape.

    The shape is ``(length - 28) * 7 + weekday of the first``: 28 shapes are all there are.
    """
    starts = [
        date(year, month, 1).toordinal() - _EPOCH_ORDINAL
        for year in range(1969, 2201)
        for month in range(1, 13)
        if (1969, 12) <= (year, month) <= (2200, 2)
    ]
    shapes = [(after - start - 28) * 7 + (start + _THURSDAY) % 7 for start, after in itertools.pairwise(starts)]
    return tuple(starts), tuple(shapes)


#: One entry more than months, so that ``MONTH_START[i + 1]`` always ends month i. Month 0 is December 1969: a zone
#: west of Greenwich is still in 1969 at the first instant.
MONTH_START, MONTH_SHAPE = _month_tables()
MONTH_COUNT = len(MONTH_SHAPE)
FIRST_DAY = MONTH_START[0]
END_DAY = MONTH_START[MONTH_COUNT]


def month_index(day: int) -> int:
    """Index into the month tables of the month that holds ``day`` (which must lie in the tables)."""
    return bisect_right(MONTH_START, day) - 1


def month_number(index: int) -> int:
    """1 to 12."""
    return (index - 1) % 12 + 1


def day_number(value: date) -> int:
    """Days since 1970-01-01."""
    return value.toordinal() - _EPOCH_ORDINAL


def date_of(day: int) -> date:
    """Return the date of a day number."""
    return date.fromordinal(day + _EPOCH_ORDINAL)


def weekday_of(day: int) -> int:
    """0 is Sunday, as in cron."""
    return (day + _THURSDAY) % 7


def to_local_s(value: datetime) -> int:
    """Local seconds of a naive datetime; the part below a second is cut off."""
    return (value.replace(microsecond=0) - _EPOCH) // timedelta(seconds=1)


def from_local_s(local_s: int) -> datetime:
    """Naive datetime of local seconds."""
    return _EPOCH + timedelta(seconds=local_s)


def local_text(local_s: int) -> str:
    """``YYYY-MM-DDTHH:MM:SS``."""
    return from_local_s(local_s).isoformat()


_LOCAL = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]{1,3})?)?")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_local_ms(text: str) -> int:
    """Local milliseconds of ``YYYY-MM-DDTHH:MM[:SS[.mmm]]``. Raises ValueError."""
    match = _LOCAL.fullmatch(text)
    if match is None:
        raise ValueError("not of the form YYYY-MM-DDTHH:MM[:SS[.mmm]]")
    value = datetime.fromisoformat(text)
    return to_local_s(value) * 1000 + value.microsecond // 1000


def parse_time_of_day_s(text: str) -> int:
    """Second of the day of ``HH:MM[:SS]``. Raises ValueError."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("not of the form HH:MM[:SS]")
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("not a time of day")
    return hour * 3600 + minute * 60 + second


def parse_day(text: str) -> int:
    """Day number of ``YYYY-MM-DD``. Raises ValueError."""
    if _DATE.fullmatch(text) is None:
        raise ValueError("not of the form YYYY-MM-DD")
    return day_number(date.fromisoformat(text))
