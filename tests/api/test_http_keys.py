"""One key, one body: every call that takes an Idempotency-Key refuses another body under it, and repeats its answer."""

from __future__ import annotations

from typing import Any

import pytest

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

EVER = {"deadFrom": "1970-01-01T00:00:00Z"}
"""All dead runs: a bulk replay without a filter is refused."""

HOURLY = {"schedule": {"cron": "0 * * * *"}, "delaySeconds": None}
DAY = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T03:00:00Z"}
WHOLE = {"name": "n", "schedule": {"cron": "0 * * * *"}}


@pytest.mark.parametrize(
    ("method", "path", "body", "other"),
    [
        ("POST", "/v1/jobs/j/trigger", {"payload": 1}, {"payload": 2}),
        ("POST", "/v1/jobs/j/backfill", DAY, DAY | {"maxConcurrent": 2}),
        ("PUT", "/v1/jobs/j", WHOLE | {"lane": "high"}, WHOLE | {"lane": "low"}),
        ("PUT", "/v1/jobs/new", WHOLE, WHOLE | {"lane": "low"}),
        ("PATCH", "/v1/jobs/j", {"lane": "high"}, {"lane": "low"}),
        ("PATCH", "/v1/jobs/j", {"lane": "normal"}, {"lane": "low"}),
        ("POST", "/v1/jobs:pause", {"filter": {"queue": "default"}, "dryRun": False, "note": "a"}, {"note": "b"}),
        ("POST", "/v1/jobs:delete", {"filter": {"queue": "default"}, "dryRun": False}, {"filter": {"jobIds": ["j"]}}),
    ],
)
async def test_a_key_with_another_body_is_a_conflict(
    api: Api, method: str, path: str, body: dict[str, Any], other: dict[str, Any]
) -> None:
    await api.create(jobId="j", overlap="allow", **HOURLY)
    first = await api(method, path, body, Idempotency_Key="k")
    assert first.status in (200, 201), first.body
    after = dict(api.owner.jobs)
    changed = body | other if path.startswith("/v1/jobs:") else other
    refused = await api(method, path, changed, Idempotency_Key="k")
    assert refused.problem() == (409, "idempotency_conflict", "Idempotency-Key")
    assert api.owner.jobs == after
    repeat = await api(method, path, body, Idempotency_Key="k")
    assert (repeat.status in (first.status, 200), repeat.body) == (True, first.body)
    assert (await api(method, path, changed, Idempotency_Key="k2")).status in (200, 201)


async def test_a_refused_call_leaves_its_key_free(api: Api) -> None:
    await api.create(jobId="j", **HOURLY)
    await api("POST", "/v1/jobs/j/pause", {})
    assert (await api("POST", "/v1/jobs/j/trigger", {}, Idempotency_Key="k")).problem()[:2] == (409, "job_paused")
    assert (await api("POST", "/v1/jobs/j/trigger", {"force": True}, Idempotency_Key="k")).status == 201


@pytest.mark.parametrize(("method", "body"), [("PUT", WHOLE | {"lane": "high"}), ("PATCH", {"lane": "high"})])
async def test_a_repeated_edit_does_not_undo_what_somebody_changed_since(
    api: Api, method: str, body: dict[str, Any]
) -> None:
    await api.create(jobId="j", **HOURLY)
    first = await api(method, "/v1/jobs/j", body, Idempotency_Key="k")
    await api("PATCH", "/v1/jobs/j", {"lane": "low"})
    repeat = await api(method, "/v1/jobs/j", body, Idempotency_Key="k")
    assert (repeat.body, repeat.headers["Idempotent-Replayed"]) == (first.body, "true")
    assert repeat.headers["ETag"] == first.headers["ETag"]
    assert (await api("GET", "/v1/jobs/j")).body["lane"] == "low"


async def test_a_repeated_delete_does_not_delete_what_was_created_since(api: Api) -> None:
    await api.create(jobId="j", **HOURLY)
    first = await api("DELETE", "/v1/jobs/j", Idempotency_Key="k")
    await api.create(jobId="j", lane="low", **HOURLY)
    assert (await api("DELETE", "/v1/jobs/j", Idempotency_Key="k")).body == first.body
    assert (await api("GET", "/v1/jobs/j")).body["state"] == "active"


@pytest.mark.parametrize("what", ["cancel", "replay"])
async def test_a_note_is_part_of_the_body_of_a_call_on_a_run(api: Api, what: str) -> None:
    await api.create()
    (run,) = await api.lease()
    path = f"/v1/runs/{run['runId']}"
    if what == "replay":
        await api("POST", f"{path}/fail", {"leaseToken": run["leaseToken"], "error": "e", "retryable": False})
    first = await api("POST", f"{path}/{what}", {"note": "a"}, Idempotency_Key="k")
    assert first.status in (200, 201)
    refused = await api("POST", f"{path}/{what}", {"note": "b"}, Idempotency_Key="k")
    assert refused.problem() == (409, "idempotency_conflict", "Idempotency-Key")
    assert (await api("POST", f"{path}/{what}", {"note": "a"}, Idempotency_Key="k")).body == first.body


async def test_a_repeated_trigger_has_the_same_answer_when_its_run_has_ended(api: Api) -> None:
    await api.create(jobId="j", **HOURLY)
    first = await api("POST", "/v1/jobs/j/trigger", {"payload": 1}, Idempotency_Key="k")
    (run,) = await api.lease()
    await api("POST", f"/v1/runs/{run['runId']}/complete", {"leaseToken": run["leaseToken"]})
    repeat = await api("POST", "/v1/jobs/j/trigger", {"payload": 1}, Idempotency_Key="k")
    assert (repeat.status, repeat.body) == (201, first.body)


async def test_a_repeated_backfill_has_the_same_answer_after_an_edit_of_the_schedule(api: Api) -> None:
    await api.create(jobId="j", **HOURLY)
    first = await api("POST", "/v1/jobs/j/backfill", DAY, Idempotency_Key="k")
    assert first.body["runs"] == 3
    await api("PATCH", "/v1/jobs/j", {"schedule": {"cron": "0 9 * * *"}})
    repeat = await api("POST", "/v1/jobs/j/backfill", DAY, Idempotency_Key="k")
    assert (repeat.status, repeat.body) == (201, first.body)


@pytest.mark.parametrize("action", ["pause", "resume", "delete"])
@pytest.mark.parametrize("wanted", [{"labels": {"team": "x"}}, {"jobIds": ["j0", "j1", "j2"]}, {"text": "report"}])
async def test_a_repeated_bulk_change_gives_the_same_answer_and_its_undo_works(
    api: Api, action: str, wanted: dict[str, Any]
) -> None:
    for number in range(3):
        await api.create(jobId=f"j{number}", name="Report", labels={"team": "x"}, payload={"n": number}, **HOURLY)
    if action != "pause":
        await api("POST", "/v1/jobs/j1/pause", {"note": "mine", "actor": "ann"})
    before = (await api("GET", "/v1/jobs/j1")).body
    body = {"filter": wanted, "dryRun": False}
    first = await api("POST", f"/v1/jobs:{action}", body, Idempotency_Key="k")
    assert first.body["changed"] == (1 if action == "resume" else 3)
    repeat = await api("POST", f"/v1/jobs:{action}", body, Idempotency_Key="k")
    assert repeat.body == first.body
    undone = await api("POST", "/v1/jobs:undo", {"undoToken": repeat.body["undoToken"]})
    assert undone.body["changed"] == first.body["changed"]
    after = (await api("GET", "/v1/jobs/j1")).body
    assert (after["state"], after["payload"]) == (before["state"], {"n": 1})
    assert (after["paused"] or {}).get("actor") == (before["paused"] or {}).get("actor")


async def test_without_a_key_a_repeated_bulk_resume_is_another_call(api: Api) -> None:
    await api.create(jobId="j", **HOURLY)
    await api("POST", "/v1/jobs/j/pause", {})
    body = {"filter": {"jobIds": ["j"]}, "dryRun": False}
    first = await api("POST", "/v1/jobs:resume", body)
    repeat = await api("POST", "/v1/jobs:resume", body)
    assert (first.body["changed"], repeat.body["changed"], repeat.body["undoToken"]) == (1, 0, None)


@pytest.mark.parametrize(("first", "then"), [("pause", "resume"), ("resume", "pause")])
async def test_a_pause_or_resume_under_a_key_does_not_undo_what_somebody_did_since(
    api: Api, first: str, then: str
) -> None:
    await api.create(jobId="j", paused=first == "resume", **HOURLY)
    path, body = f"/v1/jobs/j/{first}", {"note": "a"}
    assert (await api("POST", path, body, Idempotency_Key="k")).status == 200
    changed = (await api("POST", f"/v1/jobs/j/{then}", {})).body
    repeat = await api("POST", path, body, Idempotency_Key="k")
    assert (repeat.status, repeat.body, repeat.headers["Idempotent-Replayed"]) == (200, changed, "true")
    refused = await api("POST", path, {"note": "b"}, Idempotency_Key="k")
    assert refused.problem() == (409, "idempotency_conflict", "Idempotency-Key")


async def dead_runs(api: Api, jobs: int, each: int = 1) -> None:
    for number in range(jobs):
        await api.create(jobId=f"d{number}", overlap="allow", **HOURLY)
        for _ in range(each):
            assert (await api("POST", f"/v1/jobs/d{number}/trigger", {})).status == 201
            (run,) = await api.lease()
            await api(
                "POST",
                f"/v1/runs/{run['runId']}/fail",
                {"leaseToken": run["leaseToken"], "error": "e", "retryable": False},
            )


@pytest.mark.parametrize(
    ("jobs", "each", "wanted"), [(4, 1, EVER), (1, 4, EVER), (2, 3, {"queue": "default"}), (1, 4, {"jobId": "d0"})]
)
async def test_a_repeated_bulk_replay_replays_what_the_first_one_did_and_nothing_further(
    api: Api, jobs: int, each: int, wanted: dict[str, Any]
) -> None:
    await dead_runs(api, jobs, each)
    body = {"dryRun": False, "limit": 2, **wanted}
    first = await api("POST", "/v1/runs:replay", body, Idempotency_Key="k")
    assert (first.body["replayed"], first.body["nextCursor"] is None) == (2, False)
    after = dict(api.owner.jobs)
    repeat = await api("POST", "/v1/runs:replay", body, Idempotency_Key="k")
    assert (repeat.status, repeat.body) == (200, first.body)
    assert api.owner.jobs == after
    refused = await api("POST", "/v1/runs:replay", body | {"ratePerSecond": 50}, Idempotency_Key="k")
    assert refused.problem() == (409, "idempotency_conflict", "Idempotency-Key")
    following = await api("POST", "/v1/runs:replay", body | {"cursor": first.body["nextCursor"]}, Idempotency_Key="k")
    assert following.body["replayed"] == 2
    assert not set(following.body["runs"]) & set(first.body["runs"])
    again = await api("POST", "/v1/runs:replay", body | {"cursor": first.body["nextCursor"]}, Idempotency_Key="k")
    assert again.body == following.body


async def test_without_a_key_a_repeated_bulk_replay_goes_on(api: Api) -> None:
    await dead_runs(api, 2)
    body = {"dryRun": False, "limit": 1, **EVER}
    first = await api("POST", "/v1/runs:replay", body)
    second = await api("POST", "/v1/runs:replay", body)
    assert (first.body["replayed"], second.body["replayed"]) == (1, 1)
    assert first.body["runs"] != second.body["runs"]
