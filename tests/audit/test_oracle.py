"""The checker's own oracle against cronsim, and against times worked out by hand around daylight saving."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.audit.oracle import occurrences
from streams.core.definition import Definition
from streams.core.time import CalendarIntervalSpec, CronSpec, IntervalSpec, LocalOneOffSpec, OneOffSpec, RRuleSpec

HOUR_MS = 3_600_000


def job(schedule: Any, **options: Any) -> Definition:
    return Definition(job_id="j", tenant="t", queue="q", name="j", task="j", schedule=schedule, **options)


def at(text: str) -> int:
    return int(dt.datetime.fromisoformat(text).timestamp() * 1000)


def texts(schedule: Any, after: str, until: str, **options: Any) -> list[str]:
    found = occurrences(job(schedule, **options), at(after), at(until))
    assert found is not None
    return [f"{dt.datetime.fromtimestamp(at_ms / 1000, tz=dt.UTC):%m-%dT%H:%M:%S}" for at_ms in found]


MINUTES = st.sampled_from(["0", "30", "*/7", "5-20/5", "1,2,59", "*", "10-12"])
HOURS = st.sampled_from(["0", "2", "*/3", "1-4", "*", "1,2,3", "23"])
DAYS = st.sampled_from(["*", "1", "29", "15-20", "*/10"])
WEEKDAYS = st.sampled_from(["*", "MON-FRI", "SUN", "0", "7", "1,3"])
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
STARTS = st.sampled_from(
    ["2026-03-28T12:00+00:00", "2026-10-24T12:00+00:00", "2026-03-07T12:00+00:00", "2026-11-01T00:00+00:00"]
)


@settings(deadline=None)  # walking minutes is slow on purpose, and a busy machine is slower
@given(minute=MINUTES, hour=HOURS, day=DAYS, weekday=WEEKDAYS, zone=ZONES, start=STARTS)
def test_it_agrees_with_cronsim(*, minute: str, hour: str, day: str, weekday: str, zone: str, start: str) -> None:
    expression = f"{minute} {hour} {day} * {weekday}"
    from_ms = at(start)
    until_ms = from_ms + 40 * HOUR_MS
    clock = dt.datetime.fromtimestamp(from_ms / 1000, tz=ZoneInfo(zone))
    expected = []
    for moment in CronSim(expression, clock):
        at_ms = int(moment.timestamp() * 1000)
        if at_ms > until_ms:
            break
        expected.append(at_ms)

    assert occurrences(job(CronSpec(expression, zone)), from_ms, until_ms) == sorted(set(expected))


def test_a_time_inside_a_gap_fires_at_its_end() -> None:
    night = ("2026-03-29T00:00+00:00", "2026-03-29T03:00+00:00")

    assert texts(CronSpec("30 2 * * *", "Europe/Berlin"), *night) == ["03-29T01:00:00"]
    assert texts(CronSpec("30 2 * * *", "Europe/Berlin", gap="skip"), *night) == []
    assert texts(CronSpec("15,45 2,3 * * *", "Europe/Berlin"), *night) == [
        "03-29T01:00:00",
        "03-29T01:15:00",
        "03-29T01:45:00",
    ]


def test_a_time_inside_a_repeated_hour_fires_on_the_pass_asked_for() -> None:
    night = ("2026-10-25T00:00+00:00", "2026-10-25T03:00+00:00")

    assert texts(CronSpec("30 2 * * *", "Europe/Berlin"), *night) == ["10-25T00:30:00"]
    assert texts(CronSpec("30 2 * * *", "Europe/Berlin", overlap_hour="second"), *night) == ["10-25T01:30:00"]
    assert texts(CronSpec("30 2 * * *", "Europe/Berlin", overlap_hour="both"), *night) == [
        "10-25T00:30:00",
        "10-25T01:30:00",
    ]


def test_elapsed_schedules_fire_at_every_real_instant() -> None:
    assert (
        len(texts(CronSpec("*/30 * * * *", "Europe/Berlin"), "2026-10-25T00:00+00:00", "2026-10-25T03:00+00:00")) == 6
    )
    assert (
        len(texts(CronSpec("*/30 * * * *", "Europe/Berlin"), "2026-03-29T00:00+00:00", "2026-03-29T03:00+00:00")) == 6
    )


def test_six_fields_begin_with_seconds() -> None:
    assert texts(CronSpec("15 */20 * * * *"), "2026-06-01T00:00+00:00", "2026-06-01T00:30+00:00") == [
        "06-01T00:00:15",
        "06-01T00:20:15",
    ]


def test_intervals_and_one_offs() -> None:
    start, end = "2026-06-01T00:00:00+00:00", "2026-06-01T00:02:00+00:00"
    every = IntervalSpec(every_ms=60_000, anchor_ms=at(start) - 15_000)

    assert texts(every, start, end) == ["06-01T00:00:45", "06-01T00:01:45"]
    assert texts(IntervalSpec(every_ms=60_000, anchor_ms=at(end)), start, end) == ["06-01T00:02:00"]
    assert texts(OneOffSpec(at(end)), start, end) == ["06-01T00:02:00"]
    assert texts(OneOffSpec(at(start)), start, end) == []


def test_a_local_one_off_inside_a_gap_fires_at_its_end() -> None:
    night = ("2026-03-29T00:00+00:00", "2026-03-29T03:00+00:00")

    assert texts(LocalOneOffSpec("2026-03-29T02:30", "Europe/Berlin"), *night) == ["03-29T01:00:00"]
    assert texts(LocalOneOffSpec("2026-03-29T03:30", "Europe/Berlin"), *night) == ["03-29T01:30:00"]


def test_calendar_intervals_use_the_last_day_of_short_months() -> None:
    monthly = CalendarIntervalSpec("month", 1, "09:00", "2026-01-31")

    assert texts(monthly, "2026-01-01T00:00+00:00", "2026-05-01T00:00+00:00") == [
        "01-31T09:00:00",
        "02-28T09:00:00",
        "03-31T09:00:00",
        "04-30T09:00:00",
    ]


def test_the_window_includes_both_ends() -> None:
    start, end = "2026-06-01T00:00+00:00", "2026-06-01T06:00+00:00"
    options = {"start_at_ms": at("2026-06-01T02:00+00:00"), "end_at_ms": at("2026-06-01T04:00+00:00")}

    assert texts(CronSpec("0 * * * *"), start, end, **options) == ["06-01T02:00:00", "06-01T03:00:00", "06-01T04:00:00"]


@pytest.mark.parametrize(
    "schedule",
    [
        CronSpec("H * * * *"),
        CronSpec("0 0 L * *"),
        CronSpec("0 0 * * 5#2"),
        CronSpec("5/15 * * * *"),
        CronSpec("0 0 ? * 1"),
        CronSpec("0 0 * *"),
        CronSpec("61 * * * *"),
        CronSpec("0 0 * * *", "Nowhere/Here"),
        CronSpec("*/5 * * * *", gap="skip"),
        RRuleSpec("FREQ=DAILY", "2026-01-01T00:00"),
    ],
)
def test_what_it_does_not_know_it_refuses(schedule: Any) -> None:
    assert occurrences(job(schedule), at("2026-06-01T00:00+00:00"), at("2026-06-02T00:00+00:00")) is None


def test_calendars_and_jitter_are_refused() -> None:
    hourly, day = CronSpec("0 * * * *"), (at("2026-06-01T00:00+00:00"), at("2026-06-02T00:00+00:00"))

    assert occurrences(job(hourly, calendars=("holidays",)), *day) is None
    assert occurrences(job(hourly, jitter_ms=1_000, jitter_kind="job"), *day) is None
    assert len(occurrences(job(hourly, jitter_ms=1_000), *day) or []) == 24
