"""A worker with four small handlers. `make demo` runs it; start your own from it.

    HOROLOG_URL=http://127.0.0.1:8080 python examples/worker.py
    horolog worker run examples/worker.py            # the same, through the command line

It prints one JSON line when a handler starts and one when its outcome is confirmed. Needs `pip install horolog` only.
"""

# ruff: noqa: INP001 - a script, not part of a package
from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import horolog

if TYPE_CHECKING:
    from collections.abc import Mapping

REPORT_SECONDS = 6.0


def say(what: str, **fields: Any) -> None:
    """Print one line."""
    sys.stdout.write(json.dumps({"what": what, "atMs": time.time_ns() // 1_000_000, **fields}) + "\n")
    sys.stdout.flush()


def on_event(name: str, fields: Mapping[str, Any]) -> None:
    """Hear of outcomes once the gateway has them for good."""
    if name == "run_finished":
        say("finished", runId=fields["run_id"], attempt=fields["attempt"], outcome=fields["outcome"])


def started(run: horolog.Run) -> None:
    """Say that a handler has begun: this is where lateness is measured."""
    scheduled_ms = round(run.scheduled_for.timestamp() * 1000)
    say(
        "started",
        runId=run.run_id,
        jobId=run.job_id,
        scheduledMs=scheduled_ms,
        attempt=run.attempt,
        leaseToken=run.lease_token,
        worker=worker.worker_id,
    )


worker = horolog.Worker(
    os.environ.get("HOROLOG_URL", "http://127.0.0.1:8080"),
    queue=os.environ.get("QUEUE", "demo"),
    worker_id=os.environ.get("WORKER_ID"),
    on_event=on_event,
)


@worker.handler("greet")
async def greet(run: horolog.Run) -> dict[str, str]:
    """Answer with a greeting: the result is kept with the run."""
    started(run)
    return {"greeting": f"Hello, {(run.payload or {}).get('name', 'world')}"}


@worker.handler("count")
def count(run: horolog.Run) -> int:
    """Be a plain function: it runs in a thread."""
    started(run)
    return sum(range(1_000))


@worker.handler("flaky")
async def flaky(run: horolog.Run) -> None:
    """Fail the first attempt: the run is tried again."""
    started(run)
    if run.attempt == 1:
        raise RuntimeError("the first attempt always fails here")


@worker.handler("report")
async def report(run: horolog.Run) -> None:
    """Take longer than the schedule's interval: occurrences that fall due meanwhile are skipped, and recorded."""
    started(run)
    for step in range(1, 7):
        await asyncio.sleep(REPORT_SECONDS / 6)
        run.progress({"percent": round(100 * step / 6)})


if __name__ == "__main__":
    worker.run()
