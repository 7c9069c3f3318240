"""The state of one job: the aggregate about which everything is decided (DESIGN section 5).

One `JobState` holds the cursor (the next occurrence not yet opened), the open runs with their leases, the recently
closed runs and the pause. It is one ledger record, so one decision is atomic. It changes through `apply` only.

What is not here: heartbeats (soft state of the owner), the definition (its own ledger record), anything derived.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from streams.core.definition import Definition, Lane
from streams.core.time import DroppedSlot

JobStatus = Literal["active", "finished", "deleted"]
RunKind = Literal["schedule", "trigger", "backfill", "replay"]
RunOutcome = Literal["succeeded", "skipped", "cancelled", "dead"]
AttemptEnd = Literal["", "failing", "failed", "expiring", "expired", "released"]
"""How an attempt ended. `failing` and `expiring` live inside one decision only: the verdict (retry, dead, cancelled)
is the next event."""
SkipReason = Literal[
    "overlap", "start_deadline", "catch_up", "paused", "gap", "calendar", "quota", "superseded", "requested", "deleted"
]

OPEN_RUNS_MAX: Final = 64
"""Occurrences beyond it stay implied by the cursor, so nothing is lost and a year of missed minutes costs nothing."""

CLOSED_RUNS_MAX: Final = 16
"""A repeated `complete` after a lost answer is 200 for as long as the run is among these."""

DEAD_RUNS_MAX: Final = 100
"""Older dead runs live in history; this many stay replayable without a look at it."""

DEAD_PAYLOAD_BYTES_MAX: Final = 32 * 1024
"""Payloads of their own that dead triggers keep for a replay, all together: an eighth of the state's bound."""

ERROR_CHARS_MAX: Final = 500
"""Of an error text in the state; history keeps more. 164 of these must fit into the state's 256 KB."""

RESULT_KEPT_BYTES_MAX: Final = 1024
"""Of a closed run's result in the state: 16 of these are 16 KB that each later record of a busy job repeats. A larger
one (up to decide_lease.RESULT_BYTES_MAX) stands in history only."""

ATTEMPTS_KEPT_MAX: Final = 10
"""Attempts without success that a run remembers; docs/http-api.md promises the last 10."""

ATTEMPTS_BYTES_MAX: Final = 16 * 1024
"""Texts of all remembered attempts of a job together: a sixteenth of the state's bound. The oldest runs' go first."""

KEYS_MAX: Final = 16
"""Idempotency keys that a job remembers: repeats come within minutes, and people change a job a few times in those."""

KEY_MEMO_BYTES_MAX: Final = 48 * 1024
"""Memos of all remembered keys together; the oldest give way. With everything else it fits the state's 256 KB."""

BACKFILLS_ENDED_MAX: Final = 8
"""Repeats come within minutes; a job sees few backfills in that time."""

FORGET_AFTER_MS: Final = 24 * 3_600_000
"""How long a finished or deleted job keeps its record after its last lease (DESIGN section 5)."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right of one worker to execute one attempt, guarded by `lease_token`."""

    lease_token: int
    worker_id: str
    gateway_id: str
    request_id: str
    granted_at_ms: int
    visibility_ms: int
    expires_at_ms: int
    """As last logged (grant or renewal); heartbeats since then are soft state of the owner."""
    timeout_at_ms: int = 0
    """When the attempt is ended however faithfully it heartbeats; 0 is never."""


class EndedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that ended and did not complete its run."""

    attempt: int
    lease_token: int
    worker_id: str
    granted_at_ms: int
    ended_at_ms: int
    end: str
    """`failed`, or why the lease ended: `expired`, `timeout` or `cancel_grace`."""
    error: str = ""


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run between its opening and its one recorded outcome."""

    run_id: str
    kind: RunKind
    scheduled_at_ms: int
    due_at_ms: int
    """Earliest instant of the next lease: the scheduled one, later that of the retry."""
    opened_at_ms: int
    job_version: int
    lane: Lane
    attempt: int = 0
    """The number of the current attempt while leased, else of the last one that counted."""
    silent_grants: int = 0
    """Grants in a row whose worker was never heard from (DESIGN section 7, point 5)."""
    lease: Lease | None = None
    held: bool = False
    """Waiting for an earlier run under overlap `queue`: not offered, not leased."""
    cancel_requested_at_ms: int = 0
    """0 while nobody asked for it."""
    cancel_reason: str = ""
    payload: bytes | None = None
    """Overrides the definition's, for triggers that bring their own."""
    replay_of: str = ""
    replays: int = 0
    """How often this run's ancestors were replayed; has a ceiling."""
    error: str = ""
    """Of the last failed attempt."""
    forced: bool = False
    """A trigger with `force`: leased even while the job is paused."""
    ended_token: int = 0
    """Of the last attempt that ended without ending the run: a repeat of that `fail` or `release` is answered alike."""
    ended_by: AttemptEnd = ""
    attempts: tuple[EndedAttempt, ...] = ()
    """Those without success, oldest first; of many the last ones."""


class ClosedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a run that ended."""

    run_id: str
    kind: RunKind
    scheduled_at_ms: int
    outcome: RunOutcome
    closed_at_ms: int
    attempt: int
    lease_token: int
    """Under which it ended; 0 where it was never leased."""
    reason: str = ""
    error: str = ""
    result: bytes = b""
    """What the worker handed back, up to RESULT_KEPT_BYTES_MAX."""
    replays: int = 0
    payload: bytes | None = None
    """A dead run's own payload, for its replay."""
    payload_dropped: bool = False
    """It had one that no longer fits here: not replayable."""
    result_dropped: bool = False
    """It had one that is too large for here: RunSucceeded in history, at `closed_at_ms`, has it."""
    replay_of: str = ""
    attempts: tuple[EndedAttempt, ...] = ()
    """As of an open run."""


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """Who stopped the job, why, and until when (0: until resumed)."""

    paused_at_ms: int
    actor: str
    note: str = ""
    until_ms: int = 0


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """A bounded range cursor of its own over past occurrences."""

    backfill_id: str
    cursor_at_ms: int
    """The next slot to open."""
    until_ms: int
    """Inclusive."""
    opened: int = 0
    concurrent_runs_max: int = 1
    interval_ms: int = 0
    """The least time between two openings: the rate; 0 is none."""
    opened_last_at_ms: int = 0
    started_at_ms: int = 0
    first_at_ms: int = 0
    """The first slot of the range ..."""
    last_at_ms: int = 0
    """... the last one ..."""
    runs_total: int = 0
    """... and how many there were when it began."""
    ended_at_ms: int = 0
    """0 while it goes on."""
    ended_by: str = ""
    """`completed`, `stopped` or `deleted`."""


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """An Idempotency-Key that was used on the job."""

    key: str
    """Digest of what the key belongs to (route, job) and the key."""
    body: str
    """Digest of the request's body: the key with another one is a conflict."""
    version: int = 0
    """The job's after the change: the first answer's."""
    memo: bytes = b""
    """What the caller wants to be told again on a repeat; nothing here reads it."""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a job that is not in its definition."""

    job_id: str
    tenant: str
    queue: str
    status: JobStatus = "active"
    version: int = 1
    request_hash: str = ""
    """Of the creating or last editing request, for idempotent repeats."""
    create_hash: str = ""
    """Of the request that created the job: its repeat gets the first answer."""
    created_version: int = 1
    """The first answer's version."""
    created_at_ms: int = 0
    created_next_at_ms: int | None = None
    """The first answer's nextRunAt."""
    next_at_ms: int | None = None
    """The cursor: the next occurrence not yet opened; None when the schedule has no more."""
    next_notes: tuple[str, ...] = ()
    """What is irregular about the cursor's occurrence."""
    next_dropped: tuple[DroppedSlot, ...] = ()
    """Slots before the cursor that the rules drop; recorded when the cursor is decided."""
    missed_until_ms: int = 0
    """Under catch-up `all`: occurrences before this instant fell due without a working owner; 0 is none."""
    skip_at_ms: tuple[int, ...] = ()
    """Occurrences at or beyond the cursor that somebody asked to skip, ascending."""
    decided_to_ms: int = 0
    """Every occurrence at or before this instant has its record; the cursor never goes back behind it."""
    occurrences_total: int = 0
    """Opened by the schedule so far, for `max_runs`."""
    skips_total: int = 0
    zone_data: str = ""
    """The tzdata version under which the cursor was computed."""
    calendars: str = ""
    """The calendars under which the cursor was computed (streams.core.calendars); empty where the job names none."""
    pause: Pause | None = None
    open: tuple[OpenRun, ...] = ()
    closed: tuple[ClosedRun, ...] = ()
    """Newest last."""
    dead: tuple[ClosedRun, ...] = ()
    """Oldest first; replayable."""
    backfills: tuple[Backfill, ...] = ()
    backfills_ended: tuple[Backfill, ...] = ()
    """The last ones, newest last: a repeated start is no second backfill, and people see how far it came."""
    lease_token_last: int = 0
    last_lease_at_ms: int = 0
    forget_at_ms: int = 0
    """When the closed record may go; 0 while the job lives."""
    checkpoint_at_ms: int = 0
    """When the job is next written to history whole; 0 is never: a closed job needs none."""
    updated_at_ms: int = 0
    """When this version came: the definition was accepted, changed or deleted."""
    keys: tuple[KeyUse, ...] = ()
    """Newest last."""
    concurrency_key: str = ""
    """Of the definition in force; kept here, since leased runs of a deleted job count too."""
    concurrency_weight: int = 0
    """Units of the key's limit that each leased run takes; 0 without a key."""


class Job(msgspec.Struct, frozen=True):
    """The aggregate as decide and apply see it. `definition` is None once the job is deleted."""

    state: JobState
    definition: Definition | None

    def run(self, run_id: str) -> OpenRun | None:
        """Return the open run with this id."""
        for run in self.state.open:
            if run.run_id == run_id:
                return run
        return None

    def key_use(self, key: str) -> KeyUse | None:
        """Return what is remembered of an idempotency key."""
        for use in self.state.keys:
            if use.key == key:
                return use
        return None

    def closed_run(self, run_id: str) -> ClosedRun | None:
        """Return the remembered closed run with this id, newest first."""
        for run in reversed(self.state.closed):
            if run.run_id == run_id:
                return run
        for run in reversed(self.state.dead):
            if run.run_id == run_id:
                return run
        return None
