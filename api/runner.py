"""The HTTP server of the gateway, in which errors from before any route are problem+json too.

aiohttp answers what its parser refuses (a request line that is none, a header that is too long) by itself, as plain
text and outside the application. `GatewayRunner` takes the place of `web.AppRunner` to give these answers their form.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, InvalidHeader, LineTooLong

from api.app import problem_response
from api.problems import Problem

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest

REQUEST_ID_BYTES: Final = 6

REASON_CHARS_MAX: Final = 300
"""Of the parser's own words, which quote what it refuses."""


class _Protocol(web.RequestHandler):
    """One connection."""

    __slots__ = ()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer with a problem, and close the connection: what follows on it cannot be trusted."""
        super().handle_error(request, status, exc, message)  # logs it, and raises where an answer has begun already
        request_id = secrets.token_hex(REQUEST_ID_BYTES)
        response = problem_response(_problem(status, exc, message), request_id)
        response.headers["X-Request-Id"] = request_id
        response.force_close()
        return response


def _problem(status: int, exc: BaseException | None, message: str | None) -> Problem:
    if status >= 500 or not isinstance(exc, BadHttpMessage):
        return Problem("internal", "A defect of the server. Try again later.")
    reason = " ".join((message or exc.message or "no HTTP").split())[:REASON_CHARS_MAX]
    if isinstance(exc, LineTooLong | InvalidHeader):
        return Problem(
            "bad_header", f"A header or the request line cannot be read: {reason}; send less, or correct it."
        )
    return Problem("bad_request", f"The request is not HTTP/1.1: {reason}; correct the client.")


class _Server(web.Server):
    """Makes connections."""

    def __call__(self) -> web.RequestHandler:
        """See web.Server."""
        return _Protocol(self, loop=self._loop, **self._kwargs)


class GatewayRunner(web.AppRunner):
    """A `web.AppRunner` whose server answers everything with problem+json."""

    __slots__ = ()

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        made = _Server(
            server.request_handler,
            request_factory=server.request_factory,
            handler_cancellation=server.handler_cancellation,
            loop=asyncio.get_running_loop(),
        )
        made._kwargs = server._kwargs  # noqa: SLF001 - of its own base class; there is no public way to choose the protocol
        return made
