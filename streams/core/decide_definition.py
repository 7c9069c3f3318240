"""Decisions about the definition: create, edit, upsert, delete.

Repeats change nothing: the same creating request hears the first answer, an edit that says what the job already is
is no edit. Every edit raises the version, which makes offers and timers of the old one no-ops. An edit touches its own
job only (B07), recomputes the cursor only if the schedule changed, and records what the old schedule left undecided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core.commands import Reply
from streams.core.context import Decision
from streams.core.decide_cursor import note_cursor
from streams.core.decide_draft import Draft, cancel_run, finish_if_done, release_held
from streams.core.decide_due import open_due, record_dropped, settle_pause, skip_paused, skip_until
from streams.core.decide_schedule import is_plain_one_off, next_after, same_schedule, schedule_of
from streams.core.events import BackfillEnded, JobDefined, JobDeleted, JobEdited, JobPaused, JobResumed, RunSkipped
from streams.core.state import FORGET_AFTER_MS
from streams.core.time import InvalidSchedule, LocalOneOffSpec, Occurrence, OneOffSpec
from streams.core.validate import InvalidDefinition, validate_references

if TYPE_CHECKING:
    from streams.core.commands import Define, Delete, ReplyCode
    from streams.core.context import Context
    from streams.core.definition import Definition
    from streams.core.state import Job, JobState

ACTOR_CHARS_MAX = 200
"""Of an actor's name."""

PAUSED_BY_DEFINITION = "by the definition"
"""Note of a pause or resume that came with a definition."""


def define(job: Job | None, command: Define, context: Context) -> Decision:  # noqa: PLR0911 - one guard clause a case
    """Create, edit, or answer a repeat."""
    if job is not None and job.state.tenant != command.definition.tenant:
        return _answer(command, "wrong_tenant", detail="the job belongs to another tenant")
    try:
        validate_references(
            command.definition, job_id=command.job_id, calendars=context.calendars.of(command.definition.tenant)
        )
        if job is None:
            return _refused_edit(command) if command.mode == "edit" else _create(None, command, context)
        if command.mode == "create":
            return _create_again(job, command, context)
        if job.state.status == "deleted":
            return _refused_edit(command) if command.mode == "edit" else _create(job, command, context)
        return _edit(job, command, context)
    except InvalidDefinition as error:
        return _answer(command, "invalid", field=error.field, detail=str(error))
    except InvalidSchedule as error:
        return _answer(command, "invalid", field=error.field, detail=str(error))


def _create_again(job: Job, command: Define, context: Context) -> Decision:
    """A create meets a record: the same request is answered like the first; a deleted job may be created anew."""
    state = job.state
    if state.create_hash == command.request_hash:
        return Decision(
            reply=Reply(
                code="created",
                job_id=state.job_id,
                version=state.created_version,
                next_at_ms=state.created_next_at_ms,
                replayed=True,
            )
        )
    if state.status == "deleted":
        return _create(job, command, context)
    return _answer(command, "idempotency_conflict", detail="the job exists with another definition", state=state)


def _create(job: Job | None, command: Define, context: Context) -> Decision:
    definition = command.definition
    decided_to_ms = 0 if job is None else job.state.decided_to_ms
    first = _first_occurrence(definition, context, decided_to_ms)
    if first is None:
        detail = "the schedule has no occurrence from now on"
        if job is not None and _is_one_off(definition):
            detail = "this instant was decided by the job's earlier definition; choose a later one"
        return _answer(command, "invalid", field="schedule", detail=detail)
    draft = Draft(job, context)
    version = 1 if job is None else job.state.version + 1
    draft.emit(
        JobDefined(
            definition=definition,
            version=version,
            request_hash=command.request_hash,
            at_ms=context.now_ms,
            next_at_ms=first.at_ms,
            zone_data=context.zone_data.version,
            calendars=context.calendars.used_by(definition),
        )
    )
    note_cursor(draft, first)
    if command.standing == "paused":
        _pause(draft, command)
    open_due(draft, by_catch_up=False)
    finish_if_done(draft)
    reply = Reply(code="created", job_id=command.job_id, version=version, next_at_ms=first.at_ms)
    return draft.decision(reply)


def _edit(job: Job, command: Define, context: Context) -> Decision:
    state, before, after = job.state, job.definition, command.definition
    same = before is None or before == after or state.request_hash == command.request_hash
    turned = command.standing not in ("", "paused" if state.pause else "active")
    if before is None or (same and not turned):
        return _answer(command, "ok", state=state, replayed=True)
    if command.expected_version and command.expected_version != state.version:
        detail = f"the job is at version {state.version}, not {command.expected_version}"
        return _answer(command, "version_conflict", detail=detail, state=state)
    draft = Draft(job, context)
    settle_pause(draft)
    if command.standing == "active" and draft.state.pause is not None:
        _resume(draft, command)
    if same:
        return _turned(draft, command)
    moved = not same_schedule(before, after)
    # Refuse before anything is emitted: what cannot be computed now cannot be computed later either.
    schedule_of(after, context)
    if moved:
        _settle_old_schedule(draft, before, after)
    previous_next_at_ms = draft.state.next_at_ms
    cursor = _edited_cursor(draft.state, after, context) if moved else None
    draft.emit(
        JobEdited(
            definition=after,
            version=state.version + 1,
            request_hash=command.request_hash,
            at_ms=context.now_ms,
            next_at_ms=(None if cursor is None else cursor.at_ms) if moved else previous_next_at_ms,
            previous_next_at_ms=previous_next_at_ms,
            zone_data=context.zone_data.version if moved else state.zone_data,
            calendars=context.calendars.used_by(after),
        )
    )
    note_cursor(draft, cursor)
    if command.standing == "paused" and draft.state.pause is None:
        _pause(draft, command)
    release_held(draft)
    if _is_one_off(after):
        open_due(draft, by_catch_up=False)
    finish_if_done(draft)
    next_at_ms = None if cursor is None else cursor.at_ms
    return draft.decision(
        Reply(
            code="ok",
            job_id=command.job_id,
            version=state.version + 1,
            next_at_ms=next_at_ms if moved else previous_next_at_ms,
        )
    )


def _turned(draft: Draft, command: Define) -> Decision:
    """Answer a request whose definition the job has already: only its pause changes, and no version."""
    if command.standing == "paused" and draft.state.pause is None:
        open_due(draft)
        finish_if_done(draft)
        if draft.state.status != "active":
            detail = "the job has finished; there is nothing to pause"
            return draft.decision(_reply(command, "gone", detail=detail, state=draft.state))
        _pause(draft, command)
    finish_if_done(draft)
    return draft.decision(_reply(command, "ok", state=draft.state))


def _pause(draft: Draft, command: Define) -> None:
    actor = command.actor[:ACTOR_CHARS_MAX]
    draft.emit(JobPaused(actor=actor, note=PAUSED_BY_DEFINITION, until_ms=0, at_ms=draft.now_ms))


def _resume(draft: Draft, command: Define) -> None:
    skip_paused(draft, draft.now_ms)
    actor, next_at_ms = command.actor[:ACTOR_CHARS_MAX], draft.state.next_at_ms
    draft.emit(JobResumed(actor=actor, note=PAUSED_BY_DEFINITION, at_ms=draft.now_ms, next_at_ms=next_at_ms))


def _settle_old_schedule(draft: Draft, before: Definition, after: Definition) -> None:
    """Record what the old schedule had due and nobody decided; take back a one-off run that nobody began."""
    state = draft.state
    if state.next_at_ms is not None and state.next_at_ms <= draft.now_ms:
        if state.pause is not None:
            skip_paused(draft, draft.now_ms)
        else:
            record_dropped(draft)
            skip_until(draft, "superseded", draft.now_ms)
    if not (_is_one_off(before) and _is_one_off(after)):
        return
    for run in draft.state.open:
        if run.kind == "schedule" and run.lease is None and not run.ended_token:
            draft.emit(RunSkipped(run_id=run.run_id, reason="superseded", at_ms=draft.now_ms))


def _edited_cursor(state: JobState, definition: Definition, context: Context) -> Occurrence | None:
    """The cursor under a new schedule: from now on, and never what was decided before.

    A one-off runs again only if its instant is new, that is after everything decided; a past one then runs at once.
    """
    if definition.max_runs and state.occurrences_total >= definition.max_runs:
        return None
    if _is_one_off(definition):
        return next_after(definition, context, state.decided_to_ms)
    return next_after(definition, context, max(context.now_ms, state.decided_to_ms))


def _first_occurrence(definition: Definition, context: Context, decided_to_ms: int) -> Occurrence | None:
    """The first occurrence of a new job: at or after now, and for a one-off in the past its instant (E03)."""
    if is_plain_one_off(definition):
        return next_after(definition, context, decided_to_ms)
    schedule = schedule_of(definition, context)
    first = schedule.first_occurrence(context.now_ms - 1)
    if first is not None and first.at_ms <= decided_to_ms:
        return None if schedule.one_off else schedule.next_after(decided_to_ms)
    return first


def _is_one_off(definition: Definition) -> bool:
    return isinstance(definition.schedule, OneOffSpec | LocalOneOffSpec)


def delete(job: Job | None, command: Delete, context: Context) -> Decision:
    """End the job: unleased runs are skipped, leased ones told to cancel; what was due and undecided is recorded."""
    if job is None:
        return _answer(command, "not_found", detail="no such job")
    state = job.state
    if command.tenant and command.tenant != state.tenant:
        return _answer(command, "wrong_tenant", detail="the job belongs to another tenant")
    if state.status == "deleted":
        return _answer(command, "ok", state=state, replayed=True)
    if command.expected_version and command.expected_version != state.version:
        detail = f"the job is at version {state.version}, not {command.expected_version}"
        return _answer(command, "version_conflict", detail=detail, state=state)
    draft = Draft(job, context)
    settle_pause(draft)
    if draft.state.pause is not None:
        skip_paused(draft, context.now_ms)
    elif draft.state.next_at_ms is not None and draft.state.next_at_ms <= context.now_ms:
        record_dropped(draft)
        skip_until(draft, "deleted", context.now_ms)
    actor = command.actor[:ACTOR_CHARS_MAX]
    for run in draft.state.open:
        if run.lease is None:
            draft.emit(RunSkipped(run_id=run.run_id, reason="deleted", at_ms=context.now_ms))
        else:
            cancel_run(draft, run, actor=actor, reason="job_deleted")
    for backfill in draft.state.backfills:
        draft.emit(BackfillEnded(backfill_id=backfill.backfill_id, reason="deleted", at_ms=context.now_ms))
    draft.emit(
        JobDeleted(
            version=state.version + 1,
            actor=actor,
            at_ms=context.now_ms,
            forget_at_ms=max(context.now_ms, state.last_lease_at_ms) + FORGET_AFTER_MS,
        )
    )
    return draft.decision(Reply(code="ok", job_id=command.job_id, version=state.version + 1))


def _refused_edit(command: Define) -> Decision:
    return _answer(command, "not_found", detail="no such job; create it first")


def _answer(
    command: Define | Delete,
    code: ReplyCode,
    *,
    detail: str = "",
    field: str = "",
    state: JobState | None = None,
    replayed: bool = False,
) -> Decision:
    return Decision(reply=_reply(command, code, detail=detail, field=field, state=state, replayed=replayed))


def _reply(
    command: Define | Delete,
    code: ReplyCode,
    *,
    detail: str = "",
    field: str = "",
    state: JobState | None = None,
    replayed: bool = False,
) -> Reply:
    return Reply(
        code=code,
        job_id=command.job_id,
        detail=detail,
        field=field,
        version=0 if state is None else state.version,
        next_at_ms=None if state is None else state.next_at_ms,
        replayed=replayed,
    )
