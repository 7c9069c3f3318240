"""Judges a kept run once more, and tells what the log says about one job or run.

python -m tests.chaos.judge_again RUN.msgpack [JOB_OR_RUN_ID]
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from streams.audit.checker import check
from streams.audit.journals import Faults, Journals
from streams.audit.log_view import LogRecord, LogView
from tests.chaos.harness.verdict import LIMITS


def main(path: Path, about: str) -> int:
    """Print the table, or the story of one job."""
    records, committed, end_at_ms, refused, journals, faults = msgspec.msgpack.decode(
        path.read_bytes(),
        type=tuple[list[LogRecord], dict[int, int], int, list[tuple[str, int, int]], Journals, Faults],
    )
    view = LogView(records, committed=committed, end_at_ms=end_at_ms, refused=frozenset(refused))
    if not about:
        report = check(view, journals, faults, LIMITS)
        print(report.to_table())  # noqa: T201 - a program's output
        return 0 if report.ok else 1
    job_id = about.removeprefix("run_").rpartition("_")[0] if about.startswith("run_") else about
    for item in view.history:
        if item.entry.job_id == job_id:
            cause = item.entry.cause
            print(  # noqa: T201 - a program's output
                item.record.partition,
                item.record.offset,
                item.record.timestamp_ms,
                f"generation {item.entry.generation} seq {item.entry.seq}",
                f"by {cause.kind} {cause.name} {cause.request_id} @{cause.offset}.{cause.index}",
                *item.entry.events,
            )
    for call in journals.calls:
        if about in {call.job_id, call.run_id}:
            print(call)  # noqa: T201 - a program's output
    for execution in journals.executions:
        if about == execution.run_id:
            print(execution)  # noqa: T201 - a program's output
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
