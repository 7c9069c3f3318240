"""The one error of `apply`: an event that does not fit the state it meets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.core.events import AnyEvent
    from streams.core.state import Job


class IllegalEvent(Exception):  # noqa: N818 - named in the contract; it is a verdict on the event
    """Carries the event, the job's id and status, and what would have been legal."""

    def __init__(self, job: Job | None, event: AnyEvent, expected: str) -> None:
        self.job_id = None if job is None else job.state.job_id
        self.event = event
        self.expected = expected
        where = "no job" if job is None else f"job {job.state.job_id} ({job.state.status}, v{job.state.version})"
        super().__init__(f"{type(event).__name__} does not fit {where}: expected {expected}; event: {event!r}"[:2000])
