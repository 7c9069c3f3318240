"""What the demo's worker wrote down, read as it grows: one row an attempt, and all executions for the checker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from streams.audit.journals import Execution

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt whose outcome is confirmed. `outcome` is `complete`, `fail` or `release`."""

    run_id: str
    job_id: str
    scheduled_ms: int
    started_ms: int
    attempt: int
    worker: str
    outcome: str

    @property
    def late_ms(self) -> int:
        """Handler start minus scheduled instant."""
        return self.started_ms - self.scheduled_ms


class Journal:
    """Follows one worker's output file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._started: dict[tuple[str, int], dict[str, Any]] = {}

    def new(self) -> list[Attempt]:
        """Give the attempts that ended since the last call, in the order of their ends."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data.rpartition(b"\n")[0]
        self._offset += len(whole) + 1 if whole else 0
        return [row for line in whole.splitlines() if (row := self._take(json.loads(line))) is not None]

    def _take(self, line: dict[str, Any]) -> Attempt | None:
        key = (line["runId"], line["attempt"])
        if line["what"] == "started":
            self._started[key] = line
            return None
        begun = self._started.pop(key, None)
        if begun is None:
            return None
        return Attempt(
            run_id=line["runId"],
            job_id=begun["jobId"],
            scheduled_ms=begun["scheduledMs"],
            started_ms=begun["atMs"],
            attempt=line["attempt"],
            worker=begun["worker"],
            outcome=line["outcome"],
        )


def executions(paths: Iterable[Path]) -> tuple[Execution, ...]:
    """Give every execution of these workers, for the audit."""
    found: list[Execution] = []
    for path in paths:
        ends: dict[tuple[str, int], int] = {}
        lines = [json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b"}")]
        for line in lines:
            if line["what"] == "finished":
                ends[line["runId"], line["attempt"]] = line["atMs"]
        found.extend(
            Execution(
                run_id=line["runId"],
                attempt=line["attempt"],
                lease_token=line["leaseToken"],
                worker_id=line["worker"],
                scheduled_at_ms=line["scheduledMs"],
                started_at_ms=line["atMs"],
                ended_at_ms=ends.get((line["runId"], line["attempt"]), 0),
            )
            for line in lines
            if line["what"] == "started"
        )
    return tuple(found)
