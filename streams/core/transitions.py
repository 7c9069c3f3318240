"""The state machines of a job and of a run as data: which event leads from which state to which.

`apply` is the code of these machines, docs/state-diagram.md their picture. Tests hold the three together: the diagram
has exactly these edges, and no event that `decide` emits takes another one. "none" stands for a job or run that does
not exist. `ended` exists inside one decision only: the attempt is over, the verdict is the next event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from streams.core.state import Job, OpenRun

NONE: Final = "none"
"""No record."""


class Edge(NamedTuple):
    """One allowed change."""

    before: str
    event: str
    after: str


RUN_EDGES: Final = frozenset(
    Edge(before, event, after)
    for before, event, after in (
        (NONE, "RunOpened", "ready"),
        (NONE, "RunOpened", "held"),
        ("held", "RunUnheld", "ready"),
        ("held", "RunSkipped", "skipped"),
        ("held", "RunCancelled", "cancelled"),
        ("ready", "LeaseGranted", "leased"),
        ("ready", "RunSkipped", "skipped"),
        ("ready", "RunCancelled", "cancelled"),
        ("leased", "LeaseRenewed", "leased"),
        ("leased", "LeaseReleased", "ready"),
        ("leased", "RunSucceeded", "succeeded"),
        ("leased", "RunFailed", "ended"),
        ("leased", "LeaseExpired", "ended"),
        ("leased", "RunCancelRequested", "cancelling"),
        ("cancelling", "LeaseRenewed", "cancelling"),
        ("cancelling", "RunSucceeded", "succeeded"),
        ("cancelling", "LeaseExpired", "ended"),
        ("cancelling", "RunCancelled", "cancelled"),
        ("ended", "RunRetried", "ready"),
        ("ended", "RunDied", "dead"),
        ("ended", "RunCancelled", "cancelled"),
        ("dead", "DeadRunReplayed", "replayed"),
    )
)

JOB_EDGES: Final = frozenset(
    Edge(before, event, after)
    for before, event, after in (
        (NONE, "JobDefined", "active"),
        ("deleted", "JobDefined", "active"),
        ("active", "JobEdited", "active"),
        ("paused", "JobEdited", "paused"),
        ("finished", "JobEdited", "active"),
        ("active", "JobPaused", "paused"),
        ("paused", "JobPaused", "paused"),
        ("paused", "JobResumed", "active"),
        ("active", "JobFinished", "finished"),
        ("paused", "JobFinished", "finished"),
        ("finished", "RunOpened", "active"),
        ("finished", "BackfillStarted", "active"),
        ("active", "JobDeleted", "deleted"),
        ("paused", "JobDeleted", "deleted"),
        ("finished", "JobDeleted", "deleted"),
        ("finished", "JobForgotten", NONE),
        ("deleted", "JobForgotten", NONE),
    )
)
"""Other events leave the job's state as it is."""


def job_state(job: Job | None) -> str:
    """Return the state of a job in this machine."""
    if job is None:
        return NONE
    if job.state.status == "active" and job.state.pause is not None:
        return "paused"
    return job.state.status


def run_state(job: Job | None, run_id: str) -> str:
    """Return the state of a run in this machine; `none` once it is no longer remembered."""
    if job is None:
        return NONE
    run = job.run(run_id)
    if run is not None:
        return _open_state(run)
    if any(dead.run_id == run_id for dead in job.state.dead):
        return "dead"
    closed = job.closed_run(run_id)
    if closed is None:
        return NONE
    return "replayed" if closed.outcome == "dead" else closed.outcome


def _open_state(run: OpenRun) -> str:
    if run.ended_by in ("failing", "expiring"):
        return "ended"
    if run.lease is not None:
        return "cancelling" if run.cancel_requested_at_ms else "leased"
    return "held" if run.held else "ready"
