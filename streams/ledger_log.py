"""What a take-over asks of Kafka: offsets as they are stable, the ledger's records, and the fencing of a predecessor.

`LedgerLog` is the role; `KafkaLedgerLog` fills it with two librdkafka consumers and an admin client, the simulator
with its
in-memory log. All calls block; they run in one thread of their own.
"""

from __future__ import annotations

import contextlib
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from schemas.topics import Topic, topic_name
from streams.input_place import NO_OFFSET
from streams.sealing import DEFINITION_PREFIX, MARKER_KEY, TRANSACTIONAL_ID_HEADER
from streams.transaction import fence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from confluent_kafka import Message

    from schemas.config import Settings
    from streams.transaction import ClientConfig

REQUEST_TIMEOUT_S: Final = 5.0
"""Of one admin or offset request; every caller asks again until its assignment is over."""

STABLE_TIMEOUT_S: Final = 1.0
"""Of one question for stable offsets: with longer ones the answer overshoots by seconds (facts A2)."""

READ_MAX: Final = 5_000
"""Records per consume call and per write to the store."""

READ_TIMEOUT_S: Final = 0.05
"""`consume` waits for its whole number or this long."""

PREDECESSOR_RECORDS_MAX: Final = 500
"""How far back from the end the last marker is looked for; a transaction writes one marker per partition."""

PREDECESSOR_TIMEOUT_S: Final = 3.0
"""A ledger end that cannot be read in this time is looked at again in the next round."""

WARM_UP_TIMEOUT_S: Final = 5.0
"""The first assignment of a consumer costs about a second; better at start than at take-over (facts A3)."""


class LedgerRecordIn(NamedTuple):
    """One committed record of the ledger."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None
    headers: Mapping[str, bytes]


class LogIdentity(NamedTuple):
    """Which cluster, and which topics of it: names come back, ids do not."""

    cluster_id: str
    ledger_id: str
    input_ids: Mapping[str, str]
    """By full topic name."""


class LedgerLog(Protocol):
    """The questions of a take-over."""

    def identity(self) -> LogIdentity:
        """Return the ids of the cluster, of the ledger and of the inputs."""
        ...

    def ledger_ends(self, partitions: Iterable[int], *, stable: bool) -> dict[int, int]:
        """Return high watermarks, or the last stable offsets where `stable`."""
        ...

    def input_ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the high watermarks of topic `commands`."""
        ...

    def stable_ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the ends of input partitions (full topic name, partition) as a read_committed consumer sees them."""
        ...

    def stable_committed(self, partitions: Iterable[int]) -> dict[str, dict[int, int]] | None:
        """Return the group's offsets by input topic, NO_OFFSET where it has none.

        None while a transaction with pending offsets is open.
        """
        ...

    def predecessors(self, ends: Mapping[int, int]) -> set[str]:
        """Return the transactional ids in the last markers before these offsets, committed or not."""
        ...

    def fence(self, transactional_id: str) -> None:
        """End whatever that id left open."""
        ...

    def read_ledger(
        self, start: Mapping[int, int], end: Mapping[int, int], still_current: Callable[[], bool]
    ) -> Iterator[list[LedgerRecordIn]]:
        """Yield committed records in offset order per partition, in chunks; ends early when no longer current."""
        ...


class KafkaLedgerLog:
    """On a real Kafka."""

    def __init__(self, settings: Settings, client: ClientConfig) -> None:
        # From the leader, also where client.rack names a nearer copy: each assignment would first be sent there and
        # back, and librdkafka answers a second such turn within a minute with a pause of half a second.
        self._client = {name: value for name, value in client.items() if name != "client.rack"}
        self._ledger = topic_name(settings, Topic.LEDGER)
        self._inputs = (topic_name(settings, Topic.COMMANDS), topic_name(settings, Topic.JOB_DEFINITIONS))
        self._partitions = settings.topics.partitions
        self._copies_required = settings.topics.min_insync_replicas
        self._admin = AdminClient(self._client)
        common = {
            **self._client,
            "group.id": settings.scheduler.group_id,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 10,
        }
        self._committed = Consumer({**common, "isolation.level": "read_committed"})
        self._uncommitted = Consumer({**common, "isolation.level": "read_uncommitted"})

    def warm_up(self) -> None:
        """Connect both consumers to the leaders of all ledger partitions."""
        for consumer in (self._committed, self._uncommitted):
            ends = [TopicPartition(self._ledger, partition, -1) for partition in range(self._partitions)]
            consumer.assign(ends)
            left = self._partitions
            deadline = time.monotonic() + WARM_UP_TIMEOUT_S
            while left and time.monotonic() < deadline:
                left -= consumer.poll(READ_TIMEOUT_S) is not None
            consumer.unassign()

    def identity(self) -> LogIdentity:
        """Ask the admin client."""
        # The metadata first: topics are described by the broker that it names as controller, and librdkafka goes on
        # waiting for the one that it knows, also where the death of just that one made this take-over.
        cluster = self._admin.list_topics(self._ledger, timeout=REQUEST_TIMEOUT_S)
        topics = TopicCollection([self._ledger, *self._inputs])
        described = self._admin.describe_topics(topics, request_timeout=REQUEST_TIMEOUT_S)
        ids = {name: str(answer.result().topic_id) for name, answer in described.items()}
        return LogIdentity(str(cluster.cluster_id), ids[self._ledger], {name: ids[name] for name in self._inputs})

    def ledger_ends(self, partitions: Iterable[int], *, stable: bool) -> dict[int, int]:
        """Ask with the isolation level that gives the one or the other."""
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        return self._ends(self._ledger, partitions, level)

    def input_ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """Ask for the end of what gateways have appended."""
        return self._ends(self._inputs[0], partitions, IsolationLevel.READ_UNCOMMITTED)

    def stable_ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Ask for the ends of input partitions as a read_committed consumer sees them."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in places:
            by_topic.setdefault(topic, []).append(partition)
        return {
            (topic, partition): end
            for topic, partitions in by_topic.items()
            for partition, end in self._ends(topic, partitions, IsolationLevel.READ_COMMITTED).items()
        }

    def takes_writes(self) -> bool:
        """Whether the ledger has as many copies in sync as are configured: with fewer it may refuse every write."""
        ledger = self._admin.list_topics(self._ledger, timeout=REQUEST_TIMEOUT_S).topics[self._ledger]
        return all(len(partition.isrs) >= self._copies_required for partition in ledger.partitions.values())

    def stable_committed(self, partitions: Iterable[int]) -> dict[str, dict[int, int]] | None:
        """Ask as a read_committed consumer of the group: only so does the broker withhold pending offsets."""
        asked = [TopicPartition(topic, partition) for topic in self._inputs for partition in partitions]
        try:
            answers = self._committed.committed(asked, timeout=STABLE_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() in _NOT_YET_STABLE:
                return None
            raise
        offsets: dict[str, dict[int, int]] = {topic: {} for topic in self._inputs}
        for answer in answers:
            if answer.error is not None:
                return None
            offsets[answer.topic][answer.partition] = answer.offset if answer.offset >= 0 else NO_OFFSET
        return offsets

    def predecessors(self, ends: Mapping[int, int]) -> set[str]:
        """Read the tail of each partition uncommitted and look for marker headers."""
        consumer = self._uncommitted
        consumer.assign(
            [
                TopicPartition(self._ledger, partition, max(0, end - PREDECESSOR_RECORDS_MAX))
                for partition, end in ends.items()
            ]
        )
        last: dict[int, str] = {}
        left = set(ends)
        deadline = time.monotonic() + PREDECESSOR_TIMEOUT_S
        try:
            while left and time.monotonic() < deadline:
                for message in consumer.consume(READ_MAX, READ_TIMEOUT_S):
                    partition = message.partition() or 0
                    error = message.error()
                    if error is not None:
                        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a constant
                            left.discard(partition)
                        continue
                    transactional_id = _headers(message).get(TRANSACTIONAL_ID_HEADER)
                    if message.key() == MARKER_KEY and transactional_id:
                        last[partition] = transactional_id.decode()
        finally:
            consumer.unassign()
        return set(last.values())

    def fence(self, transactional_id: str) -> None:
        """Initialise the id once more."""
        fence(self._client, transactional_id)

    def read_ledger(
        self, start: Mapping[int, int], end: Mapping[int, int], still_current: Callable[[], bool]
    ) -> Iterator[list[LedgerRecordIn]]:
        """Read with the read_committed consumer up to each partition's end."""
        left = {partition for partition in end if start[partition] < end[partition]}
        if not left:
            return
        consumer = self._committed
        consumer.assign([TopicPartition(self._ledger, partition, start[partition]) for partition in left])
        try:
            while left and still_current():
                records = []
                for message in consumer.consume(READ_MAX, READ_TIMEOUT_S):
                    partition, offset = message.partition() or 0, message.offset() or 0
                    error = message.error()
                    if error is None:
                        records.append(_record(message))
                        if offset + 1 >= end[partition]:
                            left.discard(partition)
                    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a constant
                        if offset >= end[partition]:
                            left.discard(partition)
                    elif not error.retriable():
                        raise KafkaException(error)
                yield records
        finally:
            consumer.unassign()

    def close(self) -> None:
        """Leave no connection behind."""
        self._committed.close()
        self._uncommitted.close()

    def _ends(self, topic: str, partitions: Iterable[int], level: IsolationLevel) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): _LATEST for partition in partitions}
        if not asked:
            return {}
        answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=REQUEST_TIMEOUT_S)
        try:
            offsets = {partition.partition: answer.result().offset for partition, answer in answers.items()}
        except KafkaException:
            # After a broker's restart each answer is "fenced leader epoch": librdkafka asks with the epoch that it
            # remembers, learns nothing from the refusal, and by itself looks again after five minutes only.
            self._learn_leaders(topic)
            raise
        unknown = sorted(partition for partition, offset in offsets.items() if offset < 0)
        if unknown:
            # Seen while leaders moved: the dead broker's partitions came without an error and with librdkafka's
            # "invalid" (-1001). Taken for the end of a ledger, that would make an empty partition out of a full one.
            self._learn_leaders(topic)
            reason = f"the end of {topic}-{unknown[0]} is not known yet (offset {offsets[unknown[0]]})"
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, reason))
        return offsets

    def _learn_leaders(self, topic: str) -> None:
        """Let the next question go to the present leaders, with their epochs."""
        with contextlib.suppress(KafkaException):  # the caller has a failure to tell already, and asks again
            self._admin.list_topics(topic, timeout=REQUEST_TIMEOUT_S)


_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call] # its stub lacks the types
_NO_HEADERS: Final[Mapping[str, bytes]] = MappingProxyType({})
_NOT_YET_STABLE: Final = frozenset(
    {
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._TIMED_OUT,  # noqa: SLF001 - a constant; librdkafka's word for "still unstable after the time-out"
    }
)


def _headers(message: Message) -> dict[str, bytes]:
    headers = message.headers()
    return {name: value for name, value in headers if isinstance(value, bytes)} if isinstance(headers, list) else {}


def _record(message: Message) -> LedgerRecordIn:
    """Read a record; called for each one of a recovery, of which half are definitions, and these have no headers."""
    key = message.key() or b""
    headers = None if key[:2] == DEFINITION_PREFIX else message.headers()
    return LedgerRecordIn(
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        key,
        message.value(),
        dict(headers) if headers else _NO_HEADERS,  # type: ignore[arg-type]  # ours are all bytes
    )
