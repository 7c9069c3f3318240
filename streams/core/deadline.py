"""When a job must be looked at again, which of its runs wait for a worker, and which run comes next.

The timing wheel, the due index and the ready index know nothing else (DESIGN section 5). `deadline_ms` and
`ready_runs` read hard state only, so recovery gets the same answers as the owner before it had. `next_look_ms` also
reads the owner's soft state: a lease whose hard expiry passed may be kept alive by heartbeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from streams.core.identity import run_id_at
from streams.core.overlap import backfill_can_open, backfill_due_ms
from streams.core.state import OPEN_RUNS_MAX

if TYPE_CHECKING:
    from streams.core.context import Context
    from streams.core.definition import Definition
    from streams.core.state import Job, JobState, Lease, OpenRun

CANCEL_GRACE_MS: Final = 30_000
"""How long a worker may take to stop after a cancel request, before the lease is ended for it: one default lease."""

EndReason = Literal["expired", "timeout", "cancel_grace"]


def lease_end_ms(
    run: OpenRun, lease: Lease, *, heartbeat_at_ms: int = 0, takeover_at_ms: int = 0
) -> tuple[int, EndReason]:
    """Return the instant that a lease ends after, unless its worker is heard from, and why (DESIGN section 7).

    A heartbeat from before the grant belongs to an earlier lease. Time-out and cancel grace do not care for heartbeats.
    """
    end_ms = lease.expires_at_ms
    if heartbeat_at_ms >= lease.granted_at_ms:
        end_ms = max(end_ms, heartbeat_at_ms + lease.visibility_ms)
    if lease.granted_at_ms < takeover_at_ms:
        end_ms = max(end_ms, takeover_at_ms + lease.visibility_ms)
    verdict: tuple[int, EndReason] = (end_ms, "expired")
    if lease.timeout_at_ms and lease.timeout_at_ms < verdict[0]:
        verdict = (lease.timeout_at_ms, "timeout")
    if run.cancel_requested_at_ms and run.cancel_requested_at_ms + CANCEL_GRACE_MS < verdict[0]:
        verdict = (run.cancel_requested_at_ms + CANCEL_GRACE_MS, "cancel_grace")
    return verdict


def start_deadline_ms(run: OpenRun, definition: Definition | None) -> int | None:
    """Return the instant from which an unleased run is skipped; None where it has no start deadline.

    Retries obey it too (B19c). Backfills and replays were asked for later than their instant and count from there.
    """
    if definition is None or not definition.start_deadline_ms:
        return None
    from_ms = run.opened_at_ms if run.kind in ("backfill", "replay") else run.scheduled_at_ms
    return from_ms + definition.start_deadline_ms


def deadline_ms(job: Job, *, open_runs_max: int = OPEN_RUNS_MAX) -> int | None:
    """Return the single next deadline from hard state (epoch ms, may be past); None where only a command can change it.

    An unleased open run's due time is not in it: becoming ready needs no decision.
    """
    return _earliest(job, open_runs_max, None)


def next_look_ms(job: Job, context: Context) -> int | None:
    """Return the deadline with the soft state counted in: heartbeats and the take-over put lease ends off."""
    return _earliest(job, context.open_runs_max, context)


def _earliest(job: Job, open_runs_max: int, context: Context | None) -> int | None:
    state = job.state
    found: list[int] = []
    for run in state.open:
        lease = run.lease
        if lease is not None:
            heartbeat_at_ms = 0 if context is None else context.heartbeats.get(run.run_id, 0)
            takeover_at_ms = 0 if context is None else context.takeover_at_ms
            end = lease_end_ms(run, lease, heartbeat_at_ms=heartbeat_at_ms, takeover_at_ms=takeover_at_ms)
            found.append(end[0] + 1)
        else:
            deadline = start_deadline_ms(run, job.definition)
            if deadline is not None:
                found.append(deadline)
    if state.status == "active" and state.checkpoint_at_ms:
        found.append(state.checkpoint_at_ms)
    if state.status != "active":
        if not state.open:
            found.append(state.forget_at_ms)
    elif state.pause is not None:
        if state.pause.until_ms:
            found.append(state.pause.until_ms)
    else:
        _add_openings(found, state, open_runs_max)
    return min(found, default=None)


def _add_openings(found: list[int], state: JobState, open_runs_max: int) -> None:
    """Add what may be opened; at the bound nothing may, until a run ends and its decision asks again."""
    if len(state.open) >= open_runs_max:
        return
    if state.next_at_ms is not None:
        found.append(state.next_at_ms)
    found.extend(
        backfill_due_ms(backfill) for backfill in state.backfills if backfill_can_open(state, backfill, open_runs_max)
    )


def ready_runs(state: JobState) -> tuple[OpenRun, ...]:
    """Return the runs that wait for a worker; a retry's due time may lie ahead."""
    if state.status != "active":
        return ()
    return tuple(run for run in state.open if is_ready(state, run))


def is_ready(state: JobState, run: OpenRun) -> bool:
    """Tell whether a run may be leased once it is due."""
    if run.lease is not None or run.held or run.cancel_requested_at_ms:
        return False
    return state.pause is None or run.forced


def upcoming(job: Job) -> tuple[str, int] | None:
    """Return run id and instant of the next occurrence as an offer may name it before it is opened.

    None while the job is paused, finished or deleted, and for an occurrence that somebody asked to skip. It may
    lie in the past while the open-run bound holds it back: such a one is not to be offered.
    """
    state = job.state
    next_at_ms = state.next_at_ms
    if next_at_ms is None or state.pause is not None or state.status != "active":
        return None
    if next_at_ms in state.skip_at_ms:
        return None
    return run_id_at(state.job_id, next_at_ms), next_at_ms
