"""The records that carry commands, events and answers between processes (DESIGN section 4), as values.

One struct per topic value; streams.core.wire turns each into Avro and back. Nothing here decides anything.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from streams.core.commands import AnyCommand, Grant, Reply
from streams.core.events import AnyEvent
from streams.core.state import RunOutcome


class CommandBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Topic `commands`: what one gateway asks of the jobs of one partition, in order."""

    gateway_id: str
    incarnation: str
    """New at each start of the gateway: answers to an earlier one have nobody left to read them."""
    sent_at_ms: int
    commands: tuple[AnyCommand, ...]


CauseKind = Literal["command", "definition", "timer", "parked"]
DeadLetterCode = Literal[
    "unreadable", "invalid", "wrong_partition", "wrong_tenant", "quota", "quarantined", "too_large"
]


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Where a decision came from: enough to find the input again."""

    kind: CauseKind
    name: str
    """Of the command struct, for instance `Complete`."""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    index: int = -1
    """Position in the batch at that offset."""
    request_id: str = ""
    gateway_id: str = ""
    appended_at_ms: int = 0
    """LogAppendTime of the input; 0 for timers."""


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Topic `history`: one decision with everything needed to prove it."""

    job_id: str
    partition: int
    seq: int
    """Dense per partition, from 1."""
    generation: int
    member_id: str
    transactional_id: str
    now_ms: int
    """Broker time that the decision was made with."""
    cause: Cause
    config_offset: int = 0
    zone_data: str = ""
    events: tuple[AnyEvent, ...]


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Topic `ledger`, key `m|`: one in every transaction of a partition."""

    partition: int
    next_seq: int
    generation: int
    member_id: str
    transactional_id: str
    now_ms: int
    """Broker time by the owner's estimate; 0 in a take-over's first marker, written before any sample."""
    absent_from_ms: int = 0
    """The newest time without a working owner began here ..."""
    absent_to_ms: int = 0
    """... and ended here; 0, 0 where there was none."""
    previous_marker_ms: int = 0
    """In a take-over's first marker: when the predecessor's last one was appended; 0 in all others."""


class LeaseView(msgspec.Struct, frozen=True, kw_only=True):
    """Topic `leases`: the public view of who holds what. `closed` is None while the lease lives."""

    run_id: str
    job_id: str
    tenant: str
    queue: str
    lease_token: int
    attempt: int
    worker_id: str
    gateway_id: str
    granted_at_ms: int
    expires_at_ms: int
    closed: Literal["succeeded", "failed", "released", "expired", "cancelled"] | None = None
    closed_at_ms: int = 0
    outcome: RunOutcome | None = None
    """Of the run, where this lease ended it."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One reply, under the request id of its command."""

    request_id: str
    reply: Reply | Grant


class ReplyBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Topic `replies`: the answers of one commit to one gateway."""

    gateway_id: str
    answers: tuple[Answer, ...]


class QueueDemand(msgspec.Struct, frozen=True, kw_only=True):
    """How many more runs of one queue a gateway has waiting workers for."""

    tenant: str
    queue: str
    slots: int
    calls: int = 0
    """How many lease calls wait; only people are told."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """Topic `demand`: a gateway's free slots, whole at each message; an absent queue has none."""

    gateway_id: str
    incarnation: str
    sent_at_ms: int
    queues: tuple[QueueDemand, ...]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A hint: this run is due, or will be within the look-ahead."""

    run_id: str
    job_id: str
    tenant: str
    queue: str
    lane: str
    due_at_ms: int
    job_version: int


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """Topic `offers`: hints of one owner for one gateway."""

    gateway_id: str
    incarnation: str
    partition: int
    offers: tuple[Offer, ...]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Topic `dead-letter`: an input that could not be read or accepted."""

    source_topic: str
    source_partition: int
    source_offset: int
    index: int = -1
    key: bytes | None = None
    value: bytes | None = None
    """Cut at DEAD_LETTER_VALUE_BYTES_MAX."""
    code: DeadLetterCode
    field: str = ""
    reason: str
    at_ms: int


class TenantPending(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one tenant is pending in one partition; see streams.core.counted."""

    tenant: str
    pending: int


class QueueRunning(msgspec.Struct, frozen=True, kw_only=True):
    """How busy one queue is in one partition."""

    tenant: str
    queue: str
    running: int
    waiting: bool


class KeyRunning(msgspec.Struct, frozen=True, kw_only=True):
    """How busy one concurrency key is in one partition."""

    tenant: str
    key: str
    units: int
    weight: int
    """The largest weight of a run that waits for a worker in the owner's process; 0: none waits."""


class OwnerView(msgspec.Struct, frozen=True, kw_only=True):
    """Topic `owners`: who acts for a partition, where its queries are answered, and what counts against limits there.

    The counts are those of tenants, queues and concurrency keys that have a limit; what is left out is zero.
    """

    partition: int
    generation: int
    member_id: str
    transactional_id: str
    query_url: str
    since_ms: int
    pending: tuple[TenantPending, ...] = ()
    running: tuple[QueueRunning, ...] = ()
    keys: tuple[KeyRunning, ...] = ()
