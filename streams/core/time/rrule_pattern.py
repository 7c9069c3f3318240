"""RFC 5545 recurrence rules on the wall clock.

Contract: steps on naive local time; the zone rules come after (R2, R3). A rule is a set of days, taken a year at a time
from ``rrule_days`` and cached, and the times of a day. python-dateutil reads the rule too and must accept it, but it
does not step: it walks from DTSTART at every question, and to the year 9999 when nothing matches.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from datetime import datetime
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from dateutil import rrule

from streams.core.time.civil import (
    DAY_S,
    END_INSTANT_S,
    from_local_s,
    parse_local_ms,
    to_local_s,
)
from streams.core.time.rejection import InvalidSchedule
from streams.core.time.rrule_days import DayRule, days_of_year

if TYPE_CHECKING:
    from collections.abc import Iterator

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
#: Steps in a day of the two elapsed frequencies.
_STEPS_A_DAY = {rrule.HOURLY: 24, rrule.MINUTELY: 1440}
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
#: Lines that stand beside RRULE in a calendar file, and where they go here.
_OTHER_LINES = {
    "DTSTART": "give the start as dtstart, the zone as zone, and the rule alone",
    "EXDATE": "exclude dates with a calendar",
    "RDATE": "use a job for each further date",
    "EXRULE": "exclude by rule with a calendar",
}
_PART_VALUES_MAX = 366
#: One minute apart all day: beyond that a cron expression says it better.
RRULE_TIMES_MAX = 1_440
_YEARS_CACHED = 256
_END_YEAR = 2201


def _refuse(text: str, reason: str, fix: str) -> InvalidSchedule:
    return InvalidSchedule("rrule", text, reason, fix)


def _parts(rule: str) -> dict[str, str]:
    if len(rule) > RRULE_CHARS_MAX:
        raise _refuse(rule, f"longer than {RRULE_CHARS_MAX} characters", "use fewer BY values")
    text = rule.strip().upper().removeprefix("RRULE:")
    for name, fix in _OTHER_LINES.items():
        if re.search(rf"(^|\s){name}[:;]", text):
            raise _refuse(rule, f"{name} is not part of the rule", fix)
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
        self.start_s = _dtstart(dtstart_local) // 1000
        self._start = from_local_s(self.start_s)
        parts = _parts(rule)
        self.frequency, self._interval, count = self._head(rule, parts)
        self.elapsed = self.frequency in _STEPS_A_DAY
        self.until_instant_s: int | None = None
        self._last_local = self._until(parts.pop("UNTIL", None), count)
        arguments = self._by_arguments(parts)
        self._check_with_dateutil(rule, arguments)
        self._hours, self._minutes, self._seconds = (
            tuple(sorted(set(arguments.get(name, range(size)))))
            for name, size in (("byhour", 24), ("byminute", 60), ("bysecond", 60))
        )
        day_rule = self._day_rule(arguments)
        self._times = self._fixed_times(rule, day_rule)
        self._days = lru_cache(maxsize=_YEARS_CACHED)(partial(days_of_year, day_rule))
        self._listed: list[int] | None = None
        if count is not None:
            self._listed = self._list(count)

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
            if self.frequency > rrule.MONTHLY and any(day.n for day in arguments["byweekday"]):
                raise _refuse("BYDAY", "a position such as -1FR needs FREQ=MONTHLY or YEARLY", "use MO to SU")
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

    def _fixed_times(self, rule: str, day_rule: DayRule) -> tuple[int, ...] | None:
        """Return the seconds of day that every day of the rule has; None if they move from day to day."""
        if self.frequency >= rrule.DAILY and day_rule.positions:
            raise _refuse(
                rule, "BYSETPOS needs FREQ=WEEKLY, MONTHLY or YEARLY", "list the times with BYHOUR and BYMINUTE"
            )
        if self.elapsed:
            if _STEPS_A_DAY[self.frequency] % self._interval:
                return None
            return self._stepped_times(self.start_s // DAY_S)
        total = len(self._hours) * len(self._minutes) * len(self._seconds)
        if total > RRULE_TIMES_MAX:
            raise _refuse(rule, f"{total} times a day", f"use up to {RRULE_TIMES_MAX}, or a cron expression")
        if total > 1 and day_rule.positions:
            raise _refuse(rule, "BYSETPOS with several times a day", "use one BYHOUR, BYMINUTE and BYSECOND")
        return tuple(h * 3600 + m * 60 + s for h in self._hours for m in self._minutes for s in self._seconds)

    def _stepped_times(self, day: int) -> tuple[int, ...]:
        """Return an elapsed rule's times of day: every INTERVAL steps since DTSTART's, then the BY filters."""
        steps = _STEPS_A_DAY[self.frequency]
        step_s = DAY_S // steps
        first = (self.start_s // step_s - day * steps) % self._interval
        return tuple(
            at * step_s + offset
            for at in range(first, steps, self._interval)
            for offset in self._offsets_in_step(at * step_s)
        )

    def _offsets_in_step(self, second_of_day: int) -> tuple[int, ...]:
        if second_of_day // 3600 not in self._hours:
            return ()
        if self.frequency == rrule.MINUTELY:
            return self._seconds if second_of_day // 60 % 60 in self._minutes else ()
        return tuple(minute * 60 + second for minute in self._minutes for second in self._seconds)

    def _times_of(self, day: int) -> tuple[int, ...]:
        return self._times if self._times is not None else self._stepped_times(day)

    def _check_with_dateutil(self, rule: str, arguments: dict[str, Any]) -> None:
        """Let dateutil read the rule too: it knows which BY values an INTERVAL can never reach."""
        try:
            rrule.rrule(
                self.frequency, dtstart=self._start, interval=self._interval, wkst=self._week_start, **arguments
            )
        except ValueError as error:
            raise _refuse(rule, str(error).lower(), "use BY values that INTERVAL can reach") from None

    def _day_rule(self, arguments: dict[str, Any]) -> DayRule:
        weekdays: list[rrule.weekday] = arguments.get("byweekday", [])
        sets = {name: frozenset(arguments.get(name, ())) for name in ("bymonth", "bymonthday", "byyearday", "byweekno")}
        return DayRule(
            frequency=self.frequency,
            interval=self._interval,
            start_day=self.start_s // DAY_S,
            week_start=self._week_start,
            months=sets["bymonth"],
            month_days=sets["bymonthday"],
            year_days=sets["byyearday"],
            week_numbers=sets["byweekno"],
            weekdays=frozenset(day.weekday for day in weekdays if not day.n),
            nth_weekdays=frozenset((day.weekday, day.n) for day in weekdays if day.n),
            positions=arguments.get("bysetpos", ()),
        )

    def _list(self, count: int) -> list[int]:
        """Return the first ``count`` matches."""
        return list(islice(self._from_start(), count))

    def _from_start(self) -> Iterator[int]:
        """Every match, each day's times computed once: a question for each match took a second for 10,000."""
        for year in range(self._start.year, _END_YEAR):
            for day in self._days(year):
                for second in self._times_of(day):
                    if day * DAY_S + second >= self.start_s:
                        yield day * DAY_S + second

    def end_at(self, last_local_s: int) -> None:
        """Let nothing match after a local second."""
        self._last_local = min(self._last_local, last_local_s)

    def next_local(self, local_s: int) -> int | None:
        """Return the first match after ``local_s``."""
        if local_s >= END_INSTANT_S + DAY_S:
            return None  # the last day of the year 9999 has no local time in the east
        if self._listed is not None:
            at = bisect_right(self._listed, local_s)
            return self._listed[at] if at < len(self._listed) else None
        found = self._next(max(local_s, self.start_s - 1))
        return found if found is not None and found <= self._last_local else None

    def _next(self, local_s: int) -> int | None:
        day, second = divmod(local_s, DAY_S)
        for year in range(from_local_s(local_s).year, _END_YEAR):
            days = self._days(year)
            for index in range(bisect_left(days, day), len(days)):
                times = self._times_of(days[index])
                at = bisect_right(times, second) if days[index] == day else 0
                if at < len(times):
                    return days[index] * DAY_S + times[at]
        return None

    def previous_local(self, local_s: int) -> int | None:
        """Return the last match before ``local_s``."""
        if self._listed is not None:
            at = bisect_left(self._listed, local_s)
            return self._listed[at - 1] if at else None
        local_s = min(local_s, self._last_local + 1, END_INSTANT_S + DAY_S)
        day, second = divmod(local_s, DAY_S)
        for year in range(from_local_s(max(local_s, 0)).year, self._start.year - 1, -1):
            days = self._days(year)
            for index in range(bisect_right(days, day) - 1, -1, -1):
                times = self._times_of(days[index])
                at = bisect_left(times, second) if days[index] == day else len(times)
                if at and days[index] * DAY_S + times[at - 1] >= self.start_s:
                    return days[index] * DAY_S + times[at - 1]
        return None

    def count_local(self, from_s: int, to_s: int) -> int:
        """Count matches in ``[from_s, to_s)``: by days, not by slots."""
        if self._listed is not None:
            return max(bisect_left(self._listed, to_s) - bisect_left(self._listed, from_s), 0)
        to_s = min(to_s, self._last_local + 1, END_INSTANT_S + DAY_S)
        from_s = max(from_s, self.start_s)
        if to_s <= from_s:
            return 0
        first, last = from_s // DAY_S, to_s // DAY_S
        total = 0
        for year in range(from_local_s(from_s).year, from_local_s(to_s).year + 1):
            days = self._days(year)
            low, high = bisect_left(days, first), bisect_right(days, last)
            if self._times is not None:
                total += (high - low) * len(self._times)
            else:
                total += sum(len(self._stepped_times(day)) for day in days[low:high])
        return total - self._count_in_day(first, 0, from_s % DAY_S) - self._count_in_day(last, to_s % DAY_S, DAY_S)

    def days_in(self, year: int) -> tuple[int, ...]:
        """Return the local days of a year on which it matches at all."""
        days = self._days(year)
        if self._listed is not None or not self._times:
            midnights = ((day, day * DAY_S) for day in days)
            return tuple(day for day, midnight in midnights if self.count_local(midnight, midnight + DAY_S))
        first, from_second = divmod(self.start_s, DAY_S)
        last, to_second = divmod(min(self._last_local, END_INSTANT_S + DAY_S), DAY_S)
        low = bisect_left(days, first if from_second <= self._times[-1] else first + 1)
        high = bisect_right(days, last if to_second >= self._times[0] else last - 1)
        return tuple(days[low:high])

    def _count_in_day(self, day: int, from_second: int, to_second: int) -> int:
        """Count a day's matches in ``[from_second, to_second)``."""
        days = self._days(from_local_s(day * DAY_S).year)
        at = bisect_left(days, day)
        if at == len(days) or days[at] != day:
            return 0
        times = self._times_of(day)
        return bisect_left(times, to_second) - bisect_left(times, from_second)


def _dtstart(text: str) -> int:
    try:
        start_ms = parse_local_ms(text)
    except ValueError as error:
        raise InvalidSchedule("dtstart", text, str(error), "write a local time such as 2026-03-08T02:30") from None
    if not 0 <= start_ms < END_INSTANT_S * 1000 or start_ms % 1000:
        raise InvalidSchedule("dtstart", text, "outside 1970 to 2199, or not a whole second", "use whole seconds")
    return start_ms
