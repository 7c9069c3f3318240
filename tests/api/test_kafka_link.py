"""The link over a real Kafka; the owner's side is a plain producer and consumer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from api.dispatch.client import DispatchClient, DispatchConfig
from api.dispatch.kafka_link import KafkaLink, KafkaLinkConfig
from schemas.config import Settings, load_settings
from schemas.topics import Topic, topic_name
from streams.core.commands import Delete, Reply
from streams.core.envelopes import Answer, CommandBatch, Offer, Offers, OwnerView, ReplyBatch
from streams.core.wire import (
    decode_commands,
    decode_demand,
    encode_offers,
    encode_owner_view,
    encode_replies,
)
from streams.topic_admin import create_topics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WAIT_S = 20


class Owner:
    """Reads what a gateway writes, and writes as an owner does: replies in a transaction."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.client = settings.kafka.client_config()
        self.plain = Producer(self.client)
        self.transactional = Producer(self.client | {"transactional.id": topic_name(settings, Topic.OWNERS)})
        self.transactional.init_transactions(WAIT_S)
        self.consumer = Consumer(self.client | {"group.id": "unused", "auto.offset.reset": "earliest"})
        self.consumer.assign(
            [TopicPartition(self.name(Topic.COMMANDS), p, 0) for p in range(settings.topics.partitions)]
            + [TopicPartition(self.name(Topic.DEMAND), 0, 0)]
        )

    def name(self, topic: Topic) -> str:
        return topic_name(self.settings, topic)

    def own(self, partition: int, url: str | None) -> None:
        view = OwnerView(
            partition=partition, generation=1, member_id="m", transactional_id="x", query_url=url or "", since_ms=0
        )
        value = None if url is None else encode_owner_view(view)
        self.plain.produce(self.name(Topic.OWNERS), value, key=str(partition), partition=0)
        self.plain.flush(WAIT_S)

    def offer(self, offers: Offers) -> None:
        self.plain.produce(self.name(Topic.OFFERS), encode_offers(offers), key=offers.gateway_id, partition=0)
        self.plain.flush(WAIT_S)

    def reply(self, batch: ReplyBatch, *, commit: bool = True) -> None:
        self.transactional.begin_transaction()
        self.transactional.produce(self.name(Topic.REPLIES), encode_replies(batch), key=batch.gateway_id, partition=0)
        if commit:
            self.transactional.commit_transaction(WAIT_S)
        else:
            self.transactional.flush(WAIT_S)
            self.transactional.abort_transaction(WAIT_S)

    def read(self, topic: Topic) -> tuple[int, bytes]:
        """Give partition and value of the next record of that topic."""
        while True:
            message = self.consumer.poll(WAIT_S)
            assert message is not None, f"nothing on {topic}"
            assert message.error() is None
            value = message.value()
            if message.topic() == self.name(topic) and isinstance(value, bytes):
                return message.partition() or 0, value

    def close(self) -> None:
        self.consumer.close()


class WatchedClient(DispatchClient):
    """Tells when it has heard something."""

    def __init__(self, link: KafkaLink, config: DispatchConfig) -> None:
        super().__init__(link, config)
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    def on_owners(self, owners: Any) -> None:
        super().on_owners(owners)
        self.heard.put_nowait("owners")

    def on_replies(self, replies: Any) -> None:
        super().on_replies(replies)
        self.heard.put_nowait("replies")

    def on_offers(self, offers: Any) -> None:
        super().on_offers(offers)
        self.heard.put_nowait("offers")

    async def hears(self, *kinds: str) -> None:
        """Wait for each of these."""
        missing = set(kinds)
        while missing:
            missing.discard(await asyncio.wait_for(self.heard.get(), WAIT_S))


@pytest.fixture
def settings(kafka: Any, namespace: str) -> Settings:
    settings = load_settings(
        env={}, overrides={"kafka": {"bootstrap_servers": kafka.bootstrap_servers, "namespace": namespace}}
    )
    create_topics(settings)
    return settings


@pytest.fixture
async def owner(settings: Settings) -> AsyncIterator[Owner]:
    owner = await asyncio.to_thread(Owner, settings)
    yield owner
    await asyncio.to_thread(owner.close)


@pytest.fixture
async def link(settings: Settings) -> KafkaLink:
    return KafkaLink(KafkaLinkConfig.from_settings(settings, "gw"), "gw")


@pytest.fixture
async def client(settings: Settings, owner: Owner, link: KafkaLink) -> AsyncIterator[WatchedClient]:
    owner.own(0, "http://127.0.0.1:6066")
    client = WatchedClient(link, DispatchConfig(partitions=settings.topics.partitions, gateway_id="gw"))
    await client.start()
    yield client
    await client.stop()


def job_on(client: DispatchClient, partition: int) -> str:
    return next(f"j{n}" for n in range(1000) if client.partition_of(f"j{n}") == partition)


async def next_batch(owner: Owner) -> tuple[int, CommandBatch]:
    partition, value = await asyncio.to_thread(owner.read, Topic.COMMANDS)
    return partition, decode_commands(value)


async def test_a_command_reaches_its_partition_and_its_committed_reply_comes_back(
    client: DispatchClient, owner: Owner
) -> None:
    assert client.ready
    assert client.owners[0].query_url == "http://127.0.0.1:6066"
    job = job_on(client, 0)
    call = asyncio.create_task(client.command(Delete(job_id=job)))
    partition, batch = await next_batch(owner)
    (command,) = batch.commands
    assert (partition, batch.gateway_id, batch.incarnation) == (0, "gw", client.incarnation)

    def answers(code: Any) -> ReplyBatch:
        reply = Reply(code=code, job_id=job)
        return ReplyBatch(gateway_id="gw", answers=(Answer(request_id=command.request_id, reply=reply),))

    await asyncio.to_thread(owner.reply, answers("gone"), commit=False)
    await asyncio.to_thread(owner.reply, answers("ok"))
    assert (await asyncio.wait_for(call, WAIT_S)).code == "ok"


async def test_offers_and_demand_travel_and_a_waiting_worker_asks_for_the_run(
    client: DispatchClient, owner: Owner
) -> None:
    poll = asyncio.create_task(client.lease("t", "q", "w", max_runs=3))
    while not (demand := decode_demand((await asyncio.to_thread(owner.read, Topic.DEMAND))[1])).queues:
        pass
    assert (demand.gateway_id, demand.incarnation, demand.queues[0].slots) == ("gw", client.incarnation, 3)
    offer = Offer(run_id="run_j_x", job_id="j", tenant="t", queue="q", lane="high", due_at_ms=1, job_version=1)
    await asyncio.to_thread(
        owner.offer, Offers(gateway_id="gw", incarnation=client.incarnation, partition=5, offers=(offer,))
    )
    partition, batch = await next_batch(owner)
    assert (partition, [getattr(command, "run_id", None) for command in batch.commands]) == (5, ["run_j_x"])
    poll.cancel()


async def test_a_tombstone_of_an_owner_is_heard(client: WatchedClient, owner: Owner) -> None:
    await client.hears("owners")
    await asyncio.to_thread(owner.own, 0, None)
    await client.hears("owners")
    assert 0 not in client.owners
    await asyncio.to_thread(owner.own, 0, "http://127.0.0.1:6067")
    await client.hears("owners")
    assert client.owners[0].query_url == "http://127.0.0.1:6067"


async def test_records_that_cannot_be_read_are_counted_and_passed_over(
    client: WatchedClient, link: KafkaLink, owner: Owner, settings: Settings
) -> None:
    await client.hears("owners")
    for topic in (Topic.REPLIES, Topic.OFFERS, Topic.OWNERS):
        owner.plain.produce(topic_name(settings, topic), b"\x00garbage", key="gw", partition=0)
    await asyncio.to_thread(owner.plain.flush, WAIT_S)
    await asyncio.to_thread(owner.reply, ReplyBatch(gateway_id="gw", answers=()))
    await asyncio.to_thread(owner.offer, Offers(gateway_id="gw", incarnation="x", partition=0, offers=()))
    await asyncio.to_thread(owner.own, 0, "http://127.0.0.1:6068")
    await client.hears("replies", "offers", "owners")
    assert link.unreadable_total == 3
    assert client.ready


async def test_start_works_on_an_empty_owners_topic(settings: Settings) -> None:
    link = KafkaLink(KafkaLinkConfig.from_settings(settings, "gw2"), "gw2")
    client = DispatchClient(link, DispatchConfig(partitions=settings.topics.partitions, gateway_id="gw2"))
    await client.start()
    assert client.ready
    assert client.owners == {}
    await client.stop()
