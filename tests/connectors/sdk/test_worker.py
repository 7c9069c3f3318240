"""A worker against the fake gateway: what a user may rely on when nothing goes wrong, and when handlers do."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import pytest

import horolog
from horolog._events import EVENTS
from horolog.testing import FakeGateway, ManualClock


def closed(gateway: FakeGateway, *run_ids: str) -> bool:
    return all(gateway.runs[run_id].state == "closed" for run_id in run_ids)


async def test_async_and_plain_handlers_run_and_their_results_arrive(gateway: FakeGateway, working: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    @worker.handler("async")
    async def double(run: horolog.Run) -> dict[str, int]:
        return {"twice": run.payload["n"] * 2}

    @worker.handler("plain")
    def name_of_thread(run: horolog.Run) -> str:
        del run
        return threading.current_thread().name

    first = gateway.add_run("async", payload={"n": 21})
    second = gateway.add_run("plain")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, first, second))
    assert gateway.runs[first].result == {"twice": 42}
    assert gateway.runs[second].result.startswith("horolog-handler-")
    assert [gateway.runs[run_id].outcome for run_id in (first, second)] == ["ran", "ran"]


async def test_the_run_tells_a_handler_all_about_itself(gateway: FakeGateway, working: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default")
    seen: list[horolog.Run] = []

    @worker.handler("task")
    async def look(run: horolog.Run) -> None:
        assert horolog.current_run() is run
        await asyncio.gather(inner(run), inner(run))
        seen.append(run)

    async def inner(run: horolog.Run) -> None:
        assert horolog.current_run().run_id == run.run_id

    run_id = gateway.add_run("task", payload=[1, "ü"], labels={"team": "a"})
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    run = seen[0]
    assert (run.run_id, run.job_id, run.task, run.queue) == (run_id, "job-1", "task", "default")
    assert (run.attempt, run.max_attempts, run.lease_token, run.payload) == (1, 5, 1, [1, "ü"])
    assert run.scheduled_for == datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
    assert run.lease_expires_at.tzinfo is not None
    assert run.labels == {"team": "a"}
    assert not run.cancelled.is_set()
    assert run.stop_reason is None
    assert gateway.runs[run_id].outcome == "ran", gateway.runs[run_id].error


async def test_current_run_works_in_threads_and_context_does_not_leak_between_runs(
    gateway: FakeGateway, working: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue="default", slots=1)
    var: ContextVar[str] = ContextVar("var", default="clean")

    @worker.handler("plain")
    def look(run: horolog.Run) -> list[str]:
        before = var.get()
        var.set("dirty")
        return [before, horolog.current_run().run_id, run.run_id]

    run_ids = [gateway.add_run("plain") for _ in range(3)]
    async with working(worker):
        await gateway.until(lambda: closed(gateway, *run_ids))
    assert [gateway.runs[run_id].result for run_id in run_ids] == [["clean", r, r] for r in run_ids]


def test_outside_a_handler_there_is_no_current_run() -> None:
    with pytest.raises(LookupError, match="no run is being handled"):
        horolog.current_run()


async def test_it_never_holds_more_runs_than_slots(gateway: FakeGateway, working: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default", slots=3)
    running, most = 0, 0
    gate = asyncio.Event()

    @worker.handler("task")
    async def count(run: horolog.Run) -> None:
        del run
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    run_ids = [gateway.add_run("task") for _ in range(10)]
    async with working(worker):
        await gateway.until(lambda: sum(run.state == "leased" for run in gateway.runs.values()) == 3)
        await gateway.until(lambda: sum(run.heartbeats > 0 for run in gateway.runs.values()) == 3)
        assert sum(run.grants for run in gateway.runs.values()) == 3
        gate.set()
        await gateway.until(lambda: closed(gateway, *run_ids))
    assert most == 3
    assert all(call.body["max"] <= 3 for call in gateway.calls if call.kind == "lease")


async def test_several_queues_share_the_slots(gateway: FakeGateway, working: Any) -> None:
    worker = horolog.Worker(gateway.url, queue=["a", "b"], slots=4)

    @worker.handler("task")
    async def queue_name(run: horolog.Run) -> str:
        return run.queue

    run_ids = [gateway.add_run("task", queue=queue) for queue in "abababab"]
    async with working(worker):
        await gateway.until(lambda: closed(gateway, *run_ids))
    assert [gateway.runs[run_id].result for run_id in run_ids] == list("abababab")
    assert max(call.body["max"] for call in gateway.calls if call.kind == "lease") <= 2


async def test_outcomes_travel_in_batches(gateway: FakeGateway, working: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default", slots=200)

    @worker.handler("task")
    async def nothing(run: horolog.Run) -> None: ...

    run_ids = [gateway.add_run("task") for _ in range(200)]
    async with working(worker):
        await gateway.until(lambda: closed(gateway, *run_ids))
    assert gateway.count("complete") <= 5
    assert all(gateway.runs[run_id].completions == 1 for run_id in run_ids)


async def test_an_exception_is_a_failure_that_is_retried_with_its_text(
    gateway: FakeGateway, working: Any, events: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue="default", on_event=events)

    @worker.handler("task")
    async def fail_once(run: horolog.Run) -> str:
        if run.attempt == 1:
            raise KeyError("the very key")
        return f"attempt {run.attempt}"

    run_id = gateway.add_run("task")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    run = gateway.runs[run_id]
    assert (run.failures, run.result, run.outcome) == (1, "attempt 2", "ran")
    assert "the very key" in str(run.error)
    assert events.of("run_failed")[0]["error_type"] == "KeyError"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_permanent_failure_is_not_retried(gateway: FakeGateway, working: Any, *, is_async: bool) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    async def refuse(run: horolog.Run) -> None:
        del run
        raise horolog.PermanentFailure("no such customer")

    def refuse_plain(run: horolog.Run) -> None:
        del run
        raise horolog.PermanentFailure("no such customer")

    worker.handler("task")(refuse if is_async else refuse_plain)
    run_id = gateway.add_run("task")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    run = gateway.runs[run_id]
    assert (run.outcome, run.failures, run.error, run.retryable) == ("dead", 1, "no such customer", False)


@pytest.mark.parametrize(
    ("result", "named"),
    [(object(), "not JSON"), (float("nan"), "not JSON"), ("\ud800", "not JSON"), ("x" * 65_536, "65538 bytes")],
)
async def test_a_result_that_cannot_be_sent_is_a_failure_that_says_so(
    gateway: FakeGateway, working: Any, result: Any, named: str
) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    @worker.handler("task")
    async def give(run: horolog.Run) -> Any:
        del run
        return result

    run_id = gateway.add_run("task")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    assert gateway.runs[run_id].outcome == "dead"
    assert named in str(gateway.runs[run_id].error)


async def test_the_largest_result_passes(gateway: FakeGateway, working: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    @worker.handler("task")
    async def give(run: horolog.Run) -> str:
        del run
        return "x" * 65_534

    run_id = gateway.add_run("task")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    assert gateway.runs[run_id].result == "x" * 65_534


async def test_error_texts_are_bounded_and_may_hold_anything(gateway: FakeGateway, working: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    @worker.handler("task")
    async def fail(run: horolog.Run) -> None:
        del run
        raise horolog.PermanentFailure("begin \udcff" + "x" * 100_000 + " end")

    run_id = gateway.add_run("task")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    error = str(gateway.runs[run_id].error)
    assert len(error) == 4096
    assert error.startswith("begin")
    assert error.endswith(" end")


async def test_an_unknown_task_fails_as_retryable_and_names_the_known_ones(
    gateway: FakeGateway, working: Any, events: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue="default", on_event=events)
    worker.handler("known")(lambda _: None)
    run_id = gateway.add_run("other", max_attempts=1)
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    assert "no handler for task 'other'; it has: known" in str(gateway.runs[run_id].error)
    assert gateway.runs[run_id].retryable is True
    assert events.of("unknown_task")[0]["task"] == "other"


async def test_a_plain_function_that_returns_a_coroutine_fails_and_says_what_to_write(
    gateway: FakeGateway, working: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    async def work() -> None: ...

    worker.handler("task")(lambda _: work())
    run_id = gateway.add_run("task", max_attempts=1)
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    assert "declare the function itself async def" in str(gateway.runs[run_id].error)


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError("mine"), GeneratorExit()])
async def test_no_exception_of_a_handler_ends_the_worker(
    gateway: FakeGateway, working: Any, error: BaseException
) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    @worker.handler("async")
    async def exit_async(run: horolog.Run) -> None:
        del run
        raise error

    @worker.handler("plain")
    def exit_plain(run: horolog.Run) -> None:
        del run
        raise error

    @worker.handler("fine")
    async def fine(run: horolog.Run) -> str:
        del run
        return "fine"

    bad = [gateway.add_run("async", max_attempts=1), gateway.add_run("plain", max_attempts=1)]
    async with working(worker):
        await gateway.until(lambda: closed(gateway, *bad))
        good = gateway.add_run("fine")
        await gateway.until(lambda: closed(gateway, good))
    assert {gateway.runs[run_id].outcome for run_id in bad} == {"dead"}
    assert gateway.runs[good].result == "fine"


async def test_a_cancelled_async_handler_gets_cancellederror_and_the_run_closes_as_cancelled(
    gateway: FakeGateway, working: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue="default")
    seen: list[Any] = []

    @worker.handler("task")
    async def wait(run: horolog.Run) -> None:
        try:
            await run.heartbeat()
            gateway.cancel_run(run.run_id)
            await run.heartbeat()
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            seen.extend([error, run.stop_reason, run.cancelled.is_set()])
            raise

    run_id = gateway.add_run("task")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    error, reason, is_set = seen
    assert isinstance(error, asyncio.CancelledError)
    assert isinstance(reason, horolog.RunCancelled)
    assert is_set
    assert gateway.runs[run_id].outcome == "cancelled"


async def test_a_cancelled_plain_handler_sees_the_event_and_may_finish_its_work(
    gateway: FakeGateway, working: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    def beat_for_ever(run: horolog.Run) -> None:
        while True:
            run.heartbeat_sync()

    @worker.handler("stops")
    def stops(run: horolog.Run) -> None:
        run.heartbeat_sync()
        loop.call_soon_threadsafe(gateway.cancel_run, run.run_id)
        with pytest.raises(horolog.RunCancelled):
            beat_for_ever(run)
        assert run.cancelled.wait(20)
        run.raise_if_cancelled()

    @worker.handler("finishes")
    def finishes(run: horolog.Run) -> str:
        loop.call_soon_threadsafe(gateway.cancel_run, run.run_id)
        with pytest.raises(horolog.RunCancelled):
            beat_for_ever(run)
        return "finished all the same"

    loop = asyncio.get_running_loop()
    first, second = gateway.add_run("stops"), gateway.add_run("finishes")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, first, second))
    assert gateway.runs[first].outcome == "cancelled"
    assert (gateway.runs[second].outcome, gateway.runs[second].result) == ("ran", "finished all the same")


async def test_progress_reaches_the_run_object(gateway: FakeGateway, working: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    @worker.handler("async")
    async def report(run: horolog.Run) -> Any:
        run.progress({"percent": 50})
        await run.heartbeat()
        return gateway.runs[run.run_id].progress

    @worker.handler("plain")
    def report_plain(run: horolog.Run) -> Any:
        run.progress("half")
        run.heartbeat_sync()
        return gateway.runs[run.run_id].progress

    first, second = gateway.add_run("async"), gateway.add_run("plain")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, first, second))
    assert gateway.runs[first].result == {"percent": 50}
    assert gateway.runs[second].result == "half"


async def test_progress_is_bounded_and_checked_where_it_is_set(gateway: FakeGateway, working: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default")

    @worker.handler("task")
    async def report(run: horolog.Run) -> str:
        run.progress("x" * 4094)
        with pytest.raises(ValueError, match="more than 4096 bytes"):
            run.progress("x" * 4095)
        with pytest.raises(TypeError):
            run.progress(object())
        with pytest.raises(RuntimeError, match=r"await run\.heartbeat"):
            run.heartbeat_sync()
        return "checked"

    run_id = gateway.add_run("task")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    assert gateway.runs[run_id].result == "checked", gateway.runs[run_id].error


async def test_a_run_that_outlasts_its_time_out_fails_as_retryable(working: Any) -> None:
    clock = ManualClock(flowing=True)
    async with FakeGateway(clock=clock) as gateway:
        worker = horolog.Worker(gateway.url, queue="default", clock=clock)

        @worker.handler("task")
        async def wait(run: horolog.Run) -> str:
            if run.attempt == 2:
                return "in time"
            started.set()
            await asyncio.Event().wait()
            return "never"

        started = asyncio.Event()
        run_id = gateway.add_run("task", timeout_seconds=3.0)
        async with working(worker):
            await asyncio.wait_for(started.wait(), 20)
            await clock.advance(3.1)
            await gateway.until(lambda: closed(gateway, run_id))
        run = gateway.runs[run_id]
        assert (run.outcome, run.failures, run.retryable, run.result) == ("ran", 1, True, "in time")
        assert "longer than timeoutSeconds=3.0" in str(run.error)


async def test_a_wrong_token_ends_the_worker_with_the_error(events: Any) -> None:
    async with FakeGateway(tokens={"right": "default"}) as gateway:
        worker = horolog.Worker(gateway.url, queue="default", token="wrong", on_event=events)  # noqa: S106 - a test's
        with pytest.raises(horolog.UnauthorizedError, match="token is not known"):
            await asyncio.wait_for(worker.run_async(), 20)
    assert events.names()[-1] == "worker_stopped"


async def test_an_unknown_queue_ends_the_worker_with_the_error() -> None:
    async with FakeGateway(auto_create_queues=False) as gateway:
        worker = horolog.Worker(gateway.url, queue="missing")
        with pytest.raises(horolog.NotFoundError) as caught:
            await asyncio.wait_for(worker.run_async(), 20)
    assert (caught.value.code, caught.value.field) == ("unknown_queue", "queue")


async def test_the_right_token_is_sent_with_every_call(working: Any) -> None:
    async with FakeGateway(tokens={"right": "default"}) as gateway:
        worker = horolog.Worker(gateway.url, queue="default", token="right")  # noqa: S106 - a test's
        worker.handler("task")(lambda _: None)
        run_id = gateway.add_run("task")
        async with working(worker):
            await gateway.until(lambda: closed(gateway, run_id))
        assert {call.headers["Authorization"] for call in gateway.calls} == {"Bearer right"}


async def test_a_worker_runs_once_at_a_time_and_may_run_again(gateway: FakeGateway) -> None:
    worker = horolog.Worker(gateway.url, queue="default")
    worker.handler("task")(lambda _: None)
    for _ in range(2):
        run_id = gateway.add_run("task")
        task = asyncio.get_running_loop().create_task(worker.run_async())
        await gateway.until(lambda: closed(gateway, run_id))  # noqa: B023 - awaited within the turn
        with pytest.raises(RuntimeError, match="already running"):
            await worker.run_async()
        worker.stop()
        await asyncio.wait_for(task, 20)
    worker.stop()
    assert [run.outcome for run in gateway.runs.values()] == ["ran", "ran"]


async def test_every_event_is_in_the_table_and_becomes_one_log_record(
    gateway: FakeGateway, working: Any, events: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="horolog.worker")
    worker = horolog.Worker(gateway.url, queue="default", on_event=events, worker_id="w-1")
    worker.handler("task")(lambda _: None)
    run_id = gateway.add_run("task")
    async with working(worker):
        await events.until("run_finished")
    assert closed(gateway, run_id)
    records = [record for record in caplog.records if record.name == "horolog.worker"]
    assert [record.__dict__["event"] for record in records] == events.names()
    assert set(events.names()) == {"worker_started", "run_finished", "worker_draining", "worker_stopped"}
    assert all(EVENTS[record.__dict__["event"]] == record.levelno for record in records)
    assert all(record.__dict__["horolog"]["worker_id"] == "w-1" for record in records)


async def test_a_hook_that_raises_does_not_stop_the_worker(
    gateway: FakeGateway, working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def hook(event: str, fields: Any) -> None:
        raise ZeroDivisionError(event, fields)

    worker = horolog.Worker(gateway.url, queue="default", on_event=hook)
    worker.handler("task")(lambda _: None)
    run_id = gateway.add_run("task")
    async with working(worker):
        await gateway.until(lambda: closed(gateway, run_id))
    assert "hook_failed" in [record.__dict__["event"] for record in caplog.records if record.name == "horolog.worker"]


async def test_a_new_run_is_taken_while_others_are_busy(gateway: FakeGateway, working: Any) -> None:
    worker = horolog.Worker(gateway.url, queue="default", slots=2)
    gate = asyncio.Event()

    @worker.handler("slow")
    async def slow(run: horolog.Run) -> None:
        del run
        await gate.wait()

    worker.handler("fast")(lambda _: "fast")
    slow_id = gateway.add_run("slow")
    async with working(worker):
        await gateway.until(lambda: gateway.runs[slow_id].state == "leased")
        for _ in range(5):
            fast_id = gateway.add_run("fast")
            await gateway.until(lambda: closed(gateway, fast_id))  # noqa: B023 - awaited within the turn
        assert gateway.runs[slow_id].state == "leased"
        gate.set()
        await gateway.until(lambda: closed(gateway, slow_id))
    assert gateway.runs[slow_id].completions == 1
