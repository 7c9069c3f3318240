"""Concurrency keys over HTTP: their limits, what owners say of them, and the definitions that name one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from api import concurrency_book
from streams.core.envelopes import KeyRunning, QueueRunning

Api = Any
DAILY = {"name": "n", "schedule": {"cron": "0 9 * * *", "timeZone": "UTC"}}
PATH = "/v1/concurrency-keys/customer:42"


def say(api: Api, partition: int, *keys: KeyRunning) -> None:
    """Let an owner say what counts against limits in its partition."""
    view = replace(api.gateway.client.owners[partition], keys=keys)
    api.gateway.client.on_owners([(partition, view)])


def running(units: int, weight: int = 0, tenant: str = "default") -> KeyRunning:
    return KeyRunning(tenant=tenant, key="customer:42", units=units, weight=weight)


def busy(api: Api, partition: int, running: int, tenant: str = "default") -> None:
    """Let an owner say how busy queue `narrow` is in its partition."""
    told = (QueueRunning(tenant=tenant, queue="narrow", running=running, waiting=True),)
    api.gateway.client.on_owners([(partition, replace(api.gateway.client.owners[partition], running=told))])


async def test_a_limit_is_set_shown_changed_by_version_and_lifted(api: Api) -> None:
    unknown = await api("GET", PATH)
    assert (unknown.status, unknown.body["version"], unknown.body["maxRunning"]) == (200, 0, None)
    created = await api("PUT", PATH, {"maxRunning": 3, "description": "their API"})
    assert (created.status, created.headers["ETag"]) == (201, '"1"')
    assert (await api("PUT", PATH, {"maxRunning": 3, "description": "their API"})).body["version"] == 1
    changed = await api("PUT", PATH, {"maxRunning": 5}, If_Match='"1"')
    assert (changed.status, changed.body["version"], changed.body["description"]) == (200, 2, "")
    assert (await api("PUT", PATH, {"maxRunning": 6}, If_Match='"1"')).problem() == (
        412,
        "version_mismatch",
        "If-Match",
    )
    assert (await api("GET", "/v1/concurrency-keys")).body == {"concurrencyKeys": [(await api("GET", PATH)).body]}
    lifted = await api("PUT", PATH, {"maxRunning": None})
    assert (lifted.status, lifted.body["maxRunning"], lifted.body["version"]) == (200, None, 0)
    assert (await api("GET", "/v1/concurrency-keys")).body == {"concurrencyKeys": []}
    assert (await api("PUT", PATH, {})).status == 200, "nothing to lift"
    assert "concurrency|default|customer:42" not in api.gateway.client.config, "what says nothing is deleted"


async def test_a_limit_tells_what_owners_say_counts_against_it(api: Api) -> None:
    say(api, 0, running(4))
    assert (await api("GET", PATH)).body["unitsRunning"] is None, "without a limit owners count nothing"
    await api("PUT", PATH, {"maxRunning": 9})
    say(api, 0, running(4), running(100, tenant="other"))
    say(api, 1, running(2, weight=1))
    body = (await api("GET", PATH)).body
    assert (body["unitsRunning"], body["runsWaiting"]) == (6, True)
    say(api, 1)
    body = (await api("GET", PATH)).body
    assert (body["unitsRunning"], body["runsWaiting"]) == (4, False)


@pytest.mark.parametrize("limit", [-1, 10**9 + 1])
async def test_a_limit_out_of_range_is_refused(api: Api, limit: int) -> None:
    assert (await api("PUT", PATH, {"maxRunning": limit})).problem() == (422, "invalid_field", "maxRunning")


async def test_a_key_that_is_none_is_refused(api: Api) -> None:
    assert (await api("GET", "/v1/concurrency-keys/.x")).problem()[1:] == ("bad_path", "key")
    assert (await api("PUT", PATH, {"description": "x" * 1_001})).problem()[1:] == ("invalid_field", "description")
    for key in ("", ".x", "a b", "k" * 129):
        refused = await api("POST", "/v1/jobs", {**DAILY, "concurrencyKey": key})
        assert refused.problem() == (422, "invalid_field", "concurrencyKey"), key


async def test_a_tenant_has_so_many_limits(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency_book, "KEYS_PER_TENANT_MAX", 1)
    await api("PUT", PATH, {"maxRunning": 1})
    refused = await api("PUT", "/v1/concurrency-keys/other", {"maxRunning": 1})
    assert refused.problem() == (422, "invalid_field", "key")
    assert (await api("PUT", PATH, {"maxRunning": 2})).status == 200
    await api("PUT", PATH, {})
    assert (await api("PUT", "/v1/concurrency-keys/other", {"maxRunning": 1})).status == 201


async def test_a_job_names_a_key_and_a_weight_and_a_patch_changes_them(api: Api) -> None:
    created = await api("POST", "/v1/jobs", {**DAILY, "concurrencyKey": "k", "concurrencyWeight": 7})
    path = f"/v1/jobs/{created.body['jobId']}"

    async def named() -> tuple[Any, Any]:
        body = (await api("GET", path)).body
        return body["concurrencyKey"], body["concurrencyWeight"]

    assert await named() == ("k", 7)
    await api("PATCH", path, {"lane": "high"})
    assert await named() == ("k", 7)
    await api("PATCH", path, {"concurrencyWeight": None})
    assert await named() == ("k", 1)
    await api("PATCH", path, {"concurrencyKey": "l", "concurrencyWeight": 2})
    await api("PATCH", path, {"concurrencyKey": None})
    assert await named() == (None, 1)
    plain = await api("POST", "/v1/jobs", DAILY)
    assert (await api("GET", f"/v1/jobs/{plain.body['jobId']}")).body["concurrencyKey"] is None


@pytest.mark.parametrize("weight", [0, -1, 101])
async def test_a_weight_out_of_range_is_refused(api: Api, weight: int) -> None:
    refused = await api("POST", "/v1/jobs", {**DAILY, "concurrencyKey": "k", "concurrencyWeight": weight})
    assert refused.problem() == (422, "invalid_field", "concurrencyWeight")


async def test_a_weight_without_a_key_is_refused(api: Api) -> None:
    refused = await api("POST", "/v1/jobs", {**DAILY, "concurrencyWeight": 2})
    assert refused.problem() == (422, "invalid_field", "concurrencyWeight")
    assert (await api("POST", "/v1/jobs", {**DAILY, "concurrencyWeight": 1})).status == 201, "what every job has"


async def test_a_run_that_would_never_start_is_refused_where_the_limit_is_known(api: Api) -> None:
    heavy = {**DAILY, "concurrencyKey": "customer:42", "concurrencyWeight": 5}
    assert (await api("PUT", "/v1/jobs/before", heavy)).status == 201, "no limit is known"
    await api("PUT", PATH, {"maxRunning": 4})
    for method, path in (("POST", "/v1/jobs"), ("PUT", "/v1/jobs/x"), ("PUT", "/v1/jobs/before")):
        refused = await api(method, path, {**heavy, "lane": "low"})
        assert refused.problem() == (422, "invalid_field", "concurrencyWeight"), method
        assert refused.body["limit"] == 4
    assert (await api("PATCH", "/v1/jobs/before", {"lane": "high"})).status == 200, "what does not touch it passes"
    refused = await api("PATCH", "/v1/jobs/before", {"concurrencyWeight": 6})
    assert refused.problem() == (422, "invalid_field", "concurrencyWeight")
    assert (await api("PATCH", "/v1/jobs/before", {"concurrencyWeight": 4})).status == 200
    await api("PUT", PATH, {"maxRunning": 0})
    assert (await api("PUT", "/v1/jobs/x", heavy)).status == 201, "a stop refuses no definition"


async def test_explain_says_that_a_run_waits_for_its_key(api: Api) -> None:
    job_id = (await api("POST", "/v1/jobs", {**DAILY, "concurrencyKey": "customer:42"})).body["jobId"]
    assert (await api("POST", f"/v1/jobs/{job_id}/trigger", {})).status < 300
    await api("PUT", PATH, {"maxRunning": 2})
    say(api, 0, running(1))
    answer = (await api("GET", f"/v1/jobs/{job_id}/explain")).body
    assert answer["situation"] == "no_worker_polling"
    say(api, 1, running(1))
    answer = (await api("GET", f"/v1/jobs/{job_id}/explain")).body
    assert answer["situation"] == "waiting_for_concurrency_key"
    assert "take 2 of 2 of concurrency key 'customer:42'" in answer["summary"]


async def test_explain_says_that_a_run_waits_for_the_limits_of_its_queue(api: Api) -> None:
    job_id = (await api("POST", "/v1/jobs", {**DAILY, "queue": "narrow"})).body["jobId"]
    assert (await api("POST", f"/v1/jobs/{job_id}/trigger", {})).status < 300

    async def situation() -> str:
        return str((await api("GET", f"/v1/jobs/{job_id}/explain")).body["situation"])

    await api("PUT", "/v1/queues/narrow", {"maxRunning": 2})
    busy(api, 0, 1)
    busy(api, 1, 1, tenant="other")
    assert await situation() == "no_worker_polling"
    busy(api, 1, 1)
    assert await situation() == "waiting_for_queue_limit"
    busy(api, 1, 0)
    assert await situation() == "no_worker_polling"
    await api("PUT", "/v1/queues/narrow", {"maxLeaseRatePerSecond": 0})
    assert await situation() == "waiting_for_queue_limit"
    await api("PUT", "/v1/queues/narrow", {})
    assert await situation() == "no_worker_polling"
    await api("PUT", "/v1/tenants/default", {"maxLeaseRatePerSecond": 0})
    assert await situation() == "waiting_for_queue_limit"
