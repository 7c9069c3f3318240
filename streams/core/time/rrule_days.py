"""The days of an RFC 5545 rule, one year at a time.

Contract: ``days_of_year`` is pure and costs one pass over the year, whether anything matches or not (dateutil's own
walk goes on to the year 9999 when nothing does). BY parts limit the days of a period, as in dateutil, which the tests
compare it with; only ``BYDAY=MO,1FR`` differs: it is either of the two, as the RFC says.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from streams.core.time.civil import date_of, day_number

if TYPE_CHECKING:
    from collections.abc import Iterable

YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY = range(6)
_WEEK = 7


class DayRule(NamedTuple):
    """The day part of a rule. Weekdays count from Monday = 0, empty sets allow everything."""

    frequency: int
    interval: int
    start_day: int
    week_start: int
    months: frozenset[int] = frozenset()
    month_days: frozenset[int] = frozenset()
    year_days: frozenset[int] = frozenset()
    week_numbers: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    nth_weekdays: frozenset[tuple[int, int]] = frozenset()
    positions: tuple[int, ...] = ()


def days_of_year(rule: DayRule, year: int) -> tuple[int, ...]:
    """Return the sorted day numbers of a year that the rule allows, from the start day on."""
    first, end = day_number(date(year, 1, 1)), day_number(date(year + 1, 1, 1))
    if end <= rule.start_day:
        return ()
    # A week can reach over the new year, and BYSETPOS counts in all of it.
    margin = _WEEK if rule.positions and rule.frequency == WEEKLY else 0
    days: Iterable[int] = (day for day in range(first - margin, end + margin) if _allows(rule, day))
    if rule.positions:
        days = _at_positions(rule, days)
    return tuple(day for day in days if max(first, rule.start_day) <= day < end)


def _week_of(rule: DayRule, day: int) -> int:
    """Return the day number of the first day of a day's week."""
    return day - (_weekday(day) - rule.week_start) % _WEEK


def _weekday(day: int) -> int:
    return (day + 3) % _WEEK


def _period(rule: DayRule, day: int, value: date) -> int:
    """Return how many periods lie between the start day and a day; hourly and minutely rules count days."""
    if rule.frequency >= DAILY:
        return day - rule.start_day
    if rule.frequency == WEEKLY:
        return (_week_of(rule, day) - _week_of(rule, rule.start_day)) // _WEEK
    start = date_of(rule.start_day)
    years = value.year - start.year
    return years if rule.frequency == YEARLY else years * 12 + value.month - start.month


def _allows(rule: DayRule, day: int) -> bool:
    value = date_of(day)
    if rule.months and value.month not in rule.months:
        return False
    if rule.month_days and not _counted(rule.month_days, value.day, _month_length(value)):
        return False
    if (rule.weekdays or rule.nth_weekdays) and not _allows_weekday(rule, day, value):
        return False
    if rule.year_days:
        new_year = day_number(date(value.year, 1, 1))
        length = day_number(date(value.year + 1, 1, 1)) - new_year
        if not _counted(rule.year_days, day - new_year + 1, length):
            return False
    if rule.week_numbers and not _allows_week(rule, day):
        return False
    return rule.frequency > DAILY or _period(rule, day, value) % rule.interval == 0


def _month_length(value: date) -> int:
    return monthrange(value.year, value.month)[1]


def _counted(wanted: frozenset[int], position: int, length: int) -> bool:
    """Whether a position is wanted, counted from 1 or, negative, from the end."""
    return position in wanted or position - length - 1 in wanted


def _allows_weekday(rule: DayRule, day: int, value: date) -> bool:
    weekday = _weekday(day)
    if weekday in rule.weekdays:
        return True
    if rule.frequency == YEARLY and not rule.months:
        new_year = day_number(date(value.year, 1, 1))
        position, length = day - new_year, day_number(date(value.year + 1, 1, 1)) - new_year
    else:
        position, length = value.day - 1, _month_length(value)
    from_start, from_end = position // _WEEK + 1, -((length - 1 - position) // _WEEK + 1)
    return (weekday, from_start) in rule.nth_weekdays or (weekday, from_end) in rule.nth_weekdays


def _allows_week(rule: DayRule, day: int) -> bool:
    """RFC 5545: week 1 is the first with four days in the year; so a week belongs to the year of its fourth day."""
    fourth = _week_of(rule, day) + 3
    year = date_of(fourth).year
    new_year = day_number(date(year, 1, 1))
    number = (fourth - new_year) // _WEEK + 1
    # The last week of the year holds the last fourth day, so its number is the year's number of weeks.
    weeks = number + (day_number(date(year + 1, 1, 1)) - 1 - fourth) // _WEEK
    return _counted(rule.week_numbers, number, weeks)


def _at_positions(rule: DayRule, days: Iterable[int]) -> list[int]:
    """BYSETPOS: keep these positions of each period."""
    periods: dict[int, list[int]] = {}
    for day in days:
        periods.setdefault(_period(rule, day, date_of(day)), []).append(day)
    chosen = []
    for members in periods.values():
        wanted = {position - 1 if position > 0 else len(members) + position for position in rule.positions}
        chosen += [day for index, day in enumerate(members) if index in wanted]
    return chosen
