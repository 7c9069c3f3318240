"""Writes topic `replies`: after the commit that the answers tell of, and outside its transaction.

A reply inside the transaction would lie behind it in a partition that all owners share: an owner that dies or
freezes with an open
transaction would then keep every gateway from reading anybody's answers until it is fenced (7 to 8 s, seen in the chaos
runs), and one owner's fault would be everybody's. What an owner that dies between commit and reply leaves unsaid is
asked
again: the gateway repeats lease requests to the new owner, callers repeat their calls, and both get the first answer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from streams.transaction import LIBRARY_LOG_LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import KafkaError, Message

    from streams.transaction import ClientConfig, OutRecord

CLOSE_TIMEOUT_S: Final = 2.0
"""For what is queued at a stop; callers repeat what they did not hear."""


RECENT_MS: Final = 30_000
"""Whether the producer works is judged while it is used: what failed and was followed by nothing tells nothing."""


class ReplySender:
    """Sends without waiting; librdkafka keeps the order and repeats what the broker did not take."""

    def __init__(
        self, client: ClientConfig, *, monotonic_ms: Callable[[], float] = lambda: time.monotonic() * 1000.0
    ) -> None:
        self._monotonic_ms = monotonic_ms
        self._sent_at_ms = 0.0
        self._unheard = 0
        """Records handed over since the broker last took one."""
        self._taken = 0
        self._producer = Producer(
            {
                **client,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 10_000,
                "log_level": LIBRARY_LOG_LEVEL,
            }
        )

    def send(self, records: Sequence[OutRecord]) -> None:
        """Queue the records; a full queue drops the rest, which is like a lost answer."""
        for record in records:
            self._unheard += 1
            try:
                self._producer.produce(
                    record.topic, record.value, record.key, record.partition, on_delivery=self._delivered
                )
            except BufferError:
                break
        self._sent_at_ms = self._monotonic_ms()
        self._producer.poll(0)

    def progress(self) -> tuple[int, int]:
        """Return how many records the broker took, and one more where some of late ones should have been taken."""
        recent = self._monotonic_ms() - self._sent_at_ms < RECENT_MS
        return self._taken, self._taken + (self._unheard > 0 and recent)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._taken += 1
            self._unheard = 0

    def close(self) -> None:
        """Give what is queued a moment."""
        self._producer.flush(CLOSE_TIMEOUT_S)
