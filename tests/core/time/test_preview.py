"""``horologd preview``: the line format, the exit codes, and that it is the scheduler's own function (B33)."""

from __future__ import annotations

from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from streams import cli
from streams.core.time import CronSpec, compile_schedule, utc_text
from streams.preview import PreviewArgs, add_preview, run_preview

NEW_YORK = {"cron": "30 2 * * *", "zone": "America/New_York", "after": "2026-03-08T06:30:00Z"}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def go(**options: Any) -> tuple[int, list[str], list[str]]:
        code = run_preview(PreviewArgs(**options))
        out, err = capsys.readouterr()
        return code, out.splitlines(), err.splitlines()

    return go


def test_one_line_an_occurrence_with_its_notes(run: Any) -> None:
    assert run(**NEW_YORK, count=2) == (
        0,
        [
            "2026-03-08T07:00:00Z\t2026-03-08T03:00:00-04:00; shifted from 02:30:00 (gap)",
            "2026-03-09T06:30:00Z\t2026-03-09T02:30:00-04:00",
        ],
        [],
    )


def test_after_is_exclusive_and_until_inclusive(run: Any) -> None:
    _, lines, _ = run(cron="0 * * * *", after="2026-01-01T00:00:00Z", until="2026-01-01T03:00:00Z", count=0)

    assert [line.split("\t")[0] for line in lines] == [f"2026-01-01T0{hour}:00:00Z" for hour in (1, 2, 3)]


def test_until_ends_before_count_and_count_before_until(run: Any) -> None:
    options = {"cron": "0 * * * *", "after": "2026-01-01T00:00:00Z", "until": "2026-01-01T03:00:00Z"}

    assert [len(run(**options, count=count)[1]) for count in (2, 3, 50)] == [2, 3, 3]
    assert len(run(**options)[1]) == 3


def test_policies_reach_the_schedule(run: Any) -> None:
    skipped = run(**NEW_YORK, count=1, gap="skip")[1]
    both = run(cron="30 1 * * *", zone="America/New_York", after="2026-11-01T00:00:00Z", count=2, overlap_hour="both")[
        1
    ]

    assert skipped == ["2026-03-09T06:30:00Z\t2026-03-09T02:30:00-04:00; dropped 2026-03-08T02:30:00 (gap)"]
    assert [line.rsplit("; ")[-1] for line in both] == ["first pass", "second pass"]


def test_previous_walks_backwards(run: Any) -> None:
    _, lines, _ = run(cron="0 0 * * 0", zone="America/New_York", after="2025-11-03T17:00:00Z", count=2, previous=True)

    assert [line.split("\t")[0] for line in lines] == ["2025-11-02T04:00:00Z", "2025-10-26T04:00:00Z"]


def test_previous_stops_at_until(run: Any) -> None:
    _, lines, _ = run(
        cron="0 0 * * *", after="2026-01-05T00:00:00Z", until="2026-01-03T00:00:00Z", count=0, previous=True
    )

    assert [line.split("\t")[0] for line in lines] == ["2026-01-04T00:00:00Z", "2026-01-03T00:00:00Z"]


OTHER_KINDS = [
    ({"every": "15m"}, ["2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"]),
    ({"every": "1500ms"}, ["2026-01-01T00:00:01.500Z", "2026-01-01T00:00:03Z"]),
    ({"every": "1h30m", "anchor": "2025-12-31T23:00:00Z"}, ["2026-01-01T00:30:00Z", "2026-01-01T02:00:00Z"]),
    ({"at": "2026-06-01T00:00:00.250Z"}, ["2026-06-01T00:00:00.250Z"]),
    ({"at": "2026-06-01T02:00:00+02:00"}, ["2026-06-01T00:00:00Z"]),
    ({"at": "2026-06-01T02:00", "zone": "Europe/Berlin"}, ["2026-06-01T00:00:00Z"]),
    (
        {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "dtstart": "2026-01-01T09:00"},
        ["2026-01-30T09:00:00Z", "2026-02-27T09:00:00Z"],
    ),
    (
        {"calendar": "2w", "local_time": "16:00", "anchor_date": "2026-01-06"},
        ["2026-01-06T16:00:00Z", "2026-01-20T16:00:00Z"],
    ),
]


@pytest.mark.parametrize(("options", "expected"), OTHER_KINDS, ids=[str(case[0]) for case in OTHER_KINDS])
def test_every_kind_of_schedule(run: Any, options: dict[str, str], expected: list[str]) -> None:
    code, lines, _ = run(**options, after="2026-01-01T00:00:00Z", count=2)

    assert code == 0
    assert [line.split("\t")[0] for line in lines] == expected


REFUSED = [
    {"cron": "0 0 30 2 *"},
    {"cron": "0 12 ? * 2-6"},
    {"cron": "61 * * * *"},
    {"cron": "0 0\n0 30 2 *"},
    {"cron": "0 9 * * *", "zone": "Mars/Olympus"},
    {"cron": "0 9 * * *", "every": "5m"},
    {},
    {"every": "soon"},
    {"every": "1ms"},
    {"at": "tomorrow"},
    {"at": "2026-03-08T02:30", "zone": "America/New_York", "gap": "skip"},
    {"cron": "0 9 * * *", "after": "2026-01-01T00:00:00"},
    {"cron": "0 9 * * *", "count": 0},
    {"cron": "0 9 * * *", "count": -1},
    {"cron": "0 9 * * *", "count": 10**20},
    {"cron": "0 9 * * *", "jitter": "job"},
    {"cron": "0 9 * * *", "jitter": "some"},
    {"cron": "0 9 * * *", "gap": "jump"},
    {"rrule": "FREQ=NEVER"},
    {"calendar": "1y"},
    {"calendar": "1d"},
    {"cron": "H * * * *", "job_id": "\udcff"},
    {"cron": "H * * * *", "job_id": "a\nb"},
    {"rrule": "FREQ=DAILY", "zone": "Europe/Berlin", "start_at": "9999-12-31T23:59:59Z"},
    *({"cron": "0 9 * * *", option: ""} for option in ("after", "until", "start_at", "end_at", "job_id", "zone")),
    {"every": "5m", "anchor": ""},
    {"rrule": "FREQ=DAILY", "dtstart": ""},
    {"cron": "0 9 * * *", "until": "2025-12-31T23:59:59Z"},
    {"cron": "0 9 * * *", "until": "2026-01-01T00:00:01Z", "previous": True},
    *(
        {kind: value, option: given}
        for kind, value in (("cron", "0 9 * * *"), ("every", "5m"), ("at", "2026-06-01T02:00"), ("rrule", "FREQ=DAILY"))
        for option, owner, given in (
            ("anchor", "every", "2026-01-01T00:00:00Z"),
            ("dtstart", "rrule", "2026-01-01T00:00"),
            ("local_time", "calendar", "09:00"),
            ("anchor_date", "calendar", "2026-01-01"),
            ("jitter_window", "jitter", "5s"),
        )
        if kind != owner
    ),
    *(
        {kind: value, option: "nonsense"}
        for kind, value in (("every", "5m"), ("at", "2026-06-01T02:00:00Z"))
        for option in ("zone", "gap", "overlap_hour")
    ),
    {"cron": "0 9 * * *", "after": "9999-12-31T23:59:59Z"},
    {"rrule": "FREQ=DAILY", "zone": "Asia/Tokyo", "after": "9999-12-31T23:59:59Z"},
    {"rrule": "DTSTART:20260101T090000\nRRULE:FREQ=DAILY"},
    {"rrule": "RRULE:FREQ=DAILY\nEXDATE:20260102T090000"},
]


@pytest.mark.parametrize("options", REFUSED, ids=[str(case) for case in REFUSED])
def test_what_cannot_be_scheduled_ends_with_2_and_one_line(run: Any, options: dict[str, Any]) -> None:
    code, lines, errors = run(**{"after": "2026-01-01T00:00:00Z", **options})

    assert (code, lines, len(errors)) == (2, [], 1)


REFUSED_BY_NAME = [
    ({"at": "2999-01-01T00:00:00Z"}, ("at '2999-01-01T00:00:00Z'", "1970 to 2199")),
    ({"cron": "0 9 * * *", "after": "2999-01-01T00:00:00Z"}, ("2999-01-01T00:00:00Z", "before 2200")),
    ({"cron": "0 0 29 2 *", "after": "2196-03-01T00:00:00Z"}, ("2196-02-29T00:00:00Z", "before 2200")),
    (
        {"rrule": "FREQ=DAILY;COUNT=3", "dtstart": "2025-01-01T09:00"},
        ("its last was 2025-01-03T09:00:00Z", "COUNT"),
    ),
    ({"rrule": "FREQ=DAILY;UNTIL=20250105", "dtstart": "2025-01-01T09:00"}, ("2025-01-05T09:00:00Z", "UNTIL")),
    ({"rrule": "DTSTART;TZID=Asia/Tokyo:20260101T090000 RRULE:FREQ=DAILY"}, ("DTSTART is not", "dtstart")),
    ({"cron": "0 9 * * *", "dtstart": "2026-01-01T00:00"}, ("--cron", "--rrule")),
]


@pytest.mark.parametrize(("options", "named"), REFUSED_BY_NAME, ids=[str(case[0]) for case in REFUSED_BY_NAME])
def test_a_refusal_names_what_was_written_and_a_fix_that_helps(
    run: Any, options: dict[str, Any], named: tuple[str, ...]
) -> None:
    code, _, [error] = run(**{"after": "2026-01-01T00:00:00Z", **options})

    assert code == 2
    assert [text for text in named if text not in error] == []


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"])
def test_a_rule_without_dtstart_starts_at_the_local_time_of_after(run: Any, zone: str) -> None:
    """Each hour of a day: the first of a daily rule is the next such hour of the zone, and COUNT counts from there."""
    after = datetime(2026, 3, 7, 4, 30, tzinfo=UTC)
    for hour in range(24):
        _, lines, _ = run(
            rrule=f"FREQ=DAILY;BYHOUR={hour};BYMINUTE=0;BYSECOND=0;COUNT=1", zone=zone, after=after.isoformat()
        )
        expected = after.astimezone(ZoneInfo(zone)).replace(hour=hour, minute=0)
        expected += timedelta(days=expected <= after)
        assert [line.split("\t")[0] for line in lines] == [utc_text(int(expected.timestamp() * 1000))]


@pytest.mark.parametrize("options", [{"every": "1h"}, {"at": "2026-01-01T01:00:00Z"}, {"cron": "0 * * * *"}])
def test_local_time_is_shown_in_the_zone_asked_for(run: Any, options: dict[str, str]) -> None:
    _, lines, _ = run(**options, zone="Asia/Kathmandu", after="2026-01-01T00:00:00Z", count=1)

    assert lines[0].split("\t")[1].startswith("2026-01-01T06:")
    assert "+05:45" in lines[0]


def test_below_a_millisecond_after_stays_exclusive_until_inclusive_and_nothing_is_early(run: Any) -> None:
    def instants(**options: Any) -> list[str]:
        return [line.split("\t")[0][-7:] for line in run(count=0, **options)[1]]

    just_after, just_before = "2026-01-01T00:00:01.0005Z", "2026-01-01T00:00:00.9995Z"
    start, end = "2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z"
    assert instants(cron="* * * * * *", after=just_before, until=end) == [":00:01Z", ":00:02Z"]
    assert instants(cron="* * * * * *", after=just_after, until=end) == [":00:02Z"]
    assert instants(cron="* * * * * *", after=start, until=just_before) == []
    assert instants(cron="* * * * * *", after=just_after, until=start, previous=True) == [":00:01Z", ":00:00Z"]
    assert instants(cron="* * * * * *", after=end, until=just_after, previous=True) == []
    assert instants(at=just_after, after=start, until=end) == ["01.001Z"]


def test_a_small_t_and_z_are_rfc_3339(run: Any) -> None:
    assert len(run(cron="0 * * * *", after="2026-01-01t00:00:00z", until="2026-01-01t03:00:00z")[1]) == 3


def test_warnings_do_not_stop_the_preview(run: Any) -> None:
    code, lines, errors = run(cron="* 9 * * *", after="2026-01-01T00:00:00Z", count=1)

    assert (code, len(lines), len(errors)) == (0, 1, 1)
    assert errors[0].startswith("warning: minute")


def test_explain_gives_the_rule_and_the_irregular_nights(run: Any) -> None:
    _, lines, _ = run(**NEW_YORK, count=1, explain=True)

    comments = [line for line in lines if line.startswith("# ")]
    assert "at 02:30 every day, America/New_York" in comments[0]
    assert "12 months" in comments[1]
    assert [line.split()[1] for line in comments[2:]] == ["2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z"]
    assert lines[-1].startswith("2026-03-08T07:00:00Z\t")


@pytest.mark.parametrize(
    ("options", "effects"),
    [
        ({}, ["shifted from 02:30:00 (gap)", "2026-10-25T00:30:00Z in the first pass"]),
        ({"gap": "skip"}, ["02:30:00 dropped", "2026-10-25T00:30:00Z in the first pass"]),
        ({"exclude_dates": ("2026-03-29", "2026-10-25")}, ["excluded by a calendar", "no run in it"]),
        (
            {"gap": "skip", "exclude_dates": ("2026-03-29",)},
            ["02:30:00 dropped", "2026-10-25T00:30:00Z in the first pass"],
        ),
        ({"end_at": "2026-03-20T00:00:00Z"}, ["no run in it", "no run in it"]),
        ({"start_at": "2026-04-01T00:00:00Z"}, ["no run in it", "2026-10-25T00:30:00Z in the first pass"]),
    ],
)
def test_explain_tells_what_window_and_calendars_leave_of_an_irregular_night(
    run: Any, options: dict[str, Any], effects: list[str]
) -> None:
    _, lines, _ = run(
        cron="30 2 * * *", zone="Europe/Berlin", after="2026-03-01T00:00:00Z", count=1, explain=True, **options
    )

    assert [line.split("): ")[1] for line in lines if line.startswith("# 2026")] == effects


def test_a_long_row_of_dropped_slots_is_short(run: Any) -> None:
    _, lines, _ = run(cron="* * * * *", zone="America/New_York", after="2026-03-08T06:59:00Z", count=1)

    assert lines[0].count("(gap)") == 4
    assert lines[0].endswith("; dropped 56 more")


def test_jitter_and_excluded_dates_are_shown(run: Any) -> None:
    jittered = run(cron="@hourly", after="2026-01-01T00:30:00Z", count=1, jitter="job", jitter_window="10m")[1]
    excluded = run(cron="@daily", after="2026-01-01T12:00:00Z", count=1, exclude_dates=("2026-01-02",))[1]

    at, notes = jittered[0].split("\t")
    delay = timedelta(seconds=float(notes.split("; jitter ")[1].removesuffix(" s")))
    assert datetime.fromisoformat(at) - delay == datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert excluded == ["2026-01-03T00:00:00Z\t2026-01-03T00:00:00+00:00; dropped 2026-01-02T00:00:00+00:00 (calendar)"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--nope"], "--nope"),
        (["--every", "1h", "--con", "3"], "--con"),
        (["--every", "1h", "--count", "x"], "--count"),
        (["--every", "1h", "extra"], "extra"),
        (["--cron"], "--cron"),
    ],
)
def test_a_command_line_that_cannot_be_read_ends_with_2_and_one_line(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["preview", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert named in line
    assert line.endswith("; see horologd preview --help")


def test_the_command_line() -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    add_preview(app)
    arguments = ["preview", "--cron", "30 2 * * *", "--zone", "America/New_York", "--after", "2026-03-08T06:30:00Z"]
    good = CliRunner().invoke(app, [*arguments, "--count", "1", "--gap", "skip", "--job-id", "x"])
    bad = CliRunner().invoke(app, ["preview", "--cron", "0 0 30 2 *"])
    back = CliRunner().invoke(app, [*arguments, "--previous", "--count", "1", "--overlap-hour", "both"])

    assert (good.exit_code, good.stdout.split("\t")[0]) == (0, "2026-03-09T06:30:00Z")
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert back.stdout.split("\t")[0] == "2026-03-07T07:30:00Z"


@settings(max_examples=30, deadline=None)
@given(
    minute=st.integers(0, 59),
    hour=st.sampled_from(["*", "*/3", "0", "2", "1,2,3"]),
    zone=st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]),
    day=st.integers(0, 364),
)
def test_b33_preview_and_execution_are_one_function(minute: int, hour: str, zone: str, day: int) -> None:
    """B33: what preview prints is what an owner steps through, occurrence by occurrence."""
    text = f"{minute} {hour} * * *"
    after = 1_767_225_600_000 + day * 86_400_000
    printed = StringIO()
    with redirect_stdout(printed):
        code = run_preview(PreviewArgs(cron=text, zone=zone, after=utc_text(after), count=8))
    schedule, at_ms, expected = compile_schedule(CronSpec(text, zone), job_id="another"), after, []
    for _ in range(8):
        found = schedule.next_after(at_ms)
        assert found is not None
        at_ms = found.at_ms
        expected.append(utc_text(at_ms))

    assert code == 0
    assert [line.split("\t")[0] for line in printed.getvalue().splitlines()] == expected
