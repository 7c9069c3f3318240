"""Every changing call may be sent again after a lost answer: one effect, the same answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.auth import Auth
from api.gateway import Limits

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

HOURLY = {"schedule": {"cron": "0 * * * *"}, "delaySeconds": None}
NEW = {"name": "n", "schedule": {"cron": "0 * * * *"}}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/jobs", NEW, 201),
        ("PUT", "/v1/jobs/new", NEW, 201),
        ("PUT", "/v1/jobs/j", NEW | {"lane": "high"}, 200),
        ("PATCH", "/v1/jobs/j", {"lane": "low"}, 200),
        ("DELETE", "/v1/jobs/j", None, 200),
        ("POST", "/v1/jobs/j/pause", {"note": "n"}, 200),
        ("POST", "/v1/jobs/j/resume", {}, 200),
        ("POST", "/v1/jobs/j/trigger", {}, 201),
        ("POST", "/v1/jobs/j/backfill", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T03:00:00Z"}, 201),
        ("POST", "/v1/jobs:pause", {"filter": {"jobIds": ["j"]}, "dryRun": False}, 200),
        ("PUT", "/v1/queues/q", {"description": "d"}, 201),
        ("PUT", "/v1/tenants/default", {"maxLeaseRatePerSecond": 5}, 200),
    ],
)
async def test_a_repeat_with_the_same_key_has_one_effect(
    api: Api, method: str, path: str, body: Any, status: int
) -> None:
    await api.create(jobId="j", **HOURLY)
    first = await api(method, path, body, Idempotency_Key="key-1")
    assert first.status == status
    after = dict(api.owner.jobs)
    repeat = await api(method, path, body, Idempotency_Key="key-1")
    assert repeat.status in (status, 200)
    assert repeat.body == first.body
    assert api.owner.jobs == after


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/jobs", NEW),
        ("POST", "/v1/jobs/j/trigger", {}),
        ("POST", "/v1/jobs/j/backfill", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T03:00:00Z"}),
        ("POST", "/v1/jobs/j/pause", {}),
        ("DELETE", "/v1/jobs/j", None),
        ("PATCH", "/v1/jobs/j", {"lane": "low"}),
    ],
)
async def test_a_repeat_after_504_finds_what_the_first_call_did(serve: Any, method: str, path: str, body: Any) -> None:
    async with serve(Auth(None), Limits(partitions=4), reply_timeout_ms=200) as api:
        await api.create(jobId="j", **HOURLY)
        say = api.link.say_replies
        lost: list[Any] = []
        api.link.say_replies = lambda *batches: lost.extend(batches)
        first = await api(method, path, body, Idempotency_Key="key-1")
        assert first.problem() == (504, "outcome_unknown", None)
        assert lost
        api.link.say_replies = say
        after = dict(api.owner.jobs)
        repeat = await api(method, path, body, Idempotency_Key="key-1")
        assert repeat.status in (200, 201)
        assert api.owner.jobs == after


async def test_another_body_under_the_key_is_409(api: Api) -> None:
    await api("POST", "/v1/jobs", NEW, Idempotency_Key="k")
    other = await api("POST", "/v1/jobs", NEW | {"lane": "high"}, Idempotency_Key="k")
    assert other.problem() == (409, "idempotency_conflict", "Idempotency-Key")


async def test_the_key_order_of_a_body_does_not_matter(api: Api) -> None:
    first = await api("POST", "/v1/jobs", dict(NEW), Idempotency_Key="k")
    turned = await api("POST", "/v1/jobs", dict(reversed(NEW.items())), Idempotency_Key="k")
    assert (turned.status, turned.body) == (201, first.body)


async def test_a_repeated_lease_call_gets_the_runs_of_the_lost_answer(api: Api) -> None:
    await api.create(jobId="a", queue="q")
    first = await api.lease("q", requestId="r1")
    again = await api.lease("q", requestId="r1")
    assert [(run["runId"], run["leaseToken"]) for run in again] == [(run["runId"], run["leaseToken"]) for run in first]
    assert len(first) == 1


async def test_a_repeated_end_of_an_attempt_is_200(api: Api) -> None:
    for job_id, end, body in (
        ("c", "complete", {"result": {"n": 1}}),
        ("f", "fail", {"error": "e"}),
        ("r", "release", {}),
    ):
        await api.create(jobId=job_id, queue=job_id, retry={"backoff": "fixed", "baseSeconds": 3_600})
        (run,) = await api.lease(job_id)
        path = f"/v1/runs/{run['runId']}/{end}"
        first = await api("POST", path, {"leaseToken": run["leaseToken"]} | body)
        repeat = await api("POST", path, {"leaseToken": run["leaseToken"]} | body)
        assert (first.status, repeat.status) == (200, 200)
        assert repeat.body == first.body | {"replayed": True}


async def test_a_repeated_cancel_is_200(api: Api) -> None:
    await api.create(jobId="j", **HOURLY)
    run_id = (await api("POST", "/v1/jobs/j/trigger", {})).body["runId"]
    for _ in range(2):
        cancelled = await api("POST", f"/v1/runs/{run_id}/cancel", {})
        assert (cancelled.status, cancelled.body["outcome"]) == (200, "cancelled")


async def test_two_calls_at_once_under_one_key_make_one_job(api: Api) -> None:
    answers = await asyncio.gather(*(api("POST", "/v1/jobs", NEW, Idempotency_Key="k") for _ in range(8)))
    assert {answered.status for answered in answers} == {201}
    assert len({answered.body["jobId"] for answered in answers}) == len(api.owner.jobs) == 1
