"""Reads topic `config` whole, before the process acts and then on and on, in a thread of its own.

No group, no offsets to commit. What changed is handed over whole, as an immutable value; a look (`look`) asks the
broker for the topic's end and is told when everything below it was read.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING as BEGINNING
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from schemas.topics import Topic, topic_name
from streams.core.calendar_records import CalendarBook

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Message

    from schemas.config import Settings
    from streams.core.calendars import Calendars
    from streams.core.time import ZoneData
    from streams.transaction import ClientConfig

POLL_S: Final = 0.05
"""How long a look may wait for the thread: a take-over waits for one."""

RECORDS_MAX: Final = 500
"""Of one poll."""

END_TIMEOUT_S: Final = 2.0
"""For the broker's answer where the topic ends; asked again until it comes."""

FIRST_READING_S: Final = 60.0
"""A topic of some thousand records is read in a second; a broker that restarts takes some."""

JOIN_S: Final = 5.0
"""A thread that does not end in this time is left to the process's end."""


class ConfigHeard(NamedTuple):
    """What the reader knows."""

    calendars: Calendars
    next_offset: int
    looked: int
    """The last look that is finished."""


class ConfigUnreadableError(Exception):
    """The topic could not be read in time."""


class ConfigReader:
    """Hands over what it has read, on the reader's thread."""

    def __init__(
        self, settings: Settings, client: ClientConfig, zone_data: ZoneData, heard: Callable[[ConfigHeard], None]
    ) -> None:
        self._heard = heard
        self._book = CalendarBook(zone_data, warm=True)
        self._place = TopicPartition(topic_name(settings, Topic.CONFIG), 0, BEGINNING)
        self._wanted = 1
        """The first look is that of `read_whole`."""
        self._looking: tuple[int, int] | None = None
        """A look that has asked: its number, and the end to read to."""
        self._looked = 0
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                **client,
                "group.id": f"{settings.scheduler.group_id}-config",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.assign([self._place])
        self._thread = threading.Thread(target=self._run, name="horolog-config", daemon=True)

    def read_whole(self, timeout_s: float = FIRST_READING_S) -> ConfigHeard:
        """Read to the end, before the thread starts. Raises ConfigUnreadableError."""
        until_s = time.monotonic() + timeout_s
        while self._looked < self._wanted:
            if time.monotonic() > until_s:
                raise ConfigUnreadableError(f"{self._place.topic} could not be read to its end in {timeout_s:g} s")
            self.turn()
        return self._known()

    def start(self) -> None:
        """Go on reading."""
        self._thread.start()

    def look(self, number: int) -> None:
        """Read to the end that the topic has from now on; from any thread. Numbers rise from 1."""
        self._wanted = number + 1

    def stop(self) -> None:
        """End the thread and leave no connection behind."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)
        self._consumer.close()

    def turn(self) -> bool:
        """Read once; True where there is something to tell."""
        self._begin_look()
        changed = self._take(self._consumer.consume(RECORDS_MAX, POLL_S))
        if self._looking is not None and self._book.next_offset >= self._looking[1]:
            self._looked, self._looking = self._looking[0], None
            changed = True
        return changed

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self.turn():
                self._heard(self._known())

    def _known(self) -> ConfigHeard:
        # Numbers of looks are those of the callers; read_whole's own is none of them.
        return ConfigHeard(self._book.calendars, self._book.next_offset, self._looked - 1)

    def _begin_look(self) -> None:
        wanted = self._wanted
        if self._looking is not None or self._looked >= wanted:
            return
        try:
            _, end = self._consumer.get_watermark_offsets(self._place, timeout=END_TIMEOUT_S)
        except KafkaException:
            return  # asked again with the next turn
        self._looking = (wanted, end)

    def _take(self, messages: Sequence[Message]) -> bool:
        changed = False
        for message in messages:
            error, offset = message.error(), message.offset()
            if error is None and offset is not None:
                key, value = message.key(), message.value()
                changed |= self._book.take(_text(key), value, offset)
                changed = True
            elif error is not None and error.code() == KafkaError._PARTITION_EOF and offset is not None:  # noqa: SLF001 - a constant
                self._book.read_to(offset)
        return changed


def _text(key: object) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else ""
