"""B02: an owner that does nothing is seen by the work that is left, whatever it hangs on. A busy one is not blamed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import streams.overdue
import streams.shard
import streams.timers
from streams.core.commands import Heartbeat
from streams.overdue import Overdue, OverdueWatch

VISIBILITY_MS = 30_000


async def look(rig: Any, after_ms: int = 0) -> Overdue | None:
    """What a scrape sees `after_ms` later, while the loop stands still."""
    owner = SimpleNamespace(shards={0: rig.shard})
    watch = OverdueWatch(owner, monotonic_ms=lambda: rig.monotonic_ms + after_ms, wall_ms=lambda: rig.now_ms + after_ms)
    return (await watch.look()).get(0)


def define(rig: Any, make_job: Any, job_id: str = "j", after_ms: int = 1_000) -> int:
    at_ms: int = rig.now_ms + after_ms
    rig.define(make_job(job_id, at_ms=at_ms))
    rig.run()
    return at_ms


def leased(rig: Any, make_job: Any, job_id: str = "j") -> Any:
    at_ms = define(rig, make_job, job_id)
    rig.advance(1_000)
    rig.run()
    request = rig.lease(job_id, at_ms)
    rig.send(request)
    rig.run()
    return rig.grant(request.request_id)


async def test_a_partition_with_nothing_due_is_not_late(rig: Any, make_job: Any) -> None:
    define(rig, make_job)
    assert await look(rig, 1_000) == Overdue(0, 0)


async def test_the_age_grows_while_the_loop_does_not_turn_and_ends_with_the_decision(rig: Any, make_job: Any) -> None:
    define(rig, make_job)
    assert await look(rig, 6_000) == Overdue(pytest.approx(5_000, abs=10), 0)  # type: ignore[arg-type] # numbers
    assert (await look(rig, 42_000)).slot_ms == pytest.approx(41_000, abs=50)  # type: ignore[union-attr] # owned
    rig.advance(6_000)
    rig.run()
    assert await look(rig) == Overdue(0, 5_000)


async def test_a_timer_that_went_off_is_late_until_its_transaction_is_committed(rig: Any, make_job: Any) -> None:
    define(rig, make_job)
    rig.advance(4_000)
    batch = rig.collect()
    assert await look(rig) == Overdue(3_000, 0)
    rig.shard.rolled_back(batch)
    assert await look(rig) == Overdue(3_000, 0)
    rig.run()
    assert await look(rig) == Overdue(0, 3_000)


async def test_the_end_of_a_lease_that_heartbeats_put_off_is_a_stale_entry(rig: Any, make_job: Any) -> None:
    grant = leased(rig, make_job)
    rig.advance(20_000)
    rig.send(Heartbeat(job_id="j", run_id=grant.run_id, lease_token=1))
    rig.run()
    rig.advance(15_000)
    rig.run()
    [entry] = rig.store.due(None, rig.now_ms, 10)
    assert entry.deadline_ms < rig.now_ms  # the index says that it is past
    assert await look(rig) == Overdue(0, 0)
    # With the loop stopped the plan passes; what counts is still the lease's real end, 15 s from here.
    assert await look(rig, 14_000) == Overdue(0, 0)
    assert (await look(rig, 18_000)).slot_ms == pytest.approx(3_000, abs=30)  # type: ignore[union-attr] # owned


async def test_a_take_over_puts_the_ends_of_leases_off(rig: Any, make_rig: Any, make_job: Any) -> None:
    leased(rig, make_job)
    successor = make_rig(store=rig.store, begin=False)
    successor.now_ms = rig.now_ms + VISIBILITY_MS - 100
    successor.commit(successor.shard.first_batch())
    successor.advance(5_000)
    assert await look(successor) == Overdue(0, 0)
    successor.run()
    assert await look(successor) == Overdue(0, 0)
    late = await look(successor, VISIBILITY_MS)
    assert late is not None
    assert late.slot_ms == pytest.approx(5_000, abs=50)


async def test_the_end_of_a_lease_that_waits_for_its_evidence_for_ever_is_late(rig: Any, make_job: Any) -> None:
    leased(rig, make_job)
    rig.advance(VISIBILITY_MS + 10)
    for _ in range(20):  # the broker never tells the end of the commands; the job is looked at ten times a second
        rig.advance(100)
        rig.turn()
        assert "LeaseExpired" not in rig.names()
    late = await look(rig)
    assert late is not None
    assert late.slot_ms == pytest.approx(2_010, abs=50)


async def test_a_job_that_the_timers_have_lost_is_late(
    rig: Any, make_rig: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a re-election nothing fires, and the process looks healthy: dkron#998."""
    define(rig, make_job)
    monkeypatch.setattr(streams.timers.Timers, "fill", lambda _self: False)
    successor = make_rig(store=rig.store)
    successor.now_ms = rig.now_ms
    successor.advance(31_000)
    successor.run()
    assert "RunOpened" not in successor.names()
    assert await look(successor) == Overdue(30_000, 0)


async def test_many_stale_entries_hide_nothing_behind_them(
    rig: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.overdue, "SLICE", 2)
    grants = [leased(rig, make_job, f"long{number}") for number in range(7)]
    rig.advance(20_000)
    for grant in grants:
        rig.send(Heartbeat(job_id=grant.job_id, run_id=grant.run_id, lease_token=1))
    rig.run()
    define(rig, make_job, "short", after_ms=12_000)
    rig.advance(11_900)
    rig.run()
    late = await look(rig, 4_100)
    assert late is not None
    assert late.slot_ms == pytest.approx(4_000, abs=30)


async def test_the_oldest_of_many_late_ones_is_told(rig: Any, make_job: Any) -> None:
    for number in (3, 1, 2):
        define(rig, make_job, f"j{number}", after_ms=number * 1_000)
    rig.advance(5_000)
    assert await look(rig) == Overdue(4_000, 0)


async def test_a_job_that_is_set_aside_has_an_alert_of_its_own(
    rig: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(rig, make_job)

    def broken(*_: object) -> None:
        raise ValueError("boom")

    monkeypatch.setattr(streams.shard, "decide", broken)
    rig.advance(5_000)
    rig.run()
    assert rig.shard.quarantined
    for after_ms in (0, 29_950):  # its next try is near or far
        assert await look(rig, after_ms) == Overdue(0, 0)


async def test_without_the_brokers_clock_this_machines_is_used(rig: Any, make_job: Any) -> None:
    define(rig, make_job)
    rig.clock.reset("test")
    assert rig.shard.collect(rig.monotonic_ms + 60_000) is None  # the owner does nothing, which must show
    assert await look(rig, 9_000) == Overdue(8_000, 0)


async def test_the_oldest_ready_run_of_all_lines_is_told(
    rig: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.overdue, "SLICE", 2)
    for number in range(5):
        rig.define(make_job(f"j{number}", queue=f"q{number}", at_ms=rig.now_ms + 1_000 - number))
    rig.run()
    rig.advance(3_000)
    rig.run()
    assert await look(rig) == Overdue(0, 2_004)


async def test_what_is_not_acted_for_is_not_told(make_rig: Any) -> None:
    assert await look(make_rig(begin=False)) is None
