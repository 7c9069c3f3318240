"""Zone data: our transition lists equal the standard library's zones, for every zone and far into the future."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import tzdata  # type: ignore[import-untyped]  # no stubs; one constant is read

from streams.core.time import INSTALLED_ZONE_DATA, CronSpec, InvalidSchedule, ZoneData, compile_schedule
from streams.core.time.posix_tz import posix_offsets

END_S = 7_258_118_400


def test_the_version_is_named() -> None:
    assert INSTALLED_ZONE_DATA.version == tzdata.IANA_VERSION


def test_offsets_equal_the_standard_library_in_every_zone(zone_of: Any, seeded: Any) -> None:
    """Just before and at every change, and at random instants from 1970 to 2199."""
    picks = seeded(1)
    for name in sorted(INSTALLED_ZONE_DATA.names()):
        ours, theirs = INSTALLED_ZONE_DATA.zone(name), zone_of(name)
        near = [at + delta for at in ours.transitions for delta in (-1, 0)]
        for instant in near[:400] + near[-40:] + [picks.randrange(END_S) for _ in range(40)]:
            offset = datetime.fromtimestamp(instant, theirs).utcoffset()
            assert offset == timedelta(seconds=ours.offset_at(instant)), (name, instant)


def test_no_change_is_missing_from_the_lists(zone_of: Any, seeded: Any) -> None:
    """Weekly samples of every zone over 60 years would show a change that the list lacks."""
    picks = seeded(2)
    for name in picks.sample(sorted(INSTALLED_ZONE_DATA.names()), 60):
        ours, theirs = INSTALLED_ZONE_DATA.zone(name), zone_of(name)
        for instant in range(picks.randrange(604_800), 60 * 31_557_600, 604_800):
            offset = datetime.fromtimestamp(instant, theirs).utcoffset()
            assert offset == timedelta(seconds=ours.offset_at(instant)), (name, instant)


def test_future_rules_hold_to_the_end_of_the_search(ask: Any) -> None:
    assert ask.next("0 12 * * *", "America/New_York", "2199-07-01T00:00Z") == ["2199-07-01T16:00Z"]
    assert ask.schedule("0 12 * * *", "America/New_York").next_after((END_S - 86_400) * 1000 + 86_399_999) is None


@pytest.mark.parametrize(
    "name", ["Europe/Berln", "../etc/passwd", "/etc/localtime", "", "europe/berlin", "A" * 5000, "UTC\0", "Europe"]
)
def test_an_unknown_zone_is_refused_with_a_suggestion(name: str) -> None:
    with pytest.raises(InvalidSchedule, match="unknown in zone data") as refused:
        compile_schedule(CronSpec("0 9 * * *", name), job_id="job-1")

    assert refused.value.field == "time zone"
    assert refused.value.fix


def test_near_names_are_offered() -> None:
    with pytest.raises(InvalidSchedule, match="Europe/Berlin"):
        compile_schedule(CronSpec("0 9 * * *", "Europe/Berln"), job_id="job-1")


def test_a_directory_of_zone_files_is_a_version_of_its_own(zone_data_of: Any) -> None:
    data = zone_data_of("2020z", {"Test/Zone": ([3_600, 7_200], [(1_000_000_000, 1)])})
    zone = data.zone("Test/Zone")

    assert (data.names(), zone.offset_at(999_999_999), zone.offset_at(1_000_000_000)) == (
        frozenset({"Test/Zone"}),
        3_600,
        7_200,
    )
    with pytest.raises(InvalidSchedule, match="2020z"):
        data.zone("Europe/Berlin")
    assert ZoneData("2020z", data.directory) == data


@pytest.mark.parametrize(
    ("text", "instant", "offset"),
    [
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2150-07-01T00:00Z", 7_200),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2150-12-01T00:00Z", 3_600),
        ("<-03>3", "2150-12-01T00:00Z", -10_800),
        ("IST-1GMT0,M10.5.0,M3.5.0/1", "2150-01-01T00:00Z", 0),
        ("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2150-01-01T00:00Z", 39_600),
        ("EST5EDT,J60/0,J300/0", "2152-03-01T06:00Z", -14_400),
        ("EST5EDT,J60/0,J300/0", "2152-03-01T04:00Z", -18_000),
        ("XXX3EDT4,0/0,J365/23", "2150-06-01T00:00Z", -14_400),
        ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2150-07-01T00:00Z", -3_600),
    ],
)
def test_footer_rules(ms: Any, text: str, instant: str, offset: int) -> None:
    standard, steps = posix_offsets(text, ms("2149-01-01T00:00Z") // 1000)
    at_s = ms(instant) // 1000

    assert [standard, *[after for at, after in steps if at <= at_s]][-1] == offset


def test_an_unreadable_footer_is_an_error() -> None:
    with pytest.raises(ValueError, match="unreadable"):
        posix_offsets("no rule at all", 0)


def test_instants_before_1970_and_after_2199_are_outside(ask: Any, ms: Any) -> None:
    schedule = ask.schedule("0 0 * * *", "America/Los_Angeles")
    first, last = schedule.next_after(-(10**15)), schedule.previous_before(10**15)

    assert first is not None
    assert last is not None
    assert (first.at_ms, last.at_ms) == (ms("1970-01-01T08:00Z"), ms("2199-12-31T08:00Z"))
    days = (datetime(2200, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
    assert schedule.count_between(-(10**15), 10**15) == days
