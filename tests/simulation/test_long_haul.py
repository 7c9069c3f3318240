"""The goal: every promise holds over two thousand hours of ordinary life with everything that goes wrong in it. The
method: days of sparse loads, each from one seed and judged whole (tests/simulation/harness/long_haul.py).

`HOROLOG_HAUL_HOURS` (together, default 2000) and `HOROLOG_HAUL_FROM` (first seed) scale it up; `make simulate
HOURS=10000 SEED=1` does the same with figures. A failure prints its seed and how to repeat it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec
import pytest

from streams.core import events as ev
from tests.simulation.harness.long_haul import LongPlan, haul, long_plan
from tests.simulation.run import simulate_hours

if TYPE_CHECKING:
    from tests.simulation.run import SeedResult, Sums

HOURS = float(os.environ.get("HOROLOG_HAUL_HOURS", "2000"))
FIRST = int(os.environ.get("HOROLOG_HAUL_FROM", "1"))
WHOLE = 1_000.0
"""From so many hours on each kind of fault must have come, and each invariant must have been judged."""

FAULTS = frozenset({
    "owner_kill", "owner_freeze", "owner_stop", "owner_join", "all_owners_down", "rebalance_storm", "bad_weather",
    "clock_step", "gateway_kill", "gateways_gone", "worker_dies", "worker_sleeps", "lost_answer", "lost_heartbeat",
    "lost_grant", "zone_data",
})  # fmt: skip


@pytest.mark.timeout(300 + 3 * HOURS)
def test_every_promise_holds_over_thousands_of_hours() -> None:
    stories: list[str] = []

    def told(one: SeedResult, _: Sums) -> None:
        if one.story:
            stories.append(f"python -m tests.simulation.run --hours {one.hours:g} --seed {one.seed}\n{one.story}")

    sums = simulate_hours("long", HOURS, FIRST, jobs=1, told=told)

    assert not stories, "\n".join(stories)
    assert sums.hours == pytest.approx(HOURS)
    if HOURS >= WHOLE:
        assert set(sums.faults) >= FAULTS
        assert sums.stale_refused > 0
        assert sums.counts["expired"] > 0
        assert {name for name, items in sums.judged.items() if not items} <= {"I12"}


def test_one_seed_is_one_haul() -> None:
    plan = LongPlan(seed=5, hours=6.0, fault_every_ms=900_000.0)
    first, second = haul(plan), haul(plan)

    assert first.trace == second.trace
    assert first.view.records("history") == second.view.records("history")


def test_an_outage_of_hours_is_caught_up() -> None:
    """Occurrences that fell due in it are called missed, and only those: the silence of markers is the outage's."""
    plan = LongPlan(seed=8, hours=30.0, fault_every_ms=5 * 3_600_000.0, kinds=("_outage",))
    result = haul(plan)
    missed = [
        event
        for item in result.view.history
        for event in item.entry.events
        if (isinstance(event, ev.RunOpened) and event.missed)
        or (isinstance(event, ev.OccurrencesSkipped) and event.reason == "catch_up")
    ]

    assert result.ok, result.story()
    assert result.faults["all_owners_down"] > 0
    assert missed


def test_idle_time_costs_nothing() -> None:
    """A hundred hours without jobs leave markers, and nothing in the trace."""
    plan = LongPlan(seed=4, hours=100.0, jobs=0, fault_every_ms=0.0, change_every_ms=1e12)
    result = haul(plan)

    assert not result.alarms
    assert len(result.view.markers) > plan.partitions * 1_000
    assert len(result.trace) < 100


def test_half_of_all_jobs_may_name_a_calendar() -> None:
    plan = msgspec.structs.replace(long_plan(2, 12.0), fault_every_ms=1_800_000.0)
    result = haul(plan)

    assert plan.calendars
    assert result.ok, result.story()
