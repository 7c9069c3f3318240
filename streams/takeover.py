"""Taking a partition over: from "assigned" to a shard that may act (DESIGN section 6, "Taking over").

The order of the steps is the guarantee:

1. If the ledger's last stable offset stays behind its high watermark, a predecessor's transaction is open: after a
   moment, fence its transactional id, so that it ends now and its owner can commit nothing more.
2. The *stable* committed offsets of the inputs. The broker withholds them while a transaction that carries offsets for
   the partition is open, and every transaction of an owner carries one for each partition that it writes (facts A2).
3. Only then the ledger's high watermark, waited for until it is stable: everything that a predecessor committed lies
below it.
4. The ledger, read_committed, from the local store's offset up to it.
5. The first transaction, with this generation: the marker, and the word in `owners`. Only then does the shard act.

At every step the take-over is given up if the assignment has moved on (`still_current`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from streams.absence import Absence, told_by
from streams.core.wire import decode_marker
from streams.input_place import (
    PLACES_HEADER,
    InputPlace,
    decode_places,
    floor_of,
    is_ahead,
    meta_of,
    places_in,
    topic_number,
)
from streams.sealing import DEFINITION_PREFIX, INDEX_HEADER, MARKER_KEY, STATE_PREFIX
from streams.store.interface import LedgerRecord, StoreIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from streams.inbox import Source
    from streams.ledger_log import LedgerLog, LedgerRecordIn
    from streams.store.interface import Store

FENCE_WAIT_MS: Final = 1_000
"""Bursts of 400 ms occur without any fault, and fencing a live predecessor kills its producer (facts A3, A4)."""

MISSED_GAP_MS: Final = 60_000
"""DESIGN section 6, "Missed": markers further apart than this had no working owner in between."""

POLL_S: Final = 0.02
"""Between two looks at an open transaction."""


class Recovered(NamedTuple):
    """What a shard starts from."""

    store: Store
    floors: dict[Source, int]
    next_seq: int
    last_marker_ms: int
    absence: Absence
    topics: Mapping[Source, int]
    """Numbers of the input topics, for the markers to come."""


class _Marked(NamedTuple):
    """What the last marker tells."""

    next_seq: int
    last_marker_ms: int
    absence: Absence
    places: Mapping[Source, InputPlace]


class Progress(NamedTuple):
    """How far the reading of one partition's ledger is, in offsets: for /readyz, metrics and the log."""

    partition: int
    start: int
    offset: int
    end: int

    @property
    def restored(self) -> int:
        """Records that are in the store now; what compaction and markers left of the offsets counts along."""
        return self.offset - self.start

    @property
    def total(self) -> int:
        """Records that this take-over has to read."""
        return self.end - self.start


class Takeover:
    """One take-over of some partitions at once. Blocking; runs in the recovery thread."""

    def __init__(
        self,
        log: LedgerLog,
        open_store: Callable[[int, StoreIdentity, int], Store],
        *,
        input_topics: Mapping[str, Source],
        still_current: Callable[[], bool],
        own_id: Callable[[], str],
        progress: Callable[[Progress], None] = lambda _: None,
        fence_wait_ms: int = FENCE_WAIT_MS,
        missed_gap_ms: int = MISSED_GAP_MS,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        monotonic_ms: Callable[[], float] = lambda: time.monotonic() * 1000.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`open_store(partition, identity, log_end)` opens or makes the local store of a partition."""
        self._log = log
        self._open_store = open_store
        self._input_topics = input_topics
        self._still_current = still_current
        self._own_id = own_id
        self._progress = progress
        self._fence_wait_ms = fence_wait_ms
        self._missed_gap_ms = missed_gap_ms
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._pause = pause
        self._fenced: set[str] = set()

    def run(self, partitions: Iterable[int]) -> dict[int, Recovered] | None:
        """Return what each partition's shard starts from; None where the assignment has moved on."""
        partitions = sorted(partitions)
        if self._wait_stable(partitions) is None:
            return None
        floors = self._stable_floors(partitions)
        if floors is None:
            return None
        ends = self._wait_stable(partitions)
        if ends is None:
            return None
        identity_of_log = self._log.identity()
        stores: dict[int, Store] = {}
        try:
            for partition in partitions:
                identity = StoreIdentity(
                    cluster_id=identity_of_log.cluster_id, topic_id=identity_of_log.ledger_id, partition=partition
                )
                stores[partition] = self._open_store(partition, identity, ends[partition])
            marked = self._read(stores, ends)
            recovered = None if marked is None else self._recovered(stores, marked, floors, identity_of_log.input_ids)
        except BaseException:
            _close(stores)
            raise
        if recovered is None:
            _close(stores)
        return recovered

    def _wait_stable(self, partitions: list[int]) -> dict[int, int] | None:
        """Wait until everything below the high watermark of this moment is decided; return that watermark."""
        ends = self._log.ledger_ends(partitions, stable=False)
        since_ms = self._monotonic_ms()
        fenced = False
        while self._still_current():
            stable = self._log.ledger_ends(partitions, stable=True)
            blocked = {partition: end for partition, end in ends.items() if stable[partition] < end}
            if not blocked:
                return ends
            if not fenced and self._monotonic_ms() - since_ms > self._fence_wait_ms:
                self._fence_predecessors(blocked)
                fenced = True
            self._pause(POLL_S)
        return None

    def _stable_floors(self, partitions: list[int]) -> dict[int, dict[Source, int]] | None:
        since_ms = self._monotonic_ms()
        fenced = False
        while self._still_current():
            offsets = self._log.stable_committed(partitions)
            if offsets is not None:
                return {
                    partition: {source: offsets[topic][partition] for topic, source in self._input_topics.items()}
                    for partition in partitions
                }
            if not fenced and self._monotonic_ms() - since_ms > self._fence_wait_ms:
                self._fence_predecessors(self._log.ledger_ends(partitions, stable=False))
                fenced = True
            self._pause(POLL_S)
        return None

    def _fence_predecessors(self, ends: Mapping[int, int]) -> None:
        for transactional_id in self._log.predecessors(ends) - self._fenced - {self._own_id()}:
            if not self._still_current():
                return
            self._log.fence(transactional_id)
            self._fenced.add(transactional_id)

    def _recovered(
        self,
        stores: Mapping[int, Store],
        marked: Mapping[int, _Marked],
        committed: Mapping[int, dict[Source, int]],
        input_ids: Mapping[str, str],
    ) -> dict[int, Recovered]:
        topics = {source: topic_number(input_ids[topic]) for topic, source in self._input_topics.items()}
        names = {source: topic for topic, source in self._input_topics.items()}
        behind = [
            (names[source], partition)
            for partition, offsets in committed.items()
            for source, offset in offsets.items()
            if is_ahead(marked[partition].places.get(source), offset)
        ]
        ends = self._log.stable_ends(behind) if behind else {}
        found = {}
        for partition, store in stores.items():
            next_seq, last_marker_ms, absence, places = marked[partition]
            floors = {
                source: floor_of(offset, places.get(source), topics[source], ends.get((names[source], partition), 0))
                for source, offset in committed[partition].items()
            }
            found[partition] = Recovered(store, floors, next_seq, last_marker_ms, absence, topics)
        return found

    def _read(self, stores: Mapping[int, Store], ends: Mapping[int, int]) -> dict[int, _Marked] | None:
        start = {partition: store.ledger_offset for partition, store in stores.items()}
        markers = {partition: _marked(store) for partition, store in stores.items()}
        for chunk in self._log.read_ledger(start, ends, self._still_current):
            for partition, records in _by_partition(chunk, stores).items():
                markers[partition] = self._load(stores[partition], records, markers[partition])
                self._progress(Progress(partition, start[partition], records[-1].offset + 1, ends[partition]))
        if not self._still_current():
            return None
        for store in stores.values():
            store.loaded()
        return markers

    def _load(self, store: Store, records: list[LedgerRecordIn], marker: _Marked) -> _Marked:
        rows: list[LedgerRecord] = []
        for _, _, timestamp_ms, key, value, headers in records:
            kind = key[:2]
            if kind == STATE_PREFIX:
                index = headers.get(INDEX_HEADER, b"") if value is not None else b""
                rows.append(LedgerRecord("s", key[2:].decode(), value, index))
            elif kind == DEFINITION_PREFIX:
                rows.append(LedgerRecord("d", key[2:].decode(), value))
            elif key == MARKER_KEY and value is not None:
                latest = decode_marker(value)
                absence = told_by(latest, timestamp_ms, self._missed_gap_ms)
                marker = _Marked(latest.next_seq, timestamp_ms, absence, decode_places(headers.get(PLACES_HEADER, b"")))
        meta = {
            "next_seq": marker.next_seq,
            "last_marker_ms": marker.last_marker_ms,
            "absent_from_ms": marker.absence.from_ms,
            "absent_to_ms": marker.absence.to_ms,
            **meta_of(marker.places),
        }
        store.load(rows, ledger_offset=records[-1].offset + 1, meta=meta, now_ms=self._wall_ms())
        return marker


def _by_partition(chunk: list[LedgerRecordIn], stores: Mapping[int, Store]) -> Mapping[int, list[LedgerRecordIn]]:
    if len(stores) == 1 and chunk:
        return {chunk[0].partition: chunk}
    found: dict[int, list[LedgerRecordIn]] = {}
    for record in chunk:
        found.setdefault(record.partition, []).append(record)
    return found


def _marked(store: Store) -> _Marked:
    meta = store.meta
    absence = Absence(meta.get("absent_from_ms", 0), meta.get("absent_to_ms", 0))
    return _Marked(meta.get("next_seq", 1), meta.get("last_marker_ms", 0), absence, places_in(meta))


def _close(stores: Mapping[int, Store]) -> None:
    for store in stores.values():
        store.close()
