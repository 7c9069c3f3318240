"""Validation at creation: refuse what cannot be scheduled, warn about what surprises (issue 5, item 2).

Contract: pure and bounded; raises InvalidSchedule, returns warnings with stable codes: ``both_days``, ``star_left``,
``uneven_step``, ``short_months``, ``last_day_doubled``, ``override_no_effect``, ``past``.
"""

from __future__ import annotations

import re

from streams.core.time.cron_fields import DAY, CronFields
from streams.core.time.cron_pattern import CronPattern
from streams.core.time.rejection import InvalidSchedule, Warning_
from streams.core.time.schedule import NO_JITTER, NO_WINDOW, Schedule, compile_schedule
from streams.core.time.slots import END_INSTANT_MS, FIRST_INSTANT_MS
from streams.core.time.specs import (
    CalendarSpec,
    CronSpec,
    IntervalSpec,
    Jitter,
    LocalOneOffSpec,
    OneOffSpec,
    RRuleSpec,
    ScheduleSpec,
    Window,
)
from streams.core.time.wall_clock import WallClockSlots
from streams.core.time.zone_text import utc_text
from streams.core.time.zones import INSTALLED_ZONE_DATA, ZoneData

#: Gaps between slots that are compared with the jitter window; covers a week of hours, a year of fortnights.
JITTER_GAPS_CHECKED = 200
_TIME_FIELDS = ("second", "minute", "hour")
_FIELD_NAMES = (*_TIME_FIELDS, "day of month", "month", "day of week")


def validate_spec(
    spec: ScheduleSpec,
    *,
    job_id: str,
    after_ms: int,
    window: Window = NO_WINDOW,
    jitter: Jitter = NO_JITTER,
    calendars: tuple[CalendarSpec, ...] = (),
    zone_data: ZoneData = INSTALLED_ZONE_DATA,
) -> tuple[Warning_, ...]:
    """Warnings for a schedule created at ``after_ms``. Raises InvalidSchedule naming field, text and fix."""
    _check_window(window)
    schedule = compile_schedule(
        spec, job_id=job_id, window=window, jitter=jitter, calendars=calendars, zone_data=zone_data
    )
    _check_fires(schedule, job_id, after_ms, calendars)
    _check_jitter(spec, job_id, jitter, after_ms, zone_data)
    warnings: tuple[Warning_, ...] = ()
    if isinstance(spec, CronSpec):
        fields = cron_fields_of(spec, job_id, zone_data)
        warnings += _day_warnings(spec, fields) + _time_warnings(spec, fields)
    if (
        schedule.elapsed
        and isinstance(spec, CronSpec | RRuleSpec)
        and (spec.gap, spec.overlap_hour) != ("shift", "first")
    ):
        text = f"gap={spec.gap}, overlapHour={spec.overlap_hour}"
        message = "an elapsed schedule fires at every real instant that matches; gap and overlapHour have no effect"
        warnings += (Warning_("override_no_effect", "gap", text, message),)
    if schedule.one_off:
        warnings += _past_warning(schedule, after_ms)
    return warnings


def cron_fields_of(spec: CronSpec, job_id: str, zone_data: ZoneData = INSTALLED_ZONE_DATA) -> CronFields:
    """Return the parsed fields of a cron spec, from the cache."""
    source = compile_schedule(spec, job_id=job_id, zone_data=zone_data)._source  # noqa: SLF001 - same package
    assert isinstance(source, WallClockSlots)  # noqa: S101 - a cron spec compiles to nothing else
    assert isinstance(source.pattern, CronPattern)  # noqa: S101
    return source.pattern.fields


def _check_window(window: Window) -> None:
    start, end = window.start_at_ms, window.end_at_ms
    if start is not None and end is not None and end < start:
        raise InvalidSchedule(
            "endAt", utc_text(end), f"lies before startAt {utc_text(start)}", "swap or drop one of them"
        )


def _spec_text(spec: ScheduleSpec) -> str:
    match spec:
        case CronSpec():
            return spec.expression
        case RRuleSpec():
            return spec.rule
        case LocalOneOffSpec():
            return spec.local
        case OneOffSpec():
            return utc_text(spec.at_ms)
        case IntervalSpec():
            return f"every {spec.every_ms} ms"
        case _:
            return f"every {spec.every} {spec.unit}"


def _check_fires(schedule: Schedule, job_id: str, after_ms: int, calendars: tuple[CalendarSpec, ...]) -> None:
    if schedule.first_occurrence(after_ms) is not None:
        return
    spec, text = schedule.spec, _spec_text(schedule.spec)
    bare = compile_schedule(spec, job_id=job_id, zone_data=schedule.zone_data)
    if bare.next_after(FIRST_INSTANT_MS - 1) is None:
        if isinstance(spec, CronSpec):
            fields = cron_fields_of(spec, job_id, schedule.zone_data)
            days = f"{fields.texts[3]} {fields.texts[4]} {fields.texts[5]}"
            raise InvalidSchedule(
                "day of month",
                days,
                "never fires: no month has such a day",
                "use a day that the month has, or L for its last day",
            )
        if isinstance(spec, LocalOneOffSpec):
            raise InvalidSchedule(
                "at",
                text,
                f"never fires: the clock of {spec.time_zone} skips this time",
                "use gap=shift or another time",
            )
        raise InvalidSchedule("schedule", text, "never fires", "use dates that exist between 1970 and 2199")
    if bare.first_occurrence(after_ms) is None:
        raise _refuse_ended(bare, text, after_ms)
    if calendars and compile_schedule(
        spec, job_id=job_id, window=schedule.window, zone_data=schedule.zone_data
    ).first_occurrence(after_ms):
        names = ", ".join(calendar.name for calendar in calendars)
        raise InvalidSchedule(
            "calendars", names, "never fires: they exclude every slot", "drop a calendar or change the schedule"
        )
    raise InvalidSchedule("window", text, "never fires between startAt and endAt", "widen the window")


def _refuse_ended(bare: Schedule, text: str, after_ms: int) -> InvalidSchedule:
    """Say which end has passed: the rule's own (COUNT, UNTIL), or that of all schedules."""
    last = bare.previous_before(END_INSTANT_MS)
    ended = isinstance(bare.spec, RRuleSpec) and re.search("COUNT|UNTIL", bare.spec.rule.upper()) is not None
    reason = f"never fires after {utc_text(after_ms)}" + (f": its last was {utc_text(last.at_ms)}" if last else "")
    fix = "use a later UNTIL or a larger COUNT" if ended else "use an instant before 2200: no schedule goes further"
    return InvalidSchedule("schedule", text, reason, fix)


def _check_jitter(spec: ScheduleSpec, job_id: str, jitter: Jitter, after_ms: int, zone_data: ZoneData) -> None:
    if jitter.kind == "none":
        return
    if jitter.window_ms < 1:
        raise InvalidSchedule(
            "jitter", f"{jitter.window_ms} ms", "is no window", "use a positive number of milliseconds"
        )
    bare = compile_schedule(spec, job_id=job_id, zone_data=zone_data)
    slot = bare.first_occurrence(after_ms)
    for _ in range(JITTER_GAPS_CHECKED):
        following = None if slot is None else bare.next_after(slot.at_ms)
        if slot is None or following is None:
            return
        gap_ms = following.at_ms - slot.at_ms
        if jitter.window_ms >= gap_ms:
            raise InvalidSchedule(
                "jitter",
                f"{jitter.window_ms} ms",
                f"is not smaller than the {gap_ms} ms between {utc_text(slot.at_ms)} and the next slot",
                f"use less than {gap_ms} ms",
            )
        slot = following


def _day_warnings(spec: CronSpec, fields: CronFields) -> tuple[Warning_, ...]:
    day, weekday = fields.texts[3], fields.texts[5]
    found: list[Warning_] = []
    if not fields.days_both:
        message = (
            f"both day fields are restricted, so it runs on days of the month {day} or on weekdays {weekday}, "
            "whichever comes; for days that match both, begin one of the two fields with *"
        )
        found.append(Warning_("both_days", "day of week", spec.expression, message))
    explicit = set(fields.days) if len(fields.days) < 31 else set()
    if 0 in fields.day_rules.last_offsets and explicit & {28, 29, 30}:
        message = (
            "L and a day from 28 to 30 both fire in longer months; 30L means the "
            "30th, or the last day of a shorter month"
        )
        found.append(Warning_("last_day_doubled", DAY.name, day, message))
    if explicit and min(explicit) > 28 and not any(fields.day_rules) and fields.days_both:
        message = (
            f"months without day {min(explicit)} produce nothing; L is the last "
            f"day, {min(explicit)}L the day or the last"
        )
        found.append(Warning_("short_months", DAY.name, day, message))
    return tuple(found)


def _time_warnings(spec: CronSpec, fields: CronFields) -> tuple[Warning_, ...]:
    found: list[Warning_] = []
    six = len(spec.expression.split()) == 6
    for index in range(0 if six else 1, 3):
        name, text = _FIELD_NAMES[index], fields.texts[index]
        restricted = [_FIELD_NAMES[k] for k in range(index + 1, 6) if fields.texts[k] != "*"]
        if text == "*" and restricted:
            runs = len(fields.seconds) * len(fields.minutes) * len(fields.hours)
            message = (
                f"runs at every {name} of a restricted {restricted[0]}: {runs} runs on "
                f"each matching day; write 0 for once"
            )
            found.append(Warning_("star_left", name, spec.expression, message))
            break
    for index, size in ((0, 60), (1, 60), (2, 24)):
        text = fields.texts[index]
        step = text[2:] if text.startswith("*/") else ""
        if step.isdigit() and size % int(step):
            unit = _TIME_FIELDS[index]
            message = (
                f"{text} starts again at every full {('minute', 'hour', 'day')[index]}, so the last step is shorter; "
                f"for every {step} {unit}s of elapsed time use the interval schedule"
            )
            found.append(Warning_("uneven_step", unit, text, message))
    return tuple(found)


def _past_warning(schedule: Schedule, after_ms: int) -> tuple[Warning_, ...]:
    first = schedule.first_occurrence(after_ms)
    if first is None or first.at_ms > after_ms:
        return ()
    message = f"{utc_text(first.at_ms)} has passed; it is due at once"
    return (Warning_("past", "at", _spec_text(schedule.spec), message),)
