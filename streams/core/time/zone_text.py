"""Instants as text: RFC 3339 in UTC, and wall-clock text with the offset in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.core.time.civil import local_text

if TYPE_CHECKING:
    from streams.core.time.zones import ZoneRules


def utc_text(instant_ms: int) -> str:
    """RFC 3339 with ``Z``; milliseconds only when they are not zero."""
    seconds, millis = divmod(instant_ms, 1000)
    fraction = f".{millis:03d}" if millis else ""
    return f"{local_text(seconds)}{fraction}Z"


def offset_text(offset_s: int) -> str:
    """``+HH:MM``, with seconds if there are any (some zones before 1972)."""
    sign = "-" if offset_s < 0 else "+"
    hours, rest = divmod(abs(offset_s), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{sign}{hours:02d}:{minutes:02d}" + (f":{seconds:02d}" if seconds else "")


def local_at(zone: ZoneRules, instant_ms: int) -> str:
    """Wall-clock text of an instant in a zone, with its offset."""
    seconds, millis = divmod(instant_ms, 1000)
    offset = zone.offset_at(seconds)
    fraction = f".{millis:03d}" if millis else ""
    return f"{local_text(seconds + offset)}{fraction}{offset_text(offset)}"
