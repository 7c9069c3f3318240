"""Section 3B of the real-world cases: missed, doubled and early runs across failover. Each test names its case.

What needs Kafka, processes or the full size is shown elsewhere: docs/cases.md says where.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from streams.core.apply import IllegalEvent, apply
from streams.core.commands import Define, Grant, LeaseRun, Reply
from streams.core.decide_schedule import schedule_of
from streams.core.events import OccurrencesSkipped, RunOpened, RunSkipped
from streams.core.identity import run_id_at
from streams.core.manual import ManualOwner
from streams.core.time import CronSpec, IntervalSpec, OneOffSpec
from tests.simulation.harness.herd import HerdPlan, stampede
from tests.simulation.harness.policy_world import PolicyPlan, live

if TYPE_CHECKING:
    from collections.abc import Callable

    Restart = Callable[[ManualOwner], None]
    Opened = Callable[[], list[int]]

AT = 1_798_765_200_000
MINUTE = 60_000
HOUR = 3_600_000
DAY = 24 * HOUR


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000


def test_b04_a_second_opening_of_an_occurrence_is_refused(owner: ManualOwner) -> None:
    owner.define(overlap="allow", concurrent_runs_max=9)
    before = owner.must()
    owner.run_until(AT)
    event = next(event for event in owner.log if isinstance(event, RunOpened))

    assert apply(before, event) is not None
    with pytest.raises(IllegalEvent):
        apply(owner.must(), event)
    owner.complete(owner.grant())
    with pytest.raises(IllegalEvent):
        apply(owner.must(), event)


@pytest.mark.parametrize("early_ms", [1, 999, HOUR - 2])
def test_b06_a_look_or_an_offer_with_a_wrong_due_time_is_judged_by_the_definition(
    owner: ManualOwner, early_ms: int, opened: Opened
) -> None:
    owner.define()
    owner.now_ms = AT - early_ms

    owner.wake()
    decision = owner.do(
        LeaseRun(job_id="job", run_id=run_id_at("job", owner.now_ms), worker_id="w", gateway_id="g", request_id="r")
    )

    assert opened() == []
    assert isinstance(decision.reply, Reply)
    assert decision.reply.code == "stale_offer"


def test_b07_an_edit_of_one_job_leaves_every_other_as_it_was() -> None:
    owners = [ManualOwner(now_ms=ms("2023-11-05T05:00:00"), job_id=f"job-{n}") for n in range(5)]
    for one in owners:
        one.define(schedule=CronSpec(expression="0 9 * * *", time_zone="America/New_York"))
    before = [one.must() for one in owners]

    for one in owners[:2]:
        one.define(schedule=CronSpec(expression="30 9 * * *", time_zone="America/New_York"))
    for one in owners:
        one.wake()

    assert [one.must() for one in owners[2:]] == before[2:]
    assert all(one.state.open == () for one in owners)


@pytest.mark.parametrize("late_ms", [10_000, 10_001, DAY - 1])
def test_b08_a_start_that_the_controller_missed_is_recorded_with_its_lateness(owner: ManualOwner, late_ms: int) -> None:
    owner.define(schedule=CronSpec(expression="1 0 * * *"), start_deadline_ms=10_000)
    due_ms = ms("2027-01-01T00:01:00")
    owner.now_ms = due_ms + late_ms
    owner.wake()

    record = next(event for event in owner.log if isinstance(event, OccurrencesSkipped))
    assert (record.reason, record.first_at_ms, record.at_ms - record.first_at_ms) == ("start_deadline", due_ms, late_ms)


@pytest.mark.parametrize("seed", [900, 901])
def test_b09_b29_no_occurrence_of_three_days_is_unexplained(seed: int) -> None:
    result = live(PolicyPlan(seed=seed, hours=72.0, jobs=4))

    assert result.ok, result.story()


@pytest.mark.parametrize("schedule", [IntervalSpec(every_ms=DAY, anchor_ms=0), CronSpec(expression="0 0 * * *")])
def test_b11_ten_restarts_between_two_slots_move_nothing(
    owner: ManualOwner, restart: Restart, schedule: IntervalSpec, opened: Opened
) -> None:
    owner.define(schedule=schedule)
    due_ms = owner.state.next_at_ms
    for _ in range(10):
        owner.run_until(owner.now_ms + HOUR)
        restart(owner)

    assert owner.state.next_at_ms == due_ms == ms("2027-01-02T00:00:00")
    owner.run_until(ms("2027-01-02T00:00:00"))
    assert opened() == [due_ms]


@pytest.mark.parametrize("days", [7, 30])
def test_b16_a_long_interval_survives_a_restart_a_day(
    owner: ManualOwner, restart: Restart, days: int, opened: Opened
) -> None:
    owner.define(schedule=IntervalSpec(every_ms=days * DAY, anchor_ms=owner.now_ms))
    begun_ms = owner.now_ms
    owner.complete(owner.grant())
    for _ in range(days):
        owner.run_until(owner.now_ms + DAY)
        restart(owner)

    assert opened() == [begun_ms, begun_ms + days * DAY]


def test_b19b_an_owner_that_takes_over_evaluates_in_the_jobs_zone(restart: Restart) -> None:
    owner = ManualOwner(now_ms=ms("2017-06-19T10:00:00"))
    owner.define(schedule=CronSpec(expression="0 19 * * *", time_zone="Europe/Paris"))
    owner.run_until(ms("2017-06-19T17:00:00"))
    owner.complete(owner.grant())
    owner.run_until(ms("2017-06-20T09:21:00"))
    restart(owner)
    owner.wake()

    assert owner.state.open == ()
    assert owner.state.next_at_ms == ms("2017-06-20T17:00:00")


@pytest.mark.parametrize(("retry_at_ms", "runs"), [(599_000, True), (600_000, False), (3 * HOUR, False)])
def test_b19c_a_late_retry_is_attempt_n_of_its_slot_and_obeys_its_deadline(
    owner: ManualOwner, restart: Restart, retry_at_ms: int, *, runs: bool
) -> None:
    owner.define(schedule=OneOffSpec(AT), start_deadline_ms=600_000)
    owner.run_until(AT)
    owner.fail(owner.grant())
    owner.now_ms = AT + retry_at_ms
    restart(owner)

    answer = owner.lease(run_id_at("job", AT)).reply

    if runs:
        assert isinstance(answer, Grant)
        assert (answer.attempt, answer.scheduled_at_ms) == (2, AT)
    else:
        assert not isinstance(answer, Grant)
        assert [event.reason for event in owner.log if isinstance(event, RunSkipped)] == ["start_deadline"]


@pytest.mark.parametrize(("seed", "slower"), [(6, 1.0), (7, 30.0), (8, 100.0)])
def test_b20_a_herd_costs_no_owner_its_place_even_on_a_slow_broker(seed: int, slower: float) -> None:
    """1,000 in place of 10^6: heartbeats of owners keep pace, nobody takes over, and each run has one decision."""
    herd = stampede(HerdPlan(seed=seed, jobs=1_000, workers=300, slower=slower, hours=0.05, heal_ms=60_000))

    assert herd.result.ok, herd.result.story()
    assert herd.generations == 0
    assert herd.herd.runs == 1_000


@pytest.mark.parametrize(("zone", "instant"), [("Europe/Berlin", "10:01"), ("UTC", "12:01"), ("Asia/Tokyo", "03:01")])
def test_b22_a_local_noon_job_runs_once_a_day(zone: str, instant: str) -> None:
    owner = ManualOwner(now_ms=ms("2026-07-01T00:00:00"))
    owner.define(schedule=CronSpec(expression="1 12 * * *", time_zone=zone))
    owner.run_until(ms("2026-07-01T23:00:00"))

    assert [event.scheduled_at_ms for event in owner.log if isinstance(event, RunOpened)] == [
        ms(f"2026-07-01T{instant}:00")
    ]


@pytest.mark.parametrize("apart_ms", [1, 1_000, 59_999])
def test_b23_b24_looks_at_different_times_open_one_run_of_a_slot(
    owner: ManualOwner, restart: Restart, apart_ms: int, opened: Opened
) -> None:
    owner.define(overlap="allow", concurrent_runs_max=9)
    owner.now_ms = AT + 3
    owner.wake()
    owner.now_ms += apart_ms
    restart(owner)
    owner.wake()

    assert opened() == [AT]
    assert owner.state.open[0].run_id == run_id_at("job", AT)


def test_b25_ownership_lost_and_regained_five_times_doubles_nothing_and_ends_no_lease(
    owner: ManualOwner, restart: Restart, opened: Opened
) -> None:
    owner.define()
    owner.run_until(AT)
    grant = owner.grant()
    for _ in range(5):
        owner.now_ms += 20_000
        restart(owner)
        owner.wake()
        owner.heartbeat(grant)

    assert owner.run(grant.run_id).lease is not None
    assert owner.complete(grant).code == "ok"
    assert opened() == [AT]


@pytest.mark.parametrize("early_ms", [1, 18_000])
def test_b28_nothing_is_opened_or_granted_before_its_instant(owner: ManualOwner, early_ms: int, opened: Opened) -> None:
    owner.define()
    owner.now_ms = AT - early_ms

    decision = owner.lease(run_id_at("job", AT))

    assert (decision.events, decision.reply, decision.park_until_ms) == ((), None, AT)
    assert opened() == []


def test_b30_a_slow_run_moves_the_cursor_once_and_loses_no_later_slot(owner: ManualOwner, opened: Opened) -> None:
    owner.define(schedule=IntervalSpec(every_ms=7 * DAY, anchor_ms=AT), overlap="skip")
    owner.run_until(AT)
    grant = owner.grant(visibility_ms=HOUR)
    for _ in range(20):
        owner.now_ms += 20 * MINUTE
        owner.heartbeat(grant)
        owner.wake()
    owner.complete(grant)
    owner.run_until(AT + 14 * DAY)

    assert opened()[:2] == [AT, AT + 7 * DAY]


@pytest.mark.parametrize(
    "spec",
    [
        CronSpec(expression="0 9 * * 1", time_zone="America/New_York"),
        CronSpec(expression="*/25 8-17 * * 1-5", time_zone="Europe/Berlin"),
        CronSpec(expression="30 2 * * *", time_zone="America/New_York"),
        IntervalSpec(every_ms=7 * HOUR, anchor_ms=17),
    ],
    ids=str,
)
def test_b33_what_the_preview_says_is_what_is_executed(spec: CronSpec | IntervalSpec) -> None:
    owner = ManualOwner(now_ms=ms("2027-03-12T00:00:00"))
    owner.define(schedule=spec, overlap="allow")
    until_ms = owner.now_ms + 5 * DAY
    schedule = schedule_of(owner.definition(schedule=spec), owner.context())
    preview = [found.at_ms for found in schedule.iter_between(owner.now_ms - 1, until_ms)]
    while (owner.state.next_at_ms or until_ms + 1) <= until_ms:
        owner.run_until(owner.state.next_at_ms or until_ms)
        owner.complete(owner.grant())

    assert preview
    assert [event.scheduled_at_ms for event in owner.log if isinstance(event, RunOpened)] == preview


@pytest.mark.parametrize("hours_up", [1, 3])
def test_b34_every_four_hours_is_anchored_in_the_definition_and_not_in_a_start(
    owner: ManualOwner, restart: Restart, hours_up: int, opened: Opened
) -> None:
    owner.define(schedule=IntervalSpec(every_ms=4 * HOUR, anchor_ms=AT), overlap="allow")
    for _ in range(12 // hours_up):
        owner.run_until(owner.now_ms + hours_up * HOUR)
        restart(owner)

    assert opened() == [AT, AT + 4 * HOUR, AT + 8 * HOUR]


def test_b34_the_anchor_survives_an_edit_of_something_else(owner: ManualOwner) -> None:
    spec = IntervalSpec(every_ms=4 * HOUR, anchor_ms=AT)
    owner.define(schedule=spec)
    changed = owner.definition(schedule=spec, lane="high")
    owner.now_ms += 30 * MINUTE
    owner.do(Define(job_id="job", definition=changed, request_hash="2"))

    assert owner.state.next_at_ms == AT
