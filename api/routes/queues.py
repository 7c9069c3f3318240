"""Queues: what was declared of them, who polls them, what waits in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from api.bodies import QueueBody, decoder
from api.definitions import QUEUE_DEFAULT, check_name
from api.dispatch.lanes import LANES
from api.http_call import HttpCall, answer, etag
from api.problems import Problem
from api.queue_book import entry_of
from api.routes.route import Route

if TYPE_CHECKING:
    from aiohttp import web

_QUEUE: Final = decoder(QueueBody)

Ready = dict[str, dict[str, int]]
"""Queue to lane to count."""


async def get(call: HttpCall) -> web.Response:
    """`GET /v1/queues/{queue}`."""
    call.query()
    queue = check_name(call.request.match_info["queue"], "queue", "bad_path")
    call.gateway.queues.require(call.caller.tenant, queue)
    ready = await _ready(call)
    return _answer(call, queue, ready)


async def put(call: HttpCall) -> web.Response:
    """`PUT /v1/queues/{queue}`."""
    queue = check_name(call.request.match_info["queue"], "queue", "bad_path")
    body = await call.body(_QUEUE)
    gateway, tenant = call.gateway, call.caller.tenant
    before = gateway.queues.entry(tenant, queue)
    entry = entry_of(body, tenant, queue, before=before, now_ms=gateway.client.clock.wall_ms(), actor=call.caller.name)
    if entry is not before:
        expected = call.if_match
        version = 0 if before is None else before.version
        if expected and expected != version:
            detail = f"If-Match: the queue is at version {version}, not {expected}; read it again."
            raise Problem("version_mismatch", detail, field="If-Match", members={"version": version})
        await gateway.queues.declare(entry)
    ready = await _ready(call)
    return _answer(call, queue, ready, 201 if before is None else 200)


async def list_queues(call: HttpCall) -> web.Response:
    """`GET /v1/queues`: declared, polled here, or with runs that wait."""
    call.query()
    ready = await _ready(call)
    tenant = call.caller.tenant
    polled = {queue for owner, queue in call.gateway.client.desk.polling() if owner == tenant}
    names = {QUEUE_DEFAULT, *call.gateway.queues.of(tenant), *polled, *(ready or {})}
    return answer({"queues": [_view(call, queue, ready) for queue in sorted(names)]})


async def _ready(call: HttpCall) -> Ready | None:
    """Give what waits; None while no owner answers."""
    try:
        rows = await call.gateway.queries.ready(call.caller.tenant)
    except Problem:
        return None
    ready: Ready = {}
    for row in rows:
        lanes = ready.setdefault(row.queue, dict.fromkeys(LANES, 0))
        lanes[LANES[row.lane]] += row.ready
    return ready


def _answer(call: HttpCall, queue: str, ready: Ready | None, status: int = 200) -> web.Response:
    view = _view(call, queue, ready)
    return answer(view, status, etag(view["version"]))


def _view(call: HttpCall, queue: str, ready: Ready | None) -> dict[str, Any]:
    tenant = call.caller.tenant
    entry = call.gateway.queues.entry(tenant, queue)
    calls, slots = call.gateway.client.desk.polling().get((tenant, queue), (0, 0))
    return {
        "queue": queue,
        "tenant": tenant,
        "version": 0 if entry is None else entry.version,
        "description": "" if entry is None else entry.description,
        "maxRunning": None,
        "maxLeaseRatePerSecond": None if entry is None else entry.lease_rate_per_s,
        "workersPolling": calls,
        "slotsPolling": slots,
        "ready": None if ready is None else ready.get(queue, dict.fromkeys(LANES, 0)),
        "leased": None,
        "retrying": None,
        "oldestReadyAgeMs": None,
    }


ROUTES: Final = (
    Route("GET", "/v1/queues", list_queues),
    Route("GET", "/v1/queues/{queue}", get),
    Route("PUT", "/v1/queues/{queue}", put),
)
