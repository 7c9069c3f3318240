"""History arranged for judging: what happened to each job and each run, in log order.

A job's partition never changes, so offset order is the order of its life. A job that was forgotten (24 h after its
end) may be created anew; each such life is a story of its own, since run ids and tokens may then begin again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import tzdata  # type: ignore[import-untyped]  # no stubs; one constant is read

from streams.core import events as ev

if TYPE_CHECKING:
    from streams.audit.log_view import LogView
    from streams.core.definition import Definition
    from streams.core.envelopes import Cause


class Happening(msgspec.Struct, frozen=True):
    """One event and where it stands."""

    event: ev.Event
    partition: int
    offset: int
    timestamp_ms: int
    """LogAppendTime of its record."""
    now_ms: int
    """Broker time as its decision saw it."""
    seq: int
    generation: int
    cause: Cause
    config_offset: int = 0
    """What the decision knew of topic `config`."""
    other_zone_data: bool = False
    """Decided under other zone data than the oracle has, in a log that holds both."""


class RunStory:
    """Everything about one run. `definition` is the job's at the moment of opening."""

    def __init__(self, run_id: str, job: JobStory, definition: Definition | None) -> None:
        self.run_id = run_id
        self.job = job
        self.definition = definition
        self.happenings: list[Happening] = []

    @property
    def opened(self) -> ev.RunOpened | None:
        """The opening; None where the log begins after it."""
        first = self.happenings[0].event
        return first if isinstance(first, ev.RunOpened) else None


class JobStory:
    """One life of one job. `whole` is False where the log begins in the middle of it."""

    def __init__(self, job_id: str, *, whole: bool) -> None:
        self.job_id = job_id
        self.whole = whole
        self.happenings: list[Happening] = []
        self.runs: dict[str, RunStory] = {}
        self.definition: Definition | None = None
        """The newest accepted one, also after a deletion."""

    def add(self, happening: Happening) -> None:
        """Take the next event of this life."""
        event = happening.event
        if isinstance(event, ev.JobDefined | ev.JobEdited | ev.JobCheckpoint):
            self.definition = event.definition or self.definition
        self.happenings.append(happening)
        run_id = run_id_of(event)
        if run_id:
            run = self.runs.get(run_id)
            if run is None:
                run = self.runs[run_id] = RunStory(run_id, self, self.definition)
            run.happenings.append(happening)


def run_id_of(event: ev.Event) -> str:
    """Give the run that an event is about; empty for events of the job alone."""
    return getattr(event, "run_id", "")


def tell(view: LogView) -> list[JobStory]:
    """Arrange all history. Stories are in the order of their first event."""
    stories: list[JobStory] = []
    current: dict[str, JobStory] = {}
    versions = {item.entry.zone_data for item in view.history}
    for item in view.history:
        entry, record = item.entry, item.record
        for event in entry.events:
            story = current.get(entry.job_id)
            if story is None:
                story = JobStory(entry.job_id, whole=isinstance(event, ev.JobDefined))
                current[entry.job_id] = story
                stories.append(story)
            story.add(
                Happening(
                    event,
                    record.partition,
                    record.offset,
                    record.timestamp_ms,
                    entry.now_ms,
                    entry.seq,
                    entry.generation,
                    entry.cause,
                    entry.config_offset,
                    len(versions) > 1 and entry.zone_data != tzdata.IANA_VERSION,
                )
            )
            if isinstance(event, ev.JobForgotten):
                del current[entry.job_id]
    return stories


class Tenure(msgspec.Struct):
    """One lease from its grant to the event that ended it; `ended` is None while it lives."""

    granted: Happening
    grant: ev.LeaseGranted
    ended: Happening | None = None

    @property
    def token(self) -> int:
        """The lease token."""
        return self.grant.lease.lease_token


ENDINGS = (ev.LeaseReleased, ev.LeaseExpired, ev.RunSucceeded, ev.RunFailed, ev.RunCancelled)
"""The events that end a lease, under the token that they carry."""


def tenures(run: RunStory) -> list[Tenure]:
    """Give the leases of a run in the order of their grants; each ends at the first event that carries its token."""
    found: list[Tenure] = []
    for happening in run.happenings:
        event = happening.event
        if isinstance(event, ev.LeaseGranted):
            found.append(Tenure(happening, event))
        elif isinstance(event, ENDINGS):
            for tenure in found:
                if tenure.ended is None and tenure.token == event.lease_token:
                    tenure.ended = happening
                    break
    return found


OUTCOMES = (ev.RunSucceeded, ev.RunDied, ev.RunSkipped, ev.RunCancelled)
"""The events that end a run."""


def outcome_of(run: RunStory) -> Happening | None:
    """Give the first event that ended the run."""
    for happening in run.happenings:
        if isinstance(happening.event, OUTCOMES):
            return happening
    return None
