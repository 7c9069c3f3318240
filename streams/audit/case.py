"""What every invariant is given: the log, its stories, the journals, the faults and the limits, all read-only."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from streams.audit.calendars import CalendarOracle
from streams.audit.stories import JobStory, RunStory, Tenure, tell, tenures
from streams.core.commands import LeaseRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.audit.journals import Faults, Journals, Limits
    from streams.audit.log_view import LogView


class Case:
    """One finished run under judgement."""

    def __init__(self, view: LogView, journals: Journals, faults: Faults, limits: Limits) -> None:
        self.view = view
        self.journals = journals
        self.faults = faults
        self.limits = limits

    @cached_property
    def calendars(self) -> CalendarOracle:
        """What calendars exclude, by the records of this log."""
        return CalendarOracle(self.view)

    @cached_property
    def stories(self) -> list[JobStory]:
        """All jobs' lives."""
        return tell(self.view)

    @cached_property
    def runs(self) -> list[RunStory]:
        """All runs of all lives."""
        return [run for story in self.stories for run in story.runs.values()]

    @cached_property
    def runs_by_id(self) -> dict[str, list[RunStory]]:
        """Runs by their id; more than one only where a job was forgotten and created anew."""
        found: dict[str, list[RunStory]] = {}
        for run in self.runs:
            found.setdefault(run.run_id, []).append(run)
        return found

    @cached_property
    def asked_versions(self) -> dict[tuple[int, int, int], int]:
        """Give the job version that each lease request named, by partition, offset and index; 0 is any."""
        return {
            (item.record.partition, item.record.offset, index): command.job_version
            for item in self.view.commands
            for index, command in enumerate(item.batch.commands)
            if isinstance(command, LeaseRun)
        }

    @cached_property
    def _tenures(self) -> dict[int, list[Tenure]]:
        return {id(run): tenures(run) for run in self.runs}

    def tenures(self, run: RunStory) -> list[Tenure]:
        """Give the leases of a run."""
        return self._tenures[id(run)]

    def each_tenure(self) -> Iterator[tuple[RunStory, Tenure]]:
        """Give every lease of the log."""
        for run in self.runs:
            for tenure in self.tenures(run):
                yield run, tenure
