"""The jobs of a simulated run and what people do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
from streams.core.definition import Definition, Retry
from streams.core.identity import run_id_at
from streams.core.time import CronSpec, IntervalSpec, OneOffSpec
from streams.core.wire import request_hash

if TYPE_CHECKING:
    from tests.simulation.harness.actors import Client
    from tests.simulation.harness.virtual_time import World

LINES: Final = (("blue", "mail"), ("blue", "bulk"), ("red", "mail"))
CRONS: Final = ("*/5 * * * *", "0 * * * *", "*/7 1-3 * * *", "30 2 * * *", "0,30 * * * SUN", "15 */10 * * * *")


class Workload:
    """Defines jobs at the start and now and then; changes, triggers, pauses and deletes them until told to be quiet."""

    def __init__(self, world: World, client: Client, jobs: int, *, change_every_ms: float, policies: bool) -> None:
        self.world = world
        self.client = client
        self.quiet = False
        self._jobs = jobs
        self._change_every_ms = change_every_ms
        self._policies = policies
        self._names: list[str] = []
        self._definitions: dict[str, Definition] = {}
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
        plain = (self._define, self._one_off, self._edit, self._delete)
        more = (self._pause, self._resume, self._trigger, self._cancel, self._skip, self._replay, self._backfill)
        if self._policies:
            self.world.rng.choices((*plain, *more), weights=(1, 4, 3, 1, 2, 3, 2, 1, 2, 2, 1))[0]()
        else:
            self.world.rng.choices(plain, weights=(1, 4, 3, 1))[0]()

    def _define(self) -> None:
        self._number += 1
        self._create(self._definition(f"job-{self._number}", self._schedule()))

    def _one_off(self) -> None:
        self._number += 1
        at_ms = self.world.epoch_ms + self.world.rng.choice((-60_000, 0, 500, 1_500, 20_000, 300_000))
        self._create(self._definition(f"once-{self._number}", OneOffSpec(at_ms)))

    def _create(self, definition: Definition) -> None:
        self._names.append(definition.job_id)
        self._definitions[definition.job_id] = definition
        command = Define(
            job_id=definition.job_id, definition=definition, request_hash=request_hash(definition), mode="create"
        )
        self.client.call(command, key=f"key-{definition.job_id}")

    def _edit(self) -> None:
        job_id = self._any()
        before = self._definitions.get(job_id)
        if before is None:
            return
        schedule = before.schedule if self.world.rng.random() < 0.5 else self._schedule()
        changed = self._definition(job_id, schedule, line=(before.tenant, before.queue))
        self._definitions[job_id] = changed
        self.client.call(
            Define(job_id=job_id, definition=changed, request_hash=request_hash(changed), mode="edit", actor="ann")
        )

    def _delete(self) -> None:
        job_id = self._any()
        self.client.call(Delete(job_id=job_id, tenant=self._tenant(job_id), actor="ann"))

    def _pause(self) -> None:
        job_id = self._any()
        until_ms = self.world.rng.choice((0, self.world.epoch_ms + 90_000))
        self.client.call(Pause(job_id=job_id, tenant=self._tenant(job_id), actor="ann", until_ms=until_ms))

    def _resume(self) -> None:
        job_id = self._any()
        self.client.call(Resume(job_id=job_id, tenant=self._tenant(job_id), actor="ann"))

    def _trigger(self) -> None:
        job_id = self._any()
        self._number += 1
        self.client.call(
            Trigger(
                job_id=job_id,
                tenant=self._tenant(job_id),
                trigger_id=f"t{self._number}",
                force=self.world.rng.random() < 0.3,
                actor="ann",
            )
        )

    def _cancel(self) -> None:
        job_id = self._any()
        minute_ms = self.world.epoch_ms // 60_000 * 60_000
        self.client.call(
            CancelRun(job_id=job_id, run_id=run_id_at(job_id, minute_ms), tenant=self._tenant(job_id), actor="ann")
        )

    def _skip(self) -> None:
        """Skip a slot of an interval job, due soon or in a while; most often there is one."""
        job_id = self._any()
        schedule = self._definitions[job_id].schedule
        if isinstance(schedule, IntervalSpec):
            past = (self.world.epoch_ms - schedule.anchor_ms) // schedule.every_ms
            at_ms = schedule.anchor_ms + (past + self.world.rng.choice((0, 1, 1, 2))) * schedule.every_ms
            self.client.call(SkipSlot(job_id=job_id, at_ms=at_ms, tenant=self._tenant(job_id), actor="ann"))

    def _replay(self) -> None:
        """Ask for the replay of a recent minute's run; now and then it is dead."""
        job_id = self._any()
        minute_ms = self.world.epoch_ms // 60_000 * 60_000 - self.world.rng.choice((0, 60_000, 120_000))
        self._number += 1
        schedule = self._definitions[job_id].schedule
        if isinstance(schedule, OneOffSpec):
            minute_ms = schedule.at_ms
        elif isinstance(schedule, IntervalSpec):
            minute_ms -= (minute_ms - schedule.anchor_ms) % schedule.every_ms
        self.client.call(
            ReplayRun(
                job_id=job_id,
                run_id=run_id_at(job_id, minute_ms),
                replay_id=f"again{self._number}",
                tenant=self._tenant(job_id),
            )
        )

    def _backfill(self) -> None:
        job_id = self._any()
        tenant, until_ms = self._tenant(job_id), self.world.epoch_ms - 5_000
        if self.world.rng.random() < 0.2:
            self.client.call(StopBackfill(job_id=job_id, backfill_id=f"b{self._number}", tenant=tenant))
            return
        self._number += 1
        self.client.call(
            StartBackfill(
                job_id=job_id,
                backfill_id=f"b{self._number}",
                from_ms=until_ms - self.world.rng.choice((60_000, 600_000)),
                until_ms=until_ms,
                concurrent_runs_max=self.world.rng.choice((1, 2)),
                tenant=tenant,
            )
        )

    def _any(self) -> str:
        return self.world.rng.choice(self._names)

    def _tenant(self, job_id: str) -> str:
        return self._definitions[job_id].tenant

    def _schedule(self) -> CronSpec | IntervalSpec:
        rng = self.world.rng
        if rng.random() < 0.4:
            return CronSpec(rng.choice(CRONS), rng.choice(("UTC", "Europe/Berlin", "America/New_York")))
        every_ms = rng.choice((20_000, 60_000, 60_000, 90_000, 300_000, 3_600_000))
        return IntervalSpec(every_ms=every_ms, anchor_ms=self.world.start_ms - rng.randrange(every_ms))

    def _definition(self, job_id: str, schedule: Any, line: tuple[str, str] | None = None) -> Definition:
        rng = self.world.rng
        tenant, queue = line or rng.choice(LINES)
        options: dict[str, Any] = {}
        if self._policies:
            options = {
                "overlap": rng.choice(("skip", "allow", "queue", "replace")),
                "concurrent_runs_max": rng.choice((1, 3)),
                "catch_up": rng.choice(("latest", "all", "none")),
                "start_deadline_ms": rng.choice((0, 0, 30_000, 120_000)),
                "timeout_ms": rng.choice((0, 0, 60_000)),
                "max_runs": rng.choice((0, 0, 0, 10)),
                "lane": rng.choice(("high", "normal", "low")),
            }
        return Definition(
            job_id=job_id,
            tenant=tenant,
            queue=queue,
            name=job_id,
            task=rng.choice(("send", "roll")),
            schedule=schedule,
            payload=b"{}",
            retry=Retry(
                max_attempts=rng.choice((1, 3, 5)), backoff=rng.choice(("exponential", "fixed")), delay_ms=1_000
            ),
            **options,
        )
