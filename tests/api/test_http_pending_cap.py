"""A tenant at its cap on what is pending: new jobs are refused, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from api.pending_counts import PendingCounts
from streams.core.envelopes import TenantPending

if TYPE_CHECKING:
    from streams.core.envelopes import OwnerView

DAILY = {"name": "n", "schedule": {"cron": "0 9 * * *", "timeZone": "UTC"}}


def say(api: Any, partition: int, pending: int, tenant: str = "default") -> OwnerView:
    """Let an owner say how much is pending in its partition."""
    told = (TenantPending(tenant=tenant, pending=pending),) if pending else ()
    view: OwnerView = replace(api.gateway.client.owners[partition], pending=told)
    api.gateway.client.on_owners([(partition, view)])
    return view


async def test_a_new_job_beyond_the_cap_is_429_until_owners_say_that_less_is_pending(api: Any) -> None:
    await api("PUT", "/v1/tenants/default", {"pendingCap": 5})
    say(api, 0, 3)
    say(api, 1, 1)
    assert (await api("POST", "/v1/jobs", {**DAILY, "jobId": "fits"})).status == 201
    say(api, 1, 2)
    for method, path in (("POST", "/v1/jobs"), ("PUT", "/v1/jobs/new")):
        refused = await api(method, path, DAILY)
        assert refused.problem()[:2] == (429, "pending_cap"), method
        assert int(refused.headers["Retry-After"]) >= 1
        assert (refused.body["limit"], refused.body["pending"]) == (5, 5)
    assert api.owner.jobs.keys() == {"fits"}, "nothing was asked of an owner"
    say(api, 1, 1)
    assert (await api("PUT", "/v1/jobs/new", DAILY)).status == 201


async def test_whatever_names_a_job_that_is_there_passes(api: Any) -> None:
    first = await api("POST", "/v1/jobs", DAILY, Idempotency_Key="k")
    job_id = first.body["jobId"]
    await api("PUT", "/v1/tenants/default", {"pendingCap": 0})
    repeat = await api("POST", "/v1/jobs", DAILY, Idempotency_Key="k")
    assert (repeat.status, repeat.body["jobId"]) == (201, job_id)
    assert (await api("POST", "/v1/jobs", DAILY, Idempotency_Key="other")).status == 429
    assert (await api("PUT", f"/v1/jobs/{job_id}", {**DAILY, "lane": "high"})).status == 200
    assert (await api("PUT", f"/v1/jobs/{job_id}", {**DAILY, "lane": "low"}, If_Match='"2"')).status == 200
    assert (await api("PATCH", f"/v1/jobs/{job_id}", {"lane": "normal"})).status == 200
    assert (await api("POST", f"/v1/jobs/{job_id}/trigger", {})).status < 300
    assert (await api("DELETE", f"/v1/jobs/{job_id}")).status == 200
    assert (await api("PUT", f"/v1/jobs/{job_id}", {**DAILY, "lane": "high"})).status == 429, "it would be a new one"


async def test_a_tenant_without_a_cap_is_not_counted(api: Any) -> None:
    say(api, 0, 10**9)
    assert (await api("POST", "/v1/jobs", DAILY)).status == 201
    await api("PUT", "/v1/tenants/default", {"pendingCap": 10})
    assert (await api("POST", "/v1/jobs", DAILY)).status == 429
    await api("PUT", "/v1/tenants/default", {"pendingCap": None})
    assert (await api("POST", "/v1/jobs", DAILY)).status == 201


async def test_each_partition_counts_with_its_last_word(api: Any) -> None:
    counts = PendingCounts()
    views = [say(api, 0, count) for count in (7, 2)]
    counts.heard(0, views[0])
    counts.heard(1, views[0])
    counts.heard(0, views[1])
    assert (counts.total("default"), counts.total("other")) == (9, 0)
    counts.heard(1, None)
    assert counts.total("default") == 9, "what has no owner at the moment is pending all the same"
    counts.heard(1, say(api, 1, 0))
    assert counts.total("default") == 2
