"""Section 3F of the real-world cases: herds and clocks, in the core and in the simulation. Each test names its case."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from streams.core.decide_schedule import schedule_of
from streams.core.manual import ManualOwner
from streams.core.time import CronSpec, IntervalSpec
from tests.simulation.harness.herd import HerdPlan, stampede

if TYPE_CHECKING:
    from collections.abc import Callable

    Restart = Callable[[ManualOwner], None]
    Opened = Callable[[], list[int]]

AT = 1_798_765_200_000
HOUR = 3_600_000
DAY = 24 * HOUR
CHI_SQUARE_59_AT_ONE_IN_A_THOUSAND = 98.3


def first(job_id: str, expression: str) -> int:
    owner = ManualOwner(now_ms=AT, job_id=job_id)
    owner.define(schedule=CronSpec(expression=expression))
    return owner.state.next_at_ms or 0


@pytest.mark.parametrize(("expression", "cells"), [("H * * * *", 60), ("H H * * *", 60)])
def test_f01_hashed_minutes_of_many_jobs_are_spread_evenly(expression: str, cells: int) -> None:
    counts = Counter(first(f"job-{n}", expression) // 60_000 % 60 for n in range(3_000))
    expected = 3_000 / cells

    chi_square = sum((counts[minute] - expected) ** 2 / expected for minute in range(cells))

    assert chi_square < CHI_SQUARE_59_AT_ONE_IN_A_THOUSAND


@pytest.mark.parametrize("expression", ["H * * * *", "H/15 * * * *", "H(0-29)/10 * * * *", "H H * * *"])
def test_f01_a_hashed_slot_is_stable_over_restarts_and_edits_of_other_things(
    owner: ManualOwner, restart: Restart, expression: str
) -> None:
    owner.define(schedule=CronSpec(expression=expression))
    due_ms = owner.state.next_at_ms
    restart(owner)
    owner.define(schedule=CronSpec(expression=expression), name="renamed", lane="low")

    assert owner.state.next_at_ms == due_ms
    assert first("other", expression) == first("other", expression)


@pytest.mark.parametrize("kind", ["job", "occurrence"])
def test_f02_jitter_is_shown_by_the_preview_and_is_what_is_executed(owner: ManualOwner, kind: str) -> None:
    fields = {"jitter_kind": kind, "jitter_ms": 600_000, "overlap": "allow"}
    owner.define(**fields)
    schedule = schedule_of(owner.definition(**fields), owner.context())
    preview = [found.at_ms for found in schedule.iter_between(owner.now_ms - 1, AT + 9 * HOUR)]
    owner.run_until(AT + 9 * HOUR)

    assert [run.scheduled_at_ms for run in owner.state.open] == preview
    assert len({at_ms % HOUR for at_ms in preview}) == (1 if kind == "job" else len(preview))


def test_f03_a_restart_gives_interval_jobs_no_common_phase(restart: Restart) -> None:
    phases = set()
    for n in range(10):
        owner = ManualOwner(now_ms=AT + n * 977, job_id=f"job-{n}")
        owner.define(schedule=IntervalSpec(every_ms=60_000, anchor_ms=owner.now_ms))
        owner.now_ms = AT + HOUR
        restart(owner)
        owner.wake()
        phases.add((owner.state.next_at_ms or 0) % 60_000)

    assert len(phases) == 10


@pytest.mark.parametrize("seed", [1, 2])
def test_f05_a_herd_of_one_second_is_leased_in_time_where_there_are_workers(seed: int) -> None:
    """2,000 in place of 35,000. Processor time is free in the simulation: this counts turns, benchmarks the rest."""
    herd = stampede(HerdPlan(seed=seed, jobs=2_000, workers=3_300, hours=0.03, heal_ms=30_000))

    assert herd.result.ok, herd.result.story()
    assert herd.herd.runs == 2_000
    assert herd.herd.p99_ms < 5_000


@pytest.mark.parametrize(("seed", "slower"), [(3, 1.0), (4, 1.0), (5, 30.0)])
def test_f06_a_tenants_single_run_does_not_wait_behind_anothers_flood(seed: int, slower: float) -> None:
    """1,000 queued runs in place of 10^6, and so few workers that they wait for many seconds."""
    herd = stampede(HerdPlan(seed=seed, jobs=1_000, workers=100, slower=slower, hours=0.04, heal_ms=60_000))

    assert herd.result.ok, herd.result.story()
    assert herd.herd.p99_ms > 10_000
    assert herd.lone.runs == 1
    assert herd.lone.max_ms < 2_000


def test_f08_runs_that_find_no_worker_wait_and_do_not_fail(owner: ManualOwner) -> None:
    owner.define(schedule=IntervalSpec(every_ms=60_000, anchor_ms=0), overlap="allow")
    owner.run_until(AT + 35 * 60_000)
    waiting = len(owner.state.open)
    owner.now_ms += DAY

    assert waiting > 35
    assert owner.grant().attempt == 1
    assert owner.state.dead == ()


@pytest.mark.parametrize("back_ms", [1_000, 2 * HOUR])
def test_f09_a_clock_set_back_repeats_nothing_and_skips_nothing(
    owner: ManualOwner, back_ms: int, opened: Opened
) -> None:
    owner.define(overlap="allow")
    owner.run_until(AT + 2 * HOUR)
    owner.now_ms -= back_ms
    owner.wake()
    owner.run_until(AT + 4 * HOUR)

    assert opened() == [AT + n * HOUR for n in range(5)]


@pytest.mark.parametrize("step_ms", [-HOUR, HOUR])
def test_f11_a_step_of_the_clock_pops_nothing_before_its_time(owner: ManualOwner, step_ms: int, opened: Opened) -> None:
    owner.define(schedule=IntervalSpec(every_ms=6 * HOUR, anchor_ms=AT + 2 * HOUR))
    owner.now_ms = AT
    for _ in range(3):
        owner.now_ms += step_ms
        owner.wake()
        assert all(at_ms <= owner.now_ms for at_ms in opened())


@pytest.mark.timeout(60)  # a walk over 315 million slots takes many minutes
@pytest.mark.parametrize("catch_up", ["latest", "none"])
def test_f13_a_jump_of_ten_years_on_a_one_second_job_is_no_walk(owner: ManualOwner, catch_up: str) -> None:
    owner.define(schedule=IntervalSpec(every_ms=1_000, anchor_ms=0), catch_up=catch_up)
    owner.absent = (owner.now_ms, owner.now_ms + 3_650 * DAY)
    owner.now_ms += 3_650 * DAY
    owner.wake()

    assert owner.state.next_at_ms is not None
    assert owner.state.next_at_ms > owner.now_ms
    assert len(owner.log) < 10
