"""The long form of the simulation: days of sparse loads, in which only what happens costs time.

    result = haul(LongPlan(seed=7))
    result.ok or print(result.story())

The same owners, gateways, workers and judge as in `scenario`; everything that may fail there fails here too, and more:
outages of hours, gateways gone for minutes, stuck workers, stepped wall clocks, storms of joining and leaving, and
other zone data. What makes it cheap is that nobody is woken for nothing:

- gateways tell their demand only near a deadline, while something waits, and while a partition has no owner that
  acts. Demand that is told while nothing is due has no effect;
- two settings are thirty times as large as shipped: an idle partition writes its marker every 5 minutes, and missed is
  what fell due in a silence of over 30 minutes. Their ratio is kept, and the judge is told;
- the horizon of the timing wheel is 10 minutes, so that the owner's loop may sleep for 5.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import tzdata  # type: ignore[import-untyped]  # no stubs; its directory is copied

from schemas.config import SchedulerSettings
from streams.audit.journals import Limits
from streams.core.deadline import upcoming
from streams.core.time import INSTALLED_ZONE_DATA, ZoneData
from tests.simulation.harness.calendars import VirtualConfigReader
from tests.simulation.harness.long_workload import ZONES, LongCalendarWorkload, LongWorkload
from tests.simulation.harness.scenario import Fleet, Plan, Result, live_through

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.envelopes import Demand
    from streams.core.state import Job
    from streams.shard import Shard
    from streams.store.memory import MemoryStore
    from tests.simulation.harness.owner_process import OwnerProcess
    from tests.simulation.harness.virtual_time import Process

MINUTE_MS: Final = 60_000.0
HOUR_MS: Final = 3_600_000.0
DEMAND_AHEAD_MS: Final = 3_000
"""Gateways tell their demand this long before a deadline: the look-ahead of offers, and a lost message."""

DEMAND_EVERY_MS: Final = 2_000.0
"""Half as often as gateways do; owners forget what is older than 5 seconds."""

JOBS_MAX: Final = 1_000
"""More than a partition of these plans has."""

IDLE_MARKER_MS: Final = 300_000
ABSENCE_MS: Final = 1_800_000
OPEN_RUNS_MAX: Final = 16

STARTS_MS: Final = (
    1_774_656_000_000,  # 2026-03-28: Berlin's clocks go forward the next day, Lord Howe's go back a week later
    1_792_843_200_000,  # 2026-10-24T12:00Z: Berlin's go back on the 25th, New York's on the 1st of November
    1_772_841_600_000,  # 2026-03-07: New York's go forward on the 8th
    1_780_272_000_000,  # 2026-06-01: nobody's
)


class LongPlan(Plan, frozen=True, kw_only=True):
    """What to live through; see Plan."""

    hours: float = 200.0
    partitions: int = 3
    owners: int = 2
    workers: int = 9
    jobs: int = 16
    fault_every_ms: float = HOUR_MS
    change_every_ms: float = 45 * MINUTE_MS
    heal_ms: float = HOUR_MS
    """Long enough for what `catch_up all` still has to run, and for a fixed wait of 20 minutes."""
    slow: float = 0.05
    stuck: float = 0.005
    calendars: bool = False
    """Whether half of the jobs name a calendar, and calendars change."""
    other_zone_data: bool = False
    """Whether owners with other zone data come and go."""


class LongFleet(Fleet):
    """See Fleet."""

    plan: LongPlan
    starts_ms = STARTS_MS
    idle_wait_ms = 300_000
    scheduler = SchedulerSettings(
        open_runs_max=OPEN_RUNS_MAX,
        idle_marker_ms=IDLE_MARKER_MS,
        missed_gap_ms=ABSENCE_MS,
        wheel_horizon_ms=600_000,
    )
    limits = Limits(open_runs_max=OPEN_RUNS_MAX, absence_ms=ABSENCE_MS, missed_margin_ms=IDLE_MARKER_MS + 2_000)

    def __init__(self, plan: LongPlan) -> None:
        super().__init__(plan)
        self.around.calm = self._calm
        self.around.demand_every_ms = DEMAND_EVERY_MS
        self._stir_at_ms = float("inf")
        self._wanted: WeakKeyDictionary[Shard, tuple[int, float]] = WeakKeyDictionary()
        self._zone_versions: list[ZoneData] = []
        self.broker.listeners[self.names["ledger"]].append(lambda _: self._look_ahead())

    def _workload(self) -> LongWorkload:
        plan = self.plan
        workload: LongWorkload
        if plan.calendars:
            workload = LongCalendarWorkload(self)
        else:
            workload = LongWorkload(
                self.world, self.client, plan.jobs, change_every_ms=plan.change_every_ms, policies=plan.policies
            )
        workload.look = self.job
        return workload

    def config_reader(self, process: Process) -> VirtualConfigReader | None:
        """See Fleet."""
        if not self.plan.calendars:
            return None
        return VirtualConfigReader(self.world, self.broker, self.names["config"], process)

    def run(self) -> None:
        """See Fleet."""
        if self.plan.fault_every_ms:
            self.habits.stuck = self.plan.stuck
        with tempfile.TemporaryDirectory() as directory:
            if self.plan.other_zone_data:
                self._zone_versions = [INSTALLED_ZONE_DATA, another_zone_data(Path(directory))]
            super().run()

    # --- what a query would answer ---

    def job(self, job_id: str) -> Job | None:
        """Give a job as committed, from whoever owns it just now."""
        for shard in self._acting():
            job = shard.job(job_id)
            if job is not None:
                return job
        return None

    def _acting(self) -> list[Shard]:
        return [
            shard
            for owner in self._living()
            if not owner.process.frozen
            for shard in owner.owner.shards.values()
            if shard.active
        ]

    # --- demand near deadlines ---

    def _calm(self) -> bool:
        """Whether nothing is due soon; if so, gateways are woken in time for what comes next."""
        next_ms = self._next_deadline_ms()
        if next_ms is None or next_ms - self.world.epoch_ms <= DEMAND_AHEAD_MS:
            return False
        self._stir_in(next_ms - self.world.epoch_ms - DEMAND_AHEAD_MS)
        return True

    def _next_deadline_ms(self) -> float | None:
        """Give when a worker is wanted next; None where a partition has no owner that acts."""
        if not self._living():
            return float("inf")  # the next that starts wakes the gateways
        shards = self._acting()
        if {shard.partition for shard in shards} != set(range(self.plan.partitions)):
            return None
        return min(self._wanted_ms(shard) for shard in shards)

    def _wanted_ms(self, shard: Shard) -> float:
        """Give when a run of the partition waits for a worker, or something may open one; known anew at each commit."""
        store = shard.store
        known = self._wanted.get(shard)
        if known is not None and known[0] == store.ledger_offset:
            return known[1]
        found = [key.due_at_ms for key in store.ready_heads(2**62)]
        for entry in store.due(None, 2**60, JOBS_MAX):
            job = shard.job(entry.job_id)
            if job is None or all(run.lease is None for run in job.state.open):
                found.append(entry.deadline_ms)
                break
            coming = upcoming(job)  # the lease's own end wants nobody
            found.extend([] if coming is None else [coming[1]])
        at_ms = min(found, default=float("inf"))
        self._wanted[shard] = (store.ledger_offset, at_ms)
        return at_ms

    def _look_ahead(self) -> None:
        """After a commit, once its owner has applied it: something may be due earlier than was known."""
        self.world.at(50.0, self._stir_if_due)

    def _stir_if_due(self) -> None:
        if not self._calm():
            self._stir()

    def _stir_in(self, delay_ms: float) -> None:
        at_ms = self.world.t_ms + delay_ms
        if at_ms < self._stir_at_ms:
            self._stir_at_ms = at_ms
            self.world.at(delay_ms, lambda: self._stirred(at_ms))

    def _stirred(self, at_ms: float) -> None:
        if at_ms == self._stir_at_ms:
            self._stir_at_ms = float("inf")
            self._stir_if_due()

    def _stir(self) -> None:
        for gateway in self.gateways:
            gateway.stir()

    def _start_owner(self, disk: dict[int, MemoryStore], delay_ms: float = 0.0) -> None:
        super()._start_owner(disk, delay_ms)
        self.world.at(delay_ms, self._stir)

    def _tell_owners(self, demand: Demand) -> None:
        if any(queue.slots for queue in demand.queues):
            super()._tell_owners(demand)

    # --- more faults ---

    def _kinds(self) -> dict[Callable[[], None], int]:
        return {
            **super()._kinds(),
            self._outage: 1,
            self._gateways_gone: 1,
            self._step_a_clock: 3,
            self._storm: 1,
            self._workers_die: 2,
            **({self._other_zone_data: 2} if self._zone_versions else {}),
        }

    def _outage(self) -> None:
        """Nobody schedules anything for hours: afterwards catch-up has its say."""
        self._all_owners_down(self.world.rng.choice((25 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, 8 * HOUR_MS)))

    def _gateways_gone(self) -> None:
        """No gateway is up for a while: runs wait, and are not missed."""
        for_ms = self.world.rng.choice((MINUTE_MS, 20 * MINUTE_MS, 2 * HOUR_MS))
        self._book("gateways_gone", for_ms)
        for gateway in self.gateways:
            if gateway.alive:
                gateway.kill()
                self.world.at(for_ms, gateway.revive)

    def _step_a_clock(self) -> None:
        """A wall clock is set by an hour: whatever is decided by it would be wrong now."""
        owner = self._any_owner()
        if owner is not None:
            self._book("clock_step", 0.0, owner.name)
            owner.process.wall_skew_ms += self.world.rng.choice((-3_600_000, 3_600_000))

    def _storm(self) -> None:
        """Members join and leave every few seconds."""
        self._book("rebalance_storm", 60_000)
        for number in range(4):
            self.world.at(number * self.world.rng.uniform(2_000, 8_000), self._join_owner)
            self.world.at(number * self.world.rng.uniform(4_000, 12_000), self._leave_owner)

    def _leave_owner(self) -> None:
        owner = self._any_owner()
        if self.faulty and owner is not None and len(self._living()) > 1:
            owner.stop()

    def _workers_die(self) -> None:
        """A host with many workers is lost."""
        gateway = self.world.rng.choice(self.gateways)
        for worker in gateway.workers:
            if worker.alive:
                worker.die(self.world.rng.uniform(5_000, 10 * MINUTE_MS))

    def _other_zone_data(self) -> None:
        """Roll another version of the zone data out, owner by owner; the next time it is the other way round."""
        self._zone_versions.reverse()
        self.zone_data = self._zone_versions[0]
        self._book("zone_data", 90_000)
        for number, owner in enumerate(self._living()):
            self.world.at(number * 20_000.0, functools.partial(self._restart, owner))

    def _restart(self, owner: OwnerProcess) -> None:
        if not owner.process.dead and not owner.left:
            owner.stop()
            self._start_owner(owner.disk, 3_000)

    def _heal(self) -> None:
        super()._heal()
        for gateway in self.gateways:
            for worker in gateway.workers:
                worker.alive = True
        while len(self._living()) + self._starting < self.plan.owners:
            self._start_owner({})


def another_zone_data(directory: Path) -> ZoneData:
    """Write a made-up version: as installed, but Berlin has given daylight saving up and moved an hour east."""
    source = Path(tzdata.__file__).parent / "zoneinfo"
    for zone in ZONES:
        target = directory / zone
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((source / ("Africa/Cairo" if zone == "Europe/Berlin" else zone)).read_bytes())
    return ZoneData("2099z", str(directory))


def haul(plan: LongPlan) -> Result:
    """Run a plan to its end and judge it."""
    return live_through(LongFleet(plan))


def long_plan(seed: int, hours: float = 200.0) -> LongPlan:
    """Give the plan of a seed: one in four has other zone data, one in four calendars, one in eight plain jobs only."""
    return LongPlan(
        seed=seed, hours=hours, other_zone_data=seed % 4 == 3, calendars=seed % 4 == 2, policies=seed % 8 != 5
    )
