"""Calendars in decisions: excluded at first, moved once when a calendar changes, and nothing lost on the way."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.core.apply import apply
from streams.core.calendar_records import CalendarBook, CalendarRecord, calendar_key, encode_calendar
from streams.core.calendars import Calendar, Calendars
from streams.core.commands import Define, Pause, Resume, SkipSlot
from streams.core.decide import decide
from streams.core.events import CursorMoved, JobFinished, OccurrencesSkipped, RunOpened
from streams.core.manual import ManualOwner
from streams.core.time import INSTALLED_ZONE_DATA as ZONE_DATA
from streams.core.time import (
    CalendarSpec,
    CronSpec,
    InvalidSchedule,
    Jitter,
    OneOffSpec,
    Schedule,
    Window,
    check_calendar,
    compile_schedule,
)

HOUR = 3_600_000
DAY = 24 * HOUR


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


T = ms("2027-03-01T00:00:00")
"""A Monday."""

NINE = CronSpec(expression="0 9 * * *")


def closed(*days: int) -> dict[str, CalendarSpec]:
    return {"closed": CalendarSpec("closed", dates=tuple(f"2027-03-{day:02}" for day in days))}


def of(owner: ManualOwner, kind: type[Any]) -> list[Any]:
    return [event for event in owner.log if isinstance(event, kind)]


def daily(*days: int, now_ms: int = T, **fields: Any) -> ManualOwner:
    owner = ManualOwner(now_ms=now_ms)
    owner.calendars = closed(*days)
    assert owner.define(**({"schedule": NINE, "calendars": ("closed",)} | fields)).code == "created"
    return owner


def ran_on(owner: ManualOwner) -> list[int]:
    return [datetime.fromtimestamp(e.scheduled_at_ms / 1000, UTC).day for e in of(owner, RunOpened)]


def finish_all(owner: ManualOwner, until_ms: int) -> None:
    """Run on and complete whatever opens, so that overlap skips nothing."""
    for at_ms in range(owner.now_ms, until_ms + 1, HOUR):
        owner.run_until(at_ms)
        for run in owner.state.open:
            owner.complete(owner.grant(run.run_id))


def test_an_excluded_day_does_not_run_and_is_recorded() -> None:
    owner = daily(2)
    finish_all(owner, T + 3 * DAY)

    assert ran_on(owner) == [1, 3]
    assert [(e.reason, e.first_at_ms) for e in of(owner, OccurrencesSkipped)] == [("calendar", T + DAY + 9 * HOUR)]


def test_a_day_that_is_excluded_later_moves_the_cursor_once() -> None:
    owner = daily()
    assert owner.state.calendars == "closed@0"
    owner.calendars = closed(1)
    owner.wake()
    owner.wake()

    (moved,) = of(owner, CursorMoved)
    assert (moved.from_at_ms, moved.to_at_ms) == (T + 9 * HOUR, T + DAY + 9 * HOUR)
    assert (moved.calendars_from, moved.calendars_to) == ("closed@0", "closed@2")
    assert owner.state.calendars == "closed@2"
    finish_all(owner, T + 2 * DAY)
    assert ran_on(owner) == [2]


def test_a_day_that_is_excluded_no_more_comes_back_if_it_has_not_passed() -> None:
    owner = daily(1, 2)
    owner.calendars = closed(2)
    owner.wake()
    assert owner.state.next_at_ms == T + 9 * HOUR
    finish_all(owner, T + 3 * DAY)
    assert ran_on(owner) == [1, 3]


@pytest.mark.parametrize("days", [(1,), tuple(range(1, 32))])
def test_a_slot_that_somebody_skips_stays_skipped_when_a_calendar_excludes_it_for_a_while(
    days: tuple[int, ...],
) -> None:
    owner = daily(end_at_ms=T + 3 * DAY)
    assert owner.reply(SkipSlot(job_id="job", at_ms=T + 9 * HOUR)).code == "ok"
    owner.calendars = closed(*days)
    owner.wake()
    assert owner.state.next_at_ms != T + 9 * HOUR
    owner.calendars = closed()
    owner.wake()
    finish_all(owner, T + 3 * DAY)

    assert ran_on(owner) == [2, 3]
    assert [(e.reason, e.first_at_ms) for e in of(owner, OccurrencesSkipped)] == [("requested", T + 9 * HOUR)]


def test_what_passed_while_it_was_excluded_stays_skipped() -> None:
    owner = daily(1, 2)
    owner.now_ms = T + 10 * HOUR
    owner.calendars = closed(2)
    owner.wake()

    assert owner.state.next_at_ms == T + 2 * DAY + 9 * HOUR
    (skipped,) = of(owner, OccurrencesSkipped)
    assert (skipped.reason, skipped.first_at_ms, skipped.count) == ("calendar", T + 9 * HOUR, 1)
    owner.calendars = closed(3)
    owner.wake()
    finish_all(owner, T + 4 * DAY)
    assert ran_on(owner) == [2, 4]
    assert sum(e.count for e in of(owner, OccurrencesSkipped)) == 2  # the 1st and the 3rd, each once


def test_what_is_due_is_judged_by_the_calendar_of_the_moment() -> None:
    owner = daily()
    owner.now_ms = T + 9 * HOUR
    owner.calendars = closed(1)
    refused = owner.lease()

    assert not of(owner, RunOpened)
    assert refused.reply is not None
    assert owner.state.next_at_ms == T + DAY + 9 * HOUR


def test_a_paused_job_follows_its_calendar() -> None:
    owner = daily()
    owner.reply(Pause(job_id="job"))
    owner.now_ms = T + 3 * DAY
    owner.calendars = closed(2)
    owner.reply(Resume(job_id="job"))

    ranges = [(e.reason, e.count, e.dropped_calendar) for e in of(owner, OccurrencesSkipped)]
    assert ranges == [("paused", 2, 1)]


def test_a_job_whose_calendar_excludes_all_that_is_left_waits_for_it_to_change() -> None:
    owner = daily()
    owner.calendars = {"closed": CalendarSpec("closed", rules=("FREQ=DAILY",))}
    owner.wake()
    assert (owner.state.status, owner.state.next_at_ms) == ("active", None)

    owner.now_ms = T + 2 * DAY
    owner.calendars = closed()
    owner.wake()
    assert owner.state.next_at_ms == T + 2 * DAY + 9 * HOUR
    assert [(e.reason, e.count) for e in of(owner, OccurrencesSkipped)] == [("calendar", 2)]
    assert not of(owner, JobFinished)


def test_an_excluded_one_off_ends_skipped_once_its_time_has_passed() -> None:
    owner = daily(schedule=OneOffSpec(at_ms=T + 9 * HOUR))
    owner.calendars = closed(1)
    owner.wake()
    assert owner.state.status == "active"
    owner.run_until(T + 8 * DAY)  # a checkpoint is within a week

    assert len(of(owner, JobFinished)) == 1
    assert [(e.reason, e.first_at_ms, e.count) for e in of(owner, OccurrencesSkipped)] == [
        ("calendar", T + 9 * HOUR, 1)
    ]
    assert not of(owner, RunOpened)


def test_runs_that_are_used_up_are_not_brought_back_by_a_calendar() -> None:
    owner = daily(max_runs=1)
    finish_all(owner, T + 10 * HOUR)
    assert owner.state.status == "finished"
    owner = daily(max_runs=1)
    owner.run_until(T + 10 * HOUR)
    owner.calendars = closed(5)
    owner.wake()
    assert owner.state.next_at_ms is None
    owner.complete(owner.grant())
    assert owner.state.status == "finished"


def test_another_calendar_moves_nothing_and_says_nothing() -> None:
    owner = daily()
    owner.calendars = closed() | {"other": CalendarSpec("other", dates=("2027-03-01",))}
    owner.wake()

    assert not of(owner, CursorMoved)


def test_calendars_of_another_tenant_are_not_known() -> None:
    owner = ManualOwner(now_ms=T)
    context_calendars = Calendars({("other", "closed"): Calendar(closed()["closed"], 0)}, 1)
    command = Define(job_id="job", definition=owner.definition(calendars=("closed",)), request_hash="h")
    context = owner.context()
    decision = decide(None, command, type(context)(now_ms=T, zone_data=ZONE_DATA, calendars=context_calendars))

    assert decision.reply is not None
    assert getattr(decision.reply, "field", "") == "calendars"


DAYS = st.frozensets(st.integers(1, 9), max_size=4)


@settings(deadline=None, max_examples=60)
@given(
    changes=st.lists(st.tuples(st.integers(0, 9 * 24), DAYS), max_size=5),
    every=st.sampled_from(["0 9 * * *", "0 */6 * * *", "30 7,19 * * *"]),
    jitter=st.sampled_from([Jitter(), Jitter("job", HOUR), Jitter("occurrence", HOUR)]),
)
def test_each_occurrence_has_one_outcome_whatever_happens_to_the_calendar(
    changes: list[tuple[int, frozenset[int]]], every: str, jitter: Jitter
) -> None:
    """R8 under changes: opened or skipped, exactly once, and never against the calendar of the moment."""
    spec = CronSpec(expression=every)
    owner = daily(schedule=spec, overlap="allow", jitter_kind=jitter.kind, jitter_ms=jitter.window_ms)
    bare = compile_schedule(spec, job_id="job", jitter=jitter)
    for hour, days in sorted(changes):
        finish_all(owner, T + hour * HOUR)
        owner.calendars = closed(*days)
        owner.wake()
    finish_all(owner, T + 10 * DAY)

    opened = [event.scheduled_at_ms for event in of(owner, RunOpened)]
    skipped = sum(event.count for event in of(owner, OccurrencesSkipped))
    decided_to_ms = max([*opened, owner.state.decided_to_ms])
    passed = [o.at_ms for o in bare.iter_between(T - 1, decided_to_ms)]
    assert len(set(opened)) == len(opened)
    assert set(opened) <= set(passed)
    assert len(opened) + skipped == len(passed)
    job = None
    for event in owner.log:
        job = apply(job, event)
    assert job == owner.job


@settings(deadline=None, max_examples=40)
@given(days=DAYS, hours=st.sampled_from(["9", "*/6", "7,19"]), rules=st.sampled_from([(), ("* 6-8 * * *",)]))
def test_the_preview_with_calendars_is_the_execution(days: frozenset[int], hours: str, rules: tuple[str, ...]) -> None:
    spec = CronSpec(expression=f"0 {hours} * * *")
    calendar = CalendarSpec("closed", dates=tuple(f"2027-03-{day:02}" for day in sorted(days)), rules=rules)
    owner = ManualOwner(now_ms=T)
    owner.calendars = {"closed": calendar}
    owner.define(schedule=spec, calendars=("closed",), overlap="allow")
    finish_all(owner, T + 10 * DAY)

    preview = compile_schedule(spec, job_id="job", window=Window(), calendars=(calendar,))
    assert [e.scheduled_at_ms for e in of(owner, RunOpened)] == [
        found.at_ms for found in preview.iter_between(T - 1, T + 10 * DAY)
    ]


def record(name: str = "a", **fields: Any) -> CalendarRecord:
    return CalendarRecord(tenant="t", name=name, **fields)


def test_the_book_follows_records_by_their_offsets() -> None:
    book = CalendarBook()
    first, second = record(dates=("2027-01-01",)), record(dates=("2027-01-02",))
    key = calendar_key("t", "a")
    assert book.take(key, encode_calendar(second), 5)
    assert not book.take(key, encode_calendar(first), 3)
    assert book.record("t", "a") == second
    assert book.take(key, None, 6)
    assert not book.take(key, encode_calendar(second), 5)
    assert book.calendars.of("t") == {}
    assert not book.take("queue|t|a", b"x", 9)
    assert book.next_offset == 10


def test_the_book_keeps_a_calendar_whose_next_record_is_unusable() -> None:
    book = CalendarBook()
    good = record(dates=("2027-01-01",))
    key = calendar_key("t", "a")
    book.take(key, encode_calendar(good), 0)
    before = book.calendars
    wrong = (
        b"junk",
        encode_calendar(record(time_zone="Mars/Olympus")),
        encode_calendar(record(rules=("FREQ=DAILY;COUNT=3",))),
        encode_calendar(record(name="b")),
    )
    for offset, value in enumerate(wrong, start=1):
        assert not book.take(key, value, offset)
    assert book.unreadable_total == len(wrong)
    assert book.calendars is before
    assert book.calendars.of("t") == {"a": good.spec}


def test_what_a_cursor_was_computed_under_is_named_by_offset() -> None:
    owner = ManualOwner(now_ms=T)
    one = Calendars({("team", "a"): Calendar(CalendarSpec("a"), 4), ("x", "b"): Calendar(CalendarSpec("b"), 5)}, 9)
    two = Calendars({("team", "a"): Calendar(CalendarSpec("a"), 7), ("x", "b"): Calendar(CalendarSpec("b"), 5)}, 9)
    definition = owner.definition(calendars=("a", "b"))

    assert one.used_by(definition) == "a@4,b@-"
    assert one.used_by(owner.definition()) == ""
    assert not one.differ_from("team", "a@4,b@-")
    assert two.differ_from("team", "a@4,b@-")
    assert two.names_changed_since(one) == {"a"}
    assert one.digest != two.digest


def test_a_calendar_of_all_days_is_answered_at_once() -> None:
    """Such a question walked 84,000 days and took over a second of the owner's loop."""
    calendar = CalendarSpec("all", rules=("FREQ=DAILY",))
    check_calendar(calendar, ZONE_DATA)
    schedule = compile_schedule(CronSpec("0 9 * * *"), job_id="j", calendars=(calendar,))

    assert schedule.next_after(T) is None
    assert sum(slot.count for slot in schedule.dropped_between(T, T + 400 * DAY)) == 400
    assert schedule.count_between(T, T + 400 * DAY) == 0


@pytest.mark.parametrize(
    ("until", "zone", "last"),
    [
        ("20270303T120000Z", "UTC", 3),
        ("20270303T000000Z", "UTC", 3),
        ("20270303T000000Z", "America/New_York", 2),
        ("20270302T230000Z", "Europe/Berlin", 3),
        ("20270303T235959", "America/New_York", 3),
        ("20270303", "Asia/Tokyo", 3),
    ],
)
def test_until_ends_a_rule_of_a_calendar_in_whatever_form(until: str, zone: str, last: int) -> None:
    """An UNTIL in UTC was not heard, and the rule excluded every day for ever."""
    calendar = CalendarSpec("c", zone, rules=(f"DTSTART:2027-03-01;FREQ=DAILY;UNTIL={until}",))
    check_calendar(calendar, ZONE_DATA)
    bare = compile_schedule(CronSpec("0 12 * * *", zone), job_id="j")
    runs = compile_schedule(CronSpec("0 12 * * *", zone), job_id="j", calendars=(calendar,))

    left = [found.at_ms for found in bare.iter_between(T, T + 9 * DAY) if found.at_ms > T + last * DAY]
    assert [found.at_ms for found in runs.iter_between(T, T + 9 * DAY)] == left


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;COUNT=3",
        "RRULE:COUNT=3;FREQ=DAILY",
        "DTSTART:2027-03-01;RRULE:COUNT=3;FREQ=DAILY",
        " rrule:count=3;freq=daily",
        "RRULE:FREQ=HOURLY",
        "DTSTART:2027-03-01;FREQ=MINUTELY",
        "H H * * *",
        "* H(0-5) * * *",
    ],
)
def test_what_means_nothing_in_a_calendar_is_refused_in_every_spelling(rule: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        check_calendar(CalendarSpec("c", rules=(rule,)), ZONE_DATA)

    assert (refused.value.field, refused.value.text) == ("calendar rule", rule)


def test_an_outage_over_many_excluded_spans_is_counted_and_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A week of a one-second job with 384 excluded minutes a day was 170,000 records, and seconds of the loop."""
    spans = {
        f"c{at}": CalendarSpec(f"c{at}", rules=tuple(f"{2 * at},{2 * at + 30} {hour} * * *" for hour in range(24)))
        for at in range(8)
    }
    spec = CronSpec("* * * * * *")
    owner = ManualOwner(now_ms=T)
    owner.calendars = spans
    owner.define(schedule=spec, calendars=tuple(spans), overlap="skip")
    owner.run_until(T + 61_000)
    monkeypatch.setattr(Schedule, "dropped_between", None)
    owner.now_ms = T + 7 * DAY
    owner.wake()

    (skipped,) = [event for event in of(owner, OccurrencesSkipped) if event.reason == "overlap" and event.count > 1]
    assert skipped.dropped_gap == 0
    seconds = (skipped.last_at_ms - skipped.first_at_ms) // 1_000 + 1
    assert skipped.count + skipped.dropped_calendar == seconds
    assert skipped.dropped_calendar > 7 * 8 * 48 * 59
