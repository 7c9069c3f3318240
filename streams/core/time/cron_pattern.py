"""Steps over a parsed cron expression on the wall clock: next, previous and count, on local seconds.

Contract: knows no zone. Every search is bounded by the month tables in ``civil`` (1970 to 2199), so a pattern that
never matches ends after at most 2,762 table look-ups. A month's matching days are one int; bit d is day d + 1.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from streams.core.time.civil import (
    DAY_S,
    END_DAY,
    FIRST_DAY,
    MONTH_COUNT,
    MONTH_SHAPE,
    MONTH_START,
    month_index,
    month_number,
)

if TYPE_CHECKING:
    from streams.core.time.cron_fields import CronFields, DayRules

_SHAPES = 28
#: Distinct fields and day rules in use; each entry is under 2 KB.
_TABLES_CACHED = 4_096
_NO_MONTH = (0, 0, 0)


def _next_table(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Entry v is the smallest value over v, or -1."""
    return tuple(next((value for value in values if value > at), -1) for at in range(size))


def _previous_table(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Entry v is the largest value below v, or -1."""
    return tuple(next((value for value in reversed(values) if value < at), -1) for at in range(size))


def _rank_table(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Entry v is the number of values below v."""
    return tuple(sum(value < at for value in values) for at in range(size + 1))


@lru_cache(maxsize=_TABLES_CACHED)
def _tables(values: tuple[int, ...], size: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return next, previous and rank table of one field; hashed jobs share them, so that compiling one is cheap."""
    return _next_table(values, size), _previous_table(values, size), _rank_table(values, size)


class TimeOfDay:
    """The tables of second, minute and hour; shared by all patterns with the same three fields."""

    __slots__ = ("count", "first", "hours", "last", "minutes", "next", "previous", "rank", "seconds")

    def __init__(self, hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> None:
        self.hours, self.minutes, self.seconds = hours, minutes, seconds
        fields = (_tables(hours, 24), _tables(minutes, 60), _tables(seconds, 60))
        self.next, self.previous, self.rank = (tuple(field[kind] for field in fields) for kind in range(3))
        self.first = hours[0] * 3600 + minutes[0] * 60 + seconds[0]
        self.last = hours[-1] * 3600 + minutes[-1] * 60 + seconds[-1]
        self.count = len(hours) * len(minutes) * len(seconds)

    def count_below(self, second_of_day: int) -> int:
        """Count matching times of day before ``second_of_day`` (0 to 86,400)."""
        if second_of_day >= DAY_S:
            return self.count
        hour, rest = divmod(second_of_day, 3600)
        minute, second = divmod(rest, 60)
        hours, minutes, seconds = self.rank
        per_minute, per_hour = len(self.seconds), len(self.seconds) * len(self.minutes)
        total = hours[hour] * per_hour
        if hours[hour + 1] > hours[hour]:
            total += minutes[minute] * per_minute
            if minutes[minute + 1] > minutes[minute]:
                total += seconds[second]
        return total


class CronPattern:
    """A compiled cron expression. ``_month`` only remembers the last month looked at; results never depend on it."""

    __slots__ = (
        "_first",
        "_last",
        "_masks",
        "_minutes",
        "_month",
        "_months",
        "_next_hour",
        "_next_minute",
        "_next_second",
        "clock",
        "fields",
    )

    def __init__(self, fields: CronFields, clock: TimeOfDay) -> None:
        self.fields = fields
        self.clock = clock
        self._next_hour, self._next_minute, self._next_second = clock.next
        self._first, self._last = clock.first, clock.last
        self._months = sum(1 << month for month in fields.months)
        self._masks = _day_masks(fields.days, fields.weekdays, fields.day_rules, fields.days_both)
        self._month = _NO_MONTH

    def _load_month(self, day: int) -> tuple[int, int, int]:
        index = month_index(day)
        mask = self._masks[MONTH_SHAPE[index]] if self._months >> month_number(index) & 1 else 0
        self._month = month = (MONTH_START[index], MONTH_START[index + 1], mask)
        return month

    def next_local(self, local_s: int) -> int | None:
        """Return the first match after ``local_s``."""
        day, second = divmod(local_s, DAY_S)
        if day < FIRST_DAY:
            day, second = FIRST_DAY, -1
        elif day >= END_DAY:
            return None
        start, end, mask = self._month
        if not start <= day < end:
            start, end, mask = self._load_month(day)
        if mask >> (day - start) & 1 and second < self._last:
            return day * DAY_S + self._next_in_day(second)
        mask >>= day - start + 1
        if mask:
            return (day + (mask & -mask).bit_length()) * DAY_S + self._first
        return self._first_from_month(end)

    def _next_in_day(self, second_of_day: int) -> int:
        """Return the next time of day; the caller made sure that there is one."""
        if second_of_day < self._first:
            return self._first
        hour, rest = divmod(second_of_day, 3600)
        minute, second = divmod(rest, 60)
        clock = self.clock
        ranks = clock.rank
        if ranks[0][hour + 1] > ranks[0][hour]:
            if ranks[1][minute + 1] > ranks[1][minute]:
                following = self._next_second[second]
                if following >= 0:
                    return second_of_day - second + following
            following = self._next_minute[minute]
            if following >= 0:
                return hour * 3600 + following * 60 + clock.seconds[0]
        return self._next_hour[hour] * 3600 + clock.minutes[0] * 60 + clock.seconds[0]

    def _first_from_month(self, day: int) -> int | None:
        """Return the first match on or after ``day``, the first of a month."""
        if day >= END_DAY:
            return None
        masks, months = self._masks, self._months
        for index in range(month_index(day), MONTH_COUNT):
            if months >> ((index - 1) % 12 + 1) & 1:
                mask = masks[MONTH_SHAPE[index]]
                if mask:
                    return (MONTH_START[index] + (mask & -mask).bit_length() - 1) * DAY_S + self._first
        return None

    def previous_local(self, local_s: int) -> int | None:
        """Return the last match before ``local_s``."""
        day, second = divmod(local_s, DAY_S)
        if day >= END_DAY:
            day, second = END_DAY - 1, DAY_S
        elif day < FIRST_DAY:
            return None
        start, end, mask = self._month
        if not start <= day < end:
            start, end, mask = self._load_month(day)
        if mask >> (day - start) & 1 and second > self._first:
            return day * DAY_S + self._previous_in_day(second)
        mask &= (1 << (day - start)) - 1
        if mask:
            return (start + mask.bit_length() - 1) * DAY_S + self._last
        return self._last_before_month(start)

    def _previous_in_day(self, second_of_day: int) -> int:
        if second_of_day > self._last:
            return self._last
        hour, rest = divmod(second_of_day, 3600)
        minute, second = divmod(rest, 60)
        clock = self.clock
        ranks, tables = clock.rank, clock.previous
        if ranks[0][hour + 1] > ranks[0][hour]:
            if ranks[1][minute + 1] > ranks[1][minute]:
                before = tables[2][second]
                if before >= 0:
                    return second_of_day - second + before
            before = tables[1][minute]
            if before >= 0:
                return hour * 3600 + before * 60 + clock.seconds[-1]
        return tables[0][hour] * 3600 + clock.minutes[-1] * 60 + clock.seconds[-1]

    def _last_before_month(self, day: int) -> int | None:
        for index in range(month_index(day) - 1, -1, -1):
            if self._months >> month_number(index) & 1:
                mask = self._masks[MONTH_SHAPE[index]]
                if mask:
                    return (MONTH_START[index] + mask.bit_length() - 1) * DAY_S + self._last
        return None

    def count_local(self, from_s: int, to_s: int) -> int:
        """Count matches in ``[from_s, to_s)``: whole days by bit count, the two edges by rank."""
        from_s = max(from_s, FIRST_DAY * DAY_S)
        to_s = min(to_s, END_DAY * DAY_S)
        if to_s <= from_s:
            return 0
        first, first_second = divmod(from_s, DAY_S)
        last, last_second = divmod(to_s, DAY_S)
        total = self._days_between(first, last) * self.clock.count
        if self.matches_day(first):
            total -= self.clock.count_below(first_second)
        if last_second and self.matches_day(last):
            total += self.clock.count_below(last_second)
        return total

    def matches_day(self, day: int) -> bool:
        """Whether the day and month fields allow ``day``."""
        if not FIRST_DAY <= day < END_DAY:
            return False
        start, end, mask = self._month
        if not start <= day < end:
            start, end, mask = self._load_month(day)
        return bool(mask >> (day - start) & 1)

    def _days_between(self, first: int, end: int) -> int:
        """Count matching days in ``[first, end)``."""
        total = 0
        index = month_index(first)
        while index < MONTH_COUNT and MONTH_START[index] < end:
            if self._months >> month_number(index) & 1:
                start, mask = MONTH_START[index], self._masks[MONTH_SHAPE[index]]
                if first > start:
                    mask = mask >> (first - start) << (first - start)
                if end < MONTH_START[index + 1]:
                    mask &= (1 << (end - start)) - 1
                total += mask.bit_count()
            index += 1
        return total


@lru_cache(maxsize=_TABLES_CACHED)
def _day_masks(
    days: tuple[int, ...],
    weekdays: tuple[int, ...],
    rules: DayRules,
    days_both: bool,  # noqa: FBT001 - part of a cache key
) -> tuple[int, ...]:
    """Return one mask for each shape of a month."""
    return tuple(
        _day_mask(set(days), set(weekdays), rules, days_both=days_both, length=28 + shape // 7, first_weekday=shape % 7)
        for shape in range(_SHAPES)
    )


def _day_mask(
    plain_days: set[int], plain_weekdays: set[int], rules: DayRules, *, days_both: bool, length: int, first_weekday: int
) -> int:
    """Return the days of a month of this shape that R5 allows."""
    days = set(plain_days)
    days |= {length - offset for offset in rules.last_offsets}
    days |= {min(day, length) for day in rules.capped}
    days |= {_nearest_weekday(day, length, first_weekday) for day in rules.nearest if day <= length}
    if rules.last_weekday:
        days.add(_nearest_weekday(length, length, first_weekday))
    weekdays = set()
    for day in range(1, length + 1):
        weekday = (first_weekday + day - 1) % 7
        nth = (day - 1) // 7 + 1
        last = day + 7 > length and weekday in rules.last_of
        if weekday in plain_weekdays or (weekday, nth) in rules.nth or last:
            weekdays.add(day)
    chosen = days & weekdays if days_both else days | weekdays
    return sum(1 << (day - 1) for day in chosen if 1 <= day <= length)


def _nearest_weekday(day: int, length: int, first_weekday: int) -> int:
    """Monday to Friday nearest to ``day``, never leaving the month (A55)."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
