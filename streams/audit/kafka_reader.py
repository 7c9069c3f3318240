"""Fetches a finished run from a real Kafka into a `LogView`: every topic, read_committed, from beginning to end.

Two readings are made of the owners' topics. The committed one is judged. The uncommitted one only tells how
many records stayed hidden (`Reading.hidden`): in a run with frozen owners it must not be zero, or nothing was
put to the test.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from schemas.topics import Topic, topic_name
from streams.audit.log_view import TOPICS, LogRecord, LogView

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from confluent_kafka import Message

    from schemas.config import Settings

OWNED: Final = ("ledger", "history", "leases", "replies")
"""Topics that owners write inside their transactions."""

READ_MAX: Final = 5_000
READ_TIMEOUT_S: Final = 0.2
REQUEST_TIMEOUT_S: Final = 15.0

STALLED_AFTER_S: Final = 60.0
"""Without any record for so long, a partition's end will not be reached: an open transaction, or no broker."""


_PASSING: Final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART})


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    view: LogView
    hidden: Mapping[str, int]
    """Records of each owned topic that only a read_uncommitted consumer sees: those of aborted transactions."""


def read_run(settings: Settings, *, whole: bool = True, end_at_ms: int | None = None) -> Reading:
    """Read all topics. `whole`: nothing was compacted or deleted yet. Raises KafkaException, TimeoutError."""
    committed_reader = _consumer(settings, "read_committed")
    try:
        records = {topic: [*_records(committed_reader, settings, topic)] for topic in TOPICS}
        offsets = _group_offsets(committed_reader, settings)
    finally:
        committed_reader.close()
    uncommitted_reader = _consumer(settings, "read_uncommitted")
    try:
        seen = {topic: sum(1 for _ in _records(uncommitted_reader, settings, topic)) for topic in OWNED}
    finally:
        uncommitted_reader.close()
    view = LogView(
        (record for rows in records.values() for record in rows),
        committed=offsets,
        end_at_ms=time.time_ns() // 1_000_000 if end_at_ms is None else end_at_ms,
        whole=whole,
    )
    return Reading(view=view, hidden={topic: seen[topic] - len(records[topic]) for topic in OWNED})


def _consumer(settings: Settings, isolation: str) -> Consumer:
    return Consumer(
        {
            **settings.kafka.client_config(),
            "group.id": settings.scheduler.group_id,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
        }
    )


def _records(consumer: Consumer, settings: Settings, topic: str) -> Iterator[LogRecord]:
    """Read one topic to the end that it has when this begins. The group is not joined."""
    name = topic_name(settings, Topic(topic))
    left = _ends(consumer, name)
    consumer.assign([TopicPartition(name, partition, 0) for partition in left])
    heard_s = time.monotonic()
    while left:
        messages = consumer.consume(READ_MAX, READ_TIMEOUT_S)
        if messages:
            heard_s = time.monotonic()
        elif time.monotonic() - heard_s > STALLED_AFTER_S:
            raise TimeoutError(f"{name}: partitions {sorted(left)} did not come to their end")
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            error = message.error()
            if error is None:
                yield _record(topic, message)
            elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - a constant
                if not error.retriable():
                    raise KafkaException(error)
                continue
            # The end of file comes behind the markers of transactions, which are no records.
            if error is not None and offset >= left.get(partition, 0):
                left.pop(partition, None)
    consumer.unassign()


def _ends(consumer: Consumer, name: str) -> dict[int, int]:
    """Give the high watermark of every partition."""
    described = consumer.list_topics(name, timeout=REQUEST_TIMEOUT_S).topics[name]
    if described.error is not None:
        raise KafkaException(described.error)
    return {partition: _end(consumer, TopicPartition(name, partition)) for partition in described.partitions}


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """Ask again while the answer is a passing one: a topic that was just made, a leader that moves."""
    until_s = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        try:
            _, end = consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S)
        except KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() not in _PASSING:
                raise
            if time.monotonic() > until_s:
                raise
            consumer.poll(READ_TIMEOUT_S)
        else:
            return int(end)


def _group_offsets(consumer: Consumer, settings: Settings) -> dict[int, int]:
    """Give the offset of each partition of `commands` that the owners committed; 0 where there is none."""
    name = topic_name(settings, Topic.COMMANDS)
    asked = [TopicPartition(name, partition) for partition in range(settings.topics.partitions)]
    return {at.partition: max(at.offset, 0) for at in consumer.committed(asked, timeout=REQUEST_TIMEOUT_S)}


def _record(topic: str, message: Message) -> LogRecord:
    headers: Any = message.headers() or ()
    return LogRecord(
        topic=topic,
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple((name, value) for name, value in headers if isinstance(value, bytes)),
    )
