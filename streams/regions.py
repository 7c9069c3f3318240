"""Two regions under one stretched Kafka: is every acknowledged write in both, and what to do when one is lost.

A region is a `broker.rack`. A write is acknowledged when all in-sync replicas have it, and there are never fewer of
these than `min.insync.replicas`. So it is in a region for certain exactly if more replicas are required than lie
outside that region: 2 of 2 with one in each region, 3 of 4 with two in each. The group coordinator's and the
transaction coordinator's own topics count as ours do: a commit is made of writes to all of them.

When a region is lost, too few replicas are left, and Kafka refuses every write: nothing is lost, and nothing goes
on. `fail_over` is the operator's decision to go on in one region; `restore` takes it back when all replicas are in sync
again.
docs/runbook-regions.md has the steps.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from schemas.topics import Topic, topic_name
from streams.topic_admin import REQUEST_TIMEOUT_S, admin_client, cluster_metadata, described_configs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka.admin import AdminClient

    from schemas.config import Settings

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
"""Where Kafka keeps committed offsets and the outcome of transactions."""

MIN_INSYNC: Final = "min.insync.replicas"

SURVIVOR_COPIES_MAX: Final = 2
"""In the region that is left two copies are asked for where there are as many: one broker more may then die."""

POLL_S: Final = 0.2


class RegionError(Exception):
    """The step must not be taken now; the message says why and what to do."""


@dataclass(frozen=True)
class Replicas:
    """One partition: where its copies are, by region; `""` where the broker is away or has no rack."""

    topic: str
    partition: int
    regions: tuple[str, ...]
    in_sync: int
    has_leader: bool
    required: int


@dataclass(frozen=True)
class RegionRow:
    """One topic, as it is told to people. `problem` is empty where every acknowledged write is in every region."""

    topic: str
    required: int
    replicas: str
    in_sync: str
    problem: str


@dataclass(frozen=True)
class ChangedTopic:
    """One change of a step."""

    topic: str
    required_before: int
    required: int


def may_miss(replica_regions: Sequence[str], required: int, regions: Sequence[str]) -> list[str]:
    """Return the regions that an acknowledged write need not have reached."""
    counts = Counter(replica_regions)
    return [region for region in regions if required <= len(replica_regions) - counts[region]]


def check_regions(settings: Settings, regions: Sequence[str] = ()) -> list[RegionRow]:
    """Judge every topic. `regions`: their names; by default the racks of the brokers that answer."""
    admin = admin_client(settings)
    racks = _racks(admin)
    names = sorted(regions or set(racks.values()) - {""})
    if len(names) < 2:
        raise RegionError(
            f"The brokers that answer are in {len(names)} region(s) ({', '.join(names) or 'none has a broker.rack'}). "
            "Give each broker the name of its region as broker.rack, or name both with --regions."
        )
    by_topic: dict[str, list[Replicas]] = {}
    for one in _replicas(admin, settings, racks):
        by_topic.setdefault(one.topic, []).append(one)
    return [_row(topic, ones, names) for topic, ones in by_topic.items()]


def fail_over(settings: Settings, lost: str) -> list[ChangedTopic]:
    """Let the other region go on alone: require only copies that are left. Raises RegionError while `lost` answers."""
    admin = admin_client(settings)
    racks = _racks(admin)
    answering = sorted(broker for broker, rack in racks.items() if rack == lost)
    if answering:
        raise RegionError(
            f"Brokers {answering} of region {lost} still answer. Fail over only when none does: stop them, or wait "
            "until the controllers have noticed that they are gone (broker.session.timeout.ms)."
        )
    ones = _replicas(admin, settings, racks)
    dead = [f"{one.topic}-{one.partition}" for one in ones if not any(one.regions)]
    if dead:
        raise RegionError(
            f"No broker that answers has a copy of {', '.join(dead[:5])} ({len(dead)} partitions). Bring back a broker "
            "that has one; requiring fewer copies does not help."
        )
    wanted: dict[str, int] = {}
    for one in ones:
        left = min(sum(1 for region in one.regions if region), SURVIVOR_COPIES_MAX)
        wanted[one.topic] = min(wanted.get(one.topic, one.required), left)
    return _require(admin, {one.topic: one.required for one in ones}, wanted)


def restore(settings: Settings, *, wait_s: float) -> list[ChangedTopic]:
    """Require both regions again, once every replica is in sync; before that every write would be refused."""
    admin = admin_client(settings)
    deadline = time.monotonic() + wait_s
    while True:
        ones = _replicas(admin, settings, _racks(admin))
        behind = [f"{one.topic}-{one.partition}" for one in ones if one.in_sync < len(one.regions)]
        if not behind:
            break
        if time.monotonic() > deadline:
            raise RegionError(
                f"{len(behind)} partitions are not in sync everywhere ({', '.join(behind[:5])}). Nothing was changed: "
                "writes would be refused. Wait for the brokers that came back, then run it again."
            )
        time.sleep(POLL_S)
    wanted = {one.topic: max(settings.topics.min_insync_replicas, one.required) for one in ones}
    return _require(admin, {one.topic: one.required for one in ones}, wanted)


def _row(topic: str, ones: list[Replicas], regions: Sequence[str]) -> RegionRow:
    missed = sorted({region for one in ones for region in may_miss(one.regions, one.required, regions)})
    behind = sum(one.in_sync < len(one.regions) for one in ones)
    spreads = Counter("+".join(sorted(region or "away" for region in one.regions)) for one in ones)
    problems = [f"an acknowledged write may not be in {region}" for region in missed]
    problems += ["a partition has no leader"] if not all(one.has_leader for one in ones) else []
    problems += ["writes are refused"] if any(one.in_sync < one.required for one in ones) else []
    return RegionRow(
        topic,
        min(one.required for one in ones),
        ", ".join(f"{count} x {spread}" for spread, count in sorted(spreads.items())),
        "all" if not behind else f"{behind} of {len(ones)} partitions behind",
        "; ".join(problems),
    )


def _racks(admin: AdminClient) -> dict[int, str]:
    """Return the rack of each broker that the controllers believe alive."""
    admin.list_topics(timeout=REQUEST_TIMEOUT_S)  # librdkafka learns anew which broker to ask, the old one may be dead
    cluster = admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S).result()
    return {node.id: node.rack or "" for node in cluster.nodes}


def _replicas(admin: AdminClient, settings: Settings, racks: Mapping[int, str]) -> list[Replicas]:
    existing = cluster_metadata(admin, settings)
    names = [topic_name(settings, topic) for topic in Topic]
    names = [name for name in (*names, *INTERNAL_TOPICS) if name in existing]
    configs = described_configs(admin, names)
    return [
        Replicas(
            name,
            number,
            tuple(racks.get(broker, "") for broker in partition.replicas),
            len(partition.isrs),
            partition.leader in racks,
            int(configs[name][MIN_INSYNC]),
        )
        for name in names
        for number, partition in sorted(existing[name].partitions.items())
    ]


def _require(admin: AdminClient, before: Mapping[str, int], wanted: Mapping[str, int]) -> list[ChangedTopic]:
    changed = [ChangedTopic(name, before[name], count) for name, count in wanted.items() if count != before[name]]
    if not changed:
        return []
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            change.topic,
            incremental_configs=[
                ConfigEntry(MIN_INSYNC, str(change.required), incremental_operation=AlterConfigOpType.SET)
            ],
        )
        for change in changed
    ]
    for future in admin.incremental_alter_configs(resources, request_timeout=REQUEST_TIMEOUT_S).values():
        future.result()
    names = [change.topic for change in changed]
    _wait_until(
        lambda: all(int(found[MIN_INSYNC]) == wanted[name] for name, found in described_configs(admin, names).items())
    )
    return changed


def _wait_until(seen: Callable[[], bool]) -> None:
    """Brokers learn of a change from the controllers within moments."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while not seen() and time.monotonic() < deadline:
        time.sleep(POLL_S)
