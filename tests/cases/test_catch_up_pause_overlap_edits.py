"""Section 3C of the real-world cases: catch-up, pause, overlap and edits. Each test names its case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.core.commands import CancelRun, Define, Pause, Reply, Resume, SkipSlot, StartBackfill, Trigger, Wake
from streams.core.deadline import ready_runs
from streams.core.events import OccurrencesSkipped, RunOpened
from streams.core.identity import run_id_at
from streams.core.manual import ManualOwner
from streams.core.state import OPEN_RUNS_MAX
from streams.core.time import CalendarSpec, CronSpec, IntervalSpec
from tests.simulation.harness.policy_world import PolicyPlan, live

if TYPE_CHECKING:
    from collections.abc import Callable

    Restart = Callable[[ManualOwner], None]
    Opened = Callable[[], list[int]]
    Skipped = Callable[[], list[tuple[str, int]]]

AT = 1_798_765_200_000
HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
def test_c02_weeks_of_pause_are_no_missed_slots_and_start_nothing_on_resume(
    owner: ManualOwner, catch_up: str, opened: Opened, skipped: Skipped
) -> None:
    owner.define(catch_up=catch_up)
    owner.do(Pause(job_id="job", actor="ann"))
    owner.now_ms += 21 * DAY
    reply = owner.reply(Resume(job_id="job", actor="ann"))
    owner.wake()

    assert opened() == []
    assert skipped() == [("paused", 21 * 24)]
    assert reply.next_at_ms == AT + 21 * DAY


@pytest.mark.parametrize("catch_up", ["all", "latest"])
def test_c04_a_long_outage_opens_no_more_than_the_bound_at_once(
    owner: ManualOwner, catch_up: str, opened: Opened
) -> None:
    owner.define(schedule=IntervalSpec(every_ms=60_000, anchor_ms=0), catch_up=catch_up, overlap="allow")
    owner.absent = (owner.now_ms, AT + 365 * DAY)
    owner.now_ms = AT + 365 * DAY - 1
    owner.run_until(owner.now_ms)

    assert len(owner.state.open) == (OPEN_RUNS_MAX if catch_up == "all" else 1)
    assert opened() == sorted(opened())


@pytest.mark.timeout(60)  # a walk over 63 million slots takes many minutes
def test_c05_two_years_of_pause_at_a_run_a_second_are_one_record_and_little_work(owner: ManualOwner) -> None:
    owner.define(schedule=CronSpec(expression="* * * * * *", time_zone="America/New_York"))
    owner.do(Pause(job_id="job"))
    owner.now_ms += 730 * DAY
    owner.do(Resume(job_id="job"))

    records = [event for event in owner.log if isinstance(event, OccurrencesSkipped) and event.reason == "paused"]
    assert len(records) == 1
    assert records[0].count == 730 * 86_400


@pytest.mark.parametrize("days", [31, 400])
def test_c06_a_pause_beyond_every_retention_keeps_the_job(owner: ManualOwner, restart: Restart, days: int) -> None:
    owner.define()
    owner.do(Pause(job_id="job"))
    for _ in range(0, days, 7):
        owner.run_until(owner.now_ms + 7 * DAY)
        restart(owner)
    owner.do(Resume(job_id="job"))

    assert owner.state.status == "active"
    assert owner.state.next_at_ms is not None
    assert owner.state.next_at_ms > owner.now_ms


@pytest.mark.parametrize("at_once", [1, 3, 0])
def test_c07_overlap_allow_is_bounded(owner: ManualOwner, at_once: int, skipped: Skipped) -> None:
    owner.define(overlap="allow", concurrent_runs_max=at_once)
    owner.run_until(AT + 200 * HOUR)

    bound = at_once or OPEN_RUNS_MAX
    assert len(owner.state.open) == bound
    assert sum(count for _, count in skipped()) == (201 - bound if at_once else 0)


@pytest.mark.parametrize(("overlap", "code"), [("skip", "blocked"), ("allow", "blocked"), ("queue", "created")])
def test_c08_a_trigger_beside_an_open_run_names_it_or_waits(owner: ManualOwner, overlap: str, code: str) -> None:
    owner.define(overlap=overlap, concurrent_runs_max=1)
    owner.run_until(AT)

    reply = owner.reply(Trigger(job_id="job", trigger_id="t"))

    assert reply.code == code
    assert reply.blocked_by == (run_id_at("job", AT) if code == "blocked" else "")
    assert owner.reply(Trigger(job_id="job", trigger_id="f", force=True)).code == "created"


def test_c09_a_named_calendar_excludes_one_date_of_a_daily_job(opened: Opened, owner: ManualOwner) -> None:
    owner.calendars = {"closing": CalendarSpec("closing", dates=("2027-01-03",))}
    owner.define(schedule=CronSpec(expression="0 9 * * *"), calendars=("closing",), overlap="allow")
    owner.run_until(AT + 4 * DAY)

    nine_ms = AT + 8 * HOUR
    assert opened() == [nine_ms, nine_ms + DAY, nine_ms + 3 * DAY]


def test_c10_every_dropped_slot_of_a_slow_run_is_counted_with_its_blocker(owner: ManualOwner) -> None:
    owner.define(overlap="skip")
    owner.run_until(AT)
    grant = owner.grant(visibility_ms=HOUR)
    for n in range(1, 4):
        owner.now_ms = AT + n * HOUR - 5
        owner.heartbeat(grant)
        owner.run_until(AT + n * HOUR)

    records = [event for event in owner.log if isinstance(event, OccurrencesSkipped)]
    assert [(event.reason, event.blocked_by) for event in records] == [("overlap", grant.run_id)] * 3
    assert owner.state.skips_total == 3


def test_c11_a_worker_that_died_blocks_until_its_lease_ends_and_no_longer(owner: ManualOwner, opened: Opened) -> None:
    owner.define(overlap="skip", retry=owner.definition().retry)
    owner.run_until(AT)
    grant = owner.grant()
    owner.heartbeat(grant)
    owner.run_until(AT + 60_000)
    assert owner.run(grant.run_id).lease is None
    owner.do(CancelRun(job_id="job", run_id=grant.run_id))
    owner.run_until(AT + HOUR)

    assert opened() == [AT, AT + HOUR]


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_c12_a_restart_in_the_middle_of_a_run_lets_no_second_one_start(
    owner: ManualOwner, restart: Restart, overlap: str
) -> None:
    owner.define(overlap=overlap)
    owner.run_until(AT)
    grant = owner.grant(visibility_ms=2 * HOUR)
    restart(owner)
    owner.run_until(AT + HOUR)
    restart(owner)
    owner.wake()

    assert ready_runs(owner.state) == ()
    assert [run.run_id for run in owner.state.open if run.lease is not None] == [grant.run_id]


def test_c12b_overlap_holds_at_every_offset_of_a_long_life() -> None:
    result = live(PolicyPlan(seed=912, hours=48.0, jobs=5, slow=0.4))

    assert result.ok, result.story()
    assert result.report.counts["runs"] > 100


@pytest.mark.parametrize("reason", ["overlap", "start_deadline", "requested", "paused"])
def test_c12c_the_cursor_moves_on_every_kind_of_skip(owner: ManualOwner, reason: str, skipped: Skipped) -> None:
    owner.define(overlap="skip", start_deadline_ms=60_000 if reason == "start_deadline" else 0)
    if reason == "overlap":
        owner.do(Trigger(job_id="job", trigger_id="t"))
    if reason == "requested":
        owner.do(SkipSlot(job_id="job", at_ms=AT))
    if reason == "paused":
        owner.do(Pause(job_id="job", until_ms=AT + 1_000))
    owner.now_ms = AT + 60_000
    owner.run_until(owner.now_ms)

    assert skipped() == [(reason, 1)]
    assert owner.state.next_at_ms == AT + HOUR


@pytest.mark.parametrize("first", ["skip", "fire"])
def test_c12d_a_skip_that_races_with_the_fire_answers_what_it_hit(owner: ManualOwner, first: str) -> None:
    owner.define()
    owner.now_ms = AT
    if first == "fire":
        owner.do(Wake(job_id="job"))

    reply = owner.reply(SkipSlot(job_id="job", at_ms=AT, expected_version=1))
    owner.run_until(AT)

    assert (reply.code, reply.run_id) == ("ok" if first == "skip" else "blocked", run_id_at("job", AT))
    assert len(owner.state.open) == (0 if first == "skip" else 1)
    assert owner.reply(SkipSlot(job_id="job", at_ms=AT + HOUR, expected_version=7)).code == "version_conflict"


def test_c14_another_tenant_cannot_move_a_schedule_under_the_same_name(owner: ManualOwner) -> None:
    owner.define()
    before = owner.must()
    other = owner.definition(tenant="other", schedule=IntervalSpec(every_ms=60_000, anchor_ms=0))

    assert owner.reply(Define(job_id="job", definition=other, request_hash="x")).code == "wrong_tenant"
    assert owner.must() == before


def test_c15_two_jobs_with_one_expression_both_run() -> None:
    owners = [ManualOwner(now_ms=AT - 5, job_id=name) for name in ("a", "b")]
    for one in owners:
        one.define(schedule=CronSpec(expression="0 * * * *"), name="same", task="same")
        one.run_until(AT)

    assert [one.state.open[0].run_id for one in owners] == [run_id_at("a", AT), run_id_at("b", AT)]


@pytest.mark.parametrize("late_ms", [1_001, 59_000, 30 * DAY])
def test_c16_without_a_deadline_no_delay_drops_a_run(owner: ManualOwner, late_ms: int, opened: Opened) -> None:
    owner.define(schedule=IntervalSpec(every_ms=365 * DAY, anchor_ms=AT))
    owner.now_ms = AT + late_ms
    owner.wake()

    assert opened() == [AT]
    assert owner.grant().granted_at_ms - AT == late_ms


def test_c20_a_backfill_has_its_own_lane_and_rate_and_blocks_nothing(owner: ManualOwner, opened: Opened) -> None:
    owner.define(overlap="skip", lane="high")
    owner.do(StartBackfill(job_id="job", backfill_id="b", from_ms=AT - 100 * HOUR, until_ms=AT - 2 * HOUR))
    owner.run_until(AT)

    kinds = sorted((run.kind, run.lane) for run in owner.state.open)
    assert kinds == [("backfill", "low"), ("schedule", "high")]
    assert opened() == [AT]


@pytest.mark.parametrize("leased", [False, True])
def test_c21_hourly_to_daily_at_10_59_59_does_not_run_11_00_unless_leased(
    owner: ManualOwner, *, leased: bool, opened: Opened
) -> None:
    owner.define()
    owner.now_ms = AT - 1_000
    if leased:
        owner.now_ms = AT
        owner.grant()
    offer = owner.state.version
    owner.define(schedule=CronSpec(expression="0 0 * * *"))
    owner.run_until(AT + 5_000)
    stale = owner.lease(run_id_at("job", AT + HOUR), job_version=offer).reply

    assert opened() == ([AT] if leased else [])
    assert isinstance(stale, Reply)
    assert stale.code == "stale_offer"
    assert owner.state.next_at_ms == AT + 23 * HOUR


@pytest.mark.parametrize("until_ms", [0, AT + 3 * HOUR])
def test_c22_a_pause_carries_actor_reason_and_end(owner: ManualOwner, until_ms: int) -> None:
    owner.define()
    owner.do(Pause(job_id="job", actor="ann", note="move", until_ms=until_ms))
    pause = owner.state.pause

    assert pause is not None
    assert (pause.actor, pause.note, pause.until_ms) == ("ann", "move", until_ms)
    owner.run_until(AT + 4 * HOUR)
    assert (owner.state.pause is None) == bool(until_ms)


def test_c23_a_job_has_an_active_window(owner: ManualOwner, opened: Opened) -> None:
    owner.define(start_at_ms=AT + 2 * HOUR, end_at_ms=AT + 4 * HOUR, overlap="allow")
    owner.run_until(AT + 9 * HOUR)

    assert opened() == [AT + 2 * HOUR, AT + 3 * HOUR, AT + 4 * HOUR]


def test_c24_a_quarterly_job_is_not_overdue_once_its_last_fire_left_history(
    owner: ManualOwner, restart: Restart, opened: Opened
) -> None:
    owner.define(schedule=CronSpec(expression="0 0 1 */3 *"), overlap="allow")
    owner.run_until(AT + 95 * DAY)
    owner.log = [event for event in owner.log if not isinstance(event, RunOpened)]
    owner.run_until(AT + 170 * DAY)
    restart(owner)
    owner.wake()

    assert opened() == []
    assert owner.state.next_at_ms is not None
    assert owner.state.next_at_ms > owner.now_ms
