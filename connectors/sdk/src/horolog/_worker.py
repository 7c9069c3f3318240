"""`Worker`: the public face of a worker process. It checks what it is told and starts an engine.

See docs/worker-sdk.md. A worker needs nothing but the gateway's address and a queue; it holds no state, so any
number of them may run.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from horolog._attempt import STOP_MARGIN_SECONDS
from horolog._calls import LEASE_WAIT_SECONDS_MAX
from horolog._clock import Clock, SystemClock
from horolog._engine import Engine, Settings
from horolog._events import EventHook, EventSink
from horolog._handlers import Handlers
from horolog._transport import split_url

F = TypeVar("F", bound=Callable[..., Any])

SLOTS_MAX = 10_000  # beyond that one process is not the right size
VISIBILITY_SECONDS_MIN = 3 * STOP_MARGIN_SECONDS  # time to poll, to heartbeat once, and the stop margin
VISIBILITY_SECONDS_MAX = 3_600.0  # docs/http-api.md section 4
DRAIN_SECONDS = 20.0  # with stop grace and flush below the usual 30 s between SIGTERM and SIGKILL
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Worker:
    """Leases runs from one or more queues and hands them to handlers.

    url: the gateway, for instance "http://localhost:8080". queue: one name or several (slots are shared evenly).
    slots: how many runs at a time. visibility_seconds: the lease's length; heartbeat_seconds: at most a third of it.
    drain_seconds: how long handlers may go on after SIGTERM. on_event(name, fields): called for each event of
    docs/worker-sdk.md. Raises ValueError, which names the argument, for anything out of bounds.
    """

    def __init__(
        self,
        url: str,
        *,
        queue: str | Sequence[str],
        worker_id: str | None = None,
        slots: int = 10,
        visibility_seconds: float = 30.0,
        heartbeat_seconds: float = 10.0,
        lease_poll_seconds: float = LEASE_WAIT_SECONDS_MAX,
        drain_seconds: float = DRAIN_SECONDS,
        request_timeout_seconds: float = 10.0,
        token: str | None = None,
        on_event: EventHook | None = None,
        clock: Clock | None = None,
    ) -> None:
        split_url(url)
        queues = (queue,) if isinstance(queue, str) else tuple(queue)
        _check_queues(queues, slots)
        _between("slots", slots, 1, SLOTS_MAX)
        _between("visibility_seconds", visibility_seconds, VISIBILITY_SECONDS_MIN, VISIBILITY_SECONDS_MAX)
        _between("heartbeat_seconds", heartbeat_seconds, 0.1, visibility_seconds / 3)
        _between("lease_poll_seconds", lease_poll_seconds, 0.0, LEASE_WAIT_SECONDS_MAX)
        _between("drain_seconds", drain_seconds, 0.0, 86_400.0)
        _between("request_timeout_seconds", request_timeout_seconds, 0.01, 60.0)
        # The lease clock starts when the lease request is sent: after the longest wait there must be
        # time for the first heartbeat, and the stop margin.
        poll_seconds = min(lease_poll_seconds, visibility_seconds - 2 * STOP_MARGIN_SECONDS)
        self._settings = Settings(
            url=url,
            queues=queues,
            worker_id=worker_id or _default_worker_id(),
            slots=slots,
            visibility_seconds=visibility_seconds,
            heartbeat_seconds=heartbeat_seconds,
            lease_poll_seconds=poll_seconds,
            drain_seconds=drain_seconds,
            request_timeout_seconds=request_timeout_seconds,
            token=token,
        )
        if not 1 <= len(self._settings.worker_id) <= 128:
            message = "worker_id: 1 to 128 characters"
            raise ValueError(message)
        self._handlers = Handlers()
        self._clock = clock or SystemClock()
        self._emit = EventSink(on_event, worker_id=self._settings.worker_id)
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, Engine] | None = None

    @property
    def worker_id(self) -> str:
        """The name under which the gateway knows this worker."""
        return self._settings.worker_id

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that it leases from."""
        return self._settings.queues

    @property
    def handlers(self) -> Handlers:
        """The handlers by task, for test kits and tools."""
        return self._handlers

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that it has handlers for."""
        return self._handlers.tasks

    def handler(self, task: str) -> Callable[[F], F]:
        """Register the decorated function as the handler of `task`, and return it unchanged.

        `async def` runs on the loop, a plain function in a thread. It takes the run and returns None or any
        JSON value. Raises TypeError or ValueError at once if it cannot be a handler or the task has one.
        """
        if not isinstance(task, str):
            message = 'write @worker.handler("task-name"): the task name comes first'
            raise TypeError(message)

        def register(function: F) -> F:
            self._handlers.add(task, function)
            return function

        return register

    def run(self) -> None:
        """Work until SIGTERM or SIGINT, then drain and return. A second signal stops waiting for handlers.

        Raises ApiError if the gateway refuses the first lease for good (wrong token, unknown queue).
        """
        asyncio.run(self._run_with_signals())

    async def run_async(self) -> None:
        """Work on the caller's loop until `stop`, then drain and return; signals are the caller's. Raises as `run`."""
        loop = asyncio.get_running_loop()
        engine = Engine(self._settings, self._handlers, clock=self._clock, emit=self._emit)
        with self._lock:
            if self._running is not None:
                message = "this worker is already running"
                raise RuntimeError(message)
            self._running = (loop, engine)
        try:
            await engine.run()
        finally:
            with self._lock:
                self._running = None

    def stop(self) -> None:
        """Begin to drain; from any thread. The second call stops waiting for handlers. Does nothing if not running."""
        with self._lock:
            running = self._running
        if running is None:
            return
        loop, engine = running
        with contextlib.suppress(RuntimeError):  # the loop closed in between: it has stopped
            loop.call_soon_threadsafe(engine.request_stop)

    async def _run_with_signals(self) -> None:
        with _signals(asyncio.get_running_loop(), self.stop):
            await self.run_async()


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT, where the platform and the thread allow it."""
    installed = []
    for number in (signal.SIGTERM, signal.SIGINT):
        # ValueError: not the main thread. NotImplementedError: a loop without signals (Windows).
        with contextlib.suppress(ValueError, NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, stop)
            installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)


def _check_queues(queues: tuple[str, ...], slots: int) -> None:
    if not queues or len(set(queues)) != len(queues):
        message = "queue: give at least one name, and each once"
        raise ValueError(message)
    for queue in queues:
        if not _QUEUE.fullmatch(queue):
            message = f"queue: {queue!r} is not a queue name; use letters, digits, '.', '_', '-' (at most 128)"
            raise ValueError(message)
    if slots < len(queues):
        message = f"slots: {slots} is fewer than the {len(queues)} queues"
        raise ValueError(message)


def _between(name: str, value: float, low: float, high: float) -> None:
    if not (low <= value <= high) or math.isnan(value):
        message = f"{name}: {value} is not between {low:g} and {high:g}"
        raise ValueError(message)


def _default_worker_id() -> str:
    return f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(2)}"
