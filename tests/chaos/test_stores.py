"""Every kind of fault of the local stores once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.chaos.harness.campaign import Campaign
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.store_faults import StoreFaults
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.harness.cluster import Cluster

SEED = 11
SMALL = Load(seed=SEED, one_offs=5.0, intervals=5, crons=2, changes=1.0, beats=2, timer_only=(0,), workers=3)


@pytest.mark.timeout(900)  # a dozen starts of processes: a minute on a machine of one's own
def test_what_happens_to_a_store_costs_a_replay_and_nothing_else(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    first, second = cluster.add(), cluster.add()
    cluster.wait_whole(first, second)
    driver = Driver(cluster.settings, SMALL)
    driver.start()
    campaign = Campaign(cluster, random.Random(SEED))  # noqa: S311 - repeatable
    stores = StoreFaults(campaign)
    for fault in stores.kinds.values():
        fault()

    verdict = judge(cluster, driver)

    assert verdict.report.ok, verdict.report.to_table()
    assert driver.gave_up == []
    assert [fault.kind for fault in campaign.injected] == [*stores.kinds]
    assert all(fault.evidence for fault in campaign.injected)
    assert list(cluster.log_lines("store_discarded"))
    assert not list(cluster.log_lines("job_quarantined"))
