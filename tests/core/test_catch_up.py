from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.core.deadline import deadline_ms
from streams.core.decide_due import STEPS_PER_DECISION_MAX
from streams.core.events import OccurrencesSkipped, RunOpened
from streams.core.time import IntervalSpec, OneOffSpec

if TYPE_CHECKING:
    from streams.core.manual import ManualOwner

AT = 1_798_765_200_000
HOUR = 3_600_000
MINUTELY = IntervalSpec(every_ms=60_000, anchor_ms=0)


def opened(owner: ManualOwner) -> list[RunOpened]:
    return [event for event in owner.log if isinstance(event, RunOpened)]


def skips(owner: ManualOwner) -> list[tuple[str, int, int, int]]:
    return [
        (event.reason, event.first_at_ms, event.last_at_ms, event.count)
        for event in owner.log
        if isinstance(event, OccurrencesSkipped)
    ]


def absent(owner: ManualOwner, hours: int) -> None:
    """Nobody owned the partition from just before AT for some hours; now somebody does."""
    owner.absent = (AT - 1_000, AT + hours * HOUR)
    owner.now_ms = AT + hours * HOUR


def test_latest_opens_the_last_missed_occurrence_and_records_the_rest_as_one_range(owner: ManualOwner) -> None:
    owner.define(catch_up="latest", overlap="allow", concurrent_runs_max=9)
    absent(owner, 5)
    owner.wake()

    assert [(event.scheduled_at_ms, event.missed) for event in opened(owner)] == [
        (AT + 4 * HOUR, True),
        (AT + 5 * HOUR, False),
    ]
    assert skips(owner) == [("catch_up", AT, AT + 3 * HOUR, 4)]


def test_latest_with_one_missed_occurrence_skips_nothing(owner: ManualOwner) -> None:
    owner.define(catch_up="latest")
    absent(owner, 1)
    owner.now_ms -= 1
    owner.wake()

    assert [event.scheduled_at_ms for event in opened(owner)] == [AT]
    assert skips(owner) == []


def test_none_opens_nothing_of_the_gap(owner: ManualOwner) -> None:
    owner.define(catch_up="none")
    absent(owner, 3)
    owner.wake()

    assert [event.scheduled_at_ms for event in opened(owner)] == [AT + 3 * HOUR]
    assert skips(owner) == [("catch_up", AT, AT + 2 * HOUR, 3)]


def test_a_gap_begins_with_its_first_and_ends_before_its_last_millisecond(owner: ManualOwner) -> None:
    owner.define(catch_up="none")
    owner.absent = (AT, AT + HOUR)
    owner.now_ms = AT + HOUR
    owner.wake()

    assert skips(owner) == [("catch_up", AT, AT, 1)]
    assert [event.scheduled_at_ms for event in opened(owner)] == [AT + HOUR]


def test_all_opens_every_missed_occurrence_oldest_first(owner: ManualOwner) -> None:
    owner.define(catch_up="all")
    absent(owner, 4)
    owner.wake()

    missed = [event.scheduled_at_ms for event in opened(owner) if event.missed]
    assert missed == [AT, AT + HOUR, AT + 2 * HOUR, AT + 3 * HOUR]


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_all_runs_missed_occurrences_one_after_the_other(owner: ManualOwner, overlap: str) -> None:
    owner.define(catch_up="all", overlap=overlap)
    absent(owner, 4)
    owner.now_ms -= 1
    owner.wake()
    order = []
    while owner.state.open:
        grant = owner.grant()
        order.append(grant.scheduled_at_ms)
        owner.complete(grant)

    assert order == [AT, AT + HOUR, AT + 2 * HOUR, AT + 3 * HOUR]


def test_all_stops_at_the_open_run_bound_and_goes_on_when_a_run_ends(owner: ManualOwner) -> None:
    owner.define(catch_up="all")
    owner.open_runs_max = 2
    absent(owner, 4)
    owner.wake()
    assert len(owner.state.open) == 2
    assert deadline_ms(owner.must(), open_runs_max=2) == owner.state.checkpoint_at_ms

    owner.complete(owner.grant())
    owner.run_until(owner.now_ms)

    assert [event.scheduled_at_ms for event in opened(owner)] == [AT, AT + HOUR, AT + 2 * HOUR]


def test_all_is_resumed_by_an_owner_that_knows_nothing_of_the_gap(owner: ManualOwner) -> None:
    owner.define(catch_up="all", overlap="skip")
    owner.open_runs_max = 2
    absent(owner, 4)
    owner.now_ms -= 1
    owner.wake()
    owner.absent = (0, 0)

    for _ in range(4):
        owner.run_until(owner.now_ms)
        owner.complete(owner.grant())

    assert skips(owner) == []
    assert len(opened(owner)) == 4


def test_a_late_wake_without_a_gap_is_not_missed(owner: ManualOwner) -> None:
    owner.define(catch_up="none", overlap="allow", concurrent_runs_max=9)
    owner.now_ms = AT + 2 * HOUR
    owner.wake()

    assert [event.missed for event in opened(owner)] == [False, False, False]
    assert skips(owner) == []


def test_a_year_of_missed_minutes_is_one_event(owner: ManualOwner) -> None:
    owner.define(schedule=MINUTELY, catch_up="latest")
    year_ms = 365 * 24 * HOUR
    owner.absent = (owner.now_ms, AT + year_ms)
    owner.now_ms = AT + year_ms - 1
    owner.wake()

    assert [(reason, count) for reason, _, _, count in skips(owner)] == [("catch_up", 60 * 24 * 365 + 58)]
    assert len(opened(owner)) == 1


def test_one_decision_does_bounded_work_and_says_that_there_is_more(owner: ManualOwner) -> None:
    owner.define(schedule=MINUTELY, overlap="allow", concurrent_runs_max=0)
    owner.open_runs_max = 1_000
    owner.now_ms = AT + 2 * HOUR

    decision = owner.wake()

    assert len(decision.events) == STEPS_PER_DECISION_MAX
    assert decision.wake_at_ms == owner.now_ms
    owner.run_until(owner.now_ms)
    assert len(opened(owner)) == 180


def test_a_start_deadline_skips_what_is_too_old_as_one_range(owner: ManualOwner) -> None:
    owner.define(start_deadline_ms=90 * 60_000, overlap="allow", concurrent_runs_max=9)
    owner.now_ms = AT + 5 * HOUR
    owner.wake()

    assert skips(owner) == [("start_deadline", AT, AT + 3 * HOUR, 4)]
    assert [event.scheduled_at_ms for event in opened(owner)] == [AT + 4 * HOUR, AT + 5 * HOUR]


@pytest.mark.parametrize(("late_ms", "runs"), [(59_999, 1), (60_000, 0)])
def test_a_start_deadline_is_judged_to_the_millisecond(owner: ManualOwner, late_ms: int, runs: int) -> None:
    owner.define(schedule=OneOffSpec(AT), start_deadline_ms=60_000)
    owner.now_ms = AT + late_ms
    owner.wake()

    assert len(opened(owner)) == runs


def test_an_open_run_that_nobody_leased_by_its_start_deadline_is_skipped(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), start_deadline_ms=60_000)
    owner.run_until(AT + 59_999)
    assert len(owner.state.open) == 1

    owner.run_until(AT + 60_000)

    assert (owner.state.closed[-1].outcome, owner.state.closed[-1].reason) == ("skipped", "start_deadline")
    assert owner.state.status == "finished"


def test_a_lease_at_the_start_deadline_comes_too_late(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), start_deadline_ms=60_000)
    owner.run_until(AT)
    owner.now_ms = AT + 60_000

    owner.lease(owner.state.open[0].run_id)

    assert owner.names()[-2:] == ["RunSkipped", "JobFinished"]


def test_a_leased_run_is_not_touched_by_the_start_deadline(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), start_deadline_ms=60_000)
    owner.run_until(AT)
    grant = owner.grant(visibility_ms=3_600_000)
    owner.run_until(AT + 120_000)

    assert owner.complete(grant).code == "ok"


def test_a_late_retry_obeys_the_start_deadline_of_its_slot(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), start_deadline_ms=60_000)
    owner.run_until(AT)
    grant = owner.grant()
    owner.now_ms = AT + 58_500
    owner.heartbeats[grant.run_id] = owner.now_ms
    owner.fail(grant)

    owner.run_until(AT + 60_000)

    assert owner.state.closed[-1].reason == "start_deadline"


def test_a_job_without_a_start_deadline_runs_however_late(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT))
    owner.now_ms = AT + 1_000 * HOUR

    assert owner.grant().scheduled_at_ms == AT


def test_a_one_off_missed_under_none_is_recorded_and_finishes_its_job(owner: ManualOwner) -> None:
    owner.define(schedule=OneOffSpec(AT), catch_up="none")
    absent(owner, 1)
    owner.wake()

    assert skips(owner) == [("catch_up", AT, AT, 1)]
    assert owner.state.status == "finished"
