"""Limits that hold over all partitions, as one owner process keeps them (DESIGN section 11).

Topic `config` says what they are. What counts against them is exact for the partitions that this process owns, and what
topic `owners` last said for the others: each owner tells its counts of limited tenants and queues about every second.

A tenant's cap on what is pending needs no more than that. A bound on running runs, of a queue or of a concurrency key,
would be broken by two owners that grant in the same second, so it is divided among the processes in which such runs
wait. A share falls at once, and grows only when all others have had the time to hear why; also from nothing, when runs
begin to wait. A process without others has all of it. Runs of a key may have a weight; then what is divided is whole
lots of the largest weight that waits anywhere, or no process might ever have room for such a run.

There may be many more limits than there is work that meets them: what is done each turn or each second goes over what
runs and waits, or over what is asked, never over all limits.

Pure: time comes in as an argument.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from schemas.codec import Undecodable, decode
from streams.core.envelopes import KeyRunning, QueueRunning, TenantPending
from streams.offer_book import LANES
from streams.store.interface import ReadyLine
from streams.store.tallies import key_name, leased_key, pending_key, units_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from streams.core.envelopes import OwnerView
    from streams.offer_book import OfferBook
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

KEYS_TOLD_MAX: Final = 1_000
"""Concurrency keys: another 230 KB at most, so that the record stays below what a broker takes."""

TENANT_PREFIX: Final = "tenant|"
QUEUE_PREFIX: Final = "queue|"
KEY_PREFIX: Final = "concurrency|"

_KINDS: Final[tuple[tuple[str, Literal["queue", "key"]], ...]] = ((QUEUE_PREFIX, "queue"), (KEY_PREFIX, "key"))

_V = TypeVar("_V")

_Queue = tuple[str, str]
"""(tenant, queue)."""


class Group(NamedTuple):
    """Runs with one bound: those of a queue, or those with a concurrency key."""

    kind: Literal["queue", "key"]
    tenant: str
    name: str


class Said(NamedTuple):
    """What the owner of a partition said of a group."""

    running: int
    weight: int
    """The largest weight that waits in its process; 0: none waits."""


class Word(NamedTuple):
    """What is told of a partition."""

    pending: tuple[TenantPending, ...] = ()
    running: tuple[QueueRunning, ...] = ()
    keys: tuple[KeyRunning, ...] = ()


class Limits:
    """The limits, and what is left of them in the present turn of the owner's loop."""

    def __init__(self) -> None:
        self.own_name = ""
        """The transactional id of this process, by which others know it."""
        self._pending_max: dict[str, int] = {}
        self._running_max: dict[Group, int] = {}
        self._capped: dict[bytes, str] = {}
        """Key in the tallies to the tenant that has a cap."""
        self._bounded: dict[bytes, Group] = {}
        """Key in the tallies to the group that has a bound."""
        self._bounded_lines: dict[bytes, Group] = {}
        """Encoded lines of the queues that have a bound."""
        self._bounded_keys: dict[bytes, Group] = {}
        """Concurrency keys that have a bound, as the tallies name them."""
        self._views: dict[int, OwnerView] = {}
        self._pending: dict[str, dict[int, int]] = {}
        """Tenant to partition to what its owner said last."""
        self._running: dict[Group, dict[int, Said]] = {}
        self._told: dict[int, Word] = {}
        self._stores: Mapping[int, Store] = {}
        self._books: Sequence[OfferBook] = ()
        self._now_ms = 0.0
        self._wall_ms = 0
        self._alone: bool | None = None
        """Whether there is no other process; None: not looked at since the turn began or an owner spoke."""
        self._rooms: dict[str, int] = {}
        self._running_rooms: dict[Group, int] = {}
        self._offer_rooms: dict[Group, int] = {}
        self._ahead: dict[Group, int] = {}
        """Queues to the offers under way of runs that are not due yet."""
        self._waiting: dict[Group, int] = {}
        """Of which bounded groups runs wait here, and the largest weight of these, as it is told."""
        self._shares: dict[Group, _Trough] = {}

    # What is heard

    def heard_config(self, key: str, value: bytes | None) -> None:
        """Follow a record of topic `config`. One that cannot be read changes nothing."""
        if key.startswith(TENANT_PREFIX):
            tenant = key.removeprefix(TENANT_PREFIX)
            self._set(self._pending_max, tenant, value, "pending_max")
            _keep(self._capped, pending_key(tenant), tenant, kept=tenant in self._pending_max)
            return
        for prefix, kind in _KINDS:
            if key.startswith(prefix):
                tenant, _, name = key.removeprefix(prefix).partition("|")
                group = Group(kind, tenant, name)
                self._set(self._running_max, group, value, "running_max")
                self._find_by_tallies(group, kept=group in self._running_max)

    def _find_by_tallies(self, group: Group, *, kept: bool) -> None:
        """Let what stores count lead to a group, as long as it has a bound."""
        kind, tenant, name = group
        _keep(self._bounded, _tally_key(group), group, kept=kept)
        if kind == "key":
            _keep(self._bounded_keys, key_name(tenant, name), group, kept=kept)
            return
        for lane in range(len(LANES)):
            _keep(self._bounded_lines, ReadyLine(tenant, name, lane).encode(), group, kept=kept)

    @staticmethod
    def _set(limits: dict[Any, int], name: str | Group, value: bytes | None, field: str) -> None:
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
        self._alone = None
        before = self._views.pop(partition, None)
        if before is not None:
            for tenant in before.pending:
                self._pending[tenant.tenant].pop(partition, None)
            for group, _ in _said(before):
                self._running[group].pop(partition, None)
                if not self._running[group]:
                    del self._running[group]
        if view is None:
            return
        self._views[partition] = view
        for tenant in view.pending:
            self._pending.setdefault(tenant.tenant, {})[partition] = tenant.pending
        for group, said in _said(view):
            self._running.setdefault(group, {})[partition] = said

    # What is told

    def has_news(self, partition: int, store: Store) -> bool:
        """Tell whether a partition's counts differ from its last word."""
        return self._word(store) != self._told.get(partition, Word())

    def word(self, partition: int, store: Store) -> Word:
        """Give what to tell of a partition now."""
        self._told[partition] = word = self._word(store)
        return word

    def _word(self, store: Store) -> Word:
        totals = store.tallies.totals
        pending = [
            TenantPending(tenant=self._capped[key], pending=totals[key]) for key in totals.keys() & self._capped.keys()
        ]
        counts = {self._bounded[key]: totals[key] for key in totals.keys() & self._bounded.keys()}
        running: list[QueueRunning] = []
        keys: list[KeyRunning] = []
        for group in counts.keys() | self._waiting.keys():
            count, weight = counts.get(group, 0), self._waiting.get(group, 0)
            kind, tenant, name = group
            if kind == "queue":
                running.append(QueueRunning(tenant=tenant, queue=name, running=count, waiting=weight > 0))
            else:
                keys.append(KeyRunning(tenant=tenant, key=name, units=count, weight=weight))
        # In an order of their own, or the same word might look like another one.
        pending.sort(key=lambda told: told.tenant)
        running.sort(key=lambda told: (told.tenant, told.queue))
        keys.sort(key=lambda told: (told.tenant, told.key))
        if max(len(pending), len(running)) > TOLD_MAX or len(keys) > KEYS_TOLD_MAX:
            pending = sorted(pending, key=lambda told: -told.pending)[:TOLD_MAX]
            running = sorted(running, key=lambda told: -told.running)[:TOLD_MAX]
            keys = sorted(keys, key=lambda told: -told.units)[:KEYS_TOLD_MAX]
        return Word(tuple(pending), tuple(running), tuple(keys))

    # What is left

    def begin_turn(
        self, stores: Mapping[int, Store], now_ms: float, wall_ms: int, books: Sequence[OfferBook] = ()
    ) -> None:
        """Count anew: what the last turn took stands in the stores by now, or was rolled back."""
        self._stores, self._now_ms, self._wall_ms, self._books = stores, now_ms, wall_ms, books
        self._alone = None
        self._rooms.clear()
        self._running_rooms.clear()
        self._offer_rooms.clear()
        self._ahead.clear()

    def note_waiting(self) -> None:
        """Notice of which bounded groups runs wait here; called each TELL_EVERY_MS."""
        self._waiting = {}
        for store in self._stores.values():
            for line in store.lines_among(self._bounded_lines):
                self._waiting[self._bounded_lines[line]] = 1
            for name in store.tallies.waiting_among(self._bounded_keys):
                group = self._bounded_keys[name]
                # What is above the bound never starts.
                weight = store.tallies.waiting_weight(group.tenant, group.name, self._running_max[group])
                if weight:
                    self._waiting[group] = max(weight, self._waiting.get(group, 0))
        # Where nothing waits, this process has no share; one that runs begin to wait for again grows from nothing.
        for group in self._shares.keys() - self._waiting.keys():
            del self._shares[group]
        self._running_rooms.clear()
        for group in self._waiting:
            self._running_room(group)

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

    def may_run(self, tenant: str, queue: str, key: str = "", weight: int = 1) -> Group | None:
        """Take a place under the bounds of a run's queue and key; give the one that has none, and take nothing."""
        if not self._running_max:
            return None
        wanted = [(Group("queue", tenant, queue), 1)]
        if key:
            wanted.append((Group("key", tenant, key), weight))
        wanted = [(group, units) for group, units in wanted if group in self._running_max]
        for group, units in wanted:
            if self._running_room(group) < units:
                return group
        for group, units in wanted:
            self._running_rooms[group] -= units
        return None

    def key_bound(self, tenant: str, key: str) -> int | None:
        """Give the limit of a concurrency key; None: it has none."""
        return self._running_max.get(Group("key", tenant, key))

    def key_room(self, tenant: str, key: str) -> int:
        """Give how many units may be offered of a key that has a limit: no more are offered than may start."""
        return self._offer_room(Group("key", tenant, key))

    def offered(self, tenant: str, key: str, units: int) -> None:
        """Take what was offered from the room of its key."""
        group = Group("key", tenant, key)
        if group in self._running_max:
            self._offer_rooms[group] = self._offer_room(group) - units

    def queue_room(self, tenant: str, queue: str, *, ahead: bool = False) -> int | None:
        """Give how many runs may be offered of a queue that has a limit: no more than may start. None: it has none.

        `ahead`: of runs that are not due yet. They come behind those that are, and take nothing from them.
        """
        group = Group("queue", tenant, queue)
        if group not in self._running_max:
            return None
        room = self._offer_room(group)
        return room - self._ahead_of(group) if ahead else room

    def queue_offered(self, tenant: str, queue: str, *, ahead: bool) -> None:
        """Take a run that was offered from the room of its queue."""
        group = Group("queue", tenant, queue)
        if ahead:
            self._ahead[group] = self._ahead_of(group) + 1
        else:
            self._offer_rooms[group] = self._offer_room(group) - 1

    def _ahead_of(self, group: Group) -> int:
        ahead = self._ahead.get(group)
        if ahead is None:
            ahead = sum(book.runs_offered(group.tenant, group.name, ahead=True) for book in self._books)
            self._ahead[group] = ahead
        return ahead

    def _offer_room(self, group: Group) -> int:
        room = self._offer_rooms.get(group)
        if room is None:
            _, tenant, name = group
            if group.kind == "queue":
                under_way = sum(book.runs_offered(tenant, name, ahead=False) for book in self._books)
            else:
                under_way = sum(book.units_offered(tenant, name) for book in self._books)
            room = self._offer_rooms[group] = self._running_room(group) - under_way
        return room

    def _running_room(self, group: Group) -> int:
        room = self._running_rooms.get(group)
        if room is None:
            room = self._running_rooms[group] = self._count_running_room(group)
        return room

    def _count_running_room(self, group: Group) -> int:
        """Give the lesser of what all leave free and what this process's share leaves."""
        tally_key = _tally_key(group)
        own = sum(store.tallies.totals.get(tally_key, 0) for store in self._stores.values())
        elsewhere: dict[str, int] = {}
        waiting = {self.own_name}
        lot = max(1, self._waiting.get(group, 0))
        for partition, said in self._running.get(group, {}).items():
            if partition not in self._stores:
                name = self._views[partition].transactional_id
                elsewhere[name] = elsewhere.get(name, 0) + said.running
                if said.weight:
                    waiting.add(name)
                    lot = max(lot, said.weight)
        bound = self._running_max[group]
        share = self._shares.get(group)
        if share is None:
            share = self._shares[group] = _Trough()
        to_share = bound - sum(count for name, count in elsewhere.items() if name not in waiting)
        if self._is_alone():
            share.set(to_share, self._now_ms)
            return max(0, bound - own - sum(elsewhere.values()))
        shares = self._divided(to_share, sorted(waiting), lot)
        share.set(shares[self.own_name] if group in self._waiting else 0, self._now_ms)
        # Another process may have taken its share since it told what it runs, and one that lost its share may run more.
        taken = sum(
            max(elsewhere.get(name, 0), shares.get(name, 0)) for name in {*elsewhere, *waiting} - {self.own_name}
        )
        return max(0, min(bound - own - taken, share.at(self._now_ms) - own))

    def _is_alone(self) -> bool:
        if self._alone is None:
            self._alone = all(
                p in self._stores or view.transactional_id == self.own_name for p, view in self._views.items()
            )
        return self._alone

    def _divided(self, total: int, names: list[str], lot: int) -> dict[str, int]:
        """Give the part of each process; lots that are left over, and what is less than a lot, go round."""
        lots, rest = divmod(max(total, 0), lot)
        each, left = divmod(lots, len(names))
        turn = self._wall_ms // TURN_MS
        places = {name: (at + turn) % len(names) for at, name in enumerate(names)}
        return {
            name: lot * (each + 1 if place < left else each) + (rest if place == 0 else 0)
            for name, place in places.items()
        }


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


def _said(view: OwnerView) -> Iterator[tuple[Group, Said]]:
    for queue in view.running:
        yield Group("queue", queue.tenant, queue.queue), Said(queue.running, int(queue.waiting))
    for key in view.keys:
        yield Group("key", key.tenant, key.key), Said(key.units, key.weight)


def _tally_key(group: Group) -> bytes:
    """Give where the tallies have what the leased runs of a group take."""
    kind, tenant, name = group
    return leased_key(tenant, name) if kind == "queue" else units_key(tenant, name)


def _keep(places: dict[bytes, _V], key: bytes, value: _V, *, kept: bool) -> None:
    if kept:
        places[key] = value
    else:
        places.pop(key, None)
