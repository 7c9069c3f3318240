"""What a run was worth, as one line of JSON: so that several runs can be added up.

`measure` turns a verdict into a `Result`; `append` writes it to the end of a file; `read` gives all of some files.
`python -m tests.chaos.figures` makes the table of docs/reliability.md of them.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import platform
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from streams.kafka_dev import kafka_version
from tests.chaos.harness.cluster import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.chaos.harness.campaign import Injected
    from tests.chaos.harness.verdict import Traffic, Verdict


class FaultFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. Milliseconds by the broker's clock, for what touches the time from injection to healing."""

    kind: str
    evidence: str
    """How it is known that it bit; empty where the kind shows it by itself (a process that died)."""
    healed_ms: int
    partitions: int
    """How many lost their owner, or their way to it, by it."""
    gap_ms: int
    """Longest time between two commits on one of those."""
    others_gap_ms: int
    """The same on all other partitions."""
    silent_ms: int
    """Longest time in which no worker got any run of any partition."""
    late_ms: int
    """Largest lateness of a one-off job that fell due meanwhile."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    at: str
    commit: str
    seed: int
    seconds: float
    session_ms: int
    schedulers: int
    versions: dict[str, str]
    faults: tuple[FaultFigures, ...]
    worker_faults: dict[str, int]
    counts: dict[str, int]
    """Of the checker: jobs, runs, decisions, leases, executions, calls ..."""
    violations: dict[str, int]
    """By invariant; only those that were broken."""
    vacuous: tuple[str, ...]
    """Invariants that found nothing to judge although they had to."""
    runs_executed: int
    runs_executed_again: int
    executions_beyond_first: int
    jobs_lost: int
    runs_lost: int
    early: int
    calls_given_up: int
    quarantined: int
    stale_refused: int
    hidden: int
    late_p50_ms: int
    late_p99_ms: int
    late_max_ms: int
    unhealed: tuple[str, ...] = ()
    """Faults that did not bite, or did not heal in time, and what was said of them."""
    notes: dict[str, int] = {}
    """Further counts of single families of faults, such as bytes that were swallowed."""

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return not (self.violations or self.vacuous or self.calls_given_up or self.quarantined or self.unhealed)


def measure(
    verdict: Verdict,
    injected: Sequence[Injected],
    driver: Traffic,
    *,
    seed: int,
    seconds: float,
    session_ms: int,
    schedulers: int,
    quarantined: int,
    unhealed: Sequence[str] = (),
    notes: dict[str, int] | None = None,
) -> Result:
    """Take the figures of a judged run."""
    executed = Counter(execution.run_id for execution in driver.journals.executions)
    report = verdict.report
    broken = {row.invariant: row.violations for row in report.judged if row.violations}
    starts = sorted(execution.started_at_ms for execution in driver.journals.executions)
    return Result(
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        commit=_commit(),
        seed=seed,
        seconds=seconds,
        session_ms=session_ms,
        schedulers=schedulers,
        versions=versions(),
        faults=tuple(_fault(verdict, fault, starts) for fault in injected),
        worker_faults=dict(Counter(fault.kind for fault in driver.faults)),
        counts=report.counts,
        violations=broken,
        vacuous=tuple(row.invariant for row in report.judged if row.vacuous),
        runs_executed=len(executed),
        runs_executed_again=sum(times > 1 for times in executed.values()),
        executions_beyond_first=sum(executed.values()) - len(executed),
        jobs_lost=broken.get("I7", 0),
        runs_lost=broken.get("I2", 0) + broken.get("I9", 0),
        early=broken.get("I1", 0),
        calls_given_up=len(driver.gave_up),
        quarantined=quarantined,
        stale_refused=verdict.stale_refused,
        hidden=verdict.hidden,
        late_p50_ms=report.lateness.p50_ms,
        late_p99_ms=report.lateness.p99_ms,
        late_max_ms=report.lateness.max_ms,
        unhealed=tuple(unhealed),
        notes=notes or {},
    )


def _fault(verdict: Verdict, fault: Injected, starts: Sequence[int]) -> FaultFigures:
    gaps = verdict.gaps(fault.from_ms, fault.to_ms)
    late = verdict.lateness_ms(fault.from_ms, fault.to_ms)
    return FaultFigures(
        kind=fault.kind,
        evidence=fault.evidence,
        healed_ms=fault.to_ms - fault.from_ms,
        partitions=len(fault.partitions),
        gap_ms=max((gaps.get(p, 0) for p in fault.partitions), default=0),
        others_gap_ms=max((gap for p, gap in gaps.items() if p not in fault.partitions), default=0),
        silent_ms=max(
            (b - a for a, b in itertools.pairwise(starts) if b >= fault.from_ms and a <= fault.to_ms), default=0
        ),
        late_ms=late[-1] if late else 0,
    )


def append(path: Path, result: Result) -> None:
    """Add a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(msgspec.json.encode(result) + b"\n")


def read(paths: Iterable[Path]) -> list[Result]:
    """Give the results of all files, in their order."""
    return [
        msgspec.json.decode(line, type=Result)
        for path in paths
        for line in path.read_bytes().splitlines()
        if line.strip()
    ]


def versions() -> dict[str, str]:
    """Give what was under test, and on what."""
    libraries = ("faust-streaming", "aiokafka", "confluent-kafka")
    return {
        "Kafka": kafka_version(),
        "Python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in libraries},
    }


def _commit() -> str:
    answer = subprocess.run(  # noqa: S603 - fixed words
        ["git", "-C", str(CHECKOUT), "rev-parse", "--short", "HEAD"],  # noqa: S607 - only a label of the figures
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip()
