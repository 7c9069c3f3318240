"""The answers of docs/http-api.md as types, for the OpenAPI document. Views build values; tests hold them to these.

A member with a default may be left out of an answer. Instants are RFC 3339 texts in UTC.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all answers."""


class PauseAnswer(Answer, frozen=True, kw_only=True):
    """Who paused a job."""

    actor: str
    note: str
    since: str
    until: str | None


class JobRefAnswer(Answer, frozen=True, kw_only=True):
    """A job was created or changed. `consistencyToken`: give it to a list that must show this."""

    job_id: str
    version: int
    next_run_at: str | None
    warnings: list[str]
    consistency_token: str


class JobDeletedAnswer(Answer, frozen=True, kw_only=True):
    """A job was deleted."""

    job_id: str
    version: int
    state: Literal["deleted"]
    consistency_token: str


class JobAnswer(Answer, frozen=True, kw_only=True):
    """A job: its definition with defaults filled in, and where it stands. A deleted one has no definition left."""

    job_id: str
    tenant: str
    queue: str
    version: int
    state: Literal["active", "paused", "finished", "deleted"]
    next_run_at: str | None
    paused: PauseAnswer | None
    open_runs: int
    created_at: str | None
    updated_at: str | None
    warnings: list[str]
    name: str | UnsetType = UNSET
    task: str | UnsetType = UNSET
    schedule: dict[str, Any] | UnsetType = UNSET
    run_at: str | UnsetType = UNSET
    run_at_local: str | UnsetType = UNSET
    time_zone: str | UnsetType = UNSET
    payload: Any = UNSET
    payload_base64: str | UnsetType = UNSET
    retry: dict[str, Any] | UnsetType = UNSET
    catch_up: str | UnsetType = UNSET
    overlap: str | UnsetType = UNSET
    timeout_seconds: float | UnsetType | None = UNSET
    start_deadline_seconds: float | UnsetType | None = UNSET
    lane: str | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    start_at: str | UnsetType | None = UNSET
    end_at: str | UnsetType | None = UNSET
    max_runs: int | UnsetType | None = UNSET
    jitter_seconds: float | UnsetType = UNSET
    calendars: list[str] | UnsetType = UNSET
    concurrency_key: str | UnsetType | None = UNSET
    concurrency_weight: int | UnsetType = UNSET


class JobsAnswer(Answer, frozen=True, kw_only=True):
    """A page of jobs."""

    jobs: list[JobAnswer]
    next_cursor: str | None


class RunAnswer(Answer, frozen=True, kw_only=True):
    """A run. What the job's state does not keep is null."""

    run_id: str
    job_id: str
    tenant: str
    queue: str
    lane: str | None
    task: str | None
    origin: Literal["schedule", "trigger", "backfill", "replay"]
    replay_of: str | None
    job_version: int | None
    scheduled_for: str
    state: Literal["ready", "leased", "retrying", "queued", "closed"]
    outcome: Literal["ran", "skipped", "cancelled", "dead"] | None
    reason: str | None
    attempt: int
    max_attempts: int | None
    lease_token: int | None
    worker_id: str | None
    granted_at: str | None
    lease_expires_at: str | None
    next_attempt_at: str | None
    closed_at: str | None
    lateness_ms: int | None
    cancel_requested: bool
    progress: Any
    result: Any
    error: str | None
    attempts: list[dict[str, Any]]


class RunsAnswer(Answer, frozen=True, kw_only=True):
    """A page of runs."""

    runs: list[RunAnswer]
    next_cursor: str | None


class OccurrenceAnswer(Answer, frozen=True, kw_only=True):
    """One instant of a preview."""

    at: str
    local: str
    note: str | None


class PreviewAnswer(Answer, frozen=True, kw_only=True):
    """The next occurrences."""

    job_id: str | None
    occurrences: list[OccurrenceAnswer]
    warnings: list[str]


class ConditionAnswer(Answer, frozen=True, kw_only=True):
    """One step of an explanation."""

    name: str
    holds: bool
    detail: str
    evidence: dict[str, Any] | None


class ExplanationAnswer(Answer, frozen=True, kw_only=True):
    """Why a run did or did not happen."""

    job_id: str
    at: str | None
    run_id: str | None
    situation: str
    summary: str
    conditions: list[ConditionAnswer]


class TriggeredAnswer(Answer, frozen=True, kw_only=True):
    """The run that a trigger opened; `scheduledFor` is null when a repeat finds it closed."""

    run_id: str
    job_id: str
    scheduled_for: str | None


class SkippedAnswer(Answer, frozen=True, kw_only=True):
    """An occurrence that will not run."""

    job_id: str
    run_id: str
    at: str
    next_run_at: str | None


class BackfillStartedAnswer(Answer, frozen=True, kw_only=True):
    """A backfill, or what one would do (`backfillId` null)."""

    backfill_id: str | None
    job_id: str
    runs: int
    first_at: str | None
    last_at: str | None


class BackfillAnswer(Answer, frozen=True, kw_only=True):
    """How far a backfill is. `runs` is how many slots its range held when it began, `open` how many of its runs are."""

    backfill_id: str
    state: Literal["running", "ended"]
    ended_by: Literal["completed", "stopped", "deleted"] | None
    runs: int
    opened: int
    open: int
    remaining: int
    next_at: str | None
    from_: str = msgspec.field(name="from")
    to: str
    max_concurrent: int
    rate_per_second: float | None
    started_at: str
    ended_at: str | None


class BackfillsAnswer(Answer, frozen=True, kw_only=True):
    """Those that are going, and the last ones that ended, newest first."""

    job_id: str
    backfills: list[BackfillAnswer]


class BackfillStoppedAnswer(Answer, frozen=True, kw_only=True):
    """It opens nothing more."""

    backfill_id: str
    job_id: str
    state: Literal["ended"]


class BulkItem(Answer, frozen=True, kw_only=True):
    """What became of one job or run. `ok` is null in a dry run."""

    ok: bool | None
    job_id: str | UnsetType = UNSET
    run_id: str | UnsetType = UNSET
    new_run_id: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class BulkJobsAnswer(Answer, frozen=True, kw_only=True):
    """A bulk change, one page of it. `undoToken` takes back what this answer lists as changed."""

    correlation_id: str
    action: Literal["pause", "resume", "delete", "undo"]
    dry_run: bool
    matched: int
    changed: int
    jobs: list[BulkItem]
    next_cursor: str | None
    undo_token: str | None


class BulkReplayAnswer(Answer, frozen=True, kw_only=True):
    """A bulk replay, one page of it; `runs` has the dead run ids (at most 100), `items` what became of each."""

    matched: int
    replayed: int
    dry_run: bool
    runs: list[str]
    items: list[BulkItem]
    next_cursor: str | None


class ReadyByLane(Answer, frozen=True, kw_only=True):
    """Runs that wait, by lane."""

    high: int
    normal: int
    low: int


class QueueAnswer(Answer, frozen=True, kw_only=True):
    """A queue; counts are null while they are not known."""

    queue: str
    tenant: str
    version: int
    description: str
    max_running: int | None
    max_lease_rate_per_second: float | None
    workers_polling: int
    slots_polling: int
    ready: ReadyByLane | None
    leased: int | None
    retrying: int | None
    oldest_ready_age_ms: int | None


class QueuesAnswer(Answer, frozen=True, kw_only=True):
    """All queues of a tenant."""

    queues: list[QueueAnswer]


class ConcurrencyKeyAnswer(Answer, frozen=True, kw_only=True):
    """A concurrency key; without a limit nothing is counted."""

    key: str
    tenant: str
    version: int
    description: str
    max_running: int | None
    units_running: int | None
    runs_waiting: bool | None


class ConcurrencyKeysAnswer(Answer, frozen=True, kw_only=True):
    """All concurrency keys of a tenant that have a limit."""

    concurrency_keys: list[ConcurrencyKeyAnswer]


class TenantAnswer(Answer, frozen=True, kw_only=True):
    """A tenant's limits; null: none."""

    tenant: str
    version: int
    pending_cap: int | None
    max_lease_rate_per_second: float | None
    weight: float | None


class LeasedRunAnswer(Answer, frozen=True, kw_only=True):
    """One run as a worker gets it."""

    run_id: str
    job_id: str
    queue: str
    lane: str
    task: str
    attempt: int
    max_attempts: int
    lease_token: int
    lease_expires_at: str
    lease_remaining_ms: int
    scheduled_for: str
    timeout_seconds: float | None
    payload: Any = UNSET
    payload_base64: str | UnsetType = UNSET


class LeasedAnswer(Answer, frozen=True, kw_only=True):
    """The answer to a lease call."""

    request_id: str
    runs: list[LeasedRunAnswer]


class ReportAnswer(Answer, frozen=True, kw_only=True):
    """The answer for one run to a heartbeat, complete, fail or release; of a batch form also a refusal."""

    run_id: str
    ok: bool
    replayed: bool | UnsetType = UNSET
    cancel: bool | UnsetType = UNSET
    cancel_reason: str | UnsetType | None = UNSET
    lease_remaining_ms: int | UnsetType = UNSET
    lease_expires_at: str | UnsetType = UNSET
    outcome: str | UnsetType | None = UNSET
    next_attempt_at: str | UnsetType | None = UNSET
    status: int | UnsetType = UNSET
    code: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    field: str | UnsetType = UNSET
    limit: float | UnsetType = UNSET
    retry_after_seconds: int | UnsetType = UNSET
    run_state: str | UnsetType | None = UNSET
    current_attempt: int | UnsetType | None = UNSET


class ReportsAnswer(Answer, frozen=True, kw_only=True):
    """One result for each item, in order."""

    runs: list[ReportAnswer]


class HealthCheck(Answer, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


class HealthAnswer(Answer, frozen=True, kw_only=True):
    """Health; `checks` stand beside `unready`."""

    status: Literal["ok", "unready"]
    checks: list[HealthCheck] | UnsetType = UNSET


class CalendarAnswer(Answer, frozen=True, kw_only=True):
    """An exclusion calendar."""

    name: str
    tenant: str
    version: int
    time_zone: str
    dates: list[str]
    rules: list[str]
    description: str
    updated_at: str
    updated_by: str


class CalendarsAnswer(Answer, frozen=True, kw_only=True):
    """A page of calendars."""

    calendars: list[CalendarAnswer]
    next_cursor: str | None


class CalendarDeletedAnswer(Answer, frozen=True, kw_only=True):
    """A calendar was deleted."""

    name: str
    version: int
    state: Literal["deleted"]


class ProblemAnswer(Answer, frozen=True, kw_only=True):
    """RFC 9457. More members may come with one code."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    field: str | None
    allowed: Any
    limit: float | None
