"""Decisions that people ask for: pause, resume, trigger, cancel, skip one slot, replay a dead run, backfill.

All of them may be repeated: a repeat changes nothing and hears the first answer. Each carries its actor into the event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.core.commands import Reply
from streams.core.context import Decision
from streams.core.decide_definition import ACTOR_CHARS_MAX
from streams.core.decide_draft import NOTE_CHARS_MAX, Draft, cancel_run, finish_if_done, release_held
from streams.core.decide_due import (
    open_backfills,
    open_due,
    record_dropped,
    replace_live,
    settle_pause,
    skip_paused,
    skip_until,
)
from streams.core.decide_schedule import next_after, next_to_run_ms, schedule_of
from streams.core.definition import PAYLOAD_BYTES_MAX
from streams.core.events import (
    BackfillEnded,
    BackfillStarted,
    DeadRunReplayed,
    JobPaused,
    JobResumed,
    RunOpened,
    SlotSkipRequested,
)
from streams.core.identity import BACKFILL_ID_PATTERN, SUFFIX_PATTERN, is_instant, run_id_at, run_id_named
from streams.core.overlap import concurrency_limit, live_runs

if TYPE_CHECKING:
    from streams.core.commands import (
        CancelRun,
        Pause,
        ReplayRun,
        ReplyCode,
        Resume,
        SkipSlot,
        StartBackfill,
        StopBackfill,
        Trigger,
    )
    from streams.core.context import Context
    from streams.core.state import Backfill, ClosedRun, Job

    Control = Pause | Resume | Trigger | CancelRun | SkipSlot | ReplayRun | StartBackfill | StopBackfill

REPLAYS_MAX: Final = 10
"""How often one piece of work may be replayed from dead: past that, somebody replays in a loop."""

SKIP_SLOTS_MAX: Final = 32
"""Named slots that wait to be skipped: a month of days; more is a calendar or a pause."""

BACKFILL_INTERVAL_MS_MAX: Final = 24 * 3_600_000
"""One run a day; who wants less names a shorter range."""

BACKFILLS_MAX: Final = 4
"""Backfills of one job at a time; each has a cursor in the state."""

PAYLOADS_OPEN_BYTES_MAX: Final = 128 * 1024
"""Own payloads of the open runs of one job, all together: half of the state's bound of 256 KB."""


def pause(job: Job | None, command: Pause, context: Context) -> Decision:
    """Stop opening and leasing. What is due by now is opened first, so that the answer does not depend on a race."""
    refusal = _refusal(job, command)
    if job is None or refusal is not None:
        return refusal or Decision()
    if job.state.status == "finished":
        return _answer(command, "gone", detail="the job has finished; there is nothing to pause")
    if command.until_ms and command.until_ms <= context.now_ms:
        return _answer(command, "invalid", field="until", detail="until: lies in the past; name a later instant")
    draft = Draft(job, context)
    settle_pause(draft)
    open_due(draft)
    finish_if_done(draft)
    if draft.state.status != "active":
        return _close(draft, _reply(command, "gone", detail="the job has finished"))
    actor, note = command.actor[:ACTOR_CHARS_MAX], command.note[:NOTE_CHARS_MAX]
    current = draft.state.pause
    if current is not None and (current.actor, current.note, current.until_ms) == (actor, note, command.until_ms):
        return _close(draft, _reply(command, "ok", version=job.state.version, replayed=True))
    draft.emit(JobPaused(actor=actor, note=note, until_ms=command.until_ms, at_ms=context.now_ms))
    return _close(draft, _reply(command, "ok", version=job.state.version))


def resume(job: Job | None, command: Resume, context: Context) -> Decision:
    """Go on from now. What fell due during the pause is recorded as skipped, as one range; nothing of it runs."""
    refusal = _refusal(job, command)
    if job is None or refusal is not None:
        return refusal or Decision()
    draft = Draft(job, context)
    settle_pause(draft)
    if draft.state.pause is not None:
        skip_paused(draft, context.now_ms)
        draft.emit(
            JobResumed(
                actor=command.actor[:ACTOR_CHARS_MAX],
                note=command.note[:NOTE_CHARS_MAX],
                at_ms=context.now_ms,
                next_at_ms=draft.state.next_at_ms,
            )
        )
    finish_if_done(draft)
    replayed = not draft.events
    next_at_ms = draft.state.next_at_ms
    return _close(draft, _reply(command, "ok", version=job.state.version, next_at_ms=next_at_ms, replayed=replayed))


def trigger(job: Job | None, command: Trigger, context: Context) -> Decision:  # noqa: PLR0911 - one guard clause a refusal
    """Open one run now, by the overlap policy unless forced. The same trigger id is the same run."""
    refusal = _refusal(job, command)
    if job is None or refusal is not None:
        return refusal or Decision()
    if SUFFIX_PATTERN.fullmatch(command.trigger_id) is None or is_instant(command.trigger_id):
        detail = "trigger_id: 1 to 64 letters, digits, '.', ':' and '-', and not of the form of an instant"
        return _answer(command, "invalid", field="trigger_id", detail=detail)
    if command.payload is not None and len(command.payload) > PAYLOAD_BYTES_MAX:
        detail = f"payload: {len(command.payload)} bytes, at most {PAYLOAD_BYTES_MAX}"
        return _answer(command, "invalid", field="payload", detail=detail)
    run_id = run_id_named(command.job_id, command.trigger_id)
    repeat = _known(job, command, run_id)
    if repeat is not None:
        return repeat
    draft = Draft(job, context)
    settle_pause(draft)
    open_due(draft)
    if draft.state.pause is not None and not command.force:
        return _close(draft, _reply(command, "paused", detail="the job is paused; resume it or use force"))
    full = _no_room(draft, command.payload)
    if full:
        return _close(draft, _reply(command, "too_many_open_runs", detail=full))
    return _open_trigger(draft, command, run_id)


def _open_trigger(draft: Draft, command: Trigger, run_id: str) -> Decision:
    definition, now_ms = draft.definition, draft.now_ms
    live = live_runs(draft.state)
    held = False
    if not command.force and len(live) >= concurrency_limit(definition, draft.context.open_runs_max):
        if definition.overlap in ("skip", "allow"):
            detail = f"run {live[0].run_id} is open; wait for it, or use force"
            return _close(draft, _reply(command, "blocked", detail=detail, blocked_by=live[0].run_id))
        if definition.overlap == "replace":
            replace_live(draft, live)
        held = bool(live_runs(draft.state))
    draft.emit(
        RunOpened(
            run_id=run_id,
            kind="trigger",
            scheduled_at_ms=now_ms,
            due_at_ms=now_ms,
            at_ms=now_ms,
            job_version=draft.state.version,
            lane=definition.lane,
            held=held,
            next_at_ms=draft.state.next_at_ms,
            payload=command.payload,
            forced=command.force,
        )
    )
    return _close(draft, _reply(command, "created", run_id=run_id, next_at_ms=now_ms))


def cancel(job: Job | None, command: CancelRun, context: Context) -> Decision:
    """End a run: at once if it is not leased, else its worker is told with its next heartbeat."""
    refusal = _refusal(job, command, deleted_is_gone=False)
    if job is None or refusal is not None:
        return refusal or Decision()
    run = job.run(command.run_id)
    if run is None:
        closed = job.closed_run(command.run_id)
        if closed is None:
            return _answer(command, "not_found", detail="no such run is known", run_id=command.run_id)
        code: ReplyCode = "ok" if closed.outcome == "cancelled" else "gone"
        detail = "" if code == "ok" else f"the run ended: {closed.outcome}"
        reply = _reply(
            command, code, detail=detail, run_id=command.run_id, outcome=closed.outcome, replayed=code == "ok"
        )
        return Decision(reply=reply)
    draft = Draft(job, context)
    reason = command.reason[:NOTE_CHARS_MAX] or "user"
    cancel_run(draft, run, actor=command.actor[:ACTOR_CHARS_MAX], reason=reason)
    release_held(draft)
    finish_if_done(draft)
    outcome = "cancelled" if run.lease is None else ""
    reply = _reply(command, "ok", run_id=run.run_id, outcome=outcome, cancel=not outcome, replayed=not draft.events)
    return _close(draft, reply)


def skip_slot(job: Job | None, command: SkipSlot, context: Context) -> Decision:  # noqa: PLR0911 - one guard clause a refusal
    """Skip one named occurrence that is not open yet, and answer what that hit (C12d)."""
    refusal = _refusal(job, command)
    if job is None or refusal is not None:
        return refusal or Decision()
    state = job.state
    if command.expected_version and command.expected_version != state.version:
        detail = f"the job is at version {state.version}, not {command.expected_version}"
        return _answer(command, "version_conflict", detail=detail, version=state.version)
    run_id = run_id_at(command.job_id, command.at_ms)
    draft = Draft(job, context)
    settle_pause(draft)
    state = draft.state
    if state.next_at_ms is None or command.at_ms < state.next_at_ms:
        return _close(draft, _missed_slot(draft, command, run_id))
    if command.at_ms in state.skip_at_ms:
        next_at_ms = next_to_run_ms(draft.job, context)
        return _close(draft, _reply(command, "ok", run_id=run_id, count=1, next_at_ms=next_at_ms, replayed=True))
    found = next_after(draft.definition, context, command.at_ms - 1)
    if command.at_ms != state.next_at_ms and (found is None or found.at_ms != command.at_ms):
        nearest = None if found is None else found.at_ms
        detail = "at: the schedule has no occurrence at this instant; a preview shows those that it has"
        return _close(draft, _reply(command, "invalid", field="at", detail=detail, next_at_ms=nearest))
    actor = command.actor[:ACTOR_CHARS_MAX]
    if command.at_ms == state.next_at_ms and command.at_ms <= context.now_ms:
        record_dropped(draft)
        skip_until(draft, "requested", command.at_ms)
        finish_if_done(draft)
    elif len(state.skip_at_ms) >= SKIP_SLOTS_MAX:
        detail = f"{SKIP_SLOTS_MAX} slots wait to be skipped already; pause the job or use a calendar"
        return _close(draft, _reply(command, "quota", detail=detail))
    else:
        # The cursor stays until the slot's time: an edit in between must not lose what it puts before the slot.
        draft.emit(SlotSkipRequested(slot_at_ms=command.at_ms, actor=actor, at_ms=context.now_ms))
    return _close(draft, _reply(command, "ok", run_id=run_id, count=1, next_at_ms=next_to_run_ms(draft.job, context)))


def _missed_slot(draft: Draft, command: SkipSlot, run_id: str) -> Reply:
    """The slot lies behind the cursor: say what became of it instead of doing nothing silently."""
    if draft.job.run(run_id) is not None:
        detail = "the run is open already; cancel it instead"
        return _reply(command, "blocked", detail=detail, run_id=run_id, blocked_by=run_id)
    closed = draft.job.closed_run(run_id)
    if closed is not None:
        detail = f"the run ended: {closed.outcome}"
        return _reply(command, "gone", detail=detail, run_id=run_id, outcome=closed.outcome)
    detail = "the instant lies behind the next occurrence; it was decided or never scheduled"
    return _reply(command, "gone", detail=detail, next_at_ms=draft.state.next_at_ms)


def replay(job: Job | None, command: ReplayRun, context: Context) -> Decision:  # noqa: PLR0911 - one guard clause a refusal
    """Open a new run for a dead one, linked to it."""
    refusal = _refusal(job, command)
    if job is None or refusal is not None:
        return refusal or Decision()
    if SUFFIX_PATTERN.fullmatch(command.replay_id) is None or is_instant(command.replay_id):
        detail = "replay_id: 1 to 64 letters, digits, '.', ':' and '-', and not of the form of an instant"
        return _answer(command, "invalid", field="replay_id", detail=detail)
    run_id = run_id_named(command.job_id, command.replay_id)
    repeat = _known(job, command, run_id)
    if repeat is not None:
        return repeat
    dead = next((item for item in job.state.dead if item.run_id == command.run_id), None)
    if dead is None:
        return _not_dead(job, command)
    if dead.replays >= REPLAYS_MAX:
        detail = f"replayed {dead.replays} times already; trigger the job instead"
        return _answer(command, "too_many_replays", detail=detail, run_id=dead.run_id)
    if dead.payload_dropped:
        detail = "the dead run's own payload is not kept any more; trigger the job with it instead"
        return _answer(command, "gone", detail=detail, run_id=dead.run_id)
    draft = Draft(job, context)
    full = _no_room(draft, dead.payload)
    if full:
        return _answer(command, "too_many_open_runs", detail=full)
    _open_replay(draft, dead, run_id)
    return _close(draft, _reply(command, "created", run_id=run_id, next_at_ms=context.now_ms))


def _open_replay(draft: Draft, dead: ClosedRun, run_id: str) -> None:
    now_ms = draft.now_ms
    draft.emit(DeadRunReplayed(run_id=dead.run_id, at_ms=now_ms))
    draft.emit(
        RunOpened(
            run_id=run_id,
            kind="replay",
            scheduled_at_ms=dead.scheduled_at_ms,
            due_at_ms=now_ms,
            at_ms=now_ms,
            job_version=draft.state.version,
            lane=draft.definition.lane,
            next_at_ms=draft.state.next_at_ms,
            payload=dead.payload,
            replay_of=dead.run_id,
            replays=dead.replays + 1,
        )
    )


def _not_dead(job: Job, command: ReplayRun) -> Decision:
    closed = job.closed_run(command.run_id)
    if closed is not None:
        detail = f"the run is not dead: {closed.outcome}"
        if closed.outcome == "dead":
            detail = "the run was replayed already"
        return _answer(command, "gone", detail=detail, run_id=command.run_id, outcome=closed.outcome)
    if job.run(command.run_id) is not None:
        return _answer(command, "gone", detail="the run is open, not dead", run_id=command.run_id)
    return _answer(command, "not_found", detail="no such dead run is kept", run_id=command.run_id)


def start_backfill(job: Job | None, command: StartBackfill, context: Context) -> Decision:  # noqa: PLR0911 - one guard clause a refusal
    """Begin to open the past occurrences of a range, oldest first, in the low lane and at their own rate (C20)."""
    refusal = _refusal(job, command)
    if job is None or refusal is not None:
        return refusal or Decision()
    state = job.state
    if BACKFILL_ID_PATTERN.fullmatch(command.backfill_id) is None:
        detail = "backfill_id: 1 to 44 letters, digits, ':' and '-'"
        return _answer(command, "invalid", field="backfill_id", detail=detail)
    known = next((item for item in _backfills(job) if item.backfill_id == command.backfill_id), None)
    if known is not None:
        reply = _reply(command, "created", count=known.runs_total, next_at_ms=known.first_at_ms, replayed=True)
        return Decision(reply=reply)
    if command.from_ms > command.until_ms or command.until_ms > context.now_ms:
        detail = "until: must not lie before from, nor in the future; the schedule itself opens what is to come"
        return _answer(command, "invalid", field="until", detail=detail)
    if not 1 <= command.concurrent_runs_max <= context.open_runs_max:
        detail = f"concurrent_runs_max: 1 to {context.open_runs_max}"
        return _answer(command, "invalid", field="concurrent_runs_max", detail=detail)
    if not 0 <= command.interval_ms <= BACKFILL_INTERVAL_MS_MAX:
        detail = f"interval_ms: 0 to {BACKFILL_INTERVAL_MS_MAX}"
        return _answer(command, "invalid", field="interval_ms", detail=detail)
    if len(state.backfills) >= BACKFILLS_MAX:
        detail = f"{BACKFILLS_MAX} backfills of this job are going; wait for one, or stop it"
        return _answer(command, "quota", detail=detail)
    draft = Draft(job, context)
    settle_pause(draft)
    schedule = schedule_of(draft.definition, context)
    first = schedule.next_after(command.from_ms - 1)
    if first is None or first.at_ms > command.until_ms:
        return _close(draft, _reply(command, "invalid", field="from", detail="the range holds no occurrence"))
    count = schedule.count_between(command.from_ms - 1, command.until_ms)
    last = schedule.latest_in(command.from_ms - 1, command.until_ms)
    draft.emit(
        BackfillStarted(
            backfill_id=command.backfill_id,
            cursor_at_ms=first.at_ms,
            until_ms=command.until_ms,
            concurrent_runs_max=command.concurrent_runs_max,
            actor=command.actor[:ACTOR_CHARS_MAX],
            at_ms=context.now_ms,
            interval_ms=command.interval_ms,
            last_at_ms=(first if last is None else last).at_ms,
            runs_total=count,
        )
    )
    open_backfills(draft)
    return _close(draft, _reply(command, "created", count=count, next_at_ms=first.at_ms))


def _backfills(job: Job) -> tuple[Backfill, ...]:
    return (*job.state.backfills, *job.state.backfills_ended)


def stop_backfill(job: Job | None, command: StopBackfill, context: Context) -> Decision:
    """End a backfill; what it opened stays."""
    refusal = _refusal(job, command)
    if job is None or refusal is not None:
        return refusal or Decision()
    backfill = next((item for item in job.state.backfills if item.backfill_id == command.backfill_id), None)
    if backfill is None:
        if any(item.backfill_id == command.backfill_id for item in job.state.backfills_ended):
            return _answer(command, "ok", replayed=True)
        return _answer(command, "not_found", detail="no such backfill is going")
    draft = Draft(job, context)
    draft.emit(BackfillEnded(backfill_id=command.backfill_id, reason="stopped", at_ms=context.now_ms))
    finish_if_done(draft)
    return _close(draft, _reply(command, "ok", count=backfill.opened))


def _close(draft: Draft, reply: Reply) -> Decision:
    """End the decision: whatever it skipped or ended may have been the job's last."""
    finish_if_done(draft)
    return draft.decision(reply)


def _refusal(job: Job | None, command: Control, *, deleted_is_gone: bool = True) -> Decision | None:
    """Refuse what no control command may touch: nothing, another tenant's job, a deleted job."""
    if job is None:
        return _answer(command, "not_found", detail="no such job")
    if command.tenant and command.tenant != job.state.tenant:
        return _answer(command, "wrong_tenant", detail="the job belongs to another tenant")
    if deleted_is_gone and job.definition is None:
        return _answer(command, "gone", detail="the job was deleted")
    return None


def _known(job: Job, command: Trigger | ReplayRun, run_id: str) -> Decision | None:
    """Answer a repeat: the run that the first call opened is open or remembered."""
    run = job.run(run_id)
    if run is not None:
        return _answer(command, "created", run_id=run_id, next_at_ms=run.opened_at_ms, replayed=True)
    closed = job.closed_run(run_id)
    if closed is not None:
        # Of a trigger the scheduled instant is that of its opening, which the first answer named.
        opened_at_ms = closed.scheduled_at_ms if closed.kind == "trigger" else None
        return _answer(
            command, "created", run_id=run_id, next_at_ms=opened_at_ms, outcome=closed.outcome, replayed=True
        )
    return None


def _no_room(draft: Draft, payload: bytes | None) -> str:
    """Say why no further run fits; empty where one does."""
    state, bound = draft.state, draft.context.open_runs_max
    if len(state.open) >= bound:
        return f"{len(state.open)} runs of this job are open, at most {bound}; wait for some to end"
    if payload is None:
        return ""
    held_bytes = sum(len(run.payload) for run in state.open if run.payload is not None)
    if held_bytes + len(payload) > PAYLOADS_OPEN_BYTES_MAX:
        return f"open runs of this job carry {held_bytes} bytes of payload, at most {PAYLOADS_OPEN_BYTES_MAX}"
    return ""


def _answer(
    command: Control,
    code: ReplyCode,
    *,
    detail: str = "",
    field: str = "",
    run_id: str = "",
    version: int = 0,
    next_at_ms: int | None = None,
    outcome: str = "",
    replayed: bool = False,
) -> Decision:
    return Decision(
        reply=_reply(
            command,
            code,
            detail=detail,
            field=field,
            run_id=run_id,
            version=version,
            next_at_ms=next_at_ms,
            outcome=outcome,
            replayed=replayed,
        )
    )


def _reply(
    command: Control,
    code: ReplyCode,
    *,
    detail: str = "",
    field: str = "",
    run_id: str = "",
    version: int = 0,
    next_at_ms: int | None = None,
    outcome: str = "",
    replayed: bool = False,
    cancel: bool = False,
    blocked_by: str = "",
    count: int = 0,
) -> Reply:
    return Reply(
        code=code,
        job_id=command.job_id,
        detail=detail,
        field=field,
        run_id=run_id,
        version=version,
        next_at_ms=next_at_ms,
        outcome=outcome,
        replayed=replayed,
        cancel=cancel,
        blocked_by=blocked_by,
        count=count,
    )
