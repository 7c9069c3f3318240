from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.core.commands import Define, Delete, Wake
from streams.core.decide import decide
from streams.core.events import JobDefined, JobEdited, OccurrencesSkipped, RunOpened
from streams.core.identity import run_id_at
from streams.core.state import FORGET_AFTER_MS
from streams.core.time import CronSpec, IntervalSpec, OneOffSpec

if TYPE_CHECKING:
    from typing import Any

    from streams.core.manual import ManualOwner

T = 1_798_761_600_000
HOUR = 3_600_000
HOURLY = IntervalSpec(every_ms=HOUR, anchor_ms=0)
DAILY = CronSpec(expression="0 9 * * *")


def define(
    owner: ManualOwner, *, request_hash: str = "h1", mode: Any = "upsert", version: int = 0, **fields: Any
) -> Define:
    return Define(
        job_id=owner.job_id,
        definition=owner.definition(**fields),
        request_hash=request_hash,
        mode=mode,
        expected_version=version,
    )


def test_a_new_job_is_created_at_version_one_with_its_next_occurrence(owner: ManualOwner) -> None:
    reply = owner.reply(define(owner, mode="create"))

    assert (reply.code, reply.version, reply.next_at_ms, reply.replayed) == ("created", 1, T + HOUR, False)


def test_a_new_recurring_job_may_run_in_the_very_instant_of_its_creation(owner: ManualOwner) -> None:
    owner.now_ms = T

    assert owner.define().next_at_ms == T


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
def test_a_one_off_in_the_past_runs_at_once(owner: ManualOwner, catch_up: str) -> None:
    owner.absent = (T - 10 * HOUR, T)

    owner.define(schedule=OneOffSpec(T - 5 * HOUR), catch_up=catch_up)

    assert owner.names() == ["JobDefined", "RunOpened"]
    assert owner.grant().scheduled_at_ms == T - 5 * HOUR


def test_the_same_create_is_answered_like_the_first_and_changes_nothing(owner: ManualOwner) -> None:
    first = owner.reply(define(owner, mode="create"))
    owner.run_until(T + 3 * HOUR)
    events = len(owner.log)

    again = owner.reply(define(owner, mode="create"))

    assert again.replayed
    assert (again.code, again.version, again.next_at_ms) == (first.code, first.version, first.next_at_ms)
    assert len(owner.log) == events


def test_a_create_of_an_existing_job_with_another_body_is_an_idempotency_conflict(owner: ManualOwner) -> None:
    owner.reply(define(owner, mode="create"))

    reply = owner.reply(define(owner, mode="create", request_hash="h2", payload=b"x"))

    assert reply.code == "idempotency_conflict"
    assert owner.names() == ["JobDefined"]


def test_the_first_answer_survives_an_edit(owner: ManualOwner) -> None:
    owner.reply(define(owner, mode="create"))
    owner.reply(define(owner, request_hash="h2", payload=b"x"))

    again = owner.reply(define(owner, mode="create"))

    assert (again.code, again.version, again.replayed) == ("created", 1, True)


def test_an_edit_raises_the_version_by_one(owner: ManualOwner) -> None:
    owner.define()

    reply = owner.define(payload=b"x")

    assert (reply.code, reply.version) == ("ok", 2)
    assert owner.state.version == 2


def test_an_edit_that_changes_nothing_is_no_edit(owner: ManualOwner) -> None:
    owner.define()

    reply = owner.reply(define(owner, request_hash="another", version=99))

    assert (reply.code, reply.version, reply.replayed) == ("ok", 1, True)


def test_a_repeated_edit_is_answered_alike_even_if_its_version_is_past(owner: ManualOwner) -> None:
    owner.define()
    edit = define(owner, request_hash="edit", version=1, payload=b"x")
    owner.reply(edit)

    reply = owner.reply(edit)

    assert (reply.code, reply.version) == ("ok", 2)
    assert owner.names() == ["JobDefined", "JobEdited"]


def test_an_edit_of_another_version_is_refused_with_the_present_one(owner: ManualOwner) -> None:
    owner.define()

    reply = owner.reply(define(owner, mode="edit", request_hash="h2", version=7, payload=b"x"))

    assert (reply.code, reply.version) == ("version_conflict", 1)


def test_an_edit_of_a_missing_job_is_not_found(owner: ManualOwner) -> None:
    assert owner.reply(define(owner, mode="edit")).code == "not_found"
    assert owner.job is None


@pytest.mark.parametrize("mode", ["create", "edit", "upsert"])
def test_a_job_of_another_tenant_is_refused(owner: ManualOwner, mode: str) -> None:
    owner.define()

    reply = owner.reply(define(owner, mode=mode, request_hash="h2", tenant="others"))

    assert reply.code == "wrong_tenant"


def test_a_schedule_that_cannot_be_read_is_refused_with_its_field(owner: ManualOwner) -> None:
    reply = owner.define(schedule=CronSpec(expression="61 * * * *"))

    assert reply.code == "invalid"
    assert "61" in reply.detail
    assert owner.job is None


def test_a_schedule_that_cannot_be_read_leaves_an_existing_job_as_it_was(owner: ManualOwner) -> None:
    owner.define()
    before = owner.job

    reply = owner.define(schedule=CronSpec(expression="61 * * * *"))

    assert reply.code == "invalid"
    assert owner.job == before


def test_a_schedule_without_any_occurrence_is_refused_at_creation(owner: ManualOwner) -> None:
    assert owner.define(end_at_ms=T - 1).code == "invalid"


def test_a_definition_under_another_key_is_refused(owner: ManualOwner) -> None:
    command = Define(job_id="other", definition=owner.definition(), request_hash="h")

    assert owner.reply(command).field == "job_id"


def test_an_unknown_calendar_is_refused(owner: ManualOwner) -> None:
    assert owner.define(calendars=("holidays",)).field == "calendars"


def test_an_edit_of_the_payload_leaves_the_cursor_alone(owner: ManualOwner) -> None:
    owner.define()
    owner.now_ms = T + HOUR + 50

    owner.define(payload=b"x")

    assert owner.state.next_at_ms == T + HOUR
    assert owner.grant().run_id == run_id_at("job", T + HOUR)


def test_hourly_to_daily_one_second_before_the_hour_does_not_run_at_the_hour(owner: ManualOwner) -> None:
    owner.define(schedule=HOURLY)
    owner.now_ms = T + 11 * HOUR - 1_000
    owner.run_until(owner.now_ms)
    before = sum(isinstance(event, RunOpened) for event in owner.log)

    owner.define(schedule=DAILY)
    owner.run_until(T + 12 * HOUR)

    assert sum(isinstance(event, RunOpened) for event in owner.log) == before
    assert owner.state.next_at_ms == T + 33 * HOUR


def test_hourly_to_daily_lets_a_leased_run_go_on(owner: ManualOwner) -> None:
    owner.define(schedule=HOURLY)
    owner.run_until(T + HOUR)
    grant = owner.grant()

    owner.define(schedule=DAILY)

    assert owner.complete(grant).code == "ok"


def test_an_open_unleased_run_of_the_old_version_stays(owner: ManualOwner) -> None:
    owner.define(schedule=HOURLY)
    owner.run_until(T + HOUR)

    owner.define(schedule=DAILY)

    assert owner.grant().run_id == run_id_at("job", T + HOUR)


def test_an_edit_to_a_denser_schedule_invents_nothing_in_the_past(owner: ManualOwner) -> None:
    owner.define(schedule=DAILY)
    owner.now_ms = T + 5 * HOUR + HOUR // 2

    owner.define(schedule=HOURLY)

    assert owner.state.next_at_ms == T + 6 * HOUR


def test_an_edit_records_what_the_old_schedule_had_due_and_nobody_decided(owner: ManualOwner) -> None:
    owner.define(schedule=HOURLY)
    owner.now_ms = T + 3 * HOUR + 5

    owner.define(schedule=DAILY)

    skipped = next(event for event in owner.log if isinstance(event, OccurrencesSkipped))
    assert (skipped.reason, skipped.count) == ("superseded", 3)
    assert (skipped.first_at_ms, skipped.last_at_ms) == (T + HOUR, T + 3 * HOUR)


def test_an_edit_cannot_run_an_instant_twice(owner: ManualOwner) -> None:
    owner.define(schedule=HOURLY)
    owner.run_until(T + HOUR)
    owner.complete(owner.grant())

    owner.define(schedule=CronSpec(expression="0 * * * *"))
    owner.define(schedule=OneOffSpec(T + HOUR))
    owner.run_until(T + 2 * HOUR)

    opened = [event.run_id for event in owner.log if isinstance(event, RunOpened)]
    assert opened == [run_id_at("job", T + HOUR)]


def test_a_one_off_that_ran_runs_again_under_a_new_instant_only(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(T + HOUR))
    owner.run_until(T + HOUR)
    owner.complete(owner.grant())
    assert owner.state.status == "finished"

    owner.define(schedule=OneOffSpec(T + HOUR), payload=b"x")
    assert owner.state.status == "finished"

    owner.define(schedule=OneOffSpec(T + 2 * HOUR))
    assert (owner.state.status, owner.state.next_at_ms) == ("active", T + 2 * HOUR)


def test_a_one_off_that_waits_for_a_worker_is_moved_and_not_doubled(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(T + HOUR))
    owner.run_until(T + HOUR)

    owner.define(schedule=OneOffSpec(T + 2 * HOUR))

    assert owner.state.open == ()
    assert owner.state.closed[-1].reason == "superseded"


def test_an_edit_of_a_one_off_to_a_past_instant_runs_at_once(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(T + HOUR))

    owner.define(schedule=OneOffSpec(T - HOUR))

    assert owner.grant().run_id == run_id_at("job", T - HOUR)


def test_a_weekly_interval_survives_a_daily_deploy(owner: ManualOwner) -> None:
    week = IntervalSpec(every_ms=7 * 24 * HOUR, anchor_ms=T)
    owner.define(schedule=week)
    for day in range(1, 8):
        owner.now_ms = T + day * 24 * HOUR - 1_000
        owner.define(schedule=week, payload=f"build {day}".encode())

    owner.run_until(T + 7 * 24 * HOUR)

    assert owner.grant().run_id == run_id_at("job", T + 7 * 24 * HOUR)


def test_a_re_create_continues_version_and_token(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(T + HOUR)
    token = owner.grant().lease_token
    owner.do(Delete(job_id="job"))

    reply = owner.reply(define(owner, mode="create", request_hash="h2", overlap="allow", concurrent_runs_max=2))
    owner.run_until(T + 2 * HOUR)

    assert reply.version == 3
    assert owner.grant().lease_token == token + 1


def test_a_repeated_create_of_a_deleted_job_gets_the_first_answer(owner: ManualOwner) -> None:
    owner.reply(define(owner, mode="create"))
    owner.do(Delete(job_id="job"))

    reply = owner.reply(define(owner, mode="create"))

    assert (reply.code, reply.version, reply.replayed) == ("created", 1, True)
    assert owner.state.status == "deleted"


def test_a_deleted_job_is_forgotten_a_day_later_and_not_before(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Delete(job_id="job"))
    owner.now_ms += FORGET_AFTER_MS - 1
    owner.wake()
    assert owner.job is not None

    owner.now_ms += 1
    owner.wake()

    assert owner.job is None


def test_max_runs_ends_the_schedule(owner: ManualOwner) -> None:
    owner.define(max_runs=2)
    for hour in (1, 2):
        owner.run_until(T + hour * HOUR)
        owner.complete(owner.grant())

    assert owner.state.status == "finished"
    assert owner.state.occurrences_total == 2


def test_the_end_of_the_window_ends_the_schedule(owner: ManualOwner) -> None:
    owner.define(start_at_ms=T + 2 * HOUR, end_at_ms=T + 2 * HOUR)

    assert owner.state.next_at_ms == T + 2 * HOUR
    owner.run_until(T + 2 * HOUR)
    owner.complete(owner.grant())
    assert owner.state.status == "finished"


def test_more_max_runs_let_a_finished_job_go_on(owner: ManualOwner) -> None:
    owner.define(max_runs=1)
    owner.run_until(T + HOUR)
    owner.complete(owner.grant())

    owner.define(max_runs=2)

    assert owner.state.next_at_ms == T + 2 * HOUR


def test_decide_does_not_change_the_job_it_was_given(owner: ManualOwner) -> None:
    owner.define()
    before, text = owner.must(), repr(owner.job)
    owner.now_ms = T + HOUR

    first = decide(before, Wake(job_id="job"), owner.context())

    assert repr(before) == text
    assert decide(before, Wake(job_id="job"), owner.context()) == first


def test_events_of_an_edit_name_both_cursors(owner: ManualOwner) -> None:
    owner.define(schedule=HOURLY)
    owner.define(schedule=DAILY)

    edited = next(event for event in owner.log if isinstance(event, JobEdited))
    defined = next(event for event in owner.log if isinstance(event, JobDefined))
    assert (edited.previous_next_at_ms, edited.next_at_ms) == (T + HOUR, T + 9 * HOUR)
    assert defined.next_at_ms == T + HOUR
