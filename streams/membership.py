"""Who this process is in the consumer group, and the bytes that prove it to the broker.

Faust's consumer (aiokafka) is the group member; the transactional producer (librdkafka) must present that
membership, so that the group coordinator refuses the offsets of any instance whose generation is not the current one
(KIP-447). librdkafka offers no constructor for foreign metadata; `group_metadata` writes its serial form, and
`check_layout` compares a sample with what librdkafka itself writes, so that a changed layout stops the process at
its start and never mis-fences.

The broker does not check generation -1 with an empty member, and aiokafka's values become exactly that when membership
is lost. So a snapshot is taken when partitions are assigned, and one without a real generation and member is refused.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec
from confluent_kafka import Consumer

if TYPE_CHECKING:
    import faust

_MAGIC: Final = b"CGMDv2:"
_NO_INSTANCE_ID: Final = b"\x01"
_READS_MAX: Final = 5
"""The live values belong to another thread; so many torn reads in a row do not happen by chance."""


class NoMembershipError(Exception):
    """The consumer is in no group, or its membership changed while it was read. Do not act; wait for an assignment."""


class Membership(msgspec.Struct, frozen=True):
    """One member of one generation of the group."""

    group_id: str
    generation: int
    member_id: str

    def __post_init__(self) -> None:
        """Refuse what the broker would not check."""
        if self.generation < 1 or not self.member_id:
            raise NoMembershipError(
                f"generation {self.generation}, member {self.member_id!r} of group {self.group_id!r} prove nothing"
            )

    def succeeds(self, earlier: Membership) -> bool:
        """Whether nobody can have owned this member's partitions in between: same member, next generation."""
        return self.member_id == earlier.member_id and self.generation == earlier.generation + 1


class LiveMembership(Protocol):
    """Reads the membership of this moment."""

    def snapshot(self) -> Membership:
        """Return it, or raise NoMembershipError."""
        ...


class _Coordinator(Protocol):
    generation: int
    member_id: str


class FaustMembership:
    """Reads the membership of a Faust app. The one place that touches Faust's and aiokafka's private attributes."""

    def __init__(self, app: faust.App) -> None:
        self._app = app
        self._group_id = app.conf.id

    def snapshot(self) -> Membership:
        """Return generation and member as one consistent pair that agrees with the app's own generation."""
        coordinator = self._coordinator()
        for _ in range(_READS_MAX):
            generation, member_id = coordinator.generation, coordinator.member_id
            if coordinator.generation == generation:
                break
        else:
            raise NoMembershipError("the generation changed at every look")
        if generation != self._app.consumer_generation_id:
            raise NoMembershipError(
                f"the consumer is in generation {generation}, the app in {self._app.consumer_generation_id}"
            )
        return Membership(self._group_id, generation, member_id)

    def _coordinator(self) -> _Coordinator:
        try:
            consumer = self._app.consumer._thread._consumer  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
            coordinator: _Coordinator = consumer._coordinator  # noqa: SLF001 - no public way
        except AttributeError as error:
            raise NoMembershipError(f"the consumer has not started ({error})") from error
        return coordinator


class _Layout(NamedTuple):
    group_id: bytes
    generation: int
    member_id: bytes


def _serialise(layout: _Layout) -> bytes:
    generation = struct.pack("=i", layout.generation)
    return _MAGIC + generation + layout.group_id + b"\0" + layout.member_id + b"\0" + _NO_INSTANCE_ID


def group_metadata(membership: Membership) -> bytes:
    """Return the metadata for `Producer.send_offsets_to_transaction`, in librdkafka's serial form, version 2."""
    layout = _Layout(membership.group_id.encode(), membership.generation, membership.member_id.encode())
    return _serialise(layout)


def check_layout(group_id: str) -> None:
    """Refuse to run on a librdkafka whose metadata layout is another one. Needs no connection."""
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group_id, "log_level": 0})
    try:
        theirs: object = consumer.consumer_group_metadata()
    finally:
        consumer.close()
    ours = _serialise(_Layout(group_id.encode(), -1, b""))
    if theirs != ours:
        raise RuntimeError(
            f"this librdkafka serialises group metadata as {theirs!r}, expected {ours!r}: "
            "fencing would not work; install confluent-kafka 2.16"
        )
