"""The judgement over the demo: the checker of streams/audit over the whole log, and lateness from the worker's journal.

All sessions of one directory are judged together, since the log is one; what was done to the system on purpose and
what the workers did is kept beside it, a directory for each session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from streams.audit.checker import check
from streams.audit.journals import Fault, Faults, Journals, Limits
from streams.audit.kafka_reader import read_run
from streams.audit.stories import tell
from streams.core import events as ev
from streams.demo.jobs import WAYS, way_of
from streams.demo.journal import executions

if TYPE_CHECKING:
    from pathlib import Path

    from schemas.config import Settings
    from streams.audit.log_view import LogView
    from streams.audit.report import Report
    from streams.demo.journal import Attempt

CLOCK_ERROR_MS: Final = 50
"""Worker and broker share the machine's clock; both round to whole milliseconds."""

WHOLE_FOR_MS: Final = 480_000
"""Compaction takes nothing away from a log that is younger than this: a segment is open for ten minutes."""

KINDS: Final = {
    "lost": ("I2", "I7", "I8", "I9"),
    "early": ("I1",),
    "doubled": ("I3", "I4", "I5", "I10"),
    "other": ("I0", "I6", "I11", "I12", "I13"),
}
"""The invariants of docs/invariants.md in the words of people."""

FAULTS_FILE: Final = "faults.json"
REPORT_FILE: Final = "verdict.json"
WORKER_OUT: Final = "worker.out"


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What an earlier session left in the log."""

    jobs: int
    runs: int
    succeeded: int


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What this session was worth."""

    report: Report
    ran: dict[str, int]
    """Runs of this session that were completed, by way of registration."""

    @property
    def clean(self) -> bool:
        """Whether nothing is broken."""
        return self.report.ok

    @property
    def every_way_ran(self) -> bool:
        """Whether each of the three ways has a completed run."""
        return all(self.ran[way] > 0 for way in WAYS)

    def count(self, kind: str) -> int:
        """Give the violations of one kind of KINDS."""
        return sum(row.violations for row in self.report.judged if row.invariant in KINDS[kind])

    def sentences(self) -> list[str]:
        """Give the counts, what was judged, and each violation."""
        counts = ", ".join(f"{self.count(kind)} {kind}" for kind in KINDS)
        judged = sum(row.items for row in self.report.judged)
        found = self.report.counts
        word = "CLEAN" if self.clean else "NOT CLEAN"
        lines = [f"{word}: {counts}; {judged} checks over {found['runs']} runs of {found['jobs']} jobs"]
        if found["skipped"]:
            lines.append(f"  {found['skipped']} occurrences were skipped by policy, each on record (overlap, catch-up)")
        lines += [f"  {v.invariant} {v.run_id or v.job_id}: {v.message}" for v in self.report.violations[:20]]
        lines += [f"  {row.invariant} {row.title}: nothing to judge" for row in self.report.judged if row.vacuous]
        return lines


def past(settings: Settings) -> Past:
    """Count what the log holds. Raises KafkaException."""
    view = read_run(settings).view
    stories = tell(view)
    happenings = [happening.event for story in stories for happening in story.happenings]
    return Past(
        jobs=len(stories),
        runs=sum(len(story.runs) for story in stories),
        succeeded=sum(isinstance(event, ev.RunSucceeded) for event in happenings),
    )


def judge(settings: Settings, sessions: Path, began_ms: int, now_ms: int) -> Verdict:
    """Read and judge everything; `began_ms` is when this session began. Raises KafkaException, TimeoutError."""
    directories = sorted(path for path in sessions.iterdir() if path.is_dir())
    faults = [fault for path in directories for fault in _faults(path / FAULTS_FILE)]
    journals = Journals(executions=executions(path for d in directories if (path := d / WORKER_OUT).exists()))
    first_ms = int(directories[0].name)
    view = read_run(settings, whole=now_ms - first_ms < WHOLE_FOR_MS).view
    report = check(view, journals, Faults(faults=tuple(faults), clock_error_ms=CLOCK_ERROR_MS), Limits())
    (directories[-1] / REPORT_FILE).write_bytes(report.to_json())
    return Verdict(report=report, ran=_ran(view, began_ms))


def _faults(path: Path) -> list[Fault]:
    return msgspec.json.decode(path.read_bytes(), type=list[Fault]) if path.exists() else []


def keep_faults(directory: Path, faults: list[Fault]) -> None:
    """Write down what was done on purpose."""
    (directory / FAULTS_FILE).write_bytes(msgspec.json.encode(faults))


def _ran(view: LogView, began_ms: int) -> dict[str, int]:
    ran = dict.fromkeys(WAYS, 0)
    for story in tell(view):
        way = way_of(story.job_id)
        for run in story.runs.values() if way else ():
            opened = run.opened
            succeeded = any(isinstance(happening.event, ev.RunSucceeded) for happening in run.happenings)
            ran[way] += succeeded and opened is not None and opened.at_ms >= began_ms
    return ran


def lateness_sentence(attempts: list[Attempt], live_ms: int, gap: tuple[int, int] | None) -> str:
    """Tell the lateness of first attempts that fell due from `live_ms` on, all and without the take-over."""
    first = [row for row in attempts if row.attempt == 1 and row.scheduled_ms >= live_ms]
    text = f"scheduled instant to handler start, {_percentiles(first)}"
    if gap is None:
        return text
    calm = [row for row in first if not gap[0] <= row.scheduled_ms <= gap[1]]
    return f"{text}; without the take-over, {_percentiles(calm)}"


def _percentiles(attempts: list[Attempt]) -> str:
    """Tell p50 and p99 by nearest rank: of fewer than a hundred runs, p99 is the latest."""
    if not attempts:
        return "no runs"
    late_ms = sorted(row.late_ms for row in attempts)
    p50, p99 = (late_ms[-(-len(late_ms) * rank // 100) - 1] for rank in (50, 99))
    return f"{len(late_ms)} runs: p50 {p50} ms, p99 {p99} ms"
