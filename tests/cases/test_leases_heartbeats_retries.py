"""Section 3D of the real-world cases: leases, heartbeats, retries and repeats. Each test names its case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from streams.core.commands import (
    CancelRun,
    Complete,
    Fail,
    Grant,
    Heartbeat,
    Release,
    ReplayRun,
    StartBackfill,
    Trigger,
)
from streams.core.deadline import CANCEL_GRACE_MS
from streams.core.events import LeaseExpired, RunOpened
from streams.core.identity import run_id_at
from streams.core.time import IntervalSpec, OneOffSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.manual import ManualOwner

    Restart = Callable[[ManualOwner], None]
    Opened = Callable[[], list[int]]

AT = 1_798_765_200_000
HOUR = 3_600_000


def expiries(owner: ManualOwner) -> list[LeaseExpired]:
    return [event for event in owner.log if isinstance(event, LeaseExpired)]


@pytest.mark.parametrize("command", [Heartbeat, Complete, Fail, Release])
def test_d01_the_token_of_a_worker_that_froze_is_refused_once_another_has_the_run(
    owner: ManualOwner, command: type[Heartbeat]
) -> None:
    owner.define()
    owner.run_until(AT)
    stale = owner.grant()
    owner.run_until(AT + 31_000)
    fresh = owner.grant(stale.run_id)

    reply = owner.reply(command(job_id="job", run_id=stale.run_id, lease_token=stale.lease_token))

    assert (reply.code, reply.attempt) == ("lease_lost", fresh.attempt)
    assert owner.complete(fresh).code == "ok"


@pytest.mark.parametrize("lag_ms", [1, 5_000, 300_000])
def test_d02_heartbeats_count_by_the_brokers_clock_and_however_late_they_are_read(
    owner: ManualOwner, lag_ms: int
) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    owner.now_ms = AT + 29_000 + lag_ms
    owner.consumed_lag_ms = lag_ms
    owner.wake()
    assert expiries(owner) == []
    beat = Heartbeat(job_id="job", run_id=grant.run_id, lease_token=grant.lease_token, at_ms=AT + 29_000)

    assert owner.reply(beat).code == "ok"
    owner.run_until(AT + 59_000)
    assert expiries(owner) == [] or owner.now_ms > AT + 59_000


def test_d04_a_dead_worker_costs_a_retry_and_leaves_the_next_slot_alone(owner: ManualOwner, opened: Opened) -> None:
    owner.define()
    owner.run_until(AT)
    owner.heartbeat(owner.grant())
    owner.run_until(AT + 40_000)
    assert [run.due_at_ms for run in owner.state.open] != []
    owner.now_ms = max(owner.now_ms, owner.state.open[0].due_at_ms)
    retry = owner.grant()
    owner.complete(retry)
    owner.run_until(AT + HOUR)

    assert (retry.attempt, opened()) == (2, [AT, AT + HOUR])


def test_d05_a_heartbeat_that_its_own_completion_overtook_is_quiet(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    owner.complete(grant)
    before = len(owner.log)

    reply = owner.heartbeat(grant)

    assert (reply.code, reply.replayed, reply.outcome) == ("ok", True, "succeeded")
    assert len(owner.log) == before


@pytest.mark.parametrize("hours", [1, 6])
def test_d06_a_long_run_on_short_leases_is_kept_and_its_death_is_seen_in_45_s(owner: ManualOwner, hours: int) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    grant = owner.grant()
    for _ in range(hours * 360):
        owner.now_ms += 10_000
        owner.heartbeat(grant)
        owner.wake()
    died_ms = owner.now_ms
    assert expiries(owner) == []
    owner.run_until(died_ms + 45_000)

    assert [event.reason for event in expiries(owner)] == ["expired"]
    assert expiries(owner)[0].at_ms - died_ms < 45_000


@pytest.mark.parametrize("visibility_ms", [1_000, 30_000, 3_600_000])
def test_d07_no_silent_lease_outlives_its_end_by_5_s(owner: ManualOwner, visibility_ms: int) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    owner.grant(visibility_ms=visibility_ms)
    owner.run_until(AT + visibility_ms + 5_000)

    assert all(run.lease is None for run in owner.state.open)


@pytest.mark.parametrize("minutes", [1, 30])
def test_d10_a_run_that_heartbeats_is_never_given_to_another(owner: ManualOwner, minutes: int) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    grant = owner.grant()
    for _ in range(minutes * 3):
        owner.now_ms += 20_000
        owner.heartbeat(grant)
        owner.wake()
        assert not isinstance(owner.lease(grant.run_id).reply, Grant)

    assert owner.complete(grant).code == "ok"


@pytest.mark.parametrize("kind", ["schedule", "trigger", "backfill", "replay"])
def test_d11_runs_of_every_kind_carry_the_same_limits(owner: ManualOwner, kind: str) -> None:
    owner.define(timeout_ms=20_000, overlap="allow")
    owner.run_until(AT)
    if kind == "trigger":
        owner.reply(Trigger(job_id="job", trigger_id="t"))
    if kind == "backfill":
        owner.reply(StartBackfill(job_id="job", backfill_id="b", from_ms=AT - 3 * HOUR, until_ms=AT - HOUR))
    if kind == "replay":
        owner.fail(owner.grant(), retryable=False)
        owner.reply(ReplayRun(job_id="job", run_id=run_id_at("job", AT), replay_id="again"))
    run = next(run for run in owner.state.open if run.kind == kind)
    grant = owner.grant(run.run_id)
    granted_ms = owner.now_ms

    for _ in range(4):
        owner.now_ms += 6_000
        owner.heartbeat(grant)
        owner.wake()

    assert (grant.timeout_ms, grant.max_attempts) == (20_000, 5)
    assert [(event.reason, event.at_ms - granted_ms) for event in expiries(owner)] == [("timeout", 24_000)]


def test_d12_a_lease_is_what_the_log_says_and_not_what_an_owner_remembers(owner: ManualOwner, restart: Restart) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    owner.heartbeat(grant)
    restart(owner)

    assert owner.run(grant.run_id).lease is not None
    owner.run_until(AT + 31_000)
    assert owner.run(grant.run_id).lease is None


@pytest.mark.parametrize("command", [Fail, Release, Complete])
def test_d13_events_of_an_attempt_that_is_over_cannot_end_a_live_one(
    owner: ManualOwner, command: type[Complete]
) -> None:
    owner.define()
    owner.run_until(AT)
    first = owner.grant()
    owner.release(first)
    second = owner.grant(first.run_id)

    owner.do(command(job_id="job", run_id=first.run_id, lease_token=first.lease_token))

    lease = owner.run(first.run_id).lease
    assert lease is not None
    assert lease.lease_token == second.lease_token


def test_d14b_unstarted_runs_of_a_batch_are_renewed_or_handed_back(owner: ManualOwner) -> None:
    owner.define(schedule=IntervalSpec(every_ms=60_000, anchor_ms=0), overlap="allow")
    owner.run_until(AT + 5 * 60_000)
    grants = [owner.grant(visibility_ms=60_000) for _ in range(5)]
    owner.now_ms += 50_000
    for grant in grants[:3]:
        owner.heartbeat(grant)
    for grant in grants[3:]:
        assert owner.release(grant).code == "ok"
    owner.run_until(owner.now_ms + 15_000)

    assert expiries(owner) == []
    assert [owner.grant(grant.run_id).attempt for grant in grants[3:]] == [1, 1]


@pytest.mark.parametrize("end", ["succeeded", "cancelled", "dead"])
def test_d14d_every_outcome_frees_the_payload(owner: ManualOwner, end: str) -> None:
    owner.define(overlap="allow")
    for number in range(20):
        owner.reply(Trigger(job_id="job", trigger_id=f"t{number}", payload=b"x" * 6_000))
        grant = owner.grant(f"run_job_t{number}")
        if end == "succeeded":
            owner.complete(grant)
        elif end == "dead":
            owner.fail(grant, retryable=False)
        else:
            owner.do(CancelRun(job_id="job", run_id=grant.run_id))
            owner.fail(grant)

    assert owner.state.open == ()
    assert len(msgspec.msgpack.encode(owner.state)) < 64_000


def test_d15_a_lost_lease_is_named_with_the_attempt_that_has_it(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    stale = owner.grant()
    owner.heartbeat(stale)
    owner.run_until(AT + 31_000)
    owner.now_ms = owner.run(stale.run_id).due_at_ms
    owner.grant(stale.run_id)

    reply = owner.complete(stale)

    assert (reply.code, reply.attempt) == ("lease_lost", 2)
    assert str(stale.lease_token) in reply.detail


@pytest.mark.parametrize("heeds", [True, False])
def test_d16_a_cancel_reaches_the_worker_by_its_next_heartbeat_and_is_forced_after_a_grace(
    owner: ManualOwner, *, heeds: bool
) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    owner.do(CancelRun(job_id="job", run_id=grant.run_id, actor="ann"))
    asked_ms = owner.now_ms
    assert owner.heartbeat(grant).cancel
    if heeds:
        assert owner.fail(grant).outcome == "cancelled"
    while owner.job is not None and owner.must().run(grant.run_id) is not None:
        owner.now_ms += 5_000
        owner.heartbeat(grant)
        owner.wake()

    closed = owner.must().closed_run(grant.run_id)
    assert closed is not None
    assert closed.outcome == "cancelled"
    assert closed.closed_at_ms - asked_ms <= (0 if heeds else CANCEL_GRACE_MS + 5_000)


@pytest.mark.parametrize("timeout_ms", [1_000, 45_000, 600_000])
def test_d19_a_handler_that_hangs_while_its_process_heartbeats_is_ended(owner: ManualOwner, timeout_ms: int) -> None:
    owner.define(schedule=OneOffSpec(AT), timeout_ms=timeout_ms)
    owner.run_until(AT)
    grant = owner.grant()
    while owner.now_ms < AT + timeout_ms + 6_000:
        owner.now_ms += 5_000
        owner.heartbeat(grant)
        owner.wake()

    assert [event.reason for event in expiries(owner)] == ["timeout"]


def test_d20_no_job_opens_more_runs_than_its_schedule_has_slots(owner: ManualOwner, opened: Opened) -> None:
    owner.define(schedule=IntervalSpec(every_ms=60_000, anchor_ms=0), overlap="allow")
    for _ in range(5_000):
        owner.now_ms += 40
        owner.wake()

    assert len(opened()) == 3  # 200 s, 5,000 looks
    assert sum(isinstance(event, RunOpened) for event in owner.log) == 3
