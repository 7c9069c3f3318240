"""What bounds each tenant: topic `config`, keys `tenant|<tenant>`. A tenant without an entry has no bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from api.problems import Problem
from schemas.codec import Undecodable, decode, encode

if TYPE_CHECKING:
    from api.bodies import TenantBody
    from api.dispatch.client import DispatchClient

PENDING_CAP_MAX: Final = 1_000_000_000_000
"""Far above what one cluster holds."""

LEASE_RATE_MAX: Final = 1_000_000
"""Leases a second; far above what one cluster gives."""

_RECORD: Final = "TenantConfig"


class TenantEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A record TenantConfig."""

    tenant: str
    pending_max: int | None = None
    lease_rate_per_s: float | None = None
    weight: int = 1
    version: int = 1
    updated_at_ms: int = 0
    actor: str = ""


class TenantBook:
    """All tenants that were configured; applies their lease rates to this gateway's lease desk."""

    key_prefix = "tenant|"

    def __init__(self, client: DispatchClient) -> None:
        self._client = client
        self._entries: dict[str, TenantEntry] = {}
        self.unreadable_total = 0

    def entry(self, tenant: str) -> TenantEntry | None:
        """Give what was set for a tenant."""
        return self._entries.get(tenant)

    async def declare(self, entry: TenantEntry) -> None:
        """Write a tenant's entry. Raises DispatchError."""
        await self._client.write_config(
            f"{self.key_prefix}{entry.tenant}", encode(_RECORD, msgspec.structs.asdict(entry))
        )
        self._take(entry)

    def heard(self, key: str, value: bytes | None) -> None:
        """See Book."""
        if value is None:
            tenant = key.removeprefix(self.key_prefix)
            if self._entries.pop(tenant, None) is not None:
                self._client.desk.set_lease_rate(tenant, None)
            return
        try:
            self._take(msgspec.convert(decode(value).record, TenantEntry))
        except (Undecodable, msgspec.ValidationError):
            self.unreadable_total += 1

    def _take(self, entry: TenantEntry) -> None:
        known = self._entries.get(entry.tenant)
        if known is not None and known.version > entry.version:
            return
        self._entries[entry.tenant] = entry
        self._client.desk.set_lease_rate(entry.tenant, entry.lease_rate_per_s)


def tenant_entry_of(
    body: TenantBody, tenant: str, *, before: TenantEntry | None, now_ms: int, actor: str
) -> TenantEntry:
    """Make the entry that a PUT asks for; the version rises only if it says something new. Raises Problem."""
    if body.weight is not None:
        detail = "weight: tenants have equal shares; leave it out, and bound the others with maxLeaseRatePerSecond."
        raise Problem("invalid_field", detail, field="weight")
    cap = body.pending_cap
    if cap is not None and not 0 <= cap <= PENDING_CAP_MAX:
        field = "pendingCap"
        detail = f"{field}: use a number from 0 to {PENDING_CAP_MAX}, or null."
        raise Problem("invalid_field", detail, field=field, limit=PENDING_CAP_MAX)
    rate = body.max_lease_rate_per_second
    if rate is not None and not 0 <= rate <= LEASE_RATE_MAX:
        field = "maxLeaseRatePerSecond"
        detail = f"{field}: use a number from 0 to {LEASE_RATE_MAX}, or null."
        raise Problem("invalid_field", detail, field=field, limit=LEASE_RATE_MAX)
    if before is not None and (before.lease_rate_per_s, before.pending_max) == (rate, cap):
        return before
    return TenantEntry(
        tenant=tenant,
        pending_max=cap,
        lease_rate_per_s=rate,
        version=1 if before is None else before.version + 1,
        updated_at_ms=now_ms,
        actor=actor,
    )
