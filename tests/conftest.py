"""What every test may ask for: a real Kafka, started once a session, and a topic namespace of its own.

`HOROLOG_TEST_KAFKA=host:port` uses a Kafka that runs already; it is neither stopped nor changed, apart from
the topics that tests make in their own namespaces.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from streams.kafka_dev import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

# How long an example takes says something about the machine only; in CI Hypothesis has no deadline either.
settings.register_profile("patient", parent=settings(), deadline=None)
settings.load_profile("patient")


@dataclass(frozen=True)
class RunningKafka:
    """The session's Kafka. `cluster` is None when it is somebody else's: do not stop or pause that one."""

    bootstrap_servers: str
    cluster: KafkaCluster | None


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningKafka]:
    """Give the session's one-node Kafka; it ends with the session, and with this process at the latest."""
    given = os.environ.get("HOROLOG_TEST_KAFKA")
    if given:
        yield RunningKafka(given, None)
        return
    root = tmp_path_factory.mktemp("kafka")
    with KafkaCluster(root=root, nodes=1, ports="free") as cluster:
        yield RunningKafka(cluster.bootstrap_servers, cluster)


@pytest.fixture
def namespace() -> str:
    """Give a topic namespace that no other test uses, in the form that `kafka.namespace` takes."""
    return f"t{uuid.uuid4().hex[:12]}."
