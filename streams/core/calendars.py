"""The exclusion calendars of all tenants, as of one offset of topic `config`. Immutable: a change makes another value.

A cursor that depends on calendars says under which records it was computed: `used_by` gives that as text, the name and
the offset of each (`holidays@17,plant@-`; `-` stands for a calendar that is not there). Where the text differs from
what would be said now, the cursor is of other calendars and is recomputed once.
"""

from __future__ import annotations

import zlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from streams.core.time import CalendarSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from streams.core.definition import Definition

_MISSING: Final = "-"
_NO_SPECS: Final[Mapping[str, CalendarSpec]] = MappingProxyType({})


class Calendar(msgspec.Struct, frozen=True):
    """One calendar, and the offset of its record in topic `config`."""

    spec: CalendarSpec
    offset: int


class Calendars:
    """Every calendar that was there below `next_offset`. Compared by identity."""

    __slots__ = ("_offsets", "_specs", "next_offset")

    def __init__(self, known: Mapping[tuple[str, str], Calendar], next_offset: int) -> None:
        """`known`: (tenant, name) to the calendar. `next_offset`: the first record of `config` that is not in it."""
        specs: dict[str, dict[str, CalendarSpec]] = {}
        for (tenant, name), calendar in known.items():
            specs.setdefault(tenant, {})[name] = calendar.spec
        self._specs = specs
        self._offsets = {key: calendar.offset for key, calendar in known.items()}
        self.next_offset = next_offset

    def of(self, tenant: str) -> Mapping[str, CalendarSpec]:
        """Return the calendars of a tenant by name."""
        return self._specs.get(tenant, _NO_SPECS)

    def used_by(self, definition: Definition) -> str:
        """Return under which records a cursor of this definition is computed now; empty where it names none."""
        if not definition.calendars:
            return ""
        return self._text(definition.tenant, definition.calendars)

    def differ_from(self, tenant: str, used: str) -> bool:
        """Tell whether what `used_by` said of a tenant's job would be said differently now."""
        return used != self._text(tenant, [part.rpartition("@")[0] for part in used.split(",")])

    def names_changed_since(self, before: Calendars) -> frozenset[str]:
        """Return the names, of any tenant, whose record is another one now."""
        keys = self._offsets.keys() | before._offsets.keys()
        return frozenset(key[1] for key in keys if self._offsets.get(key) != before._offsets.get(key))

    @property
    def digest(self) -> int:
        """A number that stands for all records together; 0 where there is none."""
        if not self._offsets:
            return 0
        rows = sorted(f"{tenant}|{name}@{offset}" for (tenant, name), offset in self._offsets.items())
        return zlib.crc32("\n".join(rows).encode())

    def _text(self, tenant: str, names: Iterable[str]) -> str:
        offsets = self._offsets
        return ",".join(f"{name}@{offsets.get((tenant, name), _MISSING)}" for name in names)


NO_CALENDARS: Final = Calendars({}, 0)
