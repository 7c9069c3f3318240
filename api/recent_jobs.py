"""What this gateway has just changed, so that a read after a write finds it (docs/http-api.md).

An owner's store follows its commit by milliseconds. A job that was written here is read again until the store shows its
version, for a bounded time. Also remembers whose a job is, so that a run's tenant need not be asked for each call.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

REMEMBER_MS: Final = 5_000
"""Far longer than a store lags behind its commit."""

RECENT_MAX: Final = 20_000
TENANTS_MAX: Final = 100_000
"""About 15 MB; a job seldom changes hands (never: its tenant is fixed)."""


class RecentJobs:
    """Versions written here, and the tenants of jobs."""

    def __init__(self) -> None:
        self._versions: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._tenants: OrderedDict[str, str] = OrderedDict()

    def wrote(self, job_id: str, version: int, now_ms: float) -> None:
        """Remember a version that a reply confirmed; `now_ms` is monotonic."""
        self._versions[job_id] = (version, now_ms)
        self._versions.move_to_end(job_id)
        if len(self._versions) > RECENT_MAX:
            self._versions.popitem(last=False)

    def version(self, job_id: str, now_ms: float) -> int:
        """Give the version that a read must show; 0 is any."""
        known = self._versions.get(job_id)
        if known is None or now_ms - known[1] > REMEMBER_MS:
            return 0
        return known[0]

    def belongs(self, job_id: str, tenant: str) -> None:
        """Remember a job's tenant."""
        self._tenants[job_id] = tenant
        if len(self._tenants) > TENANTS_MAX:
            self._tenants.popitem(last=False)

    def tenant(self, job_id: str) -> str | None:
        """Give a job's tenant, if it is known."""
        return self._tenants.get(job_id)
