"""The simulator's own ground: time passes only when told to, and a freeze or a kill hits exactly between two steps."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.simulation.harness.virtual_time import Process, World

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def world() -> Iterator[World]:
    world = World(seed=1, start_ms=1_000_000)
    yield world
    world.end()


async def until(process: Process, delay_s: float) -> None:
    """Wait for virtual time to pass."""
    done = asyncio.get_running_loop().create_future()
    process.loop.call_later(delay_s, done.set_result, None)
    await done


def test_waiting_takes_virtual_time_only(world: World) -> None:
    process, seen = Process(world, "p"), []

    async def program() -> None:
        await until(process, 3600)
        seen.append(world.t_ms)

    process.start(program())
    world.run(3_599_000)
    before = list(seen)
    world.run(3_601_000)

    assert before == []
    assert seen == [pytest.approx(3_600_000, abs=1)]
    assert world.epoch_ms == 1_000_000 + 3_601_000


def test_processes_run_in_the_order_of_their_times(world: World) -> None:
    seen = []

    async def program(process: Process, delay_s: float) -> None:
        await until(process, delay_s)
        seen.append(process.name)

    for name, delay_s in (("late", 2.0), ("early", 1.0)):
        process = Process(world, name)
        process.start(program(process, delay_s))
    world.at(1_500, lambda: seen.append("world"))
    world.run(5_000)

    assert seen == ["early", "world", "late"]


def test_a_blocking_call_can_be_frozen_between_two_steps(world: World) -> None:
    process, steps = Process(world, "p"), []

    def blocking() -> str:
        for step in ("one", "two", "three"):
            steps.append((step, world.t_ms))
            world.pass_time(100)
        return "done"

    async def program() -> None:
        steps.append((await asyncio.get_running_loop().run_in_executor(None, blocking), world.t_ms))

    process.start(program())
    world.at(150, lambda: setattr(process, "frozen", True))
    world.at(5_000, lambda: setattr(process, "frozen", False))
    world.run(10_000)

    assert [step for step, _ in steps] == ["one", "two", "three", "done"]
    assert steps[1][1] < 150
    assert steps[2][1] >= 5_000


def test_a_killed_process_never_acts_again(world: World) -> None:
    process, steps = Process(world, "p"), []

    def blocking() -> None:
        steps.append("before")
        world.pass_time(100)
        steps.append("after")

    async def program() -> None:
        await asyncio.get_running_loop().run_in_executor(None, blocking)
        steps.append("end")

    process.start(program())
    world.at(50, process.kill)
    world.run(10_000)

    assert steps == ["before"]
    assert process.dead


def test_calls_of_one_executor_wait_for_each_other(world: World) -> None:
    process, steps = Process(world, "p"), []
    line = object()

    def blocking(name: str) -> None:
        steps.append(f"{name} begins")
        world.pass_time(100)
        steps.append(f"{name} ends")

    async def program() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(line, blocking, name) for name in ("a", "b")))  # type: ignore[arg-type]  # the key of a line

    process.start(program())
    world.run(10_000)

    assert steps == ["a begins", "a ends", "b begins", "b ends"]


def test_an_exception_of_a_blocking_call_reaches_its_caller(world: World) -> None:
    process, seen = Process(world, "p"), []

    def blocking() -> None:
        raise LookupError("no")

    async def program() -> None:
        with pytest.raises(LookupError):
            await asyncio.get_running_loop().run_in_executor(None, blocking)
        seen.append("heard")

    process.start(program())
    world.run(1_000)

    assert seen == ["heard"]


def test_a_program_that_spins_does_not_stop_the_clock(world: World) -> None:
    process, turns = Process(world, "p"), []

    async def program() -> None:
        while world.t_ms < 10:
            turns.append(world.t_ms)
            await asyncio.sleep(0)

    process.start(program())
    world.run(1_000)

    assert 100 < len(turns) < 1_000
