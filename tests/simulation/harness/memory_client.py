"""Stand-ins for librdkafka on the in-memory broker: a transactional producer, and the questions of a take-over.

The producer has the methods and the errors that `streams.transaction.KafkaCommitter` meets, so that the real
committer runs in the simulation. As in librdkafka, produced records stay in the client until a flush, and a
commit flushes what is left. Every request takes virtual time; between any two of them the process may be frozen
or killed.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from streams.ledger_log import LedgerRecordIn, LogIdentity
from streams.sealing import MARKER_KEY, TRANSACTIONAL_ID_HEADER
from tests.simulation.harness.memory_broker import BrokerError, Entry, MemoryBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import TopicPartition

    from tests.simulation.harness.virtual_time import Process

CHUNK: Final = 200
"""Records per read of the ledger: small, so that take-overs have steps at which they can be interrupted."""

_FATAL: Final = frozenset({"_FENCED"})
_MAGIC: Final = b"CGMDv2:"


class Weather:
    """How the broker and the way to it behave just now; the scenario changes it."""

    def __init__(self) -> None:
        self.slow = 1.0
        """Factor on the time that a request takes."""
        self.lost_acks = 0.0
        """Share of requests whose answer is lost: the client sees a time-out, the broker may have done it."""
        self.lost_for_good = 0.0
        """Share of commits whose outcome the client never learns."""


class Message:
    """What a delivery report gives."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def offset(self) -> int:
        """Its offset."""
        return self._entry.offset

    def timestamp(self) -> tuple[int, int]:
        """LogAppendTime."""
        return 2, self._entry.at_ms


class MemoryProducer:
    """One transactional producer."""

    def __init__(self, process: Process, broker: MemoryBroker, weather: Weather, config: Mapping[str, object]) -> None:
        self._process = process
        self._world = process.world
        self._broker = broker
        self._weather = weather
        self._id = str(config["transactional.id"])
        self._epoch = 0
        self._unsent: list[tuple[str, Any, Any, int, Any, Any]] = []
        self._failed = False

    def init_transactions(self, _timeout: float) -> None:
        """Take the id over."""
        self._request()
        self._epoch = self._broker.init_transactions(self._id)

    def begin_transaction(self) -> None:
        """Begin."""
        self._process.check()
        self._do(lambda: self._broker.begin(self._id, self._epoch))

    def produce(  # noqa: PLR0917 - librdkafka's order
        self, topic: str, value: bytes | None, key: bytes, partition: int, on_delivery: Any = None, headers: Any = None
    ) -> None:
        """Keep a record until the next flush."""
        self._process.check()
        self._unsent.append((topic, value, key, partition, on_delivery, headers))

    def flush(self, _timeout: float) -> int:
        """Send what is kept; gives how many are left."""
        self._request()
        rows, self._unsent = self._unsent, []
        for row in rows:
            topic, value, key, partition, on_delivery, headers = row
            try:
                entry = self._broker.produce(
                    self._id, self._epoch, (topic, partition), key=key, value=value, headers=tuple(headers or ())
                )
            except BrokerError as error:
                if on_delivery is not None:
                    on_delivery(_error(error.code), None)
                continue
            if on_delivery is not None:
                on_delivery(None, Message(entry))
        return 0

    def send_offsets_to_transaction(self, offsets: Sequence[TopicPartition], metadata: bytes, _timeout: float) -> None:
        """Send offsets with the membership in the metadata."""
        self._request()
        places = {(offset.topic, offset.partition): offset.offset for offset in offsets}
        membership = _membership(metadata)
        self._do(lambda: self._broker.send_offsets(self._id, self._epoch, places, membership))
        self._request()

    def commit_transaction(self, _timeout: float) -> None:
        """Flush, then end the transaction; the answer may be lost before or behind the broker's deed."""
        if self._unsent:
            self.flush(0)
        self._end(commit=True)

    def abort_transaction(self, _timeout: float) -> None:
        """End the transaction without effect."""
        self._unsent = []
        self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        self._request()
        draw = self._world.rng.random()
        lost, for_good = draw < self._weather.lost_acks, draw < self._weather.lost_for_good
        done = not (lost or for_good) or self._world.rng.random() < 0.5
        if done:
            self._do(lambda: self._broker.end_transaction(self._id, self._epoch, commit=commit))
        self._request()
        if for_good:
            self._world.note(f"{self._id}: outcome lost for good, {'done' if done else 'not done'}")
            raise KafkaException(KafkaError(KafkaError._STATE, "outcome unknown"))
        if lost:
            self._world.pass_time(self._world.rng.uniform(500, 8_000))
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True))

    def _request(self) -> None:
        """Let the time of half a round trip pass."""
        self._process.check()
        self._world.pass_time(self._world.rng.uniform(0.3, 2.0) * self._weather.slow)
        self._process.check()

    def _do(self, deed: Callable[[], None]) -> None:
        try:
            deed()
        except BrokerError as error:
            raise KafkaException(_error(error.code)) from error


class MemoryLedgerLog:
    """See `streams.ledger_log.LedgerLog`."""

    def __init__(self, process: Process, broker: MemoryBroker, weather: Weather, names: Mapping[str, str]) -> None:
        """`names`: short topic name to full name."""
        self._process = process
        self._broker = broker
        self._weather = weather
        self._ledger = names["ledger"]
        self._commands = names["commands"]
        self._inputs = (names["commands"], names["job-definitions"])

    def identity(self) -> LogIdentity:
        """One cluster, one topic of each kind."""
        return LogIdentity("simulated", "ledger", {topic: topic for topic in self._inputs})

    def ledger_ends(self, partitions: Iterable[int], *, stable: bool) -> dict[int, int]:
        """See LedgerLog."""
        self._request()
        end = self._broker.stable_end if stable else self._broker.end
        return {partition: end(self._ledger, partition) for partition in partitions}

    def input_ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """See LedgerLog."""
        self._request()
        ends = {partition: self._broker.end(self._commands, partition) for partition in partitions}
        self._request()
        return ends

    def stable_ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """See LedgerLog."""
        self._request()
        return {(topic, partition): self._broker.stable_end(topic, partition) for topic, partition in places}

    def stable_committed(self, partitions: Iterable[int]) -> dict[str, dict[int, int]] | None:
        """See LedgerLog."""
        self._request()
        found: dict[str, dict[int, int]] = {topic: {} for topic in self._inputs}
        for topic in self._inputs:
            for partition in partitions:
                offset = self._broker.stable_offset((topic, partition))
                if offset is None:
                    return None
                found[topic][partition] = offset
        return found

    def predecessors(self, ends: Mapping[int, int]) -> set[str]:
        """See LedgerLog."""
        self._request()
        last: dict[int, str] = {}
        for partition, end in ends.items():
            for entry in self._broker.read(self._ledger, partition, max(0, end - 500), committed=False):
                transactional_id = dict(entry.headers).get(TRANSACTIONAL_ID_HEADER)
                if entry.key == MARKER_KEY and transactional_id:
                    last[partition] = transactional_id.decode()
        return set(last.values())

    def fence(self, transactional_id: str) -> None:
        """See LedgerLog."""
        self._request()
        self._process.world.note(f"{self._process.name} fences {transactional_id}")
        self._broker.init_transactions(transactional_id)

    def read_ledger(
        self, start: Mapping[int, int], end: Mapping[int, int], still_current: Callable[[], bool]
    ) -> Iterator[list[LedgerRecordIn]]:
        """See LedgerLog."""
        for partition, stop in end.items():
            rows: list[LedgerRecordIn] = []
            for entry in self._broker.read_compacted(self._ledger, partition, start[partition]):
                if entry.offset >= stop:
                    break
                headers = dict(entry.headers)
                rows.append(
                    LedgerRecordIn(partition, entry.offset, entry.at_ms, entry.key or b"", entry.value, headers)
                )
                if len(rows) == CHUNK:
                    self._request()
                    if not still_current():
                        return
                    yield rows
                    rows = []
            self._request()
            if rows:
                yield rows

    def _request(self) -> None:
        self._process.check()
        world = self._process.world
        world.pass_time(world.rng.uniform(0.5, 5.0) * self._weather.slow)
        self._process.check()


def _membership(metadata: bytes) -> tuple[int, str]:
    """Read generation and member id of librdkafka's serial form."""
    body = metadata.removeprefix(_MAGIC)
    (generation,) = struct.unpack("=i", body[:4])
    _, member_id, _ = body[4:].split(b"\0", 2)
    return generation, member_id.decode()


def _error(code: str) -> KafkaError:
    fatal = code in _FATAL
    number = getattr(KafkaError, code)
    return KafkaError(number, code, fatal=fatal, txn_requires_abort=not fatal)
