"""D20: hundreds of runs a second, from a schedule that is broken on purpose, trip the guard. Nothing else does."""

from __future__ import annotations

import pytest

import streams.core.decide_due
from streams.core.commands import Pause, Resume, Trigger
from streams.core.deadline import ready_runs
from streams.core.definition import Retry
from streams.core.events import JobPaused, RunOpened
from streams.core.manual import ManualOwner
from streams.core.rate_guard import RATE_GUARD_ACTOR, RATE_GUARD_SLOTS_MAX, RATE_GUARD_WINDOW_MS
from streams.core.state import CLOSED_RUNS_MAX
from streams.core.time import IntervalSpec, Occurrence, OneOffSpec

NEW_YEAR_MS = 1_798_761_600_000
SECOND_MS = 1_000
EVERY_SECOND = IntervalSpec(every_ms=SECOND_MS, anchor_ms=0)


def opened(owner: ManualOwner) -> list[int]:
    return [event.scheduled_at_ms for event in owner.log if isinstance(event, RunOpened) and event.kind == "schedule"]


def trips(owner: ManualOwner) -> int:
    return sum(isinstance(event, JobPaused) and event.actor == RATE_GUARD_ACTOR for event in owner.log)


def work(owner: ManualOwner) -> None:
    """A worker that ends every waiting run at once."""
    while ready_runs(owner.state):
        owner.complete(owner.grant())


def run_for(owner: ManualOwner, duration_ms: int, *, step_ms: int) -> None:
    until_ms = owner.now_ms + duration_ms
    while owner.now_ms < until_ms:
        owner.run_until(owner.now_ms + step_ms)
        work(owner)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The next occurrence is always a hundredth of a second away: celery#4184."""
    monkeypatch.setattr(
        streams.core.decide_due, "next_after", lambda _definition, _context, at_ms: Occurrence(at_ms + 10, at_ms + 10)
    )
    return monkeypatch


@pytest.mark.usefixtures("broken")
def test_a_flood_of_runs_is_held_after_ten(owner: ManualOwner) -> None:
    owner.define(schedule=EVERY_SECOND, overlap="allow")
    owner.run_until(owner.now_ms + 3 * SECOND_MS)
    assert len(opened(owner)) == RATE_GUARD_SLOTS_MAX
    pause = owner.state.pause
    assert pause is not None
    assert (pause.actor, pause.until_ms) == ("system:rate_guard", 0)
    assert "resume the job" in pause.note
    assert ready_runs(owner.state) == ()  # what was opened is held too
    owner.run_until(owner.now_ms + 3_600 * SECOND_MS)
    assert len(opened(owner)) == RATE_GUARD_SLOTS_MAX
    assert trips(owner) == 1


@pytest.mark.usefixtures("broken")
def test_runs_that_end_at_once_count_too(owner: ManualOwner) -> None:
    owner.define(schedule=EVERY_SECOND)
    run_for(owner, 3 * SECOND_MS, step_ms=10)
    assert len(opened(owner)) == RATE_GUARD_SLOTS_MAX
    assert trips(owner) == 1


@pytest.mark.usefixtures("broken")
def test_runs_that_die_at_once_count_too(owner: ManualOwner) -> None:
    owner.define(schedule=EVERY_SECOND, retry=Retry(max_attempts=1))
    for _ in range(300):
        owner.run_until(owner.now_ms + 10)
        if ready_runs(owner.state):
            owner.fail(owner.grant())
    assert len(opened(owner)) == RATE_GUARD_SLOTS_MAX


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("ask", ["trigger", "lease"])
def test_whatever_makes_a_decision_meets_the_guard(owner: ManualOwner, ask: str) -> None:
    owner.define(schedule=EVERY_SECOND, overlap="allow")
    owner.now_ms += 3 * SECOND_MS
    if ask == "trigger":
        assert owner.reply(Trigger(job_id="job", trigger_id="t")).code == "paused"
    else:
        owner.lease()
    assert len(opened(owner)) == RATE_GUARD_SLOTS_MAX
    assert trips(owner) == 1


def test_a_resumed_job_goes_on_when_the_fault_is_gone(owner: ManualOwner, broken: pytest.MonkeyPatch) -> None:
    owner.define(schedule=EVERY_SECOND)
    run_for(owner, 3 * SECOND_MS, step_ms=10)
    owner.now_ms += 60 * SECOND_MS
    owner.reply(Resume(job_id="job", actor="ann"))
    run_for(owner, 3 * SECOND_MS, step_ms=10)
    assert trips(owner) == 2  # still broken: as many runs, and held again
    assert len(opened(owner)) == 2 * RATE_GUARD_SLOTS_MAX
    broken.undo()
    owner.define(schedule=EVERY_SECOND, labels={"edited": "yes"})
    assert owner.reply(Resume(job_id="job", actor="ann")).code == "ok"
    run_for(owner, 60 * SECOND_MS, step_ms=250)
    assert trips(owner) == 2
    assert len(opened(owner)) == pytest.approx(2 * RATE_GUARD_SLOTS_MAX + 60, abs=1)


@pytest.mark.usefixtures("broken")
def test_a_pause_that_meets_the_guard_is_a_pause(owner: ManualOwner) -> None:
    owner.define(schedule=EVERY_SECOND, overlap="allow")
    owner.now_ms += 3 * SECOND_MS
    assert owner.reply(Pause(job_id="job", actor="ann", note="too loud")).code == "ok"
    assert owner.state.pause is not None
    assert owner.state.pause.actor == "ann"


def test_a_job_of_every_second_is_left_alone(owner: ManualOwner) -> None:
    owner.define(schedule=EVERY_SECOND, overlap="allow")
    run_for(owner, 300 * SECOND_MS, step_ms=100)
    assert (trips(owner), len(opened(owner))) == (0, 300)


@pytest.mark.parametrize("number", range(8))
def test_jitter_brings_occurrences_together_and_stays_below_the_bound(number: int) -> None:
    owner = ManualOwner(now_ms=NEW_YEAR_MS + 1, job_id=f"job{number}")
    owner.define(schedule=EVERY_SECOND, overlap="allow", jitter_kind="occurrence", jitter_ms=999)
    run_for(owner, 200 * SECOND_MS, step_ms=100)
    assert trips(owner) == 0
    assert len(opened(owner)) == pytest.approx(200, abs=2)


def test_catching_up_is_as_fast_as_it_likes(owner: ManualOwner) -> None:
    owner.define(schedule=EVERY_SECOND, overlap="allow", catch_up="all")
    owner.absent = (owner.now_ms, owner.now_ms + 600 * SECOND_MS)
    owner.now_ms += 600 * SECOND_MS
    run_for(owner, 100, step_ms=1)
    assert (trips(owner), len(opened(owner))) == (0, 600)


def test_a_backlog_that_had_no_workers_is_worked_off_at_once(owner: ManualOwner) -> None:
    owner.define(schedule=EVERY_SECOND, overlap="allow")
    owner.run_until(owner.now_ms + 300 * SECOND_MS)
    assert len(opened(owner)) == 64
    run_for(owner, 100, step_ms=1)
    assert (trips(owner), len(opened(owner))) == (0, 300)


def test_triggers_are_no_occurrences(owner: ManualOwner) -> None:
    owner.define(schedule=EVERY_SECOND, overlap="allow")
    owner.run_until(owner.now_ms + 10 * SECOND_MS)
    for number in range(50):
        assert owner.reply(Trigger(job_id="job", trigger_id=f"t{number}", force=True)).code == "created"
    work(owner)
    run_for(owner, 10 * SECOND_MS, step_ms=100)
    assert (trips(owner), len(opened(owner))) == (0, 20)


def test_a_job_that_is_armed_anew_by_edits_is_left_alone(owner: ManualOwner) -> None:
    for number in range(50):
        owner.define(schedule=OneOffSpec(at_ms=owner.now_ms + 20), labels={"number": str(number)})
        run_for(owner, 50, step_ms=10)
    assert (trips(owner), len(opened(owner))) == (0, 50)


def test_what_the_guard_counts_is_remembered_long_enough() -> None:
    assert RATE_GUARD_SLOTS_MAX < CLOSED_RUNS_MAX
    assert RATE_GUARD_WINDOW_MS // SECOND_MS + 2 < RATE_GUARD_SLOTS_MAX  # a right schedule, with all its jitter
