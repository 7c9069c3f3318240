"""The limits of concurrency keys: topic `config`, keys `concurrency|<tenant>|<key>`, read whole by every gateway.

A key needs no entry: jobs may name any, and one without a limit bounds nothing. Owners keep the limits
(streams.limits); here they are set, and told with what owners say counts against them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from api.problems import Problem
from schemas.codec import Undecodable, decode, encode

if TYPE_CHECKING:
    from api.bodies import ConcurrencyKeyBody
    from api.dispatch.client import DispatchClient
    from streams.core.definition import Definition
    from streams.core.envelopes import OwnerView

KEYS_PER_TENANT_MAX: Final = 1_000
"""With a limit. Every process keeps those of all tenants in memory."""

UNITS_MAX: Final = 1_000_000_000
"""Far above what one cluster runs."""

DESCRIPTION_CHARS_MAX: Final = 1_000

_RECORD: Final = "ConcurrencyConfig"


class ConcurrencyEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A record ConcurrencyConfig."""

    tenant: str
    key: str
    running_max: int | None = None
    description: str = ""
    version: int = 1
    updated_at_ms: int = 0
    actor: str = ""


class KeyUse(NamedTuple):
    """What owners say of a key that has a limit."""

    units: int = 0
    """That the runs take which workers hold."""
    heaviest: int = 0
    """The largest weight of a run that waits for a worker, as far as it is below the limit; 0: none waits."""


class ConcurrencyBook:
    """All limits of keys, and the last word of each partition's owner on what counts against them."""

    key_prefix = "concurrency|"

    def __init__(self, client: DispatchClient) -> None:
        self._client = client
        self._entries: dict[str, dict[str, ConcurrencyEntry]] = {}
        """Tenant to key to its entry."""
        self._said: dict[int, dict[tuple[str, str], KeyUse]] = {}
        self.unreadable_total = 0

    def entry(self, tenant: str, key: str) -> ConcurrencyEntry | None:
        """Give what was set for a key."""
        return self._entries.get(tenant, {}).get(key)

    def of(self, tenant: str) -> list[ConcurrencyEntry]:
        """Give a tenant's keys that were set, by name."""
        entries = self._entries.get(tenant, {})
        return [entries[key] for key in sorted(entries)]

    def limit(self, tenant: str, key: str) -> int | None:
        """Give a key's limit; None: there is none."""
        entry = self.entry(tenant, key)
        return None if entry is None else entry.running_max

    def use(self, tenant: str, key: str) -> KeyUse:
        """Add up what the owners said of a key."""
        said = [told for keys in self._said.values() if (told := keys.get((tenant, key))) is not None]
        return KeyUse(sum(told.units for told in said), max((told.heaviest for told in said), default=0))

    def require_startable(self, definition: Definition) -> None:
        """Raise Problem `invalid_field` for a run that is heavier than the limit of its key.

        A limit of 0 is a stop, which is meant to be lifted again, and refuses no definition.
        """
        limit = self.limit(definition.tenant, definition.concurrency_key) if definition.concurrency_key else None
        weight = definition.concurrency_units
        if not limit or weight <= limit:
            return
        field = "concurrencyWeight"
        key = definition.concurrency_key
        detail = (
            f"{field}: {weight}, and the limit of concurrency key {key!r} is {limit}, so no run would ever start; use "
            f"{limit} or less, or raise maxRunning with PUT /v1/concurrency-keys/{key}."
        )
        raise Problem("invalid_field", detail, field=field, limit=limit)

    async def declare(self, entry: ConcurrencyEntry) -> None:
        """Write a key's entry; one that says nothing is deleted. Raises DispatchError."""
        key = f"{self.key_prefix}{entry.tenant}|{entry.key}"
        if entry.running_max is None and not entry.description:
            await self._client.write_config(key, None)
            self._forget(entry.tenant, entry.key)
        else:
            await self._client.write_config(key, encode(_RECORD, msgspec.structs.asdict(entry)))
            self._take(entry)

    def heard(self, key: str, value: bytes | None) -> None:
        """See Book."""
        if value is None:
            tenant, _, name = key.removeprefix(self.key_prefix).partition("|")
            self._forget(tenant, name)
            return
        try:
            self._take(msgspec.convert(decode(value).record, ConcurrencyEntry))
        except (Undecodable, msgspec.ValidationError):
            self.unreadable_total += 1

    def heard_owner(self, partition: int, view: OwnerView | None) -> None:
        """Follow a record of topic `owners`. A partition that has no owner keeps what it had."""
        if view is not None:
            self._said[partition] = {(told.tenant, told.key): KeyUse(told.units, told.weight) for told in view.keys}

    def _take(self, entry: ConcurrencyEntry) -> None:
        known = self.entry(entry.tenant, entry.key)
        if known is None or known.version <= entry.version:
            self._entries.setdefault(entry.tenant, {})[entry.key] = entry

    def _forget(self, tenant: str, key: str) -> None:
        self._entries.get(tenant, {}).pop(key, None)

    def entry_of(
        self, body: ConcurrencyKeyBody, tenant: str, key: str, *, now_ms: int, actor: str
    ) -> ConcurrencyEntry | None:
        """Make the entry that a PUT asks for; None: it says what is there. Raises Problem."""
        limit = body.max_running
        if limit is not None and not 0 <= limit <= UNITS_MAX:
            detail = f"maxRunning: use a number from 0 to {UNITS_MAX}, or null."
            raise Problem("invalid_field", detail, field="maxRunning", limit=UNITS_MAX)
        if len(body.description) > DESCRIPTION_CHARS_MAX:
            detail = f"description: at most {DESCRIPTION_CHARS_MAX} characters."
            raise Problem("invalid_field", detail, field="description", limit=DESCRIPTION_CHARS_MAX)
        before = self.entry(tenant, key)
        said = (None, "") if before is None else (before.running_max, before.description)
        if said == (limit, body.description):
            return None
        if before is None and len(self._entries.get(tenant, {})) >= KEYS_PER_TENANT_MAX:
            detail = f"key: {KEYS_PER_TENANT_MAX} keys have a limit; lift one (maxRunning null) that is not needed."
            raise Problem("invalid_field", detail, field="key", limit=KEYS_PER_TENANT_MAX)
        version = 1 if before is None else before.version + 1
        return ConcurrencyEntry(
            tenant=tenant,
            key=key,
            running_max=limit,
            description=body.description,
            version=version,
            updated_at_ms=now_ms,
            actor=actor,
        )
