"""Everything that can be asked of a job, and the one answer that each gets.

Commands come from gateways (topic `commands`), from `job-definitions`, and from the owner's own timers (`Wake`).
Fields have the names of schemas/CommandBatch.avsc. A command names its job; the cause (where it came from) travels
beside it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from streams.core.definition import Definition


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all commands. `request_id` names the reply; empty where nobody waits (timers, definitions)."""

    job_id: str
    request_id: str = ""


class Keyed(Command, frozen=True, kw_only=True):
    """A command that may come with an Idempotency-Key: its repeat changes nothing, another body under it is refused."""

    key: str = ""
    """Digest of the key and of what it belongs to; empty: no key was sent."""
    body: str = ""
    """Digest of the request's body."""
    memo: bytes = b""
    """Kept with the key for as long as it is remembered; nothing in the core reads it."""


class Define(Keyed, frozen=True, kw_only=True):
    """Create or edit. A repeat with the same `request_hash` is answered like the first and changes nothing."""

    definition: Definition
    request_hash: str
    """Of the canonical request; the owner uses the digest of the definition for Kafka definitions."""
    mode: Literal["create", "edit", "upsert"] = "upsert"
    """`create` refuses an existing job with another hash (409), `edit` a missing one (404)."""
    expected_version: int = 0
    """Edit only that version (`If-Match`); 0 is any."""
    actor: str = ""
    standing: Literal["", "active", "paused"] = ""
    """What the job shall be after this very decision; empty leaves it as it is (a new job is active)."""
    config_offset: int = 0
    """The gateway knows the definition's calendars from records of topic `config` below this offset: the owner reads
    that far before it decides. 0 where the definition names none."""


class Delete(Keyed, frozen=True, kw_only=True):
    """End the job: open unleased runs close, leased ones are told to cancel."""

    tenant: str = ""
    """The caller's; empty for trusted producers."""
    expected_version: int = 0
    actor: str = ""


class LeaseRun(Command, frozen=True, kw_only=True):
    """A gateway asks for one run on behalf of a waiting worker."""

    run_id: str
    worker_id: str
    gateway_id: str
    job_version: int = 0
    """Of the offer; 0 is any. Another version refuses the lease, so stale offers are no-ops."""
    visibility_ms: int = 30_000
    valid_until_ms: int = 0
    """Past it both sides forget the request; broker time."""


class Heartbeat(Command, frozen=True, kw_only=True):
    """The worker of a lease is alive. Judged at its LogAppendTime."""

    run_id: str
    lease_token: int
    at_ms: int = 0
    """LogAppendTime of the record that carried it; set by the owner."""
    visibility_ms: int = 0
    """The lease's length from this heartbeat on; 0 keeps it. The end that was promised before is never shortened."""
    progress: bytes = b""
    """How far the worker is, for people; soft state of the owner. Empty leaves what was said before."""


class Complete(Command, frozen=True, kw_only=True):
    """The run succeeded."""

    run_id: str
    lease_token: int
    result: bytes = b""


class Fail(Command, frozen=True, kw_only=True):
    """The attempt failed."""

    run_id: str
    lease_token: int
    error: str = ""
    retryable: bool = True


class Release(Command, frozen=True, kw_only=True):
    """Hand a run back unstarted: nobody was left to take the grant, or the worker is shutting down."""

    run_id: str
    lease_token: int
    reason: str = ""


class Pause(Keyed, frozen=True, kw_only=True):
    """Open and lease nothing from now on."""

    tenant: str = ""
    actor: str = ""
    note: str = ""
    until_ms: int = 0


class Resume(Keyed, frozen=True, kw_only=True):
    """Go on from now; paused occurrences are recorded as skipped."""

    tenant: str = ""
    actor: str = ""
    note: str = ""


class Trigger(Keyed, frozen=True, kw_only=True):
    """Open one run now."""

    tenant: str = ""
    trigger_id: str
    """Stands in the run id in place of the instant; the same id is the same run."""
    force: bool = False
    """Open even if overlap `skip` would refuse."""
    payload: bytes | None = None
    actor: str = ""


class CancelRun(Keyed, frozen=True, kw_only=True):
    """End a run: at once if it is not leased, else through the worker's next heartbeat."""

    run_id: str
    tenant: str = ""
    actor: str = ""
    reason: str = ""


class SkipSlot(Command, frozen=True, kw_only=True):
    """Skip one named future occurrence; answers what it hit."""

    at_ms: int
    tenant: str = ""
    expected_version: int = 0
    actor: str = ""


class ReplayRun(Keyed, frozen=True, kw_only=True):
    """Open a new run for a dead one, linked to it."""

    run_id: str
    replay_id: str
    tenant: str = ""
    actor: str = ""


class StartBackfill(Keyed, frozen=True, kw_only=True):
    """Open past occurrences of a range, in their own lane and rate."""

    backfill_id: str
    from_ms: int
    """Inclusive."""
    until_ms: int
    """Inclusive."""
    concurrent_runs_max: int = 1
    tenant: str = ""
    actor: str = ""
    interval_ms: int = 0
    """The least time between two openings; 0: as soon as there is room."""


class StopBackfill(Command, frozen=True, kw_only=True):
    """End a backfill; what it opened stays."""

    backfill_id: str
    tenant: str = ""
    actor: str = ""


class Wake(Command, frozen=True, kw_only=True):
    """The job's deadline came (or its zone data changed): do what is due, and nothing where nothing is."""


AnyCommand = (
    Define
    | Delete
    | LeaseRun
    | Heartbeat
    | Complete
    | Fail
    | Release
    | Pause
    | Resume
    | Trigger
    | CancelRun
    | SkipSlot
    | ReplayRun
    | StartBackfill
    | StopBackfill
    | Wake
)

ReplyCode = Literal[
    "ok",
    "created",
    "granted",
    "invalid",
    "not_found",
    "version_conflict",
    "idempotency_conflict",
    "wrong_tenant",
    "lease_lost",
    "not_due",
    "not_leasable",
    "stale_offer",
    "paused",
    "blocked",
    "too_many_open_runs",
    "too_many_replays",
    "gone",
    "quota",
    "quarantined",
    "behind",
]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer to a command. The gateway maps `code` to an HTTP status in one table."""

    code: ReplyCode
    job_id: str
    run_id: str = ""
    field: str = ""
    """The field at fault, under `invalid`."""
    detail: str = ""
    """A sentence for people: what is wrong and what to do."""
    version: int = 0
    next_at_ms: int | None = None
    attempt: int = 0
    lease_token: int = 0
    expires_at_ms: int = 0
    cancel: bool = False
    """On a heartbeat's answer: stop, the run is to be cancelled."""
    blocked_by: str = ""
    """The run in the way, under `blocked`."""
    outcome: str = ""
    """Of the run, where it is closed: `succeeded`, `skipped`, `cancelled` or `dead`."""
    replayed: bool = False
    """The command was a repeat: nothing changed, and the answer is the first one again."""
    count: int = 0
    """Occurrences that a backfill's range holds, or that a skip hit."""
    warnings: tuple[str, ...] = ()
    """Sentences for people, on a definition's answer."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker needs to execute one attempt; the answer to a LeaseRun that was granted."""

    job_id: str
    run_id: str
    task: str
    tenant: str
    queue: str
    lane: str
    worker_id: str
    gateway_id: str
    attempt: int
    lease_token: int
    scheduled_at_ms: int
    due_at_ms: int
    granted_at_ms: int
    expires_at_ms: int
    visibility_ms: int
    timeout_ms: int
    max_attempts: int
    payload: bytes
    content_type: str
    job_version: int
