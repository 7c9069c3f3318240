"""A running worker: wires leasers, executor, keeper and outbox together, and drains them in order.

Drain (SIGTERM): 1. no more leases; runs on their way are given back. 2. running handlers may finish within
`drain_seconds`.
3. what still runs is stopped: async handlers are cancelled and fail as retryable, threads are left behind and
their leases end by themselves.
4. all outcomes are delivered. Leases are renewed through all of it. A second request to stop skips the waiting
of step 2.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horolog._attempt import Attempt
from horolog._clock import Clock, wait_event
from horolog._errors import WorkerStopping
from horolog._executor import Executor
from horolog._keeper import LeaseKeeper
from horolog._leaser import Leaser
from horolog._outbox import Outbox
from horolog._slots import Slots
from horolog._transport import Transport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from horolog._events import EventSink
    from horolog._handlers import Handlers

STOP_GRACE_SECONDS = 2.0  # for async handlers to react to their cancellation at the end of a drain
FLUSH_SECONDS = 5.0  # for the last outcomes; with the default drain_seconds the process ends within 30 s
UNDELIVERED_MIN = 1_000  # outcomes that may wait before leasing stops; 4 per slot if that is more


@dataclass(frozen=True)
class Settings:
    """What a worker was told; checked by `Worker`."""

    url: str
    queues: tuple[str, ...]
    worker_id: str
    slots: int
    visibility_seconds: float
    heartbeat_seconds: float
    lease_poll_seconds: float
    drain_seconds: float
    request_timeout_seconds: float
    token: str | None


class Engine:
    """One run of a worker, on one loop, from start to drained."""

    def __init__(self, settings: Settings, handlers: Handlers, *, clock: Clock, emit: EventSink) -> None:
        self._settings = settings
        self._handlers = handlers
        self._clock = clock
        self._emit = emit
        self._transport = Transport(settings.url, token=settings.token, connections_max=0)
        self._outbox = Outbox(
            self._transport,
            clock=clock,
            emit=emit,
            on_done=self._settled,
            timeout_seconds=settings.request_timeout_seconds,
        )
        self._slots = Slots(
            settings.slots,
            busy=lambda: len(self._executor.running),
            blocked=lambda: self._outbox.waiting >= max(UNDELIVERED_MIN, 4 * settings.slots),
            clock=clock,
            poll_seconds=settings.lease_poll_seconds,
        )
        self._executor = Executor(
            handlers, self._outbox, clock=clock, emit=emit, threads_max=settings.slots, on_free=self._freed
        )
        self._keeper = LeaseKeeper(
            self._transport,
            clock=clock,
            emit=emit,
            stop=self._executor.stop,
            worker_id=settings.worker_id,
            visibility_seconds=settings.visibility_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
        )
        self._leasers = [self._leaser(queue) for queue in settings.queues]
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._changed = asyncio.Event()

    def request_stop(self) -> None:
        """Begin to drain; the second time, stop waiting for handlers."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def run(self) -> None:
        """Work until asked to stop, then drain. Raises ApiError if the gateway refuses the first lease for good."""
        self._emit("worker_started", queues=",".join(self._settings.queues), slots=self._settings.slots)
        leasing = [asyncio.ensure_future(leaser.run()) for leaser in self._leasers]
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            done, _ = await asyncio.wait({*leasing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._hurry.set()
            await self._end(leasing, stopped)
            raise
        await self._end(leasing, stopped)
        for task in done - {stopped}:
            task.result()

    async def _end(self, leasing: Sequence[asyncio.Task[None]], stopped: asyncio.Task[Any]) -> None:
        stopped.cancel()
        for task in leasing:
            task.cancel()
        await asyncio.gather(*leasing, stopped, return_exceptions=True)
        try:
            await self._drain()
        finally:
            self._executor.close()
            await self._outbox.close()
            await self._keeper.close()
            await self._transport.close()
        self._emit("worker_stopped", abandoned=len(self._executor.running), undelivered=self._outbox.undelivered)

    async def _drain(self) -> None:
        self._emit("worker_draining", running=len(self._executor.running), undelivered=self._outbox.waiting)
        await asyncio.gather(*(leaser.close() for leaser in self._leasers))
        if not self._hurry.is_set():
            await self._wait_running(self._settings.drain_seconds)
        if self._executor.running:
            reason = WorkerStopping("the worker is stopping")
            for attempt in list(self._executor.running):
                self._executor.stop(attempt, reason)
            self._hurry.clear()
            await self._wait_running(STOP_GRACE_SECONDS)
            for attempt in self._executor.running:
                self._emit("handler_abandoned", run_id=attempt.run_id, in_thread=not attempt.is_async)
        with contextlib.suppress(asyncio.TimeoutError):
            await self._flush()

    async def _flush(self) -> None:
        flushed = asyncio.Event()

        async def wait() -> None:
            await self._outbox.flush()
            flushed.set()

        waiting = asyncio.ensure_future(wait())
        await wait_event(self._clock, flushed, FLUSH_SECONDS)
        waiting.cancel()

    async def _wait_running(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while self._executor.running and not self._hurry.is_set():
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            self._changed.clear()
            hurrying = asyncio.ensure_future(self._hurry.wait())
            hurrying.add_done_callback(lambda _: self._changed.set())
            await wait_event(self._clock, self._changed, left)
            hurrying.cancel()

    def _leaser(self, queue: str) -> Leaser:
        settings = self._settings
        return Leaser(
            queue,
            self._slots,
            self._transport,
            clock=self._clock,
            emit=self._emit,
            worker_id=settings.worker_id,
            visibility_seconds=settings.visibility_seconds,
            timeout_seconds=settings.request_timeout_seconds,
            take=self._take,
            give_back=self._give_back,
        )

    def _take(self, runs: list[Mapping[str, Any]], sent_at: float) -> None:
        self._outbox.trace = self._emit.wants_every_run
        now = self._clock.monotonic()
        fresh: list[Attempt] = []
        for attempt in self._attempts(runs, sent_at, now):
            if now >= attempt.stop_at:  # the answer took longer than the lease can be trusted
                self._outbox.release(attempt, "late_answer")
            else:
                fresh.append(attempt)
        self._keeper.add(fresh)
        for attempt in fresh:
            self._executor.start(attempt)

    def _give_back(self, runs: list[Mapping[str, Any]], sent_at: float) -> None:
        for attempt in self._attempts(runs, sent_at, self._clock.monotonic()):
            self._outbox.release(attempt, "worker_stopping")

    def _attempts(self, runs: list[Mapping[str, Any]], sent_at: float, now: float) -> list[Attempt]:
        read = (self._attempt(wire, sent_at, now) for wire in runs)
        return [attempt for attempt in read if attempt is not None]

    def _attempt(self, wire: Mapping[str, Any], sent_at: float, now: float) -> Attempt | None:
        try:
            return Attempt(wire, sent_at=sent_at, now=now)
        except (KeyError, TypeError, ValueError) as error:
            self._emit("lease_request_failed", detail=f"a leased run cannot be read: {error!r}")
            return None

    def _freed(self) -> None:
        self._changed.set()
        self._slots.freed()

    def _settled(self, attempt: Attempt) -> None:
        self._keeper.remove(attempt)
        self._slots.freed()
