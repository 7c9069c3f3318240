"""Several queues share a worker's slots: who may ask when, and that calling a request back loses no run."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import horolog
from horolog._calls import Answer
from horolog._leaser import Leaser
from horolog._slots import LISTEN_SECONDS, REST_SECONDS, TURN_SECONDS, Ask, Line, Slots
from horolog.testing import FakeGateway, ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

POLL_SECONDS = 20.0


class Desk:
    """`Slots` with its surroundings in the test's hands."""

    def __init__(self, total: int, queues: int) -> None:
        self.clock = ManualClock()
        self.busy = 0
        self.blocked = False
        self.slots = Slots(
            total,
            busy=lambda: self.busy,
            blocked=lambda: self.blocked,
            clock=self.clock,
            poll_seconds=POLL_SECONDS,
        )
        self.lines = [self.slots.line() for _ in range(queues)]

    def take(self, number: int) -> Ask:
        ask = self.slots.take(self.lines[number])
        assert ask is not None
        return ask

    def refuses(self, number: int) -> bool:
        return self.slots.take(self.lines[number]) is None

    def answer(self, number: int, ask: Ask, runs: int) -> None:
        """End a request; its runs begin."""
        self.slots.put(self.lines[number], ask, runs)
        self.busy += runs

    def parked(self) -> list[Ask]:
        """Every queue polls with all that it may."""
        return [self.take(number) for number in range(len(self.lines))]


async def waits(desk: Desk, number: int) -> asyncio.Task[None]:
    task = asyncio.ensure_future(desk.slots.wait(desk.lines[number]))
    await asyncio.sleep(0)
    return task


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("total", "queues", "counts"), [(10, 2, [5, 5]), (7, 3, [3, 2, 2]), (3, 3, [1, 1, 1])])
def test_idle_queues_share_the_slots_evenly(total: int, queues: int, counts: list[int]) -> None:
    desk = Desk(total, queues)
    asks = desk.parked()
    assert [ask.count for ask in asks] == counts
    assert asks[-1].wait_seconds == POLL_SECONDS
    assert desk.slots.free == 0


async def test_a_queue_with_work_has_the_idle_ones_request_called_back_once_that_has_listened() -> None:
    desk = Desk(4, 2)
    idle, working = desk.parked()
    desk.answer(1, working, runs=2)
    assert desk.refuses(1)
    task = await waits(desk, 1)
    assert not idle.called_back
    await desk.clock.advance(LISTEN_SECONDS)
    await asyncio.wait_for(task, 20)
    task = await waits(desk, 1)
    assert idle.called_back
    desk.answer(0, idle, runs=0)
    await asyncio.wait_for(task, 20)
    assert desk.take(1).count == 2
    assert desk.refuses(0)


async def test_a_queue_that_got_less_than_it_asked_for_leaves_the_idle_one_its_slots_for_a_turn() -> None:
    desk = Desk(4, 2)
    idle, working = desk.parked()
    desk.answer(1, working, runs=1)
    assert desk.take(1).count == 1
    desk.busy = 2
    task = await waits(desk, 1)
    await desk.clock.advance(POLL_SECONDS)
    assert not idle.called_back, "it has a request out and lacks nothing"
    await stop(task)


async def test_what_was_called_back_may_only_look_for_one_slot_after_a_rest_while_the_other_is_hungry() -> None:
    desk = Desk(2, 2)
    idle, working = desk.parked()
    desk.answer(1, working, runs=1)
    desk.answer(0, idle, runs=0)
    assert desk.refuses(0)
    desk.answer(1, desk.take(1), runs=1)
    await desk.clock.advance(REST_SECONDS)
    desk.busy = 1
    look = desk.take(0)
    assert (look.count, look.wait_seconds, look.is_look) == (1, LISTEN_SECONDS, True)
    desk.answer(0, look, runs=1)
    assert desk.lines[0].is_hungry(desk.clock.monotonic()), "it found work: from now on it shares as an equal"


def test_looks_take_a_tenth_of_the_slots_in_turn() -> None:
    desk = Desk(20, 5)
    asks = desk.parked()
    desk.answer(0, asks[0], runs=asks[0].count)
    for number in (1, 2, 3, 4):
        desk.answer(number, asks[number], runs=0)
        desk.lines[number].rests_until = 0.0
    desk.busy = 10
    looks = [ask for number in (4, 1, 3, 2) if (ask := desk.slots.take(desk.lines[number]))]
    looks += [ask for number in (4, 1, 3, 2) if (ask := desk.slots.take(desk.lines[number]))]
    assert [(ask.count, ask.is_look) for ask in looks] == [(1, True), (1, True)]
    assert [bool(line.asks) for line in desk.lines[1:]] == [True, True, False, False]


def test_queues_that_both_have_work_get_single_slots_in_turn() -> None:
    desk = Desk(2, 2)
    first, second = desk.parked()
    desk.answer(0, first, runs=1)
    desk.answer(1, second, runs=1)
    got = []
    for _ in range(6):
        desk.busy -= 1
        number = next(n for n in (0, 1) if not desk.refuses(n))
        desk.answer(number, desk.lines[number].asks[0], runs=1)
        got.append(number)
    assert got == [0, 1, 0, 1, 0, 1]


def test_a_second_request_leaves_a_slot_to_a_queue_that_has_none() -> None:
    desk = Desk(4, 2)
    desk.busy = 3
    assert desk.take(0).count == 1
    desk.busy = 2
    assert desk.refuses(0)
    assert desk.take(1).count == 1
    desk.busy = 1
    assert desk.take(0).count == 1


async def test_who_comes_first_is_woken_by_who_may_not_and_who_comes_next_by_who_took() -> None:
    desk = Desk(4, 2)
    first, second = desk.parked()
    desk.answer(0, first, runs=2)
    desk.answer(1, second, runs=2)
    task = await waits(desk, 0)
    desk.busy = 3
    assert desk.refuses(1), "queue 0 has lacked for longer"
    await asyncio.wait_for(task, 20)
    task = await waits(desk, 1)
    desk.busy = 2
    assert desk.take(0).count == 1
    await asyncio.wait_for(task, 20)
    assert desk.take(1).count == 1


async def test_idle_queues_that_have_one_slot_between_them_take_turns() -> None:
    desk = Desk(2, 2)
    first, _ = desk.parked()
    desk.answer(0, first, runs=1)
    desk.lines[0].full = False
    (other,) = desk.lines[1].asks
    task = await waits(desk, 0)
    await desk.clock.advance(TURN_SECONDS - 0.1)
    assert not other.called_back
    await desk.clock.advance(0.2)
    await asyncio.wait_for(task, 20)
    task = await waits(desk, 0)
    assert other.called_back
    desk.answer(1, other, runs=0)
    await asyncio.wait_for(task, 20)
    assert desk.take(0).wait_seconds == TURN_SECONDS, "the other one lacks now"


async def test_nothing_is_called_back_while_outcomes_wait() -> None:
    desk = Desk(2, 2)
    idle, working = desk.parked()
    desk.answer(1, working, runs=1)
    desk.blocked = True
    await desk.clock.advance(POLL_SECONDS)
    task = await waits(desk, 1)
    assert not idle.called_back
    await stop(task)


@given(
    total=st.integers(2, 40),
    queues=st.integers(2, 5),
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 40), st.booleans()), max_size=80),
)
async def test_no_more_slots_are_promised_than_there_are_and_a_free_one_is_always_somebodys(
    total: int, queues: int, steps: list[tuple[int, int, bool]]
) -> None:
    desk = Desk(max(total, queues), queues)
    for number, runs, ends in steps:
        line: Line = desk.lines[number % queues]
        if line.asks and ends:
            desk.answer(number % queues, line.asks[0], min(runs, line.asks[0].count))
        else:
            desk.slots.take(line)
        if desk.busy and runs % 3 == 0:
            desk.busy -= 1
        await desk.clock.advance(runs / 20)
        assert desk.slots.free >= 0
    lacking = [other for other in desk.lines if not other.asks]
    if desk.slots.free and lacking:
        await desk.clock.advance(REST_SECONDS)
        assert any(desk.slots.take(other) for other in sorted(lacking, key=lambda other: other.turn))


# --- the requests ---


class Wire:
    """A gateway's answers to lease calls, in the test's hands: calls that may wait are held until they are cut off."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.repeated: list[Any] = []
        self.cut_off = 0
        self.arrived = asyncio.Event()

    async def request(
        self,
        method: str,
        path: str,
        body: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float,
    ) -> Answer:
        assert (method, path, headers) == ("POST", "/v1/queues/q/lease", None)
        assert timeout_seconds > 0
        self.calls.append(json.loads(body or ""))
        self.arrived.set()
        if self.calls[-1]["waitSeconds"] > 0:
            try:
                await asyncio.Event().wait()
            finally:
                self.cut_off += 1
        answer = self.repeated.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Answer(200, {}, {"requestId": "r", "runs": answer})


class Leasing:
    """One queue's leaser on a wire, and what it brought."""

    def __init__(self) -> None:
        self.desk = Desk(2, 2)
        self.wire = Wire()
        self.taken: list[Any] = []
        self.given_back: list[Any] = []
        self.leaser = Leaser(
            "q",
            self.desk.slots,
            self.wire,
            clock=self.desk.clock,
            emit=lambda _, /, **__: None,
            worker_id="w",
            visibility_seconds=30,
            timeout_seconds=10,
            take=self._take,
            give_back=lambda runs, _: self.given_back.extend(runs),
        )
        self.line = self.desk.slots._lines[2]
        self.task = asyncio.ensure_future(self.leaser.run())

    def _take(self, runs: list[Mapping[str, Any]], sent_at: float) -> None:
        assert sent_at == pytest.approx(self.desk.clock.monotonic(), abs=10)
        self.desk.busy += len(runs)
        self.taken.extend(runs)

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(10_000):
            if condition():
                return
            await asyncio.sleep(0)
        pytest.fail("it did not come to pass")


@pytest.fixture
async def leasing() -> AsyncIterator[Leasing]:
    it = Leasing()
    await it.wire.arrived.wait()
    yield it
    it.task.cancel()
    await asyncio.gather(it.task, return_exceptions=True)
    it.wire.repeated = [[] for _ in range(9)]
    await it.leaser.close()


async def test_a_request_that_is_called_back_is_repeated_without_a_wait_and_its_grants_run(leasing: Leasing) -> None:
    leasing.wire.repeated = [[{"runId": "on-its-way"}]]
    (ask,) = leasing.line.asks
    ask.call_back()
    await leasing.until(lambda: bool(leasing.taken))
    first, repeat = leasing.wire.calls[:2]
    assert first["waitSeconds"] > 0
    assert repeat == {**first, "waitSeconds": 0}
    assert leasing.wire.cut_off == 1
    assert leasing.taken == [{"runId": "on-its-way"}]
    assert ask not in leasing.line.asks
    assert leasing.line.full


async def test_a_lost_answer_to_the_repeat_is_asked_for_again_and_the_slots_stay_promised(leasing: Leasing) -> None:
    leasing.wire.repeated = [horolog.UnreachableError("cut"), [{"runId": "late"}]]
    (ask,) = leasing.line.asks
    ask.call_back()
    await leasing.until(lambda: len(leasing.wire.calls) == 2)
    assert ask in leasing.line.asks
    await leasing.desk.clock.advance(6)
    await leasing.until(lambda: bool(leasing.taken))
    assert [call["requestId"] for call in leasing.wire.calls[:3]] == [leasing.wire.calls[0]["requestId"]] * 3
    assert leasing.taken == [{"runId": "late"}]


async def test_an_empty_repeat_is_no_failure_and_frees_the_slots(leasing: Leasing) -> None:
    leasing.wire.repeated = [[]]
    (ask,) = leasing.line.asks
    ask.call_back()
    await leasing.until(lambda: ask not in leasing.line.asks)
    assert leasing.leaser._failures == 0
    assert leasing.taken == []


async def test_a_stop_while_a_request_is_called_back_gives_its_grants_back(leasing: Leasing) -> None:
    leasing.wire.repeated = [[{"runId": "too-late"}]]
    leasing.line.asks[0].call_back()
    await leasing.leaser.close()
    assert leasing.given_back == [{"runId": "too-late"}]
    assert leasing.taken == []


# --- a whole worker ---


async def test_a_queue_with_work_gets_all_slots_although_the_other_one_polls(
    gateway: FakeGateway, working: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue=["idle", "busy"], slots=4)
    gate = asyncio.Event()

    @worker.handler("task")
    async def hold(run: horolog.Run) -> str:
        await gate.wait()
        return run.queue

    def leased() -> int:
        return sum(run.state == "leased" for run in gateway.runs.values())

    def polls() -> list[Any]:
        return [call.body for call in gateway.calls if call.kind == "lease" and "/idle/" in call.path]

    async with working(worker):
        await gateway.until(lambda: any(poll["waitSeconds"] == POLL_SECONDS for poll in polls()))
        run_ids = [gateway.add_run("task", queue="busy") for _ in range(4)]
        await gateway.until(lambda: leased() == 4, seconds=60)
        (parked,) = [poll for poll in polls() if poll["waitSeconds"] == POLL_SECONDS]
        assert {**parked, "waitSeconds": 0} in polls(), "called back, and not waited for"
        gate.set()
        await gateway.until(lambda: all(gateway.runs[run_id].state == "closed" for run_id in run_ids))
        other = gateway.add_run("task", queue="idle")
        await gateway.until(lambda: gateway.runs[other].state == "closed")
    assert gateway.runs[other].result == "idle"
    assert all(run.grants == run.completions == 1 for run in gateway.runs.values())


async def test_the_queue_that_polled_in_vain_is_served_while_the_other_one_floods(
    gateway: FakeGateway, working: Any
) -> None:
    worker = horolog.Worker(gateway.url, queue=["calm", "flooded"], slots=2)

    @worker.handler("task")
    async def more(run: horolog.Run) -> None:
        if run.queue == "flooded" and gateway.runs[calm].state != "closed":
            gateway.add_run("task", queue="flooded")
        await asyncio.sleep(0)

    for _ in range(4):
        gateway.add_run("task", queue="flooded")
    calm = gateway.add_run("task", queue="calm")
    gateway.runs[calm].due_at += 1.0  # by then the flood has every slot
    async with working(worker):
        await gateway.until(lambda: gateway.runs[calm].state == "closed", seconds=60)
        await gateway.until(lambda: all(run.state == "closed" for run in gateway.runs.values()), seconds=60)
    assert all(run.completions == 1 for run in gateway.runs.values())
