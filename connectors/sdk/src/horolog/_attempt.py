"""One attempt as the worker sees it: the leased run, its lease clock, and why it is being stopped.

Lease arithmetic (DESIGN section 10): a lease is trusted for `leaseRemainingMs` counted from when the last confirmed
heartbeat, or before that the lease request, was *sent*. That is never later than what the server counts from,
whatever the network did. The handler is stopped `STOP_MARGIN_SECONDS` before. All instants are seconds of the
worker's monotonic clock.
"""

from __future__ import annotations

import enum
import threading
from typing import TYPE_CHECKING, Any

from horolog._errors import LeaseLost, RunStopped

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

STOP_MARGIN_SECONDS = 5.0  # DESIGN section 10: time for the handler to notice before anybody else may start
_LOCK = threading.Lock()  # guards what handlers in threads and the loop both touch; held for nanoseconds


class Phase(enum.Enum):
    """Where an attempt is."""

    RUNNING = "running"
    DELIVERING = "delivering"  # the handler ended, its outcome is on its way
    DONE = "done"


class Attempt:
    """A leased run in this worker, from hand-out to the confirmed outcome."""

    __slots__ = (
        "beat",
        "heartbeat_at",
        "is_async",
        "lease_ends_at",
        "lease_expires_text",
        "loop",
        "outlived",
        "phase",
        "progress",
        "reason",
        "run_id",
        "started",
        "stop_at",
        "stop_event",
        "task",
        "timeout_at",
        "token",
        "waiters",
        "wire",
    )

    def __init__(self, wire: Mapping[str, Any], *, sent_at: float, now: float) -> None:
        self.wire = wire
        self.run_id: str = wire["runId"]
        self.token: int = wire["leaseToken"]
        self.lease_ends_at: float = sent_at + wire["leaseRemainingMs"] / 1000.0
        self.stop_at: float = self.lease_ends_at - STOP_MARGIN_SECONDS
        self.lease_expires_text: str | None = None
        timeout = wire.get("timeoutSeconds")
        self.timeout_at: float | None = None if timeout is None else now + timeout
        self.phase = Phase.RUNNING
        self.reason: RunStopped | None = None
        self.stop_event: threading.Event | None = None
        self.task: asyncio.Task[None] | None = None
        self.started = False
        self.is_async = True
        self.outlived = False
        self.heartbeat_at: float = now
        self.progress: str | None = None
        self.waiters: list[asyncio.Future[None]] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        self.beat: Callable[[Attempt], asyncio.Future[None]] | None = None

    def renew(self, *, sent_at: float, remaining_ms: float, expires_text: str | None) -> None:
        """Take a confirmed heartbeat into account; an answer that comes late never shortens the lease."""
        ends_at = sent_at + remaining_ms / 1000.0
        if ends_at > self.lease_ends_at:
            self.lease_ends_at = ends_at
            self.stop_at = ends_at - STOP_MARGIN_SECONDS
            self.lease_expires_text = expires_text

    @property
    def lease_is_lost(self) -> bool:
        """Whether its outcome may no longer be reported."""
        return isinstance(self.reason, LeaseLost)

    def stop(self, reason: RunStopped) -> bool:
        """Record why the handler is to stop; False if it was told before. A lost lease overrides every other reason."""
        if self.reason is not None and (self.lease_is_lost or not isinstance(reason, LeaseLost)):
            return False
        with _LOCK:
            self.reason = reason
            event = self.stop_event
        if event is not None:
            event.set()
        return True

    def set_progress(self, text: str) -> None:
        """Set what the next heartbeat carries; from any thread."""
        with _LOCK:
            self.progress = text

    def take_progress(self) -> str | None:
        """Return and clear what this heartbeat carries."""
        if self.progress is None:
            return None
        with _LOCK:
            text, self.progress = self.progress, None
            return text

    def return_progress(self, text: str | None) -> None:
        """Put back what could not be sent, unless the handler has set something newer."""
        with _LOCK:
            if self.progress is None:
                self.progress = text

    def event(self) -> threading.Event:
        """Return the event that is set when the handler is told to stop; made at first use: most runs never ask."""
        with _LOCK:
            if self.stop_event is None:
                self.stop_event = threading.Event()
                if self.reason is not None:
                    self.stop_event.set()
            return self.stop_event
