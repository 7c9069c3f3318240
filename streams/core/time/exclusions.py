"""Exclusion calendars on the axis of instants.

Contract: an excluded *span* is a half-open range of instants that is excluded as a whole. A local day can be cut in
two by
a clock change, so spans never cross a segment border of the calendar's zone; neighbours are simply asked for next.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

from streams.core.time.civil import DAY_S, END_DAY, FIRST_DAY, date_of, parse_day
from streams.core.time.cron_fields import parse_cron, uses_hash
from streams.core.time.cron_pattern import CronPattern, TimeOfDay
from streams.core.time.rejection import InvalidSchedule
from streams.core.time.rrule_pattern import RRulePattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.core.time.specs import CalendarSpec
    from streams.core.time.zones import ZoneData, ZoneRules

#: 30 years of working days; a calendar record must fit one Kafka message.
CALENDAR_DATES_MAX = 10_000
CALENDAR_RULES_MAX = 64
#: Of new calendars, all rules together: every half hour is more than a calendar is for. Questions about years walk them
#: one by one.
CALENDAR_SPANS_A_DAY_MAX = 48
#: Of new calendars: a rule costs up to a third of a second for all years; dates cost nothing.
CALENDAR_RRULES_MAX = 8
#: Calendars in use, of all tenants of one process.
_CALENDARS_CACHED = 4_096
Span = tuple[int, int]
_NO_RUNS: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


class CompiledCalendar:
    """One calendar: whole days by date or RRULE, minutes by cron rule."""

    def __init__(self, spec: CalendarSpec, zone_data: ZoneData) -> None:
        if len(spec.dates) > CALENDAR_DATES_MAX or len(spec.rules) > CALENDAR_RULES_MAX:
            raise InvalidSchedule(
                "calendar",
                spec.name,
                "too large",
                f"use up to {CALENDAR_DATES_MAX} dates and {CALENDAR_RULES_MAX} rules",
            )
        self.name = spec.name
        self.zone: ZoneRules = zone_data.zone(spec.time_zone)
        self._dates: dict[int, list[int]] = {}
        for text in spec.dates:
            day = _calendar_day(text)
            self._dates.setdefault(date_of(day).year, []).append(day)
        self._runs: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._rrules: list[RRulePattern] = []
        self._crons: list[tuple[CronPattern, tuple[Span, ...]]] = []
        for rule in spec.rules:
            if "FREQ=" in rule.upper():
                self._rrules.append(_calendar_rrule(rule, self.zone))
            else:
                self._crons.append(_calendar_cron(rule))

    @property
    def spans_a_day(self) -> int:
        """How many separate spans its cron rules exclude on a day, at most."""
        return sum(len(runs) for _, runs in self._crons)

    def warm(self) -> None:
        """Compute every year now, so that no later question has to: seconds at most for a calendar that was checked."""
        for year in range(date_of(FIRST_DAY).year, date_of(END_DAY - 1).year + 1):
            self._runs_of(year)

    def _runs_of(self, year: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the whole days that are excluded in a year as runs: their first days, and the days behind them."""
        known = self._runs.get(year)
        if known is None:
            known = self._runs[year] = _runs_in(
                sorted({*self._dates.get(year, ()), *(day for rule in self._rrules for day in rule.days_in(year))})
            )
        return known

    def _run_at(self, day: int) -> Span | None:
        """Return the run of whole days that holds ``day``; it ends with the year at the latest."""
        if not FIRST_DAY <= day < END_DAY:
            return None
        firsts, ends = self._runs_of(date_of(day).year)
        at = bisect_right(firsts, day) - 1
        return (firsts[at], ends[at]) if at >= 0 and day < ends[at] else None

    def _local_span_at(self, local: int) -> Span | None:
        """Return the excluded local range that holds ``local``; a day can have 720 of them, so it looks, not walks."""
        day, second = divmod(local, DAY_S)
        midnight = local - second
        run = self._run_at(day)
        if run is not None:
            return (run[0] * DAY_S, run[1] * DAY_S)
        for pattern, runs in self._crons:
            at = bisect_right(runs, second, key=itemgetter(0)) - 1
            if at >= 0 and second < runs[at][1] and pattern.matches_day(day):
                return (midnight + runs[at][0], midnight + runs[at][1])
        return None

    def _local_spans(self, day: int) -> Iterator[Span]:
        """Excluded ranges of local seconds that begin on ``day``."""
        midnight = day * DAY_S
        if self._run_at(day) is not None:
            yield (midnight, midnight + DAY_S)
            return
        for pattern, runs in self._crons:
            if pattern.matches_day(day):
                for start, end in runs:
                    yield (midnight + start, midnight + end)

    def span_at(self, instant_s: int) -> Span | None:
        """Return the excluded span that holds an instant, if there is one."""
        segment = bisect_right(self.zone.transitions, instant_s)
        offset = self.zone.offsets[segment]
        local = instant_s + offset
        found = self._local_span_at(local)
        if found is None:
            return None
        low, high = max(found[0], self.zone.lo_all[segment]), min(found[1], self.zone.hi_all[segment])
        return (low - offset, high - offset)

    def spans_between(self, from_s: int, to_s: int) -> Iterator[Span]:
        """Every excluded span that meets ``[from_s, to_s)``, cut to it; not sorted across segments."""
        first = bisect_right(self.zone.transitions, from_s)
        last = bisect_right(self.zone.transitions, to_s - 1)
        for segment in range(first, last + 1):
            offset = self.zone.offsets[segment]
            low = max(self.zone.lo_all[segment], from_s + offset)
            high = min(self.zone.hi_all[segment], to_s + offset)
            for day in range(low // DAY_S, (high - 1) // DAY_S + 1):
                for start, end in self._local_spans(day):
                    if max(start, low) < min(end, high):
                        yield (max(start, low) - offset, min(end, high) - offset)


class Exclusions:
    """The union of a job's calendars. Instants in ms, spans cut at whole seconds."""

    def __init__(self, calendars: tuple[CalendarSpec, ...], zone_data: ZoneData) -> None:
        self._calendars = tuple(compiled_calendar(spec, zone_data) for spec in calendars)

    def span_at(self, instant_ms: int) -> tuple[int, int, str] | None:
        """``[from, to)`` in ms and the calendar's name, or None if the instant is free."""
        for calendar in self._calendars:
            span = calendar.span_at(instant_ms // 1000)
            if span is not None:
                return (span[0] * 1000, span[1] * 1000, calendar.name)
        return None

    def merged_spans(self, after_ms: int, until_ms: int) -> list[Span]:
        """Disjoint sorted spans in ms that meet ``(after_ms, until_ms]``."""
        spans: list[Span] = []
        for calendar in self._calendars:
            spans += calendar.spans_between(after_ms // 1000, until_ms // 1000 + 1)
        merged: list[Span] = []
        for start, end in sorted(spans):
            if merged and start * 1000 <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end * 1000))
            else:
                merged.append((start * 1000, end * 1000))
        return merged


@lru_cache(maxsize=_CALENDARS_CACHED)
def compiled_calendar(spec: CalendarSpec, zone_data: ZoneData) -> CompiledCalendar:
    """Compile once for all jobs that name it."""
    return CompiledCalendar(spec, zone_data)


def check_calendar(spec: CalendarSpec, zone_data: ZoneData) -> None:
    """Refuse a new calendar that cannot be read, or with which questions about a job would take long.

    Raises InvalidSchedule; ``field`` is ``calendar``, ``calendar date``, ``calendar rule`` or ``time zone``, or one of
    a rule's own.
    """
    days = [rule for rule in spec.rules if "FREQ=" in rule.upper()]
    if len(days) > CALENDAR_RRULES_MAX:
        reason, fix = f"{len(days)} rules with FREQ", f"use up to {CALENDAR_RRULES_MAX}, and dates for the rest"
        raise InvalidSchedule("calendar rule", days[CALENDAR_RRULES_MAX], reason, fix)
    for rule in days:
        parts = _start_and_rule(rule)[1].upper().replace(" ", "").removeprefix("RRULE:").split(";")
        if any(part.startswith("COUNT=") for part in parts):
            raise InvalidSchedule("calendar rule", rule, "COUNT is not possible in a calendar", "use UNTIL")
        if any(part.endswith(("FREQ=HOURLY", "FREQ=MINUTELY")) for part in parts):
            reason = "a rule excludes whole days, so a frequency below DAILY says nothing"
            raise InvalidSchedule("calendar rule", rule, reason, "use FREQ=DAILY, or five cron fields for hours")
    for rule in spec.rules:
        if "FREQ=" not in rule.upper() and uses_hash(rule):
            reason = "H is hashed from a job's id, and a calendar has none"
            raise InvalidSchedule("calendar rule", rule, reason, "write the minutes and hours themselves")
    calendar = compiled_calendar(spec, zone_data)
    if calendar.spans_a_day > CALENDAR_SPANS_A_DAY_MAX:
        reason = f"its rules exclude {calendar.spans_a_day} separate spans on a day"
        fix = f"use up to {CALENDAR_SPANS_A_DAY_MAX}; neighbouring minutes are one span"
        raise InvalidSchedule("calendar rule", spec.name, reason, fix)


def _runs_in(days: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not days:
        return _NO_RUNS
    firsts, ends = [days[0]], [days[0] + 1]
    for day in days[1:]:
        if day == ends[-1]:
            ends[-1] = day + 1
        else:
            firsts.append(day)
            ends.append(day + 1)
    return tuple(firsts), tuple(ends)


def _calendar_day(text: str) -> int:
    try:
        return parse_day(text)
    except ValueError:
        raise InvalidSchedule("calendar date", text, "not a date", "write YYYY-MM-DD") from None


def _start_and_rule(rule: str) -> tuple[str, str]:
    """``[DTSTART:YYYY-MM-DD;]FREQ=...``; without a start the rule counts from 1970-01-01."""
    text = rule.strip()
    start = "1970-01-01"
    if text.upper().startswith("DTSTART:"):
        start, _, text = text[8:].partition(";")
    return start.strip(), text


def _calendar_rrule(rule: str, zone: ZoneRules) -> RRulePattern:
    start, text = _start_and_rule(rule)
    pattern = RRulePattern(text, f"{start}T00:00")
    if pattern.until_instant_s is not None:
        # Days are local here, so an UNTIL in UTC ends the rule at the local time that it stands for.
        pattern.end_at(pattern.until_instant_s + zone.offset_at(pattern.until_instant_s))
    return pattern


def _calendar_cron(rule: str) -> tuple[CronPattern, tuple[Span, ...]]:
    """Return a five-field rule excludes each minute that it matches; neighbouring minutes become one run."""
    if len(rule.split()) != 5:
        raise InvalidSchedule("calendar rule", rule, "not five cron fields", "write for instance '* * 31 12 *'")
    fields = parse_cron(rule, "")
    runs: list[Span] = []
    for hour in fields.hours:
        for minute in fields.minutes:
            start = hour * 3600 + minute * 60
            if runs and runs[-1][1] == start:
                runs[-1] = (runs[-1][0], start + 60)
            else:
                runs.append((start, start + 60))
    return CronPattern(fields, TimeOfDay(fields.hours, fields.minutes, (0,))), tuple(runs)
