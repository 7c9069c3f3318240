"""A decision in the making: the events so far, and the job as it is after them.

`decide` is pure: it changes nothing that it was given. Inside one call, a `Draft` folds each event with the same
`apply` that the owner uses, so that the second event of a decision is judged on the state after the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core.apply import apply
from streams.core.context import Context, Decision
from streams.core.decide_cursor import settle_excluded, waits_for_calendars
from streams.core.events import (
    JobFinished,
    RunCancelled,
    RunCancelRequested,
    RunUnheld,
)
from streams.core.overlap import concurrency_limit, live_runs
from streams.core.state import FORGET_AFTER_MS, Job, JobState, OpenRun

if TYPE_CHECKING:
    from streams.core.commands import Grant, Reply
    from streams.core.definition import Definition
    from streams.core.events import AnyEvent

NOTE_CHARS_MAX = 500
"""Of actors, notes and reasons: they are repeated in events and stand in the state."""


class Draft:
    """Events of one decision, folded as they are emitted."""

    __slots__ = ("_job", "context", "events")

    def __init__(self, job: Job | None, context: Context) -> None:
        self._job = job
        self.context = context
        self.events: list[AnyEvent] = []

    @property
    def job(self) -> Job:
        """The job after the events so far."""
        if self._job is None:
            raise ValueError("the draft has no job yet")
        return self._job

    @property
    def state(self) -> JobState:
        """Its state."""
        return self.job.state

    @property
    def definition(self) -> Definition:
        """Its definition; asked for only where the job is not deleted."""
        definition = self.job.definition
        if definition is None:
            raise ValueError(f"job {self.job.state.job_id} is deleted and has no definition")
        return definition

    @property
    def now_ms(self) -> int:
        """The instant of the decision."""
        return self.context.now_ms

    def emit(self, event: AnyEvent) -> None:
        """Add an event and fold it."""
        self.events.append(event)
        self._job = apply(self._job, event)

    def decision(self, reply: Reply | Grant | None = None, *, park_until_ms: int = 0, wake_at_ms: int = 0) -> Decision:
        """Close the draft."""
        if not self.events:
            return Decision(reply=reply, park_until_ms=park_until_ms, wake_at_ms=wake_at_ms)
        return Decision(
            events=tuple(self.events),
            reply=reply,
            park_until_ms=park_until_ms,
            wake_at_ms=wake_at_ms,
            job_after=self._job,
        )


def release_held(draft: Draft) -> None:
    """Let queued runs go, oldest first, while the overlap policy has room (RunUnheld)."""
    if draft.job.definition is None or not any(run.held for run in draft.state.open):
        return
    room = concurrency_limit(draft.definition, draft.context.open_runs_max)
    room -= sum(1 for run in live_runs(draft.state) if not run.held)
    for run in draft.state.open:
        if room <= 0:
            return
        if run.held:
            draft.emit(RunUnheld(run_id=run.run_id, at_ms=draft.now_ms))
            room -= 1


def finish_if_done(draft: Draft) -> None:
    """End a job that has nothing left to do; its record stays for a while (DESIGN section 5)."""
    state = draft.state
    if state.status != "active" or state.next_at_ms is not None or state.open or state.backfills:
        return
    if draft.definition.calendars:
        settle_excluded(draft)
        if waits_for_calendars(draft):
            return
    draft.emit(JobFinished(at_ms=draft.now_ms, forget_at_ms=draft.now_ms + FORGET_AFTER_MS))


def cancel_run(draft: Draft, run: OpenRun, *, actor: str, reason: str) -> None:
    """End an unleased run now, or ask the worker of a leased one to stop; nothing where it was asked already."""
    if run.lease is None:
        draft.emit(RunCancelled(run_id=run.run_id, lease_token=0, actor=actor, reason=reason, at_ms=draft.now_ms))
    elif not run.cancel_requested_at_ms:
        draft.emit(RunCancelRequested(run_id=run.run_id, actor=actor, reason=reason, at_ms=draft.now_ms))
