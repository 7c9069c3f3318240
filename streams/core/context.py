"""What `decide` may know beside the job: the time, and facts that the owner vouches for. All of it comes in as values.

And what it answers: a `Decision`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from streams.core.calendars import NO_CALENDARS, Calendars
from streams.core.commands import Grant, Reply
from streams.core.events import AnyEvent
from streams.core.state import OPEN_RUNS_MAX, Job
from streams.core.time import ZoneData

_NOTHING: Mapping[str, int] = MappingProxyType({})
_NO_ZONE_DATA: Mapping[str, ZoneData] = MappingProxyType({})


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one decision."""

    now_ms: int
    """Broker time, a lower bound of it: what is due by this clock is due by the broker's."""
    zone_data: ZoneData
    zone_data_before: Mapping[str, ZoneData] = _NO_ZONE_DATA
    """Older versions that are still at hand, by version: a fixed local time that ran under one does not run again."""
    calendars: Calendars = NO_CALENDARS
    """Named by its `next_offset` of topic `config`, which stands beside each decision in history."""
    heartbeats: Mapping[str, int] = _NOTHING
    """Run id to the LogAppendTime (ms) of its last valid heartbeat that this owner consumed: soft state."""
    takeover_at_ms: int = 0
    """When this owner began to act for the partition: leases granted before it get a fresh visibility from here."""
    consumed_to_ms: int = 0
    """Every command appended before this instant (LogAppendTime) has been consumed."""
    absent_from_ms: int = 0
    """The partition had no working owner from here ..."""
    absent_to_ms: int = 0
    """... to here (exclusive): occurrences due in between are missed ones. 0, 0: no gap."""
    open_runs_max: int = OPEN_RUNS_MAX


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest atomic change: events, and the reply that leaves after they are committed."""

    events: tuple[AnyEvent, ...] = ()
    reply: Reply | Grant | None = None
    park_until_ms: int = 0
    """A LeaseRun for an occurrence that is not due: ask again then. 0: not parked."""
    wake_at_ms: int = 0
    """On a Wake whose state's own deadline is past still: look again then, not at once (heartbeats keep a lease alive,
    inputs lag, or more is due than one decision takes). 0: the state's own deadline holds."""
    job_after: Job | None = None
    """The job after the events, folded by the same `apply` (saves a second fold); without events it says nothing."""
