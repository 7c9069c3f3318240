"""`horolog export`: what it writes, `horolog apply` takes back with no change, whatever the jobs are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.bodies import JobBody, decode, decoder
from api.definitions import check, define, definition_view
from horolog._cli.definitions import OWNER_LABEL
from horolog._cli.documents import parse_documents, to_text
from horolog._cli.export import definition_of_job, file_of
from horolog._cli.plan import KEEP, plan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horolog.testing import FakeGateway
    from streams.core.definition import Definition

    Horolog = Callable[..., Awaitable[Any]]

NOW_MS = 1_800_000_000_000
SCHEDULES: list[dict[str, Any]] = [
    {"schedule": {"cron": "0 9 * * MON-FRI", "timeZone": "America/New_York"}},
    {"schedule": {"cron": "*/5 * * * * *"}},
    {"schedule": {"cron": "30 2 * * *", "timeZone": "Europe/Berlin", "gap": "skip", "overlapHour": "both"}},
    {"schedule": {"cron": "H H(0-7) * * *", "timeZone": "Europe/Berlin", "overlapHour": "second"}},
    {"schedule": {"cron": "@daily"}},
    {"schedule": {"every": "1h30m"}},
    {"schedule": {"every": 86_461_001, "anchor": "2026-12-01T00:00:00Z"}},
    {"schedule": {"everyCalendar": {"unit": "month", "at": "09:00", "startDate": "2026-12-31"}}},
    {
        "schedule": {
            "everyCalendar": {
                "unit": "year",
                "every": 2,
                "at": "10:30:15",
                "startDate": "2027-02-28",
                "timeZone": "Europe/Berlin",
            },
            "gap": "skip",
        }
    },
    {
        "schedule": {
            "rrule": "FREQ=WEEKLY;BYDAY=MO",
            "dtStart": "2026-12-01T09:00:00",
            "timeZone": "Europe/Berlin",
            "overlapHour": "second",
        }
    },
    {"runAt": "2027-12-01T09:00:00.250Z"},
    {"runAtLocal": "2027-12-01T09:00:00", "timeZone": "Asia/Tokyo"},
]
POLICIES: list[dict[str, Any]] = [
    {},
    *({"catchUp": value} for value in ("latest", "all", "none")),
    *({"overlap": value} for value in ("allow", "skip", "queue", "replace")),
    *({"lane": value} for value in ("high", "normal", "low")),
    {"retry": {"maxAttempts": 1}},
    {"retry": {"backoff": "fixed"}},
    {"retry": {"backoff": "fixed", "baseSeconds": 0}},
    {"retry": {"backoff": "fixed", "baseSeconds": 0.5, "maxAttempts": 100}},
    {"retry": {"backoff": "exponential", "baseSeconds": 1}},
    {"retry": {"backoff": "none", "maxAttempts": 3}},
    {"timeoutSeconds": 90.5, "startDeadlineSeconds": 600},
    {"startAt": "2026-12-01T00:00:00+01:00", "endAt": "2029-12-01T00:00:00Z", "maxRuns": 7},
    {"jitterSeconds": 0.25},
    {"concurrencyKey": "customer:42"},
    {"concurrencyKey": "k", "concurrencyWeight": 3},
    {"task": "other", "queue": "billing", "labels": {"team": "eu", "empty": ""}},
    {"payload": {"text": "yes", "number": 1e30, "list": [None, True, "2026-12-01", "10:30", "\u2028"]}},
    {"task": "job"},
    {"payload": False},
    {"payload": ""},
]


def defined(body: dict[str, Any], job_id: str = "job") -> Definition:
    fields = {name: value for name, value in body.items() if name not in {"jobId", "paused"}}
    read = decode(decoder(JobBody), json.dumps(fields).encode())
    return define(read, job_id=job_id, tenant="default", now_ms=NOW_MS, default_name=job_id)


def job_object(definition: Definition, paused: dict[str, Any] | None = None) -> dict[str, Any]:
    """Write the job object as the real gateway does."""
    view = definition_view(definition, with_payload=True)
    body: dict[str, Any] = json.loads(msgspec.json.encode(view))
    return body | {"version": 3, "state": "paused" if paused else "active", "paused": paused, "warnings": []}


def back(text: str, form: str) -> dict[str, Any]:
    (document,) = parse_documents(Path(f"jobs.{form}"), text)
    value: dict[str, Any] = document.value
    return value


# --- against the real gateway's own reading and writing ---------------------------------------------


@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.parametrize("policy", POLICIES, ids=json.dumps)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=json.dumps)
def test_every_schedule_and_policy_comes_back_unchanged(
    schedule: dict[str, Any], policy: dict[str, Any], form: str
) -> None:
    definition = defined({"name": "n", **schedule, **policy})
    assert check(definition, now_ms=NOW_MS) is not None
    present = job_object(definition)

    (job,) = back(to_text(file_of([present]), form), form)["jobs"]
    (step,) = plan({"job": {name: value for name, value in job.items() if name != "jobId"}}, {"job": present}, [])

    assert (step.action, step.changes) == (KEEP, ())
    assert defined(job) == definition


def test_what_is_a_default_is_left_out() -> None:
    every = job_object(defined({"schedule": {"every": 90_000}}))
    cron = job_object(defined({"schedule": {"cron": "0 9 * * *"}, "retry": {"backoff": "fixed"}}))

    usual = {"jobId": "job", "name": "job", "queue": "default"}
    assert definition_of_job(every) == usual | {"schedule": {"every": "1m30s"}}
    assert definition_of_job(cron) == usual | {
        "schedule": {"cron": "0 9 * * *", "timeZone": "UTC"},
        "retry": {"backoff": "fixed"},
    }


PAYLOADS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


@settings(deadline=None)
@given(
    st.sampled_from(SCHEDULES),
    st.lists(st.sampled_from(POLICIES), max_size=4),
    PAYLOADS,
    NAMES,
    st.dictionaries(NAMES, NAMES, max_size=3),
)
@example(SCHEDULES[0], [], {"\x85": ["a\u2028b", "\u2029"]}, "n", {})
def test_any_payload_name_and_label_comes_back_unchanged(
    schedule: dict[str, Any], policies: list[dict[str, Any]], payload: Any, name: str, labels: dict[str, str]
) -> None:
    body = {"name": name, **schedule}
    for policy in policies:
        body |= policy
    definition = defined(body | {"payload": payload, "labels": labels})

    for form in ("yaml", "json"):
        text = to_text({"jobs": [definition_of_job(job_object(definition))]}, form)
        (job,) = back(text, form)["jobs"]
        assert defined(job) == definition


# --- the command --------------------------------------------------------------------------------------


async def fill(horolog: Horolog, tmp_path: Path) -> None:
    jobs = [
        {"jobId": f"j-{number:02}", "name": f"n{number}", **SCHEDULES[number % len(SCHEDULES)], **policy}
        for number, policy in enumerate(POLICIES)
    ]
    path = tmp_path / "fill.json"
    path.write_text(json.dumps({"jobs": jobs}))
    said = await horolog("apply", "-f", str(path))
    assert said.code == 0, said.err


@pytest.mark.parametrize("name", ["jobs.yaml", "jobs.json"])
async def test_a_second_gateway_gets_the_same_and_the_first_no_change(
    horolog: Horolog, gateway: FakeGateway, tmp_path: Path, name: str
) -> None:
    await fill(horolog, tmp_path)
    await horolog("jobs", "pause", "j-01", "--note", "holidays: all", "--until", "2027-01-02T09:00:00Z")
    await horolog("jobs", "pause", "j-02")
    await horolog("jobs", "delete", "j-03")
    path = str(tmp_path / name)

    exported = await horolog("export", "-o", path)
    calls = len(gateway.calls)
    same = await horolog("apply", "-f", path, "--dry-run")
    applied = await horolog("apply", "-f", path)
    methods = {call.method for call in list(gateway.calls)[calls:]}
    gateway.jobs.clear()
    anew = await horolog("apply", "-f", path)
    again = await horolog("export", "--format", "json" if name.endswith("json") else "yaml")

    count = len(POLICIES) - 1
    assert (exported.code, exported.out, exported.err) == (0, "", f"{count} jobs.\n")
    assert f"Would be: 0 created, 0 changed, 0 deleted, {count} unchanged" in same.out
    assert applied.out.endswith(f"{count} unchanged.\n")
    assert methods == {"GET"}
    assert f"{count} created" in anew.out
    assert again.out == (tmp_path / name).read_text()
    assert gateway.jobs["j-01"].paused is not None
    assert gateway.jobs["j-01"].paused["note"] == "holidays: all"


async def test_a_filter_chooses_and_an_owner_stands_at_the_top(
    horolog: Horolog, gateway: FakeGateway, tmp_path: Path
) -> None:
    await fill(horolog, tmp_path)
    label = ("--label", f"{OWNER_LABEL}=me")
    await horolog("jobs", "create", "a", "--id", "a", "--every", "1h", "--queue", "q", *label, "--label", "team=us")
    await horolog("jobs", "create", "b", "--id", "b", "--every", "2h", "--queue", "q", *label)
    by_queue = await horolog("export", "--queue", "q")
    by_label = await horolog("export", "--label", "team=us", "--format", "json")
    path = tmp_path / "q.yaml"
    path.write_text(by_queue.out)
    pruned = await horolog("apply", "-f", str(path), "--prune")

    assert by_queue.out == (
        "owner: me\njobs:\n- jobId: a\n  name: a\n  queue: q\n  schedule:\n    every: 1h\n  labels:\n    team: us\n"
        "- jobId: b\n  name: b\n  queue: q\n  schedule:\n    every: 2h\n"
    )
    assert [job["jobId"] for job in by_label.json["jobs"]] == ["a"]
    assert pruned.out.endswith("0 created, 0 changed, 0 deleted, 2 unchanged.\n")
    assert len(gateway.jobs) == len(POLICIES) + 2


async def test_prune_takes_what_the_exported_file_loses_and_only_of_its_owner(
    horolog: Horolog, gateway: FakeGateway, tmp_path: Path
) -> None:
    for name, owner in (("a", "me"), ("b", "me"), ("c", "you")):
        await horolog("jobs", "create", name, "--id", name, "--every", "1h", "--label", f"{OWNER_LABEL}={owner}")
    exported = await horolog("export", "--label", f"{OWNER_LABEL}=me", "--format", "json")
    document = exported.json
    document["jobs"] = [job for job in document["jobs"] if job["jobId"] != "b"]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(document))

    said = await horolog("apply", "-f", str(path), "--prune")

    assert said.out == "= a\n- b\n0 created, 0 changed, 1 deleted, 1 unchanged.\n"
    assert {job_id: job.state for job_id, job in gateway.jobs.items()} == {"a": "active", "b": "deleted", "c": "active"}


async def test_jobs_of_several_owners_keep_their_labels(horolog: Horolog) -> None:
    await horolog("jobs", "create", "a", "--id", "a", "--every", "1h", "--label", f"{OWNER_LABEL}=me")
    await horolog("jobs", "create", "b", "--id", "b", "--every", "1h")
    said = await horolog("-o", "json", "export")

    assert "owner" not in said.json
    assert said.json["jobs"][0]["labels"] == {OWNER_LABEL: "me"}


async def test_finished_jobs_and_payloads_that_are_no_json_are_named_not_written(
    horolog: Horolog, gateway: FakeGateway
) -> None:
    for name in ("done", "binary", "plain"):
        await horolog("jobs", "create", name, "--id", name, "--at", "2027-01-01T00:00:00Z")
    gateway.jobs["done"].state = "finished"
    gateway.jobs["binary"].definition["payloadBase64"] = "AAE="
    usual = await horolog("export", "--format", "json")
    everything = await horolog("export", "--format", "json", "--all")

    assert [job["jobId"] for job in usual.json["jobs"]] == ["plain"]
    assert re.search(r"Left out: 1 finished jobs.*\nLeft out: binary: its payload is not JSON", usual.err)
    assert [job["jobId"] for job in everything.json["jobs"]] == ["done", "plain"]


async def test_a_delay_is_exported_as_the_instant_it_became(horolog: Horolog) -> None:
    await horolog("jobs", "create", "a", "--id", "a", "--in", "20m")
    said = await horolog("export", "--format", "json")

    assert set(said.json["jobs"][0]) == {"jobId", "name", "queue", "runAt"}


async def test_a_folder_that_is_not_there_is_exit_2(horolog: Horolog, tmp_path: Path) -> None:
    said = await horolog("export", "-o", str(tmp_path / "none" / "jobs.yaml"))

    assert said.code == 2
    assert "cannot be written: No such file or directory." in said.err
