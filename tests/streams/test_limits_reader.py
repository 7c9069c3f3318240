"""Limits and the words of other owners, read from a real Kafka."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from schemas.codec import encode
from schemas.config import load_settings
from schemas.topics import Topic, topic_name
from streams.core.envelopes import OwnerView
from streams.core.wire import encode_owner_view
from streams.limits_reader import LimitsReader
from streams.topic_admin import create_topics

if TYPE_CHECKING:
    from streams.transaction import ClientConfig

WAIT_S = 60.0


def test_what_stood_there_is_handed_over_before_the_reader_has_caught_up_and_the_rest_follows(
    kafka: Any, namespace: str
) -> None:
    settings = load_settings(
        env={},
        overrides={
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "namespace": namespace},
            "topics": {"partitions": 2},
        },
    )
    create_topics(settings)
    client: ClientConfig = settings.kafka.client_config()
    limit = encode("TenantConfig", {"tenant": "a", "pending_max": 5})
    view = OwnerView(
        partition=1, generation=1, member_id="m", transactional_id="x", query_url="http://localhost", since_ms=0
    )
    owners = topic_name(settings, Topic.OWNERS)
    with_transaction = Producer({**client, "transactional.id": f"{namespace}x", "log_level": 0})
    with_transaction.init_transactions()
    with_transaction.begin_transaction()
    with_transaction.produce(owners, encode_owner_view(view), key=b"1", partition=0)
    with_transaction.commit_transaction()
    producer = Producer({**client, "log_level": 0})
    producer.produce(topic_name(settings, Topic.CONFIG), limit, key=b"tenant|a", partition=0)
    producer.flush(WAIT_S)

    heard: list[tuple[Any, Any]] = []
    gone = threading.Event()

    def owner(partition: int, told: OwnerView | None) -> None:
        heard.append((partition, told))
        if told is None:
            gone.set()

    reader = LimitsReader(settings, client, config=lambda key, value: heard.append((key, value)), owner=owner)
    reader.start()
    reader.wait_caught_up()
    assert sorted(heard, key=str) == sorted([("tenant|a", limit), (1, view)], key=str)

    for value in (b"rubbish", None):
        producer.produce(owners, value, key=b"1", partition=0)
    producer.flush(WAIT_S)
    assert gone.wait(WAIT_S)
    assert heard[2:] == [(1, None)], "what cannot be read is left out"
    reader.stop()
