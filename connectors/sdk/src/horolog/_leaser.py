"""Leases runs: long-polls one queue for as many runs as `Slots` promises it.

An answer that was lost is asked for again with the same request id for `REPEAT_SECONDS`; the lease clock of its runs
starts at the first sending, so a repeat waits only for what is left of the poll. A parked request is ended in a way
that loses no run: the same request is sent again without waiting. What that brings is run when the request was called
back for its slots, and handed to `give_back` on `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from horolog._clock import Clock, sleep
from horolog._errors import ApiError, UnreachableError, error_from_problem
from horolog._retry import backoff_seconds
from horolog._transport import Requests, retry_after
from horolog._wire import to_json

if TYPE_CHECKING:
    from horolog._events import Emit
    from horolog._slots import Ask, Slots

REPEAT_SECONDS = 10.0  # docs/http-api.md section 4: how long a gateway keeps the answer of a lease request
REQUESTS_MAX = 2  # one may be parked while another fetches for slots that became free
GATHER_SECONDS = 0.003  # before a second request: slots become free in groups
EMPTY_ANSWER_SECONDS = 0.1  # an empty answer faster than this is not a long poll; wait as after an error
_BACKOFF_BASE_SECONDS = 0.1
_BACKOFF_MAX_SECONDS = 5.0
_RECOVER_SECONDS = 2.0  # a drain does not wait longer for runs that may be on the wire
_CONFIGURATION = frozenset({400, 401, 403, 404, 405, 413, 415, 422})

TakeRuns = Callable[[list[Mapping[str, Any]], float], None]


class Leaser:
    """The lease requests of one queue."""

    def __init__(
        self,
        queue: str,
        slots: Slots,
        transport: Requests,
        *,
        clock: Clock,
        emit: Emit,
        worker_id: str,
        visibility_seconds: float,
        timeout_seconds: float,
        take: TakeRuns,
        give_back: TakeRuns,
    ) -> None:
        self._queue = queue
        self._path = f"/v1/queues/{quote(queue, safe='')}/lease"
        self._slots = slots
        self._line = slots.line()
        self._transport = transport
        self._clock = clock
        self._emit = emit
        self._worker_id = worker_id
        self._visibility_seconds = visibility_seconds
        self._timeout_seconds = timeout_seconds
        self._take = take
        self._give_back = give_back
        self._requests: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._answered = False
        self._closing = False

    async def run(self) -> None:
        """Keep leasing until cancelled. Raises ApiError if the gateway refuses the very first request for good."""
        while True:
            for request in [r for r in self._requests if r.done()]:
                self._requests.discard(request)
                request.result()
            ask = None
            if len(self._requests) < REQUESTS_MAX:
                if self._requests:
                    await sleep(self._clock, GATHER_SECONDS)
                ask = self._slots.take(self._line)
            if ask is None:
                await self._slots.wait(self._line)
                continue
            self._requests.add(asyncio.get_running_loop().create_task(self._request(ask)))

    async def close(self) -> None:
        """End all requests, giving back runs that were on their way."""
        self._closing = True
        requests = list(self._requests)
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        self._requests.clear()

    async def _request(self, ask: Ask) -> None:
        request_id = uuid.uuid4().hex
        sent_at = self._clock.monotonic()
        runs: list[Mapping[str, Any]] = []
        try:
            runs = await self._fetch(ask, request_id, sent_at)
        except asyncio.CancelledError:
            if self._closing:
                await self._recover(ask.count, request_id, sent_at)
            raise
        finally:
            self._slots.put(self._line, ask, len(runs))
        if runs:
            self._take(runs, sent_at)

    async def _fetch(self, ask: Ask, request_id: str, sent_at: float) -> list[Mapping[str, Any]]:
        """Return the leased runs; an empty list after an empty answer or once the request is too old to repeat."""
        while True:
            began = self._clock.monotonic()
            floor = 0.0
            wait_seconds = 0.0 if ask.called_back else max(0.0, ask.wait_seconds - round(began - sent_at, 3))
            try:
                runs = await self._poll(ask, request_id, wait_seconds)
            except UnreachableError as error:
                why = str(error)
            except ApiError as error:
                if error.status in _CONFIGURATION and not self._answered:
                    raise
                why, floor = str(error), error.retry_after_seconds or 0.0
            else:
                if runs is None:
                    continue
                self._answered = True
                if runs or ask.called_back or self._clock.monotonic() - began >= EMPTY_ANSWER_SECONDS:
                    self._failures = 0
                    return runs
                why = "an empty answer at once"
            self._failures += 1
            wait = backoff_seconds(self._failures, base=_BACKOFF_BASE_SECONDS, limit=_BACKOFF_MAX_SECONDS, floor=floor)
            self._emit("lease_request_failed", queue=self._queue, detail=why, repeat_after_seconds=wait)
            await sleep(self._clock, wait)
            if self._clock.monotonic() - sent_at > REPEAT_SECONDS:
                return []

    async def _poll(self, ask: Ask, request_id: str, wait_seconds: float) -> list[Mapping[str, Any]] | None:
        """Return the answer; None if the request was called back while it waited, and is to be repeated.

        Its connection is closed first. The gateway keeps a place or an unread answer for a repeat, wherever the call
        was cut off.
        """
        if ask.called_back:
            return await self._ask(ask.count, request_id, wait_seconds)
        polling = asyncio.ensure_future(self._ask(ask.count, request_id, wait_seconds))
        ask.polling = polling
        try:
            await asyncio.wait({polling})
        except asyncio.CancelledError:
            polling.cancel()
            with contextlib.suppress(asyncio.CancelledError, UnreachableError, ApiError):
                await polling
            raise
        finally:
            ask.polling = None
        return None if polling.cancelled() else polling.result()

    async def _ask(self, count: int, request_id: str, wait_seconds: float) -> list[Mapping[str, Any]]:
        body = to_json(
            {
                "workerId": self._worker_id,
                "max": count,
                "visibilitySeconds": self._visibility_seconds,
                "waitSeconds": wait_seconds,
                "requestId": request_id,
            }
        )
        timeout = self._timeout_seconds + wait_seconds
        answer = await self._transport.request("POST", self._path, body, timeout_seconds=timeout)
        if answer.status != 200:
            raise error_from_problem(answer.status, answer.body, retry_after_seconds=retry_after(answer.headers))
        runs = answer.body.get("runs")
        return runs if isinstance(runs, list) else []

    async def _recover(self, count: int, request_id: str, sent_at: float) -> None:
        asking = asyncio.ensure_future(self._ask(count, request_id, 0))
        try:
            runs = await asyncio.wait_for(asking, _RECOVER_SECONDS)
        except (asyncio.TimeoutError, UnreachableError, ApiError) as error:
            # Nobody can be asked: what was granted comes back when its lease ends.
            self._emit("lease_request_failed", queue=self._queue, detail=f"while stopping: {error!r}")
            return
        if runs:
            self._give_back(runs, sent_at)
