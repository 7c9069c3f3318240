"""Decisions about one run's lease: grant, heartbeat, complete, fail, release. The hot path.

A grant needs a due, unleased run and the job's current version; it opens the run first where only the cursor stands
for it yet, so overlap and pause are judged at that moment. Whoever holds the current lease token decides what
becomes of the attempt; everybody else hears `lease_lost`, and a repeat of what ended an attempt hears the first answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.core.commands import Grant, Reply
from streams.core.context import Decision
from streams.core.deadline import is_ready, start_deadline_ms, upcoming
from streams.core.decide_attempt import verdict_on_failure
from streams.core.decide_draft import Draft, finish_if_done, release_held
from streams.core.decide_due import open_due, settle_pause
from streams.core.events import (
    LeaseGranted,
    LeaseReleased,
    LeaseRenewed,
    RunCancelled,
    RunFailed,
    RunSkipped,
    RunSucceeded,
)
from streams.core.state import Lease

if TYPE_CHECKING:
    from streams.core.commands import Complete, Fail, Heartbeat, LeaseRun, Release, ReplyCode
    from streams.core.context import Context
    from streams.core.definition import Definition
    from streams.core.state import Job, OpenRun

VISIBILITY_MS_MIN: Final = 1_000
VISIBILITY_MS_MAX: Final = 3_600_000
"""Between a heartbeat that a loaded worker can keep and an hour, after which a dead worker must be noticed."""

RENEWAL_LOGGED_EVERY_MS: Final = 300_000
"""DESIGN section 7: renewals are soft state, logged every 5 minutes for the audit."""

EVENT_ERROR_CHARS_MAX: Final = 4_096
"""What history keeps of an error text (docs/http-api.md); the state keeps less."""

RESULT_BYTES_MAX: Final = 64 * 1024
"""As for payloads; a larger result belongs in object storage."""


def lease_run(job: Job | None, command: LeaseRun, context: Context) -> Decision:
    """Grant, park until the run is due, or refuse with a code."""
    if job is None or job.definition is None:
        return _refused(command, "not_found", "no such job")
    if command.valid_until_ms and context.now_ms > command.valid_until_ms:
        return _refused(command, "stale_offer", "the request is past its valid_until")
    run = job.run(command.run_id)
    if run is not None and run.lease is not None:
        return _leased_already(job, run, command)
    if command.job_version and command.job_version != job.state.version:
        detail = f"the job is at version {job.state.version}"
        return _refused(command, "stale_offer", detail, version=job.state.version)
    draft = Draft(job, context)
    settle_pause(draft)
    if run is None:
        return _lease_unopened(draft, command)
    return _lease_open(draft, run, command)


def _lease_unopened(draft: Draft, command: LeaseRun) -> Decision:  # noqa: PLR0911 - one guard clause a case
    """The run is not open: perhaps it is the occurrence that comes next, or among those that are due now."""
    closed = draft.job.closed_run(command.run_id)
    if closed is not None:
        return draft.decision(
            _reply(command, "not_leasable", f"the run ended: {closed.outcome}", outcome=closed.outcome)
        )
    if draft.state.pause is not None:
        return draft.decision(_reply(command, "paused", "the job is paused"))
    if draft.state.status == "active":
        open_due(draft)
    run = draft.job.run(command.run_id)
    if run is not None:
        return _lease_open(draft, run, command)
    finish_if_done(draft)
    following = upcoming(draft.job)
    if following is not None and command.run_id == following[0]:
        if following[1] <= draft.now_ms:
            return draft.decision(_reply(command, "not_leasable", "too many runs of the job are open to open this one"))
        return _parked(draft, command, following[1])
    closed = draft.job.closed_run(command.run_id)
    if closed is not None:
        detail = f"the run ended: {closed.outcome}"
        return draft.decision(_reply(command, "not_leasable", detail, outcome=closed.outcome))
    return draft.decision(_reply(command, "stale_offer", "no such run is open or comes next"))


def _lease_open(draft: Draft, run: OpenRun, command: LeaseRun) -> Decision:
    """The run is open: grant it if it is ready and due."""
    if not is_ready(draft.state, run):
        if draft.state.pause is not None and not run.forced:
            return draft.decision(_reply(command, "paused", "the job is paused"))
        detail = "a cancel was asked for" if run.cancel_requested_at_ms else "the run waits for an earlier one"
        return draft.decision(_reply(command, "not_leasable", detail))
    deadline = start_deadline_ms(run, draft.job.definition)
    if deadline is not None and draft.now_ms >= deadline:
        draft.emit(RunSkipped(run_id=run.run_id, reason="start_deadline", at_ms=draft.now_ms))
        release_held(draft)
        finish_if_done(draft)
        return draft.decision(_reply(command, "not_leasable", "the start deadline passed", outcome="skipped"))
    if draft.now_ms < run.due_at_ms:
        return _parked(draft, command, run.due_at_ms)
    lease = _new_lease(draft, command)
    attempt = run.attempt + 1
    draft.emit(LeaseGranted(run_id=run.run_id, attempt=attempt, lease=lease, at_ms=draft.now_ms))
    return draft.decision(_grant(draft.definition, draft.state.version, run, lease, attempt))


def _leased_already(job: Job, run: OpenRun, command: LeaseRun) -> Decision:
    """The same request once more, after a lost answer, gets the same grant; anybody else a refusal."""
    lease = run.lease
    if lease is not None and job.definition is not None and command.request_id:
        same = lease.request_id == command.request_id and lease.gateway_id == command.gateway_id
        if same and not run.cancel_requested_at_ms:
            return Decision(reply=_grant(job.definition, job.state.version, run, lease, run.attempt))
    return _refused(command, "not_leasable", "the run is leased", attempt=run.attempt)


def _parked(draft: Draft, command: LeaseRun, at_ms: int) -> Decision:
    """Keep the request in memory until the run is due, unless nobody will wait that long."""
    if command.valid_until_ms and at_ms > command.valid_until_ms:
        return draft.decision(
            _reply(command, "not_due", "the run is due later than the request lives", next_at_ms=at_ms)
        )
    return draft.decision(park_until_ms=at_ms)


def _new_lease(draft: Draft, command: LeaseRun) -> Lease:
    visibility_ms = _visibility_ms(command.visibility_ms)
    timeout_ms = draft.definition.timeout_ms
    return Lease(
        lease_token=draft.state.lease_token_last + 1,
        worker_id=command.worker_id,
        gateway_id=command.gateway_id,
        request_id=command.request_id,
        granted_at_ms=draft.now_ms,
        visibility_ms=visibility_ms,
        expires_at_ms=draft.now_ms + visibility_ms,
        timeout_at_ms=draft.now_ms + timeout_ms if timeout_ms else 0,
    )


def _grant(definition: Definition, version: int, run: OpenRun, lease: Lease, attempt: int) -> Grant:
    return Grant(
        job_id=definition.job_id,
        run_id=run.run_id,
        task=definition.task,
        tenant=definition.tenant,
        queue=definition.queue,
        lane=run.lane,
        worker_id=lease.worker_id,
        gateway_id=lease.gateway_id,
        attempt=attempt,
        lease_token=lease.lease_token,
        scheduled_at_ms=run.scheduled_at_ms,
        due_at_ms=run.due_at_ms,
        granted_at_ms=lease.granted_at_ms,
        expires_at_ms=lease.expires_at_ms,
        visibility_ms=lease.visibility_ms,
        timeout_ms=definition.timeout_ms,
        max_attempts=definition.retry.max_attempts,
        payload=definition.payload if run.payload is None else run.payload,
        content_type=definition.content_type,
        job_version=version,
    )


def heartbeat(job: Job | None, command: Heartbeat, context: Context) -> Decision:
    """Answer whether the lease lives and whether to stop; log a renewal every RENEWAL_LOGGED_EVERY_MS at most.

    A heartbeat that asks for another length is logged at once: the length is hard state. The end that the worker was
    promised before stays, so a shorter length begins to count with the next heartbeat that would end later.
    """
    run = None if job is None else job.run(command.run_id)
    if job is None or run is None or run.lease is None or run.lease.lease_token != command.lease_token:
        return _not_the_holder(job, command, ended=("succeeded",), quiet=True)
    lease = run.lease
    at_ms = command.at_ms or context.now_ms
    visibility_ms = _visibility_ms(command.visibility_ms) if command.visibility_ms else lease.visibility_ms
    expires_at_ms = max(lease.expires_at_ms, at_ms + visibility_ms)
    heard_at_ms = context.heartbeats.get(run.run_id, 0)
    if heard_at_ms >= lease.granted_at_ms:
        expires_at_ms = max(expires_at_ms, heard_at_ms + lease.visibility_ms)
    timed_out = bool(lease.timeout_at_ms) and context.now_ms >= lease.timeout_at_ms
    cancel_reason = run.cancel_reason if run.cancel_requested_at_ms else "timeout"
    cancel = timed_out or bool(run.cancel_requested_at_ms)
    reply = Reply(
        code="ok",
        job_id=command.job_id,
        run_id=run.run_id,
        attempt=run.attempt,
        lease_token=lease.lease_token,
        expires_at_ms=expires_at_ms,
        cancel=cancel,
        detail=cancel_reason if cancel else "",
    )
    renewed_at_ms = lease.expires_at_ms - lease.visibility_ms
    changed = visibility_ms != lease.visibility_ms
    if at_ms - renewed_at_ms < RENEWAL_LOGGED_EVERY_MS and not changed:
        return Decision(reply=reply)
    draft = Draft(job, context)
    draft.emit(
        LeaseRenewed(
            run_id=run.run_id,
            lease_token=lease.lease_token,
            heartbeat_at_ms=at_ms,
            expires_at_ms=expires_at_ms,
            at_ms=context.now_ms,
            visibility_ms=visibility_ms if changed else 0,
        )
    )
    return draft.decision(reply)


def _visibility_ms(asked_ms: int) -> int:
    return min(max(asked_ms, VISIBILITY_MS_MIN), VISIBILITY_MS_MAX)


def complete(job: Job | None, command: Complete, context: Context) -> Decision:
    """Accept the one completion of a run under its current token, after a cancel request too: the work is done."""
    run = None if job is None else job.run(command.run_id)
    if job is None or run is None or run.lease is None or run.lease.lease_token != command.lease_token:
        return _not_the_holder(job, command, ended=("succeeded",))
    if len(command.result) > RESULT_BYTES_MAX:
        detail = f"result: {len(command.result)} bytes, at most {RESULT_BYTES_MAX} are kept; store it elsewhere"
        return Decision(reply=_reply(command, "invalid", detail, field="result"))
    draft = Draft(job, context)
    draft.emit(
        RunSucceeded(
            run_id=run.run_id,
            lease_token=command.lease_token,
            attempt=run.attempt,
            at_ms=context.now_ms,
            result=command.result,
        )
    )
    release_held(draft)
    finish_if_done(draft)
    return draft.decision(_ended_reply(command, run, "succeeded"))


def fail(job: Job | None, command: Fail, context: Context) -> Decision:
    """End the attempt: retry at a random later time, die, or close as cancelled where a cancel was asked for."""
    run = None if job is None else job.run(command.run_id)
    if job is None or run is None or run.lease is None or run.lease.lease_token != command.lease_token:
        return _not_the_holder(job, command, ended=("dead", "cancelled"), open_end="failed")
    draft = Draft(job, context)
    if run.cancel_requested_at_ms:
        return _close_cancelled(draft, run, command)
    error = command.error[:EVENT_ERROR_CHARS_MAX]
    draft.emit(
        RunFailed(
            run_id=run.run_id,
            lease_token=command.lease_token,
            attempt=run.attempt,
            error=error,
            retryable=command.retryable,
            at_ms=context.now_ms,
        )
    )
    verdict_on_failure(draft, run.run_id, error=error, retryable=command.retryable)
    after = draft.job.run(run.run_id)
    finish_if_done(draft)
    if after is None:
        return draft.decision(_ended_reply(command, run, "dead"))
    return draft.decision(_ended_reply(command, run, "", next_at_ms=after.due_at_ms))


def release(job: Job | None, command: Release, context: Context) -> Decision:
    """Take an unstarted run back: ready at once, the attempt number returned, the token used (I4)."""
    run = None if job is None else job.run(command.run_id)
    if job is None or run is None or run.lease is None or run.lease.lease_token != command.lease_token:
        return _not_the_holder(job, command, ended=("cancelled",), open_end="released")
    draft = Draft(job, context)
    if run.cancel_requested_at_ms:
        return _close_cancelled(draft, run, command)
    draft.emit(
        LeaseReleased(
            run_id=run.run_id,
            lease_token=command.lease_token,
            reason=command.reason[:EVENT_ERROR_CHARS_MAX],
            at_ms=context.now_ms,
        )
    )
    return draft.decision(_ended_reply(command, run, ""))


def _close_cancelled(draft: Draft, run: OpenRun, command: Fail | Release) -> Decision:
    draft.emit(
        RunCancelled(
            run_id=run.run_id,
            lease_token=command.lease_token,
            actor="",
            reason=run.cancel_reason,
            at_ms=draft.now_ms,
        )
    )
    release_held(draft)
    finish_if_done(draft)
    return draft.decision(_ended_reply(command, run, "cancelled"))


def _not_the_holder(
    job: Job | None,
    command: Heartbeat | Complete | Fail | Release,
    *,
    ended: tuple[str, ...],
    open_end: str = "",
    quiet: bool = False,
) -> Decision:
    """Answer a token that is not current: a repeat hears the first answer, anybody else that the lease is lost.

    `ended` are the outcomes that the command could have led to, `open_end` the end of an attempt in an open run.
    `quiet` is for a heartbeat that its own completion overtook (D05).
    """
    if job is None:
        return Decision(reply=_reply(command, "not_found", "no such job"))
    token = command.lease_token
    run = job.run(command.run_id)
    if run is not None:
        if open_end and run.ended_by == open_end and run.ended_token == token and run.lease is None:
            next_at_ms = run.due_at_ms if open_end == "failed" else None
            return Decision(reply=_ended_reply(command, run, "", next_at_ms=next_at_ms, replayed=True))
        detail = f"lease_token {token} is not current; attempt {run.attempt} is"
        return Decision(reply=_reply(command, "lease_lost", detail, attempt=run.attempt))
    closed = job.closed_run(command.run_id)
    if closed is None:
        return Decision(reply=_reply(command, "lease_lost", "the run is not known any more"))
    own = bool(token) and closed.lease_token == token and (quiet or closed.outcome in ended)
    detail = "" if own else f"the run ended under lease_token {closed.lease_token}: {closed.outcome}"
    return Decision(
        reply=Reply(
            code="ok" if own else "lease_lost",
            job_id=command.job_id,
            run_id=command.run_id,
            detail=detail,
            attempt=closed.attempt,
            lease_token=closed.lease_token,
            outcome=closed.outcome,
            replayed=own,
        )
    )


def _refused(command: LeaseRun, code: ReplyCode, detail: str, *, version: int = 0, attempt: int = 0) -> Decision:
    return Decision(reply=_reply(command, code, detail, version=version, attempt=attempt))


def _reply(
    command: LeaseRun | Heartbeat | Complete | Fail | Release,
    code: ReplyCode,
    detail: str,
    *,
    version: int = 0,
    attempt: int = 0,
    field: str = "",
    outcome: str = "",
    next_at_ms: int | None = None,
) -> Reply:
    return Reply(
        code=code,
        job_id=command.job_id,
        run_id=command.run_id,
        detail=detail,
        version=version,
        attempt=attempt,
        field=field,
        outcome=outcome,
        next_at_ms=next_at_ms,
    )


def _ended_reply(
    command: Heartbeat | Complete | Fail | Release,
    run: OpenRun,
    outcome: str,
    *,
    next_at_ms: int | None = None,
    replayed: bool = False,
) -> Reply:
    return Reply(
        code="ok",
        job_id=command.job_id,
        run_id=command.run_id,
        attempt=run.attempt,
        lease_token=command.lease_token,
        next_at_ms=next_at_ms,
        outcome=outcome,
        replayed=replayed,
    )
