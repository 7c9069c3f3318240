"""A worker process of bench_e2e: no-op handlers that journal when each run started, in wall-clock milliseconds.

    python -m benchmarks.e2e_worker URL QUEUE SLOTS JOURNAL

Writes `run_id scheduled_ms started_ms attempt` lines when it is stopped (SIGTERM), so that nothing is written while
it measures.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import horolog


def main() -> None:
    """Run until SIGTERM."""
    url, queue, slots, journal = sys.argv[1:5]
    worker = horolog.Worker(url, queue=queue, slots=int(slots))
    started: list[tuple[str, float, float, int]] = []

    @worker.handler("bench")
    async def bench(run: horolog.Run) -> None:
        started.append((run.run_id, run.scheduled_for.timestamp() * 1000, time.time() * 1000, run.attempt))

    try:
        worker.run()
    finally:
        lines = (f"{run_id} {due:.3f} {at:.3f} {attempt}\n" for run_id, due, at, attempt in started)
        Path(journal).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
