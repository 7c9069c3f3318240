"""Everything that can happen to a job. `apply` folds these; history keeps them; the checker reads them.

An event says what follows, complete: `apply` looks nothing up and computes no schedule. Each has the past-tense
name of a domain verb (DESIGN section 2) and the same field names as its record in schemas/HistoryRecord.avsc.
"""

from __future__ import annotations

import msgspec

from streams.core.definition import Definition
from streams.core.state import JobState, Lease, RunKind, SkipReason
from streams.core.time import DroppedSlot


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events; carries nothing, so that each record says what it means by itself."""


class JobDefined(Event, frozen=True, kw_only=True):
    """A job was created, or re-created within the memory of its closed record."""

    definition: Definition
    version: int
    request_hash: str
    at_ms: int
    next_at_ms: int | None
    zone_data: str
    calendars: str = ""
    """Under which records of topic `config` the cursor was computed (streams.core.calendars)."""


class JobEdited(Event, frozen=True, kw_only=True):
    """A new definition replaced the old one; the cursor was recomputed from now."""

    definition: Definition
    version: int
    request_hash: str
    at_ms: int
    next_at_ms: int | None
    previous_next_at_ms: int | None
    zone_data: str
    calendars: str = ""


class JobDeleted(Event, frozen=True, kw_only=True):
    """The job is gone; its open unleased runs were closed by events before this one."""

    version: int
    actor: str
    at_ms: int
    forget_at_ms: int


class JobFinished(Event, frozen=True, kw_only=True):
    """The schedule has no further occurrence and the last run ended."""

    at_ms: int
    forget_at_ms: int


class JobForgotten(Event, frozen=True, kw_only=True):
    """The closed record's time is over: both ledger keys become null."""

    at_ms: int


class JobPaused(Event, frozen=True, kw_only=True):
    """From now on nothing is opened or leased."""

    actor: str
    note: str
    until_ms: int
    at_ms: int


class JobResumed(Event, frozen=True, kw_only=True):
    """Paused occurrences are not missed ones: the cursor moves past them."""

    actor: str
    note: str
    at_ms: int
    next_at_ms: int | None


class RunOpened(Event, frozen=True, kw_only=True):
    """An occurrence, trigger, backfill slot or replay became a run."""

    run_id: str
    kind: RunKind
    scheduled_at_ms: int
    due_at_ms: int
    at_ms: int
    job_version: int
    lane: str
    held: bool = False
    next_at_ms: int | None = None
    """The cursor after this; meaningful for kind `schedule`."""
    payload: bytes | None = None
    replay_of: str = ""
    replays: int = 0
    notes: tuple[str, ...] = ()
    """From the schedule: shifted from a gap, merged slots, which pass."""
    missed: bool = False
    """Fell due while the partition had no working owner."""
    forced: bool = False
    """By a trigger with `force`."""


class OccurrencesSkipped(Event, frozen=True, kw_only=True):
    """One or a whole range of occurrences ended without a run; both ends inclusive."""

    reason: SkipReason
    first_at_ms: int
    last_at_ms: int
    count: int
    at_ms: int
    next_at_ms: int | None
    """The cursor after this."""
    blocked_by: str = ""
    """The run in the way, under reason `overlap`."""
    local: str = ""
    """The local time of a slot that has no instant, under reasons `gap` and `calendar`."""
    dropped_gap: int = 0
    """Slots between the range's ends that no instant belongs to: each ended as skipped for `gap`. Not in `count`."""
    dropped_calendar: int = 0
    """Slots between its ends that a calendar excludes: each ended as skipped for `calendar`. Not in `count`."""


class CursorMoved(Event, frozen=True, kw_only=True):
    """The zone data or a calendar changed, and the open cursor was computed again; it may have stayed where it was."""

    from_at_ms: int | None
    to_at_ms: int | None
    zone_data_from: str
    zone_data_to: str
    at_ms: int
    calendars_from: str = ""
    calendars_to: str = ""
    decided_to_ms: int = 0
    """What a calendar excluded up to here has its record: no later change of it brings that back. 0 says nothing."""


class CursorNoted(Event, frozen=True, kw_only=True):
    """The occurrence at the cursor, set by an event before this one, is irregular or follows dropped slots."""

    next_at_ms: int
    notes: tuple[str, ...]
    dropped: tuple[DroppedSlot, ...]
    at_ms: int


class OccurrencesMissed(Event, frozen=True, kw_only=True):
    """Catch-up `all` needs more than one decision: what is due before `until_ms` counts as missed."""

    until_ms: int
    at_ms: int


class SlotSkipRequested(Event, frozen=True, kw_only=True):
    """Somebody named a future occurrence that shall not run; it is recorded as skipped when its time comes."""

    slot_at_ms: int
    actor: str
    at_ms: int


class LeaseGranted(Event, frozen=True, kw_only=True):
    """A worker got the right to execute one attempt."""

    run_id: str
    attempt: int
    lease: Lease
    at_ms: int


class LeaseRenewed(Event, frozen=True, kw_only=True):
    """The audit's trace of soft renewals, every five minutes at most; and at once where the lease's length changed."""

    run_id: str
    lease_token: int
    heartbeat_at_ms: int
    expires_at_ms: int
    at_ms: int
    visibility_ms: int = 0
    """The lease's new length; 0 where it stays."""


class LeaseReleased(Event, frozen=True, kw_only=True):
    """A grant that nobody took, or a run handed back unstarted: the attempt number returns, the token stays used."""

    run_id: str
    lease_token: int
    reason: str
    at_ms: int


class LeaseExpired(Event, frozen=True, kw_only=True):
    """A lease ended without a word; carries the evidence that it may (DESIGN section 7)."""

    run_id: str
    lease_token: int
    attempt: int
    at_ms: int
    expires_at_ms: int
    heartbeat_at_ms: int
    """Last one known; 0 where the worker was never heard from."""
    takeover_at_ms: int
    consumed_to_ms: int
    """Every command appended before this instant had been consumed."""
    counted: bool
    """Whether the attempt counts toward `max_attempts`."""
    reason: str = "expired"
    """`expired`, `timeout` or `cancel_grace`."""


class RunSucceeded(Event, frozen=True, kw_only=True):
    """The one accepted completion of a run."""

    run_id: str
    lease_token: int
    attempt: int
    at_ms: int
    result: bytes = b""


class RunFailed(Event, frozen=True, kw_only=True):
    """An attempt failed; what follows is the next event: RunRetried or RunDied."""

    run_id: str
    lease_token: int
    attempt: int
    error: str
    retryable: bool
    at_ms: int


class RunRetried(Event, frozen=True, kw_only=True):
    """Another attempt is due at `due_at_ms`."""

    run_id: str
    due_at_ms: int
    at_ms: int


class RunDied(Event, frozen=True, kw_only=True):
    """No attempt is left, or the failure was final."""

    run_id: str
    attempt: int
    reason: str
    error: str
    at_ms: int


class RunSkipped(Event, frozen=True, kw_only=True):
    """An open, unleased run ended without being executed."""

    run_id: str
    reason: SkipReason
    at_ms: int
    blocked_by: str = ""


class RunCancelRequested(Event, frozen=True, kw_only=True):
    """The worker will be told with its next heartbeat."""

    run_id: str
    actor: str
    reason: str
    at_ms: int


class RunCancelled(Event, frozen=True, kw_only=True):
    """A run ended by a cancel; `lease_token` is 0 where it was not leased."""

    run_id: str
    lease_token: int
    actor: str
    reason: str
    at_ms: int


class RunUnheld(Event, frozen=True, kw_only=True):
    """The run that stood before this one under overlap `queue` ended."""

    run_id: str
    at_ms: int


class DeadRunReplayed(Event, frozen=True, kw_only=True):
    """A dead run left the dead list because a replay of it was opened (the event after this one)."""

    run_id: str
    at_ms: int


class BackfillStarted(Event, frozen=True, kw_only=True):
    """A bounded cursor over a past range began."""

    backfill_id: str
    cursor_at_ms: int
    until_ms: int
    concurrent_runs_max: int
    actor: str
    at_ms: int
    interval_ms: int = 0
    """The least time between two openings; 0 is none."""
    last_at_ms: int = 0
    """The last slot of the range ..."""
    runs_total: int = 0
    """... and how many it holds."""


class BackfillMoved(Event, frozen=True, kw_only=True):
    """A backfill slot was opened by the event before this one; None ends the backfill."""

    backfill_id: str
    cursor_at_ms: int | None
    at_ms: int


class BackfillEnded(Event, frozen=True, kw_only=True):
    """A backfill was completed or stopped."""

    backfill_id: str
    reason: str
    at_ms: int


class JobCheckpoint(Event, frozen=True, kw_only=True):
    """State and definition in full, every 7 days, so that any 30 days of history can be audited from their start."""

    state: JobState
    definition: Definition | None
    at_ms: int


class KeyUsed(Event, frozen=True, kw_only=True):
    """The events before this one, if any, are what a request with this Idempotency-Key led to."""

    key: str
    body: str
    memo: bytes
    at_ms: int


AnyEvent = (
    JobDefined
    | JobEdited
    | JobDeleted
    | JobFinished
    | JobForgotten
    | JobPaused
    | JobResumed
    | RunOpened
    | OccurrencesSkipped
    | CursorMoved
    | CursorNoted
    | OccurrencesMissed
    | SlotSkipRequested
    | LeaseGranted
    | LeaseRenewed
    | LeaseReleased
    | LeaseExpired
    | RunSucceeded
    | RunFailed
    | RunRetried
    | RunDied
    | RunSkipped
    | RunCancelRequested
    | RunCancelled
    | RunUnheld
    | DeadRunReplayed
    | BackfillStarted
    | BackfillMoved
    | BackfillEnded
    | JobCheckpoint
    | KeyUsed
)
