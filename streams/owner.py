"""The owner: one group-commit loop per process over the shards of the partitions that it has (DESIGN section 6).

A turn of the loop: every active shard decides what has arrived and fallen due; one transaction carries all of it;
after the commit, and only then, the replies leave and each shard applies its part. One transaction is in flight at a
time. Commits follow at once when there is little to do; batches grow when there is much.

The owner acts only between a finished take-over and the next revocation. Every outcome of a transaction that is not a
clean commit or a clean abort ends in forgetting the state and loading it from the ledger again.

Everything it touches comes in as a role (committer, ledger log, membership, clock), so that the simulator drives this
loop's parts with virtual ones. Logs and metrics are made by the `OwnerEvents` that is passed in.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from confluent_kafka import KafkaException

from schemas.topics import Topic, topic_name
from streams.broker_clock import BrokerClocks
from streams.core.envelopes import OwnerView
from streams.demand import DemandTable
from streams.inbox import SOURCES, Inbox
from streams.limits import TELL_EVERY_MS, Limits
from streams.membership import Membership, NoMembershipError
from streams.owner_config import OwnerConfig
from streams.sealing import Sealer
from streams.shard import Shard, ShardSettings
from streams.takeover import Progress, Recovered, Takeover
from streams.transaction import Committed, NoSteps, Outcome, PartitionWrite, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from schemas.config import Settings
    from streams.batch import Batch
    from streams.core.calendars import Calendars
    from streams.core.envelopes import Demand, Offers
    from streams.core.time import ZoneData
    from streams.inbox import Input, Source
    from streams.ledger_log import LedgerLog
    from streams.membership import LiveMembership
    from streams.store.interface import Store, StoreIdentity
    from streams.transaction import Committer, OutRecord, Steps

BUSY_MS_PER_DECISION: Final = 0.05
"""Between the beginnings of two commits, for each decision that the first carried: 800 fill the busy interval (facts
A5: the number of transactions is what is dear, not their records)."""

INPUTS_WAIT_MS: Final = 20
"""Inputs of a partition where nothing is due wait this long at most while runs are due on others: a commit takes longer
with each partition that it touches (facts A5), and that makes due runs late, while a completion is never late."""

COMMIT_MS: Final = 10
"""About what a commit takes: one that begins so shortly before a run falls due makes it late."""

DECISIONS_SHARE_MIN: Final = 20
"""Of one partition in one turn, however many partitions are busy: each gets on."""

IN_FLIGHT_MAX_MS: Final = 180_000
"""Above the time-outs of all steps of a transaction together, with its commit tried again for two minutes: a client
that does not come back from one of them by then never does."""

IDLE_WAIT_MS_MAX: Final = 500
"""The loop looks around this often even if nothing wakes it."""

OFFER_PAUSE_MS: Final = 5
"""Between two passes over the offer book: hints need no finer grain."""

SCATTER: Final = 0x9E3779B1
"""2^32 divided by the golden ratio: multiples of it spread evenly, whatever the step."""

RETRY_PAUSE_S: Final = 0.2
"""After a transaction that was aborted without a rebalance: the broker has trouble; do not spin."""


UNREACHABLE_PAUSE_S: Final = 1.0
"""Before a take-over that the broker did not answer is tried again; a broker restarts in some seconds."""


class OwnerEvents(Protocol):
    """What the owner tells those who log and measure. Each call is cheap and never raises."""

    def assigned(self, membership: Membership, partitions: Sequence[int], kept: Sequence[int]) -> None:
        """The group has given this process partitions; the state of `kept` was kept."""

    def revoked(self, partitions: Sequence[int], waited_ms: float) -> None:
        """The group is about to move on; the transaction in flight was waited for."""

    def recovering(self, progress: Progress) -> None:
        """A take-over has read a part of the ledger."""

    def ready(self, partitions: Sequence[int], took_ms: float) -> None:
        """Partitions were taken over."""

    def committed(self, batches: Sequence[Batch], took_ms: float) -> None:
        """A transaction is on the log."""

    def failed(self, outcome: Outcome, reason: str, partitions: Sequence[int]) -> None:
        """A transaction did not commit."""

    def no_membership(self, reason: str) -> None:
        """An assignment came without a membership that the broker would check."""

    def quarantined(self, job_id: str, reason: str) -> None:
        """A job was set aside."""

    def unreachable(self, what: str, reason: str) -> None:
        """The broker did not answer a question; it is asked again."""

    def skew(self, skew_ms: float) -> None:
        """Local wall clock minus broker's clock, of the partition where it is largest; after each commit."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The roles that an owner works with."""

    committer: Committer
    log: LedgerLog
    live: LiveMembership
    open_store: Callable[[int, StoreIdentity, int], Store]
    send_offers: Callable[[Sequence[Offers]], None]
    send_replies: Callable[[Sequence[OutRecord]], None]
    events: OwnerEvents
    look_at_config: Callable[[int], None] | None = None
    """See OwnerConfig; None where nothing but what `heard_config` is told can be known."""
    steps: Steps = NoSteps()
    monotonic_ms: Callable[[], float] = lambda: time.monotonic() * 1000.0
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


class Owner:
    """The shards of this process, and the loop that commits for them."""

    def __init__(self, settings: Settings, zone_data: ZoneData, runtime: Runtime) -> None:
        self._settings = settings
        self._zone_data = zone_data
        self._runtime = runtime
        self._shard_settings = shard_settings(settings)
        self._clocks = BrokerClocks()
        self._membership: Membership | None = None
        self._stashed: tuple[Membership, dict[int, Shard]] | None = None
        self._early: dict[int, Inbox] = {}
        """What arrives for partitions that are being taken over."""
        self._arriving: dict[int, Inbox] = {}
        """What arrives for an assignment while the one before it, never revoked, is given up."""
        self._announce: set[int] = set()
        self._epoch = 0
        self._in_flight: asyncio.Future[None] | None = None
        self._holding = True
        self._stopped = False
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._commit_thread = ThreadPoolExecutor(1, "horolog-commit")
        self._recovery_thread = ThreadPoolExecutor(1, "horolog-recovery")
        self._ends_thread = ThreadPoolExecutor(1, "horolog-ends")
        self._taking_over = asyncio.Lock()
        self._renewal_due = False
        self._alone: deque[int] = deque()
        """Partitions of a transaction that was poisoned: each commits by itself until the one at fault is found."""
        self._asking_for_ends = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._next_commit_ms = 0.0
        self._next_offers_ms = 0.0
        self._passes = 0
        self._next_word_ms = 0.0
        self._since_ms: dict[int, int] = {}
        """Since when each partition is ours, by wall clock."""
        self._arrived_ms: dict[int, float] = {}
        """When the oldest input came that its shard has not looked at; what is held and missing here waits no more."""
        self.demand = DemandTable()
        self.config = OwnerConfig(runtime.look_at_config)
        self.limits = Limits()
        self.shards: dict[int, Shard] = {}
        self.recovering: dict[int, Progress | None] = {}
        self.query_url = ""
        """Where this process answers queries; told to everybody in topic `owners`."""
        self.failure: BaseException | None = None
        """Why the loop ended by itself; None after a stop."""
        self._turned_at_ms = runtime.monotonic_ms()

    # --- input ---

    def deliver(self, partition: int, item: Input) -> None:
        """Hold one record of an input topic. Records of a partition that is still being recovered wait for it."""
        waiting = self._waiting(partition)
        if waiting is not None:
            waiting.push(item)
        elif partition in self.shards:
            self.shards[partition].push(item)
            self._arrived_ms.setdefault(partition, self._runtime.monotonic_ms())
            self._wake.set()

    def _waiting(self, partition: int) -> Inbox | None:
        """Return where the records of a partition wait that has no shard yet."""
        return self._arriving.get(partition, self._early.get(partition))

    async def room(self, partition: int) -> None:
        """Wait while the inbox of a partition is full; the source meanwhile buffers and then waits too."""
        while self._full(partition):
            self._room.clear()
            await self._room.wait()

    def _full(self, partition: int) -> bool:
        waiting = self._waiting(partition)
        if waiting is not None:
            return waiting.full
        shard = self.shards.get(partition)
        return shard is not None and shard.inbox.full

    def heard_config(self, calendars: Calendars, next_offset: int, looked: int) -> None:
        """Follow the calendars, as far as they were read."""
        self.config.heard(calendars, next_offset, looked)
        self._wake.set()

    def heard_demand(self, demand: Demand) -> None:
        """Follow the free slots of a gateway."""
        self.demand.update(demand, self._runtime.monotonic_ms())
        self._wake.set()

    def heard_limit(self, key: str, value: bytes | None) -> None:
        """Follow the limits in topic `config`."""
        self.limits.heard_config(key, value)

    def heard_owner(self, partition: int, view: OwnerView | None) -> None:
        """Follow topic `owners`: what counts against limits elsewhere."""
        self.limits.heard_owner(partition, view)
        self._wake.set()

    # --- the assignment ---

    async def assigned(self, partitions: Sequence[int]) -> None:
        """Begin to take over what the group has assigned; returns before that is done."""
        if self._membership is not None:  # the group has moved on without saying so, and may deliver already
            self._arriving = {partition: self._waiting_room() for partition in partitions}
            await self.revoked()
        arrived, self._arriving = self._arriving, {}
        self._epoch += 1
        stashed, self._stashed = self._stashed, None
        self.shards, self._early, self._membership = {}, {}, None
        try:
            membership = self._runtime.live.snapshot()
        except NoMembershipError as error:
            await self._close_shards(stashed[1].values() if stashed else ())
            self._runtime.events.no_membership(str(error))
            return
        self._membership = membership
        kept: dict[int, Shard] = {}
        if stashed is not None:
            if membership.succeeds(stashed[0]):
                kept = {p: shard for p, shard in stashed[1].items() if p in partitions and shard.active}
            await self._close_shards(shard for p, shard in stashed[1].items() if p not in kept)
        sealer = self._sealer(membership)
        for partition, shard in kept.items():
            shard.rebind(sealer)
            self._announce.add(partition)
            if partition in arrived:
                _push(arrived[partition].held, shard.push)
        self.shards = dict(kept)
        missing = [partition for partition in partitions if partition not in kept]
        self._early = {partition: arrived.get(partition, self._waiting_room()) for partition in missing}
        self._holding = False
        self._runtime.events.assigned(membership, sorted(partitions), sorted(kept))
        self._spawn(self._take_over(self._epoch, missing))
        self._wake.set()

    async def revoked(self) -> None:
        """Stop acting before the group moves on: the transaction in flight is finished or aborted when this returns."""
        started_ms = self._runtime.monotonic_ms()
        self._holding = True
        self._epoch += 1
        if self._in_flight is not None:
            await self._in_flight
        if self._membership is not None and self.shards:
            await self._drop_stash()
            self._stashed = (self._membership, self.shards)
        self._runtime.events.revoked(sorted(self.shards), self._runtime.monotonic_ms() - started_ms)
        self.shards, self._early, self.recovering = {}, {}, {}
        self._membership = None

    async def stop(self) -> None:
        """Give everything up: called before the group is left."""
        await self.revoked()
        self._stopped = True
        self._wake.set()
        await self._drop_stash()

    # --- the loop ---

    async def run(self) -> None:
        """Turn until stopped. An exception that leaves here must end the process; it stands in `failure` too."""
        try:
            while not self._stopped:
                self._wake.clear()
                self._turned_at_ms = self._runtime.monotonic_ms()
                if not self._holding:
                    await self._turn()
                self._room.set()
                await self._wait()
        except Exception as error:
            self.failure = error
            self._stopped = self._holding = True
            raise

    @property
    def is_member(self) -> bool:
        """Whether this process has a place in the group under which it may act."""
        return self._membership is not None and not self._holding

    def stalled_ms(self) -> float:
        """Return how long the loop has not turned, for the watchdog; a transaction in flight has bounds of its own."""
        since_ms = self._runtime.monotonic_ms() - self._turned_at_ms
        return 0.0 if self._in_flight is not None and since_ms < IN_FLIGHT_MAX_MS else since_ms

    async def _turn(self) -> None:
        now_ms = self._runtime.monotonic_ms()
        if now_ms >= self._next_commit_ms:
            self._share_out()
            self._count(now_ms)
            self._give_word(now_ms)
            batches = [batch for shard in self._taking_part(now_ms) if (batch := self._collect(shard, now_ms))]
            if self._alone and not batches:
                self._alone.popleft()
                self._wake.set()
            if batches:
                await self._commit(batches)
        now_ms = self._runtime.monotonic_ms()
        if not self._holding and now_ms >= self._next_offers_ms:
            self._next_offers_ms = now_ms + OFFER_PAUSE_MS
            self._offer(now_ms)
        self._ask_for_ends()

    def _count(self, now_ms: float) -> None:
        """See what the limits leave."""
        stores = {partition: shard.store for partition, shard in self.shards.items()}
        self.limits.own_name = self._runtime.committer.transactional_id
        books = [shard.book for shard in self.shards.values()]
        self.limits.begin_turn(stores, now_ms, self._runtime.wall_ms(), books)

    def _give_word(self, now_ms: float) -> None:
        """From time to time, have told what others must know of what counts against limits."""
        if now_ms < self._next_word_ms:
            return
        self._next_word_ms = now_ms + TELL_EVERY_MS
        self.limits.note_waiting()
        for partition, shard in self.shards.items():
            if shard.active and self.limits.has_news(partition, shard.store):
                self._announce.add(partition)
                shard.marker_wanted = True

    def _acting(self) -> list[Shard]:
        """Return the shards that may commit together in this turn."""
        if not self._alone:
            return [*self.shards.values()]
        shard = self.shards.get(self._alone[0])
        return [] if shard is None else [shard]

    def _taking_part(self, now_ms: float) -> list[Shard]:
        """Return the shards that decide in this turn; those with inputs alone may have to wait for a later one."""
        acting, wait_ms = self._acting(), self._inputs_wait_ms(now_ms)
        if self._alone:
            return acting
        return [
            shard
            for shard in acting
            if not shard.active
            or shard.urgent(now_ms)
            or (shard.has_inputs and self._waited_ms(shard, now_ms) >= wait_ms)
        ]

    def _inputs_wait_ms(self, now_ms: float) -> float:
        """Return how long inputs wait at present: not at all, unless something falls due now or during their commit."""
        shards = self.shards.values()
        if not any(shard.has_inputs for shard in shards):
            return 0.0
        return INPUTS_WAIT_MS if any(self._due_in_ms(shard, now_ms) < COMMIT_MS for shard in shards) else 0.0

    def _due_in_ms(self, shard: Shard, now_ms: float) -> float:
        """Return the time until something of a shard falls due, or a little less."""
        clock = self._clocks.of(shard.partition)
        return shard.next_collect_ms() - clock.now_ms(now_ms) if shard.active and clock.ready else IDLE_WAIT_MS_MAX

    def _waited_ms(self, shard: Shard, now_ms: float) -> float:
        return now_ms - self._arrived_ms.get(shard.partition, 0.0)

    def _share_out(self) -> None:
        """Divide the decisions of a turn among the partitions that have something to decide."""
        busy = [shard for shard in self.shards.values() if shard.has_work()]
        share = self._settings.scheduler.tick_commands_max // max(1, len(busy))
        for shard in self.shards.values():
            shard.decisions_share = max(DECISIONS_SHARE_MIN, share)

    def _collect(self, shard: Shard, now_ms: float) -> Batch | None:
        batch = shard.collect(now_ms) if shard.active else shard.first_batch()
        self._arrived_ms.pop(shard.partition, None)
        for job_id, reason in shard.newly_quarantined():
            self._runtime.events.quarantined(job_id, reason)
        return batch

    async def _commit(self, batches: list[Batch]) -> None:
        """Steps 3 to 6 of the commit order."""
        membership, epoch = self._membership, self._epoch
        if membership is None:
            return
        sealer = self._sealer(membership)
        transaction = self._transaction(sealer, batches)
        replies = sealer.reply_records(batches)
        loop = asyncio.get_running_loop()
        self._in_flight = loop.create_future()
        started_ms = self._runtime.monotonic_ms()
        try:
            end = await loop.run_in_executor(self._commit_thread, self._runtime.committer.commit, transaction)
            took_ms = self._runtime.monotonic_ms() - started_ms
            if end.outcome is Outcome.COMMITTED:
                # Answers are true from here on. Nobody can ask for what they tell before it is applied, on this thread.
                self._runtime.steps.before("reply")
                self._runtime.send_replies(replies)
                self._apply(batches, end)
                self._runtime.events.committed(batches, took_ms)
                self._pace(batches, started_ms)
            else:
                await self._failed(batches, end, epoch)
        finally:
            self._in_flight.set_result(None)
            self._in_flight = None

    def _transaction(self, sealer: Sealer, batches: Sequence[Batch]) -> Transaction:
        writes: list[PartitionWrite] = []
        shared: list[OutRecord] = []
        for batch in batches:
            if batch.write is None:
                raise RuntimeError(f"the batch of partition {batch.partition} was not sealed")
            writes.append(batch.write)
            if batch.partition in self._announce:
                shared.append(sealer.owner_record(self._owner_view(sealer.membership, batch.partition)))
        return Transaction(membership=sealer.membership, writes=writes, shared=shared)

    def _apply(self, batches: Sequence[Batch], end: Committed) -> None:
        """Step 6: only what is on the log changes the state."""
        self._runtime.steps.before("apply")
        wall_ms = self._runtime.wall_ms()
        if self._alone:
            self._alone.popleft()
        for batch in batches:
            self._announce.discard(batch.partition)
            shard = self.shards.get(batch.partition)
            if shard is not None:
                shard.committed(batch, end.receipts[batch.partition], wall_ms)
        self._tell_skew(wall_ms)

    def _tell_skew(self, wall_ms: int) -> None:
        """Due times go by the broker's clock; that this machine's is far from it is somebody's mistake all the same."""
        now_ms = self._runtime.monotonic_ms()
        clocks = [self._clocks.of(partition) for partition in self.shards]
        skews = [clock.skew_ms(wall_ms, now_ms) for clock in clocks if clock.ready]
        if skews:
            self._runtime.events.skew(max(skews, key=abs))

    async def _failed(self, batches: Sequence[Batch], end: Committed, epoch: int) -> None:
        """No commit: try again, or forget everything, by what is known of the outcome."""
        self._runtime.events.failed(end.outcome, end.reason, [batch.partition for batch in batches])
        if end.outcome is Outcome.STALE:
            self._renewal_due = self._renewal_due or end.producer_lost
            await self._forget()
            return
        if end.outcome is Outcome.UNKNOWN:
            self._renewal_due = True
            for batch in batches:
                if batch.partition in self.shards:
                    self.shards[batch.partition].rolled_back(batch)
            # The source does not deliver again what it has delivered; the new floor drops what was committed after all.
            held = {p: shard.inbox.held for p, shard in self.shards.items()} | {
                p: waiting.held for p, waiting in self._early.items()
            }
            still = self._still(epoch)
            await self._forget()
            if still:
                self._reload(held)
            return
        poisoned = end.outcome is Outcome.POISONED
        if poisoned and len(batches) > 1:
            self._alone.extend(batch.partition for batch in batches)
        for batch in batches:
            shard = self.shards.get(batch.partition)
            if shard is not None:
                shard.rolled_back(batch, poisoned=poisoned and len(batches) == 1)
        self._next_commit_ms = self._runtime.monotonic_ms() + RETRY_PAUSE_S * 1000

    async def _wait(self) -> None:
        """Sleep until something arrives or falls due."""
        if self._wake.is_set():
            wait_ms = max(0.0, self._next_commit_ms - self._runtime.monotonic_ms()) if self.shards else 0.0
            await asyncio.sleep(wait_ms / 1000)
            return
        handle = asyncio.get_running_loop().call_later(self._wait_ms() / 1000, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            handle.cancel()

    def _wait_ms(self) -> float:
        now_ms = self._runtime.monotonic_ms()
        wait_ms = offers_wait_ms = float(IDLE_WAIT_MS_MAX)
        if self._holding:
            return wait_ms
        inputs_wait_ms = self._inputs_wait_ms(now_ms)
        for partition, shard in self.shards.items():
            clock = self._clocks.of(partition)
            if not shard.active:
                wait_ms = 0.0
            if shard.has_inputs:
                wait_ms = min(wait_ms, inputs_wait_ms - self._waited_ms(shard, now_ms))
            wait_ms = min(wait_ms, self._due_in_ms(shard, now_ms))
            offers_at_ms = shard.next_offers_ms(self.demand)
            if clock.ready and offers_at_ms is not None:
                offers_wait_ms = min(offers_wait_ms, offers_at_ms - clock.now_ms(now_ms))
        offers_wait_ms = max(offers_wait_ms, self._next_offers_ms - now_ms)
        return max(min(wait_ms, offers_wait_ms), self._next_commit_ms - now_ms, 0.0)

    def _pace(self, batches: Sequence[Batch], started_ms: float) -> None:
        """Let the next commit begin some time after this one began: the more, the more it carried."""
        decisions = sum(batch.decisions for batch in batches)
        pause_ms = min(self._settings.scheduler.commit_interval_busy_ms, decisions * BUSY_MS_PER_DECISION)
        self._next_commit_ms = started_ms + pause_ms

    def _offer(self, now_ms: float) -> None:
        self.demand.forget_silent(now_ms)
        self._count(now_ms)  # anew: runs may have ended with the commit of this turn
        made = [offers for shard in self._scattered() for offers in shard.offers(self.demand, now_ms)]
        if made:
            self._runtime.send_offers(made)

    def _scattered(self) -> list[Shard]:
        """Give the shards from another one on in each pass: the first one takes what room a concurrency key has.

        In steps that fall in with no other rhythm, so that none is always behind another.
        """
        shards = [*self.shards.values()]
        self._passes += 1
        start = (self._passes * SCATTER % 2**32 >> 16) % len(shards) if shards else 0
        return shards[start:] + shards[:start]

    # --- take-over ---

    async def _take_over(self, epoch: int, partitions: list[int]) -> None:
        if not partitions:
            return
        # One after the other: a take-over that was overtaken closes its stores before the next one opens them.
        async with self._taking_over:
            if self._still(epoch):
                await self._take_over_now(epoch, partitions)

    async def _take_over_now(self, epoch: int, partitions: list[int]) -> None:
        started_ms = self._runtime.monotonic_ms()
        self.recovering = dict.fromkeys(partitions)
        recovered = await self._recover(epoch, partitions)
        if recovered is None:
            return
        if not self._still(epoch) or self._membership is None:
            for left in recovered.values():
                left.store.close()
            return
        sealer = self._sealer(self._membership)
        for partition, start in recovered.items():
            self.shards[partition] = self._shard(partition, start, sealer)
            self._announce.add(partition)
            self._since_ms[partition] = self._runtime.wall_ms()
            _push(self._early.pop(partition).held, self.shards[partition].push)
        self.recovering = {}
        self._wake.set()
        self._runtime.events.ready(sorted(recovered), self._runtime.monotonic_ms() - started_ms)

    async def _recover(self, epoch: int, partitions: list[int]) -> dict[int, Recovered] | None:
        """Run the take-over; again while the broker does not answer and the assignment stands."""
        loop = asyncio.get_running_loop()
        takeover = Takeover(
            self._runtime.log,
            self._runtime.open_store,
            input_topics=input_topics(self._settings),
            still_current=lambda: self._still(epoch),
            own_id=lambda: self._runtime.committer.transactional_id,
            progress=lambda progress: self._progressed(epoch, progress),
            fence_wait_ms=self._settings.scheduler.fence_wait_ms,
            missed_gap_ms=self._settings.scheduler.missed_gap_ms,
        )
        while self._still(epoch):
            try:
                if self._renewal_due:
                    await loop.run_in_executor(self._commit_thread, self._runtime.committer.renew)
                    self._renewal_due = False
                return await loop.run_in_executor(self._recovery_thread, takeover.run, partitions)
            except KafkaException as error:
                self._runtime.events.unreachable("take-over", str(error))
                await asyncio.sleep(UNREACHABLE_PAUSE_S)
        return None

    def _reload(self, held: Mapping[int, Sequence[Input]]) -> None:
        """Load partitions from the ledger again under the same membership. `held`: their inputs, delivered already."""
        try:
            present = self._runtime.live.snapshot()
        except NoMembershipError as error:
            self._runtime.events.no_membership(str(error))
            return
        if present != self._membership:  # another generation has its own assignment, which is on its way
            self._runtime.events.no_membership(f"the group is in generation {present.generation} already")
            return
        self._early = {partition: self._waiting_room() for partition in held}
        for partition, items in held.items():
            _push(items, self._early[partition].push)
        self._holding = False
        self._spawn(self._take_over(self._epoch, sorted(held)))

    async def _forget(self) -> None:
        """Drop all state and act no more until the next assignment or reload; take-overs that run are given up."""
        self._holding = True
        self._epoch += 1
        await self._close_shards(self.shards.values())
        self.shards, self._early, self.recovering = {}, {}, {}

    def _waiting_room(self) -> Inbox:
        """Hold what arrives before the floors are known; bounded as every inbox."""
        room = Inbox(dict.fromkeys(SOURCES, 0))
        room.records_max = self._shard_settings.inbox_records_max
        room.bytes_max = self._shard_settings.inbox_bytes_max
        return room

    def _shard(self, partition: int, start: Recovered, sealer: Sealer) -> Shard:
        self._clocks.drop(partition)
        return Shard(
            partition,
            start.store,
            self._clocks.of(partition),
            sealer,
            settings=self._shard_settings,
            zone_data=self._zone_data,
            floors=start.floors,
            topics=start.topics,
            next_seq=start.next_seq,
            last_marker_ms=start.last_marker_ms,
            absence=start.absence,
            config=self.config,
            limits=self.limits,
        )

    def _still(self, epoch: int) -> bool:
        return epoch == self._epoch and not self._stopped

    def _progressed(self, epoch: int, progress: Progress) -> None:
        """Comes from the recovery thread, also from a take-over that is given up just now."""
        if not self._still(epoch):
            return
        self.recovering[progress.partition] = progress
        self._runtime.events.recovering(progress)

    # --- proof that all commands were consumed ---

    def _ask_for_ends(self) -> None:
        wanting = [s for s in self.shards.values() if s.end_offset_wanted and s.active and s.clock.ready]
        if not wanting or self._asking_for_ends:
            return
        now_ms = self._runtime.monotonic_ms()
        asked = {shard.partition: self._clocks.of(shard.partition).now_ms(now_ms) for shard in wanting}
        for shard in wanting:
            shard.end_offset_wanted = False
        self._asking_for_ends = True
        self._spawn(self._hear_ends(self._epoch, asked))

    async def _hear_ends(self, epoch: int, asked: Mapping[int, int]) -> None:
        loop = asyncio.get_running_loop()
        try:
            ends = await loop.run_in_executor(self._ends_thread, self._runtime.log.input_ends, list(asked))
        except KafkaException as error:
            # Without evidence no lease expires; the leases' timers look again and ask again.
            self._runtime.events.unreachable("end of commands", str(error))
            return
        finally:
            self._asking_for_ends = False
        if epoch != self._epoch:
            return
        for partition, end in ends.items():
            shard = self.shards.get(partition)
            if shard is not None:
                shard.commands_end(asked[partition], end)
        self._wake.set()

    # --- small parts ---

    def _sealer(self, membership: Membership) -> Sealer:
        return Sealer(self._settings, membership, self._runtime.committer.transactional_id)

    def _owner_view(self, membership: Membership, partition: int) -> OwnerView:
        pending, running, keys = self.limits.word(partition, self.shards[partition].store)
        return OwnerView(
            partition=partition,
            generation=membership.generation,
            member_id=membership.member_id,
            transactional_id=self._runtime.committer.transactional_id,
            query_url=self.query_url,
            since_ms=self._since_ms[partition],
            pending=pending,
            running=running,
            keys=keys,
        )

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A take-over that failed leaves its partitions without an owner here: end the process, others take them."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()
            self._stopped = True
            self._wake.set()

    async def _close_shards(self, shards: Iterable[Shard]) -> None:
        for shard in [*shards]:
            shard.store.close()

    async def _drop_stash(self) -> None:
        stashed, self._stashed = self._stashed, None
        if stashed is not None:
            await self._close_shards(stashed[1].values())


def _push(items: Iterable[Input], push: Callable[[Input], bool]) -> None:
    for item in items:
        push(item)


def input_topics(settings: Settings) -> dict[str, Source]:
    """Return the full names of the input topics and which source each is."""
    return {
        topic_name(settings, Topic.COMMANDS): "commands",
        topic_name(settings, Topic.JOB_DEFINITIONS): "definitions",
    }


def shard_settings(settings: Settings) -> ShardSettings:
    """Pick from the configuration what one shard needs."""
    scheduler = settings.scheduler
    return ShardSettings(
        partitions=settings.topics.partitions,
        decisions_max=scheduler.tick_commands_max,
        horizon_ms=scheduler.wheel_horizon_ms,
        lookahead_ms=scheduler.offer_lookahead_ms,
        missed_gap_ms=scheduler.missed_gap_ms,
        idle_marker_ms=scheduler.idle_marker_ms,
        open_runs_max=scheduler.open_runs_max,
        inbox_records_max=scheduler.inbox_records_max,
        inbox_bytes_max=scheduler.inbox_bytes_max,
        batch_bytes_max=scheduler.tick_bytes_max,
    )
