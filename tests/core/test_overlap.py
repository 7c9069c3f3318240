from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core.commands import CancelRun, Reply
from streams.core.events import OccurrencesSkipped
from streams.core.identity import run_id_at

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
HOUR = 3_600_000


def skips(owner: ManualOwner) -> list[OccurrencesSkipped]:
    return [event for event in owner.log if isinstance(event, OccurrencesSkipped)]


def test_skip_records_the_occurrence_and_the_run_in_its_way(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    owner.run_until(AT)
    grant = owner.grant()
    owner.heartbeats[grant.run_id] = AT + HOUR

    owner.run_until(AT + HOUR)

    assert [(event.reason, event.first_at_ms, event.blocked_by) for event in skips(owner)] == [
        ("overlap", AT + HOUR, grant.run_id)
    ]
    assert owner.state.skips_total == 1


def test_the_cursor_moves_on_a_skip(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    owner.run_until(AT + HOUR)

    assert owner.state.next_at_ms == AT + 2 * HOUR


def test_skip_frees_the_slot_when_the_run_in_the_way_ends(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    owner.run_until(AT)
    owner.complete(owner.grant())

    owner.run_until(AT + HOUR)

    assert skips(owner) == []
    assert owner.run(run_id_at("job", AT + HOUR)).held is False


def test_a_backlog_behind_one_run_is_skipped_as_one_range(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    owner.now_ms = AT + 1_000 * HOUR

    owner.wake()

    assert [event.scheduled_at_ms for event in owner.log if hasattr(event, "scheduled_at_ms")] == [AT]
    assert [(event.count, event.last_at_ms) for event in skips(owner)] == [(1_000, AT + 1_000 * HOUR)]


def test_allow_opens_side_by_side_up_to_its_maximum_and_skips_beyond(owner: ManualOwner) -> None:
    owner.define(overlap="allow", concurrent_runs_max=2)
    owner.run_until(AT + 2 * HOUR)

    assert [run.held for run in owner.state.open] == [False, False]
    assert [(event.reason, event.first_at_ms) for event in skips(owner)] == [("overlap", AT + 2 * HOUR)]


def test_allow_without_a_maximum_of_its_own_goes_up_to_the_open_run_bound(owner: ManualOwner) -> None:
    owner.define(overlap="allow", concurrent_runs_max=0)
    owner.open_runs_max = 5
    owner.run_until(AT + 4 * HOUR)

    assert len(owner.state.open) == 5
    assert skips(owner) == []


def test_queue_holds_the_next_run_until_the_one_before_it_ended(owner: ManualOwner) -> None:
    owner.define(overlap="queue")
    owner.run_until(AT)
    first = owner.grant()
    owner.heartbeats[first.run_id] = AT + 2 * HOUR
    owner.run_until(AT + 2 * HOUR)
    second = run_id_at("job", AT + HOUR)
    answer = owner.lease(second).reply
    assert isinstance(answer, Reply)
    assert answer.code == "not_leasable"

    owner.complete(first)

    assert owner.grant().run_id == second
    assert owner.run(run_id_at("job", AT + 2 * HOUR)).held


def test_queue_lets_go_in_order(owner: ManualOwner) -> None:
    owner.define(overlap="queue")
    owner.run_until(AT + 3 * HOUR)
    order = []
    for _ in range(4):
        grant = owner.grant()
        order.append(grant.scheduled_at_ms)
        owner.complete(grant)

    assert order == [AT, AT + HOUR, AT + 2 * HOUR, AT + 3 * HOUR]


def test_queue_lets_the_next_one_go_when_a_run_dies(owner: ManualOwner) -> None:
    owner.define(overlap="queue")
    owner.run_until(AT + HOUR)

    owner.fail(owner.grant(), retryable=False)

    assert owner.grant().scheduled_at_ms == AT + HOUR


def test_the_end_of_a_waiting_run_lets_nobody_pass_the_one_that_is_going(owner: ManualOwner) -> None:
    owner.define(overlap="queue")
    owner.run_until(AT + 2 * HOUR)

    owner.do(CancelRun(job_id="job", run_id=run_id_at("job", AT + HOUR)))

    assert [run.held for run in owner.state.open] == [False, True]


def test_a_run_that_waits_for_its_retry_still_holds_the_queue(owner: ManualOwner) -> None:
    owner.define(overlap="queue")
    owner.run_until(AT + HOUR)

    owner.fail(owner.grant())

    assert owner.run(run_id_at("job", AT + HOUR)).held


def test_replace_cancels_an_unleased_run_at_once(owner: ManualOwner) -> None:
    owner.define(overlap="replace")
    owner.run_until(AT + HOUR)

    assert [(run.run_id, run.outcome, run.reason) for run in owner.state.closed] == [
        (run_id_at("job", AT), "cancelled", "replaced")
    ]
    assert [run.held for run in owner.state.open] == [False]


def test_replace_asks_a_leased_run_to_stop_and_waits_for_it(owner: ManualOwner) -> None:
    owner.define(overlap="replace")
    owner.run_until(AT)
    grant = owner.grant(visibility_ms=3_600_000)
    owner.run_until(AT + HOUR)

    reply = owner.heartbeat(grant)
    assert (reply.cancel, reply.detail) == (True, "replaced")
    assert owner.run(run_id_at("job", AT + HOUR)).held

    owner.fail(grant)
    assert owner.state.closed[-1].outcome == "cancelled"
    assert owner.run(run_id_at("job", AT + HOUR)).held is False


def test_replace_keeps_only_the_newest_of_those_that_wait(owner: ManualOwner) -> None:
    owner.define(overlap="replace")
    owner.run_until(AT)
    grant = owner.grant(visibility_ms=3_600_000)
    owner.now_ms = AT + 3 * HOUR
    owner.heartbeats[grant.run_id] = owner.now_ms
    owner.consumed_lag_ms = 3 * HOUR
    owner.wake()

    assert [run.scheduled_at_ms for run in owner.state.open] == [AT, AT + 3 * HOUR]


def test_an_edit_from_queue_to_allow_lets_waiting_runs_go(owner: ManualOwner) -> None:
    owner.define(overlap="queue")
    owner.run_until(AT + 2 * HOUR)

    owner.define(overlap="allow", concurrent_runs_max=3)

    assert [run.held for run in owner.state.open] == [False, False, False]


def test_overlap_is_judged_when_a_request_opens_the_run(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    owner.run_until(AT)
    owner.grant()
    owner.now_ms = AT + HOUR
    owner.consumed_lag_ms = 2 * HOUR

    answer = owner.lease(run_id_at("job", AT + HOUR)).reply

    assert isinstance(answer, Reply)
    assert answer.code == "stale_offer"
    assert skips(owner)[-1].first_at_ms == AT + HOUR
