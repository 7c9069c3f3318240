"""A60, A61, issue 5 item 5: a new version of the zone data moves each affected cursor once, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from streams.core.time import (
    INSTALLED_ZONE_DATA,
    CronSpec,
    CursorMove,
    GapPolicy,
    IntervalSpec,
    Jitter,
    OverlapHour,
    ScheduleSpec,
    ZoneData,
    compile_schedule,
    recompute_cursor,
    utc_text,
)

HOUR = 3_600


@pytest.fixture
def before_2023(zone_data_of: Any, ms: Any) -> ZoneData:
    """The world as release 2022g had it: Cairo without summer time, Mexico City and Amman still with it."""

    def at(text: str) -> int:
        return int(ms(text)) // 1000

    made: ZoneData = zone_data_of(
        "2022g",
        {
            "Africa/Cairo": ([2 * HOUR], []),
            "America/Mexico_City": (
                [-6 * HOUR, -5 * HOUR],
                [(at("2023-04-02T08:00Z"), 1), (at("2023-10-29T07:00Z"), 0)],
            ),
            "Asia/Amman": ([2 * HOUR, 3 * HOUR], [(at("2022-02-24T22:00Z"), 1), (at("2022-10-27T22:00Z"), 0)]),
            "Test/Later": ([0, HOUR], [(at("2023-04-28T00:00Z"), 1)]),
        },
    )
    return made


MOVES = [
    # case, zone, settled up to, old instant, new instant
    ("A60 Cairo", "Africa/Cairo", "2023-04-27T07:00Z", "2023-04-28T07:00:00Z", "2023-04-28T06:00:00Z"),
    ("A61 Mexico City", "America/Mexico_City", "2023-04-02T14:00Z", "2023-04-03T14:00:00Z", "2023-04-03T15:00:00Z"),
    ("A61 Amman", "Asia/Amman", "2022-10-27T12:00Z", "2022-10-28T07:00:00Z", "2022-10-28T06:00:00Z"),
]


@pytest.mark.parametrize(
    ("zone", "after", "old_at", "new_at"), [case[1:] for case in MOVES], ids=[case[0] for case in MOVES]
)
def test_an_open_cursor_moves_once(
    *, before_2023: ZoneData, ms: Any, zone: str, after: str, old_at: str, new_at: str
) -> None:
    spec = CronSpec("0 9 * * *", zone)
    old = compile_schedule(spec, job_id="job-1", zone_data=before_2023)
    new = compile_schedule(spec, job_id="job-1")
    cursor = old.next_after(ms(after))
    assert cursor is not None
    assert utc_text(cursor.at_ms) == old_at

    move = recompute_cursor(old, new, cursor.at_ms, ms(after))
    assert isinstance(move, CursorMove)
    assert move.to_ms is not None
    assert [utc_text(move.to_ms), move.from_version, move.to_version] == [new_at, "2022g", INSTALLED_ZONE_DATA.version]
    assert move.from_local[:16] == move.to_local[:16] == f"{new_at[:10]}T09:00"
    assert recompute_cursor(new, new, move.to_ms, move.to_ms - 1) is None


def test_a60_created_under_old_data_and_upgraded_a_month_before(before_2023: ZoneData, ms: Any) -> None:
    """A60: upgrade on 24 March; the cursor of a job whose next slot is 28 April moves to 06:00Z."""
    spec = CronSpec("0 9 28 4 *", "Africa/Cairo")
    old = compile_schedule(spec, job_id="job-1", zone_data=before_2023)
    new = compile_schedule(spec, job_id="job-1")
    created = ms("2023-01-10T00:00Z")
    cursor = old.next_after(created)
    assert cursor is not None

    move = recompute_cursor(old, new, cursor.at_ms, created)
    assert move is not None
    assert (move.from_ms, move.to_ms) == (ms("2023-04-28T07:00Z"), ms("2023-04-28T06:00Z"))


def test_an_unaffected_cursor_stays(before_2023: ZoneData, ms: Any) -> None:
    for spec in (CronSpec("0 9 * * *", "Africa/Cairo"), IntervalSpec(60_000, 0)):
        typed: ScheduleSpec = spec
        old = compile_schedule(typed, job_id="job-1", zone_data=before_2023)
        new = compile_schedule(typed, job_id="job-1")
        after = ms("2023-01-10T00:00Z")
        cursor = old.next_after(after)
        assert cursor is not None
        assert recompute_cursor(old, new, cursor.at_ms, after) is None


def test_a_local_time_that_ran_does_not_run_again_when_the_new_data_puts_it_later(
    before_2023: ZoneData, zone_data_of: Any, ms: Any
) -> None:
    """09:00 ran at 08:00Z under the old data; the new data, learnt at 08:30Z, puts the same 09:00 at 09:00Z."""
    after = zone_data_of("2023z", {"Test/Later": ([0], [])})
    spec = CronSpec("0 9 * * *", "Test/Later")
    old = compile_schedule(spec, job_id="job-1", zone_data=before_2023)
    new = compile_schedule(spec, job_id="job-1", zone_data=after)
    ran = old.next_after(ms("2023-04-29T00:00Z"))
    assert ran is not None
    assert utc_text(ran.at_ms) == "2023-04-29T08:00:00Z"
    cursor = old.next_after(ran.at_ms)
    assert cursor is not None

    move = recompute_cursor(old, new, cursor.at_ms, ran.at_ms)
    assert move is not None
    assert move.to_ms == ms("2023-04-30T09:00Z")


def test_a_slot_that_moved_into_the_past_is_due_at_once(before_2023: ZoneData, ms: Any) -> None:
    """The upgrade comes at 06:30Z, between the new instant and the old one: the run is late, not lost."""
    spec = CronSpec("0 9 * * *", "Africa/Cairo")
    old = compile_schedule(spec, job_id="job-1", zone_data=before_2023)
    new = compile_schedule(spec, job_id="job-1")

    move = recompute_cursor(old, new, ms("2023-04-28T07:00Z"), ms("2023-04-27T07:00Z"))
    assert move is not None
    assert move.to_ms == ms("2023-04-28T06:00Z")
    assert move.to_ms < ms("2023-04-28T06:30Z")


@pytest.mark.parametrize(
    ("zone", "after", "old_at", "new_at"), [case[1:] for case in MOVES], ids=[case[0] for case in MOVES]
)
def test_a_cursor_moves_without_loss_when_the_old_data_is_gone(
    *, ms: Any, zone: str, after: str, old_at: str, new_at: str
) -> None:
    """Under the new data the slot before the old cursor can be the cursor's own: it is not settled."""
    new = compile_schedule(CronSpec("0 9 * * *", zone), job_id="job-1")
    settled = new.previous_before(ms(after) + 3_600_001)
    assert settled is not None

    move = recompute_cursor(new, new, ms(old_at), settled.at_ms)
    assert move is not None
    assert move.to_ms == ms(new_at)


def test_a_cursor_with_jitter_keeps_its_delay(before_2023: ZoneData, ms: Any) -> None:
    spec, jitter = CronSpec("0 9 * * *", "Africa/Cairo"), Jitter("job", 600_000)
    old = compile_schedule(spec, job_id="job-1", jitter=jitter, zone_data=before_2023)
    new = compile_schedule(spec, job_id="job-1", jitter=jitter)
    settled = old.previous_before(ms("2023-04-27T12:00Z"))
    assert settled is not None
    cursor = old.next_after(settled.at_ms)
    assert cursor is not None

    move = recompute_cursor(old, new, cursor.at_ms, settled.at_ms)
    assert move is not None
    assert move.to_ms == cursor.at_ms - 3_600_000


FROM_28 = "2023-04-28T00:00Z"


def plus_one_hour(zone_data_of: Any, ms: Any) -> tuple[ZoneData, ZoneData]:
    """Two releases of one zone: always UTC, and an hour ahead from 28 April 2023 on."""
    ahead: ZoneData = zone_data_of("2023y", {"Test/Ahead": ([0, HOUR], [(ms(FROM_28) // 1000, 1)])})
    flat: ZoneData = zone_data_of("2023x", {"Test/Ahead": ([0], [])})
    return flat, ahead


@pytest.mark.parametrize(
    ("expression", "ran_at", "cursor_at", "moved_to"),
    [
        # Ran at midnight, which the new data skips: shifted to the same instant, it is the same slot.
        ("0 0 * * *", "2023-04-28T00:00Z", "2023-04-29T00:00Z", "2023-04-28T23:00Z"),
        # Ran at 00:30; the new data shifts 00:30 to an instant that is settled.
        ("30 0 * * *", "2023-04-28T00:30Z", "2023-04-29T00:30Z", "2023-04-28T23:30Z"),
        # 09:20 is due at 08:20Z, which is settled: it keeps the instant that it was promised.
        ("0,20 9 * * *", "2023-04-28T09:00Z", "2023-04-28T09:20Z", "2023-04-28T09:20Z"),
        # So many slots that the new data has one at the cursor's instant anyway.
        ("0-59 0-23 * * *", "2023-04-28T09:00Z", "2023-04-28T09:01Z", "2023-04-28T09:01Z"),
    ],
)
def test_a_cursor_never_moves_to_a_settled_instant(
    *, zone_data_of: Any, ms: Any, expression: str, ran_at: str, cursor_at: str, moved_to: str
) -> None:
    flat, ahead = plus_one_hour(zone_data_of, ms)
    spec = CronSpec(expression, "Test/Ahead")
    old = compile_schedule(spec, job_id="job-1", zone_data=flat)
    new = compile_schedule(spec, job_id="job-1", zone_data=ahead)
    found = old.next_after(ms(ran_at))
    assert found is not None
    assert found.at_ms == ms(cursor_at)

    move = recompute_cursor(old, new, found.at_ms, ms(ran_at))
    assert (found.at_ms if move is None else move.to_ms) == ms(moved_to)


def test_a_slot_that_ran_is_not_run_again_when_the_new_data_shifts_it_out_of_a_gap(zone_data_of: Any, ms: Any) -> None:
    """02:30 ran at 01:30Z by a clock an hour ahead; the new data lets the clock jump over it only at 02:00Z."""
    early = zone_data_of("2023x", {"Test/Jump": ([0, HOUR], [(ms("2023-04-27T00:00Z") // 1000, 1)])})
    late = zone_data_of("2023y", {"Test/Jump": ([0, HOUR], [(ms("2023-04-28T02:00Z") // 1000, 1)])})
    spec = CronSpec("30 2 * * *", "Test/Jump")
    old = compile_schedule(spec, job_id="job-1", zone_data=early)
    new = compile_schedule(spec, job_id="job-1", zone_data=late)
    shifted = new.next_after(ms("2023-04-28T01:30Z"))
    assert shifted is not None
    assert utc_text(shifted.at_ms) == "2023-04-28T02:00:00Z"

    assert recompute_cursor(old, new, ms("2023-04-29T01:30Z"), ms("2023-04-28T01:30Z")) is None


@pytest.mark.parametrize("overlap_hour", ["first", "second", "both"])
@pytest.mark.parametrize("gap", ["shift", "skip"])
@pytest.mark.parametrize("expression", ["15 0,1,2,3 * * *", "30 23 * * *", "0 */2 * * *", "0,40 0-4 * * *"])
def test_at_every_moment_of_an_upgrade_the_cursor_follows_what_is_settled(
    *, zone_data_of: Any, ms: Any, expression: str, gap: GapPolicy, overlap_hour: OverlapHour
) -> None:
    """Both ways over the change, after each occurrence around it, with the old data and without."""
    releases = plus_one_hour(zone_data_of, ms)
    spec = CronSpec(expression, "Test/Ahead", gap, overlap_hour)
    tried = 0
    for before, after in (releases, releases[::-1]):
        old = compile_schedule(spec, job_id="job-1", zone_data=before)
        new = compile_schedule(spec, job_id="job-1", zone_data=after)
        for settled in old.iter_between(ms("2023-04-27T12:00Z"), ms("2023-04-28T12:00Z")):
            cursor = old.next_after(settled.at_ms)
            assert cursor is not None
            for known in (old, new):
                move = recompute_cursor(known, new, cursor.at_ms, settled.at_ms)
                tried += 1
                assert move is None or (move.to_ms is not None and move.to_ms > settled.at_ms)

    assert tried >= 4


def test_without_the_old_data_a_slot_before_a_cursor_that_still_fits_is_not_lost(zone_data_of: Any, ms: Any) -> None:
    """Old: 09:00Z and 10:00Z. New: 08:00Z and 09:00Z, so the cursor of 09:00 is the new instant of 10:00."""
    _, ahead = plus_one_hour(zone_data_of, ms)
    new = compile_schedule(CronSpec("0 9,10 * * *", "Test/Ahead"), job_id="job-1", zone_data=ahead)

    move = recompute_cursor(new, new, ms("2023-04-28T09:00Z"), ms("2023-04-27T10:00Z"))
    assert move is not None
    assert move.to_ms == ms("2023-04-28T08:00Z")
