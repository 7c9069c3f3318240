"""Queues and tenants: what was declared of them, who polls them, what waits in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from api.answers import QueueAnswer, QueuesAnswer, TenantAnswer
from api.bodies import QueueBody, TenantBody, decoder
from api.definitions import QUEUE_DEFAULT, check_name
from api.dispatch.lanes import LANES
from api.gateway import require_tenant
from api.http_call import HttpCall, answer, etag
from api.polling import NOBODY, polling_of
from api.problems import Problem
from api.queue_book import entry_of
from api.routes.route import Route
from api.tenant_book import tenant_entry_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from api.polling import Polling
    from api.queries import ReadyCount
    from api.tenant_book import TenantEntry

_QUEUE: Final = decoder(QueueBody)
_TENANT: Final = decoder(TenantBody)

Waiting = dict[str, "list[ReadyCount]"]
"""Queue to what owners say of it."""


async def get(call: HttpCall) -> web.Response:
    """`GET /v1/queues/{queue}`: read a queue."""
    call.query()
    queue = check_name(call.request.match_info["queue"], "queue", "bad_path")
    call.gateway.queues.require(call.caller.tenant, queue)
    return await _answer(call, queue)


async def put(call: HttpCall) -> web.Response:
    """`PUT /v1/queues/{queue}`: create or change a queue."""
    queue = check_name(call.request.match_info["queue"], "queue", "bad_path")
    body = await call.body(_QUEUE)
    gateway, tenant = call.gateway, call.caller.tenant
    before = gateway.queues.entry(tenant, queue)
    entry = entry_of(body, tenant, queue, before=before, now_ms=gateway.client.clock.wall_ms(), actor=call.caller.name)
    if entry is not before:
        _require_version(call, 0 if before is None else before.version, "queue")
        await gateway.queues.declare(entry)
    return await _answer(call, queue, 201 if before is None else 200)


async def list_queues(call: HttpCall) -> web.Response:
    """`GET /v1/queues`: list queues: declared, polled here, or with runs that wait."""
    call.query()
    waiting = await _waiting(call)
    tenant = call.caller.tenant
    polling = await polling_of(call.gateway, tenant)
    names = {QUEUE_DEFAULT, *call.gateway.queues.of(tenant), *polling, *(waiting or {})}
    return answer({"queues": [_view(call, queue, waiting, polling) for queue in sorted(names)]})


async def _waiting(call: HttpCall) -> Waiting | None:
    """Give what waits; None while no owner answers."""
    try:
        rows = await call.gateway.queries.ready(call.caller.tenant)
    except Problem:
        return None
    waiting: Waiting = {}
    for row in rows:
        waiting.setdefault(row.queue, []).append(row)
    return waiting


async def _answer(call: HttpCall, queue: str, status: int = 200) -> web.Response:
    waiting = await _waiting(call)
    view = _view(call, queue, waiting, await polling_of(call.gateway, call.caller.tenant))
    return answer(view, status, etag(view["version"]))


def _view(call: HttpCall, queue: str, waiting: Waiting | None, polling: Mapping[str, Polling]) -> dict[str, Any]:
    tenant = call.caller.tenant
    entry = call.gateway.queues.entry(tenant, queue)
    waits = polling.get(queue, NOBODY)
    view = {
        "queue": queue,
        "tenant": tenant,
        "version": 0 if entry is None else entry.version,
        "description": "" if entry is None else entry.description,
        "maxRunning": None if entry is None else entry.running_max,
        "maxLeaseRatePerSecond": None if entry is None else entry.lease_rate_per_s,
        "workersPolling": waits.calls,
        "slotsPolling": waits.slots,
    }
    if waiting is None:
        return view | dict.fromkeys(("ready", "leased", "retrying", "oldestReadyAgeMs"))
    return view | _counts(waiting.get(queue, []), call.gateway.now_ms())


def _counts(rows: list[ReadyCount], now_ms: int) -> dict[str, Any]:
    """Add up what owners say; what one of them does not know is null."""
    ready = dict.fromkeys(LANES, 0)
    for row in rows:
        ready[LANES[row.lane]] += row.ready - (row.retrying or 0)
    oldest = [at_ms for row in rows if (at_ms := row.oldest_due_at_ms) is not None and at_ms <= now_ms]
    return {
        "ready": ready,
        "leased": _sum([row.leased for row in rows]),
        "retrying": _sum([row.retrying for row in rows]),
        "oldestReadyAgeMs": max(now_ms - min(oldest), 0) if oldest else None,
    }


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


async def get_tenant(call: HttpCall) -> web.Response:
    """`GET /v1/tenants/{tenant}`: read one's own tenant."""
    call.query()
    tenant = _own_tenant(call)
    return _tenant_answer(tenant, call.gateway.tenants.entry(tenant))


async def put_tenant(call: HttpCall) -> web.Response:
    """`PUT /v1/tenants/{tenant}`: set the limits of one's own tenant."""
    tenant = _own_tenant(call)
    body = await call.body(_TENANT)
    gateway = call.gateway
    before = gateway.tenants.entry(tenant)
    entry = tenant_entry_of(body, tenant, before=before, now_ms=gateway.client.clock.wall_ms(), actor=call.caller.name)
    if entry is not before:
        _require_version(call, 0 if before is None else before.version, "tenant")
        await gateway.tenants.declare(entry)
    return _tenant_answer(tenant, entry)


def _own_tenant(call: HttpCall) -> str:
    tenant = check_name(call.request.match_info["tenant"], "tenant", "bad_path")
    require_tenant(tenant, call.caller, "tenant")
    return tenant


def _tenant_answer(tenant: str, entry: TenantEntry | None) -> web.Response:
    version = 0 if entry is None else entry.version
    view = {
        "tenant": tenant,
        "version": version,
        "pendingCap": None if entry is None else entry.pending_max,
        "maxLeaseRatePerSecond": None if entry is None else entry.lease_rate_per_s,
        "weight": None,
    }
    return answer(view, headers=etag(version))


def _require_version(call: HttpCall, version: int, what: str) -> None:
    expected = call.if_match
    if expected and expected != version:
        detail = f"If-Match: the {what} is at version {version}, not {expected}; read it again."
        raise Problem("version_mismatch", detail, field="If-Match", members={"version": version})


ROUTES: Final = (
    Route("GET", "/v1/queues", list_queues, answers={200: QueuesAnswer}),
    Route("GET", "/v1/queues/{queue}", get, answers={200: QueueAnswer}, problems=("unknown_queue",)),
    Route(
        "PUT",
        "/v1/queues/{queue}",
        put,
        body=QueueBody,
        headers=("If-Match",),
        answers={200: QueueAnswer, 201: QueueAnswer},
        problems=("version_mismatch", "overloaded", "outcome_unknown"),
    ),
    Route("GET", "/v1/tenants/{tenant}", get_tenant, answers={200: TenantAnswer}, problems=("forbidden",)),
    Route(
        "PUT",
        "/v1/tenants/{tenant}",
        put_tenant,
        body=TenantBody,
        headers=("If-Match",),
        answers={200: TenantAnswer},
        problems=("forbidden", "version_mismatch", "overloaded", "outcome_unknown"),
    ),
)
