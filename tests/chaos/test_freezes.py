"""Owners that stop for longer than a session and wake up with a transaction in hand."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.chaos.harness.campaign import Campaign
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.harness.cluster import Cluster, Inputs, Step

SEED = 7
FREEZES: tuple[tuple[Step, Inputs], ...] = (
    ("produce", "some"),  # nothing sent: the whole transaction goes out under the old generation
    ("produce", "none"),  # the same, with nothing but timers in it
    ("flush", "any"),
    ("offsets", "any"),  # all records at the broker, offsets not
    ("commit", "some"),  # offsets accepted
    ("commit", "none"),
)


def test_frozen_owners_wake_up_refused_and_nothing_of_theirs_is_seen(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    first, second = cluster.add(), cluster.add()
    cluster.wait_whole(first, second)
    driver = Driver(cluster.settings, Load(seed=SEED, timer_only=(0, 3)))
    driver.start()
    campaign = Campaign(cluster, random.Random(SEED))  # noqa: S311 - repeatable
    for step, inputs in FREEZES:
        campaign.freeze_at(step, inputs=inputs, sessions=1.7)

    verdict = judge(cluster, driver)

    assert verdict.report.ok, verdict.report.to_table()
    assert driver.gave_up == []
    assert verdict.hidden > 0
    refused = cluster.refused()
    assert verdict.stale_refused >= len(FREEZES), refused
    assert any(line["outcome"] == "stale" for line in refused), refused
    assert any("FENCED" in line["reason"] for line in refused), refused
