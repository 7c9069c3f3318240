"""From events to the public view of leases: topic `leases` says at every offset who holds what (DESIGN section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from streams.core.envelopes import LeaseView
from streams.core.events import (
    LeaseExpired,
    LeaseGranted,
    LeaseReleased,
    LeaseRenewed,
    RunCancelled,
    RunFailed,
    RunSucceeded,
)

if TYPE_CHECKING:
    from streams.core.events import AnyEvent
    from streams.core.state import Job, Lease, OpenRun

Closing = Literal["succeeded", "failed", "released", "expired", "cancelled"]


def lease_view(before: Job | None, after: Job | None, event: AnyEvent) -> LeaseView | None:
    """Return what `event` changes in the public view; the jobs are those around the decision that it belongs to.

    No decision both grants and closes a lease, so a granted one stands in `after`, a closed one in `before`.
    """
    if isinstance(event, LeaseGranted) and after is not None:
        run = after.run(event.run_id)
        return None if run is None else _view(after, run, event.lease, event.attempt)
    if isinstance(event, LeaseRenewed) and after is not None:
        # Said again with its new end: topic `leases` forgets records after a week, and never one of a live lease.
        run = after.run(event.run_id)
        return None if run is None or run.lease is None else _view(after, run, run.lease, run.attempt)
    if before is not None and isinstance(event, RunSucceeded | RunFailed | LeaseReleased | LeaseExpired | RunCancelled):
        return _closed(before, after, event)
    return None


_CLOSING: Final[dict[type, Closing]] = {
    RunSucceeded: "succeeded",
    RunFailed: "failed",
    LeaseReleased: "released",
    LeaseExpired: "expired",
    RunCancelled: "cancelled",
}
"""How an event closes the lease."""


def _view(job: Job, run: OpenRun, lease: Lease, attempt: int) -> LeaseView:
    return LeaseView(
        run_id=run.run_id,
        job_id=job.state.job_id,
        tenant=job.state.tenant,
        queue=job.state.queue,
        lease_token=lease.lease_token,
        attempt=attempt,
        worker_id=lease.worker_id,
        gateway_id=lease.gateway_id,
        granted_at_ms=lease.granted_at_ms,
        expires_at_ms=lease.expires_at_ms,
    )


def _closed(
    before: Job, after: Job | None, event: RunSucceeded | RunFailed | LeaseReleased | LeaseExpired | RunCancelled
) -> LeaseView | None:
    run = before.run(event.run_id)
    if run is None or run.lease is None or run.lease.lease_token != event.lease_token:
        return None
    ended = None if after is None or after.run(event.run_id) is not None else after.closed_run(event.run_id)
    view = _view(before, run, run.lease, run.attempt)
    return msgspec.structs.replace(
        view,
        closed=_CLOSING[type(event)],
        closed_at_ms=event.at_ms,
        outcome=None if ended is None else ended.outcome,
    )
