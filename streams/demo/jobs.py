"""The jobs of the demo and the three ways in which they are registered, each as a user would do it.

A job's way is told by its id: `demo-http-`, `demo-kafka-`, `demo-file-`. All three are idempotent, so a second
start finds what the first one left.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from streams.demo.processes import READY_TIMEOUT_S, DemoError, ask, script

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

QUEUE: Final = "demo"
WAYS: Final = {"http": "HTTP", "kafka": "Kafka producer", "file": "horolog apply"}
COMMAND_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.2
ONCE_DELAY_S: Final = 6

_RETRIED: Final = frozenset({429, 500, 503, 504})


def way_of(job_id: str) -> str:
    """Give the way in which a job was registered; empty for other jobs."""
    prefix, _, rest = job_id.partition("-")
    way = rest.partition("-")[0]
    return way if prefix == "demo" and way in WAYS else ""


def over_http(url: str, session: str) -> list[str]:
    """Create a recurring job and one that runs once; give their ids."""
    greet = {
        "name": "greet",
        "queue": QUEUE,
        "task": "greet",
        "payload": {"name": "HTTP"},
        "schedule": {"every": "2s"},
    }
    once = {"name": "once", "queue": QUEUE, "task": "greet", "delaySeconds": ONCE_DELAY_S}
    _put(f"{url}/v1/jobs/demo-http-ping", greet)
    _put(f"{url}/v1/jobs/demo-http-once-{session}", once)
    return ["demo-http-ping", f"demo-http-once-{session}"]


def _put(url: str, body: Mapping[str, Any]) -> None:
    until_s = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            status, answer = ask(url, body, "PUT")
        except OSError as error:
            status, answer = 503, {"detail": str(error)}
        if status < 300:
            return
        if status not in _RETRIED or time.monotonic() > until_s:
            raise DemoError(f"PUT {url} was answered {status}: {(answer or {}).get('detail')}")
        time.sleep(POLL_S)


def over_kafka(root: Path, bootstrap_servers: str, environment: Mapping[str, str]) -> str:
    """Run examples/kafka_producer_schema_file_only.py; give what it said."""
    job = {
        "job_id": "demo-kafka-count",
        "queue": QUEUE,
        "task": "count",
        "schedule": {"-type": "horolog.IntervalSchedule", "every_ms": 3_000},
    }
    producer = root / "examples" / "kafka_producer_schema_file_only.py"
    schema = root / "schemas" / "JobDefinition.avsc"
    return _run([sys.executable, str(producer), bootstrap_servers, str(schema), json.dumps(job)], environment)


def over_file(root: Path, environment: Mapping[str, str]) -> str:
    """Run `horolog apply -f examples/jobs.yaml`; give what it said."""
    return _run([script("horolog"), "apply", "-f", str(root / "examples" / "jobs.yaml")], environment)


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    answer = subprocess.run(  # noqa: S603 - our own programs
        command, env=dict(environment), capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    if answer.returncode != 0 or "failed" in answer.stdout:
        said = (answer.stdout + answer.stderr).strip()
        raise DemoError(f"`{' '.join(command)}` ended with code {answer.returncode}:\n{said}")
    return answer.stdout.strip()
