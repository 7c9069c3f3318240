"""What one job counts for against the limits of its tenant and of its queue (DESIGN section 11).

*Pending* is what is accepted and neither with a worker nor ended: the next occurrence of a job that is active, and each
open run that no worker holds, whether it waits for a worker, for its retry, behind another run, or in a pause. So a
one-off job is pending until a worker has it, a recurring one as long as its schedule goes on. What later occurrences
there will be, and what is left of a backfill, stays implied and does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.core.state import JobState


def pending(state: JobState) -> int:
    """Return how much of a job is pending."""
    waiting = len(state.open) - leased(state)
    return waiting + 1 if state.next_at_ms is not None and state.status == "active" else waiting


def leased(state: JobState) -> int:
    """Return how many runs of a job workers hold."""
    count = 0
    for run in state.open:
        if run.lease is not None:
            count += 1
    return count
