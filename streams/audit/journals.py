"""What the log cannot know: what clients were told, what workers did, and which faults were done to the system.

Harnesses fill these in; times are wall milliseconds of a clock that agrees with the broker's (same machine, or the
simulator's virtual clock) to within `Faults.clock_error_ms`.
"""

from __future__ import annotations

import msgspec

from streams.core.state import OPEN_RUNS_MAX


class ClientCall(msgspec.Struct, frozen=True, kw_only=True):
    """One mutating call of a client and what it heard. `code` is a ReplyCode; empty: no answer (ambiguous)."""

    request_id: str
    job_id: str
    name: str
    """Of the command struct: `Define`, `Complete` ..."""
    code: str = ""
    run_id: str = ""
    lease_token: int = 0
    idempotency_key: str = ""
    tenant: str = ""
    sent_at_ms: int = 0
    answered_at_ms: int = 0


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a handler. `ended_at_ms` is 0 where the worker died or was still busy at the end."""

    run_id: str
    attempt: int
    lease_token: int
    worker_id: str
    scheduled_at_ms: int
    started_at_ms: int
    ended_at_ms: int = 0


class Journals(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was seen from outside."""

    calls: tuple[ClientCall, ...] = ()
    executions: tuple[Execution, ...] = ()


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something done to the system on purpose, from injection to heal, both inclusive."""

    kind: str
    from_ms: int
    to_ms: int
    target: str = ""


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """All of them. `clock_error_ms` is how far journals' clocks may be from the broker's."""

    faults: tuple[Fault, ...] = ()
    clock_error_ms: int = 0

    def touching(self, from_ms: int, to_ms: int) -> tuple[Fault, ...]:
        """Give the faults whose window meets [from_ms, to_ms]."""
        return tuple(f for f in self.faults if f.from_ms <= to_ms and f.to_ms >= from_ms)

    def of_kind(self, kind: str, at_ms: int) -> bool:
        """Tell whether a fault of this kind was on at an instant."""
        return any(f.kind == kind and f.from_ms <= at_ms <= f.to_ms for f in self.faults)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge holds a run to."""

    ended_or_leased_within_ms: int = 75_000
    """I9: a take-over (15 s), a lost lease (30 s) and one more lease of a lost grant (30 s)."""
    duplicates_per_million: int | None = None
    """I10: executions beyond the first; DESIGN promises 100. None where faults are the whole point of the run."""
    fair_tenants: tuple[str, ...] = ()
    """I12: tenants that must stay on time while others flood."""
    fair_lateness_p99_ms: int = 5_000
    missed_margin_ms: int = 12_000
    """I8: occurrences this close to the edge of an absence may fall on either side (a marker each 10 s)."""
    open_runs_max: int = OPEN_RUNS_MAX
    """I9: a job with this many open runs opens no more."""
    absence_ms: int = 60_000
    """DESIGN section 6: a longer silence of a partition's markers is an absence."""
