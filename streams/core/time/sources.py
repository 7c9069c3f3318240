"""From a spec to its slots: the one place that knows every kind of schedule.

Contract: ``build_source(spec, job_id, zone_data)`` is pure and raises InvalidSchedule with field, text and fix.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from streams.core.time.calendar_pattern import CalendarPattern
from streams.core.time.civil import parse_day, parse_local_ms, parse_time_of_day_s
from streams.core.time.cron_fields import CronFields, parse_cron
from streams.core.time.cron_pattern import CronPattern, TimeOfDay
from streams.core.time.rejection import InvalidSchedule
from streams.core.time.rrule_pattern import RRulePattern
from streams.core.time.slots import END_INSTANT_MS, FIRST_INSTANT_MS, InstantSlots, IntervalSlots, Slot, SlotSource
from streams.core.time.specs import (
    CalendarIntervalSpec,
    CronSpec,
    DroppedSlot,
    IntervalSpec,
    LocalOneOffSpec,
    OneOffSpec,
    RRuleSpec,
    ScheduleSpec,
)
from streams.core.time.wall_clock import WallClockSlots, resolve_local
from streams.core.time.zone_text import utc_text

if TYPE_CHECKING:
    from streams.core.time.zones import ZoneData

#: Below this an interval is a busy loop, not a schedule.
INTERVAL_MS_MIN = 100
#: 230 years: the searchable range.
INTERVAL_MS_MAX = END_INSTANT_MS - FIRST_INSTANT_MS
CALENDAR_EVERY_MAX = 10_000
_CLOCKS_CACHED = 2_048
_PATTERNS_CACHED = 8_192


@lru_cache(maxsize=_CLOCKS_CACHED)
def _clock(hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> TimeOfDay:
    return TimeOfDay(hours, minutes, seconds)


@lru_cache(maxsize=_PATTERNS_CACHED)
def _cron_pattern(expression: str, job_id: str) -> CronPattern:
    fields: CronFields = parse_cron(expression, job_id)
    return CronPattern(fields, _clock(fields.hours, fields.minutes, fields.seconds))


def build_source(spec: ScheduleSpec, job_id: str, zone_data: ZoneData) -> SlotSource:
    """Return the slots of a spec. ``job_id`` matters only for ``H``."""
    match spec:
        case CronSpec():
            _check_policies(spec)
            pattern = _cron_pattern(spec.expression, job_id)
            zone = zone_data.zone(spec.time_zone)
            return WallClockSlots(
                pattern, zone, elapsed=pattern.fields.elapsed, gap=spec.gap, overlap_hour=spec.overlap_hour
            )
        case IntervalSpec():
            return _interval(spec)
        case CalendarIntervalSpec():
            return _calendar(spec, zone_data)
        case OneOffSpec():
            _check_instant(spec.at_ms, "at")
            return InstantSlots(((spec.at_ms, (), ()),))
        case LocalOneOffSpec():
            return _local_one_off(spec, zone_data)
        case RRuleSpec():
            return _rrule(spec, zone_data)


def _check_policies(spec: CronSpec | CalendarIntervalSpec | LocalOneOffSpec | RRuleSpec) -> None:
    if spec.gap not in ("shift", "skip"):
        raise InvalidSchedule("gap", spec.gap, "unknown", "use shift or skip")
    if spec.overlap_hour not in ("first", "second", "both"):
        raise InvalidSchedule("overlapHour", spec.overlap_hour, "unknown", "use first, second or both")


def _check_instant(at_ms: int, field: str) -> None:
    if not FIRST_INSTANT_MS <= at_ms < END_INSTANT_MS:
        try:
            text = utc_text(at_ms)
        except OverflowError:  # beyond the year 9999: probably no milliseconds
            text = f"{at_ms} ms"
        raise InvalidSchedule(field, text, "outside 1970 to 2199", "use an instant between these years, given in ms")


def _interval(spec: IntervalSpec) -> IntervalSlots:
    if not INTERVAL_MS_MIN <= spec.every_ms <= INTERVAL_MS_MAX:
        raise InvalidSchedule("every", f"{spec.every_ms} ms", "out of range", f"use {INTERVAL_MS_MIN} ms to 230 years")
    _check_instant(spec.anchor_ms, "anchor")
    return IntervalSlots(spec.every_ms, spec.anchor_ms)


def _calendar(spec: CalendarIntervalSpec, zone_data: ZoneData) -> WallClockSlots:
    _check_policies(spec)
    if spec.unit not in ("day", "week", "month"):
        raise InvalidSchedule("unit", spec.unit, "unknown", "use day, week or month")
    if not 1 <= spec.every <= CALENDAR_EVERY_MAX:
        raise InvalidSchedule("every", str(spec.every), "out of range", f"use 1 to {CALENDAR_EVERY_MAX}")
    try:
        second = parse_time_of_day_s(spec.local_time)
    except ValueError as error:
        raise InvalidSchedule("localTime", spec.local_time, str(error), "write HH:MM or HH:MM:SS") from None
    try:
        day = parse_day(spec.anchor_date)
    except ValueError:
        raise InvalidSchedule("anchorDate", spec.anchor_date, "not a date", "write YYYY-MM-DD") from None
    _check_instant(day * 86_400_000, "anchorDate")
    pattern = CalendarPattern(spec.unit, spec.every, day, second)
    zone = zone_data.zone(spec.time_zone)
    return WallClockSlots(pattern, zone, elapsed=False, gap=spec.gap, overlap_hour=spec.overlap_hour)


def _local_one_off(spec: LocalOneOffSpec, zone_data: ZoneData) -> InstantSlots:
    _check_policies(spec)
    try:
        local_ms = parse_local_ms(spec.local)
    except ValueError as error:
        raise InvalidSchedule("at", spec.local, str(error), "write a local time such as 2026-03-08T02:30") from None
    _check_instant(local_ms, "at")
    zone = zone_data.zone(spec.time_zone)
    slots, dropped = resolve_local(local_ms, zone, gap=spec.gap, overlap_hour=spec.overlap_hour)
    return InstantSlots(slots, dropped)


class _UntilSlots:
    """A rule whose UNTIL is an instant: the same slots, cut off after it."""

    def __init__(self, slots: WallClockSlots, until_ms: int) -> None:
        self._slots = slots
        self._until_ms = until_ms
        self.elapsed = slots.elapsed

    def next_slot(self, after_ms: int) -> Slot | None:
        found = self._slots.next_slot(after_ms)
        return found if found is not None and found[0] <= self._until_ms else None

    def previous_slot(self, before_ms: int) -> Slot | None:
        return self._slots.previous_slot(min(before_ms, self._until_ms + 1))

    def count_slots(self, after_ms: int, until_ms: int) -> int:
        return self._slots.count_slots(after_ms, min(until_ms, self._until_ms))

    def dropped_slots(self, after_ms: int, until_ms: int) -> tuple[DroppedSlot, ...]:
        return self._slots.dropped_slots(after_ms, min(until_ms, self._until_ms))

    def shift_ms(self, slot_ms: int) -> int:
        return self._slots.shift_ms(slot_ms)


def _rrule(spec: RRuleSpec, zone_data: ZoneData) -> SlotSource:
    _check_policies(spec)
    pattern = RRulePattern(spec.rule, spec.dtstart_local)
    zone = zone_data.zone(spec.time_zone)
    slots = WallClockSlots(pattern, zone, elapsed=pattern.elapsed, gap=spec.gap, overlap_hour=spec.overlap_hour)
    if pattern.until_instant_s is None:
        return slots
    return _UntilSlots(slots, pattern.until_instant_s * 1000)
