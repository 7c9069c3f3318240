"""The demo is the smoke test of everything: Kafka, schedulers, gateway, worker, command line, a kill, the verdict."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.config import ENV_PREFIX
from streams.audit.checker import INVARIANTS
from streams.audit.report import Judged, Lateness, Report, Violation
from streams.demo import show
from streams.demo.journal import Attempt, Journal, executions
from streams.demo.processes import DemoError
from streams.demo.verdict import KINDS, Verdict, lateness_sentence

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


def lines(*documents: dict[str, object]) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def started(at_ms: int, attempt: int = 1) -> dict[str, object]:
    about = {"runId": "r", "jobId": "demo-http-x", "scheduledMs": 1_000, "worker": "w", "leaseToken": attempt}
    return {"what": "started", "atMs": at_ms, "attempt": attempt, **about}


def finished(at_ms: int, attempt: int, outcome: str) -> dict[str, object]:
    return {"what": "finished", "atMs": at_ms, "runId": "r", "attempt": attempt, "outcome": outcome}


def test_a_journal_is_followed_as_it_grows_also_through_a_half_written_line(tmp_path: Path) -> None:
    path = tmp_path / "worker.out"
    whole = lines(started(1_010), finished(1_020, 1, "fail"), started(3_000, 2), finished(3_010, 2, "complete"))
    cut = len(lines(started(1_010), finished(1_020, 1, "fail"))) + 10
    path.write_bytes(whole[:cut])
    journal = Journal(path)

    first = journal.new()
    path.write_bytes(whole)
    second = journal.new()

    assert [(row.attempt, row.outcome, row.late_ms) for row in first] == [(1, "fail", 10)]
    assert [(row.attempt, row.outcome, row.late_ms) for row in second] == [(2, "complete", 2_000)]
    assert journal.new() == []


def test_executions_keep_those_that_did_not_end(tmp_path: Path) -> None:
    path = tmp_path / "worker.out"
    path.write_bytes(lines(started(1_010), finished(1_020, 1, "fail"), started(3_000, 2)) + b'{"what": "fin')

    found = executions([path])

    assert [(one.attempt, one.started_at_ms, one.ended_at_ms) for one in found] == [(1, 1_010, 1_020), (2, 3_000, 0)]


def attempt(scheduled_ms: int, late_ms: int) -> Attempt:
    return Attempt(
        run_id="r",
        job_id="j",
        scheduled_ms=scheduled_ms,
        started_ms=scheduled_ms + late_ms,
        attempt=1,
        worker="w",
        outcome="complete",
    )


def test_lateness_leaves_out_what_fell_due_before_and_tells_the_take_over_apart() -> None:
    attempts = [attempt(500, 9_000), attempt(1_000, 10), attempt(2_000, 5_000), attempt(9_000, 20)]

    told = lateness_sentence(attempts, 1_000, (1_500, 8_000))

    assert told == (
        "scheduled instant to handler start, 3 runs: p50 20 ms, p99 5000 ms; "
        "without the take-over, 2 runs: p50 10 ms, p99 20 ms"
    )
    assert lateness_sentence(attempts, 1_000, None).endswith("3 runs: p50 20 ms, p99 5000 ms")
    assert lateness_sentence(attempts, 99_000, None).endswith("no runs")


def verdict(violations: int, ran: dict[str, int]) -> Verdict:
    judged = Judged(invariant="I1", title="never early", items=9, not_judged={}, violations=violations, vacuous=False)
    broken = (Violation(invariant="I1", message="opened 3 ms before its time", run_id="r"),) * violations
    counts = {"runs": 4, "jobs": 2, "skipped": 0}
    report = Report(judged=(judged,), violations=broken, lateness=Lateness(), lateness_by_tenant={}, counts=counts)
    return Verdict(report=report, ran=ran)


def test_the_verdict_names_what_is_broken() -> None:
    bad = verdict(1, {"http": 1, "kafka": 1, "file": 0})

    assert not bad.clean
    assert not bad.every_way_ran
    assert bad.sentences() == [
        "NOT CLEAN: 0 lost, 1 early, 0 doubled, 0 other; 9 checks over 4 runs of 2 jobs",
        "  I1 r: opened 3 ms before its time",
    ]


def test_the_verdict_is_clean_when_nothing_is_broken() -> None:
    good = verdict(0, {"http": 1, "kafka": 1, "file": 1})

    assert good.clean
    assert good.every_way_ran
    assert good.sentences()[0].startswith("CLEAN: 0 lost, 0 early, 0 doubled, 0 other;")


def test_every_invariant_belongs_to_one_kind() -> None:
    named = [name for names in KINDS.values() for name in names]

    assert sorted(named) == sorted(name for name, _, _ in INVARIANTS)
