"""The lease desk under a random owner, random workers and random loss: what must hold whatever comes."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from streams.core.commands import Reply

if TYPE_CHECKING:
    from streams.core.commands import Grant, LeaseRun

# The bench is a fixture of conftest.py, which tests cannot import by name.
Bench = Any

STEPS = 300


class Story:
    """One random run of a bench."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(seed)  # noqa: S311 - a test's dice
        self.polls: list[tuple[asyncio.Task[list[Grant]], int]] = []
        self.unanswered: list[LeaseRun] = []
        self.asked = 0
        self.granted: dict[tuple[str, int], int] = {}
        """(run, token) to the due time of its grant."""
        self.handed: list[tuple[str, int]] = []
        self.offers = 0
        self.token = 0

    def poll(self) -> None:
        max_runs = self.random.randint(1, 5)
        worker = f"w{self.random.randint(1, 4)}"
        request_id = ""
        if self.random.random() < 0.3:
            number = self.random.randint(1, 6)
            request_id, worker, max_runs = f"r{number}", f"w{number % 4}", number % 3 + 1
        wait_ms = self.random.choice([0, 500, 3000])
        call = self.bench.client.lease("t", "q", worker, max_runs=max_runs, wait_ms=wait_ms, request_id=request_id)
        self.polls.append((asyncio.create_task(call), max_runs))

    def offer(self) -> None:
        self.offers += 1
        number = self.offers if self.random.random() < 0.8 else self.random.randint(1, self.offers)
        due_in_ms = self.random.choice([-500, 0, 10, 300, 900, 1500])
        lane = self.random.choice(["high", "normal", "low"])
        self.bench.offers(self.bench.offer(number, due_in_ms=due_in_ms, lane=lane))

    def answer(self) -> None:
        requests = self.bench.requests()
        self.unanswered += requests[self.asked :]
        self.asked = len(requests)
        self.random.shuffle(self.unanswered)
        count = self.random.randint(0, len(self.unanswered))
        chosen, self.unanswered = self.unanswered[:count], self.unanswered[count:]
        for request in chosen:
            dice = self.random.random()
            if dice < 0.15:
                continue  # lost
            if dice < 0.3:
                self.bench.reply([(request, Reply(code="not_leasable", job_id=request.job_id))])
                continue
            self.token += 1
            due_at_ms = self.bench.clock.wall_ms() + self.random.choice([-5, 0, 0, 40])
            self.granted[request.run_id, self.token] = due_at_ms
            for _ in range(self.random.choice([1, 1, 2])):
                self.bench.grant([request], due_at_ms=due_at_ms, token=self.token)

    def hang_up(self) -> None:
        if self.polls:
            self.random.choice(self.polls)[0].cancel()

    async def step(self) -> None:
        action = self.random.choice(
            [self.poll, self.poll, self.offer, self.offer, self.answer, self.answer, self.hang_up]
        )
        action()
        await self.bench.advance(self.random.choice([0, 1, 7, 60, 400]))
        await self.collect()

    async def collect(self) -> None:
        waiting = []
        for task, max_runs in self.polls:
            if not task.done():
                waiting.append((task, max_runs))
            elif not task.cancelled():
                grants = task.result()
                assert len(grants) <= max_runs
                for grant in grants:
                    assert self.granted[grant.run_id, grant.lease_token] <= self.bench.clock.wall_ms()
                self.handed += [(grant.run_id, grant.lease_token) for grant in grants]
        self.polls = waiting


@pytest.mark.parametrize("seed", range(12))
async def test_each_grant_goes_to_one_worker_in_time_or_back_to_its_owner(bench: Bench, seed: int) -> None:
    story = Story(bench, seed)
    for _ in range(STEPS):
        await story.step()
    await bench.advance(60_000)
    await story.collect()
    assert story.polls == []
    released = [
        (command.run_id, command.lease_token) for command in bench.link.commands if type(command).__name__ == "Release"
    ]
    assert len(released) == len(set(released))
    assert set(released) | set(story.handed) == set(story.granted)
    desk = bench.client.desk
    assert (desk.requests_in_flight, desk.polling(), desk._waiters, desk._requested_runs) == (0, {}, {}, set())
    assert (desk._calls, desk._unread, desk._ready) == ({}, {}, {})
