"""What a team asks for: the accepted definition of one job.

A definition is immutable; an edit is another definition under the next version. It is kept apart from the job's
state, so that a 64 KB payload is not rewritten at every grant (DESIGN section 4). Field names and meanings are
those of schemas/JobDefinition.avsc.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from streams.core.time import CalendarIntervalSpec, CronSpec, IntervalSpec, LocalOneOffSpec, OneOffSpec, RRuleSpec

Lane = Literal["high", "normal", "low"]
CatchUp = Literal["latest", "all", "none"]
Overlap = Literal["allow", "skip", "queue", "replace"]
Backoff = Literal["exponential", "fixed", "none"]
JitterKind = Literal["none", "job", "occurrence"]
Schedule = CronSpec | IntervalSpec | CalendarIntervalSpec | OneOffSpec | LocalOneOffSpec | RRuleSpec

JOB_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
"""DESIGN section 5: safe in a URL path, in a log line and as the front of a run id."""

NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Tenants, queues and tasks: they stand in URL paths and in metric labels."""

CONCURRENCY_KEY_PATTERN: Final = JOB_ID_PATTERN
"""They stand in URL paths, and may well be the id of something: customer:42."""

CONCURRENCY_WEIGHT_MAX: Final = 100
"""One byte of the tallies' keys; who needs finer parts scales the limit."""

PAYLOAD_BYTES_MAX: Final = 64 * 1024
"""DESIGN section 8; larger payloads belong in object storage, with their address in the payload."""

LABELS_MAX: Final = 32
"""Labels are copied into every list row; 32 is what other platforms allow and nobody misses more."""

VISIBILITY_MS_DEFAULT: Final = 30_000
"""DESIGN section 10: one lease without a heartbeat."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """What follows a failed or expired attempt (DESIGN section 10)."""

    max_attempts: int = 5
    backoff: Backoff = "exponential"
    delay_ms: int = 0
    """Wait of `fixed`, and the floor of `exponential`; milliseconds."""


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted job definition."""

    job_id: str
    tenant: str
    queue: str
    name: str
    task: str
    """The worker's handler; the name where the author gave none."""
    schedule: Schedule
    payload: bytes = b""
    content_type: str = "application/json"
    retry: Retry = Retry()
    catch_up: CatchUp = "latest"
    overlap: Overlap = "skip"
    concurrent_runs_max: int = 0
    """How many runs may be open at once under overlap `allow`; 0 is no bound but that of open runs. Other policies
    judge against one."""
    timeout_ms: int = 0
    """Bound of one attempt, however faithfully it heartbeats; 0 is none."""
    start_deadline_ms: int = 0
    """A run not leased this long after its scheduled instant is skipped; 0 is none."""
    lane: Lane = "normal"
    jitter_ms: int = 0
    jitter_kind: JitterKind = "none"
    labels: dict[str, str] = {}
    calendars: tuple[str, ...] = ()
    start_at_ms: int | None = None
    end_at_ms: int | None = None
    max_runs: int = 0
    """How many occurrences may ever be opened; 0 is no bound."""
    concurrency_key: str = ""
    """Leased runs with the same key count against its limit, whatever their job and queue; empty: none."""
    concurrency_weight: int = 0
    """Units of the limit that one run takes; 0 counts as 1."""

    @property
    def concurrency_units(self) -> int:
        """What one run takes of the limit of its key; 0 without a key."""
        return (self.concurrency_weight or 1) if self.concurrency_key else 0
