"""Hold a job that opens runs faster than any schedule can explain (D20): a second line behind the rules of time.

Whole seconds are the finest that a schedule can say, so occurrences of one job lie a second apart, be they in time,
late, or caught up. `apply` already refuses a cursor that stands still or goes back. What is left is a schedule that
is computed wrong and gives instants too close to each other: it would flood its queue with runs that are all distinct.
So the guard looks at how close the occurrences opened last lie, and needs nothing that the state does not hold anyway.
Triggers, backfills, replays and retries are not occurrences of the schedule and have bounds of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.core.events import JobPaused

if TYPE_CHECKING:
    from streams.core.decide_draft import Draft
    from streams.core.state import JobState

RATE_GUARD_ACTOR: Final = "system:rate_guard"
"""Who paused the job, as explain, lists and the metric know it."""

RATE_GUARD_WINDOW_MS: Final = 5_000
"""Of the schedule's own time: long enough that a jitter of almost a second adds little."""

RATE_GUARD_SLOTS_MAX: Final = 10
"""Occurrences within one window: two a second, where a right schedule has five, and six or seven with jitter. Fewer
than the closed runs that a state remembers (CLOSED_RUNS_MAX), so that runs which end at once are seen too."""

_NOTE: Final = (
    f"over {RATE_GUARD_SLOTS_MAX} scheduled runs within {RATE_GUARD_WINDOW_MS // 1000} s, where a schedule has one a "
    "second at most: the schedule is computed wrong. Compare the job's preview with its runs, report it, edit the "
    "schedule or wait for a corrected release, then resume the job"
)


def trips(state: JobState) -> bool:
    """Tell whether the occurrence at the cursor would be one too many in its window.

    What was opened before the last edit does not count: another schedule has another phase.
    """
    at_ms = state.next_at_ms
    if at_ms is None:
        return False
    from_ms = max(at_ms - RATE_GUARD_WINDOW_MS, state.updated_at_ms)
    if state.decided_to_ms <= from_ms:
        return False  # nearly always: the last occurrence is long ago
    near = {
        run.run_id
        for runs in (state.open, state.closed, state.dead)
        for run in runs
        if run.kind == "schedule" and run.scheduled_at_ms > from_ms
    }
    return len(near) >= RATE_GUARD_SLOTS_MAX


def hold(draft: Draft) -> None:
    """Pause the job until a person resumes it: nothing more is opened, and nothing open is leased."""
    draft.emit(JobPaused(actor=RATE_GUARD_ACTOR, note=_NOTE, until_ms=0, at_ms=draft.now_ms))
