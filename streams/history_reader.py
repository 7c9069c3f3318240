"""Finds records of topic `history` by job and time, for questions that people ask: bounded, and beside the loop.

A consumer without a group, in a thread of its own, opened at the first question. It finds the offset of an instant by
the topic's LogAppendTime, which is never before the instant of the decision, and reads on from there.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from schemas.codec import Undecodable
from schemas.topics import Topic, topic_name
from streams.core.evidence import Proof, proving
from streams.core.wire import decode_history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.config import Settings
    from streams.core.evidence import Ask
    from streams.transaction import ClientConfig

SLACK_MS: Final = 1_000
"""An owner's estimate of the broker's clock may run ahead for a moment after the leader changed."""

RECORDS_MAX: Final = 20_000
"""Looked at for one thing: seconds of a partition at the top of the hour, and some 100 ms of this thread."""

FIND_S: Final = 3.0
"""For all things of one question; its gateway waits 5 s."""

POLL_S: Final = 0.5
CONSUMED_AT_ONCE: Final = 500


class History(Protocol):
    """What answers questions about history."""

    async def find(self, partition: int, job_id: str, asks: Sequence[Ask]) -> list[Proof | None]:
        """Return the first record for each; None where there is none within the bounds."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class KafkaHistory:
    """Reads the topic, one question after the other."""

    def __init__(self, settings: Settings, client: ClientConfig) -> None:
        self._topic = topic_name(settings, Topic.HISTORY)
        self._config: ClientConfig = {
            **client,
            "group.id": f"{settings.scheduler.group_id}-questions",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        self._consumer: Consumer | None = None
        self._thread = ThreadPoolExecutor(1, "horolog-history")

    async def find(self, partition: int, job_id: str, asks: Sequence[Ask]) -> list[Proof | None]:
        """See History."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._find_all, partition, job_id, tuple(asks))

    def close(self) -> None:
        """See History."""
        self._thread.submit(self._close).result()
        self._thread.shutdown()

    def _close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _find_all(self, partition: int, job_id: str, asks: tuple[Ask, ...]) -> list[Proof | None]:
        until_s = time.monotonic() + FIND_S
        found: list[Proof | None] = []
        for ask in asks:
            try:
                found.append(self._find(partition, job_id.encode(), ask, until_s))
            except KafkaException:
                found.append(None)  # a question may be asked again; the partition must not suffer from it
        return found

    def _find(self, partition: int, key: bytes, ask: Ask, until_s: float) -> Proof | None:
        if self._consumer is None:
            self._consumer = Consumer(dict(self._config))
        consumer = self._consumer
        at = TopicPartition(self._topic, partition, max(ask.at_ms - SLACK_MS, 0))
        (start,) = consumer.offsets_for_times([at], timeout=max(until_s - time.monotonic(), 0.1))
        if start.offset < 0:
            return None
        consumer.assign([start])
        looked = 0
        while looked < RECORDS_MAX and time.monotonic() < until_s:
            for message in consumer.consume(CONSUMED_AT_ONCE, POLL_S):
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its only name
                        return None
                    continue
                looked += 1
                if message.key() != key:
                    continue
                proof = self._proof(ask, partition, message.offset() or 0, message.value())
                if proof is not None:
                    return proof
        return None

    def _proof(self, ask: Ask, partition: int, offset: int, value: bytes | None) -> Proof | None:
        try:
            event = proving(ask, decode_history(value))
        except Undecodable:
            return None
        if event is None:
            return None
        fields = msgspec.to_builtins(event)
        return Proof(
            topic=self._topic, partition=partition, offset=offset, event_type=type(event).__name__, event=fields
        )
