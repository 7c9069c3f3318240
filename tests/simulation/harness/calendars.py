"""A fleet whose jobs name calendars, calendars that change while runs fall due, and owners that read of it late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from streams.core.calendar_records import CalendarBook, CalendarRecord, calendar_key, encode_calendar
from streams.core.commands import Define
from tests.simulation.harness.scenario import Fleet
from tests.simulation.harness.workload import LINES, Workload

if TYPE_CHECKING:
    from streams.owner import Owner
    from tests.simulation.harness.actors import Client
    from tests.simulation.harness.memory_broker import MemoryBroker
    from tests.simulation.harness.virtual_time import Process, World

NAME: Final = "closed"
READ_MS: Final = (5.0, 400.0)
"""From the append of a record until an owner has read it."""

CHANGE_EVERY_MS: Final = 30_000.0


class VirtualConfigReader:
    """Stands for the reader's thread of one process."""

    def __init__(self, world: World, broker: MemoryBroker, topic: str, process: Process) -> None:
        self._world, self._broker, self._topic, self._process = world, broker, topic, process
        self._book = CalendarBook()
        self._owner: Owner | None = None
        broker.listeners[topic].append(lambda _: self._soon(0))

    def attach(self, owner: Owner) -> None:
        """Read whole before the process acts."""
        self._owner = owner
        self._read(0)

    def look(self, number: int) -> None:
        """See ConfigReader."""
        self._soon(number)

    def _soon(self, number: int) -> None:
        self._world.at(self._world.rng.uniform(*READ_MS), lambda: self._process.call(self._read, number))

    def _read(self, number: int) -> None:
        for entry in self._broker.read(self._topic, 0, self._book.next_offset):
            self._book.take((entry.key or b"").decode(), entry.value, entry.offset)
        if self._owner is not None:
            self._owner.heard_config(self._book.calendars, self._book.next_offset, number)


class CalendarWorkload(Workload):
    """Half of the jobs name their tenant's calendar, which opens and closes minutes that are near."""

    calendar_every_ms = CHANGE_EVERY_MS

    def __init__(self, fleet: Fleet) -> None:
        plan = fleet.plan
        super().__init__(
            fleet.world, fleet.client, plan.jobs, change_every_ms=plan.change_every_ms, policies=plan.policies
        )
        self._broker, self._topic = fleet.broker, fleet.names["config"]
        self._offsets: dict[str, int] = {}
        self.client = cast("Client", _Telling(fleet.client, self._offsets))

    def begin(self) -> None:
        """Put the calendars first, as a user does."""
        for tenant in sorted({tenant for tenant, _ in LINES}):
            self._put(tenant)
        super().begin()
        self._next_calendar()

    def _next_calendar(self) -> None:
        self.world.at(self.world.rng.expovariate(1.0 / self.calendar_every_ms), self._change_calendar)

    def _change_calendar(self) -> None:
        if self.quiet:
            return
        self._next_calendar()
        tenant = self.world.rng.choice(sorted(self._offsets))
        if self.world.rng.random() < 0.1:
            self._offsets[tenant] = self._broker.append(self._topic, 0, calendar_key(tenant, NAME).encode(), None)
        else:
            self._put(tenant)

    def _put(self, tenant: str) -> None:
        rng = self.world.rng
        minute = self.world.epoch_ms // 60_000 % 60
        first = (minute + rng.randrange(4)) % 60
        rules = (f"{first}-{min(59, first + rng.randrange(5))} * * * *",) if rng.random() < 0.8 else ()
        record = CalendarRecord(tenant=tenant, name=NAME, time_zone="Europe/Berlin", rules=rules)
        key = calendar_key(tenant, NAME)
        self._offsets[tenant] = self._broker.append(self._topic, 0, key.encode(), encode_calendar(record))

    def _definition(self, job_id: str, schedule: Any, line: tuple[str, str] | None = None) -> Any:
        definition = super()._definition(job_id, schedule, line)
        on_calendar = self.world.rng.random() < 0.5
        return msgspec.structs.replace(definition, calendars=(NAME,)) if on_calendar else definition


class _Telling:
    """Says in each definition how far its gateway had read, as gateways do."""

    def __init__(self, client: Any, offsets: dict[str, int]) -> None:
        self._client, self._offsets = client, offsets

    def call(self, command: Any, **options: Any) -> None:
        if isinstance(command, Define) and command.definition.calendars:
            offset = self._offsets[command.definition.tenant] + 1
            command = msgspec.structs.replace(command, config_offset=offset)
        self._client.call(command, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class CalendarFleet(Fleet):
    """The same fleet, with calendars."""

    def config_reader(self, process: Process) -> VirtualConfigReader:
        """Give a new process its reader."""
        return VirtualConfigReader(self.world, self.broker, self.names["config"], process)

    def _workload(self) -> Workload:
        return CalendarWorkload(self)
