"""What people do to jobs: every command that there is, with right and wrong versions, repeated and at bad moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from streams.core.commands import (
    CancelRun,
    Define,
    Delete,
    Pause,
    ReplayRun,
    Resume,
    SkipSlot,
    StartBackfill,
    StopBackfill,
    Trigger,
)
from streams.core.decide_schedule import schedule_of
from streams.core.definition import Definition, Retry
from streams.core.time import CronSpec, IntervalSpec, OneOffSpec
from streams.core.wire import request_hash

if TYPE_CHECKING:
    from streams.core.commands import AnyCommand, Grant, Reply
    from streams.core.state import Job
    from tests.simulation.harness.policy_world import PolicyWorld

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
LINES: Final = (("blue", "mail"), ("blue", "bulk"), ("red", "mail"), ("green", "one"))
CRONS: Final = ("*/20 * * * *", "0 * * * *", "30 2 * * *", "0 9 * * 1-5", "5,35 */2 * * *", "*/15 1-3 * * *")
EVERY_MS: Final = (2 * MINUTE_MS, 10 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, HOUR_MS, 6 * HOUR_MS)
TRIES: Final = 6
WEIGHTS: Final = {
    "define": 1,
    "one_off": 4,
    "edit": 4,
    "delete": 1,
    "pause": 3,
    "resume": 4,
    "trigger": 5,
    "cancel": 5,
    "skip": 5,
    "replay": 4,
    "backfill": 3,
    "stop_backfill": 1,
}
"""How often people do what, relative to each other."""


BACKFILL_INTERVAL_MS = 20_000
"""Of a third of all backfills: slower than workers are, so that the rate is what holds them."""


class People:
    """Define jobs at the start; change, control and delete them until told to be quiet."""

    def __init__(self, world: PolicyWorld, jobs: int, change_every_ms: float, deeds: tuple[str, ...]) -> None:
        self.world = world
        self.quiet = False
        self._jobs = jobs
        self._change_every_ms = change_every_ms
        self._deeds = {name: WEIGHTS[name] for name in deeds or WEIGHTS}
        self._names: list[str] = []
        self._tenants: dict[str, str] = {}
        self._number = 0

    def begin(self) -> None:
        """Define the first jobs and go on."""
        for _ in range(self._jobs):
            self._define()
        self._next()

    def _next(self) -> None:
        self.world.at(self.world.rng.expovariate(1.0 / self._change_every_ms), self._change)

    def _change(self) -> None:
        if self.quiet:
            return
        self._next()
        deed = self.world.rng.choices(list(self._deeds), weights=list(self._deeds.values()))[0]
        getattr(self, f"_{deed}")()

    # --- calls ---

    def call(self, command: AnyCommand, key: str = "", tries: int = TRIES) -> None:
        """Call until answered, as a careful client does."""
        request = [""]

        def heard(reply: Reply | Grant | None) -> None:
            self.world.journal(request[0], command, reply, key)
            if reply is None and tries > 1 and not self.quiet:
                self.world.at(self.world.rng.uniform(50, 3_000), lambda: self.call(command, key, tries - 1))

        request[0] = self.world.ask(command, heard)
        if self.world.faulty and self.world.rng.random() < self.world.plan.doubled:
            self.world.ask(command)

    def _any(self) -> tuple[str, Job | None]:
        job_id = self.world.rng.choice(self._names)
        return job_id, self.world.owner.jobs.get(job_id)

    def _name(self) -> str:
        self._number += 1
        return f"n{self._number}"

    def _version(self, job: Job | None) -> int:
        """Give the version that a caller believes in: none, the true one, or an old one."""
        if job is None:
            return 0
        return self.world.rng.choice((0, job.state.version, job.state.version, max(1, job.state.version - 1)))

    # --- definitions ---

    def _define(self) -> None:
        self._number += 1
        self._create(self._definition(f"job-{self._number}", self._schedule()))

    def _one_off(self) -> None:
        self._number += 1
        at_ms = self.world.t_ms + self.world.rng.choice((-MINUTE_MS, 0, 500, 20_000, 10 * MINUTE_MS, HOUR_MS))
        self._create(self._definition(f"once-{self._number}", OneOffSpec(at_ms)))

    def _create(self, definition: Definition) -> None:
        self._names.append(definition.job_id)
        self._tenants[definition.job_id] = definition.tenant
        self.call(
            Define(
                job_id=definition.job_id, definition=definition, request_hash=request_hash(definition), mode="create"
            ),
            key=f"key-{definition.job_id}",
        )

    def _edit(self) -> None:
        job_id, job = self._any()
        if job is None or job.definition is None:
            return
        before, rng = job.definition, self.world.rng
        schedule = before.schedule
        if rng.random() < 0.5:
            schedule = self._schedule()
        elif isinstance(before.schedule, OneOffSpec):
            schedule = OneOffSpec(self.world.t_ms + rng.choice((-MINUTE_MS, 20_000, 5 * MINUTE_MS)))
        changed = self._definition(job_id, schedule, line=(before.tenant, before.queue))
        self.call(
            Define(
                job_id=job_id,
                definition=changed,
                request_hash=request_hash(changed),
                mode="edit",
                actor="ann",
                expected_version=self._version(job),
            )
        )

    def _delete(self) -> None:
        job_id, job = self._any()
        self.call(Delete(job_id=job_id, tenant=self._tenants[job_id], actor="ann", expected_version=self._version(job)))
        if self.world.rng.random() < 0.5:
            self.world.at(self.world.rng.uniform(1_000, HOUR_MS), lambda: self._again(job_id))

    def _again(self, job_id: str) -> None:
        if not self.quiet:
            self._names.remove(job_id)
            definition = self._definition(job_id, self._schedule(), line=(self._tenants[job_id], "mail"))
            self._create(definition)

    # --- control ---

    def _pause(self) -> None:
        job_id, _ = self._any()
        until_ms = self.world.rng.choice((0, self.world.t_ms + 90_000, self.world.t_ms + 2 * HOUR_MS))
        self.call(Pause(job_id=job_id, tenant=self._tenants[job_id], actor="ann", note="why", until_ms=until_ms))

    def _resume(self) -> None:
        paused = [name for name, job in self.world.owner.jobs.items() if job.state.pause is not None]
        job_id = self.world.rng.choice(paused) if paused else self._any()[0]
        self.call(Resume(job_id=job_id, tenant=self._tenants[job_id], actor="ann"))

    def _trigger(self) -> None:
        job_id, _ = self._any()
        payload = self.world.rng.choice((None, b"own"))
        force = self.world.rng.random() < 0.3
        for _ in range(self.world.rng.choice((1, 1, 3))):
            command = Trigger(
                job_id=job_id,
                tenant=self._tenants[job_id],
                trigger_id=self._name(),
                force=force,
                payload=payload,
                actor="ann",
            )
            self.call(command)

    def _cancel(self) -> None:
        leased = [
            (job.state.job_id, run.run_id)
            for job in self.world.owner.jobs.values()
            for run in job.state.open
            if run.lease is not None or self.world.rng.random() < 0.3
        ]
        job_id, job = self._any()
        runs = [(job_id, run.run_id) for run in job.state.closed] if job is not None else []
        choices = leased or runs
        if choices:
            job_id, run_id = self.world.rng.choice(choices)
            self.call(CancelRun(job_id=job_id, run_id=run_id, tenant=self._tenants[job_id], actor="ann", reason="user"))

    def _skip(self) -> None:
        job_id, job = self._any()
        if job is None or job.definition is None or job.state.next_at_ms is None:
            return
        at_ms: int | None = job.state.next_at_ms
        schedule = schedule_of(job.definition, self.world.owner.context())
        for _ in range(self.world.rng.choice((0, 0, 1, 2))):
            found = None if at_ms is None else schedule.next_after(at_ms)
            at_ms = at_ms if found is None else found.at_ms
        off_ms = self.world.rng.choice((0, 0, 0, 0, 1))
        if at_ms is not None:
            self.call(
                SkipSlot(
                    job_id=job_id,
                    at_ms=at_ms + off_ms,
                    tenant=self._tenants[job_id],
                    expected_version=self._version(job),
                    actor="ann",
                )
            )

    def _replay(self) -> None:
        dead = [(job.state.job_id, run.run_id) for job in self.world.owner.jobs.values() for run in job.state.dead]
        if dead:
            job_id, run_id = self.world.rng.choice(dead)
            for _ in range(self.world.rng.choice((1, 1, 2))):
                self.call(ReplayRun(job_id=job_id, run_id=run_id, replay_id=self._name(), tenant=self._tenants[job_id]))

    def _backfill(self) -> None:
        job_id, job = self._any()
        if job is None or job.definition is None:
            return
        until_ms = self.world.t_ms - self.world.rng.randrange(HOUR_MS)
        backfill_id = self._name()
        self.call(
            StartBackfill(
                job_id=job_id,
                backfill_id=backfill_id,
                interval_ms=BACKFILL_INTERVAL_MS if self._number % 3 == 0 else 0,
                key=backfill_id,
                body="range",
                from_ms=until_ms - self.world.rng.choice((HOUR_MS // 2, 2 * HOUR_MS, 12 * HOUR_MS)),
                until_ms=until_ms,
                concurrent_runs_max=self.world.rng.choice((1, 1, 3)),
                tenant=self._tenants[job_id],
                actor="ann",
            )
        )

    def _stop_backfill(self) -> None:
        going = [
            (job.state.job_id, item.backfill_id)
            for job in self.world.owner.jobs.values()
            for item in job.state.backfills
        ]
        if going:
            job_id, backfill_id = self.world.rng.choice(going)
            self.call(StopBackfill(job_id=job_id, backfill_id=backfill_id, tenant=self._tenants[job_id], actor="ann"))

    # --- what they define ---

    def _schedule(self) -> CronSpec | IntervalSpec:
        rng = self.world.rng
        if rng.random() < 0.4:
            zone = rng.choice(("UTC", "Europe/Berlin", "America/New_York"))
            return CronSpec(rng.choice(CRONS), zone, gap=rng.choice(("shift", "shift", "skip")))
        every_ms = rng.choice(EVERY_MS)
        return IntervalSpec(every_ms=every_ms, anchor_ms=self.world.start_ms - rng.randrange(every_ms))

    def _definition(self, job_id: str, schedule: Any, line: tuple[str, str] | None = None) -> Definition:
        rng = self.world.rng
        tenant, queue = line or rng.choice(LINES)
        if isinstance(schedule, CronSpec) and schedule.expression[0] == "*":
            schedule = msgspec.structs.replace(schedule, gap="shift")
        return Definition(
            job_id=job_id,
            tenant=tenant,
            queue=queue,
            name=job_id,
            task=rng.choice(("send", "roll")),
            schedule=schedule,
            payload=b"{}",
            retry=Retry(
                max_attempts=rng.choice((1, 2, 5)),
                backoff=rng.choice(("exponential", "exponential", "fixed", "none")),
                delay_ms=rng.choice((0, 1_500)),
            ),
            overlap=rng.choice(("skip", "allow", "queue", "replace")),
            concurrent_runs_max=rng.choice((0, 1, 2)),
            catch_up=rng.choice(("latest", "all", "none")),
            start_deadline_ms=rng.choice((0, 0, 30_000, 120_000)),
            timeout_ms=rng.choice((0, 0, 60_000)),
            max_runs=rng.choice((0, 0, 0, 0, 12)),
            lane=rng.choice(("high", "normal", "low")),
        )
