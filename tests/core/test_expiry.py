from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.core.commands import CancelRun, Heartbeat, Reply
from streams.core.deadline import CANCEL_GRACE_MS, deadline_ms
from streams.core.decide_wake import RECHECK_MS, SILENT_GRANTS_MAX
from streams.core.definition import Retry
from streams.core.events import LeaseExpired
from streams.core.time import OneOffSpec

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000


@pytest.fixture
def leased(owner: ManualOwner) -> ManualOwner:
    """A one-off, leased at its due time for 30 s."""
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    owner.grant()
    return owner


def expiries(owner: ManualOwner) -> list[LeaseExpired]:
    return [event for event in owner.log if isinstance(event, LeaseExpired)]


def test_a_lease_expires_after_its_last_millisecond_and_not_in_it(leased: ManualOwner) -> None:
    leased.consumed_lag_ms = -5_000
    leased.now_ms = AT + 30_000
    leased.wake()
    assert expiries(leased) == []

    leased.now_ms += 1
    leased.wake()

    assert len(expiries(leased)) == 1


def test_the_deadline_of_a_lease_is_the_first_instant_at_which_it_may_end(leased: ManualOwner) -> None:
    assert deadline_ms(leased.must()) == AT + 30_001


def test_a_heartbeat_puts_the_expiry_off_by_the_visibility(leased: ManualOwner) -> None:
    run_id = leased.state.open[0].run_id
    leased.heartbeats[run_id] = AT + 25_000
    leased.now_ms = AT + 30_001

    decision = leased.wake()

    assert (decision.events, decision.wake_at_ms) == ((), AT + 55_001)
    leased.now_ms = AT + 55_001
    leased.wake()
    assert [event.heartbeat_at_ms for event in expiries(leased)] == [AT + 25_000]


def test_a_heartbeat_from_before_the_grant_does_not_count(leased: ManualOwner) -> None:
    leased.heartbeats[leased.state.open[0].run_id] = AT - 1
    leased.now_ms = AT + 30_001
    leased.wake()

    assert [(event.heartbeat_at_ms, event.counted) for event in expiries(leased)] == [(0, False)]


def test_a_take_over_gives_an_older_lease_a_fresh_visibility(leased: ManualOwner) -> None:
    leased.takeover_at_ms = AT + 29_000
    leased.now_ms = AT + 30_001

    decision = leased.wake()

    assert (decision.events, decision.wake_at_ms) == ((), AT + 59_001)


def test_a_take_over_before_the_grant_changes_nothing(leased: ManualOwner) -> None:
    leased.takeover_at_ms = AT
    leased.now_ms = AT + 30_001

    leased.wake()

    assert len(expiries(leased)) == 1


def test_no_lease_ends_while_commands_from_before_its_end_are_unread(leased: ManualOwner) -> None:
    leased.now_ms = AT + 40_000
    leased.consumed_lag_ms = 10_000

    decision = leased.wake()

    assert (decision.events, decision.wake_at_ms) == ((), leased.now_ms + RECHECK_MS)
    leased.consumed_lag_ms = 9_999
    leased.wake()
    assert [event.consumed_to_ms for event in expiries(leased)] == [AT + 30_001]


def test_the_expiry_carries_its_evidence(leased: ManualOwner) -> None:
    leased.takeover_at_ms = AT - 5
    leased.now_ms = AT + 31_000
    leased.wake()

    event = expiries(leased)[0]
    assert (event.expires_at_ms, event.takeover_at_ms, event.consumed_to_ms) == (AT + 30_000, AT - 5, AT + 31_000)


def test_a_worker_that_was_heard_and_dies_costs_an_attempt_and_a_backoff(leased: ManualOwner) -> None:
    leased.heartbeats[leased.state.open[0].run_id] = AT + 1
    leased.now_ms = AT + 30_002
    leased.wake()

    run = leased.state.open[0]
    assert (run.attempt, run.silent_grants) == (1, 0)
    assert AT + 30_002 + 1_000 <= run.due_at_ms <= AT + 30_002 + 2_000


def test_a_silent_grant_burns_nothing_and_is_ready_at_once(leased: ManualOwner) -> None:
    leased.now_ms = AT + 30_001
    leased.wake()

    run = leased.state.open[0]
    assert (run.attempt, run.silent_grants, run.due_at_ms) == (0, 1, leased.now_ms)
    assert leased.grant().attempt == 1


def test_the_third_silent_grant_in_a_row_counts(leased: ManualOwner) -> None:
    for _ in range(SILENT_GRANTS_MAX - 1):
        leased.now_ms += 30_001
        leased.wake()
        leased.grant()
    assert [event.counted for event in expiries(leased)] == [False] * (SILENT_GRANTS_MAX - 1)

    leased.now_ms += 30_001
    leased.wake()

    assert expiries(leased)[-1].counted
    assert leased.state.open[0].silent_grants == 0


def test_a_run_that_may_not_be_retried_dies_with_its_worker_and_says_so(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), retry=Retry(max_attempts=5, backoff="none"))
    owner.run_until(AT)
    owner.heartbeat(owner.grant())
    owner.now_ms += 30_001
    owner.wake()

    assert (owner.state.dead[-1].attempt, owner.state.dead[-1].reason) == (1, "no_retry")


def test_a_run_dies_when_its_attempts_are_used_up_by_dead_workers(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), retry=Retry(max_attempts=2))
    owner.run_until(AT)
    for _ in range(2):
        grant = owner.grant()
        owner.heartbeat(grant)
        owner.now_ms += 30_001
        owner.wake()
        owner.now_ms += 5_000

    assert owner.state.dead[-1].reason == "max_attempts"
    assert owner.state.status == "finished"


def test_a_time_out_ends_an_attempt_however_faithfully_it_heartbeats(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), timeout_ms=60_000)
    owner.run_until(AT)
    grant = owner.grant()
    for seconds in range(10, 61, 10):
        owner.now_ms = AT + seconds * 1_000
        owner.heartbeat(grant)
        owner.wake()
    assert expiries(owner) == []

    owner.now_ms = AT + 60_001
    owner.wake()

    assert [(event.reason, event.counted) for event in expiries(owner)] == [("timeout", True)]


def test_a_heartbeat_at_the_time_out_tells_the_worker_to_stop(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), timeout_ms=10_000)
    owner.run_until(AT)
    grant = owner.grant()

    owner.now_ms = AT + 9_999
    assert owner.heartbeat(grant).cancel is False
    owner.now_ms = AT + 10_000
    reply = owner.heartbeat(grant)
    assert (reply.cancel, reply.detail) == (True, "timeout")


def test_the_last_attempt_that_times_out_is_dead_with_that_reason(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), timeout_ms=10_000, retry=Retry(max_attempts=1))
    owner.run_until(AT)
    owner.grant()
    owner.now_ms = AT + 10_001
    owner.wake()

    assert owner.state.dead[-1].reason == "timeout"


def test_a_cancelled_run_is_ended_after_the_grace_although_its_worker_lives(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    grant = owner.grant(visibility_ms=3_600_000)
    owner.do(CancelRun(job_id="job", run_id=grant.run_id))
    owner.now_ms = AT + CANCEL_GRACE_MS
    owner.heartbeat(grant)
    owner.wake()
    assert expiries(owner) == []

    owner.now_ms += 1
    owner.wake()

    assert expiries(owner)[-1].reason == "cancel_grace"
    assert owner.state.closed[-1].outcome == "cancelled"


def test_a_long_run_with_a_short_lease_is_retried_soon_after_its_worker_dies(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    grant = owner.grant()
    for _ in range(6 * 360):
        owner.now_ms += 10_000
        owner.heartbeat(grant)
    died_at_ms = owner.now_ms

    owner.run_until(died_at_ms + 45_000)

    assert owner.state.open[0].due_at_ms <= died_at_ms + 45_000
    assert owner.grant().attempt == 2


def test_an_expired_lease_leaves_the_next_occurrence_alone(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    owner.grant()
    owner.run_until(AT + 60_000)

    assert len(expiries(owner)) == 1
    assert owner.state.next_at_ms == AT + 3_600_000


def beat(owner: ManualOwner, visibility_ms: int) -> Reply:
    """Heartbeat for the only open run, asking for another length of its lease."""
    run = owner.state.open[0]
    token = 0 if run.lease is None else run.lease.lease_token
    return owner.reply(
        Heartbeat(job_id="job", run_id=run.run_id, lease_token=token, at_ms=owner.now_ms, visibility_ms=visibility_ms)
    )


def test_a_heartbeat_can_ask_for_a_longer_lease(leased: ManualOwner) -> None:
    leased.now_ms = AT + 10_000

    assert beat(leased, 120_000).expires_at_ms == AT + 130_000
    leased.heartbeats.clear()  # another owner knows no heartbeats; the length and the end are in the log
    leased.run_until(AT + 130_000)
    assert expiries(leased) == []
    leased.run_until(AT + 130_001)
    assert len(expiries(leased)) == 1


def test_a_longer_lease_stays_long_for_plain_heartbeats(leased: ManualOwner) -> None:
    leased.now_ms = AT + 10_000
    beat(leased, 120_000)
    leased.now_ms = AT + 20_000

    assert beat(leased, 0).expires_at_ms == AT + 140_000


def test_a_shorter_lease_never_takes_back_an_end_that_was_promised(leased: ManualOwner) -> None:
    leased.now_ms = AT + 10_000
    beat(leased, 0)
    leased.now_ms = AT + 11_000

    assert beat(leased, 5_000).expires_at_ms == AT + 40_000
    leased.run_until(AT + 40_000)
    assert expiries(leased) == []
    leased.run_until(AT + 40_001)
    assert len(expiries(leased)) == 1


def test_a_shorter_lease_ends_sooner_once_its_heartbeats_reach_further(leased: ManualOwner) -> None:
    leased.now_ms = AT + 1_000
    beat(leased, 5_000)
    leased.now_ms = AT + 28_000

    assert beat(leased, 5_000).expires_at_ms == AT + 33_000
    leased.run_until(AT + 33_001)
    assert len(expiries(leased)) == 1


@pytest.mark.parametrize(("asked_ms", "given_ms"), [(1, 1_000), (10**9, 3_600_000)])
def test_a_length_asked_for_by_a_heartbeat_is_bounded_like_that_of_a_lease(
    leased: ManualOwner, asked_ms: int, given_ms: int
) -> None:
    leased.now_ms = AT + 29_500
    beat(leased, asked_ms)

    lease = leased.state.open[0].lease
    assert lease is not None
    assert lease.visibility_ms == given_ms


def test_the_same_length_again_is_no_event(leased: ManualOwner) -> None:
    leased.now_ms = AT + 10_000
    beat(leased, 60_000)
    before = len(leased.log)
    beat(leased, 60_000)
    beat(leased, 60_000)

    assert len(leased.log) == before
