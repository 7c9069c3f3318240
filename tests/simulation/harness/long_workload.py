"""What teams have and do over days: sparse schedules over changes of clocks, and every command, single and in bulk."""

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
from streams.core.context import Context
from streams.core.decide_schedule import schedule_of
from streams.core.definition import Definition, Retry
from streams.core.job_filter import standing_of
from streams.core.time import (
    INSTALLED_ZONE_DATA,
    CalendarIntervalSpec,
    CronSpec,
    IntervalSpec,
    LocalOneOffSpec,
    OneOffSpec,
    RRuleSpec,
)
from streams.core.wire import request_hash
from tests.simulation.harness.calendars import CalendarWorkload
from tests.simulation.harness.workload import LINES, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.commands import AnyCommand
    from streams.core.state import Job
    from streams.core.time.specs import GapPolicy, OverlapHour

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")

CRONS: Final = (
    "0 * * * *", "15,45 * * * *", "0 */3 * * *", "30 2 * * *", "30 1 * * *", "0 9 * * 1-5", "0 0 * * *",
    "5 1-3 * * *", "45 23 * * SUN", "0 6 1 * *", "*/10 2 * * *", "20 4,16 * * *",
)  # fmt: skip
UNJUDGED: Final = ("H * * * *", "H 3 * * *", "0 12 L * *", "0 8 * * 1#1")
"""The judge's oracle leaves these out of completeness; all other rules hold for them too."""

EVERY_MS: Final = (30 * MINUTE_MS, HOUR_MS, 90 * MINUTE_MS, 6 * HOUR_MS, DAY_MS)
DEEDS: Final = {
    "_define": 2,
    "_one_off": 8,
    "_edit": 5,
    "_delete": 2,
    "_pause": 4,
    "_resume": 5,
    "_trigger": 5,
    "_cancel": 3,
    "_skip": 4,
    "_replay": 4,
    "_backfill": 3,
    "_stop_backfill": 1,
    "_bulk": 3,
}
"""What people do, and how often relative to each other."""


class LongWorkload(Workload):
    """See Workload. `look` reads a job as a query to its owner would: as committed, or None."""

    look: Callable[[str], Job | None]

    def _change(self) -> None:
        if self.quiet:
            return
        self._next()
        getattr(self, self.world.rng.choices([*DEEDS], weights=[*DEEDS.values()])[0])()

    # --- single ---

    def _one_off(self) -> None:
        rng = self.world.rng
        self._number += 1
        ahead_ms = rng.choice((-HOUR_MS, 0, 20 * MINUTE_MS, 3 * HOUR_MS, rng.randrange(6 * DAY_MS)))
        at_ms = self.world.epoch_ms + ahead_ms
        self._create(self._definition(f"once-{self._number}", OneOffSpec(at_ms)))

    def _edit(self) -> None:
        job_id = self._any()
        before, job = self._definitions[job_id], self.look(job_id)
        schedule = before.schedule if self.world.rng.random() < 0.5 else self._schedule()
        changed = self._definition(job_id, schedule, line=(before.tenant, before.queue))
        self._definitions[job_id] = changed
        self.client.call(
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
        job_id = self._any()
        self.client.call(
            Delete(
                job_id=job_id,
                tenant=self._tenant(job_id),
                actor="ann",
                expected_version=self._version(self.look(job_id)),
            )
        )
        if self.world.rng.random() < 0.5:
            self.world.at(self.world.rng.uniform(1_000, DAY_MS), lambda: self._again(job_id))

    def _again(self, job_id: str) -> None:
        """Create it anew, within the memory of what was deleted or behind it."""
        if not self.quiet:
            before = self._definitions[job_id]
            definition = self._definition(job_id, self._schedule(), line=(before.tenant, before.queue))
            self._names.remove(job_id)
            self._create(definition)

    def _pause(self) -> None:
        job_id, rng = self._any(), self.world.rng
        until_ms = rng.choice((0, self.world.epoch_ms + 10 * MINUTE_MS, self.world.epoch_ms + rng.randrange(DAY_MS)))
        self.client.call(Pause(job_id=job_id, tenant=self._tenant(job_id), actor="ann", note="w", until_ms=until_ms))

    def _resume(self) -> None:
        paused = [name for name in self._names if self._standing(name) == "paused"]
        job_id = self.world.rng.choice(paused) if paused else self._any()
        self.client.call(Resume(job_id=job_id, tenant=self._tenant(job_id), actor="ann"))

    def _trigger(self) -> None:
        job_id, rng = self._any(), self.world.rng
        for _ in range(rng.choice((1, 1, 2))):
            self._number += 1
            command = Trigger(
                job_id=job_id,
                tenant=self._tenant(job_id),
                trigger_id=f"t{self._number}",
                force=rng.random() < 0.3,
                payload=rng.choice((None, b"own")),
                actor="ann",
            )
            self.client.call(command)

    def _cancel(self) -> None:
        """Cancel a run that is open, or closed just now."""
        runs = [
            (name, run)
            for name in self._names
            if (job := self.look(name)) is not None
            for run in (*(open_.run_id for open_ in job.state.open), *(c.run_id for c in job.state.closed[-1:]))
        ]
        if runs:
            job_id, run_id = self.world.rng.choice(runs)
            self.client.call(CancelRun(job_id=job_id, run_id=run_id, tenant=self._tenant(job_id), actor="ann"))

    def _skip(self) -> None:
        """Skip the next slot of a job or one after it; now and then one that does not exist."""
        job_id = self._any()
        job = self.look(job_id)
        if job is None or job.definition is None or job.state.next_at_ms is None:
            return
        schedule = schedule_of(job.definition, Context(now_ms=self.world.epoch_ms, zone_data=INSTALLED_ZONE_DATA))
        at_ms = job.state.next_at_ms
        for _ in range(self.world.rng.choice((0, 0, 1, 3))):
            found = schedule.next_after(at_ms)
            at_ms = at_ms if found is None else found.at_ms
        self.client.call(
            SkipSlot(
                job_id=job_id,
                at_ms=at_ms + self.world.rng.choice((0, 0, 0, 1)),
                tenant=self._tenant(job_id),
                expected_version=self._version(job),
                actor="ann",
            )
        )

    def _replay(self) -> None:
        dead = [
            (name, run.run_id) for name in self._names if (job := self.look(name)) is not None for run in job.state.dead
        ]
        if dead:
            job_id, run_id = self.world.rng.choice(dead)
            self._number += 1
            self.client.call(
                ReplayRun(job_id=job_id, run_id=run_id, replay_id=f"again{self._number}", tenant=self._tenant(job_id))
            )

    def _backfill(self) -> None:
        job_id, rng = self._any(), self.world.rng
        self._number += 1
        until_ms = self.world.epoch_ms - rng.randrange(DAY_MS)
        self.client.call(
            StartBackfill(
                job_id=job_id,
                backfill_id=f"b{self._number}",
                from_ms=until_ms - rng.choice((HOUR_MS, 6 * HOUR_MS, 2 * DAY_MS)),
                until_ms=until_ms,
                concurrent_runs_max=rng.choice((1, 2)),
                tenant=self._tenant(job_id),
                actor="ann",
            )
        )

    def _stop_backfill(self) -> None:
        going = [
            (name, item.backfill_id)
            for name in self._names
            if (job := self.look(name)) is not None
            for item in job.state.backfills
        ]
        if going:
            job_id, backfill_id = self.world.rng.choice(going)
            self.client.call(StopBackfill(job_id=job_id, backfill_id=backfill_id, tenant=self._tenant(job_id)))

    # --- in bulk ---

    def _bulk(self) -> None:
        """Pause, resume or delete what a filter names, and take it back some time later (api/routes/bulk.py)."""
        rng = self.world.rng
        tenant, queue = rng.choice(LINES)
        action = rng.choice(("pause", "pause", "resume", "delete"))
        self._number += 1
        mark = f"[bulk c-{self._number}]"
        undo: list[Callable[[], None]] = []
        for name in [*self._names]:
            job = self.look(name)
            if job is None or (job.state.tenant, job.state.queue) != (tenant, queue) or rng.random() < 0.5:
                continue
            inverse = self._bulk_one(job, action, mark)
            if inverse is not None:
                undo.append(inverse)
        if undo and (action == "delete" or rng.random() < 0.8):
            self.world.at(rng.choice((2_000, 10 * MINUTE_MS, 4 * HOUR_MS)), lambda: self._undo(undo))

    def _undo(self, undo: list[Callable[[], None]]) -> None:
        if not self.quiet:
            for inverse in undo:
                inverse()

    def _bulk_one(self, job: Job, action: str, mark: str) -> Callable[[], None] | None:
        job_id, tenant = job.state.job_id, job.state.tenant
        standing = standing_of(job.state)
        if action == "pause" and standing == "active":
            self.client.call(Pause(job_id=job_id, tenant=tenant, actor="ann", note=mark))
            return lambda: self._undo_pause(job_id, tenant, mark)
        if action == "resume" and standing == "paused":
            self.client.call(Resume(job_id=job_id, tenant=tenant, actor="ann", note=mark))
            return lambda: self._pause_again(job, mark)
        if action == "delete" and standing != "deleted":
            self.client.call(Delete(job_id=job_id, tenant=tenant, actor=f"ann {mark}"))
            return lambda: self._define_again(job, mark)
        return None

    def _undo_pause(self, job_id: str, tenant: str, mark: str) -> None:
        job = self.look(job_id)
        if job is not None and job.state.pause is not None and mark in job.state.pause.note:
            self.client.call(Resume(job_id=job_id, tenant=tenant, actor="ann", note=f"undo {mark}"))

    def _pause_again(self, job: Job, mark: str) -> None:
        was = job.state.pause
        if was is not None and self._standing(job.state.job_id) == "active":
            self.client.call(
                Pause(
                    job_id=job.state.job_id,
                    tenant=job.state.tenant,
                    actor=was.actor,
                    note=f"{was.note} undo {mark}",
                    until_ms=was.until_ms,
                )
            )

    def _define_again(self, job: Job, mark: str) -> None:
        if job.definition is None or self._standing(job.state.job_id) != "deleted":
            return
        again: AnyCommand = Define(
            job_id=job.state.job_id,
            definition=job.definition,
            request_hash=f"{request_hash(job.definition)}-{mark}"[:100],
            mode="upsert",
            actor=f"ann undo {mark}",
        )
        self._definitions[job.state.job_id] = job.definition
        self.client.call(again)
        self._pause_again(job, mark)

    # --- what they know and define ---

    def _standing(self, job_id: str) -> str:
        job = self.look(job_id)
        return "deleted" if job is None else standing_of(job.state)

    def _version(self, job: Job | None) -> int:
        """Give the version that a caller believes in: none, the true one, or an old one."""
        if job is None:
            return 0
        return self.world.rng.choice((0, 0, job.state.version, job.state.version, max(1, job.state.version - 1)))

    def _schedule(self) -> Any:
        rng = self.world.rng
        zone = rng.choice(ZONES)
        gap: GapPolicy = rng.choice(("shift", "shift", "skip"))
        draw = rng.random()
        if draw < 0.5:
            expression = rng.choice(CRONS)
            elapsed = "*" in "".join(expression.split()[:2])
            hour: OverlapHour = "first" if elapsed else rng.choice(("first", "first", "second", "both"))
            return CronSpec(expression, zone, gap="shift" if elapsed else gap, overlap_hour=hour)
        if draw < 0.85:
            every_ms = rng.choice(EVERY_MS)
            return IntervalSpec(every_ms=every_ms, anchor_ms=self.world.start_ms - rng.randrange(every_ms))
        if draw < 0.9:
            return CronSpec(rng.choice(UNJUDGED), zone)
        if draw < 0.94:
            return CalendarIntervalSpec("day", rng.choice((1, 2)), "02:30", "2026-01-01", zone, gap=gap)
        if draw < 0.97:
            return LocalOneOffSpec(rng.choice(("2026-03-29T02:30", "2026-10-25T02:30", "2026-11-01T01:30")), zone)
        return RRuleSpec("FREQ=DAILY;BYHOUR=2,14", "2026-01-01T02:00", zone)

    def _definition(self, job_id: str, schedule: Any, line: tuple[str, str] | None = None) -> Definition:
        rng = self.world.rng
        definition = super()._definition(job_id, schedule, line)
        return msgspec.structs.replace(
            definition,
            start_deadline_ms=rng.choice((0, 0, 0, 10 * MINUTE_MS, 3 * HOUR_MS)),
            timeout_ms=rng.choice((0, 0, 5 * MINUTE_MS)),
            max_runs=rng.choice((0, 0, 0, 0, 40)),
            retry=Retry(
                max_attempts=rng.choice((1, 3, 8)),
                backoff=rng.choice(("exponential", "exponential", "fixed", "none")),
                delay_ms=rng.choice((0, 1_000, 20 * MINUTE_MS)),
            ),
        )


class LongCalendarWorkload(CalendarWorkload, LongWorkload):
    """The same with calendars, of which half of the jobs name one."""

    calendar_every_ms = 3.0 * HOUR_MS
