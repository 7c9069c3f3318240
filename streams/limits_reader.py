"""Reads topics `config` and `owners` from their beginnings, in a thread of its own.

They tell what limits there are, and what other owners say of what counts against them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from confluent_kafka import OFFSET_BEGINNING as BEGINNING
from confluent_kafka import Consumer, KafkaError, TopicPartition

from schemas.codec import Undecodable
from schemas.topics import Topic, topic_name
from streams.core.wire import decode_owner_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

    from schemas.config import Settings
    from streams.core.envelopes import OwnerView
    from streams.transaction import ClientConfig

POLL_S: Final = 0.2
"""How long a stop may wait for the thread to look up."""

JOIN_S: Final = 5.0
"""A thread that does not end in this time is left to the process's end."""


class LimitsReader:
    """Hands each record to one of two callbacks, on the reader's thread; None is a deletion."""

    def __init__(
        self,
        settings: Settings,
        client: ClientConfig,
        *,
        config: Callable[[str, bytes | None], None],
        owner: Callable[[int, OwnerView | None], None],
    ) -> None:
        self._config, self._owner = config, owner
        self._topics = topic_name(settings, Topic.CONFIG), topic_name(settings, Topic.OWNERS)
        self._stopping = threading.Event()
        self._caught_up = threading.Event()
        self._consumer = Consumer(
            {
                **client,
                "group.id": f"{settings.scheduler.group_id}-limits",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
            }
        )
        self._unread = set(self._topics)
        """Topics whose end was not reached yet."""
        self._consumer.assign([TopicPartition(topic, 0, BEGINNING) for topic in self._topics])
        self._thread = threading.Thread(target=self._run, name="horolog-limits", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def wait_caught_up(self) -> None:
        """Return when everything that stood in the topics at the start has been handed over, or after a stop."""
        self._caught_up.wait()

    def stop(self) -> None:
        """End the thread and leave no connection behind."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        self._caught_up.set()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._hand_over(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own codes are spelt so
                self._unread.discard(message.topic() or "")
                if not self._unread:
                    self._caught_up.set()

    def _hand_over(self, message: Message) -> None:
        key, value = message.key() or b"", message.value()
        try:
            if message.topic() == self._topics[0]:
                self._config(key.decode(), value)
            else:
                self._owner(int(key), None if value is None else decode_owner_view(value))
        except (Undecodable, ValueError):
            return  # somebody else's record, or one of a later version: it limits nothing here
