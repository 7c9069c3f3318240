"""Which open runs stand in each other's way: the arithmetic of the overlap policies, without any decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streams.core.definition import Definition
    from streams.core.state import Backfill, JobState, OpenRun

LIVE_KINDS: Final = ("schedule", "trigger")
"""Backfills and replays have their own limits and do not make a scheduled run wait (C20)."""


def live_runs(state: JobState) -> list[OpenRun]:
    """Return the open runs that overlap is judged on, oldest first; held ones too."""
    return [run for run in state.open if run.kind in LIVE_KINDS]


def concurrency_limit(definition: Definition, open_runs_max: int) -> int:
    """Return how many of them may be going at once: one, except under `allow` (0 there: the open-run bound)."""
    if definition.overlap != "allow":
        return 1
    return definition.concurrent_runs_max or open_runs_max


def backfill_runs_open(state: JobState, backfill: Backfill) -> int:
    """Return how many open runs a backfill has."""
    prefix = f"run_{state.job_id}_{backfill.backfill_id}."
    return sum(1 for run in state.open if run.kind == "backfill" and run.run_id.startswith(prefix))


def backfill_due_ms(backfill: Backfill) -> int:
    """Return the instant of the next opening: now (its slot lies in the past) unless the rate says later."""
    if not backfill.interval_ms or not backfill.opened_last_at_ms:
        return backfill.cursor_at_ms
    return max(backfill.cursor_at_ms, backfill.opened_last_at_ms + backfill.interval_ms)


def backfill_can_open(state: JobState, backfill: Backfill, open_runs_max: int) -> bool:
    """Tell whether a backfill has room for its next slot; `backfill_due_ms` tells when that may be opened."""
    if state.pause is not None or len(state.open) >= open_runs_max:
        return False
    return backfill_runs_open(state, backfill) < backfill.concurrent_runs_max
