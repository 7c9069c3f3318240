"""Runs handlers without a server: the worker's own executor and lease keeper over a gateway that always answers.

    result = await run_handler(rollup, payload={"month": 11})
    assert result.outcome == "completed"

`WorkerTest` starts a handler and lets the test cancel it, lose its lease, silence the gateway or let time pass
on a manual clock, so a time-out of an hour is tested in milliseconds.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horolog._attempt import Attempt
from horolog._calls import Answer
from horolog._errors import LeaseLost, RunCancelled, RunStopped, RunTimedOut, UnreachableError, WorkerStopping
from horolog._executor import Executor
from horolog._handlers import Handlers
from horolog._keeper import LeaseKeeper
from horolog._run import Run
from horolog._wire import RESULT_BYTES_MAX, to_json
from horolog.testing._manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

    from horolog._worker import Worker

VISIBILITY_SECONDS = 30.0  # the worker's defaults
HEARTBEAT_SECONDS = 10.0
RESULT_WAIT_SECONDS = 20.0  # real time that a test waits for a handler before it fails
THREADS_MAX = 16


@dataclass(frozen=True)
class HandlerResult:
    """How a handler ended, as the gateway would have been told.

    outcome: "completed", "failed" (see `retryable`), "cancelled", "timed_out", "worker_stopping", "released"
    (stopped before it began), or "lease_lost" (nothing would have been reported). result: what it returned, after
    a round trip through JSON. progress: the last value that was sent or set.
    """

    outcome: str
    result: Any = None
    error: str | None = None
    error_type: str | None = None
    retryable: bool | None = None
    progress: Any = None
    stop_reason: RunStopped | None = None


class RunningHandler:
    """A handler that `WorkerTest.start` has started."""

    def __init__(self, test: WorkerTest, attempt: Attempt) -> None:
        self._test = test
        self._attempt = attempt
        self.run = Run(attempt)

    def cancel(self) -> None:
        """Ask to cancel the run, as a heartbeat's answer would."""
        self._test.stop(self._attempt, RunCancelled("the run was cancelled: user"))

    def lose_lease(self) -> None:
        """Take the lease away, as a 409 to a heartbeat would."""
        self._test.stop(self._attempt, LeaseLost("another worker has the run"))

    def stop_worker(self) -> None:
        """Stop the handler as the end of a drain would."""
        self._test.stop(self._attempt, WorkerStopping("the worker is stopping"))

    @property
    def progress(self) -> Any:
        """The last progress that was sent, or None."""
        return self._test.progress(self._attempt)

    async def result(self) -> HandlerResult:
        """Wait for the handler's end. Raises TimeoutError if it does not come."""
        return await asyncio.wait_for(self._test.ended(self._attempt), RESULT_WAIT_SECONDS)


class WorkerTest:
    """Executes a worker's handlers (`async with WorkerTest(worker) as test`) on a manual clock, without a server."""

    def __init__(self, worker: Worker | None = None) -> None:
        self.clock = ManualClock()
        self._handlers = Handlers() if worker is None else worker.handlers
        self._gateway = _Answers(self.clock)
        self._sink = _Sink()
        self._executor = Executor(
            self._handlers,
            self._sink,
            clock=self.clock,
            emit=_silent,
            threads_max=THREADS_MAX,
            on_free=lambda: None,
        )
        self._keeper = LeaseKeeper(
            self._gateway,
            clock=self.clock,
            emit=_silent,
            stop=self._executor.stop,
            worker_id="test",
            visibility_seconds=VISIBILITY_SECONDS,
            heartbeat_seconds=HEARTBEAT_SECONDS,
        )
        self._started = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for attempt in list(self._executor.running):
            self._executor.stop(attempt, WorkerStopping("the test has ended"))
        await self._keeper.close()

    def add_handler(self, task: str, function: Callable[..., Any]) -> None:
        """Add a handler that no worker has. Raises as `Worker.handler`."""
        self._handlers.add(task, function)

    def start(self, task: str, *, payload: Any = None, **fields: Any) -> RunningHandler:
        """Hand a run to the handler of `task`; `fields` are members of the leased run, as timeoutSeconds."""
        self._started += 1
        wire = {
            "runId": f"run_test-{self._started}_20261201T090000000Z",
            "jobId": f"test-{self._started}",
            "queue": "test",
            "task": task,
            "attempt": 1,
            "leaseToken": 1,
            "leaseRemainingMs": VISIBILITY_SECONDS * 1000,
            "leaseExpiresAt": "2026-12-01T09:00:30.000Z",
            "scheduledFor": "2026-12-01T09:00:00.000Z",
            "payload": json.loads(to_json(payload)),
            "labels": {},
            **fields,
        }
        now = self.clock.monotonic()
        attempt = Attempt(wire, sent_at=now, now=now)
        self._sink.expect(attempt, on_end=lambda: self._keeper.remove(attempt))
        self._keeper.add([attempt])
        self._executor.start(attempt)
        return RunningHandler(self, attempt)

    def silence(self) -> None:
        """Let no heartbeat be answered from now on; after 25 s on the clock leases are lost."""
        self._gateway.silent = True

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.advance(seconds)

    def stop(self, attempt: Attempt, reason: RunStopped) -> None:
        """Tell a handler to stop; used by `RunningHandler`."""
        self._executor.stop(attempt, reason)

    def progress(self, attempt: Attempt) -> Any:
        """Return the last progress of an attempt; used by `RunningHandler`."""
        if attempt.progress is not None:
            return json.loads(attempt.progress)
        return self._gateway.progress.get(attempt.run_id)

    async def ended(self, attempt: Attempt) -> HandlerResult:
        """Wait for an attempt's end; used by `RunningHandler`."""
        outcome, values = await self._sink.wait(attempt)
        return HandlerResult(outcome, progress=self.progress(attempt), stop_reason=attempt.reason, **values)


async def run_handler(function: Callable[..., Any], *, payload: Any = None, **fields: Any) -> HandlerResult:
    """Run one handler to its end and return how it ended; `fields` as in `WorkerTest.start`."""
    async with WorkerTest() as test:
        test.add_handler("test", function)
        return await test.start("test", payload=payload, **fields).result()


def _silent(event: str, /, **fields: Any) -> None:
    """Drop an event: a handler test looks at results."""


class _Answers:
    """A gateway in place of the transport: it confirms every heartbeat, unless it was silenced."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.silent = False
        self.progress: dict[str, Any] = {}

    async def request(
        self,
        method: str,
        path: str,
        body: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float,
    ) -> Answer:
        """Answer a batch of heartbeats."""
        del headers, timeout_seconds
        if self.silent:
            message = f"{method} {path}: the test silenced the gateway"
            raise UnreachableError(message)
        runs = json.loads(body or "{}")["runs"]
        for item in runs:
            if "progress" in item:
                self.progress[item["runId"]] = item["progress"]
        confirmed = {"ok": True, "cancel": False, "leaseRemainingMs": VISIBILITY_SECONDS * 1000}
        return Answer(200, {}, {"runs": [{"runId": item["runId"], **confirmed} for item in runs]})


class _Sink:
    """Turns outcomes into results."""

    def __init__(self) -> None:
        self._ended: dict[Attempt, asyncio.Future[tuple[str, dict[str, Any]]]] = {}
        self._on_end: dict[Attempt, Callable[[], None]] = {}

    def expect(self, attempt: Attempt, *, on_end: Callable[[], None]) -> None:
        self._ended[attempt] = asyncio.get_running_loop().create_future()
        self._on_end[attempt] = on_end

    async def wait(self, attempt: Attempt) -> tuple[str, dict[str, Any]]:
        return await asyncio.shield(self._ended[attempt])

    def complete(self, attempt: Attempt, result: Any) -> None:
        try:
            text = to_json(result)
        except (TypeError, ValueError) as error:
            message = f"the handler's result is not JSON: {error}"
            self.fail(attempt, error=message, error_type="ResultNotJson", retryable=False)
            return
        if len(text.encode()) > RESULT_BYTES_MAX:
            message = f"the handler's result is larger than {RESULT_BYTES_MAX} bytes"
            self.fail(attempt, error=message, error_type="ResultTooLarge", retryable=False)
            return
        self._end(attempt, "completed", {"result": json.loads(text)})

    def fail(self, attempt: Attempt, *, error: str, error_type: str, retryable: bool) -> None:
        names = {RunCancelled: "cancelled", RunTimedOut: "timed_out", WorkerStopping: "worker_stopping"}
        stopped = {kind.__name__: name for kind, name in names.items()}
        values = {"error": error, "error_type": error_type, "retryable": retryable}
        self._end(attempt, stopped.get(error_type, "failed"), values)

    def release(self, attempt: Attempt, reason: str) -> None:
        self._end(attempt, "released", {"error": reason})

    def refuse(self, attempt: Attempt) -> None:
        self._end(attempt, "lease_lost", {})

    def _end(self, attempt: Attempt, outcome: str, values: dict[str, Any]) -> None:
        self._on_end[attempt]()
        if not self._ended[attempt].done():
            self._ended[attempt].set_result((outcome, values))
