"""Zone rules from versioned tz data, as sorted transition lists.

Contract: never the host's zone files or its zone. The default data is the installed ``tzdata`` package, named by its
IANA version; another directory of TZif files (RFC 8536) can be loaded beside it, for tests, what-if runs and upgrades.
The transition lists equal what ``zoneinfo`` computes from the same files (a test walks all zones).
"""

from __future__ import annotations

import difflib
import importlib.resources
import re
import struct
from bisect import bisect_right
from functools import cache, lru_cache
from pathlib import Path

import msgspec
import tzdata  # type: ignore[import-untyped]  # no stubs; one constant is read

from streams.core.time.civil import DAY_S, END_INSTANT_S, FIRST_INSTANT_S
from streams.core.time.posix_tz import posix_offsets
from streams.core.time.rejection import InvalidSchedule

_NAME = re.compile(r"[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+){0,3}")
_NAME_CHARS_MAX = 64
#: A jump at least this long is a change of the date line or of a standing offset, not a skipped hour (R2).
LONG_JUMP_S = 3 * 3600
#: All zones of one data version are about 600, with links; a few versions may be in use during an upgrade.
_ZONES_CACHED = 2048


class ZoneRules:
    """The offsets of one zone over the searchable years.

    Segment i covers the instants ``[transitions[i-1], transitions[i])`` with ``offsets[i]``. The ``lo_*`` and
    ``hi_*`` lists bound, per segment, the local seconds that it owns: ``lo_first`` leaves out a second pass,
    ``hi_second`` leaves out a first pass that comes again, and between ``plain_lo`` and ``plain_hi`` local time is
    unique.
    """

    __slots__ = ("hi_all", "hi_second", "lo_all", "lo_first", "name", "offsets", "transitions")

    def __init__(self, name: str, transitions: list[int], offsets: list[int]) -> None:
        self.name = name
        self.transitions = tuple(transitions)
        self.offsets = tuple(offsets)
        starts = [FIRST_INSTANT_S, *transitions]
        ends = [*transitions, END_INSTANT_S]
        befores = [offsets[0], *offsets[:-1]]
        afters = [*offsets[1:], offsets[-1]]
        self.lo_all = tuple(t + o for t, o in zip(starts, offsets, strict=True))
        self.hi_all = tuple(t + o for t, o in zip(ends, offsets, strict=True))
        self.lo_first = tuple(t + max(o, b) for t, o, b in zip(starts, offsets, befores, strict=True))
        self.hi_second = tuple(t + min(o, a) for t, o, a in zip(ends, offsets, afters, strict=True))
        # In a gap the offset before is smaller, so both lists equal the segment's own bounds there.

    def offset_at(self, instant_s: int) -> int:
        """Seconds east of UTC in force at an instant."""
        return self.offsets[bisect_right(self.transitions, instant_s)]

    def gap_at(self, segment: int) -> tuple[int, int]:
        """Local ``[from, to)`` that the start of a segment jumps over; empty if it does not jump forward."""
        instant = self.transitions[segment - 1]
        return instant + self.offsets[segment - 1], instant + self.offsets[segment]


def _read_block(data: bytes, start: int, width: int) -> tuple[int, list[int], list[int], list[int]]:
    """One TZif block: (end position, transition times, type indexes, offset of each type)."""
    counts = struct.unpack(">6l", data[start + 20 : start + 44])
    isut, isstd, leap, times, types, chars = counts
    at = start + 44
    instants = list(struct.unpack(f">{times}{'q' if width == 8 else 'l'}", data[at : at + times * width]))
    at += times * width
    indexes = list(data[at : at + times])
    at += times
    offsets = [struct.unpack(">l", data[at + 6 * k : at + 6 * k + 4])[0] for k in range(types)]
    at += types * 6 + chars + leap * (width + 4) + isstd + isut
    return at, instants, indexes, offsets


def read_tzif(name: str, data: bytes) -> ZoneRules:
    """Zone rules from the bytes of a TZif file, version 1 to 4. Raises ValueError if it is none."""
    if data[:4] != b"TZif":
        raise ValueError(f"{name}: not a TZif file")
    end, instants, indexes, types = _read_block(data, 0, 4)
    footer = ""
    if data[4:5] >= b"2":
        end, instants, indexes, types = _read_block(data, end, 8)
        footer = data[end:].strip(b"\n").decode("ascii")
    steps = [(instant, types[index]) for instant, index in zip(instants, indexes, strict=True)]
    last = steps[-1][0] if steps else FIRST_INSTANT_S - 2 * DAY_S
    if footer:
        first, later = posix_offsets(footer, max(last, FIRST_INSTANT_S - 2 * DAY_S))
        if not steps:
            types = [first]
        steps += later
    return _rules_from_steps(name, types[0], steps)


def _rules_from_steps(name: str, offset: int, steps: list[tuple[int, int]]) -> ZoneRules:
    """Keep the transitions inside the searchable years that change the offset."""
    transitions: list[int] = []
    offsets = [offset]
    for instant, after in steps:
        if instant <= FIRST_INSTANT_S:
            offsets = [after]
        elif instant >= END_INSTANT_S:
            break
        elif after != offsets[-1]:
            transitions.append(instant)
            offsets.append(after)
    return ZoneRules(name, transitions, offsets)


class ZoneData(msgspec.Struct, frozen=True, cache_hash=True):
    """One version of the zone database. ``directory`` None means the installed ``tzdata`` package."""

    version: str
    directory: str | None = None

    def zone(self, name: str) -> ZoneRules:
        """Rules of a zone. Raises InvalidSchedule with near names for an unknown one."""
        return _load_zone(self, name)

    def names(self) -> frozenset[str]:
        """Every zone name of this version."""
        return _zone_names(self)


@lru_cache(maxsize=_ZONES_CACHED)
def _load_zone(data: ZoneData, name: str) -> ZoneRules:
    if len(name) <= _NAME_CHARS_MAX and _NAME.fullmatch(name) and name in data.names():
        return read_tzif(name, _zone_bytes(data, name))
    near = difflib.get_close_matches(name[:_NAME_CHARS_MAX], sorted(data.names()), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "use an IANA name such as Europe/Berlin or UTC"
    raise InvalidSchedule("time zone", name, f"unknown in zone data {data.version}", hint)


def _zone_bytes(data: ZoneData, name: str) -> bytes:
    if data.directory is not None:
        return (Path(data.directory) / name).read_bytes()
    root = importlib.resources.files("tzdata.zoneinfo")
    return root.joinpath(*name.split("/")).read_bytes()


@cache
def _zone_names(data: ZoneData) -> frozenset[str]:
    if data.directory is not None:
        root = Path(data.directory)
        files = (path for path in root.rglob("*") if path.is_file())
        return frozenset(str(path.relative_to(root)) for path in files if path.read_bytes()[:4] == b"TZif")
    text = importlib.resources.files("tzdata").joinpath("zones").read_text(encoding="ascii")
    return frozenset(text.split())


#: The data in force unless an owner was told otherwise.
INSTALLED_ZONE_DATA = ZoneData(version=tzdata.IANA_VERSION)
