"""The typed client: `AsyncClient` and `Client` (blocking) with the same methods.

Each method is declared once, in `_calls`; the descriptor below gives it its sync or async form. A call is
repeated with the same idempotency key on broken connections, time-outs, 503 and 504, with backoff and
`Retry-After`, until `retry_seconds` are over; then the last error is raised. `Client` may be shared between
threads: a connection serves one call at a time.
"""

from __future__ import annotations

import functools
import http.client
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from horolog import _calls
from horolog._calls import Answer, Call
from horolog._clock import Clock, SystemClock, sleep
from horolog._errors import HorologError, UnavailableError, UnreachableError, error_from_problem
from horolog._retry import backoff_seconds
from horolog._transport import Transport, decode_body, retry_after, split_url

if TYPE_CHECKING:
    from typing_extensions import Self

P = ParamSpec("P")
T = TypeVar("T")

REQUEST_TIMEOUT_SECONDS = 15.0  # the gateway gives up on its own wait (504) at about 10 s
RETRY_SECONDS = 30.0  # covers the take-over of a partition, at most 15 s (DESIGN section 1)
_IDLE_MAX = 10  # connections that a `Client` keeps for later calls; more threads than that open their own
_BACKOFF_BASE_SECONDS = 0.1
_BACKOFF_MAX_SECONDS = 5.0
_REPEATABLE = frozenset({408, 503, 504})  # docs/http-api.md section 1; 500 is a defect and repeating it helps nobody


def _check(answer: Answer, call: Call[T]) -> T:
    if answer.status < 300 or answer.status in call.accept:
        return call.read(answer)
    body = answer.body if isinstance(answer.body, Mapping) else {}
    raise error_from_problem(answer.status, body, retry_after_seconds=retry_after(answer.headers))


class _Repeats:
    """Decides whether and when a failed call is repeated; shared by both clients."""

    def __init__(self, seconds: float, now: float) -> None:
        self._until = now + seconds
        self._failures = 0

    def delay(self, error: HorologError, now: float) -> float | None:
        if isinstance(error, UnavailableError):
            if error.status not in _REPEATABLE:
                return None
            floor = error.retry_after_seconds or 0.0
        elif isinstance(error, UnreachableError):
            floor = 0.0
        else:
            return None
        self._failures += 1
        delay = backoff_seconds(self._failures, base=_BACKOFF_BASE_SECONDS, limit=_BACKOFF_MAX_SECONDS, floor=floor)
        return delay if now + delay <= self._until else None


class _Method(Generic[P, T]):
    """A client method made from a call builder; its form follows the class of the client."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: None, owner: type[Any]) -> _Method[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type[Any]) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, client: Client, owner: type[Any]) -> Callable[P, T]: ...
    def __get__(self, client: AsyncClient | Client | None, owner: type[Any]) -> Any:
        if client is None:
            return self

        @functools.wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(self._build(*args, **kwargs))

        return method


class _Api:
    """The whole API; see `_calls` for each method's arguments."""

    create_job = _Method(_calls.create_job)
    define_job = _Method(_calls.define_job)
    put_job = _Method(_calls.put_job)
    get_job = _Method(_calls.get_job)
    edit_job = _Method(_calls.edit_job)
    patch_job = _Method(_calls.patch_job)
    delete_job = _Method(_calls.delete_job)
    list_jobs = _Method(_calls.list_jobs)
    list_job_runs = _Method(_calls.list_job_runs)
    preview_job = _Method(_calls.preview_job)
    preview_schedule = _Method(_calls.preview_schedule)
    preview_definition = _Method(_calls.preview_definition)
    explain_job = _Method(_calls.explain_job)
    pause_job = _Method(_calls.pause_job)
    resume_job = _Method(_calls.resume_job)
    trigger_job = _Method(_calls.trigger_job)
    backfill_job = _Method(_calls.backfill_job)
    list_backfills = _Method(_calls.list_backfills)
    stop_backfill = _Method(_calls.stop_backfill)
    skip_occurrence = _Method(_calls.skip_occurrence)
    change_jobs = _Method(_calls.change_jobs)
    undo_change = _Method(_calls.undo_change)
    get_run = _Method(_calls.get_run)
    list_runs = _Method(_calls.list_runs)
    cancel_run = _Method(_calls.cancel_run)
    replay_run = _Method(_calls.replay_run)
    replay_runs = _Method(_calls.replay_runs)
    lease = _Method(_calls.lease)
    heartbeat = _Method(_calls.heartbeat)
    complete = _Method(_calls.complete)
    fail = _Method(_calls.fail)
    release = _Method(_calls.release)
    heartbeat_many = _Method(_calls.heartbeat_many)
    complete_many = _Method(_calls.complete_many)
    fail_many = _Method(_calls.fail_many)
    release_many = _Method(_calls.release_many)
    get_queue = _Method(_calls.get_queue)
    list_queues = _Method(_calls.list_queues)
    put_queue = _Method(_calls.put_queue)
    get_concurrency_key = _Method(_calls.get_concurrency_key)
    list_concurrency_keys = _Method(_calls.list_concurrency_keys)
    put_concurrency_key = _Method(_calls.put_concurrency_key)
    put_calendar = _Method(_calls.put_calendar)
    get_calendar = _Method(_calls.get_calendar)
    list_calendars = _Method(_calls.list_calendars)
    delete_calendar = _Method(_calls.delete_calendar)
    get_tenant = _Method(_calls.get_tenant)
    put_tenant = _Method(_calls.put_tenant)
    live = _Method(_calls.live)
    ready = _Method(_calls.ready)
    metrics = _Method(_calls.metrics)
    openapi = _Method(_calls.openapi)


class AsyncClient(_Api):
    """Calls the gateway from asyncio. Use as `async with AsyncClient(url) as client`, or `await client.close()`."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._transport = Transport(url, token=token)
        self._timeout_seconds = timeout_seconds
        self._retry_seconds = retry_seconds
        self._clock = clock or SystemClock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def send(self, call: Call[T]) -> T:
        """Send one call, repeating it as the module says; the named methods are made of this."""
        repeats = _Repeats(self._retry_seconds, self._clock.monotonic())
        while True:
            try:
                answer = await self._transport.request(
                    call.method,
                    call.path,
                    call.body,
                    headers=call.headers,
                    timeout_seconds=self._timeout_seconds + call.wait_seconds,
                    wants_text=call.wants_text,
                )
                return _check(answer, call)
            except HorologError as error:
                delay = repeats.delay(error, self._clock.monotonic())
                if delay is None:
                    raise
            await sleep(self._clock, delay)


class Client(_Api):
    """Calls the gateway and blocks; for scripts, threads and the command line. Use as `with Client(url) as client`."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._base = split_url(url)
        self._token = token
        self._timeout_seconds = timeout_seconds
        self._retry_seconds = retry_seconds
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; a later call opens one for itself only."""
        with self._lock:
            connections, self._idle = self._idle, []
            self._closed = True
        for connection in connections:
            connection.close()

    def send(self, call: Call[T]) -> T:
        """Send one call, repeating it as the module says; the named methods are made of this."""
        repeats = _Repeats(self._retry_seconds, time.monotonic())
        while True:
            try:
                return _check(self._exchange(call), call)
            except HorologError as error:
                delay = repeats.delay(error, time.monotonic())
                if delay is None:
                    raise
            time.sleep(delay)

    def _exchange(self, call: Call[Any]) -> Answer:
        headers = {"Accept": "*/*" if call.wants_text else "application/json", **call.headers}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        body = None if call.body is None else call.body.encode()
        connection = self._take(self._timeout_seconds + call.wait_seconds)
        try:
            connection.request(call.method, self._base.path + call.path, body, headers)
            response = connection.getresponse()
            raw = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            message = f"{call.method} {call.path}: {error or type(error).__name__}"
            raise UnreachableError(message) from error
        self._put(connection)
        lowered = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, lowered, decode_body(raw, response.status, wants_text=call.wants_text))

    def _take(self, timeout_seconds: float) -> http.client.HTTPConnection:
        """Return an idle connection, or a new one; each belongs to one thread at a time."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            secure = self._base.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            connection = kind(self._base.hostname or "", self._base.port)
        connection.timeout = timeout_seconds
        if connection.sock is not None:
            connection.sock.settimeout(timeout_seconds)
        return connection

    def _put(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()
