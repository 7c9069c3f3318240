"""The timers of one partition: what is due now, and what will be soon.

Two wheels over the same jobs: one for deadlines (open, expire, time out, forget), one that goes off a look-ahead
earlier and
says "prepare an offer". Both hold the next horizon only; they are filled from the store's due index by seeking on
from where the last filling ended, and deadlines that commits create inside the horizon go straight in.

What expired but did not fit into a batch waits in one line per tenant, and the lines take turns: a tenant with a
million jobs due at one instant delays its own jobs and nobody else's. Timers are soft state: they are made anew from
the
store at take-over, never logged, and a timer that goes off only asks `decide` to look.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from streams.wheel import TimingWheel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.store.interface import DueEntry, Store

FILL_MAX: Final = 5_000
"""Entries read from the due index per turn of the loop: about 10 ms of work."""


class Timers:
    """Deadlines and look-aheads of one partition, by broker time in milliseconds."""

    def __init__(self, store: Store, now_ms: int, *, horizon_ms: int, lookahead_ms: int) -> None:
        self._store = store
        self._deadlines = TimingWheel(now_ms, horizon_ms=horizon_ms)
        self._lookaheads = TimingWheel(now_ms, horizon_ms=horizon_ms)
        self._lookahead_ms = lookahead_ms
        self._tenants: dict[str, str] = {}
        self._filled_to: DueEntry | None = None
        self._filled_to_ms = -1
        self._expired: dict[str, deque[str]] = {}
        self._waiting: set[str] = set()

    @property
    def backlog(self) -> int:
        """How many jobs are due and not yet looked at."""
        return len(self._waiting)

    def planned_ms(self, job_id: str) -> int | None:
        """Return when a job will be looked at; None where that is due already, or beyond the horizon."""
        return self._deadlines.deadline_of(job_id)

    def fill(self) -> bool:
        """Take the next part of the due index into the wheels; True where more is waiting to be filled."""
        until_ms = self._deadlines.horizon_end_ms
        if until_ms <= self._filled_to_ms:
            return False
        entries = self._store.due(self._filled_to, until_ms, FILL_MAX)
        for entry in entries:
            known = self._deadlines.deadline_of(entry.job_id)
            if known is None or entry.deadline_ms < known:  # an earlier one is a wake that somebody asked for
                self._put(entry.job_id, entry.tenant, entry.deadline_ms)
        if entries:
            self._filled_to = entries[-1]
        if len(entries) == FILL_MAX:
            self._filled_to_ms = entries[-1].deadline_ms - 1
            return True
        self._filled_to_ms = until_ms
        return False

    def settle(self, job_id: str, tenant: str, deadline_ms: int | None, upcoming_at_ms: int | None) -> None:
        """Follow a job after a commit. Deadlines beyond what is filled stay with the due index."""
        if deadline_ms is None or deadline_ms > self._covered_to_ms():
            self._deadlines.cancel(job_id)
        else:
            self._put(job_id, tenant, deadline_ms)
        if upcoming_at_ms is None or not self._lookaheads.put(job_id, upcoming_at_ms - self._lookahead_ms):
            self._lookaheads.cancel(job_id)
        if job_id not in self._deadlines and job_id not in self._lookaheads and job_id not in self._waiting:
            self._tenants.pop(job_id, None)

    def look_again(self, job_id: str, tenant: str, at_ms: int) -> None:
        """Wake a job at a time that the due index does not know; beyond the horizon, at its end."""
        at_ms = min(at_ms, self._deadlines.horizon_end_ms)
        self._tenants[job_id] = tenant
        self._deadlines.put(job_id, at_ms)

    def wake_by(self, job_id: str, tenant: str, at_ms: int) -> None:
        """Wake a job at `at_ms`, or before it where its deadline is earlier."""
        known = self._deadlines.deadline_of(job_id)
        if job_id not in self._waiting and (known is None or at_ms < known):
            self.look_again(job_id, tenant, at_ms)

    def expire(self, now_ms: int) -> None:
        """Move what is due by `now_ms` into the lines of its tenants."""
        for _, job_id in self._deadlines.advance(now_ms):
            self._wait(job_id)

    def take(self, limit: int) -> list[str]:
        """Remove up to `limit` due jobs, one of each tenant in turn."""
        taken: list[str] = []
        while self._expired and len(taken) < limit:
            tenant, line = next(iter(self._expired.items()))
            del self._expired[tenant]
            job_id = line.popleft()
            if line:
                self._expired[tenant] = line
            if job_id in self._waiting:
                self._waiting.discard(job_id)
                taken.append(job_id)
        return taken

    def restore(self, job_ids: Iterable[str]) -> None:
        """Put the jobs of an aborted batch back."""
        for job_id in job_ids:
            self._wait(job_id)

    def coming(self, now_ms: int) -> list[str]:
        """Remove the jobs whose next occurrence is within the look-ahead."""
        return [job_id for _, job_id in self._lookaheads.advance(now_ms)]

    def next_at_ms(self) -> int | None:
        """Return when `expire` has something to move at the latest; None where no deadline is near."""
        return 0 if self._waiting else self._deadlines.next_deadline_ms()

    def next_coming_ms(self) -> int | None:
        """Return when `coming` has something to give at the latest; None where nothing is near."""
        return self._lookaheads.next_deadline_ms()

    def rewind(self, now_ms: int) -> None:
        """Start over from the due index: the broker's clock was set back by more than its estimate tolerates."""
        self._deadlines = TimingWheel(now_ms, horizon_ms=self._deadlines.horizon_end_ms - self._deadlines.now_ms)
        self._lookaheads = TimingWheel(now_ms, horizon_ms=self._lookaheads.horizon_end_ms - self._lookaheads.now_ms)
        self._filled_to = None
        self._filled_to_ms = -1

    def _covered_to_ms(self) -> int:
        """Return the last deadline that no later filling will read: at it, the due index is read only in part."""
        return max(self._filled_to_ms, self._filled_to.deadline_ms if self._filled_to else -1)

    def _put(self, job_id: str, tenant: str, deadline_ms: int) -> None:
        self._tenants[job_id] = tenant
        self._deadlines.put(job_id, deadline_ms)
        self._lookaheads.put(job_id, deadline_ms - self._lookahead_ms)

    def _wait(self, job_id: str) -> None:
        if job_id in self._waiting:
            return
        self._waiting.add(job_id)
        tenant = self._tenants.get(job_id, "")
        self._expired.setdefault(tenant, deque()).append(job_id)
