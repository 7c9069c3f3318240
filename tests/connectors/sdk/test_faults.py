"""A worker and a gateway that misbehaves: no outcome is lost, none is counted twice."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from typing import Any

import pytest

import horolog
from horolog.testing import FakeGateway, ManualClock


def closed(gateway: FakeGateway, *run_ids: str) -> bool:
    return all(gateway.runs[run_id].state == "closed" for run_id in run_ids)


def once(gateway: FakeGateway, run_ids: list[str]) -> None:
    """Assert that every run was executed and completed exactly once."""
    for run_id in run_ids:
        run = gateway.runs[run_id]
        assert (run.outcome, run.completions, run.grants) == ("ran", 1, 1), run


def echo_worker(gateway: FakeGateway, events: Any = None, **more: Any) -> horolog.Worker:
    worker = horolog.Worker(gateway.url, queue="default", on_event=events, **more)

    @worker.handler("echo")
    async def echo(run: horolog.Run) -> Any:
        return run.payload

    return worker


@pytest.mark.parametrize("kind", ["complete", "heartbeat", "lease"])
@pytest.mark.parametrize("fault", ["drop_answers", "drop_requests"])
async def test_a_lost_answer_or_request_loses_and_doubles_nothing(
    gateway: FakeGateway, working: Any, kind: str, fault: str
) -> None:
    getattr(gateway, fault)(kind, times=3)
    worker = horolog.Worker(gateway.url, queue="default", slots=20)

    @worker.handler("beat")
    async def beat(run: horolog.Run) -> int:
        await run.heartbeat()
        return int(run.payload)

    run_ids = [gateway.add_run("beat", payload=n) for n in range(20)]
    async with working(worker):
        await gateway.until(lambda: closed(gateway, *run_ids))
    once(gateway, run_ids)
    assert [gateway.runs[run_id].result for run_id in run_ids] == list(range(20))


@pytest.mark.parametrize("status", [429, 500, 503, 504, 401])
async def test_a_refused_batch_of_completes_is_repeated(
    gateway: FakeGateway, working: Any, events: Any, status: int
) -> None:
    gateway.refuse("complete", status=status, times=2)
    run_ids = [gateway.add_run("echo", payload=n) for n in range(5)]
    async with working(echo_worker(gateway, events)):
        await gateway.until(lambda: closed(gateway, *run_ids))
    once(gateway, run_ids)
    assert len(events.of("delivery_failed")) == 2


async def test_only_the_refused_items_of_a_batch_are_repeated_and_others_are_not_held_up(
    gateway: FakeGateway, working: Any
) -> None:
    gateway.refuse_items("complete", times=3)
    run_ids = [gateway.add_run("echo", payload=n) for n in range(10)]
    async with working(echo_worker(gateway)):
        await gateway.until(lambda: closed(gateway, *run_ids))
    once(gateway, run_ids)
    sizes = [call.runs for call in gateway.calls if call.kind == "complete"]
    assert sum(sizes) == 13


async def test_an_outcome_the_gateway_will_never_take_is_reported_and_not_repeated(
    gateway: FakeGateway, working: Any, events: Any
) -> None:
    gateway.refuse_items("complete", status=422, code="invalid_field")
    gateway.add_run("echo")
    async with working(echo_worker(gateway, events)):
        rejected = await events.until("outcome_rejected")
        other = gateway.add_run("echo")
        await gateway.until(lambda: closed(gateway, other))
    assert rejected["code"] == "invalid_field"
    assert gateway.count("complete") == 2


async def test_a_restart_in_the_middle_of_completes_loses_and_doubles_nothing(
    gateway: FakeGateway, working: Any
) -> None:
    gate = gateway.hang("complete")
    run_ids = [gateway.add_run("echo", payload=n) for n in range(50)]
    async with working(echo_worker(gateway, slots=50)):
        await asyncio.wait_for(gate.reached.wait(), 20)
        await gateway.restart()
        later = [gateway.add_run("echo", payload=n) for n in range(50)]
        await gateway.until(lambda: closed(gateway, *run_ids, *later))
    once(gateway, run_ids + later)


async def test_many_restarts_under_load_lose_and_double_nothing(gateway: FakeGateway, working: Any) -> None:
    # Answers of leases that die with a gateway come back when their lease ends (docs/http-api.md section 4): the
    # fake forgets them in a restart, so only runs whose grant was received are asserted to run once.
    run_ids = [gateway.add_run("echo", payload=n) for n in range(600)]
    async with working(echo_worker(gateway, slots=20)):
        for done in (50, 200, 350, 500):
            await gateway.until(lambda: sum(r.state == "closed" for r in gateway.runs.values()) >= done)  # noqa: B023
            await gateway.restart()
            for run_id in run_ids:
                run = gateway.runs[run_id]
                if run.state == "leased" and not run.heard:
                    gateway.lose_lease(run_id)
        await gateway.until(lambda: closed(gateway, *run_ids))
    assert all(gateway.runs[run_id].completions == 1 for run_id in run_ids)
    assert [gateway.runs[run_id].result for run_id in run_ids] == list(range(600))


async def test_a_gateway_that_starts_late_is_waited_for(working: Any, events: Any) -> None:
    gateway = FakeGateway()
    await gateway.start()
    await gateway.stop()
    async with working(echo_worker(gateway, events)):
        await events.until("lease_request_failed", count=2)
        await gateway.start()
        run_id = gateway.add_run("echo", payload=1)
        await gateway.until(lambda: closed(gateway, run_id))
    once(gateway, [run_id])
    await gateway.stop()


async def test_a_stale_lease_at_complete_is_reported_and_not_repeated(
    gateway: FakeGateway, working: Any, events: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue="default", on_event=events, slots=1)

    @worker.handler("task")
    async def token(run: horolog.Run) -> int:
        return run.lease_token

    gate = gateway.hang("complete")
    run_id = gateway.add_run("task")
    async with working(worker):
        await asyncio.wait_for(gate.reached.wait(), 20)
        await gateway.until(lambda: gateway.runs[run_id].heartbeats > 0)
        gateway.lose_lease(run_id)
        gate.release()
        lost = await events.until("lease_lost")
        await gateway.until(lambda: closed(gateway, run_id))
    run = gateway.runs[run_id]
    sent = [item["leaseToken"] for call in gateway.calls if call.kind == "complete" for item in call.body["runs"]]
    assert (lost["code"], lost["lease_token"]) == ("lease_lost", 1)
    assert sorted(sent) == [1, 2]
    assert (run.outcome, run.result, run.completions) == ("ran", 2, 1)


async def test_a_lost_lease_cancels_an_async_handler_and_its_outcome_is_refused(
    gateway: FakeGateway, working: Any, events: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue="default", on_event=events)
    reasons: list[Any] = []

    @worker.handler("task")
    async def lose(run: horolog.Run) -> str:
        if run.attempt == 1 and not reasons:
            await run.heartbeat()
            gateway.runs[run.run_id].max_attempts = 5
            gateway.lose_lease(run.run_id)
            try:
                await run.heartbeat()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                reasons.append(run.stop_reason)
            return "too late"
        return "second"

    run_id = gateway.add_run("task")
    async with working(worker):
        await events.until("outcome_refused")
        await gateway.until(lambda: closed(gateway, run_id))
    assert [type(reason) for reason in reasons] == [horolog.LeaseLost]
    assert (gateway.runs[run_id].result, gateway.runs[run_id].completions) == ("second", 1)


async def test_a_silent_gateway_stops_async_and_plain_handlers_before_the_lease_could_end(
    working: Any, events: Any
) -> None:
    clock = ManualClock(flowing=True)
    async with FakeGateway(clock=clock) as gateway:
        worker = horolog.Worker(gateway.url, queue="default", on_event=events, clock=clock, drain_seconds=0)
        stopped: list[str] = []
        release = threading.Event()

        @worker.handler("async")
        async def wait(run: horolog.Run) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(type(run.stop_reason).__name__)

        @worker.handler("plain")
        def wait_plain(run: horolog.Run) -> str:
            run.cancelled.wait(20)
            release.wait(20)
            return type(run.stop_reason).__name__

        runs = [gateway.add_run("async"), gateway.add_run("plain")]
        async with working(worker):
            await gateway.until(lambda: all(gateway.runs[run_id].heartbeats == 1 for run_id in runs))
            await gateway.stop()
            await clock.advance(20)
            assert "lease_lost" not in events.names()
            await clock.advance(5.1)
            await events.until("lease_lost", count=2)
            await events.until("outcome_refused")
            await clock.advance(5)
            outlived = await events.until("handler_outlived_lease")
            release.set()
            await events.until("outcome_refused", count=2)
        assert stopped == ["LeaseLost"]
        assert outlived["in_thread"] is True
        assert [gateway.runs[run_id].completions for run_id in runs] == [0, 0]


async def test_a_completion_that_cannot_be_sent_before_the_lease_could_end_is_given_up_and_reported(
    working: Any, events: Any
) -> None:
    clock = ManualClock(flowing=True)
    async with FakeGateway(clock=clock) as gateway:
        worker = echo_worker(gateway, events, clock=clock, drain_seconds=0)
        gateway.refuse("complete", times=1_000)
        gateway.refuse("heartbeat", times=1_000)
        run_id = gateway.add_run("echo")
        async with working(worker):
            await events.until("delivery_failed")
            await clock.advance(20)
            assert "outcome_undelivered" not in events.names()
            await clock.advance(11)
            lost = await events.until("outcome_undelivered")
            assert gateway.runs[run_id].completions == 0
            gateway.clear_faults()
        assert (lost["run_id"], lost["during"]) == (run_id, "complete")


async def test_a_lease_is_renewed_while_its_completion_waits(working: Any, events: Any) -> None:
    clock = ManualClock(flowing=True)
    async with FakeGateway(clock=clock) as gateway:
        worker = echo_worker(gateway, events, clock=clock)
        gateway.refuse("complete", times=1_000)
        run_id = gateway.add_run("echo")
        async with working(worker):
            for turn in range(12):
                await clock.advance(5)
                await gateway.until(lambda: gateway.runs[run_id].heartbeats >= turn // 3)  # noqa: B023
            gateway.clear_faults()
            await clock.advance(5)
            await gateway.until(lambda: closed(gateway, run_id))
        once(gateway, [run_id])


async def test_a_slow_gateway_answers_each_call_late_and_nothing_is_doubled(gateway: FakeGateway, working: Any) -> None:
    gate = gateway.hang("complete")
    run_ids = [gateway.add_run("echo", payload=n) for n in range(5)]
    async with working(echo_worker(gateway, request_timeout_seconds=0.05)):
        await asyncio.wait_for(gate.reached.wait(), 20)
        await gateway.until(lambda: closed(gateway, *run_ids))
        gate.release()
        await gateway.until(lambda: gateway.count("complete") >= 2)
    once(gateway, run_ids)


async def test_leasing_stops_while_too_many_outcomes_wait(gateway: FakeGateway, working: Any, events: Any) -> None:
    gateway.refuse("complete", times=100_000)
    run_ids = [gateway.add_run("echo") for _ in range(1_500)]
    async with working(echo_worker(gateway, events, slots=100, drain_seconds=0)):
        await gateway.until(lambda: sum(run.grants for run in gateway.runs.values()) >= 1_000)
        await events.until("delivery_failed", count=3)
        granted = sum(run.grants for run in gateway.runs.values())
        assert granted < 1_300
        gateway.clear_faults()
        await gateway.until(lambda: closed(gateway, *run_ids))
    once(gateway, run_ids)


async def test_empty_answers_at_once_do_not_make_a_tight_loop(working: Any, events: Any) -> None:
    async with FakeGateway() as gateway:
        worker = horolog.Worker(gateway.url, queue="default", lease_poll_seconds=0, on_event=events)
        async with working(worker):
            await events.until("lease_request_failed", count=3)
        assert gateway.count("lease") <= 6


async def test_a_run_granted_again_to_the_same_worker_while_the_old_thread_still_runs(
    gateway: FakeGateway, working: Any, events: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue="default", on_event=events, slots=2)
    release, entered = threading.Event(), []

    @worker.handler("task")
    def stuck(run: horolog.Run) -> int:
        entered.append(run.lease_token)
        if run.lease_token == 1:
            loop.call_soon_threadsafe(gateway.lose_lease, run.run_id)
            release.wait(20)
        return run.lease_token

    loop = asyncio.get_running_loop()
    run_id = gateway.add_run("task")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
        release.set()
        await events.until("lease_lost")
    assert entered == [1, 2]
    assert (gateway.runs[run_id].result, gateway.runs[run_id].completions) == (2, 1)


async def test_a_repeated_lease_request_waits_only_for_what_is_left_of_the_poll(working: Any, events: Any) -> None:
    clock = ManualClock(flowing=True)
    async with FakeGateway(clock=clock) as gateway:
        gate = gateway.hang("lease")
        gateway.drop_requests("lease")
        async with working(echo_worker(gateway, events, clock=clock)):
            await asyncio.wait_for(gate.reached.wait(), 20)
            await clock.advance(6)
            await gateway.restart()
            await gateway.until(lambda: gateway.count("lease") >= 3)
        first, *repeats = [call.body for call in gateway.calls if call.kind == "lease"]
        assert first["waitSeconds"] == 20
        assert repeats[0]["requestId"] == first["requestId"]
        assert repeats[0]["waitSeconds"] <= 14


async def test_runs_of_an_answer_that_took_too_long_are_given_back_unstarted(working: Any, events: Any) -> None:
    clock = ManualClock(flowing=True)
    async with FakeGateway(clock=clock) as gateway:
        started: list[int] = []
        worker = horolog.Worker(gateway.url, queue="default", clock=clock, on_event=events)

        @worker.handler("task")
        async def note(run: horolog.Run) -> None:
            started.append(run.lease_token)

        gate = gateway.hang("lease")
        run_id = gateway.add_run("task")
        async with working(worker):
            await asyncio.wait_for(gate.reached.wait(), 20)
            await clock.advance(26)
            gate.release()
            await gateway.until(lambda: closed(gateway, run_id))
        run = gateway.runs[run_id]
        assert (run.releases, run.grants, run.attempt, started) == (1, 2, 1, [2])


async def test_runs_that_cannot_be_read_are_reported_and_the_others_run(
    gateway: FakeGateway, working: Any, events: Any
) -> None:
    bad = gateway.add_run("echo", lane="high")
    gateway.memory.grant = _grant_without_a_token(gateway, bad)  # type: ignore[method-assign]  # the fault under test
    good = gateway.add_run("echo", payload=1)
    async with working(echo_worker(gateway, events)):
        await gateway.until(lambda: closed(gateway, good))
    assert any("cannot be read" in fields["detail"] for fields in events.of("lease_request_failed"))


def _grant_without_a_token(gateway: FakeGateway, bad: str) -> Any:
    grant = gateway.memory.grant

    def broken(run: Any, worker_id: str, visibility_seconds: float) -> dict[str, Any]:
        if run.run_id == bad:
            run.state = "leased"
            run.lease_ends_at = float("inf")
            return {"runId": bad}
        return grant(run, worker_id, visibility_seconds)

    return broken


async def test_a_handler_that_blocks_the_loop_beyond_its_lease_has_its_outcome_refused(
    working: Any, events: Any
) -> None:
    clock = ManualClock(flowing=True)
    async with FakeGateway(clock=clock) as gateway:
        worker = horolog.Worker(gateway.url, queue="default", clock=clock, on_event=events)

        @worker.handler("task")
        async def block(run: horolog.Run) -> str:
            if run.attempt == 1 and run.lease_token == 1:
                clock._now += 26  # nothing else runs meanwhile, as in a frozen process
            return f"token {run.lease_token}"

        run_id = gateway.add_run("task")
        async with working(worker):
            await events.until("outcome_refused")
            await clock.advance(10)
            await gateway.until(lambda: closed(gateway, run_id))
        assert (gateway.runs[run_id].result, gateway.runs[run_id].completions) == ("token 2", 1)


async def test_the_threads_of_a_stopped_worker_end(gateway: FakeGateway) -> None:
    worker = horolog.Worker(gateway.url, queue="default", slots=3)
    threads: list[threading.Thread] = []

    @worker.handler("task")
    def note(run: horolog.Run) -> None:
        del run
        threads.append(threading.current_thread())

    run_ids = [gateway.add_run("task") for _ in range(9)]
    task = asyncio.get_running_loop().create_task(worker.run_async())
    await gateway.until(lambda: closed(gateway, *run_ids))
    worker.stop()
    await asyncio.wait_for(task, 20)
    for thread in threads:
        await asyncio.to_thread(thread.join, 20)
    assert not any(thread.is_alive() for thread in threads)


async def strike(gateway: FakeGateway, dice: random.Random) -> None:
    """Inject one fault at random, or end all of them."""
    kind = dice.choice(["lease", "heartbeat", "complete", "*"])
    match dice.randrange(6):
        case 0:
            gateway.drop_answers(kind)
        case 1:
            gateway.drop_requests(kind)
        case 2:
            gateway.refuse(kind, status=dice.choice([500, 503, 504]))
        case 3:
            gateway.refuse_items("complete", times=dice.randrange(1, 9))
        case 4:
            await gateway.restart()
        case _:
            gateway.clear_faults()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_under_random_faults_every_run_is_completed_once_and_executed_about_once(working: Any, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - a reproducible choice of faults
    clock = ManualClock(flowing=True)
    async with FakeGateway(clock=clock) as gateway:
        worker = horolog.Worker(gateway.url, queue="default", slots=25, clock=clock)
        executed: Counter[str] = Counter()

        @worker.handler("async")
        async def echo(run: horolog.Run) -> Any:
            executed[run.run_id] += 1
            if run.payload % 3 == 0:
                await run.heartbeat()
            return run.payload

        @worker.handler("plain")
        def echo_plain(run: horolog.Run) -> Any:
            executed[run.run_id] += 1
            return run.payload

        run_ids = [gateway.add_run(dice.choice(["async", "plain"]), payload=n) for n in range(300)]

        def done() -> int:
            return sum(run.state == "closed" for run in gateway.runs.values())

        async with working(worker):
            while done() < len(run_ids):
                await strike(gateway, dice)
                goal, called = min(len(run_ids), done() + 10), len(gateway.calls) + 5
                try:
                    condition = lambda: done() >= goal or len(gateway.calls) >= called  # noqa: B023, E731 - awaited at once
                    await gateway.until(condition, seconds=1)
                except TimeoutError:  # all that is left was granted in answers that died with their gateway
                    await clock.advance(31)
                await clock.advance(dice.choice([0.0, 0.5, 6.0]))
    assert [gateway.runs[run_id].completions for run_id in run_ids] == [1] * len(run_ids)
    assert [gateway.runs[run_id].result for run_id in run_ids] == list(range(len(run_ids)))
    # A grant whose answer died with its gateway never began; nothing here takes a lease from a run that began.
    assert set(executed.values()) == {1}
