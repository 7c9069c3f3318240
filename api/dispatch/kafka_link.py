"""The link over a real Kafka, by confluent-kafka: one producer, one consumer, a thread for each.

The consumer has no group: it reads this gateway's partition of `replies` and `offers` from their ends
(read_committed), and `owners` and `config` from their beginnings. Its thread decodes what arrived and hands it to the
event loop in one call per poll. The producer is idempotent with acks=all and an explicit partition; a batch is packed
already, so it does not linger.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from api.dispatch.link import ConfigRecord, TimedReplies
from schemas.partition import partition_for
from schemas.topics import Topic, topic_name
from streams.core.wire import decode_offers, decode_owner_view, decode_replies, encode_commands, encode_demand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from api.dispatch.link import ConfigDone, LinkListener, SendDone, SendFailure
    from schemas.config import Settings
    from streams.core.envelopes import CommandBatch, Demand, Offers, OwnerView

DELIVERY_TIMEOUT_MS: Final = 8_000
"""Shorter than a caller's wait for the reply, so that it hears of a failed write and not of a missing answer."""

POLL_S: Final = 0.2
"""How long a thread waits for something to do; bounds the time of `stop`."""

DRAIN_MAX: Final = 1_000
"""Records taken along after the first one of a poll."""

RETRY_S: Final = 0.1
START_TIMEOUT_S: Final = 15.0
STOP_TIMEOUT_S: Final = 5.0
THREAD_JOIN_S: Final = 2.0

_NOT_WRITTEN: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError._QUEUE_FULL,  # noqa: SLF001 - librdkafka's own codes are spelt with an underscore
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_MSG,
    }
)
"""Codes of a delivery report after which the record is certainly not in the log."""


class KafkaLinkConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how; `from_settings` builds it."""

    client: dict[str, Any]
    """librdkafka properties to start from."""
    commands: str
    demand: str
    replies: str
    offers: str
    owners: str
    config: str
    reply_partition: int

    @classmethod
    def from_settings(cls, settings: Settings, gateway_id: str) -> KafkaLinkConfig:
        """Name this gateway's topics and partition."""
        return cls(
            client=settings.kafka.client_config(),
            commands=topic_name(settings, Topic.COMMANDS),
            demand=topic_name(settings, Topic.DEMAND),
            replies=topic_name(settings, Topic.REPLIES),
            offers=topic_name(settings, Topic.OFFERS),
            owners=topic_name(settings, Topic.OWNERS),
            config=topic_name(settings, Topic.CONFIG),
            reply_partition=partition_for(gateway_id, settings.topics.reply_partitions),
        )


class _Heard:
    """What one poll brought, sorted."""

    def __init__(self) -> None:
        self.first = False
        self.offers: list[Offers] = []
        self.replies: list[TimedReplies] = []
        self.owners: list[tuple[int, OwnerView | None]] = []
        self.config: list[ConfigRecord] = []

    def __bool__(self) -> bool:
        return bool(self.first or self.offers or self.replies or self.owners or self.config)


class KafkaLink:
    """See Link. `start` raises KafkaException if the topics cannot be read within 15 s."""

    def __init__(self, config: KafkaLinkConfig, gateway_id: str) -> None:
        self._config = config
        self._gateway_key = gateway_id.encode()
        self._producer = Producer(config.client | _PRODUCER)
        self._consumer = Consumer(config.client | _CONSUMER)
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._fatal = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: LinkListener | None = None
        self._ends: dict[str, int] = {}
        """Of `owners` and `config` at the start: where to read to before anything is told."""
        self._first_reading: _Heard | None = _Heard()
        """Collects until both ends are reached; then None."""
        self._started: asyncio.Event = asyncio.Event()
        self.unreadable_total = 0
        self.errors_total = 0

    @property
    def healthy(self) -> bool:
        """See Link."""
        return not self._fatal and all(thread.is_alive() for thread in self._threads)

    async def start(self, listener: LinkListener) -> None:
        """See Link."""
        self._loop, self._listener = asyncio.get_running_loop(), listener
        try:
            await asyncio.to_thread(self._assign)
        except KafkaException:
            await self.stop()
            raise
        for name, target in (("gateway-replies", self._consume), ("gateway-acks", self._collect_acks)):
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        try:
            await asyncio.wait_for(self._started.wait(), START_TIMEOUT_S)
        except TimeoutError:
            await self.stop()
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "owners and config could not be read")) from None  # noqa: SLF001

    def send(self, partition: int, batch: CommandBatch, done: SendDone) -> None:
        """See Link. `done` comes in the loop's thread."""
        record = encode_commands(batch)
        try:
            self._producer.produce(
                self._config.commands,
                record,
                key=self._gateway_key,
                partition=partition,
                on_delivery=lambda error, message: self._delivered(done, error, message),
            )
        except (BufferError, KafkaException):
            self.errors_total += 1
            done(None, "not_written")

    def publish_demand(self, demand: Demand) -> None:
        """See Link."""
        try:
            self._producer.produce(self._config.demand, encode_demand(demand), key=self._gateway_key, partition=0)
        except (BufferError, KafkaException):
            self.errors_total += 1  # The next refresh says it again.

    def write_config(self, key: str, value: bytes | None, done: ConfigDone) -> None:
        """See Link."""
        try:
            self._producer.produce(
                self._config.config,
                value,
                key=key.encode(),
                partition=0,
                on_delivery=lambda error, message: self._delivered(done, error, message, offset=True),
            )
        except (BufferError, KafkaException):
            self.errors_total += 1
            done(None, "not_written")

    async def stop(self) -> None:
        """See Link."""
        await asyncio.to_thread(self._producer.flush, STOP_TIMEOUT_S)
        self._stop.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join, THREAD_JOIN_S)
        await asyncio.to_thread(self._consumer.close)
        await asyncio.to_thread(self._producer.close)

    # In threads

    def _assign(self) -> None:
        """Fix the starting offsets now, so that no answer to a later command can be missed."""
        config = self._config
        assignment = []
        for topic in (config.replies, config.offers):
            partition = TopicPartition(topic, config.reply_partition)
            _, end = self._watermarks(partition)
            assignment.append(TopicPartition(topic, config.reply_partition, end))
        for topic in (config.owners, config.config):
            first, self._ends[topic] = self._watermarks(TopicPartition(topic, 0))
            assignment.append(TopicPartition(topic, 0, first))
        self._consumer.assign(assignment)

    def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """Give first and next offset. Retried for a while: a new topic or a new leader takes a moment."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                first, end = self._consumer.get_watermark_offsets(partition, timeout=START_TIMEOUT_S)
            except KafkaException:
                if time.monotonic() >= deadline_s or self._stop.wait(RETRY_S):
                    raise
            else:
                return first, end

    def _consume(self) -> None:
        while not self._stop.is_set():
            first = self._consumer.poll(POLL_S)
            messages = [] if first is None else [first, *self._consumer.consume(DRAIN_MAX, 0)]
            self._hand_over(messages)

    def _hand_over(self, messages: Sequence[Message]) -> None:
        heard = self._first_reading or _Heard()
        for message in messages:
            error = message.error()
            if error is not None:
                self._note(error)
                continue
            try:
                self._sort(heard, message)
            except ValueError:
                self.unreadable_total += 1
        if self._first_reading is not None:
            if not self._read_to_the_ends():
                return
            self._first_reading = None
            heard.first = True
        if heard:
            self._call_soon(lambda: self._tell(heard))

    def _sort(self, heard: _Heard, message: Message) -> None:
        config, topic = self._config, message.topic()
        if topic == config.owners:
            heard.owners.append(_owner(message))
        elif topic == config.config:
            heard.config.append(_config_record(message))
        elif message.key() != self._gateway_key:
            return
        elif topic == config.replies:
            heard.replies.append(TimedReplies(message.timestamp()[1], decode_replies(_value(message))))
        else:
            heard.offers.append(decode_offers(_value(message)))

    def _read_to_the_ends(self) -> bool:
        positions = self._consumer.position([TopicPartition(topic, 0) for topic in self._ends])
        return all(self._ends[at.topic] == 0 or at.offset >= self._ends[at.topic] for at in positions)

    def _collect_acks(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(POLL_S)

    def _delivered(
        self, done: SendDone | ConfigDone, error: KafkaError | None, message: Message, *, offset: bool = False
    ) -> None:
        """Tell how a record ended: with its LogAppendTime, or its `offset`."""
        if error is None:
            told = message.offset() if offset else message.timestamp()[1]
            self._call_soon(lambda: done(told, None))
            return
        self._note(error)
        failure: SendFailure = "not_written" if error.code() in _NOT_WRITTEN else "unknown"
        self._call_soon(lambda: done(None, failure))

    def _note(self, error: KafkaError) -> None:
        self.errors_total += 1
        if error.fatal():
            self._fatal = True

    def _call_soon(self, callback: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        loop.call_soon_threadsafe(callback)

    # In the loop

    def _tell(self, heard: _Heard) -> None:
        listener = self._listener
        if listener is None:
            return
        if heard.config:
            listener.on_config(heard.config)
        if heard.owners or heard.first:
            listener.on_owners(heard.owners)
        if heard.first:
            self._started.set()
        if heard.replies:
            listener.on_replies(heard.replies)
        if heard.offers:
            listener.on_offers(heard.offers)


_PRODUCER: Final[dict[str, Any]] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
    "message.max.bytes": 1_000_000,
    "log_level": 3,
}

_CONSUMER: Final[dict[str, Any]] = {
    # Never joins a group; librdkafka wants a name all the same.
    "group.id": "horolog-gateway-unused",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    # Only after an offset fell out of the log: what was missed is a reply that somebody timed out on.
    "auto.offset.reset": "latest",
    "fetch.wait.max.ms": 500,
    "fetch.error.backoff.ms": 100,
    "log_level": 3,
}


def _value(message: Message) -> bytes:
    value = message.value()
    if not isinstance(value, bytes):
        raise ValueError("no value")  # noqa: TRY004 - treated as every other unreadable record
    return value


def _config_record(message: Message) -> ConfigRecord:
    key, value, offset = message.key(), message.value(), message.offset()
    if not isinstance(key, bytes) or offset is None:
        raise ValueError("no key")
    return ConfigRecord(key.decode(), value if isinstance(value, bytes) else None, offset)


def _owner(message: Message) -> tuple[int, OwnerView | None]:
    key = message.key()
    partition = int(key) if key else -1
    if message.value() is None:
        return partition, None
    view = decode_owner_view(_value(message))
    return view.partition, view
