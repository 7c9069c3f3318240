from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core.commands import Delete, Pause, Reply, StartBackfill, Trigger, Wake
from streams.core.deadline import deadline_ms, ready_runs, upcoming
from streams.core.decide_wake import RECHECK_MS
from streams.core.identity import run_id_at
from streams.core.state import FORGET_AFTER_MS
from streams.core.time import OneOffSpec

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
HOUR = 3_600_000


def test_the_next_occurrence_is_the_deadline_of_an_idle_job(owner: ManualOwner) -> None:
    owner.define()

    assert deadline_ms(owner.must()) == AT


def test_the_due_time_of_an_open_run_is_no_deadline(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)

    assert deadline_ms(owner.must()) == owner.state.checkpoint_at_ms
    assert [run.due_at_ms for run in ready_runs(owner.state)] == [AT]


def test_a_retry_stands_in_the_ready_list_with_its_future_due_time(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    reply = owner.fail(owner.grant())

    assert deadline_ms(owner.must()) == owner.state.checkpoint_at_ms
    assert [run.due_at_ms for run in ready_runs(owner.state)] == [reply.next_at_ms]


def test_the_start_deadline_of_a_waiting_run_is_a_deadline(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), start_deadline_ms=5_000)
    owner.run_until(AT)

    assert deadline_ms(owner.must()) == AT + 5_000


def test_the_earlier_of_time_out_and_expiry_is_the_deadline_of_a_lease(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), timeout_ms=20_000)
    owner.run_until(AT)
    owner.grant()

    assert deadline_ms(owner.must()) == AT + 20_001


def test_the_open_run_bound_takes_the_next_occurrence_out_of_the_deadline(owner: ManualOwner) -> None:
    owner.define(overlap="allow", concurrent_runs_max=0)
    owner.open_runs_max = 1
    owner.run_until(AT)

    assert deadline_ms(owner.must(), open_runs_max=1) == owner.state.checkpoint_at_ms
    assert deadline_ms(owner.must(), open_runs_max=2) == AT + HOUR


def test_occurrences_held_back_by_the_bound_are_opened_when_a_run_ends(owner: ManualOwner) -> None:
    owner.define(overlap="allow", concurrent_runs_max=0)
    owner.open_runs_max = 1
    owner.run_until(AT + 3 * HOUR)
    assert [run.scheduled_at_ms for run in owner.state.open] == [AT]

    owner.complete(owner.grant())
    owner.run_until(owner.now_ms)

    assert [run.scheduled_at_ms for run in owner.state.open] == [AT + HOUR]


def test_a_request_for_a_run_that_the_bound_holds_back_is_refused_and_not_parked_in_the_past(
    owner: ManualOwner,
) -> None:
    owner.define(overlap="allow", concurrent_runs_max=0)
    owner.open_runs_max = 1
    owner.run_until(AT + HOUR)

    decision = owner.lease(run_id_at("job", AT + HOUR))

    assert isinstance(decision.reply, Reply)
    assert (decision.reply.code, decision.park_until_ms) == ("not_leasable", 0)


def test_a_lagging_lease_beside_a_full_backfill_is_no_busy_loop(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    owner.grant()
    backfill = StartBackfill(job_id="job", backfill_id="b", from_ms=AT - 5 * HOUR, until_ms=AT)
    owner.do(backfill)
    owner.now_ms = AT + 30_001
    owner.consumed_lag_ms = 50

    decision = owner.wake()

    assert (decision.events, decision.wake_at_ms) == ((), owner.now_ms + RECHECK_MS)


def test_the_end_of_a_closed_record_is_a_deadline(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Delete(job_id="job"))

    assert deadline_ms(owner.must()) == owner.now_ms + FORGET_AFTER_MS


def test_a_deleted_job_with_a_lease_waits_for_its_end_first(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    owner.grant()
    owner.do(Delete(job_id="job"))

    assert deadline_ms(owner.must()) == AT + 30_001


def test_held_leased_and_paused_runs_are_not_ready(owner: ManualOwner) -> None:
    owner.define(overlap="queue")
    owner.run_until(AT + HOUR)
    assert [run.run_id for run in ready_runs(owner.state)] == [run_id_at("job", AT)]

    owner.grant()
    assert ready_runs(owner.state) == ()


def test_a_forced_trigger_is_ready_during_a_pause(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Pause(job_id="job"))
    owner.do(Trigger(job_id="job", trigger_id="t", force=True))

    assert [run.run_id for run in ready_runs(owner.state)] == ["run_job_t"]


def test_the_upcoming_run_is_named_before_it_is_opened(owner: ManualOwner) -> None:
    owner.define()

    assert upcoming(owner.must()) == (run_id_at("job", AT), AT)


def test_nothing_comes_for_paused_finished_and_deleted_jobs(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Pause(job_id="job"))
    assert upcoming(owner.must()) is None
    owner.do(Delete(job_id="job"))
    assert upcoming(owner.must()) is None


def test_a_wake_before_the_deadline_does_nothing(owner: ManualOwner) -> None:
    owner.define()
    owner.now_ms = AT - 1

    decision = owner.wake()

    assert (decision.events, decision.reply, decision.wake_at_ms) == ((), None, 0)


def test_a_wake_of_a_missing_job_does_nothing(owner: ManualOwner) -> None:
    assert owner.do(Wake(job_id="job")).events == ()


def test_a_job_of_one_off_is_done_with_nothing_left_but_its_record(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    owner.complete(owner.grant())

    assert deadline_ms(owner.must()) == AT + FORGET_AFTER_MS
    owner.run_until(AT + FORGET_AFTER_MS)
    assert owner.job is None
