"""Fold one event into a job: the only thing that changes state, live, in recovery, in audits and in the simulator.

`apply` computes no schedule and looks nothing up: an event says what follows, complete. It refuses an event that
does not fit the state with `IllegalEvent`, and guesses nothing: the caller stops the job, since either the log or
the code is wrong. The edges that are allowed are drawn in docs/state-diagram.md and listed in `transitions`.

Closed runs, dead runs and error texts are cut to their bounds here, so the state stays small whatever the events bring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, assert_never

from msgspec.structs import replace

from streams.core import apply_run
from streams.core.checkpoint import first_checkpoint_ms, next_checkpoint_ms
from streams.core.events import (
    BackfillEnded,
    BackfillMoved,
    BackfillStarted,
    CursorMoved,
    CursorNoted,
    DeadRunReplayed,
    JobCheckpoint,
    JobDefined,
    JobDeleted,
    JobEdited,
    JobFinished,
    JobForgotten,
    JobPaused,
    JobResumed,
    KeyUsed,
    LeaseExpired,
    LeaseGranted,
    LeaseReleased,
    LeaseRenewed,
    OccurrencesMissed,
    OccurrencesSkipped,
    RunCancelled,
    RunCancelRequested,
    RunDied,
    RunFailed,
    RunOpened,
    RunRetried,
    RunSkipped,
    RunSucceeded,
    RunUnheld,
    SlotSkipRequested,
)
from streams.core.illegal import IllegalEvent
from streams.core.state import (
    BACKFILLS_ENDED_MAX,
    KEY_MEMO_BYTES_MAX,
    KEYS_MAX,
    Backfill,
    Job,
    JobState,
    KeyUse,
    Pause,
)
from streams.core.time import LocalOneOffSpec, OneOffSpec

if TYPE_CHECKING:
    from streams.core.definition import Definition
    from streams.core.events import AnyEvent

__all__ = ["IllegalEvent", "apply"]


def apply(job: Job | None, event: AnyEvent) -> Job | None:  # noqa: C901, PLR0911, PLR0912 - one flat table of events
    """Return the job after `event`; None once it is forgotten. Raises IllegalEvent where the event does not fit."""
    if isinstance(event, JobDefined):
        return _defined(job, event)
    if isinstance(event, JobCheckpoint):
        return _checkpointed(event)
    if job is None:
        _refuse(job, event, "a job")
    match event:
        case LeaseGranted():
            return apply_run.granted(job, event)
        case RunSucceeded():
            return apply_run.succeeded(job, event)
        case RunOpened():
            return apply_run.opened(job, event)
        case JobFinished():
            return _finished(job, event)
        case OccurrencesSkipped():
            return _skipped(job, event)
        case LeaseRenewed():
            return apply_run.renewed(job, event)
        case LeaseReleased():
            return apply_run.released(job, event)
        case LeaseExpired():
            return apply_run.expired(job, event)
        case RunFailed():
            return apply_run.failed(job, event)
        case RunRetried():
            return apply_run.retried(job, event)
        case RunDied():
            return apply_run.died(job, event)
        case RunSkipped():
            return apply_run.skipped(job, event)
        case RunCancelRequested():
            return apply_run.cancel_requested(job, event)
        case RunCancelled():
            return apply_run.cancelled(job, event)
        case RunUnheld():
            return apply_run.unheld(job, event)
        case DeadRunReplayed():
            return apply_run.dead_replayed(job, event)
        case JobEdited():
            return _edited(job, event)
        case JobDeleted():
            return _deleted(job, event)
        case JobForgotten():
            _check_forgotten(job, event)
            return None
        case JobPaused():
            return _paused(job, event)
        case JobResumed():
            return _resumed(job, event)
        case CursorMoved():
            return _cursor_moved(job, event)
        case CursorNoted():
            return _cursor_noted(job, event)
        case OccurrencesMissed():
            return _missed(job, event)
        case SlotSkipRequested():
            return _slot_skip_requested(job, event)
        case BackfillStarted():
            return _backfill_started(job, event)
        case BackfillMoved():
            return _backfill_moved(job, event)
        case BackfillEnded():
            return _backfill_ended(job, event)
        case KeyUsed():
            return _key_used(job, event)
        case _:
            assert_never(event)


def _refuse(job: Job | None, event: AnyEvent, expected: str) -> NoReturn:
    raise IllegalEvent(job, event, expected)


def _checkpointed(event: JobCheckpoint) -> Job:
    state = event.state
    if not state.checkpoint_at_ms:
        return Job(state, event.definition)
    next_ms = next_checkpoint_ms(state.checkpoint_at_ms, event.at_ms)
    return Job(replace(state, checkpoint_at_ms=next_ms), event.definition)


def _defined(job: Job | None, event: JobDefined) -> Job:
    if job is not None and job.state.status != "deleted":
        _refuse(job, event, "no job, or a deleted one")
    before = JobState(job_id=event.definition.job_id, tenant=event.definition.tenant, queue="", version=0)
    if job is not None:
        before = job.state
    if event.version != before.version + 1:
        _refuse(job, event, f"version {before.version + 1}")
    if event.definition.tenant != before.tenant or event.definition.job_id != before.job_id:
        _refuse(job, event, f"tenant {before.tenant!r} and job {before.job_id!r}")
    _must_follow(job, event, event.next_at_ms, before.decided_to_ms)
    decided_to_ms = before.decided_to_ms
    if event.next_at_ms is not None and event.next_at_ms >= event.at_ms and not _is_one_off(event.definition):
        decided_to_ms = max(decided_to_ms, event.at_ms - 1)
    state = JobState(
        job_id=before.job_id,
        tenant=before.tenant,
        queue=event.definition.queue,
        concurrency_key=event.definition.concurrency_key,
        concurrency_weight=event.definition.concurrency_units,
        version=event.version,
        request_hash=event.request_hash,
        create_hash=event.request_hash,
        created_version=event.version,
        created_at_ms=event.at_ms,
        created_next_at_ms=event.next_at_ms,
        next_at_ms=event.next_at_ms,
        decided_to_ms=decided_to_ms,
        zone_data=event.zone_data,
        calendars=event.calendars,
        open=before.open,
        closed=before.closed,
        dead=before.dead,
        backfills_ended=before.backfills_ended,
        lease_token_last=before.lease_token_last,
        last_lease_at_ms=before.last_lease_at_ms,
        checkpoint_at_ms=first_checkpoint_ms(before.job_id, event.at_ms),
        updated_at_ms=event.at_ms,
        keys=before.keys,
    )
    return Job(state, event.definition)


def _edited(job: Job, event: JobEdited) -> Job:
    state = job.state
    if state.status == "deleted":
        _refuse(job, event, "a job that is not deleted")
    if event.version != state.version + 1:
        _refuse(job, event, f"version {state.version + 1}")
    if event.definition.tenant != state.tenant or event.definition.job_id != state.job_id:
        _refuse(job, event, f"tenant {state.tenant!r} and job {state.job_id!r}")
    _must_follow(job, event, event.next_at_ms, state.decided_to_ms)
    kept = event.next_at_ms == state.next_at_ms
    after = replace(
        _with_cursor(state, event.next_at_ms, 0 if _is_one_off(event.definition) else event.at_ms),
        status="active",
        queue=event.definition.queue,
        concurrency_key=event.definition.concurrency_key,
        concurrency_weight=event.definition.concurrency_units,
        version=event.version,
        request_hash=event.request_hash,
        next_notes=state.next_notes if kept else (),
        next_dropped=state.next_dropped if kept else (),
        zone_data=event.zone_data,
        calendars=event.calendars,
        forget_at_ms=0,
        checkpoint_at_ms=state.checkpoint_at_ms or first_checkpoint_ms(state.job_id, event.at_ms),
        updated_at_ms=event.at_ms,
    )
    return Job(after, event.definition)


def _deleted(job: Job, event: JobDeleted) -> Job:
    state = job.state
    if state.status == "deleted":
        _refuse(job, event, "a job that is not deleted")
    for run in state.open:
        if run.lease is None or not run.cancel_requested_at_ms:
            _refuse(job, event, f"run {run.run_id} to be closed, or leased and told to cancel")
    after = replace(
        _with_cursor(state, None, 0),
        status="deleted",
        version=event.version,
        pause=None,
        backfills=(),
        missed_until_ms=0,
        forget_at_ms=event.forget_at_ms,
        checkpoint_at_ms=0,
        updated_at_ms=event.at_ms,
    )
    return Job(after, None)


def _finished(job: Job, event: JobFinished) -> Job:
    state = job.state
    if state.status != "active" or state.next_at_ms is not None or state.open or state.backfills:
        _refuse(job, event, "an active job without a next occurrence, open runs and backfills")
    after = replace(
        state, status="finished", pause=None, missed_until_ms=0, forget_at_ms=event.forget_at_ms, checkpoint_at_ms=0
    )
    return Job(after, job.definition)


def _check_forgotten(job: Job, event: JobForgotten) -> None:
    state = job.state
    if state.status == "active" or state.open or event.at_ms < state.forget_at_ms:
        _refuse(job, event, f"a finished or deleted job without open runs, at {state.forget_at_ms} or later")


def _paused(job: Job, event: JobPaused) -> Job:
    state = job.state
    if state.status != "active":
        _refuse(job, event, "an active job")
    paused_at_ms = event.at_ms if state.pause is None else state.pause.paused_at_ms
    pause = Pause(paused_at_ms=paused_at_ms, actor=event.actor, note=event.note, until_ms=event.until_ms)
    return Job(replace(state, pause=pause), job.definition)


def _resumed(job: Job, event: JobResumed) -> Job:
    state = job.state
    if state.pause is None:
        _refuse(job, event, "a paused job")
    if event.next_at_ms != state.next_at_ms:
        _refuse(job, event, f"the cursor {state.next_at_ms}")
    return Job(replace(state, pause=None), job.definition)


def _skipped(job: Job, event: OccurrencesSkipped) -> Job:
    state = job.state
    if event.reason in ("gap", "calendar"):
        after = replace(state, next_dropped=state.next_dropped[1:], skips_total=state.skips_total + event.count)
        return Job(after, job.definition)
    if event.first_at_ms != state.next_at_ms or event.last_at_ms < event.first_at_ms or event.count < 1:
        _refuse(job, event, f"a range from the cursor {state.next_at_ms}")
    _must_follow(job, event, event.next_at_ms, event.last_at_ms)
    after = replace(
        _with_cursor(state, event.next_at_ms, 0),
        decided_to_ms=event.last_at_ms,
        skips_total=state.skips_total + event.count + event.dropped_gap + event.dropped_calendar,
    )
    return Job(after, job.definition)


def _cursor_moved(job: Job, event: CursorMoved) -> Job:
    state = job.state
    if event.from_at_ms != state.next_at_ms:
        _refuse(job, event, f"the cursor {state.next_at_ms}")
    decided_to_ms = max(state.decided_to_ms, event.decided_to_ms)
    _must_follow(job, event, event.to_at_ms, decided_to_ms)
    after = replace(
        _with_cursor(state, event.to_at_ms, 0),
        zone_data=event.zone_data_to,
        calendars=event.calendars_to,
        decided_to_ms=decided_to_ms,
        # What is excluded today may come back tomorrow: somebody's wish to skip it stays until the slot is decided.
        skip_at_ms=tuple(at_ms for at_ms in state.skip_at_ms if at_ms > decided_to_ms),
    )
    return Job(after, job.definition)


def _cursor_noted(job: Job, event: CursorNoted) -> Job:
    if event.next_at_ms != job.state.next_at_ms:
        _refuse(job, event, f"the cursor {job.state.next_at_ms}")
    return Job(replace(job.state, next_notes=event.notes, next_dropped=event.dropped), job.definition)


def _missed(job: Job, event: OccurrencesMissed) -> Job:
    if event.until_ms <= job.state.missed_until_ms:
        _refuse(job, event, f"an instant after {job.state.missed_until_ms}")
    return Job(replace(job.state, missed_until_ms=event.until_ms), job.definition)


def _slot_skip_requested(job: Job, event: SlotSkipRequested) -> Job:
    state = job.state
    if state.next_at_ms is None or event.slot_at_ms < state.next_at_ms or event.slot_at_ms in state.skip_at_ms:
        _refuse(job, event, f"a slot at or beyond the cursor {state.next_at_ms} that is not skipped already")
    return Job(replace(state, skip_at_ms=tuple(sorted((*state.skip_at_ms, event.slot_at_ms)))), job.definition)


def _backfill_started(job: Job, event: BackfillStarted) -> Job:
    state = job.state
    if state.status == "deleted" or any(item.backfill_id == event.backfill_id for item in state.backfills):
        _refuse(job, event, "a job that is not deleted and a new backfill id")
    backfill = Backfill(
        backfill_id=event.backfill_id,
        cursor_at_ms=event.cursor_at_ms,
        until_ms=event.until_ms,
        concurrent_runs_max=event.concurrent_runs_max,
        interval_ms=event.interval_ms,
        started_at_ms=event.at_ms,
        first_at_ms=event.cursor_at_ms,
        last_at_ms=event.last_at_ms,
        runs_total=event.runs_total,
    )
    after = replace(
        state,
        backfills=(*state.backfills, backfill),
        status="active",
        forget_at_ms=0,
        checkpoint_at_ms=state.checkpoint_at_ms or first_checkpoint_ms(state.job_id, event.at_ms),
    )
    return Job(after, job.definition)


def _backfill_moved(job: Job, event: BackfillMoved) -> Job:
    backfill = _backfill(job, event)
    moved = replace(backfill, opened=backfill.opened + 1, opened_last_at_ms=event.at_ms)
    if event.cursor_at_ms is None:
        return _end_backfill(job, moved, event.at_ms, "completed")
    if event.cursor_at_ms <= backfill.cursor_at_ms:
        _refuse(job, event, f"a cursor after {backfill.cursor_at_ms}")
    moved = replace(moved, cursor_at_ms=event.cursor_at_ms)
    backfills = tuple(moved if item is backfill else item for item in job.state.backfills)
    return Job(replace(job.state, backfills=backfills), job.definition)


def _backfill_ended(job: Job, event: BackfillEnded) -> Job:
    return _end_backfill(job, _backfill(job, event), event.at_ms, event.reason)


def _backfill(job: Job, event: BackfillMoved | BackfillEnded) -> Backfill:
    for item in job.state.backfills:
        if item.backfill_id == event.backfill_id:
            return item
    _refuse(job, event, f"a backfill {event.backfill_id}")


def _end_backfill(job: Job, backfill: Backfill, at_ms: int, reason: str) -> Job:
    """Remember how far it came; the oldest of these is forgotten."""
    state = job.state
    ended = replace(backfill, ended_at_ms=at_ms, ended_by=reason)
    after = replace(
        state,
        backfills=tuple(item for item in state.backfills if item.backfill_id != backfill.backfill_id),
        backfills_ended=(*state.backfills_ended, ended)[-BACKFILLS_ENDED_MAX:],
    )
    return Job(after, job.definition)


def _key_used(job: Job, event: KeyUsed) -> Job:
    """Remember one more key; the oldest is forgotten, and so are the oldest memos."""
    if job.key_use(event.key) is not None:
        _refuse(job, event, f"a key that is not {event.key!r}")
    use = KeyUse(key=event.key, body=event.body, version=job.state.version, memo=event.memo)
    bytes_left = KEY_MEMO_BYTES_MAX
    kept: list[KeyUse] = []
    for item in reversed((*job.state.keys, use)[-KEYS_MAX:]):
        fits = len(item.memo) <= bytes_left
        bytes_left = bytes_left - len(item.memo) if fits else 0
        kept.append(item if fits else replace(item, memo=b""))
    return Job(replace(job.state, keys=tuple(reversed(kept))), job.definition)


def _is_one_off(definition: Definition) -> bool:
    """A one-off has no occurrences that time passes by: until it ran, it may be moved to any instant, past or not."""
    return isinstance(definition.schedule, OneOffSpec | LocalOneOffSpec)


def _must_follow(job: Job | None, event: AnyEvent, next_at_ms: int | None, decided_to_ms: int) -> None:
    """Refuse a cursor at or behind what has its record already."""
    if next_at_ms is not None and next_at_ms <= decided_to_ms:
        _refuse(job, event, f"a cursor after {decided_to_ms}")


def _with_cursor(state: JobState, next_at_ms: int | None, decided_to_ms: int) -> JobState:
    """Move the cursor, and with it what is said about its occurrence.

    `decided_to_ms` counts as decided where the new cursor lies beyond it; 0 leaves that alone.
    """
    keep_decided = next_at_ms is None or next_at_ms <= decided_to_ms
    skip_at_ms = state.skip_at_ms
    if skip_at_ms:
        skip_at_ms = tuple(at for at in skip_at_ms if next_at_ms is not None and at >= next_at_ms)
    return replace(
        state,
        next_at_ms=next_at_ms,
        next_notes=(),
        next_dropped=(),
        skip_at_ms=skip_at_ms,
        decided_to_ms=state.decided_to_ms if keep_decided else max(state.decided_to_ms, decided_to_ms),
    )
