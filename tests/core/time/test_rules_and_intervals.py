"""RRULE against dateutil's plain walk, calendar intervals, one-offs, and the zone rules on each of them."""

from __future__ import annotations

from calendar import monthrange
from collections import Counter
from datetime import date, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Any

import msgspec
import pytest
from dateutil import rrule as dateutil_rrule
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.core.time import (
    CalendarIntervalSpec,
    CronSpec,
    IntervalSpec,
    LocalOneOffSpec,
    RRuleSpec,
    ScheduleSpec,
    compile_schedule,
    utc_text,
)
from streams.core.time.calendar_pattern import CalendarPattern
from streams.core.time.civil import day_number
from streams.core.time.rrule_pattern import RRulePattern

EPOCH = datetime.fromisoformat("1970-01-01")  # wall clock: rules are naive

RULES = [
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=3",
    "FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0,30",
    "FREQ=WEEKLY;BYDAY=MO,WE,FR",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
    "FREQ=WEEKLY;INTERVAL=5",
    "FREQ=MONTHLY",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;INTERVAL=5;BYDAY=2TU",
    "FREQ=MONTHLY;BYMONTHDAY=-1",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR",
    "FREQ=YEARLY",
    "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
    "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
    "FREQ=YEARLY;BYYEARDAY=1,100,-1",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=HOURLY;INTERVAL=7",
    "FREQ=HOURLY;BYMINUTE=0,20,40;BYHOUR=9,10,11",
    "FREQ=MINUTELY;INTERVAL=45",
    "FREQ=MINUTELY;INTERVAL=7;BYMONTH=3;BYDAY=MO",
    "FREQ=HOURLY;INTERVAL=5;BYMONTHDAY=1,-1;BYMINUTE=10,50",
    "FREQ=DAILY;INTERVAL=2;BYMONTH=1,2",
    "FREQ=DAILY;BYDAY=SA,SU;BYMONTH=6",
    "FREQ=YEARLY;BYMONTH=1,7",
    "FREQ=YEARLY;BYDAY=20MO",
    "FREQ=WEEKLY;BYMONTH=1",
    "FREQ=DAILY;COUNT=100",
    "FREQ=MONTHLY;BYMONTHDAY=31;COUNT=20",
    "FREQ=DAILY;UNTIL=20290301T120000",
    "FREQ=DAILY;UNTIL=20290301",
]


def plain_walk(rule: str, start: datetime, end: datetime) -> list[int]:
    """All matches from dateutil's own reading of the text, walked from DTSTART."""
    # A date alone means its whole day to us; dateutil reads it as midnight.
    text = f"{rule}T235959" if rule.endswith("UNTIL=20290301") else rule
    found = takewhile(lambda value: value <= end, dateutil_rrule.rrulestr(text, dtstart=start))
    return [(value - EPOCH) // timedelta(seconds=1) for value in found]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("start", ["2024-01-31T09:30:15", "2023-12-31T23:59:00"])
def test_rules_equal_a_plain_walk_with_dateutil(rule: str, start: str) -> None:
    """Our anchoring near the asked instant never changes a match, whatever INTERVAL, WKST or BYSETPOS say."""
    began = datetime.fromisoformat(start)
    days = 400 if "HOURLY" in rule or "MINUTELY" in rule else 2_500
    expected = plain_walk(rule, began, began + timedelta(days=days))
    pattern = RRulePattern(rule, start)

    assert pattern.next_local(expected[0] - 1) == expected[0]
    assert pattern.previous_local(expected[0]) is None
    for before, after in pairwise(expected):
        assert pattern.next_local(before) == after
        assert pattern.previous_local(after) == before
    for index in range(0, len(expected), max(len(expected) // 25, 1)):
        assert pattern.previous_local(expected[index] + 1) == expected[index]
        assert pattern.count_local(expected[index], expected[-1] + 1) == len(expected) - index
        assert pattern.count_local(expected[0] + 1, expected[index]) == max(index - 1, 0)


def test_a_rule_keeps_its_local_time_over_the_change(ms: Any) -> None:
    spec = RRuleSpec("RRULE:FREQ=WEEKLY;BYDAY=SU", "2026-03-01T02:30", "America/New_York")
    found = [utc_text(o.at_ms) for o in compile_schedule(spec, job_id="j").iter_between(0, ms("2026-03-16T00:00Z"))]

    assert found == ["2026-03-01T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-15T06:30:00Z"]


def test_an_hourly_rule_is_elapsed(ms: Any) -> None:
    spec = RRuleSpec("FREQ=HOURLY", "2026-01-01T00:30", "America/New_York")
    schedule = compile_schedule(spec, job_id="j")

    assert schedule.elapsed
    start = ms("2026-11-01T03:45Z")
    found = [o.at_ms - start for o in schedule.iter_between(start, start + 5 * 3_600_000)]
    assert found == [45 * 60_000 + k * 3_600_000 for k in range(5)]


def test_until_in_utc_is_an_instant_and_until_without_z_is_local(ms: Any) -> None:
    instant = RRuleSpec("FREQ=DAILY;UNTIL=20260105T080000Z", "2026-01-03T09:00", "Europe/Berlin")
    earlier = RRuleSpec("FREQ=DAILY;UNTIL=20260105T075959Z", "2026-01-03T09:00", "Europe/Berlin")
    local = RRuleSpec("FREQ=DAILY;UNTIL=20260105T090000", "2026-01-03T09:00", "Europe/Berlin")
    end = ms("2027-01-01T00:00Z")

    counts = []
    for spec in (instant, earlier, local):
        schedule = compile_schedule(spec, job_id="j")
        counts.append(schedule.count_between(0, end))
        assert len(list(schedule.iter_between(0, end))) == counts[-1]
        last = schedule.previous_before(end)
        assert last is not None
        assert schedule.next_after(last.at_ms) is None
    assert counts == [3, 2, 3]


CALENDAR_CASES: list[tuple[str, CalendarIntervalSpec, list[str]]] = [
    (
        "day",
        CalendarIntervalSpec("day", 2, "02:30", "2026-03-06", "America/New_York"),
        ["2026-03-06T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-10T06:30:00Z"],
    ),
    (
        "day skip",
        CalendarIntervalSpec("day", 2, "02:30", "2026-03-06", "America/New_York", "skip"),
        ["2026-03-06T07:30:00Z", "2026-03-10T06:30:00Z"],
    ),
    (
        "week",
        CalendarIntervalSpec("week", 2, "16:00", "2019-03-26", "Europe/Brussels"),
        ["2019-03-26T15:00:00Z", "2019-04-09T14:00:00Z"],
    ),
    (
        "month end",
        CalendarIntervalSpec("month", 1, "09:00", "2026-01-31"),
        ["2026-01-31T09:00:00Z", "2026-02-28T09:00:00Z", "2026-03-31T09:00:00Z"],
    ),
    (
        "quarter",
        CalendarIntervalSpec("month", 3, "00:00:30", "2026-01-15"),
        ["2026-01-15T00:00:30Z", "2026-04-15T00:00:30Z"],
    ),
]


@pytest.mark.parametrize(
    ("spec", "expected"), [case[1:] for case in CALENDAR_CASES], ids=[case[0] for case in CALENDAR_CASES]
)
def test_calendar_intervals_keep_the_local_time(spec: CalendarIntervalSpec, expected: list[str]) -> None:
    schedule = compile_schedule(spec, job_id="j")
    first = schedule.next_after(0)
    assert first is not None
    found, at_ms = [first.at_ms], first.at_ms
    while len(found) < len(expected):
        following = schedule.next_after(at_ms)
        assert following is not None
        at_ms = following.at_ms
        found.append(at_ms)

    assert [utc_text(at) for at in found] == expected
    assert schedule.previous_before(found[0]) is None


@settings(deadline=None)  # a busy machine is no failure
@given(
    unit=st.sampled_from(["day", "week", "month"]),
    every=st.integers(1, 40),
    anchor=st.dates(min_value=date(1990, 1, 1), max_value=date(2030, 12, 31)),
    second=st.integers(0, 86_399),
    probe=st.integers(-(10**9), 4 * 10**9),
)
def test_calendar_pattern_agrees_with_its_own_list(unit: Any, every: int, anchor: Any, second: int, probe: int) -> None:
    pattern = CalendarPattern(unit, every, day_number(anchor), second)
    listed = []
    year, month = anchor.year, anchor.month
    for step in range(60):
        if unit == "month":
            index = year * 12 + month - 1 + step * every
            last = monthrange(index // 12, index % 12 + 1)[1]
            day = date(index // 12, index % 12 + 1, min(anchor.day, last))
        else:
            day = anchor + timedelta(days=step * every * (7 if unit == "week" else 1))
        listed.append(day_number(day) * 86_400 + second)
    bounded = min(probe, listed[-1] - 1)

    assert pattern.next_local(bounded) == next(at for at in listed if at > bounded)
    assert pattern.previous_local(bounded) == next((at for at in reversed(listed) if at < bounded), None)
    assert pattern.count_local(listed[0], bounded) == sum(at < bounded for at in listed)


@settings(deadline=None)  # a busy machine is no failure
@given(
    every=st.integers(100, 10**9),
    anchor=st.integers(0, 10**12),
    after=st.integers(0, 10**12),
    span=st.integers(0, 10**9),
)
def test_interval_arithmetic(every: int, anchor: int, after: int, span: int) -> None:
    schedule = compile_schedule(IntervalSpec(every, anchor), job_id="j")
    following = schedule.next_after(after)

    assert following is not None
    assert following.at_ms > after
    assert (following.at_ms - anchor) % every == 0
    assert following.at_ms - every <= after or following.at_ms == anchor
    before = schedule.previous_before(following.at_ms)
    assert (before.at_ms if before else None) == (following.at_ms - every if following.at_ms > anchor else None)
    first = max(0, -((anchor - after - 1) // every))
    assert schedule.count_between(after, after + span) == max((after + span - anchor) // every - first + 1, 0)


LOCAL_CASES: list[tuple[str, LocalOneOffSpec, list[str]]] = [
    ("plain", LocalOneOffSpec("2026-07-01T09:00", "Europe/Berlin"), ["2026-07-01T07:00:00Z"]),
    ("gap", LocalOneOffSpec("2026-03-08T02:30:00.500", "America/New_York"), ["2026-03-08T07:00:00Z"]),
    ("first pass", LocalOneOffSpec("2026-11-01T01:30", "America/New_York"), ["2026-11-01T05:30:00Z"]),
    (
        "second pass",
        LocalOneOffSpec("2026-11-01T01:30", "America/New_York", "shift", "second"),
        ["2026-11-01T06:30:00Z"],
    ),
    (
        "both",
        LocalOneOffSpec("2026-11-01T01:30", "America/New_York", "shift", "both"),
        ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"],
    ),
    ("millis", LocalOneOffSpec("2026-07-01T09:00:00.007", "Europe/Berlin"), ["2026-07-01T07:00:00.007Z"]),
    ("half hour", LocalOneOffSpec("2024-10-06T02:15", "Australia/Lord_Howe"), ["2024-10-05T15:30:00Z"]),
]


@pytest.mark.parametrize(
    ("spec", "expected"), [case[1:] for case in LOCAL_CASES], ids=[case[0] for case in LOCAL_CASES]
)
def test_local_one_offs(spec: LocalOneOffSpec, expected: list[str]) -> None:
    schedule = compile_schedule(spec, job_id="j")
    found = [o.at_ms for o in schedule.iter_between(0, 4 * 10**12)]

    assert [utc_text(at) for at in found] == expected
    assert schedule.count_between(0, 4 * 10**12) == len(expected)
    last = schedule.previous_before(4 * 10**12)
    assert last is not None
    assert last.at_ms == found[-1]


def test_a_dropped_one_off_is_recorded(ms: Any) -> None:
    schedule = compile_schedule(LocalOneOffSpec("2011-12-30T12:00", "Pacific/Apia"), job_id="j")

    assert schedule.next_after(0) is None
    dropped = schedule.dropped_between(0, ms("2030-01-01T00:00Z"))
    assert [(drop.local, drop.reason) for drop in dropped] == [("2011-12-30T12:00:00", "gap")]


DESCRIBED: list[tuple[ScheduleSpec, str]] = [
    (IntervalSpec(5_400_000, 0), "every 1 h 30 min of elapsed time"),
    (CalendarIntervalSpec("week", 2, "16:00", "2026-01-06"), "every 2 weeks at 16:00 local time"),
    (LocalOneOffSpec("2026-07-01T09:00", "Europe/Berlin"), "once, at 2026-07-01T09:00 local time, Europe/Berlin"),
    (RRuleSpec("FREQ=DAILY", "2026-01-01T09:00"), "rule 'FREQ=DAILY'"),
]


@pytest.mark.parametrize(("spec", "words"), DESCRIBED)
def test_schedules_in_words(spec: ScheduleSpec, words: str) -> None:
    assert words in compile_schedule(spec, job_id="j").describe()


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Niue"])
@pytest.mark.parametrize(
    "spec",
    [
        RRuleSpec("FREQ=DAILY", "2026-01-01T09:00"),
        RRuleSpec("FREQ=MINUTELY;INTERVAL=7", "2026-01-01T09:00"),
        RRuleSpec("FREQ=YEARLY;COUNT=9", "2026-01-01T09:00"),
        CronSpec("0 9 * * *"),
        CalendarIntervalSpec("month", 1, "09:00", "2026-01-31"),
    ],
)
def test_questions_about_the_ends_of_time_have_answers(spec: Any, zone: str) -> None:
    """The last day of the year 9999 was an OverflowError in zones east of Greenwich."""
    schedule = compile_schedule(msgspec.structs.replace(spec, time_zone=zone), job_id="j")
    first_ms, last_ms = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999

    assert schedule.next_after(last_ms) is None
    assert schedule.previous_before(first_ms) is None
    assert schedule.next_after(first_ms) is not None
    assert schedule.previous_before(last_ms) is not None
    assert schedule.count_between(first_ms, last_ms) > 0


@pytest.mark.timeout(60)
def test_a_rule_with_count_computes_each_day_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asked for the times of a day once for each match: 10,000 matches took a second of the owner's loop."""
    asked = Counter[int]()
    plain = RRulePattern._stepped_times

    def count(self: RRulePattern, day: int) -> tuple[int, ...]:
        asked[day] += 1
        return plain(self, day)

    monkeypatch.setattr(RRulePattern, "_stepped_times", count)
    pattern = RRulePattern("FREQ=MINUTELY;INTERVAL=7;COUNT=10000", "2026-01-01T09:03")

    assert max(asked.values()) == 1
    last = pattern.previous_local(2**33)
    assert last == pattern.start_s + 9_999 * 7 * 60
    assert pattern.next_local(last) is None
