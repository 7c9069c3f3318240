"""The aiohttp application: routes, request ids, tokens, errors as problem+json, and what is measured of each call."""

from __future__ import annotations

import itertools
import secrets
import time
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from aiohttp import web

from api.auth import TENANT_DEFAULT, Caller
from api.dispatch.calls import DispatchError
from api.http_call import HttpCall, body_too_large, request_id_of
from api.openapi import document_of
from api.problems import Problem, problem_of
from api.routes import (
    bulk,
    calendars,
    concurrency_keys,
    control,
    jobs,
    leases,
    previews,
    queues,
    registry,
    runs,
    service,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from api.gateway import Gateway
    from api.routes.route import Route

ROUTES: Final[tuple[Route, ...]] = (
    *jobs.ROUTES,
    *control.ROUTES,
    *bulk.ROUTES,
    *previews.ROUTES,
    *leases.ROUTES,
    *runs.ROUTES,
    *queues.ROUTES,
    *concurrency_keys.ROUTES,
    *calendars.ROUTES,
    *service.ROUTES,
    *registry.ROUTES,
)

PROBLEM_TYPE: Final = "application/problem+json"

_NOBODY: Final = Caller(TENANT_DEFAULT, "")

_log = structlog.get_logger("horolog.gateway")


def build_app(gateway: Gateway) -> web.Application:
    """Make the application of one gateway."""
    minted = _mint()
    gateway.document = _document()
    app = web.Application(
        client_max_size=gateway.limits.body_bytes_batch_max, middlewares=[_unknown_routes(gateway, minted)]
    )
    for route in ROUTES:
        handler = _serve(route, gateway, minted)
        app.router.add_route(route.method, route.path, handler)
        if route.method == "GET":
            app.router.add_route("HEAD", route.path, handler)  # the same answer without its body (RFC 9110)
    return app


@cache
def _document() -> bytes:
    return msgspec.json.encode(document_of(ROUTES))


def _mint() -> Callable[[], str]:
    prefix = secrets.token_hex(4)
    numbers = itertools.count(1)
    return lambda: f"{prefix}-{next(numbers):x}"


def _serve(
    route: Route, gateway: Gateway, mint: Callable[[], str]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    limits = gateway.limits
    body_bytes_max = limits.body_bytes_batch_max if route.batch else limits.body_bytes_single_max
    name = f"{route.method} {route.path}"

    async def serve(request: web.Request) -> web.StreamResponse:
        started_s = time.perf_counter()
        request_id = request_id_of(request.headers.get("X-Request-Id"), mint())
        try:
            caller = _NOBODY if route.public else gateway.auth.caller(request.headers.get("Authorization"))
            response = await route.handler(
                HttpCall(request, gateway, caller, request_id=request_id, route=route, body_bytes_max=body_bytes_max)
            )
        except Exception as error:  # noqa: BLE001 - the edge: every error becomes an answer
            response = _error_answer(error, request_id, name, body_bytes_max)
        response.headers["X-Request-Id"] = request_id
        gateway.metrics.answered(name, response.status, time.perf_counter() - started_s)
        return response

    return serve


def _error_answer(error: Exception, request_id: str, route: str, body_bytes_max: int) -> web.Response:
    match error:
        case Problem():
            problem = error
        case DispatchError():
            problem = problem_of(error.failure)
        case web.HTTPRequestEntityTooLarge():
            problem = body_too_large(body_bytes_max)
        case _:
            _log.error("request_failed", route=route, request_id=request_id, exc_info=error)
            problem = Problem("internal", "A defect of the server; the request id finds its log line. Try again later.")
    return problem_response(problem, request_id)


def problem_response(problem: Problem, request_id: str) -> web.Response:
    """Make the answer of a problem."""
    return web.Response(
        body=problem.body(request_id), status=problem.status, headers=problem.headers, content_type=PROBLEM_TYPE
    )


def _unknown_routes(gateway: Gateway, mint: Callable[[], str]) -> Callable[..., Awaitable[web.StreamResponse]]:
    @web.middleware
    async def answer_unknown(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed as error:
            allowed = sorted(error.allowed_methods)
            problem = Problem(
                "method_not_allowed",
                f"{request.method} is not possible here; use {', '.join(allowed)}.",
                allowed=allowed,
                headers={"Allow": ", ".join(allowed)},
            )
        except web.HTTPNotFound:
            problem = Problem("unknown_route", f"There is no route {request.path[:200]}; see docs/http-api.md.")
        except web.HTTPException as error:
            problem = Problem("bad_path", f"The request cannot be read: {error.reason}.")
        request_id = request_id_of(request.headers.get("X-Request-Id"), mint())
        response = problem_response(problem, request_id)
        response.headers["X-Request-Id"] = request_id
        gateway.metrics.answered("unknown", response.status, 0)
        return response

    return answer_unknown
