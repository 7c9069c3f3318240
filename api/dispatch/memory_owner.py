"""An owner of all partitions in memory: the core's own `decide` and `apply` behind a `MemoryLink`, without a log.

For tests and trials of everything above the log: what it answers is what a scheduler would decide. It is not durable,
and commits `commit_ms` after a batch came in.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING, Final

from api.dispatch.link import TimedReplies
from schemas.partition import partition_for
from streams.core.apply import apply
from streams.core.calendar_records import CalendarBook
from streams.core.commands import AnyCommand, Grant, Heartbeat, LeaseRun, Reply, Wake
from streams.core.context import Context
from streams.core.deadline import next_look_ms, ready_runs, upcoming
from streams.core.decide import decide
from streams.core.decide_schedule import is_outdated
from streams.core.envelopes import Answer, Offer, Offers, ReplyBatch
from streams.core.time import INSTALLED_ZONE_DATA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.dispatch.clock import Clock
    from api.dispatch.link import ConfigRecord
    from api.dispatch.memory_link import MemoryLink
    from streams.core.context import Decision
    from streams.core.envelopes import CommandBatch, Demand
    from streams.core.state import Job

LOOKAHEAD_MS: Final = 2_000
OFFER_AGAIN_MS: Final = 2_000


class MemoryOwner:
    """Answers commands, keeps time for jobs, offers runs to whoever has demand. `jobs` is its state."""

    def __init__(self, link: MemoryLink, clock: Clock, *, commit_ms: float = 0) -> None:
        self.jobs: dict[str, Job] = {}
        self.decided: list[tuple[AnyCommand, Decision]] = []
        self.silent = False
        """While set, commands are dropped, as by an owner that died."""
        self._link, self._clock, self._commit_ms = link, clock, commit_ms
        self._heartbeats: dict[str, int] = {}
        self.progress: dict[str, bytes] = {}
        """What workers said of their runs, as an owner keeps it while it lives."""
        self._demands: dict[str, Demand] = {}
        self._offered: dict[str, float] = {}
        self._parked: list[tuple[int, int, LeaseRun]] = []
        self._deadlines: list[tuple[int, str]] = []
        self._parked_total = 0
        self._tick_at_ms = float("inf")
        self._calendars = CalendarBook()
        link.on_config = self._configured
        link.on_send = self._sent
        link.on_demand = self._demanded

    def _sent(self, _: int, batch: CommandBatch) -> None:
        self._clock.call_later(self._commit_ms, partial(self._commit, batch))

    def _configured(self, records: Sequence[ConfigRecord]) -> None:
        """Follow calendars, as an owner's sweep does."""
        changed = [self._calendars.take(*record) for record in records]
        if any(changed):
            for job_id in [job_id for job_id, job in self.jobs.items() if is_outdated(job, self._context())]:
                self._decide(Wake(job_id=job_id))
            self._tick()

    def _demanded(self, demand: Demand) -> None:
        self._demands[demand.gateway_id] = demand
        self._tick()

    def _commit(self, batch: CommandBatch) -> None:
        if self.silent:
            return
        answers: dict[str, list[Answer]] = {}
        for command in batch.commands:
            reply = self._decide(command)
            if reply is not None and command.request_id:
                answers.setdefault(batch.gateway_id, []).append(Answer(request_id=command.request_id, reply=reply))
        self._reply(answers)
        self._tick()

    def _decide(self, command: AnyCommand) -> Reply | Grant | None:
        job = self.jobs.get(command.job_id)
        context = self._context()
        now_ms = context.now_ms
        decision = decide(job, command, context)
        self.decided.append((command, decision))
        for event in decision.events:
            job = apply(job, event)
        if job is None:
            self.jobs.pop(command.job_id, None)
        else:
            self.jobs[command.job_id] = job
            look_ms = decision.wake_at_ms or next_look_ms(job, context)
            if look_ms is not None:
                heapq.heappush(self._deadlines, (look_ms, command.job_id))
        if isinstance(command, Heartbeat) and isinstance(decision.reply, Reply) and decision.reply.code == "ok":
            self._heartbeats[command.run_id] = now_ms
            if command.progress:
                self.progress[command.run_id] = command.progress
        if isinstance(command, LeaseRun) and decision.park_until_ms:
            self._parked_total += 1
            heapq.heappush(self._parked, (decision.park_until_ms, self._parked_total, command))
            return None
        return decision.reply

    def _context(self) -> Context:
        now_ms = self._clock.wall_ms()
        return Context(
            now_ms=now_ms,
            zone_data=INSTALLED_ZONE_DATA,
            calendars=self._calendars.calendars,
            heartbeats=self._heartbeats,
            consumed_to_ms=now_ms,
        )

    def _reply(self, answers: dict[str, list[Answer]]) -> None:
        now_ms = self._clock.wall_ms()
        for gateway_id, given in answers.items():
            self._link.say_replies(TimedReplies(now_ms, ReplyBatch(gateway_id=gateway_id, answers=tuple(given))))

    def _tick(self) -> None:
        """Do what is due, offer what waits, come back for the next thing."""
        if self.silent:
            return
        now_ms = self._clock.wall_ms()
        answers: dict[str, list[Answer]] = {}
        while self._parked and self._parked[0][0] <= now_ms:
            _, _, command = heapq.heappop(self._parked)
            reply = self._decide(command)
            if reply is not None:
                answers.setdefault(command.gateway_id, []).append(Answer(request_id=command.request_id, reply=reply))
        self._reply(answers)
        due = set()
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            due.add(heapq.heappop(self._deadlines)[1])
        for job_id in due:
            if job_id in self.jobs:
                self._decide(Wake(job_id=job_id))
        self._offer(now_ms)
        self._arm(now_ms)

    def _arm(self, now_ms: int) -> None:
        heads = [heap[0][0] for heap in (self._deadlines, self._parked) if heap]
        if not heads:
            return
        at_ms = max(min(heads), now_ms + 1)
        if at_ms < self._tick_at_ms:
            self._tick_at_ms = at_ms
            self._clock.call_later(at_ms - now_ms, partial(self._ring, at_ms))

    def _ring(self, at_ms: int) -> None:
        if at_ms == self._tick_at_ms:
            self._tick_at_ms = float("inf")
        self._tick()

    def _offer(self, now_ms: int) -> None:
        for demand in self._demands.values():
            wanted = {(queue.tenant, queue.queue) for queue in demand.queues}
            for job in list(self.jobs.values()):
                if (job.state.tenant, job.state.queue) not in wanted:
                    continue
                offers = tuple(offer for offer in _offers_of(job, now_ms) if self._is_news(offer.run_id))
                if offers:
                    partition = partition_for(job.state.job_id, self._link.partitions)
                    self._link.say_offers(
                        Offers(
                            gateway_id=demand.gateway_id,
                            incarnation=demand.incarnation,
                            partition=partition,
                            offers=offers,
                        )
                    )

    def _is_news(self, run_id: str) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._offered.get(run_id, float("-inf")) < OFFER_AGAIN_MS:
            return False
        self._offered[run_id] = now_ms
        return True


def _offers_of(job: Job, now_ms: int) -> list[Offer]:
    """Give what an owner would offer of a job: ready runs, and the next occurrence if it is near."""
    waiting = [(run.run_id, run.due_at_ms, run.lane) for run in ready_runs(job.state)]
    coming = upcoming(job)
    if coming is not None and job.definition is not None:
        waiting.append((coming[0], coming[1], job.definition.lane))
    return [
        Offer(
            run_id=run_id,
            job_id=job.state.job_id,
            tenant=job.state.tenant,
            queue=job.state.queue,
            lane=lane,
            due_at_ms=due_at_ms,
            job_version=job.state.version,
        )
        for run_id, due_at_ms, lane in waiting
        if due_at_ms <= now_ms + LOOKAHEAD_MS
    ]
