"""Exclusion calendars on the axis of instants.

Contract: an excluded *span* is a half-open range of instants that is excluded as a whole. A local day can be cut in
two by
a clock change, so spans never cross a segment border of the calendar's zone; neighbours are simply asked for next.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

from streams.core.time.civil import DAY_S, parse_day
from streams.core.time.cron_fields import parse_cron
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
Span = tuple[int, int]


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
        self._days = frozenset(_calendar_day(text) for text in spec.dates)
        self._rrules: list[RRulePattern] = []
        self._crons: list[tuple[CronPattern, tuple[Span, ...]]] = []
        for rule in spec.rules:
            if "FREQ=" in rule.upper():
                self._rrules.append(_calendar_rrule(rule))
            else:
                self._crons.append(_calendar_cron(rule))

    def _whole_day(self, day: int) -> bool:
        midnight = day * DAY_S
        return day in self._days or any(rule.count_local(midnight, midnight + DAY_S) for rule in self._rrules)

    def _local_span_at(self, local: int) -> Span | None:
        """Return the excluded local range that holds ``local``; a day can have 720 of them, so it looks, not walks."""
        day, second = divmod(local, DAY_S)
        midnight = local - second
        if self._whole_day(day):
            return (midnight, midnight + DAY_S)
        for pattern, runs in self._crons:
            at = bisect_right(runs, second, key=itemgetter(0)) - 1
            if at >= 0 and second < runs[at][1] and pattern.matches_day(day):
                return (midnight + runs[at][0], midnight + runs[at][1])
        return None

    def _local_spans(self, day: int) -> Iterator[Span]:
        """Excluded ranges of local seconds that begin on ``day``."""
        midnight = day * DAY_S
        if self._whole_day(day):
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
        self._calendars = tuple(CompiledCalendar(spec, zone_data) for spec in calendars)

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


def _calendar_day(text: str) -> int:
    try:
        return parse_day(text)
    except ValueError:
        raise InvalidSchedule("calendar date", text, "not a date", "write YYYY-MM-DD") from None


def _calendar_rrule(rule: str) -> RRulePattern:
    """``[DTSTART:YYYY-MM-DD;]FREQ=...``; without a start the rule counts from 1970-01-01."""
    text = rule.strip()
    start = "1970-01-01"
    if text.upper().startswith("DTSTART:"):
        start, _, text = text[8:].partition(";")
    return RRulePattern(text, f"{start.strip()}T00:00")


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
