"""A broker that goes away, links that fail, clocks that are wrong: each kind once, under light traffic."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.chaos.harness.broker import Broker
from tests.chaos.harness.broker_faults import BrokerFaults
from tests.chaos.harness.campaign import Campaign
from tests.chaos.harness.clock import Clocks
from tests.chaos.harness.clock_faults import ClockFaults
from tests.chaos.harness.cluster import Cluster
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.healing import Healing
from tests.chaos.harness.network_faults import NetworkFaults
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.timeout(1_200)
"""On an idle machine a minute each; on one under heavy load the broker alone takes 50 s to start again, three times."""

SEED = 11
LIGHT = Load(seed=SEED, one_offs=8.0, intervals=8, crons=3, changes=2.0, beats=2, workers=3, timer_only=(0,))
AWAY_S = (3.0, 6.0)
SHORT_S = (2.0, 4.0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of its own: it is killed."""
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


class Mix:
    """A cluster behind doors, its traffic, and every kind of these families."""

    def __init__(self, broker: Broker, cluster: Cluster, clocks: Clocks) -> None:
        self.cluster = cluster
        first, second = cluster.add(), cluster.add()
        cluster.wait_whole(first, second)
        self.driver = Driver(cluster.gateway_settings, LIGHT)
        self.driver.start()
        self.campaign = Campaign(cluster, random.Random(SEED))  # noqa: S311 - repeatable
        self.healing = Healing(cluster)
        self.kinds = {
            "broker": BrokerFaults(self.campaign, broker, self.healing, gone_s=AWAY_S).kinds,
            "net": NetworkFaults(self.campaign, broker, self.healing, slow_s=SHORT_S).kinds,
            "clock": ClockFaults(self.campaign, self.healing, clocks, off_s=SHORT_S).kinds,
        }

    def run(self, *families: str) -> list[str]:
        """Do every kind of some families once; return their names."""
        kinds = [kind for family in families for kind in self.kinds[family].items()]
        for _, fault in kinds:
            fault()
        return [name for name, _ in kinds]

    def judge(self, done: list[str]) -> None:
        """Assert that all is well, and that each kind is known to have bitten."""
        verdict = judge(self.cluster, self.driver)
        assert verdict.report.ok, verdict.report.to_table()
        assert self.driver.gave_up == []
        assert [fault.kind for fault in self.campaign.injected] == done
        assert all(fault.evidence for fault in self.campaign.injected)


@pytest.fixture
def mix(broker: Broker, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Mix]:
    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n  {line}", end="")  # noqa: T201 - the story of a fault test, as it happens

    # Only what Python code reads: the same on every machine, with a C compiler or without. Campaigns shift all of it.
    clocks = Clocks(tmp_path / "clocks", None)
    ways = [door.address for door in broker.doors]
    with Cluster(broker.bootstrap_servers, namespace, tmp_path, ways=ways, clocks=clocks, say=say) as cluster:
        yield Mix(broker, cluster, clocks)


def test_a_broker_that_dies_loses_doubles_and_hastens_nothing(mix: Mix) -> None:
    mix.judge(mix.run("broker"))


def test_clocks_that_step_and_drift_lose_double_and_hasten_nothing(mix: Mix) -> None:
    mix.judge(mix.run("clock"))


def test_links_that_are_slow_cut_or_lose_answers_lose_double_and_hasten_nothing(mix: Mix) -> None:
    mix.judge(mix.run("net"))
