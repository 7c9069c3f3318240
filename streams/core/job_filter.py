"""Which jobs a list shows: one predicate for the owner that reads its store and the gateway that asks it. Pure.

`matches_state` needs the state alone, so that a definition is decoded only for jobs that pass it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from streams.core.definition import Definition
from streams.core.state import Job, JobState

JobStanding = Literal["active", "paused", "finished", "deleted"]


class JobFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Empty members ask for nothing. Without `standing` everything but deleted jobs is meant."""

    tenant: str = ""
    queue: str = ""
    standing: JobStanding | Literal[""] = ""
    name_prefix: str = ""
    text: str = ""
    """Somewhere in the name, the task or the job id, in any case of letters."""
    labels: dict[str, str] = {}
    """All of them."""
    calendar: str = ""
    """One of the calendars that the job names."""
    next_from_ms: int | None = None
    """The next occurrence is at or after it (epoch ms) ..."""
    next_until_ms: int | None = None
    """... and before it."""
    runs: Literal["", "any", "dead"] = ""
    """Jobs whose state holds a run, or a dead one."""
    key: str = ""
    """Jobs on which this idempotency key was used match too, whatever became of them."""

    def matches_state(self, state: JobState) -> bool:
        """Judge what the state alone can tell."""
        if self.tenant and state.tenant != self.tenant:
            return False
        return self.knows(state) or self._matches_rest(state)

    def _matches_rest(self, state: JobState) -> bool:
        if self.queue and state.queue != self.queue:
            return False
        if self.calendar and not any(used.rpartition("@")[0] == self.calendar for used in state.calendars.split(",")):
            return False
        if self.runs and not (state.dead or (self.runs == "any" and (state.open or state.closed))):
            return False
        standing = standing_of(state)
        if standing != self.standing if self.standing else standing == "deleted" and not self.runs:
            return False
        return self._matches_time(state.next_at_ms)

    def knows(self, state: JobState) -> bool:
        """Whether the key was used on the job, so that nothing else is asked."""
        return bool(self.key) and any(use.key == self.key for use in state.keys)

    def _matches_time(self, next_at_ms: int | None) -> bool:
        if self.next_from_ms is None and self.next_until_ms is None:
            return True
        if next_at_ms is None:
            return False
        late_enough = self.next_from_ms is None or next_at_ms >= self.next_from_ms
        return late_enough and (self.next_until_ms is None or next_at_ms < self.next_until_ms)

    @property
    def reads_definition(self) -> bool:
        """Whether `matches_definition` can refuse anything."""
        return bool(self.name_prefix or self.text or self.labels)

    def matches_definition(self, definition: Definition | None) -> bool:
        """Judge the rest. A deleted job has no definition and matches no text."""
        if definition is None:
            return not self.reads_definition
        own = definition.labels
        if any(own.get(key) != value for key, value in self.labels.items()):
            return False
        if not definition.name.startswith(self.name_prefix):
            return False
        wanted = self.text.casefold()
        return not wanted or any(
            wanted in text.casefold() for text in (definition.name, definition.task, definition.job_id)
        )

    def matches(self, job: Job) -> bool:
        """Judge a whole job."""
        if not self.matches_state(job.state):
            return False
        return self.knows(job.state) or self.matches_definition(job.definition)


def standing_of(state: JobState) -> JobStanding:
    """Return where a job stands, as people are told."""
    if state.status != "active":
        return state.status
    return "paused" if state.pause is not None else "active"
