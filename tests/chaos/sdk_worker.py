"""A worker process on the SDK, as a team would write one; it writes down what it executes.

    python sdk_worker.py GATEWAY_URL QUEUE WORKER_ID JOURNAL

A line of the journal is one moment of one execution: {"what": "began" | "ended" | "stopped", "run_id", "attempt",
"lease_token", "scheduled_at_ms", "at_ms"}. It ends with the process that started it.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Final

import horolog
from tests.chaos.control import end_with_parent
from tests.chaos.harness.clock import judged_ms

SLOTS: Final = 4
VISIBILITY_S: Final = 15.0
"""The shortest that the SDK allows."""
HEARTBEAT_S: Final = 3.0
WORK_S: Final = (0.05, 2.0)


def main(url: str, queue: str, worker_id: str, journal: Path) -> None:
    """Work until told to stop."""
    end_with_parent()
    lines = journal.open("a", buffering=1)
    rng = random.Random(worker_id)  # noqa: S311 - repeatable

    def note(what: str, run: horolog.Run) -> None:
        line = {
            "what": what,
            "run_id": run.run_id,
            "attempt": run.attempt,
            "lease_token": run.lease_token,
            "scheduled_at_ms": int(run.scheduled_for.timestamp() * 1000),
            "at_ms": judged_ms(),
        }
        lines.write(json.dumps(line) + "\n")

    worker = horolog.Worker(
        url,
        queue=queue,
        worker_id=worker_id,
        slots=SLOTS,
        visibility_seconds=VISIBILITY_S,
        heartbeat_seconds=HEARTBEAT_S,
    )

    @worker.handler("roll")
    async def roll(run: horolog.Run) -> None:
        note("began", run)
        try:
            await asyncio.sleep(rng.uniform(*WORK_S))
        except BaseException:
            note("stopped", run)
            raise
        note("ended", run)

    worker.run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
