"""Stopping: what runs is finished, what was not started is given back, and the process ends."""

from __future__ import annotations

import asyncio
import signal
import sys
import textwrap
import threading
from typing import Any

import pytest

import horolog
from horolog.testing import FakeGateway, ManualClock

EXIT_SECONDS = 30.0


def closed(gateway: FakeGateway, *run_ids: str) -> bool:
    return all(gateway.runs[run_id].state == "closed" for run_id in run_ids)


async def test_stop_lets_running_handlers_finish_and_delivers_their_outcomes(gateway: FakeGateway, events: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default", on_event=events, slots=2)
    gate, thread_gate = asyncio.Event(), threading.Event()

    @worker.handler("async")
    async def wait(run: horolog.Run) -> str:
        del run
        await gate.wait()
        return "a"

    @worker.handler("plain")
    def wait_plain(run: horolog.Run) -> str:
        del run
        thread_gate.wait(20)
        return "b"

    running = [gateway.add_run("async"), gateway.add_run("plain")]
    task = asyncio.get_running_loop().create_task(worker.run_async())
    await gateway.until(lambda: all(gateway.runs[run_id].heartbeats for run_id in running))
    waiting = gateway.add_run("async")
    worker.stop()
    await events.until("worker_draining")
    gate.set()
    thread_gate.set()
    await asyncio.wait_for(task, EXIT_SECONDS)
    assert [gateway.runs[run_id].result for run_id in running] == ["a", "b"]
    assert gateway.runs[waiting].grants == 0
    assert events.of("worker_stopped")[0]["undelivered"] == 0


async def test_runs_on_the_wire_while_stopping_are_given_back_unstarted(gateway: FakeGateway, events: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default", on_event=events)
    started: list[str] = []

    @worker.handler("task")
    async def note(run: horolog.Run) -> None:
        started.append(run.run_id)

    gate = gateway.hang("lease")
    task = asyncio.get_running_loop().create_task(worker.run_async())
    await asyncio.wait_for(gate.reached.wait(), 20)
    run_id = gateway.add_run("task")
    worker.stop()
    await asyncio.wait_for(task, EXIT_SECONDS)
    run = gateway.runs[run_id]
    assert started == []
    assert (run.state, run.grants, run.releases, run.attempt) == ("ready", 1, 1, 0)
    gate.release()


async def test_a_parked_lease_request_holds_up_no_stop_and_leaves_nothing_leased(gateway: FakeGateway) -> None:
    worker = horolog.Worker(gateway.url, queue="default")
    worker.handler("task")(lambda _: None)
    task = asyncio.get_running_loop().create_task(worker.run_async())
    await gateway.until(lambda: gateway.count("lease") == 1)
    worker.stop()
    await asyncio.wait_for(task, EXIT_SECONDS)
    run_id = gateway.add_run("task")
    assert gateway.runs[run_id].state == "ready"
    assert [call.body["waitSeconds"] for call in gateway.calls] == [20, 0]
    assert len({call.body["requestId"] for call in gateway.calls}) == 1


async def test_after_drain_seconds_async_handlers_are_cancelled_and_fail_as_retryable(events: Any) -> None:
    clock = ManualClock(flowing=True)
    async with FakeGateway(clock=clock, retry_delay_seconds=1000) as gateway:
        worker = horolog.Worker(gateway.url, queue="default", on_event=events, clock=clock, drain_seconds=20)
        reasons: list[Any] = []

        @worker.handler("task")
        async def wait(run: horolog.Run) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                reasons.append(run.stop_reason)

        run_id = gateway.add_run("task")
        task = asyncio.get_running_loop().create_task(worker.run_async())
        await gateway.until(lambda: gateway.runs[run_id].heartbeats == 1)
        worker.stop()
        await events.until("worker_draining")
        await clock.advance(19)
        assert reasons == []
        await clock.advance(1.5)
        await asyncio.wait_for(task, EXIT_SECONDS)
        assert [type(reason) for reason in reasons] == [horolog.WorkerStopping]
        run = gateway.runs[run_id]
        assert (run.state, run.failures, run.retryable) == ("retrying", 1, True)


async def test_the_lease_is_renewed_during_a_long_drain(events: Any) -> None:
    clock = ManualClock(flowing=True)
    async with FakeGateway(clock=clock) as gateway:
        worker = horolog.Worker(gateway.url, queue="default", on_event=events, clock=clock, drain_seconds=600)
        gate = asyncio.Event()

        @worker.handler("task")
        async def wait(run: horolog.Run) -> str:
            del run
            await gate.wait()
            return "late but fine"

        run_id = gateway.add_run("task")
        task = asyncio.get_running_loop().create_task(worker.run_async())
        await gateway.until(lambda: gateway.runs[run_id].heartbeats == 1)
        worker.stop()
        await events.until("worker_draining")
        for turn in range(2, 10):
            await clock.advance(10.6)
            await gateway.until(lambda: gateway.runs[run_id].heartbeats >= turn)  # noqa: B023 - awaited within the turn
        gate.set()
        await asyncio.wait_for(task, EXIT_SECONDS)
        run = gateway.runs[run_id]
        assert (run.result, run.grants, run.completions) == ("late but fine", 1, 1)


async def test_the_second_stop_does_not_wait_for_handlers(gateway: FakeGateway, events: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default", on_event=events, drain_seconds=3_600)

    @worker.handler("task")
    async def wait(run: horolog.Run) -> None:
        del run
        await asyncio.Event().wait()

    run_id = gateway.add_run("task", max_attempts=1)
    task = asyncio.get_running_loop().create_task(worker.run_async())
    await gateway.until(lambda: gateway.runs[run_id].heartbeats == 1)
    worker.stop()
    await events.until("worker_draining")
    worker.stop()
    await asyncio.wait_for(task, EXIT_SECONDS)
    assert (gateway.runs[run_id].failures, gateway.runs[run_id].outcome) == (1, "dead")


async def test_a_cancelled_run_async_delivers_failures_and_stays_cancelled(gateway: FakeGateway) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    @worker.handler("task")
    async def wait(run: horolog.Run) -> None:
        del run
        await asyncio.Event().wait()

    run_id = gateway.add_run("task", max_attempts=1)
    task = asyncio.get_running_loop().create_task(worker.run_async())
    await gateway.until(lambda: gateway.runs[run_id].heartbeats == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, EXIT_SECONDS)
    assert gateway.runs[run_id].outcome == "dead"


async def test_outcomes_that_wait_for_a_gateway_in_restart_survive_the_stop(gateway: FakeGateway, events: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default", on_event=events)
    gate = asyncio.Event()

    @worker.handler("task")
    async def wait(run: horolog.Run) -> str:
        del run
        await gate.wait()
        return "kept"

    run_id = gateway.add_run("task")
    task = asyncio.get_running_loop().create_task(worker.run_async())
    await gateway.until(lambda: gateway.runs[run_id].heartbeats == 1)
    await gateway.stop()
    gate.set()
    worker.stop()
    await events.until("delivery_failed")
    await gateway.start()
    await asyncio.wait_for(task, EXIT_SECONDS)
    assert (gateway.runs[run_id].result, gateway.runs[run_id].completions) == ("kept", 1)


PROGRAM = """
    import sys, threading, time
    import horolog

    worker = horolog.Worker(sys.argv[1], queue="default", slots=4, drain_seconds=float(sys.argv[2]))

    @worker.handler("finish")
    def finish(run):
        run.heartbeat_sync()
        while True:  # until the test lets it go, which it says through a cancel of another run
            try:
                run.heartbeat_sync()
            except horolog.RunCancelled:
                return "finished"
            time.sleep(0.01)

    @worker.handler("stuck")
    def stuck(run):
        run.heartbeat_sync()
        threading.Event().wait()

    @worker.handler("async")
    async def wait(run):
        import asyncio
        await asyncio.Event().wait()

    worker.run()
"""


async def start_process(gateway: FakeGateway, tmp_path: Any, *, drain_seconds: float) -> asyncio.subprocess.Process:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", str(path), gateway.url, str(drain_seconds), stderr=asyncio.subprocess.PIPE
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_on_a_signal_a_process_finishes_its_run_and_exits_0(
    gateway: FakeGateway, tmp_path: Any, number: signal.Signals
) -> None:
    process = await start_process(gateway, tmp_path, drain_seconds=20)
    run_id = gateway.add_run("finish")
    await gateway.until(lambda: gateway.runs[run_id].heartbeats >= 1)
    process.send_signal(number)
    await gateway.until(lambda: any(c.kind == "lease" and c.body["waitSeconds"] == 0 for c in gateway.calls))
    waiting = gateway.add_run("finish")
    gateway.cancel_run(run_id)
    _, stderr = await asyncio.wait_for(process.communicate(), EXIT_SECONDS)
    assert (process.returncode, stderr) == (0, b"")
    assert (gateway.runs[run_id].result, gateway.runs[run_id].completions) == ("finished", 1)
    assert gateway.runs[waiting].grants == 0


async def test_a_thread_that_never_stops_does_not_hold_up_the_end_of_the_process(
    gateway: FakeGateway, tmp_path: Any
) -> None:
    process = await start_process(gateway, tmp_path, drain_seconds=0.1)
    stuck, waits = gateway.add_run("stuck"), gateway.add_run("async", max_attempts=1)
    await gateway.until(lambda: all(gateway.runs[run_id].heartbeats >= 1 for run_id in (stuck, waits)))
    process.send_signal(signal.SIGTERM)
    _, stderr = await asyncio.wait_for(process.communicate(), EXIT_SECONDS)
    assert process.returncode == 0
    assert b"handler_abandoned" in stderr
    assert gateway.runs[stuck].state == "leased"
    assert gateway.runs[waits].outcome == "dead"
