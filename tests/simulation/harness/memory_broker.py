"""An in-memory Kafka: a log with transactions, a group coordinator, and nothing that a client would not see.

What facts-faust-kafka (A2) measured on a real one is kept, dangerous parts included: offsets in a transaction
are checked against the group's generation, the end of a transaction is not; generation -1 with an empty member
is not checked at all; a second initialisation of a transactional id ends what it left open and fences its
owner; the stable offset of a partition is withheld while a transaction with an offset for it is open; a
partition's last stable offset stops at its first open record.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.harness.virtual_time import World

TRANSACTION_TIMEOUT_MS: Final = 10_000.0
"""Plus up to TICK_MS: an open transaction that nobody ends is aborted, and its id fenced."""

SESSION_TIMEOUT_MS: Final = 6_000.0
REBALANCE_TIMEOUT_MS: Final = 6_000.0
TICK_MS: Final = 250.0
"""Between two looks for what has timed out, while something could."""

CLEAN_FROM: Final = 1_000
"""Records behind the last cleaning that make a compacted topic worth another."""

Place = tuple[str, int]


class BrokerError(Exception):
    """What the broker answers; `code` has librdkafka's name of it."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Transaction:
    """One transaction of one producer."""

    def __init__(self, transactional_id: str, started_ms: float) -> None:
        self.transactional_id = transactional_id
        self.started_ms = started_ms
        self.state = "open"
        self.places: set[Place] = set()
        self.offsets: dict[Place, int] = {}


class Entry(NamedTuple):
    """One record, or the marker at the end of a transaction (`control`)."""

    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    transaction: Transaction | None
    control: bool = False


class _Cleaned:
    """What compaction has left of a partition below an offset."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.to_offset = 0


class _Producer:
    def __init__(self) -> None:
        self.epoch = 0
        self.transaction: Transaction | None = None


class Member:
    """One member of the group, as the coordinator sees it."""

    def __init__(self, member_id: str, on_assigned: Callable[[int, list[int]], None]) -> None:
        self.member_id = member_id
        self.on_assigned = on_assigned
        self.heard_ms = 0.0
        self.joined = False
        self.partitions: list[int] = []
        self.moves: Callable[[], None] | None = None
        """Set while the member's heartbeats go without saying: told when a rebalance begins."""


class MemoryBroker:
    """Topics, producers and one consumer group."""

    def __init__(self, world: World, partitions: int) -> None:
        self.world = world
        self.partitions = partitions
        self.log: dict[Place, list[Entry]] = defaultdict(list)
        self.committed: dict[Place, int] = defaultdict(int)
        self.listeners: dict[str, list[Callable[[int], None]]] = defaultdict(list)
        self.generation = 0
        self.members: dict[str, Member] = {}
        self.stale_refused = 0
        """Offsets of another generation that were refused: how often fencing was needed."""
        self._producers: dict[str, _Producer] = defaultdict(_Producer)
        self._busy: dict[str, _Producer] = {}
        """Those with an open transaction."""
        self._open: dict[Place, dict[Transaction, int]] = defaultdict(dict)
        self._cleaned: dict[Place, _Cleaned] = defaultdict(_Cleaned)
        self._rebalance_since_ms: float | None = None
        self._member_number = 0
        self._ticks = False

    # --- the log ---

    def append(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> int:
        """Append a record outside of any transaction; gives its offset."""
        entry = self._append((topic, partition), key, value, (), None)
        self._tell(topic, partition)
        return entry.offset

    def end(self, topic: str, partition: int) -> int:
        """High watermark."""
        return len(self.log[topic, partition])

    def stable_end(self, topic: str, partition: int) -> int:
        """Last stable offset: that of the first record of an open transaction."""
        still_open = self._open[topic, partition]
        return min(still_open.values()) if still_open else self.end(topic, partition)

    def read(self, topic: str, partition: int, start: int, *, committed: bool = True) -> Iterator[Entry]:
        """Give records from an offset on, as the isolation level allows."""
        entries = self.log[topic, partition]
        stop = self.stable_end(topic, partition) if committed else len(entries)
        for entry in entries[start:stop]:
            if entry.control or (
                committed and entry.transaction is not None and entry.transaction.state != "committed"
            ):
                continue
            yield entry

    def read_compacted(self, topic: str, partition: int, start: int) -> Iterator[Entry]:
        """Give what is left of a compacted topic from an offset on, as a read_committed consumer sees it.

        Of each key only the newest record below the last cleaning is left; `log` keeps everything for the judge.
        """
        place = (topic, partition)
        cleaned, stable_end = self._cleaned[place], self.stable_end(topic, partition)
        if stable_end - cleaned.to_offset >= CLEAN_FROM:
            newest = {entry.key: entry for entry in cleaned.entries}
            for entry in self.read(topic, partition, cleaned.to_offset):
                newest[entry.key] = entry
            cleaned.entries = sorted(newest.values(), key=lambda entry: entry.offset)
            cleaned.to_offset = stable_end
        yield from (entry for entry in cleaned.entries if entry.offset >= start)
        yield from self.read(topic, partition, max(start, cleaned.to_offset))

    def _append(
        self,
        place: Place,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...],
        transaction: Transaction | None,
    ) -> Entry:
        entries = self.log[place]
        entry = Entry(len(entries), self.world.epoch_ms, key, value, headers, transaction)
        entries.append(entry)
        if transaction is not None and place not in transaction.places:
            transaction.places.add(place)
            self._open[place][transaction] = entry.offset
        return entry

    def _tell(self, topic: str, partition: int) -> None:
        for listener in self.listeners[topic]:
            listener(partition)

    # --- transactions ---

    def init_transactions(self, transactional_id: str) -> int:
        """Fence and end whatever this id left open; gives the new epoch."""
        producer = self._producers[transactional_id]
        producer.epoch += 1
        if producer.transaction is not None:
            self._end(producer, commit=False)
        return producer.epoch

    def begin(self, transactional_id: str, epoch: int) -> None:
        """Begin. Raises BrokerError."""
        producer = self._producer(transactional_id, epoch)
        if producer.transaction is not None:
            raise BrokerError("INVALID_TXN_STATE")

    def produce(
        self,
        transactional_id: str,
        epoch: int,
        place: Place,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...],
    ) -> Entry:
        """Append a record inside the transaction. Raises BrokerError."""
        return self._append(place, key, value, headers, self._transaction(transactional_id, epoch))

    def send_offsets(
        self,
        transactional_id: str,
        epoch: int,
        offsets: dict[Place, int],
        membership: tuple[int, str],
    ) -> None:
        """Add consumed offsets to the transaction; the only point at which the generation is checked."""
        generation, member_id = membership
        transaction = self._transaction(transactional_id, epoch)
        if (generation, member_id) != (-1, ""):
            if member_id not in self.members:
                self.stale_refused += 1
                raise BrokerError("UNKNOWN_MEMBER_ID")
            if generation != self.generation:
                self.stale_refused += 1
                raise BrokerError("ILLEGAL_GENERATION")
        transaction.offsets.update(offsets)

    def end_transaction(self, transactional_id: str, epoch: int, *, commit: bool) -> None:
        """End it; a second identical end is as good as the first. Raises BrokerError where fenced."""
        producer = self._producer(transactional_id, epoch)
        if producer.transaction is not None:
            self._end(producer, commit=commit)

    def stable_offset(self, place: Place) -> int | None:
        """Give the group's offset; None while a transaction that would change it is open."""
        for producer in self._busy.values():
            if producer.transaction is not None and place in producer.transaction.offsets:
                return None
        return self.committed[place]

    def _producer(self, transactional_id: str, epoch: int) -> _Producer:
        producer = self._producers[transactional_id]
        if producer.epoch != epoch:
            raise BrokerError("_FENCED")
        return producer

    def _transaction(self, transactional_id: str, epoch: int) -> Transaction:
        producer = self._producer(transactional_id, epoch)
        if producer.transaction is None:
            producer.transaction = Transaction(transactional_id, self.world.t_ms)
            self._busy[transactional_id] = producer
            self._watch()
        return producer.transaction

    def _end(self, producer: _Producer, *, commit: bool) -> None:
        transaction = producer.transaction
        if transaction is None:
            return
        producer.transaction = None
        del self._busy[transaction.transactional_id]
        transaction.state = "committed" if commit else "aborted"
        if commit:
            self.committed.update(transaction.offsets)
        for place in sorted(transaction.places):
            self._open[place].pop(transaction, None)
            entries = self.log[place]
            entries.append(Entry(len(entries), self.world.epoch_ms, None, None, (), transaction, control=True))
            if commit:
                self._tell(*place)

    # --- the group ---

    def join(self, member_id: str, on_assigned: Callable[[int, list[int]], None]) -> str:
        """Join or join again; the assignment comes when all have. Gives the member id."""
        if member_id not in self.members:
            self._member_number += 1
            member_id = f"member-{self._member_number}"
            self.members[member_id] = Member(member_id, on_assigned)
        member = self.members[member_id]
        member.on_assigned = on_assigned
        member.joined = True
        self._heard_from(member)
        if self._rebalance_since_ms is None:
            self._rebalance()
        self._complete_if_all_joined()
        return member_id

    def leave(self, member_id: str) -> None:
        """Leave at once."""
        if self.members.pop(member_id, None) is not None:
            self._rebalance()
            self._complete_if_all_joined()

    def heartbeat(self, member_id: str, generation: int) -> str:
        """Answer `ok`, `rebalance` or `unknown`."""
        member = self.members.get(member_id)
        if member is None:
            return "unknown"
        self._heard_from(member)
        if self._rebalance_since_ms is not None or generation != self.generation:
            return "rebalance"
        return "ok"

    def heard_until_told(self, member_id: str, moves: Callable[[], None]) -> None:
        """Take a member's heartbeats for granted until `falls_silent`, and tell it once when a rebalance begins.

        The same as a heartbeat each second, without the seconds.
        """
        member = self.members[member_id]
        if self._rebalance_since_ms is None:
            member.moves = moves
        else:
            moves()

    def falls_silent(self, member_id: str) -> None:
        """A member whose heartbeats went without saying was frozen or killed."""
        member = self.members.get(member_id)
        if member is not None and member.moves is not None:
            self._heard_from(member)

    def _heard_from(self, member: Member) -> None:
        member.heard_ms = self.world.t_ms
        member.moves = None
        self._watch()

    def _rebalance(self) -> None:
        if self._rebalance_since_ms is not None:
            return
        self._rebalance_since_ms = self.world.t_ms
        for member in [*self.members.values()]:
            if member.moves is not None:
                moves = member.moves
                self._heard_from(member)
                moves()
        self._watch()

    def _complete_if_all_joined(self) -> None:
        if self._rebalance_since_ms is None or not self.members:
            return
        if all(member.joined for member in self.members.values()):
            self._complete()

    def _complete(self) -> None:
        self._rebalance_since_ms = None
        self.generation += 1
        shares = self._shares()
        self.world.note(f"generation {self.generation}: {shares}")
        for member_id, partitions in shares.items():
            member = self.members[member_id]
            member.joined = False
            member.partitions = partitions
            member.on_assigned(self.generation, partitions)

    def _shares(self) -> dict[str, list[int]]:
        """Divide evenly and leave partitions where they are as far as that allows."""
        most = -(-self.partitions // len(self.members))
        free = set(range(self.partitions))
        shares: dict[str, list[int]] = {}
        for member_id, member in self.members.items():
            shares[member_id] = [p for p in member.partitions if p in free][:most]
            free.difference_update(shares[member_id])
        for partition in sorted(free):
            fewest = min(shares, key=lambda member_id: len(shares[member_id]))
            shares[fewest].append(partition)
        return {member_id: sorted(partitions) for member_id, partitions in shares.items()}

    def _watch(self) -> None:
        """Look for what times out, as long as something could."""
        if not self._ticks:
            self._ticks = True
            self.world.at(TICK_MS, self._tick)

    def _tick(self) -> None:
        now_ms = self.world.t_ms
        for producer in [*self._busy.values()]:
            transaction = producer.transaction
            if transaction is not None and now_ms - transaction.started_ms > TRANSACTION_TIMEOUT_MS:
                producer.epoch += 1
                self._end(producer, commit=False)
        polled = [member for member in self.members.values() if member.moves is None]
        for member in polled:
            if now_ms - member.heard_ms > SESSION_TIMEOUT_MS:
                self.world.note(f"the group drops {member.member_id}")
                del self.members[member.member_id]
                self._rebalance()
        since_ms = self._rebalance_since_ms
        if since_ms is not None and now_ms - since_ms > REBALANCE_TIMEOUT_MS:
            for member in [m for m in self.members.values() if not m.joined]:
                del self.members[member.member_id]
        self._complete_if_all_joined()
        self._ticks = False
        if self._busy or polled or self._rebalance_since_ms is not None:
            self._watch()
