"""One HTTP call as routes see it: who calls, headers and body checked, and the answer made."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from aiohttp import web

from api.bodies import decode
from api.dispatch.run_ids import job_id_of
from api.instants import INSTANT_ALLOWED, parse_instant
from api.json_text import inspect
from api.problems import Problem, problem_of
from streams.core.definition import JOB_ID_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.auth import Caller
    from api.gateway import Gateway
    from api.routes.route import Route
    from streams.core.commands import Reply

B = TypeVar("B")

_VISIBLE: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)
_VERSION: Final = re.compile(r'(?:W/)?"?(\d{1,15})"?', re.ASCII)

KEY_CHARS_MAX: Final = 255
REQUEST_ID_CHARS_MAX: Final = 128


class HttpCall:
    """One call. Every method that reads raises Problem."""

    __slots__ = ("body_bytes_max", "caller", "gateway", "request", "request_id", "route")

    def __init__(
        self,
        request: web.Request,
        gateway: Gateway,
        caller: Caller,
        *,
        request_id: str,
        route: Route,
        body_bytes_max: int,
    ) -> None:
        self.request = request
        self.route = route
        self.gateway = gateway
        self.caller = caller
        self.request_id = request_id
        self.body_bytes_max = body_bytes_max

    async def _arrived(self) -> bytes:
        limit_s = self.gateway.limits.body_wait_s_max
        try:
            async with asyncio.timeout(limit_s):
                return await self.request.read()
        except TimeoutError:
            detail = f"The body did not arrive within {limit_s:g} s; send it at once, or less of it."
            raise Problem("body_timeout", detail, limit=limit_s) from None
        except web.RequestPayloadError:
            detail = "The body cannot be read: not in its Content-Encoding, or cut off. Send it plain and whole."
            raise Problem("bad_json", detail) from None

    async def bytes(self) -> bytes:
        """Give the body; an empty one is an empty object."""
        request = self.request
        if request.content_length is not None and request.content_length > self.body_bytes_max:
            raise body_too_large(self.body_bytes_max)
        data = await self._arrived()
        if len(data) > self.body_bytes_max:
            raise body_too_large(self.body_bytes_max)
        if not data:
            return b"{}"
        if request.content_type != "application/json":
            detail = f"Content-Type: is {request.content_type}; send application/json."
            raise Problem("bad_content_type", detail, field="Content-Type", allowed="application/json")
        try:
            str(data, "utf-8")
        except UnicodeDecodeError as error:
            detail = f"The body is not UTF-8: {error.reason} at byte {error.start}."
            raise Problem("bad_json", detail) from None
        if not self.route.batch:
            inspect(data)  # items of a batch are looked at one by one where they need it
        return data

    async def body(self, decoder: msgspec.json.Decoder[B]) -> B:
        """Give the body as a struct."""
        return decode(decoder, await self.bytes())

    @property
    def job_id(self) -> str:
        """The job id of the path."""
        job_id = self.request.match_info["job_id"]
        if JOB_ID_PATTERN.fullmatch(job_id) is None:
            raise Problem("job_not_found", f"jobId: {job_id[:140]!r} is no job id.", field="jobId")
        return job_id

    @property
    def run_id(self) -> tuple[str, str]:
        """The run id of the path, and its job's."""
        run_id = self.request.match_info["run_id"]
        job_id = job_id_of(run_id)
        if job_id is None:
            detail = f"runId: {run_id[:220]!r} is no run id; it looks like run_<jobId>_<suffix>."
            raise Problem("run_not_found", detail, field="runId")
        return run_id, job_id

    @property
    def idempotency_key(self) -> str | None:
        """The header, if it was sent."""
        key = self.request.headers.get("Idempotency-Key")
        if key is not None and (len(key) > KEY_CHARS_MAX or _VISIBLE.fullmatch(key) is None):
            raise bad_header("Idempotency-Key", f"1 to {KEY_CHARS_MAX} visible ASCII characters")
        return key

    @property
    def if_match(self) -> int:
        """The version that the caller knows; 0 is any."""
        header = self.request.headers.get("If-Match")
        if header is None or header.strip() == "*":
            return 0
        match = _VERSION.fullmatch(header.strip())
        if match is None or int(match[1]) == 0:
            raise bad_header("If-Match", 'a version in quotes, for instance "3"')
        return int(match[1])

    @property
    def create_only(self) -> bool:
        """Whether `If-None-Match: *` was sent."""
        header = self.request.headers.get("If-None-Match")
        if header is None:
            return False
        if header.strip() != "*":
            raise bad_header("If-None-Match", "*")
        return True

    def query(self) -> Mapping[str, str]:
        """Give the query, which may have only the parameters of the route, each once unless it may be repeated."""
        allowed = {param.name: param for param in self.route.query}
        for name in self.request.query:
            if name not in allowed:
                known = ", ".join(allowed) or "none"
                detail = f"{name[:100]}: is not a parameter of this route; known are: {known}."
                raise Problem("bad_header", detail, field=name[:100], allowed=list(allowed))
            if not allowed[name].many and len(self.request.query.getall(name)) > 1:
                raise bad_header(name, "it once")
        return self.request.query

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """Give a parameter that has fixed values."""
        value = self.request.query.get(name)
        if value is not None and value not in allowed:
            raise bad_header(name, f"one of {', '.join(allowed)}")
        return value

    def instant(self, name: str) -> int | None:
        """Give an instant of the query."""
        text = self.request.query.get(name)
        if text is None:
            return None
        try:
            return parse_instant(text)
        except ValueError:
            raise bad_header(name, INSTANT_ALLOWED) from None

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """Give a whole number of the query."""
        text = self.request.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit()) or len(text) > 10 or not low <= int(text) <= high:
            raise bad_header(name, f"a whole number from {low} to {high}")
        return int(text)


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Make a JSON answer."""
    return web.Response(body=msgspec.json.encode(body), status=status, headers=headers, content_type="application/json")


def etag(version: int) -> dict[str, str]:
    """Give the ETag header of a version."""
    return {"ETag": f'"{version}"'}


def accepted(reply: Reply) -> Reply:
    """Give a reply that is no refusal. Raises Problem."""
    if reply.code in ("ok", "created"):
        return reply
    problem = problem_of(reply)
    if reply.blocked_by:
        problem.members["blockedBy"] = reply.blocked_by
    raise problem


def replayed(reply: Reply) -> dict[str, str]:
    """Give the header of an answer that repeats an earlier one."""
    return {"Idempotent-Replayed": "true"} if reply.replayed else {}


def bad_header(name: str, allowed: str) -> Problem:
    """Refuse a header or query parameter."""
    return Problem("bad_header", f"{name}: cannot be read; send {allowed}.", field=name, allowed=allowed)


def body_too_large(limit: int) -> Problem:
    """Refuse a body by size."""
    return Problem("body_too_large", f"The body is larger than {limit} bytes; send less at once.", limit=limit)


def request_id_of(header: str | None, minted: str) -> str:
    """Give the caller's request id if it can be one, else the minted one."""
    if header is not None and len(header) <= REQUEST_ID_CHARS_MAX and _VISIBLE.fullmatch(header):
        return header
    return minted
