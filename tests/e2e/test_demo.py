"""The demo is the smoke test of everything: Kafka, schedulers, gateway, worker, command line, a kill, the verdict."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.config import ENV_PREFIX
from streams.demo import show
from streams.demo.processes import DemoError

RUNS_SHOWN_S = 40
DEMO_MAX_S = 280  # set-up and verdict take some 15 s on an idle machine
PROGRAM = Path(sys.executable).with_name("horologd")


def demo(directory: Path, seconds: int) -> subprocess.CompletedProcess[str]:
    kept = ("HOROLOG_KAFKA_LIBS",)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ENV_PREFIX) or k in kept}
    return subprocess.run(  # noqa: S603 - our own program
        [str(PROGRAM), "demo", "--for", str(seconds), "--free-ports", "--dir", str(directory)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEMO_MAX_S,
        check=False,
    )


@pytest.mark.timeout(2 * DEMO_MAX_S)
def test_the_demo_runs_jobs_of_three_ways_survives_a_kill_and_is_found_again(tmp_path: Path) -> None:
    first = demo(tmp_path, RUNS_SHOWN_S)

    assert first.returncode == 0, first.stdout + first.stderr
    out = first.stdout
    for way in ("http", "kafka", "file"):
        assert re.search(rf"^{way} +demo-{way}-\S+ +[\d:.]+ +\d+ +\d+ +worker-1 +ran$", out, re.MULTILINE)
    assert re.search(r"^--- kill -9 scheduler-\d \(pid \d+\), owner of partitions \[[\d, ]+\]$", out, re.MULTILINE)
    assert re.search(r"^--- scheduler-\d owns all 8 partitions: \d+\.\d\d s after the kill$", out, re.MULTILINE)
    assert re.search(r"^file +demo-file-retry .* 1 +worker-1 +failed$", out, re.MULTILINE)
    assert "CLEAN: 0 lost, 0 early, 0 doubled, 0 other" in out
    assert re.search(r"Lateness: .* p50 \d+ ms, p99 \d+ ms; without the take-over", out)

    second = demo(tmp_path, 5)

    assert second.returncode == 0, second.stdout + second.stderr
    assert re.search(r"Found in the log from earlier: \d+ jobs, \d+ runs, \d+ of them completed\.", second.stdout)
    assert "4 unchanged" in second.stdout


def test_a_demo_says_which_ports_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "port_is_free", lambda port: port != show.GATEWAY_PORT)

    with pytest.raises(DemoError, match=r"port 8080 \(for the gateway\).*PORTS=free"):
        show.choose_ports(free=False)


def test_two_demos_do_not_share_a_directory(tmp_path: Path) -> None:
    with show.only_one(tmp_path), pytest.raises(DemoError, match="already"), show.only_one(tmp_path):
        pass
