"""Create and check the topics of `schemas.topics` on a real Kafka.

`create_topics` is idempotent and never changes a topic that exists. `check_topics` compares what exists with
what is required and returns findings, each a sentence with the expected value, the found one and the change
to make. `repair_topics` makes those changes that can be made. `require_topics` is what the scheduler calls at
its start: a wrong topic can lose jobs (a retention on a compacted topic empties it after a quiet month), so
it refuses to run with one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from schemas.config import env_name
from schemas.topics import (
    SPECS,
    Partitioning,
    Topic,
    topic_configs,
    topic_name,
    topic_partitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka.admin import TopicMetadata

    from schemas.config import Settings

REQUEST_TIMEOUT_S = 15.0  # a cluster that needs longer for metadata is not fit to run on
UNLIMITED = -1
SEEN_TIMEOUT_S = 10.0  # brokers learn of a change from the controller within milliseconds, unless busy
SEEN_POLL_S = 0.02

# How a found value may differ from the required one without harm.
_AT_LEAST = ("retention.ms", "delete.retention.ms", "max.message.bytes", "min.insync.replicas")
_AT_LEAST_WORDS = "at least "
_EXACT = ("cleanup.policy", "message.timestamp.type")

_REASONS = {
    "cleanup.policy": "the wrong policy deletes records that are still needed, or keeps none of the latest",
    "retention.ms": "records would be deleted before their readers may be done with them",
    "delete.retention.ms": "a scheduler that was away longer would bring deleted jobs back",
    "message.timestamp.type": "due times and lease expiry are judged by the broker's clock",
    "max.message.bytes": "large records would be refused",
    "min.insync.replicas": "an acknowledged write could be lost with one broker",
}


class KafkaUnreachableError(Exception):
    """No broker answered; the message says which address was asked and what to try."""


class TopicsWrongError(Exception):
    """Topics are missing or differ from what is required; `findings` says how, one sentence each."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("\n".join(finding.sentence for finding in findings))
        self.findings = findings


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a topic. `sentence` holds all of it, and the change to make."""

    topic: str
    setting: str
    expected: str
    found: str
    remedy: str
    reason: str = ""

    @property
    def sentence(self) -> str:
        """Return the finding in words."""
        reason = f" ({self.reason})" if self.reason else ""
        return f"Topic {self.topic}: {self.setting} must be {self.expected}, found {self.found}{reason}. {self.remedy}"


@dataclass(frozen=True)
class TopicRow:
    """One topic as it is required and as it was made or found. `state`: created, exists, or missing."""

    name: str
    partitions: int
    policy: str
    writer: str
    meaning: str
    state: str


def create_topics(settings: Settings) -> list[TopicRow]:
    """Create the topics that do not exist yet; return all of them with what was done.

    Raises KafkaUnreachableError if no broker answers, KafkaException if the cluster refuses a topic.
    """
    admin = admin_client(settings)
    existing = cluster_metadata(admin, settings)
    missing = [topic for topic in Topic if topic_name(settings, topic) not in existing]
    wanted = [
        NewTopic(
            topic_name(settings, topic),
            num_partitions=topic_partitions(settings, topic),
            replication_factor=settings.topics.replication_factor,
            config=topic_configs(settings, topic),
        )
        for topic in missing
    ]
    made: set[str] = set()
    if wanted:
        for name, future in admin.create_topics(wanted, operation_timeout=REQUEST_TIMEOUT_S).items():
            try:
                future.result(timeout=REQUEST_TIMEOUT_S)
                made.add(name)
            except KafkaException as error:
                # Another process may have come first: that is what was wanted.
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
    # The controller answers before the brokers have learnt of the topics: whoever starts next must see them.
    _wait_until_seen(lambda: made <= set(cluster_metadata(admin, settings)))
    return [_row(settings, topic, "created" if name in made else "exists") for topic, name in _named(settings)]


def list_topics(settings: Settings) -> list[TopicRow]:
    """Return every topic of the table with whether it exists."""
    existing = cluster_metadata(admin_client(settings), settings)
    return [_row(settings, topic, "exists" if name in existing else "missing") for topic, name in _named(settings)]


def check_topics(settings: Settings) -> list[Finding]:
    """Return what is wrong with the topics, nothing if they can be used."""
    admin = admin_client(settings)
    existing = cluster_metadata(admin, settings)
    present = {name: existing[name] for _, name in _named(settings) if name in existing}
    configs = described_configs(admin, list(present))
    findings: list[Finding] = []
    for topic, name in _named(settings):
        if name not in present:
            findings.append(_missing(name))
            continue
        findings += _shape_findings(settings, topic, present[name])
        findings += _config_findings(settings, topic, configs[name])
    return findings


def require_topics(settings: Settings) -> list[Finding]:
    """Return if every topic can be used; raise TopicsWrongError with all findings otherwise.

    What is returned is to be told. While copies are away (a region is lost), fewer of them are required by the
    operator's decision (`streams.regions`); a scheduler that refused to start then would only lengthen the outage.
    """
    findings = check_topics(settings)
    lowered = [finding for finding in findings if finding.setting == "min.insync.replicas"]
    if lowered:
        existing = cluster_metadata(admin_client(settings), settings)
        lowered = [finding for finding in lowered if _copies_are_away(existing[finding.topic], settings)]
    wrong = [finding for finding in findings if finding not in lowered]
    if wrong:
        raise TopicsWrongError(wrong)
    return lowered


def require_topics_exist(settings: Settings) -> None:
    """Return if every topic is there; raise TopicsWrongError, or KafkaUnreachableError, otherwise.

    For the gateway, whose clients would tell it in words of their own, hundreds of times. What a topic's properties
    must be is the scheduler's business: a gateway that refused to start for them would help nobody.
    """
    missing = [_missing(row.name) for row in list_topics(settings) if row.state == "missing"]
    if missing:
        raise TopicsWrongError(missing)


def _copies_are_away(topic: TopicMetadata, settings: Settings) -> bool:
    return any(len(partition.isrs) < settings.topics.min_insync_replicas for partition in topic.partitions.values())


def repair_topics(settings: Settings) -> list[Finding]:
    """Set the properties that `check_topics` finds wrong; return what it changed. Shapes stay as they are."""
    admin = admin_client(settings)
    changed = [finding for finding in check_topics(settings) if finding.setting in _REASONS]
    by_topic: dict[str, list[ConfigEntry]] = {}
    for finding in changed:
        wanted = finding.expected.removeprefix(_AT_LEAST_WORDS)
        entry = ConfigEntry(finding.setting, wanted, incremental_operation=AlterConfigOpType.SET)
        by_topic.setdefault(finding.topic, []).append(entry)
    resources = [
        ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries) for name, entries in by_topic.items()
    ]
    if resources:
        for future in admin.incremental_alter_configs(resources).values():
            future.result(timeout=REQUEST_TIMEOUT_S)
        _wait_until_seen(lambda: not set(changed) & set(check_topics(settings)))
    return changed


def _wait_until_seen(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SEEN_TIMEOUT_S
    while not seen() and time.monotonic() < deadline:
        time.sleep(SEEN_POLL_S)


def _named(settings: Settings) -> list[tuple[Topic, str]]:
    return [(topic, topic_name(settings, topic)) for topic in Topic]


def _row(settings: Settings, topic: Topic, state: str) -> TopicRow:
    spec = SPECS[topic]
    name, partitions = topic_name(settings, topic), topic_partitions(settings, topic)
    return TopicRow(name, partitions, spec.policy, spec.writer, spec.meaning, state)


def admin_client(settings: Settings) -> AdminClient:
    """Return a client for questions and changes."""
    # Silent: an unreachable broker is reported once by the error that follows, not by log lines for ever.
    return AdminClient({"log_level": 0, **settings.kafka.client_config()})


def cluster_metadata(admin: AdminClient, settings: Settings) -> Mapping[str, TopicMetadata]:
    """Return what topics there are; raises KafkaUnreachableError."""
    try:
        return admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    except KafkaException as error:
        message = (
            f"No Kafka answers at {settings.kafka.bootstrap_servers} ({error.args[0].str()}). Start one with "
            f"`horologd kafka start`, or set kafka.bootstrap_servers ({env_name('kafka.bootstrap_servers')}) "
            "and the kafka.security_* settings for yours."
        )
        raise KafkaUnreachableError(message) from error


def described_configs(admin: AdminClient, names: list[str]) -> dict[str, dict[str, str]]:
    """Return the properties of topics, as they are in force."""
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    answers = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    return {
        resource.name: {entry.name: str(entry.value) for entry in future.result().values()}
        for resource, future in answers.items()
    }


def _missing(name: str) -> Finding:
    return Finding(name, "the topic", "there", "nothing", "Create it: horologd topics create.")


def _shape_findings(settings: Settings, topic: Topic, found: TopicMetadata) -> list[Finding]:
    findings = []
    name = topic_name(settings, topic)
    partitions, wanted = len(found.partitions), topic_partitions(settings, topic)
    if partitions != wanted:
        findings.append(
            Finding(
                name,
                "the partition count",
                str(wanted),
                str(partitions),
                _partitions_remedy(topic, partitions),
                "it decides which partition a job lives in and is fixed for ever at creation",
            )
        )
    copies = min(len(partition.replicas) for partition in found.partitions.values())
    if copies < settings.topics.replication_factor:
        remedy = (
            "Add replicas with kafka-reassign-partitions.sh, or accept fewer with topics.replication_factor="
            f"{copies} ({env_name('topics.replication_factor')}={copies})."
        )
        expected = f"{_AT_LEAST_WORDS}{settings.topics.replication_factor}"
        findings.append(Finding(name, "the replication factor", expected, str(copies), remedy))
    return findings


def _partitions_remedy(topic: Topic, found: int) -> str:
    setting = SPECS[topic].partitioning
    if setting is Partitioning.ONE:
        return "Delete the topic and run horologd topics create."
    return (
        f"If this is the right topic, set {setting.value}={found} ({env_name(setting.value)}={found}); "
        f"otherwise choose another kafka.namespace ({env_name('kafka.namespace')}) and run "
        "horologd topics create."
    )


def _config_findings(settings: Settings, topic: Topic, found: dict[str, str]) -> list[Finding]:
    findings = []
    name, required = topic_name(settings, topic), topic_configs(settings, topic)
    for key, wanted in required.items():
        value = found.get(key, "unset")
        if key in _EXACT and _same_words(value, wanted):
            continue
        if key in _AT_LEAST and _is_at_least(value, wanted):
            continue
        if key not in _REASONS:
            continue  # segments and dirty ratio: a matter of pace, the operator's to tune
        if key == "retention.ms" and SPECS[topic].policy == "compact":
            continue  # has no effect there, and a policy that gives it one is a finding of its own
        expected = wanted if key in _EXACT else f"{_AT_LEAST_WORDS}{wanted}"
        findings.append(Finding(name, key, expected, value, _alter(settings, name, key, wanted), _REASONS[key]))
    return findings


def _same_words(found: str, wanted: str) -> bool:
    return sorted(found.replace(" ", "").split(",")) == sorted(wanted.split(","))


def _is_at_least(found: str, wanted: str) -> bool:
    try:
        number, least = int(found), int(wanted)
    except ValueError:
        return False
    if number == UNLIMITED:
        return True
    return number >= least


def _alter(settings: Settings, name: str, key: str, value: str) -> str:
    return (
        "Run horologd topics repair, or: kafka-configs.sh "
        f"--bootstrap-server {settings.kafka.bootstrap_servers} --alter --entity-type topics "
        f"--entity-name {name} --add-config {key}={value}"
    )
