"""A Kafka whose group coordinator allows the short sessions of these tests, and clusters of schedulers on it."""

from __future__ import annotations

import itertools
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from streams.kafka_dev import KafkaCluster
from tests.chaos.harness.cluster import BROKER, Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


OUT_OF_TIME = (
    r"where False = (<function )?wait_until",
    r"without an owner after",
    r"did not start",
    r"None is not None",
)
"""How a wait of the harness ends that took too long: with a condition that did not come, never with a verdict."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "chaos: scheduler processes on a real Kafka that die and freeze; seconds each")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/chaos/" in str(item.path):
            item.add_marker(pytest.mark.chaos)
            # A dozen processes on two cores may all be slow at once; what the checker finds is never tried again.
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=list(OUT_OF_TIME)))


@pytest.fixture(scope="session")
def chaos_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of one broker for this folder; `HOROLOG_CHAOS_KAFKA` names one that runs already."""
    given = os.environ.get("HOROLOG_CHAOS_KAFKA")
    if given:
        yield given
        return
    with KafkaCluster(root=tmp_path_factory.mktemp("chaos-kafka"), ports="free", extra=BROKER) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture
def make_cluster(
    chaos_kafka: str, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Cluster]]:
    """Make the cluster of a test; whatever it started is ended with the test."""

    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n  {line}", end="")  # noqa: T201 - the story of a fault test, as it happens

    numbers = itertools.count()
    with ExitStack() as stack:

        def make(**options: object) -> Cluster:
            number = next(numbers)
            folder = tmp_path / f"cluster-{number}"
            folder.mkdir()
            own = f"{namespace.removesuffix('.')}-{number}."
            cluster = Cluster(chaos_kafka, own, folder, **{"say": say, **options})  # type: ignore[arg-type]
            return stack.enter_context(cluster)

        yield make
