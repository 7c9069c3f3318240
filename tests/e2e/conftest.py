"""A scheduler and a gateway as processes on the session's Kafka, and `horolog` as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from schemas.config import ENV_PREFIX, env_name, load_settings
from streams.demo.processes import Child, SchedulerProcess, script, wait_owned, wait_ready
from streams.kafka_dev import free_ports, wait_until
from streams.topic_admin import create_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PARTITIONS = 2
COMMAND_MAX_S = 60
EVENT_MAX_S = 90.0


@dataclass(frozen=True)
class Said:
    """What one command line did."""

    code: int
    out: str
    err: str


class Stack:
    """The running system; `url` is its gateway's."""

    def __init__(self, url: str, environment: dict[str, str]) -> None:
        self.url = url
        self._environment = environment | {"HOROLOG_URL": url}

    def horolog(self, *arguments: str) -> Said:
        """Run the command."""
        answer = subprocess.run(  # noqa: S603 - our own program
            [script("horolog"), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_MAX_S,
            check=False,
        )
        return Said(answer.returncode, answer.stdout, answer.stderr)

    def explained(self, *arguments: str) -> dict[str, Any]:
        """Run `horolog explain` and give its JSON; raises AssertionError where it fails."""
        said = self.horolog("explain", *arguments, "--output", "json")
        assert said.code == 0, said.err
        answer: dict[str, Any] = json.loads(said.out)
        return answer

    def until(self, done: Callable[[], bool]) -> None:
        """Wait for something to happen; raises AssertionError if it does not."""
        assert wait_until(done, EVENT_MAX_S), f"not within {EVENT_MAX_S:g} s"


@pytest.fixture(scope="session")
def stack(kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory: Path = tmp_path_factory.mktemp("stack")
    ports = free_ports(2)
    namespace = f"e2e{uuid.uuid4().hex[:8]}."
    ours = {
        "kafka.bootstrap_servers": kafka.bootstrap_servers,
        "kafka.namespace": namespace,
        "topics.partitions": str(PARTITIONS),
        "scheduler.group_id": f"{namespace}scheduler",
        "scheduler.data_dir": str(directory / "data"),
        "scheduler.admin_port": str(ports[0].broker),
        "gateway.port": str(ports[1].broker),
        "log.format": "json",
    }
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ENV_PREFIX)}
    environment |= {env_name(name): value for name, value in ours.items()}
    create_topics(load_settings(env=environment))
    children = [Child("scheduler", [script("horologd"), "scheduler"], environment, directory)]
    try:
        wait_owned([SchedulerProcess(children[0], ports[0].broker)], PARTITIONS)
        url = f"http://127.0.0.1:{ports[1].broker}"
        children.append(Child("gateway", [script("horologd"), "gateway"], environment, directory))
        wait_ready(children[1], f"{url}/readyz")
        yield Stack(url, environment)
    finally:
        for child in reversed(children):
            child.stop()


@pytest.fixture
def name() -> str:
    """Give a name that no other test uses, for a job and its queue."""
    return f"n{uuid.uuid4().hex[:10]}"
