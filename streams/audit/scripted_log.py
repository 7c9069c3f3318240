"""A log written by hand: clean by construction, and easy to damage in exactly one place.

The checker's own tests need logs that break one promise each; golden histories and other tests may use it as
well. A script adds decisions in order; ledger, leases, markers and sequence numbers follow by themselves.
Damage is done to the rows afterwards, and sequence numbers are dense again unless `renumber` is off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from streams.audit.log_view import LogRecord, LogView
from streams.core import wire
from streams.core.apply import IllegalEvent, apply
from streams.core.definition import Definition
from streams.core.envelopes import (
    Answer,
    Cause,
    CommandBatch,
    HistoryEntry,
    LeaseView,
    Marker,
    ReplyBatch,
)
from streams.core.events import LeaseExpired, LeaseGranted, LeaseReleased, RunFailed, RunSucceeded
from streams.core.state import JobState

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.core.commands import AnyCommand, Grant, Reply
    from streams.core.events import AnyEvent, Event
    from streams.core.state import Job

START_MS: Final = 1_780_272_000_000
"""2026-06-01T00:00:00Z."""

GATEWAY: Final = "gw-1"


_CLOSINGS: Final[dict[type, str]] = {
    LeaseExpired: "expired",
    LeaseReleased: "released",
    RunFailed: "failed",
    RunSucceeded: "succeeded",
}


class Row(msgspec.Struct):
    """One record to be; `at_ms` becomes its timestamp. A value of None is a tombstone."""

    topic: str
    partition: int
    at_ms: int
    key: bytes
    value: Any


class ScriptedLog:
    """One partition under one owner at a time."""

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition
        self.rows: list[Row] = []
        self.renumber = True
        self.generation = 1
        self.jobs: dict[str, Job | None] = {}
        self.commands = 0
        self._seq = 1
        self._views: dict[tuple[int, str], LeaseView] = {}

    @property
    def member(self) -> str:
        """The member id of the present generation."""
        return f"member-{self.generation}"

    def configure(self, key: str, value: bytes, *, at_ms: int) -> int:
        """Add a record of topic `config`; gives its offset in the view."""
        offset = 2 * sum(row.topic == "config" for row in self.rows)
        self.rows.append(Row("config", 0, at_ms, key.encode(), value))
        return offset

    def decide(
        self,
        job_id: str,
        *events: AnyEvent,
        at_ms: int,
        cause: Cause | None = None,
        lag_ms: int = 5,
        config_offset: int = 0,
    ) -> None:
        """Add one decision made at `at_ms` and appended `lag_ms` later, with everything that goes with it."""
        appended_ms = at_ms + lag_ms
        job = self.jobs.get(job_id)
        for event in events:
            self._show_lease(job_id, job, event, appended_ms)
            try:
                job = apply(job, event)
            except IllegalEvent:
                continue
        self.jobs[job_id] = job
        entry = HistoryEntry(
            job_id=job_id,
            partition=self.partition,
            seq=self._seq,
            generation=self.generation,
            member_id=self.member,
            transactional_id=f"owner-{self.generation}",
            now_ms=at_ms,
            cause=cause or Cause(kind="timer", name="Wake", partition=self.partition),
            config_offset=config_offset,
            zone_data="test",
            events=events,
        )
        self._seq += 1
        self._add("history", appended_ms, job_id.encode(), entry)
        self._add("ledger", appended_ms, b"s|" + job_id.encode(), None if job is None else job.state)
        self._add("ledger", appended_ms, b"d|" + job_id.encode(), None if job is None else job.definition)
        self.mark(at_ms=at_ms, lag_ms=lag_ms)

    def _show_lease(self, job_id: str, job: Job | None, event: AnyEvent, appended_ms: int) -> None:
        """Add to the public view what an event says about a lease."""
        if isinstance(event, LeaseGranted):
            view = LeaseView(
                run_id=event.run_id,
                job_id=job_id,
                tenant=job.state.tenant if job else "",
                queue=job.state.queue if job else "",
                lease_token=event.lease.lease_token,
                attempt=event.attempt,
                worker_id=event.lease.worker_id,
                gateway_id=event.lease.gateway_id,
                granted_at_ms=event.at_ms,
                expires_at_ms=event.lease.expires_at_ms,
            )
            self._views[event.lease.lease_token, event.run_id] = view
        elif type(event) in _CLOSINGS:
            view = self._views[event.lease_token, event.run_id]  # type: ignore[union-attr]  # all of these have both
            view = msgspec.structs.replace(view, closed=_CLOSINGS[type(event)], closed_at_ms=event.at_ms)
        else:
            return
        self._add("leases", appended_ms, view.run_id.encode(), view)

    def mark(self, *, at_ms: int, lag_ms: int = 5) -> None:
        """Add a marker, as an idle owner does every ten seconds."""
        marker = Marker(
            partition=self.partition,
            next_seq=self._seq,
            generation=self.generation,
            member_id=self.member,
            transactional_id=f"owner-{self.generation}",
            now_ms=at_ms,
        )
        self._add("ledger", at_ms + lag_ms, b"m|", marker)

    def idle(self, *, from_ms: int, to_ms: int) -> None:
        """Add the markers of an owner with nothing to do."""
        for at_ms in range(from_ms, to_ms + 1, 10_000):
            self.mark(at_ms=at_ms)

    def take_over(self, *, at_ms: int) -> None:
        """Let the next generation begin."""
        self.generation += 1
        self.mark(at_ms=at_ms)

    def ask(self, command: AnyCommand, reply: Reply | Grant | None, *, at_ms: int) -> Cause:
        """Add a command and its answer; gives the cause for the decision that it led to."""
        batch = CommandBatch(gateway_id=GATEWAY, incarnation="i1", sent_at_ms=at_ms, commands=(command,))
        self._add("commands", at_ms, command.job_id.encode(), batch)
        if reply is not None:
            answer = ReplyBatch(gateway_id=GATEWAY, answers=(Answer(request_id=command.request_id, reply=reply),))
            self._add("replies", at_ms + 5, GATEWAY.encode(), answer)
        self.commands += 1
        return Cause(
            kind="command",
            name=type(command).__name__,
            topic="horolog.commands",
            partition=self.partition,
            offset=self.commands - 1,
            index=0,
            request_id=command.request_id,
            gateway_id=GATEWAY,
            appended_at_ms=at_ms,
        )

    # --- damage ---

    def find(self, kind: type[Event], nth: int = 0) -> tuple[Row, int]:
        """Give the row and position of the nth event of a kind. Raises LookupError."""
        for row in self.rows:
            if isinstance(row.value, HistoryEntry):
                for position, event in enumerate(row.value.events):
                    if isinstance(event, kind):
                        if nth == 0:
                            return row, position
                        nth -= 1
        raise LookupError(f"no such event: {kind.__name__}")

    def change(self, kind: type[Event], nth: int = 0, **changes: object) -> None:
        """Change fields of one event."""
        row, position = self.find(kind, nth)
        events = list(row.value.events)
        events[position] = msgspec.structs.replace(events[position], **changes)
        row.value = msgspec.structs.replace(row.value, events=tuple(events))

    def change_entry(self, kind: type[Event], nth: int = 0, **changes: object) -> None:
        """Change fields of the history entry that holds an event."""
        row, _ = self.find(kind, nth)
        row.value = msgspec.structs.replace(row.value, **changes)

    def drop(self, kind: type[Event], nth: int = 0) -> None:
        """Leave out one event; and its entry, if that was all of it."""
        row, position = self.find(kind, nth)
        events = row.value.events[:position] + row.value.events[position + 1 :]
        row.value = msgspec.structs.replace(row.value, events=events)
        if not events:
            self.rows.remove(row)

    def repeat(self, kind: type[Event], nth: int = 0, **changes: object) -> None:
        """Write the entry of an event a second time, right behind the first."""
        row, _ = self.find(kind, nth)
        copy = msgspec.structs.replace(row.value, **changes)
        self.rows.insert(self.rows.index(row) + 1, Row(row.topic, row.partition, row.at_ms, row.key, copy))

    def remove(self, wanted: Callable[[Row], bool]) -> None:
        """Leave out rows. Raises LookupError where none is wanted."""
        kept = [row for row in self.rows if not wanted(row)]
        if len(kept) == len(self.rows):
            raise LookupError("no such row")
        self.rows = kept

    # --- result ---

    def view(self, *, end_at_ms: int | None = None, **options: Any) -> LogView:
        """Encode everything. Offsets have a hole after each record, as transaction markers leave them."""
        options.setdefault("committed", {self.partition: self.commands})
        next_offset: dict[tuple[str, int], int] = {}
        records = []
        seq = 0
        for row in self.rows:
            value = row.value
            if self.renumber and isinstance(value, HistoryEntry):
                seq += 1
                value = msgspec.structs.replace(value, seq=seq)
            elif self.renumber and isinstance(value, Marker):
                value = msgspec.structs.replace(value, next_seq=seq + 1)
            place = (row.topic, row.partition)
            offset = next_offset.get(place, 0)
            next_offset[place] = offset + (1 if row.topic == "commands" else 2)
            records.append(
                LogRecord(
                    topic=row.topic,
                    partition=row.partition,
                    offset=offset,
                    timestamp_ms=row.at_ms,
                    key=row.key,
                    value=_encoded(value),
                )
            )
        return LogView(records, end_at_ms=end_at_ms, **options)

    def _add(self, topic: str, at_ms: int, key: bytes, value: object) -> None:
        partition = 0 if topic in {"leases", "replies"} else self.partition
        self.rows.append(Row(topic, partition, at_ms, key, value))


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    HistoryEntry: wire.encode_history,
    Marker: wire.encode_marker,
    CommandBatch: wire.encode_commands,
    ReplyBatch: wire.encode_replies,
    LeaseView: wire.encode_lease_view,
    JobState: wire.encode_state,
    Definition: wire.encode_definition,
}


def _encoded(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else _ENCODERS[type(value)](value)
