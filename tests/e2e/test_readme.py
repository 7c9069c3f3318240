"""What README.md shows works as it stands: its snippets are run against a real scheduler and gateway."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import horolog

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SNIPPET_MAX_S = 90
SNIPPETS = re.findall(r"```(python|sh)\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)


def snippet(language: str, marks: str, url: str) -> str:
    (found,) = [text for kind, text in SNIPPETS if kind == language and marks in text]
    return str(found.replace("http://localhost:8080", url))


def run(command: list[str]) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    answer = subprocess.run(  # noqa: S603 - our own snippets
        command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=SNIPPET_MAX_S, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture
def client(stack: Any) -> Iterator[horolog.Client]:
    with horolog.Client(stack.url, retry_seconds=60.0) as client:
        yield client


def test_a_job_in_python(stack: Any) -> None:
    said = run([sys.executable, "-c", snippet("python", "create_job", stack.url)])

    assert said.startswith("Will run at ")


def test_a_job_in_curl_may_be_repeated(stack: Any) -> None:
    script = snippet("sh", "Idempotency-Key", stack.url)

    first, second = (json.loads(run(["/bin/sh", "-c", script])) for _ in range(2))

    assert first == second
    assert first["version"] == 1


def test_a_run_by_curl_alone(stack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROLOG_URL", stack.url)

    said = run(["/bin/sh", "-ec", snippet("sh", "by-hand", stack.url)])

    assert '"ok":true,"outcome":"ran"' in said
    assert said.splitlines()[-1].startswith("ran: Ran; attempt 1 completed at ")


def test_the_worker_works(stack: Any, client: horolog.Client, name: str) -> None:
    client.create_job("rollup", job_id=name, queue="billing", cron="0 0 1 1 *", payload={"month": 11})
    run_id = client.trigger_job(name).run_id
    worker = subprocess.Popen([sys.executable, "-c", snippet("python", "handler", stack.url)])  # noqa: S603 - our own
    try:
        stack.until(lambda: client.get_run(run_id).outcome == "ran")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(SNIPPET_MAX_S) == 0
    finally:
        worker.kill()
        worker.wait()
