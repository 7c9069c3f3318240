"""Owners that die by kill -9, between any two steps of the commit order, under traffic from a thousand jobs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from streams.kafka_dev import wait_until
from tests.chaos.harness.campaign import Campaign
from tests.chaos.harness.cluster import STEPS, now_ms
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.harness.cluster import Cluster

SEED = 20
KILLS = 21


def test_twenty_kills_at_random_steps_lose_double_and_hasten_nothing(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    first, second = cluster.add(), cluster.add()
    cluster.wait_whole(first, second)
    driver = Driver(cluster.settings, Load(seed=SEED, timer_only=(0,)))
    driver.start()
    campaign = Campaign(cluster, random.Random(SEED))  # noqa: S311 - repeatable
    for number in range(KILLS):
        victim = campaign.an_owner()
        step = STEPS[number % len(STEPS)]
        order = victim.order(step, "kill", skip=campaign.rng.randrange(8))
        hit_ms = victim.hit_at_ms(order, 10.0)
        if hit_ms is None:  # a rebalance took its partitions before it came to the step
            hit_ms = now_ms()
            victim.kill()
        victim.wait_gone()
        cluster.note(f"kill_before_{step}", hit_ms, victim.name)
        victim.start()  # while the group still waits for the dead member
    healing_ms = now_ms()
    cluster.wait_whole(first, second)
    cluster.note("healing", healing_ms)

    verdict = judge(cluster, driver)

    assert verdict.report.ok, verdict.report.to_table()
    assert driver.gave_up == []
    killed = [line for scheduler in cluster.schedulers for line in scheduler.journal() if line["what"] == "hit"]
    assert len(killed) >= KILLS - 3
    assert verdict.report.counts["generations"] > KILLS // 2


def test_a_transaction_left_open_is_fenced_and_not_waited_out(make_cluster: Callable[..., Cluster]) -> None:
    """The broker would abort it after ten minutes only; until then it withholds the partition's stable offsets."""
    cluster = make_cluster(scheduler={"scheduler.transaction_timeout_ms": "600000"})
    first, second = cluster.add(), cluster.add()
    cluster.wait_whole(first, second)
    driver = Driver(cluster.settings, Load(seed=SEED, timer_only=(0, 1)))
    driver.start()
    hit_ms = first.hit_at_ms(first.order("commit", "kill", skip=3))
    assert hit_ms is not None
    first.wait_gone()

    assert wait_until(lambda: second.owned() == frozenset(range(cluster.partitions)), 60.0)

    cluster.note("kill_before_commit", hit_ms, first.name)
    verdict = judge(cluster, driver)
    assert verdict.report.ok, verdict.report.to_table()
    assert verdict.hidden > 0
