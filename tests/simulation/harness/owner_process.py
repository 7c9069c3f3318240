"""A scheduler process in the simulation: the real owner and committer, and a small consumer in the place of Faust's.

The consumer joins the group, keeps its membership alive from a thread of its own (so a hung loop stays a
member, a frozen process does not), tells the owner of assignments and revocations, and delivers records. As
Faust does, it may start reading below the stable offset, and it may deliver a record twice.
"""

from __future__ import annotations

import asyncio
import functools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Protocol

from schemas.topics import Topic, topic_name
from streams.inbox import Input, Source
from streams.membership import Membership, NoMembershipError
from streams.owner import Owner, Runtime
from streams.store.memory import MemoryStore
from streams.takeover import Takeover
from streams.transaction import KafkaCommitter
from tests.simulation.harness.memory_client import MemoryLedgerLog, MemoryProducer, Weather
from tests.simulation.harness.virtual_time import Process, World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pytest

    from schemas.config import Settings
    from streams.batch import Batch
    from streams.core.envelopes import Offers
    from streams.core.time import ZoneData
    from streams.store.interface import Store, StoreIdentity
    from streams.takeover import Progress
    from streams.transaction import Outcome, OutRecord
    from tests.simulation.harness.memory_broker import MemoryBroker

HEARTBEAT_MS: Final = 1_000.0
IDLE_WAIT_MS: Final = 5_000
"""The owner's loop looks around this often without a reason to; virtual hours need no more."""

DELIVERY_MS: Final = (0.5, 4.0)
DOUBLED: Final = 0.01
"""Share of records that the source delivers twice."""


class Trap:
    """Told before each step of the commit order; the scenario sets it to freeze or kill the process right there."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._step = ""
        self._spring: Callable[[], None] | None = None

    def set(self, step: str, spring: Callable[[], None]) -> None:
        """Act at the next such step."""
        self._step, self._spring = step, spring

    def before(self, step: str) -> None:
        """See streams.transaction.Steps."""
        if step == self._step and self._spring is not None:
            spring, self._spring, self._step = self._spring, None, ""
            self._world.at(0.0, spring)
            self._world.pass_time(1.0)


class Events:
    """What the owner tells, into the trace; and what must not happen, into `alarms`."""

    def __init__(self, world: World, name: str, alarms: list[str]) -> None:
        self._world = world
        self._name = name
        self._alarms = alarms

    def assigned(self, membership: Membership, partitions: Sequence[int], kept: Sequence[int]) -> None:
        """See OwnerEvents."""
        self._world.note(f"{self._name} assigned {partitions} in {membership.generation}, kept {kept}")

    def revoked(self, partitions: Sequence[int], waited_ms: float) -> None:
        """See OwnerEvents."""
        self._world.note(f"{self._name} revoked {partitions} after {waited_ms:.0f} ms")

    def recovering(self, progress: Progress) -> None:
        """See OwnerEvents."""

    def ready(self, partitions: Sequence[int], took_ms: float) -> None:
        """See OwnerEvents."""
        self._world.note(f"{self._name} ready {partitions} after {took_ms:.0f} ms")

    def committed(self, batches: Sequence[Batch], took_ms: float) -> None:
        """See OwnerEvents."""

    def failed(self, outcome: Outcome, reason: str, partitions: Sequence[int]) -> None:
        """See OwnerEvents."""
        self._world.note(f"{self._name} failed {outcome.value} {reason} {partitions}")

    def no_membership(self, reason: str) -> None:
        """See OwnerEvents."""
        self._world.note(f"{self._name} has no membership: {reason}")

    def quarantined(self, job_id: str, reason: str) -> None:
        """See OwnerEvents."""
        self._world.note(f"{self._name} quarantined {job_id}: {reason}")
        self._alarms.append(f"quarantined {job_id}: {reason}")

    def unreachable(self, what: str, reason: str) -> None:
        """See OwnerEvents."""
        self._world.note(f"{self._name} unreachable: {what}: {reason}")

    def skew(self, skew_ms: float) -> None:
        """See OwnerEvents. Clocks are wrong on purpose here."""


class Consumer:
    """The group member of one process."""

    def __init__(self, process: Process, broker: MemoryBroker, settings: Settings) -> None:
        self._process = process
        self._world = process.world
        self._broker = broker
        self._group = settings.scheduler.group_id
        self._topics: dict[str, Source] = {
            topic_name(settings, Topic.COMMANDS): "commands",
            topic_name(settings, Topic.JOB_DEFINITIONS): "definitions",
        }
        self._member_id = ""
        self._generation = -1
        self._assignment: asyncio.Future[tuple[int, list[int]]] | None = None
        self._moved = asyncio.Event()
        self._positions: dict[tuple[str, int], int] = {}
        self._fetching: set[tuple[str, int]] = set()
        self._beats = False
        self.owner: Owner | None = None
        self._ears = {topic: functools.partial(self._heard, topic) for topic in self._topics}
        for topic, ear in self._ears.items():
            broker.listeners[topic].append(ear)
        process.on_change.append(self._changed)

    def snapshot(self) -> Membership:
        """See LiveMembership."""
        if self._generation < 1:
            raise NoMembershipError("not in the group")
        return Membership(self._group, self._generation, self._member_id)

    async def run(self) -> None:
        """Join, own, give up, join again; for ever."""
        owner = self.owner
        if owner is None:
            raise RuntimeError("no owner to tell")
        self._beat()
        while True:
            self._moved.clear()
            self._assignment = self._process.loop.create_future()
            self._member_id = self._broker.join(self._member_id, self._tell)
            self._generation, partitions = await self._assignment
            await owner.assigned(partitions)
            self._seek(partitions)
            await self._moved.wait()
            self._positions = {}
            await owner.revoked()

    async def leave(self) -> None:
        """Stop gracefully: the owner first, then the group."""
        if self.owner is not None:
            await self.owner.stop()
        self._broker.leave(self._member_id)

    def _tell(self, generation: int, partitions: list[int]) -> None:
        """Called by the coordinator; the answer travels."""
        self._world.at(
            self._world.rng.uniform(*DELIVERY_MS), lambda: self._process.call(self._take, generation, partitions)
        )

    def _take(self, generation: int, partitions: list[int]) -> None:
        if self._assignment is not None and not self._assignment.done():
            self._assignment.set_result((generation, partitions))

    def _beat(self) -> None:
        """The heartbeat thread: runs while the process does. Where nothing moves, its beats go without saying."""
        self._beats = False
        if self._process.dead or self._process.frozen:
            return
        answer = "ok"
        if self._member_id:
            answer = self._broker.heartbeat(self._member_id, self._generation)
            waiting = self._assignment is not None and not self._assignment.done()
            if answer != "ok" and not waiting:
                if answer == "unknown":
                    self._member_id, self._generation = "", -1
                self._process.call(self._moved.set)
            elif answer == "unknown" and waiting:
                self._member_id = self._broker.join("", self._tell)
            elif answer == "ok" and not waiting:
                self._broker.heard_until_told(self._member_id, lambda: self._beat_within(HEARTBEAT_MS))
                return
        self._beat_within(HEARTBEAT_MS, HEARTBEAT_MS)

    def _beat_within(self, most_ms: float, least_ms: float = 0.0) -> None:
        if not self._beats:
            self._beats = True
            self._world.at(self._world.rng.uniform(least_ms, most_ms), self._beat)

    def _changed(self) -> None:
        """The process was frozen, thawed or killed."""
        if self._process.dead:
            for topic, ear in self._ears.items():
                self._broker.listeners[topic].remove(ear)
        if self._process.dead or self._process.frozen:
            self._broker.falls_silent(self._member_id)
        else:
            self._beat_within(HEARTBEAT_MS)

    def _seek(self, partitions: list[int]) -> None:
        """Start at the committed offsets, or a little below: Faust's own look at them is not a stable one."""
        rng = self._world.rng
        self._positions = {}
        for topic in self._topics:
            for partition in partitions:
                start = self._broker.committed[topic, partition] - rng.choice((0, 0, 1, 5))
                self._positions[topic, partition] = max(0, start)
                self._fetch(topic, partition)

    def _heard(self, topic: str, partition: int) -> None:
        """A record was appended: fetch it after the usual time."""
        if (topic, partition) in self._positions and not self._process.dead:
            delay_ms = self._world.rng.uniform(*DELIVERY_MS)
            self._world.at(delay_ms, lambda: self._process.call(self._fetch, topic, partition))

    def _fetch(self, topic: str, partition: int) -> None:
        """Start reading on, unless that goes on already."""
        place = (topic, partition)
        if place in self._positions and place not in self._fetching:
            self._fetching.add(place)
            self._process.start(self._read(place))

    async def _read(self, place: tuple[str, int]) -> None:
        """Deliver everything there is, as fast as the owner takes it."""
        topic, partition = place
        owner, positions = self.owner, self._positions
        if owner is None:
            return
        try:
            while positions is self._positions:
                entries = [*self._broker.read(topic, partition, positions[place], committed=False)]
                if not entries:
                    return
                for entry in entries:
                    await owner.room(partition)
                    if positions is not self._positions:
                        return
                    item = Input(self._topics[topic], entry.offset, entry.at_ms, entry.key, entry.value)
                    owner.deliver(partition, item)
                    if self._world.rng.random() < DOUBLED:
                        owner.deliver(partition, item)
                    positions[place] = entry.offset + 1
        finally:
            self._fetching.discard(place)
            if positions is not self._positions:
                self._fetch(topic, partition)


class ConfigSource(Protocol):
    """What stands for the reader of topic `config`."""

    def look(self, number: int) -> None:
        """See ConfigReader."""

    def attach(self, owner: Owner) -> None:
        """Read whole before the process acts."""


class OwnerProcess:
    """One scheduler process, from its start to its end."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        broker: MemoryBroker,
        weather: Weather,
        settings: Settings,
        zone_data: ZoneData,
        disk: dict[int, MemoryStore],
        send_offers: Callable[[Sequence[Offers]], None],
        alarms: list[str],
        config_reader: Callable[[Process], ConfigSource | None],
    ) -> None:
        self.world = world
        self.name = name
        self.process = Process(world, name)
        self.trap = Trap(world)
        self.disk = disk
        self.left = False
        self._alarms = alarms
        self._broker = broker
        self._zone_data = zone_data
        process = self.process
        names = {topic.value: topic_name(settings, topic) for topic in Topic}
        reader = config_reader(process)
        before, world.running = world.running, process
        try:
            self.consumer = Consumer(process, broker, settings)
            committer = KafkaCommitter(
                {},
                name,
                transaction_timeout_ms=settings.scheduler.transaction_timeout_ms,
                steps=self.trap,
                monotonic_ms=process.monotonic_ms,
            )
            runtime = Runtime(
                committer=committer,
                log=MemoryLedgerLog(process, broker, weather, names),
                live=self.consumer,
                open_store=self._open_store,
                send_offers=lambda offers: None if process.dead else send_offers(offers),
                send_replies=self._send_replies,
                events=Events(world, name, alarms),
                look_at_config=None if reader is None else reader.look,
                steps=self.trap,
                monotonic_ms=process.monotonic_ms,
                wall_ms=process.wall_ms,
            )
            self.owner = Owner(settings, zone_data, runtime)
        finally:
            world.running = before
        if reader is not None:
            reader.attach(self.owner)
        self.consumer.owner = self.owner
        process.start(self._main())
        process.start(self.consumer.run())

    def _send_replies(self, records: Sequence[OutRecord]) -> None:
        """Write outside the transaction, after it."""
        if self.process.dead:
            return
        for record in records:
            self._broker.append(record.topic, record.partition, record.key, record.value)

    def freeze(self) -> None:
        """SIGSTOP."""
        if not self.process.dead:
            self.world.note(f"{self.name} is frozen")
            self.process.frozen = True

    def thaw(self) -> None:
        """SIGCONT."""
        if not self.process.dead:
            self.world.note(f"{self.name} is thawed")
            self.process.frozen = False

    def kill(self) -> None:
        """SIGKILL. What the store held in memory is lost, except now and then."""
        self.process.kill()
        if self.world.rng.random() < 0.5:
            self.disk.clear()

    def stop(self) -> None:
        """SIGTERM."""
        self.left = True
        self.process.call(lambda: self.process.start(self._leave()))

    async def _leave(self) -> None:
        self.world.note(f"{self.name} stops")
        await self.consumer.leave()
        self.world.at(1.0, self.process.kill)

    async def _main(self) -> None:
        await self.owner.run()
        if self.owner.failure is not None:
            self._alarms.append(f"{self.name} ended by itself: {self.owner.failure!r}")
            self.world.note(self._alarms[-1])
            self.world.at(0.0, self.process.kill)

    def _open_store(self, partition: int, identity: StoreIdentity, log_end: int) -> Store:
        """Open what a former process left on this disk, or begin anew."""
        kept = self.disk.get(partition)
        if kept is None or kept.ledger_offset > log_end or kept.identity != identity:
            kept = MemoryStore(identity, self.world.epoch_ms)
        reopened = reopen(kept)
        self.disk[partition] = reopened
        return reopened


class CallAtOnce:
    """In the place of a thread that is waited for: the call itself, which already runs beside nothing else."""

    def __init__(self, target: Callable[[], None], **_: object) -> None:
        self._target = target

    def start(self) -> None:
        """Do all of it now."""
        self._target()

    def join(self, _timeout: float) -> None:
        """It is done."""

    def is_alive(self) -> bool:
        """It is done."""
        return False


class VirtualClients:
    """Puts the simulation in the place of librdkafka's producers and the clock's waits, until the patch is undone."""

    def __init__(
        self,
        world: World,
        broker: MemoryBroker,
        weather: Weather,
        patch: pytest.MonkeyPatch,
        idle_wait_ms: int = IDLE_WAIT_MS,
    ) -> None:
        self._world = world
        self._broker = broker
        self._weather = weather
        patch.setattr("streams.transaction.Producer", self._producer)
        patch.setattr("streams.transaction.threading", SimpleNamespace(Thread=CallAtOnce))
        patch.setattr("streams.owner.Takeover", self._takeover)
        patch.setattr("streams.owner.IDLE_WAIT_MS_MAX", idle_wait_ms)

    def _producer(self, config: Mapping[str, object]) -> MemoryProducer:
        active = self._world.active
        process = active.process if active is not None else self._world.running
        if process is None:
            raise RuntimeError("a producer outside of any process")
        return MemoryProducer(process, self._broker, self._weather, config)

    def _takeover(self, *arguments: Any, **options: Any) -> Takeover:
        world = self._world
        return Takeover(
            *arguments,
            **options,
            wall_ms=lambda: world.epoch_ms,
            monotonic_ms=lambda: world.t_ms,
            pause=lambda seconds: world.pass_time(seconds * 1000.0),
        )


def reopen(store: MemoryStore) -> MemoryStore:
    """Give the same content as a store that a new process opened."""
    copy = MemoryStore(store.identity, store.written_at_ms)
    copy.__dict__.update(
        {name: value.copy() if isinstance(value, dict | list) else value for name, value in store.__dict__.items()}
    )
    copy.__dict__["_closed"] = False
    return copy
