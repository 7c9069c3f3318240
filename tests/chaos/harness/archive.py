"""Keeps what compaction and retention take away, so that a run can still be judged whole.

An `Archive` reads some topics read_committed from the first record on, in a thread of its own, while the run goes on.
It must be quicker than the cleaner: topics whose segments are tiny keep their records for `min.compaction.lag.ms` at
least.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from schemas.topics import Topic, topic_name
from streams.audit.log_view import LogRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

    from schemas.config import Settings

READ_MAX: Final = 5_000
READ_TIMEOUT_S: Final = 0.2
END_TIMEOUT_S: Final = 60.0

LOST: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
"""The cleaner or retention was quicker than the archive."""


class Archive:
    """Everything that was ever committed to some topics of a cluster."""

    def __init__(self, settings: Settings, topics: Sequence[Topic]) -> None:
        self._settings = settings
        self._names = {topic_name(settings, topic): topic for topic in topics}
        self._records: dict[Topic, list[LogRecord]] = {topic: [] for topic in topics}
        self._at: dict[tuple[str, int], int] = {}
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)
        self._thread.start()

    def count(self, topic: Topic) -> int:
        """Give how many records of a topic were read so far."""
        return len(self._records[topic])

    def read_to(self, topic: Topic, partition: int) -> int:
        """Give the offset behind what was read so far of a partition."""
        return self._at.get((topic_name(self._settings, topic), partition), 0)

    def end(self) -> dict[Topic, list[LogRecord]]:
        """Read to the present end of each topic, and give everything."""
        self._ending.set()
        self._thread.join(END_TIMEOUT_S)
        if self._failure is not None:
            raise AssertionError("the archive is not whole") from self._failure
        assert not self._thread.is_alive(), "the archive did not come to the topics' ends"
        return self._records

    def _run(self) -> None:
        consumer = Consumer(
            {
                **self._settings.kafka.client_config(),
                "group.id": "archive",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "log_level": 0,  # a broker that is away is no news here
            }
        )
        try:
            self._follow(consumer)
        except BaseException as error:  # noqa: BLE001 - told by `end`
            self._failure = error
        finally:
            consumer.close()

    def _follow(self, consumer: Consumer) -> None:
        places = [place for name in self._names for place in _partitions_of(consumer, name)]
        consumer.assign(places)
        ends: dict[tuple[str, int], int] | None = None
        while ends is None or any(self._at.get(place, 0) < end for place, end in ends.items()):
            if self._ending.is_set() and ends is None:
                ends = {
                    (place.topic, place.partition): consumer.get_watermark_offsets(place, timeout=END_TIMEOUT_S)[1]
                    for place in places
                }
            for message in consumer.consume(READ_MAX, READ_TIMEOUT_S):
                self._take(message)

    def _take(self, message: Message) -> None:
        error, place = message.error(), (message.topic() or "", message.partition() or 0)
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._at[place] = message.offset() or 0
            elif error.code() in LOST:
                raise KafkaException(error)
            return  # a broker that is gone comes back
        topic = self._names[place[0]]
        self._at[place] = (message.offset() or 0) + 1
        headers = message.headers()
        self._records[topic].append(
            LogRecord(
                topic=topic.value,
                partition=place[1],
                offset=message.offset() or 0,
                timestamp_ms=message.timestamp()[1],
                key=message.key(),
                value=message.value(),
                headers=tuple(
                    (name, value)
                    for name, value in (headers if isinstance(headers, list) else [])
                    if isinstance(value, bytes)
                ),
            )
        )


def _partitions_of(consumer: Consumer, name: str) -> list[TopicPartition]:
    described = consumer.list_topics(name, timeout=END_TIMEOUT_S).topics[name]
    return [TopicPartition(name, partition, 0) for partition in described.partitions]
