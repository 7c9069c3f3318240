"""A change of the zone-data version: what becomes of the open cursor of a job (issue 5, item 5; A60, A61).

Contract: pure. The owner calls ``recompute_cursor`` once a job and version change, and records the move as an event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from streams.core.time.schedule import Schedule
    from streams.core.time.specs import Occurrence


#: No correction of the zone database moves an instant further than over the date line.
_OFFSET_MOVE_MAX_MS = 26 * 3_600_000


class CursorMove(msgspec.Struct, frozen=True):
    """The open occurrence moved. ``to_ms`` None means that nothing follows under the new data."""

    from_ms: int | None
    to_ms: int | None
    from_local: str
    to_local: str
    from_version: str
    to_version: str


def recompute_cursor(old: Schedule, new: Schedule, cursor_at_ms: int | None, after_ms: int) -> CursorMove | None:
    """Return the move of a cursor from ``old`` to ``new`` zone data, or None if the occurrence stays.

    ``cursor_at_ms`` is the next occurrence not yet opened, ``after_ms`` the last instant that is settled (the last
    opened occurrence, or the job's creation); the cursor always lies after it. The cursor stays on its slot, that is on
    its local time, and only the instant moves: a slot that ran under the old data does not run again when the new data
    puts it later or shifts it out of a gap, and one that the new data puts into the past is due at once, never lost.
    Where the new instant is one that is settled, the cursor's slot keeps its old instant, unless the new data has an
    occurrence before that. When the old data is not at hand, pass ``new`` as ``old``: the cursor is then taken from
    ``after_ms`` alone, which loses nothing but can repeat a slot that moved later.
    """
    from_settled = old.elapsed or old is new
    found = new.next_after(after_ms) if from_settled else _same_slot(old, new, cursor_at_ms, after_ms)
    to_ms = None if found is None else found.at_ms
    if to_ms == cursor_at_ms:
        return None
    return CursorMove(
        from_ms=cursor_at_ms,
        to_ms=to_ms,
        from_local="" if cursor_at_ms is None else old.local_text(cursor_at_ms),
        to_local="" if to_ms is None else new.local_text(to_ms),
        from_version=old.zone_data.version,
        to_version=new.zone_data.version,
    )


def _same_slot(old: Schedule, new: Schedule, cursor_at_ms: int | None, after_ms: int) -> Occurrence | None:
    """Return the first occurrence under the new data whose local time lies past the slot before the cursor."""
    cursor = None if cursor_at_ms is None else old.previous_before(cursor_at_ms + 1)
    if cursor is not None and cursor.at_ms != cursor_at_ms:
        # ``old`` did not make this cursor (its data is gone): the slot before it may be the cursor's own, moved.
        return new.next_after(after_ms)
    settled = old.previous_before(after_ms + 1 if cursor_at_ms is None else cursor_at_ms)
    if settled is None:
        return new.next_after(after_ms)
    local_settled = old.slot_local_ms(settled.slot_ms)
    if cursor is not None and old.slot_local_ms(cursor.slot_ms) <= local_settled:
        # The cursor is the second pass of the settled local time (overlapHour both): local time cannot tell them apart.
        return new.next_after(after_ms)
    found = new.next_after(settled.at_ms - _OFFSET_MOVE_MAX_MS)
    while found is not None and new.slot_local_ms(found.slot_ms) <= local_settled:
        found = new.next_after(found.at_ms)
    if found is None or found.at_ms > after_ms:
        return found
    later = new.next_after(after_ms)
    return cursor if later is None or (cursor is not None and cursor.at_ms < later.at_ms) else later
