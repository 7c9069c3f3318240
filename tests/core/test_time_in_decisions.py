from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from streams.core.events import CursorMoved, CursorNoted, OccurrencesSkipped, RunOpened
from streams.core.manual import ManualOwner
from streams.core.time import INSTALLED_ZONE_DATA, CalendarSpec, CronSpec, IntervalSpec, LocalOneOffSpec, ZoneData

if TYPE_CHECKING:
    from pathlib import Path

NEW_YORK_9 = CronSpec(expression="0 9 * * *", time_zone="America/New_York")


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000


def opened(owner: ManualOwner) -> list[RunOpened]:
    return [event for event in owner.log if isinstance(event, RunOpened)]


def test_a_time_in_a_skipped_hour_runs_once_after_the_gap_and_says_so() -> None:
    owner = ManualOwner(now_ms=ms("2027-03-14T05:00:00"))
    owner.define(schedule=CronSpec(expression="30 2 * * *", time_zone="America/New_York"))
    owner.run_until(ms("2027-03-14T12:00:00"))

    assert [event.scheduled_at_ms for event in opened(owner)] == [ms("2027-03-14T07:00:00")]
    assert opened(owner)[0].notes != ()


def test_a_slot_dropped_in_a_gap_is_recorded_when_the_next_one_is_decided() -> None:
    owner = ManualOwner(now_ms=ms("2027-03-14T05:00:00"))
    owner.define(schedule=CronSpec(expression="30 2 * * *", time_zone="America/New_York", gap="skip"))
    assert isinstance(owner.log[-1], CursorNoted)

    owner.run_until(ms("2027-03-15T12:00:00"))

    skipped = [event for event in owner.log if isinstance(event, OccurrencesSkipped)]
    assert [(event.reason, event.count) for event in skipped] == [("gap", 1)]
    assert "02:30" in skipped[0].local
    assert [event.scheduled_at_ms for event in opened(owner)] == [ms("2027-03-15T06:30:00")]
    assert owner.state.next_dropped == ()


def test_a_day_excluded_by_a_calendar_is_recorded() -> None:
    owner = ManualOwner(now_ms=ms("2027-12-24T12:00:00"))
    owner.calendars = {"xmas": CalendarSpec("xmas", dates=("2027-12-25",))}
    owner.define(schedule=CronSpec(expression="0 9 * * *"), calendars=("xmas",))
    owner.run_until(ms("2027-12-26T10:00:00"))

    skipped = [event for event in owner.log if isinstance(event, OccurrencesSkipped)]
    assert [(event.reason, event.first_at_ms) for event in skipped] == [("calendar", ms("2027-12-25T09:00:00"))]
    assert [event.scheduled_at_ms for event in opened(owner)] == [ms("2027-12-26T09:00:00")]


def test_a_calendar_that_went_missing_stops_nothing_and_is_noted() -> None:
    owner = ManualOwner(now_ms=ms("2027-12-24T12:00:00"))
    owner.calendars = {"xmas": CalendarSpec("xmas", dates=("2027-12-25",))}
    owner.define(schedule=CronSpec(expression="0 9 * * *"), calendars=("xmas",))
    owner.calendars = {}
    owner.run_until(ms("2027-12-26T10:00:00"))

    assert "calendar xmas is missing" in opened(owner)[0].notes


def zone_data_in(directory: Path, version: str, zone: str) -> ZoneData:
    """A zone database in which New York keeps the clock of `zone`."""
    folder = directory / version / "America"
    folder.mkdir(parents=True)
    source = files("tzdata").joinpath("zoneinfo", *zone.split("/"))
    (folder / "New_York").write_bytes(source.read_bytes())
    return ZoneData(version, str(directory / version))


def test_new_zone_data_moves_an_open_cursor_once(tmp_path: Path) -> None:
    owner = ManualOwner(now_ms=ms("2027-01-10T00:00:00"))
    owner.define(schedule=NEW_YORK_9)
    assert owner.state.next_at_ms == ms("2027-01-10T14:00:00")

    owner.zone_data_before = {INSTALLED_ZONE_DATA.version: INSTALLED_ZONE_DATA}
    owner.zone_data = zone_data_in(tmp_path, "next", "America/Chicago")
    owner.wake()
    owner.wake()

    moved = [event for event in owner.log if isinstance(event, CursorMoved)]
    assert [(event.from_at_ms, event.to_at_ms, event.zone_data_to) for event in moved] == [
        (ms("2027-01-10T14:00:00"), ms("2027-01-10T15:00:00"), "next")
    ]
    assert owner.state.zone_data == "next"


def test_a_local_time_that_ran_under_the_old_zone_data_does_not_run_again(tmp_path: Path) -> None:
    owner = ManualOwner(now_ms=ms("2027-01-10T00:00:00"))
    owner.define(schedule=NEW_YORK_9)
    owner.run_until(ms("2027-01-10T14:00:00"))
    owner.complete(owner.grant())

    owner.zone_data_before = {INSTALLED_ZONE_DATA.version: INSTALLED_ZONE_DATA}
    owner.zone_data = zone_data_in(tmp_path, "next", "America/Chicago")
    owner.wake()

    assert owner.state.next_at_ms == ms("2027-01-11T15:00:00")


def test_a_slot_whose_new_instant_is_settled_keeps_its_promised_one(tmp_path: Path) -> None:
    """09:00 ran at 14:00Z; new data, an hour ahead, puts 09:20 at 13:20Z, before what is decided."""
    owner = ManualOwner(now_ms=ms("2027-01-10T00:00:00"))
    owner.define(schedule=CronSpec(expression="0,20 9 * * *", time_zone="America/New_York"), overlap="allow")
    owner.run_until(ms("2027-01-10T14:00:00"))
    owner.complete(owner.grant())
    owner.now_ms = ms("2027-01-10T14:10:00")

    owner.zone_data_before = {INSTALLED_ZONE_DATA.version: INSTALLED_ZONE_DATA}
    owner.zone_data = zone_data_in(tmp_path, "next", "America/Halifax")
    owner.wake()
    owner.run_until(ms("2027-01-11T13:00:00"))

    assert [event.scheduled_at_ms for event in opened(owner)] == [
        ms("2027-01-10T14:00:00"),
        ms("2027-01-10T14:20:00"),
        ms("2027-01-11T13:00:00"),
    ]


@pytest.mark.parametrize("known", [True, False], ids=["with the old data", "without"])
def test_new_zone_data_at_any_moment_of_a_spring_night_leaves_a_job_that_runs_on(
    *, tmp_path: Path, known: bool
) -> None:
    """Chicago's clock jumps an hour after New York's, so slots move into its gap, out of it and over what ran."""
    chicago = zone_data_in(tmp_path, "next", "America/Chicago")
    for hour in range(24):
        owner = ManualOwner(now_ms=ms("2027-03-13T22:00:00"))
        schedule = CronSpec(expression="15 0,1,2,3 * * *", time_zone="America/New_York", overlap_hour="second")
        owner.define(schedule=schedule, overlap="allow")
        owner.run_until(ms("2027-03-14T00:00:00") + hour * 1_800_000)
        owner.zone_data_before = {INSTALLED_ZONE_DATA.version: INSTALLED_ZONE_DATA} if known else {}
        owner.zone_data = chicago
        owner.wake()
        owner.run_until(ms("2027-03-15T12:00:00"))

        instants = [event.scheduled_at_ms for event in opened(owner)]
        assert instants == sorted(set(instants))
        assert instants[-4:] == [ms(f"2027-03-15T0{utc}:15:00") for utc in (5, 6, 7, 8)]
        assert [type(event).__name__ for event in owner.log].count("CursorMoved") == 1


def test_zone_data_does_not_touch_intervals(tmp_path: Path) -> None:
    owner = ManualOwner(now_ms=ms("2027-01-10T00:00:00"))
    owner.define(schedule=IntervalSpec(every_ms=3_600_000, anchor_ms=0))
    owner.zone_data = zone_data_in(tmp_path, "next", "America/Chicago")

    assert owner.wake().events == ()


def test_an_occurrence_that_is_due_is_not_moved_by_new_zone_data(tmp_path: Path) -> None:
    owner = ManualOwner(now_ms=ms("2027-01-10T00:00:00"))
    owner.define(schedule=NEW_YORK_9)
    owner.now_ms = ms("2027-01-10T14:00:00")
    owner.zone_data = zone_data_in(tmp_path, "next", "America/Chicago")
    owner.wake()

    assert [event.scheduled_at_ms for event in opened(owner)] == [ms("2027-01-10T14:00:00")]


def test_a_daily_job_is_computed_in_its_own_zone_by_every_owner() -> None:
    owner = ManualOwner(now_ms=ms("2017-06-19T00:00:00"))
    owner.define(schedule=CronSpec(expression="0 19 * * *", time_zone="Europe/Paris"))
    owner.run_until(ms("2017-06-19T17:00:00"))
    owner.complete(owner.grant())
    owner.takeover_at_ms = owner.now_ms = ms("2017-06-20T09:21:00")

    assert owner.wake().events == ()
    assert owner.state.next_at_ms == ms("2017-06-20T17:00:00")


def test_a_local_one_off_in_the_past_runs_at_once() -> None:
    owner = ManualOwner(now_ms=ms("2027-06-01T12:00:00"))
    owner.define(schedule=LocalOneOffSpec("2027-06-01T09:00", "Europe/Paris"))

    assert owner.grant().scheduled_at_ms == ms("2027-06-01T07:00:00")


def test_jitter_of_a_job_is_part_of_its_identity_and_never_early() -> None:
    owner = ManualOwner(now_ms=ms("2027-06-01T12:00:01"))
    owner.define(jitter_kind="job", jitter_ms=600_000)
    at_ms = owner.state.next_at_ms
    assert at_ms is not None
    assert ms("2027-06-01T12:00:01") < at_ms < ms("2027-06-01T13:10:00")

    owner.run_until(at_ms)

    assert opened(owner)[0].scheduled_at_ms == at_ms


def test_slots_dropped_inside_a_skipped_range_are_counted_in_its_record() -> None:
    owner = ManualOwner(now_ms=ms("2027-03-12T12:00:00"))
    owner.calendars = {"fair": CalendarSpec("fair", dates=("2027-03-17", "2027-03-18"))}
    spec = CronSpec(expression="30 2 * * *", time_zone="America/New_York", gap="skip")
    owner.define(schedule=spec, calendars=("fair",), catch_up="none")
    owner.absent = (owner.now_ms, ms("2027-03-20T12:00:00"))
    owner.now_ms = ms("2027-03-20T12:00:00")
    owner.wake()

    ranges = [event for event in owner.log if isinstance(event, OccurrencesSkipped)]
    assert [(event.reason, event.count, event.dropped_gap, event.dropped_calendar) for event in ranges] == [
        ("catch_up", 5, 1, 2)
    ]
    assert owner.state.skips_total == 8  # the 13th to the 20th, each once: R8


def test_a_slot_dropped_at_the_edge_of_a_skipped_range_is_recorded_once() -> None:
    owner = ManualOwner(now_ms=ms("2027-03-12T12:00:00"))
    owner.define(schedule=CronSpec(expression="30 2 * * *", time_zone="America/New_York", gap="skip"), catch_up="none")
    owner.absent = (owner.now_ms, ms("2027-03-14T12:00:00"))
    owner.now_ms = ms("2027-03-14T12:00:00")
    owner.wake()
    owner.run_until(ms("2027-03-15T12:00:00"))

    skipped = [event for event in owner.log if isinstance(event, OccurrencesSkipped)]
    assert [(event.reason, event.count, event.dropped_gap) for event in skipped] == [("catch_up", 1, 0), ("gap", 1, 0)]
    assert [event.scheduled_at_ms for event in opened(owner)] == [ms("2027-03-15T06:30:00")]
