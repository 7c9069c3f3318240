"""The store on disk: one rocksdict database (RocksDB, raw mode) per partition.

Keys live in one column family, so that one write batch and one log cover everything:

    c<kind, name>             a total (streams.store.tallies), 8 bytes
    d<job id>                 definition
    i                         identity, written once
    p<number, 8 bytes>        position: ledger offset, wall time, number of jobs, meta; in every batch, numbered
    r<ready key>              ready index, empty value
    s<job id>                 index header, then the state
    t<deadline, 8 bytes><job> due index; the value is the tenant

Guarantees, and what they rest on:

1. A batch is applied whole or not at all, with its offset. After a crash of the process the store is at the
   last batch; after a crash of the machine, or in the middle of a `load` (which skips RocksDB's log), at an
   older one. It is never between two.
2. Damage never shows as missing data. Each batch puts its own position and deletes the one before it. So where
   a batch is missing in the middle (a manifest that lost its end forgets a table whose log is gone, and the next
   log is read all the same), two positions are left, and the store is thrown away. RocksDB checks every block
   that it reads; rocksdict's own `keys()` and `items()` end silently on a bad block, so all scans here go through
   an iterator and ask for its status. A failed read raises `StoreCorruptError` and leaves a mark, and the next
   `open_store` starts afresh.
3. No read walks over entries deleted earlier (a seek over 100,000 of them takes 20 ms): the due index and
   each line of the ready index remember a *floor*, a key below which nothing is left.

Scans return lists, never iterators: an iterator that someone keeps would hold the directory's lock.
State, definition and page reads may come from another thread; everything else belongs to the owner's loop.
"""

from __future__ import annotations

import bisect
import itertools
import shutil
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from streams.store.interface import (
    COUNTS_NOTHING,
    HEADER_DEADLINE_AT,
    HEADER_DEADLINE_END,
    Counted,
    DueEntry,
    IndexHeader,
    LedgerChange,
    LedgerRecord,
    ReadyKey,
    ReadyLine,
    StoreClosedError,
    StoreCorruptError,
    StoreCounts,
    StoreError,
    StoreIdentity,
    StoreInUseError,
    Unchanged,
    deadline_bytes,
    line_prefix_of,
    pack_header,
    tenant_in,
    unpack_header,
)
from streams.store.tallies import Tallies, tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

BLOCK_CACHE_BYTES: Final = 8 << 20
"""Per partition: sixteen of them must fit into a small process; the kernel's page cache is behind it."""
WRITE_BUFFER_BYTES: Final = 8 << 20
"""Per partition, up to `WRITE_BUFFERS_MAX` of them: about 10,000 changes of state between two flushes."""
WRITE_BUFFERS_MAX: Final = 3
"""One is filled while two are flushed; more only helps a disk that cannot keep up anyway."""
WAL_BYTES_MAX: Final = 64 << 20
"""Bounds what an opening after a crash has to read back."""
LOADING: Final = {"level0_file_num_compaction_trigger": "64"}
"""While a recovery fills an empty store, nobody reads in order: sorting what was written may wait until it acts, up to
some half gigabyte. It was a third of the CPU time of loading a million jobs."""
ACTING: Final = {"level0_file_num_compaction_trigger": "4"}
"""RocksDB's own default."""
UNSORTED_SLOW: Final = 128
UNSORTED_STOP: Final = 192
"""Files that wait for sorting, from which on writes are slowed and stopped: well above what a recovery leaves behind,
since the owner's loop would be held by its first write until all of it is sorted (at RocksDB's defaults, 20 and 36)."""
OPEN_FILES_MAX: Final = 256
"""Per partition: 16 partitions stay below the usual limit of 65,536, and one has about 20 files a GB."""
FUTURE_MAX_MS: Final = 24 * 3_600_000
"""A store that was written further ahead than this has an unknown age. Steps of some hours are harmless,
because the limit of age is itself half of what the ledger's retention would bear."""
TOMBSTONE_WINDOW: Final = 4_096
"""RocksDB compacts a file early if half of any such run of entries are deletions."""

SEEN_BITS: Final = 1 << 24
"""2 MiB while a recovery runs; with a million jobs, 6 in 100 are read in vain."""
PLAIN_MAX: Final = 10_000
"""Kinds of headers that a recovery remembers: some megabytes; with more queues than that, some are decoded again."""
PAGE_KEYS: Final = 10_000
"""How many keys a scan of everything holds at once."""

_TALLY: Final = b"c"
_DEFINITION: Final = b"d"
_IDENTITY: Final = b"i"
_POSITION: Final = b"p"
_READY: Final = b"r"
_STATE: Final = b"s"
_DUE: Final = b"t"
_INT64_MAX: Final = (1 << 63) - 1
_MARK: Final = "DISCARD"
_HEADER_LENGTH_BYTES: Final = 4

_Index = tuple[int | None, tuple[bytes, ...], Counted]  # deadline, encoded ready keys, what it counts for
_NO_INDEX: Final[_Index] = (None, (), COUNTS_NOTHING)


class _Position(msgspec.Struct, frozen=True, array_like=True):
    ledger_offset: int
    written_at_ms: int
    jobs: int
    meta: dict[str, int]


_encode = msgspec.msgpack.encode
_decode_position = msgspec.msgpack.Decoder(_Position).decode
_decode_identity = msgspec.msgpack.Decoder(StoreIdentity).decode


def open_store(
    path: Path,
    identity: StoreIdentity,
    now_ms: int,
    age_max_ms: int,
    log_end_offset: int | None = None,
) -> tuple[RocksStore, str | None]:
    """Open the store in `path`, or a new one if what lies there must not be used.

    Gives the store and, if something was thrown away, the reason in words. `now_ms` is wall time.
    `log_end_offset` is the ledger's end, where it is known already; a store beyond it belongs to a log that
    is gone. The directory must belong to the store alone. Raises StoreInUseError if it is open elsewhere,
    OSError if it cannot be replaced.
    """
    reason = None
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        try:
            store = RocksStore(path, None, now_ms)
        except StoreInUseError:
            raise
        except StoreError as error:
            reason = f"unreadable: {error}"
        else:
            reason = _mistrust(store, path, identity, now_ms, age_max_ms) or _beyond(store, log_end_offset)
            if reason is None:
                return store, None
            store.close()
        _discard(path)
    return RocksStore(path, identity, now_ms), reason


def _mistrust(store: RocksStore, path: Path, identity: StoreIdentity, now_ms: int, age_max_ms: int) -> str | None:
    """Say why this store must not be used (DESIGN section 6, "Store"), or None."""
    mark = path / _MARK
    if mark.exists():
        return f"corrupt: {mark.read_text(encoding='utf-8', errors='replace')}"
    if store.identity != identity:
        return f"another log: {store.identity} instead of {identity}"
    age_ms = now_ms - store.written_at_ms
    if age_ms > age_max_ms:
        return f"too old: last written {age_ms} ms ago, allowed are {age_max_ms} ms"
    if age_ms < -FUTURE_MAX_MS:
        return f"of unknown age: last written {-age_ms} ms in the future"
    return None


def _beyond(store: RocksStore, log_end_offset: int | None) -> str | None:
    if log_end_offset is not None and store.ledger_offset > log_end_offset:
        return f"beyond the log: at offset {store.ledger_offset}, the log ends at {log_end_offset}"
    return None


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _options() -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(Cache(BLOCK_CACHE_BYTES))
    table.set_bloom_filter(10, block_based=False)
    options = Options(raw_mode=True)
    options.create_if_missing(create_if_missing=True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(WRITE_BUFFERS_MAX)
    options.set_max_total_wal_size(WAL_BYTES_MAX)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_max_background_jobs(2)
    options.set_level_zero_slowdown_writes_trigger(UNSORTED_SLOW)
    options.set_level_zero_stop_writes_trigger(UNSORTED_STOP)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.add_compact_on_deletion_collector_factory(TOMBSTONE_WINDOW, TOMBSTONE_WINDOW // 2, 0.5)
    return options


def _is_lock_error(text: str) -> bool:
    return "lock hold by current process" in text or "While lock file" in text


class _Pending:
    """One write batch in the making, with what it will change in memory once it is written."""

    def __init__(self, store: RocksStore) -> None:
        self.batch = WriteBatch(raw_mode=True)
        self.jobs_delta = 0
        self.due_min: bytes | None = None
        self.line_deltas: dict[bytes, int] = {}
        self.line_mins: dict[bytes, bytes] = {}
        self.tally_deltas: dict[bytes, int] = {}
        self._store = store
        self._touched: dict[bytes, _Index | None] = {}
        self._seen = store.seen
        self._first_counts: dict[Counted, int] = {}

    def load_state(self, job: bytes, header: bytes, state: bytes) -> None:
        """Put a state of a recovery. Raises ValueError where the header is none.

        The most common case has a short way: the first state of its job, with no run that waits.
        """
        seen = self._seen
        if seen is not None and job not in self._touched and not seen.add(job):
            counted = seen.plain(header)
            if counted is not None:
                self._put_first(job, header, state, counted)
                return
        deadline_ms, ready, counted, length = unpack_header(header)
        if length != len(header):
            raise ValueError(f"index header of {job.decode()} has {len(header) - length} bytes too many")
        self.put_state(job, header, state, (deadline_ms, ready, counted), None)

    def _put_first(self, job: bytes, header: bytes, state: bytes, counted: Counted) -> None:
        due = deadline_bytes(header)
        deadline_ms = None if due is None else int.from_bytes(due, "big")
        self._touched[job] = (deadline_ms, (), counted)
        self.batch.put(_STATE + job, header + state)
        self.jobs_delta += 1
        self._first_counts[counted] = self._first_counts.get(counted, 0) + 1
        if due is not None:
            key = due + job
            self.batch.put(_DUE + key, counted.tenant)
            if self.due_min is None or key < self.due_min:
                self.due_min = key

    def add_up(self) -> None:
        """Turn what was loaded into changes of the totals; before the batch is written."""
        for counted, jobs in self._first_counts.items():
            tally(self.tally_deltas, counted, jobs)
        self._first_counts = {}

    def put_state(self, job: bytes, header: bytes, state: bytes, index: _Index, before: _Index | None) -> None:
        """Put a state and bring both indexes from what they held for the job to `index`."""
        old = self._before(job, before)
        self._touched[job] = index
        self.batch.put(_STATE + job, header + state)
        deadline_ms, ready, counted = index
        if old is None:
            self.jobs_delta += 1
            old = _NO_INDEX
        if counted != old[2]:
            tally(self.tally_deltas, old[2], -1)
            tally(self.tally_deltas, counted, 1)
        if deadline_ms != old[0]:
            self._drop_due(job, old[0])
            if deadline_ms is not None:
                key = deadline_ms.to_bytes(8, "big") + job
                self.batch.put(_DUE + key, tenant_in(header))
                if self.due_min is None or key < self.due_min:
                    self.due_min = key
        if ready != old[1]:
            self._drop_ready([key for key in old[1] if key not in ready])
            for key in ready:
                if key not in old[1]:
                    self._put_ready(key)

    def delete_state(self, job: bytes, before: _Index | None) -> None:
        """Delete a state, if there is one, and its index entries."""
        old = self._before(job, before)
        self._touched[job] = None
        if old is not None:
            self.jobs_delta -= 1
            self.batch.delete(_STATE + job)
            self._drop_due(job, old[0])
            self._drop_ready(old[1])
            tally(self.tally_deltas, old[2], -1)

    def put_definition(self, job: bytes, definition: bytes | None) -> None:
        """Put a definition, or delete it."""
        if definition is None:
            self.batch.delete(_DEFINITION + job)
        else:
            self.batch.put(_DEFINITION + job, definition)

    def _before(self, job: bytes, known: _Index | None) -> _Index | None:
        if job in self._touched:
            return self._touched[job]
        if self._seen is not None and not self._seen.add(job):
            return None
        return known if known is not None else self._store.index_of(job)

    def _drop_due(self, job: bytes, deadline_ms: int | None) -> None:
        if deadline_ms is not None:
            self.batch.delete(_DUE + deadline_ms.to_bytes(8, "big") + job)

    def _put_ready(self, key: bytes) -> None:
        self.batch.put(_READY + key, b"")
        line = line_prefix_of(key)
        self.line_deltas[line] = self.line_deltas.get(line, 0) + 1
        lowest = self.line_mins.get(line)
        if lowest is None or key < lowest:
            self.line_mins[line] = key

    def _drop_ready(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            self.batch.delete(_READY + key)
            line = line_prefix_of(key)
            self.line_deltas[line] = self.line_deltas.get(line, 0) - 1


class _Seen:
    """Which jobs a recovery into an empty store has met: most of them once, so that a read is wasted.

    One bit a job, by hash: a bit that is not set proves that the job has no state yet.
    """

    def __init__(self) -> None:
        self._bits = bytearray(SEEN_BITS // 8)
        self._plain: dict[bytes, Counted] = {}

    def add(self, job: bytes) -> bool:
        """Note a job. True if it may have been noted before."""
        at = hash(job) & (SEEN_BITS - 1)
        index, bit = at >> 3, 1 << (at & 7)
        before = self._bits[index]
        if before & bit:
            return True
        self._bits[index] = before | bit
        return False

    def plain(self, header: bytes) -> Counted | None:
        """Give what a header without waiting runs counts for; None for any other.

        But for the deadline, the headers of a queue are alike, and each is decoded once.
        """
        alike = header[:HEADER_DEADLINE_AT] + header[HEADER_DEADLINE_END:]
        known = self._plain.get(alike)
        if known is None:
            _, ready, counted, length = unpack_header(header)
            if ready or length != len(header):
                return None
            if len(self._plain) >= PLAIN_MAX:
                self._plain.clear()
            self._plain[alike] = known = counted
        # What is below "none" is no deadline: the long way refuses it.
        return None if header[HEADER_DEADLINE_AT] > 0x7F and deadline_bytes(header) is not None else known


class _Lines:
    """The lines of the ready index that hold anything: count and floor of each, in key order."""

    def __init__(self) -> None:
        self.counts: dict[bytes, int] = {}
        self.floors: dict[bytes, bytes] = {}
        self.order: list[bytes] = []
        self.total = 0

    def note(self, line: bytes, delta: int, lowest_put: bytes | None) -> None:
        """Follow one written batch. `lowest_put` is the lowest key that it put into the line."""
        before = self.counts.get(line, 0)
        count = before + delta
        self.total += delta
        if count == 0:
            if before:
                del self.counts[line], self.floors[line]
                del self.order[bisect.bisect_left(self.order, line)]
            return
        self.counts[line] = count
        if before == 0:
            bisect.insort(self.order, line)
            self.floors[line] = lowest_put or line
        elif lowest_put is not None and lowest_put < self.floors[line]:
            self.floors[line] = lowest_put


class RocksStore:
    """See `streams.store.interface.Store`; made by `open_store`."""

    def __init__(self, path: Path, create_as: StoreIdentity | None, now_ms: int) -> None:
        """Open `path`. With `create_as`, the directory must be empty or missing and becomes a new store."""
        self._path = path
        self._lines = _Lines()
        self._tallies = Tallies()
        self._due_floor = b""
        self._batch_number = 0
        """Of the last written batch."""
        self._unlogged = False
        self._loading = False
        self._db: Rdict | None = self._open_database()
        try:
            if create_as is not None:
                self._create(create_as, now_ms)
            self._identity, self._position = self._read_place()
            self._count_ready()
            self._read_tallies()
            self.seen = _Seen() if self._position.ledger_offset == 0 else None
        except BaseException:
            self._release()
            raise

    # ---- opening and closing

    def _open_database(self) -> Rdict:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return Rdict(str(self._path), _options())
        except OSError as error:
            raise StoreError(f"cannot open {self._path}: {error}") from error
        except Exception as error:
            if _is_lock_error(str(error)):
                raise StoreInUseError(f"{self._path} is open elsewhere: {error}") from error
            raise StoreCorruptError(f"cannot open {self._path}: {error}") from error

    def _create(self, identity: StoreIdentity, now_ms: int) -> None:
        batch = WriteBatch(raw_mode=True)
        batch.put(_IDENTITY, _encode(identity))
        batch.put(_position_key(0), _encode(_Position(0, now_ms, 0, {})))
        self._write(batch)

    def _read_place(self) -> tuple[StoreIdentity, _Position]:
        identity = self._get(_IDENTITY)
        positions = self._scan(_POSITION, _after(_POSITION), 2, values=True)
        if identity is None or not positions:
            raise StoreCorruptError(f"{self._path} has no identity or no position")
        if len(positions) > 1:
            raise StoreCorruptError(f"{self._path} lacks batches between two that it has")
        ((key, position),) = positions
        self._batch_number = int.from_bytes(key[1:], "big")
        try:
            return _decode_identity(identity), _decode_position(position)
        except msgspec.MsgspecError as error:
            raise StoreCorruptError(f"identity or position of {self._path} unreadable: {error}") from error

    def _count_ready(self) -> None:
        for key in self._all(_READY):
            self._lines.note(line_prefix_of(key), 1, key)

    def _read_tallies(self) -> None:
        start = _TALLY
        while page := self._scan(start, _DEFINITION, PAGE_KEYS, values=True):
            self._tallies.add({key[1:]: int.from_bytes(total, "big", signed=True) for key, total in page})
            start = page[-1][0] + b"\0"

    def close(self) -> None:
        """See Store. After it no reference to the database is left, so its lock is free."""
        if self._db is None:
            return
        try:
            self._flush_unlogged()
        finally:
            self._release()

    def _release(self) -> None:
        """Let the database go. Damage that it meets on its way is for the next opening, which throws the store away."""
        database, self._db = self._db, None
        if database is None:
            return
        try:
            database.close()
        except Exception as error:
            failure = self._failure(error, reading=False)
            if not isinstance(failure, StoreCorruptError):
                raise failure from error

    # ---- place

    @property
    def identity(self) -> StoreIdentity:
        """See Store."""
        return self._identity

    @property
    def ledger_offset(self) -> int:
        """See Store."""
        return self._position.ledger_offset

    @property
    def meta(self) -> Mapping[str, int]:
        """See Store."""
        return MappingProxyType(self._position.meta)

    @property
    def written_at_ms(self) -> int:
        """See Store."""
        return self._position.written_at_ms

    @property
    def counts(self) -> StoreCounts:
        """See Store."""
        return StoreCounts(self._position.jobs, self._lines.total)

    # ---- writes

    def apply(
        self,
        changes: Sequence[LedgerChange],
        *,
        ledger_offset: int,
        now_ms: int,
        meta: Mapping[str, int] | None = None,
    ) -> None:
        """See Store."""
        self.loaded()
        pending = _Pending(self)
        for change in changes:
            job = change.job_id.encode()
            if not isinstance(change.definition, Unchanged):
                pending.put_definition(job, change.definition)
            if isinstance(change.state, Unchanged):
                continue
            before = None if change.previous is None else _index_from(change.previous)
            if change.state is None:
                pending.delete_state(job, before)
                continue
            ready = tuple([key.encode() for key in change.ready])
            counted = change.counted
            header = pack_header(change.deadline_ms, ready, counted)
            pending.put_state(job, header, change.state, (change.deadline_ms, ready, counted), before)
        self._commit(pending, _Position(ledger_offset, now_ms, 0, dict(meta or {})), None)

    def load(
        self,
        records: Sequence[LedgerRecord],
        *,
        ledger_offset: int,
        now_ms: int,
        meta: Mapping[str, int] | None = None,
    ) -> None:
        """See Store. Raises ValueError for a state record whose header is none."""
        if self.seen is not None and not self._loading:
            self._loading = True
            self._set_options(LOADING)
        pending = _Pending(self)
        for kind, job_id, value, header in records:
            job = job_id.encode()
            if kind == "d":
                pending.put_definition(job, value)
            elif value is None:
                pending.delete_state(job, None)
            else:
                pending.load_state(job, header, value)
        pending.add_up()
        unlogged = WriteOptions()
        unlogged.disable_wal = True  # type: ignore[assignment, method-assign]  # a property; the stub errs
        self._unlogged = True
        self._commit(pending, _Position(ledger_offset, now_ms, 0, dict(meta or {})), unlogged)

    def loaded(self) -> None:
        """See Store. Takes a second or two after a million jobs: not a thing for the owner's loop."""
        self.seen = None
        self._flush_unlogged()
        if self._loading:
            self._loading = False
            self._set_options(ACTING)

    def _commit(self, pending: _Pending, step: _Position, options: WriteOptions | None) -> None:
        """Write the batch together with the new position, then follow it in memory."""
        before = self._position
        if step.ledger_offset < before.ledger_offset:
            raise ValueError(f"ledger offset falls from {before.ledger_offset} to {step.ledger_offset}")
        position = msgspec.structs.replace(
            step, jobs=before.jobs + pending.jobs_delta, meta={**before.meta, **step.meta}
        )
        pending.batch.delete(_position_key(self._batch_number))
        pending.batch.put(_position_key(self._batch_number + 1), _encode(position))
        for key, delta in pending.tally_deltas.items():
            total = self._tallies.totals.get(key, 0) + delta
            if total:
                pending.batch.put(_TALLY + key, total.to_bytes(8, "big", signed=True))
            else:
                pending.batch.delete(_TALLY + key)
        self._write(pending.batch, options)
        self._tallies.add(pending.tally_deltas)
        self._batch_number += 1
        self._position = position
        if pending.due_min is not None and pending.due_min < self._due_floor:
            self._due_floor = pending.due_min
        for line, delta in pending.line_deltas.items():
            self._lines.note(line, delta, pending.line_mins.get(line))

    def _flush_unlogged(self) -> None:
        """Make loaded batches durable before anything that RocksDB's own log would bring back after a crash.

        Otherwise a crash could keep a later batch and lose an earlier one.
        """
        if self._unlogged:
            try:
                self._database().flush()
            except Exception as error:
                raise self._failure(error, reading=False) from error
            self._unlogged = False

    # ---- reads

    def state(self, job_id: str) -> bytes | None:
        """See Store."""
        value = self._get(_STATE + job_id.encode())
        return None if value is None else _state_of(value)

    def definition(self, job_id: str) -> bytes | None:
        """See Store."""
        return self._get(_DEFINITION + job_id.encode())

    def header(self, job_id: str) -> IndexHeader | None:
        """See Store."""
        value = self._get(_STATE + job_id.encode())
        return None if value is None else IndexHeader.decode(value)

    def index_of(self, job: bytes) -> _Index | None:
        """Give the header of an encoded job id, with its ready keys encoded; for writes."""
        value = self._get(_STATE + job)
        return None if value is None else unpack_header(value)[:3]

    def due(self, after: DueEntry | None, until_ms: int, limit: int) -> list[DueEntry]:
        """See Store."""
        if until_ms < 0:
            return []
        start = b"" if after is None else after.deadline_ms.to_bytes(8, "big") + after.job_id.encode() + b"\0"
        end = _behind(until_ms)
        floor = max(start, self._due_floor)
        found = self._scan(_DUE + floor, _DUE + end, limit, values=True) if floor < end else []
        if start <= self._due_floor < end and limit > 0:
            self._due_floor = found[0][0][1:] if found else end
        return [DueEntry(int.from_bytes(key[1:9], "big"), key[9:].decode(), tenant.decode()) for key, tenant in found]

    def ready_heads(self, now_ms: int, after: ReadyLine | None = None, limit: int = 1_000) -> list[ReadyKey]:
        """See Store. One seek for each line that may have a due run, none for lines known to have none."""
        heads: list[ReadyKey] = []
        if now_ms < 0:
            return heads
        order, floors, due_end = self._lines.order, self._lines.floors, _behind(now_ms)
        at = 0 if after is None else bisect.bisect_right(order, after.encode())
        candidates = iter([line for line in order[at:] if floors[line] < line + due_end])
        while chunk := list(itertools.islice(candidates, limit - len(heads))):
            for line, key in zip(chunk, self._seek_each([floors[line] for line in chunk]), strict=True):
                if not key.startswith(line):
                    raise self._damaged(f"no entry in a line of the ready index that has {self._lines.counts[line]}")
                floors[line] = key
                if key < line + due_end:
                    heads.append(ReadyKey.decode(key))
        return heads

    def ready_line(
        self, line: ReadyLine, until_due_ms: int, limit: int, after: ReadyKey | None = None
    ) -> list[ReadyKey]:
        """See Store."""
        prefix = line.encode()
        if prefix not in self._lines.counts or until_due_ms < 0:
            return []
        floor, end = self._lines.floors[prefix], prefix + _behind(until_due_ms)
        start = prefix if after is None else after.encode() + b"\0"
        found = self._take(_READY, max(start, floor), end, limit)
        if start <= floor < end and limit > 0:
            self._lines.floors[prefix] = found[0] if found else end
        return [ReadyKey.decode(key) for key in found]

    def ready_counts(self) -> dict[ReadyLine, int]:
        """See Store."""
        counts = {}
        for line, count in self._lines.counts.items():
            tenant, queue, lane = line.split(b"\0", 2)
            counts[ReadyLine(tenant.decode(), queue.decode(), lane[0])] = count
        return counts

    def lines_among(self, lines: Mapping[bytes, object]) -> AbstractSet[bytes]:
        """See Store."""
        return self._lines.counts.keys() & lines.keys()

    @property
    def tallies(self) -> Tallies:
        """See Store."""
        return self._tallies

    def jobs(self, after_job_id: str | None, limit: int) -> list[tuple[str, bytes]]:
        """See Store."""
        start = _STATE if after_job_id is None else _STATE + after_job_id.encode() + b"\0"
        found = self._scan(start, _DUE, limit, values=True)
        return [(key[1:].decode(), _state_of(value)) for key, value in found]

    def verify(self) -> None:
        """Read everything, and compare both indexes with the states. Raises StoreCorruptError.

        For tests, the command line and whoever suspects the disk; it takes seconds for a million jobs.
        """
        due: set[bytes] = set()
        ready: set[bytes] = set()
        jobs, deltas = 0, dict[bytes, int]()
        for job in self._all(_STATE):
            deadline_ms, keys, counted = self.index_of(job) or _NO_INDEX
            jobs += 1
            tally(deltas, counted, 1)
            ready.update(keys)
            if deadline_ms is not None:
                due.add(deadline_ms.to_bytes(8, "big") + job)
        definitions = sum(1 for job in self._all(_DEFINITION) if self._get(_DEFINITION + job) is not None)
        stored = set(self._all(_DUE)), set(self._all(_READY)), self._position.jobs, self._tallies.totals
        if stored != (due, ready, jobs, deltas):
            raise self._damaged(f"indexes disagree with {jobs} states and {definitions} definitions")

    # ---- the database

    def _database(self) -> Rdict:
        if self._db is None:
            raise StoreClosedError(f"{self._path} is closed")
        return self._db

    def _get(self, key: bytes) -> bytes | None:
        database = self._database()
        try:
            value: bytes | None = database.get(key)
        except Exception as error:
            raise self._failure(error, reading=True) from error
        return value

    def _write(self, batch: WriteBatch, options: WriteOptions | None = None) -> None:
        database = self._database()
        try:
            database.write(batch, options)
        except Exception as error:
            raise self._failure(error, reading=False) from error

    def _set_options(self, options: dict[str, str]) -> None:
        database = self._database()
        try:
            database.set_options(options)
        except Exception as error:
            raise self._failure(error, reading=False) from error

    def _take(self, space: bytes, start: bytes, end: bytes, limit: int) -> list[bytes]:
        """Give up to `limit` keys of one key space in [start, end), without the space's prefix."""
        if start >= end:
            return []
        return [key[1:] for key, _ in self._scan(space + start, space + end, limit, values=False)]

    def _all(self, space: bytes) -> Iterator[bytes]:
        """Give every key of one key space; no database iterator lives between two of them."""
        start, end = space, _after(space)
        while page := self._scan(start, end, PAGE_KEYS, values=False):
            for key, _ in page:
                yield key[1:]
            start = page[-1][0] + b"\0"

    def _scan(self, start: bytes, end: bytes, limit: int, *, values: bool) -> list[tuple[bytes, bytes]]:
        """Give up to `limit` entries in [start, end).

        `status` tells the end of the range from a bad block. The iterator is dropped before an error leaves,
        since the error's traceback would keep it, and with it the directory's lock.
        """
        found: list[tuple[bytes, bytes]] = []
        cursor = self._database().iter(_bounded(end))
        try:
            cursor.seek(start)
            while len(found) < limit and cursor.valid():
                found.append((cursor.key(), cursor.value() if values else b""))
                cursor.next()
            cursor.status()
        except Exception as error:
            del cursor
            raise self._failure(error, reading=True) from error
        return found

    def _seek_each(self, starts: Sequence[bytes]) -> list[bytes]:
        """Give the first key of the ready index at or above each start; empty if there is none."""
        found: list[bytes] = []
        cursor = self._database().iter(_bounded(_STATE))
        try:
            for start in starts:
                cursor.seek(_READY + start)
                if not cursor.valid():
                    cursor.status()
                found.append(cursor.key()[1:] if cursor.valid() else b"")
        except Exception as error:
            del cursor
            raise self._failure(error, reading=True) from error
        return found

    def _damaged(self, reason: str) -> StoreCorruptError:
        self._mark(reason)
        return StoreCorruptError(f"{self._path}: {reason}")

    def _failure(self, error: Exception, *, reading: bool) -> StoreError:
        """Name the failure. A read that fails means damage; a write may just have met a full disk."""
        if isinstance(error, DbClosedError):
            return StoreClosedError(f"{self._path} is closed")
        if reading or "Corruption" in str(error):
            return self._damaged(str(error))
        return StoreError(f"{self._path}: {error}")

    def _mark(self, reason: str) -> None:
        """Leave word for the next opening: the bad block may lie where opening does not look."""
        (self._path / _MARK).write_text(reason, encoding="utf-8")


def _index_from(header: IndexHeader) -> _Index:
    return header.deadline_ms, tuple([key.encode() for key in header.ready]), header.counted


def _state_of(value: bytes) -> bytes:
    return value[int.from_bytes(value[:_HEADER_LENGTH_BYTES], "big") :]


def _position_key(batch_number: int) -> bytes:
    return _POSITION + batch_number.to_bytes(8, "big")


def _after(space: bytes) -> bytes:
    """Give the first key behind a key space."""
    return bytes([space[0] + 1])


def _behind(until_ms: int) -> bytes:
    """Give the first 8-byte time above `until_ms`."""
    return (min(until_ms, _INT64_MAX) + 1).to_bytes(8, "big")


def _bounded(end: bytes) -> ReadOptions:
    """Give read options that stop an iterator at `end`, before what may lie dead behind it."""
    options = ReadOptions()
    options.set_iterate_upper_bound(end)
    return options
