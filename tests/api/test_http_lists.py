"""Lists over all partitions by filter, what they show after a write, and the limits of tenants."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.auth import Auth, Caller, _hash
from api.gateway import Limits
from api.queries import ReadyCount
from streams.core.job_filter import JobFilter

# The api is a fixture of conftest.py, which tests cannot import by name.
Api = Any

AUTH = Auth({_hash(f"token-of-{tenant}-0123456789"): Caller(tenant, tenant) for tenant in "ab"})

DAILY = {"schedule": {"cron": "0 9 * * *"}, "delaySeconds": None}


async def _pages(api: Api, path: str, member: str, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    for _ in range(100):
        page = (await api("GET", f"{path}&limit={limit}{cursor}")).body
        assert len(page[member]) <= limit
        found += page[member]
        if page["nextCursor"] is None:
            return found
        cursor = f"&cursor={page['nextCursor']}"
    raise AssertionError("no end")


async def _fill(api: Api) -> None:
    for number in range(12):
        await api.create(
            jobId=f"j{number:02}",
            name=f"{'Nightly' if number % 3 else 'Hourly'} {number}",
            task="Rollup" if number == 5 else "t",
            queue=("a", "b")[number % 2],
            labels={"team": "x", "n": str(number)},
            runAt=f"2099-01-{number + 1:02}T00:00:00Z",
            delaySeconds=None,
        )


@pytest.mark.parametrize(
    ("query", "hit"),
    [
        ("queue=a", {0, 2, 4, 6, 8, 10}),
        ("text=nightly&queue=b", {1, 5, 7, 11}),
        ("text=ROLLUP", {5}),
        ("text=j11", {11}),
        ("label=team:x&label=n:3", {3}),
        ("label=team:y", set()),
        ("namePrefix=Hourly", {0, 3, 6, 9}),
        ("nextFrom=2099-01-10T00:00:00Z", {9, 10, 11}),
        ("nextFrom=2099-01-02T00:00:00Z&nextUntil=2099-01-04T00:00:00Z", {1, 2}),
        ("state=paused", {4}),
        ("state=deleted", {8}),
    ],
)
@pytest.mark.parametrize("limit", [1, 5])
async def test_jobs_are_found_by_filter_page_by_page(api: Api, query: str, hit: set[int], limit: int) -> None:
    await _fill(api)
    await api("POST", "/v1/jobs/j04/pause", {})
    if "deleted" in query:
        await api("DELETE", "/v1/jobs/j08")
    found = await _pages(api, f"/v1/jobs?{query}", "jobs", limit)
    ids = [job["jobId"] for job in found]
    assert sorted(ids) == sorted(f"j{number:02}" for number in hit)


async def test_runs_are_found_over_all_jobs_page_by_page(api: Api) -> None:
    for number in range(5):
        await api.create(jobId=f"j{number}", queue=("a", "b")[number % 2], overlap="allow", **DAILY)
        for turn in range(3):
            await api("POST", f"/v1/jobs/j{number}/trigger", {"force": True}, Idempotency_Key=f"k{turn}")
    (run,) = await api.lease("a")
    done = await api("POST", f"/v1/runs/{run['runId']}/complete", {"leaseToken": run["leaseToken"]})
    assert done.status == 200
    for limit in (1, 2, 100):
        found = [one["runId"] for one in await _pages(api, "/v1/runs?text=j", "runs", limit)]
        assert len(found) == len(set(found)) == 15
    of_a = await _pages(api, "/v1/runs?queue=a", "runs", 4)
    assert (len(of_a), {one["queue"] for one in of_a}) == (9, {"a"})
    assert [one["runId"] for one in await _pages(api, "/v1/runs?outcome=ran", "runs", 4)] == [run["runId"]]
    assert len(await _pages(api, "/v1/runs?state=ready", "runs", 4)) == 14
    assert len(await _pages(api, "/v1/runs?jobId=j1", "runs", 2)) == 3
    assert await _pages(api, "/v1/runs?until=2020-01-01T00:00:00Z", "runs", 4) == []
    assert (await api("GET", "/v1/runs?outcome=eaten")).problem() == (400, "bad_header", "outcome")


async def test_a_list_with_the_token_of_a_write_shows_it(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await api("POST", "/v1/jobs", {"name": "n", "jobId": "j", "runAt": "2099-01-01T00:00:00Z"})
    shown = dict(api.owner.jobs)
    hidden: dict[str, Any] = {}
    monkeypatch.setattr(api.queries, "_jobs", hidden)
    assert (await api("GET", "/v1/jobs")).body["jobs"] == []
    listing = asyncio.create_task(api("GET", f"/v1/jobs?consistency={created.body['consistencyToken']}"))
    reads: list[str] = []
    real = api.queries.job

    async def job(job_id: str) -> Any:
        reads.append(job_id)
        if len(reads) == 3:
            hidden.update(shown)  # the store follows its commit
        return await real(job_id)

    monkeypatch.setattr(api.queries, "job", job)
    assert [one["jobId"] for one in (await listing).body["jobs"]] == ["j"]


async def test_a_version_that_is_never_shown_is_503_after_a_bounded_wait(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.gateway.SHOWN_TRIES_MAX", 2)
    await api.create(jobId="j", **DAILY)
    before = api.owner.jobs["j"]
    edited = await api("PATCH", "/v1/jobs/j", {"lane": "high"})
    monkeypatch.setattr(api.queries, "_jobs", {"j": before})
    answered = await api("GET", f"/v1/jobs?consistency={edited.body['consistencyToken']}")
    assert answered.problem() == (503, "not_caught_up", "consistency")


async def test_queue_counts_come_from_all_owners_and_what_one_does_not_know_is_null(api: Api) -> None:
    now_ms = api.gateway.now_ms()
    api.queries.ready_counts = [
        ReadyCount("default", "q", 0, 5, 2, 3, now_ms - 60_000),
        ReadyCount("default", "q", 0, 1, 0, 1, now_ms + 60_000),
        ReadyCount("default", "r", 1, 1, 0, None, None),
    ]
    queue = (await api("GET", "/v1/queues/q")).body
    assert (queue["ready"], queue["retrying"], queue["leased"]) == ({"high": 4, "normal": 0, "low": 0}, 2, 4)
    assert queue["oldestReadyAgeMs"] >= 60_000
    other = (await api("GET", "/v1/queues/r")).body
    assert (other["leased"], other["oldestReadyAgeMs"]) == (None, None)


async def test_a_tenant_sees_and_sets_its_own_rate_only(serve: Any) -> None:
    async with serve(AUTH, Limits(partitions=4)) as api:
        api.headers = {"Authorization": "Bearer token-of-a-0123456789"}
        assert (await api("GET", "/v1/tenants/a")).body["version"] == 0
        put = await api("PUT", "/v1/tenants/a", {"maxLeaseRatePerSecond": 0})
        assert (put.status, put.body["version"], put.headers["ETag"]) == (200, 1, '"1"')
        same = await api("PUT", "/v1/tenants/a", {"maxLeaseRatePerSecond": 0})
        assert same.body["version"] == 1
        assert (await api("PUT", "/v1/tenants/a", {"maxLeaseRatePerSecond": 9}, If_Match='"7"')).status == 412
        await api.create(queue="q")
        assert await api.lease("q", waitSeconds=0) == []  # a rate of 0 lets nothing through
        await api("PUT", "/v1/tenants/a", {"maxLeaseRatePerSecond": None})
        assert len(await api.lease("q")) == 1
        for method in ("GET", "PUT"):
            foreign = await api(method, "/v1/tenants/b", {} if method == "PUT" else None)
            assert foreign.problem() == (403, "forbidden", "tenant")
        assert (await api("PUT", "/v1/tenants/a", {"pendingCap": -1})).problem()[2] == "pendingCap"
        assert (await api("PUT", "/v1/tenants/a", {"weight": 2})).problem()[2] == "weight"
        capped = await api("PUT", "/v1/tenants/a", {"pendingCap": 5})
        assert (capped.status, capped.body["pendingCap"]) == (200, 5)
        assert (await api("PUT", "/v1/tenants/a", {"pendingCap": 5})).body["version"] == capped.body["version"]
        assert (await api("PUT", "/v1/tenants/a", {"maxLeaseRatePerSecond": -1})).problem()[1] == "invalid_field"


async def test_another_tenants_jobs_and_runs_are_forbidden_on_every_route(serve: Any) -> None:
    async with serve(AUTH, Limits(partitions=4)) as api:
        api.headers = {"Authorization": "Bearer token-of-a-0123456789"}
        await api.create(jobId="j", **DAILY)
        run_id = (await api("POST", "/v1/jobs/j/trigger", {})).body["runId"]
        before = dict(api.owner.jobs)
        api.headers = {"Authorization": "Bearer token-of-b-0123456789"}
        span = {"from": "2020-01-01T00:00:00Z", "to": "2020-02-01T00:00:00Z"}
        for method, path, body in (
            ("GET", "/v1/jobs/j", None),
            ("GET", "/v1/jobs/j/runs", None),
            ("GET", "/v1/jobs/j/backfills", None),
            ("GET", "/v1/runs?jobId=j", None),
            ("PUT", "/v1/jobs/j", {"runAt": "2099-01-01T00:00:00Z"}),
            ("PATCH", "/v1/jobs/j", {"lane": "high"}),
            ("DELETE", "/v1/jobs/j", None),
            ("POST", "/v1/jobs/j/pause", {}),
            ("POST", "/v1/jobs/j/resume", {}),
            ("POST", "/v1/jobs/j/trigger", {}),
            ("POST", "/v1/jobs/j/skip", {"at": "2099-01-01T00:00:00Z"}),
            ("POST", "/v1/jobs/j/backfill", span),
            ("POST", "/v1/jobs/j/backfills/b-1/stop", {}),
            ("GET", f"/v1/runs/{run_id}", None),
            ("POST", f"/v1/runs/{run_id}/cancel", {}),
            ("POST", f"/v1/runs/{run_id}/replay", {}),
            ("POST", f"/v1/runs/{run_id}/complete", {"leaseToken": 1}),
        ):
            assert (await api(method, path, body)).problem()[:2] == (403, "forbidden"), path
        assert (await api("GET", "/v1/jobs")).body["jobs"] == []
        assert (await api("GET", "/v1/runs")).body["runs"] == []
        bulk = await api("POST", "/v1/jobs:delete", {"filter": {"jobIds": ["j"]}, "dryRun": False})
        assert bulk.body["matched"] == 0
        assert api.owner.jobs == before


def test_a_filter_asks_for_nothing_by_default() -> None:
    assert not JobFilter().reads_definition
    assert JobFilter().matches_definition(None)
    assert not JobFilter(text="x").matches_definition(None)
