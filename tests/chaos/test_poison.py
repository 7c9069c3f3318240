"""Input that cannot be read, between good records: it is told with its place and reason, and stops nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.topics import Topic
from tests.chaos.harness.driver import Driver, Load
from tests.chaos.harness.poison import Poisoner
from tests.chaos.harness.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.harness.cluster import Cluster

PARTITION = 3


def test_poison_becomes_dead_letters_and_the_next_good_one_is_processed(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster()
    cluster.wait_whole(cluster.add())
    driver = Driver(cluster.settings, Load(seed=3, dies=0.0, slow=0.0))
    driver.start()
    poisoner = Poisoner(cluster.settings, PARTITION)
    poisoner.poison_definitions()
    poisoner.poison_commands()

    verdict = judge(cluster, driver)

    assert verdict.report.ok, verdict.report.to_table()
    assert len(poisoner.places) == 18
    assert not poisoner.wrong(verdict.view)
    assert len(list(verdict.view.records("dead-letter"))) == 18
    assert not list(cluster.log_lines("job_quarantined"))
    # The judge itself: a place that nothing is told of, and a job that never was.
    poisoner.places[Topic.COMMANDS.value, 10**9] = "unreadable"
    poisoner.good.append("never-written")
    assert len(poisoner.wrong(verdict.view)) == 2
