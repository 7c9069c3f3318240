"""The open cursor when what it was computed from changes: the zone data, or a calendar that the job names.

It is recomputed once, in an event that says from where to where (CursorMoved). What is due already is judged by the
calendars of the moment, as pause and overlap are; what passed while a calendar excluded it stays skipped, whatever
becomes of the calendar. A job whose calendars exclude all that is left waits for them to change and does not finish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from streams.core.decide_schedule import next_after, schedule_of, without_calendars
from streams.core.events import CursorMoved, CursorNoted, OccurrencesSkipped
from streams.core.time import recompute_cursor

if TYPE_CHECKING:
    from streams.core.decide_draft import Draft
    from streams.core.time import Occurrence


def note_cursor(draft: Draft, occurrence: Occurrence | None) -> None:
    """Keep what is irregular about the new cursor, so that no schedule is computed again to tell it."""
    if occurrence is not None and (occurrence.notes or occurrence.dropped):
        draft.emit(
            CursorNoted(
                next_at_ms=occurrence.at_ms,
                notes=occurrence.notes,
                dropped=occurrence.dropped,
                at_ms=draft.now_ms,
            )
        )


def move_cursor_for_zone_data(draft: Draft) -> None:
    """Recompute an open cursor once when the zone data changed. An occurrence that is due already is left alone."""
    state, context, definition = draft.state, draft.context, draft.definition
    if state.next_at_ms is None or state.zone_data == context.zone_data.version or state.next_at_ms <= draft.now_ms:
        return
    new = schedule_of(definition, context)
    before = context.zone_data_before.get(state.zone_data)
    old = new if before is None else schedule_of(definition, context, before)
    move = recompute_cursor(old, new, state.next_at_ms, state.decided_to_ms)
    to_ms = state.next_at_ms if move is None else move.to_ms
    draft.emit(
        CursorMoved(
            from_at_ms=state.next_at_ms,
            to_at_ms=to_ms,
            zone_data_from=state.zone_data,
            zone_data_to=context.zone_data.version,
            at_ms=draft.now_ms,
            calendars_from=state.calendars,
            calendars_to=state.calendars,
        )
    )
    if to_ms is None:
        return
    # Slots dropped since what is decided belong to the cursor, if nothing else lies between them.
    for found in (new.next_after(state.decided_to_ms), new.next_after(to_ms - 1)):
        if found is not None and found.at_ms == to_ms:
            note_cursor(draft, found)
            return


def follow_calendars(draft: Draft) -> None:
    """Recompute the cursor once if a calendar that the job names is another one now."""
    definition = draft.job.definition
    if definition is None or not definition.calendars or draft.state.status != "active":
        return
    used = draft.context.calendars.used_by(definition)
    if draft.state.calendars == used:
        return
    move_cursor_for_zone_data(draft)
    from_ms, floor_ms, decided_to_ms = draft.state.next_at_ms, _floor_ms(draft), 0
    found: Occurrence | None = None
    if not _used_up(draft):
        decided_to_ms = _record_excluded(draft, floor_ms)
        found = next_after(definition, draft.context, floor_ms)
    draft.emit(
        CursorMoved(
            from_at_ms=from_ms,
            to_at_ms=None if found is None else found.at_ms,
            zone_data_from=draft.state.zone_data,
            zone_data_to=draft.state.zone_data,
            at_ms=draft.now_ms,
            calendars_from=draft.state.calendars,
            calendars_to=used,
            decided_to_ms=decided_to_ms,
        )
    )
    note_cursor(draft, found)


def settle_excluded(draft: Draft) -> None:
    """Record what calendars excluded up to now, where they left no cursor that would record it when its time comes."""
    state = draft.state
    if state.next_at_ms is not None or _used_up(draft):
        return
    decided_to_ms = _record_excluded(draft, draft.now_ms)
    if decided_to_ms:
        draft.emit(
            CursorMoved(
                from_at_ms=None,
                to_at_ms=None,
                zone_data_from=state.zone_data,
                zone_data_to=state.zone_data,
                at_ms=draft.now_ms,
                calendars_from=state.calendars,
                calendars_to=state.calendars,
                decided_to_ms=decided_to_ms,
            )
        )


def waits_for_calendars(draft: Draft) -> bool:
    """Tell whether occurrences are left of which calendars exclude every one: a change of them may bring some back."""
    if _used_up(draft):
        return False
    bare = without_calendars(draft.definition, draft.context)
    return bare.next_after(max(draft.now_ms, draft.state.decided_to_ms)) is not None


def _used_up(draft: Draft) -> bool:
    max_runs = draft.definition.max_runs
    return bool(max_runs) and draft.state.occurrences_total >= max_runs


def _floor_ms(draft: Draft) -> int:
    """Return the last instant that a change of calendars leaves alone: all before the cursor that has passed."""
    state = draft.state
    floor_ms = max(state.decided_to_ms, draft.now_ms)
    return floor_ms if state.next_at_ms is None else min(floor_ms, state.next_at_ms - 1)


def _record_excluded(draft: Draft, until_ms: int) -> int:
    """Record the occurrences that passed up to `until_ms` because calendars excluded them; 0 where there are none.

    Between what is decided and the cursor nothing else lies. Returns up to where everything has its record now.
    """
    state = draft.state
    if until_ms <= state.decided_to_ms:
        return 0
    bare = without_calendars(draft.definition, draft.context)
    first, last = bare.next_after(state.decided_to_ms), bare.latest_in(state.decided_to_ms, until_ms)
    gaps = bare.dropped_between(state.decided_to_ms, until_ms)
    for slot in gaps:
        at_ms = until_ms if slot.at_ms is None else slot.at_ms
        _skip_dropped(draft, slot.reason, at_ms, at_ms, slot.count, local=slot.local)
    if first is not None and last is not None:
        count = bare.count_between(state.decided_to_ms, until_ms)
        _skip_dropped(draft, "calendar", first.at_ms, last.at_ms, count)
    return until_ms if gaps or last is not None else 0


def _skip_dropped(
    draft: Draft, reason: Literal["gap", "calendar"], first_ms: int, last_ms: int, count: int, *, local: str = ""
) -> None:
    draft.emit(
        OccurrencesSkipped(
            reason=reason,
            first_at_ms=first_ms,
            last_at_ms=last_ms,
            count=count,
            at_ms=draft.now_ms,
            next_at_ms=draft.state.next_at_ms,
            local=local,
        )
    )
