"""The topic table against DESIGN section 4, and its creation and check on a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from schemas.config import Settings, load_settings
from schemas.topics import (
    BATCH_BYTES_MAX,
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    RECORD_BYTES_MAX,
    SPECS,
    Topic,
    topic_configs,
    topic_name,
    topic_of_name,
    topic_partitions,
)
from streams.kafka_dev import wait_until
from streams.topic_admin import (
    KafkaUnreachableError,
    TopicsWrongError,
    check_topics,
    create_topics,
    list_topics,
    repair_topics,
    require_topics,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

WAIT_S = 20.0
PRODUCTION = load_settings(
    env={
        "HOROLOG_TOPICS__PARTITIONS": "256",
        "HOROLOG_TOPICS__LEASE_PARTITIONS": "16",
        "HOROLOG_TOPICS__REPLY_PARTITIONS": "17",
        "HOROLOG_TOPICS__REPLICATION_FACTOR": "3",
        "HOROLOG_TOPICS__MIN_INSYNC_REPLICAS": "2",
    }
)


class Kafka(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


@pytest.fixture
def settings(kafka: Kafka, namespace: str) -> Settings:
    return settings_for(kafka, namespace)


def settings_for(kafka: Kafka, namespace: str, **topics: int) -> Settings:
    where = {"bootstrap_servers": kafka.bootstrap_servers, "namespace": namespace}
    return load_settings(env={}, overrides={"kafka": where, "topics": {"partitions": 3, **topics}})


def admin_of(settings: Settings) -> AdminClient:
    return AdminClient({**settings.kafka.client_config(), "log_level": 0})


def alter(settings: Settings, topic: Topic, configs: Mapping[str, str]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in configs.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic_name(settings, topic), incremental_configs=entries)
    admin = admin_of(settings)  # held until the answer: its requests end with it
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WAIT_S)
    described = ConfigResource(ResourceType.TOPIC, topic_name(settings, topic))

    def is_seen() -> bool:
        found = next(iter(admin.describe_configs([described]).values())).result(WAIT_S)
        return all(found[key].value == value for key, value in configs.items())

    assert wait_until(is_seen, WAIT_S)


# DESIGN section 4, typed in a second time on purpose: key, partitions, policy, retention, LogAppendTime.
DESIGN_TABLE = {
    Topic.JOB_DEFINITIONS: (256, "compact", None, False),
    Topic.COMMANDS: (256, "delete", 7 * DAY_MS, True),
    Topic.LEDGER: (256, "compact", None, True),
    Topic.HISTORY: (256, "delete", 30 * DAY_MS, True),
    Topic.LEASES: (16, "compact,delete", 7 * DAY_MS, True),
    Topic.REPLIES: (17, "delete", HOUR_MS, True),
    Topic.DEMAND: (1, "delete", 10 * MINUTE_MS, False),
    Topic.OFFERS: (17, "delete", 10 * MINUTE_MS, False),
    Topic.OWNERS: (1, "compact", None, False),
    Topic.DEAD_LETTER: (256, "delete", 30 * DAY_MS, False),
    Topic.CONFIG: (1, "compact", None, False),
}


@pytest.mark.parametrize("topic", Topic)
def test_each_topic_is_as_the_design_has_it(topic: Topic) -> None:
    spec, configs = SPECS[topic], topic_configs(PRODUCTION, topic)
    partitions = topic_partitions(PRODUCTION, topic)

    assert (partitions, spec.policy, spec.retention_ms, spec.append_time) == DESIGN_TABLE[topic]
    assert configs["cleanup.policy"] == spec.policy
    assert configs.get("message.timestamp.type") == ("LogAppendTime" if spec.append_time else None)
    assert configs["min.insync.replicas"] == "2"


@pytest.mark.parametrize("topic", [topic for topic in Topic if "compact" in SPECS[topic].policy])
def test_compacted_topics_keep_tombstones_a_week_and_segments_small(topic: Topic) -> None:
    configs = topic_configs(PRODUCTION, topic)

    assert configs["delete.retention.ms"] == str(7 * DAY_MS)
    assert (configs["segment.bytes"], configs["segment.ms"]) == (str(64 * 1024 * 1024), str(10 * MINUTE_MS))
    assert configs["min.cleanable.dirty.ratio"] == "0.1"
    assert configs["retention.ms"] == str(-1 if SPECS[topic].policy == "compact" else 7 * DAY_MS)


def test_what_history_refers_to_in_config_is_kept_for_as_long_as_history() -> None:
    lags = {topic: topic_configs(PRODUCTION, topic).get("min.compaction.lag.ms") for topic in Topic}

    assert lags == dict.fromkeys(Topic) | {Topic.CONFIG: str(31 * DAY_MS)}


@pytest.mark.parametrize("topic", [topic for topic in Topic if "delete" in SPECS[topic].policy])
def test_segments_of_deleting_topics_close_before_they_must_be_gone(topic: Topic) -> None:
    configs = topic_configs(PRODUCTION, topic)

    assert int(configs["segment.ms"]) <= int(configs["retention.ms"])


def test_a_batch_has_room_for_the_largest_record() -> None:
    assert BATCH_BYTES_MAX >= RECORD_BYTES_MAX + 64 * 1024


def test_names_carry_the_namespace_and_lead_back_to_the_topic() -> None:
    settings = load_settings(env={"HOROLOG_KAFKA__NAMESPACE": "team-a."})

    assert topic_name(settings, Topic.LEDGER) == "team-a.ledger"
    assert topic_of_name(settings, "team-a.job-definitions") is Topic.JOB_DEFINITIONS
    assert topic_of_name(settings, "ledger") is None


def test_the_longest_namespace_still_gives_names_that_kafka_takes() -> None:
    settings = load_settings(env={"HOROLOG_KAFKA__NAMESPACE": "n" * 234})

    assert max(len(topic_name(settings, topic)) for topic in Topic) <= 249


def test_created_topics_pass_the_check(settings: Settings) -> None:
    rows = create_topics(settings)

    assert {row.state for row in rows} == {"created"}
    assert len(rows) == len(Topic)
    assert check_topics(settings) == []
    require_topics(settings)


def test_creating_twice_changes_nothing_and_says_so(settings: Settings) -> None:
    create_topics(settings)
    alter(settings, Topic.COMMANDS, {"retention.ms": "1000"})
    rows = create_topics(settings)

    assert {row.state for row in rows} == {"exists"}
    assert [finding.found for finding in check_topics(settings)] == ["1000"]


def test_only_what_is_missing_is_created(settings: Settings) -> None:
    create_topics(settings)
    name = topic_name(settings, Topic.OFFERS)
    admin = admin_of(settings)
    admin.delete_topics([name])[name].result(WAIT_S)
    assert wait_until(lambda: name not in admin.list_topics(timeout=WAIT_S).topics, WAIT_S)
    before = {row.name: row.state for row in list_topics(settings)}
    made = [row.name for row in create_topics(settings) if row.state == "created"]

    assert before[name] == "missing"
    assert made == [name]


def test_missing_topics_are_found_with_the_command_that_makes_them(settings: Settings) -> None:
    sentences = [finding.sentence for finding in check_topics(settings)]

    assert len(sentences) == len(Topic)
    assert all("horologd topics create" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("topic", "configs", "setting", "expected", "found"),
    [
        (Topic.LEDGER, {"cleanup.policy": "compact,delete"}, "cleanup.policy", "compact", "compact,delete"),
        (Topic.HISTORY, {"cleanup.policy": "compact"}, "cleanup.policy", "delete", "compact"),
        (Topic.COMMANDS, {"retention.ms": "3600000"}, "retention.ms", "at least 604800000", "3600000"),
        (Topic.LEDGER, {"delete.retention.ms": "60000"}, "delete.retention.ms", "at least 604800000", "60000"),
        (
            Topic.COMMANDS,
            {"message.timestamp.type": "CreateTime"},
            "message.timestamp.type",
            "LogAppendTime",
            "CreateTime",
        ),
        (Topic.REPLIES, {"max.message.bytes": "1000"}, "max.message.bytes", "at least 2097152", "1000"),
    ],
)
def test_a_wrong_property_is_found_with_the_change_to_make(  # noqa: PLR0917 - one row of a table
    settings: Settings, topic: Topic, configs: dict[str, str], setting: str, expected: str, found: str
) -> None:
    create_topics(settings)
    alter(settings, topic, configs)
    (finding,) = check_topics(settings)

    assert (finding.topic, finding.setting) == (topic_name(settings, topic), setting)
    assert f"{setting} must be {expected}, found {found}" in finding.sentence
    wanted = expected.removeprefix("at least ")
    change = f"--entity-name {topic_name(settings, topic)} --add-config {setting}={wanted}"
    assert finding.sentence.endswith(change)


def test_case_e08_a_retention_on_a_compacted_topic_stops_the_scheduler_before_it_empties(settings: Settings) -> None:
    create_topics(settings)
    alter(settings, Topic.LEDGER, {"cleanup.policy": "delete,compact", "retention.ms": "604800000"})

    with pytest.raises(TopicsWrongError) as caught:
        require_topics(settings)
    assert "cleanup.policy must be compact" in str(caught.value)
    assert "kafka-configs.sh" in str(caught.value)


def test_longer_retention_than_required_is_no_finding(settings: Settings) -> None:
    create_topics(settings)
    alter(settings, Topic.HISTORY, {"retention.ms": "-1"})
    alter(settings, Topic.LEDGER, {"delete.retention.ms": str(30 * DAY_MS), "segment.ms": "3600000"})

    assert check_topics(settings) == []


def test_another_partition_count_is_found_with_the_setting_to_change(kafka: Kafka, namespace: str) -> None:
    create_topics(settings_for(kafka, namespace))
    findings = check_topics(settings_for(kafka, namespace, partitions=4))

    assert {finding.found for finding in findings} == {"3"}
    assert len(findings) == sum(topic_partitions(PRODUCTION, topic) == 256 for topic in Topic)
    assert "the partition count must be 4, found 3" in findings[0].sentence
    assert "HOROLOG_TOPICS__PARTITIONS=3" in findings[0].sentence


def test_a_topic_of_one_partition_that_has_more_must_be_made_again(settings: Settings) -> None:
    name = topic_name(settings, Topic.OWNERS)
    wide = NewTopic(name, num_partitions=2, replication_factor=1, config=topic_configs(settings, Topic.OWNERS))
    admin = admin_of(settings)
    admin.create_topics([wide])[name].result(WAIT_S)
    assert wait_until(lambda: name in admin.list_topics(timeout=WAIT_S).topics, WAIT_S)
    create_topics(settings)
    (finding,) = check_topics(settings)

    assert finding.sentence.startswith(f"Topic {name}: the partition count must be 1, found 2")
    assert "Delete the topic" in finding.sentence


def test_too_few_replicas_and_in_sync_replicas_are_found(kafka: Kafka, namespace: str) -> None:
    create_topics(settings_for(kafka, namespace))
    findings = check_topics(settings_for(kafka, namespace, replication_factor=2, min_insync_replicas=2))

    assert {finding.setting for finding in findings} == {"the replication factor", "min.insync.replicas"}
    assert len(findings) == 2 * len(Topic)


def test_more_replicas_than_brokers_are_refused_by_the_cluster(kafka: Kafka, namespace: str) -> None:
    with pytest.raises(KafkaException, match=r"[Rr]eplication factor"):
        create_topics(settings_for(kafka, namespace, replication_factor=3))


def test_repair_sets_what_can_be_set_and_nothing_else(settings: Settings) -> None:
    create_topics(settings)
    alter(settings, Topic.LEDGER, {"cleanup.policy": "compact,delete", "delete.retention.ms": "1000"})
    alter(settings, Topic.COMMANDS, {"message.timestamp.type": "CreateTime", "segment.ms": "7200000"})
    changed = {(finding.topic, finding.setting) for finding in repair_topics(settings)}

    ledger, commands = topic_name(settings, Topic.LEDGER), topic_name(settings, Topic.COMMANDS)
    assert changed == {
        (ledger, "cleanup.policy"),
        (ledger, "delete.retention.ms"),
        (commands, "message.timestamp.type"),
    }
    assert check_topics(settings) == []
    assert repair_topics(settings) == []


def test_an_unreachable_kafka_is_named_with_what_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.topic_admin.REQUEST_TIMEOUT_S", 0.5)
    settings = load_settings(env={"HOROLOG_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"})

    with pytest.raises(KafkaUnreachableError, match=r"127\.0\.0\.1:1 .*horologd kafka start"):
        check_topics(settings)
