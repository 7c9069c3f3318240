"""Writes topic `offers`: hints, outside every transaction, without waiting for anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer

from schemas.partition import partition_for
from schemas.topics import Topic, topic_name
from streams.core.wire import encode_offers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.config import Settings
    from streams.core.envelopes import Offers
    from streams.transaction import ClientConfig


class OfferSender:
    """Sends offers to the partition that their gateway reads."""

    def __init__(self, settings: Settings, client: ClientConfig) -> None:
        self._topic = topic_name(settings, Topic.OFFERS)
        self._partitions = settings.topics.reply_partitions
        self._producer = Producer({**client, "acks": 1, "linger.ms": 0, "retries": 0})

    def send(self, made: Sequence[Offers]) -> None:
        """Queue the records; what cannot be queued is dropped, since owners offer again."""
        for offers in made:
            key = offers.gateway_id
            try:
                self._producer.produce(self._topic, encode_offers(offers), key, partition_for(key, self._partitions))
            except (BufferError, KafkaException):
                break
        self._producer.poll(0)

    def close(self) -> None:
        """Give what is queued a moment."""
        self._producer.flush(0.5)
