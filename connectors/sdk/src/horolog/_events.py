"""The worker's events: one table of names, and the edge where they become log records.

The worker itself never logs; it calls `emit(name, **fields)`. `EventSink` writes each event to the
logger `horolog.worker` (message = the name, fields in `record.horolog`, name in `record.event`) and hands it to
the user's hook. Names are stable; a test holds the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

EVENTS: Mapping[str, int] = {
    "worker_started": logging.INFO,
    "worker_draining": logging.INFO,
    "worker_stopped": logging.INFO,
    "run_finished": logging.DEBUG,  # one per run, so only when somebody listens
    "run_failed": logging.WARNING,
    "run_stopping": logging.INFO,
    "lease_lost": logging.WARNING,
    "outcome_refused": logging.WARNING,  # a handler ended after its lease could have ended
    "outcome_undelivered": logging.ERROR,  # could not be sent before the lease could have ended
    "outcome_rejected": logging.ERROR,  # the gateway refused it for its content
    "handler_outlived_lease": logging.ERROR,
    "handler_abandoned": logging.ERROR,  # still running at the end of a drain
    "unknown_task": logging.ERROR,
    "lease_request_failed": logging.WARNING,
    "heartbeat_failed": logging.WARNING,
    "delivery_failed": logging.WARNING,
    "loop_blocked": logging.WARNING,
    "hook_failed": logging.ERROR,
}

EventHook = Callable[[str, Mapping[str, Any]], None]
_LOGGER = logging.getLogger("horolog.worker")


class Emit(Protocol):
    """How the worker's parts report events."""

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Report one event of `EVENTS`."""


class EventSink:
    """Turns events into log records and calls of the user's hook."""

    def __init__(self, hook: EventHook | None, *, worker_id: str) -> None:
        self._hook = hook
        self._worker_id = worker_id

    @property
    def wants_every_run(self) -> bool:
        """Whether `run_finished` has a reader; checked once for each batch of leased runs."""
        return self._hook is not None or _LOGGER.isEnabledFor(logging.DEBUG)

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Log the event and hand it to the hook; a hook that raises is itself an event."""
        level = EVENTS[event]
        fields["worker_id"] = self._worker_id
        if _LOGGER.isEnabledFor(level):
            text = " ".join(f"{key}={value}" for key, value in fields.items())
            _LOGGER.log(level, "%s %s", event, text, extra={"event": event, "horolog": fields})
        if self._hook is None:
            return
        try:
            self._hook(event, fields)
        except Exception:  # the user's hook may raise anything and must not stop the worker
            _LOGGER.exception("hook_failed", extra={"event": "hook_failed", "horolog": fields})
