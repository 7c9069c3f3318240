"""Schedules in words, for ``explain`` and the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core.time.cron_fields import MONTH_NAMES, WEEKDAY_NAMES, CronFields
from streams.core.time.cron_pattern import CronPattern
from streams.core.time.specs import (
    CalendarIntervalSpec,
    CronSpec,
    IntervalSpec,
    Jitter,
    LocalOneOffSpec,
    OneOffSpec,
    ScheduleSpec,
    Window,
)
from streams.core.time.wall_clock import WallClockSlots
from streams.core.time.zone_text import utc_text

if TYPE_CHECKING:
    from streams.core.time.slots import SlotSource

#: Times of day are listed up to this many; beyond it the fields are named one by one.
_TIMES_LISTED_MAX = 6

_GAP_WORDS = {
    "shift": "a time in a skipped hour fires at the first instant after it",
    "skip": "a time in a skipped hour is dropped and recorded",
}
_OVERLAP_WORDS = {
    "first": "a time in a repeated hour fires on the first pass only",
    "second": "a time in a repeated hour fires on the second pass only",
    "both": "a time in a repeated hour fires on both passes",
}


def describe_spec(spec: ScheduleSpec, source: SlotSource, job_id: str, window: Window, jitter: Jitter) -> str:
    """Return the rule in one or two sentences."""
    text = _rule_words(spec, source, job_id)
    if not isinstance(spec, IntervalSpec | OneOffSpec):
        text += f", {spec.time_zone}; "
        if source.elapsed:
            text += "fires at every real instant that matches, in skipped and repeated hours too"
        else:
            text += f"{_GAP_WORDS[spec.gap]}, {_OVERLAP_WORDS[spec.overlap_hour]}"
    if window.start_at_ms is not None:
        text += f"; from {utc_text(window.start_at_ms)}"
    if window.end_at_ms is not None:
        text += f"; until {utc_text(window.end_at_ms)}"
    if jitter.kind != "none":
        each = "the same for every run" if jitter.kind == "job" else "its own for every run"
        text += f"; delayed by less than {jitter.window_ms / 1000:g} s, {each}"
    return text


def _rule_words(spec: ScheduleSpec, source: SlotSource, job_id: str) -> str:
    match spec:
        case CronSpec() if isinstance(source, WallClockSlots) and isinstance(source.pattern, CronPattern):
            hashed = f" (H from job {job_id})" if job_id else ""
            return f"cron {spec.expression.strip()!r}{hashed}: {cron_words(source.pattern.fields)}"
        case IntervalSpec():
            return f"every {duration_words(spec.every_ms)} of elapsed time, counted from {utc_text(spec.anchor_ms)}"
        case CalendarIntervalSpec():
            plural = "" if spec.every == 1 else "s"
            return f"every {spec.every} {spec.unit}{plural} at {spec.local_time} local time, from {spec.anchor_date}"
        case OneOffSpec():
            return f"once, at {utc_text(spec.at_ms)}"
        case LocalOneOffSpec():
            return f"once, at {spec.local} local time"
        case _:
            return f"rule {getattr(spec, 'rule', '')!r} from {getattr(spec, 'dtstart_local', '')} local time"


def duration_words(duration_ms: int) -> str:
    """``1 h 30 min``, ``1.5 s``."""
    parts = []
    for name, unit in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        amount, duration_ms = divmod(duration_ms, unit)
        if amount:
            parts.append(f"{amount} {name}")
    if duration_ms or not parts:
        parts.append(f"{duration_ms / 1000:g} s")
    return " ".join(parts)


def cron_words(fields: CronFields) -> str:
    """Return times of day, then days."""
    return f"{_time_words(fields)} {_day_words(fields)}".strip()


def _time_words(fields: CronFields) -> str:
    if len(fields.hours) * len(fields.minutes) * len(fields.seconds) <= _TIMES_LISTED_MAX:
        with_seconds = fields.seconds != (0,)
        times = [
            f"{hour:02d}:{minute:02d}" + (f":{second:02d}" if with_seconds else "")
            for hour in fields.hours
            for minute in fields.minutes
            for second in fields.seconds
        ]
        return f"at {', '.join(times)}"
    words = []
    if fields.seconds != (0,):
        words.append("every second" if len(fields.seconds) == 60 else f"at second {_numbers(fields.seconds)}")
    words.append("every minute" if len(fields.minutes) == 60 else f"at minute {_numbers(fields.minutes)}")
    words.append("of every hour" if len(fields.hours) == 24 else f"of hour {_numbers(fields.hours)}")
    return " ".join(words)


def _day_words(fields: CronFields) -> str:
    all_days = len(fields.days) == 31
    all_weekdays = len(fields.weekdays) == 7
    days = "" if all_days else f"on day {_month_days(fields)} of the month"
    weekdays = "" if all_weekdays else f"on {_week_days(fields)}"
    if fields.days_both:
        text = " that is also ".join(part for part in (days, weekdays) if part) or "every day"
    else:
        days = days or "on every day of the month"
        text = f"{days} or {weekdays or 'on every weekday'}"
    if len(fields.months) < 12:
        text += f" in {', '.join(MONTH_NAMES[month - 1].title() for month in fields.months)}"
    return text


def _month_days(fields: CronFields) -> str:
    rules = fields.day_rules
    words = [_numbers(fields.days)] if fields.days else []
    words += [f"{offset} before the last" if offset else "last" for offset in sorted(rules.last_offsets)]
    words += [f"the weekday nearest to {day}" for day in sorted(rules.nearest)]
    words += ["the last weekday"] if rules.last_weekday else []
    words += [f"{day} (or the last, if there is no {day})" for day in sorted(rules.capped)]
    return ", ".join(words)


def _week_days(fields: CronFields) -> str:
    words = [WEEKDAY_NAMES[day].title() for day in fields.weekdays]
    words += [f"{WEEKDAY_NAMES[day].title()} number {n} of the month" for day, n in sorted(fields.day_rules.nth)]
    words += [f"the last {WEEKDAY_NAMES[day].title()} of the month" for day in sorted(fields.day_rules.last_of)]
    return ", ".join(words)


def _numbers(values: tuple[int, ...]) -> str:
    """``0-4, 10``: runs of three or more as ranges."""
    words: list[str] = []
    index = 0
    while index < len(values):
        end = index
        while end + 1 < len(values) and values[end + 1] == values[end] + 1:
            end += 1
        if end - index >= 2:
            words.append(f"{values[index]}-{values[end]}")
        else:
            words += [str(value) for value in values[index : end + 1]]
        index = end + 1
    return ", ".join(words)
