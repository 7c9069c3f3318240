"""Bulk pause, resume and delete by filter, and taking them back."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest

from streams.core.job_filter import standing_of

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

DAILY = {"schedule": {"cron": "0 9 * * *"}, "delaySeconds": None}


async def _jobs(api: Api) -> None:
    for number in range(6):
        await api.create(
            jobId=f"j{number}",
            name=f"Report {number}" if number < 4 else "other",
            queue="ab"[number % 2],
            labels={"team": "x" if number < 2 else "y"},
            payload={"n": number},
            **DAILY,
        )


def _standing(api: Api) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for job_id, job in sorted(api.owner.jobs.items()):
        found.setdefault(standing_of(job.state), []).append(job_id)
    return found


async def test_a_dry_run_changes_nothing(api: Api) -> None:
    await _jobs(api)
    dry = await api("POST", "/v1/jobs:pause", {"filter": {"text": "report"}})
    assert (dry.body["dryRun"], dry.body["matched"], dry.body["changed"]) == (True, 4, 0)
    assert {item["jobId"] for item in dry.body["jobs"]} == {"j0", "j1", "j2", "j3"}
    assert set(_standing(api)) == {"active"}


@pytest.mark.parametrize(
    ("wanted", "hit"),
    [
        ({"queue": "a"}, ["j0", "j2", "j4"]),
        ({"labels": {"team": "x"}}, ["j0", "j1"]),
        ({"text": "REPORT", "queue": "b"}, ["j1", "j3"]),
        ({"namePrefix": "oth"}, ["j4", "j5"]),
        ({"jobIds": ["j5", "none", "j0"]}, ["j0", "j5"]),
    ],
)
async def test_a_pause_hits_what_the_filter_names_and_undo_resumes_it(
    api: Api, wanted: dict[str, Any], hit: list[str]
) -> None:
    await _jobs(api)
    await api("POST", "/v1/jobs/j3/pause", {"note": "mine"})
    hit = [job_id for job_id in hit if job_id != "j3"]
    paused = await api("POST", "/v1/jobs:pause", {"filter": wanted, "dryRun": False, "note": "quiet"})
    assert sorted(item["jobId"] for item in paused.body["jobs"] if item["ok"]) == hit
    assert _standing(api)["paused"] == sorted([*hit, "j3"])
    assert paused.body["correlationId"] in api.owner.jobs[hit[0]].state.pause.note
    undone = await api("POST", "/v1/jobs:undo", {"undoToken": paused.body["undoToken"]})
    assert (undone.body["changed"], undone.body["correlationId"]) == (len(hit), paused.body["correlationId"])
    assert _standing(api)["paused"] == ["j3"]
    again = await api("POST", "/v1/jobs:undo", {"undoToken": paused.body["undoToken"]})
    assert again.body["changed"] == len(hit)


async def test_an_undo_leaves_alone_what_somebody_changed_since(api: Api) -> None:
    await _jobs(api)
    body = {"filter": {"queue": "a"}, "dryRun": False}
    paused = (await api("POST", "/v1/jobs:pause", body)).body
    await api("POST", "/v1/jobs/j0/pause", {"note": "a longer pause, by hand"})
    undone = (await api("POST", "/v1/jobs:undo", {"undoToken": paused["undoToken"]})).body
    assert {item["jobId"]: item["ok"] for item in undone["jobs"]} == {"j0": False, "j2": True, "j4": True}
    assert _standing(api)["paused"] == ["j0"]


async def test_the_same_call_with_the_same_key_gives_the_same_undo(api: Api) -> None:
    await _jobs(api)
    body = {"filter": {"queue": "a"}, "dryRun": False}
    first = await api("POST", "/v1/jobs:pause", body, Idempotency_Key="k")
    repeat = await api("POST", "/v1/jobs:pause", body, Idempotency_Key="k")
    assert repeat.body == first.body
    other = await api("POST", "/v1/jobs:pause", body, Idempotency_Key="l")
    assert (other.body["matched"], other.body["undoToken"]) == (0, None)


async def test_a_resume_is_taken_back_with_the_old_note(api: Api) -> None:
    await _jobs(api)
    await api("POST", "/v1/jobs/j1/pause", {"note": "storm", "actor": "ann", "until": "2099-01-01T00:00:00Z"})
    resumed = (await api("POST", "/v1/jobs:resume", {"filter": {"queue": "b"}, "dryRun": False})).body
    assert (resumed["changed"], _standing(api)) == (1, {"active": [f"j{n}" for n in range(6)]})
    assert (await api("POST", "/v1/jobs:undo", {"undoToken": resumed["undoToken"]})).body["changed"] == 1
    pause = api.owner.jobs["j1"].state.pause
    assert (pause.actor, pause.note.startswith("storm"), pause.until_ms) == ("ann", True, 4_070_908_800_000)


async def test_deleted_jobs_come_back_as_they_were_defined(api: Api) -> None:
    await _jobs(api)
    await api("POST", "/v1/jobs/j2/pause", {"note": "n"})
    before = {job_id: api.owner.jobs[job_id].definition for job_id in ("j0", "j2", "j4")}
    deleted = (await api("POST", "/v1/jobs:delete", {"filter": {"queue": "a"}, "dryRun": False})).body
    assert (deleted["changed"], _standing(api)["deleted"]) == (3, ["j0", "j2", "j4"])
    for _ in range(2):
        undone = (await api("POST", "/v1/jobs:undo", {"undoToken": deleted["undoToken"]})).body
        assert undone["changed"] == 3
    assert {job_id: api.owner.jobs[job_id].definition for job_id in before} == before
    assert _standing(api) == {"active": ["j0", "j1", "j3", "j4", "j5"], "paused": ["j2"]}


async def test_pages_of_a_bulk_change_go_on_from_their_cursor(api: Api) -> None:
    await _jobs(api)
    body: dict[str, Any] = {"filter": {"labels": {"team": "y"}}, "dryRun": False, "limit": 3}
    first = (await api("POST", "/v1/jobs:delete", body)).body
    rest = (await api("POST", "/v1/jobs:delete", body | {"cursor": first["nextCursor"]})).body
    assert (first["changed"], rest["changed"], rest["nextCursor"]) == (3, 1, None)


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"filter": {}}, "missing_field", "filter"),
        ({"filter": {"queue": "no spaces"}}, "invalid_field", "filter.queue"),
        ({"filter": {"color": "red"}}, "unknown_field", "filter.color"),
        ({"filter": {"text": "x" * 257}}, "invalid_field", "filter.text"),
        ({"filter": {"jobIds": ["-x"]}}, "invalid_field", "filter.jobIds"),
        ({"filter": {"queue": "a"}, "limit": 1_001}, "invalid_field", "limit"),
        ({"filter": {"queue": "a"}, "note": "x" * 201}, "invalid_field", "note"),
        ({"filter": {"queue": "a"}, "until": "2099-01-01T00:00:00Z"}, "unknown_field", "until"),
    ],
)
async def test_a_wrong_bulk_call_names_its_field(api: Api, body: dict[str, Any], code: str, field: str) -> None:
    assert (await api("POST", "/v1/jobs:delete", body)).problem() == (422, code, field)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "%%%",
        base64.urlsafe_b64encode(b"no zlib").decode(),
        base64.urlsafe_b64encode(zlib.compress(b"[]")).decode(),
        base64.urlsafe_b64encode(zlib.compress(b" " * 50_000_000)).decode(),
    ],
    ids=["empty", "short", "no-base64", "no-zlib", "no-note", "bomb"],
)
async def test_a_token_that_is_none_is_refused(api: Api, token: str) -> None:
    assert (await api("POST", "/v1/jobs:undo", {"undoToken": token})).problem() == (422, "invalid_field", "undoToken")


async def test_another_tenants_jobs_are_out_of_reach(api: Api) -> None:
    await _jobs(api)
    deleted = (await api("POST", "/v1/jobs:delete", {"filter": {"queue": "a"}, "dryRun": False})).body
    token = deleted["undoToken"]
    note = zlib.decompress(base64.urlsafe_b64decode(token)).replace(b'"tenant":"default"', b'"tenant":"someone"')
    forged = base64.urlsafe_b64encode(zlib.compress(note)).decode()
    undone = (await api("POST", "/v1/jobs:undo", {"undoToken": forged})).body
    assert (undone["changed"], _standing(api)["deleted"]) == (0, ["j0", "j2", "j4"])


async def test_an_undo_of_a_deletion_leaves_a_job_that_was_created_otherwise_since(api: Api) -> None:
    hourly = {"schedule": {"cron": "0 * * * *"}, "delaySeconds": None}
    for job_id in ("same", "other"):
        await api.create(jobId=job_id, **hourly)
    deleted = await api("POST", "/v1/jobs:delete", {"filter": {"jobIds": ["same", "other"]}, "dryRun": False})
    await api.create(jobId="other", lane="low", **hourly)
    undone = await api("POST", "/v1/jobs:undo", {"undoToken": deleted.body["undoToken"]})
    assert {job["jobId"]: job.get("code") for job in undone.body["jobs"]} == {"same": None, "other": "version_mismatch"}
    assert (await api("GET", "/v1/jobs/other")).body["lane"] == "low"
    repeat = await api("POST", "/v1/jobs:undo", {"undoToken": deleted.body["undoToken"]})
    assert repeat.body == undone.body
