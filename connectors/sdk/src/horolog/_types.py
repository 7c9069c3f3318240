"""What the gateway answers, as frozen values; the shapes of docs/http-api.md in Python names.

Unknown members of an answer are ignored, missing ones take the default, so that an older SDK reads a newer
gateway. Instants are aware datetimes in UTC, durations carry their unit in the name.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from horolog._wire import parse_time

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping

T = TypeVar("T")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@cache
def _plan(cls: Any) -> tuple[tuple[str, str, Callable[[Any], Any] | None], ...]:
    return tuple((f.name, _camel(f.name), f.metadata.get("convert")) for f in dataclasses.fields(cls))


def decode(cls: type[T], wire: Mapping[str, Any]) -> T:
    """Build one of this module's values from a JSON object. Raises TypeError if a required member is missing."""
    values: dict[str, Any] = {}
    for name, member, convert in _plan(cls):  # type: ignore[arg-type]  # mypy takes a TypeVar's class for unhashable
        value = wire.get(member)
        if value is not None:
            values[name] = convert(value) if convert else value
    return cls(**values)


def _many(cls: type[Any]) -> Mapping[str, Any]:
    return {"convert": lambda items: tuple(decode(cls, item) for item in items)}


# How a member's JSON becomes its value, as metadata of the field; without it the JSON value is taken as it is.
_TIME: Mapping[str, Any] = {"convert": parse_time}
_TUPLE: Mapping[str, Any] = {"convert": tuple}
_MAPPING: Mapping[str, Any] = {"convert": dict}


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list; `next_cursor` is None on the last one."""

    items: tuple[T, ...]
    next_cursor: str | None = None


@dataclass(frozen=True)
class JobRef:
    """The answer to a create or edit. `replayed` is true when an earlier create with this key was answered again."""

    job_id: str
    version: int = 0
    next_run_at: dt.datetime | None = field(default=None, metadata=_TIME)
    warnings: tuple[str, ...] = field(default=(), metadata=_TUPLE)
    state: str = "active"
    replayed: bool = False
    consistency_token: str | None = None


@dataclass(frozen=True)
class Pause:
    """Who paused a job, when, why and until when."""

    actor: str | None = None
    note: str | None = None
    since: dt.datetime | None = field(default=None, metadata=_TIME)
    until: dt.datetime | None = field(default=None, metadata=_TIME)


@dataclass(frozen=True)
class Job:
    """A job: its definition with defaults filled in, and where it stands."""

    job_id: str
    tenant: str = "default"
    version: int = 0
    state: str = "active"
    name: str = ""
    queue: str = "default"
    task: str = ""
    lane: str = "normal"
    schedule: Mapping[str, Any] | None = None
    run_at: dt.datetime | None = field(default=None, metadata=_TIME)
    run_at_local: str | None = None
    time_zone: str | None = None
    delay_seconds: float | None = None
    payload: Any = None
    payload_base64: str | None = None
    retry: Mapping[str, Any] = field(default_factory=dict, metadata=_MAPPING)
    catch_up: str = "latest"
    overlap: str = "skip"
    timeout_seconds: float | None = None
    start_deadline_seconds: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict, metadata=_MAPPING)
    start_at: dt.datetime | None = field(default=None, metadata=_TIME)
    end_at: dt.datetime | None = field(default=None, metadata=_TIME)
    max_runs: int | None = None
    jitter_seconds: float = 0
    calendars: tuple[Any, ...] = field(default=(), metadata=_TUPLE)
    concurrency_key: str | None = None
    concurrency_weight: int = 1
    next_run_at: dt.datetime | None = field(default=None, metadata=_TIME)
    paused: Pause | None = field(default=None, metadata={"convert": lambda wire: decode(Pause, wire)})
    open_runs: int = 0
    created_at: dt.datetime | None = field(default=None, metadata=_TIME)
    updated_at: dt.datetime | None = field(default=None, metadata=_TIME)
    warnings: tuple[str, ...] = field(default=(), metadata=_TUPLE)


@dataclass(frozen=True)
class AttemptRecord:
    """One lease of a run, as history tells it; `end` is None while it lasts."""

    attempt: int = 0
    lease_token: int = 0
    worker_id: str | None = None
    granted_at: dt.datetime | None = field(default=None, metadata=_TIME)
    ended_at: dt.datetime | None = field(default=None, metadata=_TIME)
    end: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class RunRecord:
    """A run as the gateway describes it (`Run` is what a handler gets)."""

    run_id: str
    job_id: str = ""
    tenant: str = "default"
    queue: str = "default"
    lane: str = "normal"
    task: str = ""
    origin: str = "schedule"
    job_version: int = 0
    scheduled_for: dt.datetime | None = field(default=None, metadata=_TIME)
    state: str = "ready"
    outcome: str | None = None
    reason: str | None = None
    attempt: int = 0
    max_attempts: int = 0
    lease_token: int = 0
    worker_id: str | None = None
    granted_at: dt.datetime | None = field(default=None, metadata=_TIME)
    lease_expires_at: dt.datetime | None = field(default=None, metadata=_TIME)
    next_attempt_at: dt.datetime | None = field(default=None, metadata=_TIME)
    closed_at: dt.datetime | None = field(default=None, metadata=_TIME)
    lateness_ms: float | None = None
    replay_of: str | None = None
    cancel_requested: bool = False
    progress: Any = None
    result: Any = None
    error: str | None = None
    attempts: tuple[AttemptRecord, ...] = field(default=(), metadata=_many(AttemptRecord))


@dataclass(frozen=True)
class Triggered:
    """The run that a trigger opened."""

    run_id: str
    job_id: str = ""
    scheduled_for: dt.datetime | None = field(default=None, metadata=_TIME)


@dataclass(frozen=True)
class Skipped:
    """An occurrence that will not run."""

    job_id: str
    run_id: str = ""
    at: dt.datetime | None = field(default=None, metadata=_TIME)
    next_run_at: dt.datetime | None = field(default=None, metadata=_TIME)


@dataclass(frozen=True)
class Backfill:
    """A backfill, or what one would do (`backfill_id` None: a dry run)."""

    job_id: str
    backfill_id: str | None = None
    runs: int = 0
    first_at: dt.datetime | None = field(default=None, metadata=_TIME)
    last_at: dt.datetime | None = field(default=None, metadata=_TIME)


@dataclass(frozen=True)
class BackfillProgress:
    """How far a backfill of `[from_, to)` is.

    `runs`: occurrences in its range when it began; `opened`: of these so far; `open`: of those not closed yet;
    `remaining`: still to be opened. `ended_by`: "completed", "stopped" or "deleted". Of the answer to `stop_backfill`
    only ids and state are known.
    """

    backfill_id: str
    job_id: str = ""
    state: str = "running"
    ended_by: str | None = None
    runs: int | None = None
    opened: int | None = None
    open: int | None = None
    remaining: int | None = None
    next_at: dt.datetime | None = field(default=None, metadata=_TIME)
    from_: dt.datetime | None = field(default=None, metadata=_TIME)
    to: dt.datetime | None = field(default=None, metadata=_TIME)
    max_concurrent: int | None = None
    rate_per_second: float | None = None
    started_at: dt.datetime | None = field(default=None, metadata=_TIME)
    ended_at: dt.datetime | None = field(default=None, metadata=_TIME)


@dataclass(frozen=True)
class BulkItem:
    """What became of one job or dead run of a bulk change; `ok` is None in a dry run."""

    job_id: str = ""
    run_id: str = ""
    new_run_id: str | None = None
    ok: bool | None = None
    code: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class BulkChange:
    """One page of a bulk change; `undo_token` takes back what it changed, `next_cursor` leads to the rest."""

    correlation_id: str
    action: str = ""
    dry_run: bool = True
    matched: int = 0
    changed: int = 0
    jobs: tuple[BulkItem, ...] = field(default=(), metadata=_many(BulkItem))
    next_cursor: str | None = None
    undo_token: str | None = None


@dataclass(frozen=True)
class Replayed:
    """The answer to a bulk replay of dead runs, one page of it: what became of each, and where to go on."""

    matched: int = 0
    replayed: int = 0
    runs: tuple[str, ...] = field(default=(), metadata=_TUPLE)
    dry_run: bool = True
    items: tuple[BulkItem, ...] = field(default=(), metadata=_many(BulkItem))
    next_cursor: str | None = None


@dataclass(frozen=True)
class Occurrence:
    """One instant of a preview, with its wall-clock form and a note (moved by a gap, and so on)."""

    at: dt.datetime = field(metadata=_TIME)
    local: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Preview:
    """The next occurrences of a job or a schedule."""

    job_id: str | None = None
    occurrences: tuple[Occurrence, ...] = field(default=(), metadata=_many(Occurrence))
    warnings: tuple[str, ...] = field(default=(), metadata=_TUPLE)


@dataclass(frozen=True)
class Condition:
    """One step of an explanation; `evidence` names topic, partition and offset of the record that proves it."""

    name: str
    holds: bool = False
    detail: str = ""
    evidence: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Explanation:
    """Why a run did or did not happen. The first condition that does not hold is the reason."""

    job_id: str
    at: dt.datetime | None = field(default=None, metadata=_TIME)
    run_id: str | None = None
    situation: str = ""
    summary: str = ""
    conditions: tuple[Condition, ...] = field(default=(), metadata=_many(Condition))


@dataclass(frozen=True)
class Queue:
    """A queue, its limits, and what waits in it; counts are None while not known."""

    queue: str
    tenant: str = "default"
    version: int = 0
    description: str | None = None
    max_running: int | None = None
    max_lease_rate_per_second: float | None = None
    workers_polling: int | None = None
    slots_polling: int | None = None
    ready: Mapping[str, int] | None = None
    leased: int | None = None
    retrying: int | None = None
    oldest_ready_age_ms: float | None = None


@dataclass(frozen=True)
class ConcurrencyKey:
    """A concurrency key and its limit in units; without a limit nothing is counted."""

    key: str
    tenant: str = "default"
    version: int = 0
    description: str | None = None
    max_running: int | None = None
    units_running: int | None = None
    runs_waiting: bool | None = None


@dataclass(frozen=True)
class Calendar:
    """An exclusion calendar: jobs that name it do not run on its dates, nor where one of its rules matches."""

    name: str
    tenant: str = "default"
    version: int = 0
    time_zone: str = "UTC"
    dates: tuple[str, ...] = field(default=(), metadata=_TUPLE)
    rules: tuple[str, ...] = field(default=(), metadata=_TUPLE)
    description: str = ""
    updated_at: dt.datetime | None = field(default=None, metadata=_TIME)
    updated_by: str = ""


@dataclass(frozen=True)
class Tenant:
    """A tenant's limits; `None` means the service's default."""

    tenant: str
    version: int = 0
    pending_cap: int | None = None
    max_lease_rate_per_second: float | None = None
    weight: float | None = None


@dataclass(frozen=True)
class LeasedRun:
    """A run that was leased through the low-level client; a `Worker` hands out `Run` instead."""

    run_id: str
    job_id: str = ""
    queue: str = ""
    lane: str = "normal"
    task: str = ""
    attempt: int = 1
    max_attempts: int | None = None
    lease_token: int = 0
    lease_expires_at: dt.datetime | None = field(default=None, metadata=_TIME)
    lease_remaining_ms: float = 0
    scheduled_for: dt.datetime | None = field(default=None, metadata=_TIME)
    timeout_seconds: float | None = None
    payload: Any = None
    payload_base64: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict, metadata=_MAPPING)


@dataclass(frozen=True)
class ItemResult:
    """The answer for one run: of a single heartbeat, complete, fail or release, or one item of a batch form.

    A single form raises instead of answering `ok=False`.
    """

    run_id: str
    ok: bool = False
    status: int = 200
    code: str | None = None
    detail: str | None = None
    cancel: bool = False
    cancel_reason: str | None = None
    lease_remaining_ms: float | None = None
    lease_expires_at: dt.datetime | None = field(default=None, metadata=_TIME)
    outcome: str | None = None
    next_attempt_at: dt.datetime | None = field(default=None, metadata=_TIME)
    current_attempt: int | None = None
    replayed: bool = False
    field: str | None = None
    limit: float | None = None
    retry_after_seconds: float | None = None
    run_state: str | None = None


@dataclass(frozen=True)
class Readiness:
    """Whether the gateway is ready, and which checks say so."""

    ready: bool
    checks: tuple[Mapping[str, Any], ...] = ()
    status: str = ""
