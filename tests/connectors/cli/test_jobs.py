"""`horolog jobs`, `runs` and `queues` against the fake gateway."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from horolog.testing import FakeGateway

    Horolog = Callable[..., Awaitable[Any]]

NEW_YORK = ("--cron", "0 9 * * MON-FRI", "--zone", "America/New_York")


async def test_create_sends_what_the_options_say(horolog: Horolog, gateway: FakeGateway) -> None:
    options = ("--queue", "billing", "--payload", '{"m": 11}', "--label", "team=eu", "--max-attempts", "3")
    more = ("--timeout", "1h30m", "--set", "retry.baseSeconds=2", "--overlap", "queue")

    said = await horolog("jobs", "create", "rollup", "--id", "nightly", *NEW_YORK, *options, *more)

    assert said.code == 0
    assert gateway.calls[-1].body == {
        "name": "rollup",
        "jobId": "nightly",
        "schedule": {"cron": "0 9 * * MON-FRI", "timeZone": "America/New_York"},
        "queue": "billing",
        "payload": {"m": 11},
        "labels": {"team": "eu"},
        "retry": {"maxAttempts": 3, "baseSeconds": 2},
        "timeoutSeconds": 5400.0,
        "overlap": "queue",
    }
    assert "Created nightly, version 1." in said.out
    assert "horolog jobs show nightly" in said.out


@pytest.mark.parametrize(
    ("options", "form"),
    [
        (("--every", "15m"), {"schedule": {"every": "15m"}}),
        (
            ("--every", "15m", "--anchor", "2026-12-01T00:00Z"),
            {"schedule": {"every": "15m", "anchor": "2026-12-01T00:00:00.000Z"}},
        ),
        (("--at", "2026-12-01T09:00:00Z"), {"runAt": "2026-12-01T09:00:00.000Z"}),
        (("--at", "2026-12-01T09:00", "--zone", "Europe/Berlin"), {"runAt": "2026-12-01T08:00:00.000Z"}),
        (
            ("--at-local", "2026-12-01T09:00:00", "--zone", "Europe/Berlin"),
            {"runAtLocal": "2026-12-01T09:00:00", "timeZone": "Europe/Berlin"},
        ),
        (("--in", "20m"), {"delaySeconds": 1200.0}),
        (
            ("--rrule", "FREQ=WEEKLY", "--dtstart", "2026-12-01T09:00:00", "--gap", "skip"),
            {
                "schedule": {
                    "rrule": "FREQ=WEEKLY",
                    "timeZone": "UTC",
                    "dtStart": "2026-12-01T09:00:00",
                    "gap": "skip",
                }
            },
        ),
    ],
)
async def test_every_time_form_has_its_options(
    horolog: Horolog, gateway: FakeGateway, options: tuple[str, ...], form: dict[str, Any]
) -> None:
    assert (await horolog("jobs", "create", "x", *options)).code == 0

    assert gateway.calls[-1].body == {"name": "x", **form}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("jobs", "create", "x", "--every", "1h", "--in", "5m"), "--every and --in were given: choose one"),
        (("jobs", "create", "x", "--zone", "UTC"), "--zone says nothing by itself"),
        (("jobs", "create", "x", "--in", "soon"), "--in: 'soon' is no length of time"),
        (("jobs", "create", "x", "--at", "noon"), "--at: 'noon' is no time"),
        (("jobs", "create", "x", "--every", "1h", "--payload", "hello"), "--payload: this is not JSON"),
        (("jobs", "create", "x", "--every", "1h", "--payload", "@nowhere"), "--payload: nowhere cannot be read"),
        (("jobs", "create", "x", "--every", "1h", "--label", "team"), "--label: write NAME=VALUE"),
        (("jobs", "edit", "x"), "Nothing to change was named"),
        (("jobs", "preview"), "Name a job, or give a schedule"),
        (("jobs", "preview", "x", "--count", "0"), "--count: 0 is not between 1 and 1000"),
        (("jobs", "list", "--label", "team"), "--label: write KEY=VALUE"),
        (("runs", "list"), "Name a job: horolog runs list JOB"),
        (("jobs",), "VERB"),
        (("jobs", "list", "--limit", "0"), "--limit"),
        (("jobs", "list", "--watch", "0"), "--watch"),
    ],
)
async def test_a_wrong_command_line_is_exit_2_and_says_what_to_write(
    horolog: Horolog, gateway: FakeGateway, arguments: tuple[str, ...], words: str
) -> None:
    said = await horolog(*arguments)

    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert not gateway.calls


async def test_a_payload_may_come_from_a_file(horolog: Horolog, gateway: FakeGateway, tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"a": [1]}', encoding="utf-8")

    assert (await horolog("jobs", "create", "x", "--in", "1h", "--payload", f"@{file}")).code == 0

    assert gateway.calls[-1].body["payload"] == {"a": [1]}


async def test_the_same_key_reaches_the_same_job(horolog: Horolog, gateway: FakeGateway) -> None:
    first = await horolog("jobs", "create", "x", "--every", "1h", "--key", "k1", "-o", "json")
    second = await horolog("-o", "json", "jobs", "create", "x", "--every", "1h", "--key", "k1")

    assert first.json["jobId"] == second.json["jobId"]
    assert len(gateway.jobs) == 1


async def test_a_job_is_edited_paused_resumed_triggered_and_deleted(horolog: Horolog, gateway: FakeGateway) -> None:
    await horolog("jobs", "create", "x", "--id", "x", *NEW_YORK)

    edited = await horolog("jobs", "edit", "x", "--lane", "high", "--version", "1")
    paused = await horolog("jobs", "pause", "x", "--note", "holidays", "--until", "2027-01-02T09:00")
    assert gateway.jobs["x"].paused == {
        "since": gateway.jobs["x"].paused["since"] if gateway.jobs["x"].paused else "",
        "actor": "anonymous",
        "note": "holidays",
        "until": "2027-01-02T14:00:00.000Z",  # in the job's zone
    }
    resumed = await horolog("jobs", "resume", "x")
    triggered = await horolog("jobs", "trigger", "x", "--payload", "7", "--key", "once")
    deleted = await horolog("jobs", "delete", "x")

    assert [said.code for said in (edited, paused, resumed, triggered, deleted)] == [0] * 5
    assert "Saved x, version 2." in edited.out
    assert "horolog jobs resume x" in paused.out
    (run,) = gateway.runs.values()
    assert run.payload == 7
    assert run.run_id in triggered.out
    assert gateway.jobs["x"].state == "deleted"


async def test_jobs_are_listed_over_pages_with_both_times(horolog: Horolog, gateway: FakeGateway) -> None:
    for number in range(5):
        await horolog("jobs", "create", f"n{number}", "--id", f"j{number}", "--at", "2026-12-02T09:00Z")

    said = await horolog("jobs", "list", "--limit", "4")
    as_json = await horolog("jobs", "list", "-o", "json")

    lines = said.out.splitlines()
    assert lines[0].split()[:3] == ["JOB", "QUEUE", "STATE"]
    assert [line.split()[0] for line in lines[1:]] == ["j0", "j1", "j2", "j3"]
    assert "Wed 2026-12-02 09:00:00+00:00" in lines[1]
    assert "2026-12-02 09:00:00.000Z" in lines[1]
    assert [job["jobId"] for job in as_json.json] == [f"j{n}" for n in range(5)]
    assert gateway.count("jobs") == 5 + 2


async def test_show_writes_times_in_the_jobs_zone_and_in_utc(horolog: Horolog) -> None:
    local = ("--at-local", "2026-12-02T09:00:00", "--zone", "Europe/Berlin")
    await horolog("jobs", "create", "x", "--id", "x", *local)
    await horolog("jobs", "trigger", "x")

    said = await horolog("jobs", "show", "x")

    assert said.code == 0
    assert "once at 2026-12-02T09:00:00 (Europe/Berlin)" in said.out
    assert "SCHEDULED FOR, Europe/Berlin" in said.out
    assert "Tue 2026-12-01 10:00:0" in said.out  # the fake's clock says 09:00 UTC


async def test_preview_of_a_job_and_of_a_schedule(horolog: Horolog) -> None:
    await horolog("jobs", "create", "x", "--id", "x", "--every", "1h")

    of_job = await horolog("jobs", "preview", "x", "--from", "2026-12-01T09:30Z", "--count", "2")
    of_schedule = await horolog("jobs", "preview", "--every", "1h", "--from", "2026-12-01T09:30Z", "--count", "2")

    assert of_job.code == of_schedule.code == 0
    assert of_job.out == of_schedule.out
    assert "2026-12-01 10:00:00.000Z" in of_job.out.splitlines()[1]


async def test_watch_shows_it_again_until_ctrl_c(horolog: Horolog) -> None:
    await horolog("jobs", "create", "x", "--id", "x", "--every", "1h")
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    said = await horolog("jobs", "list", "--watch", "0.5", pause=pause)

    assert said.code == 0
    assert waits == [0.5] * 3
    assert said.out.count("JOB") == 3


async def test_runs_are_listed_shown_and_cancelled(horolog: Horolog, gateway: FakeGateway) -> None:
    await horolog("jobs", "create", "x", "--id", "x", "--every", "1h")
    await horolog("jobs", "trigger", "x")
    (run_id,) = gateway.runs

    listed = await horolog("runs", "list", "x", "--state", "ready")
    shown = await horolog("runs", "show", run_id)
    cancelled = await horolog("runs", "cancel", run_id)
    none = await horolog("runs", "list", "x", "--outcome", "ran")

    assert run_id in listed.out
    assert "scheduledFor" in shown.out
    assert f"{run_id} is cancelled." in cancelled.out
    assert gateway.runs[run_id].outcome == "cancelled"
    assert "horolog explain x" in none.err


async def test_a_leased_run_is_cancelled_through_its_worker(horolog: Horolog, gateway: FakeGateway) -> None:
    run_id = gateway.add_run("t")
    gateway.memory.grant(gateway.runs[run_id], "w", 30.0)

    said = await horolog("runs", "cancel", run_id)

    assert "learns of it with its next heartbeat" in said.out
    assert gateway.runs[run_id].cancel_reason == "user"


async def test_queues_say_when_runs_wait_for_nobody(horolog: Horolog, gateway: FakeGateway) -> None:
    gateway.add_run("t", queue="billing")

    listed = await horolog("queues", "list")
    shown = await horolog("queues", "show", "billing")
    as_json = await horolog("queues", "show", "billing", "-o", "json")

    assert [line.split()[:2] for line in listed.out.splitlines()[1:]] == [["billing", "1"], ["default", "0"]]
    assert "horolog worker run" in shown.err
    assert as_json.json["ready"] == {"high": 0, "normal": 1, "low": 0}


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "list"),
        ("jobs", "show", "x"),
        ("jobs", "edit", "x", "--lane", "low"),
        ("jobs", "pause", "x"),
        ("jobs", "resume", "x"),
        ("jobs", "preview", "x"),
        ("jobs", "trigger", "x"),
        ("runs", "list", "x"),
        ("queues", "list"),
        ("explain", "x"),
        ("jobs", "delete", "x"),
    ],
)
async def test_json_output_is_one_document_and_nothing_else(horolog: Horolog, arguments: tuple[str, ...]) -> None:
    await horolog("jobs", "create", "x", "--id", "x", "--every", "1h")

    said = await horolog(*arguments, "--output", "json")

    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out) is not None
