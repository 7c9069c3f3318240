"""Commands and their answers; the owner's side is played by hand, time is virtual."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from api.dispatch.calls import DispatchError, Failure
from api.dispatch.client import DispatchClient, DispatchConfig
from api.dispatch.clock import BrokerClock, ManualClock
from api.dispatch.memory_link import MemoryLink
from streams.core.commands import Delete, Pause, Reply

if TYPE_CHECKING:
    # The bench is a fixture of conftest.py, which tests cannot import by name.
    Bench = Any


def delete(number: int) -> Delete:
    return Delete(job_id=f"job{number}")


def ok(command: Any) -> Reply:
    return Reply(code="ok", job_id=command.job_id)


async def test_a_reply_answers_the_command_that_it_names(bench: Bench) -> None:
    tasks = [asyncio.create_task(bench.client.command(delete(number))) for number in range(3)]
    await bench.advance(10)
    commands = bench.link.commands
    bench.reply([(command, ok(command)) for command in reversed(commands)])
    assert [(await task).job_id for task in tasks] == ["job0", "job1", "job2"]
    assert len({command.request_id for command in commands}) == 3


async def test_a_batch_of_commands_has_its_results_in_order(bench: Bench) -> None:
    task = asyncio.create_task(bench.client.commands([delete(number) for number in range(20)]))
    await bench.advance(10)
    commands = bench.link.commands
    bench.reply([(command, ok(command)) for command in commands[:7]])
    await bench.settle()
    assert not task.done()
    bench.reply([(command, ok(command)) for command in commands[7:]])
    assert [result.job_id for result in await task] == [f"job{number}" for number in range(20)]


async def test_commands_are_packed_per_partition_with_id_and_incarnation(bench: Bench) -> None:
    task = asyncio.create_task(bench.client.commands([delete(number) for number in range(50)]))
    await bench.advance(10)
    assert len(bench.link.sent) == len({partition for partition, _ in bench.link.sent}) <= 4
    for partition, batch in bench.link.sent:
        assert (batch.gateway_id, batch.incarnation) == ("gw", bench.client.incarnation)
        assert {bench.client.partition_of(command.job_id) for command in batch.commands} == {partition}
    task.cancel()


async def test_a_report_waits_longer_for_company_and_leaves_with_the_first_urgent_command(bench: Bench) -> None:
    await bench.find_company()
    report = asyncio.create_task(bench.client.complete([("run_job7_x", 1, b"")]))
    await bench.advance(25)
    assert bench.link.commands == []  # a command that somebody waits for had left by now
    urgent = asyncio.create_task(bench.client.command(delete(8)))
    await bench.advance(15)
    assert [command.job_id for command in bench.link.commands] == ["job7", "job8"]
    report.cancel()
    urgent.cancel()


async def test_a_report_leaves_within_50_ms_by_itself(bench: Bench) -> None:
    await bench.find_company()
    report = asyncio.create_task(bench.client.complete([("run_job7_x", 1, b"")]))
    await bench.advance(51)
    assert [command.job_id for command in bench.link.commands] == ["job7"]
    report.cancel()


async def test_a_command_that_no_record_can_hold_fails_alone(bench: Bench) -> None:
    others = [asyncio.create_task(bench.client.command(delete(number))) for number in range(12)]
    hostile = asyncio.create_task(bench.client.complete([(f"run_job{n}_x", 2**70, b"") for n in range(4)]))
    await bench.advance(10)
    commands = bench.link.commands
    assert sorted(command.job_id for command in commands) == sorted(f"job{number}" for number in range(12))
    bench.reply([(command, ok(command)) for command in commands])
    assert [(await task).code for task in others] == ["ok"] * 12
    assert await hostile == [Failure("overloaded")] * 4


async def test_an_idle_command_leaves_within_5_ms(bench: Bench) -> None:
    task = asyncio.create_task(bench.client.command(delete(1)))
    await bench.advance(4.9)
    assert bench.link.sent == []
    await bench.advance(0.1)
    assert len(bench.link.sent) == 1
    task.cancel()


async def test_no_answer_in_time_is_outcome_unknown(bench: Bench) -> None:
    task = asyncio.create_task(bench.client.command(delete(1)))
    await bench.advance(10_000)
    with pytest.raises(DispatchError) as raised:
        await task
    assert raised.value.failure == Failure("outcome_unknown")
    assert "Repeat" in str(raised.value)
    assert bench.client.pending == 0


async def test_only_the_missing_items_of_a_batch_are_unknown(bench: Bench) -> None:
    task = asyncio.create_task(bench.client.commands([delete(1), delete(2)]))
    await bench.advance(10)
    (first,) = [command for command in bench.link.commands if command.job_id == "job1"]
    bench.reply([(first, ok(first))])
    await bench.advance(10_000)
    answered, unknown = await task
    assert answered == ok(first)
    assert unknown == Failure("outcome_unknown")


async def test_a_late_reply_does_nothing(bench: Bench) -> None:
    task = asyncio.create_task(bench.client.commands([delete(1)]))
    await bench.advance(10_000)
    bench.reply([(command, ok(command)) for command in bench.link.commands])
    assert await task == [Failure("outcome_unknown")]


@pytest.mark.parametrize(("failure", "code"), [("not_written", "overloaded"), ("unknown", "outcome_unknown")])
async def test_a_failed_write_says_whether_it_may_have_happened(bench: Bench, failure: str, code: Any) -> None:
    bench.link.failure = failure
    task = asyncio.create_task(bench.client.commands([delete(1), delete(2)]))
    await bench.advance(10)
    assert await task == [Failure(code), Failure(code)]


async def test_without_an_owner_nothing_is_written(bench: Bench) -> None:
    partition = bench.client.partition_of("job1")
    bench.link.say_owners({partition: None})
    assert await bench.client.commands([delete(1)]) == [Failure("no_owner")]
    await bench.advance(100)
    assert bench.link.commands == []
    bench.link.say_owners({partition: "http://127.0.0.1:6066"})
    task = asyncio.create_task(bench.client.commands([delete(1)]))
    await bench.advance(10)
    assert len(bench.link.commands) == 1
    task.cancel()


async def test_heartbeats_and_completions_are_written_even_without_an_owner(bench: Bench) -> None:
    bench.link.say_owners(dict.fromkeys(range(4)))
    client = bench.client
    tasks = [
        asyncio.create_task(call)
        for call in (
            client.heartbeat([("run_a_x", 1)]),
            client.complete([("run_a_x", 1, b"1")]),
            client.fail([("run_a_x", 1, "no", False)]),
            client.release([("run_a_x", 1, "full")]),
        )
    ]
    await bench.advance(10)
    assert [type(command).__name__ for command in bench.link.commands] == [
        "Heartbeat",
        "Complete",
        "Fail",
        "Release",
    ]
    bench.reply([(command, ok(command)) for command in bench.link.commands])
    assert [(await task)[0].job_id for task in tasks] == ["a"] * 4


async def test_run_commands_carry_what_the_worker_said(bench: Bench) -> None:
    task = asyncio.create_task(
        asyncio.wait(
            [
                asyncio.create_task(bench.client.complete([("run_a_x", 3, b"result")])),
                asyncio.create_task(bench.client.fail([("run_b_x", 4, "broke", False)])),
            ]
        )
    )
    await bench.advance(10)
    complete, fail = sorted(bench.link.commands, key=lambda command: command.job_id)
    assert (complete.run_id, complete.lease_token, complete.result) == ("run_a_x", 3, b"result")
    assert (fail.run_id, fail.lease_token, fail.error, fail.retryable) == ("run_b_x", 4, "broke", False)
    task.cancel()


async def test_a_run_id_that_is_none_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="is not a run id"):
        await bench.client.heartbeat([("nonsense", 1)])
    assert bench.client.pending == 0


async def test_before_owners_are_known_calls_hear_starting() -> None:
    clock = ManualClock()
    client = DispatchClient(MemoryLink(clock, 4), DispatchConfig(partitions=4), clock)
    assert not client.ready
    assert await client.commands([Pause(job_id="a")]) == [Failure("starting")]


async def test_too_many_waiting_commands_are_refused_at_once() -> None:
    clock = ManualClock()
    link = MemoryLink(clock, 4)
    client = DispatchClient(link, DispatchConfig(partitions=4, pending_max=2), clock)
    await client.start()
    waiting = asyncio.create_task(client.commands([delete(1), delete(2)]))
    refused = asyncio.create_task(client.commands([delete(3)]))
    assert await refused == [Failure("overloaded")]
    await client.stop()
    assert await waiting == [Failure("outcome_unknown")] * 2


async def test_stopping_sends_what_was_accepted_and_refuses_more(bench: Bench) -> None:
    task = asyncio.create_task(bench.client.commands([delete(1)]))
    await bench.settle()
    await bench.client.stop()
    assert [command.job_id for command in bench.link.commands] == ["job1"]
    assert await task == [Failure("outcome_unknown")]
    assert await bench.client.commands([delete(2)]) == [Failure("stopping")]
    assert not bench.client.ready


async def test_each_start_has_its_own_incarnation_and_random_id() -> None:
    clock = ManualClock()
    one, two = (DispatchClient(MemoryLink(clock, 1), DispatchConfig(partitions=1), clock) for _ in range(2))
    assert one.incarnation != two.incarnation
    assert one.gateway_id != two.gateway_id


def test_the_broker_clock_is_a_lower_bound_and_follows_the_best_sample() -> None:
    clock = ManualClock(wall_ms=1_000_000)
    broker = BrokerClock(clock)
    assert broker.now_ms() == 1_000_000
    broker.observe(5_000_000)
    assert broker.now_ms() == 5_000_000
    clock.advance(100)
    broker.observe(5_000_050)  # Its record took 50 ms longer to arrive.
    assert broker.now_ms() == 5_000_100
    broker.observe(5_000_130)
    assert broker.now_ms() == 5_000_130


def test_the_broker_clock_forgets_samples_of_a_clock_that_was_set_back() -> None:
    clock = ManualClock()
    broker = BrokerClock(clock)
    broker.observe(9_000_000)
    for turn in range(1, 9):
        clock.advance(10_000)
        broker.observe(1_000_000 + turn * 10_000)
    assert broker.now_ms() == 1_080_000


async def test_replies_and_acknowledgements_teach_the_brokers_time(bench: Bench) -> None:
    bench.reply([])
    assert bench.client.broker.now_ms() == bench.clock.wall_ms()
