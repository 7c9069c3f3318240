"""Random commands, clock steps and repeats against one job: the promises of DESIGN section 15 hold whatever happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from streams.core import decide_due, decide_lease, decide_wake
from streams.core.apply import IllegalEvent, apply
from streams.core.commands import (
    CancelRun,
    Complete,
    Define,
    Delete,
    Fail,
    Grant,
    Heartbeat,
    LeaseRun,
    Pause,
    Release,
    ReplayRun,
    Reply,
    Resume,
    SkipSlot,
    StartBackfill,
    StopBackfill,
    Trigger,
    Wake,
)
from streams.core.deadline import deadline_ms, ready_runs, upcoming
from streams.core.decide import decide
from streams.core.decide_schedule import same_schedule, schedule_of
from streams.core.definition import Retry
from streams.core.events import (
    JobDefined,
    JobDeleted,
    JobEdited,
    JobForgotten,
    LeaseExpired,
    LeaseGranted,
    LeaseReleased,
    OccurrencesSkipped,
    RunCancelled,
    RunDied,
    RunFailed,
    RunOpened,
    RunRetried,
    RunSkipped,
    RunSucceeded,
    RunUnheld,
)
from streams.core.manual import ManualOwner
from streams.core.state import CLOSED_RUNS_MAX, DEAD_RUNS_MAX, Job
from streams.core.time import CronSpec, IntervalSpec, OneOffSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.commands import AnyCommand
    from streams.core.context import Decision
    from streams.core.definition import Definition
    from streams.core.events import AnyEvent

T = 1_798_761_600_000
OPEN_RUNS_MAX = 6
STATE_BYTES_MAX = 64 * 1024
WAKES_AT_ONCE_MAX = 60

SCHEDULES = st.one_of(
    st.just(IntervalSpec(every_ms=60_000, anchor_ms=0)),
    st.just(IntervalSpec(every_ms=300_000, anchor_ms=17)),
    st.just(CronSpec(expression="*/7 * * * *")),
    st.just(CronSpec(expression="0 9 * * *", time_zone="America/New_York")),
    st.integers(T - 3_600_000, T + 7_200_000).map(OneOffSpec),
)
FIELDS = st.fixed_dictionaries(
    {
        "schedule": SCHEDULES,
        "overlap": st.sampled_from(["allow", "skip", "queue", "replace"]),
        "catch_up": st.sampled_from(["latest", "all", "none"]),
        "concurrent_runs_max": st.sampled_from([0, 1, 2]),
        "start_deadline_ms": st.sampled_from([0, 0, 90_000]),
        "timeout_ms": st.sampled_from([0, 0, 45_000]),
        "max_runs": st.sampled_from([0, 0, 0, 5]),
        "retry": st.sampled_from([Retry(), Retry(max_attempts=2), Retry(backoff="none"), Retry(backoff="fixed")]),
        "payload": st.sampled_from([b"", b"a"]),
    }
)
STEPS = st.sampled_from([0, 1, 10, 999, 5_000, 30_001, 60_000, 61_000, 300_000, 1_800_000, 86_400_000])


class Accounts:
    """What the log must add up to: the cursor walked along an independent iteration, and who holds what."""

    def __init__(self, owner: ManualOwner) -> None:
        self.owner = owner
        self.forget()

    def forget(self) -> None:
        """Begin anew: the job's record is gone, and with it its memory of versions, tokens and runs."""
        self.definition: Definition | None = None
        self.pointer: int | None = None
        self.decided_to_ms = 0
        self.opened = 0
        self.token = 0
        self.live: dict[str, int] = {}
        self.due: dict[str, int] = {}
        self.succeeded: set[str] = set()
        self.runs: set[str] = set()
        self.going: set[str] = set()
        self.gap = (0, 0)

    def note(self, event: AnyEvent, now_ms: int) -> None:  # noqa: C901, PLR0912 - one flat table of events
        if isinstance(event, RunSucceeded | RunDied | RunSkipped | RunCancelled):
            self.going.discard(event.run_id)
        match event:
            case JobDefined() | JobEdited():
                self._defined(event, now_ms)
            case JobForgotten():
                assert self.live == {}
                self.forget()
            case JobDeleted():
                assert self.pointer is None or self.pointer > now_ms
                self.pointer = None
            case RunOpened():
                self._opened(event, now_ms)
            case OccurrencesSkipped() if event.reason not in ("gap", "calendar"):
                self._skipped(event, now_ms)
            case LeaseGranted():
                self._granted(event, now_ms)
            case RunUnheld():
                self._goes(event.run_id)
            case LeaseExpired():
                assert self.live.pop(event.run_id) == event.lease_token
                self._expired(event, now_ms)
            case LeaseReleased() | RunFailed():
                assert self.live.pop(event.run_id) == event.lease_token
            case RunCancelled():
                self.live.pop(event.run_id, None)
            case RunRetried():
                self.due[event.run_id] = event.due_at_ms
            case RunSucceeded():
                assert self.live.pop(event.run_id) == event.lease_token
                assert event.run_id not in self.succeeded
                self.succeeded.add(event.run_id)

    def _next(self, after_ms: int) -> int | None:
        assert self.definition is not None
        if self.definition.max_runs and self.opened >= self.definition.max_runs:
            return None
        found = schedule_of(self.definition, self.owner.context()).next_after(after_ms)
        return None if found is None else found.at_ms

    def _defined(self, event: JobDefined | JobEdited, now_ms: int) -> None:
        before, self.definition = self.definition, event.definition
        self.gap = (0, 0)
        if isinstance(event, JobDefined):
            self.opened = 0
        elif before is not None and same_schedule(before, event.definition):
            assert event.next_at_ms == self.pointer
            return
        else:
            assert self.pointer is None or self.pointer > now_ms
        if isinstance(event.definition.schedule, OneOffSpec):
            self.pointer = self._next(self.decided_to_ms)
        else:
            first_ms = now_ms - 1 if isinstance(event, JobDefined) else now_ms
            self.pointer = self._next(max(first_ms, self.decided_to_ms))
            if self.pointer is not None:
                self.decided_to_ms = max(self.decided_to_ms, first_ms)
        assert event.next_at_ms == self.pointer

    def _opened(self, event: RunOpened, now_ms: int) -> None:
        assert event.run_id not in self.runs
        self.runs.add(event.run_id)
        assert event.due_at_ms <= now_ms
        self.due[event.run_id] = event.due_at_ms
        if event.kind in ("schedule", "trigger") and event.forced:
            self.going.add(event.run_id)
        elif event.kind in ("schedule", "trigger") and not event.held:
            self._goes(event.run_id)
        if event.kind != "schedule":
            return
        if event.missed and self.owner.absent != (0, 0):
            self.gap = self.owner.absent
        assert event.scheduled_at_ms == self.pointer
        self.opened += 1
        self.decided_to_ms = event.scheduled_at_ms
        self.pointer = self._next(event.scheduled_at_ms)
        assert event.next_at_ms == self.pointer

    def _goes(self, run_id: str) -> None:
        assert self.definition is not None
        if self.definition.overlap != "allow":
            assert not self.going
        elif self.definition.concurrent_runs_max:
            assert len(self.going) < self.definition.concurrent_runs_max
        self.going.add(run_id)

    def _expired(self, event: LeaseExpired, now_ms: int) -> None:
        if event.reason != "expired":
            return
        assert now_ms > event.expires_at_ms
        assert event.consumed_to_ms > event.expires_at_ms
        assert now_ms > max(event.heartbeat_at_ms, min(event.takeover_at_ms, event.expires_at_ms - 30_000)) + 30_000

    def _skipped(self, event: OccurrencesSkipped, now_ms: int) -> None:
        assert self.definition is not None
        assert event.first_at_ms == self.pointer
        assert event.last_at_ms <= now_ms
        if self.definition.catch_up == "all" and event.reason in ("overlap", "catch_up"):
            assert not self.gap[0] <= event.first_at_ms < self.gap[1]
        schedule = schedule_of(self.definition, self.owner.context())
        expected = [found.at_ms for found in schedule.iter_between(event.first_at_ms - 1, event.last_at_ms)]
        assert (expected[0], expected[-1], len(expected)) == (event.first_at_ms, event.last_at_ms, event.count)
        self.decided_to_ms = event.last_at_ms
        self.pointer = self._next(event.last_at_ms)
        assert event.next_at_ms == self.pointer

    def _granted(self, event: LeaseGranted, now_ms: int) -> None:
        assert event.run_id not in self.live
        assert event.lease.lease_token > self.token
        assert now_ms >= self.due[event.run_id]
        assert event.run_id not in self.succeeded
        self.token = event.lease.lease_token
        self.live[event.run_id] = self.token


class OneJob(RuleBasedStateMachine):
    """Drive a job with everything that can be asked of it."""

    @initialize(fields=FIELDS)
    def begin(self, fields: dict[str, Any]) -> None:
        self.owner = ManualOwner(now_ms=T)
        self.owner.open_runs_max = OPEN_RUNS_MAX
        self.accounts = Accounts(self.owner)
        self.grants: list[Grant] = []
        self.asked: list[AnyCommand] = []
        self.number = 0
        self.do(self.defining(fields))

    def defining(self, fields: dict[str, Any], mode: Any = "upsert") -> Define:
        definition = self.owner.definition(**fields)
        return Define(job_id="job", definition=definition, request_hash=repr(definition), mode=mode)

    def do(self, command: AnyCommand) -> Decision:
        owner = self.owner
        before = owner.job
        frozen = repr(before)
        first = decide(before, command, owner.context())
        assert repr(before) == frozen
        log = len(owner.log)
        decision = owner.do(command)
        assert decision == first
        if decision.events:
            assert decision.job_after == owner.job
        for event in owner.log[log:]:
            self.accounts.note(event, owner.now_ms)
        if isinstance(decision.reply, Grant):
            self.grants.append(decision.reply)
        assert isinstance(command, Wake) or decision.reply is not None or decision.park_until_ms > owner.now_ms
        self.asked.append(command)
        return decision

    def name(self) -> str:
        self.number += 1
        return f"n{self.number}"

    @rule(step=STEPS)
    def time_passes(self, step: int) -> None:
        self.owner.now_ms += step

    @rule()
    def wakes_until_quiet(self) -> None:
        for _ in range(WAKES_AT_ONCE_MAX):
            decision = self.do(Wake(job_id="job"))
            job = self.owner.job
            due_at_ms = None if job is None else deadline_ms(job, open_runs_max=OPEN_RUNS_MAX)
            again_ms = decision.wake_at_ms or due_at_ms
            if again_ms is None or again_ms > self.owner.now_ms:
                self.nothing_due_is_left(job, due_at_ms)
                return
            assert decision.events
        raise AssertionError("the job keeps waking itself")

    @rule(step=STEPS)
    def the_clock_runs_to(self, step: int) -> None:
        self.owner.now_ms += step
        self.wakes_until_quiet()

    @rule(off_ms=st.sampled_from([-1, 0, 1]), wake=st.booleans())
    def the_clock_runs_to_the_next_deadline(self, off_ms: int, *, wake: bool) -> None:
        job = self.owner.job
        at_ms = None if job is None else deadline_ms(job, open_runs_max=OPEN_RUNS_MAX)
        if job is None or at_ms is None or at_ms + off_ms < self.owner.now_ms:
            return
        self.owner.now_ms = at_ms + off_ms
        if wake:
            self.wakes_until_quiet()
            return
        following = upcoming(job)
        if following is not None:
            self.do(self.leasing(following[0]))

    @precondition(lambda self: self.waiting())
    @rule(off_ms=st.sampled_from([-1, 0]))
    def a_retry_is_asked_for_around_its_due_time(self, off_ms: int) -> None:
        run_id, due_at_ms = self.waiting()[0]
        self.owner.now_ms = max(self.owner.now_ms, due_at_ms + off_ms)
        self.do(self.leasing(run_id))

    def waiting(self) -> list[tuple[str, int]]:
        job = self.owner.job
        if job is None:
            return []
        now_ms = self.owner.now_ms
        return [(run.run_id, run.due_at_ms) for run in ready_runs(job.state) if run.due_at_ms > now_ms]

    @precondition(lambda self: self.zombies())
    @rule(kind=st.integers(0, 3))
    def a_zombie_speaks_while_another_holds_the_lease(self, kind: int) -> None:
        grant = self.zombies()[0]
        name, token = grant.run_id, grant.lease_token
        commands: list[AnyCommand] = [
            Complete(job_id="job", run_id=name, lease_token=token),
            Fail(job_id="job", run_id=name, lease_token=token),
            Heartbeat(job_id="job", run_id=name, lease_token=token),
            Release(job_id="job", run_id=name, lease_token=token),
        ]
        decision = self.do(commands[kind])
        assert isinstance(decision.reply, Reply)
        assert decision.reply.code == "lease_lost"
        assert decision.events == ()

    def zombies(self) -> list[Grant]:
        live = self.accounts.live
        return [grant for grant in self.grants if live.get(grant.run_id, grant.lease_token) != grant.lease_token]

    @precondition(lambda self: self.ready())
    @rule(rounds=st.integers(1, 3), silent=st.booleans())
    def workers_take_what_is_ready(self, rounds: int, *, silent: bool) -> None:
        for run_id in self.ready()[:rounds]:
            reply = self.do(self.leasing(run_id)).reply
            if isinstance(reply, Grant) and not silent:
                self.do(Heartbeat(job_id="job", run_id=run_id, lease_token=reply.lease_token))

    @precondition(lambda self: self.ready())
    @rule()
    def a_run_goes_silent_until_its_lease_ends(self) -> None:
        self.owner.consumed_lag_ms = 0
        self.do(self.leasing(self.ready()[0]))
        self.owner.now_ms += 30_001
        self.wakes_until_quiet()

    @precondition(lambda self: self.ready())
    @rule()
    def a_run_fails_and_is_asked_for_before_its_retry_is_due(self) -> None:
        grant = self.do(self.leasing(self.ready()[0])).reply
        if not isinstance(grant, Grant):
            return
        self.do(Fail(job_id="job", run_id=grant.run_id, lease_token=grant.lease_token))
        waiting = dict(self.waiting())
        if grant.run_id in waiting:
            self.owner.now_ms = max(self.owner.now_ms, waiting[grant.run_id] - 1)
            assert not isinstance(self.do(self.leasing(grant.run_id)).reply, Grant)

    @precondition(lambda self: self.ready())
    @rule()
    def a_leased_run_is_asked_for_by_another(self) -> None:
        run_id = self.ready()[0]
        if isinstance(self.do(self.leasing(run_id)).reply, Grant):
            assert not isinstance(self.do(self.leasing(run_id, worker_id="other")).reply, Grant)

    @precondition(lambda self: self.ready())
    @rule(unread_ms=st.sampled_from([0, 1, 500]))
    def a_lease_ends_while_older_commands_are_unread(self, unread_ms: int) -> None:
        reply = self.do(self.leasing(self.ready()[0])).reply
        if not isinstance(reply, Grant):
            return
        self.owner.now_ms = reply.expires_at_ms + 1
        self.owner.consumed_lag_ms = 1 + unread_ms
        decision = self.do(Wake(job_id="job"))
        self.owner.consumed_lag_ms = 0
        ended = [event.run_id for event in decision.events if isinstance(event, LeaseExpired)]
        assert reply.run_id not in ended or reply.timeout_ms

    @precondition(lambda self: self.accounts.live)
    @rule(kind=st.integers(0, 2), off=st.sampled_from([-1, 1]))
    def an_event_under_another_token_does_not_fit(self, kind: int, off: int) -> None:
        run_id, token = next(iter(self.accounts.live.items()))
        at_ms = self.owner.now_ms
        events: list[AnyEvent] = [
            RunSucceeded(run_id=run_id, lease_token=token + off, attempt=1, at_ms=at_ms),
            RunFailed(run_id=run_id, lease_token=token + off, attempt=1, error="", retryable=True, at_ms=at_ms),
            LeaseReleased(run_id=run_id, lease_token=token + off, reason="", at_ms=at_ms),
        ]
        with pytest.raises(IllegalEvent):
            apply(self.owner.job, events[kind])

    @rule(fields=FIELDS, minutes=st.integers(3, 12))
    def missed_runs_are_caught_up_by_owners_that_know_nothing_of_the_gap(
        self, fields: dict[str, Any], minutes: int
    ) -> None:
        every = IntervalSpec(every_ms=60_000, anchor_ms=0)
        self.do(Resume(job_id="job"))
        wanted = {"schedule": every, "catch_up": "all", "overlap": "skip", "start_deadline_ms": 0, "max_runs": 0}
        self.do(self.defining(fields | wanted))
        self.wakes_until_quiet()
        self.an_owner_takes_over_after_a_gap(minutes * 60_000)
        self.wakes_until_quiet()
        self.owner.absent = (0, 0)
        for run_id in self.ready():
            reply = self.do(self.leasing(run_id)).reply
            if isinstance(reply, Grant):
                self.do(Complete(job_id="job", run_id=run_id, lease_token=reply.lease_token))
        self.wakes_until_quiet()

    def ready(self) -> list[str]:
        job = self.owner.job
        if job is None:
            return []
        return [run.run_id for run in ready_runs(job.state) if run.due_at_ms <= self.owner.now_ms]

    def leasing(self, run_id: str, **fields: Any) -> LeaseRun:
        defaults = {"worker_id": "w", "gateway_id": "g", "request_id": self.name()}
        return LeaseRun(job_id="job", run_id=run_id, **(defaults | fields))

    def nothing_due_is_left(self, job: Job | None, due_at_ms: int | None) -> None:
        if job is None or job.state.pause is not None or len(job.state.open) >= OPEN_RUNS_MAX:
            return
        assert job.state.next_at_ms is None or job.state.next_at_ms > self.owner.now_ms
        if due_at_ms is not None and due_at_ms <= self.owner.now_ms:
            assert any(run.lease is not None for run in job.state.open)

    @rule(step=st.integers(0, 7_200_000))
    def an_owner_takes_over_after_a_gap(self, step: int) -> None:
        self.owner.absent = (self.owner.now_ms, self.owner.now_ms + step)
        self.owner.now_ms += step + 1
        self.owner.takeover_at_ms = self.owner.now_ms
        self.owner.heartbeats.clear()

    @rule(lag_ms=st.sampled_from([0, 0, 50, 40_000]))
    def inputs_lag(self, lag_ms: int) -> None:
        self.owner.consumed_lag_ms = lag_ms

    @rule(fields=FIELDS, mode=st.sampled_from(["upsert", "upsert", "create", "edit"]))
    def define(self, fields: dict[str, Any], mode: str) -> None:
        self.do(self.defining(fields, mode))

    @rule(data=st.data(), visibility_ms=st.sampled_from([30_000, 120_000]))
    def lease(self, data: st.DataObject, visibility_ms: int) -> None:
        candidates = ["run_job_unknown"]
        if self.owner.job is not None:
            candidates += [run.run_id for run in self.owner.job.state.open]
            following = upcoming(self.owner.job)
            candidates += [following[0]] * 3 if following else []
            candidates += [run.run_id for run in ready_runs(self.owner.job.state)] * 3
        run_id, version = data.draw(st.sampled_from(candidates)), data.draw(st.sampled_from([0, 0, 1]))
        self.do(self.leasing(run_id, visibility_ms=visibility_ms, job_version=version))

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), token_off=st.sampled_from([0, 0, 0, 0, 1]), kind=st.integers(0, 4))
    def worker_speaks(self, data: st.DataObject, token_off: int, kind: int) -> None:
        held = [grant for grant in self.grants if self.accounts.live.get(grant.run_id) == grant.lease_token]
        grant = data.draw(st.sampled_from(held * 3 + self.grants[-4:] + self.grants[:1]))
        token = grant.lease_token + token_off
        live = self.accounts.live.get(grant.run_id) == token
        command: Complete | Fail | Heartbeat | Release
        if kind == 0:
            command = Complete(job_id="job", run_id=grant.run_id, lease_token=token)
        elif kind in (1, 2):
            command = Fail(job_id="job", run_id=grant.run_id, lease_token=token, retryable=kind == 1)
        elif kind == 3:
            command = Heartbeat(job_id="job", run_id=grant.run_id, lease_token=token)
        else:
            command = Release(job_id="job", run_id=grant.run_id, lease_token=token)
        reply = self.do(command).reply
        assert isinstance(reply, Reply)
        if live:
            assert reply.code == "ok"
        elif reply.code == "ok":
            assert reply.replayed

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def something_is_asked_again(self, data: st.DataObject) -> None:
        self.do(data.draw(st.sampled_from(self.asked[-12:])))

    @rule(until=st.sampled_from([-1, -1, -1, -1, 0, 1, 90_000]))
    def pause(self, until: int) -> None:
        if until < 0:
            return
        self.do(Pause(job_id="job", until_ms=self.owner.now_ms + until if until else 0))

    @rule()
    def resume(self) -> None:
        self.do(Resume(job_id="job"))

    @rule(force=st.booleans())
    def trigger(self, *, force: bool) -> None:
        self.do(Trigger(job_id="job", trigger_id=self.name(), force=force))

    @rule(data=st.data())
    def control_a_run(self, data: st.DataObject) -> None:
        job = self.owner.job
        if job is None:
            return
        runs = [run.run_id for run in job.state.open] + [run.run_id for run in job.state.dead] + ["run_job_x"]
        run_id = data.draw(st.sampled_from(runs))
        if data.draw(st.booleans()):
            self.do(CancelRun(job_id="job", run_id=run_id))
        else:
            self.do(ReplayRun(job_id="job", run_id=run_id, replay_id=self.name()))

    @rule(ahead=st.integers(-6, 3))
    def skip_a_slot(self, ahead: int) -> None:
        job = self.owner.job
        if ahead < 0 or job is None or job.state.next_at_ms is None or job.definition is None:
            return
        at_ms = job.state.next_at_ms
        for _ in range(ahead):
            found = schedule_of(job.definition, self.owner.context()).next_after(at_ms)
            at_ms = at_ms if found is None else found.at_ms
        self.do(SkipSlot(job_id="job", at_ms=at_ms))

    @rule(hours=st.integers(-3, 3), at_once=st.integers(1, 3), stop=st.booleans())
    def backfill(self, hours: int, at_once: int, *, stop: bool) -> None:
        job = self.owner.job
        if stop and job is not None and job.state.backfills:
            self.do(StopBackfill(job_id="job", backfill_id=job.state.backfills[0].backfill_id))
            return
        now_ms = self.owner.now_ms
        if hours < 0:
            return
        self.do(
            StartBackfill(
                job_id="job",
                backfill_id=self.name(),
                from_ms=now_ms - hours * 3_600_000,
                until_ms=now_ms,
                concurrent_runs_max=at_once,
            )
        )

    @rule(really=st.sampled_from([False] * 9 + [True]))
    def delete(self, *, really: bool) -> None:
        if really:
            self.do(Delete(job_id="job"))

    @invariant()
    def the_state_is_small(self) -> None:
        if not hasattr(self, "owner") or self.owner.job is None:
            return
        state = self.owner.job.state
        assert len(state.open) <= OPEN_RUNS_MAX
        assert len(state.closed) <= CLOSED_RUNS_MAX
        assert len(state.dead) <= DEAD_RUNS_MAX
        assert len(msgspec.msgpack.encode(state)) < STATE_BYTES_MAX

    @invariant()
    def the_accounts_agree_with_the_state(self) -> None:
        if not hasattr(self, "owner") or self.owner.job is None:
            return
        state = self.owner.job.state
        assert state.next_at_ms == self.accounts.pointer
        leases = {run.run_id: run.lease.lease_token for run in state.open if run.lease is not None}
        assert leases == self.accounts.live
        assert state.lease_token_last == self.accounts.token


OneJob.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestOneJob = OneJob.TestCase


# --- what the machine above must find: guards of the core, taken away one by one ---


def any_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("streams.core.apply_run._lease", lambda _job, _event, run, _token: run.lease)


def retries_at_once(patch: pytest.MonkeyPatch) -> None:
    def see_due(draft: Any, command: LeaseRun, at_ms: int) -> Any:
        run = draft.job.run(command.run_id)
        if run is None:
            return parked(draft, command, at_ms)
        lease = decide_lease._new_lease(draft, command)
        granted = LeaseGranted(run_id=run.run_id, attempt=run.attempt + 1, lease=lease, at_ms=draft.now_ms)
        draft._job = Job(
            replace(
                draft.state,
                open=tuple(replace(item, due_at_ms=draft.now_ms) if item is run else item for item in draft.state.open),
            ),
            draft.definition,
        )
        draft.emit(granted)
        return draft.decision(decide_lease._grant(draft.definition, draft.state.version, run, lease, run.attempt + 1))

    parked = decide_lease._parked
    patch.setattr(decide_lease, "_parked", see_due)


def unread_commands(patch: pytest.MonkeyPatch) -> None:
    end_leases = decide_wake._end_leases

    def blind(draft: Any) -> None:
        context, draft.context = draft.context, replace(draft.context, consumed_to_ms=draft.now_ms + 1)
        end_leases(draft)
        draft.context = context

    patch.setattr(decide_wake, "_end_leases", blind)


def granted_twice(patch: pytest.MonkeyPatch) -> None:
    def again(job: Job, run: Any, command: LeaseRun) -> Any:
        return replace(
            leased(job, run, command),
            reply=decide_lease._grant(job.definition, job.state.version, run, run.lease, run.attempt),  # type: ignore[arg-type]  # a leased job has one
        )

    leased = decide_lease._leased_already
    patch.setattr(decide_lease, "_leased_already", again)


def gap_forgotten(patch: pytest.MonkeyPatch) -> None:
    def inside(draft: Any, at_ms: int) -> bool:
        return bool(draft.context.absent_from_ms <= at_ms < draft.context.absent_to_ms)

    patch.setattr(decide_due, "_is_missed", inside)


@pytest.mark.parametrize("change", [any_token, retries_at_once, unread_commands, granted_twice, gap_forgotten])
def test_a_guard_that_is_lost_is_found(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None]
) -> None:
    change(monkeypatch)
    found = settings(
        OneJob.TestCase.settings, max_examples=200, derandomize=True, phases=[Phase.generate], database=None
    )

    with pytest.raises((AssertionError, IllegalEvent, pytest.fail.Exception, ExceptionGroup)):
        run_state_machine_as_test(OneJob, settings=found)
