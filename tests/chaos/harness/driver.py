"""Traffic: jobs of every kind, people who change them, workers that finish, fail, dawdle and die; all journalled.

The driver is a gateway with its workers, on the client that the real gateway is built on, in a thread with a loop of
its own. Every command that leaves and every answer that comes is written down where it passes the link, so the journal
misses none and depends on nobody's memory. `Beat` jobs have no worker: their partition commits by its timers alone,
several times a second, which is how time without dispatch is measured and how timer-only partitions come about.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from api.dispatch.calls import Failure
from api.dispatch.client import DispatchClient, DispatchConfig
from api.dispatch.kafka_link import KafkaLink, KafkaLinkConfig
from schemas.partition import partition_for
from streams.audit.journals import ClientCall, Execution, Fault, Journals
from streams.core.commands import (
    Complete,
    Define,
    Delete,
    Fail,
    LeaseRun,
    Pause,
    Reply,
    Resume,
    Trigger,
)
from streams.core.definition import Definition, Retry
from streams.core.time import CronSpec, IntervalSpec, OneOffSpec
from streams.core.wire import request_hash
from tests.chaos.harness.cluster import now_ms

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from api.dispatch.link import ConfigDone, ConfigRecord, Link, LinkListener, SendDone, TimedReplies
    from schemas.config import Settings
    from streams.core.commands import AnyCommand, Grant
    from streams.core.envelopes import CommandBatch, Demand, Offers, OwnerView

TENANT: Final = "team"
QUEUE: Final = "work"
NOBODY: Final = "nobody"
"""A queue without workers."""

REPLY_TIMEOUT_MS: Final = 4_000
"""A caller gives up sooner than the slowest take-over, and repeats: so repeats meet both owners."""

RETRY_S: Final = 0.3
GIVE_UP_S: Final = 300.0
"""Longer than any fault of a run, all brokers away for two minutes included: giving up is a failure of the test."""

START_TIMEOUT_S: Final = 60.0
DRAIN_TIMEOUT_S: Final = 60.0
TICK_S: Final = 0.1
CRONS: Final = ("*/2 * * * * *", "*/3 * * * * *", "*/5 * * * * *", "1-59/4 * * * * *")


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what. Rates are per second."""

    seed: int = 1
    one_offs: float = 30.0
    intervals: int = 24
    crons: int = 8
    changes: float = 5.0
    beats: int = 4
    """Jobs without worker on each partition."""
    timer_only: tuple[int, ...] = ()
    """Partitions that get beats and nothing else."""
    workers: int = 8
    visibility_ms: int = 3_000
    dies: float = 0.01
    fails: float = 0.03
    slow: float = 0.02

    @classmethod
    def of(cls, share: float, *, seed: int, timer_only: tuple[int, ...] = ()) -> Load:
        """Give a share of the usual traffic; beats, which time without dispatch is measured by, stay."""
        usual = cls()
        return cls(
            seed=seed,
            timer_only=timer_only,
            one_offs=usual.one_offs * share,
            intervals=max(1, round(usual.intervals * share)),
            crons=max(1, round(usual.crons * share)),
            changes=usual.changes * share,
        )


class _Book:
    """The journal, filled where commands and answers pass."""

    def __init__(self) -> None:
        self.calls: dict[str, ClientCall] = {}
        self.executions: list[Execution] = []
        self.faults: list[Fault] = []

    def sent(self, command: AnyCommand) -> None:
        if isinstance(command, LeaseRun):
            return
        create = isinstance(command, Define) and command.mode == "create"
        self.calls[command.request_id] = ClientCall(
            request_id=command.request_id,
            job_id=command.job_id,
            name=type(command).__name__,
            run_id=getattr(command, "run_id", ""),
            lease_token=getattr(command, "lease_token", 0),
            idempotency_key=f"key-{command.job_id}" if create else "",
            tenant=TENANT,
            sent_at_ms=now_ms(),
        )

    def answered(self, request_id: str, reply: object) -> None:
        call = self.calls.get(request_id)
        if call is not None and isinstance(reply, Reply):
            self.calls[request_id] = msgspec.structs.replace(call, code=reply.code, answered_at_ms=now_ms())


class JournalLink:
    """A link that writes down what passes; see api.dispatch.link."""

    def __init__(self, link: Link, book: _Book) -> None:
        self._link = link
        self._book = book
        self._listener: LinkListener | None = None

    @property
    def healthy(self) -> bool:
        return self._link.healthy

    async def start(self, listener: LinkListener) -> None:
        self._listener = listener
        await self._link.start(self)

    def send(self, partition: int, batch: CommandBatch, done: SendDone) -> None:
        for command in batch.commands:
            self._book.sent(command)
        self._link.send(partition, batch, done)

    def publish_demand(self, demand: Demand) -> None:
        self._link.publish_demand(demand)

    def write_config(self, key: str, value: bytes | None, done: ConfigDone) -> None:
        self._link.write_config(key, value, done)

    async def stop(self) -> None:
        await self._link.stop()

    @property
    def _told(self) -> LinkListener:
        assert self._listener is not None
        return self._listener

    def on_offers(self, offers: Sequence[Offers]) -> None:
        self._told.on_offers(offers)

    def on_replies(self, replies: Sequence[TimedReplies]) -> None:
        for _, batch in replies:
            for answer in batch.answers:
                self._book.answered(answer.request_id, answer.reply)
        self._told.on_replies(replies)

    def on_owners(self, owners: Sequence[tuple[int, OwnerView | None]]) -> None:
        self._told.on_owners(owners)

    def on_config(self, records: Sequence[ConfigRecord]) -> None:
        self._told.on_config(records)


class Driver:
    """One gateway with clients and workers. `start`, let faults happen, `drain`; then `journals` and `faults`."""

    def __init__(self, settings: Settings, load: Load) -> None:
        self._settings = settings
        self._load = load
        self._rng = random.Random(load.seed)  # noqa: S311 - a repeatable test
        self._book = _Book()
        self._names = itertools.count(1)
        self._standing: list[str] = []
        """Interval and cron jobs that changes pick from."""
        self._served = [p for p in range(settings.topics.partitions) if p not in load.timer_only]
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._quiet: asyncio.Event
        self._end: asyncio.Event
        self._client: DispatchClient
        self._tasks: set[asyncio.Task[None]] = set()
        self.gave_up: list[str] = []
        """Commands that never got an answer."""

    # --- for the test's thread ---

    def start(self) -> None:
        """Begin; returns when the standing jobs are defined."""
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S) or self._failure:
            raise AssertionError(f"the driver did not start: {self._failure!r}")

    def quiet(self) -> None:
        """Define and change nothing any more; workers go on."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._quiet.set)

    def drain(self) -> None:
        """Be quiet, let everything that is under way end, and stop."""
        self.quiet()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: it failed, which is told below
                self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(DRAIN_TIMEOUT_S + 30)
        if self._failure is not None:
            raise AssertionError("the driver failed") from self._failure
        assert not self._thread.is_alive(), "the driver did not end"

    @property
    def journals(self) -> Journals:
        """Give what was seen."""
        return Journals(calls=tuple(self._book.calls.values()), executions=tuple(self._book.executions))

    @property
    def faults(self) -> list[Fault]:
        """Give what workers did wrong on purpose."""
        return self._book.faults

    # --- the loop ---

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - told in the test's thread
            self._failure = error
        self._started.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._quiet, self._end = asyncio.Event(), asyncio.Event()
        gateway_id = f"gw-{self._load.seed}"
        link = KafkaLink(KafkaLinkConfig.from_settings(self._settings, gateway_id), gateway_id)
        self._client = DispatchClient(
            JournalLink(link, self._book),
            DispatchConfig(
                partitions=self._settings.topics.partitions, gateway_id=gateway_id, reply_timeout_ms=REPLY_TIMEOUT_MS
            ),
        )
        await self._client.start()
        await self._define_standing()
        workers = [asyncio.create_task(self._worker(n)) for n in range(self._load.workers)]
        people = [asyncio.create_task(self._define_one_offs()), asyncio.create_task(self._change())]
        self._started.set()
        await self._end.wait()
        await asyncio.gather(*people)
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            while self._tasks:
                await asyncio.wait([*self._tasks])
            await asyncio.gather(*workers)
            while self._tasks:
                await asyncio.wait([*self._tasks])
        await self._client.stop()

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._end.set()

    async def _rest(self, seconds: float, until: asyncio.Event) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(until.wait(), seconds)

    # --- clients ---

    async def _ask(self, command: AnyCommand) -> Reply | None:
        """Repeat until there is an answer, as a client with a key does."""
        never, clock = asyncio.Event(), asyncio.get_running_loop().time
        ends = clock() + GIVE_UP_S
        while clock() < ends:
            (result,) = await self._client.commands([command])
            if not isinstance(result, Failure):
                return result
            await self._rest(RETRY_S, never)
        self.gave_up.append(f"{type(command).__name__} {command.job_id}")
        return None

    async def _tell(self, command: AnyCommand) -> None:
        await self._ask(command)

    def _name(self, kind: str, partitions: Sequence[int]) -> str:
        """Give a job id that lives in one of the partitions."""
        wanted = self._rng.choice(partitions)
        while True:
            name = f"{kind}-{self._load.seed}-{next(self._names)}"
            if partition_for(name, self._settings.topics.partitions) == wanted:
                return name

    def _definition(self, job_id: str, schedule: CronSpec | IntervalSpec | OneOffSpec) -> Definition:
        return Definition(
            job_id=job_id,
            tenant=TENANT,
            queue=QUEUE,
            name=job_id,
            task="roll",
            schedule=schedule,
            payload=b'{"n": 1}',
            retry=Retry(max_attempts=5, backoff="fixed", delay_ms=200),
            overlap=self._rng.choice(("skip", "allow", "queue")),
            concurrent_runs_max=3,
        )

    def _beat(self, partition: int, number: int) -> Definition:
        job_id = self._name("beat", [partition])
        return Definition(
            job_id=job_id,
            tenant=TENANT,
            queue=NOBODY,
            name=job_id,
            task="beat",
            schedule=IntervalSpec(every_ms=1_000, anchor_ms=number * 1_000 // max(1, self._load.beats)),
            overlap="allow",
            concurrent_runs_max=4,
            start_deadline_ms=500,
        )

    def _create(self, definition: Definition) -> Define:
        return Define(
            job_id=definition.job_id, definition=definition, request_hash=request_hash(definition), mode="create"
        )

    def _standing_one(self) -> Definition:
        job_id = self._name("every", self._served)
        self._standing.append(job_id)
        return self._definition(
            job_id, IntervalSpec(every_ms=self._rng.choice((1_000, 1_500, 2_000, 3_000)), anchor_ms=0)
        )

    async def _define_standing(self) -> None:
        wanted = [
            self._beat(partition, number)
            for partition in range(self._settings.topics.partitions)
            for number in range(self._load.beats)
        ]
        if self._served:
            wanted += [self._standing_one() for _ in range(self._load.intervals)]
            for _ in range(self._load.crons):
                job_id = self._name("cron", self._served)
                self._standing.append(job_id)
                wanted.append(self._definition(job_id, CronSpec(self._rng.choice(CRONS))))
        await asyncio.gather(*[self._ask(self._create(definition)) for definition in wanted])

    async def _define_one_offs(self) -> None:
        owed = 0.0
        while not self._quiet.is_set():
            owed += self._load.one_offs * TICK_S
            for _ in range(int(owed)):
                at_ms = now_ms() + self._rng.choice((-500, 0, 300, 1_000, 2_500, 6_000))
                job_id = self._name("once", self._served)
                self._spawn(self._tell(self._create(self._definition(job_id, OneOffSpec(at_ms)))))
            owed -= int(owed)
            await self._rest(TICK_S, self._quiet)

    async def _change(self) -> None:
        if self._load.changes <= 0 or not self._standing:
            return
        while not self._quiet.is_set():
            await self._rest(self._rng.expovariate(self._load.changes), self._quiet)
            self._spawn(self._tell(self._a_change()))

    def _a_change(self) -> AnyCommand:
        job_id = self._rng.choice(self._standing)
        kind = self._rng.choices(("edit", "pause", "resume", "trigger", "replace"), (4, 2, 3, 4, 1))[0]
        match kind:
            case "edit":
                every_ms = self._rng.choice((1_000, 1_300, 2_000, 2_700))
                changed = self._definition(job_id, IntervalSpec(every_ms=every_ms, anchor_ms=0))
                return Define(job_id=job_id, definition=changed, request_hash=request_hash(changed), mode="edit")
            case "pause":
                return Pause(job_id=job_id, tenant=TENANT, actor="ann", until_ms=now_ms() + 2_000)
            case "resume":
                return Resume(job_id=job_id, tenant=TENANT, actor="ann")
            case "trigger":
                return Trigger(job_id=job_id, tenant=TENANT, trigger_id=f"t{next(self._names)}", actor="ann")
            case _:
                self._standing.remove(job_id)
                self._spawn(self._tell(self._create(self._standing_one())))
                return Delete(job_id=job_id, tenant=TENANT, actor="ann")

    # --- workers ---

    async def _worker(self, number: int) -> None:
        while not self._end.is_set():
            grants = await self._client.lease(
                TENANT, QUEUE, f"w{number}", max_runs=20, visibility_ms=self._load.visibility_ms, wait_ms=1_000
            )
            for grant in grants:
                self._spawn(self._execute(grant, f"w{number}"))

    async def _execute(self, grant: Grant, worker_id: str) -> None:
        execution = Execution(
            run_id=grant.run_id,
            attempt=grant.attempt,
            lease_token=grant.lease_token,
            worker_id=worker_id,
            scheduled_at_ms=grant.scheduled_at_ms,
            started_at_ms=now_ms(),
        )
        draw, load = self._rng.random(), self._load
        if draw < load.dies:
            at_ms = now_ms()
            self._book.executions.append(execution)
            self._book.faults.append(Fault(kind="worker_dies", from_ms=at_ms, to_ms=at_ms, target=worker_id))
            return
        if draw < load.dies + load.slow:
            goes_on = await self._dawdle(grant, self._rng.uniform(3.0, 6.0))
        else:
            goes_on = True
            await self._rest(self._rng.uniform(0, 0.15), asyncio.Event())
        self._book.executions.append(msgspec.structs.replace(execution, ended_at_ms=now_ms()))
        if not goes_on:
            return
        if draw > 1 - load.fails:
            await self._ask(self._fail(grant, retryable=draw < 1 - load.fails / 10))
        else:
            await self._ask(Complete(job_id=grant.job_id, run_id=grant.run_id, lease_token=grant.lease_token))

    def _fail(self, grant: Grant, *, retryable: bool) -> Fail:
        return Fail(
            job_id=grant.job_id,
            run_id=grant.run_id,
            lease_token=grant.lease_token,
            error="on purpose",
            retryable=retryable,
        )

    async def _dawdle(self, grant: Grant, seconds: float) -> bool:
        """Work for longer than one lease, with heartbeats; False where the lease was lost or could not be kept."""
        never = asyncio.Event()
        ends_ms, confirmed_ms = now_ms() + seconds * 1_000, grant.granted_at_ms
        while now_ms() < ends_ms:
            sent_ms = now_ms()
            if sent_ms - confirmed_ms > grant.visibility_ms - 300:
                self._book.faults.append(Fault(kind="worker_unheard", from_ms=confirmed_ms, to_ms=sent_ms))
                return False
            (result,) = await self._client.heartbeat([(grant.run_id, grant.lease_token)])
            if isinstance(result, Reply):
                if result.code != "ok" or result.cancel:
                    return result.cancel
                confirmed_ms = sent_ms
            await self._rest(grant.visibility_ms / 4_000, never)
        return True
