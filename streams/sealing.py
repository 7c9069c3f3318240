"""From decisions to records: encodes what one batch changes, and checks every size before anything is produced.

A record that the broker would refuse must be found here, while its job can still be quarantined alone, and not
inside the
transaction, where it would take its whole batch along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from schemas.codec import TooLarge
from schemas.partition import partition_for
from schemas.topics import Topic, topic_name
from streams.core.counted import leased, pending
from streams.core.deadline import deadline_ms, ready_runs
from streams.core.envelopes import Marker, OwnerView, ReplyBatch
from streams.core.wire import (
    encode_dead_letter,
    encode_definition,
    encode_history,
    encode_lease_view,
    encode_marker,
    encode_owner_view,
    encode_replies,
    encode_state,
)
from streams.input_place import PLACES_HEADER, encode_places
from streams.offer_book import LANES
from streams.store.interface import UNCHANGED, IndexHeader, LedgerChange, ReadyKey
from streams.transaction import Headers, OutRecord, PartitionWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from schemas.config import Settings
    from streams.batch import Batch
    from streams.core.envelopes import Answer
    from streams.core.state import Job
    from streams.inbox import Source
    from streams.input_place import InputPlace
    from streams.membership import Membership
    from streams.store.interface import Unchanged

_S = TypeVar("_S")

STATE_PREFIX: Final = b"s|"
DEFINITION_PREFIX: Final = b"d|"
MARKER_KEY: Final = b"m|"
INDEX_HEADER: Final = "i"
"""Kafka header of `s|` records: the encoded IndexHeader, so that recovery decodes no Avro (DESIGN section 4)."""

TRANSACTIONAL_ID_HEADER: Final = "x"
"""Kafka header of `m|` records: whom a successor must fence, also readable while the transaction is open."""

RECORD_BYTES_MAX: Final = 900_000
"""Of any record: below the 1 MB that brokers take by default, framing included."""

REPLY_ANSWERS_MAX: Final = 2_000
"""Answers in one reply record: a grant without its payload has some 250 bytes."""

REPLY_BYTES_MAX: Final = 512 * 1024
"""Payload bytes of the grants in one reply record; with a last one of 64 KB it stays below RECORD_BYTES_MAX."""


class UnsealableError(Exception):
    """A job's records cannot be written; quarantine it."""

    def __init__(self, job_id: str, reason: str) -> None:
        super().__init__(f"{job_id}: {reason}")
        self.job_id = job_id
        self.reason = reason


class Sealer:
    """Encodes batches for one membership. Topic names are resolved once."""

    def __init__(self, settings: Settings, membership: Membership, transactional_id: str) -> None:
        self.membership = membership
        self.transactional_id = transactional_id
        self._names = {topic: topic_name(settings, topic) for topic in Topic}
        self._lease_partitions = settings.topics.lease_partitions
        self._reply_partitions = settings.topics.reply_partitions
        self._state_bytes_max = settings.scheduler.state_bytes_max
        self._open_runs_max = settings.scheduler.open_runs_max
        self._source_topics: dict[Source, str] = {
            "commands": self._names[Topic.COMMANDS],
            "definitions": self._names[Topic.JOB_DEFINITIONS],
        }

    def source_topic(self, source: Source) -> str:
        """Return the full name of an input topic."""
        return self._source_topics[source]

    def seal(self, batch: Batch, places: Mapping[Source, InputPlace], next_seq: int) -> None:
        """Fill in `batch.changes` and `batch.write`. Raises UnsealableError."""
        records: list[OutRecord] = []
        for job_id, job in batch.after.items():
            self._seal_job(batch, job_id, job, records)
        self._seal_history(batch, records)
        for view in batch.leases:
            partition = partition_for(f"{view.tenant}/{view.queue}", self._lease_partitions)
            records.append(
                OutRecord(self._names[Topic.LEASES], partition, view.run_id.encode(), encode_lease_view(view))
            )
        for letter in batch.dead_letters:
            source = f"{letter.source_topic}-{letter.source_partition}".encode()
            records.append(
                OutRecord(self._names[Topic.DEAD_LETTER], batch.partition, source, encode_dead_letter(letter))
            )
        marker = self._marker(batch, places, next_seq + len(batch.history))
        offsets = {self._source_topics[source]: place.next_offset for source, place in places.items()}
        batch.write = PartitionWrite(batch.partition, records, marker, offsets)

    def owner_record(self, view: OwnerView) -> OutRecord:
        """Return the record that tells everybody who acts for a partition."""
        return OutRecord(self._names[Topic.OWNERS], 0, str(view.partition).encode(), encode_owner_view(view))

    def reply_records(self, batches: Iterable[Batch]) -> list[OutRecord]:
        """Merge the answers of all partitions of a transaction: one record per gateway, cut by bytes."""
        merged: dict[str, list[Answer]] = {}
        for batch in batches:
            for gateway_id, answers in batch.answers.items():
                merged.setdefault(gateway_id, []).extend(answers)
        records: list[OutRecord] = []
        for gateway_id, answers in merged.items():
            partition = partition_for(gateway_id, self._reply_partitions)
            for part in _cut(answers):
                records.extend(
                    OutRecord(self._names[Topic.REPLIES], partition, gateway_id.encode(), value)
                    for value in _encoded_replies(gateway_id, part)
                )
        return records

    def _seal_job(self, batch: Batch, job_id: str, job: Job | None, records: list[OutRecord]) -> None:
        ledger = self._names[Topic.LEDGER]
        known = batch.before[job_id]
        key = job_id.encode()
        previous = known.header if known else None
        if job is None:
            if known is None:
                return
            records.append(OutRecord(ledger, batch.partition, STATE_PREFIX + key, None))
            records.append(OutRecord(ledger, batch.partition, DEFINITION_PREFIX + key, None))
            batch.changes.append(LedgerChange(job_id, state=None, definition=None, previous=previous))
            return
        state_bytes = _sized(job_id, encode_state, job.state)
        if len(state_bytes) > self._state_bytes_max:
            raise UnsealableError(
                job_id, f"its state has {len(state_bytes)} bytes, scheduler.state_bytes_max is {self._state_bytes_max}"
            )
        header = batch.headers[job_id] = index_header(job, self._open_runs_max)
        headers: Headers = [(INDEX_HEADER, header.encode())]
        records.append(OutRecord(ledger, batch.partition, STATE_PREFIX + key, state_bytes, headers))
        definition: bytes | Unchanged | None = UNCHANGED
        if known is None or known.job.definition is not job.definition:
            definition = None if job.definition is None else _sized(job_id, encode_definition, job.definition)
            records.append(OutRecord(ledger, batch.partition, DEFINITION_PREFIX + key, definition))
        batch.changes.append(
            LedgerChange(
                job_id,
                state=state_bytes,
                definition=definition,
                tenant=header.tenant,
                queue=header.queue,
                pending=header.pending,
                leased=header.leased,
                deadline_ms=header.deadline_ms,
                ready=header.ready,
                concurrency_key=header.concurrency_key,
                weight=header.weight,
                previous=previous,
            )
        )

    def _seal_history(self, batch: Batch, records: list[OutRecord]) -> None:
        topic = self._names[Topic.HISTORY]
        for entry in batch.history:
            value = _sized(entry.job_id, encode_history, entry)
            records.append(OutRecord(topic, batch.partition, entry.job_id.encode(), value))

    def _marker(self, batch: Batch, places: Mapping[Source, InputPlace], next_seq: int) -> OutRecord:
        marker = Marker(
            partition=batch.partition,
            next_seq=next_seq,
            generation=self.membership.generation,
            member_id=self.membership.member_id,
            transactional_id=self.transactional_id,
            now_ms=batch.now_ms,
            absent_from_ms=batch.absence.from_ms,
            absent_to_ms=batch.absence.to_ms,
            previous_marker_ms=batch.previous_marker_ms,
        )
        headers: Headers = [
            (TRANSACTIONAL_ID_HEADER, self.transactional_id.encode()),
            (PLACES_HEADER, encode_places(places)),
        ]
        return OutRecord(self._names[Topic.LEDGER], batch.partition, MARKER_KEY, encode_marker(marker), headers)


def index_header(job: Job, open_runs_max: int) -> IndexHeader:
    """Return what the store's indexes hold for a job."""
    state = job.state
    key, weight = state.concurrency_key, state.concurrency_weight
    ready = tuple(
        ReadyKey(state.tenant, state.queue, LANES.index(run.lane), run.due_at_ms, run.run_id, state.job_id, key, weight)
        for run in ready_runs(state)
    )
    deadline = deadline_ms(job, open_runs_max=open_runs_max)
    return IndexHeader(deadline, ready, state.tenant, state.queue, pending(state), leased(state), key, weight)


def _sized(job_id: str, encode: Callable[[_S], bytes], value: _S) -> bytes:
    try:
        data = encode(value)
    except TooLarge as error:
        raise UnsealableError(job_id, str(error)) from error
    if len(data) > RECORD_BYTES_MAX:
        raise UnsealableError(
            job_id, f"its {type(value).__name__} has {len(data)} bytes, at most {RECORD_BYTES_MAX} are possible"
        )
    return data


def _encoded_replies(gateway_id: str, answers: tuple[Answer, ...]) -> list[bytes]:
    """Encode answers as few records; halve what is too large all the same.

    One answer that no record can hold repeats a command's own oversized text: nobody waits for it, and it is left out.
    """
    try:
        return [encode_replies(ReplyBatch(gateway_id=gateway_id, answers=answers))]
    except TooLarge:
        half = len(answers) // 2
        if not half:
            return []
        return _encoded_replies(gateway_id, answers[:half]) + _encoded_replies(gateway_id, answers[half:])


def _cut(answers: list[Answer]) -> Iterable[tuple[Answer, ...]]:
    part: list[Answer] = []
    size = 0
    for answer in answers:
        part.append(answer)
        size += len(getattr(answer.reply, "payload", b""))
        if size >= REPLY_BYTES_MAX or len(part) >= REPLY_ANSWERS_MAX:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)
