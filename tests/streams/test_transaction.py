"""One transaction on a real Kafka: what its ends look like, and that the group's generation fences it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

from schemas.config import Settings, load_settings
from schemas.topics import Topic, topic_name
from streams.kafka_dev import wait_until
from streams.membership import Membership
from streams.topic_admin import create_topics
from streams.transaction import Committed, KafkaCommitter, Outcome, OutRecord, PartitionWrite, Transaction, fence

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_S = 30.0
PARTITIONS = 3


class Kafka(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


Group = Any
"""A real member of the scheduler's group; see conftest."""


class Steps:
    """Writes down the steps of the commit order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def before(self, step: str) -> None:
        self.names.append(step)


@pytest.fixture
def settings(kafka: Kafka, namespace: str) -> Settings:
    where = {"bootstrap_servers": kafka.bootstrap_servers, "namespace": namespace}
    overrides: dict[str, dict[str, Any]] = {
        "kafka": where,
        "topics": {"partitions": PARTITIONS},
        "scheduler": {"group_id": f"g-{namespace}"},
    }
    settings = load_settings(env={}, overrides=overrides)
    create_topics(settings)
    return settings


@pytest.fixture
def group(settings: Settings, make_group: Any) -> Iterator[Group]:
    group = make_group(settings)
    yield group
    group.consumer.close()


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def committer(settings: Settings, steps: Steps) -> Iterator[KafkaCommitter]:
    committer = KafkaCommitter(
        settings.kafka.client_config(), settings.kafka.namespace + "p", transaction_timeout_ms=10_000, steps=steps
    )
    yield committer
    committer.close()


def transaction(
    settings: Settings,
    membership: Membership,
    *,
    partitions: tuple[int, ...] = (0, 2),
    offset: int = 7,
    value: bytes = b"v",
    topic: Topic = Topic.LEDGER,
) -> Transaction:
    ledger, commands = topic_name(settings, Topic.LEDGER), topic_name(settings, Topic.COMMANDS)
    writes = [
        PartitionWrite(
            partition,
            [OutRecord(topic_name(settings, topic), partition, b"s|j", value, [("i", b"header")])],
            OutRecord(ledger, partition, b"m|", b"marker"),
            {commands: offset},
        )
        for partition in partitions
    ]
    return Transaction(membership=membership, writes=writes)


def visible(settings: Settings, topic: Topic = Topic.LEDGER) -> list[tuple[int, bytes, bytes]]:
    """What a read_committed consumer sees, in order, as (partition, key, value)."""
    name = topic_name(settings, topic)
    consumer = Consumer(
        {
            **settings.kafka.client_config(),
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(name, partition, 0) for partition in range(PARTITIONS)])
    found: list[tuple[int, bytes, bytes]] = []
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(WAIT_S)
        assert message is not None, "the end of the topic was not reached"
        if message.error() is not None:
            ended.add(message.partition())
        else:
            found.append((message.partition() or 0, message.key() or b"", message.value() or b""))
    consumer.close()
    return sorted(found)


def test_a_commit_makes_records_and_offsets_visible_at_once(
    settings: Settings, group: Group, committer: KafkaCommitter
) -> None:
    end = committer.commit(transaction(settings, group.membership()))
    assert end.outcome is Outcome.COMMITTED
    assert visible(settings) == [(0, b"m|", b"marker"), (0, b"s|j", b"v"), (2, b"m|", b"marker"), (2, b"s|j", b"v")]
    offsets = group.stable_offsets()
    assert (offsets[0], offsets[2]) == (7, 7)
    assert offsets[1] < 0


def test_the_receipt_tells_where_and_when_the_marker_was_appended(
    settings: Settings, group: Group, committer: KafkaCommitter
) -> None:
    end = committer.commit(transaction(settings, group.membership()))
    assert {partition: receipt.offset for partition, receipt in end.receipts.items()} == {0: 1, 2: 1}
    for receipt in end.receipts.values():
        assert receipt.log_append_ms > 0
        assert receipt.sent_monotonic_ms is not None
        assert receipt.sent_monotonic_ms <= receipt.acked_monotonic_ms


def test_the_steps_come_in_the_order_that_fences(
    settings: Settings, group: Group, committer: KafkaCommitter, steps: Steps
) -> None:
    committer.commit(transaction(settings, group.membership()))
    assert steps.names == ["begin", "produce", "flush", "offsets", "commit"]


@pytest.mark.parametrize("change", [-1, 1])
def test_another_generation_is_stale_and_leaves_nothing(
    settings: Settings, group: Group, committer: KafkaCommitter, change: int
) -> None:
    group.rebalance()  # so that a generation lies below
    current = group.membership()
    end = committer.commit(
        transaction(settings, Membership(current.group_id, current.generation + change, current.member_id))
    )
    assert (end.outcome, end.receipts) == (Outcome.STALE, {})
    assert visible(settings) == []
    assert committer.commit(transaction(settings, current)).outcome is Outcome.COMMITTED


def test_a_membership_from_before_a_rebalance_is_stale(
    settings: Settings, group: Group, committer: KafkaCommitter
) -> None:
    before = group.membership()
    group.rebalance()
    assert committer.commit(transaction(settings, before)).outcome is Outcome.STALE
    assert visible(settings) == []
    assert all(offset < 0 for offset in group.stable_offsets().values())


def test_an_unknown_member_is_stale(settings: Settings, group: Group, committer: KafkaCommitter) -> None:
    current = group.membership()
    end = committer.commit(transaction(settings, Membership(current.group_id, current.generation, "nobody")))
    assert end.outcome is Outcome.STALE
    assert "UNKNOWN_MEMBER" in end.reason.upper()
    assert visible(settings) == []


def test_a_fenced_producer_ends_unknown_and_works_again_when_renewed(
    settings: Settings, group: Group, committer: KafkaCommitter
) -> None:
    assert committer.commit(transaction(settings, group.membership())).outcome is Outcome.COMMITTED
    old_id = committer.transactional_id
    fence(settings.kafka.client_config(), old_id)
    end = committer.commit(transaction(settings, group.membership(), value=b"fenced"))
    assert end.outcome is Outcome.UNKNOWN
    assert "FENCED" in end.reason.upper()
    committer.renew()
    assert committer.transactional_id != old_id
    assert committer.commit(transaction(settings, group.membership(), value=b"new")).outcome is Outcome.COMMITTED
    values = [value for _, key, value in visible(settings) if key == b"s|j"]
    assert values == [b"new", b"v", b"new", b"v"]


class Hanging:
    """A producer whose send_offsets overlooks its time-out, and which takes no call meanwhile (librdkafka 5511)."""

    def __init__(self, real: Producer) -> None:
        self._real = real
        self.let_go = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def send_offsets_to_transaction(self, *_: object) -> None:
        self.let_go.wait()

    def abort_transaction(self, *_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._CONFLICT))


def test_a_call_that_overlooks_its_time_out_costs_the_producer_and_not_the_owner(
    settings: Settings, group: Group, committer: KafkaCommitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = committer._producer
    hanging = Hanging(real)
    with monkeypatch.context() as patch:
        patch.setattr("streams.transaction.OFFSETS_TIMEOUT_S", 0.1)
        patch.setattr("streams.transaction.OFFSETS_MARGIN_S", 0.1)
        committer._producer = hanging  # type: ignore[assignment]
        end = committer.commit(transaction(settings, group.membership(), value=b"hung"))
    assert (end.outcome, end.producer_lost) == (Outcome.UNKNOWN, True)
    assert "did not return" in end.reason
    committer.renew()
    assert committer.commit(transaction(settings, group.membership(), value=b"new")).outcome is Outcome.COMMITTED
    hanging.let_go.set()
    assert [value for _, key, value in visible(settings) if key == b"s|j"] == [b"new", b"new"]


def test_a_producer_keeps_the_brokers_that_it_knows_and_raises_nothing_between_callbacks(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs: list[dict[str, Any]] = []

    def told(config: dict[str, Any]) -> Producer:
        configs.append(config)
        return Producer(config)

    monkeypatch.setattr("streams.transaction.Producer", told)
    KafkaCommitter(settings.kafka.client_config(), settings.kafka.namespace + "k", transaction_timeout_ms=10_000)
    (config,) = configs
    assert config["metadata.recovery.strategy"] == "none"
    assert callable(config["error_cb"])  # else a fatal error is raised inside flush and breaks a delivery callback


def test_a_record_that_the_client_refuses_poisons_the_batch_and_nothing_else(
    settings: Settings, group: Group, committer: KafkaCommitter
) -> None:
    end = committer.commit(transaction(settings, group.membership(), value=bytes(1_500_000)))
    assert end.outcome is Outcome.POISONED
    assert visible(settings) == []
    assert committer.commit(transaction(settings, group.membership())).outcome is Outcome.COMMITTED


def test_a_record_that_the_broker_refuses_poisons_the_batch_and_nothing_else(
    settings: Settings, group: Group, committer: KafkaCommitter
) -> None:
    limit_records(settings, Topic.HISTORY, 2_000)
    end = committer.commit(transaction(settings, group.membership(), value=bytes(100_000), topic=Topic.HISTORY))
    assert end.outcome is Outcome.POISONED, end.reason
    assert visible(settings, Topic.HISTORY) == []
    assert all(offset < 0 for offset in group.stable_offsets().values())
    # librdkafka may need one more abort to begin a new epoch.
    ends = [committer.commit(transaction(settings, group.membership(), topic=Topic.HISTORY)) for _ in range(2)]
    assert ends[-1].outcome is Outcome.COMMITTED


def limit_records(settings: Settings, topic: Topic, bytes_max: int) -> None:
    admin = AdminClient({**settings.kafka.client_config(), "log_level": 0})
    entry = ConfigEntry("max.message.bytes", str(bytes_max), incremental_operation=AlterConfigOpType.SET)
    name = topic_name(settings, topic)
    for answer in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])]
    ).values():
        answer.result(10)

    def seen() -> bool:
        described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
        return all(answer.result(10)["max.message.bytes"].value == str(bytes_max) for answer in described.values())

    assert wait_until(seen, WAIT_S)


def test_a_partition_without_offsets_is_refused_before_anything_begins(
    settings: Settings, group: Group, committer: KafkaCommitter, steps: Steps
) -> None:
    good = transaction(settings, group.membership())
    bare = msgspec.structs.replace(good, writes=[*good.writes, good.writes[0]._replace(partition=1, offsets={})])
    with pytest.raises(ValueError, match="partition 1 has records and no offset"):
        committer.commit(bare)
    assert steps.names == []
    assert committer.commit(good).outcome is Outcome.COMMITTED


def test_an_open_transaction_withholds_the_ledger_s_stable_end(
    settings: Settings, group: Group, committer: KafkaCommitter, steps: Steps
) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def freeze(step: str) -> None:
        if step == "commit":
            reached.set()
            assert go_on.wait(WAIT_S)

    steps.before = freeze  # type: ignore[method-assign] # a trap in the place of the notes
    ends: list[Committed] = []
    thread = threading.Thread(target=lambda: ends.append(committer.commit(transaction(settings, group.membership()))))
    thread.start()
    assert reached.wait(WAIT_S)
    try:
        assert ledger_end(settings, stable=False) > ledger_end(settings, stable=True) == 0
    finally:
        go_on.set()
        thread.join(WAIT_S)
    assert ends[0].outcome is Outcome.COMMITTED
    # The broker answers a commit before it has written the markers of all partitions.
    assert wait_until(lambda: ledger_end(settings, stable=True) == ledger_end(settings, stable=False), WAIT_S)


def ledger_end(settings: Settings, *, stable: bool) -> int:
    admin = AdminClient({**settings.kafka.client_config(), "log_level": 0})
    level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    partition = TopicPartition(topic_name(settings, Topic.LEDGER), 0)
    answers = admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=level)  # type: ignore[no-untyped-call] # its stub lacks the types
    return int(answers[partition].result(10).offset)


def test_records_of_many_partitions_and_shared_ones_commit_together(
    settings: Settings, group: Group, committer: KafkaCommitter
) -> None:
    both = transaction(settings, group.membership(), partitions=(0, 1, 2))
    reply = OutRecord(topic_name(settings, Topic.DEAD_LETTER), 1, b"gateway", b"answers")
    assert committer.commit(msgspec.structs.replace(both, shared=[reply])).outcome is Outcome.COMMITTED
    assert len(visible(settings)) == 6
    assert visible(settings, Topic.DEAD_LETTER) == [(1, b"gateway", b"answers")]
    assert group.stable_offsets() == {0: 7, 1: 7, 2: 7}


def test_an_id_that_was_initialised_again_is_another_epoch_and_the_first_is_refused(settings: Settings) -> None:
    config = {**settings.kafka.client_config(), "transactional.id": settings.kafka.namespace + "twice", "log_level": 0}
    first = Producer(config)
    first.init_transactions(WAIT_S)
    first.begin_transaction()
    first.produce(topic_name(settings, Topic.LEDGER), b"v", b"k", 0)
    first.flush(WAIT_S)
    fence(settings.kafka.client_config(), settings.kafka.namespace + "twice")
    assert visible(settings) == []
    assert wait_until(lambda: 0 < ledger_end(settings, stable=True) == ledger_end(settings, stable=False), WAIT_S)
