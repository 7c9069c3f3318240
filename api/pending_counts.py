"""How much of each capped tenant is pending, as the owners tell it in topic `owners` about every second.

A new job is refused here at once where its tenant is at its cap, before it costs a record. Whatever names a job that is
there already (an edit, a repeat) is none of this module's business and passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.problems import Problem

if TYPE_CHECKING:
    from api.queries import OwnerQueries
    from api.tenant_book import TenantBook
    from streams.core.envelopes import OwnerView


class PendingCounts:
    """The last word of each partition's owner, added up."""

    def __init__(self) -> None:
        self._said: dict[int, dict[str, int]] = {}
        self._totals: dict[str, int] = {}

    def heard(self, partition: int, view: OwnerView | None) -> None:
        """Follow a record of topic `owners`. A partition that has no owner keeps what it had."""
        if view is None:
            return
        for tenant, count in self._said.pop(partition, {}).items():
            self._totals[tenant] -= count
        self._said[partition] = {told.tenant: told.pending for told in view.pending}
        for tenant, count in self._said[partition].items():
            self._totals[tenant] = self._totals.get(tenant, 0) + count

    def total(self, tenant: str) -> int:
        """Give what is pending of a tenant in all partitions."""
        return self._totals.get(tenant, 0)


async def require_room(
    tenant: str,
    job_id: str,
    request_hash: str,
    *,
    may_exist: bool,
    tenants: TenantBook,
    counts: PendingCounts,
    queries: OwnerQueries,
) -> None:
    """Raise Problem `pending_cap` for a new job of a tenant that is at its cap.

    Only there, and only where the id was given by the caller or its key (`may_exist`), is the owner asked whether the
    job is there already.
    """
    entry = tenants.entry(tenant)
    if entry is None or entry.pending_max is None or (pending := counts.total(tenant)) < entry.pending_max:
        return
    if may_exist:
        job = await queries.job(job_id)
        if job is not None and (job.state.status != "deleted" or job.state.create_hash == request_hash):
            return
    detail = (
        f"Tenant {tenant} has {pending} pending, and its cap is {entry.pending_max}. Repeat the call when workers have "
        "taken some of it, delete jobs, or raise pendingCap."
    )
    raise Problem("pending_cap", detail, limit=entry.pending_max, members={"pending": pending})
