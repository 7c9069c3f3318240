"""A small world for policies: the real core under one owner that comes and goes, and people who use every command.

    result = live(PolicyPlan(seed=7, hours=24.0))
    result.report.ok or print(result.story())

The fleet of `scenario` proves what happens between processes; an hour of it costs seconds. Here one partition's log is
written by `decide` alone, and nothing happens between two events, so thousands of hours fit into minutes. Everything
random comes from the seed. What is kept real: order and offsets of commands, lost and doubled messages, answers that
are lost, owners that are away for seconds or hours, take-overs that know no heartbeat, workers that die, sleep, ignore
a cancel or ask for another length of their lease. The log goes to the one checker.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

import streams.core.decide
from streams.absence import NO_ABSENCE, after_gap
from streams.audit.checker import check
from streams.audit.journals import ClientCall, Execution, Fault, Faults, Journals, Limits
from streams.audit.scripted_log import GATEWAY, ScriptedLog
from streams.core.commands import Complete, Fail, Grant, Heartbeat, LeaseRun, Release, Reply, Wake
from streams.core.context import Context
from streams.core.deadline import deadline_ms, ready_runs, upcoming
from streams.core.envelopes import Answer, Cause, CommandBatch, HistoryEntry, ReplyBatch
from streams.core.time import INSTALLED_ZONE_DATA
from streams.lease_view import lease_view
from tests.simulation.harness.policy_people import People

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.audit.report import Report
    from streams.core.commands import AnyCommand
    from streams.core.context import Decision
    from streams.core.state import Job

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000
HEAL_MS: Final = 8 * MINUTE_MS
"""Long enough for workers that stayed away, two leases and a cancel's grace; a retry that is due later is not late."""

MARKER_EVERY_MS: Final = 25_000
MISSED_GAP_MS: Final = 60_000
OPEN_RUNS_MAX: Final = 12
LAG_MS: Final = 2
"""From a decision to its records' time."""

STARTS_MS: Final = (
    1_774_742_400_000,  # 2026-03-29T00:00Z: Berlin's clocks go forward at 01:00Z
    1_792_886_400_000,  # 2026-10-25T00:00Z: and back
    1_780_272_000_000,  # an ordinary night
)
OUTAGES_MS: Final = (2_000, 20_000, 5 * MINUTE_MS, 40 * MINUTE_MS, 4 * HOUR_MS)
OUTAGES_APART_MS: Final = 15 * MINUTE_MS
"""Absences nearer to each other are joined into one (streams.absence)."""


class PolicyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to live through."""

    seed: int
    hours: float = 24.0
    jobs: int = 5
    change_every_ms: float = 20.0 * MINUTE_MS
    """Mean time between what people do."""
    outage_every_ms: float = 3.0 * HOUR_MS
    """Mean time between absences of the owner; 0 is none."""
    lost: float = 0.01
    """Share of messages, either way."""
    doubled: float = 0.03
    worker_sleeps: float = 0.03
    worker_dies: float = 0.02
    slow: float = 0.1
    """Share of runs of up to six minutes."""
    fails: float = 0.15
    idle_workers: float = 0.05
    """Share of ready runs that no worker takes for a few minutes."""
    deeds: tuple[str, ...] = ()
    """What people do, by the names of `People`; empty is everything."""
    stubborn: float = 0.2
    """Share of workers that do not heed a cancel."""


class PolicyResult(msgspec.Struct, kw_only=True):
    """What came out."""

    plan: PolicyPlan
    report: Report
    log: PolicyLog

    @property
    def ok(self) -> bool:
        """Whether every promise held."""
        return self.report.ok

    def story(self) -> str:
        """Tell a failed life: the seed first."""
        return f"seed {self.plan.seed}: {self.plan}\n{self.report.to_table()}"


class PolicyLog(ScriptedLog):
    """The scripted log, written the way an owner writes: the definition only where it changed, leases as published."""

    def entry(self, job_id: str, before: Job | None, decision: Decision, at_ms: int, cause: Cause) -> None:
        """Write one decision and its marker."""
        after = decision.job_after
        if before is None and after is None:
            return
        closed: set[str] = set()
        for event in decision.events:
            view = lease_view(before, after, event)
            if view is not None and view.run_id not in closed:  # as the owner does: the first event closes a lease
                closed.update([view.run_id] if view.closed else [])
                self._add("leases", at_ms + LAG_MS, view.run_id.encode(), view)
        entry = HistoryEntry(
            job_id=job_id,
            partition=self.partition,
            seq=self._seq,
            generation=self.generation,
            member_id=self.member,
            transactional_id=f"owner-{self.generation}",
            now_ms=at_ms,
            cause=cause,
            zone_data=INSTALLED_ZONE_DATA.version,
            events=decision.events,
        )
        self._seq += 1
        self._add("history", at_ms + LAG_MS, job_id.encode(), entry)
        self._add("ledger", at_ms + LAG_MS, b"s|" + job_id.encode(), None if after is None else after.state)
        definitions = tuple(None if job is None else job.definition for job in (before, after))
        if definitions[0] is not definitions[1]:
            self._add("ledger", at_ms + LAG_MS, b"d|" + job_id.encode(), definitions[1])
        self.mark(at_ms=at_ms, lag_ms=LAG_MS)

    def append(self, command: AnyCommand, at_ms: int) -> Cause:
        """Append one command; gives its place."""
        batch = CommandBatch(gateway_id=GATEWAY, incarnation="i1", sent_at_ms=at_ms, commands=(command,))
        self._add("commands", at_ms, command.job_id.encode(), batch)
        self.commands += 1
        return Cause(
            kind="command",
            name=type(command).__name__,
            topic="horolog.commands",
            partition=self.partition,
            offset=self.commands - 1,
            index=0,
            request_id=command.request_id,
            gateway_id=GATEWAY,
            appended_at_ms=at_ms,
        )

    def answer(self, request_id: str, reply: Reply | Grant, at_ms: int) -> None:
        """Answer one command."""
        batch = ReplyBatch(gateway_id=GATEWAY, answers=(Answer(request_id=request_id, reply=reply),))
        self._add("replies", at_ms + LAG_MS, GATEWAY.encode(), batch)

    def last_write_ms(self) -> int:
        """Give the newest marker's time."""
        return next((row.at_ms for row in reversed(self.rows) if row.key == b"m|"), 0)


class Owner:
    """What an owner does around `decide`: order, soft state, looks, parked requests."""

    def __init__(self, world: PolicyWorld) -> None:
        self.world = world
        self.log = PolicyLog()
        self.jobs: dict[str, Job] = {}
        self.up = True
        self.inbox: deque[tuple[Cause, AnyCommand]] = deque()
        self.heartbeats: dict[str, int] = {}
        self.takeover_at_ms = 0
        self.absence = NO_ABSENCE
        self._looks: dict[str, tuple[int, int]] = {}
        self._number = itertools.count()
        self.log.mark(at_ms=world.t_ms - LAG_MS, lag_ms=LAG_MS)
        self._marked_ms = world.t_ms
        world.at(MARKER_EVERY_MS, self._mark)

    def _mark(self) -> None:
        self.world.at(MARKER_EVERY_MS, self._mark)
        if self.up and self.world.t_ms - self._marked_ms >= MARKER_EVERY_MS:
            self.log.mark(at_ms=self.world.t_ms, lag_ms=LAG_MS)
            self._marked_ms = self.world.t_ms

    def down(self) -> None:
        """Lose everything that is not in the log."""
        self.up = False
        self.heartbeats.clear()
        self._looks.clear()

    def back(self) -> None:
        """Take over as the next generation, and look at every job."""
        world = self.world
        self.up, self.takeover_at_ms = True, world.t_ms
        self.absence = after_gap(self.absence, self._marked_ms, world.t_ms, MISSED_GAP_MS)
        self.log.take_over(at_ms=world.t_ms)
        self._marked_ms = world.t_ms
        self.drain()
        for job_id, job in list(self.jobs.items()):
            self._look(job_id, job, 0)
            self.world.dispatch(job)

    def context(self) -> Context:
        """Say what `decide` may know now."""
        waiting = self.inbox[0][0].appended_at_ms if self.inbox else self.world.t_ms
        return Context(
            now_ms=self.world.t_ms,
            zone_data=INSTALLED_ZONE_DATA,
            heartbeats=self.heartbeats,
            takeover_at_ms=self.takeover_at_ms,
            consumed_to_ms=waiting,
            absent_from_ms=self.absence.from_ms,
            absent_to_ms=self.absence.to_ms,
            open_runs_max=OPEN_RUNS_MAX,
        )

    def drain(self) -> None:
        """Decide all commands that have come."""
        while self.up and self.inbox:
            cause, command = self.inbox.popleft()
            if isinstance(command, Heartbeat):
                command = msgspec.structs.replace(command, at_ms=cause.appended_at_ms)
            self.decide(command, cause)

    def decide(self, command: AnyCommand, cause: Cause) -> None:
        """Decide, write, then act on it."""
        before = self.jobs.get(command.job_id)
        decision = streams.core.decide.decide(before, command, self.context())
        after = before
        if decision.events:
            after = decision.job_after
            self.log.entry(command.job_id, before, decision, self.world.t_ms, cause)
            self._marked_ms = self.world.t_ms
            if after is None:
                self.jobs.pop(command.job_id, None)
            else:
                self.jobs[command.job_id] = after
        if decision.reply is not None:
            if isinstance(command, Heartbeat) and isinstance(decision.reply, Reply) and decision.reply.code == "ok":
                known = self.heartbeats.get(command.run_id, 0)
                self.heartbeats[command.run_id] = max(known, command.at_ms)
            if command.request_id:
                self.log.answer(command.request_id, decision.reply, self.world.t_ms)
                self.world.answered(command.request_id, decision.reply)
        elif decision.park_until_ms:
            generation = self.log.generation
            parked = msgspec.structs.replace(cause, kind="parked")
            self.world.at_ms(decision.park_until_ms, lambda: self._unpark(command, parked, generation))
        if after is not None and (decision.events or isinstance(command, Wake)):
            self._look(command.job_id, after, decision.wake_at_ms, idle=not decision.events)
            if decision.events:
                self.world.dispatch(after)

    def _unpark(self, command: AnyCommand, cause: Cause, generation: int) -> None:
        if self.up and generation == self.log.generation:
            self.decide(command, cause)

    def _look(self, job_id: str, job: Job, wake_at_ms: int, *, idle: bool = False) -> None:
        """Look at the job again at its next deadline, and at no other time.

        After a look that led to nothing, a deadline of now waits a second: only a broken core says that.
        """
        due_ms = wake_at_ms or deadline_ms(job, open_runs_max=OPEN_RUNS_MAX)
        if due_ms is None:
            self._looks.pop(job_id, None)
            return
        at_ms = max(due_ms, self.world.t_ms + (1 if wake_at_ms else 0))
        if idle and at_ms <= self.world.t_ms + 1:
            at_ms = self.world.t_ms + 1_000
        number = next(self._number)
        self._looks[job_id] = (at_ms, number)
        self.world.at_ms(at_ms, lambda: self._wake(job_id, number))

    def _wake(self, job_id: str, number: int) -> None:
        if self.up and self._looks.get(job_id, (0, -1))[1] == number:
            self.decide(Wake(job_id=job_id), Cause(kind="timer", name="Wake", partition=0))


class PolicyWorld:
    """The agenda, the messages, the workers; `People` do the rest."""

    def __init__(self, plan: PolicyPlan) -> None:
        self.plan = plan
        self.rng = random.Random(plan.seed)  # noqa: S311 - repeatable on purpose
        self.start_ms = STARTS_MS[plan.seed % len(STARTS_MS)]
        self.t_ms = self.start_ms
        self.calls: list[ClientCall] = []
        self.executions: list[Execution] = []
        self.faults: list[Fault] = []
        self.faulty = True
        self._agenda: list[tuple[int, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._requests = itertools.count(1)
        self._waiting: dict[str, Callable[[Reply | Grant | None], None]] = {}
        self._asked_for: dict[str, int] = {}
        self._handed_out: set[tuple[str, int]] = set()
        self.owner = Owner(self)
        self.people = People(self, plan.jobs, plan.change_every_ms, plan.deeds)

    # --- time ---

    def at(self, delay_ms: float, call: Callable[[], object]) -> None:
        """Do something later."""
        self.at_ms(self.t_ms + max(1, int(delay_ms)), call)

    def at_ms(self, at_ms: int, call: Callable[[], object]) -> None:
        """Do something at an instant."""
        heapq.heappush(self._agenda, (max(at_ms, self.t_ms), next(self._order), call))

    def run(self, until_ms: int) -> None:
        """Let the world go on; nothing is looked at where nothing happens."""
        while self._agenda and self._agenda[0][0] <= until_ms:
            self.t_ms, _, call = heapq.heappop(self._agenda)
            call()
        self.t_ms = until_ms

    # --- faults ---

    def fault(self, kind: str, lasts_ms: int, target: str = "") -> None:
        """Write down what is done to the system."""
        self.faults.append(Fault(kind=kind, from_ms=self.t_ms, to_ms=self.t_ms + lasts_ms, target=target))

    def lost(self, kind: str) -> bool:
        """Decide whether a message is lost."""
        if not self.faulty or self.rng.random() >= self.plan.lost:
            return False
        self.fault(f"lost_{kind}", 5_000)
        return True

    def next_outage(self) -> None:
        """Plan the next absence of the owner."""
        if self.plan.outage_every_ms:
            self.at(OUTAGES_APART_MS + self.rng.expovariate(1.0 / self.plan.outage_every_ms), self._outage)

    def _outage(self) -> None:
        if not self.faulty:
            return
        lasts_ms = self.rng.choices(OUTAGES_MS, weights=(6, 4, 3, 2, 1))[0]
        self.fault("owner_away", lasts_ms + 40_000)
        self.owner.down()
        self.at(lasts_ms, self._over)

    def _over(self) -> None:
        self.owner.back()
        self.next_outage()

    # --- messages ---

    def ask(
        self,
        command: AnyCommand,
        on_answer: Callable[[Reply | Grant | None], None] = lambda _: None,
        patience_ms: int = 10_000,
    ) -> str:
        """Send a command; `on_answer` hears the answer, or None after the patience. Gives the request id."""
        request_id = f"r{next(self._requests)}"
        command = msgspec.structs.replace(command, request_id=request_id)
        self._waiting[request_id] = on_answer
        times = 0 if self.lost("command") else 1
        times += self.faulty and self.rng.random() < self.plan.doubled
        for _ in range(times):
            self.at(self.rng.uniform(1, 5), lambda: self._append(command))
        self.at(patience_ms, lambda: self._hear(request_id, None))
        return request_id

    def _append(self, command: AnyCommand) -> None:
        self.owner.inbox.append((self.owner.log.append(command, self.t_ms), command))
        self.at(self.rng.uniform(1, 5), self.owner.drain)

    def answered(self, request_id: str, reply: Reply | Grant) -> None:
        """Carry an answer back."""
        if not self.lost("answer"):
            self.at(self.rng.uniform(2, 6), lambda: self._hear(request_id, reply))

    def _hear(self, request_id: str, reply: Reply | Grant | None) -> None:
        heard = self._waiting.pop(request_id, None)
        if heard is not None:
            if isinstance(reply, Grant):
                self._handed_out.add((reply.run_id, reply.lease_token))
            heard(reply)
        elif isinstance(reply, Grant) and (reply.run_id, reply.lease_token) not in self._handed_out:
            self.ask(Release(job_id=reply.job_id, run_id=reply.run_id, lease_token=reply.lease_token, reason="nobody"))

    def journal(self, request_id: str, command: AnyCommand, reply: Reply | Grant | None, key: str = "") -> None:
        """Write down what a caller heard."""
        self.calls.append(
            ClientCall(
                request_id=request_id,
                job_id=command.job_id,
                name=type(command).__name__,
                code=reply.code if isinstance(reply, Reply) else "",
                run_id=getattr(command, "run_id", ""),
                lease_token=getattr(command, "lease_token", 0),
                idempotency_key=key,
                answered_at_ms=self.t_ms,
            )
        )

    # --- workers ---

    def dispatch(self, job: Job) -> None:
        """Let workers ask for what the job has ready, and now and then for what comes next."""
        for run in ready_runs(job.state):
            self._want(job, run.run_id, run.due_at_ms)
        following = upcoming(job)
        if following is not None and self.rng.random() < 0.3:
            self._want(job, following[0], following[1] - 1_000)

    def _want(self, job: Job, run_id: str, at_ms: int) -> None:
        if self._asked_for.get(run_id, 0) > self.t_ms:
            return
        delay_ms = self.rng.uniform(2, 40)
        soon = at_ms < self.t_ms + MINUTE_MS
        if self.faulty and soon and self.rng.random() < self.plan.idle_workers:
            delay_ms = self.rng.uniform(10_000, 300_000)
        at_ms = max(at_ms, self.t_ms) + int(delay_ms)
        self._asked_for[run_id] = at_ms + 15_000
        version, job_id = job.state.version, job.state.job_id
        self.at_ms(at_ms, lambda: self._lease(job_id, run_id, version))

    def _lease(self, job_id: str, run_id: str, version: int) -> None:
        visibility_ms = self.rng.choice((30_000, 30_000, 60_000))
        command = LeaseRun(
            job_id=job_id,
            run_id=run_id,
            worker_id="w",
            gateway_id=GATEWAY,
            job_version=version,
            visibility_ms=visibility_ms,
            valid_until_ms=self.t_ms + 4_000,
        )
        self.ask(command, lambda reply: self._granted(job_id, run_id, reply), 6_000)

    def _granted(self, job_id: str, run_id: str, reply: Reply | Grant | None) -> None:
        self._asked_for.pop(run_id, None)
        if not isinstance(reply, Grant):
            job = self.owner.jobs.get(job_id)
            ready = job is not None and any(run.run_id == run_id for run in ready_runs(job.state))
            if job is not None and ready:
                self.at(2_000, lambda: self._want_again(job_id, run_id))
            return
        if self.faulty and self.rng.random() < 0.02:
            self.ask(Release(job_id=job_id, run_id=run_id, lease_token=reply.lease_token, reason="not started"))
            return
        if not self.lost("grant"):
            Executing(self, reply)

    def _want_again(self, job_id: str, run_id: str) -> None:
        job = self.owner.jobs.get(job_id)
        if job is None:
            return
        for run in ready_runs(job.state):
            if run.run_id == run_id:
                self._want(job, run_id, run.due_at_ms)


class Executing:
    """One execution: heartbeats, perhaps sleeps or dies, tells its outcome until it is heard."""

    def __init__(self, world: PolicyWorld, grant: Grant) -> None:
        self.world = world
        self.grant = grant
        rng, plan = world.rng, world.plan
        self._confirmed_ms = grant.granted_at_ms
        self._visibility_ms = grant.visibility_ms
        self._started_ms = world.t_ms
        self._ended = False
        self._asleep_until_ms = 0
        self._stubborn = rng.random() < plan.stubborn
        self._tries = 6
        duration_ms = rng.uniform(30_000, 360_000) if rng.random() < plan.slow else rng.uniform(5, 8_000)
        if world.faulty and rng.random() < plan.worker_dies:
            world.at(rng.uniform(0, duration_ms), self._die)
        if world.faulty and rng.random() < plan.worker_sleeps:
            world.at(rng.uniform(0, duration_ms), self._sleep)
        self._beat()
        world.at(duration_ms, self._done)

    def _over(self, *, known: bool = True) -> None:
        if self._ended:
            return
        self._ended = True
        self.world.executions.append(
            Execution(
                run_id=self.grant.run_id,
                attempt=self.grant.attempt,
                lease_token=self.grant.lease_token,
                worker_id="w",
                scheduled_at_ms=self.grant.scheduled_at_ms,
                started_at_ms=self._started_ms,
                ended_at_ms=self.world.t_ms if known else 0,
            )
        )

    def _die(self) -> None:
        self.world.fault("worker_dies", 0)
        self._over(known=False)

    def _sleep(self) -> None:
        if not self._ended:
            for_ms = int(self.world.rng.uniform(5_000, 120_000))
            self.world.fault("worker_sleeps", for_ms)
            self._asleep_until_ms = self.world.t_ms + for_ms

    def _asleep(self, then: Callable[[], None]) -> bool:
        left_ms = self._asleep_until_ms - self.world.t_ms
        if left_ms > 0:
            self.world.at(left_ms, then)
        return left_ms > 0

    def _beat(self) -> None:
        if self._ended or self._asleep(self._beat):
            return
        sent_ms = self.world.t_ms
        if sent_ms - self._confirmed_ms > self._visibility_ms - 5_000:
            self.world.fault("worker_unheard", 0)
            self._over()
            return
        length_ms = self.world.rng.choice((0, 0, 0, 0, 0, 20_000, 90_000))
        command = Heartbeat(
            job_id=self.grant.job_id,
            run_id=self.grant.run_id,
            lease_token=self.grant.lease_token,
            visibility_ms=length_ms,
        )
        if length_ms:
            self._visibility_ms = min(self._visibility_ms, length_ms)
        self.world.ask(command, lambda reply: self._beaten(reply, sent_ms))
        self.world.at(min(10_000, self._visibility_ms // 3), self._beat)

    def _beaten(self, reply: Reply | Grant | None, sent_ms: int) -> None:
        if self._ended or not isinstance(reply, Reply):
            return
        if reply.code == "ok":
            self._confirmed_ms = max(self._confirmed_ms, sent_ms)
            if reply.cancel and not self._stubborn:
                self._tell(self._fail("cancelled", retryable=True))
        elif reply.code == "lease_lost":
            self._over()

    def _done(self) -> None:
        if self._ended or self._asleep(self._done):
            return
        draw = self.world.rng.random()
        if draw < self.world.plan.fails:
            self._tell(self._fail("no", retryable=draw > self.world.plan.fails / 5))
        else:
            grant = self.grant
            self._tell(Complete(job_id=grant.job_id, run_id=grant.run_id, lease_token=grant.lease_token, result=b"1"))

    def _fail(self, error: str, *, retryable: bool) -> Fail:
        grant = self.grant
        return Fail(
            job_id=grant.job_id, run_id=grant.run_id, lease_token=grant.lease_token, error=error, retryable=retryable
        )

    def _tell(self, command: Complete | Fail) -> None:
        self._over()
        self._tries -= 1
        request: list[str] = [""]

        def heard(reply: Reply | Grant | None) -> None:
            self.world.journal(request[0], command, reply)
            if reply is None and self._tries > 0:
                self.world.at(self.world.rng.uniform(100, 2_000), lambda: self._tell(command))

        request[0] = self.world.ask(command, heard)


def live(plan: PolicyPlan) -> PolicyResult:
    """Live a plan to its end and judge it."""
    world = PolicyWorld(plan)
    world.people.begin()
    world.next_outage()
    end_ms = world.start_ms + int(plan.hours * HOUR_MS)
    world.run(end_ms)
    world.faulty = False
    world.people.quiet = True
    if not world.owner.up:
        world.owner.back()
    world.run(end_ms + HEAL_MS)
    return judge(world)


def judge(world: PolicyWorld) -> PolicyResult:
    """Judge what a world has lived through."""
    limits = Limits(open_runs_max=OPEN_RUNS_MAX, missed_margin_ms=MARKER_EVERY_MS + 2_000)
    journals = Journals(calls=tuple(world.calls), executions=tuple(world.executions))
    view = world.owner.log.view(
        end_at_ms=world.t_ms, committed={0: world.owner.log.commands - len(world.owner.inbox)}, whole=True
    )
    report = check(view, journals, Faults(faults=tuple(world.faults)), limits)
    return PolicyResult(plan=world.plan, report=report, log=world.owner.log)
