from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.core.commands import Delete, Pause, ReplayRun, Reply, StartBackfill, StopBackfill, Trigger
from streams.core.deadline import deadline_ms
from streams.core.decide_control import BACKFILL_INTERVAL_MS_MAX, BACKFILLS_MAX, REPLAYS_MAX
from streams.core.events import RunOpened
from streams.core.identity import run_id_at
from streams.core.state import BACKFILLS_ENDED_MAX, DEAD_PAYLOAD_BYTES_MAX
from streams.core.time import OneOffSpec

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
HOUR = 3_600_000


def replay(owner: ManualOwner, run_id: str, replay_id: str = "again") -> Reply:
    return owner.reply(ReplayRun(job_id="job", run_id=run_id, replay_id=replay_id))


def backfill(
    owner: ManualOwner,
    backfill_id: str = "b1",
    *,
    from_ms: int = AT - 5 * HOUR,
    until_ms: int = AT - 2 * HOUR,
    at_once: int = 1,
) -> Reply:
    return owner.reply(
        StartBackfill(
            job_id="job", backfill_id=backfill_id, from_ms=from_ms, until_ms=until_ms, concurrent_runs_max=at_once
        )
    )


@pytest.fixture
def dead(owner: ManualOwner) -> ManualOwner:
    """A one-off that died and finished its job."""
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    owner.fail(owner.grant(), retryable=False)
    return owner


def test_a_replay_opens_a_new_run_that_is_linked_to_the_dead_one(dead: ManualOwner) -> None:
    run_id = run_id_at("job", AT)

    reply = replay(dead, run_id)

    run = dead.run("run_job_again")
    assert (reply.code, reply.run_id) == ("created", "run_job_again")
    assert (run.kind, run.replay_of, run.replays, run.attempt) == ("replay", run_id, 1, 0)
    assert dead.state.dead == ()


def test_a_replay_makes_a_finished_job_active_until_it_ends(dead: ManualOwner) -> None:
    replay(dead, run_id_at("job", AT))
    assert dead.names()[-1] == "RunOpened"
    assert dead.state.forget_at_ms == 0

    dead.complete(dead.grant())

    assert dead.state.status == "finished"


def test_a_repeated_replay_is_the_same_run(dead: ManualOwner) -> None:
    replay(dead, run_id_at("job", AT))

    assert replay(dead, run_id_at("job", AT)).replayed
    assert dead.names().count("DeadRunReplayed") == 1


def test_a_dead_run_is_replayed_once(dead: ManualOwner) -> None:
    replay(dead, run_id_at("job", AT))

    assert replay(dead, run_id_at("job", AT), "other").code == "gone"


def test_a_run_that_is_not_dead_is_not_replayed(owner: ManualOwner) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    assert replay(owner, grant.run_id).code == "gone"
    owner.complete(grant)

    assert replay(owner, grant.run_id).outcome == "succeeded"
    assert replay(owner, "run_job_unknown").code == "not_found"


def test_replays_of_one_piece_of_work_have_a_ceiling(dead: ManualOwner) -> None:
    run_id = run_id_at("job", AT)
    for number in range(REPLAYS_MAX):
        run_id = replay(dead, run_id, f"n{number}").run_id
        dead.fail(dead.grant(), retryable=False)

    assert replay(dead, run_id, "more").code == "too_many_replays"


def test_a_replay_carries_the_dead_triggers_own_payload(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Trigger(job_id="job", trigger_id="t", payload=b"own"))
    owner.fail(owner.grant(), retryable=False)

    replay(owner, "run_job_t")

    assert owner.grant("run_job_again").payload == b"own"


def test_a_dead_trigger_whose_payload_no_longer_fits_says_so(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Trigger(job_id="job", trigger_id="t", payload=b"x" * (DEAD_PAYLOAD_BYTES_MAX + 1)))
    owner.fail(owner.grant(), retryable=False)

    reply = replay(owner, "run_job_t")

    assert reply.code == "gone"
    assert "payload" in reply.detail


def test_newer_dead_payloads_push_older_ones_out(owner: ManualOwner) -> None:
    owner.define()
    for name in ("t1", "t2"):
        owner.do(Trigger(job_id="job", trigger_id=name, payload=b"x" * (DEAD_PAYLOAD_BYTES_MAX // 2 + 1)))
        owner.fail(owner.grant(), retryable=False)

    assert [run.payload_dropped for run in owner.state.dead] == [True, False]


def test_a_replay_does_not_stand_in_the_way_of_the_schedule(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    owner.run_until(AT)
    owner.fail(owner.grant(), retryable=False)
    replay(owner, run_id_at("job", AT))

    owner.run_until(AT + HOUR)

    assert owner.run(run_id_at("job", AT + HOUR)).held is False


def test_a_backfill_opens_past_occurrences_oldest_first_at_its_own_rate(owner: ManualOwner) -> None:
    owner.define()
    reply = backfill(owner)
    assert (reply.code, reply.count) == ("created", 4)
    order = []
    while owner.state.backfills or any(run.kind == "backfill" for run in owner.state.open):
        owner.run_until(owner.now_ms)
        assert len(owner.state.open) == 1
        grant = owner.grant()
        order.append((grant.scheduled_at_ms, grant.lane))
        owner.complete(grant)

    assert order == [(AT - hours * HOUR, "low") for hours in (5, 4, 3, 2)]


def test_a_backfill_runs_side_by_side_up_to_its_maximum(owner: ManualOwner) -> None:
    owner.define()
    backfill(owner, at_once=3)

    assert len(owner.state.open) == 3
    assert deadline_ms(owner.must()) == AT


def test_a_slot_of_a_backfill_waits_for_a_run_of_it_to_end(owner: ManualOwner) -> None:
    owner.define()
    backfill(owner)
    owner.complete(owner.grant())

    assert deadline_ms(owner.must()) == AT - 4 * HOUR
    owner.wake()
    assert owner.grant().scheduled_at_ms == AT - 4 * HOUR


def test_a_backfill_does_not_stand_in_the_way_of_the_schedule(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    backfill(owner)

    owner.run_until(AT)

    assert owner.run(run_id_at("job", AT)).held is False


def test_a_backfill_shows_its_progress_and_ends(owner: ManualOwner) -> None:
    owner.define()
    backfill(owner, at_once=2)
    assert [(item.opened, item.cursor_at_ms) for item in owner.state.backfills] == [(2, AT - 3 * HOUR)]

    for _ in range(2):
        owner.complete(owner.grant())
    owner.wake()

    assert owner.state.backfills == ()
    ended = owner.state.backfills_ended[0]
    assert (ended.backfill_id, ended.opened, ended.runs_total, ended.ended_by) == ("b1", 4, 4, "completed")


def test_a_stopped_backfill_opens_nothing_more_and_keeps_what_it_opened(owner: ManualOwner) -> None:
    owner.define()
    backfill(owner)

    reply = owner.reply(StopBackfill(job_id="job", backfill_id="b1"))

    assert (reply.code, reply.count) == ("ok", 1)
    owner.complete(owner.grant())
    assert owner.wake().events == ()
    assert owner.reply(StopBackfill(job_id="job", backfill_id="b1")).replayed
    assert owner.reply(StopBackfill(job_id="job", backfill_id="b9")).code == "not_found"


def test_the_same_backfill_id_is_the_same_backfill_going_or_ended(owner: ManualOwner) -> None:
    owner.define()
    backfill(owner)
    assert backfill(owner).replayed

    owner.do(StopBackfill(job_id="job", backfill_id="b1"))

    assert backfill(owner).replayed
    assert owner.names().count("BackfillStarted") == 1


def test_a_backfill_of_the_future_or_of_nothing_is_refused(owner: ManualOwner) -> None:
    owner.define()

    assert backfill(owner, until_ms=owner.now_ms + 1).field == "until"
    assert backfill(owner, from_ms=AT - HOUR, until_ms=AT - 2 * HOUR).field == "until"
    assert backfill(owner, from_ms=AT - 2 * HOUR + 1, until_ms=AT - HOUR - 1).field == "from"
    assert backfill(owner, from_ms=AT - 2 * HOUR, until_ms=AT - 2 * HOUR).count == 1


def test_backfills_of_one_job_are_bounded(owner: ManualOwner) -> None:
    owner.define()
    for number in range(BACKFILLS_MAX):
        assert backfill(owner, f"b{number}").code == "created"

    assert backfill(owner, "more").code == "quota"


def test_remembered_backfill_ids_are_bounded(owner: ManualOwner) -> None:
    owner.define()
    for number in range(BACKFILLS_ENDED_MAX + 1):
        backfill(owner, f"b{number}")
        owner.do(StopBackfill(job_id="job", backfill_id=f"b{number}"))
        owner.complete(owner.grant())

    assert len(owner.state.backfills_ended) == BACKFILLS_ENDED_MAX


def test_a_paused_job_does_not_go_on_with_its_backfill(owner: ManualOwner) -> None:
    owner.define()
    backfill(owner)
    owner.complete(owner.grant())
    owner.do(Pause(job_id="job"))

    assert deadline_ms(owner.must()) == owner.state.checkpoint_at_ms
    assert owner.wake().events == ()


def test_a_delete_ends_backfills(owner: ManualOwner) -> None:
    owner.define()
    backfill(owner)

    owner.do(Delete(job_id="job"))

    assert "BackfillEnded" in owner.names()
    assert owner.state.backfills == ()


def test_a_finished_job_can_be_backfilled(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.run_until(AT)
    owner.complete(owner.grant())
    backfill(owner, from_ms=AT, until_ms=AT)

    assert [event.run_id for event in owner.log if isinstance(event, RunOpened)][-1] == "run_job_b1.20270101T010000000Z"
    owner.complete(owner.grant())
    assert owner.state.status == "finished"


def test_a_backfill_run_counts_its_start_deadline_from_its_opening(owner: ManualOwner) -> None:
    owner.define(start_deadline_ms=60_000)
    backfill(owner)

    assert owner.grant().scheduled_at_ms == AT - 5 * HOUR


def test_a_backfill_opens_no_faster_than_its_rate(owner: ManualOwner) -> None:
    owner.define()
    owner.do(
        StartBackfill(
            job_id="job",
            backfill_id="b1",
            from_ms=AT - 5 * HOUR,
            until_ms=AT - 2 * HOUR,
            concurrent_runs_max=10,
            interval_ms=60_000,
        )
    )
    started_at_ms = owner.now_ms
    assert deadline_ms(owner.must()) == started_at_ms + 60_000
    owner.now_ms += 59_999
    assert owner.wake().events == ()
    owner.run_until(started_at_ms + 10 * 60_000)
    opened = [event.at_ms for event in owner.log if isinstance(event, RunOpened) and event.kind == "backfill"]
    assert opened == [started_at_ms + 60_000 * number for number in range(4)]
    (ended,) = owner.state.backfills_ended
    assert (ended.opened, ended.runs_total, ended.ended_by, ended.first_at_ms, ended.last_at_ms) == (
        4,
        4,
        "completed",
        AT - 5 * HOUR,
        AT - 2 * HOUR,
    )


def test_a_rate_does_not_lift_the_backfills_own_limit(owner: ManualOwner) -> None:
    owner.define()
    command = StartBackfill(
        job_id="job", backfill_id="b1", from_ms=AT - 5 * HOUR, until_ms=AT - 2 * HOUR, interval_ms=1_000
    )
    owner.do(command)
    owner.run_until(owner.now_ms + 10_000)
    assert len(owner.state.open) == 1
    owner.complete(owner.grant())
    owner.wake()
    assert len(owner.state.open) == 1


@pytest.mark.parametrize("interval_ms", [-1, BACKFILL_INTERVAL_MS_MAX + 1])
def test_an_interval_out_of_bounds_is_refused(owner: ManualOwner, interval_ms: int) -> None:
    owner.define()
    command = StartBackfill(
        job_id="job", backfill_id="b1", from_ms=AT - 5 * HOUR, until_ms=AT - 2 * HOUR, interval_ms=interval_ms
    )
    assert owner.reply(command).field == "interval_ms"


def test_a_stopped_backfill_is_remembered_with_how_far_it_came(owner: ManualOwner) -> None:
    owner.define()
    backfill(owner, at_once=2)
    owner.do(StopBackfill(job_id="job", backfill_id="b1"))
    (ended,) = owner.state.backfills_ended
    assert (ended.opened, ended.runs_total, ended.ended_by, ended.ended_at_ms) == (2, 4, "stopped", owner.now_ms)
