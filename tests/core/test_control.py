from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.core.commands import CancelRun, Delete, Pause, Reply, SkipSlot, Trigger
from streams.core.deadline import upcoming
from streams.core.decide_control import PAYLOADS_OPEN_BYTES_MAX, SKIP_SLOTS_MAX
from streams.core.definition import PAYLOAD_BYTES_MAX
from streams.core.events import OccurrencesSkipped
from streams.core.identity import run_id_at
from streams.core.state import CLOSED_RUNS_MAX, FORGET_AFTER_MS
from streams.core.time import IntervalSpec, OneOffSpec

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
HOUR = 3_600_000


def trigger(owner: ManualOwner, trigger_id: str = "t1", *, force: bool = False, payload: bytes | None = None) -> Reply:
    return owner.reply(Trigger(job_id="job", trigger_id=trigger_id, force=force, payload=payload, actor="ann"))


def cancel(owner: ManualOwner, run_id: str) -> Reply:
    return owner.reply(CancelRun(job_id="job", run_id=run_id, actor="ann", reason="user"))


def skip(owner: ManualOwner, at_ms: int, *, version: int = 0) -> Reply:
    return owner.reply(SkipSlot(job_id="job", at_ms=at_ms, expected_version=version, actor="ann"))


def test_a_trigger_opens_one_run_now_and_leaves_the_cursor_alone(owner: ManualOwner) -> None:
    owner.define()

    reply = trigger(owner, payload=b"own")
    grant = owner.grant()

    assert (reply.code, reply.run_id) == ("created", "run_job_t1")
    assert (grant.run_id, grant.scheduled_at_ms, grant.payload) == ("run_job_t1", owner.now_ms, b"own")
    assert owner.state.next_at_ms == AT


def test_the_same_trigger_id_is_the_same_run_open_or_closed(owner: ManualOwner) -> None:
    owner.define()
    trigger(owner)
    assert trigger(owner).replayed

    owner.complete(owner.grant())

    reply = trigger(owner)
    assert (reply.code, reply.replayed, reply.outcome) == ("created", True, "succeeded")
    assert owner.names().count("RunOpened") == 1


def test_a_trigger_under_skip_is_refused_with_the_run_in_its_way(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    owner.run_until(AT)

    reply = trigger(owner)

    assert (reply.code, reply.blocked_by) == ("blocked", run_id_at("job", AT))


def test_force_opens_a_trigger_beside_the_run_in_its_way(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    owner.run_until(AT)

    assert trigger(owner, force=True).code == "created"
    assert len(owner.state.open) == 2


def test_a_trigger_of_a_paused_job_needs_force_and_then_really_runs(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Pause(job_id="job"))
    assert trigger(owner).code == "paused"

    assert trigger(owner, force=True).code == "created"

    assert owner.complete(owner.grant("run_job_t1")).code == "ok"


def test_a_trigger_under_queue_waits_for_its_turn(owner: ManualOwner) -> None:
    owner.define(overlap="queue")
    owner.run_until(AT)

    trigger(owner)

    assert owner.run("run_job_t1").held


def test_a_trigger_under_replace_takes_the_place_of_an_unleased_run(owner: ManualOwner) -> None:
    owner.define(overlap="replace")
    owner.run_until(AT)

    trigger(owner)

    assert [run.run_id for run in owner.state.open] == ["run_job_t1"]


def test_a_trigger_beyond_the_open_run_bound_is_refused_even_by_force(owner: ManualOwner) -> None:
    owner.define(overlap="allow", concurrent_runs_max=0)
    owner.open_runs_max = 2
    assert trigger(owner, "t1").code == "created"
    assert trigger(owner, "t2").code == "created"

    assert trigger(owner, "t3", force=True).code == "too_many_open_runs"


@pytest.mark.parametrize("trigger_id", ["", "a_b", "20270101T000000000Z", "x" * 65, "ä"])
def test_a_trigger_id_that_makes_no_run_id_of_its_own_is_refused(owner: ManualOwner, trigger_id: str) -> None:
    owner.define()

    assert trigger(owner, trigger_id).field == "trigger_id"


def test_a_trigger_id_of_the_longest_length_is_fine(owner: ManualOwner) -> None:
    owner.define()

    assert trigger(owner, "x" * 64).code == "created"


def test_a_triggers_payload_is_bounded(owner: ManualOwner) -> None:
    owner.define()

    assert trigger(owner, payload=b"x" * (PAYLOAD_BYTES_MAX + 1)).field == "payload"
    assert trigger(owner, payload=b"x" * PAYLOAD_BYTES_MAX).code == "created"


def test_payloads_of_open_triggers_are_bounded_together(owner: ManualOwner) -> None:
    owner.define(overlap="allow", concurrent_runs_max=0)
    for number in range(PAYLOADS_OPEN_BYTES_MAX // PAYLOAD_BYTES_MAX):
        assert trigger(owner, f"t{number}", payload=b"x" * PAYLOAD_BYTES_MAX).code == "created"

    assert trigger(owner, "more", payload=b"x").code == "too_many_open_runs"
    assert trigger(owner, "without").code == "created"


def test_a_trigger_makes_a_finished_job_active_until_it_ends(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    owner.complete(owner.grant())

    trigger(owner)
    assert (owner.state.status, owner.state.forget_at_ms) == ("active", 0)

    owner.complete(owner.grant())
    assert owner.state.status == "finished"


def test_a_trigger_of_a_deleted_job_is_gone(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Delete(job_id="job"))

    assert trigger(owner).code == "gone"


def test_a_trigger_opens_what_is_due_before_itself(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    owner.now_ms = AT

    assert trigger(owner).blocked_by == run_id_at("job", AT)


def test_a_cancel_of_a_waiting_run_is_immediate(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)

    reply = cancel(owner, run_id_at("job", AT))

    assert (reply.code, reply.outcome) == ("ok", "cancelled")
    assert owner.state.open == ()


def test_a_cancel_of_a_leased_run_reaches_the_worker_through_its_heartbeat(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()

    assert cancel(owner, grant.run_id).cancel
    assert owner.heartbeat(grant).cancel

    assert owner.fail(grant).outcome == "cancelled"
    assert owner.state.closed[-1].lease_token == grant.lease_token


def test_a_completion_after_the_cancel_request_counts(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    cancel(owner, grant.run_id)

    assert owner.complete(grant).outcome == "succeeded"


def test_a_release_after_the_cancel_request_closes_the_run(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    cancel(owner, grant.run_id)

    assert owner.release(grant).outcome == "cancelled"
    assert owner.state.open == ()


def test_a_cancelled_run_is_not_granted_again_when_its_lease_expires(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    cancel(owner, grant.run_id)
    owner.run_until(AT + 60_000)

    assert owner.state.closed[-1].outcome == "cancelled"


def test_a_repeated_cancel_changes_nothing(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    cancel(owner, grant.run_id)

    assert cancel(owner, grant.run_id).replayed
    owner.fail(grant)
    assert cancel(owner, grant.run_id).replayed


def test_a_cancel_of_a_run_that_ended_otherwise_names_its_outcome(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    owner.complete(grant)

    reply = cancel(owner, grant.run_id)

    assert (reply.code, reply.outcome) == ("gone", "succeeded")


def test_a_cancel_of_an_unknown_run_is_not_found(owner: ManualOwner) -> None:
    owner.define()

    assert cancel(owner, "run_job_nothing").code == "not_found"


def test_a_cancel_lets_the_next_queued_run_go(owner: ManualOwner) -> None:
    owner.define(overlap="queue")
    owner.run_until(AT + HOUR)

    cancel(owner, run_id_at("job", AT))

    assert owner.grant().scheduled_at_ms == AT + HOUR


def skipped(owner: ManualOwner) -> list[tuple[str, int, int]]:
    return [
        (event.reason, event.first_at_ms, event.count) for event in owner.log if isinstance(event, OccurrencesSkipped)
    ]


def test_skipping_the_next_slot_is_promised_at_once_and_recorded_in_its_time(owner: ManualOwner) -> None:
    owner.define()

    reply = skip(owner, AT)

    assert (reply.code, reply.count, reply.next_at_ms) == ("ok", 1, AT + HOUR)
    assert upcoming(owner.must()) is None
    assert skipped(owner) == []
    owner.run_until(AT)
    assert skipped(owner) == [("requested", AT, 1)]
    assert owner.state.next_at_ms == AT + HOUR


def test_skipping_a_slot_that_is_due_and_undecided_is_recorded_at_once(owner: ManualOwner) -> None:
    owner.define()
    owner.now_ms = AT + 5

    assert skip(owner, AT).code == "ok"

    assert skipped(owner) == [("requested", AT, 1)]


def test_a_later_slot_of_several_that_are_due_is_skipped_alone(owner: ManualOwner) -> None:
    owner.define(overlap="allow", concurrent_runs_max=9)
    owner.now_ms = AT + HOUR

    skip(owner, AT + HOUR)
    owner.run_until(owner.now_ms)

    assert [run.scheduled_at_ms for run in owner.state.open] == [AT]
    assert skipped(owner) == [("requested", AT + HOUR, 1)]


def test_an_edit_after_a_skip_loses_nothing_that_lies_before_the_slot(owner: ManualOwner) -> None:
    owner.define(schedule=IntervalSpec(every_ms=12 * HOUR, anchor_ms=AT + 11 * HOUR))
    skip(owner, AT + 11 * HOUR)

    owner.define(schedule=IntervalSpec(every_ms=HOUR, anchor_ms=0), overlap="allow", concurrent_runs_max=20)
    owner.run_until(AT + 12 * HOUR)

    assert [run.scheduled_at_ms for run in owner.state.open] == [AT + n * HOUR for n in range(11)] + [AT + 12 * HOUR]
    assert skipped(owner) == [("requested", AT + 11 * HOUR, 1)]


def test_a_replaced_trigger_is_remembered_however_many_runs_ended_before_it(owner: ManualOwner) -> None:
    owner.define(overlap="replace")
    for number in range(CLOSED_RUNS_MAX):
        owner.reply(Trigger(job_id="job", trigger_id=f"done{number}"))
        owner.complete(owner.grant())
    for name in ("a", "b", "c"):
        owner.reply(Trigger(job_id="job", trigger_id=name))
    before = len(owner.log)

    repeats = [owner.reply(Trigger(job_id="job", trigger_id=name)) for name in ("a", "b", "c")]

    assert [(reply.code, reply.replayed) for reply in repeats] == [("created", True)] * 3
    assert len(owner.log) == before


def test_skipping_a_later_slot_waits_for_its_time(owner: ManualOwner) -> None:
    owner.define(overlap="allow", concurrent_runs_max=9)

    skip(owner, AT + HOUR)
    owner.run_until(AT + 2 * HOUR)

    assert [run.scheduled_at_ms for run in owner.state.open] == [AT, AT + 2 * HOUR]
    assert owner.state.skip_at_ms == ()


def test_a_repeated_skip_changes_nothing(owner: ManualOwner) -> None:
    owner.define()
    skip(owner, AT + HOUR)

    assert skip(owner, AT + HOUR).replayed
    assert owner.names().count("SlotSkipRequested") == 1


def test_a_skip_of_an_instant_without_occurrence_names_the_next_one(owner: ManualOwner) -> None:
    owner.define()

    reply = skip(owner, AT + 5)

    assert (reply.code, reply.field, reply.next_at_ms) == ("invalid", "at", AT + HOUR)


def test_a_skip_that_comes_too_late_says_what_it_hit(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    assert (skip(owner, AT).code, skip(owner, AT).blocked_by) == ("blocked", run_id_at("job", AT))

    owner.complete(owner.grant())

    assert (skip(owner, AT).code, skip(owner, AT).outcome) == ("gone", "succeeded")


def test_a_skip_names_a_version(owner: ManualOwner) -> None:
    owner.define()

    assert skip(owner, AT, version=2).code == "version_conflict"
    assert skip(owner, AT, version=1).code == "ok"


def test_slots_that_wait_to_be_skipped_are_bounded(owner: ManualOwner) -> None:
    owner.define()
    for number in range(1, SKIP_SLOTS_MAX + 1):
        assert skip(owner, AT + number * HOUR).code == "ok"

    assert skip(owner, AT + (SKIP_SLOTS_MAX + 1) * HOUR).code == "quota"


def test_a_skipped_slot_is_not_offered(owner: ManualOwner) -> None:
    owner.define()
    skip(owner, AT + HOUR)
    owner.run_until(AT)

    reply = owner.lease(run_id_at("job", AT + HOUR)).reply

    assert owner.state.next_at_ms == AT + HOUR
    assert isinstance(reply, Reply)
    assert reply.code == "stale_offer"


def test_delete_closes_waiting_runs_and_tells_leased_ones_to_cancel(owner: ManualOwner) -> None:
    owner.define(overlap="allow", concurrent_runs_max=2)
    owner.run_until(AT)
    grant = owner.grant(visibility_ms=3_600_000)
    owner.run_until(AT + HOUR)

    reply = owner.reply(Delete(job_id="job"))

    assert (reply.code, owner.state.status, owner.must().definition) == ("ok", "deleted", None)
    assert [(run.outcome, run.reason) for run in owner.state.closed] == [("skipped", "deleted")]
    assert owner.heartbeat(grant).detail == "job_deleted"


def test_delete_records_what_was_due_and_undecided(owner: ManualOwner) -> None:
    owner.define()
    owner.now_ms = AT + HOUR

    owner.do(Delete(job_id="job"))

    skipped = [(event.reason, event.count) for event in owner.log if isinstance(event, OccurrencesSkipped)]
    assert skipped == [("deleted", 2)]


def test_a_repeated_delete_is_fine(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Delete(job_id="job"))

    assert owner.reply(Delete(job_id="job")).replayed


def test_delete_checks_version_and_tenant(owner: ManualOwner) -> None:
    owner.define()

    assert owner.reply(Delete(job_id="job", expected_version=3)).code == "version_conflict"
    assert owner.reply(Delete(job_id="job", tenant="others")).code == "wrong_tenant"


def test_the_record_of_a_deleted_job_lives_a_day_past_its_last_lease(owner: ManualOwner) -> None:
    owner.define(schedule=IntervalSpec(every_ms=HOUR, anchor_ms=0))
    owner.run_until(AT)
    grant = owner.grant()
    owner.do(Delete(job_id="job"))
    owner.now_ms = AT + 20_000
    owner.complete(grant)

    assert owner.state.forget_at_ms == AT + 20_000 + FORGET_AFTER_MS


def test_a_lease_of_a_deleted_job_that_expires_is_cancelled(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    owner.grant()
    owner.do(Delete(job_id="job"))
    owner.run_until(AT + 60_000)

    assert owner.state.closed[-1].outcome == "cancelled"
    assert owner.state.open == ()
