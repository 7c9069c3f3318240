"""Which queues exist and what bounds them: topic `config`, keys `queue|<tenant>|<queue>`, read whole by every gateway.

Without strict queues a queue needs no entry: it exists once a job or a worker names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from api.definitions import QUEUE_DEFAULT
from api.problems import Problem
from api.tenant_book import LEASE_RATE_MAX
from schemas.codec import Undecodable, decode, encode

if TYPE_CHECKING:
    from api.bodies import QueueBody
    from api.dispatch.client import DispatchClient
    from streams.core.envelopes import OwnerView

DESCRIPTION_CHARS_MAX: Final = 1_000

RUNNING_MAX: Final = 1_000_000_000
"""Far above what one cluster runs."""

_RECORD: Final = "QueueConfig"


class QueueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A record QueueConfig."""

    tenant: str
    queue: str
    description: str = ""
    running_max: int | None = None
    lease_rate_per_s: float | None = None
    version: int = 1
    updated_at_ms: int = 0
    actor: str = ""


class QueueBook:
    """All declared queues; applies their lease rates to this gateway's lease desk."""

    key_prefix = "queue|"

    def __init__(self, client: DispatchClient, *, strict: bool) -> None:
        self._client = client
        self._strict = strict
        self._entries: dict[tuple[str, str], QueueEntry] = {}
        self._said: dict[int, dict[tuple[str, str], int]] = {}
        """Partition to what its owner said last: the running runs of queues that have a limit."""
        self.unreadable_total = 0

    def entry(self, tenant: str, queue: str) -> QueueEntry | None:
        """Give what was declared of a queue."""
        return self._entries.get((tenant, queue))

    def of(self, tenant: str) -> list[str]:
        """Give the declared queues of a tenant."""
        return [queue for owner, queue in self._entries if owner == tenant]

    def running(self, tenant: str, queue: str) -> int:
        """Add up what the owners said of a queue that has a limit."""
        return sum(queues.get((tenant, queue), 0) for queues in self._said.values())

    def heard_owner(self, partition: int, view: OwnerView | None) -> None:
        """Follow a record of topic `owners`. A partition that has no owner keeps what it had."""
        if view is not None:
            self._said[partition] = {(told.tenant, told.queue): told.running for told in view.running}

    def require(self, tenant: str, queue: str) -> None:
        """Raise Problem `unknown_queue` for a queue that does not exist, where queues must be declared."""
        if self._strict and queue != QUEUE_DEFAULT and (tenant, queue) not in self._entries:
            detail = f"queue: there is no queue {queue!r}; create it with PUT /v1/queues/{queue}, or correct the name."
            raise Problem("unknown_queue", detail, field="queue", allowed=sorted({QUEUE_DEFAULT, *self.of(tenant)}))

    async def declare(self, entry: QueueEntry) -> None:
        """Write a queue's entry; it counts here once it is read back. Raises DispatchError."""
        key = f"{self.key_prefix}{entry.tenant}|{entry.queue}"
        await self._client.write_config(key, encode(_RECORD, msgspec.structs.asdict(entry)))
        self._take(entry)

    def heard(self, key: str, value: bytes | None) -> None:
        """See Book."""
        if value is None:
            tenant, _, queue = key.removeprefix(self.key_prefix).partition("|")
            if self._entries.pop((tenant, queue), None) is not None:
                self._client.desk.set_lease_rate(tenant, None, queue=queue)
            return
        try:
            decoded = decode(value)
            self._take(msgspec.convert(decoded.record, QueueEntry))
        except (Undecodable, msgspec.ValidationError):
            self.unreadable_total += 1

    def _take(self, entry: QueueEntry) -> None:
        known = self._entries.get((entry.tenant, entry.queue))
        if known is not None and known.version > entry.version:
            return
        self._entries[entry.tenant, entry.queue] = entry
        self._client.desk.set_lease_rate(entry.tenant, entry.lease_rate_per_s, queue=entry.queue)


def entry_of(
    body: QueueBody, tenant: str, queue: str, *, before: QueueEntry | None, now_ms: int, actor: str
) -> QueueEntry:
    """Make the entry that a PUT asks for; the version rises only if it says something new."""
    running_max = body.max_running
    if running_max is not None and not 0 <= running_max <= RUNNING_MAX:
        field = "maxRunning"
        detail = f"{field}: use a number from 0 to {RUNNING_MAX}, or null."
        raise Problem("invalid_field", detail, field=field, limit=RUNNING_MAX)
    rate = body.max_lease_rate_per_second
    if rate is not None and not 0 <= rate <= LEASE_RATE_MAX:
        field = "maxLeaseRatePerSecond"
        detail = f"{field}: use a number from 0 to {LEASE_RATE_MAX}, or null."
        raise Problem("invalid_field", detail, field=field, limit=LEASE_RATE_MAX)
    if len(body.description) > DESCRIPTION_CHARS_MAX:
        detail = f"description: at most {DESCRIPTION_CHARS_MAX} characters."
        raise Problem("invalid_field", detail, field="description", limit=DESCRIPTION_CHARS_MAX)
    entry = QueueEntry(
        tenant=tenant,
        queue=queue,
        description=body.description,
        running_max=running_max,
        lease_rate_per_s=rate,
        version=1 if before is None else before.version + 1,
        updated_at_ms=now_ms,
        actor=actor,
    )
    known = None if before is None else (before.description, before.lease_rate_per_s, before.running_max)
    if before is not None and known == (entry.description, rate, running_max):
        return before
    return entry
