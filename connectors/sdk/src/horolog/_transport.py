"""The asyncio side of HTTP: one aiohttp session, JSON texts in, `Answer` out.

Also holds how any answer is read, which the blocking client shares. Raises `UnreachableError` for everything
that is not an answer: refused, reset, timed out, not JSON. Never repeats a request on its own; who calls it
decides that. The session is opened at the first request, on the loop that makes it.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import SplitResult, urlsplit

import aiohttp
from yarl import URL

from horolog._calls import Answer
from horolog._errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECTIONS_MAX = 100  # for a client; a worker takes 0 (no bound): heartbeats may not wait behind parked leases
_JSON = "application/json"


class Requests(Protocol):
    """What the worker's parts need of a transport; test kits put their own in its place."""

    async def request(
        self,
        method: str,
        path: str,
        body: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float,
    ) -> Answer:
        """Send one request and return the answer, whatever its status. Raises UnreachableError."""


class Transport:
    """One gateway's address and the session that talks to it."""

    def __init__(self, url: str, *, token: str | None = None, connections_max: int = CONNECTIONS_MAX) -> None:
        self._url = split_url(url).geturl()
        self._headers = {"Accept": _JSON}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connections_max = connections_max
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        path: str,
        body: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float,
        wants_text: bool = False,
    ) -> Answer:
        """Send one request and return the answer, whatever its status. Raises UnreachableError."""
        session = self._session
        if session is None:
            session = self._session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=self._connections_max),
                auto_decompress=True,
                skip_auto_headers=("User-Agent",),
            )
        sent = dict(headers or {})
        if wants_text:
            sent["Accept"] = "*/*"
        if body is not None:
            sent["Content-Type"] = _JSON
        try:
            async with session.request(
                method,
                URL(self._url + path, encoded=True),
                data=None if body is None else body.encode(),
                headers=sent,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds),
                allow_redirects=False,
            ) as response:
                raw = await response.read()
        except (asyncio.TimeoutError, aiohttp.ClientError, OSError) as error:
            message = f"{method} {path}: {error or type(error).__name__}"
            raise UnreachableError(message) from error
        lowered = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, lowered, decode_body(raw, response.status, wants_text=wants_text))

    async def close(self) -> None:
        """Close the session; a later request opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the Retry-After header in seconds; None if absent or a date."""
    text = headers.get("retry-after", "")
    return float(text) if text.isdigit() else None


def split_url(url: str) -> SplitResult:
    """Check a gateway URL: http or https, a host, and an optional path prefix. Raises ValueError."""
    parts = urlsplit(url.rstrip("/"))
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        message = f"url: {url!r} is not a gateway address; write for instance http://localhost:8080"
        raise ValueError(message)
    return parts


def decode_body(raw: bytes, status: int, *, wants_text: bool = False) -> Any:
    """Return the JSON object of an answer; what a proxy sent in its place becomes an object with `detail` for errors.

    Where text is wanted, a success becomes an object with `text`.

    Raises UnreachableError for a success that is not a JSON object: that was not the gateway.
    """
    if wants_text and status < 300:
        return {"text": raw.decode("utf-8", "replace")}
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    if isinstance(body, dict):
        return body
    if status >= 300:
        return {"detail": raw[:200].decode("utf-8", "replace")}
    message = "the answer is not a JSON object; is this the gateway's address?"
    raise UnreachableError(message)
