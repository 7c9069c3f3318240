"""`DispatchClient`: everything a gateway does with the log, without HTTP.

Commands go out packed per partition and come back as replies by request id; workers wait in the lease desk. One asyncio
loop, no task per run: a call has one future, however many runs it names. `None of its answers is a guess`: what
has no committed reply is a `Failure`, and only `outcome_unknown` may have had an effect.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from api.dispatch.alarms import EARLY_MS, Alarms
from api.dispatch.calls import DispatchError, Failure, PendingCalls
from api.dispatch.clock import BrokerClock, Clock, LoopClock
from api.dispatch.lease_desk import LeaseDesk
from api.dispatch.link import UNENCODABLE
from api.dispatch.packer import LINGER_MS_BUSY, LINGER_MS_IDLE, Packer
from api.dispatch.request_ids import RequestIds
from api.dispatch.run_ids import job_id_of
from schemas.partition import partition_for
from streams.core.commands import (
    AnyCommand,
    Complete,
    Fail,
    Grant,
    Heartbeat,
    LeaseRun,
    Release,
    Reply,
)
from streams.core.envelopes import CommandBatch, Offers, OwnerView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from api.dispatch.calls import FailureCode
    from api.dispatch.link import ConfigRecord, Link, SendFailure, TimedReplies

REPLY_TIMEOUT_MS: Final = 10_000
"""Longer than a take-over after a crash without an open transaction (facts A4: 6.8 s)."""

PENDING_MAX: Final = 50_000
"""Commands without an answer; above it a caller hears `overloaded` at once."""

GATEWAY_ID_BYTES: Final = 6
INCARNATION_BYTES: Final = 6

_NEVER_MS: Final = float("inf")

_ALWAYS_WRITTEN: Final = (Heartbeat, Complete, Fail, Release)
"""Written even while a partition has no owner: the successor reads them, and heartbeats count by their append time."""

_PATIENT: Final = (Heartbeat, Complete, Fail)
"""Reports of workers: what they change is their own. A run that is handed back (Release) is waited for by others."""


class DispatchConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a deployment may change."""

    partitions: int
    gateway_id: str = ""
    """Empty: random at each start."""
    reply_timeout_ms: int = REPLY_TIMEOUT_MS
    pending_max: int = PENDING_MAX
    linger_ms_idle: float = LINGER_MS_IDLE
    linger_ms_busy: float = LINGER_MS_BUSY


class DispatchClient:
    """One gateway's conversation with the owners of all partitions."""

    def __init__(self, link: Link, config: DispatchConfig, clock: Clock | None = None) -> None:
        self.gateway_id = config.gateway_id or f"gw-{secrets.token_hex(GATEWAY_ID_BYTES)}"
        self.incarnation = secrets.token_hex(INCARNATION_BYTES)
        self.clock: Clock = clock or LoopClock()
        self.broker = BrokerClock(self.clock)
        self.owners: dict[int, OwnerView] = {}
        self._gone: dict[int, OwnerView] = {}
        self._asked_at_ms: dict[int, float] = {}
        """Partition to when it was asked the one command that is tracked."""
        self._tracked: dict[str, int] = {}
        """Request id of that command to its partition."""
        self._owners_known = False
        self.on_owner_change: Callable[[int, OwnerView | None], None] | None = None
        self._config = config
        self._link = link
        self._alarms = Alarms(self.clock)
        self._ids = RequestIds(self.incarnation)
        self._packer = Packer(config.linger_ms_idle, config.linger_ms_busy)
        self._calls = PendingCalls(self._alarms, config.reply_timeout_ms)
        self._flush_at_ms = _NEVER_MS
        self._stopping = False
        self.partition_of = partial(partition_for, partitions=config.partitions)
        self.desk = LeaseDesk(
            gateway_id=self.gateway_id,
            incarnation=self.incarnation,
            clock=self.clock,
            broker=self.broker,
            alarms=self._alarms,
            ids=self._ids,
            send=self._enqueue,
            send_patiently=partial(self._enqueue, patient=True),
            partition_of=self.partition_of,
            publish_demand=link.publish_demand,
        )
        self.config: dict[str, ConfigRecord] = {}
        """Topic `config` as read so far, by key."""
        self.on_config_change: Callable[[ConfigRecord], None] | None = None
        self.commands_total: Counter[str] = Counter()
        self.send_failures_total: Counter[str] = Counter()

    # Life

    async def start(self) -> None:
        """Connect and begin to tell demand. Raises what the link raises."""
        await self._link.start(self)
        self.desk.start()

    def begin_stop(self) -> None:
        """Answer waiting polls with nothing and take no further call; commands in flight still get their answers."""
        if not self._stopping:
            self._stopping = True
            self.desk.stop()
            self._flush()

    async def stop(self) -> None:
        """Begin to stop, send what was accepted, end every other wait with `outcome_unknown`."""
        self.begin_stop()
        self._flush()  # grants that have come since are handed back, and their alarm would ring too late
        await self._link.stop()
        self._calls.fail_all("outcome_unknown")
        self._alarms.stop()

    @property
    def ready(self) -> bool:
        """Whether calls can be answered: connected, owners known, not stopping."""
        return self._owners_known and self._link.healthy and not self._stopping

    @property
    def healthy(self) -> bool:
        """False after an error that only a restart heals."""
        return self._link.healthy

    @property
    def pending(self) -> int:
        """Commands without an answer."""
        return len(self._calls)

    # Commands

    async def command(self, command: AnyCommand) -> Reply:
        """Send one command and wait for its committed reply. Raises DispatchError where there is none."""
        (result,) = await self.commands([command])
        if isinstance(result, Failure):
            raise DispatchError(result)
        return result

    async def commands(self, commands: Sequence[AnyCommand]) -> list[Reply | Failure]:
        """Send commands (any jobs) and give one result each, in order. Request ids are given here.

        Commands of one job keep their order.
        """
        return await self._ask([msgspec.structs.replace(command, request_id=self._ids.next()) for command in commands])

    async def heartbeat(
        self, runs: Sequence[tuple[str, int]], visibility_ms: Sequence[int] = (), progress: Sequence[bytes] = ()
    ) -> list[Reply | Failure]:
        """Renew the leases of (run id, lease token). Run ids must be well formed: ValueError.

        `visibility_ms`: the length of each lease from now on, 0 keeps it; empty keeps all. `progress` in the same way.
        """
        return await self._ask_of_runs(
            [
                Heartbeat(
                    job_id=_job_of(run_id),
                    request_id=self._ids.next(),
                    run_id=run_id,
                    lease_token=token,
                    visibility_ms=length_ms,
                    progress=said,
                )
                for (run_id, token), length_ms, said in zip(
                    runs, visibility_ms or [0] * len(runs), progress or [b""] * len(runs), strict=True
                )
            ],
            [run_id for run_id, _ in runs],
        )

    async def complete(self, runs: Sequence[tuple[str, int, bytes]]) -> list[Reply | Failure]:
        """End runs well: (run id, lease token, result)."""
        return await self._ask_of_runs(
            [
                Complete(
                    job_id=_job_of(run_id),
                    request_id=self._ids.next(),
                    run_id=run_id,
                    lease_token=token,
                    result=result,
                )
                for run_id, token, result in runs
            ],
            [run[0] for run in runs],
        )

    async def fail(self, runs: Sequence[tuple[str, int, str, bool]]) -> list[Reply | Failure]:
        """End attempts badly: (run id, lease token, error, retryable)."""
        return await self._ask_of_runs(
            [
                Fail(
                    job_id=_job_of(run_id),
                    request_id=self._ids.next(),
                    run_id=run_id,
                    lease_token=token,
                    error=error,
                    retryable=retryable,
                )
                for run_id, token, error, retryable in runs
            ],
            [run[0] for run in runs],
        )

    async def release(self, runs: Sequence[tuple[str, int, str]]) -> list[Reply | Failure]:
        """Hand unstarted runs back: (run id, lease token, reason)."""
        return await self._ask_of_runs(
            [
                Release(
                    job_id=_job_of(run_id),
                    request_id=self._ids.next(),
                    run_id=run_id,
                    lease_token=token,
                    reason=reason,
                )
                for run_id, token, reason in runs
            ],
            [run[0] for run in runs],
        )

    async def lease(
        self,
        tenant: str,
        queue: str,
        worker_id: str,
        *,
        max_runs: int = 1,
        visibility_ms: int = 30_000,
        wait_ms: int = 20_000,
        request_id: str = "",
    ) -> list[Grant]:
        """Wait for runs: as soon as there is one, at most `max_runs`; an empty list after `wait_ms`.

        Raises DispatchError (`stopping`). If the caller is cancelled, the place (or the answer) is kept for 2 s for a
        call with the same `request_id`.
        """
        if self._stopping:
            raise DispatchError(Failure("stopping"))
        poll = self.desk.poll(
            tenant,
            queue,
            worker_id,
            max_runs=max_runs,
            visibility_ms=visibility_ms,
            wait_ms=wait_ms,
            request_id=request_id,
        )
        place, future = poll.place, poll.future
        try:
            return await future
        except asyncio.CancelledError:
            if poll.place == place:
                self.desk.abandon(poll)
            raise

    # What the link hears

    def on_offers(self, offers: Sequence[Offers]) -> None:
        """See LinkListener."""
        self.desk.on_offers(offers)

    def on_replies(self, replies: Sequence[TimedReplies]) -> None:
        """See LinkListener."""
        for log_append_ms, batch in replies:
            self.broker.observe(log_append_ms)
            for answer in batch.answers:
                reply = answer.reply
                partition = self._tracked.pop(answer.request_id, None)
                if partition is not None:
                    self._heard_of(partition)
                if isinstance(reply, Grant) or not self._calls.resolve(answer.request_id, reply):
                    self.desk.on_answer(answer.request_id, reply, log_append_ms)
        self.desk.settle()

    def on_owners(self, owners: Sequence[tuple[int, OwnerView | None]]) -> None:
        """See LinkListener."""
        self._owners_known = True
        for partition, view in owners:
            self._heard_of(partition)
            if self.on_owner_change is not None:
                self.on_owner_change(partition, view)
            before = self.owners.get(partition)
            if view is None:
                self.owners.pop(partition, None)
                continue
            self.owners[partition] = view
            if before is not None and before.transactional_id != view.transactional_id:
                self.desk.on_new_owner(partition)

    @property
    def partitions_owned(self) -> int:
        """How many partitions have an owner that is not taken for gone."""
        return sum(partition not in self._gone for partition in self.owners)

    def silent_partitions(self, silent_ms: float) -> list[int]:
        """Give partitions whose owner was asked at least `silent_ms` ago and has answered nothing since."""
        now_ms = self.clock.monotonic_ms()
        for request_id, partition in list(self._tracked.items()):
            if now_ms - self._asked_at_ms.get(partition, 0) > self._config.reply_timeout_ms:
                del self._tracked[request_id]
                self._asked_at_ms.pop(partition, None)
        return [partition for partition, at_ms in self._asked_at_ms.items() if now_ms - at_ms >= silent_ms]

    def mark_gone(self, partition: int, view: OwnerView) -> None:
        """Take an owner for gone until it answers or `owners` has news; `view` is the entry that was looked at."""
        if self.owners.get(partition) == view:
            self._gone[partition] = view

    def _heard_of(self, partition: int) -> None:
        self._asked_at_ms.pop(partition, None)
        self._gone.pop(partition, None)

    def mark_back(self, partition: int) -> None:
        """Take an owner for present again."""
        self._gone.pop(partition, None)

    def on_config(self, records: Sequence[ConfigRecord]) -> None:
        """See LinkListener."""
        for record in records:
            if record.value is None:
                self.config.pop(record.key, None)
            else:
                self.config[record.key] = record
            if self.on_config_change is not None:
                self.on_config_change(record)

    async def write_config(self, key: str, value: bytes | None) -> int:
        """Write a record of topic `config` and wait until it is committed; returns its offset. Raises DispatchError."""
        written: asyncio.Future[tuple[int | None, SendFailure | None]] = asyncio.get_running_loop().create_future()
        self._link.write_config(key, value, lambda offset, failure: written.set_result((offset, failure)))
        offset, failure = await written
        if failure is not None or offset is None:
            raise DispatchError(Failure("overloaded" if failure == "not_written" else "outcome_unknown"))
        return offset

    # Inside

    async def _ask_of_runs(self, commands: Sequence[AnyCommand], run_ids: list[str]) -> list[Reply | Failure]:
        self.desk.heard(run_ids)
        return await self._ask(commands)

    async def _ask(self, commands: Sequence[AnyCommand]) -> list[Reply | Failure]:
        if not commands:
            return []
        refusal = self._refusal(len(commands))
        if refusal is not None:
            return [refusal] * len(commands)
        future = self._calls.begin([command.request_id for command in commands])
        for command in commands:
            partition = self.partition_of(command.job_id)
            failure = self._owner_failure(partition, command)
            if failure is None:
                if partition not in self._asked_at_ms:
                    self._asked_at_ms[partition] = self.clock.monotonic_ms()
                    self._tracked[command.request_id] = partition
                self._enqueue(partition, command, patient=isinstance(command, _PATIENT))
            else:
                self._calls.resolve(command.request_id, failure)
        return await future

    def _refusal(self, count: int) -> Failure | None:
        if self._stopping:
            return Failure("stopping")
        if len(self._calls) + count > self._config.pending_max:
            return Failure("overloaded")
        return None

    def _owner_failure(self, partition: int, command: AnyCommand) -> Failure | None:
        if isinstance(command, _ALWAYS_WRITTEN) or (partition in self.owners and partition not in self._gone):
            return None
        return Failure("no_owner" if self._owners_known else "starting")

    def _enqueue(self, partition: int, command: AnyCommand, *, patient: bool = False) -> None:
        if self._packer.add(partition, command):
            self._write(partition, self._packer.take(partition))
            return
        linger_ms = self._packer.linger_ms(patient=patient)
        flush_at_ms = self.clock.monotonic_ms() + linger_ms
        if flush_at_ms < self._flush_at_ms:
            self._flush_at_ms = flush_at_ms
            self._alarms.after(linger_ms, self._flush_due)

    def _flush_due(self) -> None:
        """Send what waits, unless a less patient command has overtaken this alarm."""
        if self.clock.monotonic_ms() + EARLY_MS >= self._flush_at_ms:
            self._flush()

    def _flush(self) -> None:
        self._flush_at_ms = _NEVER_MS
        for partition, commands in self._packer.take_all(self.clock.monotonic_ms()):
            self._write(partition, commands)

    def _write(self, partition: int, commands: tuple[AnyCommand, ...]) -> None:
        batch = CommandBatch(
            gateway_id=self.gateway_id,
            incarnation=self.incarnation,
            sent_at_ms=self.clock.wall_ms(),
            commands=commands,
        )
        try:
            self._link.send(partition, batch, partial(self._written, commands))
        except UNENCODABLE:
            if len(commands) == 1:
                self._written(commands, None, "not_written")
                return
            # One command that no record can hold; it must not take those of others with it.
            for command in commands:
                self._write(partition, (command,))
            return
        self.commands_total.update(type(command).__name__ for command in commands)

    def _written(
        self, commands: tuple[AnyCommand, ...], log_append_ms: int | None, failure: SendFailure | None
    ) -> None:
        if log_append_ms is not None:
            self.broker.observe(log_append_ms)
        if failure is None:
            return
        self.send_failures_total[failure] += 1
        code: FailureCode = "overloaded" if failure == "not_written" else "outcome_unknown"
        self._calls.fail([c.request_id for c in commands if not isinstance(c, LeaseRun)], code)
        if failure == "not_written":
            # Otherwise a grant may still come; the request ends by its time.
            self.desk.on_not_sent([c.request_id for c in commands if isinstance(c, LeaseRun)])


def _job_of(run_id: str) -> str:
    job_id = job_id_of(run_id)
    if job_id is None:
        raise ValueError(f"{run_id!r} is not a run id")
    return job_id
