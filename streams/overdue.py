"""How late the owner is, seen from outside its loop: the oldest deadline that passed and that nobody acted on (B02).

An owner can look healthy and do nothing: its process lives, its heartbeats go out, and nothing fires. What shows it is
the work that is left. So this reads the store's due index when somebody asks (a scrape, a probe), by the clock of that
moment: whatever the loop hangs on, the age grows. A process whose event loop hangs as a whole answers no scrape, and
its partitions have no owner to be seen.

The index is hard state, and not each of its entries is overdue: heartbeats and a take-over put the end of a lease off
without a write. `Shard.waits_since_ms` tells the two apart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streams.shard import Shard
    from streams.store.interface import DueEntry, ReadyLine

SLICE: Final = 500
"""Index entries between two breaths of the event loop: a few milliseconds."""

ENTRIES_MAX: Final = 20_000
"""Stale entries that are passed over in one partition, at most: as many leases that heartbeats alone keep alive."""

JUDGED_MAX: Final = 1_000
"""Jobs that are decoded for one partition, at most: about 50 ms, spread over slices."""


class Overdue(NamedTuple):
    """How late one partition is, in milliseconds; 0 where it is not."""

    slot_ms: int
    """Age of the oldest deadline that passed without its decision."""
    ready_ms: int
    """How long the oldest run that is due and open has waited for a worker."""


class Holder(Protocol):
    """Whose partitions are looked at: the owner."""

    shards: dict[int, Shard]


class OverdueWatch:
    """Looks at the partitions of one owner, on its thread, a slice at a time."""

    def __init__(self, owner: Holder, *, monotonic_ms: Callable[[], float], wall_ms: Callable[[], int]) -> None:
        self._owner = owner
        self._monotonic_ms = monotonic_ms
        self._wall_ms = wall_ms

    async def look(self) -> Mapping[int, Overdue]:
        """Judge each partition that this process acts for. One that is given up meanwhile is left out."""
        found: dict[int, Overdue] = {}
        for partition, shard in [*self._owner.shards.items()]:
            if not self._holds(shard):
                continue
            slot_ms = await self._slot_ms(shard)
            ready_ms = await self._ready_ms(shard)
            if self._holds(shard):
                found[partition] = Overdue(slot_ms, ready_ms)
        return found

    async def _slot_ms(self, shard: Shard) -> int:
        now_ms = self._now_ms(shard)
        oldest_ms = now_ms
        after: DueEntry | None = None
        looked = judged = 0
        while looked < ENTRIES_MAX and judged < JUDGED_MAX and self._holds(shard):
            page = shard.store.due(after, oldest_ms, SLICE)
            for entry in page:
                if entry.deadline_ms >= oldest_ms:  # what comes later in the index cannot be older
                    return now_ms - oldest_ms
                if shard.looks_later(entry.job_id, now_ms):
                    continue
                judged += 1
                since_ms = shard.waits_since_ms(entry.job_id, entry.deadline_ms, now_ms)
                if since_ms is not None:
                    oldest_ms = min(oldest_ms, since_ms)
            if len(page) < SLICE:
                break
            after = page[-1]
            looked += len(page)
            await asyncio.sleep(0)
        return now_ms - oldest_ms

    async def _ready_ms(self, shard: Shard) -> int:
        now_ms = self._now_ms(shard)
        oldest_ms = now_ms
        after: ReadyLine | None = None
        while self._holds(shard):
            heads = shard.store.ready_heads(now_ms, after, SLICE)
            oldest_ms = min([oldest_ms, *(head.due_at_ms for head in heads)])
            if len(heads) < SLICE:
                break
            after = heads[-1].line
            await asyncio.sleep(0)
        return now_ms - oldest_ms

    def _now_ms(self, shard: Shard) -> int:
        """Give the broker's time; this machine's where the owner has lost the broker's, since it does nothing then."""
        if shard.clock.ready:
            return shard.clock.now_ms(self._monotonic_ms())
        return self._wall_ms()

    def _holds(self, shard: Shard) -> bool:
        return shard.active and self._owner.shards.get(shard.partition) is shard
