"""The topics (DESIGN section 4) as one pure table: names, keys, partitions, policies, writers, meaning.

`streams.topic_admin` creates and checks topics from it, the documents and the AsyncAPI file are written from
it, and every producer and consumer takes its topic names from it. Nothing here talks to Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.config import Settings

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# A tombstone must outlive every store that might still hold the deleted key (DESIGN section 6, Store), and
# every replica's outage (facts A6).
TOMBSTONE_RETENTION_MS = 7 * DAY_MS
HISTORY_RETENTION_MS = 30 * DAY_MS
COMMANDS_RETENTION_MS = 7 * DAY_MS
REPLIES_RETENTION_MS = HOUR_MS
# Keys of `leases` are run ids, which never come back: compaction alone would keep a record of each run for ever. A live
# lease is told again with each logged renewal (every 5 minutes of heartbeats), so its record is never old.
LEASES_RETENTION_MS = 7 * DAY_MS
HINTS_RETENTION_MS = 10 * MINUTE_MS
# History names the offset of `config` that each decision knew: for as long as it is kept, and a day more, every record
# that was in force must be there.
CONFIG_KEPT_MS = 31 * DAY_MS
# Small segments, since the active one is never compacted and recovery reads all of it.
COMPACTED_SEGMENT_BYTES = 64 * 1024 * 1024
COMPACTED_SEGMENT_MS = 10 * MINUTE_MS
COMPACTED_DIRTY_RATIO = "0.1"
# Largest record that a producer of ours may send (librdkafka's message.max.bytes), and what topics accept: a
# batch holds at least one such record and its own framing.
RECORD_BYTES_MAX = 1_000_000
BATCH_BYTES_MAX = 2 * 1024 * 1024


class Topic(Enum):
    """Every topic, by its name without the namespace."""

    JOB_DEFINITIONS = "job-definitions"
    COMMANDS = "commands"
    LEDGER = "ledger"
    HISTORY = "history"
    LEASES = "leases"
    REPLIES = "replies"
    DEMAND = "demand"
    OFFERS = "offers"
    OWNERS = "owners"
    DEAD_LETTER = "dead-letter"
    CONFIG = "config"


class Partitioning(Enum):
    """Which setting gives the partition count."""

    JOBS = "topics.partitions"
    LEASES = "topics.lease_partitions"
    REPLIES = "topics.reply_partitions"
    ONE = ""


@dataclass(frozen=True)
class TopicSpec:
    """One row of the table. `retention_ms` is that of a topic that deletes, None of one that only compacts.

    `append_time`: records carry the broker's time (LogAppendTime), on which due times and lease expiry rest;
    False leaves the broker's default.
    """

    topic: Topic
    key: str
    partitioning: Partitioning
    policy: Literal["compact", "compact,delete", "delete"]
    append_time: bool
    writer: str
    meaning: str
    retention_ms: int | None = None
    segment_ms: int = COMPACTED_SEGMENT_MS
    kept_ms: int = 0
    """Of a compacted topic: records younger than this are never compacted away."""


_ROWS = (
    TopicSpec(
        topic=Topic.JOB_DEFINITIONS,
        key="job_id",
        partitioning=Partitioning.JOBS,
        policy="compact",
        append_time=False,
        writer="trusted producers",
        meaning="JobDefinition; null deletes the job",
    ),
    TopicSpec(
        topic=Topic.COMMANDS,
        key="job_id",
        partitioning=Partitioning.JOBS,
        policy="delete",
        retention_ms=COMMANDS_RETENTION_MS,
        segment_ms=DAY_MS,
        append_time=True,
        writer="gateways",
        meaning="CommandBatch: everything that people, services and workers ask of jobs and runs",
    ),
    TopicSpec(
        topic=Topic.LEDGER,
        key="s|job_id state, d|job_id definition, m|partition marker",
        partitioning=Partitioning.JOBS,
        policy="compact",
        append_time=True,
        writer="owners",
        meaning="present state of every job; the truth on recovery",
    ),
    TopicSpec(
        topic=Topic.HISTORY,
        key="job_id",
        partitioning=Partitioning.JOBS,
        policy="delete",
        retention_ms=HISTORY_RETENTION_MS,
        segment_ms=DAY_MS,
        append_time=True,
        writer="owners",
        meaning="the events of each decision, with cause and evidence; the truth for audits",
    ),
    TopicSpec(
        topic=Topic.LEASES,
        key="run_id",
        partitioning=Partitioning.LEASES,
        policy="compact,delete",
        retention_ms=LEASES_RETENTION_MS,
        append_time=True,
        writer="owners",
        meaning="who holds which run: granted, renewed, closed with its outcome; a week of it",
    ),
    TopicSpec(
        topic=Topic.REPLIES,
        key="gateway id",
        partitioning=Partitioning.REPLIES,
        policy="delete",
        retention_ms=REPLIES_RETENTION_MS,
        append_time=True,
        writer="owners",
        meaning="answers and grants, one batch per gateway and commit",
    ),
    TopicSpec(
        topic=Topic.DEMAND,
        key="gateway id",
        partitioning=Partitioning.ONE,
        policy="delete",
        retention_ms=HINTS_RETENTION_MS,
        append_time=False,
        writer="gateways",
        meaning="which queues have waiting workers, and how many slots",
    ),
    TopicSpec(
        topic=Topic.OFFERS,
        key="gateway id",
        partitioning=Partitioning.REPLIES,
        policy="delete",
        retention_ms=HINTS_RETENTION_MS,
        append_time=False,
        writer="owners",
        meaning="hints: runs that are or will soon be due",
    ),
    TopicSpec(
        topic=Topic.OWNERS,
        key="partition",
        partitioning=Partitioning.ONE,
        policy="compact",
        append_time=False,
        writer="owners",
        meaning="who owns a partition: generation, query URL, transactional id",
    ),
    TopicSpec(
        topic=Topic.DEAD_LETTER,
        key="source topic, partition and offset",
        partitioning=Partitioning.JOBS,
        policy="delete",
        retention_ms=HISTORY_RETENTION_MS,
        segment_ms=DAY_MS,
        append_time=False,
        writer="owners, gateways",
        meaning="inputs that could not be read or accepted: source, field and reason",
    ),
    TopicSpec(
        topic=Topic.CONFIG,
        key="name",
        partitioning=Partitioning.ONE,
        policy="compact",
        append_time=False,
        kept_ms=CONFIG_KEPT_MS,
        writer="gateways",
        meaning="tenants, queues, quotas, calendars, zone-data version; read whole by every process",
    ),
)

SPECS: Mapping[Topic, TopicSpec] = MappingProxyType({row.topic: row for row in _ROWS})


def topic_name(settings: Settings, topic: Topic) -> str:
    """Return the full name of a topic, with the namespace."""
    return settings.kafka.namespace + topic.value


def topic_of_name(settings: Settings, name: str) -> Topic | None:
    """Return which of our topics has this full name, or None."""
    return next((topic for topic in Topic if topic_name(settings, topic) == name), None)


def topic_partitions(settings: Settings, topic: Topic) -> int:
    """Return the partition count that a topic must have."""
    match SPECS[topic].partitioning:
        case Partitioning.JOBS:
            return settings.topics.partitions
        case Partitioning.LEASES:
            return settings.topics.lease_partitions
        case Partitioning.REPLIES:
            return settings.topics.reply_partitions
        case Partitioning.ONE:
            return 1


def topic_configs(settings: Settings, topic: Topic) -> dict[str, str]:
    """Return the topic's Kafka properties, as they are set at creation."""
    spec = SPECS[topic]
    configs = {
        "cleanup.policy": spec.policy,
        "max.message.bytes": str(BATCH_BYTES_MAX),
        "min.insync.replicas": str(settings.topics.min_insync_replicas),
        "segment.ms": str(spec.segment_ms),
    }
    if spec.append_time:
        configs["message.timestamp.type"] = "LogAppendTime"
    if spec.policy.startswith("compact"):
        configs["delete.retention.ms"] = str(TOMBSTONE_RETENTION_MS)
        configs["min.cleanable.dirty.ratio"] = COMPACTED_DIRTY_RATIO
        configs["segment.bytes"] = str(COMPACTED_SEGMENT_BYTES)
    if spec.kept_ms:
        configs["min.compaction.lag.ms"] = str(spec.kept_ms)
    if spec.policy == "compact":
        # Without effect while the policy is compact alone. Should somebody add delete to it, the default of
        # seven days would empty the topic of every job that has been quiet for so long.
        configs["retention.ms"] = "-1"
    if spec.retention_ms is not None:
        configs["retention.ms"] = str(spec.retention_ms)
    return configs
