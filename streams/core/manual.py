"""One job under one manual clock: what an owner does around `decide`, without Kafka, threads or real time.

For tests, the simulator and what-if questions. `ManualOwner` keeps the soft state that the core is told
about (heartbeats, take-over, what was consumed), folds every event with `apply`, and keeps a log of them. It
grants nothing by itself: each step is a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from streams.core.apply import apply
from streams.core.calendars import Calendar, Calendars
from streams.core.commands import Complete, Define, Fail, Grant, Heartbeat, LeaseRun, Release, Reply, Wake
from streams.core.context import Context, Decision
from streams.core.deadline import deadline_ms, ready_runs, upcoming
from streams.core.decide import decide
from streams.core.definition import Definition
from streams.core.state import OPEN_RUNS_MAX
from streams.core.time import INSTALLED_ZONE_DATA, IntervalSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.core.commands import AnyCommand
    from streams.core.events import AnyEvent
    from streams.core.state import Job, JobState, OpenRun
    from streams.core.time import CalendarSpec, ZoneData

WAKES_MAX: Final = 10_000
"""Of one `run_until`: past it the job keeps waking itself, which is a defect."""


class ManualOwner:
    """The owner of one job. Set `now_ms` and the soft state as the story needs them."""

    def __init__(self, *, now_ms: int, job_id: str = "job", zone_data: ZoneData = INSTALLED_ZONE_DATA) -> None:
        self.job_id = job_id
        self.now_ms = now_ms
        self.zone_data = zone_data
        self.zone_data_before: dict[str, ZoneData] = {}
        self.calendars: Mapping[str, CalendarSpec] = {}
        """Of the job's tenant; each change is another record of topic `config`."""
        self._calendars_known: dict[str, Calendar] = {}
        self._config_end = 0
        self.heartbeats: dict[str, int] = {}
        self.takeover_at_ms = 0
        self.consumed_lag_ms = 0
        self.absent = (0, 0)
        self.open_runs_max = OPEN_RUNS_MAX
        self.job: Job | None = None
        self.log: list[AnyEvent] = []
        self._requests = 0

    def context(self) -> Context:
        """Return what `decide` is told at this moment."""
        return Context(
            now_ms=self.now_ms,
            zone_data=self.zone_data,
            zone_data_before=self.zone_data_before,
            calendars=self._calendars(),
            heartbeats=self.heartbeats,
            takeover_at_ms=self.takeover_at_ms,
            consumed_to_ms=self.now_ms - self.consumed_lag_ms,
            absent_from_ms=self.absent[0],
            absent_to_ms=self.absent[1],
            open_runs_max=self.open_runs_max,
        )

    def _calendars(self) -> Calendars:
        known = self._calendars_known
        for name in [name for name in known if self.calendars.get(name) != known[name].spec]:
            del known[name]
            self._config_end += 1
        for name, spec in self.calendars.items():
            if name not in known:
                known[name] = Calendar(spec, self._config_end)
                self._config_end += 1
        tenant = self.definition().tenant
        return Calendars({(tenant, name): calendar for name, calendar in known.items()}, self._config_end)

    def do(self, command: AnyCommand) -> Decision:
        """Decide, fold and log; note the heartbeat of a living lease."""
        decision = decide(self.job, command, self.context())
        for event in decision.events:
            self.job = apply(self.job, event)
        self.log.extend(decision.events)
        reply = decision.reply
        if isinstance(command, Heartbeat) and isinstance(reply, Reply) and reply.code == "ok" and not reply.replayed:
            self.heartbeats[command.run_id] = command.at_ms or self.now_ms
        return decision

    def wake(self) -> Decision:
        """Let the job's own clock decide."""
        return self.do(Wake(job_id=self.job_id))

    def run_until(self, until_ms: int) -> None:
        """Wake the job at each of its deadlines up to `until_ms` (inclusive), and leave the clock there."""
        for _ in range(WAKES_MAX):
            due_at_ms = None if self.job is None else deadline_ms(self.job, open_runs_max=self.open_runs_max)
            if due_at_ms is None or due_at_ms > until_ms:
                self.now_ms = max(self.now_ms, until_ms)
                return
            self.now_ms = max(self.now_ms, due_at_ms)
            decision = self.wake()
            if decision.wake_at_ms > until_ms:
                self.now_ms = max(self.now_ms, until_ms)
                return
            self.now_ms = max(self.now_ms, decision.wake_at_ms)
        raise RuntimeError(f"job {self.job_id} woke {WAKES_MAX} times before {until_ms}")

    def definition(self, **fields: Any) -> Definition:
        """Return a definition of this job; hourly from the epoch unless `schedule` says otherwise."""
        defaults: dict[str, Any] = {
            "job_id": self.job_id,
            "tenant": "team",
            "queue": "line",
            "name": "work",
            "task": "work",
            "schedule": IntervalSpec(every_ms=3_600_000, anchor_ms=0),
        }
        return Definition(**(defaults | fields))

    def define(self, **fields: Any) -> Reply:
        """Create or edit the job; the request hash is that of the fields."""
        definition = self.definition(**fields)
        return self.reply(Define(job_id=self.job_id, definition=definition, request_hash=repr(definition)))

    def reply(self, command: AnyCommand) -> Reply:
        """Do a command that is answered with a Reply."""
        answer = self.do(command).reply
        if not isinstance(answer, Reply):
            raise TypeError(f"{type(command).__name__} was answered with {answer!r}")
        return answer

    def lease(self, run_id: str = "", **fields: Any) -> Decision:
        """Ask for a run: the named one, else the first ready one, else the upcoming one."""
        if not run_id:
            ready = ready_runs(self.state)
            following = upcoming(self.must())
            run_id = ready[0].run_id if ready else following[0] if following else "run_none_none"
        self._requests += 1
        defaults: dict[str, Any] = {"request_id": f"r{self._requests}", "worker_id": "w", "gateway_id": "g"}
        return self.do(LeaseRun(job_id=self.job_id, run_id=run_id, **(defaults | fields)))

    def grant(self, run_id: str = "", **fields: Any) -> Grant:
        """Ask for a run and get it."""
        answer = self.lease(run_id, **fields).reply
        if not isinstance(answer, Grant):
            raise TypeError(f"no grant: {answer!r}")
        return answer

    def complete(self, grant: Grant) -> Reply:
        """Complete a granted run."""
        return self.reply(Complete(job_id=self.job_id, run_id=grant.run_id, lease_token=grant.lease_token))

    def fail(self, grant: Grant, *, error: str = "boom", retryable: bool = True) -> Reply:
        """Fail a granted run."""
        command = Fail(
            job_id=self.job_id,
            run_id=grant.run_id,
            lease_token=grant.lease_token,
            error=error,
            retryable=retryable,
        )
        return self.reply(command)

    def heartbeat(self, grant: Grant) -> Reply:
        """Heartbeat for a granted run."""
        return self.reply(Heartbeat(job_id=self.job_id, run_id=grant.run_id, lease_token=grant.lease_token))

    def release(self, grant: Grant) -> Reply:
        """Hand a granted run back."""
        return self.reply(Release(job_id=self.job_id, run_id=grant.run_id, lease_token=grant.lease_token))

    def must(self) -> Job:
        """Return the job, which exists."""
        if self.job is None:
            raise ValueError(f"there is no job {self.job_id}")
        return self.job

    @property
    def state(self) -> JobState:
        """The state of the job, which exists."""
        return self.must().state

    def run(self, run_id: str) -> OpenRun:
        """Return an open run."""
        run = self.must().run(run_id)
        if run is None:
            raise ValueError(f"run {run_id} is not open")
        return run

    def names(self) -> list[str]:
        """Return the names of all events so far."""
        return [type(event).__name__ for event in self.log]
