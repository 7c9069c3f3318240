"""What the tests of the scheduler share: one shard under a manual clock, and fake roles for the owner."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from schemas.config import Settings, load_settings
from schemas.topics import Topic, topic_name
from streams.broker_clock import BrokerClock
from streams.core.commands import Define, Grant, LeaseRun, Reply
from streams.core.definition import Definition
from streams.core.envelopes import CommandBatch, Demand, QueueDemand
from streams.core.identity import run_id_at
from streams.core.time import INSTALLED_ZONE_DATA, IntervalSpec, OneOffSpec, ZoneData
from streams.core.wire import encode_commands, encode_definition
from streams.demand import DemandTable
from streams.inbox import Input, Source
from streams.kafka_dev import wait_until
from streams.ledger_log import LedgerRecordIn, LogIdentity
from streams.limits import Limits
from streams.membership import Membership, NoMembershipError
from streams.owner import Owner, Runtime
from streams.sealing import Sealer
from streams.shard import Shard, ShardSettings
from streams.store.interface import StoreIdentity
from streams.store.memory import MemoryStore
from streams.transaction import Committed, Outcome, Receipt, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from streams.batch import Batch
    from streams.core.commands import AnyCommand
    from streams.core.envelopes import HistoryEntry, Offers
    from streams.owner_config import OwnerConfig
    from streams.takeover import Progress
    from streams.transaction import OutRecord

NEW_YEAR_MS: Final = 1_798_761_600_000
"""2027-01-01T00:00:00Z, by the broker's clock."""
BROKER_AHEAD_MS: Final = NEW_YEAR_MS - 5_000_000
"""Broker time minus the local monotonic clock."""
IDENTITY: Final = StoreIdentity(cluster_id="c", topic_id="t", partition=0)
WAIT_S: Final = 20.0
JOIN_WAIT_S: Final = 60.0


def job(job_id: str, **fields: Any) -> Definition:
    """An hourly job of team `a`, queue `q`; `at_ms` makes it a one-off."""
    at_ms = fields.pop("at_ms", None)
    schedule = IntervalSpec(every_ms=3_600_000, anchor_ms=0) if at_ms is None else OneOffSpec(at_ms=at_ms)
    known: dict[str, Any] = {"job_id": job_id, "tenant": "a", "queue": "q", "name": "n", "task": "n"}
    return Definition(**(known | {"schedule": schedule} | fields))


class Rig:
    """One shard over a store in memory. Time stands still until `advance`; the log commits or aborts as told."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        store: Any = None,
        begin: bool = True,
        zone_data: ZoneData = INSTALLED_ZONE_DATA,
        config: OwnerConfig | None = None,
        **bounds: Any,
    ) -> None:
        scheduler: dict[str, Any] = {
            name: bounds[name] for name in ("state_bytes_max", "open_runs_max") if name in bounds
        }
        shard_bounds = {name: value for name, value in bounds.items() if name != "state_bytes_max"}
        self.settings = load_settings(env={}, overrides={"topics": {"partitions": partitions}, "scheduler": scheduler})
        self.store = store if store is not None else MemoryStore(IDENTITY)
        self.clock = BrokerClock()
        self.limits = Limits()
        self.now_ms = NEW_YEAR_MS + 1
        self.sealer = Sealer(self.settings, Membership("group", 1, "member"), "tx-1")
        self.shard = Shard(
            0,
            self.store,
            self.clock,
            self.sealer,
            settings=ShardSettings(partitions=partitions, **shard_bounds),
            zone_data=zone_data,
            floors={"commands": 0, "definitions": 0},
            topics={"commands": 1, "definitions": 2},
            next_seq=1,
            last_marker_ms=0,
            config=config,
            limits=self.limits,
        )
        self.history: list[HistoryEntry] = []
        self.answers: dict[str, Reply | Grant] = {}
        self.dead_letters: list[Any] = []
        self.leases: list[Any] = []
        self.demand = DemandTable()
        self._offsets: dict[Source, int] = {"commands": 0, "definitions": 0}
        self._ledger_offset = self.store.ledger_offset
        self._requests = 0
        if begin:
            self.commit(self.shard.first_batch())

    @property
    def monotonic_ms(self) -> float:
        return float(self.now_ms - BROKER_AHEAD_MS)

    def request(self) -> str:
        self._requests += 1
        return f"r{self._requests}"

    def advance(self, ms: int) -> None:
        """Let time pass. The clock's estimate is exact again."""
        self.now_ms += ms
        self.clock.sample(self.now_ms, self.monotonic_ms)

    def push(self, source: Source, key: bytes | None, value: bytes | None, *, at_ms: int = 0) -> Input:
        item = Input(source, self._offsets[source], at_ms or self.now_ms, key, value)
        self._offsets[source] += 1
        self.shard.push(item)
        return item

    def send(self, *commands: AnyCommand, gateway_id: str = "g", at_ms: int = 0) -> Input:
        """Append one record with these commands."""
        batch = CommandBatch(gateway_id=gateway_id, incarnation="i", sent_at_ms=0, commands=commands)
        return self.push("commands", commands[0].job_id.encode(), encode_commands(batch), at_ms=at_ms)

    def define(self, definition: Definition, request_id: str = "") -> str:
        """Send a create; return its request id."""
        request_id = request_id or self.request()
        self.send(
            Define(
                job_id=definition.job_id, request_id=request_id, definition=definition, request_hash=repr(definition)
            )
        )
        return request_id

    def publish(self, definition: Definition, key: bytes | None = None) -> Input:
        """Append to topic job-definitions."""
        return self.push("definitions", key or definition.job_id.encode(), encode_definition(definition))

    def lease(self, job_id: str, at_ms: int, *, valid_ms: int = 2_000, **fields: Any) -> LeaseRun:
        """A request for the run of a job's occurrence."""
        return LeaseRun(
            job_id=job_id,
            request_id=fields.pop("request_id", None) or self.request(),
            run_id=run_id_at(job_id, at_ms),
            worker_id="w",
            gateway_id="g",
            valid_until_ms=at_ms + valid_ms,
            **fields,
        )

    def count(self) -> None:
        """Begin a turn, as the owner does before it collects and before it offers."""
        self.limits.begin_turn({0: self.store}, self.monotonic_ms, self.now_ms, [self.shard.book])

    def collect(self) -> Batch | None:
        self.count()
        return self.shard.collect(self.monotonic_ms)

    def commit(self, batch: Batch) -> None:
        """The transaction is on the log."""
        assert batch.write is not None
        self._ledger_offset += len(batch.write.records) + 1
        receipt = Receipt(self._ledger_offset, self.now_ms, self.monotonic_ms)
        self.shard.committed(batch, receipt, self.now_ms)
        self.history.extend(batch.history)
        self.leases.extend(batch.leases)
        self.dead_letters.extend(batch.dead_letters)
        for answers in batch.answers.values():
            self.answers.update({answer.request_id: answer.reply for answer in answers})

    def turn(self) -> Batch | None:
        """Collect and commit."""
        batch = self.collect()
        if batch is not None:
            self.commit(batch)
        return batch

    def run(self, turns_max: int = 50) -> None:
        """Turn until nothing is left to do at this moment."""
        for _ in range(turns_max):
            if self.turn() is None and not self.shard.has_work():
                return
        raise AssertionError(f"still busy after {turns_max} turns")

    def want(self, slots: int = 10, gateway_id: str = "g", queue: str = "q", tenant: str = "a") -> None:
        """A gateway has waiting workers."""
        wanted = (QueueDemand(tenant=tenant, queue=queue, slots=slots),)
        demand = Demand(gateway_id=gateway_id, incarnation="i", sent_at_ms=0, queues=wanted)
        self.demand.update(demand, self.monotonic_ms)

    def offered(self) -> list[str]:
        """Run ids offered by one pass."""
        self.count()
        made = self.shard.offers(self.demand, self.monotonic_ms)
        return [offer.run_id for offers in made for offer in offers.offers]

    def names(self, job_id: str | None = None) -> list[str]:
        """Names of the committed events."""
        entries = [entry for entry in self.history if job_id is None or entry.job_id == job_id]
        return [type(event).__name__ for entry in entries for event in entry.events]

    def grant(self, request_id: str) -> Grant:
        answer = self.answers[request_id]
        assert isinstance(answer, Grant), answer
        return answer

    def reply(self, request_id: str) -> Reply:
        answer = self.answers[request_id]
        assert isinstance(answer, Reply), answer
        return answer


@pytest.fixture
def make_job() -> Callable[..., Definition]:
    """Give the maker of definitions."""
    return job


@pytest.fixture
def make_rig() -> type[Rig]:
    """Give the maker of shards under test."""
    return Rig


@pytest.fixture
def rig() -> Rig:
    """One shard of one partition, ready, at midnight."""
    return Rig()


class FakeLog:
    """A ledger log in memory, with a script of failures; records what is asked of it."""

    def __init__(self, settings: Settings) -> None:
        self.inputs = (topic_name(settings, Topic.COMMANDS), topic_name(settings, Topic.JOB_DEFINITIONS))
        self.records: list[LedgerRecordIn] = []
        self.committed: dict[str, dict[int, int]] = {topic: {} for topic in self.inputs}
        self.calls: list[str] = []
        self.unreachable = 0
        """So many calls from now on fail as they do where the broker is away."""
        self.commands_end: dict[int, int] = {}
        self.input_ends_of: dict[tuple[str, int], int] = {}
        self.asked = asyncio.Event()

    def identity(self) -> LogIdentity:
        self._call("identity")
        return LogIdentity("cluster", "topic", {topic: f"id of {topic}" for topic in self.inputs})

    def ledger_ends(self, partitions: Iterable[int], *, stable: bool) -> dict[int, int]:
        self._call("stable_ends" if stable else "ends")
        return {p: sum(record.partition == p for record in self.records) for p in partitions}

    def input_ends(self, partitions: Iterable[int]) -> dict[int, int]:
        self._call("input_ends")
        return {partition: self.commands_end.get(partition, 0) for partition in partitions}

    def stable_ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        self._call("stable_ends")
        return {place: self.input_ends_of.get(place, 0) for place in places}

    def stable_committed(self, partitions: Iterable[int]) -> dict[str, dict[int, int]] | None:
        self._call("stable_committed")
        return {topic: {p: self.committed[topic].get(p, 0) for p in partitions} for topic in self.inputs}

    def predecessors(self, ends: Mapping[int, int]) -> set[str]:
        self._call(f"predecessors {sorted(ends)}")
        return set()

    def fence(self, transactional_id: str) -> None:
        self._call(f"fence {transactional_id}")

    def read_ledger(
        self, start: Mapping[int, int], end: Mapping[int, int], still_current: Callable[[], bool]
    ) -> Iterator[list[LedgerRecordIn]]:
        self._call("read_ledger")
        wanted = [r for r in self.records if r.partition in end and start[r.partition] <= r.offset < end[r.partition]]
        if wanted and still_current():
            yield wanted

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.unreachable:
            self.unreachable -= 1
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "the broker is away"))


class FakeCommitter:
    """Commits into a FakeLog, or ends as its script says."""

    def __init__(self, log: FakeLog, monotonic_ms: Callable[[], float]) -> None:
        self.log = log
        self.script: list[Outcome] = []
        self.transactions: list[Transaction] = []
        self.renewals = 0
        self.renewals_failing = 0
        self.begun: Callable[[Transaction], None] = lambda _: None
        """Called in the commit thread before the end of each transaction."""
        self.judge: Callable[[Transaction], Outcome] = lambda _: Outcome.COMMITTED
        """How a transaction ends that the script does not name."""
        self.producer_lost = False
        """Whether failed transactions of the script could not be ended."""
        self._monotonic_ms = monotonic_ms

    @property
    def transactional_id(self) -> str:
        return f"tx-{self.renewals}"

    def commit(self, transaction: Transaction) -> Committed:
        self.begun(transaction)
        outcome = self.script.pop(0) if self.script else self.judge(transaction)
        if outcome is not Outcome.COMMITTED:
            return Committed(outcome=outcome, reason="as the script says", producer_lost=self.producer_lost)
        self.transactions.append(transaction)
        receipts = {}
        for write in transaction.writes:
            for record in [*write.records, write.marker]:
                self._append(record, write.partition)
            ends = [r.offset for r in self.log.records if r.partition == write.partition]
            receipts[write.partition] = Receipt(max(ends), NEW_YEAR_MS, self._monotonic_ms())
            for topic, offset in write.offsets.items():
                self.log.committed[topic][write.partition] = offset
        return Committed(outcome=Outcome.COMMITTED, receipts=receipts)

    def renew(self) -> None:
        if self.renewals_failing:
            self.renewals_failing -= 1
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "the broker is away"))
        self.renewals += 1

    def close(self) -> None:
        """Nothing is open."""

    def _append(self, record: OutRecord, partition: int) -> None:
        if not record.topic.endswith("ledger"):
            return
        offset = sum(known.partition == partition for known in self.log.records)
        headers = {name: bytes(value) for name, value in record.headers or [] if isinstance(value, bytes)}
        self.log.records.append(LedgerRecordIn(partition, offset, NEW_YEAR_MS, record.key, record.value, headers))


class TrackedStores:
    """Opens stores in memory and refuses, as RocksDB does, to open one that is open."""

    def __init__(self) -> None:
        self.opened: list[MemoryStore] = []
        self.closes: list[int] = []

    def open(self, partition: int, identity: StoreIdentity, _log_end: int) -> MemoryStore:
        if partition in self.now_open():
            raise RuntimeError(f"the store of partition {partition} is open")
        tracked = self

        class Tracked(MemoryStore):
            closed = False

            def close(self) -> None:
                self.closed = True
                tracked.closes.append(id(self))
                super().close()

        store = Tracked(identity)
        self.opened.append(store)
        return store

    def now_open(self) -> list[int]:
        return [store.identity.partition for store in self.opened if not getattr(store, "closed", False)]


class Told:
    """The owner's events as a list, and a way to wait for one."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.skews: list[float] = []
        self.details: list[tuple[str, Any]] = []
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; it is judged after each event."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def heard(self, name: str, times: int = 1) -> None:
        await self.until(lambda: self.names.count(name) >= times)

    def assigned(self, membership: Membership, partitions: Sequence[int], kept: Sequence[int]) -> None:
        self._note("assigned", (membership.generation, [*partitions], [*kept]))

    def revoked(self, partitions: Sequence[int], waited_ms: float) -> None:
        self._note("revoked", ([*partitions], waited_ms))

    def recovering(self, progress: Progress) -> None:
        """Comes from another thread; not noted."""

    def ready(self, partitions: Sequence[int], took_ms: float) -> None:
        self._note("ready", ([*partitions], took_ms))

    def committed(self, batches: Sequence[Batch], took_ms: float) -> None:
        self._note("committed", ([*batches], took_ms))

    def failed(self, outcome: Outcome, reason: str, partitions: Sequence[int]) -> None:
        self._note("failed", (outcome, [*partitions], reason))

    def no_membership(self, reason: str) -> None:
        self._note("no_membership", reason)

    def quarantined(self, job_id: str, reason: str) -> None:
        self._note("quarantined", (job_id, reason))

    def unreachable(self, what: str, reason: str) -> None:
        self._note("unreachable", (what, reason))

    def skew(self, skew_ms: float) -> None:
        """Comes after each commit; not an event to wait for."""
        self.skews.append(skew_ms)

    def _note(self, name: str, detail: Any) -> None:
        self.names.append(name)
        self.details.append((name, detail))
        self._changed.set()


class FakeMembership:
    """The generation that the test says."""

    def __init__(self) -> None:
        self.generation = 0
        self.member_id = "member"

    def snapshot(self) -> Membership:
        if self.generation < 1:
            raise NoMembershipError("not in the group")
        return Membership("group", self.generation, self.member_id)


class OwnerRig:
    """An owner with fake roles, in the loop of the test."""

    def __init__(self, partitions: int = 2) -> None:
        self.settings = load_settings(env={}, overrides={"topics": {"partitions": partitions}})
        self.log = FakeLog(self.settings)
        self.live = FakeMembership()
        self.stores = TrackedStores()
        self.told = Told()
        self.offers: list[Offers] = []
        self.replies: list[OutRecord] = []
        loop = asyncio.get_running_loop()
        self.committer = FakeCommitter(self.log, lambda: loop.time() * 1000.0)
        self.owner = Owner(
            self.settings,
            INSTALLED_ZONE_DATA,
            Runtime(
                committer=self.committer,
                log=self.log,
                live=self.live,
                open_store=self.stores.open,
                send_offers=self.offers.extend,
                send_replies=self.replies.extend,
                events=self.told,
            ),
        )
        self.task = loop.create_task(self.owner.run())

    async def assign(self, *partitions: int) -> None:
        """The group moves on and gives these."""
        self.live.generation += 1
        await self.owner.assigned(partitions)

    async def active(self, *partitions: int) -> None:
        """Wait until the owner acts for these."""
        shards = self.owner.shards
        await self.told.until(lambda: all(p in self.owner.shards and self.owner.shards[p].active for p in partitions))
        assert shards is not None

    def deliver(self, partition: int, offset: int, *commands: AnyCommand) -> None:
        """Hand a record over, as the source does."""
        batch = CommandBatch(gateway_id="g", incarnation="i", sent_at_ms=0, commands=commands)
        item = Input("commands", offset, NEW_YEAR_MS, commands[0].job_id.encode(), encode_commands(batch))
        self.owner.deliver(partition, item)

    def defined(self) -> list[str]:
        """Jobs whose state is on the log, in the order of their records."""
        return [record.key[2:].decode() for record in self.log.records if record.key.startswith(b"s|")]

    async def close(self) -> None:
        await self.owner.stop()
        self.task.cancel()
        await asyncio.wait([self.task])


@pytest.fixture
def owner_rig() -> type[OwnerRig]:
    """Give the maker of owners with fake roles."""
    return OwnerRig


class Group:
    """A real member of the scheduler's group."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.commands = topic_name(settings, Topic.COMMANDS)
        self.consumer = self._join()

    def _join(self) -> Consumer:
        consumer = Consumer(
            {
                **self.settings.kafka.client_config(),
                "group.id": self.settings.scheduler.group_id,
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        consumer.subscribe([self.commands])
        assert wait_until(lambda: self._assigned(consumer), JOIN_WAIT_S)
        return consumer

    def _assigned(self, consumer: Consumer) -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    def membership(self) -> Membership:
        """Generation and member as the library knows them."""
        data: Any = self.consumer.consumer_group_metadata()
        (generation,) = struct.unpack_from("=i", data, 7)
        group_id, member_id, _ = data[11:].split(b"\0", 2)
        return Membership(group_id.decode(), generation, member_id.decode())

    def rebalance(self) -> None:
        """Leave and join again: another member, another generation."""
        self.consumer.close()
        self.consumer = self._join()

    def stable_offsets(self) -> dict[int, int]:
        """The group's committed offsets."""
        asked = [TopicPartition(self.commands, partition) for partition in range(self.settings.topics.partitions)]
        return {answer.partition: answer.offset for answer in self.consumer.committed(asked, timeout=10)}


@pytest.fixture
def make_group() -> type[Group]:
    """Give the maker of group members."""
    return Group
