"""`Run`: what a handler gets. It reads the attempt; the worker's parts own and change it."""

from __future__ import annotations

import base64
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from horolog._errors import RunStopped, WorkerStopping
from horolog._wire import PROGRESS_BYTES_MAX, parse_time, to_json

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from horolog._attempt import Attempt

_CURRENT: ContextVar[Run] = ContextVar("horolog_current_run")


def current_run() -> Run:
    """Return the run that is being handled here, in a task or thread. Raises LookupError outside a handler."""
    try:
        return _CURRENT.get()
    except LookupError:
        message = "no run is being handled here"
        raise LookupError(message) from None


def enter_run(run: Run) -> None:
    """Make `run` the current one in this context; called by the worker before the handler."""
    _CURRENT.set(run)


class Run:
    """One attempt of a run, handed to the handler; read only but for `progress` and the heartbeats."""

    __slots__ = ("_attempt",)

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def __repr__(self) -> str:
        return f"<Run {self.run_id} task={self.task!r} attempt={self.attempt}>"

    @property
    def run_id(self) -> str:
        """The run's id; the same over all attempts, so it is a good idempotency key for side effects."""
        return self._attempt.run_id

    @property
    def job_id(self) -> str:
        """The job's id."""
        return str(self._attempt.wire["jobId"])

    @property
    def task(self) -> str:
        """The task name that chose the handler."""
        return str(self._attempt.wire["task"])

    @property
    def queue(self) -> str:
        """The queue that it came from."""
        return str(self._attempt.wire["queue"])

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return int(self._attempt.wire["attempt"])

    @property
    def max_attempts(self) -> int | None:
        """How many attempts the job allows, if the gateway says."""
        value = self._attempt.wire.get("maxAttempts")
        return None if value is None else int(value)

    @property
    def scheduled_for(self) -> dt.datetime:
        """The instant that the schedule named, aware, in UTC."""
        return parse_time(self._attempt.wire["scheduledFor"])

    @property
    def payload(self) -> Any:
        """The job's payload: decoded JSON, or bytes if its producer wrote something else."""
        wire = self._attempt.wire
        encoded = wire.get("payloadBase64")
        return wire.get("payload") if encoded is None else base64.b64decode(encoded)

    @property
    def labels(self) -> Mapping[str, str]:
        """The job's labels."""
        return dict(self._attempt.wire.get("labels") or {})

    @property
    def lease_token(self) -> int:
        """The fencing token: pass it to stores that can refuse older ones."""
        return self._attempt.token

    @property
    def lease_expires_at(self) -> dt.datetime:
        """When the lease ends as last confirmed, by the server's clock; for display only, the worker minds it."""
        return parse_time(self._attempt.lease_expires_text or self._attempt.wire["leaseExpiresAt"])

    @property
    def cancelled(self) -> threading.Event:
        """Set when the handler should stop, for whatever reason; `stop_reason` says which."""
        return self._attempt.event()

    @property
    def stop_reason(self) -> RunStopped | None:
        """Why the handler should stop: RunCancelled, RunTimedOut, LeaseLost, WorkerStopping, or None."""
        return self._attempt.reason

    def raise_if_cancelled(self) -> None:
        """Raise the stop reason, if there is one; for plain functions and between steps."""
        if self._attempt.reason is not None:
            raise self._attempt.reason

    def progress(self, value: Any) -> None:
        """Set the run's progress: any JSON up to 4 KB, sent with the next heartbeat; the last one wins.

        Raises TypeError or ValueError if it is not JSON or too large.
        """
        text = to_json(value)
        if len(text.encode()) > PROGRESS_BYTES_MAX:
            message = f"progress: more than {PROGRESS_BYTES_MAX} bytes of JSON"
            raise ValueError(message)
        self._attempt.set_progress(text)

    async def heartbeat(self) -> None:
        """Renew the lease and send the progress now, and wait until it is confirmed.

        Needed only to hurry progress or to learn of a cancellation before long work: the worker heartbeats on
        its own. Raises the stop reason if the handler should stop.
        """
        beat = self._attempt.beat
        if beat is not None:
            await beat(self._attempt)
        self.raise_if_cancelled()

    def heartbeat_sync(self) -> None:
        """As `heartbeat`, for plain functions in their thread. Raises RuntimeError on the worker's own loop."""
        attempt = self._attempt
        if attempt.is_async:
            message = "heartbeat_sync is for plain functions; write await run.heartbeat()"
            raise RuntimeError(message)
        done = threading.Event()
        loop, beat = attempt.loop, attempt.beat
        if beat is not None and loop is not None:
            try:
                loop.call_soon_threadsafe(lambda: beat(attempt).add_done_callback(lambda _: done.set()))
            except RuntimeError:  # the loop is closed: the worker is gone
                message = "the worker has stopped"
                raise WorkerStopping(message) from None
            done.wait()
        self.raise_if_cancelled()
