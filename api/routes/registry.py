"""The schema registry calls that stock Avro serializers make, in the registry's own format; read only."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from api.routes.route import Route
from schemas.registry import INVALID_SCHEMA, Registry, Response

if TYPE_CHECKING:
    from api.http_call import HttpCall

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


async def respond(call: HttpCall) -> web.Response:
    """Pass a call to the pure registry."""
    request = call.request
    registry = _registry(call.gateway.limits.topic_namespace)
    body: Any = None
    if request.method not in ("GET", "HEAD"):
        data = await request.read()
        try:
            body = msgspec.json.decode(data) if data else None
        except (msgspec.DecodeError, RecursionError) as error:
            return _answer(Response(422, {"error_code": INVALID_SCHEMA, "message": f"the body is not JSON: {error}"}))
    return _answer(registry.respond(request.method, request.path, body))


@lru_cache(4)
def _registry(namespace: str) -> Registry:
    return Registry(topic_namespace=namespace)


def _answer(response: Response) -> web.Response:
    return web.Response(body=msgspec.json.encode(response.body), status=response.status, content_type=CONTENT_TYPE)


ROUTES: Final = tuple(
    Route(method, path, respond, public=True, hidden=True)
    for method, path in (
        ("GET", "/schemas/{rest:.*}"),
        ("GET", "/subjects"),
        ("GET", "/subjects/{rest:.*}"),
        ("GET", "/config"),
        ("GET", "/config/{rest:.*}"),
        ("GET", "/mode"),
        ("POST", "/subjects/{rest:.*}"),
        ("POST", "/compatibility/{rest:.*}"),
    )
)
