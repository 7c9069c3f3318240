"""Rules of time (DESIGN section 9): schedules as data, their occurrences, and why.

Contract: pure. No clock, no asyncio, no randomness, no host zone; instants are ms since 1970-01-01T00:00Z. Preview and
execution use the same ``compile_schedule``.
"""

from __future__ import annotations

from streams.core.time.durations import parse_duration_ms
from streams.core.time.exclusions import check_calendar, compiled_calendar
from streams.core.time.irregular import IrregularNight, irregular_nights
from streams.core.time.rejection import InvalidSchedule, Warning_
from streams.core.time.schedule import Schedule, compile_schedule
from streams.core.time.specs import (
    CalendarIntervalSpec,
    CalendarSpec,
    CalendarUnit,
    CronSpec,
    DroppedSlot,
    GapPolicy,
    IntervalSpec,
    Jitter,
    LocalOneOffSpec,
    Occurrence,
    OneOffSpec,
    OverlapHour,
    RRuleSpec,
    ScheduleSpec,
    Window,
)
from streams.core.time.upgrade import CursorMove, recompute_cursor
from streams.core.time.validation import validate_spec
from streams.core.time.zone_text import utc_text
from streams.core.time.zones import INSTALLED_ZONE_DATA, ZoneData

__all__ = [
    "INSTALLED_ZONE_DATA",
    "CalendarIntervalSpec",
    "CalendarSpec",
    "CalendarUnit",
    "CronSpec",
    "CursorMove",
    "DroppedSlot",
    "GapPolicy",
    "IntervalSpec",
    "InvalidSchedule",
    "IrregularNight",
    "Jitter",
    "LocalOneOffSpec",
    "Occurrence",
    "OneOffSpec",
    "OverlapHour",
    "RRuleSpec",
    "Schedule",
    "ScheduleSpec",
    "Warning_",
    "Window",
    "ZoneData",
    "check_calendar",
    "compile_schedule",
    "compiled_calendar",
    "irregular_nights",
    "parse_duration_ms",
    "recompute_cursor",
    "utc_text",
    "validate_spec",
]
