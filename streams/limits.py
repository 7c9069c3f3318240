"""Limits that hold over all partitions, as one owner process keeps them (DESIGN section 11).

Topic `config` says what they are. What counts against them is exact for the partitions that this process owns, and what
topic `owners` last said for the others: each owner tells its counts of limited tenants and queues about every second.

A tenant's cap on what is pending needs no more than that. A queue's bound on running runs would be broken by two owners
that grant in the same second, so it is divided among the processes in which runs of the queue wait. A share falls at
once, and grows only when all others have had the time to hear why; also from nothing, when runs begin to wait. A
process without others has all of it.

Pure: time comes in as an argument.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from schemas.codec import Undecodable, decode
from streams.core.envelopes import QueueRunning, TenantPending
from streams.demand import DemandTable
from streams.offer_book import LANES
from streams.store.interface import ReadyLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from streams.core.envelopes import OwnerView
    from streams.store.interface import Store

TELL_EVERY_MS: Final = 1_000
"""How often an owner tells counts that have changed."""

SETTLE_MS: Final = 3_000
"""How long a share must stand before a process may use what it gained: the word of whoever lost it is out after
TELL_EVERY_MS, and may take twice as long again to reach everybody."""

TURN_MS: Final = 10_000
"""What cannot be divided goes round among the processes in turns of this length."""

TOLD_MAX: Final = 2_000
"""Tenants, and queues, in the word of one partition: 100 KB. Beyond it the largest counts are told."""

TENANT_PREFIX: Final = "tenant|"
QUEUE_PREFIX: Final = "queue|"

_ALL_DUE_MS: Final = 2**62
"""Later than any due time."""

_Queue = tuple[str, str]
"""(tenant, queue)."""

_Word = tuple[tuple[TenantPending, ...], tuple[QueueRunning, ...]]


class Limits:
    """The limits, and what is left of them in the present turn of the owner's loop."""

    def __init__(self) -> None:
        self.own_name = ""
        """The transactional id of this process, by which others know it."""
        self._pending_max: dict[str, int] = {}
        self._running_max: dict[_Queue, int] = {}
        self._views: dict[int, OwnerView] = {}
        self._pending: dict[str, dict[int, int]] = {}
        """Tenant to partition to what its owner said last."""
        self._running: dict[_Queue, dict[int, QueueRunning]] = {}
        self._told: dict[int, _Word] = {}
        self._stores: Mapping[int, Store] = {}
        self._now_ms = 0.0
        self._wall_ms = 0
        self._rooms: dict[str, int] = {}
        self._running_rooms: dict[_Queue, int] = {}
        self._waiting: set[_Queue] = set()
        """Bounded queues of which runs wait here, as it is told."""
        self._shares: dict[_Queue, _Trough] = {}

    # What is heard

    def heard_config(self, key: str, value: bytes | None) -> None:
        """Follow a record of topic `config`. One that cannot be read changes nothing."""
        if key.startswith(TENANT_PREFIX):
            self._set(self._pending_max, key.removeprefix(TENANT_PREFIX), value, "pending_max")
        elif key.startswith(QUEUE_PREFIX):
            tenant, _, queue = key.removeprefix(QUEUE_PREFIX).partition("|")
            self._set(self._running_max, (tenant, queue), value, "running_max")

    @staticmethod
    def _set(limits: dict[Any, int], name: str | _Queue, value: bytes | None, field: str) -> None:
        try:
            limit = None if value is None else decode(value).record[field]
        except (Undecodable, KeyError):
            return
        if limit is None:
            limits.pop(name, None)
        else:
            limits[name] = limit

    def heard_owner(self, partition: int, view: OwnerView | None) -> None:
        """Follow a record of topic `owners`."""
        before = self._views.pop(partition, None)
        if before is not None:
            for tenant in before.pending:
                self._pending[tenant.tenant].pop(partition, None)
            for queue in before.running:
                self._running[queue.tenant, queue.queue].pop(partition, None)
        if view is None:
            return
        self._views[partition] = view
        for tenant in view.pending:
            self._pending.setdefault(tenant.tenant, {})[partition] = tenant.pending
        for queue in view.running:
            self._running.setdefault((queue.tenant, queue.queue), {})[partition] = queue

    # What is told

    def has_news(self, partition: int, store: Store) -> bool:
        """Tell whether a partition's counts differ from its last word."""
        return self._word(store) != self._told.get(partition, ((), ()))

    def word(self, partition: int, store: Store) -> _Word:
        """Give what to tell of a partition now."""
        self._told[partition] = word = self._word(store)
        return word

    def _word(self, store: Store) -> _Word:
        pending = [
            TenantPending(tenant=tenant, pending=count)
            for tenant in self._pending_max
            if (count := store.tallies.pending(tenant))
        ]
        running = [
            QueueRunning(tenant=key[0], queue=key[1], running=count, waiting=key in self._waiting)
            for key in self._running_max
            if (count := store.tallies.leased(*key)) or key in self._waiting
        ]
        if len(pending) > TOLD_MAX or len(running) > TOLD_MAX:
            pending = sorted(pending, key=lambda told: -told.pending)[:TOLD_MAX]
            running = sorted(running, key=lambda told: -told.running)[:TOLD_MAX]
        return tuple(pending), tuple(running)

    # What is left

    def begin_turn(self, stores: Mapping[int, Store], now_ms: float, wall_ms: int) -> None:
        """Count anew: what the last turn took stands in the stores by now, or was rolled back."""
        self._stores, self._now_ms, self._wall_ms = stores, now_ms, wall_ms
        self._rooms.clear()
        self._running_rooms.clear()

    def note_waiting(self) -> None:
        """Notice in which bounded queues runs wait here; called each TELL_EVERY_MS."""
        self._waiting = {key for key in self._running_max if any(_waits(store, key) for store in self._stores.values())}
        self._running_rooms.clear()
        for key in self._running_max:
            self._running_room(key)

    def admits(self, tenant: str) -> bool:
        """Take a place under a tenant's cap on what is pending; False where there is none."""
        cap = self._pending_max.get(tenant)
        if cap is None:
            return True
        room = self._rooms.get(tenant)
        if room is None:
            room = cap - self._pending_of(tenant)
        self._rooms[tenant] = room - 1
        return room > 0

    def _pending_of(self, tenant: str) -> int:
        said = self._pending.get(tenant, {})
        elsewhere = sum(count for partition, count in said.items() if partition not in self._stores)
        return elsewhere + sum(store.tallies.pending(tenant) for store in self._stores.values())

    def pending_cap(self, tenant: str) -> int | None:
        """Give a tenant's cap."""
        return self._pending_max.get(tenant)

    def may_run(self, tenant: str, queue: str) -> bool:
        """Take a place under a queue's bound on running runs; False where there is none."""
        key = (tenant, queue)
        if key not in self._running_max:
            return True
        room = self._running_room(key)
        if room > 0:
            self._running_rooms[key] = room - 1
        return room > 0

    def _running_room(self, key: _Queue) -> int:
        room = self._running_rooms.get(key)
        if room is None:
            room = self._running_rooms[key] = self._count_running_room(key)
        return room

    def _count_running_room(self, key: _Queue) -> int:
        """Give the lesser of what all leave free and what this process's share leaves."""
        own = sum(store.tallies.leased(*key) for store in self._stores.values())
        elsewhere: dict[str, int] = {}
        waiting = {self.own_name}
        for partition, said in self._running.get(key, {}).items():
            if partition not in self._stores:
                name = self._views[partition].transactional_id
                elsewhere[name] = elsewhere.get(name, 0) + said.running
                if said.waiting:
                    waiting.add(name)
        bound = self._running_max[key]
        free = bound - own - sum(elsewhere.values())
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = _Trough()
        to_share = bound - sum(count for name, count in elsewhere.items() if name not in waiting)
        if self._alone():
            share.set(to_share, self._now_ms)
            return max(0, free)
        present = self._share(to_share, sorted(waiting)) if key in self._waiting else 0
        share.set(present, self._now_ms)
        return max(0, min(free, share.at(self._now_ms) - own))

    def _alone(self) -> bool:
        return all(p in self._stores or view.transactional_id == self.own_name for p, view in self._views.items())

    def _share(self, total: int, names: list[str]) -> int:
        """Give this process's part; `names` are all that share, itself among them."""
        each, left = divmod(max(total, 0), len(names))
        place = (names.index(self.own_name) + self._wall_ms // TURN_MS) % len(names)
        return each + 1 if place < left else each

    def within(self, demand: DemandTable) -> DemandTable:
        """Give the demand without queues of which no more runs may start here."""
        full = {key for key in self._running_max if self._running_room(key) <= 0}
        return Narrowed(demand, full) if full else demand


class _Trough:
    """The least that a number was within the last SETTLE_MS: it falls at once and rises late."""

    __slots__ = ("_past", "_value")

    def __init__(self) -> None:
        self._value = 0
        self._past: deque[tuple[float, int]] = deque()
        """When lower values ended, and what they were; both rise."""

    def set(self, value: int, now_ms: float) -> None:
        """Change the present value."""
        if value > self._value:
            self._past.append((now_ms, self._value))
        while self._past and self._past[-1][1] >= value:
            self._past.pop()
        self._value = value

    def at(self, now_ms: float) -> int:
        """Give the least value held within the window that ends now."""
        while self._past and self._past[0][0] <= now_ms - SETTLE_MS:
            self._past.popleft()
        return self._past[0][1] if self._past else self._value


class Narrowed(DemandTable):
    """A demand without some queues."""

    def __init__(self, demand: DemandTable, without: set[_Queue]) -> None:
        super().__init__()
        self._demand, self._without = demand, without

    def incarnation(self, gateway_id: str) -> str | None:
        """See DemandTable."""
        return self._demand.incarnation(gateway_id)

    def queues(self) -> dict[_Queue, list[tuple[str, int]]]:
        """See DemandTable."""
        return {key: slots for key, slots in self._demand.queues().items() if key not in self._without}

    def __iter__(self) -> Iterator[str]:
        return iter(self._demand)

    def __len__(self) -> int:
        return len(self._demand)


def _waits(store: Store, key: _Queue) -> bool:
    lines: Iterable[ReadyLine] = (ReadyLine(*key, lane) for lane in range(len(LANES)))
    return any(store.ready_line(line, _ALL_DUE_MS, 1) for line in lines)
