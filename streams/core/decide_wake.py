"""Decisions of the job's own clock: everything whose time has come, in one fixed order.

Leases end first, so that overlap is judged on the runs that are really going; then late starts, the end of a pause,
moved zone data, openings, backfills and the checkpoint. Where only soft state keeps a lease alive there is no event,
and `wake_at_ms` says when to look again: a Wake never leads to the same Wake at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.core.context import Decision
from streams.core.deadline import deadline_ms, lease_end_ms, next_look_ms, start_deadline_ms
from streams.core.decide_attempt import verdict_on_expiry
from streams.core.decide_cursor import move_cursor_for_zone_data
from streams.core.decide_draft import Draft, finish_if_done, release_held
from streams.core.decide_due import (
    is_due,
    open_backfills,
    open_due,
    settle_pause,
)
from streams.core.decide_schedule import reads_zone_data
from streams.core.events import JobCheckpoint, JobForgotten, LeaseExpired, RunSkipped
from streams.core.overlap import backfill_can_open, backfill_due_ms

if TYPE_CHECKING:
    from streams.core.context import Context
    from streams.core.state import Job, Lease, OpenRun

SILENT_GRANTS_MAX: Final = 3
"""DESIGN section 7, point 5: the third grant in a row that nobody was heard from counts as an attempt."""

RECHECK_MS: Final = 100
"""While inputs from before a lease's end are still being consumed: a tenth of what a user would notice."""


def wake(job: Job | None, context: Context) -> Decision:
    """Do what is due, and nothing where nothing is."""
    if job is None:
        return Decision()
    state = job.state
    if state.status != "active" and not state.open and context.now_ms >= state.forget_at_ms:
        return Decision(events=(JobForgotten(at_ms=context.now_ms),))  # job_after None says it: no job is left
    draft = Draft(job, context)
    _end_leases(draft)
    if draft.state.status == "active":
        _skip_late_starts(draft)
        settle_pause(draft)
        definition = draft.definition
        if draft.state.zone_data != context.zone_data.version and reads_zone_data(definition):
            move_cursor_for_zone_data(draft)
        open_due(draft)
        if draft.state.backfills:
            open_backfills(draft)
        finish_if_done(draft)
        _checkpoint(draft)
    return draft.decision(wake_at_ms=_look_again_ms(draft))


def _checkpoint(draft: Draft) -> None:
    """Write the living job whole, as it is after everything else of this decision."""
    state = draft.state
    if state.status == "active" and 0 < state.checkpoint_at_ms <= draft.now_ms:
        draft.emit(JobCheckpoint(state=state, definition=draft.definition, at_ms=draft.now_ms))


def _end_leases(draft: Draft) -> None:
    """End each lease that the evidence rule of DESIGN section 7 lets end."""
    for run in draft.state.open:
        if run.lease is not None:
            _end_lease(draft, run, run.lease)


def _end_lease(draft: Draft, run: OpenRun, lease: Lease) -> None:
    context = draft.context
    heartbeat_at_ms = context.heartbeats.get(run.run_id, 0)
    heard = heartbeat_at_ms >= lease.granted_at_ms
    end_ms, reason = lease_end_ms(run, lease, heartbeat_at_ms=heartbeat_at_ms, takeover_at_ms=context.takeover_at_ms)
    if context.now_ms <= end_ms or context.consumed_to_ms <= end_ms:
        return
    counted = heard or reason == "timeout" or run.silent_grants + 1 >= SILENT_GRANTS_MAX
    draft.emit(
        LeaseExpired(
            run_id=run.run_id,
            lease_token=lease.lease_token,
            attempt=run.attempt,
            at_ms=context.now_ms,
            expires_at_ms=lease.expires_at_ms,
            heartbeat_at_ms=heartbeat_at_ms if heard else 0,
            takeover_at_ms=context.takeover_at_ms,
            consumed_to_ms=context.consumed_to_ms,
            counted=counted,
            reason=reason,
        )
    )
    verdict_on_expiry(draft, run.run_id, counted=counted, reason=reason)


def _skip_late_starts(draft: Draft) -> None:
    """Skip unleased runs whose start deadline passed."""
    definition = draft.definition
    if not definition.start_deadline_ms:
        return
    for run in draft.state.open:
        deadline = start_deadline_ms(run, definition)
        if run.lease is None and deadline is not None and draft.now_ms >= deadline:
            draft.emit(RunSkipped(run_id=run.run_id, reason="start_deadline", at_ms=draft.now_ms))
    release_held(draft)


def _look_again_ms(draft: Draft) -> int:
    """Return when to look again where the state's own deadline is past already; 0 where it is not."""
    job, context = draft.job, draft.context
    now_ms = context.now_ms
    hard_ms = deadline_ms(job, open_runs_max=context.open_runs_max)
    if hard_ms is None or hard_ms > now_ms:
        return 0
    soft_ms = next_look_ms(job, context)
    if soft_ms is not None and soft_ms > now_ms:
        return soft_ms
    state, bound = job.state, context.open_runs_max
    if is_due(state, now_ms) and len(state.open) < bound:
        return now_ms
    if state.status == "active" and any(
        backfill_can_open(state, backfill, bound) and backfill_due_ms(backfill) <= now_ms
        for backfill in state.backfills
    ):
        return now_ms
    return now_ms + RECHECK_MS
