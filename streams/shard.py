"""The owner's part for one partition: decides on overlay state, and changes its own state only after the commit.

The order (DESIGN section 6): `collect` drains inbox and timers, bounded, and builds a batch of decisions with their
records;
the owner runs the transaction; `committed` applies the batch to store, timers and offer book, or `rolled_back` puts its
inputs and timers back. No I/O happens here but that of the local store, so the simulator runs this same class.

Inputs are decided in the order of their log, timers after them: a heartbeat or a completion is always seen before
the expiry
of its lease is judged. A job whose decision fails is quarantined; it never stops its partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from schemas.codec import Undecodable
from schemas.partition import partition_for
from streams.absence import NO_ABSENCE, Absence, after_gap
from streams.batch import Batch, Known, Parked
from streams.config_wait import ConfigWait
from streams.core.commands import Define, Delete, Grant, Heartbeat, LeaseRun, Reply, Wake
from streams.core.context import Context, Decision
from streams.core.deadline import deadline_ms, next_look_ms, upcoming
from streams.core.decide import decide
from streams.core.decide_schedule import is_outdated
from streams.core.decide_wake import RECHECK_MS
from streams.core.envelopes import Cause, DeadLetter, HistoryEntry
from streams.core.state import Job
from streams.core.validate import InvalidDefinition, validate_definition
from streams.core.wire import (
    BadDefinition,
    decode_accepted_definition,
    decode_commands,
    decode_state,
    receive_definition,
    request_hash,
)
from streams.inbox import BYTES_MAX, RECORDS_MAX, SOURCES, Inbox, Input, Source
from streams.input_place import InputPlace, meta_of
from streams.lease_view import lease_view
from streams.limits import Limits
from streams.offer_book import LANES, LINE_HEAD_MAX, Candidate, Line, OfferBook
from streams.owner_config import OwnerConfig
from streams.progress_book import ProgressBook
from streams.sealing import Sealer, UnsealableError, index_header
from streams.store.interface import ReadyLine, StoreError
from streams.timers import Timers
from streams.zone_sweep import ZoneSweep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streams.broker_clock import BrokerClock
    from streams.core.commands import AnyCommand
    from streams.core.definition import Definition
    from streams.core.envelopes import CauseKind, CommandBatch, DeadLetterCode, LeaseView, Offers
    from streams.core.time import ZoneData
    from streams.demand import DemandTable
    from streams.store.interface import IndexHeader, Store
    from streams.transaction import Receipt

CACHED_JOBS_MAX: Final = 10_000
"""Decoded jobs kept per partition; about 2 KB each. A job between look-ahead and completion should stay decoded."""

PARKED_MAX: Final = 20_000
"""Lease requests that wait for their run's due time: more than a gateway sends within the look-ahead."""

DEAD_LETTER_VALUE_BYTES_MAX: Final = 64 * 1024
"""Enough to see what it was; the source offset leads to the whole record."""

DEAD_LETTER_KEY_BYTES_MAX: Final = 1024
"""Eight job ids; a key of a producer that nobody controls may be as large as a record."""

DEAD_LETTER_REASON_CHARS_MAX: Final = 2_000
"""Reasons quote what they refuse."""

TIMERS_AT_ONCE: Final = 32
"""Taken before the bounds are looked at again: their grants may carry 2 MB of payloads."""

DEAD_LETTERS_MAX: Final = 200
"""Of one batch: with their values they may fill 13 MB."""

SWEPT_MAX: Final = 5_000
"""Jobs of a sweep that wait for their look, before more are read: the timers' memory has an end."""

QUARANTINE_RETRY_MS: Final = 60_000
"""A quarantined job's timers are tried again after this: the fault may have been the moment's."""

ABORTED_DECISIONS_MIN: Final = 100
"""An abort may come from a batch that was too much for the broker's time, so the next is smaller; never so small
that a partition crawls."""

_ALL_DUE_MS: Final = 2**62
"""Later than any due time."""

_NO_DEAD_LETTER: Final = frozenset({"ok", "created", "gone", "quarantined"})
"""Answers to a definition that leave nothing to tell, or (quarantined) have left their dead letter already."""

_REFUSED_LEASES: Final = frozenset({"not_found", "stale_offer", "not_leasable", "paused", "gone", "blocked"})


class ShardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds and times that one shard needs; see schemas/config.py for their meaning."""

    partitions: int
    decisions_max: int = 5_000
    horizon_ms: int = 30_000
    lookahead_ms: int = 2_000
    missed_gap_ms: int = 60_000
    idle_marker_ms: int = 10_000
    open_runs_max: int = 64
    inbox_records_max: int = RECORDS_MAX
    inbox_bytes_max: int = BYTES_MAX
    batch_bytes_max: int = 8 * 1024 * 1024


class _RefusedInputError(Exception):
    """A record that becomes a dead letter."""

    def __init__(self, code: DeadLetterCode, field: str, reason: str) -> None:
        super().__init__(reason)
        self.code: DeadLetterCode = code
        self.field = field
        self.reason = reason


class Shard:
    """One owned partition, between a finished take-over and its giving up."""

    def __init__(
        self,
        partition: int,
        store: Store,
        clock: BrokerClock,
        sealer: Sealer,
        *,
        settings: ShardSettings,
        zone_data: ZoneData,
        floors: Mapping[Source, int],
        topics: Mapping[Source, int],
        next_seq: int,
        last_marker_ms: int,
        absence: Absence = NO_ABSENCE,
        config: OwnerConfig | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`last_marker_ms`: LogAppendTime of the predecessor's last `m|` record; 0 in a new ledger."""
        self.partition = partition
        self.store = store
        self.clock = clock
        self._topics = topics
        self.inbox = Inbox(floors)
        self.inbox.records_max = settings.inbox_records_max
        self.inbox.bytes_max = settings.inbox_bytes_max
        self.book = OfferBook(partition)
        self.quarantined: dict[str, str] = {}
        """Job to the reason; soft state, told as an alert."""
        self._quarantined_until_ms: dict[str, int] = {}
        self.end_offset_wanted = False
        """An expiry waits for proof that all earlier commands were consumed; the owner asks the broker for the end."""
        self._known_end: tuple[int, int] | None = None
        self._newly_quarantined: list[tuple[str, str]] = []
        self.marker_wanted = False
        """The owner has something to tell of this partition, and nothing else may come to commit."""
        self._limits = limits or Limits()
        self._sealer = sealer
        self._settings = settings
        self._zone_data = zone_data
        self._next_seq = next_seq
        self._last_marker_ms = last_marker_ms
        self._takeover_at_ms = 0
        self._absence = absence
        self._consumed_to_ms = 0
        self._heartbeats: dict[str, int] = {}
        self.progress = ProgressBook()
        self._cache: dict[str, Known | None] = {}
        self._parked: dict[str, list[Parked]] = {}
        self._parked_count = 0
        self._timers: Timers | None = None
        self._config = config or OwnerConfig()
        self._config_wait = ConfigWait(self._config)
        self._zone_sweep = ZoneSweep(store, zone_data.version, self._config.calendars)
        self._swept: set[str] = set()
        """Jobs that the sweep has given to the timers and that were not looked at yet."""
        self._decisions_max = settings.decisions_max
        self.decisions_share = settings.decisions_max
        """What the owner leaves this partition of a turn's decisions: the loop must not be held by a flood on all."""
        self._steps_back = clock.steps_back
        self._now_ms = 0

    # --- input ---

    def push(self, item: Input) -> bool:
        """Hold one delivered record; False where it was delivered before."""
        return self.inbox.push(item)

    def commands_end(self, asked_at_ms: int, end_offset: int) -> None:
        """Learn that the partition's commands ended at `end_offset` when asked at broker time `asked_at_ms` or later.

        Everything appended before that time lies below the offset; once that much is consumed, an expiry up to that
        time is judged with every heartbeat known.
        """
        self._known_end = (asked_at_ms, end_offset)

    # --- the batch ---

    def first_batch(self) -> Batch:
        """Return the take-over's marker-only batch: its receipt gives the first sample of the broker's clock."""
        batch = Batch(partition=self.partition, now_ms=0)
        batch.absence, batch.previous_marker_ms = self._absence, self._last_marker_ms
        self._seal(batch)
        return batch

    def collect(self, monotonic_ms: float) -> Batch | None:
        """Decide what has arrived and fallen due; None where nothing needs a transaction.

        Changes nothing that `rolled_back` does not restore.
        """
        if self._timers is None or not self.clock.ready:
            return None
        if not self._config_wait.may_act(self.clock.now_ms(monotonic_ms)):
            return None
        while True:
            batch = self._decide_batch(self._timers, self.clock.now_ms(monotonic_ms))
            quiet = not batch.visible and not self.marker_wanted
            if quiet and batch.now_ms - self._last_marker_ms < self._settings.idle_marker_ms:
                self._settle(batch)
                return None
            try:
                self._seal(batch)
            except UnsealableError as error:
                self.rolled_back(batch)
                self._set_aside(error.job_id, error.reason)
            else:
                return batch

    def _decide_batch(self, timers: Timers, now_ms: int) -> Batch:
        self._follow_clock(now_ms)
        timers.expire(now_ms)
        while timers.fill() and not timers.backlog:
            timers.expire(now_ms)
        timers.expire(now_ms)  # what was read may be due already: after a pause longer than the horizon it is
        self._sweep(timers, now_ms)
        batch = Batch(partition=self.partition, now_ms=now_ms)
        batch.consumed_before = (self._consumed_to_ms, self._known_end)
        context = self._context(now_ms)
        self._decide_inputs(batch, context)
        self._note_consumed()
        self._decide_timers(batch, self._context(now_ms))
        batch.absence = self._absence
        return batch

    def _sweep(self, timers: Timers, now_ms: int) -> None:
        """Let the jobs whose cursor is of other zone data or calendars be looked at, some at a time."""
        if self._zone_sweep.calendars is not self._config.calendars:
            self._zone_sweep.follow(self._config.calendars)
        if len(self._swept) >= SWEPT_MAX:
            return
        for state in self._zone_sweep.next_page():
            self._swept.add(state.job_id)
            timers.look_again(state.job_id, state.tenant, now_ms)

    def committed(self, batch: Batch, receipt: Receipt, wall_ms: int) -> None:
        """Step 6: the transaction is on the log; apply it to the store, the timers and the offers."""
        self.clock.sample(receipt.log_append_ms, receipt.acked_monotonic_ms, receipt.sent_monotonic_ms)
        if self._timers is None:
            self._start(receipt)
        self._next_seq += len(batch.history)
        self.store.apply(
            batch.changes,
            ledger_offset=receipt.offset + 1,
            meta={
                "next_seq": self._next_seq,
                "last_marker_ms": receipt.log_append_ms,
                "absent_from_ms": self._absence.from_ms,
                "absent_to_ms": self._absence.to_ms,
                **meta_of(batch.places),
                **({} if self._swept else self._zone_sweep.meta),
            },
            now_ms=wall_ms,
        )
        self._last_marker_ms = receipt.log_append_ms
        self.marker_wanted = False
        self._settle(batch)
        self._decisions_max = min(self._settings.decisions_max, self._decisions_max * 2)

    def rolled_back(self, batch: Batch, *, poisoned: bool = False) -> None:
        """Put the inputs and timers of an aborted batch back to the front. The next one is at most half as large.

        `poisoned`: one of its records will never be taken. What cannot be halved, one input or one timer, has its job
        quarantined; of a record with several commands that of the largest state.
        """
        if poisoned and len(batch.inputs) + len(batch.timers) <= 1:
            self._set_aside_largest(batch)
        floor = 1 if poisoned else ABORTED_DECISIONS_MIN
        self._decisions_max = max(min(floor, self._decisions_max), batch.decisions // 2)
        self.inbox.restore(batch.inputs)
        if batch.consumed_before is not None:
            self._consumed_to_ms, self._known_end = batch.consumed_before
        if self._timers is not None:
            self._timers.restore(batch.timers)

    # --- what the owner's loop asks ---

    @property
    def active(self) -> bool:
        """Whether the take-over's own transaction is committed."""
        return self._timers is not None

    @property
    def next_seq(self) -> int:
        """The sequence number of the next decision."""
        return self._next_seq

    def has_work(self) -> bool:
        """Whether there is something to decide, be it urgent or not."""
        if not self._config_wait.acting:
            return False
        return self.has_inputs or bool(self._timers and self._timers.backlog) or self._is_sweeping

    @property
    def has_inputs(self) -> bool:
        """Whether an input can be decided now."""
        return bool(self.inbox) and self._config_wait.acting and not self._config_wait.holds_inputs

    def urgent(self, monotonic_ms: float) -> bool:
        """Whether collect should be called now: a timer has gone off, or it is time to show that the owner lives."""
        if self._timers is None or not self.clock.ready:
            return False
        now_ms = self.clock.now_ms(monotonic_ms)
        self._follow_clock(now_ms)
        self._timers.expire(now_ms)
        if not self._config_wait.may_act(now_ms):
            return False
        idle = self.marker_wanted or now_ms - self._last_marker_ms >= self._settings.idle_marker_ms
        return idle or bool(self._timers.backlog) or self._is_sweeping

    def next_collect_ms(self) -> int:
        """Return the broker time at which collect should be called next, at the latest, whatever arrives."""
        waits_until_ms = self._config_wait.until_ms
        if not self._config_wait.acting:
            return waits_until_ms or 0
        if self.marker_wanted or self._is_sweeping:
            return 0
        idle_at_ms = self._last_marker_ms + self._settings.idle_marker_ms
        timer_at_ms = None if self._timers is None else self._timers.next_at_ms()
        return min(at_ms for at_ms in (idle_at_ms, timer_at_ms, waits_until_ms) if at_ms is not None)

    @property
    def _is_sweeping(self) -> bool:
        return not self._zone_sweep.done or self._zone_sweep.calendars is not self._config.calendars

    def next_offers_ms(self, demand: DemandTable) -> int | None:
        """Return the broker time at which offers should be called next, at the latest; None: when something changes."""
        coming_at_ms = None if self._timers is None else self._timers.next_coming_ms()
        offer_at_ms = self.book.next_due_ms(demand, self._settings.lookahead_ms)
        return min((at_ms for at_ms in (coming_at_ms, offer_at_ms) if at_ms is not None), default=None)

    def offers(self, demand: DemandTable, monotonic_ms: float) -> Sequence[Offers]:
        """Return new offers for gateways whose workers wait."""
        if self._timers is None or not self.clock.ready:
            return ()
        now_ms = self._now_ms = self.clock.now_ms(monotonic_ms)
        self._prepare_coming(now_ms)
        if not len(demand):
            return ()
        self._refill_lines()
        lookahead_ms = self._settings.lookahead_ms
        return self.book.offers(
            demand, now_ms=now_ms, lookahead_ms=lookahead_ms, now_monotonic_ms=monotonic_ms, rooms=self._limits
        )

    def looks_later(self, job_id: str, now_ms: int) -> bool:
        """Tell whether a job will be looked at again later, so that a past entry in the due index is a stale one.

        A plan within RECHECK_MS says nothing: so the end of a lease that waits for its evidence is put off, for ever.
        """
        planned_ms = None if self._timers is None else self._timers.planned_ms(job_id)
        return planned_ms is not None and planned_ms > now_ms + RECHECK_MS

    def waits_since_ms(self, job_id: str, deadline_ms: int, now_ms: int) -> int | None:
        """Return since when a job of the due index waits for its decision; None where nothing is due yet.

        Judged on the job and the soft state, whatever the timers say: they may have lost it. A job that is set aside
        waits for a person and has an alert of its own.
        """
        if job_id in self.quarantined:
            return None
        try:
            job = self._peek(job_id)
        except StoreError:
            raise
        except Exception:  # noqa: BLE001 - nobody could decide about it either
            return deadline_ms
        context = Context(
            now_ms=now_ms,
            zone_data=self._zone_data,
            heartbeats=self._heartbeats,
            takeover_at_ms=self._takeover_at_ms,
            open_runs_max=self._settings.open_runs_max,
        )
        soft_ms = None if job is None else next_look_ms(job, context)
        return soft_ms if soft_ms is not None and soft_ms <= now_ms else None

    def newly_quarantined(self) -> list[tuple[str, str]]:
        """Return what was quarantined since the last call, for the alert."""
        found, self._newly_quarantined = self._newly_quarantined, []
        return found

    def job(self, job_id: str) -> Job | None:
        """Return a job as committed. Raises Undecodable where its state cannot be read."""
        known = self._load(job_id)
        return known.job if known else None

    # --- deciding ---

    def _decide_inputs(self, batch: Batch, context: Context) -> None:
        while self._has_room(batch) and len(batch.dead_letters) - batch.over_cap < DEAD_LETTERS_MAX:
            if not self._config_wait.may_take(context.now_ms):
                return
            taken = self.inbox.take(1)
            if not taken:
                return
            item = taken[0]
            from_gateway = item.source == "commands"
            decide_input = self._decide_commands if from_gateway else self._decide_definition
            if not decide_input(batch, item, context):
                self.inbox.restore(taken)
                return
            batch.inputs.append(item)
            batch.bytes_expected += 2 * len(item.value or b"")  # what is asked stands in the ledger and in history
            if from_gateway:
                self._consumed_to_ms = max(self._consumed_to_ms, item.timestamp_ms)

    def _has_room(self, batch: Batch) -> bool:
        return batch.decisions < self._decisions_now and batch.bytes_expected < self._settings.batch_bytes_max

    @property
    def _decisions_now(self) -> int:
        return min(self._decisions_max, self.decisions_share)

    def _note_consumed(self) -> None:
        """Take the known end of the commands over, once everything below it has been taken from the inbox."""
        if self._known_end is not None and self.inbox.consumed["commands"] >= self._known_end[1]:
            self._consumed_to_ms = max(self._consumed_to_ms, self._known_end[0])
            self._known_end = None

    def _decide_commands(self, batch: Batch, item: Input, context: Context) -> bool:
        """Decide the commands of one record; False where it must wait, and nothing was done."""
        try:
            commands: CommandBatch = decode_commands(item.value)
        except Undecodable as error:
            batch.decisions += 1
            self._dead_letter(batch, item, "unreadable", "value", str(error))
            return True
        if self._config_wait.hold_commands(commands.commands, context.now_ms):
            return False
        for index, command in enumerate(commands.commands):
            cause = self._cause("command", command, item, index, commands.gateway_id)
            if partition_for(command.job_id, self._settings.partitions) != self.partition:
                detail = f"job {command.job_id!r} belongs to another partition than {self.partition}"
                self._dead_letter(batch, item, "wrong_partition", "job_id", detail, index=index)
                reply = Reply(code="invalid", job_id=command.job_id, field="jobId", detail=detail)
                batch.answer(commands.gateway_id, command.request_id, reply)
                continue
            if type(command) is Define and command.config_offset > self._config.next_offset:
                batch.answer(commands.gateway_id, command.request_id, _behind(command))
                continue
            if isinstance(command, Heartbeat):
                # A heartbeat is judged at its append: a backlog in front of the owner must not kill live runs.
                command = msgspec.structs.replace(command, at_ms=item.timestamp_ms)  # noqa: PLW2901 - as said above
            self._decide_one(batch, command, cause, context)
        return True

    def _decide_definition(self, batch: Batch, item: Input, context: Context) -> bool:
        """Decide one definition from Kafka; False where it must wait, and nothing was done."""
        try:
            command = self._read_definition(item, context)
        except _RefusedInputError as refused:
            batch.decisions += 1
            self._dead_letter(batch, item, refused.code, refused.field, refused.reason)
            return True
        if command is None:
            return False
        if isinstance(command, Define) and self._is_over_cap(batch, command.definition):
            batch.decisions += 1
            self._refuse_over_cap(batch, item, command.definition.tenant)
            return True
        batch.decisions += 1
        reply = self._decide_one(batch, command, self._cause("definition", command, item), context)
        if isinstance(reply, Reply) and reply.code == "not_found":
            detail = f"a null deletes job {command.job_id!r}, and there is no such job"
            self._dead_letter(batch, item, "invalid", "key", detail)
        elif isinstance(reply, Reply) and reply.code not in _NO_DEAD_LETTER:
            code = reply.code if reply.code in ("wrong_tenant", "quota") else "invalid"
            self._dead_letter(batch, item, code, reply.field, reply.detail or reply.code)
        return True

    def _read_definition(self, item: Input, context: Context) -> Define | Delete | None:
        """Make a command of a record of `job-definitions`; None where it must wait. Raises _RefusedInputError."""
        try:
            job_id = (item.key or b"").decode()
        except UnicodeDecodeError:
            raise _RefusedInputError("unreadable", "key", "the key is not UTF-8; it must be the job id") from None
        if partition_for(job_id, self._settings.partitions) != self.partition:
            detail = (
                f"key {job_id!r} belongs on another partition; produce with partitioner=murmur2_random (librdkafka) "
                "or name the partition yourself"
            )
            raise _RefusedInputError("wrong_partition", "key", detail)
        if item.value is None:
            return Delete(job_id=job_id, actor="job-definitions")
        try:
            received = receive_definition(item.value, job_id)
            definition = received.definition
            if self._config_wait.hold_definition(definition, item.offset, self.inbox, context.now_ms):
                return None
            calendars = context.calendars.of(definition.tenant)
            validate_definition(definition, now_ms=context.now_ms, zone_data=context.zone_data, calendars=calendars)
        except Undecodable as error:
            raise _RefusedInputError("unreadable", "value", str(error)) from None
        except (BadDefinition, InvalidDefinition) as error:
            raise _RefusedInputError("invalid", error.field, str(error)) from None
        except Exception as error:  # noqa: BLE001 - whatever a producer found out, it must not stop the partition
            raise _RefusedInputError("invalid", "", f"{type(error).__name__}: {error}") from None
        return Define(
            job_id=job_id,
            definition=definition,
            request_hash=request_hash(definition),
            expected_version=received.expected_version or 0,
            actor="job-definitions",
        )

    def _is_over_cap(self, batch: Batch, definition: Definition) -> bool:
        """Tell whether a definition makes a new job for which its tenant has no place left."""
        if self._limits.pending_cap(definition.tenant) is None:
            return False
        try:
            job = self._current(batch, definition.job_id)
        except StoreError:
            raise  # no fault of the job's: the process ends, and its next opening of the store replays
        except Exception:  # noqa: BLE001 - a state that cannot be read: its decision sets the job aside
            return False
        is_new = job is None or job.state.status == "deleted"
        return is_new and not self._limits.admits(definition.tenant)

    def _refuse_over_cap(self, batch: Batch, item: Input, tenant: str) -> None:
        """Leave a small dead letter: a flood may be refused at the rate of the decisions, as it would be accepted."""
        batch.over_cap += 1
        cap = self._limits.pending_cap(tenant)
        reason = f"tenant {tenant!r} has {cap} pending, which is its cap; produce the definition again when it has less"
        self._dead_letter(batch, item, "quota", "tenant", reason, keep_value=False)

    def _decide_timers(self, batch: Batch, context: Context) -> None:
        timers = self._timers
        assert timers is not None  # noqa: S101 - collect returns before it is set
        while self._has_room(batch):
            job_ids = timers.take(min(TIMERS_AT_ONCE, self._decisions_now - batch.decisions))
            if not job_ids:
                return
            for job_id in job_ids:
                batch.timers.append(job_id)
                self._decide_timer(batch, job_id, context)

    def _decide_timer(self, batch: Batch, job_id: str, context: Context) -> None:
        if self._is_set_aside(job_id, context.now_ms):
            batch.look_again[job_id] = self._quarantined_until_ms[job_id]
            return
        parked = self._parked.get(job_id)
        if parked:
            batch.unparked.append(job_id)
            for request in parked:
                if request.command.valid_until_ms >= context.now_ms:
                    self._decide_one(batch, request.command, request.cause, context)
        cause = Cause(kind="timer", name="Wake", partition=self.partition)
        wake = Wake(job_id=job_id)
        try:
            job = self._current(batch, job_id)
        except StoreError:
            raise  # no fault of the job's: the process ends, and its next opening of the store replays
        except Exception as error:  # noqa: BLE001 - a state that cannot be read stops its job, not its partition
            self._quarantine(batch, wake, cause, error)
            return
        if job is None:
            return
        deadline = deadline_ms(job, open_runs_max=self._settings.open_runs_max)
        if (deadline is not None and deadline <= context.now_ms) or is_outdated(job, context):
            self._decide_one(batch, wake, cause, context)

    def _decide_one(self, batch: Batch, command: AnyCommand, cause: Cause, context: Context) -> object:
        """Decide one command on overlay state and fold its events in; return the reply."""
        batch.decisions += 1
        job_id = command.job_id
        if self.quarantined and self._is_set_aside(job_id, context.now_ms):
            return self._refuse(batch, command, cause, self.quarantined[job_id])
        try:
            job = self._current(batch, job_id)
            decision = decide(job, command, context)
            if type(decision.reply) is Grant and decision.events:
                decision = self._within_bounds(decision, decision.reply)
            if decision.events:
                self._fold(batch, job_id, decision, cause, context)
        except StoreError:
            raise  # no fault of the job's: the process ends, and its next opening of the store replays
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not stop the partition
            return self._quarantine(batch, command, cause, error)
        if type(decision.reply) is Grant:
            batch.bytes_expected += len(decision.reply.payload)
        self._note_soft(batch, command, cause, decision)
        batch.answer(cause.gateway_id, command.request_id, decision.reply)
        return decision.reply

    def _within_bounds(self, decision: Decision, grant: Grant) -> Decision:
        """Take a place among the running runs of the queue and of the key; where there is none, nothing is decided."""
        after = decision.job_after
        key, weight = ("", 0) if after is None else (after.state.concurrency_key, after.state.concurrency_weight)
        full = self._limits.may_run(grant.tenant, grant.queue, key, weight)
        if full is None:
            return decision
        what = "queue" if full.kind == "queue" else "concurrency key"
        detail = f"as many runs of the {what} are running as may be"
        return Decision(reply=Reply(code="not_leasable", job_id=grant.job_id, detail=detail))

    def _fold(self, batch: Batch, job_id: str, decision: Decision, cause: Cause, context: Context) -> None:
        """Take the decision over into the batch: the job after it, its events, and the public view of its leases."""
        before, after = self._current(batch, job_id), decision.job_after
        batch.after[job_id] = after
        views: list[LeaseView] = []
        for event in decision.events:
            view = lease_view(before, after, event)
            # An expiry that ends in a cancellation closes the lease once, by its first event.
            if view is not None and not (view.closed and any(v.closed and v.run_id == view.run_id for v in views)):
                views.append(view)
        batch.leases.extend(views)
        batch.history.append(
            HistoryEntry(
                job_id=job_id,
                partition=self.partition,
                seq=self._next_seq + len(batch.history),
                generation=self._sealer.membership.generation,
                member_id=self._sealer.membership.member_id,
                transactional_id=self._sealer.transactional_id,
                now_ms=context.now_ms,
                cause=cause,
                config_offset=context.calendars.next_offset,
                zone_data=context.zone_data.version,
                events=decision.events,
            )
        )

    def _note_soft(self, batch: Batch, command: AnyCommand, cause: Cause, decision: Decision) -> None:
        """Take over what a decision means for soft state: parked requests, heartbeats, later looks, answered offers."""
        if isinstance(command, LeaseRun):
            self.book.answered(command.run_id)
            if decision.park_until_ms:
                parked_cause = msgspec.structs.replace(cause, kind="parked")
                batch.parked.append(Parked(command, parked_cause, decision.park_until_ms))
            elif isinstance(decision.reply, Reply) and decision.reply.code in _REFUSED_LEASES:
                self.book.refused(command.run_id, command.job_id)
                batch.refused.append(command.job_id)
        elif isinstance(command, Heartbeat):
            if isinstance(decision.reply, Reply) and decision.reply.code == "ok":
                known = self._heartbeats.get(command.run_id, 0)
                self._heartbeats[command.run_id] = max(known, command.at_ms)
                if not decision.reply.outcome:
                    self.progress.note(command.run_id, command.progress)
        elif isinstance(command, Wake) and not decision.events and decision.wake_at_ms:
            batch.look_again[command.job_id] = decision.wake_at_ms
            if self._consumed_to_ms < batch.now_ms:
                self.end_offset_wanted = True

    def _quarantine(self, batch: Batch, command: AnyCommand, cause: Cause, error: Exception) -> Reply:
        reason = f"{type(command).__name__} failed: {type(error).__name__}: {error}"[:500]
        self._set_aside(command.job_id, reason)
        return self._refuse(batch, command, cause, reason)

    def _refuse(self, batch: Batch, command: AnyCommand, cause: Cause, reason: str) -> Reply:
        """Answer for a job that is set aside. What asked for a change is kept as a dead letter, to be sent again."""
        job_id = command.job_id
        if cause.kind == "timer":
            batch.look_again[job_id] = self._quarantined_until_ms[job_id]
        elif not isinstance(command, Heartbeat | LeaseRun):
            batch.dead_letters.append(
                DeadLetter(
                    source_topic=cause.topic,
                    source_partition=cause.partition,
                    source_offset=cause.offset,
                    index=cause.index,
                    key=job_id.encode()[:DEAD_LETTER_KEY_BYTES_MAX],
                    code="quarantined",
                    reason=reason,
                    at_ms=batch.now_ms,
                )
            )
        reply = Reply(code="quarantined", job_id=job_id, detail=reason)
        batch.answer(cause.gateway_id, command.request_id, reply)
        return reply

    def _set_aside(self, job_id: str, reason: str) -> None:
        self.quarantined[job_id] = reason
        self._quarantined_until_ms[job_id] = self._now_ms + QUARANTINE_RETRY_MS
        self._newly_quarantined.append((job_id, reason))

    def _set_aside_largest(self, batch: Batch) -> None:
        """Set aside the job of a batch whose records are the largest: size is what brokers refuse records for."""
        sizes = {change.job_id: len(change.state or b"") for change in batch.changes if isinstance(change.state, bytes)}
        job_id = max(sizes, key=lambda known: sizes[known], default=next(iter(batch.after), None))
        if job_id is not None:
            self._set_aside(job_id, "a record of its decision is refused by the broker")

    def _is_set_aside(self, job_id: str, now_ms: int) -> bool:
        """Whether a job is quarantined still: after QUARANTINE_RETRY_MS it is tried once more."""
        if job_id not in self.quarantined:
            return False
        if now_ms < self._quarantined_until_ms[job_id]:
            return True
        del self.quarantined[job_id], self._quarantined_until_ms[job_id]
        return False

    def _dead_letter(
        self,
        batch: Batch,
        item: Input,
        code: DeadLetterCode,
        field: str,
        reason: str,
        *,
        index: int = -1,
        keep_value: bool = True,
    ) -> None:
        value = item.value if keep_value and index < 0 else None
        batch.dead_letters.append(
            DeadLetter(
                source_topic=self._sealer.source_topic(item.source),
                source_partition=self.partition,
                source_offset=item.offset,
                index=index,
                key=item.key[:DEAD_LETTER_KEY_BYTES_MAX] if item.key is not None else None,
                # One of many commands is found by its index; the whole batch once for each would be too much.
                value=None if value is None else value[:DEAD_LETTER_VALUE_BYTES_MAX],
                code=code,
                field=field,
                reason=reason[:DEAD_LETTER_REASON_CHARS_MAX],
                at_ms=batch.now_ms,
            )
        )

    def _cause(self, kind: CauseKind, command: AnyCommand, item: Input, index: int = -1, gateway_id: str = "") -> Cause:
        return Cause(
            kind=kind,
            name=type(command).__name__,
            topic=self._sealer.source_topic(item.source),
            partition=self.partition,
            offset=item.offset,
            index=index,
            request_id=command.request_id,
            gateway_id=gateway_id,
            appended_at_ms=item.timestamp_ms,
        )

    def _context(self, now_ms: int) -> Context:
        self._absence = after_gap(self._absence, self._last_marker_ms, now_ms, self._settings.missed_gap_ms)
        return Context(
            now_ms=now_ms,
            zone_data=self._zone_data,
            calendars=self._config.calendars,
            heartbeats=self._heartbeats,
            takeover_at_ms=self._takeover_at_ms,
            consumed_to_ms=self._consumed_to_ms,
            absent_from_ms=self._absence.from_ms,
            absent_to_ms=self._absence.to_ms,
            open_runs_max=self._settings.open_runs_max,
        )

    # --- committed state ---

    def _current(self, batch: Batch, job_id: str) -> Job | None:
        """Return the job as this batch has it so far."""
        if job_id in batch.after:
            return batch.after[job_id]
        known = self._load(job_id)
        batch.before[job_id] = known
        return known.job if known else None

    def _load(self, job_id: str) -> Known | None:
        cache = self._cache
        known = cache.get(job_id)
        if known is not None:
            return known
        job = self._read(job_id)
        if job is None:
            return None
        known = Known(job, index_header(job, self._settings.open_runs_max))
        self._remember(job_id, known)
        return known

    def _read(self, job_id: str) -> Job | None:
        """Return a job as the store has it."""
        state_bytes = self.store.state(job_id)
        if state_bytes is None:
            return None
        definition_bytes = self.store.definition(job_id)
        definition = decode_accepted_definition(definition_bytes) if definition_bytes is not None else None
        return Job(decode_state(state_bytes), definition)

    def _peek(self, job_id: str) -> Job | None:
        """Return a job as committed, and leave what is remembered as it is."""
        known = self._cache.get(job_id)
        return known.job if known is not None else self._read(job_id)

    def _remember(self, job_id: str, known: Known) -> None:
        if len(self._cache) >= CACHED_JOBS_MAX:
            del self._cache[next(iter(self._cache))]
        self._cache[job_id] = known

    def _seal(self, batch: Batch) -> None:
        consumed = self.inbox.consumed
        batch.places = {source: InputPlace(self._topics[source], consumed[source]) for source in SOURCES}
        self._sealer.seal(batch, batch.places, self._next_seq)

    def _settle(self, batch: Batch) -> None:
        """Bring soft state in line with a batch that is committed, or that needed no commit."""
        timers = self._timers
        assert timers is not None  # noqa: S101 - set by the take-over's commit
        for view in batch.leases:
            if view.closed is not None:
                self._heartbeats.pop(view.run_id, None)
                self.progress.forget(view.run_id)
        self._park(batch)
        if self._swept:
            self._swept.difference_update(batch.timers, batch.after)
        for job_id, job in batch.after.items():
            self._follow(job_id, job, batch.headers.get(job_id), timers)
        for job_id in (*batch.timers, *batch.refused):
            # A refused run may well be waiting still, if only its request came too late.
            if job_id not in batch.after and job_id not in batch.look_again:
                self._follow(job_id, self.job(job_id), None, timers)
        for job_id, at_ms in batch.look_again.items():
            header = self._header(job_id)
            if header is not None:
                timers.look_again(job_id, header.tenant, at_ms)
        for parked in batch.parked:
            self._wake_parked(parked.command.job_id, timers)

    def _park(self, batch: Batch) -> None:
        for job_id in batch.unparked:
            self._parked_count -= len(self._parked.pop(job_id, ()))
        for parked in batch.parked:
            job_id, request_id = parked.command.job_id, parked.command.request_id
            repeated = any(other.command.request_id == request_id for other in self._parked.get(job_id, ()))
            if not repeated and self._parked_count < PARKED_MAX:
                self._parked_count += 1
                self._parked.setdefault(job_id, []).append(parked)

    def _header(self, job_id: str) -> IndexHeader | None:
        """Return what the indexes hold for a job, also where its state cannot be read."""
        known = self._cache.get(job_id)
        return self.store.header(job_id) if known is None else known.header

    def _wake_parked(self, job_id: str, timers: Timers) -> None:
        """Look at a job no later than its parked requests fall due: the due time of a retry is no deadline of a job."""
        parked, header = self._parked.get(job_id), self._header(job_id)
        if parked and header is not None:
            timers.wake_by(job_id, header.tenant, min(request.until_ms for request in parked))

    def _follow(self, job_id: str, job: Job | None, header: IndexHeader | None, timers: Timers) -> None:
        self._cache.pop(job_id, None)
        if job is None:
            timers.settle(job_id, "", None, None)
            self.book.replace(job_id, ())
            return
        if header is None:
            header = index_header(job, self._settings.open_runs_max)
        self._remember(job_id, Known(job, header))
        coming = upcoming(job)
        timers.settle(job_id, header.tenant, header.deadline_ms, coming[1] if coming else None)
        if job_id in self._parked:
            self._wake_parked(job_id, timers)
        self.book.replace(job_id, self._candidates(job, header, coming))

    def _candidates(
        self, job: Job, header: IndexHeader, coming: tuple[str, int] | None
    ) -> list[tuple[Line, Candidate]]:
        """Return the runs of a job that may be offered now or within the look-ahead."""
        state = job.state
        bound = (state.concurrency_key, state.concurrency_weight)
        found: list[tuple[Line, Candidate]] = [
            (
                (state.tenant, state.queue, LANES[key.lane]),
                Candidate(key.due_at_ms, key.run_id, state.job_id, state.version, *bound),
            )
            for key in header.ready
        ]
        # What the open-run bound holds back could not be leased: it is offered once a run has ended.
        if coming is not None and job.definition is not None and len(state.open) < self._settings.open_runs_max:
            run_id, at_ms = coming
            if at_ms - self._settings.lookahead_ms <= self._now_ms:
                line = (state.tenant, state.queue, job.definition.lane)
                found.append((line, Candidate(at_ms, run_id, state.job_id, state.version, *bound)))
        return found

    # --- start, clock, offers ---

    def _start(self, receipt: Receipt) -> None:
        """Begin to act: the marker of the take-over is committed, and its receipt tells the broker's time."""
        now_ms = receipt.log_append_ms
        settings = self._settings
        self._takeover_at_ms = now_ms
        self._config_wait.begin(now_ms)
        self._consumed_to_ms = 0
        self._now_ms = now_ms
        self._absence = after_gap(self._absence, self._last_marker_ms, now_ms, settings.missed_gap_ms)
        self._timers = Timers(self.store, now_ms, horizon_ms=settings.horizon_ms, lookahead_ms=settings.lookahead_ms)
        self._find_lines()
        self._refill_lines()

    def _find_lines(self) -> None:
        """Let every line that has waiting runs in the store be read into the book."""
        after: ReadyLine | None = None
        while heads := self.store.ready_heads(_ALL_DUE_MS, after):
            self.book.truncated.update((key.tenant, key.queue, LANES[key.lane]) for key in heads)
            after = heads[-1].line

    def _follow_clock(self, now_ms: int) -> None:
        self._now_ms = now_ms
        if self.clock.steps_back != self._steps_back and self._timers is not None:
            self._steps_back = self.clock.steps_back
            self._timers.rewind(now_ms)
            for job_id in self._parked:
                self._wake_parked(job_id, self._timers)

    def _prepare_coming(self, now_ms: int) -> None:
        """Take jobs whose next occurrence is within the look-ahead into memory and into the offer book."""
        timers = self._timers
        assert timers is not None  # noqa: S101 - offers returns before it is set
        for job_id in timers.coming(now_ms):
            try:
                known = self._load(job_id)
            except StoreError:
                raise  # no fault of the job's: the process ends, and its next opening of the store replays
            except Exception as error:  # noqa: BLE001 - a state that cannot be read stops its job, not its partition
                self._set_aside(job_id, f"its state cannot be read: {type(error).__name__}: {error}"[:500])
                continue
            if known is not None:
                self.book.replace(job_id, self._candidates(known.job, known.header, upcoming(known.job)))

    def _refill_lines(self) -> None:
        """Read on in the ready index where the book's head of a line was cut and has run low."""
        for line in [*self.book.truncated]:
            if self.book.length(line) > LINE_HEAD_MAX // 2:
                continue
            self.book.truncated.discard(line)
            tenant, queue, lane = line
            keys = self.store.ready_line(ReadyLine(tenant, queue, LANES.index(lane)), _ALL_DUE_MS, LINE_HEAD_MAX)
            for key in keys:
                bound = (key.concurrency_key, key.weight)
                self.book.load(line, Candidate(key.due_at_ms, key.run_id, key.job_id, 0, *bound))
            if len(keys) == LINE_HEAD_MAX:
                self.book.truncated.add(line)

    def rebind(self, sealer: Sealer) -> None:
        """Go on under the next generation of the same member."""
        self._sealer = sealer


def _behind(command: Define) -> Reply:
    """Refuse a definition whose calendars the owner could not read in time; the caller repeats it."""
    detail = "calendars: the scheduler has not read the newest calendars yet; repeat the call in a second"
    return Reply(code="behind", job_id=command.job_id, field="calendars", detail=detail)
