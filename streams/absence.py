"""When a partition had no working owner, and how its next owners come to know.

Occurrences that fell due in such a time are *missed* ones, and catch-up decides about them (DESIGN section 6). An
owner that
takes over after a gap may lose the partition again before it has worked the backlog off, so the absence is not
derived from the
last marker alone: every marker carries the newest one on. A take-over's first marker cannot: the gap ends with its
own append,
which it does not know. It carries the predecessor's last marker time instead, and readers add the append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from streams.core.envelopes import Marker

JOINED_MS: Final = 600_000
"""Absences this close to each other are one: an owner that worked for less may not have worked the first one off."""


class Absence(NamedTuple):
    """From the last sign of an owner to the first of the next, exclusive; broker time. 0, 0 is none."""

    from_ms: int = 0
    to_ms: int = 0


NO_ABSENCE: Final = Absence()


def after_gap(absence: Absence, last_marker_ms: int, now_ms: int, missed_gap_ms: int) -> Absence:
    """Return the newest absence, given that nothing was heard from `last_marker_ms` (0: ever before) to `now_ms`."""
    if not last_marker_ms or now_ms - last_marker_ms <= missed_gap_ms:
        return absence
    joined = absence.to_ms and last_marker_ms - absence.to_ms <= JOINED_MS
    return Absence(absence.from_ms if joined else last_marker_ms, now_ms)


def told_by(marker: Marker, appended_at_ms: int, missed_gap_ms: int) -> Absence:
    """Return the absence that a marker tells of."""
    absence = Absence(marker.absent_from_ms, marker.absent_to_ms)
    return after_gap(absence, marker.previous_marker_ms, appended_at_ms, missed_gap_ms)
