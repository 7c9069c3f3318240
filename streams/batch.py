"""What one partition wants to change with the next transaction: decisions on overlay state, and their records.

A batch is built on top of the store and changes nothing there. Committed, the shard applies it; aborted, it is thrown
away and its inputs, timers and parked requests are as they were. Several decisions about one job see each other
through the overlay and leave one ledger record; each has its own history record.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from streams.absence import Absence
from streams.core.envelopes import Answer, DeadLetter, HistoryEntry, LeaseView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.core.commands import Grant, LeaseRun, Reply
    from streams.core.envelopes import Cause
    from streams.core.state import Job
    from streams.inbox import Input, Source
    from streams.input_place import InputPlace
    from streams.store.interface import IndexHeader, LedgerChange
    from streams.transaction import PartitionWrite


class Known(NamedTuple):
    """A job as committed, with what the indexes hold for it."""

    job: Job
    header: IndexHeader


class Parked(NamedTuple):
    """A lease request for an occurrence that is not due yet."""

    command: LeaseRun
    cause: Cause
    until_ms: int
    """When the run is due, by broker time."""


class Batch(msgspec.Struct):
    """One partition's part of a transaction."""

    partition: int
    now_ms: int
    inputs: list[Input] = []
    timers: list[str] = []
    before: dict[str, Known | None] = {}
    """Each job looked at, as committed."""
    after: dict[str, Job | None] = {}
    """Each job changed, as it will be."""
    history: list[HistoryEntry] = []
    leases: list[LeaseView] = []
    answers: dict[str, list[Answer]] = {}
    """Gateway id to its answers."""
    dead_letters: list[DeadLetter] = []
    over_cap: int = 0
    """How many of the dead letters are definitions beyond their tenant's cap; they hold no values."""
    parked: list[Parked] = []
    unparked: list[str] = []
    """Jobs whose parked requests were decided or forgotten."""
    refused: list[str] = []
    """Jobs of which a lease request was refused: what may be offered of them is to be seen anew."""
    look_again: dict[str, int] = {}
    """Job to the broker time of its next soft wake."""
    decisions: int = 0
    bytes_expected: int = 0
    """Of payloads and inputs, as they will stand in the records: known before these are made."""
    absence: Absence = Absence()
    """The newest one, for the marker."""
    previous_marker_ms: int = 0
    """See Marker."""
    places: Mapping[Source, InputPlace] = MappingProxyType({})
    """How far the inputs are consumed with it, for the marker and the store; filled in when it is sealed."""
    consumed_before: tuple[int, tuple[int, int] | None] | None = None
    """What the shard knew about consumed commands before this batch, for a rollback."""
    headers: dict[str, IndexHeader] = {}
    """Of the jobs in `after`, once sealed."""
    changes: list[LedgerChange] = []
    write: PartitionWrite | None = None
    """The encoded records; None until sealed."""

    @property
    def visible(self) -> bool:
        """Whether anything of it would be seen by anybody: else it needs no transaction."""
        return bool(self.history or self.answers or self.dead_letters)

    def answer(self, gateway_id: str, request_id: str, reply: Reply | Grant | None) -> None:
        """Add one reply, unless nobody waits for it."""
        if reply is not None and gateway_id and request_id:
            self.answers.setdefault(gateway_id, []).append(Answer(request_id=request_id, reply=reply))
