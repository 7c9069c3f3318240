"""Runs that wait for their concurrency key and are not offered meanwhile, so that those behind them are.

A part of the offer book. What waits is ordered by lane, then due time, over all queues whose workers wait: a younger
run of a key never passes an older one because it is lighter, or a heavy one might wait for ever. A run that is heavier
than the limit itself can not start and holds up nobody; it is looked at again when the limit rises. Lines whose offers
of a key were not taken come behind the others of the key for a while: who does not take what is offered (a queue whose
lease rate is used up, say) must not keep the room from those who would.

Pure.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from streams.offer_book import Candidate, Line

    Reluctant = tuple[Line, str]
    """A line, and a key of which it did not take what was offered."""

KEYS_PER_PASS_MAX: Final = 32
"""Keys looked at in one pass over the offer book, in turns: a look costs some 20 us, and passes come each few
milliseconds where there is much to do."""

MOVED_PER_PASS_MAX: Final = 4_000
"""Runs set aside, and runs let go, in one pass: each costs some microseconds, and a flood must not hold the loop."""

STALE_MIN: Final = 64
"""A heap is rebuilt when it holds more than so many removed entries and more of these than others."""

Key = tuple[str, str]
"""(tenant, concurrency key)."""

_LANE_ORDER: Final = {"high": 0, "normal": 1, "low": 2}


class Rooms(Protocol):
    """What the limits of queues and keys leave; see streams.limits."""

    def queue_room(self, tenant: str, queue: str, *, ahead: bool = False) -> int | None:
        """Give how many runs may be offered of a queue that has a limit (None: it has none).

        `ahead`: of runs that are not due yet, which take nothing from those that are.
        """
        ...

    def queue_offered(self, tenant: str, queue: str, *, ahead: bool) -> None:
        """Take one that was offered from the room."""
        ...

    def key_bound(self, tenant: str, key: str) -> int | None:
        """Give the limit of a key; None: it has none."""
        ...

    def key_room(self, tenant: str, key: str) -> int:
        """Give how many units may be offered of a key that has a limit."""
        ...

    def offered(self, tenant: str, key: str, units: int) -> None:
        """Take what was offered from the room."""
        ...


class Unbounded:
    """Nothing has a limit."""

    def queue_room(self, _tenant: str, _queue: str, *, ahead: bool = False) -> int | None:  # noqa: ARG002
        """See Rooms."""
        return None

    def queue_offered(self, _tenant: str, _queue: str, *, ahead: bool) -> None:
        """See Rooms."""

    def key_bound(self, _tenant: str, _key: str) -> int | None:
        """See Rooms."""
        return None

    def key_room(self, _tenant: str, _key: str) -> int:
        """See Rooms."""
        return 0

    def offered(self, _tenant: str, _key: str, _units: int) -> None:
        """See Rooms."""


class _Heap:
    """Runs of one key in one line, oldest first; removed ones stay until they come up."""

    __slots__ = ("alive", "items")

    def __init__(self) -> None:
        self.items: list[Candidate] = []
        self.alive: set[Candidate] = set()

    def push(self, candidate: Candidate) -> None:
        self.alive.add(candidate)
        heapq.heappush(self.items, candidate)

    def discard(self, candidate: Candidate) -> None:
        self.alive.discard(candidate)
        if len(self.items) - len(self.alive) > max(STALE_MIN, len(self.alive)):
            self.items = sorted(self.alive)

    def first(self) -> Candidate | None:
        while self.items and self.items[0] not in self.alive:
            heapq.heappop(self.items)
        return self.items[0] if self.items else None


class _OfKey:
    """What waits of one key."""

    __slots__ = ("bound", "lines", "too_heavy")

    def __init__(self) -> None:
        self.lines: dict[Line, _Heap] = {}
        self.too_heavy: dict[Candidate, Line] = {}
        self.bound = 0
        """The lowest limit under which one of these was too heavy."""


class KeyWaits:
    """See the module."""

    def __init__(self) -> None:
        self._keys: dict[Key, _OfKey] = {}
        self._order: deque[Key] = deque()
        """Every key of `_keys` once: the next to look at first."""
        self._where: dict[str, tuple[Line, Candidate]] = {}
        self._of_line: dict[Line, int] = {}

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._where

    def __len__(self) -> int:
        return len(self._where)

    def of_line(self, line: Line) -> int:
        """Give how many runs of a line wait here."""
        return self._of_line.get(line, 0)

    def any_of(self, queues: Container[tuple[str, str]]) -> bool:
        """Tell whether something waits that would be offered in one of these queues."""
        return any((line[0], line[1]) in queues for line in self._of_line)

    def queue_up(self, tenant: str, key: str) -> bool:
        """Tell whether runs of a key wait for room: others have to wait behind them."""
        of_key = self._keys.get((tenant, key))
        return of_key is not None and bool(of_key.lines)

    def add(self, line: Line, candidate: Candidate, bound: int) -> None:
        """Let a run wait, under the limit that its key has."""
        name = (line[0], candidate.key)
        of_key = self._keys.get(name)
        if of_key is None:
            of_key = self._keys[name] = _OfKey()
            self._order.append(name)
        self._where[candidate.run_id] = (line, candidate)
        self._of_line[line] = self._of_line.get(line, 0) + 1
        self._sort_in(of_key, line, candidate, bound)

    def remove(self, run_id: str) -> None:
        """Forget a run."""
        place = self._where.pop(run_id, None)
        if place is None:
            return
        line, candidate = place
        left = self._of_line[line] - 1
        if left:
            self._of_line[line] = left
        else:
            del self._of_line[line]
        of_key = self._keys[line[0], candidate.key]
        if of_key.too_heavy.pop(candidate, None) is None:
            self._discard(of_key, line, candidate)

    def let_go(
        self, rooms: Rooms, queues: Container[tuple[str, str]], behind: Container[Reluctant] = ()
    ) -> Iterator[tuple[Line, Candidate]]:
        """Give the runs that have room now, in queues whose workers wait, of the keys whose turn it is.

        `behind`: what comes after all others of its key.
        """
        left = MOVED_PER_PASS_MAX
        for _ in range(min(len(self._order), KEYS_PER_PASS_MAX)):
            if not left:
                return
            name = self._order.popleft()
            of_key = self._keys[name]
            for place in self._let_go_of(name, of_key, rooms, queues, behind):
                yield place
                left -= 1
                if not left:
                    break
            if of_key.lines or of_key.too_heavy:
                self._order.append(name)
            else:
                del self._keys[name]

    def _let_go_of(
        self,
        name: Key,
        of_key: _OfKey,
        rooms: Rooms,
        queues: Container[tuple[str, str]],
        behind: Container[Reluctant],
    ) -> Iterator[tuple[Line, Candidate]]:
        bound = rooms.key_bound(*name)
        if of_key.too_heavy and (bound is None or bound > of_key.bound):
            again, of_key.too_heavy = of_key.too_heavy, {}
            for candidate, line in again.items():
                self._sort_in(of_key, line, candidate, bound)
        room = None if bound is None else rooms.key_room(*name)
        while (place := _first(of_key, name[1], queues, behind)) is not None:
            line, candidate = place
            if bound is not None and room is not None:
                if candidate.weight > bound:  # the limit was lowered
                    self._discard(of_key, line, candidate)
                    self._sort_in(of_key, line, candidate, bound)
                    continue
                if candidate.weight > room:
                    return
                room -= candidate.weight
            self.remove(candidate.run_id)
            yield line, candidate

    def _sort_in(self, of_key: _OfKey, line: Line, candidate: Candidate, bound: int | None) -> None:
        if bound is not None and candidate.weight > bound:
            of_key.bound = min(bound, of_key.bound) if of_key.too_heavy else bound
            of_key.too_heavy[candidate] = line
        else:
            of_key.lines.setdefault(line, _Heap()).push(candidate)

    def _discard(self, of_key: _OfKey, line: Line, candidate: Candidate) -> None:
        heap = of_key.lines[line]
        heap.discard(candidate)
        if not heap.alive:
            del of_key.lines[line]


def _first(
    of_key: _OfKey, key: str, queues: Container[tuple[str, str]], behind: Container[Reluctant]
) -> tuple[Line, Candidate] | None:
    """Give the run whose turn it is: the highest lane, then the oldest, and those of reluctant lines last."""
    found: tuple[tuple[bool, int, Candidate], Line] | None = None
    for line, heap in of_key.lines.items():
        candidate = heap.first() if (line[0], line[1]) in queues else None
        if candidate is None:
            continue
        order = ((line, key) in behind, _LANE_ORDER[line[2]], candidate)
        if found is None or order < found[0]:
            found = (order, line)
    return None if found is None else (found[1], found[0][2])
