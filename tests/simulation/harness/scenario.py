"""One simulated run: a fleet, a workload and faults from one seed, then healing, then judgement.

    result = simulate(Plan(seed=7, hours=2.0))
    result.report.ok or print(result.story())

During the run faults come at random: owners are killed, frozen (also exactly between two steps of the commit
order), stopped and joined; gateways and workers die; the way to the broker becomes slow and loses answers;
messages are lost and doubled. Then all of it ends, the fleet is whole again for `HEAL_MS`, and the log must
satisfy every invariant.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from schemas.config import SchedulerSettings, Settings, TopicSettings
from schemas.topics import Topic, topic_name
from streams.audit.checker import check
from streams.audit.journals import Fault, Faults, Journals, Limits
from streams.audit.log_view import TOPICS, LogRecord, LogView
from streams.core.time import INSTALLED_ZONE_DATA
from tests.simulation.harness.actors import Books, Client, Gateway, Habits, Surroundings
from tests.simulation.harness.memory_broker import MemoryBroker
from tests.simulation.harness.memory_client import Weather
from tests.simulation.harness.owner_process import IDLE_WAIT_MS, OwnerProcess, VirtualClients
from tests.simulation.harness.virtual_time import World
from tests.simulation.harness.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streams.audit.report import Report
    from streams.core.envelopes import Demand
    from streams.store.memory import MemoryStore
    from tests.simulation.harness.owner_process import ConfigSource
    from tests.simulation.harness.virtual_time import Process

HOUR_MS: Final = 3_600_000.0

HEAL_MS: Final = 240_000.0
"""Long enough for a retry of the second attempt, a take-over, and leases of two minutes' runs."""

STARTS_MS: Final = (
    1_774_742_400_000,  # 2026-03-29T00:00Z: Berlin's clocks go forward at 01:00Z
    1_792_886_400_000,  # 2026-10-25T00:00Z: and back
    1_780_272_000_000,  # an ordinary night
)

LINES: Final = (("blue", "mail"), ("blue", "bulk"), ("red", "mail"))


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to simulate."""

    seed: int
    hours: float = 1.0
    partitions: int = 4
    owners: int = 3
    gateways: int = 2
    workers: int = 12
    """Of each gateway."""
    jobs: int = 24
    fault_every_ms: float = 45_000.0
    """Mean time between faults; 0 is a run without any."""
    heal_ms: float = HEAL_MS
    """Between the last fault and judgement."""
    worker_sleeps: float = 0.02
    """Share of runs whose worker is frozen for a while."""
    slow: float = 0.05
    """Share of runs that take up to two minutes."""
    change_every_ms: float = 20_000.0
    """Mean time between what people do to jobs."""
    kinds: tuple[str, ...] = ()
    """What may go wrong, by the names of `Fleet._kinds`; empty is everything."""
    policies: bool = True
    """Whether jobs use overlap, catch-up, pause and the rest, or the plain life only."""


class Result(msgspec.Struct, kw_only=True):
    """What came out."""

    plan: Plan
    report: Report
    trace: tuple[str, ...]
    alarms: tuple[str, ...]
    stale_refused: int
    """Commits of an old generation that the broker refused: how often fencing was needed."""
    faults: dict[str, int]
    """How often what was done to it."""
    view: LogView
    journals: Journals

    @property
    def ok(self) -> bool:
        """Whether every promise held and no process or job failed by itself."""
        return self.report.ok and not self.alarms

    def story(self, lines: int = 200) -> str:
        """Tell a failed run: the seed first, then what was found, then the end of the trace."""
        head = f"seed {self.plan.seed} (PYTHONHASHSEED=0): {self.plan}"
        return "\n".join([head, self.report.to_table(), *self.alarms, *self.trace[-lines:]])


def simulate(plan: Plan) -> Result:
    """Run a plan to its end and judge it."""
    return live_through(Fleet(plan))


def live_through(fleet: Fleet) -> Result:
    """Run a fleet to the end of its plan and judge it."""
    with pytest.MonkeyPatch.context() as patch:
        VirtualClients(fleet.world, fleet.broker, fleet.weather, patch, fleet.idle_wait_ms)
        try:
            fleet.run()
        finally:
            fleet.world.end()
    return fleet.judge()


class Fleet:
    """Everything that takes part."""

    starts_ms: tuple[int, ...] = STARTS_MS
    idle_wait_ms = IDLE_WAIT_MS
    scheduler = SchedulerSettings(open_runs_max=16)
    limits = Limits(open_runs_max=16)

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan.seed, self.starts_ms[plan.seed % len(self.starts_ms)])
        self.settings = Settings(topics=TopicSettings(partitions=plan.partitions), scheduler=self.scheduler)
        self.zone_data = INSTALLED_ZONE_DATA
        """What owners that start from now on have."""
        self.names = {topic.value: topic_name(self.settings, topic) for topic in Topic}
        self.broker = MemoryBroker(self.world, plan.partitions)
        self.weather = Weather()
        self.habits = Habits()
        self.books = Books()
        self.alarms: list[str] = []
        self.owners: list[OwnerProcess] = []
        self.gateways: list[Gateway] = []
        self.faulty = True
        self._owner_number = 0
        self._starting = 0
        self._whole_at_ms = 0.0
        self.around = around = Surroundings(
            world=self.world,
            broker=self.broker,
            habits=self.habits,
            books=self.books,
            commands_topic=self.names["commands"],
            replies_topic=self.names["replies"],
            tell_owners=self._tell_owners,
        )
        for number in range(plan.gateways):
            self.gateways.append(Gateway(around, f"gw-{number}", list(LINES), plan.workers))
        self.client = Client(around, self.gateways)
        self.workload = self._workload()

    def _workload(self) -> Workload:
        plan = self.plan
        return Workload(
            self.world, self.client, plan.jobs, change_every_ms=plan.change_every_ms, policies=plan.policies
        )

    def config_reader(self, _: Process) -> ConfigSource | None:
        """Give a new process its reader of topic `config`; None: there are no calendars."""
        return None

    def run(self) -> None:
        """Live through the plan, then heal."""
        for number in range(self.plan.owners):
            self._start_owner({}, delay_ms=self.world.rng.uniform(0, 3_000) * number)
        self.world.at(4_000.0, self.workload.begin)
        if self.plan.fault_every_ms:
            self.habits.message_lost = 0.01
            self.habits.message_doubled = 0.03
            self.habits.worker_dies = 0.02
            self.habits.worker_sleeps = self.plan.worker_sleeps
            self.habits.slow = self.plan.slow
            self._next_fault()
        end_ms = self.plan.hours * HOUR_MS
        self.world.run(end_ms)
        self._heal()
        self.world.run(max(end_ms, self._whole_at_ms) + self.plan.heal_ms)

    def judge(self) -> Result:
        """Hand the log to the checker."""
        for owner in self.owners:
            self.alarms.extend(f"{owner.name}: {failure}" for failure in owner.process.failures())
        view = self.view()
        journals = Journals(calls=tuple(self.books.calls), executions=tuple(self.books.executions))
        faults = Faults(faults=tuple(self.books.faults))
        return Result(
            plan=self.plan,
            report=check(view, journals, faults, self.limits),
            trace=tuple(self.world.trace),
            alarms=tuple(self.alarms),
            stale_refused=self.broker.stale_refused,
            faults=dict(Counter(fault.kind for fault in self.books.faults)),
            view=view,
            journals=journals,
        )

    def view(self) -> LogView:
        """Give what a read_committed consumer sees of all topics now."""
        refused = frozenset(
            (topic, partition, entry.offset)
            for topic in TOPICS
            for (name, partition), entries in self.broker.log.items()
            if name == self.names[topic]
            for entry in entries
            if entry.transaction is not None and entry.transaction.state == "aborted"
        )
        commands = self.names["commands"]
        committed = {p: self.broker.committed[commands, p] for p in range(self.plan.partitions)}
        return LogView(self._records(), committed=committed, end_at_ms=self.world.epoch_ms, whole=True, refused=refused)

    def _records(self) -> Iterator[LogRecord]:
        for topic in TOPICS:
            for name, partition in sorted(self.broker.log):
                if name != self.names[topic]:
                    continue
                for entry in self.broker.read(name, partition, 0):
                    yield LogRecord(
                        topic=topic,
                        partition=partition,
                        offset=entry.offset,
                        timestamp_ms=entry.at_ms,
                        key=entry.key,
                        value=entry.value,
                        headers=entry.headers,
                    )

    # --- the fleet ---

    def _start_owner(self, disk: dict[int, MemoryStore], delay_ms: float = 0.0) -> None:
        self._starting += 1

        def start() -> None:
            self._starting -= 1
            self._owner_number += 1
            name = f"owner-{self._owner_number}"
            self.owners.append(
                OwnerProcess(
                    self.world,
                    name,
                    broker=self.broker,
                    weather=self.weather,
                    settings=self.settings,
                    zone_data=self.zone_data,
                    disk=disk,
                    send_offers=self._send_offers,
                    alarms=self.alarms,
                    config_reader=self.config_reader,
                )
            )
            self.world.note(f"{name} starts")

        self.world.at(delay_ms, start)

    def _living(self) -> list[OwnerProcess]:
        return [owner for owner in self.owners if not owner.process.dead and not owner.left]

    def _tell_owners(self, demand: Demand) -> None:
        for owner in self._living():
            delay_ms = self.world.rng.uniform(0.5, 4.0)
            self.world.at(delay_ms, lambda owner=owner: owner.process.call(owner.owner.heard_demand, demand))  # type: ignore[misc]  # bound now

    def _send_offers(self, offers: Any) -> None:
        for one in offers:
            if self.world.rng.random() < self.habits.message_lost:
                continue
            for gateway in self.gateways:
                if gateway.name == one.gateway_id:
                    self._later(lambda gateway=gateway, one=one: gateway.offered(one))  # type: ignore[misc]  # bound now

    def _later(self, call: Callable[[], None]) -> None:
        self.world.at(self.world.rng.uniform(0.5, 4.0), call)

    # --- faults ---

    def _next_fault(self) -> None:
        self.world.at(self.world.rng.expovariate(1.0 / self.plan.fault_every_ms), self._fault)

    def _fault(self) -> None:
        if not self.faulty:
            return
        self._next_fault()
        wanted = self.plan.kinds
        kinds = {kind: often for kind, often in self._kinds().items() if not wanted or kind.__name__ in wanted}
        self.world.rng.choices([*kinds], weights=[*kinds.values()])[0]()

    def _kinds(self) -> dict[Callable[[], None], int]:
        """Give what may go wrong, and how often relative to each other."""
        return {
            self._kill_owner: 3,
            self._kill_owner_at_a_step: 6,
            self._freeze_owner: 2,
            self._freeze_owner_at_a_step: 6,
            self._stop_owner: 2,
            self._join_owner: 2,
            self._kill_gateway: 2,
            self._bad_weather: 3,
            self._all_owners_down: 1,
        }

    def _book(self, kind: str, lasts_ms: float, target: str = "") -> None:
        """Write a fault down, together with the time in which others still suffer from it."""
        self._whole_at_ms = max(self._whole_at_ms, self.world.t_ms + lasts_ms)
        now_ms = self.world.epoch_ms
        self.world.note(f"fault {kind} {target} for {lasts_ms / 1000:.1f} s")
        fault = Fault(kind=kind, from_ms=now_ms, to_ms=now_ms + int(lasts_ms) + 15_000, target=target)
        self.books.faults.append(fault)

    def _kill_owner(self, owner: OwnerProcess | None = None) -> None:
        owner = owner or self._any_owner()
        if owner is None or owner.process.dead:
            return
        back_ms = self.world.rng.uniform(500, 20_000)
        self._book("owner_kill", back_ms, owner.name)
        owner.kill()
        self._start_owner(owner.disk, back_ms)

    def _kill_owner_at_a_step(self) -> None:
        self._at_a_step(self._kill_owner)

    def _freeze_owner(self, owner: OwnerProcess | None = None) -> None:
        owner = owner or self._any_owner()
        if owner is None or owner.process.dead or owner.process.frozen:
            return
        for_ms = self.world.rng.choice((800.0, 3_000.0, 9_000.0, 15_000.0, 40_000.0))
        self._book("owner_freeze", for_ms, owner.name)
        owner.freeze()
        self.world.at(for_ms, owner.thaw)

    def _freeze_owner_at_a_step(self) -> None:
        self._at_a_step(self._freeze_owner)

    def _at_a_step(self, deed: Callable[[OwnerProcess], None]) -> None:
        owner = self._any_owner()
        if owner is not None:
            step = self.world.rng.choice(("begin", "produce", "flush", "offsets", "commit", "apply"))
            self.world.note(f"{owner.name} will meet a fault before {step}")
            owner.trap.set(step, lambda: deed(owner))

    def _stop_owner(self) -> None:
        owner = self._any_owner()
        if owner is None:
            return
        back_ms = self.world.rng.uniform(1_000, 10_000)
        self._book("owner_stop", back_ms, owner.name)
        owner.stop()
        self._start_owner(owner.disk, back_ms)

    def _join_owner(self) -> None:
        if len(self._living()) < self.plan.owners + 2:
            self._book("owner_join", 5_000)
            self._start_owner({})

    def _kill_gateway(self) -> None:
        gateway = self.world.rng.choice(self.gateways)
        back_ms = self.world.rng.uniform(500, 20_000)
        if gateway.alive:
            self._book("gateway_kill", back_ms, gateway.name)
            gateway.kill()
            self.world.at(back_ms, gateway.revive)

    def _bad_weather(self) -> None:
        for_ms = self.world.rng.uniform(2_000, 30_000)
        self._book("bad_weather", for_ms)
        self.weather.slow = self.world.rng.choice((1.0, 30.0, 300.0))
        self.weather.lost_acks = self.world.rng.choice((0.0, 0.1, 0.4))
        self.weather.lost_for_good = self.world.rng.choice((0.0, 0.02, 0.1))
        self.world.at(for_ms, self._good_weather)

    def _good_weather(self) -> None:
        self.weather.slow, self.weather.lost_acks, self.weather.lost_for_good = 1.0, 0.0, 0.0

    def _all_owners_down(self, down_ms: float = 0.0) -> None:
        down_ms = down_ms or self.world.rng.choice((10_000.0, 90_000.0, 240_000.0))
        self._book("all_owners_down", down_ms)
        for owner in self._living():
            owner.kill()
            self._start_owner(owner.disk, down_ms + self.world.rng.uniform(0, 2_000))

    def _any_owner(self) -> OwnerProcess | None:
        living = self._living()
        return self.world.rng.choice(living) if living else None

    def _heal(self) -> None:
        """End all faults and make the fleet whole."""
        self.world.note("heal")
        self.faulty = False
        self._good_weather()
        self.habits.message_lost = self.habits.message_doubled = self.habits.worker_dies = self.habits.worker_sleeps = (
            0.0
        )
        self.habits.slow = self.habits.stuck = 0.0
        self.workload.quiet = True
        for gateway in self.gateways:
            if not gateway.alive:
                gateway.revive()
        for owner in self.owners:
            if owner.process.frozen:
                owner.thaw()
            owner.trap.set("", lambda: None)
