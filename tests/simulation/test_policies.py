"""The goal: every policy of a job and a run holds whatever people, workers and owners do. The method: whole lives of a
few jobs, from one seed each, with every command, judged by the one checker.

`HOROLOG_POLICY_SEEDS` (how many, default 12), `HOROLOG_POLICY_FROM` (first seed) and `HOROLOG_POLICY_HOURS` (virtual
hours of each, default 24) scale it up. A failure prints its seed and its plan.
"""

from __future__ import annotations

import os
from typing import get_args

import pytest

from streams.core import commands, events
from streams.core.commands import Define, Delete
from streams.core.definition import Definition
from streams.core.envelopes import CommandBatch, HistoryEntry, ReplyBatch
from streams.core.time import OneOffSpec
from tests.simulation.harness.policy_world import PolicyPlan, PolicyWorld, judge, live

SEEDS = int(os.environ.get("HOROLOG_POLICY_SEEDS", "12"))
FIRST = int(os.environ.get("HOROLOG_POLICY_FROM", "0"))
HOURS = float(os.environ.get("HOROLOG_POLICY_HOURS", "24"))


@pytest.mark.timeout(120 + 60 * HOURS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_every_policy_holds_through_a_day_of_jobs(seed: int) -> None:
    result = live(PolicyPlan(seed=seed, hours=HOURS))

    assert result.ok, result.story()


def test_every_policy_holds_when_people_never_rest() -> None:
    result = live(PolicyPlan(seed=3, hours=3.0, jobs=8, change_every_ms=4_000.0, outage_every_ms=1_200_000.0))

    assert result.ok, result.story()
    assert result.report.counts["decisions"] > 2_000


def test_a_one_off_that_was_deleted_before_its_time_runs_when_it_is_created_again_behind_it() -> None:
    """What undo of a bulk delete does; found by seed 2 of the long form, where the judge did not expect it."""
    world = PolicyWorld(PolicyPlan(seed=0, jobs=0, outage_every_ms=0))
    world.faulty = False
    definition = Definition(
        job_id="once", tenant="blue", queue="mail", name="once", task="t", schedule=OneOffSpec(world.t_ms + 60_000)
    )
    create = Define(job_id="once", definition=definition, request_hash="first", mode="create")
    again = Define(job_id="once", definition=definition, request_hash="second", mode="upsert")
    for at_ms, command in ((1_000, create), (30_000, Delete(job_id="once", tenant="blue")), (120_000, again)):
        world.at(at_ms, lambda command=command: world.people.call(command))  # type: ignore[misc]  # bound now
    world.run(world.t_ms + 600_000)
    result = judge(world)

    assert [v.message for v in result.report.violations] == []
    assert result.report.counts["succeeded"] + result.report.counts["dead"] == 1


def test_one_seed_is_one_life() -> None:
    plan = PolicyPlan(seed=5, hours=6.0)

    assert live(plan).log.rows == live(plan).log.rows


def test_all_commands_are_used_and_everything_happens() -> None:
    """A simulation in which something never happens proves nothing about it."""
    asked: set[str] = set()
    happened: set[str] = set()
    heard: set[str] = set()
    skipped: set[str] = set()
    plans = (
        PolicyPlan(seed=1, hours=150.0, jobs=4),
        PolicyPlan(seed=2, hours=4.0, jobs=8, change_every_ms=5_000.0),
        PolicyPlan(seed=300, hours=6.0, jobs=6, change_every_ms=30_000.0, outage_every_ms=60_000.0, deeds=("edit",)),
    )
    for plan in plans:
        for row in live(plan).log.rows:
            match row.value:
                case CommandBatch(commands=found):
                    asked.update(type(command).__name__ for command in found)
                case HistoryEntry(events=found):
                    happened.update(type(event).__name__ for event in found)
                    skipped.update(getattr(event, "reason", "") for event in found)
                case ReplyBatch(answers=found):
                    heard.update(getattr(answer.reply, "code", "granted") for answer in found)
                case _:
                    pass

    assert asked == {kind.__name__ for kind in get_args(commands.AnyCommand)} - {"Wake"}
    assert {kind.__name__ for kind in get_args(events.AnyEvent)} - happened == {"CursorMoved"}
    assert skipped >= {"overlap", "start_deadline", "catch_up", "paused", "superseded", "requested", "deleted"}
    assert skipped >= {"expired", "timeout", "cancel_grace", "replaced", "user", "job_deleted", "stopped"}
    assert heard >= {
        "ok", "created", "granted", "invalid", "not_found", "version_conflict", "idempotency_conflict", "lease_lost",
        "not_leasable", "stale_offer", "paused", "blocked", "gone",
    }  # fmt: skip
