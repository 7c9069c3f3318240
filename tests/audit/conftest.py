"""A clean run written by hand, with something in it for every invariant. Tests damage it in one place."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from streams.audit.journals import ClientCall, Execution, Fault, Faults, Journals
from streams.audit.scripted_log import GATEWAY, START_MS, ScriptedLog
from streams.core.commands import Complete, Define, LeaseRun, Reply
from streams.core.definition import Definition
from streams.core.events import (
    JobDefined,
    JobDeleted,
    JobEdited,
    JobPaused,
    JobResumed,
    LeaseExpired,
    LeaseGranted,
    LeaseReleased,
    OccurrencesSkipped,
    RunDied,
    RunFailed,
    RunOpened,
    RunRetried,
    RunSucceeded,
)
from streams.core.identity import run_id_at
from streams.core.state import FORGET_AFTER_MS, Lease
from streams.core.time import IntervalSpec, OneOffSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.envelopes import Cause
    from streams.core.events import AnyEvent

MINUTE_MS = 60_000
JOB = "tick"


def definition_of(job_id: str = JOB, **changes: object) -> Definition:
    fields: dict[str, object] = {
        "job_id": job_id,
        "tenant": "blue",
        "queue": "q",
        "name": job_id,
        "task": job_id,
        "schedule": IntervalSpec(every_ms=MINUTE_MS, anchor_ms=START_MS),
    }
    return Definition(**{**fields, **changes})  # type: ignore[arg-type]  # fields are checked by the struct's users


class Script:
    """Short hands for the events of job `tick`; times are milliseconds after START_MS."""

    def __init__(self) -> None:
        self.log = ScriptedLog()
        self.token = 0
        self.calls: list[ClientCall] = []
        self.executions: list[Execution] = []
        self.faults: list[Fault] = []
        self._ids = itertools.count(1)

    def define(self, definition: Definition, at: int, next_at: int | None) -> None:
        request = f"r{next(self._ids)}"
        at_ms = START_MS + at
        command = Define(job_id=definition.job_id, request_id=request, definition=definition, request_hash="h")
        cause = self.log.ask(command, Reply(code="created", job_id=definition.job_id), at_ms=at_ms)
        event = JobDefined(
            definition=definition,
            version=1,
            request_hash="h",
            at_ms=at_ms,
            next_at_ms=None if next_at is None else START_MS + next_at,
            zone_data="test",
        )
        self.log.decide(definition.job_id, event, at_ms=at_ms, cause=cause)
        self.calls.append(
            ClientCall(
                request_id=request,
                job_id=definition.job_id,
                name="Define",
                code="created",
                idempotency_key=f"key-{definition.job_id}",
                tenant="blue",
            )
        )

    def edit(self, definition: Definition, at: int, next_at: int | None, version: int) -> None:
        at_ms = START_MS + at
        event = JobEdited(
            definition=definition,
            version=version,
            request_hash=f"h{version}",
            at_ms=at_ms,
            next_at_ms=None if next_at is None else START_MS + next_at,
            previous_next_at_ms=None,
            zone_data="test",
        )
        self.log.decide(definition.job_id, event, at_ms=at_ms)

    def opened(
        self, slot: int, next_at: int | None, *, at: int | None = None, version: int = 1, missed: bool = False
    ) -> RunOpened:
        return RunOpened(
            run_id=self.run_id(slot),
            kind="schedule",
            scheduled_at_ms=START_MS + slot,
            due_at_ms=START_MS + slot,
            at_ms=START_MS + (slot if at is None else at),
            job_version=version,
            lane="normal",
            next_at_ms=None if next_at is None else START_MS + next_at,
            missed=missed,
        )

    def granted(self, slot: int, attempt: int, at: int) -> LeaseGranted:
        self.token += 1
        lease = Lease(
            lease_token=self.token,
            worker_id="w1",
            gateway_id=GATEWAY,
            request_id="",
            granted_at_ms=START_MS + at,
            visibility_ms=30_000,
            expires_at_ms=START_MS + at + 30_000,
        )
        return LeaseGranted(run_id=self.run_id(slot), attempt=attempt, lease=lease, at_ms=START_MS + at)

    def lease_cause(self, slot: int, at: int) -> Cause:
        command = LeaseRun(
            job_id=JOB,
            request_id=f"r{next(self._ids)}",
            run_id=self.run_id(slot),
            worker_id="w1",
            gateway_id=GATEWAY,
        )
        reply = Reply(code="granted", job_id=JOB)
        return self.log.ask(command, reply, at_ms=START_MS + at)

    def run(self, slot: int, next_at: int | None, *, version: int = 1, at: int | None = None) -> None:
        """Open, lease and complete one run at once."""
        at = slot if at is None else at
        cause = self.lease_cause(slot, at - 100)
        missed = at - slot > MINUTE_MS
        self.decide(
            self.opened(slot, next_at, version=version, at=at, missed=missed),
            self.granted(slot, 1, at),
            at=at,
            cause=cause,
        )
        self.execute(slot, 1, at + 20, at + 500)
        self.complete(slot, 1, at + 600)

    def execute(self, slot: int, attempt: int, start: int, end: int = 0) -> None:
        self.executions.append(
            Execution(
                run_id=self.run_id(slot),
                attempt=attempt,
                lease_token=self.token,
                worker_id="w1",
                scheduled_at_ms=START_MS + slot,
                started_at_ms=START_MS + start,
                ended_at_ms=START_MS + end if end else 0,
            )
        )

    def complete(self, slot: int, attempt: int, at: int) -> None:
        request = f"r{next(self._ids)}"
        run_id = self.run_id(slot)
        command = Complete(job_id=JOB, request_id=request, run_id=run_id, lease_token=self.token)
        cause = self.log.ask(command, Reply(code="ok", job_id=JOB), at_ms=START_MS + at)
        event = RunSucceeded(run_id=run_id, lease_token=self.token, attempt=attempt, at_ms=START_MS + at)
        self.decide(event, at=at, cause=cause)
        self.calls.append(
            ClientCall(
                request_id=request,
                job_id=JOB,
                name="Complete",
                code="ok",
                run_id=run_id,
                lease_token=self.token,
            )
        )

    def decide(self, *events: AnyEvent, at: int, cause: Cause | None = None) -> None:
        self.log.decide(JOB, *events, at_ms=START_MS + at, cause=cause)

    def skipped(self, reason: str, first: int, last: int, *, count: int, next_at: int, at: int) -> None:
        event = OccurrencesSkipped(
            reason=reason,  # type: ignore[arg-type]  # a literal at every call
            first_at_ms=START_MS + first,
            last_at_ms=START_MS + last,
            count=count,
            at_ms=START_MS + at,
            next_at_ms=START_MS + next_at,
        )
        self.decide(event, at=at)

    def run_id(self, slot: int) -> str:
        return run_id_at(JOB, START_MS + slot)

    @property
    def journals(self) -> Journals:
        return Journals(calls=tuple(self.calls), executions=tuple(self.executions))

    @property
    def all_faults(self) -> Faults:
        return Faults(faults=tuple(self.faults))


def _retries(script: Script) -> None:
    """Minute 2: failed once, then released once, then expired once, then done."""
    slot = 2 * MINUTE_MS
    run_id = script.run_id(slot)
    script.decide(script.opened(slot, 3 * MINUTE_MS), script.granted(slot, 1, slot), at=slot)
    script.execute(slot, 1, slot + 10, slot + 900)
    at = slot + 1_000
    script.decide(
        RunFailed(run_id=run_id, lease_token=script.token, attempt=1, error="no", retryable=True, at_ms=START_MS + at),
        RunRetried(run_id=run_id, due_at_ms=START_MS + at + 500, at_ms=START_MS + at),
        at=at,
    )
    script.decide(script.granted(slot, 2, at + 600), at=at + 600)
    script.decide(
        LeaseReleased(run_id=run_id, lease_token=script.token, reason="nobody", at_ms=START_MS + at + 700),
        at=at + 700,
    )
    script.decide(script.granted(slot, 2, at + 800), at=at + 800)
    script.execute(slot, 2, at + 900)
    script.faults.append(Fault(kind="worker_kill", from_ms=START_MS + at + 950, to_ms=START_MS + at + 950))
    at += 31_000
    script.decide(
        LeaseExpired(
            run_id=run_id,
            lease_token=script.token,
            attempt=2,
            at_ms=START_MS + at,
            expires_at_ms=START_MS + at - 100,
            heartbeat_at_ms=START_MS + at - 31_000,
            takeover_at_ms=START_MS,
            consumed_to_ms=START_MS + at,
            counted=True,
        ),
        RunRetried(run_id=run_id, due_at_ms=START_MS + at, at_ms=START_MS + at),
        at=at,
    )
    script.decide(script.granted(slot, 3, at + 100), at=at + 100)
    script.execute(slot, 3, at + 110, at + 400)
    script.complete(slot, 3, at + 500)


def _died(script: Script) -> None:
    """Minute 3: its only failure is final."""
    slot = 3 * MINUTE_MS
    run_id = script.run_id(slot)
    script.decide(script.opened(slot, 4 * MINUTE_MS), script.granted(slot, 1, slot), at=slot)
    script.execute(slot, 1, slot + 10, slot + 900)
    at_ms = START_MS + slot + 1_000
    script.decide(
        RunFailed(run_id=run_id, lease_token=script.token, attempt=1, error="no", retryable=False, at_ms=at_ms),
        RunDied(run_id=run_id, attempt=1, reason="not_retryable", error="no", at_ms=at_ms),
        at=slot + 1_000,
    )


@pytest.fixture
def script() -> Script:
    """Give the clean run: 20 minutes of a minutely job, one absence of five minutes, a pause, an edit, a delete."""
    script = Script()
    script.log.mark(at_ms=START_MS)
    script.define(definition_of(), 30_000, MINUTE_MS)
    script.define(definition_of("late", schedule=OneOffSpec(at_ms=START_MS - 5_000)), 31_000, -5_000)
    _run_late(script)
    script.run(MINUTE_MS, 2 * MINUTE_MS)
    script.log.idle(from_ms=START_MS + MINUTE_MS + 10_000, to_ms=START_MS + 2 * MINUTE_MS - 1)
    _retries(script)
    _died(script)
    script.log.idle(from_ms=START_MS + 3 * MINUTE_MS + 10_000, to_ms=START_MS + 4 * MINUTE_MS - 10_000)
    script.run(4 * MINUTE_MS, 5 * MINUTE_MS)
    # Absent from 4:00.6 to 9:30: minutes 5 to 8 are skipped, 9 runs.
    at = 9 * MINUTE_MS + 30_000
    script.log.take_over(at_ms=START_MS + at)
    script.skipped("catch_up", 5 * MINUTE_MS, 8 * MINUTE_MS, count=4, next_at=9 * MINUTE_MS, at=at + 10)
    script.run(9 * MINUTE_MS, 10 * MINUTE_MS, at=at + 20 + MINUTE_MS // 2 + 1)
    return _second_half(script)


def _run_late(script: Script) -> None:
    """A one-off whose time is past when it is defined."""
    at_ms = START_MS + 31_050
    run_id = run_id_at("late", START_MS - 5_000)
    opened = RunOpened(
        run_id=run_id,
        kind="schedule",
        scheduled_at_ms=START_MS - 5_000,
        due_at_ms=START_MS - 5_000,
        at_ms=at_ms,
        job_version=1,
        lane="normal",
    )
    lease = Lease(
        lease_token=1,
        worker_id="w1",
        gateway_id=GATEWAY,
        request_id="",
        granted_at_ms=at_ms,
        visibility_ms=30_000,
        expires_at_ms=at_ms + 30_000,
    )
    script.log.decide("late", opened, LeaseGranted(run_id=run_id, attempt=1, lease=lease, at_ms=at_ms), at_ms=at_ms)
    script.log.decide("late", RunSucceeded(run_id=run_id, lease_token=1, attempt=1, at_ms=at_ms + 50), at_ms=at_ms + 50)


def _second_half(script: Script) -> Script:
    log = script.log
    pause_at, resume_at = 10 * MINUTE_MS + 30_000, 12 * MINUTE_MS + 30_000
    log.idle(from_ms=START_MS + 9 * MINUTE_MS + 40_000, to_ms=START_MS + 10 * MINUTE_MS - 1)
    script.run(10 * MINUTE_MS, 11 * MINUTE_MS, at=10 * MINUTE_MS + 3_000)
    script.decide(JobPaused(actor="ann", note="", until_ms=0, at_ms=START_MS + pause_at), at=pause_at)
    log.idle(from_ms=START_MS + pause_at + 10_000, to_ms=START_MS + resume_at - 1)
    script.skipped("paused", 11 * MINUTE_MS, 12 * MINUTE_MS, count=2, next_at=13 * MINUTE_MS, at=resume_at)
    script.decide(
        JobResumed(actor="ann", note="", at_ms=START_MS + resume_at, next_at_ms=START_MS + 13 * MINUTE_MS),
        at=resume_at,
    )
    edited = definition_of(schedule=IntervalSpec(every_ms=2 * MINUTE_MS, anchor_ms=START_MS))
    log.idle(from_ms=START_MS + resume_at + 10_000, to_ms=START_MS + 13 * MINUTE_MS - 1)
    script.run(13 * MINUTE_MS, 14 * MINUTE_MS)
    script.edit(edited, 13 * MINUTE_MS + 30_000, 14 * MINUTE_MS, 2)
    script.run(14 * MINUTE_MS, 16 * MINUTE_MS, version=2)
    log.idle(from_ms=START_MS + 14 * MINUTE_MS + 10_000, to_ms=START_MS + 16 * MINUTE_MS - 1)
    script.run(16 * MINUTE_MS, 18 * MINUTE_MS, version=2)
    gone_at = 17 * MINUTE_MS
    log.idle(from_ms=START_MS + 16 * MINUTE_MS + 10_000, to_ms=START_MS + gone_at - 1)
    deleted = JobDeleted(
        version=3, actor="ann", at_ms=START_MS + gone_at, forget_at_ms=START_MS + gone_at + FORGET_AFTER_MS
    )
    script.decide(deleted, at=gone_at)
    log.idle(from_ms=START_MS + gone_at + 10_000, to_ms=START_MS + 20 * MINUTE_MS)
    return script


@pytest.fixture
def make_definition() -> Callable[..., Definition]:
    """Give the maker of definitions."""
    return definition_of
