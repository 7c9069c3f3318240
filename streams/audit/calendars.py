"""What the calendars of a job exclude, as of an offset of topic `config`; not computed as the scheduler does it.

It asks `zoneinfo` what the wall shows at one instant and compares: a date in a list, a minute that a cron rule
matches, a day that dateutil's own walk gives. What it does not know it answers with None, and the checker leaves the
job out.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from dateutil import rrule

from streams.audit.oracle import minute_matches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.audit.log_view import LogView
    from streams.core.definition import Definition
    from streams.core.time import CalendarSpec

_NEVER_MS: Final = 2**62
"""Behind every cursor."""


class Rulings:
    """Which decision ruled over which part of a job's time, by the way of its cursor.

    A decision that moves the cursor from one instant to another decides what lies between them, under the calendars
    that it knew. One that moves the cursor back leaves that open again.
    """

    def __init__(self, from_ms: int) -> None:
        self._cursor_ms = from_ms
        self._rows: list[tuple[int, int, int]] = []
        self._newest = 0

    def follow(self, cursor_ms: int | None, config_offset: int) -> None:
        """Take the cursor that a decision left, and what it knew of `config`."""
        to_ms = _NEVER_MS if cursor_ms is None else cursor_ms
        self._newest = config_offset
        if to_ms > self._cursor_ms:
            self._rows.append((self._cursor_ms, to_ms, config_offset))
        elif to_ms < self._cursor_ms:
            self._rows = [(low, min(high, to_ms), offset) for low, high, offset in self._rows if low < to_ms]
        self._cursor_ms = to_ms

    def offset_at(self, at_ms: int) -> int:
        """Give the offset of `config` under which an instant was decided, or would be now."""
        return next((offset for low, high, offset in self._rows if low <= at_ms < high), self._newest)


class CalendarOracle:
    """Answers from the records of one log."""

    def __init__(self, view: LogView) -> None:
        self._view = view

    def left_of(self, definition: Definition, instants: list[int], rulings: Rulings) -> list[int] | None:
        """Give the instants that no calendar of the definition excludes; None where that is not known."""
        left = []
        for at_ms in instants:
            known = self._view.calendars_at(rulings.offset_at(at_ms)).of(definition.tenant)
            excluded = _excluded(definition, known, at_ms)
            if excluded is None:
                return None
            if not excluded:
                left.append(at_ms)
        return left


def _excluded(definition: Definition, known: Mapping[str, CalendarSpec], at_ms: int) -> bool | None:
    answers = [excludes(known[name], at_ms) for name in definition.calendars if name in known]
    if True in answers:
        return True
    return None if None in answers else False


def excludes(spec: CalendarSpec, at_ms: int) -> bool | None:
    """Tell whether a calendar excludes an instant; None where this oracle does not know one of its rules."""
    try:
        wall = dt.datetime.fromtimestamp(at_ms // 1000, tz=_zone(spec.time_zone))
        if wall.date().isoformat() in _dates(spec):
            return True
        return any(_rule_matches(rule, wall) for rule in spec.rules)
    except (ValueError, ZoneInfoNotFoundError):
        return None


def _rule_matches(rule: str, wall: dt.datetime) -> bool:
    if "FREQ=" not in rule.upper():
        return minute_matches(rule, wall)
    return wall.date() in _days_of(rule, wall.year)


@lru_cache(maxsize=10_000)
def _days_of(rule: str, year: int) -> frozenset[dt.date]:
    """Let dateutil walk from the rule's start to the end of a year. Raises ValueError for what it does not read."""
    text, start = rule.strip().upper(), "1970-01-01"
    if text.startswith("DTSTART:"):
        start, _, text = text[8:].partition(";")
    found = rrule.rrulestr(text.removeprefix("RRULE:"), dtstart=dt.datetime.fromisoformat(start.strip()))
    first, last = dt.datetime(year, 1, 1), dt.datetime(year, 12, 31, 23, 59, 59)  # noqa: DTZ001 - wall-clock values
    return frozenset(moment.date() for moment in found.between(first, last, inc=True))


@lru_cache(maxsize=1_000)
def _dates(spec: CalendarSpec) -> frozenset[str]:
    return frozenset(spec.dates)


@lru_cache(maxsize=1_000)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def without_calendars(definition: Definition) -> Definition:
    """Give the definition as if it named none."""
    return msgspec.structs.replace(definition, calendars=())
