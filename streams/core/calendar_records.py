"""Records of topic `config` that hold calendars: their key, their value, and the book that follows them.

Gateways, owners and auditors read the same records with this. A record that cannot be read, or whose calendar
`check_calendar` refuses, changes nothing: the calendar stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from schemas.codec import Undecodable, decode, encode
from streams.core.calendars import NO_CALENDARS, Calendar, Calendars
from streams.core.definition import NAME_PATTERN
from streams.core.time import (
    INSTALLED_ZONE_DATA,
    CalendarSpec,
    InvalidSchedule,
    ZoneData,
    check_calendar,
    compiled_calendar,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY_PREFIX: Final = "calendar|"

_RECORD: Final = "CalendarConfig"


class CalendarRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record CalendarConfig."""

    tenant: str
    name: str
    time_zone: str = "UTC"
    dates: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    description: str = ""
    version: int = 1
    updated_at_ms: int = 0
    actor: str = ""

    @property
    def spec(self) -> CalendarSpec:
        """What it excludes."""
        return CalendarSpec(self.name, self.time_zone, self.dates, self.rules)


def calendar_key(tenant: str, name: str) -> str:
    """Return the key of a calendar's record."""
    return f"{KEY_PREFIX}{tenant}|{name}"


def encode_calendar(record: CalendarRecord) -> bytes:
    """Return the record's value."""
    return encode(_RECORD, msgspec.structs.asdict(record))


class CalendarBook:
    """Every calendar, as the records that were taken so far leave it."""

    def __init__(self, zone_data: ZoneData = INSTALLED_ZONE_DATA, *, warm: bool = False) -> None:
        """`warm`: compute every year of a calendar when its record is taken, so that no later question has to."""
        self._zone_data = zone_data
        self._warm = warm
        self._records: dict[tuple[str, str], CalendarRecord] = {}
        self._known: dict[tuple[str, str], Calendar] = {}
        self._seen_at: dict[tuple[str, str], int] = {}
        """Offset of the newest record of each key, deletions too: a gateway takes what it wrote before it reads it."""
        self._next_offset = 0
        self._calendars = NO_CALENDARS
        self.unreadable_total = 0

    @property
    def calendars(self) -> Calendars:
        """The calendars as one immutable value; the same one until a calendar changes."""
        return self._calendars

    @property
    def next_offset(self) -> int:
        """The first record of `config` that was not seen yet."""
        return self._next_offset

    def record(self, tenant: str, name: str) -> CalendarRecord | None:
        """Return a calendar's record."""
        return self._records.get((tenant, name))

    def of(self, tenant: str) -> Iterator[CalendarRecord]:
        """Return the records of a tenant, by name."""
        for key in sorted(self._records):
            if key[0] == tenant:
                yield self._records[key]

    def offset_of(self, tenant: str, name: str) -> int | None:
        """Return where a calendar's record lies."""
        calendar = self._known.get((tenant, name))
        return None if calendar is None else calendar.offset

    def take(self, key: str, value: bytes | None, offset: int) -> bool:
        """Take any record of `config`, in any order; False where it changes no calendar. None deletes."""
        self._next_offset = max(self._next_offset, offset + 1)
        place = _place_of(key)
        if place is None:
            return False
        if self._seen_at.get(place, -1) >= offset:
            return False
        self._seen_at[place] = offset
        changed = self._delete(place) if value is None else self._put(place, value, offset)
        if changed:
            self._calendars = Calendars(self._known, self._next_offset)
        return changed

    def read_to(self, next_offset: int) -> None:
        """Note that there is nothing more below `next_offset`."""
        self._next_offset = max(self._next_offset, next_offset)

    def _delete(self, place: tuple[str, str]) -> bool:
        self._records.pop(place, None)
        return self._known.pop(place, None) is not None

    def _put(self, place: tuple[str, str], value: bytes, offset: int) -> bool:
        try:
            record = msgspec.convert(decode(value).record, CalendarRecord)
            spec = record.spec
            check_calendar(spec, self._zone_data)
        except (Undecodable, msgspec.ValidationError, InvalidSchedule):
            self.unreadable_total += 1
            return False
        if (record.tenant, record.name) != place:
            self.unreadable_total += 1
            return False
        if self._warm:
            compiled_calendar(spec, self._zone_data).warm()
        self._records[place] = record
        self._known[place] = Calendar(spec, offset)
        return True


def _place_of(key: str) -> tuple[str, str] | None:
    """Return tenant and name of a calendar's key; None for other keys and what is no name."""
    if not key.startswith(KEY_PREFIX):
        return None
    tenant, _, name = key.removeprefix(KEY_PREFIX).partition("|")
    if NAME_PATTERN.fullmatch(tenant) is None or NAME_PATTERN.fullmatch(name) is None:
        return None
    return tenant, name
