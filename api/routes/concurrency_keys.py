"""Concurrency keys: their limits, and what counts against these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from api.answers import ConcurrencyKeyAnswer, ConcurrencyKeysAnswer
from api.bodies import ConcurrencyKeyBody, decoder
from api.definitions import check_concurrency_key
from api.http_call import HttpCall, answer, etag
from api.problems import Problem
from api.routes.route import Route

if TYPE_CHECKING:
    from aiohttp import web

_BODY: Final = decoder(ConcurrencyKeyBody)


async def list_keys(call: HttpCall) -> web.Response:
    """`GET /v1/concurrency-keys`: list the keys that have a limit."""
    call.query()
    entries = call.gateway.concurrency.of(call.caller.tenant)
    return answer({"concurrencyKeys": [_view(call, entry.key) for entry in entries]})


async def get(call: HttpCall) -> web.Response:
    """`GET /v1/concurrency-keys/{key}`: read a key's limit."""
    call.query()
    return _answer(call, _key(call))


async def put(call: HttpCall) -> web.Response:
    """`PUT /v1/concurrency-keys/{key}`: set or lift a key's limit."""
    key = _key(call)
    body = await call.body(_BODY)
    book, tenant = call.gateway.concurrency, call.caller.tenant
    entry = book.entry_of(body, tenant, key, now_ms=call.gateway.client.clock.wall_ms(), actor=call.caller.name)
    is_new = book.entry(tenant, key) is None
    if entry is None:
        return _answer(call, key)
    expected, version = call.if_match, entry.version - 1
    if expected and expected != version:
        detail = f"If-Match: the concurrency key is at version {version}, not {expected}; read it again."
        raise Problem("version_mismatch", detail, field="If-Match", members={"version": version})
    await book.declare(entry)
    return _answer(call, key, 201 if is_new else 200)


def _key(call: HttpCall) -> str:
    return check_concurrency_key(call.request.match_info["key"], "key", "bad_path")


def _answer(call: HttpCall, key: str, status: int = 200) -> web.Response:
    view = _view(call, key)
    return answer(view, status, etag(view["version"]))


def _view(call: HttpCall, key: str) -> dict[str, Any]:
    """Owners tell what counts against a limit only where there is one."""
    tenant, book = call.caller.tenant, call.gateway.concurrency
    entry = book.entry(tenant, key)
    limit = book.limit(tenant, key)
    use = book.use(tenant, key)
    return {
        "key": key,
        "tenant": tenant,
        "version": 0 if entry is None else entry.version,
        "description": "" if entry is None else entry.description,
        "maxRunning": limit,
        "unitsRunning": None if limit is None else use.units,
        "runsWaiting": None if limit is None else use.heaviest > 0,
    }


ROUTES: Final = (
    Route("GET", "/v1/concurrency-keys", list_keys, answers={200: ConcurrencyKeysAnswer}),
    Route("GET", "/v1/concurrency-keys/{key}", get, answers={200: ConcurrencyKeyAnswer}),
    Route(
        "PUT",
        "/v1/concurrency-keys/{key}",
        put,
        body=ConcurrencyKeyBody,
        headers=("If-Match",),
        answers={200: ConcurrencyKeyAnswer, 201: ConcurrencyKeyAnswer},
        problems=("version_mismatch", "overloaded", "outcome_unknown"),
    ),
)
