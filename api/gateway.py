"""The gateway's parts in one value, and reading jobs through it. No HTTP routing here (see app.py and routes/)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from api.calendar_shelf import CalendarShelf
from api.concurrency_book import ConcurrencyBook
from api.config_books import ConfigBooks
from api.metrics import Metrics
from api.owner_watch import OwnerWatch
from api.pending_counts import PendingCounts, require_room
from api.problems import Problem
from api.queue_book import QueueBook
from api.recent_jobs import RecentJobs
from api.tenant_book import TenantBook

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from api.auth import Auth, Caller
    from api.cursors import Shown
    from api.dispatch.client import DispatchClient
    from api.queries import OwnerQueries, SeenJob
    from streams.core.envelopes import OwnerView
    from streams.core.evidence import Ask, Proof
    from streams.core.state import Job

READ_AGAIN_MS: Final = 20
READ_AGAIN_MAX: Final = 40
"""Up to 0.8 s for a store to show what its owner has committed."""


SHOWN_TRIES_MAX: Final = 100
"""Up to 2 s for a consistency token."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of docs/http-api.md, as far as a deployment may change them."""

    partitions: int
    body_bytes_single_max: int = 256 * 1024
    body_bytes_batch_max: int = 4 * 1024 * 1024
    body_wait_s_max: float = 30.0
    """For all of a body to come. Without it, a client that never ends its body holds a connection for ever."""
    lease_wait_ms_max: int = 20_000
    lease_visibility_ms: int = 30_000
    lease_runs_max: int = 1_000
    batch_items_max: int = 1_000
    strict_queues: bool = False
    topic_namespace: str = "horolog."


@dataclass
class Gateway:
    """What every route needs."""

    client: DispatchClient
    queries: OwnerQueries
    auth: Auth
    limits: Limits
    recent: RecentJobs = field(default_factory=RecentJobs)
    watch: OwnerWatch = field(init=False)
    document: bytes = b"{}"
    """Of `GET /openapi.json`; build_app sets it."""
    metrics: Metrics = field(init=False)
    config: ConfigBooks = field(init=False)
    queues: QueueBook = field(init=False)
    tenants: TenantBook = field(init=False)
    concurrency: ConcurrencyBook = field(init=False)
    calendars: CalendarShelf = field(init=False)
    pending: PendingCounts = field(default_factory=PendingCounts)

    def __post_init__(self) -> None:
        self.watch = OwnerWatch(self.client)
        self.concurrency = ConcurrencyBook(self.client)
        self.queues = QueueBook(self.client, strict=self.limits.strict_queues)
        for partition, view in self.client.owners.items():
            self._heard_owner(partition, view)
        self.client.on_owner_change = self._heard_owner
        self.metrics = Metrics(self.client)
        self.tenants = TenantBook(self.client)
        self.calendars = CalendarShelf(self.client)
        self.config = ConfigBooks(self.client, (self.queues, self.tenants, self.concurrency), self.calendars.book)

    def _heard_owner(self, partition: int, view: OwnerView | None) -> None:
        self.pending.heard(partition, view)
        self.concurrency.heard_owner(partition, view)
        self.queues.heard_owner(partition, view)

    def now_ms(self) -> int:
        """Give the broker's time, at most its true one."""
        return self.client.broker.now_ms()

    def wrote(self, job_id: str, version: int) -> None:
        """Note a confirmed write, for reads that follow."""
        self.recent.wrote(job_id, version, self.client.clock.monotonic_ms())

    async def job(self, job_id: str, caller: Caller, *, until: Callable[[Job], bool] | None = None) -> SeenJob:
        """Read a job, as new as what was written here. `until`: read again (bounded) until it holds.

        Raises Problem `job_not_found`, `forbidden`, `no_owner`.
        """
        version = self.recent.version(job_id, self.client.clock.monotonic_ms())
        job: SeenJob | None = None
        for attempt in range(READ_AGAIN_MAX):
            if attempt:
                await asyncio.sleep(READ_AGAIN_MS / 1000)
            job = await self.queries.job(job_id)
            if job is None:
                if version == 0 and until is None:
                    break
            elif job.state.version >= version and (until is None or until(job)):
                break
        if job is None:
            raise Problem("job_not_found", f"jobId: there is no job {job_id!r}; look at its spelling.", field="jobId")
        require_tenant(job.state.tenant, caller, "jobId")
        return job

    async def require_room(self, caller: Caller, job_id: str, request_hash: str, *, may_exist: bool) -> None:
        """See require_room. Raises Problem `pending_cap`, `no_owner`."""
        await require_room(
            caller.tenant,
            job_id,
            request_hash,
            may_exist=may_exist,
            tenants=self.tenants,
            counts=self.pending,
            queries=self.queries,
        )

    async def evidence(self, job_id: str, asks: Sequence[Ask]) -> Sequence[Proof | None]:
        """Ask the owner for records of history; an answer without its evidence is better than none."""
        if not asks:
            return ()
        try:
            return await self.queries.evidence(job_id, asks)
        except Problem:
            return [None] * len(asks)

    async def shows(self, shown: Shown) -> bool:
        """Wait (bounded) until the owner's store shows what a consistency token names. Raises Problem `no_owner`.

        A job that is not there after that time was deleted and forgotten: a store is never that far behind its commit.
        """
        job: Job | None = None
        for attempt in range(SHOWN_TRIES_MAX):
            if attempt:
                await asyncio.sleep(READ_AGAIN_MS / 1000)
            job = await self.queries.job(shown.job_id)
            if job is not None and job.state.version >= shown.version:
                return True
        return job is None

    async def require_runs_of(self, caller: Caller, job_ids: Sequence[str]) -> set[str]:
        """Give the ids of jobs that are another tenant's. Without tokens there is one tenant, and nothing to ask."""
        if self.auth.open:
            return set()
        unknown = {job_id for job_id in job_ids if self.recent.tenant(job_id) is None}
        for job_id, job in zip(
            unknown, await asyncio.gather(*(self.queries.job(job_id) for job_id in unknown)), strict=True
        ):
            if job is not None:
                self.recent.belongs(job_id, job.state.tenant)
        return {job_id for job_id in job_ids if self.recent.tenant(job_id) not in (None, caller.tenant)}


def require_tenant(tenant: str, caller: Caller, field_name: str) -> None:
    """Raise Problem `forbidden` for another tenant's things."""
    if tenant != caller.tenant:
        detail = f"{field_name}: belongs to another tenant than the token's ({caller.tenant}); use its own token."
        raise Problem("forbidden", detail, field=field_name)
