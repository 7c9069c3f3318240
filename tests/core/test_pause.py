from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core.commands import Pause, Reply, Resume
from streams.core.deadline import deadline_ms, ready_runs, upcoming
from streams.core.events import OccurrencesSkipped, RunOpened
from streams.core.time import IntervalSpec

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
HOUR = 3_600_000


def pause(owner: ManualOwner, *, until_ms: int = 0) -> Reply:
    return owner.reply(Pause(job_id="job", actor="ann", note="too loud", until_ms=until_ms))


def resume(owner: ManualOwner) -> Reply:
    return owner.reply(Resume(job_id="job", actor="bob", note="quiet"))


def skips(owner: ManualOwner) -> list[tuple[str, int, int, int]]:
    return [
        (event.reason, event.first_at_ms, event.last_at_ms, event.count)
        for event in owner.log
        if isinstance(event, OccurrencesSkipped)
    ]


def test_a_pause_carries_actor_note_and_end(owner: ManualOwner) -> None:
    owner.define()
    pause(owner, until_ms=AT)

    assert owner.state.pause is not None
    assert (owner.state.pause.actor, owner.state.pause.note, owner.state.pause.until_ms) == ("ann", "too loud", AT)


def test_a_paused_job_opens_nothing(owner: ManualOwner) -> None:
    owner.define()
    pause(owner)
    owner.now_ms = AT + 5 * HOUR

    assert owner.wake().events == ()
    assert upcoming(owner.must()) is None
    assert deadline_ms(owner.must()) == owner.state.checkpoint_at_ms


def test_a_pause_takes_waiting_runs_off_the_ready_list_at_once(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    assert len(ready_runs(owner.state)) == 1

    pause(owner)

    assert ready_runs(owner.state) == ()


def test_a_leased_run_goes_on_during_a_pause(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    pause(owner)

    assert owner.heartbeat(grant).cancel is False
    assert owner.complete(grant).code == "ok"


def test_what_is_due_at_the_pause_is_opened_before_it(owner: ManualOwner) -> None:
    owner.define()
    owner.now_ms = AT
    pause(owner)
    owner.now_ms = AT + 1
    resume(owner)

    assert owner.grant().scheduled_at_ms == AT


def test_a_resume_runs_nothing_of_the_pause_and_records_one_range(owner: ManualOwner) -> None:
    owner.define()
    pause(owner)
    owner.now_ms = AT + 4 * HOUR
    reply = resume(owner)

    assert skips(owner) == [("paused", AT, AT + 4 * HOUR, 5)]
    assert reply.next_at_ms == AT + 5 * HOUR
    assert ready_runs(owner.state) == ()


def test_paused_occurrences_are_not_missed_ones(owner: ManualOwner) -> None:
    owner.define(catch_up="all")
    pause(owner)
    owner.absent = (AT - HOUR, AT + 4 * HOUR)
    owner.now_ms = AT + 4 * HOUR
    owner.wake()
    resume(owner)
    owner.wake()

    assert [reason for reason, _, _, _ in skips(owner)] == ["paused"]
    assert not any(isinstance(event, RunOpened) for event in owner.log)


def test_a_resume_without_anything_due_skips_nothing(owner: ManualOwner) -> None:
    owner.define()
    pause(owner)
    resume(owner)

    assert skips(owner) == []
    assert owner.state.next_at_ms == AT


def test_a_pause_ends_at_its_instant_and_not_before(owner: ManualOwner) -> None:
    owner.define()
    pause(owner, until_ms=AT + 90 * 60_000)
    owner.now_ms = AT + 90 * 60_000 - 1
    owner.wake()
    assert owner.state.pause is not None

    owner.now_ms += 1
    owner.wake()

    assert owner.state.pause is None
    assert skips(owner) == [("paused", AT, AT + HOUR, 2)]


def test_an_occurrence_at_the_end_of_the_pause_runs(owner: ManualOwner) -> None:
    owner.define()
    pause(owner, until_ms=AT + HOUR)

    owner.run_until(AT + HOUR)

    assert skips(owner) == [("paused", AT, AT, 1)]
    assert owner.grant().scheduled_at_ms == AT + HOUR


def test_a_pause_that_is_over_does_not_stop_a_request_that_comes_before_the_wake(owner: ManualOwner) -> None:
    owner.define()
    pause(owner, until_ms=AT + HOUR)
    owner.now_ms = AT + HOUR

    grant = owner.grant(f"run_job_20270101T0{2}0000000Z")

    assert grant.scheduled_at_ms == AT + HOUR


def test_the_end_of_a_pause_is_a_deadline(owner: ManualOwner) -> None:
    owner.define()
    pause(owner, until_ms=AT + 5)

    assert deadline_ms(owner.must()) == AT + 5


def test_a_pause_until_the_past_is_refused(owner: ManualOwner) -> None:
    owner.define()

    assert pause(owner, until_ms=owner.now_ms).field == "until"
    assert pause(owner, until_ms=owner.now_ms + 1).code == "ok"


def test_a_repeated_pause_changes_nothing(owner: ManualOwner) -> None:
    owner.define()
    pause(owner)

    assert pause(owner).replayed
    assert owner.names().count("JobPaused") == 1


def test_another_pause_changes_the_end_and_keeps_the_beginning(owner: ManualOwner) -> None:
    owner.define()
    pause(owner)
    began_at_ms = owner.now_ms
    owner.now_ms += 10
    pause(owner, until_ms=AT)

    assert owner.state.pause is not None
    assert (owner.state.pause.paused_at_ms, owner.state.pause.until_ms) == (began_at_ms, AT)


def test_a_resume_of_a_job_that_is_not_paused_changes_nothing(owner: ManualOwner) -> None:
    owner.define()

    reply = resume(owner)

    assert (reply.code, reply.replayed) == ("ok", True)


def test_a_pause_of_two_years_at_one_a_second_ends_in_one_range(owner: ManualOwner) -> None:
    owner.define(schedule=IntervalSpec(every_ms=1_000, anchor_ms=0))
    began_at_ms = owner.now_ms
    pause(owner)
    owner.now_ms += 730 * 24 * HOUR
    resume(owner)

    assert [count for _, _, _, count in skips(owner)] == [730 * 86_400]
    assert owner.state.next_at_ms == (began_at_ms // 1_000 + 730 * 86_400 + 1) * 1_000


def test_another_tenant_can_neither_pause_nor_resume(owner: ManualOwner) -> None:
    owner.define()

    assert owner.reply(Pause(job_id="job", tenant="others")).code == "wrong_tenant"
    assert owner.reply(Resume(job_id="job", tenant="others")).code == "wrong_tenant"
    assert owner.reply(Pause(job_id="job", tenant="team")).code == "ok"


def test_a_pause_survives_an_edit(owner: ManualOwner) -> None:
    owner.define()
    pause(owner)
    owner.now_ms = AT + HOUR
    owner.define(schedule=IntervalSpec(every_ms=2 * HOUR, anchor_ms=0))

    assert owner.state.pause is not None
    assert skips(owner) == [("paused", AT, AT + HOUR, 2)]
