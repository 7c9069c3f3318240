"""Every kind of fault of the log, the gateways and the workers once, in one run: the latter two beside the first."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.chaos import newer_schema
from tests.chaos.harness.campaign import Campaign
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.gateway_faults import Fleet, GatewayFaults, returned
from tests.chaos.harness.log_faults import LogFaults
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.harness.cluster import Cluster

SEED = 12
SMALL = Load(seed=SEED, one_offs=5.0, intervals=5, crons=2, changes=1.0, beats=2, timer_only=(0,), workers=3)


@pytest.mark.timeout(900)  # a dozen starts of processes: a minute on a machine of one's own
def test_log_gateways_and_workers_lose_double_and_hasten_nothing(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    first, second = cluster.add(), cluster.add()
    cluster.wait_whole(first, second)
    driver = Driver(cluster.settings, SMALL)
    driver.start()
    campaign = Campaign(cluster, random.Random(SEED))  # noqa: S311 - repeatable
    with Fleet(cluster, driver, seed=SEED) as fleet, ThreadPoolExecutor(1) as beside:
        log, gateways = LogFaults(campaign), GatewayFaults(campaign, fleet)
        done = beside.submit(lambda: [fault() for fault in gateways.kinds.values()])
        for fault in log.kinds.values():
            fault()
        done.result()

        verdict = judge(cluster, fleet, archive=log.archive)

    assert verdict.report.ok, verdict.report.to_table()
    assert fleet.gave_up == []
    assert log.wrong(verdict.view) == []
    assert {fault.kind for fault in campaign.injected} == {*log.kinds, *gateways.kinds}
    assert all(fault.evidence for fault in campaign.injected)
    assert not list(cluster.log_lines("job_quarantined"))
    assert any(newer_schema.is_newer(record.value) for record in verdict.view.records("history"))
    lost = returned(verdict.view, gateways.at_hand)
    assert len(lost) >= 3  # before grant, hand-out and answer
    assert {row.how for row in lost} == {"LeaseExpired"}, lost
    assert not any(row.counted for row in lost), lost
    for conduct in ("heartbeats lost", "heartbeats doubled", "completes_twice", "dies"):
        assert fleet.load.did[conduct] > 0, fleet.load.did
