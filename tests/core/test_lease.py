from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.core.commands import CancelRun, Complete, Delete, Fail, Grant, Heartbeat, LeaseRun, Pause, Release, Reply
from streams.core.decide_lease import RESULT_BYTES_MAX, VISIBILITY_MS_MAX, VISIBILITY_MS_MIN
from streams.core.identity import run_id_at
from streams.core.state import CLOSED_RUNS_MAX
from streams.core.time import OneOffSpec

if TYPE_CHECKING:
    from streams.core.context import Decision
    from streams.core.manual import ManualOwner

T = 1_798_761_600_000
HOUR = 3_600_000
AT = T + HOUR


def code(decision: Decision) -> str:
    return decision.reply.code if isinstance(decision.reply, Reply) else type(decision.reply).__name__


@pytest.fixture
def ready(owner: ManualOwner) -> ManualOwner:
    """A one-off that is due and open."""
    owner.define(schedule=OneOffSpec(AT), payload=b"p")
    owner.run_until(AT)
    return owner


def test_a_due_run_is_granted_with_everything_a_worker_needs(ready: ManualOwner) -> None:
    grant = ready.grant(visibility_ms=45_000)

    assert (grant.run_id, grant.attempt, grant.lease_token) == (run_id_at("job", AT), 1, 1)
    assert (grant.payload, grant.task, grant.scheduled_at_ms) == (b"p", "work", AT)
    assert grant.expires_at_ms == AT + 45_000


def test_a_run_that_is_due_and_not_open_is_opened_and_granted_in_one_decision(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.now_ms = AT

    decision = owner.lease()

    assert isinstance(decision.reply, Grant)
    assert [type(event).__name__ for event in decision.events] == ["RunOpened", "LeaseGranted"]


def test_a_request_before_the_due_time_is_parked_until_it(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.now_ms = AT - 1

    decision = owner.lease()

    assert (decision.events, decision.reply, decision.park_until_ms) == ((), None, AT)


def test_a_request_that_will_not_live_until_the_due_time_is_not_parked(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.now_ms = AT - 10

    decision = owner.lease(valid_until_ms=AT - 1)

    assert (code(decision), decision.park_until_ms) == ("not_due", 0)


def test_a_request_is_valid_up_to_its_last_millisecond(ready: ManualOwner) -> None:
    assert code(ready.lease(valid_until_ms=AT - 1)) == "stale_offer"
    assert code(ready.lease(valid_until_ms=AT)) == "Grant"


def test_an_offer_of_another_version_is_stale(ready: ManualOwner) -> None:
    ready.define(schedule=OneOffSpec(AT), payload=b"other")

    assert code(ready.lease(job_version=1)) == "stale_offer"
    assert code(ready.lease(job_version=2)) == "Grant"


def test_an_offer_of_an_occurrence_that_the_schedule_has_not_is_stale(owner: ManualOwner) -> None:
    owner.define()

    assert code(owner.lease(run_id_at("job", AT + 1))) == "stale_offer"


def test_a_missing_job_is_not_found(owner: ManualOwner) -> None:
    command = LeaseRun(job_id="job", run_id=run_id_at("job", AT), worker_id="w", gateway_id="g")

    assert owner.reply(command).code == "not_found"


def test_a_leased_run_is_not_leasable_by_another_request(ready: ManualOwner) -> None:
    run_id = ready.grant().run_id

    assert code(ready.lease(run_id)) == "not_leasable"


def test_the_same_request_gets_the_same_grant_again(ready: ManualOwner) -> None:
    grant = ready.grant(request_id="r")

    again = ready.lease(grant.run_id, request_id="r")

    assert again.reply == grant
    assert again.events == ()


def test_the_same_request_of_another_gateway_gets_nothing(ready: ManualOwner) -> None:
    grant = ready.grant(request_id="r", gateway_id="g1")

    assert code(ready.lease(grant.run_id, request_id="r", gateway_id="g2")) == "not_leasable"


def test_a_closed_run_is_not_leasable(ready: ManualOwner) -> None:
    grant = ready.grant()
    ready.complete(grant)

    assert code(ready.lease(grant.run_id)) == "not_leasable"


def test_a_paused_job_grants_nothing(ready: ManualOwner) -> None:
    ready.do(Pause(job_id="job"))

    assert code(ready.lease(run_id_at("job", AT))) == "paused"


def test_a_paused_job_grants_no_occurrence_that_is_not_open(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Pause(job_id="job"))
    owner.now_ms = AT

    assert code(owner.lease(run_id_at("job", AT))) == "paused"


def test_visibility_is_kept_within_its_bounds(ready: ManualOwner) -> None:
    short = ready.grant(visibility_ms=1)
    ready.release(short)
    long = ready.grant(visibility_ms=10**12)

    assert (short.visibility_ms, long.visibility_ms) == (VISIBILITY_MS_MIN, VISIBILITY_MS_MAX)


def test_a_completion_under_the_current_token_closes_the_run_and_finishes_a_one_off(ready: ManualOwner) -> None:
    reply = ready.complete(ready.grant())

    assert (reply.code, reply.outcome) == ("ok", "succeeded")
    assert (ready.state.status, ready.state.open) == ("finished", ())


def test_a_repeated_completion_is_answered_like_the_first(ready: ManualOwner) -> None:
    grant = ready.grant()
    ready.complete(grant)
    events = len(ready.log)

    reply = ready.complete(grant)

    assert (reply.code, reply.outcome, reply.replayed) == ("ok", "succeeded", True)
    assert len(ready.log) == events


def test_a_repeated_completion_is_fine_while_the_run_is_among_the_last_sixteen(owner: ManualOwner) -> None:
    owner.define()
    grants = []
    for hour in range(CLOSED_RUNS_MAX + 1):
        owner.run_until(AT + hour * HOUR)
        grants.append(owner.grant())
        owner.complete(grants[-1])

    assert len(owner.state.closed) == CLOSED_RUNS_MAX
    assert owner.complete(grants[1]).code == "ok"
    assert owner.complete(grants[0]).code == "lease_lost"


def test_runs_that_nobody_held_do_not_push_a_completion_out_of_the_memory(owner: ManualOwner) -> None:
    owner.define(overlap="queue")
    owner.run_until(AT)
    grant = owner.grant()
    owner.complete(grant)
    owner.run_until(AT + 2 * CLOSED_RUNS_MAX * HOUR)

    owner.do(Delete(job_id="job"))

    assert [run.outcome for run in owner.state.closed] == ["succeeded"] + ["skipped"] * (CLOSED_RUNS_MAX - 1)
    assert owner.complete(grant).code == "ok"


def test_a_completion_under_an_older_token_is_lost_and_names_the_current_attempt(ready: ManualOwner) -> None:
    first = ready.grant()
    ready.fail(first)
    ready.now_ms += HOUR
    ready.grant()

    reply = ready.complete(first)

    assert (reply.code, reply.attempt) == ("lease_lost", 2)
    assert ready.run(first.run_id).lease is not None


def test_a_completion_under_a_token_never_given_is_lost(ready: ManualOwner) -> None:
    grant = ready.grant()

    reply = ready.reply(Complete(job_id="job", run_id=grant.run_id, lease_token=grant.lease_token + 1))

    assert reply.code == "lease_lost"


def test_token_zero_of_a_run_that_was_never_leased_is_not_a_repeat(ready: ManualOwner) -> None:
    run_id = run_id_at("job", AT)
    ready.do(CancelRun(job_id="job", run_id=run_id))

    assert ready.reply(Release(job_id="job", run_id=run_id, lease_token=0)).code == "lease_lost"


def test_a_completion_past_the_expiry_counts_while_no_event_ended_the_lease(ready: ManualOwner) -> None:
    grant = ready.grant()
    ready.now_ms = grant.expires_at_ms + HOUR

    assert ready.complete(grant).code == "ok"


def test_a_result_over_its_bound_is_refused_with_the_field(ready: ManualOwner) -> None:
    grant = ready.grant()
    fits = Complete(job_id="job", run_id=grant.run_id, lease_token=grant.lease_token, result=b"x" * RESULT_BYTES_MAX)
    over = Complete(
        job_id="job", run_id=grant.run_id, lease_token=grant.lease_token, result=b"x" * (RESULT_BYTES_MAX + 1)
    )

    assert ready.reply(over).field == "result"
    assert ready.reply(fits).code == "ok"


def test_a_heartbeat_keeps_the_lease_and_writes_nothing(ready: ManualOwner) -> None:
    grant = ready.grant()
    ready.now_ms += 10_000
    events = len(ready.log)

    reply = ready.heartbeat(grant)

    assert (reply.code, reply.cancel) == ("ok", False)
    assert reply.expires_at_ms == ready.now_ms + grant.visibility_ms
    assert len(ready.log) == events


def test_a_renewal_is_logged_every_five_minutes_and_not_sooner(ready: ManualOwner) -> None:
    grant = ready.grant()
    ready.now_ms += 299_999
    ready.heartbeat(grant)
    assert "LeaseRenewed" not in ready.names()

    ready.now_ms += 1
    ready.heartbeat(grant)
    ready.heartbeat(grant)

    assert ready.names().count("LeaseRenewed") == 1


def test_a_late_heartbeat_after_the_own_completion_is_quiet(ready: ManualOwner) -> None:
    grant = ready.grant()
    ready.complete(grant)

    reply = ready.heartbeat(grant)

    assert (reply.code, reply.outcome, reply.cancel) == ("ok", "succeeded", False)


def test_a_heartbeat_under_an_older_token_is_lost(ready: ManualOwner) -> None:
    grant = ready.grant()
    ready.release(grant)
    ready.grant()

    assert ready.heartbeat(grant).code == "lease_lost"
    assert ready.heartbeats == {}


def test_a_heartbeat_of_an_unknown_run_is_lost(ready: ManualOwner) -> None:
    command = Heartbeat(job_id="job", run_id=run_id_at("job", AT + 1), lease_token=1)

    assert ready.reply(command).code == "lease_lost"


def test_a_release_returns_the_attempt_number_and_uses_the_token_up(ready: ManualOwner) -> None:
    first = ready.grant()
    assert ready.release(first).code == "ok"

    second = ready.grant()

    assert (first.attempt, second.attempt) == (1, 1)
    assert (first.lease_token, second.lease_token) == (1, 2)


def test_a_released_run_is_ready_at_once(ready: ManualOwner) -> None:
    grant = ready.grant()
    ready.release(grant)

    assert ready.run(grant.run_id).due_at_ms <= ready.now_ms


def test_a_repeated_release_is_answered_alike(ready: ManualOwner) -> None:
    grant = ready.grant()
    ready.release(grant)

    reply = ready.release(grant)

    assert (reply.code, reply.replayed) == ("ok", True)


def test_a_release_of_somebody_elses_lease_is_lost(ready: ManualOwner) -> None:
    first = ready.grant()
    ready.release(first)
    second = ready.grant()

    assert ready.release(first).code == "lease_lost"
    assert ready.heartbeat(second).code == "ok"


def test_a_repeated_failure_is_answered_alike(ready: ManualOwner) -> None:
    grant = ready.grant()
    first = ready.fail(grant)

    again = ready.fail(grant)

    assert (again.code, again.next_at_ms, again.replayed) == ("ok", first.next_at_ms, True)


def test_a_failure_of_a_lost_lease_does_not_end_the_live_attempt(ready: ManualOwner) -> None:
    first = ready.grant()
    ready.release(first)
    second = ready.grant()

    reply = ready.reply(Fail(job_id="job", run_id=first.run_id, lease_token=first.lease_token))

    assert reply.code == "lease_lost"
    assert ready.complete(second).code == "ok"


def test_a_completion_is_accepted_after_the_job_was_deleted(ready: ManualOwner) -> None:
    grant = ready.grant()
    ready.do(Delete(job_id="job"))

    assert ready.complete(grant).code == "ok"
    assert ready.state.closed[-1].outcome == "succeeded"
