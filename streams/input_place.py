"""How far a partition's inputs are consumed, as its own ledger says it: for when Kafka forgot the group's offsets.

Kafka drops the offsets of a group that had no member for a week (`offsets.retention.minutes`), and they may go back
where the group's coordinator loses its newest records: an unclean election of `__consumer_offsets`, or a broker of 4.1
that is fenced while it loads the group (seen in a fault campaign: the generation went from 61 to 30). Topic
`job-definitions` is compacted and kept for ever: read from its beginning, it would bring back jobs that were deleted
through the API, and undo edits. So the header of every marker repeats the offsets of its transaction, with the topic's
id: one that was deleted and made anew begins at 0 again, and nothing of it is consumed.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from streams.inbox import SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.inbox import Source

PLACES_HEADER: Final = "n"
"""Of a marker: two numbers for each source, in the order of SOURCES: the topic, and the next offset."""

NO_OFFSET: Final = -1
"""Of a group that has none, or whose offset was dropped."""


class InputPlace(NamedTuple):
    """How far one input topic is consumed in one partition."""

    topic: int
    """Number of the topic's id; 0 is not known."""
    next_offset: int


def topic_number(topic_id: str) -> int:
    """Return a number of 56 bits for a topic's id: the store keeps numbers."""
    return int.from_bytes(hashlib.blake2b(topic_id.encode(), digest_size=7).digest())


def encode_places(places: Mapping[Source, InputPlace]) -> bytes:
    """Write the header's value; empty for no places."""
    return b" ".join(b"%d %d" % places[source] for source in SOURCES) if places else b""


def decode_places(value: bytes) -> dict[Source, InputPlace]:
    """Read it; nothing where it is not one of ours."""
    words = value.split(b" ")
    if len(words) != 2 * len(SOURCES) or not all(word.isdigit() for word in words):
        return {}
    numbers = [int(word) for word in words]
    return {source: InputPlace(*numbers[2 * n : 2 * n + 2]) for n, source in enumerate(SOURCES)}


def meta_of(places: Mapping[Source, InputPlace]) -> dict[str, int]:
    """Give them as the store keeps them beside its position."""
    topics = {f"{source}_topic": place.topic for source, place in places.items()}
    return topics | {f"{source}_next": place.next_offset for source, place in places.items()}


def places_in(meta: Mapping[str, int]) -> dict[Source, InputPlace]:
    """Read them from there; nothing where an older store has none."""
    return {
        source: InputPlace(meta[f"{source}_topic"], meta[f"{source}_next"])
        for source in SOURCES
        if f"{source}_topic" in meta and f"{source}_next" in meta
    }


def is_ahead(told: InputPlace | None, committed: int) -> bool:
    """Whether the ledger tells more than the group does, so that the topic must be looked at."""
    return told is not None and told.next_offset > max(committed, 0)


def floor_of(committed: int, told: InputPlace | None, topic: int, end: int) -> int:
    """Return the next offset to consume of one source in one partition.

    The farther one of `committed`, the group's word (NO_OFFSET where it has none), and what the ledger told. That
    counts if it is of the same topic, and if this one still reaches so far: an unclean election may have cut it.
    """
    if told is not None and is_ahead(told, committed) and told.topic == topic and told.next_offset <= end:
        return told.next_offset
    return max(committed, 0)
