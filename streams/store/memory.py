"""The store in memory: dictionaries and two sorted lists. For the simulator and for tests.

It keeps the contract of `streams.store.interface.Store` with none of the on-disk store's machinery, so that
the two check each other. An insertion moves the tail of a list: fine up to some 100,000 jobs. To play a
restart, keep the object; to play a lost store, make a new one.
"""

from __future__ import annotations

import bisect
from types import MappingProxyType
from typing import TYPE_CHECKING

from streams.store.interface import (
    DueEntry,
    IndexHeader,
    LedgerChange,
    LedgerRecord,
    ReadyKey,
    ReadyLine,
    StoreClosedError,
    StoreCounts,
    StoreIdentity,
    Unchanged,
)
from streams.store.tallies import Tallies, tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet


class MemoryStore:
    """See `streams.store.interface.Store`."""

    def __init__(self, identity: StoreIdentity, now_ms: int = 0) -> None:
        """Make an empty store at offset 0."""
        self._identity = identity
        self._ledger_offset = 0
        self._written_at_ms = now_ms
        self._meta: dict[str, int] = {}
        self._states: dict[str, tuple[IndexHeader, bytes]] = {}
        self._definitions: dict[str, bytes] = {}
        self._due: list[tuple[int, bytes]] = []
        self._ready: list[tuple[bytes, ReadyKey]] = []
        self._tallies = Tallies()
        self._closed = False

    @property
    def identity(self) -> StoreIdentity:
        """See Store."""
        return self._identity

    @property
    def ledger_offset(self) -> int:
        """See Store."""
        return self._ledger_offset

    @property
    def meta(self) -> Mapping[str, int]:
        """See Store."""
        return MappingProxyType(self._meta)

    @property
    def written_at_ms(self) -> int:
        """See Store."""
        return self._written_at_ms

    @property
    def counts(self) -> StoreCounts:
        """See Store."""
        return StoreCounts(len(self._states), len(self._ready))

    def apply(
        self,
        changes: Sequence[LedgerChange],
        *,
        ledger_offset: int,
        now_ms: int,
        meta: Mapping[str, int] | None = None,
    ) -> None:
        """See Store. `previous` is not needed here."""
        self._check_offset(ledger_offset)
        checked = [(change, _header_of(change)) for change in changes]
        for _, header in checked:
            header.encode()  # refuses what the store on disk would refuse, before anything has changed
        for change, header in checked:
            if not isinstance(change.definition, Unchanged):
                self._put_definition(change.job_id, change.definition)
            if not isinstance(change.state, Unchanged):
                self._put_state(change.job_id, header, change.state)
        self._move(ledger_offset, now_ms, meta)

    def load(
        self,
        records: Sequence[LedgerRecord],
        *,
        ledger_offset: int,
        now_ms: int,
        meta: Mapping[str, int] | None = None,
    ) -> None:
        """See Store. Raises ValueError for a state record whose header is none."""
        self._check_offset(ledger_offset)
        headers = [
            IndexHeader.decode(record.header) if record.kind == "s" and record.value is not None else None
            for record in records
        ]
        for record, header in zip(records, headers, strict=True):
            if record.kind == "d":
                self._put_definition(record.job_id, record.value)
            else:
                self._put_state(record.job_id, header or IndexHeader(), record.value)
        self._move(ledger_offset, now_ms, meta)

    def loaded(self) -> None:
        """See Store. Memory is as durable as it gets."""

    def state(self, job_id: str) -> bytes | None:
        """See Store."""
        self._check_open()
        entry = self._states.get(job_id)
        return None if entry is None else entry[1]

    def definition(self, job_id: str) -> bytes | None:
        """See Store."""
        self._check_open()
        return self._definitions.get(job_id)

    def header(self, job_id: str) -> IndexHeader | None:
        """See Store."""
        self._check_open()
        entry = self._states.get(job_id)
        return None if entry is None else entry[0]

    def due(self, after: DueEntry | None, until_ms: int, limit: int) -> list[DueEntry]:
        """See Store."""
        self._check_open()
        at = 0
        if after is not None:
            at = bisect.bisect_right(self._due, (after.deadline_ms, after.job_id.encode()))
        end = bisect.bisect_left(self._due, (until_ms + 1, b""))
        found = [(ms, job.decode()) for ms, job in self._due[at : min(end, at + limit)]]
        return [DueEntry(ms, job, self._states[job][0].tenant) for ms, job in found]

    def ready_heads(self, now_ms: int, after: ReadyLine | None = None, limit: int = 1_000) -> list[ReadyKey]:
        """See Store."""
        self._check_open()
        floor = None if after is None else after.encode()
        heads: list[ReadyKey] = []
        line: ReadyLine | None = None
        for _, key in self._ready:
            if key.line != line:
                line = key.line
                if key.due_at_ms <= now_ms and (floor is None or line.encode() > floor):
                    heads.append(key)
        return heads[:limit]

    def ready_line(
        self, line: ReadyLine, until_due_ms: int, limit: int, after: ReadyKey | None = None
    ) -> list[ReadyKey]:
        """See Store."""
        self._check_open()
        behind = None if after is None else after.encode()
        return [
            key
            for encoded, key in self._ready
            if key.line == line and key.due_at_ms <= until_due_ms and (behind is None or encoded > behind)
        ][:limit]

    def ready_counts(self) -> dict[ReadyLine, int]:
        """See Store."""
        self._check_open()
        counts: dict[ReadyLine, int] = {}
        for _, key in self._ready:
            counts[key.line] = counts.get(key.line, 0) + 1
        return counts

    def lines_among(self, lines: Mapping[bytes, object]) -> AbstractSet[bytes]:
        """See Store."""
        self._check_open()
        return {line.encode() for line in self.ready_counts()} & lines.keys() if lines else set()

    @property
    def tallies(self) -> Tallies:
        """See Store."""
        return self._tallies

    def jobs(self, after_job_id: str | None, limit: int) -> list[tuple[str, bytes]]:
        """See Store."""
        self._check_open()
        behind = sorted(
            (job_id for job_id in self._states if after_job_id is None or job_id.encode() > after_job_id.encode()),
            key=str.encode,
        )
        return [(job_id, self._states[job_id][1]) for job_id in behind[:limit]]

    def close(self) -> None:
        """See Store."""
        self._closed = True

    def _put_definition(self, job_id: str, definition: bytes | None) -> None:
        if definition is None:
            self._definitions.pop(job_id, None)
        else:
            self._definitions[job_id] = definition

    def _put_state(self, job_id: str, header: IndexHeader, state: bytes | None) -> None:
        old = self._states.pop(job_id, None)
        deltas: dict[bytes, int] = {}
        if old is not None:
            tally(deltas, old[0].counted, -1)
            if old[0].deadline_ms is not None:
                del self._due[bisect.bisect_left(self._due, (old[0].deadline_ms, job_id.encode()))]
            for key in old[0].ready:
                del self._ready[bisect.bisect_left(self._ready, (key.encode(), key))]
        if state is not None:
            self._states[job_id] = (header, state)
            if header.deadline_ms is not None:
                bisect.insort(self._due, (header.deadline_ms, job_id.encode()))
            for key in header.ready:
                bisect.insort(self._ready, (key.encode(), key))
            tally(deltas, header.counted, 1)
        self._tallies.add(deltas)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("the store is closed")

    def _check_offset(self, ledger_offset: int) -> None:
        self._check_open()
        if ledger_offset < self._ledger_offset:
            raise ValueError(f"ledger offset falls from {self._ledger_offset} to {ledger_offset}")

    def _move(self, ledger_offset: int, now_ms: int, meta: Mapping[str, int] | None) -> None:
        self._ledger_offset = ledger_offset
        self._written_at_ms = now_ms
        self._meta.update(meta or {})


def _header_of(change: LedgerChange) -> IndexHeader:
    return IndexHeader(
        change.deadline_ms,
        change.ready,
        change.tenant,
        change.queue,
        change.pending,
        change.leased,
        change.concurrency_key,
        change.weight,
    )
