"""The test kit that ships with the SDK."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import horolog
from horolog.testing import FakeGateway, ManualClock, WorkerTest, run_handler


async def test_a_handler_runs_without_a_server() -> None:
    async def double(run: horolog.Run) -> dict[str, int]:
        run.progress("half")
        assert horolog.current_run() is run
        return {"twice": run.payload * 2}

    result = await run_handler(double, payload=21)
    assert (result.outcome, result.result, result.progress) == ("completed", {"twice": 42}, "half")


async def test_a_plain_handler_runs_in_a_thread() -> None:
    result = await run_handler(lambda _: threading.current_thread() is threading.main_thread())
    assert (result.outcome, result.result) == ("completed", False)


async def test_failures_tell_whether_they_are_retried() -> None:
    async def fail(run: horolog.Run) -> None:
        if run.attempt == 1:
            raise ValueError("once")
        raise horolog.PermanentFailure("for good")

    first = await run_handler(fail)
    second = await run_handler(fail, attempt=2)
    assert (first.outcome, first.retryable, first.error_type) == ("failed", True, "ValueError")
    assert (second.outcome, second.retryable, second.error) == ("failed", False, "for good")


async def test_a_result_that_is_not_json_is_found() -> None:
    result = await run_handler(lambda _: {1, 2})
    assert (result.outcome, result.error_type, result.retryable) == ("failed", "ResultNotJson", False)


@pytest.fixture
def waiting() -> tuple[horolog.Worker, list[Any], threading.Event]:
    worker = horolog.Worker("http://localhost:1", queue="q")

    @worker.handler("async")
    async def wait(run: horolog.Run) -> str:
        try:
            entered.set()
            await asyncio.Event().wait()
        finally:
            seen.append(run.stop_reason)
        return "never"

    @worker.handler("plain")
    def wait_plain(run: horolog.Run) -> None:
        entered.set()
        run.cancelled.wait(20)
        seen.append(run.stop_reason)
        run.raise_if_cancelled()

    seen: list[Any] = []
    entered = threading.Event()
    return worker, seen, entered


@pytest.mark.parametrize("task", ["async", "plain"])
@pytest.mark.parametrize(
    ("act", "outcome", "reason"),
    [
        ("cancel", "cancelled", horolog.RunCancelled),
        ("lose_lease", "lease_lost", horolog.LeaseLost),
        ("stop_worker", "worker_stopping", horolog.WorkerStopping),
    ],
)
async def test_a_test_can_stop_a_handler_for_every_reason(
    waiting: tuple[horolog.Worker, list[Any], threading.Event],
    task: str,
    act: str,
    outcome: str,
    reason: type[horolog.RunStopped],
) -> None:
    worker, seen, entered = waiting
    async with WorkerTest(worker) as test:
        handle = test.start(task)
        await test.advance(1)
        assert await asyncio.to_thread(entered.wait, 20)
        getattr(handle, act)()
        result = await handle.result()
    assert result.outcome == outcome
    assert type(result.stop_reason) is reason
    assert [type(it) for it in seen] == [reason]


async def test_a_time_out_of_an_hour_takes_no_time(waiting: tuple[horolog.Worker, Any, Any]) -> None:
    async with WorkerTest(waiting[0]) as test:
        handle = test.start("async", timeoutSeconds=3600)
        await test.advance(3599)
        assert handle.run.stop_reason is None
        await test.advance(1)
        result = await handle.result()
    assert (result.outcome, result.retryable) == ("timed_out", True)


async def test_a_value_returned_after_the_time_out_is_a_failure_all_the_same() -> None:
    async def swallow(run: horolog.Run) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert isinstance(run.stop_reason, horolog.RunTimedOut)
        return "late"

    async with WorkerTest() as test:
        test.add_handler("t", swallow)
        handle = test.start("t", timeoutSeconds=5)
        await test.advance(5)
        result = await handle.result()
    assert (result.outcome, result.result, result.retryable) == ("timed_out", None, True)


async def test_a_value_returned_after_a_cancellation_completes_the_run() -> None:
    async def swallow(run: horolog.Run) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            reasons.extend([error.args[0], run.stop_reason])
        return "finished"

    reasons: list[Any] = []

    async with WorkerTest() as test:
        test.add_handler("t", swallow)
        handle = test.start("t")
        await test.advance(1)
        handle.cancel()
        result = await handle.result()
    assert (result.outcome, result.result) == ("completed", "finished")
    assert reasons[0] is reasons[1]


async def test_a_silent_gateway_takes_the_lease_after_25_s(waiting: tuple[horolog.Worker, Any, Any]) -> None:
    async with WorkerTest(waiting[0]) as test:
        handle = test.start("async")
        await test.advance(1)
        test.silence()
        await test.advance(23.9)
        assert handle.run.stop_reason is None
        await test.advance(1)
        result = await handle.result()
    assert result.outcome == "lease_lost"


async def test_progress_can_be_looked_at_while_a_handler_runs() -> None:
    gate = asyncio.Event()

    async def report(run: horolog.Run) -> None:
        run.progress(1)
        await run.heartbeat()
        run.progress(2)
        await gate.wait()

    async with WorkerTest() as test:
        test.add_handler("t", report)
        handle = test.start("t")
        await test.advance(1)
        assert handle.progress == 2
        gate.set()
        assert (await handle.result()).progress == 2


async def test_the_manual_clock_fires_timers_in_order_each_at_its_own_instant() -> None:
    clock = ManualClock(start=0)
    fired: list[tuple[str, float]] = []
    clock.call_at(3, lambda: fired.append(("c", clock.monotonic())))
    clock.call_at(1, lambda: fired.append(("a", clock.monotonic())))
    clock.call_at(2, lambda: fired.append(("cancelled", clock.monotonic()))).cancel()

    def arm_another() -> None:
        clock.call_at(2.5, lambda: fired.append(("b", clock.monotonic())))

    clock.call_at(1, arm_another)
    await clock.advance(2.9)
    assert fired == [("a", 1), ("b", 2.5)]
    await clock.advance(0.2)
    assert fired[-1] == ("c", 3)
    assert clock.monotonic() == pytest.approx(3.1)


async def test_the_fake_expires_leases_and_counts_only_attempts_it_heard_of() -> None:
    clock = ManualClock()
    async with FakeGateway(clock=clock) as gateway, horolog.AsyncClient(gateway.url) as client:
        run_id = gateway.add_run("t")
        await client.lease("default", worker_id="w")
        await clock.advance(30.1)
        (second,) = await client.lease("default", worker_id="w")
        assert (second.attempt, second.lease_token) == (1, 2)
        await client.heartbeat(run_id, 2)
        await clock.advance(30.1)
        (third,) = await client.lease("default", worker_id="w")
        assert (third.attempt, third.lease_token) == (2, 3)
        with pytest.raises(horolog.StaleLeaseError):
            await client.complete(run_id, 2)


async def test_the_fake_answers_a_repeated_lease_request_with_the_same_runs() -> None:
    async with FakeGateway() as gateway, horolog.AsyncClient(gateway.url) as client:
        run_id = gateway.add_run("t")
        gateway.drop_answers("lease")
        (run,) = await client.lease("default", worker_id="w", request_id="r1")
        (again,) = await client.lease("default", worker_id="w", request_id="r1")
        assert (run.run_id, run.lease_token, again.lease_token) == (run_id, 1, 1)
        assert gateway.runs[run_id].grants == 1


async def test_the_fake_opens_one_off_jobs_when_they_are_due() -> None:
    clock = ManualClock()
    async with FakeGateway(clock=clock) as gateway, horolog.AsyncClient(gateway.url) as client:
        ref = await client.create_job("t", job_id="j", delay_seconds=5)
        assert ref.next_run_at is not None
        await clock.advance(4.9)
        assert await client.lease("default", worker_id="w", wait_seconds=0) == ()
        await clock.advance(0.2)
        (run,) = await client.lease("default", worker_id="w", wait_seconds=0)
        assert run.run_id == "run_j_20261201T090005000Z"


@pytest.mark.parametrize(
    ("act", "outcome"), [("stop_worker", "released"), ("cancel", "cancelled"), ("lose_lease", "lease_lost")]
)
async def test_a_handler_stopped_before_it_began_never_runs(
    waiting: tuple[horolog.Worker, list[Any], threading.Event], act: str, outcome: str
) -> None:
    worker, _, entered = waiting
    async with WorkerTest(worker) as test:
        handle = test.start("async")
        getattr(handle, act)()
        result = await handle.result()
    assert result.outcome == outcome
    assert not entered.is_set()
