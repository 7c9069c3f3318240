"""One transaction of the owner: steps 3 to 5 of the commit order (DESIGN section 6), and what its end means.

    begin -> produce every record -> flush -> send offsets, one for every partition written, with the group's
    generation -> commit, again for as long as the answer is a retriable time-out

The order is the fence. Records that are flushed before the offsets are visible to a successor as pending, and an
offset for every partition withholds that partition's stable offset until this transaction ended; a commit under an old
generation is therefore either refused, or waited for (facts A2). Leaving out either, or the generation, lets a
paused owner change a partition behind its successor's back.

`Committer` is the role; `KafkaCommitter` fills it with librdkafka, the simulator with an in-memory log.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from streams.membership import Membership, group_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Message

OFFSETS_TIMEOUT_S: Final = 8.0
"""For send_offsets: the coordinator may be moving. Below the transaction time-out of 10 s."""

OFFSETS_MARGIN_S: Final = 1.0
"""Past that time-out the call is left alone: librdkafka can overlook it for ever, see `_offsets_within_bounds`."""

COMMIT_TIMEOUT_S: Final = 8.0
"""For one try of commit; retriable ends are tried again."""

ABORT_TIMEOUT_S: Final = 10.0
"""An abort that takes longer is answered by a new producer, whose id fences the old one."""

COMMIT_RETRIES_MAX: Final = 15
"""Two minutes of retriable time-outs: the broker is gone for longer than any take-over; give the producer up."""

FLUSH_TIMEOUT_S: Final = 8.0
"""Records that the broker did not take in this time make the transaction abort."""

LIBRARY_LOG_LEVEL: Final = 3
"""syslog's "error": librdkafka's warnings are about what it retries by itself."""

PRODUCER_QUEUE_MESSAGES_MAX: Final = 1_000_000
"""Above the records of the largest tick, so that produce never meets a full queue."""


ClientConfig = Mapping[str, str | int | float | bool]
"""librdkafka properties: servers and security."""


Headers = list[tuple[str, str | bytes | None]]


class OutRecord(NamedTuple):
    """A record to be written inside the transaction; `topic` is the full name."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    headers: Headers | None = None


class PartitionWrite(NamedTuple):
    """What the transaction writes for one input partition."""

    partition: int
    records: Sequence[OutRecord]
    marker: OutRecord
    """The partition's `m|` record, written last: its receipt tells where the ledger now ends."""
    offsets: Mapping[str, int]
    """Input topic to next offset, unchanged where nothing was consumed. Never empty."""


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that must become visible at once."""

    membership: Membership
    writes: Sequence[PartitionWrite]
    shared: Sequence[OutRecord] = ()
    """Records that belong to no single partition: reply batches."""


class Receipt(NamedTuple):
    """Where and when the broker appended a partition's marker."""

    offset: int
    log_append_ms: int
    acked_monotonic_ms: float
    sent_monotonic_ms: float | None = None
    """Before the record was handed to the client: shows a broker clock that was set back."""


class Outcome(enum.Enum):
    """How a transaction ended, as far as the owner needs to know."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """Nothing happened; the same inputs may be tried again under the same membership."""
    POISONED = "poisoned"
    """Nothing happened, and one of the records will never be taken: find it by halves."""
    STALE = "stale"
    """The group has moved on: forget all state, stop acting."""
    UNKNOWN = "unknown"
    """It may or may not have happened. The producer is given up and fenced; reload from the ledger."""


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one transaction."""

    outcome: Outcome
    receipts: Mapping[int, Receipt] = {}
    """Input partition to the receipt of its marker; only under COMMITTED."""
    reason: str = ""
    producer_lost: bool = False
    """The transaction was not brought to its end: until the id is fenced it may withhold the partitions' offsets."""


class Committer(Protocol):
    """Runs transactions one after the other. Blocking; called from one thread."""

    @property
    def transactional_id(self) -> str:
        """Of the present producer; stands in every marker, so that a successor can fence it."""
        ...

    def commit(self, transaction: Transaction) -> Committed:
        """Run one transaction to an end that is told in the result; raises only on programming errors."""
        ...

    def renew(self) -> None:
        """Give the producer up: fence its id, start a new one under a new id.

        Raises KafkaException where the broker does not answer; call it again then.
        """
        ...

    def close(self) -> None:
        """Release the connection. No transaction may be in flight."""
        ...


class Steps(Protocol):
    """Told before each step of the commit order. Inert in production; fault tests freeze or kill here."""

    def before(self, step: str) -> None:
        """`step` is one of begin, produce, flush, offsets, commit, reply, apply."""
        ...


class NoSteps:
    """The production observer."""

    def before(self, step: str) -> None:
        """Do nothing."""


class _StepError(Exception):
    """A step failed; carries librdkafka's error."""

    def __init__(self, error: KafkaError, *, committing: bool = False) -> None:
        super().__init__(error.str())
        self.error = error
        self.committing = committing


_STALE_CODES: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
_POISON_CODES: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG,
    }
)

_PURGED_CODES: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 - constants
"""Records that fell with their transaction."""


class KafkaCommitter:
    """Transactions through one librdkafka producer. A new producer gets a new transactional id."""

    def __init__(
        self,
        client: ClientConfig,
        id_prefix: str,
        *,
        transaction_timeout_ms: int,
        steps: Steps | None = None,
        monotonic_ms: Callable[[], float] = lambda: time.monotonic() * 1000.0,
    ) -> None:
        """`client` holds bootstrap servers and security settings; `id_prefix` is unique to this process start."""
        self._client = dict(client)
        self._id_prefix = id_prefix
        self._transaction_timeout_ms = transaction_timeout_ms
        self._steps = steps or NoSteps()
        self._monotonic_ms = monotonic_ms
        self._incarnation = 0
        self._transactional_id = ""
        self._producer = self._new_producer()

    @property
    def transactional_id(self) -> str:
        """Of the present producer."""
        return self._transactional_id

    def commit(self, transaction: Transaction) -> Committed:
        """Run the steps in their order."""
        for write in transaction.writes:
            if not write.offsets:
                raise ValueError(f"partition {write.partition} has records and no offset: it would not be fenced")
        receipts: dict[int, Receipt] = {}
        refused: list[KafkaError] = []
        try:
            self._begin()
            self._produce(transaction, receipts, refused)
            self._flush(transaction, receipts, refused)
            self._send_offsets(transaction)
            self._commit()
        except _StepError as failure:
            return self._end(failure)
        return Committed(outcome=Outcome.COMMITTED, receipts=receipts)

    def renew(self) -> None:
        """Replace the producer. Initialising the old id once more ends what it left open and fences its owner."""
        fence(self._client, self._transactional_id)
        self._producer = self._new_producer()

    def close(self) -> None:
        """Drop the producer; librdkafka closes its connections with it."""
        with contextlib.suppress(KafkaException):  # a producer that was fenced has nothing left to flush
            self._producer.flush(1.0)

    # --- steps ---

    def _begin(self) -> None:
        self._steps.before("begin")
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise _StepError(error.args[0]) from error

    def _produce(self, transaction: Transaction, receipts: dict[int, Receipt], refused: list[KafkaError]) -> None:
        self._steps.before("produce")
        produce = self._producer.produce
        try:
            for write in transaction.writes:
                for topic, partition, key, value, headers in write.records:
                    produce(topic, value, key, partition, headers=headers)
                self._produce_marker(write, receipts, refused)
            for topic, partition, key, value, headers in transaction.shared:
                produce(topic, value, key, partition, headers=headers)
        except KafkaException as error:
            raise _StepError(error.args[0]) from error
        except BufferError as error:
            raise _StepError(KafkaError(KafkaError._QUEUE_FULL, str(error))) from error  # noqa: SLF001 - a constant

    def _produce_marker(self, write: PartitionWrite, receipts: dict[int, Receipt], refused: list[KafkaError]) -> None:
        sent_ms = self._monotonic_ms()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refused.append(error)
                return
            receipts[write.partition] = Receipt(
                message.offset() or 0, message.timestamp()[1], self._monotonic_ms(), sent_ms
            )

        topic, partition, key, value, headers = write.marker
        self._producer.produce(topic, value, key, partition, on_delivery=delivered, headers=headers)

    def _flush(self, transaction: Transaction, receipts: dict[int, Receipt], refused: list[KafkaError]) -> None:
        """Nothing may be sent after the offsets: a record that is still here then escapes the fence."""
        self._steps.before("flush")
        try:
            left = self._producer.flush(FLUSH_TIMEOUT_S)
        except KafkaException as error:  # fatal, for instance fenced
            raise _StepError(error.args[0]) from error
        if refused:
            raise _StepError(self._cause(transaction, refused[0]))
        if left or len(receipts) < len(transaction.writes):
            raise _StepError(KafkaError(KafkaError._TIMED_OUT, f"{left} records unsent"))  # noqa: SLF001 - a constant

    def _cause(self, transaction: Transaction, error: KafkaError) -> KafkaError:
        """Return why a marker was not sent.

        One that was purged fell with another record of the transaction, whose error only the transaction remembers: in
        that state it takes no offsets and says why.
        """
        if error.code() not in _PURGED_CODES:
            return error
        try:
            self._offsets_within_bounds(transaction)
        except _StepError as refusal:
            return refusal.error
        return error

    def _send_offsets(self, transaction: Transaction) -> None:
        self._steps.before("offsets")
        self._offsets_within_bounds(transaction)

    def _offsets_within_bounds(self, transaction: Transaction) -> None:
        """Send the offsets, in a thread that is left behind if the call outlives its own time-out.

        librdkafka 2.16 does not look at that time-out while it waits for the group's coordinator (its issue 5456), and
        waits for ever if it has dropped the broker that it remembers as such (its issue 5511). The producer that such a
        call blocks takes no abort either, so it is given up for a new one.
        """
        producer, metadata = self._producer, group_metadata(transaction.membership)
        failures: list[KafkaException] = []

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(_offsets(transaction), metadata, OFFSETS_TIMEOUT_S)
            except KafkaException as error:
                failures.append(error)

        thread = threading.Thread(target=send, name="horolog-offsets", daemon=True)
        thread.start()
        thread.join(OFFSETS_TIMEOUT_S + OFFSETS_MARGIN_S)
        if thread.is_alive():
            raise _StepError(KafkaError(KafkaError._TIMED_OUT, "send_offsets did not return"))  # noqa: SLF001
        if failures:
            raise _StepError(failures[0].args[0]) from failures[0]

    def _commit(self) -> None:
        """Commit until the answer is final: aborting after a retriable time-out wedges the producer (facts A3)."""
        self._steps.before("commit")
        for _ in range(COMMIT_RETRIES_MAX):
            try:
                self._producer.commit_transaction(COMMIT_TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise _StepError(error.args[0], committing=True) from error
                last = error.args[0]
            else:
                return
        raise _StepError(last, committing=True)

    # --- ends ---

    def _end(self, failure: _StepError) -> Committed:
        error = failure.error
        reason = f"{error.name()}: {error.str()}"
        stale = error.code() in _STALE_CODES
        undecided = failure.committing and not error.txn_requires_abort()
        if undecided or error.fatal() or not self._abort():
            outcome = Outcome.STALE if stale else Outcome.UNKNOWN
            return Committed(outcome=outcome, reason=reason, producer_lost=True)
        if stale:
            return Committed(outcome=Outcome.STALE, reason=reason)
        if error.code() in _POISON_CODES:
            return Committed(outcome=Outcome.POISONED, reason=reason)
        return Committed(outcome=Outcome.ABORTED, reason=reason)

    def _abort(self) -> bool:
        try:
            self._producer.abort_transaction(ABORT_TIMEOUT_S)
        except KafkaException:
            return False
        return True

    def _new_producer(self) -> Producer:
        self._incarnation += 1
        transactional_id = f"{self._id_prefix}-{self._incarnation}"
        producer = Producer(
            {
                **self._client,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": self._transaction_timeout_ms,
                "retry.backoff.ms": 5,
                "linger.ms": 0,
                # Else it drops all brokers when all connections are down, and then the call of
                # `_offsets_within_bounds` may hang. A new producer starts from the bootstrap servers anyway.
                "metadata.recovery.strategy": "none",
                "error_cb": _told_by_the_calls,
                "log_level": LIBRARY_LOG_LEVEL,
                "queue.buffering.max.messages": PRODUCER_QUEUE_MESSAGES_MAX,
            }
        )
        producer.init_transactions(ABORT_TIMEOUT_S)
        self._transactional_id = transactional_id
        return producer


def _told_by_the_calls(error: KafkaError) -> None:
    """Ignore it: the call that fails tells the same.

    Without this function the client raises a fatal error inside `flush`, between delivery callbacks, and the first of
    them that calls anything ends in a SystemError that nobody expects.
    """


def _offsets(transaction: Transaction) -> list[TopicPartition]:
    return [
        TopicPartition(topic, write.partition, offset)
        for write in transaction.writes
        for topic, offset in write.offsets.items()
    ]


def fence(client: ClientConfig, transactional_id: str) -> None:
    """End whatever this id left open and refuse its owner from now on. Raises KafkaException."""
    producer = Producer({**client, "transactional.id": transactional_id, "retry.backoff.ms": 5})
    producer.init_transactions(ABORT_TIMEOUT_S)
