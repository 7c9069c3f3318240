"""The read_committed content of all topics of a finished run, decoded when asked for.

A view is made from records alone, so that one checker serves a real Kafka and the simulator. Topics go by their
short name, without namespace. Records of a partition are in offset order; offsets may have holes (transaction
markers, compaction). A record of our own topics that cannot be decoded is kept in `unreadable` and judged by I0:
nothing is dropped in silence.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from streams.core import wire
from streams.core.calendar_records import CalendarBook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from streams.core.calendars import Calendars
    from streams.core.definition import Definition
    from streams.core.envelopes import CommandBatch, HistoryEntry, LeaseView, Marker, ReplyBatch
    from streams.core.state import JobState

TOPICS: Final = (
    "job-definitions",
    "commands",
    "ledger",
    "history",
    "leases",
    "replies",
    "dead-letter",
    "owners",
    "config",
)
"""What the checker reads. `demand` and `offers` are hints outside all promises."""

_STATE: Final = "s|"
_DEFINITION: Final = "d|"
_MARKER: Final = "m|"


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record as a read_committed consumer saw it. `timestamp_ms` is LogAppendTime where the topic has it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class HistoryItem(msgspec.Struct, frozen=True):
    """A decision and where it stands."""

    record: LogRecord
    entry: HistoryEntry


class MarkerItem(msgspec.Struct, frozen=True):
    """A ledger marker and where it stands."""

    record: LogRecord
    marker: Marker


class CommandItem(msgspec.Struct, frozen=True):
    """A command batch and where it stands."""

    record: LogRecord
    batch: CommandBatch


class ReplyItem(msgspec.Struct, frozen=True):
    """A batch of answers and where it stands."""

    record: LogRecord
    batch: ReplyBatch


class LeaseItem(msgspec.Struct, frozen=True):
    """A record of the public view of leases and where it stands; `view` is None for a tombstone."""

    record: LogRecord
    view: LeaseView | None


class LogView:
    """All records of one run. `committed` is the group's committed offset of each partition of `commands`.

    `end_at_ms` is the broker time at which the run was read; the newest record's if not given. `whole` says that
    nothing was compacted or deleted yet: only then do missing markers mean an absent owner. `refused` are
    (topic, partition, offset) of records that a refused or aborted transaction wrote: none of them may be visible.
    """

    def __init__(
        self,
        records: Iterable[LogRecord],
        *,
        committed: Mapping[int, int] | None = None,
        end_at_ms: int | None = None,
        whole: bool = True,
        refused: frozenset[tuple[str, int, int]] = frozenset(),
    ) -> None:
        by_topic: dict[str, list[LogRecord]] = defaultdict(list)
        for record in records:
            by_topic[record.topic].append(record)
        for rows in by_topic.values():
            rows.sort(key=_place)
        self._by_topic = dict(by_topic)
        self.committed: Mapping[int, int] = dict(committed or {})
        self.whole = whole
        self.refused = refused
        self.unreadable: list[tuple[LogRecord, str]] = []
        self._calendars_at: dict[int, Calendars] = {}
        newest = max((row.timestamp_ms for rows in by_topic.values() for row in rows), default=0)
        self.end_at_ms = newest if end_at_ms is None else end_at_ms

    def records(self, topic: str) -> list[LogRecord]:
        """Give all records of a topic, by partition and offset."""
        return self._by_topic.get(topic, [])

    @cached_property
    def history(self) -> list[HistoryItem]:
        """Every decision, by partition and offset."""
        return [HistoryItem(r, e) for r, e in self._decoded("history", wire.decode_history)]

    @cached_property
    def markers(self) -> list[MarkerItem]:
        """Every `m|` record of the ledger, by partition and offset."""
        rows = (r for r in self.records("ledger") if _text(r.key).startswith(_MARKER))
        return [MarkerItem(r, m) for r, m in self._decode(rows, wire.decode_marker)]

    @cached_property
    def commands(self) -> list[CommandItem]:
        """Every command batch, by partition and offset. Unreadable ones are inputs, so they are left out here."""
        items = []
        for record in self.records("commands"):
            try:
                items.append(CommandItem(record, wire.decode_commands(record.value or b"")))
            except ValueError:
                continue
        return items

    def calendars_at(self, config_offset: int) -> Calendars:
        """Give the calendars as the records of topic `config` below an offset leave them."""
        known = self._calendars_at.get(config_offset)
        if known is None:
            book = CalendarBook()
            for record in self.records("config"):
                if record.offset < config_offset:
                    book.take(_text(record.key), record.value, record.offset)
            known = self._calendars_at[config_offset] = book.calendars
        return known

    @cached_property
    def replies(self) -> list[ReplyItem]:
        """Every batch of answers."""
        return [ReplyItem(r, b) for r, b in self._decoded("replies", wire.decode_replies)]

    @cached_property
    def leases(self) -> list[LeaseItem]:
        """Every record of the public view of leases."""
        rows = self.records("leases")
        live = (r for r in rows if r.value is not None)
        decoded = [LeaseItem(r, v) for r, v in self._decode(live, wire.decode_lease_view)]
        decoded.extend(LeaseItem(r, None) for r in rows if r.value is None)
        return sorted(decoded, key=lambda item: _place(item.record))

    @cached_property
    def states(self) -> dict[str, tuple[LogRecord, JobState | None]]:
        """The newest ledger state of every job; None for a tombstone."""
        return self._newest(_STATE, wire.decode_state)

    @cached_property
    def definitions(self) -> dict[str, tuple[LogRecord, Definition | None]]:
        """The newest ledger definition of every job; None for a tombstone."""
        return self._newest(_DEFINITION, wire.decode_accepted_definition)

    def _newest(self, prefix: str, decode: Callable[[bytes], Any]) -> dict[str, tuple[LogRecord, Any]]:
        newest: dict[str, LogRecord] = {}
        for record in self.records("ledger"):
            key = _text(record.key)
            if key.startswith(prefix):
                newest[key[len(prefix) :]] = record
        found: dict[str, tuple[LogRecord, Any]] = {
            job_id: (record, None) for job_id, record in newest.items() if record.value is None
        }
        ids = {id(record): job_id for job_id, record in newest.items()}
        live = [record for record in newest.values() if record.value is not None]
        found.update((ids[id(record)], (record, value)) for record, value in self._decode(live, decode))
        return found

    def _decoded(self, topic: str, decode: Callable[[bytes], Any]) -> Iterator[tuple[LogRecord, Any]]:
        return self._decode(self.records(topic), decode)

    def _decode(self, rows: Iterable[LogRecord], decode: Callable[[bytes], Any]) -> Iterator[tuple[LogRecord, Any]]:
        for record in rows:
            try:
                yield record, decode(record.value or b"")
            except ValueError as error:
                self.unreadable.append((record, str(error)))


def short_topic(topic: str) -> str:
    """Give the name of a topic without its namespace (`horolog.commands` is `commands`)."""
    return topic.rpartition(".")[2]


def _place(record: LogRecord) -> tuple[int, int]:
    return record.partition, record.offset


def _text(key: bytes | None) -> str:
    return (key or b"").decode("utf-8", "replace")
