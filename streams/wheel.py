"""A hierarchical timing wheel: the deadlines of the next half minute, one per job.

It holds what the due index said is near (DESIGN section 6, "Wheel"). Insert, move and cancel cost the same
whatever the number of jobs; an advance costs the slots that it passes and the entries that it finds there,
and never more than every slot once, however far the clock jumped. It never hands out a job before its
deadline: a slot is only where a deadline is kept, the comparison is exact. It has no clock; `now_ms` is the
broker's time as the owner estimates it.

**How it works, in numbers.** Ticks are 10 ms. Level 0 has 64 slots of one tick, level 1 has 64 slots of 64
ticks (640 ms), together 41 s. The wheel stands at 1,000 ms, which is tick 100; three jobs are put:

    a  due 1,013 ms   tick 101,    1 ahead   level 0, slot 101 mod 64 = 37
    b  due 1,017 ms   tick 101,    1 ahead   level 0, slot 37, beside a
    c  due 1,700 ms   tick 170,   70 ahead   level 1: tick 170 is in block 170 // 64 = 2, so slot 2

1. `advance(1_009)`: still tick 100, whose slot is empty. Nothing.
2. `advance(1_015)`: tick 101. Slot 37 is emptied: a is due and goes out; b has 2 ms left and goes back into
   slot 37. Had the wheel trusted its slot, b would have been early.
3. `advance(1_285)`: tick 128. Slots 101 to 128 are emptied: b goes out, 268 ms late because the caller
   slept. Tick 128 also begins block 2, so slot 2 of level 1 is emptied: c is 42 ticks ahead now and moves to
   level 0, slot 170 mod 64 = 42. It goes out at the first advance to 1,700 or later.

**The clock may go back.** The wheel's own position does not, since the slots behind it are gone. An entry
that is put with a deadline at or before the position waits in a list of its own and is compared with
`now_ms` like all others: so nothing is early, and nothing waits for the clock to come back to where it
was. After a large step the owner calls `rewind`, which lays everything out anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOT_MS: Final = 10
"""A tenth of what a person notices, and a run's whole way takes longer."""
HORIZON_MS: Final = 30_000
"""What is due within half a minute is in memory when it is due; everything else costs disk, not memory."""
_BITS: Final = 6
_SLOTS: Final = 1 << _BITS
_MASK: Final = _SLOTS - 1

_Slot = dict[str, int]


class TimingWheel:
    """Deadlines in milliseconds by job id, one for each."""

    def __init__(self, now_ms: int, *, horizon_ms: int = HORIZON_MS, slot_ms: int = SLOT_MS) -> None:
        """Start at `now_ms`. Raises ValueError unless 0 < `slot_ms` <= `horizon_ms`."""
        if not 0 < slot_ms <= horizon_ms:
            raise ValueError(f"slot_ms {slot_ms} and horizon_ms {horizon_ms} make no wheel")
        self._slot_ms = slot_ms
        self._horizon_ms = horizon_ms
        levels = 1
        while _SLOTS**levels <= horizon_ms // slot_ms + 1:
            levels += 1
        self._levels: list[list[_Slot]] = [[{} for _ in range(_SLOTS)] for _ in range(levels)]
        self._used: list[int] = [0] * levels
        """A bit for each slot of a level that may hold something: a wheel with little in it is passed over at once.
        Set by what goes in, cleared by who finds the slot empty."""
        self._overdue: _Slot = {}
        self._slot_of: dict[str, _Slot] = {}
        self._now_ms = now_ms
        self._tick = now_ms // slot_ms

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, key: object) -> bool:
        return key in self._slot_of

    @property
    def now_ms(self) -> int:
        """The latest time that the wheel was advanced to."""
        return self._now_ms

    @property
    def horizon_end_ms(self) -> int:
        """The last deadline that `put` would take now: how far to fill from the due index."""
        return self._now_ms + self._horizon_ms

    def put(self, key: str, deadline_ms: int) -> bool:
        """Insert `key`, or move it to `deadline_ms`. A deadline that has passed goes out at the next advance.

        False if the deadline lies beyond the horizon: the key is then not in the wheel, whether it was
        before or not, and the due index alone remembers it.
        """
        old = self._slot_of.get(key)
        if old is not None:
            del old[key]
        if deadline_ms > self._now_ms + self._horizon_ms:
            if old is not None:
                del self._slot_of[key]
            return False
        self._place(key, deadline_ms)
        return True

    def cancel(self, key: str) -> bool:
        """Remove `key`. False if it was not there."""
        slot = self._slot_of.pop(key, None)
        if slot is None:
            return False
        del slot[key]
        return True

    def deadline_of(self, key: str) -> int | None:
        """Give the deadline of `key`, if it is in the wheel."""
        slot = self._slot_of.get(key)
        return None if slot is None else slot[key]

    def advance(self, now_ms: int) -> list[tuple[int, str]]:
        """Take out every entry with deadline <= `now_ms`, in order of (deadline, key).

        If `now_ms` is not after the wheel's own time, only entries put with a deadline already passed
        can go out, and they are compared with `now_ms` too.
        """
        expired: list[tuple[int, str]] = []
        if self._overdue:
            self._take_due(self._overdue, now_ms, expired)
        if now_ms > self._now_ms:
            passed = self._pass_slots(now_ms // self._slot_ms)
            self._now_ms = now_ms
            for key, deadline_ms in passed:
                if deadline_ms <= now_ms:
                    del self._slot_of[key]
                    expired.append((deadline_ms, key))
                else:
                    self._place(key, deadline_ms)
        expired.sort()
        return expired

    def next_deadline_ms(self) -> int | None:
        """Give a time to sleep until: never after the earliest deadline. None if the wheel is empty.

        It may be earlier than the deadline (the start of its slot, or of its block on a higher level): an
        `advance` then finds nothing and brings the deadline nearer. It is after the wheel's own time
        unless a passed deadline waits, so sleeping on it never spins.
        """
        if not self._slot_of:
            return None
        if self._overdue:
            return min(self._overdue.values())
        current = self._levels[0][self._tick & _MASK]
        if current:
            return min(current.values())
        starts = []
        for level, slots in enumerate(self._levels):
            shift = level * _BITS
            for number in self._used_from(level, (self._tick >> shift) + 1):
                if slots[number & _MASK]:
                    starts.append((number << shift) * self._slot_ms)
                    break
                self._used[level] &= ~(1 << (number & _MASK))
        return min(starts)

    def rewind(self, now_ms: int) -> list[str]:
        """Lay everything out anew at `now_ms`, after the clock was set back.

        Gives the keys that lie beyond the new horizon; they are no longer in the wheel. Costs one step
        for each entry, so it is for steps and not for jitter. The owner fills from the due index again.
        """
        entries = [(key, slot[key]) for key, slot in self._slot_of.items()]
        for slot in (self._overdue, *(slot for level in self._levels for slot in level)):
            slot.clear()
        self._used = [0] * len(self._levels)
        self._slot_of.clear()
        self._now_ms = now_ms
        self._tick = now_ms // self._slot_ms
        return [key for key, deadline_ms in entries if not self.put(key, deadline_ms)]

    def _place(self, key: str, deadline_ms: int) -> None:
        if deadline_ms <= self._now_ms:
            slot = self._overdue
        else:
            tick = deadline_ms // self._slot_ms
            ahead = tick - self._tick
            level = 0
            while ahead >= _SLOTS:
                ahead >>= _BITS
                level += 1
            index = (tick >> level * _BITS) & _MASK
            self._used[level] |= 1 << index
            slot = self._levels[level][index]
        slot[key] = deadline_ms
        self._slot_of[key] = slot

    def _pass_slots(self, tick: int) -> list[tuple[str, int]]:
        """Move to `tick` and empty every slot that begins on the way, and the one left behind."""
        passed: list[tuple[str, int]] = []
        for level, slots in enumerate(self._levels):
            shift = level * _BITS
            # The slot of the current tick may still hold deadlines; the current block of a level above was
            # emptied when it began, and what its slot holds now belongs to one full turn later.
            first = self._tick if level == 0 else (self._tick >> shift) + 1
            last = tick >> shift
            for number in self._used_from(level, first):
                if number > last:
                    break
                slot = slots[number & _MASK]
                passed.extend(slot.items())
                slot.clear()
                self._used[level] &= ~(1 << (number & _MASK))
        self._tick = tick
        return passed

    def _used_from(self, level: int, first: int) -> Iterator[int]:
        """Give the numbers of the slots that may hold something, one full turn from `first` on."""
        turn = first & _MASK
        used = self._used[level]
        ahead = (used >> turn) | (used << (_SLOTS - turn)) & (1 << _SLOTS) - 1
        while ahead:
            lowest = ahead & -ahead
            ahead ^= lowest
            yield first + lowest.bit_length() - 1

    def _take_due(self, slot: _Slot, now_ms: int, expired: list[tuple[int, str]]) -> None:
        due = [(deadline_ms, key) for key, deadline_ms in slot.items() if deadline_ms <= now_ms]
        for _, key in due:
            del slot[key]
            del self._slot_of[key]
        expired.extend(due)
