"""Open or skip what is due: catch-up, start deadline, overlap, pause and the open-run bound, judged on live state.

Every function works on a `Draft`. The cursor moves on every outcome, and ranges are skipped as one event with a
count, never by walking (C05). What the open-run bound holds back stays implied by the cursor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core import rate_guard
from streams.core.decide_cursor import follow_calendars, note_cursor
from streams.core.decide_draft import Draft, cancel_run
from streams.core.decide_schedule import calendars_missing, next_after, schedule_of
from streams.core.events import (
    BackfillEnded,
    BackfillMoved,
    JobResumed,
    OccurrencesMissed,
    OccurrencesSkipped,
    RunOpened,
)
from streams.core.identity import run_id_at, run_id_of_backfill
from streams.core.overlap import backfill_can_open, backfill_due_ms, concurrency_limit, live_runs

if TYPE_CHECKING:
    from streams.core.state import Backfill, JobState, OpenRun, SkipReason
    from streams.core.time import Occurrence

STEPS_PER_DECISION_MAX = 64
"""Openings and range skips of one decision: about as many events as one transaction of a busy owner takes in anyway.
What is left is due at once and follows in the next decision."""


def is_due(state: JobState, now_ms: int) -> bool:
    """Tell whether the cursor's occurrence is due: never before its instant (I1)."""
    next_at_ms = state.next_at_ms
    return next_at_ms is not None and next_at_ms <= now_ms and state.pause is None and state.status == "active"


def open_due(draft: Draft, *, by_catch_up: bool = True) -> None:
    """Open or skip what is due, oldest first, up to the open-run bound and STEPS_PER_DECISION_MAX.

    `by_catch_up` False is for a job that was created in this very decision: it has missed nothing.
    """
    for _ in range(STEPS_PER_DECISION_MAX):
        if not is_due(draft.state, draft.now_ms) or len(draft.state.open) >= draft.context.open_runs_max:
            return
        if rate_guard.trips(draft.state):
            rate_guard.hold(draft)
            return
        record_dropped(draft)
        _decide_next(draft, by_catch_up=by_catch_up)


def _decide_next(draft: Draft, *, by_catch_up: bool) -> None:
    """Give the occurrence at the cursor, and what falls with it, one outcome."""
    at_ms = draft.state.next_at_ms
    if at_ms is None:
        return
    definition = draft.definition
    if at_ms in draft.state.skip_at_ms:
        skip_until(draft, "requested", at_ms)
    elif definition.start_deadline_ms and at_ms + definition.start_deadline_ms <= draft.now_ms:
        skip_until(draft, "start_deadline", draft.now_ms - definition.start_deadline_ms)
    elif by_catch_up and _is_missed(draft, at_ms):
        _catch_up(draft, at_ms)
    else:
        _judge_overlap(draft, at_ms, missed=False)


def _is_missed(draft: Draft, at_ms: int) -> bool:
    context = draft.context
    if at_ms < draft.state.missed_until_ms:
        return True
    return context.absent_from_ms <= at_ms < context.absent_to_ms


def _catch_up(draft: Draft, at_ms: int) -> None:
    """One occurrence that fell due while nobody was there (DESIGN section 6, "Missed")."""
    policy = draft.definition.catch_up
    missed_until_ms = max(draft.state.missed_until_ms, draft.context.absent_to_ms)
    until_ms = min(missed_until_ms - 1, draft.now_ms)
    if policy == "none":
        skip_until(draft, "catch_up", until_ms)
        return
    following = next_after(draft.definition, draft.context, at_ms)
    if following is not None and following.at_ms <= until_ms:
        if policy == "latest":
            last = schedule_of(draft.definition, draft.context).latest_in(at_ms, until_ms)
            skip_until(draft, "catch_up", (following if last is None else last).at_ms - 1)
            return
        if missed_until_ms > draft.state.missed_until_ms:
            draft.emit(OccurrencesMissed(until_ms=missed_until_ms, at_ms=draft.now_ms))
    _judge_overlap(draft, at_ms, missed=True)


def _judge_overlap(draft: Draft, at_ms: int, *, missed: bool) -> None:
    """Open, hold or skip one due occurrence by the overlap policy."""
    definition = draft.definition
    live = live_runs(draft.state)
    if len(live) < concurrency_limit(definition, draft.context.open_runs_max):
        open_next(draft, at_ms, held=False, missed=missed)
    elif definition.overlap == "queue" or (missed and definition.catch_up == "all"):
        # `all` promises each missed run: they wait for each other whatever the policy for runs in time is.
        open_next(draft, at_ms, held=True, missed=missed)
    elif definition.overlap == "replace":
        replace_live(draft, live)
        open_next(draft, at_ms, held=bool(live_runs(draft.state)), missed=missed)
    else:
        skip_until(draft, "overlap", draft.now_ms, blocked_by=live[0].run_id)


def replace_live(draft: Draft, live: list[OpenRun]) -> None:
    """Cancel what a newer run takes the place of; leased ones stay live until their workers have stopped."""
    for run in live:
        cancel_run(draft, run, actor="", reason="replaced")


def open_next(draft: Draft, at_ms: int, *, held: bool, missed: bool) -> None:
    """Open the occurrence at the cursor and move the cursor behind it."""
    state, definition = draft.state, draft.definition
    following: Occurrence | None = None
    if not definition.max_runs or state.occurrences_total + 1 < definition.max_runs:
        following = next_after(definition, draft.context, at_ms)
    notes = state.next_notes
    if definition.calendars:
        notes += tuple(f"calendar {name} is missing" for name in calendars_missing(definition, draft.context))
    draft.emit(
        RunOpened(
            run_id=run_id_at(state.job_id, at_ms),
            kind="schedule",
            scheduled_at_ms=at_ms,
            due_at_ms=at_ms,
            at_ms=draft.now_ms,
            job_version=state.version,
            lane=definition.lane,
            held=held,
            next_at_ms=None if following is None else following.at_ms,
            notes=notes,
            missed=missed,
        )
    )
    note_cursor(draft, following)


def skip_until(draft: Draft, reason: SkipReason, until_ms: int, *, blocked_by: str = "") -> None:
    """Skip from the cursor to the last occurrence at or before `until_ms`, as one event.

    Slots inside the range that have no instant or that a calendar excludes are counted in it, by reason (R8).
    """
    first_ms = draft.state.next_at_ms
    if first_ms is None:
        return
    following = next_after(draft.definition, draft.context, first_ms)
    last_ms, count = first_ms, 1
    dropped_gap = dropped_calendar = 0
    if following is not None and following.at_ms <= until_ms:
        schedule = schedule_of(draft.definition, draft.context)
        last = schedule.latest_in(first_ms, until_ms)
        last_ms = following.at_ms if last is None else last.at_ms
        count = 1 + schedule.count_between(first_ms, last_ms)
        following = schedule.next_after(last_ms)
        dropped_gap, dropped_calendar = schedule.count_dropped(first_ms, last_ms)
    draft.emit(
        OccurrencesSkipped(
            reason=reason,
            first_at_ms=first_ms,
            last_at_ms=last_ms,
            count=count,
            at_ms=draft.now_ms,
            next_at_ms=None if following is None else following.at_ms,
            blocked_by=blocked_by,
            dropped_gap=dropped_gap,
            dropped_calendar=dropped_calendar,
        )
    )
    note_cursor(draft, following)


def record_dropped(draft: Draft) -> None:
    """Record the slots before the cursor that the rules of time or a calendar drop (R8)."""
    for slot in draft.state.next_dropped:
        at_ms = slot.at_ms if slot.at_ms is not None else draft.state.next_at_ms or draft.now_ms
        draft.emit(
            OccurrencesSkipped(
                reason=slot.reason,
                first_at_ms=at_ms,
                last_at_ms=at_ms,
                count=slot.count,
                at_ms=draft.now_ms,
                next_at_ms=draft.state.next_at_ms,
                local=slot.local,
            )
        )


def skip_paused(draft: Draft, until_ms: int) -> None:
    """Record what fell due during the pause, up to `until_ms` (inclusive), as one range: none of it runs (C02)."""
    next_at_ms = draft.state.next_at_ms
    if next_at_ms is not None and next_at_ms <= until_ms:
        record_dropped(draft)
        skip_until(draft, "paused", until_ms)


def settle_pause(draft: Draft) -> None:
    """End a pause whose time is over. From its end on, occurrences are due like any other.

    Every decision about what is due begins here, so this is where changed calendars are followed first.
    """
    follow_calendars(draft)
    pause = draft.state.pause
    if pause is None or not pause.until_ms or draft.now_ms < pause.until_ms:
        return
    skip_paused(draft, pause.until_ms - 1)
    draft.emit(JobResumed(actor=pause.actor, note="until", at_ms=draft.now_ms, next_at_ms=draft.state.next_at_ms))


def open_backfills(draft: Draft) -> None:
    """Open the next slots of each backfill, as far as its own limit, its rate and the open-run bound go."""
    steps = STEPS_PER_DECISION_MAX
    for backfill in draft.state.backfills:
        current: Backfill | None = backfill
        while current is not None and steps > 0:
            if not backfill_can_open(draft.state, current, draft.context.open_runs_max):
                break
            if backfill_due_ms(current) > draft.now_ms:
                break
            _open_backfill_slot(draft, current)
            steps -= 1
            current = next((item for item in draft.state.backfills if item.backfill_id == backfill.backfill_id), None)


def _open_backfill_slot(draft: Draft, backfill: Backfill) -> None:
    """Open one slot. The cursor is read under the definition of now: an edit may have removed the slot."""
    state, definition = draft.state, draft.definition
    slot = next_after(definition, draft.context, backfill.cursor_at_ms - 1)
    if slot is None or slot.at_ms > backfill.until_ms:
        draft.emit(BackfillEnded(backfill_id=backfill.backfill_id, reason="completed", at_ms=draft.now_ms))
        return
    draft.emit(
        RunOpened(
            run_id=run_id_of_backfill(state.job_id, backfill.backfill_id, slot.at_ms),
            kind="backfill",
            scheduled_at_ms=slot.at_ms,
            due_at_ms=slot.at_ms,
            at_ms=draft.now_ms,
            job_version=state.version,
            lane="low",
            notes=slot.notes,
        )
    )
    following = next_after(definition, draft.context, slot.at_ms)
    ended = following is None or following.at_ms > backfill.until_ms
    draft.emit(
        BackfillMoved(
            backfill_id=backfill.backfill_id,
            cursor_at_ms=None if following is None or ended else following.at_ms,
            at_ms=draft.now_ms,
        )
    )
