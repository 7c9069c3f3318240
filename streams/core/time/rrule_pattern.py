"""RFC 5545 recurrence rules on the wall clock, read by python-dateutil.

Contract: steps on naive local time; the zone rules come after (R2, R3). dateutil walks from DTSTART at every
question, so a
rule without COUNT is anchored again near the asked instant, on a period that its INTERVAL allows. A rule with COUNT
is short (``RRULE_COUNT_MAX``) and expanded once.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from dateutil import rrule

from streams.core.time.civil import (
    DAY_S,
    END_INSTANT_S,
    from_local_s,
    parse_local_ms,
    to_local_s,
    weekday_of,
)
from streams.core.time.rejection import InvalidSchedule

#: The longest rule in RFC 5545's own examples is under 100 characters.
RRULE_CHARS_MAX = 512
#: COUNT rules are held as lists.
RRULE_COUNT_MAX = 10_000
#: 200 years of days; more is a typing error.
RRULE_INTERVAL_MAX = 73_000

_Frequency = Literal[0, 1, 2, 3, 4, 5, 6]
_FREQUENCIES: dict[str, _Frequency] = {
    "YEARLY": rrule.YEARLY,
    "MONTHLY": rrule.MONTHLY,
    "WEEKLY": rrule.WEEKLY,
    "DAILY": rrule.DAILY,
    "HOURLY": rrule.HOURLY,
    "MINUTELY": rrule.MINUTELY,
}
_UNIT_S = {rrule.DAILY: DAY_S, rrule.HOURLY: 3600, rrule.MINUTELY: 60}
_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
#: Name of a part: (argument of dateutil, lowest, highest, negative values allowed).
_NUMBERS = {
    "BYMONTH": ("bymonth", 1, 12, False),
    "BYMONTHDAY": ("bymonthday", 1, 31, True),
    "BYYEARDAY": ("byyearday", 1, 366, True),
    "BYWEEKNO": ("byweekno", 1, 53, True),
    "BYHOUR": ("byhour", 0, 23, False),
    "BYMINUTE": ("byminute", 0, 59, False),
    "BYSECOND": ("bysecond", 0, 59, False),
    "BYSETPOS": ("bysetpos", 1, 366, True),
}
_PART_VALUES_MAX = 366
_CHUNKS_CACHED = 64


def _refuse(text: str, reason: str, fix: str) -> InvalidSchedule:
    return InvalidSchedule("rrule", text, reason, fix)


def _parts(rule: str) -> dict[str, str]:
    if len(rule) > RRULE_CHARS_MAX:
        raise _refuse(rule, f"longer than {RRULE_CHARS_MAX} characters", "use fewer BY values")
    text = rule.strip().upper().removeprefix("RRULE:")
    parts: dict[str, str] = {}
    for piece in text.split(";"):
        name, equals, value = piece.partition("=")
        if not equals or not value:
            raise _refuse(piece, "not of the form NAME=VALUE", "write for instance FREQ=WEEKLY;BYDAY=MO")
        if name in parts:
            raise _refuse(piece, "given twice", f"give {name} once")
        parts[name] = value
    return parts


def _number(text: str, part: str, low: int, high: int) -> int:
    if re.fullmatch(r"[+\-]?[0-9]{1,6}", text) is None or not low <= int(text) <= high:
        raise _refuse(f"{part}={text}", "out of range", f"use {low} to {high}")
    return int(text)


def _numbers(part: str, text: str) -> tuple[int, ...]:
    _, low, high, negative = _NUMBERS[part]
    values = text.split(",")
    if len(values) > _PART_VALUES_MAX:
        raise _refuse(part, f"more than {_PART_VALUES_MAX} values", "use fewer")
    numbers = tuple(_number(value, part, -high if negative else low, high) for value in values)
    if low == 1 and 0 in numbers:
        raise _refuse(f"{part}={text}", "0 is no position", "count from 1, or from -1 backwards")
    return numbers


def _weekdays(text: str) -> list[rrule.weekday]:
    days = []
    for value in text.split(","):
        match = re.fullmatch(r"([+\-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)", value)
        if match is None or (match[1] and not 1 <= abs(int(match[1])) <= 53):
            raise _refuse(f"BYDAY={value}", "not a weekday", "use MO to SU, with a position such as -1FR if needed")
        days.append(rrule.weekday(_WEEKDAYS.index(match[2]), int(match[1]) if match[1] else None))
    return days


def _parse_until(text: str) -> int | None:
    """Return the second that UNTIL names; a date alone includes its whole day. None if it is neither."""
    match = re.fullmatch(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})Z?)?", text)
    if match is None:
        return None
    clock = f"{match[4]}:{match[5]}:{match[6]}" if match[4] else "23:59:59"
    try:
        return to_local_s(datetime.fromisoformat(f"{match[1]}-{match[2]}-{match[3]}T{clock}"))
    except ValueError:
        return None


class RRulePattern:
    """The local seconds of one rule. ``until_instant_s`` is set when UNTIL is given in UTC."""

    def __init__(self, rule: str, dtstart_local: str) -> None:
        start_ms = _dtstart(dtstart_local)
        self.start_s = start_ms // 1000
        self._start = from_local_s(self.start_s)
        parts = _parts(rule)
        self.frequency, self._interval, count = self._head(rule, parts)
        self.until_instant_s: int | None = None
        self._last_local = self._until(parts.pop("UNTIL", None), count)
        self._arguments = self._by_arguments(parts)
        self.elapsed = self.frequency in (rrule.HOURLY, rrule.MINUTELY)
        self._chunk = lru_cache(maxsize=_CHUNKS_CACHED)(self._compute_chunk)
        self._listed: list[int] | None = None
        try:
            self._rule(self._start)
        except ValueError as error:
            raise _refuse(rule, str(error).lower(), "use BY values that INTERVAL can reach") from None
        if count is not None:
            made = self._rule(self._start, count=count, until=from_local_s(END_INSTANT_S))
            self._listed = [to_local_s(value) for value in made]

    @staticmethod
    def _head(rule: str, parts: dict[str, str]) -> tuple[_Frequency, int, int | None]:
        name = parts.pop("FREQ", "")
        if name == "SECONDLY":
            raise _refuse(
                rule, "FREQ=SECONDLY is not offered", "use a six-field cron expression or the interval schedule"
            )
        if name not in _FREQUENCIES:
            raise _refuse(rule, "FREQ is missing or unknown", f"use one of {', '.join(_FREQUENCIES)}")
        interval = _number(parts.pop("INTERVAL", "1"), "INTERVAL", 1, RRULE_INTERVAL_MAX)
        count_text = parts.pop("COUNT", None)
        if count_text is None:
            return _FREQUENCIES[name], interval, None
        if "UNTIL" in parts:
            raise _refuse(rule, "both COUNT and UNTIL", "give one of them")
        return _FREQUENCIES[name], interval, _number(count_text, "COUNT", 1, RRULE_COUNT_MAX)

    def _until(self, text: str | None, count: int | None) -> int:
        """Return the last local second allowed. A UTC UNTIL is judged on instants, by the schedule's window."""
        if text is None or count is not None:
            return END_INSTANT_S
        until_s = _parse_until(text)
        if until_s is None:
            raise _refuse(f"UNTIL={text}", "not a date", "write 20271231T235959Z, or 20271231 for local time")
        if text.endswith("Z"):
            self.until_instant_s = until_s
            return END_INSTANT_S
        return until_s

    def _by_arguments(self, parts: dict[str, str]) -> dict[str, Any]:
        """All BY parts, with the defaults that RFC 5545 takes from DTSTART written out, so that it can be moved."""
        arguments: dict[str, Any] = {}
        week_start = parts.pop("WKST", "MO")
        if week_start not in _WEEKDAYS:
            raise _refuse(f"WKST={week_start}", "not a weekday", "use MO to SU")
        self._week_start = _WEEKDAYS.index(week_start)
        if "BYDAY" in parts:
            arguments["byweekday"] = _weekdays(parts.pop("BYDAY"))
        for part in [name for name in _NUMBERS if name in parts]:
            arguments[_NUMBERS[part][0]] = _numbers(part, parts.pop(part))
        if parts:
            name = next(iter(parts))
            raise _refuse(
                f"{name}={parts[name]}",
                "unknown part",
                f"use FREQ, INTERVAL, UNTIL, COUNT, WKST, BYDAY, {', '.join(_NUMBERS)}",
            )
        self._set_defaults(arguments)
        return arguments

    def _set_defaults(self, arguments: dict[str, Any]) -> None:
        """RFC 5545: what the rule leaves open comes from DTSTART."""
        if not {"byweekday", "bymonthday", "byyearday", "byweekno"} & set(arguments):
            if self.frequency == rrule.YEARLY:
                arguments.setdefault("bymonth", (self._start.month,))
            if self.frequency in (rrule.YEARLY, rrule.MONTHLY):
                arguments["bymonthday"] = (self._start.day,)
            if self.frequency == rrule.WEEKLY:
                arguments["byweekday"] = [rrule.weekday(self._start.weekday())]
        if self.frequency < rrule.HOURLY:
            arguments.setdefault("byhour", (self._start.hour,))
        if self.frequency < rrule.MINUTELY:
            arguments.setdefault("byminute", (self._start.minute,))
        arguments.setdefault("bysecond", (self._start.second,))

    def _rule(self, start: datetime, **more: Any) -> rrule.rrule:
        return rrule.rrule(
            self.frequency,
            dtstart=start,
            interval=self._interval,
            wkst=self._week_start,
            **self._arguments,
            **more,
        )

    def _period_at(self, local_s: int) -> int:
        """Return the number of the period (of INTERVAL units, 0 holds DTSTART) that holds ``local_s``."""
        value = from_local_s(local_s)
        start = self._start
        if self.frequency == rrule.YEARLY:
            units = value.year - start.year
        elif self.frequency == rrule.MONTHLY:
            units = (value.year - start.year) * 12 + value.month - start.month
        elif self.frequency == rrule.WEEKLY:
            units = (self._week_of(local_s) - self._week_of(self.start_s)) // 7
        else:
            unit_s = _UNIT_S[self.frequency]
            units = local_s // unit_s - self.start_s // unit_s
        return units // self._interval

    def _week_of(self, local_s: int) -> int:
        """Day number of the first day of the week."""
        day = local_s // DAY_S
        return day - (weekday_of(day) - 1 - self._week_start) % 7

    def _period_start(self, period: int) -> int:
        """First local second of a period."""
        units = period * self._interval
        start = self._start
        if self.frequency == rrule.YEARLY:
            return to_local_s(datetime(min(start.year + units, 9998), 1, 1))  # noqa: DTZ001 - wall clock
        if self.frequency == rrule.MONTHLY:
            years, month = divmod(start.year * 12 + start.month - 1 + units, 12)
            return to_local_s(datetime(min(years, 9998), month + 1, 1))  # noqa: DTZ001 - wall clock
        if self.frequency == rrule.WEEKLY:
            return (self._week_of(self.start_s) + 7 * units) * DAY_S
        unit_s = _UNIT_S[self.frequency]
        return (self.start_s // unit_s + units) * unit_s

    def _compute_chunk(self, chunk: int) -> tuple[int, ...]:
        """All matches of ``_chunk_periods`` periods, cached: stepping through them costs a bisection each."""
        size = self._chunk_periods()
        first, end = chunk * size, self._period_start((chunk + 1) * size)
        end = min(end, self._last_local + 1, END_INSTANT_S + DAY_S)
        found = []
        for value in self._rule_until(first, end - 1):
            local_s = to_local_s(value)
            if self.start_s <= local_s < end:
                found.append(local_s)
        return tuple(found)

    def _rule_until(self, period: int, last_s: int) -> rrule.rrule:
        start = self._start if period <= 0 else from_local_s(self._period_start(period))
        return self._rule(start, until=from_local_s(last_s))

    def _chunk_periods(self) -> int:
        """Return a few hundred matches a chunk at the most frequent, one period at the rarest."""
        per_unit = {rrule.YEARLY: 8, rrule.MONTHLY: 12, rrule.WEEKLY: 26, rrule.DAILY: 128, rrule.HOURLY: 512}
        return max(per_unit.get(self.frequency, 1440) // self._interval, 1)

    def _chunk_at(self, local_s: int) -> int:
        return max(self._period_at(local_s), 0) // self._chunk_periods()

    def next_local(self, local_s: int) -> int | None:
        """Return the first match after ``local_s``."""
        if self._listed is not None:
            at = bisect_right(self._listed, local_s)
            return self._listed[at] if at < len(self._listed) else None
        if local_s >= min(self._last_local, END_INSTANT_S + DAY_S):
            return None
        chunk = self._chunk_at(max(local_s, self.start_s))
        values = self._chunk(chunk)
        at = bisect_right(values, local_s)
        if at < len(values):
            return values[at]
        return self._next_after_chunk(chunk + 1)

    def _next_after_chunk(self, chunk: int) -> int | None:
        """Return the first match from a chunk on; one long dateutil walk if the next chunks are empty."""
        last = min(self._last_local, END_INSTANT_S + DAY_S)
        first = self._period_start(chunk * self._chunk_periods())
        if first > last:
            return None
        for value in self._rule_until(chunk * self._chunk_periods(), last):
            return to_local_s(value)
        return None

    def previous_local(self, local_s: int) -> int | None:
        """Return the last match before ``local_s``."""
        if self._listed is not None:
            at = bisect_left(self._listed, local_s)
            return self._listed[at - 1] if at else None
        local_s = min(local_s, self._last_local + 1, END_INSTANT_S + DAY_S)
        if local_s <= self.start_s:
            return None
        chunk = self._chunk_at(local_s - 1)
        while chunk >= 0:
            values = self._chunk(chunk)
            at = bisect_left(values, local_s)
            if at:
                return values[at - 1]
            chunk -= 1
        return None

    def count_local(self, from_s: int, to_s: int) -> int:
        """Count matches in ``[from_s, to_s)``."""
        if self._listed is not None:
            return max(bisect_left(self._listed, to_s) - bisect_left(self._listed, from_s), 0)
        to_s = min(to_s, self._last_local + 1, END_INSTANT_S + DAY_S)
        from_s = max(from_s, self.start_s)
        if to_s <= from_s:
            return 0
        last = self._rule_until(self._period_at(from_s), to_s - 1)
        return sum(1 for value in last if to_local_s(value) >= from_s)


def _dtstart(text: str) -> int:
    try:
        start_ms = parse_local_ms(text)
    except ValueError as error:
        raise InvalidSchedule("dtstart", text, str(error), "write a local time such as 2026-03-08T02:30") from None
    if not 0 <= start_ms < END_INSTANT_S * 1000 or start_ms % 1000:
        raise InvalidSchedule("dtstart", text, "outside 1970 to 2199, or not a whole second", "use whole seconds")
    return start_ms
