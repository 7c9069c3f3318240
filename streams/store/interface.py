"""What an owner may ask of the store of one partition.

The store is a cache of the ledger at one offset (DESIGN section 6, "Store"). It holds, per job, the state
and the definition as opaque bytes; two indexes that follow the states, the *due index* (next deadline, job)
and the *ready index* (tenant, queue, lane, due time, run); the *tallies* of what the states count for; and
its own place: identity, ledger offset and a small dictionary of numbers. Every write is one atomic batch
that also moves the offset, so a store shows the ledger at exactly one offset, whatever happens to the
process. Losing a store costs a replay of the ledger and nothing else; that is why `open_store` throws away
whatever it does not trust.

Index entries are never sent by hand: they are derived from the `IndexHeader` that is stored as a prefix of
the state. The same header, encoded, travels as a Kafka header of the ledger's `s|` records, so a recovery
fills the store without decoding one Avro value.

Two implementations keep this contract and one test suite checks both: `rocks.RocksStore` and
`memory.MemoryStore`.
"""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from streams.store.tallies import Tallies

FORMAT_VERSION: Final = 3
"""Layout of keys and values; a store with another number is thrown away."""

LANE_MAX: Final = 255
"""A lane is one byte of the ready key."""

NAME_BYTES_MAX: Final = 255
"""The length of a tenant or queue is one byte of the index header; names are at most 100 characters
(streams.core.definition)."""

WEIGHT_MAX: Final = 255
"""A weight is one byte of the index header; definitions may have 100 (streams.core.definition)."""

COUNTED_MAX: Final = 0xFFFF
"""A count of one job is two bytes of the index header; a thousand times the open runs that a job may have."""

_NUL: Final = b"\0"
_HEADER_FIXED: Final = struct.Struct(">IqHHHBB")
"""Length of the whole header, deadline or -1, ready keys, pending, leased, queue bytes, tenant bytes."""
HEADER_DEADLINE_AT: Final = 4
HEADER_DEADLINE_END: Final = 12
"""Where the deadline stands in an encoded header."""
_KEY_LENGTH: Final = struct.Struct(">H")
_LINE_TAIL: Final = struct.Struct(">BQ")  # lane, due_at_ms
_NO_DEADLINE: Final = -1
_NO_DEADLINE_BYTES: Final = _NO_DEADLINE.to_bytes(8, "big", signed=True)


class StoreError(Exception):
    """The store failed to read or write. The owner gives the partition up and reloads it from the ledger."""


class StoreCorruptError(StoreError):
    """Bytes on disk are damaged. The directory is marked, and the next `open_store` throws it away."""


class StoreInUseError(StoreError):
    """Another object or process holds this directory. Nothing was touched; the caller may try again."""


class StoreClosedError(StoreError):
    """A call after `close`."""


class Unchanged(enum.Enum):
    """Type of `UNCHANGED`, which `None` (a tombstone) must not be mistaken for."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


class StoreIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Which log a store is a cache of. Any difference makes the store worthless."""

    cluster_id: str
    topic_id: str
    partition: int
    format_version: int = FORMAT_VERSION


class ReadyLine(NamedTuple):
    """One line of waiting runs."""

    tenant: str
    queue: str
    lane: int

    def encode(self) -> bytes:
        """Give the common prefix of all ready keys of this line. Raises ValueError on NUL or a bad lane."""
        tenant, queue = self.tenant.encode(), self.queue.encode()
        if _NUL in tenant or _NUL in queue:
            raise ValueError(f"NUL in tenant or queue: {self!r}")
        if not 0 <= self.lane <= LANE_MAX:
            raise ValueError(f"lane outside 0..{LANE_MAX}: {self!r}")
        return b"%b\0%b\0%c" % (tenant, queue, self.lane)


class ReadyKey(NamedTuple):
    """One open run that waits for a worker. Keys sort by line, then due time, then run id."""

    tenant: str
    queue: str
    lane: int
    due_at_ms: int
    run_id: str
    job_id: str
    concurrency_key: str = ""
    weight: int = 0
    """What the run takes of its key's limit; 0 without a key. Both stand here so that a run need not be decoded to see
    whether it may be offered."""

    @property
    def line(self) -> ReadyLine:
        """The line this run waits in."""
        return ReadyLine(self.tenant, self.queue, self.lane)

    def encode(self) -> bytes:
        """Give the sortable key: line, due time (8 bytes, big-endian), run id, NUL, job id; then NUL, weight, NUL, key.

        Raises ValueError on NUL in a name, or a lane or time out of range. Written out, as every grant calls it.
        """
        tenant, queue, lane, due_at_ms, run_id, job_id, key, weight = self
        head, tail = f"{tenant}\0{queue}\0".encode(), f"{run_id}\0{job_id}".encode()
        nuls = 1
        if key:
            tail, nuls = b"%b\0%d\0%b" % (tail, weight, key.encode()), 3
        if head.count(0) != 2 or tail.count(0) != nuls:
            raise ValueError(f"NUL in a name or id: {self!r}")
        try:
            return head + _LINE_TAIL.pack(lane, due_at_ms) + tail
        except struct.error as error:
            raise ValueError(f"lane or due_at_ms out of range: {self!r}") from error

    @classmethod
    def decode(cls, key: bytes) -> ReadyKey:
        """Read what `encode` wrote. Raises ValueError for anything else."""
        try:
            tenant, queue, rest = key.split(_NUL, 2)
            lane, due_at_ms = _LINE_TAIL.unpack_from(rest)
            run, job, *bounded = rest[_LINE_TAIL.size :].split(_NUL)
            plain = (tenant.decode(), queue.decode(), lane, due_at_ms, run.decode(), job.decode())
            if not bounded:
                return cls(*plain)
            weight, concurrency_key = bounded
            return cls(*plain, concurrency_key.decode(), int(weight))
        except (struct.error, ValueError) as error:
            raise ValueError(f"not a ready key: {key!r}") from error


def line_prefix_of(ready_key: bytes) -> bytes:
    """Give the line prefix of an encoded ready key, without decoding the rest."""
    return ready_key[: ready_key.index(0, ready_key.index(0) + 1) + 2]


class Counted(NamedTuple):
    """What one job adds to the counts of its tenant, of its queue and of its concurrency key, in encoded parts."""

    tenant: bytes = b""
    queue: bytes = b""
    pending: int = 0
    leased: int = 0
    key: bytes = b""
    weight: int = 0
    """What each of its runs takes of the key's limit, from 1; 0 without a key."""
    ready: int = 0
    """Runs that wait for a worker, of a job with a key; not encoded, since the ready keys say it."""


COUNTS_NOTHING: Final = Counted()


class IndexHeader(msgspec.Struct, frozen=True):
    """What the indexes hold for one job: its next deadline, its waiting runs, whose it is, and what it counts for."""

    deadline_ms: int | None = None
    ready: tuple[ReadyKey, ...] = ()
    tenant: str = ""
    """Stands in the due index too, so that timers take turns between tenants without decoding a state."""
    queue: str = ""
    pending: int = 0
    """See streams.core.counted; added up per tenant."""
    leased: int = 0
    """Runs that a worker holds; added up per queue."""
    concurrency_key: str = ""
    weight: int = 0
    """Of each run, against the limit of the key; 0 without one."""

    @property
    def counted(self) -> Counted:
        """What this job adds to the counts."""
        return _counted(self)

    def encode(self) -> bytes:
        """Give the bytes for the ledger's Kafka header and for the prefix of the stored state."""
        return pack_header(self.deadline_ms, [key.encode() for key in self.ready], self.counted)

    @classmethod
    def decode(cls, data: bytes) -> IndexHeader:
        """Read an encoded header, also from the start of a longer value. Raises ValueError."""
        deadline_ms, keys, counted, _ = unpack_header(data)
        ready = tuple(ReadyKey.decode(key) for key in keys)
        tenant, queue, pending, leased, concurrency_key, weight, _ = counted
        return cls(
            deadline_ms, ready, tenant.decode(), queue.decode(), pending, leased, concurrency_key.decode(), weight
        )


def _counted(said: IndexHeader | LedgerChange) -> Counted:
    tenant, queue = said.tenant.encode(), said.queue.encode()
    if not said.concurrency_key:
        return Counted(tenant, queue, said.pending, said.leased)
    key, ready = said.concurrency_key.encode(), len(said.ready)
    return Counted(tenant, queue, said.pending, said.leased, key, said.weight, ready)


def pack_header(deadline_ms: int | None, ready_keys: Sequence[bytes], counted: Counted = COUNTS_NOTHING) -> bytes:
    """Encode a header from encoded parts. Raises ValueError for a negative deadline, too long a name or a bad count."""
    tenant, queue, pending, leased, concurrency_key, weight, _ = counted
    if len(tenant) > NAME_BYTES_MAX or len(queue) > NAME_BYTES_MAX:
        raise ValueError(f"of tenant and queue at most {NAME_BYTES_MAX} bytes fit: {tenant[:40]!r}, {queue[:40]!r}")
    if not (0 <= pending <= COUNTED_MAX and 0 <= leased <= COUNTED_MAX):
        raise ValueError(f"a job counts from 0 to {COUNTED_MAX} runs, not {pending} and {leased}")
    if len(ready_keys) > 1 and len(set(ready_keys)) != len(ready_keys):
        raise ValueError(f"a ready key is given twice: {ready_keys!r}")
    if deadline_ms is None:
        stored_ms = _NO_DEADLINE
    elif deadline_ms < 0:
        raise ValueError(f"deadline_ms below zero: {deadline_ms}")
    else:
        stored_ms = deadline_ms
    body = tenant + queue
    if ready_keys:
        body += b"".join([_KEY_LENGTH.pack(len(key)) + key for key in ready_keys])
    if concurrency_key:
        if not 1 <= weight <= WEIGHT_MAX:
            raise ValueError(f"a weight is from 1 to {WEIGHT_MAX}, not {weight}")
        body += b"%c%b" % (weight, concurrency_key)
    length, count = _HEADER_FIXED.size + len(body), len(ready_keys)
    return _HEADER_FIXED.pack(length, stored_ms, count, pending, leased, len(queue), len(tenant)) + body


def unpack_header(data: bytes) -> tuple[int | None, tuple[bytes, ...], Counted, int]:
    """Give (deadline, encoded ready keys, what it counts for, length of the header) of a value that begins with one.

    Raises ValueError when the bytes are no header.
    """
    try:
        length, stored_ms, count, pending, leased, queue_bytes, tenant_bytes = _HEADER_FIXED.unpack_from(data)
        deadline_ms = None if stored_ms == _NO_DEADLINE else stored_ms
        queue_at = _HEADER_FIXED.size + tenant_bytes
        at = queue_at + queue_bytes
        counted = Counted(data[_HEADER_FIXED.size : queue_at], data[queue_at:at], pending, leased)
        if count == 0 and length == at <= len(data) and stored_ms >= _NO_DEADLINE:
            return deadline_ms, (), counted, length
        keys = []
        for _ in range(count):
            (size,) = _KEY_LENGTH.unpack_from(data, at)
            at += _KEY_LENGTH.size
            keys.append(data[at : at + size])
            at += size
    except struct.error as error:
        raise ValueError(f"not an index header: {data[:40]!r}") from error
    if length > at + 1 and length <= len(data):
        # Only a job with a concurrency key has more behind its ready keys: the weight, one byte, and the key.
        counted = counted._replace(key=data[at + 1 : length], weight=data[at], ready=count)
        at = length
    if at != length or at > len(data) or stored_ms < _NO_DEADLINE:
        raise ValueError(f"not an index header: {data[:40]!r}")
    return deadline_ms, tuple(keys), counted, length


def deadline_bytes(header: bytes) -> bytes | None:
    """Give the deadline of an encoded header as it stands in the due index, None if there is none. Not checked."""
    deadline = header[HEADER_DEADLINE_AT:HEADER_DEADLINE_END]
    return None if deadline == _NO_DEADLINE_BYTES else deadline


def tenant_in(header: bytes) -> bytes:
    """Give the tenant of an encoded header, without decoding the rest."""
    return header[_HEADER_FIXED.size : _HEADER_FIXED.size + header[_HEADER_FIXED.size - 1]]


class LedgerChange(msgspec.Struct, frozen=True):
    """What one committed decision did to one job.

    `state` and `definition`: new bytes, `None` for a tombstone, `UNCHANGED` for no record. `deadline_ms`, `ready` and
    all that stands in an IndexHeader describe the new state, and count only if there is one. `previous` is the header
    of the state before this change, if the caller knows it: it saves the store a read. A wrong one leaves index entries
    of the past behind and counts wrong, so pass `None` when in doubt.
    """

    job_id: str
    state: bytes | Unchanged | None = UNCHANGED
    definition: bytes | Unchanged | None = UNCHANGED
    deadline_ms: int | None = None
    ready: tuple[ReadyKey, ...] = ()
    previous: IndexHeader | None = None
    tenant: str = ""
    queue: str = ""
    pending: int = 0
    leased: int = 0
    concurrency_key: str = ""
    weight: int = 0

    @property
    def counted(self) -> Counted:
        """What the new state adds to the counts."""
        return _counted(self)


class LedgerRecord(NamedTuple):
    """One record of the ledger as it was read: nothing in it is decoded.

    `kind` is the ledger key's prefix, "s" or "d". `header` is the encoded `IndexHeader` of a state record
    (taken from the Kafka header), and empty for definitions and tombstones.
    """

    kind: Literal["s", "d"]
    job_id: str
    value: bytes | None
    header: bytes = b""


class DueEntry(NamedTuple):
    """One entry of the due index; also the continuation key of the next read."""

    deadline_ms: int
    job_id: str
    tenant: str = ""
    """No part of the order."""


class StoreCounts(NamedTuple):
    """How many jobs have a state, and how many runs wait."""

    jobs: int
    ready: int


class Store(Protocol):
    """The store of one partition. Not safe for two writers; every read sees whole batches only.

    All methods raise StoreError (or a subclass) when the disk or its content fails.
    """

    @property
    def identity(self) -> StoreIdentity:
        """The log that this is a cache of."""
        ...

    @property
    def ledger_offset(self) -> int:
        """The next ledger offset to read: everything below it is in the store. 0 in a new store."""
        ...

    @property
    def meta(self) -> Mapping[str, int]:
        """The numbers that were written along, such as the next sequence number."""
        ...

    @property
    def written_at_ms(self) -> int:
        """Wall time of the last write (of the opening, in a new store), for the rule about age."""
        ...

    @property
    def counts(self) -> StoreCounts:
        """Jobs with a state, and waiting runs."""
        ...

    def apply(
        self,
        changes: Sequence[LedgerChange],
        *,
        ledger_offset: int,
        now_ms: int,
        meta: Mapping[str, int] | None = None,
    ) -> None:
        """Write committed changes, their index entries, the offset and `meta` as one atomic batch.

        Changes of one job count in their order. `meta` is merged into what is there. `ledger_offset` must
        not fall: ValueError.
        """
        ...

    def load(
        self,
        records: Sequence[LedgerRecord],
        *,
        ledger_offset: int,
        now_ms: int,
        meta: Mapping[str, int] | None = None,
    ) -> None:
        """Write records of a recovery as one atomic batch; some 5,000 a call is a good size.

        The later record of a job wins. As `apply`, with two differences: nothing is decoded, and a crash
        may lose the newest batches together with their offset until the next `apply` or `close`.
        """
        ...

    def loaded(self) -> None:
        """Make what was loaded durable and fit for reading: the recovery is over. `apply` may follow, `load` not."""
        ...

    def state(self, job_id: str) -> bytes | None:
        """Give the state's bytes."""
        ...

    def definition(self, job_id: str) -> bytes | None:
        """Give the definition's bytes."""
        ...

    def header(self, job_id: str) -> IndexHeader | None:
        """Give what the indexes hold for this job; None if it has no state."""
        ...

    def due(self, after: DueEntry | None, until_ms: int, limit: int) -> list[DueEntry]:
        """Give the next entries of the due index behind `after`, deadline <= `until_ms`, in order."""
        ...

    def ready_heads(self, now_ms: int, after: ReadyLine | None = None, limit: int = 1_000) -> list[ReadyKey]:
        """Give the oldest waiting run of each line behind `after`, where it is due by `now_ms`."""
        ...

    def ready_line(
        self, line: ReadyLine, until_due_ms: int, limit: int, after: ReadyKey | None = None
    ) -> list[ReadyKey]:
        """Give the waiting runs of one line behind `after`, due_at_ms <= `until_due_ms`, oldest first."""
        ...

    def ready_counts(self) -> dict[ReadyLine, int]:
        """Give the number of waiting runs of every line that has any."""
        ...

    def lines_among(self, lines: Mapping[bytes, object]) -> AbstractSet[bytes]:
        """Give those of these encoded lines in which runs wait; costs the smaller of both."""
        ...

    @property
    def tallies(self) -> Tallies:
        """What the headers of all states add up to; to be read only."""
        ...

    def jobs(self, after_job_id: str | None, limit: int) -> list[tuple[str, bytes]]:
        """Give one page of (job id, state) in key order behind `after_job_id`."""
        ...

    def close(self) -> None:
        """Write what is pending and release the directory, for good. A second call does nothing."""
        ...
