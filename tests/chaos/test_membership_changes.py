"""Members that come and go in good order, all at once, or sharing a data directory."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.chaos.harness.campaign import Campaign
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.chaos.harness.cluster import Cluster

SEED = 5


def test_joins_rolling_restarts_and_storms_over_one_data_directory(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = make_cluster()
    shared = tmp_path / "shared"
    first, second = cluster.add(data_dir=shared), cluster.add(data_dir=shared)
    cluster.wait_whole(first, second)
    driver = Driver(cluster.settings, Load(seed=SEED, timer_only=(0,)))
    driver.start()
    campaign = Campaign(cluster, random.Random(SEED))  # noqa: S311 - repeatable
    campaign.join()
    campaign.rolling_restart()
    campaign.storm()

    verdict = judge(cluster, driver)

    assert verdict.report.ok, verdict.report.to_table()
    assert driver.gave_up == []
    slots = {path.name for path in shared.iterdir()}
    assert {"slot-0", "slot-1"} <= slots
