"""Questions take turns, and leave the loop most of its time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from streams import query_turns
from streams.query_turns import SHARE, WAITING_MAX, BusyError, QueryTurns


class Loop:
    """Time that passes by working and by resting only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.rested_s: list[float] = []
        monkeypatch.setattr(query_turns, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        monkeypatch.setattr(query_turns, "asyncio", SimpleNamespace(sleep=self._rest, Lock=asyncio.Lock))

    async def _rest(self, seconds: float) -> None:
        self.rested_s.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


async def test_one_reads_at_a_time_in_the_order_they_came() -> None:
    turns, order, reading = QueryTurns(), [], 0

    async def ask(number: int) -> None:
        nonlocal reading
        async with turns.mine() as rest:
            reading += 1
            assert reading == 1
            order.append(number)
            await rest()
            assert reading == 1
            reading -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(ask(number))
    assert order == list(range(20))


@pytest.mark.parametrize("slices", [1, 2, 7])
async def test_all_together_get_their_share_of_the_time(slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, turns, worked_s = Loop(monkeypatch), QueryTurns(), 0.0

    async def ask() -> None:
        nonlocal worked_s
        async with turns.mine() as rest:
            for number in range(slices):
                loop.now_s += 0.001 * (1 + number % 3)
                worked_s += 0.001 * (1 + number % 3)
                await rest()

    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(ask())
    assert worked_s / loop.now_s == pytest.approx(SHARE)


async def test_a_slice_that_was_held_up_earns_a_bounded_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch)
    async with QueryTurns().mine() as rest:
        loop.now_s += 3_600
        await rest()
    assert max(loop.rested_s) == query_turns.REST_S_MAX


async def test_who_comes_when_too_many_wait_is_told_and_keeps_nobody_out() -> None:
    turns, end = QueryTurns(), asyncio.Event()
    done = 0

    async def ask() -> None:
        nonlocal done
        async with turns.mine():
            await end.wait()
            done += 1

    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(ask()) for _ in range(WAITING_MAX + 1)]  # one reads, the others wait
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            async with turns.mine():
                pytest.fail("more wait than may")
        waiting[-1].cancel()  # its caller went away: its place is free again
        await asyncio.sleep(0)
        group.create_task(ask())
        await asyncio.sleep(0)
        end.set()
    assert done == WAITING_MAX + 1


async def test_a_question_that_fails_ends_its_turn() -> None:
    turns = QueryTurns()
    with pytest.raises(ZeroDivisionError):
        async with turns.mine():
            raise ZeroDivisionError
    async with asyncio.timeout(10), turns.mine() as rest:
        await rest()
