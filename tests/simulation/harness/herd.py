"""A herd: many one-off jobs that fall due at one instant, and one job of another tenant a moment later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from streams.core.definition import Definition
from streams.core.time import OneOffSpec
from tests.simulation.harness.scenario import Fleet, Plan, Result, live_through
from tests.simulation.harness.workload import Workload

if TYPE_CHECKING:
    from streams.audit.report import Lateness
    from tests.simulation.harness.actors import Client
    from tests.simulation.harness.virtual_time import World

DUE_AFTER_MS: Final = 60_000
"""From the start of the world: all owners and definitions are there by then."""

LONE: Final = "lone"
LONE_AFTER_MS: Final = 500
"""The other tenant's job, behind the herd."""


class Herd(NamedTuple):
    """What came of it."""

    result: Result
    herd: Lateness
    """Instant to first grant."""
    lone: Lateness
    generations: int
    """Those of the group from the herd's instant on; none while every owner kept its place."""


class HerdPlan(Plan, frozen=True, kw_only=True):
    """A plan without faults and without changes; only the way to the broker may be slow."""

    fault_every_ms: float = 0.0
    slow: float = 0.0
    policies: bool = False
    slower: float = 1.0
    """Requests to the broker take so many times as long, from the start."""


class _HerdWorkload(Workload):
    def __init__(self, world: World, client: Client, jobs: int) -> None:
        super().__init__(world, client, 0, change_every_ms=1.0, policies=False)
        self._herd = jobs

    def begin(self) -> None:
        due_ms = self.world.start_ms + DUE_AFTER_MS
        for number in range(self._herd):
            self._create(_one_off(f"herd-{number}", "blue", due_ms))
        self._create(_one_off(LONE, "red", due_ms + LONE_AFTER_MS))


def _one_off(job_id: str, tenant: str, at_ms: int) -> Definition:
    return Definition(job_id=job_id, tenant=tenant, queue="mail", name=job_id, task="send", schedule=OneOffSpec(at_ms))


class _HerdFleet(Fleet):
    def _workload(self) -> Workload:
        return _HerdWorkload(self.world, self.client, self.plan.jobs)


def stampede(plan: HerdPlan) -> Herd:
    """Let the herd fall due, and judge the log."""
    fleet = _HerdFleet(plan)
    fleet.weather.slow = plan.slower
    fleet.habits.slow = fleet.habits.fails = fleet.habits.fails_for_good = 0.0
    before: list[int] = []
    fleet.world.at(DUE_AFTER_MS, lambda: before.append(fleet.broker.generation))
    result = live_through(fleet)
    late = result.report.lateness_by_tenant
    return Herd(result, late["blue"], late["red"], fleet.broker.generation - before[0])
