"""The checker derives what calendars exclude by itself, from the records that each decision knew."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.audit.calendars import Rulings, excludes
from streams.audit.checker import check
from streams.audit.scripted_log import START_MS, ScriptedLog
from streams.core.apply import apply
from streams.core.calendar_records import CalendarBook, CalendarRecord, calendar_key, encode_calendar
from streams.core.commands import Define, Wake
from streams.core.context import Context
from streams.core.decide import decide
from streams.core.definition import Definition
from streams.core.events import OccurrencesSkipped, RunOpened
from streams.core.time import INSTALLED_ZONE_DATA, CalendarSpec, CronSpec
from streams.core.time.exclusions import compiled_calendar

if TYPE_CHECKING:
    from streams.core.state import Job

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Life:
    """One job under an owner that follows its calendar, written down as owners write."""

    def __init__(self) -> None:
        self.log = ScriptedLog()
        self.book = CalendarBook()
        self.job: Job | None = None
        self.definition = Definition(
            job_id="j",
            tenant="t",
            queue="q",
            name="j",
            task="j",
            schedule=CronSpec(expression="0 */6 * * *"),
            overlap="allow",
            calendars=("closed",),
        )

    def calendar(self, *days: int, at_ms: int) -> None:
        """The June days on which nothing runs."""
        record = CalendarRecord(tenant="t", name="closed", dates=tuple(f"2026-06-{day:02}" for day in days))
        key, value = calendar_key("t", "closed"), encode_calendar(record)
        self.book.take(key, value, self.log.configure(key, value, at_ms=at_ms))
        if self.job is not None:
            self.do(Wake(job_id="j"), at_ms)

    def do(self, command: Any, at_ms: int) -> None:
        calendars = self.book.calendars
        context = Context(now_ms=at_ms, zone_data=INSTALLED_ZONE_DATA, calendars=calendars)
        decision = decide(self.job, command, context)
        if decision.events:
            self.log.decide("j", *decision.events, at_ms=at_ms, config_offset=calendars.next_offset)
        for event in decision.events:
            self.job = apply(self.job, event)

    def live(self, from_ms: int, until_ms: int) -> None:
        """Open what falls due; markers in between, as an owner writes them."""
        for at_ms in range(from_ms, until_ms, 30_000):
            self.log.mark(at_ms=at_ms)
            assert self.job is not None
            next_at_ms = self.job.state.next_at_ms
            if next_at_ms is not None and next_at_ms <= at_ms:
                self.do(Wake(job_id="j"), at_ms)

    def verdict(self) -> list[tuple[str, str]]:
        """What I2 finds; the runs of this life are never leased, which is others' business."""
        report = check(self.log.view())
        assert next(row for row in report.judged if row.invariant == "I2").items > 0
        return [(v.invariant, v.message) for v in report.violations if v.invariant == "I2"]


@pytest.fixture(scope="module")
def told() -> Life:
    """June 1 to 5; the 2nd closed, then the 3rd instead of the 4th while both lie ahead."""
    life = Life()
    life.calendar(2, 4, at_ms=START_MS)
    life.do(Define(job_id="j", definition=life.definition, request_hash="h"), START_MS + 1)
    life.live(START_MS, START_MS + DAY_MS)
    life.calendar(2, 3, at_ms=START_MS + DAY_MS + HOUR_MS)
    life.live(START_MS + DAY_MS, START_MS + 4 * DAY_MS + HOUR_MS)
    return life


def copy_of(told: Life) -> Life:
    life = Life()
    life.log.rows = [msgspec.structs.replace(row) for row in told.log.rows]
    return life


def test_a_life_with_a_changing_calendar_is_complete(told: Life) -> None:
    assert told.verdict() == []
    opened = [
        dt.datetime.fromtimestamp(event.scheduled_at_ms / 1000, dt.UTC).day
        for row in told.log.rows
        for event in getattr(row.value, "events", ())
        if isinstance(event, RunOpened)
    ]
    assert sorted(set(opened)) == [1, 4, 5]


def test_a_run_on_an_excluded_day_is_found(told: Life) -> None:
    life = copy_of(told)
    life.log.change(RunOpened, 0, scheduled_at_ms=START_MS + DAY_MS + 6 * HOUR_MS)

    assert any("which the definition does not ask for" in message for _, message in life.verdict())


def test_a_skip_for_a_calendar_that_does_not_exclude_is_found(told: Life) -> None:
    life = copy_of(told)
    life.log.change(OccurrencesSkipped, 0, first_at_ms=START_MS + 6 * HOUR_MS)

    assert any("for a calendar that does not exclude it" in message for _, message in life.verdict())


def test_a_missing_run_after_the_exclusion_was_lifted_is_found(told: Life) -> None:
    life = copy_of(told)
    nth = 3  # 06:00, 12:00 and 18:00 of the 1st; then the 4th, which the second record opens again
    life.log.drop(RunOpened, nth)

    assert any("has 0 records" in message for _, message in life.verdict())


def test_decisions_are_judged_by_the_offset_that_they_name(told: Life) -> None:
    life = copy_of(told)
    for row in life.log.rows:
        if hasattr(row.value, "config_offset"):
            row.value = msgspec.structs.replace(row.value, config_offset=1)

    assert life.verdict() != []


def test_the_way_of_the_cursor_says_who_ruled() -> None:
    rulings = Rulings(10)
    rulings.follow(50, 1)
    rulings.follow(90, 2)
    assert [rulings.offset_at(at) for at in (10, 49, 50, 89, 90)] == [1, 1, 2, 2, 2]
    rulings.follow(60, 3)  # what lies behind 60 is open again
    assert [rulings.offset_at(at) for at in (49, 55, 60, 75)] == [1, 2, 3, 3]
    rulings.follow(None, 4)
    assert [rulings.offset_at(at) for at in (55, 60, 10**15)] == [2, 4, 4]


CRONS = st.sampled_from(["* 9-17 * * *", "30 * * * 1-5", "* * 31 12 *", "*/20 0-3 29 3 *", "0-29 2 * 10 0"])
RRULES = st.sampled_from(
    ["FREQ=WEEKLY;BYDAY=SA,SU", "DTSTART:2026-01-15;FREQ=MONTHLY", "RRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25,26"]
)


@settings(deadline=None, max_examples=150)
@given(
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    dates=st.lists(st.dates(dt.date(2026, 1, 1), dt.date(2026, 12, 31)), max_size=5),
    rules=st.lists(st.one_of(CRONS, RRULES), max_size=3),
    at=st.datetimes(dt.datetime(2026, 1, 1), dt.datetime(2026, 12, 31)),  # noqa: DTZ001 - a wall-clock value
)
def test_it_agrees_with_the_scheduler(zone: str, dates: list[dt.date], rules: list[str], at: dt.datetime) -> None:
    spec = CalendarSpec("c", zone, tuple(day.isoformat() for day in dates), tuple(rules))
    at_ms = int(at.replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000

    assert excludes(spec, at_ms) == (compiled_calendar(spec, INSTALLED_ZONE_DATA).span_at(at_ms // 1000) is not None)


def test_what_it_does_not_know_it_does_not_guess() -> None:
    assert excludes(CalendarSpec("c", rules=("* * L * *",)), START_MS) is None
    assert excludes(CalendarSpec("c", "Mars/Olympus"), START_MS) is None
