"""Schedules as data: what a job definition says, and what a schedule answers.

Contract: frozen structs, JSON and msgpack ready (tagged unions by ``type``). Every instant is an int, milliseconds
since 1970-01-01T00:00:00Z. Nothing here computes; ``schedule.compile_schedule`` does. Specs keep their hash, since
every decision about a job looks its schedule up by them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

GapPolicy = Literal["shift", "skip"]
OverlapHour = Literal["first", "second", "both"]
CalendarUnit = Literal["day", "week", "month"]


class CronSpec(msgspec.Struct, frozen=True, cache_hash=True, tag_field="type", tag="cron"):
    """Five fields (minute first) or six (seconds first), in the wall clock of ``time_zone``."""

    expression: str
    time_zone: str = "UTC"
    gap: GapPolicy = "shift"
    overlap_hour: OverlapHour = "first"


class IntervalSpec(msgspec.Struct, frozen=True, cache_hash=True, tag_field="type", tag="every"):
    """Elapsed time: ``anchor_ms + k * every_ms`` for k >= 0. No zone can change it (R3)."""

    every_ms: int
    anchor_ms: int


class CalendarIntervalSpec(msgspec.Struct, frozen=True, cache_hash=True, tag_field="type", tag="calendar"):
    """The same local time every n days, weeks or months from ``anchor_date`` on.

    A month without the anchor's day uses its last day: "every month" fires every month.
    """

    unit: CalendarUnit
    every: int
    local_time: str
    anchor_date: str
    time_zone: str = "UTC"
    gap: GapPolicy = "shift"
    overlap_hour: OverlapHour = "first"


class OneOffSpec(msgspec.Struct, frozen=True, cache_hash=True, tag_field="type", tag="at"):
    """Once, at an instant."""

    at_ms: int


class LocalOneOffSpec(msgspec.Struct, frozen=True, cache_hash=True, tag_field="type", tag="local"):
    """Once, at a local time in a zone: ``YYYY-MM-DDTHH:MM[:SS[.mmm]]``."""

    local: str
    time_zone: str = "UTC"
    gap: GapPolicy = "shift"
    overlap_hour: OverlapHour = "first"


class RRuleSpec(msgspec.Struct, frozen=True, cache_hash=True, tag_field="type", tag="rrule"):
    """RFC 5545 RRULE text, from a local ``YYYY-MM-DDTHH:MM[:SS]`` in a zone."""

    rule: str
    dtstart_local: str
    time_zone: str = "UTC"
    gap: GapPolicy = "shift"
    overlap_hour: OverlapHour = "first"


ScheduleSpec = CronSpec | IntervalSpec | CalendarIntervalSpec | OneOffSpec | LocalOneOffSpec | RRuleSpec


class Window(msgspec.Struct, frozen=True, cache_hash=True):
    """Active window: slots before ``start_at_ms`` or after ``end_at_ms`` do not exist; both ends belong to it."""

    start_at_ms: int | None = None
    end_at_ms: int | None = None


class Jitter(msgspec.Struct, frozen=True, cache_hash=True):
    """Spread: ``job`` delays each slot of a job by the same amount, ``occurrence`` each by its own.

    The delay lies in ``[0, window_ms)``; for ``occurrence`` also below the gap to the next slot.
    """

    kind: Literal["none", "job", "occurrence"] = "none"
    window_ms: int = 0


class CalendarSpec(msgspec.Struct, frozen=True, cache_hash=True):
    """A named exclusion calendar.

    ``dates`` are ``YYYY-MM-DD`` in ``time_zone``. ``rules`` are five-field cron expressions, which exclude the
    minutes they match (``* * 31 12 *`` the whole day), or ``RRULE:`` texts with ``DTSTART:YYYY-MM-DD;`` in front,
    which exclude whole local dates.
    """

    name: str
    time_zone: str = "UTC"
    dates: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class DroppedSlot(msgspec.Struct, frozen=True):
    """A slot that the rules drop and that must be recorded (R8).

    ``local`` is its wall-clock text; ``at_ms`` its instant, None where it has none. ``count`` is over 1 only in the
    last record of a long row (``DROPPED_LISTED_MAX``), which then stands for itself and the following slots.
    """

    local: str
    at_ms: int | None
    reason: Literal["gap", "calendar"]
    count: int = 1


class Occurrence(msgspec.Struct, frozen=True):
    """One instant at which a schedule says "now".

    ``at_ms`` is identity and due time, jitter included; ``slot_ms`` the instant before jitter. ``notes`` say what is
    irregular. ``dropped`` are the slots between the asked-for instant and this one that must be recorded.
    """

    at_ms: int
    slot_ms: int
    notes: tuple[str, ...] = ()
    dropped: tuple[DroppedSlot, ...] = ()


#: At most this many dropped slots are listed one by one in one record: a one-second job loses 3,600 slots in a
#: spring night, and an event of that size would hurt everybody else on the partition.
DROPPED_LISTED_MAX = 64
