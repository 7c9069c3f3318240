"""What every kind of schedule answers before windows, calendars and jitter: a source of slots.

Contract: instants are ms; ``after`` is exclusive, ``until`` inclusive. A slot is ``(instant, notes, dropped)``.
"""

from __future__ import annotations

from typing import Protocol

from streams.core.time.civil import END_INSTANT_S, FIRST_INSTANT_S
from streams.core.time.specs import DroppedSlot

Slot = tuple[int, tuple[str, ...], tuple[DroppedSlot, ...]]

FIRST_INSTANT_MS = FIRST_INSTANT_S * 1000
END_INSTANT_MS = END_INSTANT_S * 1000


class LocalPattern(Protocol):
    """A set of local seconds that can be stepped and counted without walking it."""

    def next_local(self, local_s: int) -> int | None:
        """Return the first match after ``local_s``."""

    def previous_local(self, local_s: int) -> int | None:
        """Return the last match before ``local_s``."""

    def count_local(self, from_s: int, to_s: int) -> int:
        """Count matches in ``[from_s, to_s)``."""


class SlotSource(Protocol):
    """A set of instants, strictly ordered."""

    elapsed: bool

    def next_slot(self, after_ms: int) -> Slot | None:
        """Return the first slot after ``after_ms``."""

    def previous_slot(self, before_ms: int) -> Slot | None:
        """Return the last slot before ``before_ms``; its dropped part is empty."""

    def count_slots(self, after_ms: int, until_ms: int) -> int:
        """Slots in ``(after_ms, until_ms]``."""

    def dropped_slots(self, after_ms: int, until_ms: int) -> tuple[DroppedSlot, ...]:
        """Slots that the zone rules drop at an instant in ``(after_ms, until_ms]``."""

    def shift_ms(self, slot_ms: int) -> int:
        """How far the wall clock at a slot lies past the slot's own local time; over 0 if it was shifted from a gap."""


class IntervalSlots:
    """``anchor + k * every`` for k >= 0, in closed form."""

    elapsed = True

    def __init__(self, every_ms: int, anchor_ms: int) -> None:
        self.every_ms = every_ms
        self.anchor_ms = anchor_ms

    def next_slot(self, after_ms: int) -> Slot | None:
        """Return the first slot after ``after_ms``."""
        step = max((after_ms - self.anchor_ms) // self.every_ms + 1, 0)
        slot = self.anchor_ms + step * self.every_ms
        return None if slot >= END_INSTANT_MS else (slot, (), ())

    def previous_slot(self, before_ms: int) -> Slot | None:
        """Return the last slot before ``before_ms``."""
        step = (min(before_ms, END_INSTANT_MS) - 1 - self.anchor_ms) // self.every_ms
        return None if step < 0 else (self.anchor_ms + step * self.every_ms, (), ())

    def count_slots(self, after_ms: int, until_ms: int) -> int:
        """Slots in ``(after_ms, until_ms]``."""
        last = (min(until_ms, END_INSTANT_MS - 1) - self.anchor_ms) // self.every_ms
        first = max((after_ms - self.anchor_ms) // self.every_ms + 1, 0)
        return max(last - first + 1, 0)

    def dropped_slots(self, after_ms: int, until_ms: int) -> tuple[DroppedSlot, ...]:  # noqa: ARG002 - protocol
        """Nothing: an interval meets no zone."""
        return ()

    def shift_ms(self, slot_ms: int) -> int:  # noqa: ARG002 - protocol
        """Nothing: an interval meets no zone."""
        return 0


class InstantSlots:
    """A short, fixed list of slots: one-off schedules."""

    elapsed = False

    def __init__(self, slots: tuple[Slot, ...], dropped: tuple[tuple[int, DroppedSlot], ...] = ()) -> None:
        self._slots = slots
        self._dropped = dropped

    def next_slot(self, after_ms: int) -> Slot | None:
        """Return the first slot after ``after_ms``."""
        return next((slot for slot in self._slots if slot[0] > after_ms), None)

    def previous_slot(self, before_ms: int) -> Slot | None:
        """Return the last slot before ``before_ms``."""
        return next((slot for slot in reversed(self._slots) if slot[0] < before_ms), None)

    def count_slots(self, after_ms: int, until_ms: int) -> int:
        """Slots in ``(after_ms, until_ms]``."""
        return sum(after_ms < slot[0] <= until_ms for slot in self._slots)

    def dropped_slots(self, after_ms: int, until_ms: int) -> tuple[DroppedSlot, ...]:
        """Return the slot that fell into a gap, at the end of that gap."""
        return tuple(record for at, record in self._dropped if after_ms < at <= until_ms)

    def shift_ms(self, slot_ms: int) -> int:  # noqa: ARG002 - protocol
        """Nothing: a one-off has no neighbour that it could be taken for."""
        return 0
