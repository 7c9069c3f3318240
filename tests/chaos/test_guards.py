"""Each guard of the commit order is left out on purpose, on a real broker, and the loss is seen.

The guards (DESIGN section 6): the group's generation goes with the offsets; every partition that is written has an
offset; records are flushed before the offsets. tests/chaos/scheduler_with_faults.py can leave them out, nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from schemas.topics import Topic, topic_name
from streams.kafka_dev import wait_until
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.harness.cluster import Cluster, Inputs, Scheduler, Step
    from tests.chaos.harness.verdict import Verdict

TAKEN_TIMEOUT_S = 60.0
MOVED_TIMEOUT_S = 20.0
"""For one partition to move where it may also not: a try without it is a try that shows nothing."""
TRIES = 4
"""What a guard prevents needs the successor to have written in the meantime: a matter of moments, not of every try."""
LIGHT = Load(seed=9, one_offs=10.0, intervals=6, crons=0, changes=0.0, workers=2)


def frozen(victim: Scheduler, step: Step, inputs: Inputs, writes: int = 1) -> int:
    hit_ms = victim.hit_at_ms(victim.order(step, "stop", inputs=inputs, writes=writes))
    assert hit_ms is not None
    victim.frozen = True
    return hit_ms


def pending(cluster: Cluster) -> set[int]:
    """Give the ledger's partitions in which records of an open transaction stand."""
    admin = AdminClient(cluster.settings.kafka.client_config())
    ledger = topic_name(cluster.settings, Topic.LEDGER)
    ends = {}
    for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
        asked = {
            TopicPartition(ledger, p): OffsetSpec.latest()  # type: ignore[no-untyped-call] # its stub lacks the types
            for p in range(cluster.partitions)
        }
        answers = admin.list_offsets(asked, isolation_level=level)
        ends[level] = {place.partition: answer.result().offset for place, answer in answers.items()}
    stable = ends[IsolationLevel.READ_COMMITTED]
    return {p for p, end in ends[IsolationLevel.READ_UNCOMMITTED].items() if stable[p] < end}


@pytest.mark.parametrize(
    ("guard", "inputs"),
    [
        ("generation", "some"),
        # A transaction of timers alone then carries no offset at all, so nobody asks for its generation.
        ("offsets", "none"),
    ],
)
def test_without_it_a_frozen_owner_changes_a_partition_behind_its_successor(
    guard: str, inputs: Inputs, make_cluster: Callable[..., Cluster]
) -> None:
    for _ in range(TRIES):
        verdict = _frozen_without(guard, inputs, make_cluster())
        if verdict.report.of("I6"):
            break
    assert verdict.report.of("I6"), verdict.report.to_table()
    if guard == "generation":
        # Nothing is ever refused then; without offsets, the next transaction that has some still is.
        assert verdict.stale_refused == 0


def _frozen_without(guard: str, inputs: Inputs, cluster: Cluster) -> Verdict:
    victim = cluster.add(without=guard)
    other = cluster.add()
    cluster.wait_whole(victim, other)
    driver = Driver(cluster.settings, LIGHT)
    driver.start()
    hit_ms = frozen(victim, "produce", inputs)
    assert wait_until(lambda: cluster.whole([other]), TAKEN_TIMEOUT_S)
    cluster.note("freeze_before_produce", hit_ms, victim.name)
    victim.thaw()
    cluster.wait_whole(victim, other)
    return judge(cluster, driver, heal_s=0)


@pytest.mark.parametrize("guard", ["", "flush"])
def test_flush_before_offsets_shows_a_successor_what_is_pending(
    guard: str, make_cluster: Callable[..., Cluster]
) -> None:
    cluster = make_cluster()
    victim = cluster.add(without=guard)
    cluster.wait_whole(victim)
    driver = Driver(cluster.settings, Load(seed=9, one_offs=0, intervals=0, crons=0, changes=0, workers=1))
    driver.start()

    frozen(victim, "commit", "any")

    seen = pending(cluster)
    victim.thaw()
    driver.drain()
    assert bool(seen) is (guard == "")


def test_without_flush_and_offsets_a_commit_lands_behind_its_successor(make_cluster: Callable[..., Cluster]) -> None:
    """Three members, so that the frozen owner's partition with input and the one without get different successors.

    Where one successor gets both, it waits for the offsets of the first and nothing lands behind it: then again.
    """
    bounds = {"scheduler.fence_wait_ms": "60000", "scheduler.transaction_timeout_ms": "90000"}
    for _ in range(TRIES):
        verdict = _frozen_without_flush_and_offsets(make_cluster(scheduler=bounds))
        if verdict.report.of("I6"):
            break
    assert verdict.report.of("I6"), verdict.report.to_table()


def _frozen_without_flush_and_offsets(cluster: Cluster) -> Verdict:
    victim = cluster.add(without="flush,offsets")
    others = [cluster.add(), cluster.add()]
    cluster.wait_whole(victim, *others)
    with_input, without = sorted(victim.owned())
    driver = Driver(
        cluster.settings, Load(seed=9, timer_only=tuple(p for p in range(6) if p != with_input), workers=2, changes=0)
    )
    driver.start()
    hit_ms = frozen(victim, "commit", "some", writes=2)
    wait_until(lambda: any(without in other.owned() for other in others), MOVED_TIMEOUT_S)
    cluster.note("freeze_before_commit", hit_ms, victim.name)
    victim.thaw()
    cluster.wait_whole(victim, *others)
    return judge(cluster, driver, heal_s=0)
