"""What the gateway knows of runs that wait, per queue: a heap by due time for each lane.

Pure: time comes in as an argument. Offers are hints, so every bound may drop one: its owner offers the run again. A
queue is (tenant, queue). An offer is forgotten `OFFER_TTL_MS` after it was due or last received, whichever came later.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from api.dispatch.lanes import LANE_NUMBER, LANES, LaneWheel

if TYPE_CHECKING:
    from streams.core.envelopes import Offer

READY_PER_LANE_MAX: Final = 4096
"""Above what owners usually have open for one gateway and queue (2 x slots + 16 a partition), below what hurts."""

OFFER_TTL_MS: Final = 3_000
"""Owners offer elsewhere after 2 s (docs/dispatch.md); a second more covers the way."""

_NORMAL: Final = LANE_NUMBER["normal"]


class _Entry:
    __slots__ = ("due_at_ms", "offer", "partition", "received_ms")

    def __init__(self, offer: Offer, partition: int, received_ms: int) -> None:
        self.offer = offer
        self.partition = partition
        self.due_at_ms = offer.due_at_ms
        self.received_ms = received_ms


class _Lane:
    """One heap of (due, arrival number, run id); entries hold the truth, so stale heap items are skipped."""

    __slots__ = ("entries", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, str]] = []
        self.entries: dict[str, _Entry] = {}

    def head(self, now_ms: int) -> _Entry | None:
        """Give the entry that is due first; expired and stale items on the way are dropped."""
        heap, entries = self.heap, self.entries
        while heap:
            due_at_ms, _, run_id = heap[0]
            entry = entries.get(run_id)
            if entry is None or entry.due_at_ms != due_at_ms:
                heapq.heappop(heap)
            elif max(due_at_ms, entry.received_ms) + OFFER_TTL_MS < now_ms:
                heapq.heappop(heap)
                del entries[run_id]
            else:
                return entry
        return None

    def pop(self) -> _Entry:
        """Take what `head` has just given."""
        _, _, run_id = heapq.heappop(self.heap)
        return self.entries.pop(run_id)


class ReadyQueue:
    """The waiting runs of one (tenant, queue)."""

    __slots__ = ("_arrivals", "_lanes", "_wheel")

    def __init__(self) -> None:
        self._lanes = (_Lane(), _Lane(), _Lane())
        self._wheel = LaneWheel()
        self._arrivals = 0

    def add(self, offer: Offer, partition: int, now_ms: int) -> bool:
        """Take an offer of an owner's partition. False: dropped for the bound. A repeat renews the one at hand."""
        lane = self._lanes[LANE_NUMBER.get(offer.lane, _NORMAL)]
        known = lane.entries.get(offer.run_id)
        if known is not None and known.due_at_ms == offer.due_at_ms:
            known.offer = offer
            known.received_ms = now_ms
            return True
        if known is None and len(lane.entries) >= READY_PER_LANE_MAX:
            return False
        self._arrivals += 1
        lane.entries[offer.run_id] = _Entry(offer, partition, now_ms)
        heapq.heappush(lane.heap, (offer.due_at_ms, self._arrivals, offer.run_id))
        return True

    def pop_due(self, count: int, now_ms: int) -> list[tuple[Offer, int]]:
        """Take up to `count` due runs as (offer, partition), lanes 70/20/10, oldest first inside a lane."""
        taken: list[tuple[Offer, int]] = []
        lanes = self._lanes
        while len(taken) < count:
            heads = [lane.head(now_ms) for lane in lanes]
            filled = [head is not None and head.due_at_ms <= now_ms for head in heads]
            number = self._wheel.next_lane((filled[0], filled[1], filled[2]))
            if number is None:
                break
            entry = lanes[number].pop()
            taken.append((entry.offer, entry.partition))
        return taken

    def pop_ahead(self, count: int, now_ms: int, ahead_ms: int) -> list[tuple[Offer, int]]:
        """Take up to `count` runs due within `ahead_ms`, soonest first whatever their lane; for spare slots only."""
        taken: list[tuple[Offer, int]] = []
        until_ms = now_ms + ahead_ms
        while len(taken) < count:
            best: tuple[int, _Lane] | None = None
            for lane in self._lanes:
                head = lane.head(now_ms)
                if head is not None and head.due_at_ms <= until_ms and (best is None or head.due_at_ms < best[0]):
                    best = (head.due_at_ms, lane)
            if best is None:
                break
            entry = best[1].pop()
            taken.append((entry.offer, entry.partition))
        return taken

    def next_due_ms(self, now_ms: int) -> int | None:
        """Give the due time of the soonest run, None if there is none."""
        heads = [head.due_at_ms for lane in self._lanes if (head := lane.head(now_ms)) is not None]
        return min(heads, default=None)

    def counts(self) -> dict[str, int]:
        """Give how many offers are at hand per lane."""
        return {name: len(lane.entries) for name, lane in zip(LANES, self._lanes, strict=True)}

    def __len__(self) -> int:
        return sum(len(lane.entries) for lane in self._lanes)
