"""The goal: under any mix of faults the log keeps every promise. The method: whole simulated fleets, one seed each.

`HOROLOG_SIM_SEEDS` (how many, default 8), `HOROLOG_SIM_FROM` (first seed) and `HOROLOG_SIM_HOURS` (virtual
hours of each, default 0.2) scale it up. A failure prints its seed and the trace; repeat it with
PYTHONHASHSEED=0.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.harness.scenario import Plan, simulate

SEEDS = int(os.environ.get("HOROLOG_SIM_SEEDS", "8"))
FIRST = int(os.environ.get("HOROLOG_SIM_FROM", "0"))
HOURS = float(os.environ.get("HOROLOG_SIM_HOURS", "0.2"))


@pytest.mark.timeout(60 + 600 * HOURS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_every_promise_holds_under_faults(seed: int) -> None:
    result = simulate(Plan(seed=seed, hours=HOURS, policies=seed % 2 == 0))

    assert result.ok, result.story()


def test_without_faults_nothing_runs_twice_and_nothing_is_late() -> None:
    result = simulate(Plan(seed=1, hours=0.1, fault_every_ms=0, policies=False))
    in_time = [
        row.scheduled_at_ms for row in result.journals.executions if row.started_at_ms - row.scheduled_at_ms < 1_000
    ]

    assert result.ok, result.story()
    assert result.report.counts["expired"] == 0
    assert len({(row.run_id, row.lease_token) for row in result.journals.executions}) == len(result.journals.executions)
    assert result.report.lateness.p50_ms < 50
    assert len(in_time) > 50


def test_one_seed_is_one_run() -> None:
    plan = Plan(seed=5, hours=0.05, fault_every_ms=20_000)
    first, second = simulate(plan), simulate(plan)

    assert first.trace == second.trace
    assert first.view.records("history") == second.view.records("history")


def test_the_faults_bite() -> None:
    """A simulation in which nothing goes wrong proves nothing: stale commits are refused and leases expire."""
    results = [simulate(Plan(seed=seed, hours=0.1, fault_every_ms=12_000)) for seed in (100, 101)]

    assert sum(result.stale_refused for result in results) > 0
    assert sum(result.report.counts["expired"] for result in results) > 0
    assert max(result.report.counts["generations"] for result in results) > 5
    assert any("failed stale" in line for result in results for line in result.trace)
