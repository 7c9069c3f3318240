"""The run-level half of `apply`: what each event does to one open run.

Called by `apply` only. Every function looks the run up, refuses what does not fit, and returns the job with that run
replaced, closed or added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, TypeVar, cast

from msgspec.structs import replace

from streams.core.checkpoint import first_checkpoint_ms
from streams.core.illegal import IllegalEvent
from streams.core.state import (
    ATTEMPTS_BYTES_MAX,
    ATTEMPTS_KEPT_MAX,
    CLOSED_RUNS_MAX,
    DEAD_PAYLOAD_BYTES_MAX,
    DEAD_RUNS_MAX,
    ERROR_CHARS_MAX,
    FORGET_AFTER_MS,
    RESULT_KEPT_BYTES_MAX,
    ClosedRun,
    EndedAttempt,
    Job,
    JobState,
    Lease,
    OpenRun,
)

if TYPE_CHECKING:
    from streams.core.definition import Lane
    from streams.core.events import (
        AnyEvent,
        DeadRunReplayed,
        LeaseExpired,
        LeaseGranted,
        LeaseReleased,
        LeaseRenewed,
        RunCancelled,
        RunCancelRequested,
        RunDied,
        RunFailed,
        RunOpened,
        RunRetried,
        RunSkipped,
        RunSucceeded,
        RunUnheld,
    )
    from streams.core.state import RunOutcome

R = TypeVar("R", OpenRun, ClosedRun)

ATTEMPT_BYTES: Final = 40
"""What an attempt takes in the state beside its texts."""


def opened(job: Job, event: RunOpened) -> Job:
    """Add the run; move the cursor where the schedule opened it."""
    state = job.state
    if state.status == "deleted" or job.definition is None:
        _refuse(job, event, "a job that is not deleted")
    if job.run(event.run_id) is not None:
        _refuse(job, event, "a run that is not open yet")
    if event.due_at_ms < event.scheduled_at_ms or (event.kind == "schedule" and event.scheduled_at_ms > event.at_ms):
        _refuse(job, event, "an opening at or after the scheduled instant")
    run = OpenRun(
        run_id=event.run_id,
        kind=event.kind,
        scheduled_at_ms=event.scheduled_at_ms,
        due_at_ms=event.due_at_ms,
        opened_at_ms=event.at_ms,
        job_version=event.job_version,
        lane=cast("Lane", event.lane),
        held=event.held,
        payload=event.payload,
        replay_of=event.replay_of,
        replays=event.replays,
        forced=event.forced,
    )
    open_runs = (*state.open, run)
    if event.kind != "schedule":
        checkpoint_at_ms = state.checkpoint_at_ms or first_checkpoint_ms(state.job_id, event.at_ms)
        after = replace(state, open=open_runs, status="active", forget_at_ms=0, checkpoint_at_ms=checkpoint_at_ms)
        return Job(after, job.definition)
    if state.next_at_ms != event.scheduled_at_ms or event.scheduled_at_ms <= state.decided_to_ms:
        _refuse(job, event, f"the occurrence at the cursor {state.next_at_ms}, after {state.decided_to_ms}")
    if event.next_at_ms is not None and event.next_at_ms <= event.scheduled_at_ms:
        _refuse(job, event, f"a cursor after {event.scheduled_at_ms}")
    skip_at_ms = state.skip_at_ms
    if skip_at_ms:
        skip_at_ms = tuple(at for at in skip_at_ms if event.next_at_ms is not None and at >= event.next_at_ms)
    after = replace(
        state,
        open=open_runs,
        next_at_ms=event.next_at_ms,
        next_notes=(),
        next_dropped=(),
        skip_at_ms=skip_at_ms,
        decided_to_ms=event.scheduled_at_ms,
        occurrences_total=state.occurrences_total + 1,
    )
    return Job(after, job.definition)


def granted(job: Job, event: LeaseGranted) -> Job:
    """Give the run a lease under the next token."""
    state = job.state
    run = _run(job, event, event.run_id)
    if run.lease is not None or run.held or run.cancel_requested_at_ms or _undecided(run):
        _refuse(job, event, "an unleased run that is neither held nor cancelled")
    if (state.pause is not None and not run.forced) or state.status != "active":
        _refuse(job, event, "an active job that is not paused")
    if event.at_ms < run.due_at_ms:
        _refuse(job, event, f"a grant at or after the due time {run.due_at_ms}")
    if event.lease.lease_token != state.lease_token_last + 1:
        _refuse(job, event, f"lease token {state.lease_token_last + 1}")
    if event.attempt != run.attempt + 1:
        _refuse(job, event, f"attempt {run.attempt + 1}")
    after = replace(
        state,
        open=_swapped(state.open, run, replace(run, lease=event.lease, attempt=event.attempt)),
        lease_token_last=event.lease.lease_token,
        last_lease_at_ms=event.at_ms,
    )
    return Job(after, job.definition)


def renewed(job: Job, event: LeaseRenewed) -> Job:
    """Log a renewal that heartbeats made before, or another length of the lease."""
    run = _run(job, event, event.run_id)
    lease = _lease(job, event, run, event.lease_token)
    if event.expires_at_ms < lease.expires_at_ms:
        _refuse(job, event, f"an expiry at or after {lease.expires_at_ms}")
    visibility_ms = event.visibility_ms or lease.visibility_ms
    longer = replace(lease, expires_at_ms=event.expires_at_ms, visibility_ms=visibility_ms)
    after = replace(run, lease=longer, silent_grants=0)
    return Job(replace(job.state, open=_swapped(job.state.open, run, after)), job.definition)


def released(job: Job, event: LeaseReleased) -> Job:
    """Take the lease back: the attempt number returns, the token stays used (I4)."""
    run = _run(job, event, event.run_id)
    _lease(job, event, run, event.lease_token)
    if run.cancel_requested_at_ms:
        _refuse(job, event, "RunCancelled: a cancel was asked for")
    after = replace(run, lease=None, attempt=run.attempt - 1, ended_token=event.lease_token, ended_by="released")
    return _lease_ended(job, event.at_ms, _swapped(job.state.open, run, after))


def expired(job: Job, event: LeaseExpired) -> Job:
    """End a silent lease; the verdict on the run is the next event."""
    run = _run(job, event, event.run_id)
    lease = _lease(job, event, run, event.lease_token)
    after = replace(
        run,
        lease=None,
        attempt=run.attempt if event.counted else run.attempt - 1,
        silent_grants=0 if event.counted else run.silent_grants + 1,
        ended_token=event.lease_token,
        ended_by="expiring",
        attempts=_with_attempt(run, lease, at_ms=event.at_ms, end=event.reason, error=""),
    )
    return _within_attempts(_lease_ended(job, event.at_ms, _swapped(job.state.open, run, after)), after)


def failed(job: Job, event: RunFailed) -> Job:
    """End a failed attempt; the verdict on the run is the next event."""
    run = _run(job, event, event.run_id)
    lease = _lease(job, event, run, event.lease_token)
    error = event.error[:ERROR_CHARS_MAX]
    after = replace(
        run,
        lease=None,
        silent_grants=0,
        error=error,
        ended_token=event.lease_token,
        ended_by="failing",
        attempts=_with_attempt(run, lease, at_ms=event.at_ms, end="failed", error=error),
    )
    return _within_attempts(_lease_ended(job, event.at_ms, _swapped(job.state.open, run, after)), after)


def retried(job: Job, event: RunRetried) -> Job:
    """Another attempt is due later."""
    run = _run(job, event, event.run_id)
    if not _undecided(run) or event.due_at_ms < event.at_ms:
        _refuse(job, event, "a run whose attempt just ended, and a due time that is not past")
    after = replace(run, due_at_ms=event.due_at_ms, ended_by="failed" if run.ended_by == "failing" else "expired")
    return Job(replace(job.state, open=_swapped(job.state.open, run, after)), job.definition)


def died(job: Job, event: RunDied) -> Job:
    """Close the run as dead; it stays replayable."""
    run = _run(job, event, event.run_id)
    if not _undecided(run):
        _refuse(job, event, "a run whose attempt just ended")
    return _closed(
        job, run, "dead", at_ms=event.at_ms, lease_token=run.ended_token, reason=event.reason, error=event.error
    )


def succeeded(job: Job, event: RunSucceeded) -> Job:
    """Close the run under its current token (I5)."""
    run = _run(job, event, event.run_id)
    _lease(job, event, run, event.lease_token)
    return _closed(job, run, "succeeded", at_ms=event.at_ms, lease_token=event.lease_token, result=event.result)


def skipped(job: Job, event: RunSkipped) -> Job:
    """Close an unleased run with its reason."""
    run = _run(job, event, event.run_id)
    if run.lease is not None or _undecided(run):
        _refuse(job, event, "an unleased run")
    return _closed(job, run, "skipped", at_ms=event.at_ms, lease_token=0, reason=event.reason, error=run.error)


def cancel_requested(job: Job, event: RunCancelRequested) -> Job:
    """Remember the wish; the worker hears of it with its next heartbeat."""
    run = _run(job, event, event.run_id)
    if run.lease is None or run.cancel_requested_at_ms:
        _refuse(job, event, "a leased run without a cancel request")
    after = replace(run, cancel_requested_at_ms=event.at_ms, cancel_reason=event.reason)
    return Job(replace(job.state, open=_swapped(job.state.open, run, after)), job.definition)


def cancelled(job: Job, event: RunCancelled) -> Job:
    """Close the run: at once where it was not leased, else after a request."""
    run = _run(job, event, event.run_id)
    token_expected = run.ended_token if _undecided(run) else 0
    if run.lease is not None:
        token_expected = run.lease.lease_token
    if event.lease_token != token_expected or (token_expected and not run.cancel_requested_at_ms):
        _refuse(job, event, f"lease token {token_expected}, and a request before it where leased")
    return _closed(
        job, run, "cancelled", at_ms=event.at_ms, lease_token=event.lease_token, reason=event.reason, error=run.error
    )


def unheld(job: Job, event: RunUnheld) -> Job:
    """Let a queued run go."""
    run = _run(job, event, event.run_id)
    if not run.held:
        _refuse(job, event, "a held run")
    return Job(replace(job.state, open=_swapped(job.state.open, run, replace(run, held=False))), job.definition)


def dead_replayed(job: Job, event: DeadRunReplayed) -> Job:
    """Take the run off the dead list; its replay is opened by the next event."""
    state = job.state
    dead = next((run for run in state.dead if run.run_id == event.run_id), None)
    if dead is None:
        _refuse(job, event, f"a dead run {event.run_id}")
    after = replace(
        state,
        dead=tuple(run for run in state.dead if run is not dead),
        closed=_with_closed(state.closed, replace(dead, payload=None)),
    )
    return Job(after, job.definition)


def _refuse(job: Job, event: AnyEvent, expected: str) -> NoReturn:
    raise IllegalEvent(job, event, expected)


def _run(job: Job, event: AnyEvent, run_id: str) -> OpenRun:
    run = job.run(run_id)
    if run is None:
        _refuse(job, event, f"an open run {run_id}")
    return run


def _lease(job: Job, event: AnyEvent, run: OpenRun, lease_token: int) -> Lease:
    if run.lease is None or run.lease.lease_token != lease_token:
        held = "none" if run.lease is None else str(run.lease.lease_token)
        _refuse(job, event, f"the current lease token, which is {held}")
    return run.lease


def _undecided(run: OpenRun) -> bool:
    return run.ended_by in ("failing", "expiring")


def _swapped(runs: tuple[OpenRun, ...], before: OpenRun, after: OpenRun) -> tuple[OpenRun, ...]:
    if len(runs) == 1:
        return (after,)
    return tuple(after if run is before else run for run in runs)


def _with_attempt(run: OpenRun, lease: Lease, *, at_ms: int, end: str, error: str) -> tuple[EndedAttempt, ...]:
    """Remember an attempt that ended; of many the last ones."""
    ended = EndedAttempt(
        attempt=run.attempt,
        lease_token=lease.lease_token,
        worker_id=lease.worker_id,
        granted_at_ms=lease.granted_at_ms,
        ended_at_ms=at_ms,
        end=end,
        error=error,
    )
    return (*run.attempts, ended)[-ATTEMPTS_KEPT_MAX:]


def _within_attempts(job: Job, newest: OpenRun) -> Job:
    """Let other runs forget their attempts, ended ones first, where all of them are too many bytes for the state."""
    state = job.state
    everything: tuple[OpenRun | ClosedRun, ...] = (*state.closed, *state.dead, *state.open)
    excess = sum(map(_attempts_bytes, everything)) - ATTEMPTS_BYTES_MAX
    if excess <= 0:
        return job
    closed, excess = _without_attempts(state.closed, excess, None)
    dead, excess = _without_attempts(state.dead, excess, None)
    open_runs, _ = _without_attempts(state.open, excess, newest)
    return Job(replace(state, closed=closed, dead=dead, open=open_runs), job.definition)


def _without_attempts(runs: tuple[R, ...], excess: int, keep: R | None) -> tuple[tuple[R, ...], int]:
    kept: list[R] = []
    for run in runs:
        if excess > 0 and run.attempts and run is not keep:
            excess -= _attempts_bytes(run)
            kept.append(replace(run, attempts=()))
        else:
            kept.append(run)
    return tuple(kept), excess


def _attempts_bytes(run: OpenRun | ClosedRun) -> int:
    return sum(ATTEMPT_BYTES + len(item.worker_id.encode()) + len(item.error.encode()) for item in run.attempts)


def _lease_ended(job: Job, at_ms: int, open_runs: tuple[OpenRun, ...]) -> Job:
    """Note the end of a lease, from which a deleted job's memory counts."""
    state = job.state
    forget_at_ms = state.forget_at_ms
    if state.status == "deleted":
        forget_at_ms = max(forget_at_ms, at_ms + FORGET_AFTER_MS)
    after = replace(state, open=open_runs, last_lease_at_ms=at_ms, forget_at_ms=forget_at_ms)
    return Job(after, job.definition)


def _closed(
    job: Job,
    run: OpenRun,
    outcome: RunOutcome,
    *,
    at_ms: int,
    lease_token: int,
    reason: str = "",
    error: str = "",
    result: bytes = b"",
) -> Job:
    """Move the run from the open ones to the closed or dead ones; its payload goes, except a dead trigger's."""
    is_dead = outcome == "dead"
    result_fits = len(result) <= RESULT_KEPT_BYTES_MAX
    record = ClosedRun(
        run_id=run.run_id,
        kind=run.kind,
        scheduled_at_ms=run.scheduled_at_ms,
        outcome=outcome,
        closed_at_ms=at_ms,
        attempt=run.attempt,
        lease_token=lease_token,
        reason=reason,
        error=error[:ERROR_CHARS_MAX],
        replays=run.replays,
        payload=run.payload if is_dead else None,
        result=result if result_fits else b"",
        result_dropped=not result_fits,
        replay_of=run.replay_of,
        attempts=run.attempts,
    )
    open_runs = () if len(job.state.open) == 1 else tuple(item for item in job.state.open if item is not run)
    state = job.state if run.lease is None else _lease_ended(job, at_ms, open_runs).state
    if is_dead:
        return Job(replace(state, open=open_runs, dead=_with_dead(state, record)), job.definition)
    return Job(replace(state, open=open_runs, closed=_with_closed(state.closed, record)), job.definition)


def _with_closed(closed: tuple[ClosedRun, ...], record: ClosedRun) -> tuple[ClosedRun, ...]:
    """Remember one more closed run. Of those before it, one that nobody can ask for again goes first.

    So an edit or a deletion that skips 64 waiting runs at once does not push out the completion that was just accepted,
    whose worker may ask again after a lost answer; nor the trigger whose caller does: it would be opened a second time.
    """
    if len(closed) < CLOSED_RUNS_MAX:
        return (*closed, record)
    out = next((run for run in closed if not run.lease_token and _opened_once(run)), closed[0])
    return (*(run for run in closed if run is not out), record)


def _opened_once(run: ClosedRun) -> bool:
    """Tell whether no repeated command can open this run again: its cursor has passed, or its job was deleted."""
    return run.kind in ("schedule", "backfill") or run.reason == "deleted"


def _with_dead(state: JobState, record: ClosedRun) -> tuple[ClosedRun, ...]:
    """Append a dead run; the oldest give way, and so do the oldest payloads."""
    dead = (*state.dead, record)[-DEAD_RUNS_MAX:]
    bytes_left = DEAD_PAYLOAD_BYTES_MAX
    kept: list[ClosedRun] = []
    for run in reversed(dead):
        if run.payload is None:
            kept.append(run)
        elif len(run.payload) <= bytes_left:
            bytes_left -= len(run.payload)
            kept.append(run)
        else:
            kept.append(replace(run, payload=None, payload_dropped=True))
    return tuple(reversed(kept))
