"""Checkpoints: a living job is written to history whole every 7 days, spread by its id, and a closed one never."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from streams.core.apply import apply
from streams.core.checkpoint import CHECKPOINT_EVERY_MS, first_checkpoint_ms, next_checkpoint_ms
from streams.core.commands import Delete, Pause, Trigger
from streams.core.deadline import deadline_ms
from streams.core.events import JobCheckpoint
from streams.core.manual import ManualOwner
from streams.core.time import IntervalSpec, OneOffSpec

YEARLY = IntervalSpec(every_ms=365 * 24 * 3_600_000, anchor_ms=0)


def checkpoints(owner: ManualOwner) -> list[JobCheckpoint]:
    return [event for event in owner.log if isinstance(event, JobCheckpoint)]


def test_the_first_one_comes_within_seven_days_and_later_ones_every_seven(owner: ManualOwner) -> None:
    owner.define(schedule=YEARLY)
    begun_ms = owner.now_ms
    owner.run_until(begun_ms + 4 * CHECKPOINT_EVERY_MS)
    times = [event.at_ms for event in checkpoints(owner)]
    assert len(times) == 4
    assert begun_ms < times[0] <= begun_ms + CHECKPOINT_EVERY_MS
    assert {later - earlier for earlier, later in pairwise(times)} == {CHECKPOINT_EVERY_MS}


def test_jobs_of_one_instant_are_spread_over_the_week() -> None:
    times = [first_checkpoint_ms(f"job-{number}", 0) for number in range(7_000)]
    days = [sum(1 for at_ms in times if at_ms // (24 * 3_600_000) == day) for day in range(7)]
    assert min(times) > 0
    assert max(times) <= CHECKPOINT_EVERY_MS
    assert min(days) > 850


def test_a_checkpoint_holds_the_job_as_it_is_after_its_decision(owner: ManualOwner) -> None:
    owner.define(schedule=IntervalSpec(every_ms=24 * 3_600_000, anchor_ms=0), overlap="allow", concurrent_runs_max=64)
    owner.run_until(owner.now_ms + CHECKPOINT_EVERY_MS)
    (event,) = checkpoints(owner)
    job = apply(None, event)
    position = owner.log.index(event)
    for later in owner.log[position + 1 :]:
        job = apply(job, later)
    assert job == owner.job
    assert event.state.open


def test_folding_a_checkpoint_changes_only_the_time_of_the_next_one(owner: ManualOwner) -> None:
    owner.define(schedule=YEARLY)
    before = owner.must()
    owner.now_ms = before.state.checkpoint_at_ms
    (event,) = owner.wake().events
    assert isinstance(event, JobCheckpoint)
    assert event.state == before.state
    assert event.definition is before.definition
    assert owner.state.checkpoint_at_ms == before.state.checkpoint_at_ms + CHECKPOINT_EVERY_MS
    assert owner.wake().events == ()


def test_after_an_outage_one_checkpoint_is_written_and_the_rhythm_stays(owner: ManualOwner) -> None:
    owner.define(schedule=YEARLY)
    planned_ms = owner.state.checkpoint_at_ms
    owner.now_ms = planned_ms + 3 * CHECKPOINT_EVERY_MS + 5
    owner.wake()
    assert len(checkpoints(owner)) == 1
    assert (
        owner.state.checkpoint_at_ms
        == planned_ms + 4 * CHECKPOINT_EVERY_MS
        == next_checkpoint_ms(planned_ms, owner.now_ms)
    )


def test_a_paused_job_is_checkpointed_too(owner: ManualOwner) -> None:
    owner.define()
    owner.do(Pause(job_id="job"))
    owner.run_until(owner.now_ms + CHECKPOINT_EVERY_MS)
    assert len(checkpoints(owner)) == 1
    assert "RunOpened" not in owner.names()


def test_a_finished_job_needs_no_checkpoint(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(at_ms=owner.now_ms))
    grant = owner.grant()
    owner.complete(grant)
    assert owner.state.status == "finished"
    assert owner.state.checkpoint_at_ms == 0
    assert deadline_ms(owner.must()) == owner.state.forget_at_ms


def test_a_deleted_job_needs_no_checkpoint_even_while_a_run_of_it_is_leased(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(at_ms=owner.now_ms))
    owner.grant(visibility_ms=3_600_000)
    owner.do(Delete(job_id="job"))
    assert owner.state.checkpoint_at_ms == 0
    assert owner.state.open


def test_a_finished_job_that_is_triggered_edited_or_created_again_lives_and_is_checkpointed(owner: ManualOwner) -> None:
    def finished() -> ManualOwner:
        owner = ManualOwner(now_ms=1_798_761_600_001)
        owner.define(schedule=OneOffSpec(at_ms=owner.now_ms))
        owner.complete(owner.grant())
        owner.now_ms += 1_000
        return owner

    triggered, edited, created = finished(), finished(), finished()
    triggered.do(Trigger(job_id="job", request_id="t", trigger_id="t"))
    edited.define(schedule=YEARLY)
    created.do(Delete(job_id="job"))
    created.define(schedule=YEARLY)
    for revived in (triggered, edited, created):
        state: Any = revived.state
        assert state.status == "active"
        assert revived.now_ms < state.checkpoint_at_ms <= revived.now_ms + CHECKPOINT_EVERY_MS
    assert owner.job is None


def test_an_edit_keeps_the_rhythm(owner: ManualOwner) -> None:
    owner.define(schedule=YEARLY)
    planned_ms = owner.state.checkpoint_at_ms
    owner.now_ms += 1_000
    owner.define(schedule=YEARLY, task="other")
    assert owner.state.checkpoint_at_ms == planned_ms


def test_a_state_without_a_time_has_no_checkpoints(owner: ManualOwner) -> None:
    owner.define(schedule=YEARLY)
    import msgspec  # noqa: PLC0415 - one use

    state = msgspec.structs.replace(owner.state, checkpoint_at_ms=0)
    event = JobCheckpoint(state=state, definition=owner.must().definition, at_ms=owner.now_ms)
    folded = apply(None, event)
    assert folded is not None
    assert folded.state.checkpoint_at_ms == 0
    assert deadline_ms(folded) == state.next_at_ms
