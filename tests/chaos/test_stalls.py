"""A scheduler on a real Kafka in which something stands still: it says what, and is gone, so that others take over."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from schemas.config import env_name, load_settings
from schemas.topics import Topic, topic_name
from streams.kafka_dev import free_ports, wait_until
from streams.topic_admin import create_topics
from streams.watchdog import EXIT_CODE
from streams.watchdog_ends import WatchdogEnds
from tests.chaos.harness.cluster import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = CHECKOUT / "tests" / "chaos" / "scheduler_with_stalls.py"
WAIT_S = 120.0


class Scheduler:
    """The process, and what it wrote."""

    def __init__(self, bootstrap_servers: str, namespace: str, directory: Path, what: str) -> None:
        (ports,) = free_ports(1)
        values = {
            "kafka.bootstrap_servers": bootstrap_servers,
            "kafka.namespace": namespace,
            "topics.partitions": "1",
            "scheduler.group_id": f"{namespace}scheduler",
            "scheduler.data_dir": str(directory / "data"),
            "scheduler.admin_port": str(ports.broker),
            "log.format": "json",
        }
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(CHECKOUT)}
        environment |= {env_name(name): value for name, value in values.items()}
        self.settings = load_settings(env=environment)
        create_topics(self.settings)
        self.directory = directory
        self.stall = directory / "stall"
        self._url = f"http://127.0.0.1:{ports.broker}/readyz"
        self._log = directory / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, str(PROGRAM), str(directory), what], env=environment, stdout=log, stderr=log
            )

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(self._url, timeout=5) as answer:  # noqa: S310 - loopback
                return bool(answer.status == 200)
        except (urllib.error.HTTPError, OSError):
            return False

    def gone(self) -> bool:
        return self.process.poll() is not None

    def send(self) -> bool:
        """Give it a record to read: nonsense, which becomes a dead letter. Returns False."""
        producer = Producer(self.settings.kafka.client_config())
        producer.produce(topic_name(self.settings, Topic.COMMANDS), b"nonsense", partition=0)
        assert producer.flush(WAIT_S) == 0
        return False

    def lines(self, event: str) -> list[dict[str, Any]]:
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.startswith("{")]
        return [line for line in map(json.loads, lines) if line.get("event") == event]

    def text(self) -> str:
        return self._log.read_text(errors="replace")[-3_000:]


@pytest.fixture
def scheduler(request: pytest.FixtureRequest, chaos_kafka: str, namespace: str, tmp_path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(chaos_kafka, namespace, tmp_path, request.param)
    yield scheduler
    scheduler.process.kill()
    scheduler.process.wait()


@pytest.mark.parametrize(
    ("scheduler", "stalled"),
    [
        ("agent", "the agent of {commands}-0"),
        ("consumer", "the consumer of {commands}-0"),
        ("producer", "the producer of transactions"),
    ],
    indirect=["scheduler"],
)
def test_a_scheduler_in_which_something_stands_still_says_what_and_ends(scheduler: Scheduler, stalled: str) -> None:
    assert wait_until(scheduler.ready, WAIT_S), scheduler.text()
    scheduler.send()
    assert wait_until(lambda: len(scheduler.lines("dead_letter")) == 1, WAIT_S), scheduler.text()

    scheduler.stall.touch()
    assert wait_until(lambda: scheduler.gone() or scheduler.send(), WAIT_S), scheduler.text()
    assert scheduler.process.returncode == EXIT_CODE, scheduler.text()
    (line,) = scheduler.lines("stalled")
    commands = topic_name(scheduler.settings, Topic.COMMANDS)
    assert line["reason"].startswith(stalled.format(commands=commands))
    assert f"horologd: {line['reason']}; ending the process" in scheduler.text()
    left = WatchdogEnds(scheduler.directory / "data" / "slot-0")  # what the next process begins with
    assert (left.count, line["reason"] in left.reason) == (1, True)
