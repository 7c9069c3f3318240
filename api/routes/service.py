"""Health, metrics, and the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from api.answers import HealthAnswer
from api.http_call import HttpCall, answer
from api.metrics import CONTENT_TYPE
from api.routes.route import Route


async def live(call: HttpCall) -> web.Response:
    """`GET /livez`: alive; 503 asks for a restart."""
    healthy = call.gateway.client.healthy
    return _health([("kafka", healthy, "connected" if healthy else "the connection failed for good; restart")])


async def ready(call: HttpCall) -> web.Response:
    """`GET /readyz`: whether calls can be answered."""
    client, partitions = call.gateway.client, call.gateway.limits.partitions
    await call.gateway.watch.look(all_of_them=True)
    owned = client.partitions_owned
    return _health(
        [
            ("gateway", client.ready, "takes calls" if client.ready else "is starting or stopping"),
            ("owners", owned > 0, f"{owned} of {partitions} partitions have an owner"),
        ]
    )


async def metrics(call: HttpCall) -> web.Response:
    """`GET /metrics`: Prometheus text."""
    return web.Response(body=call.gateway.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


def _health(checks: list[tuple[str, bool, str]]) -> web.Response:
    if all(ok for _, ok, _ in checks):
        return answer({"status": "ok"})
    return answer(
        {
            "status": "unready",
            "checks": [{"name": name, "ok": ok, "detail": detail} for name, ok, detail in checks],
        },
        503,
    )


async def openapi(call: HttpCall) -> web.Response:
    """`GET /openapi.json`: this document."""
    return web.Response(body=call.gateway.document, content_type="application/json")


ROUTES: Final = (
    Route("GET", "/livez", live, public=True, answers={200: HealthAnswer, 503: HealthAnswer}),
    Route("GET", "/readyz", ready, public=True, answers={200: HealthAnswer, 503: HealthAnswer}),
    Route("GET", "/metrics", metrics, public=True, answers={200: None}),
    Route("GET", "/openapi.json", openapi, public=True, answers={200: dict[str, Any]}),
)
