"""Runs handlers: async ones as tasks on the loop, plain ones in a bounded pool of daemon threads.

For every attempt exactly one of these happens when its handler ends: `sink.complete`, `sink.fail`, `sink.release`, or
`sink.refuse` (its lease was lost or could have ended, so nothing is reported). `on_free` is called each time a
slot becomes free. A plain function cannot be
killed: its thread keeps the slot until it returns, and daemon threads do not hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import traceback
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from horolog._attempt import Attempt, Phase
from horolog._errors import PermanentFailure, RunCancelled, RunStopped, RunTimedOut, WorkerStopping
from horolog._run import Run, enter_run
from horolog._wire import bounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from horolog._clock import Clock
    from horolog._events import Emit
    from horolog._handlers import Function, Handlers


class Sink(Protocol):
    """Where outcomes go; each method is called once per attempt."""

    def complete(self, attempt: Attempt, result: Any) -> None:
        """Take what the handler returned."""

    def fail(self, attempt: Attempt, *, error: str, error_type: str, retryable: bool) -> None:
        """Take note that the handler raised, or was stopped."""

    def release(self, attempt: Attempt, reason: str) -> None:
        """Take note that the handler was never started, and give the run back."""

    def refuse(self, attempt: Attempt) -> None:
        """Take note that the handler ended too late; nothing may be reported."""


class Executor:
    """Starts, stops and finishes attempts; one per worker, used on its loop only."""

    def __init__(
        self,
        handlers: Handlers,
        sink: Sink,
        *,
        clock: Clock,
        emit: Emit,
        threads_max: int,
        on_free: Callable[[], None],
    ) -> None:
        self._handlers = handlers
        self._sink = sink
        self._clock = clock
        self._emit = emit
        self._on_free = on_free
        self._threads = _Threads(threads_max, self._thread_ended)
        self.running: dict[Attempt, None] = {}

    def start(self, attempt: Attempt) -> None:
        """Start the handler of a leased run."""
        task = attempt.wire["task"]
        handler = self._handlers.get(task)
        self.running[attempt] = None
        if handler is None:
            known = ", ".join(self._handlers.tasks) or "none"
            self._emit("unknown_task", run_id=attempt.run_id, task=task, known=known)
            error = f"this worker has no handler for task {task!r}; it has: {known}"
            self._end(attempt, _failure(error, "UnknownTask"))
        elif handler.is_async:
            coroutine = self._run_async(attempt, handler.function)
            attempt.task = asyncio.get_running_loop().create_task(coroutine)
        else:
            attempt.is_async = False
            attempt.loop = asyncio.get_running_loop()
            self._threads.submit(attempt, handler.function)

    def stop(self, attempt: Attempt, reason: RunStopped) -> None:
        """Tell a handler to stop: cancels an async one, sets `run.cancelled` for a plain one."""
        if attempt.phase is not Phase.RUNNING or not attempt.stop(reason):
            return
        self._emit("run_stopping", run_id=attempt.run_id, reason=type(reason).__name__, detail=str(reason))
        # A task that has not begun would be cancelled without ever running; it looks at the reason itself.
        if attempt.task is not None and attempt.started:
            attempt.task.cancel(reason)

    def close(self) -> None:
        """End idle threads; busy ones end after their handler."""
        self._threads.close()

    async def _run_async(self, attempt: Attempt, function: Function) -> None:
        attempt.started = True
        if attempt.reason is not None:
            self._end(attempt, _NotStarted(attempt.reason))
            return
        run = Run(attempt)
        enter_run(run)
        try:
            ended = _Returned(await function(run))
        except BaseException as error:
            self._end(attempt, error)
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            self._end(attempt, ended)

    def _thread_ended(self, attempt: Attempt, ended: _Returned | BaseException) -> None:
        self._end(attempt, ended)

    def _end(self, attempt: Attempt, ended: _Returned | BaseException) -> None:
        self.running.pop(attempt, None)
        attempt.phase = Phase.DELIVERING
        attempt.task = None  # breaks the cycle task -> coroutine -> attempt
        if attempt.lease_is_lost or self._clock.monotonic() >= attempt.stop_at:
            self._sink.refuse(attempt)
        elif isinstance(ended, _NotStarted) and isinstance(attempt.reason, WorkerStopping):
            self._sink.release(attempt, "worker_stopping")
        elif isinstance(attempt.reason, RunTimedOut):
            self._sink.fail(attempt, error=str(attempt.reason), error_type="RunTimedOut", retryable=True)
        elif isinstance(ended, _Returned):
            self._sink.complete(attempt, ended.value)
        else:
            self._fail(attempt, ended)
        self._on_free()

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        reason = attempt.reason
        if reason is not None and isinstance(error, (asyncio.CancelledError, _NotStarted)):
            retryable = not isinstance(reason, RunCancelled)
            self._sink.fail(attempt, error=str(reason), error_type=type(reason).__name__, retryable=retryable)
            return
        retryable = not isinstance(error, PermanentFailure)
        self._sink.fail(attempt, error=describe(error), error_type=_type_name(error), retryable=retryable)


class _Returned:
    """A handler's return value, to tell it from an exception."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _NotStarted(Exception):  # noqa: N818 - internal; says that a handler was stopped before it began
    """The handler was told to stop before it began."""


class _Failure(Exception):  # noqa: N818 - internal; carries the error type that is reported
    """A failure that the worker itself found."""

    def __init__(self, message: str, error_type: str) -> None:
        super().__init__(message)
        self.error_type = error_type


def _failure(message: str, error_type: str) -> _Failure:
    return _Failure(message, error_type)


def _type_name(error: BaseException) -> str:
    return error.error_type if isinstance(error, _Failure) else type(error).__name__


def describe(error: BaseException) -> str:
    """Return an error's text with its traceback, bounded; the text alone for failures raised on purpose."""
    if isinstance(error, (_Failure, PermanentFailure)):
        try:
            text = str(error)
        except Exception:  # noqa: BLE001 - an exception's own __str__ may fail in any way
            text = ""
        return bounded(text or type(error).__name__)
    frames = traceback.format_exception(type(error), error, error.__traceback__, limit=-20)
    return bounded("".join(frames).rstrip())


class _Threads:
    """A pool that grows to `size` daemon threads and hands results to the loop in groups."""

    def __init__(self, size: int, on_end: Callable[[Attempt, _Returned | BaseException], None]) -> None:
        self._size = size
        self._on_end = on_end
        self._work: SimpleQueue[tuple[Attempt, Function] | None] = SimpleQueue()
        self._ended: deque[tuple[Attempt, _Returned | BaseException]] = deque()
        self._waking = False
        self._threads = 0
        self._busy = 0

    def submit(self, attempt: Attempt, function: Function) -> None:
        """Run a plain function; never waits, since a worker leases no more runs than it has slots."""
        self._busy += 1
        if self._busy > self._threads and self._threads < self._size:
            self._threads += 1
            loop = asyncio.get_running_loop()
            name = f"horolog-handler-{self._threads}"
            threading.Thread(target=self._serve, args=(loop,), name=name, daemon=True).start()
        self._work.put((attempt, function))

    def close(self) -> None:
        """Let every thread end once it has no work."""
        for _ in range(self._threads):
            self._work.put(None)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            attempt, function = work
            ended = contextvars.copy_context().run(_call_plain, attempt, function)
            self._ended.append((attempt, ended))
            del work, attempt, function, ended  # an idle thread keeps no run alive
            if not self._waking:
                self._waking = True
                try:
                    loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:  # the loop is closed: nobody is left to tell
                    return

    def _deliver(self) -> None:
        # Cleared before reading: a thread that appends after this line wakes the loop again.
        self._waking = False
        while self._ended:
            attempt, ended = self._ended.popleft()
            self._busy -= 1
            self._on_end(attempt, ended)


def _call_plain(attempt: Attempt, function: Function) -> _Returned | BaseException:
    attempt.started = True
    if attempt.reason is not None:
        return _NotStarted(attempt.reason)
    run = Run(attempt)
    enter_run(run)
    try:
        value = function(run)
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises becomes the run's outcome
        return error
    if inspect.iscoroutine(value):
        value.close()
        message = "the handler returned a coroutine; declare the function itself async def"
        return _failure(message, "TypeError")
    return _Returned(value)
