"""Windows, exclusion calendars and jitter on top of slots: the layers agree with a plain filter over the bare slots."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.core.time import (
    CalendarSpec,
    CronSpec,
    DroppedSlot,
    IntervalSpec,
    Jitter,
    Occurrence,
    OneOffSpec,
    Schedule,
    ScheduleSpec,
    Window,
    compile_schedule,
    utc_text,
)

START = 1_792_800_000_000  # 2026-10-24, with the European and the American change in the following nine days
END = START + 10 * 86_400_000
SPECS: list[ScheduleSpec] = [
    CronSpec("30 1,2 * * *", "Europe/Berlin"),
    CronSpec("*/20 * * * *", "America/New_York"),
    CronSpec("0 0 */2 * * *", "Australia/Lord_Howe"),
    IntervalSpec(5_400_000, START - 1),
]
CALENDARS = [
    (),
    (CalendarSpec("days", "Europe/Berlin", dates=("2026-10-25", "2026-10-28")),),
    (CalendarSpec("nights", "America/New_York", rules=("* 0-5 * * *",)),),
    (
        CalendarSpec(
            "both",
            "Asia/Tokyo",
            dates=("2026-10-30",),
            rules=("*/30 12 * * 1-5", "DTSTART:2026-10-01;FREQ=WEEKLY;BYDAY=SU"),
        ),
        CalendarSpec("again", "UTC", dates=("2026-10-30", "2026-10-31")),
    ),
]  # fmt: skip


def excluded(calendars: tuple[CalendarSpec, ...], at_ms: int, zones: Any) -> bool:
    """Plain reading of the calendars above, minute by minute, with the standard library's zones."""
    for calendar in calendars:
        local = datetime.fromtimestamp(at_ms / 1000, zones(calendar.time_zone))
        if local.date().isoformat() in calendar.dates:
            return True
        for rule in calendar.rules:
            night = rule == "* 0-5 * * *" and local.hour <= 5
            noon = rule.startswith("*/30") and local.hour == 12 and local.minute % 30 == 0 and local.isoweekday() <= 5
            sunday = rule.startswith("DTSTART") and local.isoweekday() == 7
            if night or noon or sunday:
                return True
    return False


@settings(max_examples=60, deadline=None)
@given(
    spec=st.sampled_from(SPECS),
    calendars=st.sampled_from(CALENDARS),
    jitter=st.sampled_from(
        [Jitter(), Jitter("job", 600_000), Jitter("occurrence", 600_000), Jitter("occurrence", 10**10)]
    ),
    edges=st.tuples(st.integers(0, 3 * 86_400_000), st.integers(4 * 86_400_000, 9 * 86_400_000)),
    probe=st.integers(0, 10 * 86_400_000),
)
def test_layers_equal_a_plain_filter(
    *, spec: ScheduleSpec, calendars: Any, jitter: Jitter, edges: tuple[int, int], probe: int, zone_of: Any
) -> None:
    window = Window(START + edges[0], START + edges[1])
    schedule = compile_schedule(spec, job_id="job-1", window=window, jitter=jitter, calendars=calendars)
    bare = compile_schedule(spec, job_id="job-1").iter_between(START + edges[0] - 1, START + edges[1])
    slots = [o.slot_ms for o in bare if not excluded(calendars, o.slot_ms, zone_of)]

    found = list(schedule.iter_between(0, END + 10**11))
    assert [o.slot_ms for o in found] == slots
    instants = [o.at_ms for o in found]
    assert instants == sorted(set(instants))
    assert all(0 <= o.at_ms - o.slot_ms < max(jitter.window_ms, 1) for o in found)
    after = START + probe
    assert schedule.count_between(after, END) == sum(after < at <= END for at in instants)
    following, before = schedule.next_after(after), schedule.previous_before(after)
    assert (following and following.at_ms) == next((at for at in instants if at > after), None)
    assert (before and before.at_ms) == next((at for at in reversed(instants) if at < after), None)
    latest = schedule.latest_in(START, after)
    assert (latest and latest.at_ms) == next((at for at in reversed(instants) if START < at <= after), None)


def reported(schedule: Schedule, after_ms: int, until_ms: int) -> list[DroppedSlot]:
    found: list[Occurrence] = list(schedule.iter_between(after_ms, until_ms))
    return [record for occurrence in found for record in occurrence.dropped]


JITTERS = [Jitter(), Jitter("job", 3_600_000), Jitter("occurrence", 7_200_000)]


@pytest.mark.parametrize("jitter", JITTERS, ids=["plain", "job", "occurrence"])
@pytest.mark.parametrize("gap", ["shift", "skip"])
@pytest.mark.parametrize("zone", ["America/Santiago", "Pacific/Apia", "Europe/Berlin"])
def test_walking_reports_each_dropped_slot_once(ms: Any, zone: str, gap: Any, jitter: Jitter) -> None:
    """R8: what ``next_after`` reports step by step is what ``dropped_between`` says of the range; nothing twice."""
    schedule = compile_schedule(CronSpec("0 0,2 * * *", zone, gap), job_id="job-1", jitter=jitter)
    start, end = ms("2011-06-01T12:00Z"), ms("2012-06-01T12:00Z")
    walked = reported(schedule, start, end)

    assert walked == list(schedule.dropped_between(start, end))
    counts = Counter[str]()
    for record in walked:
        counts[record.reason] += record.count
    assert schedule.count_dropped(start, end) == (counts["gap"], counts["calendar"])
    assert len({record.local for record in walked}) == len(walked)
    assert bool(walked) == (gap == "skip" or zone == "Pacific/Apia")


@settings(deadline=None, max_examples=300)
@example(
    spec=CronSpec("*/5 1-3 * * *", "Europe/Berlin"),
    days=frozenset(range(25, 30)),
    nights=(),
    zone="UTC",
    jitter=Jitter(),
    cut=0,
)
@example(
    spec=CronSpec("30 2 * * *", "Europe/Berlin", "skip"),
    days=frozenset({27, 28}),
    nights=(),
    zone="Europe/Berlin",
    jitter=Jitter("occurrence", 200_000),
    cut=4 * 86_400_000,
)
@given(
    spec=st.sampled_from(
        [CronSpec("30 2 * * *", "Europe/Berlin", "skip"), CronSpec("*/5 1-3 * * *", "Europe/Berlin"), *SPECS]
    ),
    days=st.frozensets(st.integers(25, 31), max_size=5),
    nights=st.sampled_from([(), ("* 2 * * *",), ("* * * * *",), ("FREQ=WEEKLY;BYDAY=SU",)]),
    zone=st.sampled_from(["Europe/Berlin", "UTC", "Asia/Tokyo"]),
    jitter=st.sampled_from([Jitter(), Jitter("job", 200_000), Jitter("occurrence", 200_000)]),
    cut=st.integers(0, 9 * 86_400_000),
)
def test_whoever_begins_in_the_middle_hears_the_rest_and_nothing_twice(
    *, spec: ScheduleSpec, days: frozenset[int], nights: tuple[str, ...], zone: str, jitter: Jitter, cut: int
) -> None:
    """R8: an owner whose cursor is recomputed recorded everything up to a moment, and goes on from there.

    With a jitter for each occurrence it heard again of all that was dropped since the last run, and what was dropped
    for having no instant inside an excluded span was heard by nobody.
    """
    march = START + 152 * 86_400_000  # 2027-03-25, three days before the change in Berlin
    dates = tuple(f"2027-03-{day}" for day in sorted(days))
    closed = (CalendarSpec("c", zone, dates=dates, rules=nights),)
    bare = compile_schedule(spec, job_id="job-1", jitter=jitter)
    schedule = compile_schedule(spec, job_id="job-1", jitter=jitter, calendars=closed)
    middle, end = march + cut, march + 12 * 86_400_000

    def counts(records: list[DroppedSlot]) -> tuple[int, int]:
        gap, calendar = (sum(r.count for r in records if r.reason == reason) for reason in ("gap", "calendar"))
        return gap, calendar

    last = schedule.latest_in(middle, end)
    if last is None:
        return
    heard = counts(reported(schedule, middle, last.at_ms))
    assert heard == schedule.count_dropped(middle, last.at_ms)
    assert heard[1] == bare.count_between(middle, last.at_ms) - schedule.count_between(middle, last.at_ms)
    before, whole = schedule.count_dropped(march, middle), schedule.count_dropped(march, last.at_ms)
    assert (before[0] + heard[0], before[1] + heard[1]) == whole
    assert counts(list(schedule.dropped_between(march, last.at_ms))) == whole


def test_every_local_slot_ends_in_one_record(ms: Any) -> None:
    """R8: over a year, runs and dropped slots together are the local slots, one each."""
    schedule = compile_schedule(CronSpec("30 2 * * *", "America/New_York", "skip"), job_id="job-1")
    start, end = ms("2026-01-01T05:00Z"), ms("2027-01-01T05:00Z")
    found = list(schedule.iter_between(start, end))
    dates = [schedule.local_text(o.at_ms)[:10] for o in found] + [d.local[:10] for o in found for d in o.dropped]

    assert len(dates) == len(set(dates)) == 365


def test_a_long_row_of_dropped_slots_is_folded(ms: Any) -> None:
    """A one-second job loses 3,600 slots in a spring night and 86,400 on a closed day: 64 records, with a count."""
    spec = CronSpec("* * * * * *", "America/New_York")
    spring = compile_schedule(spec, job_id="job-1").next_after(ms("2026-03-08T06:59:59Z"))
    closed = CalendarSpec("closed", "America/New_York", dates=("2026-06-01", "2026-06-02", "2026-06-03"))
    holiday = compile_schedule(spec, job_id="job-1", calendars=(closed,)).next_after(ms("2026-06-01T03:59:59Z"))

    assert spring is not None
    assert holiday is not None
    for found, total in ((spring, 3_600), (holiday, 3 * 86_400)):
        assert sum(record.count for record in found.dropped) == total
        assert len(found.dropped) == 64
    assert utc_text(holiday.at_ms) == "2026-06-04T04:00:00Z"


def test_an_excluded_day_of_25_hours_is_excluded_whole(ms: Any) -> None:
    closed = CalendarSpec("closed", "Europe/Berlin", dates=("2026-10-25",))
    schedule = compile_schedule(CronSpec("0 * * * *"), job_id="job-1", calendars=(closed,))
    start, end = ms("2026-10-24T21:59Z"), ms("2026-10-26T00:00Z")

    found = [utc_text(o.at_ms) for o in schedule.iter_between(start, end)]
    assert found == ["2026-10-25T23:00:00Z", "2026-10-26T00:00:00Z"]
    assert sum(record.count for record in schedule.dropped_between(start, end)) == 25


def test_counting_ten_million_slots_with_holidays_does_not_walk_them(ms: Any) -> None:
    closed = CalendarSpec("closed", "Europe/Berlin", dates=tuple(f"20{year}-12-25" for year in range(26, 36)))
    schedule = compile_schedule(CronSpec("* * * * * *", "Europe/Berlin"), job_id="job-1", calendars=(closed,))
    start = ms("2026-01-01T00:00Z")
    end = ms("2036-01-01T00:00Z")

    assert schedule.count_between(start, end) == (end - start) // 1000 - 10 * 86_400


def test_a_one_off_outside_its_window_does_not_run(ms: Any) -> None:
    at = ms("2026-06-01T00:00Z")
    inside = compile_schedule(OneOffSpec(at), job_id="job-1", window=Window(at, at))
    outside = compile_schedule(OneOffSpec(at), job_id="job-1", window=Window(at + 1))

    assert inside.next_after(0) == Occurrence(at, at)
    assert outside.next_after(0) is None


def test_compiled_schedules_are_shared_unless_the_job_matters() -> None:
    plain = [compile_schedule(CronSpec("0 9 * * *"), job_id=job) for job in ("a", "b")]
    hashed = [compile_schedule(CronSpec("H 9 * * *"), job_id=job) for job in ("a", "b")]

    assert plain[0] is plain[1]
    assert hashed[0] is not hashed[1]


def test_thursday_is_no_hash() -> None:
    assert compile_schedule(CronSpec("0 9 * * THU"), job_id="a") is compile_schedule(
        CronSpec("0 9 * * THU"), job_id="b"
    )
