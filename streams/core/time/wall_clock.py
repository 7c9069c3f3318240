"""Local patterns on the zone's axis: rules R2, R3, R4 and R6 of DESIGN section 9.

Contract: pure; one object per (pattern, zone, policies). The zone is a row of segments with one offset each. A
segment owns a range
of local seconds; a gap lies before a segment that starts later than its predecessor ended, a repeated hour belongs
to two segments.
Elapsed patterns fire at every instant that matches; fixed ones lose one of the two passes and are shifted out of gaps.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from streams.core.time.civil import DAY_S, END_INSTANT_S, FIRST_INSTANT_S, local_text
from streams.core.time.specs import DROPPED_LISTED_MAX, DroppedSlot, GapPolicy, OverlapHour
from streams.core.time.zones import LONG_JUMP_S, ZoneRules

if TYPE_CHECKING:
    from streams.core.time.slots import LocalPattern, Slot

#: A note names at most this many merged slots; the rest is a number.
MERGED_NAMED_MAX = 4
#: More changes than any zone has within four days (a test walks all zones).
_CHANGES_IN_FOUR_DAYS_MAX = 4


class WallClockSlots:
    """The slots of a local pattern in a zone."""

    __slots__ = (
        "_hi",
        "_hi_plain",
        "_lo",
        "_lo_plain",
        "_offsets",
        "_shift",
        "_transitions",
        "elapsed",
        "pattern",
        "zone",
    )

    def __init__(
        self, pattern: LocalPattern, zone: ZoneRules, *, elapsed: bool, gap: GapPolicy, overlap_hour: OverlapHour
    ) -> None:
        self.pattern = pattern
        self.zone = zone
        self.elapsed = elapsed
        self._shift = gap == "shift" and not elapsed
        self._transitions = zone.transitions
        self._offsets = zone.offsets
        self._lo_plain, self._hi_plain = zone.lo_first, zone.hi_second
        self._lo = zone.lo_first if overlap_hour == "first" and not elapsed else zone.lo_all
        self._hi = zone.hi_second if overlap_hour == "second" and not elapsed else zone.hi_all

    def next_slot(self, after_ms: int) -> Slot | None:
        """Return the first slot after ``after_ms``."""
        after_s = after_ms // 1000
        if after_s < FIRST_INSTANT_S:
            after_s = FIRST_INSTANT_S - 1
        segment = bisect_right(self._transitions, after_s)
        offset = self._offsets[segment]
        floor = after_s + offset
        floor = max(floor, self._lo[segment] - 1)
        local = self.pattern.next_local(floor)
        if local is not None and self._lo_plain[segment] <= local < self._hi_plain[segment]:
            return ((local - offset) * 1000, (), ())
        return self._next_across(segment, floor, local)

    def _next_across(self, segment: int, floor: int, local: int | None) -> Slot | None:
        """Walk on over segment borders. ``local`` is the first match after ``floor``."""
        dropped: tuple[DroppedSlot, ...] = ()
        while True:
            if local is not None and local < self._hi[segment]:
                notes = self._pass_notes(segment, local)
                return ((local - self._offsets[segment]) * 1000, notes, dropped)
            segment += 1
            if segment == len(self._offsets):
                return None
            start = self._transitions[segment - 1]
            gap_from, gap_to = self.zone.gap_at(segment)
            if local is None and gap_to >= gap_from:
                return None
            if local is not None and gap_from <= local < gap_to:
                if self._shifts(gap_from, gap_to):
                    return (start * 1000, self._shift_notes(gap_from, gap_to), dropped)
                dropped += self._gap_records(gap_from, gap_to)
            # A match stays the next one unless this segment begins at or before what was searched already.
            low = self._lo[segment]
            if low <= floor or (local is not None and local < low):
                floor = low - 1
                local = self.pattern.next_local(floor)

    def previous_slot(self, before_ms: int) -> Slot | None:
        """Return the last slot before ``before_ms``."""
        last_s = min((before_ms - 1) // 1000, END_INSTANT_S - 1)
        if last_s < FIRST_INSTANT_S:
            return None
        segment = bisect_right(self._transitions, last_s)
        ceiling = min(last_s + self._offsets[segment] + 1, self._hi[segment])
        while True:
            local = self.pattern.previous_local(ceiling)
            if local is not None and local >= self._lo[segment]:
                notes = self._pass_notes(segment, local)
                if segment and local == self._lo[segment] and self._has_shifted(segment):
                    notes = self._shift_notes(*self.zone.gap_at(segment))
                return ((local - self._offsets[segment]) * 1000, notes, ())
            if segment == 0:
                return None
            if self._has_shifted(segment):
                return (self._transitions[segment - 1] * 1000, self._shift_notes(*self.zone.gap_at(segment)), ())
            segment -= 1
            if local is None and self._hi[segment] <= ceiling:
                return None
            ceiling = self._hi[segment]

    def count_slots(self, after_ms: int, until_ms: int) -> int:
        """Slots in ``(after_ms, until_ms]``: one count per segment of the zone, never a walk over slots."""
        first_s = max(after_ms // 1000 + 1, FIRST_INSTANT_S)
        end_s = min(until_ms // 1000 + 1, END_INSTANT_S)
        if end_s <= first_s:
            return 0
        first, last = bisect_right(self._transitions, first_s), bisect_right(self._transitions, end_s - 1)
        total = 0
        for segment in range(first, last + 1):
            low, high, offset = self._lo[segment], self._hi[segment], self._offsets[segment]
            if segment == first:
                low = max(low, first_s + offset)
            if segment == last:
                high = min(high, end_s + offset)
            if high > low:
                total += self.pattern.count_local(low, high)
            starts_inside = segment and self._transitions[segment - 1] >= first_s
            if starts_inside and self._has_shifted(segment) and not self._has(self._lo[segment]):
                total += 1
        return total

    def dropped_slots(self, after_ms: int, until_ms: int) -> tuple[DroppedSlot, ...]:
        """Slots without an instant, counted at the end of their gap."""
        first = bisect_right(self._transitions, after_ms // 1000)
        last = bisect_right(self._transitions, until_ms // 1000)
        dropped: tuple[DroppedSlot, ...] = ()
        for segment in range(first + 1, last + 1):
            gap_from, gap_to = self.zone.gap_at(segment)
            if gap_to > gap_from and not self._shifts(gap_from, gap_to):
                dropped += self._gap_records(gap_from, gap_to)
        return dropped

    def shift_ms(self, slot_ms: int) -> int:
        """How far the wall clock at a slot lies past the last local time that it stands for."""
        segment = bisect_right(self._transitions, slot_ms // 1000)
        local = slot_ms // 1000 + self._offsets[segment]
        if not segment or slot_ms // 1000 != self._transitions[segment - 1] or not self._has_shifted(segment):
            return 0
        own = self.pattern.previous_local(local + 1)
        return 0 if own is None else (local - own) * 1000

    def _shifts(self, gap_from: int, gap_to: int) -> bool:
        return self._shift and gap_to - gap_from < LONG_JUMP_S

    def _has(self, local: int) -> bool:
        return self.pattern.next_local(local - 1) == local

    def _has_shifted(self, segment: int) -> bool:
        """Whether a slot is shifted out of the gap before this segment."""
        gap_from, gap_to = self.zone.gap_at(segment)
        if gap_to <= gap_from or not self._shifts(gap_from, gap_to):
            return False
        local = self.pattern.next_local(gap_from - 1)
        return local is not None and local < gap_to

    def _gap_records(self, gap_from: int, gap_to: int) -> tuple[DroppedSlot, ...]:
        total = self.pattern.count_local(gap_from, gap_to)
        locals_ = _listed(self.pattern, gap_from, min(total, DROPPED_LISTED_MAX))
        records = [DroppedSlot(local=local_text(local), at_ms=None, reason="gap") for local in locals_]
        if total > len(records):
            folded = total - len(records) + 1
            records[-1] = DroppedSlot(local=records[-1].local, at_ms=None, reason="gap", count=folded)
        return tuple(records)

    def _shift_notes(self, gap_from: int, gap_to: int) -> tuple[str, ...]:
        total = self.pattern.count_local(gap_from, gap_to)
        locals_ = _listed(self.pattern, gap_from, min(total, MERGED_NAMED_MAX))
        names = ", ".join(local_text(local)[11:] for local in locals_)
        more = f" and {total - len(locals_)} more" if total > len(locals_) else ""
        notes: tuple[str, ...] = (f"shifted from {names}{more} (gap)",)
        at_end = self._has(gap_to)
        if total + at_end > 1:
            own = f" with the slot {local_text(gap_to)[11:]}" if at_end else ""
            notes += (f"merged {total + at_end} slots{own}",)
        return notes

    def _pass_notes(self, segment: int, local: int) -> tuple[str, ...]:
        if local >= self._hi_plain[segment]:
            return ("first pass",)
        if local < self._lo_plain[segment]:
            return ("second pass",)
        return ()


def _listed(pattern: LocalPattern, from_s: int, count: int) -> list[int]:
    """Return the first ``count`` matches from ``from_s`` on; the caller counted them."""
    found: list[int] = []
    at = from_s - 1
    while len(found) < count:
        following = pattern.next_local(at)
        if following is None:
            break
        found.append(following)
        at = following
    return found


def resolve_local(
    local_ms: int, zone: ZoneRules, *, gap: GapPolicy, overlap_hour: OverlapHour
) -> tuple[tuple[Slot, ...], tuple[tuple[int, DroppedSlot], ...]]:
    """Return the instants of one local time, and the dropped record with its place if there is none."""
    local_s, part_ms = divmod(local_ms, 1000)
    once = WallClockSlots(_Single(local_s), zone, elapsed=False, gap=gap, overlap_hour=overlap_hour)
    slots: list[Slot] = []
    # No zone is more than a day from UTC, and none jumps further than a day.
    found = once.next_slot((local_s - 2 * DAY_S) * 1000)
    while found is not None:
        at_ms, notes, _ = found
        shifted = bool(notes) and notes[0].startswith("shifted")
        slots.append((at_ms if shifted else at_ms + part_ms, notes, ()))
        found = once.next_slot(at_ms)
    places: list[tuple[int, DroppedSlot]] = []
    if not slots:
        near = bisect_right(zone.transitions, local_s - 2 * DAY_S)
        for transition in zone.transitions[near : near + _CHANGES_IN_FOUR_DAYS_MAX]:
            at_ms = transition * 1000
            places += [(at_ms, record) for record in once.dropped_slots(at_ms - 1, at_ms)]
    return tuple(slots), tuple(places)


class _Single:
    """A pattern of one local second."""

    def __init__(self, local_s: int) -> None:
        self._local_s = local_s

    def next_local(self, local_s: int) -> int | None:
        return self._local_s if local_s < self._local_s else None

    def previous_local(self, local_s: int) -> int | None:
        return self._local_s if local_s > self._local_s else None

    def count_local(self, from_s: int, to_s: int) -> int:
        return int(from_s <= self._local_s < to_s)
