"""Reads topic `demand` from its end, in a thread of its own: hints need no group, no offsets and no transactions."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from confluent_kafka import OFFSET_END as END
from confluent_kafka import Consumer, TopicPartition

from schemas.codec import Undecodable
from schemas.topics import Topic, topic_name
from streams.core.wire import decode_demand

if TYPE_CHECKING:
    from collections.abc import Callable

    from schemas.config import Settings
    from streams.core.envelopes import Demand
    from streams.transaction import ClientConfig

POLL_S: Final = 0.2
"""How long a stop may wait for the thread to look up."""

JOIN_S: Final = 5.0
"""A thread that does not end in this time is left to the process's end."""


class DemandReader:
    """Hands each readable Demand to a callback, on the reader's thread."""

    def __init__(self, settings: Settings, client: ClientConfig, heard: Callable[[Demand], None]) -> None:
        self._heard = heard
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                **client,
                "group.id": f"{settings.scheduler.group_id}-hints",
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.assign([TopicPartition(topic_name(settings, Topic.DEMAND), 0, END)])
        self._thread = threading.Thread(target=self._run, name="horolog-demand", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and leave no connection behind."""
        self._stopping.set()
        self._thread.join(JOIN_S)
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(POLL_S)
            if message is None or message.error() is not None:
                continue
            try:
                demand = decode_demand(message.value())
            except Undecodable:
                continue  # a hint that cannot be read is a hint not given
            self._heard(demand)
