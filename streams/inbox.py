"""The inbox of one partition: what the source has delivered and no transaction has committed yet.

It holds (offset, bytes) and never Faust's events, which would hold up a rebalance (facts A3). Whatever is taken for a
batch goes back to its front if the transaction is aborted. Records below the floor (the stable committed offset at
take-over) and repeats of what was already delivered are ignored, since a source may start too early or twice.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Source = Literal["commands", "definitions"]
SOURCES: Final[tuple[Source, ...]] = ("commands", "definitions")

RECORDS_MAX: Final = 20_000
"""Of one partition. A gateway packs up to a few hundred commands into a record, so this is seconds of the highest
rate; beyond it the source waits, and Kafka keeps the rest."""


BYTES_MAX: Final = 32 * 1024 * 1024
"""Of one partition: records may have a megabyte each, and their number alone would bound nothing."""


class Input(NamedTuple):
    """One record of an input topic, undecoded."""

    source: Source
    offset: int
    timestamp_ms: int
    """LogAppendTime for commands; whatever the topic's type gives for definitions."""
    key: bytes | None
    value: bytes | None


class Inbox:
    """Held inputs of one partition, in the order of their delivery."""

    records_max = RECORDS_MAX
    bytes_max = BYTES_MAX
    """The source waits beyond either."""

    def __init__(self, floors: Mapping[Source, int]) -> None:
        """`floors`: the next offset to consume of each source."""
        self._held: deque[Input] = deque()
        self._bytes = 0
        self._next_delivery: dict[Source, int] = dict(floors)
        self._consumed: dict[Source, int] = dict(floors)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def full(self) -> bool:
        """Whether the source should wait."""
        return len(self._held) >= self.records_max or self._bytes >= self.bytes_max

    @property
    def held(self) -> Sequence[Input]:
        """What is held, oldest first."""
        return tuple(self._held)

    @property
    def consumed(self) -> Mapping[Source, int]:
        """The next offset of each source behind everything taken; what a commit of the taken ones would store."""
        return self._consumed

    def delivered(self, source: Source) -> int:
        """Return the next offset of a source behind everything that was ever delivered."""
        return self._next_delivery[source]

    def push(self, item: Input) -> bool:
        """Hold one delivered record; False where it is a repeat or lies below the floor."""
        if item.offset < self._next_delivery[item.source]:
            return False
        self._next_delivery[item.source] = item.offset + 1
        self._held.append(item)
        self._bytes += len(item.value or b"")
        return True

    def take(self, records_max: int) -> list[Input]:
        """Remove the oldest records for a batch."""
        taken = [self._held.popleft() for _ in range(min(records_max, len(self._held)))]
        for item in taken:
            self._consumed[item.source] = item.offset + 1
            self._bytes -= len(item.value or b"")
        return taken

    def restore(self, taken: Sequence[Input]) -> None:
        """Put the records of an aborted batch back to the front, in their order."""
        for item in reversed(taken):
            self._consumed[item.source] = item.offset
            self._held.appendleft(item)
            self._bytes += len(item.value or b"")
