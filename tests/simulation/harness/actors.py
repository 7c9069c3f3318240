"""Gateways, workers and clients of the simulation, as small event-driven models.

A gateway publishes demand, takes offers, sends lease requests, reads its answers and hands grants out; its
workers execute, heartbeat and complete; clients define and change jobs. All of them lose messages, repeat them
and die, and write down what they saw for the checker. They follow DESIGN section 7: a request carries
valid_until, a grant is held until its due time by the broker's clock, a grant with nobody left to take it is
released, a worker stops itself before its lease could end.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schemas.partition import partition_for
from streams.audit.journals import ClientCall, Execution, Fault
from streams.core.commands import Complete, Fail, Grant, Heartbeat, LeaseRun, Release, Reply
from streams.core.envelopes import CommandBatch, Demand, QueueDemand
from streams.core.wire import decode_replies, encode_commands

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.commands import AnyCommand
    from streams.core.envelopes import Offer, Offers
    from tests.simulation.harness.memory_broker import MemoryBroker
    from tests.simulation.harness.virtual_time import World

DEMAND_EVERY_MS: Final = 1_000.0
LEASE_VALID_MS: Final = 2_000
ANSWER_TIMEOUT_MS: Final = 4_000.0
TRIES_MAX: Final = 8
HEARTBEAT_EVERY_MS: Final = 10_000.0
STOP_BEFORE_END_MS: Final = 5_000.0
"""DESIGN section 10: the worker stops itself this long before its lease could end."""


class Habits(msgspec.Struct, kw_only=True):
    """How often things go wrong outside of the scheduler; shares of 1."""

    message_lost: float = 0.0
    """Of demand, offers, heartbeats, answers and hand-outs. A loss that can cost a lease is a fault of the journal."""
    message_doubled: float = 0.0
    worker_dies: float = 0.0
    worker_sleeps: float = 0.0
    """Runs whose worker is frozen for a while, and goes on afterwards as if nothing had happened."""
    fails: float = 0.05
    fails_for_good: float = 0.01
    slow: float = 0.05
    """Runs that take up to two minutes instead of up to four seconds."""
    stuck: float = 0.0
    """Runs that go on, and send heartbeats, for up to twenty minutes."""


class Books:
    """What is written down about a run of the simulation."""

    def __init__(self) -> None:
        self.calls: list[ClientCall] = []
        self.executions: list[Execution] = []
        self.faults: list[Fault] = []


class Surroundings(msgspec.Struct, kw_only=True):
    """What all actors share."""

    world: World
    broker: MemoryBroker
    habits: Habits
    books: Books
    commands_topic: str
    replies_topic: str
    tell_owners: Callable[[Demand], None]
    demand_every_ms: float = DEMAND_EVERY_MS
    calm: Callable[[], bool] = lambda: False
    """Whether nothing is due for a while: nobody's demand matters then, and gateways need not tell it."""

    def lost(self, kind: str) -> bool:
        """Decide whether a message is lost, and write it down."""
        if self.world.rng.random() >= self.habits.message_lost:
            return False
        at_ms = self.world.epoch_ms
        self.books.faults.append(Fault(kind=f"lost_{kind}", from_ms=at_ms, to_ms=at_ms))
        return True


class Pending(msgspec.Struct):
    """A request whose answer is awaited."""

    command: AnyCommand
    on_answer: Callable[[Reply | Grant | None], None]
    sent_ms: int


class Gateway:
    """One gateway process and the workers that poll it."""

    def __init__(self, around: Surroundings, name: str, lines: list[tuple[str, str]], workers: int) -> None:
        self.around = around
        self.name = name
        self.alive = True
        self._lines = lines
        self._incarnation = 0
        self._ids = itertools.count(1)
        self._pending: dict[str, Pending] = {}
        self._packed: dict[int, list[AnyCommand]] = {}
        self._position = 0
        self.workers = [Worker(self, f"{name}-w{n}", lines[n % len(lines)]) for n in range(workers)]
        around.broker.listeners[around.replies_topic].append(self._heard)
        self._publishes = False
        self.stir()

    # --- life ---

    def kill(self) -> None:
        """Lose everything that is not in the log."""
        self.alive = False
        self._pending.clear()
        self._packed.clear()

    def revive(self) -> None:
        """Start again, as another incarnation."""
        self.alive = True
        self._incarnation += 1
        self._position = self.around.broker.end(self.around.replies_topic, 0)
        for worker in self.workers:
            worker.asking = False
        self.stir()

    # --- leases ---

    def offered(self, offers: Offers) -> None:
        """Ask for the runs that workers wait for."""
        if not self.alive or offers.incarnation != str(self._incarnation):
            return
        for offer in offers.offers:
            for worker in self.workers:
                if worker.waits and worker.line == (offer.tenant, offer.queue):
                    self._lease(worker, offer)
                    break

    def _lease(self, worker: Worker, offer: Offer) -> None:
        now_ms = self.around.world.epoch_ms
        worker.asking = True
        command = LeaseRun(
            job_id=offer.job_id,
            run_id=offer.run_id,
            worker_id=worker.name,
            gateway_id=self.name,
            job_version=offer.job_version,
            visibility_ms=30_000,
            valid_until_ms=max(now_ms, offer.due_at_ms) + LEASE_VALID_MS,
        )
        patience_ms = command.valid_until_ms - now_ms + 1_000.0
        self.ask(command, lambda answer: self._granted(worker, answer), patience_ms)

    def _granted(self, worker: Worker, answer: Reply | Grant | None) -> None:
        worker.asking = False
        if not isinstance(answer, Grant):
            return
        if worker.alive and worker.execution is None:
            hold_ms = max(0, answer.due_at_ms - self.around.world.epoch_ms)
            if not self.around.lost("grant"):
                self.around.world.at(hold_ms + self.around.world.rng.uniform(0.2, 3.0), lambda: worker.take(answer))
        else:
            self.release(answer)

    def release(self, grant: Grant) -> None:
        """Give back what nobody takes."""
        self.ask(Release(job_id=grant.job_id, run_id=grant.run_id, lease_token=grant.lease_token, reason="nobody"))

    # --- requests and answers ---

    def ask(
        self,
        command: AnyCommand,
        on_answer: Callable[[Reply | Grant | None], None] = lambda _: None,
        patience_ms: float = ANSWER_TIMEOUT_MS,
    ) -> str:
        """Send a command; `on_answer` hears the answer, or None after the patience. Gives the request id."""
        request_id = f"{self.name}.{self._incarnation}.{next(self._ids)}"
        command = msgspec.structs.replace(command, request_id=request_id)
        world = self.around.world
        self._pending[request_id] = Pending(command, on_answer, world.epoch_ms)
        partition = partition_for(command.job_id, self.around.broker.partitions)
        line = self._packed.setdefault(partition, [])
        if not line:
            world.at(5.0, lambda: self._send(partition))
        line.append(command)
        world.at(patience_ms, lambda: self._answered(request_id, None))
        return request_id

    def _send(self, partition: int) -> None:
        commands = self._packed.pop(partition, None)
        if not commands or not self.alive:
            return
        batch = CommandBatch(
            gateway_id=self.name,
            incarnation=str(self._incarnation),
            sent_at_ms=self.around.world.epoch_ms,
            commands=tuple(commands),
        )
        key = commands[0].job_id.encode()
        self.around.broker.append(self.around.commands_topic, partition, key, encode_commands(batch))

    def _heard(self, partition: int) -> None:
        self.around.world.at(self.around.world.rng.uniform(0.5, 4.0), lambda: self._read(partition))

    def _read(self, partition: int) -> None:
        if not self.alive:
            return
        for entry in self.around.broker.read(self.around.replies_topic, partition, self._position):
            self._position = entry.offset + 1
            if entry.key != self.name.encode():
                continue
            for answer in decode_replies(entry.value or b"").answers:
                if isinstance(answer.reply, Reply) and self.around.lost("answer"):
                    continue
                self._answered(answer.request_id, answer.reply)

    def _answered(self, request_id: str, answer: Reply | Grant | None) -> None:
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            pending.on_answer(answer)
        elif isinstance(answer, Grant) and self.alive:
            self.release(answer)

    def stir(self) -> None:
        """Publish demand from now on, every second until it is calm."""
        if not self._publishes:
            self._publishes = True
            self.around.world.at(self.around.world.rng.uniform(0, 1_000.0), self._publish)

    def _publish(self) -> None:
        world = self.around.world
        self._publishes = self.alive and not self.around.calm()
        if not self._publishes:
            return
        world.at(self.around.demand_every_ms, self._publish)
        if world.rng.random() < self.around.habits.message_lost:
            return
        slots = Counter(worker.line for worker in self.workers if worker.waits)
        queues = [QueueDemand(tenant=line[0], queue=line[1], slots=slots[line]) for line in self._lines]
        self.around.tell_owners(
            Demand(
                gateway_id=self.name,
                incarnation=str(self._incarnation),
                sent_at_ms=world.epoch_ms,
                queues=tuple(queues),
            )
        )


class Worker:
    """One slot of one worker process: executes one run at a time."""

    def __init__(self, gateway: Gateway, name: str, line: tuple[str, str]) -> None:
        self.gateway = gateway
        self.name = name
        self.line = line
        self.alive = True
        self.asking = False
        self.execution: Executing | None = None

    @property
    def waits(self) -> bool:
        """Whether it would take a run now."""
        return self.alive and not self.asking and self.execution is None

    def take(self, grant: Grant) -> None:
        """Begin to execute."""
        if not self.alive or self.execution is not None or not self.gateway.alive:
            return
        self.execution = Executing(self, grant)

    def die(self, revive_after_ms: float) -> None:
        """Stop without a word; another process takes its name later."""
        world = self.gateway.around.world
        if self.execution is not None:
            self.execution.over(journal_end=False)
        self.alive = False
        at_ms = world.epoch_ms
        self.gateway.around.books.faults.append(Fault(kind="worker_dies", from_ms=at_ms, to_ms=at_ms, target=self.name))
        world.at(revive_after_ms, self._revive)

    def _revive(self) -> None:
        self.alive = True
        self.asking = False


class Executing:
    """One execution of one run: heartbeats until done, then tells the outcome until it is heard."""

    def __init__(self, worker: Worker, grant: Grant) -> None:
        self.worker = worker
        self.grant = grant
        self._around = worker.gateway.around
        self._world = self._around.world
        self._started_ms = self._world.epoch_ms
        self._confirmed_ms = grant.granted_at_ms
        self._ended = False
        self._tries = 0
        self._asleep_until_ms = 0
        rng, habits = self._world.rng, self._around.habits
        duration_ms = rng.uniform(20_000, 120_000) if rng.random() < habits.slow else rng.uniform(5, 4_000)
        if rng.random() < habits.stuck:
            duration_ms = rng.uniform(120_000, 1_200_000)
        self._beat()
        if rng.random() < habits.worker_dies:
            self._world.at(rng.uniform(0, duration_ms), self._die)
        if rng.random() < habits.worker_sleeps:
            self._world.at(rng.uniform(0, duration_ms), self._sleep)
        self._world.at(duration_ms, self._done)

    def over(self, *, journal_end: bool) -> None:
        """Write the execution down and free the worker."""
        if self._ended:
            return
        self._ended = True
        self._around.books.executions.append(
            Execution(
                run_id=self.grant.run_id,
                attempt=self.grant.attempt,
                lease_token=self.grant.lease_token,
                worker_id=self.worker.name,
                scheduled_at_ms=self.grant.scheduled_at_ms,
                started_at_ms=self._started_ms,
                ended_at_ms=self._world.epoch_ms if journal_end else 0,
            )
        )
        self.worker.execution = None

    def _die(self) -> None:
        if not self._ended:
            self.worker.die(self._world.rng.uniform(1_000, 30_000))

    def _sleep(self) -> None:
        """SIGSTOP on the worker; when it wakes, what it had to say goes out before it looks at the clock."""
        for_ms = self._world.rng.uniform(5_000, 90_000)
        now_ms = self._world.epoch_ms
        self._asleep_until_ms = now_ms + int(for_ms)
        fault = Fault(kind="worker_sleeps", from_ms=now_ms, to_ms=self._asleep_until_ms, target=self.worker.name)
        self._around.books.faults.append(fault)

    def _asleep(self, then: Callable[[], None]) -> bool:
        left_ms = self._asleep_until_ms - self._world.epoch_ms
        if left_ms > 0:
            self._world.at(left_ms, then)
        return left_ms > 0

    # --- heartbeats ---

    def _beat(self) -> None:
        if self._ended or self._asleep(self._beat):
            return
        now_ms = self._world.epoch_ms
        if now_ms - self._confirmed_ms > self.grant.visibility_ms - STOP_BEFORE_END_MS:
            at_ms = self._world.epoch_ms
            self._around.books.faults.append(Fault(kind="worker_unheard", from_ms=self._confirmed_ms, to_ms=at_ms))
            self.over(journal_end=True)
            return
        times = 0 if self._around.lost("heartbeat") or not self.worker.gateway.alive else 1
        times += self._world.rng.random() < self._around.habits.message_doubled
        for _ in range(times):
            command = Heartbeat(job_id=self.grant.job_id, run_id=self.grant.run_id, lease_token=self.grant.lease_token)
            self.worker.gateway.ask(command, lambda answer: self._beaten(answer, now_ms))
        self._world.at(HEARTBEAT_EVERY_MS if times else 2_000.0, self._beat)

    def _beaten(self, answer: Reply | Grant | None, sent_ms: int) -> None:
        if self._ended or not isinstance(answer, Reply):
            return
        if answer.code == "ok":
            self._confirmed_ms = max(self._confirmed_ms, sent_ms)
            if answer.cancel:
                self._tell(self._fail("cancelled", retryable=True))
        elif answer.code == "lease_lost":
            self.over(journal_end=True)

    # --- the outcome ---

    def _done(self) -> None:
        if self._ended or self._asleep(self._done):
            return
        draw, habits = self._world.rng.random(), self._around.habits
        if draw < habits.fails_for_good:
            self._tell(self._fail("for good", retryable=False))
        elif draw < habits.fails:
            self._tell(self._fail("this time", retryable=True))
        else:
            grant = self.grant
            self._tell(Complete(job_id=grant.job_id, run_id=grant.run_id, lease_token=grant.lease_token, result=b"1"))

    def _fail(self, error: str, *, retryable: bool) -> Fail:
        grant = self.grant
        return Fail(
            job_id=grant.job_id, run_id=grant.run_id, lease_token=grant.lease_token, error=error, retryable=retryable
        )

    def _tell(self, command: Complete | Fail) -> None:
        """The handler is done; the slot stays taken until the answer is there or patience is over."""
        first = not self._ended
        self.over(journal_end=True)
        if first:
            self.worker.asking = True
        self._tries += 1
        if not self.worker.gateway.alive:
            self._again(command)
            return
        if self._world.rng.random() < self._around.habits.message_doubled:
            self._send(command, last=False)
        self._send(command, last=True)

    def _send(self, command: Complete | Fail, *, last: bool) -> None:
        def heard(answer: Reply | Grant | None) -> None:
            self._journal(request[0], command, answer)
            if not last:
                return
            if answer is None:
                self._again(command)
            else:
                self.worker.asking = False

        request: list[str] = [""]
        request[0] = self.worker.gateway.ask(command, heard)

    def _again(self, command: Complete | Fail) -> None:
        if self._tries >= TRIES_MAX or not self.worker.alive:
            self.worker.asking = False
            return
        self._world.at(self._world.rng.uniform(100, 2_000), lambda: self._tell(command))

    def _journal(self, request_id: str, command: Complete | Fail, answer: Reply | Grant | None) -> None:
        self._around.books.calls.append(
            ClientCall(
                request_id=request_id,
                job_id=command.job_id,
                name=type(command).__name__,
                code=answer.code if isinstance(answer, Reply) else "",
                run_id=command.run_id,
                lease_token=command.lease_token,
                answered_at_ms=self._world.epoch_ms,
            )
        )


class Client:
    """A person or service that changes jobs, and repeats a call until it is answered."""

    def __init__(self, around: Surroundings, gateways: list[Gateway]) -> None:
        self._around = around
        self._gateways = gateways

    def call(self, command: Any, key: str = "", tries: int = TRIES_MAX) -> None:
        """Send a command through any living gateway."""
        world = self._around.world
        living = [gateway for gateway in self._gateways if gateway.alive]
        if not living:
            world.at(world.rng.uniform(500, 20_000), lambda: self.call(command, key, tries))
            return

        def heard(answer: Reply | Grant | None) -> None:
            code = answer.code if isinstance(answer, Reply) else ""
            self._around.books.calls.append(
                ClientCall(
                    request_id=request[0],
                    job_id=command.job_id,
                    name=type(command).__name__,
                    code=code,
                    idempotency_key=key,
                    tenant="",
                    answered_at_ms=world.epoch_ms,
                )
            )
            if not code and tries > 1:
                world.at(world.rng.uniform(50, 1_000), lambda: self.call(command, key, tries - 1))

        request = [""]
        request[0] = world.rng.choice(living).ask(command, heard)
